"""Select of f32, f16 and bf16; the inputs are broadcast."""

from __future__ import annotations

from .kernel import NOT_EMPTY, Kernel

KERNELS = (
    Kernel(
        "select",
        kinds=("Select",),
        takes=(NOT_EMPTY,),
        is_dense=False,
        is_movement=True,
    ),
)
