"""Writes the ops that rearrange elements, and those of the misc category."""

from __future__ import annotations

from typing import Any

from ....errors import UnsupportedError
from ....opset.dtypes import DataType
from ....opset.ops.movement import transposition
from ....opset.schema import Call
from .body import NodeValue
from .table import composes, rank_of, writes

WORD = 2**32 - 1


@writes("Concat")
@writes("host Concat")
def concat(call: Call, *sources: NodeValue) -> NodeValue:
    return sources[0].op("Concat", *sources[1:], axis=call.s64("axis"))


@writes("Reorder")
def reorder(call: Call, src: NodeValue) -> NodeValue:
    return src.op("Identity")


@writes("StaticReshape")
def static_reshape(call: Call, src: NodeValue) -> NodeValue:
    shape, copies = call.s64s("shape"), call.flag("special_zero")
    return src.op("Reshape", src.body.numbers(*shape), allowzero=int(0 in shape and not copies))


@writes("DynamicReshape-1")
def dynamic_reshape(call: Call, src: NodeValue, shape: NodeValue) -> NodeValue:
    return src.op("Reshape", shape.cast(DataType.s64), allowzero=int(not call.flag("special_zero")))


@writes("StaticTranspose", "host Transpose")
def static_transpose(call: Call, src: NodeValue) -> NodeValue:
    order = transposition(call)
    if order == ():
        return src.op("Identity")
    # The op is a node of its own, whatever stands before it, because its result may have a name.
    attrs: dict[str, Any] = {} if order is None else {"perm": order}  # without it the node turns the axes of any rank
    (result,) = src.body.nodes_results("Transpose", [src], [src.dtype], **attrs)
    return result


@writes("DynamicTranspose-1")
def dynamic_transpose(call: Call, src: NodeValue, order: NodeValue) -> NodeValue:
    known = call.value("order")
    if known is None and call.shape("order") != (0,):
        raise UnsupportedError("DynamicTranspose: ONNX has no Transpose whose order is computed")
    rank = rank_of(call, "input")
    axes = tuple(axis % rank for axis in known) if known else tuple(reversed(range(rank)))
    if not axes:
        return src.op("Identity")
    (result,) = src.body.nodes_results("Transpose", [src], [src.dtype], perm=axes)
    return result


@writes("Index-1")
def index(call: Call, src: NodeValue, indices: NodeValue) -> NodeValue:
    return src.op("Gather", indices, axis=0)


@writes("End")
def end(call: Call, src: NodeValue) -> tuple[()]:
    return ()


@composes("GenIndex")
def gen_index(call: Call, src: NodeValue) -> NodeValue:
    body, rank = src.body, rank_of(call, "src")
    axis = call.s64("axis") % rank
    dims = src.dims()
    count = dims.op("Gather", body.scalar(axis, DataType.s64), axis=0)
    numbers = body.scalar(0, DataType.s64).op("Range", count, body.scalar(1, DataType.s64))
    return numbers.reshape(-1, *[1] * (rank - 1 - axis)).op("Expand", dims).cast(DataType.s32)


def _philox(counter: list[NodeValue], key: list[NodeValue]) -> list[NodeValue]:
    """Philox4x32 with ten rounds (Salmon et al., 2011); words stand in uint64."""
    a, b, c, d = counter
    body = a.body
    word = body.scalar(WORD, DataType.uint64)

    def high(value: NodeValue) -> NodeValue:
        return value.op("BitShift", 32, direction="RIGHT")

    for turn in range(10):
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        keys = [
            (start + turn * step).op("BitwiseAnd", word)
            for start, step in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)
        ]
        a, b, c, d = (
            high(right).op("BitwiseXor", b).op("BitwiseXor", keys[0]),
            right.op("BitwiseAnd", word),
            high(left).op("BitwiseXor", d).op("BitwiseXor", keys[1]),
            left.op("BitwiseAnd", word),
        )
    return [a, b, c, d]


@composes("Dropout")
def dropout(
    call: Call, src: NodeValue, seed: NodeValue, offset: NodeValue, probability: NodeValue
) -> tuple[NodeValue, ...]:
    body, wide = src.body, DataType.uint64
    word, scalar_shape = body.scalar(WORD, wide), body.numbers()
    start, shift = (one.op("Reshape", scalar_shape).cast(wide) for one in (seed, offset))
    chance = probability.op("Reshape", scalar_shape)
    count = src.op("Size", dtype=DataType.s64)
    index = body.scalar(0, DataType.s64).op("Range", count, body.scalar(1, DataType.s64)).cast(wide)
    block = index.op("BitwiseAnd", body.scalar(2**64 - 4, wide))
    low, high = block.op("BitwiseAnd", word), block.op("BitShift", 32, direction="RIGHT")
    key = [start.op("BitwiseAnd", word), start.op("BitShift", 32, direction="RIGHT")]
    zeros = index * 0
    # For offset 0 the library uses its older scheme.
    old = _philox([low, low + 1, low, low + 3], [key[0], key[0]])[2]
    first = shift.op("BitwiseAnd", word) + zeros
    new = _philox([first, shift.op("BitShift", 32, direction="RIGHT") + zeros, low, high], key)
    # Words of 32 bits fit s64, for which runtimes have more kernels.
    old, *new = (one.cast(DataType.s64) for one in (old, *new))
    place = index.op("BitwiseAnd", 3)
    drawn = new[3]
    for number in range(3):
        drawn = place.compare("Equal", number).where(new[number], drawn)
    words = shift.compare("Equal", 0).where(old, drawn)
    limit = chance.op("Clip", 0.0, 1.0).cast(DataType.float64) * float(WORD)
    mask = words.cast(DataType.float64).compare("Greater", limit).op("Reshape", src.dims())
    scale = chance.compare("Equal", 1.0).where(0.0, 1.0 / (1.0 - chance))
    return mask.where(src * scale, 0.0), mask.cast(DataType.u8)
