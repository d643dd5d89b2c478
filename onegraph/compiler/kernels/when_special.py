"""The beginning and the end of steps that run only where an element of a source is NaN or infinite."""

from __future__ import annotations

from .kernel import Kernel

BEGIN = Kernel("when_special", is_dense=False)
END = Kernel("when_special_end", is_dense=False)
# Whether inputs of a graph have an element that is NaN, infinite or large.
UNBOUNDED, LARGE = Kernel("unbounded", is_dense=False), 2.0**20
KERNELS = BEGIN, END, UNBOUNDED
