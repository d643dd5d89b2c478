"""Lowers nodes that rearrange elements."""

from __future__ import annotations

import numpy as np

from ....errors import ArgumentError
from ....lowering import movement as lowering
from ....lowering.computed import refuse_large
from ....lowering.elementwise import select
from ....lowering.emitter import Array, Value, numbers
from ....opset.dtypes import OF_NUMPY
from ..node import Node, NotLowered, Unsettled, lowers


@lowers("Reshape")
def reshape(node: Node) -> Value:
    """Another shape; a 0 copies the dim of src unless the attribute allowzero is set."""
    src, shape = node.value(0), node.value(1)
    if isinstance(shape, np.ndarray):
        dims, known = [int(dim) for dim in shape.tolist()], node.shape(0)
        if not node.attr("allowzero", 0) and 0 in dims:
            for place, dim in enumerate(dims):
                if dim == 0 and (known is None or place >= len(known) or known[place] is None):
                    return _copying_dims(node, src, dims)
            dims = [known[place] if dim == 0 else dim for place, dim in enumerate(dims)]
        if 0 in dims and -1 in dims:
            raise NotLowered("a dim of -1 beside one of 0")
        shape = np.array(dims, np.int64)
    elif not node.attr("allowzero", 0):
        shape = _with_copied_dims(node, src, shape)
    return lowering.reshape(node.emit, src, shape)


def _with_copied_dims(node: Node, src: Value, shape: Value) -> Value:
    """A shape that is a tensor, with the dims of src in the place of each 0."""
    rank, count = node.rank(), None if shape.shape is None else shape.shape[0]
    if count is None:
        raise Unsettled("the rank of the result is unknown")
    dims = lowering.slice_(node.emit, lowering.dims_of(node.emit, src), [0], [min(rank, count)], [0])
    if count > rank:
        dims = lowering.concat(node.emit, [dims, np.ones(count - rank, np.int64)], 0)
    return select(node.emit, node.emit.op("Equal", [shape, numbers(0)]), dims, shape)


def _copying_dims(node: Node, src: Value, dims: list[int]) -> Value:
    """A reshape that copies dims of src that are unknown now."""
    if node.dtype() in lowering.NATIVE:
        return node.emit.op("StaticReshape", [src], {"shape": dims, "special_zero": True})
    have = node.emit.op("Shape", [src])
    parts = [
        lowering.slice_(node.emit, have, [at], [at + 1], [0]) if dim == 0 else numbers(dim)
        for at, dim in enumerate(dims)
    ]
    return lowering.reshape(node.emit, src, lowering.concat(node.emit, parts, 0))


@lowers("Transpose")
def transpose(node: Node) -> Value:
    """Another order of the axes, the reverse one by default."""
    return lowering.transpose(node.emit, node.value(0), node.attr("perm", [*reversed(range(node.rank()))]))


@lowers("Flatten")
def flatten(node: Node) -> Value:
    """A matrix."""
    return lowering.flatten(node.emit, node.value(0), node.attr("axis", 1))


@lowers("Squeeze")
def squeeze(node: Node) -> Value:
    """Without axes of size 1."""
    axes = node.integers(1)
    if axes is None:
        axes = [axis for axis, dim in enumerate(node.whole_shape()) if dim == 1]
    return lowering.squeeze(node.emit, node.value(0), axes)


@lowers("Unsqueeze")
def unsqueeze(node: Node) -> Value:
    """With further axes of size 1."""
    return lowering.unsqueeze(node.emit, node.value(0), node.integers(1) or [])


@lowers("Slice")
def slice_(node: Node) -> Value:
    """Part of a tensor."""
    return lowering.slice_(node.emit, *[node.optional(index) for index in range(max(len(node), 3))])  # type: ignore[arg-type]


