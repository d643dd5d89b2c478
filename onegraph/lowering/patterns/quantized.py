"""Moves 8 bits instead of floats: movement between Dequantize and Quantize of the same numbers."""

from __future__ import annotations

import numpy as np

from ...ir.op import Op
from ...opset.dtypes import DataType
from ..emitter import Emitter, Value, numbers
from ..movement import reshape, transpose
from .table import contents, listed, made, operand_of, rewrites


def _same_numbers(first: Op, second: Op) -> bool:
    """Whether a Dequantize and a Quantize have the same single scale and zero point, and 8 bits of one kind."""
    names = ("scales", "zps", "qtype")
    same = all(first.attrs.get(name) == second.attrs.get(name) for name in names)
    return (
        same and first.attrs.get("qtype", "per_tensor") == "per_tensor" and operand_of(first).dtype is _result(second)
    )


def _result(op: Op) -> DataType:
    return op.outputs[0].dtype


@rewrites("Quantize")
def moved_bytes(emit: Emitter, op: Op) -> Value | None:
    """Quantize(Reshape(Dequantize(x))) as a Reshape of x, and likewise for Transpose, Concat and nothing between."""
    plain = made(emit, op.inputs[0], "Dequantize")
    if plain is not None and _same_numbers(plain, op) and contents(plain.inputs[0]) is None:
        return plain.inputs[0]
    move = made(emit, op.inputs[0], "StaticReshape", "StaticTranspose", "Concat")
    makers = [] if move is None else [made(emit, one, "Dequantize") for one in move.inputs]
    if move is None or not all(one is not None and _same_numbers(one, op) for one in makers):
        return None
    sources = [operand_of(one) for one in makers if one is not None]
    if move.kind == "Concat":
        return emit.op("Concat", sources, {"axis": move.attrs["axis"]}, edition="host")
    if move.kind == "StaticTranspose":
        return transpose(emit, sources[0], [int(str(axis)) for axis in listed(move.attrs["order"])])
    shape = move.outputs[0].shape
    if shape is None or sum(dim is None for dim in shape) > 1:
        return None
    return reshape(emit, sources[0], numbers(*[-1 if dim is None else dim for dim in shape]))


@rewrites("StaticTranspose")
def transposed_weights(emit: Emitter, op: Op) -> Value | None:
    """Transpose(Dequantize(weights)) as Dequantize of transposed weights."""
    scaled = made(emit, op.inputs[0], "Dequantize")
    weights = None if scaled is None else contents(scaled.inputs[0])
    if scaled is None or weights is None:
        return None
    order = [int(str(axis)) for axis in listed(op.attrs["order"])]
    attrs = dict(scaled.attrs)
    if attrs.get("qtype") == "per_channel":
        attrs["axis"] = order.index(int(str(attrs.get("axis", 1))) % len(order))
    return emit.op("Dequantize", [np.ascontiguousarray(np.transpose(weights, order))], attrs)
