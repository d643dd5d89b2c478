"""What looks for NaN, infinities and large numbers."""

from __future__ import annotations

import numpy as np

from onegraph.compiler.kernels.native import compiled, packed
from tests.helpers.drawn import Array
from tests.helpers.kernels import values_of

from .. import draw as runs
from ..draw import Draw
from ..entry import draws
from ..numbers import check_numbers, dims

LARGE = 2.0**20


def rare(draw: Draw, most: float) -> Array:
    """Numbers up to one, among which now and then one is special or beyond it."""
    array = draw.array(dims(draw), draw.dtype())
    array[~(np.abs(array.astype(np.float32)) < most)] = 1
    if array.size and draw.flag(0.4):
        special = [np.nan, -np.nan, np.inf, -np.inf, most, -most, np.nextafter(np.float32(most), np.float32(0)), 3e38]
        array[tuple(draw.between(0, dim - 1) for dim in array.shape)] = draw.of(special)
    return array


@draws("unbounded")
def unbounded(draw: Draw) -> None:
    arrays, found = [rare(draw, LARGE) for _ in range(draw.between(1, 4))], draw.result((1,), is_dense=True)
    draw.said = f"{[(array.dtype, array.shape, array.strides) for array in arrays]}"
    draw.run(*arrays, found)
    has = any((~(np.abs(array.astype(np.float64)) < LARGE)).any() for array in arrays)
    draw.path = "some" if has else "none"
    check_numbers(found, np.array([np.nan if has else 0.0]), draw)


@draws("when_special", "when_special_end")
def when_special(draw: Draw) -> None:
    """A copy that runs only where an input is NaN or infinite; where some show it for others, if both are."""
    arrays = [rare(draw, 3e38) for _ in range(draw.between(1, 4))]
    shown = draw.of([0, draw.between(0, len(arrays) - 1)])
    hidden = draw.between(0, len(arrays) - shown) if shown else 0
    numbers = packed("when_special", {"shown": shown, "hidden": hidden})
    source, target = np.float32([3]), np.float32([7])
    condition, ends = compiled("when_special", values_of(arrays), [], numbers), values_of([source, target])
    draw.said = f"{[(array.dtype, array.shape, array.strides) for array in arrays]}, {shown} show {hidden}"
    copy = compiled("cast", ends[:1], ends[1:])
    runs.run_compiled(copy, *arrays, source, target, threads=draw.threads, condition=condition)
    draw.runs += 1
    has = [not np.isfinite(array.astype(np.float64)).all() for array in arrays]
    is_shown = any(has[:shown]) or not shown
    is_run = any(has[shown + hidden :]) or (is_shown and any(has[shown : shown + hidden]))
    draw.path = "runs" if is_run else "skips"
    assert target[0] == (3 if is_run else 7), str(draw)
