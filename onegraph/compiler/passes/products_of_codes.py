"""Decides which products of codes the library's int8 kernels compute, and which a kernel of the package."""

from __future__ import annotations

from math import prod

from ...capi.settings import has_vnni
from ...faults.use import DEQUANTIZATIONS, MOVES
from ...opset.dtypes import DataType
from ..codings import coding
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..kernels.kernel import refusal
from ..kernels.packed_product import WORTH, PackedProduct


def stays_in_codes(graph: Lowered, step: Step) -> bool:
    """Whether an int8 kernel of the library computes a product.

    Without VNNI, and where it has to dequantize the weights, it reads them slowly for few rows.
    """
    src, weights = (graph.values[number] for number in step.inputs[:2])
    maker = graph.maker(src.id)
    while maker is not None and maker.kind in MOVES:
        maker = graph.maker(maker.inputs[0])
    if maker is None or maker.kind not in DEQUANTIZATIONS:
        return False
    is_rounded = any(each.kind == "Quantize" for each in graph.consumers(step.outputs[0]))
    if is_rounded or (has_vnni() and coding(maker) is not None and _is_by_s8(graph, step)):
        return True
    return bool(refusal(WORTH, PackedProduct(prod(src.shape[:-1]), prod(weights.shape))))


def _is_by_s8(graph: Lowered, step: Step) -> bool:
    """Whether weights are constant codes of s8 without zero points, with a scale for each column or for all."""
    part, values, maker = step.part, graph.values, graph.maker(step.inputs[1])
    if part is None or maker is None or maker.kind != "Dequantize" or values[step.outputs[0]].dtype is not DataType.f32:
        return False
    codes, zeros = values[maker.inputs[0]], maker.attrs.get("zps")
    if codes.dtype is not DataType.s8 or codes.constant is None or (isinstance(zeros, tuple) and any(zeros)):
        return False
    axis, columns = maker.attrs.get("axis", 1), len(codes.shape) - (2 if part.call.flag("transpose_b") else 1)
    is_whole = maker.attrs.get("qtype", "per_tensor") == "per_tensor"
    return is_whole or (isinstance(axis, int) and axis % len(codes.shape) == columns)
