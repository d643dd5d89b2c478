"""Rows of new tokens behind those of a cache."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ArgumentError
from ...opset.dtypes import DataType
from ..ir.value import Value, dense_of
from .kernel import FLOATS, Kernel


def _has_rows(values: Sequence[Value]) -> bool:
    return not any(0 in value.shape for value in (values[1], values[-1]))


def _is_narrow(values: Sequence[Value]) -> bool:
    return values[-1].dtype in FLOATS | {DataType.s8, DataType.u8}


def _has_whole_rows(values: Sequence[Value]) -> bool:
    """Whether the tokens of each head of the result lie side by side."""
    shape, strides = values[-1].shape[-2:], values[-1].strides[-2:]
    return all(
        dim == 1 or step == dense_step for dim, step, dense_step in zip(shape, strides, dense_of(shape), strict=True)
    )


EXTEND_CACHE = Kernel(
    "extend_cache",
    "by onegraph, in one copy",
    kinds=("ExtendCache",),
    takes=(
        (_has_rows, "there is nothing to write"),
        (_is_narrow, "its numbers have 64 bits"),
        (_has_whole_rows, "the tokens of a head of the result do not lie side by side"),
    ),
    is_dense=False,
    n_read=3,
    numbers=lambda _: {"takes_back": False},
    is_movement=True,
    varies=True,
    fails=ArgumentError,
    takes_back=True,
)
KERNELS = (EXTEND_CACHE,)
