"""Writes the host ops, nearly all of which are nodes of ONNX under another name."""

from __future__ import annotations

from typing import Any

import onnx

from ....errors import UnsupportedError
from ....opset.dtypes import DataType
from ....opset.editions.registry import HOST, edition
from ....opset.host.movement_shapes import reshape_shape
from ....opset.kinds import host_kinds
from ....opset.schema import Call
from ....opset.traits import Trait
from ..own import DOMAIN
from .body import FunctionBody, NodeValue
from .kept import model_of
from .table import known_dims_of, rank_of, result_type, writes

# Ops on single elements that ONNX has under the same name.
_SCHEMAS = edition(HOST).schemas
_SAME = sorted(kind for kind in host_kinds(Trait.POINTWISE) if onnx.defs.has(kind) and not _SCHEMAS[kind].attributes)
# Kind of the op -> kind of the node; the inputs are the same.
PLAIN = {
    **{kind: kind for kind in (*_SAME, "Expand", "Tile", "Shape", "Size", "NonZero")},
    "Negative": "Neg",
    "Subtract": "Sub",
    "Multiply": "Mul",
    "Divide": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual",
}
INDEXING = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")
SIGNED = {
    DataType.int16: DataType.uint16,
    DataType.s8: DataType.u8,
    DataType.s32: DataType.uint32,
    DataType.s64: DataType.uint64,
}


def _kind(call: Call) -> str:
    return call.schema.kind.removeprefix("host ")


@writes(*(f"host {kind}" for kind in PLAIN))
def plain(call: Call, *sources: NodeValue) -> NodeValue:
    return sources[0].op(PLAIN[_kind(call)], *sources[1:], dtype=call.output_type(0))


@writes(*(f"host {kind}" for kind in INDEXING))
def indexing(call: Call, *sources: NodeValue) -> NodeValue:
    attrs: dict[str, Any] = {attribute.name: call.attr(attribute.name) for attribute in call.schema.attributes}
    return sources[0].op(_kind(call), *sources[1:], **attrs)


@writes("host WeightedGather")
def weighted_gather(call: Call, src: NodeValue, indices: NodeValue, weights: NodeValue) -> NodeValue:
    """The weighted elements are added up along a further axis."""
    rank, body = rank_of(call, "src"), src.body
    axis = call.s64("axis") % rank
    zero, inner = body.scalar(0, DataType.s64), [*range(2, rank - axis + 1)]
    at = indices.cast(DataType.s64)
    elements = src.op("Gather", at.op("Max", zero), axis=axis)
    added, factors = at.op("GreaterOrEqual", zero, dtype=DataType.boolean), weights
    if inner:
        axes = body.numbers(*inner)
        added, factors = added.op("Unsqueeze", axes), factors.op("Unsqueeze", axes)
    terms = added.op("Where", elements.op("Mul", factors), body.scalar(0, src.dtype), dtype=src.dtype)
    return terms.op("ReduceSum", body.numbers(axis + 1), keepdims=0)


@writes("host Mod")
def mod(call: Call, first: NodeValue, second: NodeValue) -> NodeValue:
    if call.flag("truncate"):
        return first.op("Mod", second, fmod=1)
    if first.dtype.numpy.kind in "iu":
        return first.op("Mod", second)
    remainder = first.op("Mod", second, fmod=1)  # the node takes floats in this form alone
    apart = remainder.compare("Less", 0.0).compare("Xor", second.compare("Less", 0.0))
    moved = apart.compare("And", remainder.compare("Equal", 0.0).op("Not"))
    return moved.where(remainder + second, remainder)


@writes("host SumTo")
def sum_to(call: Call, src: NodeValue, shape: NodeValue) -> NodeValue:
    """A sum over the axes whose size differs from that in the shape, which gets ones in front."""
    rank, length = call.rank("src"), (call.shape("shape") or (None,))[0]
    if rank is None or length is None:
        raise UnsupportedError("SumTo: the rank of src or the length of shape is unknown; expected known ones")
    count = rank - length
    whole = src.body.numbers(*[1] * count).op("Concat", shape, axis=0) if count else shape
    apart = whole.compare("Equal", src.dims()).op("Not")
    axes = apart.op("NonZero", dtype=DataType.s64).reshape(-1)
    total = src.op("ReduceSum", axes, keepdims=1, noop_with_empty_axes=1)
    return total.op("Reshape", shape) if count else total


def _shifted(call: Call, first: NodeValue, second: NodeValue, direction: str) -> NodeValue:
    dtype = first.dtype
    if dtype not in SIGNED:
        return first.op("BitShift", second, direction=direction)
    wide = SIGNED[dtype]
    bits = first.cast(wide).op("BitShift", second.cast(wide), direction=direction).cast(dtype)
    if direction == "LEFT":
        return bits
    # The node shifts unsigned numbers alone; ~(~x >> n) is x >> n of a negative number.
    inverse = first.op("BitwiseNot").cast(wide).op("BitShift", second.cast(wide), direction=direction)
    return first.compare("Less", 0).where(inverse.cast(dtype).op("BitwiseNot"), bits)


