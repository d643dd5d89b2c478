"""Fused ops that oneDNN computes wrong where a tensor is not dense row-major."""

from __future__ import annotations

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ..fault import UNSAFE, Faults
from ..ops.windows import IMAGE
from ..use import BINARY, Fused

FAULTS = Faults[Fused](severity=UNSAFE)


def _behind_a_strided_product(fused: Fused) -> str:
    if any(number in fused.strided for use in fused.uses for number in use.outputs):
        for main, operand in fused.operands:
            if main.kind == "MatMul" and operand.is_partial:
                where = "behind a MatMul whose result is not dense"
                return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    return ""


STRIDED_PRODUCT = FAULTS.add(
    "operand_behind_a_strided_product",
    ops="MatMul",
    when=_behind_a_strided_product,
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "SIGSEGV"},
    reason="An operand behind a MatMul whose result lies with its axes in another order is read out of bounds",
    instead="the ops one by one, or a dense result and a copy",
)


@STRIDED_PRODUCT.example()
def operand_behind_a_product_of_permuted_axes(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("a", "f32", (2, 3, 5, 4)), g.input("b", "f32", (2, 3, 4, 14)))
    total = g.relu(g.add(product, g.input("operand", "f32", (1, 1, 1, 14))))
    return g.output("out", total, strides=(210, 14, 42, 1))


def _folds_strided_weights(fused: Fused) -> bool:
    return fused.has("BatchNormInference") and any(
        use.inputs[1] in fused.strided and use.call.string("weights_format") == "XIO"  # OIX is right in any order
        for use in fused.of("Convolution")
    )


FOLDED_WEIGHTS = FAULTS.add(
    "folded_strided_weights",
    ops="Convolution",
    when=_folds_strided_weights,
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "wrong"},
    reason="oneDNN folds a BatchNormInference into other elements of weights that are not dense",
    instead="the ops one by one",
)


@FOLDED_WEIGHTS.example({(3, 2): "right", (3, 6): "right", (3, 13): "right"})
def batch_norm_behind_a_convolution_by_strided_weights(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (2, 5, 5, 8)), g.input("w", "f32", (3, 3, 8, 6), strides=(144, 48, 1, 8))
    vectors = [g.constant(np.arange(1, 7, dtype=np.float32)) for _ in range(4)]
    return g.batch_norm_inference(g.op("Convolution", [x, w], IMAGE), *vectors, epsilon=0.1)


def _behind_permuted_axes(fused: Fused) -> str:
    first = fused.uses[0]
    if first.kind in BINARY and any(number in fused.strided for number in first.inputs):
        for main, operand in fused.operands:
            if main is first and operand.is_partial:
                where = f"behind {main.kind} of permuted axes"
                return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    return ""


PERMUTED_BINARY = FAULTS.add(
    "operand_behind_permuted_axes",
    ops=BINARY,
    when=_behind_permuted_axes,
    seen={(3, 2): "wrong | overrun | SIGSEGV | right"},
    reason="An operand behind a binary op of permuted axes is read out of bounds",
    instead="the ops one by one, or dense copies",
)


@PERMUTED_BINARY.example()
def product_of_transposed_matrices_and_a_sum(g: DataGraph) -> LogicalTensor:
    x, y = (g.input(name, "f32", (7, 17), strides=(1, 7)) for name in "xy")
    return g.add(g.multiply(x, y), g.input("a", "f32", (1, 17)))
