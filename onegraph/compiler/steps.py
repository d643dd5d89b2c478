"""Defines the steps of a program, and makes those for numpy, for copies and for binary ops on fewer axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

from ..capi import CompiledPartition
from ..capi import Graph as LibraryGraph
from ..capi import LogicalTensor as LibraryTensor
from ..capi import Op as LibraryOp
from ..faults.layouts import Laid, wrong_layout
from ..faults.operands import collapsed
from ..faults.performance import SLOW_BROADCAST, SLOW_STRIDES
from ..faults.use import ELEMENTWISE
from ..ir.op import Array, LogicalTensor, Op
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT
from ..reference import run_op
from .lower import Step, Value
from .report import PartitionReport
from .rewrites.broadcasts import EXCHANGED, SYMMETRIC
from .rewrites.precision import rounded
from .to_capi import capi_tensor

ARITHMETIC = EXCHANGED | SYMMETRIC | {"Divide", "Subtract"}
Run = Callable[[Sequence[Array | None]], Sequence[Array]]


class LibraryStep(NamedTuple):
    """A compiled partition and the memory of its inputs and outputs.

    ``pieces``: the numbers of the pieces of memory of its inputs and outputs, in the order in which it was compiled.
    ``in_place``: pairs (output, input) of pieces; the output may reuse the memory of the input.
    ``like``: the first compiled partition with the same ops and layouts, which takes as long.
    """

    compiled: CompiledPartition
    like: CompiledPartition
    pieces: Sequence[int]
    n_inputs: int
    in_place: Sequence[tuple[int, int]]
    note: int
    nbytes: int  # size of inputs and outputs
    is_small: bool = False  # compiled for one thread
    is_quick: bool = False  # small, and known to take little time


class NumpyStep(NamedTuple):
    """One op that numpy runs; None stands for an absent optional input."""

    run: Run
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    note: int


class Note(NamedTuple):
    """The executor of some steps, and the reasons. Without steps, the note is about a copy of the input."""

    executor: str
    steps: Sequence[Step]
    reasons: tuple[str, ...]
    inputs: Sequence[Value]
    outputs: Sequence[Value]

    def report(self, index: int, threads: int | None) -> PartitionReport:
        """The report of partition ``index`` of a program, which runs with this number of threads."""
        reasons = self.reasons
        if self.executor == "oneDNN":
            reasons = (*reasons, *[step.note for step in self.steps])
        kinds = tuple(step.label for step in self.steps) or ("copy of",)
        names = tuple(step.op.name for step in self.steps) or (self.inputs[0].name,)
        ends = tuple(self.inputs), tuple(self.outputs)
        return PartitionReport(index, self.executor, kinds, names, reasons, *ends, threads)


def needs_dense(value: Value, steps: Sequence[Step]) -> bool:
    """Whether one of the ops would compute wrong, or slowly, with the strides of a value that it reads or writes."""
    is_slow = not value.dense and SLOW_STRIDES.affects(VERSION) and SLOW_STRIDES.when((value.shape, value.strides))
    if is_slow and any(step.kind in SLOW_STRIDES.ops and value.id in (*step.inputs, *step.outputs) for step in steps):
        return True
    inside = frozenset([step.kind for step in steps])
    return any(
        wrong_layout(
            Laid(step.kind, _rank(step), value.shape, value.strides, value.id in step.inputs, inside, step.attrs),
            VERSION,
        )
        for step in steps
    )


def mixed(steps: Sequence[Step], values: Sequence[Value]) -> set[int]:
    """Of the ``values`` that elementwise and binary ops read, those whose strides a binary op would be slow with.

    The library has a reference kernel for some mixtures of strides. Beside a tensor with channels last, it is fast for
    others with channels last and for vectors.
    """
    inside = [step for step in steps if step.kind in SLOW_STRIDES.ops | ELEMENTWISE]
    if not any(step.kind in SLOW_STRIDES.ops for step in inside):
        return set()
    known = {value.id: value for value in values}
    read = {number: known[number] for step in inside for number in step.inputs if number in known}
    largest = max([prod(value.shape) for value in read.values()], default=0)
    strided = {number for number, value in read.items() if prod(value.shape) == largest and not value.dense}
    is_fast = all(SLOW_STRIDES.when((read[number].shape, read[number].strides)) is False for number in strided)
    others = [value for number, value in read.items() if number not in strided]
    return set() if is_fast and all(sum(dim > 1 for dim in value.shape) < 2 for value in others) else strided


def _rank(step: Step) -> int:
    """Rank of the first result of a step."""
    results = step.op.outputs if step.part is None else step.part.outputs
    return len(results[0].shape or ())


def numpy_step(step: Step, values: Mapping[int, Value], note: int) -> NumpyStep:
    """A numpy step for the op as the user wrote it, or for the part of the op that the step is."""
    op = step.op
    if step.whole:
        given = tuple([None if tensor is None else tensor.id for tensor in op.inputs])
        return NumpyStep(partial(run_op, op), given, tuple([tensor.id for tensor in op.outputs]), note)
    ins, outs = (
        tuple([LogicalTensor(n, values[n].dtype, values[n].shape, None, values[n].name) for n in ends])
        for ends in (step.inputs, step.outputs)
    )
    part = Op(step.id, step.kind, ins, outs, step.attrs, op.name, DEFAULT)
    return NumpyStep(partial(run_op, part), step.inputs, step.outputs, note)


def pass_through(arrays: Sequence[Array | None]) -> list[Array]:
    """Return the inputs unchanged; storing the result makes the copy into another layout."""
    return [array for array in arrays if array is not None]


def caster(dtype: DataType) -> Run:
    """A cast to a float type; a cast to f32 is exact, and storing the result does it."""
    if dtype is DataType.f32:
        return pass_through
    return lambda arrays: [rounded(array, dtype) for array in arrays if array is not None]


def compile_reorder(source: Value, target: Value) -> CompiledPartition:
    """A compiled Reorder, which copies from one layout to another.

    Raises:
        OneGraphError: the library does not support the data type or the layouts.
    """
    graph = LibraryGraph()
    ends = capi_tensor(source.id, source, "variable"), capi_tensor(target.id, target, "variable")
    graph.add_op(LibraryOp(0, "Reorder", inputs=[ends[0]], outputs=[ends[1]]))
    graph.finalize()
    (partition,) = graph.partitions("debug")
    return partition.compile([ends[0]], [ends[1]])


def slow_operand(step: Step, values: Mapping[int, Value]) -> tuple[Value, Value] | None:
    """The inputs of a binary op, the broadcast one last, if the library is fast on fewer axes only; otherwise None."""
    if step.kind not in ARITHMETIC:
        return None
    result = values[step.outputs[0]].shape
    whole, operand = (values[number] for number in step.inputs)
    if step.kind in EXCHANGED and whole.shape != result:
        whole, operand = operand, whole
    if whole.shape != result or operand.shape == result or not SLOW_BROADCAST.when((result, operand.shape)):
        return None
    return whole, operand


def collapsed_binary(step: Step, values: Mapping[int, Value]) -> CompiledPartition | None:
    """A compiled binary op on fewer axes of the same memory; None unless it has a slow operand and dense values.

    Raises:
        OneGraphError: the library refuses the op.
    """
    found, result = slow_operand(step, values), values[step.outputs[0]]
    if found is None or not all(value.dense for value in (*found, result)):
        return None
    shapes = collapsed(result.shape, found[1].shape)
    ends = [LibraryTensor(value.id, value.dtype, shape) for value, shape in zip(found, shapes, strict=True)]
    target = LibraryTensor(result.id, result.dtype, shapes[0])
    graph = LibraryGraph()
    graph.add_op(LibraryOp(0, step.kind, inputs=ends, outputs=[target]))
    graph.finalize()
    (partition,) = graph.partitions("debug")
    return partition.compile(ends, [target])
