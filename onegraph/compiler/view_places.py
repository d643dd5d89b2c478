"""Finds where the results of views lie, which only rename axes or take part of a tensor and cost no copy."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from math import prod
from typing import NamedTuple

from ..faults.use import VIEWS
from ..ir.op import Array, Op, schema_of
from ..opset.editions.dialect import channel_swap, format_of
from ..opset.editions.registry import BASE, HOST, base_of, edition
from ..opset.host.movement_shapes import slices
from ..opset.kinds import HOST_RESHAPES
from ..opset.ops.movement import transposition
from ..opset.schema import Call, TensorType
from ..reference.host import VIEWS as HOST_VIEWS
from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Dims, Value, dense_of
from .kernels.registry import of_executor
from .slow_layouts import needs_dense

# Executors of steps that write results of any strides.
STRIDED = frozenset(["library", "exact", "extreme", "guarded", "patched", "pool"])
FEW = 512  # elements, which a step writes in any order before a copy has begun


class Place(NamedTuple):
    """Where the elements of a view lie in the memory of its source: strides and the first element, in elements."""

    strides: Dims
    offset: int


def is_host_view(step: Step) -> bool:
    """Whether a step is a host op that may be a view of its first input."""
    return step.executor == "reference" and step.op.edition == HOST and step.op.kind in HOST_VIEWS


def is_view(step: Step) -> bool:
    """Whether a step only changes shape or axis order."""
    return step.executor == "view" or (step.executor == "library" and step.kind in VIEWS)


def place_of(step: Step, source: Value, target: Value) -> Place | None:
    """The place of the result of a view in the memory of its source; None if a reshape needs a dense source."""
    if is_host_view(step):
        return _place_on_host(step.op, source, target)
    if step.kind == "StaticReshape":
        return _reshaped(source, target.shape)
    # The library takes tensors that differ in the strides of axes of size 1 alone for each other.
    return Place(tuple([source.strides[axis] for axis in axis_order(step, source)]), 0)


def axis_order(step: Step, source: Value) -> Dims:
    """For each axis of the result of a step that changes the order of axes, the axis of its source."""
    if step.executor == "view":
        return channel_swap(len(source.shape), format_of(schema_of(step.op), step.op.attrs))
    order = transposition(Call(BASE[step.kind], step.attrs, [TensorType(source.dtype, source.shape)], 1))
    assert order is not None
    return order


def viewed_constant(step: Step, source: Value, target: Value) -> Array:
    """The contents of a view of a constant; for all but host ops."""
    assert source.constant is not None
    if step.kind == "StaticReshape":
        return source.constant.reshape(target.shape)
    return source.constant.transpose(axis_order(step, source))


def sources_in_outputs(lowered: Lowered, returned: AbstractSet[int]) -> dict[int, Value]:
    """By id, the sources of graph outputs that are views, placed in the memory of the outputs.

    Args:
        lowered: the graph.
        returned: ids of the values that are outputs of the graph.
    """
    steps = [step for step in lowered.steps if step.executor in STRIDED or _writes_dense(step)]
    views = [step for step in steps if step.kind in VIEWS and step.outputs[0] in returned]
    if not views:
        return {}
    producers = {n: step for step in steps for n in step.outputs}
    # Parts of values that passes have made lie in the memory that their steps know.
    in_parts = {value.storage for value in lowered.values.values() if value.storage != value.id}
    placed_sources: dict[int, Value] = {}
    for step in views:
        source, target = lowered.values[step.inputs[0]], lowered.values[step.outputs[0]]
        producer = producers.get(source.id)
        if producer is None or producer.kind in VIEWS or source.id in returned or 0 in source.shape:
            continue
        if (
            source.id in placed_sources
            or source.id in in_parts
            or source.storage != source.id
            or target.storage != target.id
            or not target.dense
        ):
            continue
        strides = source.strides
        if step.kind == "StaticTranspose":
            order = axis_order(step, source)
            strides = tuple([target.strides[order.index(axis)] for axis in range(len(order))])
        placed = source.placed(target.id, strides)
        if placed.dense or (
            producer.executor in STRIDED
            and not needs_dense(placed, [producer])
            and (prod(placed.shape) <= FEW or _is_read_in(placed.strides, producers.get(producer.inputs[0]), lowered))
        ):
            placed_sources[source.id] = placed
    return placed_sources


def _is_read_in(strides: Dims, maker: Step | None, lowered: Lowered) -> bool:
    """Whether a step reads its first input, which ``maker`` makes, with these strides.

    A step that reads and writes many elements in different orders takes longer than a dense one and a copy.
    """
    if maker is None or maker.kind != "StaticTranspose" or not is_view(maker):
        return False
    source = lowered.values[maker.inputs[0]]
    return tuple([source.strides[axis] for axis in axis_order(maker, source)]) == strides


def _writes_dense(step: Step) -> bool:
    """Whether a kernel of the package, which writes dense tensors, computes a step by itself."""
    kernel = of_executor(step.executor)
    return kernel is not None and kernel.add is None


def _place_on_host(op: Op, source: Value, target: Value) -> Place | None:
    if op.kind in HOST_RESHAPES:
        return _reshaped(source, target.shape)
    if op.kind == "Expand":
        added, pairs = len(target.shape) - len(source.shape), zip(source.shape, source.strides, strict=True)
        return Place((0,) * added + tuple([0 if dim == 1 else stride for dim, stride in pairs]), 0)
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    call = Call(base_of(edition(HOST).schemas[op.kind]), op.attrs, types, 1)
    if op.kind == "Slice":
        parts = slices(call)
        assert parts is not None  # a view has known places
        ends = [*zip(parts, source.strides, strict=True)]
        steps = [stride if part.step is None else stride * part.step for part, stride in ends]
        return Place(tuple(steps), sum((part.start or 0) * stride for part, stride in ends))
    assert op.kind == "Transpose"
    order = transposition(call)
    assert order is not None
    return Place(tuple([source.strides[axis] for axis in order]), 0)


def _reshaped(source: Value, shape: Dims) -> Place | None:
    """The place of a value in another shape; None if it needs a dense source."""
    if 0 in shape or source.dense:
        return Place(dense_of(shape), 0)
    # The axes above 1, where those that lie behind each other without a gap are one axis.
    runs: list[tuple[int, int]] = []  # size, and stride of the last axis
    for dim, stride in zip(source.shape, source.strides, strict=True):
        if dim == 1:
            continue
        if runs and runs[-1][1] == dim * stride:
            runs[-1] = runs[-1][0] * dim, stride
        else:
            runs.append((dim, stride))
    strides = list[int]()
    size, inner = 1, 1  # what is left of a run, and the stride of its last axis
    for dim in reversed(shape):
        if dim > 1 and size == 1:
            size, inner = runs.pop()
        strides.append(inner)
        if size % dim:
            return None
        size, inner = size // dim, inner * dim
    return Place(tuple(reversed(strides)), 0)
