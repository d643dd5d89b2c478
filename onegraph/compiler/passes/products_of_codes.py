"""Decides which products of codes the library's int8 kernels compute, and which a kernel of the package."""

from __future__ import annotations

from math import prod

from ...capi.settings import has_vnni
from ...faults.use import DEQUANTIZATIONS, MOVES
from ...ir.op import schema_of
from ...opset.dtypes import DataType
from ...opset.editions.registry import base_of
from ..codings import CODES, coding
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..kernels.kernel import refusal
from ..kernels.packed_product import WORTH, PackedProduct


def stays_in_codes(graph: Lowered, step: Step) -> bool:
    """Whether an int8 kernel of the library computes a product.

    Without VNNI, and where it has to dequantize the weights, it reads them slowly for few rows. It dequantizes weights
    of other forms in every run, for any number of rows.
    """
    src, weights = (graph.values[number] for number in step.inputs[:2])
    maker = graph.maker(src.id)
    while maker is not None and maker.kind in MOVES:
        maker = graph.maker(maker.inputs[0])
    if maker is None or maker.kind not in DEQUANTIZATIONS or not _is_by_codes(graph, step):
        return False
    is_rounded = any(each.kind == "Quantize" for each in graph.consumers(step.outputs[0]))
    if is_rounded or (has_vnni() and coding(maker) is not None and _has_one_zero(graph, step)):
        return True
    return bool(refusal(WORTH, PackedProduct(prod(src.shape[:-1]), prod(weights.shape))))


def _is_by_codes(graph: Lowered, step: Step) -> bool:
    """Whether weights are codes of 8 bits with a scale for each column or for all; others, if they are no codes."""
    part, maker = step.part, graph.maker(step.inputs[1])
    # The lowering may have made several steps of an op.
    if part is None or maker is None or base_of(schema_of(maker.op)).kind not in DEQUANTIZATIONS:
        return True
    codes, attrs = maker.op.inputs[0], maker.op.attrs
    assert codes is not None
    if codes.dtype not in CODES or attrs.get("qtype", "per_tensor") == "per_tensor":
        return codes.dtype in CODES
    rank = len(graph.values[codes.id].shape)
    axis, columns = attrs.get("axis", 1), rank - (2 if part.call.flag("transpose_b") else 1)
    return attrs["qtype"] == "per_channel" and int(axis) % rank == columns  # type: ignore[arg-type]


def _has_one_zero(graph: Lowered, step: Step) -> bool:
    """Whether weights are constant codes with one zero point, whose product is f32."""
    maker = graph.maker(step.inputs[1])
    if maker is None or maker.kind != "Dequantize" or graph.values[step.outputs[0]].dtype is not DataType.f32:
        return False
    zeros = maker.attrs.get("zps")
    return graph.values[maker.inputs[0]].constant is not None and (not isinstance(zeros, tuple) or len({*zeros}) <= 1)
