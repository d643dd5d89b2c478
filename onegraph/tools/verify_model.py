"""Judges a model of ONNX by ONNX Runtime: the original file, not the graph that it was imported as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx

from .._util.paths import path_of
from .._util.validation import as_dict, integer
from ..errors import OneGraphError
from ..graph import Graph
from ..ir.op import Array, Op
from ..judging.comparison import ROUNDINGS, Answer, compare
from ..judging.contents import GIVEN, KINDS, floats
from ..judging.judgement import Finding, Judgement
from ..runtime.executable import Executable
from .onnx_inputs import PAIRS, InputShapes, borders, ordinary, sizes_of
from .onnx_oracle import ModelOracle
from .onnx_runtime import INSTALL, is_installed, runtime
from .onnx_types import ModelInput, inputs_of

BORDERS = ("least integers", "largest integers")
UNORDERED = "some NaN"
AGAIN = "given again, after other calls and writes to the results"


def verify_model(
    model: object,
    *,
    inputs: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
    **options: Any,
) -> Judgement:
    """Judge a model in the ONNX format by ONNX Runtime, which runs the original file in a process of its own.

    Each open dim has two sizes, and one executable runs both. Floating-point inputs hold ordinary, large and tiny
    numbers, zeros, NaN, infinities, rows of equal numbers and rows near zero; integers the least and the largest ones.
    At the end the first inputs are run again, also by a second executable of the file. The oracle computes in float64
    where ONNX Runtime can, else in f32; models in f16 and bf16 are converted for it. Allowed are a few times the error
    that ONNX Runtime has in the data types of the model, and that a disturbance of the inputs by one rounding causes.

    Args:
        model: the path of the model.
        inputs: an array for each input, by name; by default random numbers.
        shapes: by the name of an input, its first shape; by default open dims are small.
        seed: seed of the random numbers.
        options: of ``Graph.compile``.

    Returns:
        A record that is true if nothing was found. It is false without ONNX Runtime, and the notes say what to install.

    Raises:
        FormatError: the file cannot be read.
        ArgumentError: an argument is wrong.
    """
    path = path_of("model", model, "the path of a model")
    known_inputs = None if inputs is None else dict(as_dict("inputs", inputs, "a dictionary by names"))
    fixed = {} if shapes is None else {name: tuple(one) for name, one in as_dict("shapes", shapes, "shapes").items()}
    start = integer("seed", seed, 0, 2**31)
    if not is_installed():
        note = f"ONNX Runtime is not installed, so that the model itself was not judged; run: {INSTALL}"
        return Judgement("ONNX Runtime", (), 0, (), (note,))
    ports = inputs_of(onnx.load(path, load_external_data=False))
    if ports is None:
        return Judgement("ONNX Runtime", (), 0, (), ("an input is a sequence or optional: not judged",))
    with runtime() as (runner, folder):
        oracle = ModelOracle(path, folder, runner)
        judge = _ModelJudge(path, ports, oracle, start, options)
        return judge.judge(known_inputs, fixed)


@dataclass
class _ModelJudge:
    """Collects what is found for one model."""

    path: Path
    ports: Sequence[ModelInput]
    oracle: ModelOracle
    seed: int
    options: Mapping[str, Any]
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    compared: int = 0

    def judge(self, first_inputs: dict[str, Array] | None, fixed: Mapping[str, tuple[int, ...]]) -> Judgement:
        from .. import onnx as front_end

        try:
            executable = front_end.load(self.path).compile(**self.options)
        except OneGraphError as error:
            executable = None
            self._fail("load", error)
        first = self._first(executable, first_inputs, fixed)
        if first is not None and executable is not None:
            self._run(executable, first[0], first[1], AGAIN)
            self._run(front_end.load(self.path).compile(**self.options), first[0], first[1], "given, a second load")
        self.notes += self.oracle.notes
        return Judgement(self.oracle.name, tuple(self.findings), self.compared, tuple(self.contents), tuple(self.notes))

    def _first(
        self, executable: Executable | None, first_inputs: dict[str, Array] | None, fixed: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, Array], str] | None:
        """Run all contents at both sizes; returns the inputs of the first run, and its label."""
        for pair in PAIRS:
            first, refused = None, []
            for sizes in sizes_of(self.ports, fixed, first_inputs, pair):
                ready, reason = self._ready(sizes, first_inputs if first is None else None)
                if ready is None:
                    refused.append(f"{sizes.label}: ONNX Runtime runs no inputs, so not judged: {reason}")
                    continue
                if executable is not None:
                    self._run_all(executable, ready, sizes.label)
                first = first or (ready, sizes.label)
            if first is not None or fixed or first_inputs is not None:
                break
        self.notes += refused
        return first

    def _fail(self, subject: str, error: Exception, run: str = "the file", contents: str = "no inputs") -> None:
        line = str(error).strip().splitlines()[0][:300]
        self.findings.append(Finding(subject, run, contents, "error", f"{type(error).__name__}: {line}", "results"))

    def _ready(self, sizes: InputShapes, first_inputs: dict[str, Array] | None) -> tuple[dict[str, Array] | None, str]:
        """Inputs of these sizes that ONNX Runtime takes; None, and its reason, if it takes none."""
        reason = ""
        for inputs in [first_inputs] if first_inputs is not None else ordinary(self.path, self.ports, sizes, self.seed):
            answer = self.oracle.answer(inputs)
            if not answer.error:
                return inputs, ""
            reason = reason or answer.error
        return None, reason

    def _run_all(self, executable: Executable, inputs: dict[str, Array], label: str) -> None:
        self._run(executable, inputs, label, GIVEN, write=True)
        for contents, made in self._variants(inputs):
            self._run(executable, made, label, contents)

    def _variants(self, inputs: Mapping[str, Array]) -> Iterator[tuple[str, dict[str, Array]]]:
        """The inputs with other contents."""
        types = {name: array.dtype.name for name, array in inputs.items()}
        if any(types[name] in ROUNDINGS for name in inputs):
            for kind in KINDS:
                made = {}
                for place, (name, array) in enumerate(inputs.items()):
                    numbers = floats(kind, array.shape, self.seed + place, half=types[name] == "float16")
                    made[name] = numbers.astype(array.dtype) if types[name] in ROUNDINGS else array
                yield kind, made
        for kind in BORDERS:
            ends = {name: borders(array, largest=kind == BORDERS[1]) for name, array in inputs.items()}
            if any(not np.array_equal(ends[name], inputs[name]) for name in inputs if types[name] not in ROUNDINGS):
                yield kind, ends

    def _run(
        self, executable: Executable, inputs: dict[str, Array], run: str, contents: str, *, write: bool = False
    ) -> None:
        answer = self.oracle.answer(inputs)
        if answer.error:
            self.notes.append(f"{run}, {contents}: ONNX Runtime fails, so not judged: {answer.error}")
            return
        if contents not in self.contents:
            self.contents.append(contents)
        try:
            results = executable._run_by_name({name: array.copy() for name, array in inputs.items()})
        except OneGraphError as error:
            self._fail("the call", error, run, contents)
            return
        for (name, got), wanted in zip(results.items(), answer.results, strict=True):
            if contents == UNORDERED and got.dtype.kind in "iub":
                continue  # ONNX says nothing about the place of a NaN in an order
            self.compared += 1
            judged = partial(
                compare, got, dtype=got.dtype.name, name=name, run=run, contents=contents, loose=self.oracle.loose
            )
            mismatch = judged(answer=wanted)
            if mismatch is not None and mismatch.problem == "NaN is lost":
                replaced = self._without_padding(inputs, name, wanted)
                mismatch = mismatch if replaced is None else judged(answer=replaced)
                if mismatch is None:
                    text = "ONNX Runtime multiplies infinite weights by the zeros of the padding, which gives NaN"
                    self.notes.append(f"{name} ({run}, {contents}): {text}")
            if mismatch is not None and mismatch.problem == "NaN" and self._keeps_nan(inputs, name, mismatch):
                self.notes.append(f"{name} ({run}, {contents}): ONNX Runtime drops the NaN at {list(mismatch.where)}")
            elif mismatch is not None:
                self.findings.append(mismatch)
            if write and got.flags.writeable and got.dtype.kind in "fiu":
                got.fill(1)

    def _without_padding(self, inputs: dict[str, Array], name: str, wanted: Answer) -> Answer | None:
        """The answer with the numbers of the reference where NaN is that of padding; None if no weights meet padding.

        Only weights that a run computes, or is given, hold an infinity or NaN.
        """
        from .. import onnx as front_end
        from ..reference import run

        try:
            graph: Graph = front_end.load(self.path)
            if not any(_pads_open_weights(op) for op in graph.ops):
                return None
            expected = np.asarray(run(graph, inputs)[name], np.float64)
        except (OneGraphError, NotImplementedError):
            return None
        padded = np.isnan(wanted.exact) & ~np.isnan(expected)
        peer = None if wanted.peer is None else np.where(padded, expected, wanted.peer)
        disturbed = [np.where(padded, expected, one) for one in wanted.disturbed]
        return Answer(np.where(padded, expected, wanted.exact), peer, disturbed)

    def _keeps_nan(self, inputs: dict[str, Array], name: str, mismatch: Finding) -> bool:
        """Whether the formulas of the specification give NaN too, where ONNX Runtime gives a number."""
        from .. import onnx as front_end
        from ..reference import run

        try:
            graph: Graph = front_end.load(self.path)
            return bool(np.isnan(np.asarray(run(graph, inputs)[name][mismatch.where], np.float64)))
        except (OneGraphError, NotImplementedError):
            return False


def _pads_open_weights(op: Op) -> bool:
    """Whether an op is a convolution with padding whose weights are no constant."""
    if op.kind != "Convolution" or op.inputs[1].value is not None:
        return False
    pads = [cast("Sequence[int]", op.attrs.get(name, ())) for name in ("pads_begin", "pads_end")]
    return any(map(any, pads)) or str(op.attrs.get("auto_pad", "none")).startswith("same")


__all__ = ["verify_model"]
