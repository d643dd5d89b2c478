"""Makes the forms in which programs read constant weights: another layout, or another address.

Each form has a name, by which a program that is kept makes it again. A form of :data:`LAYOUTS`, the layout of the
weights, is the transform of Winograd's convolution F(2x2, 3x3). :data:`BY_ROWS` and :data:`BY_COLUMNS` say how the
weights of a MatMul lie at an address that is no multiple of 32 bytes.
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..capi.settings import has_avx2, has_avx512
from ..faults.without_avx512 import COLUMNS, PACKED_ROWS, Columns
from ..ir.op import Array
from ..native.library import VERSION
from .kernels.native import compiled, packed, value_of

LAYOUTS = ("OIX", "XIO")
UNUSED = {"slope": 1.0, **dict.fromkeys(("rows", "columns", "first", "top", "left", "turned"), 0)}  # by this transform
BY_ROWS, BY_COLUMNS = "rows", "columns"
SKEW = 16  # bytes from a multiple of 32


def weights_in(form: str, weights: Array) -> Array:
    """The weights in a form, as a read-only array.

    Raises:
        ValueError: the weights do not have the form.
    """
    transformed = transformed_weights(weights, form) if form in LAYOUTS else skewed_weights(weights, form)
    transformed.flags.writeable = False
    return transformed


def skewed_weights(weights: Array, form: str) -> Array:
    """A copy of weights of at least two axes, row by row or column by column, that starts 16 bytes behind 32.

    Raises:
        ValueError: there is no such form.
    """
    if form not in (BY_ROWS, BY_COLUMNS):
        raise ValueError(f"no form {form!r} of weights")
    *batch, first, second = weights.shape
    shape = (*batch, first, second) if form == BY_ROWS else (*batch, second, first)
    rows = aligned_empty(shape, weights.dtype, skew=SKEW)
    skewed = rows if form == BY_ROWS else rows.swapaxes(-1, -2)
    skewed[...] = weights
    return skewed


def transformed_weights(weights: Array, layout: str) -> Array:
    """The f32 weights of ``layout`` OIX or XIO as 16 matrices (I, O).

    Raises:
        ValueError: the weights have no window of 3x3, or O is no multiple of 16.
    """
    dense = np.ascontiguousarray(weights, np.float32)
    window = dense.shape[2:] if layout == "OIX" else dense.shape[:2]
    results, channels = dense.shape[:2] if layout == "OIX" else dense.shape[:1:-1]
    if window != (3, 3) or results % 16:
        raise ValueError(f"weights of shape {dense.shape} in {layout} have no transform")
    planes = aligned_empty((16, channels, results), np.dtype(np.float32))
    numbers = {"of": layout.lower(), "layout": layout.lower(), **UNUSED}
    compiled("winograd", [value_of(dense)], [value_of(planes)], packed("winograd", numbers)).run_once(dense, planes)
    return planes


def skew_of_variable(array: Array) -> int:
    """How far behind a multiple of 64 bytes a variable is to start, as products of many rows may read it as weights."""
    if has_avx512() or not has_avx2() or array.ndim != 2 or array.dtype != np.float32:
        return 0
    sizes = Columns(PACKED_ROWS, array.shape[1], array.itemsize)
    return SKEW if COLUMNS.of(frozenset(["MatMul"]), sizes, VERSION) else 0
