"""A graph held against the numpy reference, and the op where the two part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from .._util.validation import function, integer
from ..compiler.report import Report
from ..errors import OneGraphError
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset.editions.registry import base_of
from ..reference.run import run_op
from ..runtime.executable import Executable
from ..serialize import with_known
from ..testing.tolerance import INEXACT, Comparison, compare, disturbed, inexact, lowered

Progress = Callable[[str, int, int], None]
ROUNDING = frozenset({"Quantize", "DynamicQuantize", "TypeCast"})  # to integers, in every edition


@dataclass(frozen=True)
class Difference:
    """The first tensor that is not what the reference has, in the order of the ops.

    Attributes:
        op: kind and name of the op that writes it.
        comparison: the tensor beside its reference.
        partition: kind and name of the ops that ran as one with it.
        executor: who ran them.
        alone: whether it is right where ops run one by one (policy debug): then their fusion is to blame. None where
            that cannot be told.
    """

    op: str
    comparison: Comparison
    partition: tuple[str, ...]
    executor: str
    alone: bool | None


@dataclass(frozen=True)
class Verification:
    """What came of it: the outputs beside their reference, in the order of the graph's, and the first difference."""

    outputs: tuple[Comparison, ...]
    first: Difference | None
    results: Mapping[str, Array]
    report: Report

    @property
    def agrees(self) -> bool:
        """Whether every output is what the reference has."""
        return all(output.agrees for output in self.outputs)


@dataclass(frozen=True)
class _Expected:
    """What the reference has for a tensor, and whether integers in it came of rounding.

    ``near`` is what it has where everything before this tensor is disturbed, ``noisy`` where this tensor is too.
    """

    exact: Array
    near: Array
    noisy: Array
    rounded: bool


