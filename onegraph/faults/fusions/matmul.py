"""Fused matrix products in f32 and bf16."""

from __future__ import annotations

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ..fault import UNSAFE, Faults
from ..ops.convolution import in_low_precision
from ..use import Fused, Use

FAULTS = Faults[Fused]()


def _normalizes_last(use: Use) -> bool:
    """Whether the channels of a BatchNormInference are the last of three or more axes."""
    return use.call.string("data_format") == "NXC" and len(use.shape(0)) > 2


NORMALIZED_PRODUCT = FAULTS.add(
    "normalized_product",
    "MatMul",
    "",
    UNSAFE,
    lambda fused: any(map(_normalizes_last, fused.of("BatchNormInference"))),
    {(3, 2): "wrong"},
    "oneDNN takes the second axis for the channels of a BatchNormInference behind a MatMul",
    "the ops one by one",
)


@NORMALIZED_PRODUCT.example({(3, 2): "wrong", (3, 6): "right"})
def batch_norm_behind_a_batch_of_products(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (2, 3, 5)), g.input("w", "f32", (5, 3))
    vectors = [g.input(name, "f32", (3,)) for name in ("gamma", "beta", "mean")]
    variance = g.constant(np.array([1, 2, 3], np.float32))
    return g.op("BatchNormInference", [g.matmul(x, w), *vectors, variance], {"epsilon": 1.0})


BF16_PARAMETERS = FAULTS.add(
    "bf16_parameters",
    "MatMul",
    "",
    UNSAFE,
    lambda fused: any(in_low_precision(use.call, 1) for use in fused.of("BatchNormInference")),
    {(3, 2): "wrong | SIGSEGV"},
    "oneDNN computes a BatchNormInference with parameters of bf16 wrong behind a MatMul",
    "the ops one by one",
)


@BF16_PARAMETERS.example(
    {(3, 2): "wrong | SIGSEGV", (3, 6): "unsupported"}, on={"no AVX-512": "throws could not create a primitive"}
)
def batch_norm_of_bf16_behind_a_product(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (2, 3)), g.input("w", "bf16", (3, 4))
    vectors = [g.input(name, "bf16", (4,)) for name in ("gamma", "beta", "mean")]
    variance = g.constant(np.array([1, 2, 3, 4], DataType.bf16.numpy))
    return g.op("BatchNormInference", [g.op("MatMul", [x, w], dtype="bf16"), *vectors, variance], {"epsilon": 1.0})


ONE_ROW_TRANSPOSED = FAULTS.add(
    "one_row_transposed",
    "MatMul",
    "",
    UNSAFE,
    lambda fused: fused.has("StaticTranspose") and any(use.result[-2:-1] == (1,) for use in fused.of("MatMul")),
    {(3, 2): "throws could not execute a primitive", (3, 6): "wrong | right"},
    "oneDNN fails to execute a MatMul of one row whose result is transposed",
    "the ops one by one",
)


@ONE_ROW_TRANSPOSED.example()
def product_of_one_row_transposed(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (8, 1, 8)), g.input("w", "f32", (8, 8, 5)))
    return g.static_reshape(g.static_transpose(product, order=[0, 2, 1]), shape=[10, 4], special_zero=False)
