"""Defines the steps of a program, and makes those for numpy, for copies and for binary ops on fewer axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from ..capi import CompiledPartition, Partition
from ..capi import Graph as LibraryGraph
from ..capi import LogicalTensor as LibraryTensor
from ..capi import Op as LibraryOp
from ..capi.settings import core_cache, has_avx512
from ..errors import ArgumentError
from ..faults.layouts import wrong_layout
from ..faults.operands import collapsed, rows_together
from ..faults.ops.pooling import SLOW_CHANNELS_FIRST, ChannelsFirst
from ..faults.performance import BROADCASTS, REDUCED, SLOW_STRIDES
from ..faults.use import ELEMENTWISE, Laid
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..native.library import VERSION
from ..opset.editions.registry import DEFAULT, HOST, base_of
from ..opset.schema import Call
from ..reference import run_op
from ..reference.host import INTO, computed_on_host, host_function
from .arithmetic import arithmetic_of
from .host_views import is_irregular
from .kernels import CompiledKernel
from .lower import Dims, Step, Value, dense_of
from .report import PartitionReport
from .rewrites.broadcasts import EXCHANGED, SYMMETRIC
from .to_capi import capi_tensor

ARITHMETIC = EXCHANGED | SYMMETRIC | {"Divide", "Subtract"}
# Writes the results of the first arrays into the second.
Run = Callable[[Sequence[Array | None], Sequence[Array]], None]


class CompiledStep(NamedTuple):
    """A compiled partition, or a kernel of the package, and the memory of its inputs and outputs.

    ``pieces``: the numbers of the pieces of memory of its inputs and outputs, in the order in which it was compiled.
    ``in_place``: pairs (output, input) of pieces; the output may reuse the memory of the input.
    ``again``: makes another partition of the same ops, of which the library keeps no constants yet.
    ``like``: the first compiled partition with the same ops and layouts, which takes as long.
    """

    compiled: CompiledPartition | CompiledKernel
    like: CompiledPartition | CompiledKernel
    pieces: Sequence[int]
    n_inputs: int
    in_place: Sequence[tuple[int, int]]
    note: int
    nbytes: int  # size of inputs and outputs
    is_small: bool = False  # compiled for one thread
    is_quick: bool = False  # small, and known to take little time
    shifts: Sequence[int] = ()  # for each piece, bytes to its first element; empty if all are 0
    again: Callable[[], Partition] | None = None  # None if the library finds no constants of the step by a hash


def shifts_of(values: Sequence[Value]) -> Sequence[int]:
    """For each value the bytes from the start of its memory to its first element; empty if all are 0."""
    return [value.shift for value in values] if any(value.offset for value in values) else ()


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
        ops = [named for step in self.steps for named in ((step.label, step.op.name), *_names(step.folded))]
        kinds, names = zip(*ops, strict=True) if ops else (("copy of",), (self.inputs[0].name,))
        ends = tuple(self.inputs), tuple(self.outputs)
        computes = self.executor in ("oneDNN", "kernel", "reference", "host") and bool(self.steps)
        arithmetic = arithmetic_of(self.steps, self.inputs) if computes else ""
        return PartitionReport(index, self.executor, kinds, names, reasons, *ends, threads, arithmetic)


def _names(ops: Sequence[Op]) -> list[tuple[str, str]]:
    return [(op.kind, op.name) for op in ops]


def needs_dense(value: Value, steps: Sequence[Step]) -> bool:
    """Whether one of the ops would compute wrong, or slowly, with the strides of a value that it reads or writes."""
    if is_irregular(value.shape, value.strides):
        return True
    is_slow = not value.dense and SLOW_STRIDES.affects(VERSION) and SLOW_STRIDES.when((value.shape, value.strides))
    if is_slow and any(step.kind in SLOW_STRIDES.ops and value.id in (*step.inputs, *step.outputs) for step in steps):
        return True
    inside = frozenset([step.kind for step in steps])
    met = [
        Laid(step.kind, _rank(step), value.shape, value.strides, value.id in step.inputs, inside, step.attrs)
        for step in steps
    ]
    is_slow = not value.dense and any(REDUCED.of(frozenset([laid.kind]), laid, VERSION) for laid in met)
    return is_slow or any(wrong_layout(laid, VERSION) for laid in met)


def channels_last(shape: Dims) -> Dims:
    """The strides of a tensor (N, C, X) whose channels lie last."""
    batch, *places, channel = dense_of((shape[0], *shape[2:], shape[1]))
    return batch, channel, *places


def is_slow_pool(step: Step, call: Call, values: Sequence[Value]) -> bool:
    """Whether a pool of these values is fast only if their channels lie last."""
    if step.attrs.get("data_format") != "NCX" or SLOW_CHANNELS_FIRST.ops.isdisjoint([step.kind]):
        return False
    if not all(value.dense and value.constant is None for value in values):
        return False
    return bool(SLOW_CHANNELS_FIRST.when(ChannelsFirst(call, core_cache() if has_avx512() else 0)))


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
    if op.edition == HOST:
        given = tuple([None if tensor is None else tensor.id for tensor in op.inputs])
        return NumpyStep(_host_run(op), given, step.outputs, note)
    if step.whole:
        given = tuple([None if tensor is None else tensor.id for tensor in op.inputs])
        return NumpyStep(partial(_store_op, op), given, tuple([tensor.id for tensor in op.outputs]), note)
    ins, outs = (
        tuple([LogicalTensor(n, values[n].dtype, values[n].shape, None, values[n].name) for n in ends])
        for ends in (step.inputs, step.outputs)
    )
    part = Op(step.id, step.kind, ins, outs, step.attrs, op.name, DEFAULT)
    return NumpyStep(partial(_store_op, part), step.inputs, step.outputs, note)


def _host_run(op: Op) -> Run:
    """What a host op does, with its attributes and types read once."""
    schema = schema_of(op)
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    call = Call(base_of(schema), op.attrs, types, len(op.outputs), [tensor.dtype for tensor in op.outputs])
    function = host_function(schema)

    def run(arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            into = partial(function, out=results[0]) if op.kind in INTO else function
            found = computed_on_host(op, into, call, arrays)
            for tensor, target, array in zip(op.outputs, results, found, strict=True):
                if array.shape != target.shape:  # numpy would broadcast it
                    raise ArgumentError(f"{op.kind} {op.name!r}: shape {array.shape}; expected {tensor}")
                if array is not target:
                    np.copyto(target, array, casting="unsafe")

    return run


def _store_op(op: Op, arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
    for target, found in zip(results, run_op(op, arrays), strict=True):
        target[...] = found


def store(arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
    """Store the inputs in the outputs, in the layout and data type of the outputs."""
    with np.errstate(all="ignore"):
        for array, target in zip(arrays, results, strict=True):
            assert array is not None
            np.copyto(target, array, casting="unsafe")


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
    if step.kind not in ARITHMETIC and not _is_add(step):
        return None
    result = values[step.outputs[0]].shape
    whole, operand = (values[number] for number in step.inputs)
    if step.kind in EXCHANGED and whole.shape != result:
        whole, operand = operand, whole
    if whole.shape != result or operand.shape == result:
        return None
    is_slow = BROADCASTS.reason(frozenset([step.kind]), (result, operand.shape), VERSION)
    return (whole, operand) if is_slow else None


def collapsed_binary(step: Step, values: Mapping[int, Value]) -> CompiledPartition | None:
    """A compiled binary op on fewer axes of the same memory; None unless it has a slow operand and dense values.

    Raises:
        OneGraphError: the library refuses the op.
    """
    found, result = slow_operand(step, values), values[step.outputs[0]]
    if found is None or not all(value.dense for value in (*found, result)):
        return None
    shapes = collapsed(result.shape, found[1].shape)
    if (count := rows_together(result.shape, found[1].shape)) > 1:
        (rows, width), _ = shapes
        shapes = (rows // count, width * count), (1, width * count)
    ends = [LibraryTensor(value.id, value.dtype, shape) for value, shape in zip(found, shapes, strict=True)]
    target = LibraryTensor(result.id, result.dtype, shapes[0])
    graph = LibraryGraph()
    graph.add_op(LibraryOp(0, "Add" if _is_add(step) else step.kind, inputs=ends, outputs=[target]))
    graph.finalize()
    (partition,) = graph.partitions("debug")
    return partition.compile(ends, [target])


def _is_add(step: Step) -> bool:
    """Whether a BiasAdd broadcasts as an Add does."""
    return step.kind == "BiasAdd" and step.attrs.get("data_format", "NXC") == "NXC"
