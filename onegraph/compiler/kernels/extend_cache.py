"""Rows of new tokens behind those of a cache."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ArgumentError
from ...opset.dtypes import DataType
from ..ir.value import Value
from .kernel import FLOATS, Kernel


def _has_rows(values: Sequence[Value]) -> bool:
    return not any(0 in value.shape for value in (values[1], values[-1]))


def _is_narrow(values: Sequence[Value]) -> bool:
    return values[-1].dtype in FLOATS | {DataType.s8, DataType.u8}


def _is_dense(values: Sequence[Value]) -> bool:
    return values[-1].dense


KERNELS = (
    Kernel(
        "extend_cache",
        "by onegraph, in one copy",
        kinds=("ExtendCache",),
        takes=(
            (_has_rows, "there is nothing to write"),
            (_is_narrow, "its numbers have 64 bits"),
            (_is_dense, "the result has strides"),
        ),
        is_dense=False,
        n_read=3,
        is_movement=True,
        varies=True,
        fails=ArgumentError,
    ),
)
