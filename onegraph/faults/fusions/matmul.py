"""Fused matrix products."""

from __future__ import annotations

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ..fault import UNSAFE, Faults
from ..ops.convolution import in_low_precision
from ..use import Fused, Operand, Use

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")


def _normalizes_last(use: Use) -> bool:
    """Whether the channels of a BatchNormInference are the last of three or more axes."""
    return use.call.string("data_format") == "NXC" and len(use.shape(0)) > 2


NORMALIZED_PRODUCT = FAULTS.add(
    "normalized_product",
    ops="MatMul",
    when=lambda fused: any(map(_normalizes_last, fused.of("BatchNormInference"))),
    seen={(3, 2): "wrong"},
    reason="oneDNN takes the second axis for the channels of a BatchNormInference behind a MatMul",
)


@NORMALIZED_PRODUCT.example({(3, 2): "wrong", (3, 6): "right"})
def batch_norm_behind_a_batch_of_products(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (2, 3, 5)), g.input("w", "f32", (5, 3))
    vectors = [g.input(name, "f32", (3,)) for name in ("gamma", "beta", "mean")]
    variance = g.constant(np.array([1, 2, 3], np.float32))
    return g.op("BatchNormInference", [g.matmul(x, w), *vectors, variance], {"epsilon": 1.0})


BF16_PARAMETERS = FAULTS.add(
    "bf16_parameters",
    ops="MatMul",
    when=lambda fused: any(in_low_precision(use.call, 1) for use in fused.of("BatchNormInference")),
    seen={(3, 2): "wrong | SIGSEGV"},
    reason="oneDNN computes a BatchNormInference with parameters of bf16 wrong behind a MatMul",
)


@BF16_PARAMETERS.example(
    {(3, 2): "wrong | SIGSEGV", (3, 6): "unsupported"},
    on={"no AVX-512": "throws could not create a primitive | unsupported"},
)
def batch_norm_of_bf16_behind_a_product(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (2, 3)), g.input("w", "bf16", (3, 4))
    vectors = [g.input(name, "bf16", (4,)) for name in ("gamma", "beta", "mean")]
    variance = g.constant(np.array([1, 2, 3, 4], DataType.bf16.numpy))
    return g.op("BatchNormInference", [g.op("MatMul", [x, w], dtype="bf16"), *vectors, variance], {"epsilon": 1.0})


def _is_one_matrix(main: Use, operand: Operand) -> bool:
    """Whether an operand is the same matrix for all products, which lie along two axes."""
    result = operand.result
    shape = (1,) * (len(result) - len(operand.shape)) + operand.shape
    batches = main.kind == "MatMul" and len(result) == 4 and 1 not in result[:2]
    return batches and shape[:2] == (1, 1) and not operand.along_last  # as one element is


def _adds_one_matrix(fused: Fused) -> str:
    types = {tensor.dtype for use in fused.uses for tensor in use.call.inputs if tensor is not None}
    if not fused.amx or (fused.strict and types == {DataType.f32}):
        return ""
    for main, operand in fused.operands:
        if _is_one_matrix(main, operand):
            return f"oneDNN computes MatMul + {operand.binary.kind} wrong for one matrix of shape {list(operand.shape)}"
    return ""


ONE_MATRIX = FAULTS.add(
    "one_matrix_behind_products",
    ops="MatMul",
    when=_adds_one_matrix,
    seen={(3, 2): "right", (3, 8): "right", (3, 9): "wrong"},
    reason="With AMX, an operand that is one matrix for all products along two axes of batches, as an attention mask, "
    "is read "
    "elsewhere for some of them: in bf16, in int8, and in f32 that may be computed in bf16",
)


@ONE_MATRIX.example(
    {(3, 2): "right"},
    on={
        "AMX": "wrong | right",
        "no AMX": "right",
        "no AVX-512": "throws could not create a primitive | unsupported",
    },
)
def products_and_one_mask(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (2, 3, 16, 32)), g.input("w", "bf16", (2, 3, 32, 16))
    return g.add(g.matmul(*ends), g.input("mask", "bf16", (16, 16)))


@ONE_MATRIX.example({(3, 2): "right"}, on={"AMX": "wrong | right"})
def products_of_int8_and_one_mask(g: DataGraph) -> LogicalTensor:
    x = g.dequantize(g.input("x", "u8", (2, 3, 16, 32)), scales=[0.5], zps=[0])
    w = g.dequantize(g.input("w", "s8", (2, 3, 32, 16)), scales=[0.5], zps=[0])
    return g.add(g.matmul(x, w), g.input("mask", "f32", (1, 1, 16, 16)))


ONE_ROW_TRANSPOSED = FAULTS.add(
    "one_row_transposed",
    ops="MatMul",
    when=lambda fused: fused.has("StaticTranspose") and any(use.result[-2:-1] == (1,) for use in fused.of("MatMul")),
    seen={(3, 2): "throws could not execute a primitive", (3, 6): "wrong | right"},
    reason="oneDNN fails to execute a MatMul of one row whose result is transposed",
)


@ONE_ROW_TRANSPOSED.example()
def product_of_one_row_transposed(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (8, 1, 8)), g.input("w", "f32", (8, 8, 5)))
    return g.static_reshape(g.static_transpose(product, order=[0, 2, 1]), shape=[10, 4], special_zero=False)