@writes("host ShiftLeft")
def shift_left(call: Call, first: NodeValue, second: NodeValue) -> NodeValue:
    return _shifted(call, first, second, "LEFT")


@writes("host ShiftRight")
def shift_right(call: Call, first: NodeValue, second: NodeValue) -> NodeValue:
    return _shifted(call, first, second, "RIGHT")


@writes("host Cast")
def cast(call: Call, src: NodeValue) -> NodeValue:
    wanted = result_type(call)
    is_f8 = wanted.value.startswith(("f8", "float8"))
    return src.cast(wanted, saturate=int(call.flag("saturate"))) if is_f8 else src.cast(wanted)


@writes("host IsInf")
def is_inf(call: Call, src: NodeValue) -> NodeValue:
    attrs = {name: int(call.flag(name)) for name in ("detect_negative", "detect_positive")}
    return src.op("IsInf", dtype=DataType.boolean, **attrs)


@writes("host ReplaceNaN")
def replace_nan(call: Call, src: NodeValue, value: NodeValue) -> NodeValue:
    return src.op("IsNaN", dtype=DataType.boolean).where(value, src)


@writes("host Reshape")
def reshape(call: Call, src: NodeValue, shape: NodeValue) -> NodeValue:
    known = call.value("shape")
    if known is not None and 0 in known and -1 in known:  # with allowzero a shape may not have both
        shape = src.body.numbers(*known_dims_of(call, reshape_shape(call)[0], "dst"))
    return src.op("Reshape", shape, allowzero=int(known is None or 0 in known))


@writes("host Squeeze", "host Unsqueeze")
def squeeze(call: Call, src: NodeValue) -> NodeValue:
    return src.op(_kind(call), src.body.numbers(*call.s64s("axes")))


@writes("host Slice")
def slice_(
    call: Call,
    src: NodeValue,
    starts: NodeValue,
    ends: NodeValue,
    axes: NodeValue | None = None,
    steps: NodeValue | None = None,
) -> NodeValue:
    return src.op("Slice", starts, ends, axes, steps)


@writes("host Pad")
def pad(call: Call, src: NodeValue, pads: NodeValue, value: NodeValue | None = None) -> NodeValue:
    number = None if value is None else value.op("Reshape", src.body.numbers())
    return src.op("Pad", pads, number, mode=call.string("mode"))


@writes("host Triangle")
def triangle(call: Call, src: NodeValue) -> NodeValue:
    offset = src.body.scalar(call.s64("offset"), DataType.s64)
    return src.op("Trilu", offset, upper=int(call.flag("upper")))


@writes("host OneHot")
def one_hot(call: Call, indices: NodeValue, depth: NodeValue, values: NodeValue) -> NodeValue:
    return indices.op("OneHot", depth, values, dtype=values.dtype, axis=call.s64("axis"))


@writes("host ArgMax", "host ArgMin")
def arg(call: Call, src: NodeValue) -> NodeValue:
    attrs = {
        "axis": call.s64("axis"),
        "keepdims": int(call.flag("keep_dims")),
        "select_last_index": int(call.flag("last")),
    }
    return src.op(_kind(call), dtype=DataType.s64, **attrs)


@writes("host TopK")
def top_k(call: Call, src: NodeValue, k: NodeValue) -> tuple[NodeValue, ...]:
    attrs = {"axis": call.s64("axis"), "largest": int(call.flag("largest")), "sorted": 1}
    count = k.op("Reshape", src.body.numbers(1))
    return src.body.nodes_results("TopK", [src, count], [src.dtype, DataType.s64], "", **attrs)


@writes("host CumSum", "host CumProd")
def running(call: Call, src: NodeValue) -> NodeValue:
    axis = src.body.scalar(call.s64("axis"), DataType.s64)
    return src.op(_kind(call), axis, exclusive=int(call.flag("exclusive")), reverse=int(call.flag("reverse")))


@writes("host Range")
def range_(call: Call, *ends: NodeValue) -> NodeValue:
    first, *bounds = (end.op("Reshape", end.body.numbers()) for end in ends)
    return first.op("Range", *bounds)


@writes("host OnnxNode")
def onnx_node(call: Call, *sources: NodeValue, body: FunctionBody) -> tuple[NodeValue, ...]:
    """The model as a function; functions that it has are added too."""
    return body.nodes_results(body.functions.of_model(model_of(call)), sources, call.output_types, DOMAIN)
