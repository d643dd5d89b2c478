"""Computes nodes on sequences and optionals, which exist only while a model is read."""

from __future__ import annotations

import numpy as np

from ....lowering import movement as lowering
from ....lowering.emitter import Value
from ..node import Node, TensorList, Unsettled, lowers


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
    tensors = node.tensors(0)
    return tensors[_place(node, 1, len(tensors))]


@lowers("SequenceInsert")
def insert(node: Node) -> TensorList:
    """A sequence with one more tensor, at the end by default."""
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
    return np.array(len(node.tensors(0)), np.int64)


@lowers("ConcatFromSequence")
def join(node: Node) -> Value:
    """The tensors of a sequence joined along an axis, or along a new one."""
    tensors, axis = node.tensors(0), node.attr("axis")
    if not node.attr("new_axis", 0):
        return lowering.concat(node.emit, tensors, axis)
    return lowering.concat(node.emit, [lowering.unsqueeze(node.emit, one, [axis]) for one in tensors], axis)


@lowers("SplitToSequence")
def split(node: Node) -> TensorList:
    """Parts of a tensor: of given sizes, of one size, or of size 1."""
    src, axis, sizes, shape = node.value(0), node.attr("axis", 0), node.known(1), node.shape()
    dim = None if shape is None else shape[axis]
    if sizes is None or sizes.ndim == 0:
        if dim is None:
            raise Unsettled("the size of the axis is unknown")
        each = 1 if sizes is None else int(sizes)
        parts = [min(each, dim - start) for start in range(0, dim, each)]
    else:
        parts = [int(one) for one in sizes]
    found = lowering.split(node.emit, src, parts, axis)
    if sizes is None and not node.attr("keepdims", 1):
        found = [lowering.squeeze(node.emit, one, [axis]) for one in found]
    return TensorList(found)


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


def _place(node: Node, index: int, count: int, base: int | None = None) -> int:
    """The known position in a sequence that input ``index`` gives; negative counts from the end."""
    (place,) = node.integers(index) or [0]
    base = count if base is None else base
    if not -base <= place < count:
        raise node.invalid(f"position {place}", f"a position in a sequence of {base} tensors")
    return place % base if place < 0 else place
