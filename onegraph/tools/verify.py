"""Compares the results of a graph with the numpy reference, and finds the first op that differs.

Agreement is a proof only if the comparison would notice a wrong op. So each op is changed in the reference, and the
changed results must differ by more than the comparison allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from time import perf_counter

import numpy as np

from .._util.validation import callback, integer
from ..compiler.report import Report
from ..errors import OneGraphError
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of
from ..reference.run import narrow, run_op
from ..runtime.executable import Executable
from ..serialize import with_known
from ..testing.mutations import CLASSES, Mutation, moved, mutation
from ..testing.tolerance import INEXACT, ROUNDED_TWICE, Comparison, compare, disturbed, inexact, lowered

Progress = Callable[[str, int, int], None]
ROUNDING = frozenset({"Quantize", "DynamicQuantize", "TypeCast"})  # to integers, in every edition
MUTATION_SECONDS = 1.0  # at least; for graphs whose reference takes longer, as long as the reference takes


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
class Unnoticed:
    """A change of an op that the comparison would not notice.

    Attributes:
        op: kind and name of the op.
        change: the change, such as ``src larger by 10 %``; empty if no change of the op has an effect.
        effect: the largest error of an output that the change causes.
        limit: the allowed error of this output.
        output: name of this output; empty if the change has an effect on none.
    """

    op: str
    change: str
    effect: float
    limit: float
    output: str


@dataclass(frozen=True)
class Verification:
    """The result of ``verify``.

    Attributes:
        outputs: each output compared with its reference, in the graph's order.
        first: the first difference; None if there is none.
        results: the results of the library, by name of output.
        report: the report of the executable.
        unnoticed: changes of ops that the comparison would not notice.
        changed: number of ops that were changed to find that out; fewer than all in large graphs.
        provable: number of ops that outputs depend on.
    """

    outputs: tuple[Comparison, ...]
    first: Difference | None
    results: Mapping[str, Array]
    report: Report
    unnoticed: tuple[Unnoticed, ...]
    changed: int
    provable: int

    @property
    def agrees(self) -> bool:
        """Whether every output agrees with the reference."""
        return all(output.agrees for output in self.outputs)

    @property
    def computed(self) -> bool:
        """Whether the library computed something, so that numpy was not compared with itself."""
        partitions = self.report.partitions
        return not partitions or any(partition.executor not in ("reference", "host") for partition in partitions)

    @property
    def proven(self) -> bool:
        """Whether every output agrees, and the comparison would have noticed wrong ops."""
        compared = all(output.is_proof for output in self.outputs)
        return self.agrees and compared and not self.unnoticed and self.computed


@dataclass(frozen=True)
class _Expected:
    """The reference of a tensor: exact, and disturbed by rounding errors.

    In ``near`` all earlier tensors are disturbed; in ``noisy`` this tensor is disturbed too. ``wide`` and ``near`` are
    not rounded to the data type of the tensor; they are empty for tensors that are not compared. ``rounded`` says
    whether its integers are results of rounding.
    """

    exact: Array
    noisy: Array
    wide: Array
    near: Array
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
    progress: Progress | None = None,
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

    tell = callback("progress", progress)
    start = integer("seed", seed, 0, 2**64 - 1, "a number from 0")
    graph, inputs = with_known(graph, inputs)
    model = compiled(graph, policy)
    judge = _Judge(graph, inputs, model.report().fpmath_mode, start, tell)
    results = model._run_by_name(inputs)
    wanted = {tensor.id for tensor in graph.outputs.values()}
    started = perf_counter()
    expected = judge.expected(wanted)
    seconds = max(MUTATION_SECONDS, perf_counter() - started)
    outputs = judge.compare(graph, results, expected)
    first, changed = None, 0
    unnoticed: list[Unnoticed] = []
    ops = _ops_of_outputs(graph)
    if all(output.agrees for output in outputs):
        unnoticed, changed = judge.unnoticed(ops, expected, seconds)
    else:
        first = _first_difference(judge, lambda of: compiled(of, policy), lambda of: compiled(of, "debug"))
    return Verification(outputs, first, results, model.report(), tuple(unnoticed), changed, len(ops))


def _ops_of_outputs(graph: Graph) -> list[int]:
    """The places of the ops that an output depends on."""
    needed = {tensor.id for tensor in graph.outputs.values()}
    found = []
    for place, op in reversed([*enumerate(graph.ops)]):
        if any(tensor.id in needed for tensor in op.outputs):
            found.append(place)
            needed.update(tensor.id for tensor in op.inputs if tensor is not None)
    return found[::-1]


class _Judge:
    """The reference of one graph for one set of inputs."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], fpmath_mode: str, seed: int, progress: Progress
    ) -> None:
        self.graph, self.inputs, self.seed, self.progress = graph, inputs, seed, progress
        self.fpmath_mode = fpmath_mode
        self.given: dict[int, Array] = {}

    def expected(self, wanted: Collection[int]) -> dict[int, _Expected]:
        """The reference of the wanted tensors; other tensors are freed after their last use."""
        rng = np.random.default_rng(self.seed)
        last = {t.id: n for n, op in enumerate(self.graph.ops) for t in op.inputs if t is not None}
        values: dict[int, _Expected] = {}
        for name, tensor in self.graph.inputs.items():
            values[tensor.id] = self._given_reference(self.inputs[name], tensor, rng)
        for name, tensor in self.graph.variables.items():
            values[tensor.id] = self._given_reference(self.graph._initial[name], tensor, rng)
        for known in (*(t for op in self.graph.ops for t in op.inputs), *self.graph.outputs.values()):
            if known is not None and known.value is not None and known.id not in values:
                values[known.id] = self._given_reference(known.value, known, rng)
        self.given = {number: value.exact for number, value in values.items()}
        for number, op in enumerate(self.graph.ops):
            self.progress("reference", number, len(self.graph.ops))
            self._run(op, values, rng, last, wanted)
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
        return _Expected(values, noisy, values, values, False)

    def _run(
        self,
        op: Op,
        values: dict[int, _Expected],
        rng: np.random.Generator,
        last: Mapping[int, int],
        wanted: Collection[int],
    ) -> None:
        found = [None if tensor is None else values[tensor.id] for tensor in op.inputs]
        exact = run_op(op, [None if value is None else value.exact for value in found], rounded=False)
        same = all(value is None or value.noisy is value.exact for value in found)
        inputs = [None if value is None else value.noisy for value in found]
        disturbed_run = exact if same else run_op(op, inputs, rounded=False)
        if any(wide.shape != near.shape for wide, near in zip(exact, disturbed_run, strict=True)):
            disturbed_run = exact  # the contents decide the shape, as of NonZero
        unit = _unit(op)
        terms = _terms(op, [value.exact for value in found if value is not None], exact[0]) if exact else 1
        inherited = any(value is not None and value.rounded for value in found)
        for tensor, wide, near in zip(op.outputs, exact, disturbed_run, strict=False):
            rounded = op.kind in ROUNDING or inherited
            precision = lowered(tensor.dtype, self.fpmath_mode)
            near = inexact(near, unit, rng) if unit else near
            if tensor.dtype is not DataType.f32 and base_of(schema_of(op)).kind in ROUNDED_TWICE:
                near = disturbed(near, tensor.dtype, rng, rounded=False)
            right = narrow(wide, tensor.dtype)
            noisy = right if near is wide else narrow(near, tensor.dtype)
            if tensor.id in last:
                noisy = disturbed(noisy, precision, rng, rounded=rounded, terms=terms)
            kept = (wide, near) if tensor.id in wanted else (right, right)
            values[tensor.id] = _Expected(right, noisy, *kept, rounded)

    def compare(
        self, graph: Graph, results: Mapping[str, Array], expected: Mapping[int, _Expected]
    ) -> tuple[Comparison, ...]:
        """Compare the outputs of ``graph``, which is this graph or its beginning, with the reference."""
        found = []
        for name, tensor in graph.outputs.items():
            found.append(self._compared(name, tensor, results[name], expected[tensor.id]))
        return tuple(found)

    def _compared(self, name: str, tensor: LogicalTensor, result: Array, wanted: _Expected) -> Comparison:
        precision = lowered(tensor.dtype, self.fpmath_mode)
        return compare(name, result, wanted.wide, wanted.near, precision, rounded=wanted.rounded)

    # Changed ops ------------------------------------------------------------------------------------------------------

    def unnoticed(
        self, places: Sequence[int], expected: Mapping[int, _Expected], seconds: float
    ) -> tuple[list[Unnoticed], int]:
        """The changes of ops that the comparison would not notice, and the number of ops that were changed.

        After ``seconds`` no further op is changed; which ops are changed until then is random.
        """
        found: list[Unnoticed] = []
        exact = _Lazy(self.graph, self.given)
        order = [*places]
        np.random.default_rng(self.seed).shuffle(order)
        end = perf_counter() + seconds
        for done, place in enumerate(order):
            if perf_counter() > end:
                return found, done
            self.progress("changed ops", done, len(order))
            missed = self._missed(place, exact, expected)
            if missed is not None:
                found.append(missed)
        self.progress("changed ops", len(order), len(order))
        return found, len(order)

    def _changes(self, place: int, exact: _Lazy) -> Iterator[Mutation]:
        """One change of each class that has an effect on the op."""
        op = self.graph.ops[place]
        inputs, results = exact.inputs(place), exact.wide(place)
        some = False
        for kind in CLASSES:
            change = mutation(kind, op, inputs, results)
            if change is not None:
                some = True
                yield change
        last = None if some else moved(results)
        if last is not None:
            yield last

    def _missed(self, place: int, exact: _Lazy, expected: Mapping[int, _Expected]) -> Unnoticed | None:
        """The first change of an op that the outputs do not show; a change without any effect on them is none."""
        op = self.graph.ops[place]
        label, noticed = f"{op.kind} {op.name!r}", False
        change = None
        for change in self._changes(place, exact):
            try:
                compared = self._outputs_with(place, change, exact, expected)
            except OneGraphError:  # an index that is out of range after the change, or a shape that does not fit
                noticed = True
                continue
            if not all(one.agrees for one in compared):
                noticed = True
            elif compared:
                most = max(compared, key=lambda one: one.max_error / one.limit if one.limit else 0.0)
                return Unnoticed(label, change.what, most.max_error, most.limit, most.name)
        return None if noticed else Unnoticed(label, "" if change is None else change.what, 0.0, 0.0, "")

    def _outputs_with(
        self, place: int, change: Mutation, exact: _Lazy, expected: Mapping[int, _Expected]
    ) -> tuple[Comparison, ...]:
        """The outputs that a changed op changes, compared with their references."""
        names = {tensor.id: name for name, tensor in self.graph.outputs.items()}
        values: dict[int, Array] = {}
        found = []
        for number, op in enumerate(self.graph.ops[place:], place):
            if number == place:
                results = change.results
            elif any(tensor is not None and tensor.id in values for tensor in op.inputs):
                given = zip(op.inputs, exact.inputs(number), strict=True)
                inputs = [array if tensor is None else values.get(tensor.id, array) for tensor, array in given]
                results = run_op(op, inputs, rounded=False)
            else:
                continue
            for tensor, wide in zip(op.outputs, results, strict=False):
                result = narrow(wide, tensor.dtype)
                right = expected[tensor.id].exact if tensor.id in expected else None
                if right is not None and np.array_equal(result, right):
                    continue
                values[tensor.id] = result
                if tensor.id in names:
                    found.append(self._compared(names[tensor.id], tensor, result, expected[tensor.id]))
        return tuple(found)


