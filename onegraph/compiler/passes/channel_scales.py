"""Gives scales of the channels of a result to the weights of the convolution that makes it.

In front of a depthwise convolution, a model may quantize each channel with a scale of its own. The library has no
convolution that writes such codes. The weights and the bias divided by the scales give the same codes with a scale of
1, and a ReLU or Clamp whose limits are those of the codes needs no step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...opset.dtypes import DataType
from ...opset.signature import AttrValue
from ..codings import LIMITS
from ..ir.edit import Edit
from ..ir.step import Step
from ..options import Options

NOTE = "the weights have the scales of the codes of each channel"


def fold_scales(edit: Edit, _: Options) -> None:
    """Quantize with one scale where a convolution of known codes makes the numbers."""
    for step in edit.graph.steps:
        if step.executor == "library" and step.kind == "Quantize" and step.attrs.get("qtype") == "per_channel":
            _fold(edit, step)


def _fold(edit: Edit, step: Step) -> None:
    scales, zeros = _listed(step, "scales"), {*_listed(step, "zps").tolist()}
    chain = _chain(edit, step, scales, zeros)
    if not chain:
        return
    product, *following = chain
    weights = edit.graph.maker(product.inputs[1])
    assert weights is not None
    own, rank = _listed(weights, "scales"), len(edit.graph.values[weights.inputs[0]].shape)
    zps = _listed(weights, "zps")
    points = tuple(np.broadcast_to(zps if zps.size else 0, scales.size).astype(int).tolist())
    channels = _channels_of(product, rank)
    attrs: Mapping[str, AttrValue] = {
        "qtype": "per_channel",
        "axis": channels,
        "scales": tuple((own / scales).astype(np.float32).tolist()),
        "zps": points,
    }
    edit.replace(
        weights, edit.library_step(weights, "Dequantize", weights.inputs, weights.outputs, attrs, weights.note)
    )
    inputs = product.inputs
    if len(inputs) > 2:
        bias = edit.graph.values[inputs[2]]
        assert bias.constant is not None
        moved = (bias.constant.astype(np.float64) / scales).astype(np.float32)
        inputs = (*inputs[:2], edit.constant(moved, f"{bias.name} (scaled)"))
    result = (following[-1] if following else product).outputs
    for member in following:
        edit.replace(member)
    edit.replace(product, edit.library_step(product, product.kind, inputs, result, product.attrs, product.note))
    attrs = {"qtype": "per_tensor", "scales": (1.0,), "zps": tuple(map(int, zeros))}
    edit.replace(step, edit.library_step(step, "Quantize", step.inputs, step.outputs, attrs, NOTE))


def _chain(edit: Edit, step: Step, scales: Any, zeros: set[float]) -> list[Step]:
    """The convolution in front of a Quantize, and a limit between them that the codes have too; else nothing."""
    graph, chain = edit.graph, list[Step]()
    low, high = LIMITS.get(graph.values[step.outputs[0]].dtype, (0, 0))
    maker = graph.maker(step.inputs[0])
    if len(zeros) > 1 or low == high or not (scales > 0).all():
        return []
    (zero,) = zeros
    if maker is not None and maker.kind in ("ReLU", "Clamp") and graph.only_consumer(maker.outputs[0]) is step:
        ends = np.array([0.0, np.inf] if maker.kind == "ReLU" else [maker.attrs["min"], maker.attrs["max"]], np.float64)
        if (ends[0] / scales > low - zero).any() or (ends[1] / scales < high - zero).any():
            return []
        chain.append(maker)
        maker = graph.maker(maker.inputs[0])
    reader = chain[0] if chain else step
    if maker is None or maker.kind != "Convolution" or graph.only_consumer(maker.outputs[0]) is not reader:
        return []
    return [maker, *chain] if _is_of_codes(edit, maker, step) else []


def _is_of_codes(edit: Edit, product: Step, step: Step) -> bool:
    """Whether the weights of a convolution are known codes that no other step reads, and its bias is known."""
    graph, part = edit.graph, product.library_part
    weights = graph.maker(product.inputs[1])
    if part is None or weights is None or weights.kind != "Dequantize" or weights.executor != "library":
        return False
    codes, rank = graph.values[weights.inputs[0]], len(graph.values[product.outputs[0]].shape)
    is_last = part.call.attr("data_format") == "NXC"
    if int(str(step.attrs.get("axis", 1))) % rank != (rank - 1 if is_last else 1):
        return False
    is_whole = weights.attrs.get("qtype", "per_tensor") == "per_tensor"
    axis = int(str(weights.attrs.get("axis", 1))) % rank
    return (
        codes.constant is not None
        and graph.only_consumer(weights.outputs[0]) is product
        and (is_whole or axis == _channels_of(product, rank))
        and all(graph.values[number].constant is not None for number in product.inputs[2:])
        and all(graph.values[number].dtype is DataType.f32 for number in (*product.inputs, *product.outputs))
    )


def _channels_of(product: Step, rank: int) -> int:
    """The axis of the weights that the channels of the result have."""
    part = product.library_part
    assert part is not None
    return 0 if part.call.attr("weights_format") == "OIX" else rank - 1


def _listed(step: Step, name: str) -> Any:
    return np.array(step.attrs.get(name, ()), np.float64)
