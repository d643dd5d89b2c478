"""Lists valid uses of the reductions."""

from __future__ import annotations

from collections.abc import Iterator

from ...opset.editions.registry import BASE
from .case import FLOATS, Case, Dims, SeededData, normals, s32, typed

_USES: list[tuple[Dims, list[int], bool]] = [
    *(((2, 3, 4), axes, keep) for axes in ([1], [0, -1], [0, 1, 2], []) for keep in (False, True)),
    ((1, 3, 1), [0, 2], False),
    ((1, 1), [0, 1], False),
    ((3, 1), [-1], True),
    ((5,), [0], False),
]


def cases() -> Iterator[Case]:
    """Every reduction of the base vocabulary, with the axes as an attribute and as a tensor."""
    for kind, schema in BASE.items():
        if schema.category != "reduction":
            continue
        for shape, axes, keep in _USES:
            make = normals((shape,), {"axes": axes, "keep_dims": keep})
            yield from typed(kind, f"{shape}{axes}{keep}", make, FLOATS if shape == (2, 3, 4) else ("f32",))
        data = SeededData(f"tensor {kind}")
        yield Case(kind, "axes tensor", (data.normal("f32", 2, 3, 4), s32(0, -1)), {"keep_dims": True})
