"""Loads the backend tests of the package onnx, and runs them with onegraph."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import onegraph.onnx

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
OPENED = ("node", "simple", "pytorch-converted", "pytorch-operator")  # those whose inputs can have other dims
# Inputs whose contents say how many tensors a sequence has, or which one is read. They are given to ``load``.
KNOWN_INPUTS = {
    "test_if_opt": ("cond",),
    "test_if_seq": ("cond",),
    "test_loop13_seq": ("trip_count", "cond"),
    "test_loop16_seq_none": ("trip_count", "cond"),
    "test_sequence_insert_at_front": ("position",),
    "test_sequence_model8": ("Splits",),
    "test_split_to_sequence_1": ("split",),
    "test_split_to_sequence_2": ("split",),
}
# Axes of inputs whose sizes say how many tensors a sequence has. They stay known where all other dims are open.
KNOWN_AXES = {
    "test_sequence_model6": (0, 1, 2),
    "test_sequence_model7": (0, 1, 2),
    "test_split_to_sequence_1": (0, 1),
    "test_split_to_sequence_nokeepdims": (0, 1),
}
# How the model states the dims of its inputs: as the test does, by names alone, or not even their number.
FORMS = ("known", "open", "unranked")
ROOT = Path(onnx.__file__).parent.parent
KEPT = Path(__file__).parents[2] / "build" / "onnx_backend"


@dataclass(frozen=True)
class Outcome:
    """What a test gave: the error, empty if it passed, and whether a part of it ran in oneDNN."""

    name: str
    error: str
    in_onednn: bool


@lru_cache
def cases(kinds: Sequence[str] = KINDS):
    """The tests by name."""
    made = (node_cases() if kind == "node" else load_model_tests(kind=kind) for kind in kinds)
    return {case.name: case for each in made for case in each}


def node_cases():
    """The tests of nodes, which the package computes in five seconds. They are kept for later processes."""
    kept = KEPT / f"{onnx.__version__}-{np.__version__}-{sys.implementation.cache_tag}.pickle"
    if kept.exists():
        return pickle.loads(kept.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package overflows some numbers on purpose
        made = load_model_tests(kind="node")
    KEPT.mkdir(parents=True, exist_ok=True)
    new = kept.with_suffix(f".{os.getpid()}")
    new.write_bytes(pickle.dumps(made))
    new.replace(kept)
    return made


def run(case, form: str = "known") -> Outcome:
    """The outcome of one test, with the dims of the inputs in one of the ``FORMS``."""
    try:
        return Outcome(case.name, "", _run(case, form))
    except Exception as error:  # the outcome names whatever failed
        lines = str(error).strip().splitlines() or [""]
        return Outcome(case.name, f"{type(error).__name__}: {' '.join(lines)[:300]}", False)


def _run(case, form: str) -> bool:
    path = _path(case) if form == "known" else None
    model = opened(case, form) if path is None else onnx.load(path)
    initialized = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in initialized]
    in_onednn = False
    for given, expected in _data(case, path, model, inputs):
        given = given if len(given) == len(inputs) else given[-len(inputs) :]
        shapes, feeds = {}, {}
        for info, value in zip(inputs, given, strict=True):
            _feed(info, value, shapes, feeds)
        values = {name: feeds.pop(name) for name in KNOWN_INPUTS.get(case.name, ())}
        graph = onegraph.onnx.load(model if path is None else path, shapes=shapes, values=values)
        # An input that no op reads may be absent from the graph.
        executable = graph.compile()
        found = executable(**feeds)
        found = dict(zip(graph.outputs, found if isinstance(found, tuple) else (found,), strict=True))
        results = [_result(one, found) for one in model.graph.output]
        with np.errstate(all="ignore"):
            for one, other in zip(expected, results, strict=False):
                # The package compares sequences of scalars wrongly, so a sequence is compared as several outputs.
                one, other = ([*each] if isinstance(each, list) else [each] for each in (one, other))
                Runner.assert_similar_outputs(one, other, case.rtol, case.atol)
        in_onednn |= any(part.executor == "oneDNN" for part in executable.report().partitions)
        if form == "open" and not values and case.name not in KNOWN_AXES:
            _compare_larger(model, executable, shapes, feeds)
    return in_onednn


def opened(case, form: str):
    """The model of a test with the dims of its inputs in one of the ``FORMS``, and no stated shapes of results."""
    if form == "known":
        return case.model
    made = onnx.ModelProto()
    made.CopyFrom(case.model if case.model is not None else onnx.load(_path(case)))
    initialized = {one.name for one in made.graph.initializer}
    kept = KNOWN_AXES.get(case.name, ())
    for one in made.graph.input:
        kind = one.type.optional_type.elem_type if one.type.HasField("optional_type") else one.type
        if one.name in initialized or not kind.HasField("tensor_type"):
            continue
        if form == "unranked" and not kept:
            kind.tensor_type.ClearField("shape")
        for axis, dim in enumerate(kind.tensor_type.shape.dim):
            if axis not in kept:
                dim.dim_param = f"{one.name}_{axis}"
    for one in made.graph.output:
        if one.type.HasField("tensor_type"):
            one.type.tensor_type.ClearField("shape")
    del made.graph.value_info[:]
    return made


def _compare_larger(model, executable, shapes, feeds) -> None:
    """Compare a second size with the model of known dims; a node that is not lowered for the size is left out."""
    feeds = {name: _larger(value) for name, value in feeds.items()}
    shapes = {**shapes, **{name: value.shape for name, value in feeds.items() if "." not in name}}
    try:
        graph = onegraph.onnx.load(model, shapes=shapes)
        wanted = graph.compile()(**feeds)
    except onegraph.OneGraphError:
        return
    if "OnnxNode" in [op.kind for op in graph.ops]:
        return
    found = executable(**feeds)
    for one, other in zip(*([*each] if isinstance(each, tuple) else [each] for each in (found, wanted)), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        exact = 1e-3 if one.dtype.itemsize > 2 or one.dtype.kind in "iu" else 0.02
        np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=exact, atol=exact / 100)


def _larger(value):
    """An array with dims of one more, but for those of size 1, and for vectors of integers, which state shapes."""
    if value.ndim == 0 or (value.ndim == 1 and value.dtype.kind in "iu"):
        return value
    return np.resize(value, [dim + (dim > 1) for dim in value.shape])


def _feed(info, value, shapes, feeds) -> None:
    """Add the tensors of an input to the feeds; a sequence is several inputs of the graph."""
    if isinstance(value, list):
        shapes[info.name] = [one.shape for one in value]
        feeds.update({f"{info.name}.{number}": one for number, one in enumerate(value)})
    elif value is None:
        shapes[info.name] = None
    else:
        feeds[info.name] = value


def _result(info, found):
    kind = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
    if kind.HasField("sequence_type"):
        return [found[f"{info.name}.{number}"] for number in range(len(found)) if f"{info.name}.{number}" in found]
    return found[info.name] if info.name in found else found[f"{info.name}_"]


def _path(case) -> Path | None:
    if case.model is not None:
        return None
    return Path(case.model_dir, "model.onnx") if case.model_dir else ROOT / case.url


def _data(case, path, model, inputs) -> Iterator[tuple[list, list]]:
    """Inputs and outputs of each run."""
    if case.data_sets is not None:
        for given, expected in case.data_sets:
            yield [*map(_plain, given)], [*map(_plain, expected)]
    elif case.model_dir is None:  # a light model: the package has the outputs for an input of this kind
        given = [Runner.generate_dummy_data(one) for one in inputs]
        tensor = onnx.load_tensor(f"{os.path.splitext(path)[0]}_output_0.pb")
        yield given, [numpy_helper.to_array(tensor)]
    else:
        for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
            yield tuple(
                [
                    _read(folder / f"{what}_{number}.pb", info.type)
                    for number, info in enumerate(infos)
                    if (folder / f"{what}_{number}.pb").exists()
                ]
                for what, infos in (("input", model.graph.input), ("output", model.graph.output))
            )


def _plain(value):
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [*map(np.asarray, value)]
    if value is None:
        return value
    return np.asarray(value)


def _read(path, kind):
    found: list = []
    Runner._load_proto(None, path, found, kind)
    return found[0]
