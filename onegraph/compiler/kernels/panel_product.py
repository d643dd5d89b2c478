"""Any number of rows times a constant matrix of f32, whose columns lie in panels, and a bias."""

from __future__ import annotations

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .kernel import COMPILED_ANEW, Kernel
from .native import Numbers

FOR_SIZES = "by onegraph, for any number of rows: the library would be asked for a product of each"
PANEL = 32  # columns that lie together
MOST_ROWS = 1 << 14  # for more rows, the time of a compilation is short beside that of the product


def _numbers(step: Step) -> Numbers:
    return step.attrs


PANEL_PRODUCT = Kernel("panel_product", executor="panels", numbers=_numbers, fails=OutOfMemoryError)
# Two matrices that a run computes, where sizes are open.
PANEL_MATRICES = Kernel("panel_matrices", COMPILED_ANEW, "matrices", numbers=_numbers, fails=OutOfMemoryError)
KERNELS = PANEL_PRODUCT, PANEL_MATRICES
