"""Convolutions of any number of windows with constant weights of f32, whose channels lie in panels."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .kernel import Conditions, Kernel
from .native import Numbers

FOR_WINDOWS = "by onegraph, for any number of windows: the library would be asked for a convolution of each"
AXES = 3  # of a window
LEAST_COLUMNS = 4  # of a group, as vectors of fewer are mostly empty


class PanelConvolution(NamedTuple):
    """A convolution with constant weights that the kernel may compute.

    Attributes:
        axes: of a window.
        channels: of src in a group.
        columns: channels of the result in a group.
        groups: of channels.
        is_finite: whether all weights are finite.
    """

    axes: int
    channels: int
    columns: int
    groups: int
    is_finite: bool

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is a group."""
        return self.groups > 1 and self.channels == self.columns == 1


TAKES: Conditions[PanelConvolution] = (
    (lambda one: one.axes <= AXES, f"windows have more than {AXES} axes"),
    (
        lambda one: one.groups == 1 or one.is_depthwise or one.columns >= LEAST_COLUMNS,
        f"vectors are mostly empty with fewer than {LEAST_COLUMNS} channels in a group",
    ),
    (lambda one: one.is_finite or one.is_depthwise, "weights that are not finite would meet the zeros of the padding"),
)


def _numbers(step: Step) -> Numbers:
    return step.attrs


PANEL_CONVOLUTION = Kernel("panel_convolution", executor="panel convolution", numbers=_numbers, fails=OutOfMemoryError)
KERNELS = (PANEL_CONVOLUTION,)
