"""Computes nodes on sequences and optionals, which exist only while a model is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....lowering import movement as lowering
from ....lowering.emitter import Value
from ..node import GrowingList, Node, NotLowered, StackedList, TensorList, Unsettled, lowers


@lowers("SequenceConstruct")
def construct(node: Node) -> TensorList:
    """A sequence of the inputs."""
    return TensorList([node.value(index) for index in range(len(node))])


@lowers("SequenceEmpty")
def empty(node: Node) -> TensorList:
    """A sequence without tensors."""
    del node
    return TensorList()


@lowers("SequenceAt")
def at(node: Node) -> Value:
    """One tensor of a sequence."""
    sequence = node.any(0)
    place = node.value(1)
    if isinstance(sequence, TensorList) and sequence and not isinstance(place, np.ndarray):
        sequence = StackedList(_stack(node, sequence))
    if isinstance(sequence, StackedList):
        return node.emit.op("Gather", [sequence.stack, place], {"axis": 0})
    tensors = node.tensors(0)
    return tensors[_place(node, 1, len(tensors))]


@lowers("SequenceInsert")
def insert(node: Node) -> object:
    """A sequence with one more tensor, at the end by default."""
    sequence = node.any(0)
    if isinstance(sequence, (StackedList, GrowingList)) and node.optional(2) is not None:
        raise NotLowered("a place in a sequence whose length is not known before the graph runs")
    if isinstance(sequence, GrowingList):
        return sequence._replace(added=(*sequence.added, node.value(1)))
    if isinstance(sequence, StackedList):
        return joined(node, [sequence, TensorList([node.value(1)])])
    tensors = node.tensors(0)
    place = len(tensors) if node.optional(2) is None else _place(node, 2, len(tensors) + 1, len(tensors))
    return TensorList([*tensors[:place], node.value(1), *tensors[place:]])


@lowers("SequenceErase")
def erase(node: Node) -> TensorList:
    """A sequence without one of its tensors, the last one by default."""
    tensors = node.tensors(0)
    place = len(tensors) - 1 if node.optional(1) is None else _place(node, 1, len(tensors))
    return TensorList([*tensors[:place], *tensors[place + 1 :]])


@lowers("SequenceLength")
def length(node: Node) -> Value:
    """The number of tensors."""
    sequence = node.any(0)
    if isinstance(sequence, StackedList):
        dims = lowering.dims_of(node.emit, sequence.stack)
        return node.emit.op("Gather", [dims, np.array(0)], {"axis": 0})
    return np.array(len(node.tensors(0)), np.int64)


@lowers("ConcatFromSequence")
def join(node: Node) -> Value:
    """The tensors of a sequence joined along an axis, or along a new one."""
    axis, sequence = node.attr("axis"), node.any(0)
    if isinstance(sequence, StackedList):
        return _along(node, sequence.stack, axis, bool(node.attr("new_axis", 0)))
    tensors = node.tensors(0)
    if not node.attr("new_axis", 0):
        return lowering.concat(node.emit, tensors, axis)
    return lowering.concat(node.emit, [lowering.unsqueeze(node.emit, tensor, [axis]) for tensor in tensors], axis)


@lowers("SplitToSequence")
def split(node: Node) -> object:
    """Parts of a tensor: of given sizes, of one size, or of size 1."""
    src, axis, sizes, shape = node.value(0), node.attr("axis", 0), node.known(1), node.shape()
    if shape is not None and shape[axis] is None and (sizes is None or (sizes.ndim == 0 and sizes == 1)):
        axis %= len(shape)
        stack = lowering.transpose(node.emit, src, [axis, *[one for one in range(len(shape)) if one != axis]])
        is_kept = sizes is not None or node.attr("keepdims", 1)
        return StackedList(lowering.unsqueeze(node.emit, stack, [axis + 1]) if is_kept else stack)
    dim = None if shape is None else shape[axis]
    if sizes is None or sizes.ndim == 0:
        if dim is None:
            raise Unsettled("the size of the axis is unknown")
        length = 1 if sizes is None else int(sizes)
        parts = [min(length, dim - start) for start in range(0, dim, length)]
    else:
        parts = [int(size) for size in sizes]
    pieces = lowering.split(node.emit, src, parts, axis)
    if sizes is None and not node.attr("keepdims", 1):
        pieces = [lowering.squeeze(node.emit, one, [axis]) for one in pieces]
    return TensorList(pieces)


@lowers("Optional")
def optional(node: Node) -> object:
    """The input as it is: None stands for an absent value."""
    return node.any(0)


@lowers("OptionalHasElement")
def has_element(node: Node) -> Value:
    """Whether there is a value."""
    return np.array(node.any(0) is not None)


@lowers("OptionalGetElement")
def get_element(node: Node) -> object:
    """The value, which must be there."""
    return node.present(0)


def joined(node: Node, parts: Sequence[TensorList | StackedList]) -> StackedList:
    """Sequences behind one another, whose tensors have one shape."""
    stacks = [part.stack if isinstance(part, StackedList) else _stack(node, part) for part in parts if part]
    return StackedList(lowering.concat(node.emit, stacks, 0) if len(stacks) > 1 else stacks[0])


def _stack(node: Node, tensors: Sequence[Value]) -> Value:
    """Tensors of one shape along a new first axis."""
    shapes = {tensor.shape for tensor in tensors}
    if len(shapes) > 1 or None in shapes:
        raise NotLowered("tensors of several shapes, in a sequence whose length is not known before the graph runs")
    return lowering.concat(node.emit, [lowering.unsqueeze(node.emit, tensor, [0]) for tensor in tensors], 0)


def _along(node: Node, stack: Value, axis: int, is_new: bool) -> Value:
    """The tensors of a stack along an axis, or along a new one."""
    if stack.shape is None:
        raise Unsettled("the rank of the tensors of a sequence is unknown")
    rank = len(stack.shape) - 1
    place = axis % (rank + 1) if is_new else axis % rank
    order = [*range(1, place + 1), 0, *range(place + 1, rank + 1)]
    moved = lowering.transpose(node.emit, stack, order)
    if is_new:
        return moved
    dims = [stack.shape[one + 1] for one in range(rank)]
    rest_dims = dims[:place] + dims[place + 1 :]
    if dims[place] == 1:
        return lowering.squeeze(node.emit, moved, [place + 1])
    if None in rest_dims or dims[place] == 0 or 0 in rest_dims:
        raise Unsettled("the shape of the tensors of a sequence is unknown")
    return lowering.reshape(node.emit, moved, np.array([*dims[:place], -1, *dims[place + 1 :]], np.int64))


def _place(node: Node, index: int, count: int, base: int | None = None) -> int:
    """The known position in a sequence that input ``index`` gives; negative counts from the end."""
    (place,) = node.integers(index) or [0]
    base = count if base is None else base
    if not -base <= place < count:
        raise node.invalid(f"position {place}", f"a position in a sequence of {base} tensors")
    return place % base if place < 0 else place
