"""Lists valid uses of MatMul."""

from __future__ import annotations

from collections.abc import Iterator

from .case import FLOATS, Case, Dims, SeededData, normals, typed

_SHAPES: dict[str, tuple[Dims, ...]] = {
    "2d": ((3, 5), (5, 4)),
    "bias": ((3, 5), (5, 4), (4,)),
    "bias row": ((3, 5), (5, 4), (1, 4)),
    "bias column": ((3, 5), (5, 4), (3, 1)),
    "bias full": ((2, 3, 5), (2, 5, 4), (2, 3, 4)),
    "bias one": ((2, 3, 5), (2, 5, 4), (1,)),
    "batch": ((2, 3, 5), (2, 5, 4), (4,)),
    "batch broadcast": ((2, 1, 3, 5), (4, 5, 6)),
    "shared weights": ((2, 3, 5), (5, 4), (4,)),
    "shared src": ((3, 5), (2, 5, 4)),
    "vectors": ((5,), (5,)),
    "vector src": ((5,), (5, 4), (4,)),
    "vector weights": ((3, 5), (5,)),
    "vector batch": ((5,), (2, 5, 4)),
    "batch vector": ((2, 3, 5), (5,)),
}
_TURNED: dict[str, tuple[Dims, Dims, bool, bool]] = {
    "ta": ((5, 3), (5, 4), True, False),
    "tb": ((3, 5), (4, 5), False, True),
    "both": ((2, 5, 3), (2, 4, 5), True, True),
    "vector ta": ((5,), (5, 4), True, False),
    "vector tb": ((3, 5), (5,), False, True),
    "vectors": ((5,), (5,), True, True),
}


def cases() -> Iterator[Case]:
    """MatMul with and without bias, with batches, vectors, transposed inputs, and wider output types."""
    for label, shapes in _SHAPES.items():
        types = FLOATS if label in ("2d", "bias", "batch", "vectors") else ("f32",)
        yield from typed("MatMul", label, normals(shapes), types, alike=True)
    for dtype in ("bf16", "f16"):
        data = SeededData("matmul wide")
        yield Case("MatMul", f"wide {dtype}", (data.normal(dtype, 3, 5), data.normal(dtype, 5, 4)), {}, "f32")
    for label, (first_shape, two, a, b) in _TURNED.items():
        data = SeededData(f"matmul {label}")
        pair = (data.normal("f32", *first_shape), data.normal("f32", *two))
        yield Case("MatMul", f"transposed {label}", pair, {"transpose_a": a, "transpose_b": b})
    for mode in ("strict", "relaxed", "f16"):
        data = SeededData("matmul accumulation")
        pair = (data.normal("f32", 3, 5), data.normal("f32", 5, 4))
        yield Case("MatMul", f"accumulation {mode}", pair, {"accumulation_mode": mode})
