"""MaxPool of f32, f16 and bf16 that keeps NaN, whose result lies as its source does if it may."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ...opset.ops.pooling import pool_geometry
from ...opset.schema import Call
from ..ir.step import Step
from ..ir.value import dense_of
from ..slow_layouts import channels_last
from .adding import Adding
from .kernel import KEEPS, Kernel
from .native import Numbers

SIDE_BY_SIDE = "the kernel reads rows or channels side by side"


def pool_numbers(call: Call) -> tuple[int, list[int]]:
    """The axis of the channels of a pool; kernel, stride, dilation and padding before of each spatial axis."""
    geometry = pool_geometry(call)
    assert geometry is not None
    numbers = list[int]()
    for window in geometry.windows:
        assert window is not None
        numbers += [window.kernel, window.stride, window.dilation, window.begin]
    return len(geometry.windows) + 1 if geometry.data_format == "NXC" else 1, numbers


def add_spatial(adding: Adding, step: Step, name: str, reason: str, channels: int, numbers: Numbers) -> str:
    """Add a step that reads the places of images, whose result lies as its source does if it may.

    ``channels``: the axis of the channels, which the kernel gets with ``numbers``.
    """
    schedule, values = adding.schedule, adding.values
    source, result = values[schedule.forwards(step.inputs[0])], values[step.outputs[0]]
    last = channels_last(source.shape) if channels == 1 else dense_of(source.shape)
    if source.strides[channels] != 1 and source.strides[-1] != 1:
        source = values[schedule.copy(source, last, SIDE_BY_SIDE)]
    if adding.edges.is_free(result):
        is_last = source.strides[channels] == 1 and channels == 1
        strides = channels_last(result.shape) if is_last else dense_of(result.shape)
        result = values[result.id] = result._replace(strides=strides)
    note = schedule.note("kernel", step, reason)
    schedule.add_kernel(name, [source], [result], note, {"channels": channels, **numbers})
    return ""


def _add(adding: Adding, step: Step, _: Sequence[str]) -> str:
    assert step.part is not None
    channels, windows = pool_numbers(step.part.call)
    return add_spatial(adding, step, "max_pool", KEEPS, channels, {"windows": windows})


KERNELS = (Kernel("max_pool", KEEPS, "pool", ("MaxPool",), is_dense=False, fails=OutOfMemoryError, add=_add),)