def verify(
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    policy: str = "fusion",
    fpmath_mode: str | None = None,
    threads: int | None = None,
    fallback: bool = True,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> Verification:
    """Run a graph on the library and on numpy, and look for the first difference where there is one.

    Inputs that the file of the graph calls constant are constants here: the library prepares them once, by other code.

    Args:
        graph: the graph.
        inputs: an array for each input.
        policy, fpmath_mode, threads, fallback: as for ``Graph.compile``.
        seed: of the disturbance that says how far results may be off.
        progress: told what is done, how much of it, and how much there is.

    Raises:
        UnsupportedError: an op has no meaning, or with ``fallback=False``: the library does not run it.
        ArgumentError: an array does not fit its input, or an option is wrong.
    """

    def compiled(of: Graph, policy: str) -> Executable:
        return of.compile(policy=policy, fpmath_mode=fpmath_mode, threads=threads, fallback=fallback)

    function("progress", progress)
    start = integer("seed", seed, 0, 2**64 - 1, "a number from 0")
    graph, inputs = with_known(graph, inputs)
    model = compiled(graph, policy)
    judge = _Judge(graph, inputs, model.report().fpmath_mode, start, progress)
    results = _run(model, inputs)
    wanted = {tensor.id for tensor in graph.outputs.values()}
    outputs = judge.compare(graph, results, judge.expected(wanted))
    first = None
    if not all(output.agrees for output in outputs):
        first = _first(judge, lambda of: compiled(of, policy), lambda of: compiled(of, "debug"))
    return Verification(outputs, first, results, model.report())


def _run(model: Executable, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return model._by_name(model(*inputs.values()))


class _Judge:
    """The reference of one graph for one set of inputs."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], fpmath_mode: str, seed: int, progress: Progress
    ) -> None:
        self.graph, self.inputs, self.seed, self.progress = graph, inputs, seed, progress
        self.fpmath_mode = fpmath_mode

    def expected(self, wanted: Collection[int]) -> dict[int, _Expected]:
        """What the reference has for the wanted tensors; others are forgotten when nothing more reads them."""
        rng = np.random.default_rng(self.seed)
        last = {t.id: n for n, op in enumerate(self.graph.ops) for t in op.inputs if t is not None}
        values: dict[int, _Expected] = {}
        for name, tensor in self.graph.inputs.items():
            values[tensor.id] = self._given(self.inputs[name], tensor, rng)
        for known in (*(t for op in self.graph.ops for t in op.inputs), *self.graph.outputs.values()):
            if known is not None and known.value is not None and known.id not in values:
                values[known.id] = self._given(known.value, known, rng)
        for number, op in enumerate(self.graph.ops):
            self.progress("reference", number, len(self.graph.ops))
            self._run(op, values, rng, last)
            for used in (*op.inputs, *op.outputs):
                if used is not None and last.get(used.id, number) <= number and used.id not in wanted:
                    values.pop(used.id, None)
        self.progress("reference", len(self.graph.ops), len(self.graph.ops))
        return values

    def _given(self, values: Array, tensor: LogicalTensor, rng: np.random.Generator) -> _Expected:
        """What is given is exact, but where arithmetic rounds it before it is used."""
        precision = lowered(tensor.dtype, self.fpmath_mode)
        exact = precision is tensor.dtype
        noisy = values if exact else disturbed(values, precision, rng, rounded=False)
        return _Expected(values, values, noisy, False)

    def _run(self, op: Op, values: dict[int, _Expected], rng: np.random.Generator, last: Mapping[int, int]) -> None:
        found = [None if tensor is None else values[tensor.id] for tensor in op.inputs]
        exact = run_op(op, [None if value is None else value.exact for value in found])
        same = all(value is None or value.noisy is value.exact for value in found)
        disturbed_run = exact if same else run_op(op, [None if value is None else value.noisy for value in found])
        unit = _unit(op)
        terms = _terms(op, [value.exact for value in found if value is not None], exact[0]) if exact else 1
        inherited = any(value is not None and value.rounded for value in found)
        for tensor, right, near in zip(op.outputs, exact, disturbed_run, strict=True):
            rounded = op.kind in ROUNDING or inherited
            precision = lowered(tensor.dtype, self.fpmath_mode)
            near = inexact(near, unit, rng) if unit else near
            noisy = near
            if tensor.id in last:
                noisy = disturbed(near, precision, rng, rounded=rounded, terms=terms)
            values[tensor.id] = _Expected(right, near, noisy, rounded)

    def compare(
        self, graph: Graph, results: Mapping[str, Array], expected: Mapping[int, _Expected]
    ) -> tuple[Comparison, ...]:
        """The outputs of ``graph``, this one or the beginning of it, beside what they should be."""
        found = []
        for name, tensor in graph.outputs.items():
            wanted = expected[tensor.id]
            precision = lowered(tensor.dtype, self.fpmath_mode)
            found.append(compare(name, results[name], wanted.exact, wanted.near, precision, rounded=wanted.rounded))
        return tuple(found)


def _unit(op: Op) -> float:
    """What the library is off by some millionths of, wherever the result lies; 0 for ops that it is exact on."""
    if base_of(schema_of(op)).kind not in INEXACT:
        return 0.0
    beta = op.attrs.get("beta")  # of SoftPlus
    return max(1.0, 1 / abs(beta)) if isinstance(beta, (int, float)) and beta else 1.0


def _terms(op: Op, inputs: Sequence[Array], result: Array) -> float:
    """About how many numbers an op adds up for each number of its result."""
    category = schema_of(op).category
    if category in ("matmul", "convolution") and result.size:
        return sqrt(inputs[0].size * inputs[1].size / result.size)
    return inputs[0].size / result.size if category == "reduction" and result.size else 1


def _first(
    judge: _Judge, compiled: Callable[[Graph], Executable], debug: Callable[[Graph], Executable]
) -> Difference | None:
    """The first difference, by bisection over the beginnings of the graph: fusion there is as in the whole."""
    graph = judge.graph
    expected = judge.expected({tensor.id for op in graph.ops for tensor in op.outputs})
    right, wrong = 0, len(graph.ops)
    steps = max(1, (wrong - right - 1).bit_length())
    while wrong - right > 1:
        judge.progress("bisection", steps - (wrong - right - 1).bit_length(), steps)
        middle = (right + wrong) // 2
        part = beginning(graph, middle)
        bad = part.outputs and not all(one.agrees for one in _compared(judge, part, compiled(part), expected))
        right, wrong = (right, middle) if bad else (middle, wrong)
    judge.progress("bisection", steps, steps)
    part = beginning(graph, wrong)
    model = compiled(part)
    found = next((one for one in _compared(judge, part, model, expected) if not one.agrees), None)
    if found is None:
        return None
    tensor = part.outputs[found.name]
    op = next(op for op in graph.ops if any(result.id == tensor.id for result in op.outputs))
    label = f"{op.kind} {op.name!r}"
    partition = next((one for one in model.report().partitions if op.name in one.names), None)
    try:
        alone = {one.name: one.agrees for one in _compared(judge, part, debug(part), expected)}.get(found.name)
    except OneGraphError:
        alone = None
    return Difference(label, found, partition.ops if partition else (), partition.executor if partition else "", alone)


def _compared(
    judge: _Judge, part: Graph, model: Executable, expected: Mapping[int, _Expected]
) -> tuple[Comparison, ...]:
    return judge.compare(part, _run(model, judge.inputs), expected)


def beginning(graph: Graph, count: int) -> Graph:
    """The first ``count`` ops of a graph. Its outputs are the graph's among theirs, and what the other ops read.

    The names of the latter are those of the tensors, ``op.port``.
    """
    part = graph.copy()
    part._ops = part._ops[:count]
    made = {tensor.id for op in part.ops for tensor in op.outputs}
    outputs = {name: tensor for name, tensor in graph.outputs.items() if tensor.id in made}
    named = {tensor.id for tensor in outputs.values()}
    for op in graph.ops[count:]:
        for tensor in op.inputs:
            if tensor is not None and tensor.id in made - named:
                outputs[f"{tensor.name} ({tensor.id})" if tensor.name in outputs else tensor.name] = tensor
                named.add(tensor.id)
    part._outputs = outputs
    return part
