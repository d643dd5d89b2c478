"""Decides whether rounding explains the difference between a result and that of the oracle.

The oracle computes in float64. What rounding does is measured, and not guessed: by a peer, which is the oracle's own
hand in the data type of the model, and by runs of the oracle whose inputs and weights are disturbed by one rounding.
A result may have a few times the error of both, row by row, so that a wrong row of small numbers does not hide behind
one of large numbers. NaN and infinities have to be where the oracle or the peer has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._util.records import record
from .contents import rows_of
from .judgement import Finding

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@record(frozen=True)
class Rounding:
    """What a data type allows.

    Attributes:
        unit: half a unit in the last place of 1, which disturbs the runs of the oracle.
        most: the largest number.
        floor: the error that is allowed without proof, as a share of the largest number of a row.
        usual: the same for the mean error.
        absolute: the error that is allowed however small the numbers are: that of the library's exponentials.
        peer, peer_mean: how many times the largest and the mean error of the peer are allowed.
        disturbed, disturbed_mean: the same for the disturbed runs.
    """

    unit: float
    most: float
    floor: float
    usual: float
    absolute: float
    peer: float
    peer_mean: float
    disturbed: float
    disturbed_mean: float


ROUNDINGS = {
    "float64": Rounding(2.0**-53, 1.7976931348623157e308, 1e-9, 1e-9, 1e-12, 4, 4, 8, 8),
    "float32": Rounding(2.0**-24, 3.4028234663852886e38, 2e-5, 1e-5, 2.0**-19, 4, 4, 8, 8),
    "bfloat16": Rounding(2.0**-8, 3.3895313892515355e38, 2.0**-7, 2.0**-9, 2.0**-19, 3, 1.25, 2, 0.25),
    "float16": Rounding(2.0**-11, 65504.0, 2.0**-10, 2.0**-12, 2.0**-19, 3, 1.25, 2, 0.25),
}
MANY = 64  # elements, whose mean error tells something
SHORTEST = 16  # elements of a row; in fewer, terms of a sum may happen to cancel without an error of the peer
NEAR_MOST = 0.9  # from this share of the largest number on, rounding decides about an infinity


@record(frozen=True)
class Answer:
    """What the oracle gives for one result.

    Attributes:
        exact: in float64, or integers.
        peer: by the oracle's hand in the data type of the model; None if it has none.
        disturbed: ``exact`` with other rounding errors.
    """

    exact: NDArray[Any]
    peer: NDArray[Any] | None
    disturbed: Sequence[NDArray[Any]] = ()


def compare(
    got: NDArray[Any], answer: Answer, dtype: str, *, name: str, run: str, contents: str, loose: float = 1.0
) -> Finding | None:
    """The worst difference between a result and the oracle's that rounding does not explain; None if there is none.

    Args:
        got: the result.
        answer: what the oracle gives.
        dtype: the data type of the result, such as ``bfloat16``; integers and booleans must be equal.
        name, run, contents: of the finding.
        loose: factor on the errors that are allowed without proof, for an oracle without a peer.
    """

    def found(problem: str, actual: object, expected: object, *more: Any) -> Finding:
        return Finding(name, run, contents, problem, str(actual), str(expected), *more)

    if got.shape != answer.exact.shape:
        return found("shape", got.shape, answer.exact.shape)
    if not got.size:
        return None
    rounding = ROUNDINGS.get(dtype)
    if rounding is None:
        wrong = _differing_integers(got, answer)
        if not wrong.any():
            return None
        place = np.unravel_index(int(wrong.argmax()), got.shape)
        return found("numbers", got[place], answer.exact[place], _index(place), float("inf"), int(wrong.sum()))
    got = got.astype(np.float64)
    exact = answer.exact.astype(np.float64)
    peer = exact if answer.peer is None or answer.peer.shape != exact.shape else answer.peer.astype(np.float64)
    noise = [one.astype(np.float64) for one in answer.disturbed if one.shape == exact.shape]
    wrong = _differing_classes(got, exact, peer, noise, rounding)
    if wrong.any():
        place = np.unravel_index(int(wrong.argmax()), got.shape)
        wanted = peer[place] if np.isfinite(exact[place]) and not np.isfinite(peer[place]) else exact[place]
        return found(
            _problem(got[place], wanted),
            f"{got[place]:.7g}",
            f"{wanted:.7g}",
            _index(place),
            float("inf"),
            int(wrong.sum()),
        )
    units = _units(got, exact, peer, noise, rounding, loose)
    if units.max() <= 1:
        return None
    place = np.unravel_index(int(units.argmax()), got.shape)
    return found(
        "numbers", f"{got[place]:.7g}", f"{exact[place]:.7g}", _index(place), float(units.max()), int((units > 1).sum())
    )


def _index(place: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(int, place))


def _problem(got: float, wanted: float) -> str:
    if np.isnan(wanted):
        return "NaN is lost"
    return "NaN" if np.isnan(got) else "infinity" if np.isinf(got) else "infinity is lost"


def _differing_integers(got: NDArray[Any], answer: Answer) -> Mask:
    """Where integers differ from the oracle's, and no rounding error changes those."""
    opinions = [one for one in (answer.peer, *answer.disturbed) if one is not None and one.shape == got.shape]
    wrong: Mask = got != answer.exact
    for opinion in opinions:
        wrong &= opinion == answer.exact
    return wrong


