"""Any number of rows or windows of 8-bit codes times constant codes, whose columns lie in panels, and what follows."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .kernel import Conditions, Kernel
from .native import Numbers

FOR_CODES = "by onegraph, for any number of rows: the library would be asked for an int8 product of each"
AXES = 3  # of a window
LEAST_COLUMNS = 4  # of a group, as panels of fewer are mostly empty
MOST_DEPTH = (2**31 - 1) // 255**2  # terms of a sum, which s32 holds
MOST_TAPS = (2**24 - 1) // 255**2  # terms of a sum of a depthwise window, which f32 holds
MOST_STEPS = 8  # of f32 behind the sums
UNIT, GROUP = 64, 4  # codes of a column: panels are filled up to a multiple; those side by side


class CodeProduct(NamedTuple):
    """A product or convolution of codes that the kernel may compute.

    Attributes:
        axes: of a window; 0 for the rows of a product.
        channels: of src in a group.
        columns: channels of the result in a group.
        groups: of channels.
        taps: of a window.
        has_zeros: whether the codes of the weights have zero points that s8 codes cannot do without.
    """

    axes: int
    channels: int
    columns: int
    groups: int
    taps: int
    has_zeros: bool

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is a group."""
        return self.groups > 1 and self.channels == self.columns == 1


TAKES: Conditions[CodeProduct] = (
    (lambda one: one.axes <= AXES, f"windows have more than {AXES} axes"),
    (
        lambda one: one.groups == 1 or one.is_depthwise or one.columns >= LEAST_COLUMNS,
        f"panels are mostly empty with fewer than {LEAST_COLUMNS} channels in a group",
    ),
    (
        lambda one: one.taps * one.channels <= (MOST_TAPS if one.is_depthwise else MOST_DEPTH),
        "sums of so many products may be inexact",
    ),
)


def _numbers(step: Step) -> Numbers:
    return step.attrs


CODE_PRODUCT = Kernel("code_product", executor="code panels", numbers=_numbers, fails=OutOfMemoryError)
CODE_MATRICES = Kernel(
    "code_matrices", executor="code matrices", is_dense=False, numbers=_numbers, fails=OutOfMemoryError
)
KERNELS = CODE_PRODUCT, CODE_MATRICES
