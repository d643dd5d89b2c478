"""The transforms of Winograd's convolution F(2x2, 3x3): of weights, or of some of the tiles of a batch of images."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ..._util.open_sizes import present
from ..ir.step import Step
from .kernel import Conditions, Kernel
from .native import Numbers

# A transform takes 16 channels at once. With fewer channels than these, it takes as long as it saves.
LANES, LEAST_CHANNELS = 16, 32
LEAST_PRODUCTS = 1 << 23  # multiplications of a direct convolution, from which on three steps are worth their start
# Pairs of channels for each tile, up to which the larger weights are worth their memory and the time to read them; and
# the most per cent of the multiplications that are left, as tiles at the ends are computed for nothing.
MOST_PAIRS, MOST_LEFT = 1536, 65
STRIP_BYTES = 6 << 20  # of the transformed tensors, which stay in the last cache
# Tiles, from which on the weights are transformed in each run: that takes a small part of the time, and no memory. For
# fewer tiles, the transformed weights are constants.
LEAST_TILES = 64


class Geometry(NamedTuple):
    """Sizes of a convolution: images that share a strip, rows and columns of tiles in an image, channels, padding."""

    images: int
    rows: int
    columns: int
    channels: int
    results: int
    top: int
    left: int

    @property
    def tiles(self) -> int:
        """The number of tiles of 2x2 places of dst."""
        return self.images * self.rows * self.columns

    def strips(self, opens: bool = False) -> Iterator[tuple[int, int]]:
        """The first tile of each strip, and the number of its tiles; if sizes are open, there are as many for each."""
        size = 4 * 16 * self.columns * (self.channels + self.results)
        total = self.images * self.rows
        count = min(present(total), -(-present(total * size) // STRIP_BYTES))
        rows = -(-total // count)
        equal = [total * number // count for number in range(count + 1)]
        ends = equal if opens else [*range(0, total, rows), total]
        for first, end in pairwise(ends):
            yield first * self.columns, (end - first) * self.columns

    @property
    def pairs(self) -> int:
        """The number of pairs of a channel of src and one of dst."""
        return self.channels * self.results


class WinogradConvolution(NamedTuple):
    """A convolution with a window of 3x3 that transforms may compute.

    Attributes:
        sizes: with transforms.
        places: of dst that are computed together.
        is_constant: whether the weights are a constant of which the transform can be kept.
    """

    sizes: Geometry
    places: int
    is_constant: bool

    @property
    def direct(self) -> int:
        """The multiplications of a direct convolution."""
        return 9 * self.places * self.sizes.pairs


# The conditions under which the transforms are worth their time.
WORTH: Conditions[WinogradConvolution] = (
    (
        lambda one: min(one.sizes.channels, one.sizes.results) >= LEAST_CHANNELS,
        f"the transforms of fewer than {LEAST_CHANNELS} channels take as long as they save",
    ),
    (
        lambda one: one.direct >= LEAST_PRODUCTS,
        f"fewer than {LEAST_PRODUCTS:,} multiplications take less time than the start of three steps",
    ),
    (
        lambda one: one.sizes.pairs <= MOST_PAIRS * one.sizes.tiles,
        "reading the larger weights takes longer than the tiles save",
    ),
    (
        lambda one: 1600 * one.sizes.tiles * one.sizes.pairs <= MOST_LEFT * one.direct,
        "too much of the tiles lies beyond the ends of the image",
    ),
    (
        lambda one: one.sizes.tiles >= LEAST_TILES or one.is_constant,
        f"fewer than {LEAST_TILES} tiles are not worth transforming variable weights",
    ),
)


def _numbers(step: Step) -> Numbers:
    return step.attrs


WINOGRAD = Kernel("winograd", executor="transform", n_read=4, numbers=_numbers)
KERNELS = (WINOGRAD,)
