"""Compares the results of a graph with the numpy reference, and finds the first op that differs."""

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
    """The first tensor that differs from the reference, in the order of the ops.

    Attributes:
        op: kind and name of the op that writes the tensor.
        comparison: the tensor compared with its reference.
        partition: kind and name of the ops that ran in one partition with this op.
        executor: executor of the partition.
        alone: whether the result is right if ops run one by one (policy debug), so that their fusion causes the
            difference. None if this is unknown.
    """

    op: str
    comparison: Comparison
    partition: tuple[str, ...]
    executor: str
    alone: bool | None


@dataclass(frozen=True)
class Verification:
    """The result of ``verify``.

    Attributes:
        outputs: each output compared with its reference, in the graph's order.
        first: the first difference; None if there is none.
        results: the results of the library, by name of output.
        report: the report of the executable.
    """

    outputs: tuple[Comparison, ...]
    first: Difference | None
    results: Mapping[str, Array]
    report: Report

    @property
    def agrees(self) -> bool:
        """Whether every output agrees with the reference."""
        return all(output.agrees for output in self.outputs)


@dataclass(frozen=True)
class _Expected:
    """The reference of a tensor: exact, and disturbed by rounding errors.

    In ``near`` all earlier tensors are disturbed; in ``noisy`` this tensor is disturbed too. ``rounded`` says whether
    its integers are results of rounding.
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
    """Run a graph on the library and in numpy, and find the first difference if the outputs differ.

    Inputs that the file of the graph marks as constant are constants here, because the library then runs other code.

    Args:
        graph: the graph.
        inputs: an array for each input, by name.
        policy, fpmath_mode, threads, fallback: as for ``Graph.compile``.
        seed: seed of the disturbance that decides how large errors may be.
        progress: called with the current activity, the amount done and the total.

    Raises:
        UnsupportedError: the reference cannot compute an op; or ``fallback`` is False, and the library does not run an
            op.
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
        first = _first_difference(judge, lambda of: compiled(of, policy), lambda of: compiled(of, "debug"))
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
        """The reference of the wanted tensors; other tensors are freed after their last use."""
        rng = np.random.default_rng(self.seed)
        last = {t.id: n for n, op in enumerate(self.graph.ops) for t in op.inputs if t is not None}
        values: dict[int, _Expected] = {}
        for name, tensor in self.graph.inputs.items():
            values[tensor.id] = self._given_reference(self.inputs[name], tensor, rng)
        for known in (*(t for op in self.graph.ops for t in op.inputs), *self.graph.outputs.values()):
            if known is not None and known.value is not None and known.id not in values:
                values[known.id] = self._given_reference(known.value, known, rng)
        for number, op in enumerate(self.graph.ops):
            self.progress("reference", number, len(self.graph.ops))
            self._run(op, values, rng, last)
            for used in (*op.inputs, *op.outputs):
                if used is not None and last.get(used.id, number) <= number and used.id not in wanted:
                    values.pop(used.id, None)
        self.progress("reference", len(self.graph.ops), len(self.graph.ops))
        return values

    def _given_reference(self, values: Array, tensor: LogicalTensor, rng: np.random.Generator) -> _Expected:
        """The reference of an input or constant, which is exact unless the arithmetic rounds it before use."""
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
        """Compare the outputs of ``graph``, which is this graph or its beginning, with the reference."""
        found = []
        for name, tensor in graph.outputs.items():
            wanted = expected[tensor.id]
            precision = lowered(tensor.dtype, self.fpmath_mode)
            found.append(compare(name, results[name], wanted.exact, wanted.near, precision, rounded=wanted.rounded))
        return tuple(found)


def _unit(op: Op) -> float:
    """The unit of the library's absolute error, which is some millionths of it; 0 for ops without such an error."""
    if base_of(schema_of(op)).kind not in INEXACT:
        return 0.0
    beta = op.attrs.get("beta")  # of SoftPlus
    return max(1.0, 1 / abs(beta)) if isinstance(beta, (int, float)) and beta else 1.0


def _terms(op: Op, inputs: Sequence[Array], result: Array) -> float:
    """Approximate number of terms that an op sums for each element of its result."""
    category = schema_of(op).category
    if category in ("matmul", "convolution") and result.size:
        return sqrt(inputs[0].size * inputs[1].size / result.size)
    return inputs[0].size / result.size if category == "reduction" and result.size else 1


def _first_difference(
    judge: _Judge, compiled: Callable[[Graph], Executable], debug: Callable[[Graph], Executable]
) -> Difference | None:
    """The first difference, by bisection over the beginnings of the graph, which are fused like the whole graph."""
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
    """The first ``count`` ops of a graph.

    Outputs are the graph outputs that these ops write, and the tensors that the other ops read, with the names of the
    tensors, ``op.port``.
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
