"""Single ops that oneDNN computes slowly on CPUs without AVX-512: up to 8 times as long as the way around."""

from __future__ import annotations

from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from .fault import SLOW, Faults
from .ops.windows import IMAGE

# Weights of a MatMul -------------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """Weights of a MatMul without AVX-512: rows of the product, its columns, and the bytes of an element."""

    rows: int
    columns: int
    itemsize: int


# Rows, from which on it takes less time to pack weights than to read them where they lie; and bytes between two rows of
# weights, of which a multiple takes a column to one or two of the 64 sets of the first cache.
PACKED_ROWS, ALIASED = 24, 2048
# With a larger sum of 1 / rows and 1 / columns, the library leaves the weights where they lie (gemm_driver.cpp).
UNPACKED = 0.0038


def _are_unpacked(weights: Columns) -> bool:
    return (
        weights.rows >= PACKED_ROWS
        and weights.columns * weights.itemsize % ALIASED == 0
        and 1 / weights.rows + 1 / weights.columns >= UNPACKED
    )


COLUMNS = Faults[Columns]()
SLOW_COLUMNS = COLUMNS.add(
    "slow_columns",
    ops="MatMul",
    where="weights",
    severity=SLOW,
    when=_are_unpacked,
    seen={(3, 2): "slow"},
    reason="Without AVX-512, a MatMul of few rows reads columns of the weights that fall on the same few sets of the "
    "cache",
    instead="the same op on weights that do not start at a multiple of 32 bytes, which the library packs",
    mended=(3, 10),  # whose kernel for AVX2 packs all weights
)


@SLOW_COLUMNS.example({(3, 2): "right"})
def product_with_rows_of_2_kib(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (32, 16)), g.input("w", "f32", (16, 512)))


# Groups of a Convolution ---------------------------------------------------------------------------------------------


class ConvolutionGroups(NamedTuple):
    """The groups of a Convolution of f32: how many, and the channels of src and of dst in each."""

    groups: int
    source: int
    result: int


NARROW = 8  # channels; a register of AVX2 has so many


def _are_narrow(groups: ConvolutionGroups) -> bool:
    widths = groups.source, groups.result
    return groups.groups > 1 and min(widths) < NARROW and max(widths) > 1


GROUPS = Faults[ConvolutionGroups]()
NARROW_GROUPS = GROUPS.add(
    "slow_narrow_groups",
    ops="Convolution",
    where="groups",
    severity=SLOW,
    when=_are_narrow,
    seen={(3, 2): "slow"},
    reason="Without AVX-512, a Convolution of less than 8 channels in a group copies windows, and multiplies group by "
    "group",
    instead="the same op on fewer groups of 16 channels, with zeros in the weights",
)


@NARROW_GROUPS.example({(3, 2): "right"})
def convolution_of_four_channels_in_each_group(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 6, 6, 32)), g.input("w", "f32", (3, 3, 4, 32))
    return g.op("Convolution", ends, {**IMAGE, "groups": 8})
