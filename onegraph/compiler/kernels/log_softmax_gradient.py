"""-exp(src) * sums, with one of the sums for each row: the gradient of a LogSoftmax without that of the labels."""

from __future__ import annotations

from .kernel import Kernel

EXECUTOR = "labels"
KERNELS = (Kernel("log_softmax_gradient", executor=EXECUTOR, overwrites=True),)
