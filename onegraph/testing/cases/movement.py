"""Lists valid uses of the ops that move data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import FLOATS, Case, Dims, normals, typed

_CONCATS: dict[str, tuple[list[Dims], int]] = {
    "two": ([(2, 3, 4), (2, 1, 4)], 1),
    "last": ([(2, 3), (2, 2), (2, 1)], -1),
    "one": ([(2, 3)], 0),
    "vectors": ([(2,), (3,)], 0),
    "many": ([(2, 1)] * 70, 1),
    "64": ([(2, 1)] * 64, 1),
    "65": ([(2, 1)] * 65, 1),
    "rank 6": ([(1, 2, 1, 2, 1, 2)] * 2, 3),
    "rank 7": ([(1, 2, 1, 2, 1, 2, 1)] * 2, 3),
    "empty": ([(2, 0), (2, 3)], 1),
}
_RESHAPES = (
    ([6, 4], False),
    ([-1, 2], False),
    ([0, -1], True),
    ([0, 12], True),
    ([24], True),
    ([2, 3, 4, 1], False),
)
_ORDERS: tuple[list[int], ...] = ([0, 2, 1], [], [-1, 0, 1], [0, 1, 2])


def cases() -> Iterator[Case]:
    """Concat, Reorder, StaticReshape and StaticTranspose."""
    for label, (shapes, axis) in _CONCATS.items():
        yield from typed("Concat", label, normals(shapes, {"axis": axis}), FLOATS if label == "two" else ("f32",))
    yield from typed("Reorder", "4d", normals(((2, 3, 4, 5),)))
    for shape, zero in _RESHAPES:
        make = normals(((2, 3, 4),), {"shape": shape, "special_zero": zero})
        yield from typed("StaticReshape", f"{shape}", make)
    empty = np.zeros((2, 0), np.float32)
    yield Case("StaticReshape", "empty", (empty,), {"shape": [0, 4], "special_zero": False})
    for order in _ORDERS:
        yield from typed("StaticTranspose", f"{order}", normals(((2, 3, 4),), {"order": order}))
