"""Recognizes the scale and the heads of attention, broadcasts, and what exporters write around a masked SoftMax."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ...ir.op import LogicalTensor, Op
from ...opset.kinds import ARITHMETIC
from ...opset.shapes import known, known_dims
from ..elementwise import binary
from ..emitter import Emitter, Value, rank_of
from ..movement import NATIVE, reshape, transpose
from .table import again, either, listed, made, number, operand_of, rewrites


@rewrites("MatMul")
def scaled_product(emit: Emitter, op: Op) -> Value | None:
    """(a * c) @ (b * d) as a @ b / (1 / (c * d)), as the library fuses the scale of attention."""
    if len(op.inputs) > 2 or (op.outputs[0].shape is not None and len(op.outputs[0].shape) < 3):
        return None
    plain: list[LogicalTensor] = []
    factor = 1.0
    for operand in op.inputs:
        turned = made(emit, operand, "StaticTranspose")
        scaled = made(emit, operand if turned is None else turned.inputs[0], "Multiply")
        pairs = () if scaled is None else either(scaled)
        inner = next(
            ((operand_, share) for operand_, second_operand in pairs if (share := number(second_operand))), None
        )
        if inner is None:
            plain.append(operand)
            continue
        order = () if turned is None else [int(str(axis)) for axis in listed(turned.attrs["order"])]
        plain.append(inner[0] if turned is None else emit.tensor(transpose(emit, inner[0], order)))
        factor *= inner[1]
    with np.errstate(over="ignore"):  # 16-bit types have no reciprocals of small numbers
        divisor = np.full(1, 1 / factor, op.outputs[0].dtype.numpy)
    if factor == 1 or np.isinf(divisor).any() or plain[1].value is not None:
        return None
    return binary(emit, "Divide", emit.op("MatMul", plain, op.attrs), divisor)


@rewrites("MatMul")
def two_axes_of_batches(emit: Emitter, op: Op) -> Value | None:
    """Products of which a reshape joined the batches and the heads, on both axes, as the library fuses attention."""
    sources = list[LogicalTensor]()
    heads, of_groups = set[tuple[int, ...]](), set[tuple[int, ...]]()
    for place in range(len(op.inputs)):
        operand = operand_of(op, place)
        narrow, joined = operand.shape, made(emit, operand, "StaticReshape")
        if not known(narrow) or len(narrow) != 3:
            return None
        source = operand if joined is None else operand_of(joined)
        wide = source.shape
        if not known(wide) or len(wide) not in (4, 5) or wide[-2:] != narrow[1:]:
            sources.append(operand)
            continue
        sources.append(source)
        batch, *own = wide[:-2]
        (heads if len(wide) == 4 else of_groups).add((batch, math.prod(own)))
    batch_axes = heads | of_groups
    # Keys that are repeated for the heads of a group have an axis for these. Of queries, the reshape may be elsewhere.
    if len(batch_axes) != 1 or (not of_groups and any(rank_of(source) != 4 for source in sources)):
        return None
    (own_heads,) = batch_axes
    fours = [
        source
        if rank_of(source) == 4
        else emit.tensor(reshape(emit, source, (*own_heads, *known_dims(source.shape)[-2:])))
        for source in sources
    ]
    return reshape(emit, again(emit, op, fours), known_dims(op.outputs[0].shape))


@rewrites(*ARITHMETIC)
def broadcast(emit: Emitter, op: Op) -> Value | None:
    """An op that broadcasts needs no Expand before it."""
    for index, operand in enumerate(op.inputs):
        wide, operand_ = made(emit, operand, "Expand"), operand_of(op, 1 - index)
        if wide is not None and known(operand_.shape) and operand_.shape == op.outputs[0].shape:
            inputs = [operand_of(wide), operand_] if index == 0 else [operand_, operand_of(wide)]
            return binary(emit, op.kind, inputs[0], inputs[1])
    return None


@rewrites("Equal", of_known_dims=True)
def masked_row(emit: Emitter, op: Op) -> Value | None:
    """ReduceMax(x) == -inf: the library's ReduceMax of minus infinities is the least finite number."""
    for largest, operand_ in either(op):
        if made(emit, largest, "ReduceMax") is not None and largest.dtype in NATIVE and number(operand_) == -math.inf:
            limits: Any = ml_dtypes.finfo(largest.dtype.numpy)  # type: ignore[no-untyped-call]
            return binary(emit, "LessEqual", largest, np.full((), limits.min, largest.dtype.numpy))
    return None


@rewrites("Select", "Where", of_known_dims=True)
def replaced_nan(emit: Emitter, op: Op) -> Value | None:
    """Where(IsNaN(x), value, x), which exporters write behind each masked SoftMax."""
    test = made(emit, op.inputs[0], "IsNaN")
    value, src = op.inputs[1], op.inputs[2]
    if test is None or test.inputs[0] is not src or number(value) is None:
        return None
    return emit.op("ReplaceNaN", [src, value])
