"""What the judge of models makes of drawn nodes, with a stand-in for ONNX Runtime: a material of :mod:`draws`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np

import onegraph as og
from onegraph import reference
from tests.lowering import test_recorded_graphs as recorded

from .draws import kinds_of_nodes, material, node
from .recorded import numbers_of

RUN = reference.run
JUDGES: dict[str, Callable[[Random], object]] = {}


def judges(make: Callable[[Random], object]) -> Callable[[Random], object]:
    """Enter what is made of a drawn model."""
    JUDGES[make.__name__] = make
    return make


@material(lambda: JUDGES, needs="onnx")
def judged(name: str, number: int) -> list[str]:
    """What is read of a model, or found about it."""
    with np.errstate(all="ignore"):
        return recorded.outcome(JUDGES[name], Random(f"{name} {number}"))


def some_node(drawn: Random) -> Any:
    """A model of a node, whose dims may have other names."""
    kinds = kinds_of_nodes()
    proto = None
    while proto is None:
        with suppress(Exception):  # a kind may have no case for an op set
            proto = node(drawn.choice(kinds), drawn)
    for port in proto.graph.input:
        for dim in port.type.tensor_type.shape.dim:
            if drawn.random() < 0.15:
                dim.dim_param = drawn.choice(("n", "m"))
    if drawn.random() < 0.1:
        proto.graph.input.add().CopyFrom(proto.graph.input[0] if proto.graph.input else proto.graph.output[0])
        proto.graph.input[-1].name = "more"
        if drawn.random() < 0.5:
            proto.graph.input[-1].type.Clear()
            proto.graph.input[-1].type.sequence_type.elem_type.tensor_type.elem_type = drawn.choice((1, 10))
    return proto


def some_arrays(drawn: Random, ports: Any) -> dict[str, Any]:
    """An array for each of some inputs."""
    found = {}
    for port in ports:
        shape = tuple(dim if type(dim) is int else drawn.choice((1, 2, 5)) for dim in port.dims or ())
        kinds: Any = (np.float32, np.float16, np.float64, np.int64, np.int8, np.uint8, bool, og.bf16.numpy)
        kind = drawn.choice(kinds)
        found[port.name] = (np.arange(int(np.prod(shape))).reshape(shape) - 2).astype(kind)
    return {name: array for name, array in found.items() if drawn.random() < 0.7}


@judges
def inputs(drawn: Random) -> object:
    """The inputs of a model, the sizes of their open dims, and ordinary numbers in them."""
    from onegraph.tools import onnx_inputs, onnx_types

    proto = some_node(drawn)
    ports = onnx_types.inputs_of(proto)
    if ports is None:
        return [onnx_types.is_half(proto), onnx_types.rounds(proto)]
    arrays = drawn.choice((None, some_arrays(drawn, ports)))
    fixed = {port.name: tuple(drawn.choice((1, 3)) for _ in port.dims or ()) for port in ports if drawn.random() < 0.2}
    lines: list[object] = [*ports, onnx_types.is_half(proto), onnx_types.rounds(proto)]
    lines += [port.open_dims() for port in ports]
    pair = drawn.choice(onnx_inputs.PAIRS)
    for sizes in onnx_inputs.sizes_of(ports, fixed, arrays, pair):
        lines.append(sizes)
        fit = {port.name: np.full(sizes.shapes[port.name], 7) for port in ports[:1]}
        known = drawn.choice((fit, {}))
        with patch.object(onnx_inputs, "_calibrated", lambda *_, known=known: known):
            for made in onnx_inputs.ordinary(Path("none"), ports, sizes, drawn.randrange(3)):
                lines += [f"{name} {numbers_of(array)}" for name, array in made.items()]
    kinds = (np.int8, np.uint8, np.int64, np.int32, bool, np.float32)
    several = [np.array([3, 1, 2][: drawn.choice((0, 1, 3))], drawn.choice(kinds)) for _ in range(4)]
    for array in (*(arrays or {}).values(), *several):
        lines += [numbers_of(onnx_inputs.borders(array, largest=largest)) for largest in (False, True)]
    return "\n".join(map(str, lines))


def types_of(proto: Any) -> object:
    """The data types in a model, and the numbers of its constants."""
    from onnx import numpy_helper

    from onegraph.tools.onnx_types import graphs_of

    found: list[object] = []
    for graph in graphs_of(proto.graph):
        for tensor in graph.initializer:
            with suppress(Exception):
                found.append(numbers_of(numpy_helper.to_array(tensor)))
        found += [one.type.tensor_type.elem_type for one in (*graph.input, *graph.output, *graph.value_info)]
        found += [one.type.sequence_type.elem_type.tensor_type.elem_type for one in graph.input]
        for one in (*graph.node, *(other for function in proto.functions for other in function.node)):
            found += [(part.name, part.i, part.t.data_type) for part in one.attribute]
    return found


@judges
def retyped(drawn: Random) -> object:
    """A model with other types of floating-point numbers."""
    from onnx import TensorProto, helper, numpy_helper

    from onegraph.tools import onnx_types

    proto = some_node(drawn)
    for _ in range(drawn.choice((0, 1, 2))):
        kind = drawn.choice((TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.INT64))
        tensor = numpy_helper.from_array(np.ones(2, helper.tensor_dtype_to_np_dtype(kind)), "w")
        inner = helper.make_graph(
            [helper.make_node("Constant", [], ["c"], value=tensor), helper.make_node("Cast", ["c"], ["d"], to=kind)],
            "inner",
            [],
            [helper.make_tensor_value_info("d", kind, [2])],
            [tensor],
        )
        others = {"then_branch": inner, "other": drawn.choice((kind, 5))}
        proto.graph.node.append(helper.make_node("If", ["c"], ["d"], name="more", **others))
        proto.graph.value_info.append(helper.make_tensor_value_info("d", kind, [2]))
        if drawn.random() < 0.5:
            proto.graph.initializer.append(tensor)
        if drawn.random() < 0.5:
            proto.functions.add().node.append(helper.make_node("Cast", ["c"], ["d"], to=kind))
    types = drawn.choice((onnx_types.DOUBLE, onnx_types.SINGLE))
    made = onnx_types.retyped(proto, types)
    same = types_of(proto)
    return [onnx_types.is_half(proto), onnx_types.rounds(proto), same, types_of(made), types_of(proto) == same]


class Runner:
    """Stands for ONNX Runtime: results and errors follow from the name of a model and from its inputs."""

    def __init__(self, seed: int, fails: int) -> None:
        self._seed, self._fails = seed, fails

    def run(self, path: Path, given: Mapping[str, Any]) -> Any:
        """Sums of the inputs, or an error."""
        from onegraph.tools.onnx_runtime import Ran

        text = f"{self._seed} {path.name} {[(name, str(one.dtype)) for name, one in given.items()]}"
        if crc32(text.encode()) % 100 < self._fails:
            return Ran((), f"no kernel in {path.name}")
        return Ran(tuple(np.asarray(array.astype(np.float64) * 2) for array in given.values()))


@judges
def answers(drawn: Random) -> object:
    """What the oracle of a model gives."""
    from onegraph.tools import onnx_oracle, onnx_types

    proto = some_node(drawn)
    ports = onnx_types.inputs_of(proto) or []
    given = {name: array for name, array in some_arrays(drawn, ports).items() if array.dtype != bool}
    with TemporaryDirectory() as folder:
        place = Path(folder, "model.onnx")
        place.write_bytes(proto.SerializeToString())
        runner: Any = Runner(drawn.randrange(99), drawn.choice((0, 30, 60)))
        oracle = onnx_oracle.ModelOracle(place, Path(folder), runner)
        found = [oracle.answer(given) for _ in range(2)]
        names = sorted(one.name for one in Path(folder).iterdir())
    lines: list[object] = [oracle.name, oracle.loose, oracle.notes, oracle.half, oracle.rounds, names]
    for one in found:
        lines.append(one.error)
        for result in one.results:
            peer = None if result.peer is None else numbers_of(result.peer)
            moved = [f"{np.abs(np.subtract(noisy, result.exact)).max(initial=0):.2e}" for noisy in result.disturbed]
            lines.append((numbers_of(result.exact), result.exact.dtype, peer, moved))
    return "\n".join(map(str, lines))


class Model:
    """Stands for a loaded model and its executable, which is wrong for some contents."""

    def __init__(self, graph: og.Graph, wrong: Mapping[str, Any], calls: list[int]) -> None:
        self.graph, self.ops, self._wrong, self._calls = graph, graph.ops, wrong, calls
        self._kept: dict[str, dict[str, Any]] = {}

    def compile(self, **options: object) -> Model:
        """The executable."""
        if self._wrong.get("compile"):
            raise og.UnsupportedError("no\nkernel")
        return self

    def _run_by_name(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self._calls.append(len(self._calls))
        if self._calls[-1] == self._wrong.get("fails"):
            raise og.StateError("now")
        found = {name: np.array(one) for name, one in reference.run(self.graph, given).items()}
        if self._wrong.get("shares"):  # the arrays of an earlier call
            key = str([numbers_of(one) for one in given.values()])
            found = self._kept.setdefault(key, found)
        for one in found.values():
            if one.size and one.dtype.kind == "f":
                if self._calls[-1] == self._wrong.get("place"):
                    one.reshape(-1)[0] = self._wrong["number"]
                if self._wrong.get("finite"):
                    one[~np.isfinite(one)] = 0
            elif one.dtype.kind == "i" and not self._wrong.get("shares"):
                one.setflags(write=False)  # as results that are known have
        return found


def small_model(drawn: Random) -> og.Graph:
    """A graph whose results no instruction set changes."""
    graph = og.Graph()
    dims = drawn.choice(((None, 2, 3, 3), (2, 2, 3, 3)))
    x = graph.input("x", drawn.choice(("f32", "f32", "f16")), dims)
    y = drawn.choice((graph.relu, graph.abs))(x)
    if drawn.random() < 0.5 and x.dtype is og.f32:
        weights: Any = np.ones((3, 2, 2, 2), np.float32)
        if drawn.random() < 0.7:
            weights = graph.abs(graph.input("w", "f32", (3, 2, 2, 2)))
        pads = drawn.choice(({}, {"pads_begin": [1, 0]}, {"pads_end": 1}, {"auto_pad": "SAME_UPPER"}))
        y = graph.convolution(x, weights, data_format="NCX", weights_format="OIX", **pads)
    if drawn.random() < 0.3:
        graph.output("z", graph.add(graph.input("i", "s32", (2,)), graph.input("j", "s32", (2,))))
    graph.output("y", y)
    return graph


@judges
def verdicts(drawn: Random) -> object:
    """The judgement of a file, and how its judge is made."""
    from onegraph.tools import verify_model

    proto = node("Relu", drawn)
    if drawn.random() < 0.3 and proto.graph.input:
        proto.graph.input[0].type.Clear()
        proto.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    told: list[object] = []

    class Judge:
        """Stands for the judge of a model."""

        def __init__(self, path: Path, *given: Any) -> None:
            told.extend([path.name, given[0], given[2:]])

        def judge(self, *given: object) -> object:
            told.append(given)
            return "judged"

    options = {
        "inputs": drawn.choice((None, {"x": 1}, 3)), "shapes": drawn.choice((None, {"x": [1, 2]}, {}, "x")),
        "seed": drawn.choice((0, 0, 3, 2**31, 2**31 + 1, -1)), "threads": drawn.choice((1, 2)),
    }  # fmt: skip
    is_there = drawn.random() < 0.8
    with (
        TemporaryDirectory() as folder,
        patch.object(verify_model, "is_installed", lambda: is_there),
        patch.object(verify_model, "runtime", lambda: nullcontext((None, Path(folder)))),
        patch.object(verify_model, "ModelOracle", lambda *_: None),
        patch.object(verify_model, "_ModelJudge", Judge),
    ):
        Path(folder, "m.onnx").write_bytes(proto.SerializeToString())
        found = verify_model.verify_model(str(Path(folder, "m.onnx")), **options)
    return [str(found), *told]


@judges
def findings(drawn: Random) -> object:
    """What the judge finds about an executable."""
    from onegraph import onnx as front_end
    from onegraph.judging.comparison import Answer
    from onegraph.tools import onnx_inputs, verify_model
    from onegraph.tools.onnx_oracle import Answers
    from onegraph.tools.onnx_types import ModelInput

    graph = small_model(drawn)
    types = {"f32": 1, "f16": 10, "s32": 6}
    ports = [
        ModelInput(name, types[str(one.dtype)], tuple("n" if dim is None else dim for dim in one.shape or ()))
        for name, one in graph.inputs.items()
    ]
    wrong = {
        "compile": drawn.random() < 0.05, "fails": drawn.choice((None, None, 0, 9)),
        "place": drawn.choice((None, None, 0, 1, 5, 12)),
        "number": drawn.choice((5.0, np.nan, np.inf)), "finite": drawn.random() < 0.2,
        "shares": drawn.random() < 0.2,
    }  # fmt: skip
    refused, asked = drawn.choice((0, 0, 1, 3, 99)), list[int]()

    class Oracle:
        """Stands for what ONNX Runtime gives."""

        name, notes, loose = "Oracle", ("a note",), drawn.choice((1.0, 4.0))

        def answer(self, given: Mapping[str, Any]) -> Answers:
            asked.append(1)
            if len(asked) <= refused:
                return Answers((), "no inputs")
            made = reference.run(graph, given)
            exact = [np.asarray(one).astype(np.float64) for one in made.values()]
            if drops:
                exact = [np.where(np.isnan(one), 0, one) for one in exact]
            if loses:
                exact = [np.where(np.arange(one.size).reshape(one.shape) == 0, np.nan, one) for one in exact]
            return Answers(tuple(Answer(one, drawn.choice((None, one)), [one]) for one in exact))

    drops, loses = drawn.random() < 0.2, drawn.random() < 0.3
    calls: list[int] = []
    judge = verify_model._ModelJudge(Path("m"), ports, Oracle(), drawn.randrange(3), {})  # type: ignore[arg-type]
    first = None
    if drawn.random() < 0.3:
        shapes = {name: [dim or 2 for dim in one.shape or ()] for name, one in graph.inputs.items()}
        first = {name: np.ones(shape, graph.inputs[name].dtype.numpy) for name, shape in shapes.items()}
    loaded = Model(graph, wrong, calls)
    with (
        patch.object(front_end, "load", lambda *_, **__: loaded),
        patch.object(reference, "run", lambda of, given: RUN(getattr(of, "graph", of), given)),
        patch.object(onnx_inputs, "_calibrated", lambda *_: {}),
        patch.object(verify_model, "KINDS", drawn.sample([*verify_model.KINDS], 2)),
    ):
        found = judge.judge(first, drawn.choice(({}, {}, {"x": (3, 2, 3, 3)})))
    return f"{found} {found.notes} {[one.where for one in found.findings]} {len(asked)} {len(calls)}"
