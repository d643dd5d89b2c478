"""Interpolate of f32 where sizes are open, whose result lies as its source does if it may."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ...opset.shapes import known_dims
from ..ir.step import Step
from .adding import Adding
from .kernel import COMPILED_ANEW, Kernel
from .max_pool import add_spatial


def _add(adding: Adding, step: Step, _: Sequence[str]) -> str:
    assert step.part is not None
    call = step.part.call
    channels = len(known_dims(call.shape("src"))) - 1 if call.string("data_format") == "NXC" else 1
    return add_spatial(
        adding, step, INTERPOLATE.name, INTERPOLATE.reason, channels, {"linear": call.string("mode") != "nearest"}
    )


INTERPOLATE = Kernel("interpolate", COMPILED_ANEW, "interpolate", is_dense=False, fails=OutOfMemoryError, add=_add)
KERNELS = (INTERPOLATE,)
