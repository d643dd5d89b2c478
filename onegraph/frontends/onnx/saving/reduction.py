"""Writes reductions and matrix products."""

from __future__ import annotations

from ....opset.dtypes import DataType
from ....opset.kinds import REDUCTIONS
from ....opset.ops.reduction import reduced_axes
from ....opset.schema import Call
from .body import NodeValue
from .quantization import coded_bias
from .table import rank_of, result_type, writes

OVER_NOTHING = {"ReduceL1": "Abs", "ReduceL2": "Abs"}


@writes(*REDUCTIONS)
@writes(*(f"host {kind}" for kind in REDUCTIONS if not kind.startswith("ReduceL")))
def reduction(call: Call, src: NodeValue, axes: NodeValue | None = None) -> NodeValue:
    kind = call.schema.kind.removeprefix("host ")
    known = reduced_axes(call)
    keep = int(call.flag("keep_dims"))
    if known == ():
        return src.op(OVER_NOTHING.get(kind, "Identity"))
    over = axes
    if known is not None:
        over = src.body.numbers(*known)
    elif axes is not None:
        over = axes.cast(DataType.s64)
    else:
        rank_of(call, "src")
    return src.op(kind, over, keepdims=keep, noop_with_empty_axes=1)


@writes("MatMul", "host MatMul")
def matmul(call: Call, src: NodeValue, weights: NodeValue, bias: NodeValue | None = None) -> NodeValue:
    wanted = result_type(call)
    src, weights = src.cast(wanted), weights.cast(wanted)
    ranks = rank_of(call, "src"), rank_of(call, "weights")
    turns = [call.flag(name) and rank > 1 for name, rank in zip(("transpose_a", "transpose_b"), ranks, strict=True)]
    if ranks == (2, 2) and (any(turns) or bias is not None) and wanted.value[0] not in "su":
        added = coded_bias(None if bias is None else bias.cast(wanted), src, weights)
        return src.op("Gemm", weights, added, transA=int(turns[0]), transB=int(turns[1]))
    if 1 in ranks and any(
        turns
    ):  # a vector times a transposed matrix; ONNX Runtime reads a vector behind Transpose wrong
        src, weights, ranks, turns = weights, src, ranks[::-1], [False, False]
    operands = [
        value.transpose((*range(rank - 2), rank - 1, rank - 2)) if turn else value
        for value, rank, turn in zip((src, weights), ranks, turns, strict=True)
    ]
    product = operands[0].op("MatMul", operands[1])
    return product if bias is None else product + bias.cast(wanted)
