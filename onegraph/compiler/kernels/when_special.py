"""The beginning and the end of steps that run only where an element of a source is NaN or infinite."""

from __future__ import annotations

from .kernel import Kernel

BEGIN = Kernel("when_special", is_dense=False)
END = Kernel("when_special_end", is_dense=False)
KERNELS = BEGIN, END
