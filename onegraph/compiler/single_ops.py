"""Compiles single ops of the library without a search for fusions: copies, and binary ops on fewer axes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from typing import NamedTuple

from .._util.open_sizes import OpenSize
from ..capi import CompiledPartition
from ..capi import Graph as LibraryGraph
from ..capi import LogicalTensor as LibraryTensor
from ..capi import Op as LibraryOp
from ..capi.threads import ThreadCount
from ..faults.operands import collapsed, rows_together
from ..faults.performance import BROADCASTS
from ..native.library import VERSION
from .ir.step import Step
from .ir.value import Value
from .open_values import At, layout_of, open_sizes_of, step_at, value_at
from .rewrites.broadcasts import EXCHANGED, SYMMETRIC
from .to_capi import capi_tensor

ARITHMETIC = EXCHANGED | SYMMETRIC | {"Divide", "Subtract"}


def _compiled(kind: str, inputs: list[LibraryTensor], output: LibraryTensor) -> CompiledPartition:
    """A compiled op.

    Raises:
        OneGraphError: the library refuses the op.
    """
    graph = LibraryGraph()
    graph.add_op(LibraryOp(0, kind, inputs=inputs, outputs=[output]))
    graph.finalize()
    (partition,) = graph.partitions("debug")
    return partition.compile(inputs, [output])


def compile_reorder(source: Value, target: Value) -> CompiledPartition:
    """A compiled Reorder, which copies from one layout to another.

    Raises:
        OneGraphError: the library does not support the data type or the layouts.
    """
    ends = [capi_tensor(value.id, value, "variable") for value in (source, target)]
    return _compiled("Reorder", ends[:1], ends[1])


class Reordering(NamedTuple):
    """A copy from the layout of one value to that of another."""

    source: Value
    target: Value

    def compiled(
        self, at: At, reorders: MutableMapping[Hashable, CompiledPartition], threads: ThreadCount
    ) -> CompiledPartition:
        """The compiled Reorder.

        Args:
            at: what an open size is.
            reorders: the Reorders by layouts, which gets this one.
            threads: set to all threads.

        Raises:
            OneGraphError: the library does not support the data type or the layouts.
        """
        source, target = value_at(self.source, at), value_at(self.target, at)
        key = source.dtype, source.shape, source.strides, target.strides
        operands = reorders.get(key)
        if operands is None:
            threads.use(None)
            operands = reorders[key] = compile_reorder(source, target)
        return operands

    def sizes(self) -> tuple[OpenSize, ...]:
        """The open sizes that it depends on."""
        return open_sizes_of((), self)

    def kind(self, _: object) -> Hashable:
        """What is equal for copies that are one compiled Reorder for all sizes."""
        return tuple(map(layout_of, self))


class Collapsing(NamedTuple):
    """A binary op on fewer axes.

    Attributes:
        step: the op.
        values: its inputs, then its outputs.
    """

    step: Step
    values: Sequence[Value]

    def compiled(self, at: At, threads: ThreadCount) -> CompiledPartition | None:
        """The compiled op; None unless it has a slow operand and dense values.

        Args:
            at: what an open size is.
            threads: set to all threads.

        Raises:
            OneGraphError: the library refuses the op.
        """
        threads.use(None)
        return collapsed_binary(step_at(self.step, at), {value.id: value_at(value, at) for value in self.values})

    def places(self, compiled: CompiledPartition) -> list[int]:
        """For each port of the compiled op, the place of its value."""
        numbers = [value.id for value in self.values]
        return [numbers.index(tensor.id) for tensor in (*compiled.inputs, *compiled.outputs)]

    def sizes(self) -> tuple[OpenSize, ...]:
        """The open sizes that it depends on."""
        return open_sizes_of((self.step,), self.values)

    def kind(self, _: object) -> Hashable:
        """What is equal for ops that are one compiled op for all sizes."""
        return self.step.part, tuple(map(layout_of, self.values))


def slow_operand(step: Step, values: Mapping[int, Value]) -> tuple[Value, Value] | None:
    """The inputs of a binary op, the broadcast one last, if the library is fast on fewer axes only; otherwise None."""
    if step.kind not in ARITHMETIC and not _is_add(step):
        return None
    result = values[step.outputs[0]].shape
    source, operand = (values[number] for number in step.inputs)
    if step.kind in EXCHANGED and source.shape != result:
        source, operand = operand, source
    if source.shape != result or operand.shape == result:
        return None
    is_slow = BROADCASTS.reason(frozenset([step.kind]), (result, operand.shape), VERSION)
    return (source, operand) if is_slow else None


def collapsed_binary(step: Step, values: Mapping[int, Value]) -> CompiledPartition | None:
    """A compiled binary op on fewer axes of the same memory; None unless it has a slow operand and dense values.

    Raises:
        OneGraphError: the library refuses the op.
    """
    operands, result = slow_operand(step, values), values[step.outputs[0]]
    if operands is None or not all(value.dense for value in (*operands, result)):
        return None
    shapes = collapsed(result.shape, operands[1].shape)
    if (count := rows_together(result.shape, operands[1].shape)) > 1:
        (rows, width), _ = shapes
        shapes = (rows // count, width * count), (1, width * count)
    ends = [LibraryTensor(value.id, value.dtype, shape) for value, shape in zip(operands, shapes, strict=True)]
    target = LibraryTensor(result.id, result.dtype, shapes[0])
    return _compiled("Add" if _is_add(step) else step.kind, ends, target)


def _is_add(step: Step) -> bool:
    """Whether a BiasAdd broadcasts as an Add does."""
    return step.kind == "BiasAdd" and step.attrs.get("data_format", "NXC") == "NXC"
