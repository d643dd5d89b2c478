"""Lists valid uses of the ops of no other category."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...opset.dtypes import SPECIFIED, DataType
from .case import FLOATS, Case, SeededData, normals, typed


def cases() -> Iterator[Case]:
    """End, GenIndex, Dropout and Wildcard."""
    yield from typed("End", "4d", normals(((2, 3),)))
    for axis in (0, -1):
        yield from typed("GenIndex", f"{axis}", normals(((2, 3, 4),), {"axis": axis}))
    for dtype in FLOATS:
        for outputs in (("dst",), ("dst", "mask")):
            scalars = (np.array([7], np.int64), np.array([3], np.int64), np.array([0.4], np.float32))
            src = SeededData("dropout").normal(dtype, 5, 7)
            yield Case("Dropout", f"{dtype}-{len(outputs)}", (src, *scalars), {}, None, outputs)
    for data_type in map(DataType, SPECIFIED):
        yield Case("Wildcard", data_type.value, (SeededData("wild").normal("f32", 2, 3),), {}, data_type.value)
