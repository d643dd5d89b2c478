"""Fused ops of int8 with a scale for each index along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ..fault import UNSAFE, Faults
from ..ops.windows import IMAGE, NCX
from ..use import DEQUANTIZATIONS, NORMS, PRODUCTS, Fused, Use
from .quantized_uses import dequantized

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")
SINGLE_SCALE = "oneDNN quantizes all with the first of several scales"


def foreign_scales(uses: Sequence[Use]) -> bool:
    """Whether a tensor has scales along an axis, be it of one element, but for weights along that of the channels."""
    producers = {number: use for use in uses for number in use.outputs}
    right: set[int] = set()
    for use in uses:
        if use.kind in PRODUCTS:
            number = use.inputs[1]
            while (producer := producers.get(number)) is not None and producer.kind == "TypeCast":
                number = producer.inputs[0]
            if producer is not None and producer.kind in DEQUANTIZATIONS:
                axis, rank = producer.call.s64("axis"), len(producer.result)
                if (axis + rank if axis < 0 else axis) in _channel_axes(use):
                    right.add(number)
    return any(
        use.kind in DEQUANTIZATIONS and use.call.string("qtype") == "per_channel" and use.outputs[0] not in right
        for use in uses
    )


def _channel_axes(use: Use) -> tuple[int, ...]:
    """The axes of the weights that go over all output channels of a product, and over nothing else."""
    weights = use.shape(1)
    rank = len(weights)
    if use.kind == "MatMul":
        return () if rank < 2 else (rank - 2,) if use.call.flag("transpose_b") else (rank - 1,)
    fmt = use.call.string("weights_format")
    if use.kind == "Convolution":
        return (0,) if fmt == "OIX" else (rank - 1,)
    outer, inner = (1, 0) if fmt == "IOX" else (rank - 2, rank - 1)
    groups = use.call.s64("groups")
    if groups == 1:
        return (outer,)
    return (inner,) if weights[inner] == groups and weights[outer] == 1 else ()


def _has_several_scales(fused: Fused) -> bool:
    return any(len(use.call.f32s("scales")) > 1 for use in fused.of("Quantize"))


FOREIGN_SCALES = FAULTS.add(
    "foreign_scales",
    ops=PRODUCTS,
    when=lambda fused: foreign_scales(fused.uses),
    seen={(3, 2): "wrong"},
    reason="oneDNN takes scales along another axis than that of the output channels for theirs",
)


def _across(n: int, axis: int) -> dict[str, object]:
    """Scales along an axis, the last of them much larger."""
    return {"qtype": "per_channel", "axis": axis, "scales": [1.0] * (n - 1) + [10.0], "zps": [0] * n}


@FOREIGN_SCALES.example({(3, 2): "wrong | refuses partition_compile: unimplemented"})
def weights_with_a_scale_for_each_row(g: DataGraph) -> LogicalTensor:
    return g.matmul(dequantized(g, "x", "u8", (4, 8)), dequantized(g, "w", "s8", (8, 32), **_across(8, 0)))


@FOREIGN_SCALES.example({(3, 2): "wrong | right"})
def weights_with_a_scale_for_a_batch_of_one(g: DataGraph) -> LogicalTensor:
    """One scale along the first axis, which the library took for the first of forty."""
    w = dequantized(g, "w", "s8", (1, 8, 40), qtype="per_channel", axis=0)
    return g.matmul(dequantized(g, "x", "u8", (2, 3, 8)), w)


@FOREIGN_SCALES.example({(3, 2): "wrong | right"})
def weights_with_a_scale_for_a_kernel_of_one(g: DataGraph) -> LogicalTensor:
    w = dequantized(g, "w", "s8", (1, 1, 40, 4), qtype="per_channel", axis=0)
    return g.op("ConvTranspose", [dequantized(g, "x", "u8", (1, 3, 2, 4)), w], IMAGE)


@FOREIGN_SCALES.example()
def vector_of_weights_with_a_scale_for_each(g: DataGraph) -> LogicalTensor:
    return g.matmul(dequantized(g, "x", "u8", (2, 4)), dequantized(g, "w", "s8", (4,), **_across(4, 0)))


@FOREIGN_SCALES.example()
def weights_with_a_scale_for_each_input_channel(g: DataGraph) -> LogicalTensor:
    ends = dequantized(g, "x", "u8", (1, 4, 3, 3)), dequantized(g, "w", "s8", (8, 4, 1, 1), **_across(4, 1))
    return g.op("Convolution", ends, {**IMAGE, **NCX, "weights_format": "OIX"})


@FOREIGN_SCALES.example()
def residual_with_a_scale_for_each_channel(g: DataGraph) -> LogicalTensor:
    product = g.matmul(dequantized(g, "x", "u8", (4, 8)), dequantized(g, "w", "s8", (8, 2)))
    total = g.add(product, dequantized(g, "y", "s8", (4, 2), **_across(2, 1)))
    return g.quantize(total, scales=[16.0], zps=[0], dtype="s8")


@FOREIGN_SCALES.example({(3, 2): "throws could not create a primitive descriptor for a matmul", (3, 13): "wrong"})
def source_with_a_scale_for_each_batch(g: DataGraph) -> LogicalTensor:
    w = g.dequantize(g.constant(np.ones((8, 2), np.int8)), scales=[1.0], zps=[0])
    return g.matmul(dequantized(g, "x", "u8", (2, 2, 8), **_across(2, 0)), w)


SINGLE_SCALE_OF_A_NORM = FAULTS.add(
    "single_scale_of_a_norm",
    ops=NORMS | {"SoftMax"},
    when=_has_several_scales,
    seen={(3, 2): "wrong | throws could not create a primitive descriptor"},
    reason=SINGLE_SCALE,
)


@SINGLE_SCALE_OF_A_NORM.example({(3, 2): "wrong | throws could not create a primitive descriptor", (3, 13): "right"})
def softmax_quantized_by_rows(g: DataGraph) -> LogicalTensor:
    shares = g.op("SoftMax", [g.input("x", "f32", (3, 4))], {"axis": -1}, outputs=["dst"], dtype="f32")
    attrs = {"qtype": "per_channel", "axis": 0, "scales": [1.0, 0.1, 0.01], "zps": [0] * 3}
    return g.op("Quantize", [shares], attrs, dtype="u8")


SINGLE_SCALE_OF_A_PRODUCT = FAULTS.add(
    "single_scale_of_a_product",
    ops="MatMul",
    when=_has_several_scales,
    seen={(3, 2): "throws could not create a primitive descriptor for a matmul", (3, 6): "right", (3, 13): "wrong"},
    reason=SINGLE_SCALE,
    since=(3, 7),
)


@SINGLE_SCALE_OF_A_PRODUCT.example(
    {
        (3, 2): "throws could not create a primitive descriptor for a matmul",
        (3, 6): "throws could not create a primitive",
        (3, 13): "right",
    }
)
def product_quantized_by_columns(g: DataGraph) -> LogicalTensor:
    w = g.dequantize(g.constant(np.ones((8, 2), np.int8)), scales=[1.0], zps=[0])
    product = g.matmul(dequantized(g, "x", "u8", (2, 8)), w)
    return g.op(
        "Quantize", [product], {"qtype": "per_channel", "axis": 1, "scales": [1.0, 4.0], "zps": [0, 0]}, dtype="s8"
    )