@lowers("Split")
def split(node: Node) -> tuple[Value, ...]:
    """Parts of a tensor."""
    axis, sizes = node.attr("axis", 0), node.integers(1)
    if sizes is None:
        dim, n_outputs = node.dims()[axis], len(node.proto.output)
        count = node.attr("num_outputs", n_outputs)
        if count != n_outputs:  # the shape inference of the package onnx reads beside its memory then
            raise ArgumentError(f"num_outputs: {count}; expected {n_outputs}, the number of outputs")
        if dim is None:
            raise Unsettled("the size of the axis is unknown")
        size = -(-dim // count)
        sizes = [max(min(size, dim - size * place), 0) for place in range(count)]
    return tuple(lowering.split(node.emit, node.value(0), sizes, axis))


@lowers("Concat")
def concat(node: Node) -> Value:
    """Tensors joined along an axis."""
    return lowering.concat(node.emit, node.inputs, node.attr("axis", 0))


@lowers("Expand")
def expand(node: Node) -> Value:
    """A tensor broadcast with a shape."""
    return lowering.expand(node.emit, node.value(0), node.value(1))


@lowers("Tile")
def tile(node: Node) -> Value:
    """A tensor repeated along each axis."""
    return node.emit.op("Tile", [node.value(0), node.value(1)])


@lowers("Pad")
def pad(node: Node) -> Value:
    """A tensor with elements around it."""
    src, mode, rank = node.value(0), node.attr("mode", "constant"), node.rank()
    pads, axes = node.value(1), node.integers(3)
    if axes is not None:
        known = pads if isinstance(pads, np.ndarray) else None
        if known is None:
            raise Unsettled("the padding of some of the axes is unknown", [1])
        whole = np.zeros((2, rank), np.int64)
        whole[:, [axis % rank for axis in axes]] = known.reshape(2, -1)
        pads = whole.reshape(-1)
    if isinstance(pads, np.ndarray) and not pads.any():
        return src
    value = node.optional(2)
    inputs = [src, pads] if value is None or mode != "constant" else [src, pads, value]
    return node.emit.op("Pad", inputs, {"mode": mode})


@lowers("Shape")
def shape(node: Node) -> Value:
    """The dims, or some of them."""
    dims = lowering.dims_of(node.emit, node.value(0))
    start, end = node.attr("start", 0), node.attr("end")
    if start == 0 and end is None:
        return dims
    if isinstance(dims, np.ndarray):
        part: Array = dims[start:end]
        return part
    known = node.shape()
    if known is not None and None not in known[start:end]:
        return numbers(*known[start:end])
    return lowering.slice_(node.emit, dims, [start], [node.rank() if end is None else end], [0])


@lowers("Size")
def size(node: Node) -> Value:
    """The number of elements."""
    known = node.shape()
    if known is not None and None not in known:
        return np.array(int(np.prod(known, dtype=np.int64)), np.int64)
    return node.emit.op("Size", [node.value(0)])


@lowers("ConstantOfShape")
def constant_of_shape(node: Node) -> Value:
    """One number everywhere."""
    value = node.attr("value")
    number = np.zeros(1, np.float32) if value is None else _array(node, value)
    shape = node.value(0)
    if isinstance(shape, np.ndarray):
        refuse_large(tuple(shape.tolist()), OF_NUMPY[number.dtype])
        return np.full(shape.tolist(), number.reshape(-1)[0], number.dtype)
    return node.emit.op("Expand", [number.reshape(()), shape])


@lowers("Constant")
def constant(node: Node) -> Value:
    """A known array."""
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if node.has(name):
            return np.array(node.attr(name), dtype)
    if not node.has("value"):
        raise NotLowered("a constant that is not a dense tensor of numbers")
    return _array(node, node.attr("value"))


def _array(node: Node, tensor: object) -> Array:
    return node.importer.array(tensor, node.where)  # type: ignore[no-any-return]


@lowers("DepthToSpace")
def depth_to_space(node: Node) -> Value:
    """Channels moved to blocks of pixels."""
    batch, channels, height, width = _known(node)
    block = node.attr("blocksize")
    inner = channels // block**2
    if node.attr("mode", "DCR") == "DCR":
        split_, order = (batch, block, block, inner, height, width), (0, 3, 4, 1, 5, 2)
    else:
        split_, order = (batch, inner, block, block, height, width), (0, 1, 4, 2, 5, 3)
    parts = lowering.transpose(node.emit, lowering.reshape(node.emit, node.value(0), split_), order)
    return lowering.reshape(node.emit, parts, (batch, inner, height * block, width * block))


@lowers("SpaceToDepth")
def space_to_depth(node: Node) -> Value:
    """Blocks of pixels moved to channels."""
    batch, channels, height, width = _known(node)
    block = node.attr("blocksize")
    split_ = (batch, channels, height // block, block, width // block, block)
    order = (0, 3, 5, 1, 2, 4) if node.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = lowering.transpose(node.emit, lowering.reshape(node.emit, node.value(0), split_), order)
    return lowering.reshape(node.emit, parts, (batch, channels * block**2, height // block, width // block))


def _known(node: Node) -> tuple[int, int, int, int]:
    shape = node.dims()
    if None in shape[1:]:
        raise Unsettled("the shape is unknown")
    batch, channels, height, width = (-1 if dim is None else dim for dim in shape)
    return batch, channels, height, width
