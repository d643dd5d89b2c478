"""AvgPool of f32 where sizes are open, whose result lies as its source does if it may."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .adding import Adding
from .kernel import COMPILED_ANEW, Kernel
from .max_pool import add_spatial, pool_numbers


def _add(adding: Adding, step: Step, _: Sequence[str]) -> str:
    assert step.part is not None
    call = step.part.call
    channels, windows = pool_numbers(call)
    numbers = {"exclude_pad": call.flag("exclude_pad"), "windows": windows}
    return add_spatial(adding, step, AVG_POOL.name, AVG_POOL.reason, channels, numbers)


AVG_POOL = Kernel("avg_pool", COMPILED_ANEW, "average pool", is_dense=False, fails=OutOfMemoryError, add=_add)
KERNELS = (AVG_POOL,)
