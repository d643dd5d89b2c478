"""Strides for which oneDNN has a reference kernel only: 20 to 1,000 times as long as on a dense copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.editions.registry import BASE
from .fault import SLOW, Faults
from .ops.windows import POOL
from .use import BINARY, ELEMENTWISE, POOLS, PRODUCTS, Dims, Laid

COPY = "the same op on a dense copy"


def _lies_in(order: Sequence[int], shape: Dims, strides: Dims) -> bool:
    """Whether a tensor lies in memory without gaps with its axes in this order; axes of size 1 lie anywhere."""
    step = 1
    for axis in reversed(order):
        if shape[axis] > 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def _is_dense(shape: Dims, strides: Dims) -> bool:
    return _lies_in(range(len(shape)), shape, strides)


def is_channels_last(shape: Dims, strides: Dims) -> bool:
    """Whether a tensor with the channels on its second axis lies in memory without gaps, channels last."""
    return len(shape) > 2 and _lies_in((0, *range(2, len(shape)), 1), shape, strides)


# Binary and elementwise ops -------------------------------------------------------------------------------------------


def _is_turned(tensor: tuple[Dims, Dims]) -> bool:
    """Whether a tensor is neither dense nor dense with channels last."""
    return not is_channels_last(*tensor) and not _is_dense(*tensor)


TENSORS = Faults[tuple[Dims, Dims]](severity=SLOW)
SLOW_STRIDES = TENSORS.add(
    "slow_strides",
    ops=BINARY,
    where="strides",
    when=_is_turned,
    seen={(3, 2): "slow"},
    reason="A binary op has a reference kernel only for a tensor that is neither dense nor dense with channels last",
    instead=COPY,
)


@SLOW_STRIDES.example({(3, 2): "right"})
def sum_of_a_turned_matrix(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (30, 20), strides=(1, 30)), g.input("y", "f32", (30, 20)))


def has_gaps(tensor: tuple[Dims, Dims]) -> bool:
    """Whether a tensor lies in memory with gaps, whatever the order of its axes."""
    shape, strides = tensor
    return not _lies_in(sorted(range(len(shape)), key=lambda axis: -strides[axis]), shape, strides)


SLOW_GAPS = TENSORS.add(
    "slow_gaps",
    ops=ELEMENTWISE,
    where="strides",
    when=has_gaps,
    seen={(3, 2): "slow"},
    reason="An elementwise op has a reference kernel only for a tensor with gaps in memory",
    instead=COPY,
)


@SLOW_GAPS.example({(3, 2): "right"})
def square_of_some_columns(g: DataGraph) -> LogicalTensor:
    return g.square(g.input("x", "f32", (30, 20), strides=(60, 1)))


SLOW_ROWS = TENSORS.add(
    "slow_rows",
    ops="MatMul",
    where="weights",
    when=has_gaps,
    seen={(3, 2): "slow"},
    reason="A MatMul copies variable weights with gaps between their rows in every run",
    instead="a dense copy that all MatMuls read, if there are several",
)


@SLOW_ROWS.example({(3, 2): "right"})
def product_with_part_of_each_row(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (2, 64)), g.input("w", "f32", (64, 32), strides=(33, 1)))


# Other ops ------------------------------------------------------------------------------------------------------------

FEW = 1 << 10  # elements; a copy of fewer takes about as long as the op itself
FAULTS = Faults[Laid](where="strides", severity=SLOW, instead=COPY)


def _is_large(laid: Laid) -> bool:
    return prod(laid.shape) >= FEW and not _is_dense(laid.shape, laid.strides)


SLOW_REDUCTION = FAULTS.add(
    "slow_reduced_strides",
    ops=frozenset(kind for kind in BASE if kind.startswith("Reduce")),
    when=lambda laid: laid.is_read and _is_large(laid),
    seen={(3, 2): "slow"},
    reason="A reduction has a reference kernel only for a tensor that is not dense",
)


@SLOW_REDUCTION.example({(3, 2): "right"})
def means_of_images_with_channels_last(g: DataGraph) -> LogicalTensor:
    image = g.input("x", "f32", (2, 32, 24, 24), strides=(18432, 1, 768, 32))
    return g.reduce_mean(image, axes=(2, 3))


@SLOW_REDUCTION.example({(3, 2): "right"})
def largest_of_each_of_some_columns(g: DataGraph) -> LogicalTensor:
    return g.op("ReduceMax", g.input("x", "f32", (64, 64), strides=(128, 1)), {"axes": [1]})


SLOW_SOFTMAX = FAULTS.add(
    "slow_softmax_strides",
    ops="SoftMax",
    # Beside a product, the tensor may be one of the product's.
    when=lambda laid: (laid.is_read or laid.inside.isdisjoint(PRODUCTS)) and _is_large(laid),
    seen={(3, 2): "slow"},
    reason="A SoftMax has a reference kernel only for a tensor that is not dense",
)


@SLOW_SOFTMAX.example({(3, 2): "right"})
def softmax_of_some_columns(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (64, 64), strides=(128, 1))
    return g.op("SoftMax", [x], {"axis": -1}, outputs=["dst"], dtype="f32")


@SLOW_SOFTMAX.example({(3, 2): "right"})
def softmax_into_columns(g: DataGraph) -> LogicalTensor:
    shares = g.op("SoftMax", [g.input("x", "f32", (64, 64))], {"axis": -1}, outputs=["dst"], dtype="f32")
    return g.output("out", shares, strides=(1, 64))


def _is_turned_image(laid: Laid) -> bool:
    """Whether an image lies neither as its format says nor with channels last."""
    is_last = laid.attrs.get("data_format") == "NCX" and is_channels_last(laid.shape, laid.strides)
    is_image = laid.kind != "Dequantize" or not laid.inside.isdisjoint(POOLS)
    return laid.is_read and is_image and _is_large(laid) and not is_last


SLOW_IMAGE = FAULTS.add(
    "slow_image_strides",
    ops=POOLS | {"BatchNormInference", "Interpolate", "Dequantize"},
    when=_is_turned_image,
    seen={(3, 2): "slow"},
    reason="Pools, of int8 too, BatchNormInference and Interpolate have a reference kernel only for an image with gaps "
    "in memory, such as some of the channels of another one, or with its axes in another order than its format or "
    "channels last",
)


@SLOW_IMAGE.example({(3, 2): "right"})
def pool_of_some_channels(g: DataGraph) -> LogicalTensor:
    return g.op("MaxPool", g.input("x", "f32", (1, 16, 16, 8), strides=(8192, 512, 32, 1)), POOL)


@SLOW_IMAGE.example({(3, 2): "right"})
def image_of_rows_and_columns_in_turn(g: DataGraph) -> LogicalTensor:
    attrs = {"mode": "nearest", "sizes": [32, 32], "data_format": "NXC"}
    return g.op("Interpolate", g.input("x", "f32", (1, 16, 16, 8), strides=(2048, 8, 128, 1)), attrs)


@SLOW_IMAGE.example({(3, 2): "right"})
def pool_of_int8_with_channels_first_in_memory(g: DataGraph) -> LogicalTensor:
    image = g.input("x", "u8", (1, 24, 24, 8), strides=(4608, 24, 1, 576))
    pooled = g.op("MaxPool", g.dequantize(image, scales=[0.5], zps=[0]), {**POOL, "data_format": "NXC"})
    return g.quantize(pooled, dtype="u8", scales=[0.5], zps=[0])