def _classes(values: Floats, most: float) -> NDArray[np.int8]:
    """0 for finite numbers, 1 and -1 for infinities, 2 for NaN."""
    classes = np.where(values > most, 1, np.where(values < -most, -1, 0))
    return np.where(np.isnan(values), 2, classes).astype(np.int8)


def _differing_classes(got: Floats, exact: Floats, peer: Floats, noise: Sequence[Floats], rounding: Rounding) -> Mask:
    """Where a result is finite, infinite or NaN, and neither the oracle nor the peer is."""
    most = rounding.most
    ours = _classes(got, most)
    wrong: Mask = np.ones(got.shape, np.bool_)
    for opinion in (exact, peer, *noise):
        wrong &= ours != _classes(opinion, most)
    with np.errstate(invalid="ignore"):
        edge = (np.abs(exact) > NEAR_MOST * most) & (np.abs(exact) < most / NEAR_MOST) & (ours != 2)
    differing: Mask = wrong & ~edge
    return differing


def _units(
    got: Floats, exact: Floats, peer: Floats, noise: Sequence[Floats], rounding: Rounding, loose: float
) -> Floats:
    """The error of each element in units of the allowed one of its row, and of the mean error where that is larger."""
    count, length = rows_of(got.shape)
    if length < SHORTEST or loose > 1:
        count, length = 1, got.size
    inside = np.isfinite(got) & np.isfinite(exact) & (np.abs(exact) < NEAR_MOST * rounding.most)

    def rows(values: Floats) -> Floats:
        return np.where(inside, values, 0.0).reshape(count, length)

    with np.errstate(invalid="ignore", over="ignore"):
        error = rows(np.abs(got - exact))
        size = rows(np.abs(exact))
        own = rows(np.where(np.isfinite(peer), np.abs(peer - exact), 0.0))
        moved = sum((rows(np.where(np.isfinite(one), np.abs(one - exact), 0.0)) for one in noise), np.zeros_like(own))
        r = rounding
        most = r.peer * own.max(1) + r.disturbed * moved.max(1) + loose * r.floor * size.max(1) + r.absolute
        units = error / most[:, None]
        usual = r.peer_mean * own.mean() + r.disturbed_mean * moved.mean() + loose * r.usual * size.mean() + r.absolute
        mean = error.mean() / usual
        if len(np.unique(exact[inside])) >= MANY:
            mean = max(
                mean, _bias(rows(got - exact), rows(np.where(np.isfinite(peer), peer - exact, 0.0)), size, r, loose)
            )
    if mean > 1 and got.size >= MANY:
        units = np.where(error == error.max(), np.maximum(units, mean), units)
    units_of_error: Floats = units.reshape(got.shape)
    return units_of_error


def _bias(error: Floats, own: Floats, size: Floats, rounding: Rounding, loose: float) -> float:
    """The error that all elements have in common, in units of the allowed one; rounding moves numbers both ways."""
    allowed = (
        2 * abs(own.mean()) + np.abs(own).mean() / 4 + loose * max(rounding.usual, rounding.unit / 2) * size.mean()
    )
    return float(abs(error.mean()) / (allowed + rounding.absolute))
