"""Convolutions of float64, which the library lacks, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...capi.threads import get_num_threads, is_forked
from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ...opset.signature import Shape
from ..ir.value import Value, dense_of
from ..kernels.exact_convolution import KINDS, numbers_of
from ..kernels.native import compiled, packed
from .arrays import LIMIT, dense

NAME = "exact_convolution"


def convolved(call: Call, arrays: Sequence[Array | None], shape: Shape) -> Array | None:
    """The result of a convolution of float64; None for other ops and data types.

    Args:
        call: the op, whose sizes are known.
        arrays: its inputs.
        shape: that of its result.
    """
    first = [array for array in arrays if array is not None]
    if call.schema.kind not in KINDS or any(array.dtype != np.float64 for array in first):
        return None
    result = np.empty(known_dims(shape))
    if any(array.size == 0 for array in (*first, result)):
        return None
    numbers = {**numbers_of(call), "wide": True}
    *inputs, output = [
        Value(0, DataType.float64, array.shape, dense_of(array.shape), 0, "") for array in (*first, result)
    ]
    kernel = compiled(NAME, inputs, [output], packed(NAME, numbers))
    threads = 1 if is_forked() else LIMIT.threads or get_num_threads() or 1
    kernel.run_once(*map(dense, first), result, threads=threads)
    return result
