"""Recognizes rotary embeddings as exporters spell them out: a product by cosines and one of turned halves by sines."""

from __future__ import annotations

from ...ir.op import LogicalTensor, Op
from ..emitter import Emitter, Value
from ..movement import NATIVE
from ..rotary import rotated
from .table import contents, either, made, number, rewrites


@rewrites("Add", of_known_dims=True)
def spelled_out(emit: Emitter, op: Op) -> Value | None:
    """src * cos + concat(-second half of src, first half) * sin, of the last axis of (batch, heads, tokens, size)."""
    dst = op.outputs[0]
    if dst.shape is None or len(dst.shape) != 4 or dst.dtype not in NATIVE:
        return None
    for plain, turned in either(op):
        first, second = made(emit, plain, "Multiply"), made(emit, turned, "Multiply")
        if first is None or second is None:
            continue
        for halves, sin in either(second):
            src = _source(emit, halves)
            cos = next((operand_ for value, operand_ in either(first) if src is not None and value.id == src.id), None)
            if src is not None and cos is not None and _fit(src, cos, sin):
                return rotated(emit, src, cos, sin, whole=True)
    return None


def _source(emit: Emitter, value: LogicalTensor) -> LogicalTensor | None:
    """The tensor of whose last axis the value has the second half, negative, and the first half."""
    concat = made(emit, value, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.attrs.get("axis") not in (-1, 3):
        return None
    negative, half = concat.inputs
    second, first = _part(emit, _negated(emit, negative)), _part(emit, half)
    if first is None or second is None or first[0].id != second[0].id:
        return None
    src, size = first[0], (first[0].shape or (None,))[-1]
    if size is None or size % 2 or first[1:] != (0, size // 2) or second[1:] != (size // 2, size):
        return None
    return src


def _negated(emit: Emitter, value: LogicalTensor | None) -> LogicalTensor | None:
    """What a value is the negative of; None for others."""
    op = made(emit, value, "Negative")
    if op is not None:
        return op.inputs[0]
    op = made(emit, value, "Multiply")
    if op is None:
        return None
    return next((operand_ for factor, operand_ in either(op) if number(factor) == -1), None)


def _part(emit: Emitter, value: LogicalTensor | None) -> tuple[LogicalTensor, int, int] | None:
    """The tensor of whose last axis a value is a part, and where the part begins and ends."""
    op = made(emit, value, "Slice")
    src = None if op is None else op.inputs[0]
    if op is None or src is None or src.shape is None or src.shape[-1] is None:
        return None
    constants = [contents(input_) for input_ in op.inputs[1:]]
    if len(constants) < 3 or any(array is None or array.size != 1 for array in constants):
        return None
    start, end, axis, *step = (int(array.reshape(-1)[0]) for array in constants if array is not None)
    if axis not in (-1, len(src.shape) - 1) or step not in ([], [1]):
        return None
    begin, last, _ = slice(start, end).indices(src.shape[-1])
    return src, begin, last


def _fit(src: LogicalTensor, cos: LogicalTensor, sin: LogicalTensor) -> bool:
    """Whether cos and sin are angles (batch or 1, heads or 1, tokens or 1, size) of a source of known sizes."""
    shape = src.shape
    if shape is None or len(shape) != 4 or cos.shape != sin.shape or cos.shape is None or len(cos.shape) != 4:
        return False
    if cos.dtype is not src.dtype or sin.dtype is not src.dtype or cos.shape[-1] != shape[-1]:
        return False
    pairs = zip(cos.shape[:3], shape[:3], strict=True)
    return all(dim == 1 or (dim is not None and dim == size) for dim, size in pairs)