class _Lazy:
    """The exact reference of every tensor, computed again when it is first asked for."""

    def __init__(self, graph: Graph, given: Mapping[int, Array]) -> None:
        self.graph, self.values = graph, dict(given)
        self.producers = {tensor.id: place for place, op in enumerate(graph.ops) for tensor in op.outputs}

    def inputs(self, place: int) -> list[Array | None]:
        """The arrays that an op reads."""
        return [None if tensor is None else self._value(tensor.id) for tensor in self.graph.ops[place].inputs]

    def wide(self, place: int) -> tuple[Array, ...]:
        """The results of an op, not rounded."""
        return run_op(self.graph.ops[place], self.inputs(place), rounded=False)

    def _value(self, number: int) -> Array:
        waiting = [number]
        while waiting:
            op = self.graph.ops[self.producers[waiting[-1]]] if waiting[-1] not in self.values else None
            if op is None:
                waiting.pop()
                continue
            missing = [tensor.id for tensor in op.inputs if tensor is not None and tensor.id not in self.values]
            waiting += missing
            if not missing:
                for tensor, wide in zip(op.outputs, self.wide(self.producers[waiting[-1]]), strict=False):
                    self.values[tensor.id] = narrow(wide, tensor.dtype)
        return self.values[number]


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
    return judge.compare(part, model._run_by_name(judge.inputs), expected)


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
