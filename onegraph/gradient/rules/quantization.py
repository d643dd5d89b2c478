"""Gradients of the quantization category: casts, and the scales of DynamicDequantize."""

from __future__ import annotations

from itertools import chain

import numpy as np

from ...lowering.elementwise import multiply
from ...lowering.emitter import Emitter, Value, dtype_of, numbers
from ...lowering.movement import cast, reshape
from ...lowering.reduction import reduce
from ...opset.ops.quantization import scale_axis
from ...opset.shapes import known_dims
from ..use import GradientUse
from .table import gradient_of, refused

refused(
    "Quantize, DynamicQuantize, host DynamicQuantizeLinear, host FakeQuantize",
    "it rounds, so its gradient is zero; leave it out of a training graph",
)


@gradient_of("Dequantize, DynamicDequantize", "src")
def quantized(emit: Emitter, use: GradientUse, diff: Value) -> None:
    """Integers have no gradient; an op that rounds numbers to them is refused."""


@gradient_of("TypeCast", "src")
def type_cast(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return cast(emit, diff, dtype_of(use["src"]))


@gradient_of("DynamicDequantize", "scales")
def scales(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The gradient times src - zps, which the op computes with scales of 1, summed over the elements of a scale."""
    shape, dims = use.dims("scales"), use.dims("src")
    units = np.ones(shape, dtype_of(use["scales"]).numpy)
    inputs = [use["src"], units, *([use["zps"]] if use.has("zps") else [])]
    product = multiply(emit, diff, emit.op("DynamicDequantize", inputs, dict(use.call.given), dtype=use.dtype))
    qtype = use.call.string("qtype")
    if qtype == "per_group":
        blocks = [*zip(shape, use.call.s64s("group_shape"), strict=True)]
        parts = reshape(emit, product, numbers(*chain(*blocks)))
        return reduce(emit, "ReduceSum", parts, [*range(1, 2 * len(blocks), 2)], keep=False)
    kept_axes = () if qtype == "per_tensor" else (scale_axis(use.call, dims, int(np.prod(shape))) % len(dims),)
    axes = [axis for axis in range(len(dims)) if axis not in kept_axes]
    return reshape(emit, reduce(emit, "ReduceSum", product, axes, keep=True), numbers(*known_dims(shape)))
