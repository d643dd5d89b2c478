"""Computes host ops by kernels on dense arrays (``csrc/kernels/arrays/``), where numpy would take many times as long.

A function of ``FUNCTIONS`` gets the use of an op, its inputs, and arrays that its results may be written to. It returns
the results, or None if the kernel lacks this form. The numpy function of :mod:`onegraph.reference.host` then computes
the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...ir.op import Array
from ...opset.schema import Call
from . import detection, indexing, matrices

ArrayFunction = Callable[[Call, Sequence[Array | None], Sequence[Array]], "Sequence[Array] | None"]

FUNCTIONS: Mapping[str, ArrayFunction] = {
    **indexing.FUNCTIONS,
    **detection.FUNCTIONS,
    **matrices.FUNCTIONS,
}


def with_kernel(kind: str, function: Callable[..., object], results: Sequence[Array] = ()) -> Callable[..., object]:
    """The function of a host op that calls its kernel, and ``function`` for forms that the kernel lacks.

    Args:
        kind: the op.
        function: its numpy function.
        results: arrays that the kernel may write its results to.
    """
    kernel = FUNCTIONS.get(kind)
    if kernel is None:
        return function

    def computed(call: Call, *arrays: Array | None) -> object:
        computed_by_kernel = kernel(call, arrays, results)
        return function(call, *arrays) if computed_by_kernel is None else tuple(map(np.asarray, computed_by_kernel))

    return computed
