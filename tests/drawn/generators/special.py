"""What looks for NaN, infinities and large numbers."""

from __future__ import annotations

import numpy as np

from onegraph.compiler.kernels.native import compiled, packed
from onegraph.compiler.steps import CompiledStep
from onegraph.native.library import address_of
from onegraph.runtime.plan import Plan, PlanSource
from tests.guard.memory import Guarded
from tests.helpers.drawn import Array
from tests.helpers.kernels import values_of

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
    values = values_of(arrays)
    source, target = np.float32([3]), np.float32([7])
    ends = values_of([source, target])
    steps = [
        compiled("when_special", values, [], packed("when_special", {"shown": shown, "hidden": hidden})),
        compiled("cast", ends[:1], ends[1:], ()),
        compiled("when_special_end", [], [], ()),
    ]
    count = len(arrays)
    pieces = [range(count), (count, count + 1), ()]
    made = [
        CompiledStep(step, step, places, n_inputs, (), 0, 0)
        for step, places, n_inputs in zip(steps, pieces, (count, 1, 0), strict=True)
    ]
    plan = Plan(PlanSource(made, {place: (place, 0) for place in range(count + 2)}, count + 2, draw.threads, {}))
    guarded = [Guarded(array) for array in (*arrays, source, target)]
    for place, each in enumerate(guarded):
        plan.bind(place, address_of(each.array))
    draw.said = f"{[(array.dtype, array.shape, array.strides) for array in arrays]}, {shown} show {hidden}"
    plan.run_steps(0, len(made))
    draw.runs += 1
    has = [not np.isfinite(array.astype(np.float64)).all() for array in arrays]
    is_shown = any(has[:shown]) or not shown
    runs = any(has[shown + hidden :]) or (is_shown and any(has[shown : shown + hidden]))
    draw.path = "runs" if runs else "skips"
    assert guarded[-1].array[0] == (3 if runs else 7), str(draw)
    assert all(each.is_clean() for each in guarded), f"{draw}: writes beside an array"
