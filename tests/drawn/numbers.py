"""What generators share: shapes and contents that draws lack, layouts, and comparisons with float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onegraph.errors import ArgumentError
from tests.helpers.drawn import TYPES, Array, placed_array

from .draw import Draw, place_of

ULP = 2.0**-23
LARGE = 24_000  # elements, which are worth several threads
# By type, half a digit of a number, and half a digit of the least one.
ROUNDING = {"f32": (2.0**-24, 2.0**-148), "bf16": (2.0**-8, 2.0**-133), "f16": (2.0**-11, 2.0**-24)}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}


def dims(draw: Draw, low: int = 1, high: int = 4) -> list[int]:
    """Sizes, one of them beside that of a vector; now and then so many elements that threads divide them."""
    found = [draw.size(), *[draw.between(1, 4) for _ in range(draw.between(low, high) - 1)]][: max(high, low)]
    draw.rng.shuffle(found)
    if draw.flag(0.04):
        found[draw.between(0, len(found) - 1)] *= max(1, draw.between(LARGE // 2, 2 * LARGE) // int(np.prod(found)))
    return found


def repeated(draw: Draw, shape: Sequence[int]) -> list[int]:
    """A shape that is broadcast to another one, or the same."""
    own = [1 if draw.flag(0.2) else dim for dim in shape]
    return own[draw.between(0, len(own)) :] if draw.flag(0.2) else own


def random_bits(draw: Draw, shape: Sequence[int], dtype: Any) -> Array:
    """Elements of any bits."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return draw.rng.integers(0, 2, shape).astype(np.bool_)
    return np.frombuffer(draw.rng.bytes(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape).copy()


def contents(draw: Draw, shape: Sequence[int], dtype: str) -> Array:
    """Floats in dense memory: numbers, some of them special, or any bits."""
    return random_bits(draw, shape, TYPES[dtype]) if draw.flag(0.3) else draw.dense(shape, dtype)


def turned(draw: Draw, array: Array) -> Array:
    """The elements in memory without gaps where any axis comes last."""
    order = draw.rng.permutation(array.ndim)
    return array.transpose(order).copy().transpose(np.argsort(order))


def laid(draw: Draw, array: Array) -> Array:
    """The elements in dense memory, in another order, or with gaps behind an offset."""
    way = draw.between(0, 3)
    if way == 0:
        return array
    if way == 1:
        return turned(draw, array)
    found = placed_array(draw.rng, array.shape).view() if array.dtype == np.float32 else spaced(draw, array)
    found[...] = array
    return found


def spaced(draw: Draw, array: Array) -> Array:
    """Memory of other strides behind an offset, for an array of any type."""
    like = placed_array(draw.rng, array.shape)
    strides = [stride // like.itemsize * array.itemsize for stride in like.strides]
    return place_of(np.lib.stride_tricks.as_strided(array, array.shape, strides))


def bits(array: Array) -> Array:
    """The bits of elements."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(array.shape)


def check(is_right: Array, found: Array, wanted: Array, draw: Draw) -> None:
    """Raise for the elements that are not right."""
    if not is_right.all():
        wrong = ~is_right
        places = np.argwhere(wrong)[:3].tolist()
        raise AssertionError(f"{draw}: {found[wrong][:5]}, not {wanted[wrong][:5]} at {places} of {found.shape}")


def check_bits(found: Array, wanted: Array, draw: Draw) -> None:
    """Compare all bits."""
    check(bits(found) == bits(wanted), found, wanted, draw)


def check_numbers(found: Array, wanted: Array, draw: Draw) -> None:
    """Compare numbers, among which every NaN is one."""
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    check((one == other) | (np.isnan(one) & np.isnan(other)), found, wanted, draw)


def check_near(found: Array, wanted: Array, error: Array | float, draw: Draw, *, but: Array | bool = False) -> None:
    """Compare numbers with float64, rounded to their type; ``but``: elements that f32 decides on the way."""
    dtype = NAMES[found.dtype]
    relative, least = ROUNDING[dtype]
    exact, room = found.astype(np.float64), error + 1.01 * relative * np.abs(wanted) + least
    near = (exact == wanted.astype(found.dtype).astype(np.float64)) | (np.isnan(exact) & np.isnan(wanted))
    near |= np.abs(exact - wanted) <= room
    # Beside the largest number, a small error decides whether a result is infinite.
    largest = 65504.0 if dtype == "f16" else float(np.finfo(np.float32).max)
    near |= np.isinf(exact) & (np.abs(wanted) + room >= largest) & (np.sign(exact) == np.sign(wanted))
    check(near | but, found, wanted, draw)


def is_refused(draw: Draw, run: Callable[[], None], word: str, *, is_wrong: bool) -> bool:
    """Run a use and return whether it is refused, by an error with this word, which it is exactly if it is wrong."""
    try:
        run()
    except ArgumentError as error:
        if not is_wrong or word not in str(error):
            raise AssertionError(f"{draw}: {error}") from error
        draw.path, draw.runs = "refused", 1
        return True
    assert not is_wrong, f"{draw}: not refused"
    return False
