"""Finds the records of the kernels: every module of this folder that has some lists them as ``KERNELS``."""

from __future__ import annotations

import sys
from functools import cache
from pkgutil import iter_modules

from ..._util.late_imports import import_late
from ...opset.dtypes import DataType
from ...opset.editions.registry import HOST
from ...opset.schema import Call
from ..ir.step import Step
from .kernel import FLOATS, Kernel

# The executors of kernels in the place of the library's, which computes an op wrong for some numbers: of those of
# elementwise ops, of ReduceMax and ReduceMin, and of LogSoftmax and SoftMax.
EXACT, EXTREME, LOG_SOFTMAX, SOFTMAX = "exact", "extreme", "log softmax", "softmax"
IN_PLACE = frozenset([EXACT, EXTREME, LOG_SOFTMAX, SOFTMAX])


@cache
def kernels() -> tuple[Kernel, ...]:
    """All records, in the order of their modules."""
    package = __name__.rpartition(".")[0]
    names = sorted(module.name for module in iter_modules(sys.modules[package].__path__, f"{package}."))
    import_late(*names)
    return tuple([kernel for name in names for kernel in getattr(sys.modules[name], "KERNELS", ())])


@cache
def named(name: str) -> Kernel:
    """The record of a kernel; of several, the first one."""
    return next(kernel for kernel in kernels() if kernel.name == name)


@cache
def of_executor(executor: str) -> Kernel | None:
    """The record for the steps of an executor; the first one of those that are added in the same way."""
    return next((kernel for kernel in kernels() if kernel.executor == executor), None)


@cache
def _of_kind(kind: str) -> tuple[Kernel, ...]:
    """The records for an op; first those that compute it in the place of the library."""
    records = [kernel for kernel in kernels() if kind in kernel.kinds]
    return tuple(sorted(records, key=lambda kernel: kernel.executor not in IN_PLACE))


def for_op(step: Step) -> Kernel | None:
    """The kernel that computes the op of a step as it is, where the library does not; None for other steps."""
    kind = step.op.kind if step.op.edition == HOST else step.kind
    return next((kernel for kernel in _of_kind(kind) if not kernel.executor), None)


def special_kernel(call: Call) -> Kernel | None:
    """The kernel that computes an op right for the numbers for which the library does not; None for other ops."""
    dtypes: set[DataType | None] = {None if tensor is None else tensor.dtype for tensor in call.inputs}
    is_exact = FLOATS.issuperset(dtypes) and not any(0 in (shape or ()) for shape in call.shapes)
    for kernel in _of_kind(call.schema.kind):
        is_taken = is_exact if kernel.executor in IN_PLACE else bool(kernel.executor)
        if is_taken and (kernel.when is None or kernel.when(call)):
            return kernel
    return None


def exact_kernel(call: Call) -> Kernel | None:
    """The kernel that computes an op in the place of the library's; None for other ops."""
    kernel = special_kernel(call)
    return kernel if kernel is not None and kernel.executor in IN_PLACE else None
