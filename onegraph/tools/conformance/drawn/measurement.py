"""Runs drawn uses, and says of each whether the library went wrong and whether a fault record had claimed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...._util.records import record
from ...._util.worker_process import Outcome
from ..uses import SINGLE, ProbedUse
from .drawing import DrawnUse, draw, pages_to_draw, use_of
from .trials import CALM, HARSH, is_bad, run_uses

AGAIN = 8  # runs of a use that ends otherwise than its claims say; the only code of a channel is often at its limit
FAR = 1_000_003  # between seeds of contents
Progress = Callable[[int, int], None]


@record(frozen=True)
class Tried:
    """A drawn use, what the records claim of it, and what the library did.

    Attributes:
        drawn: the use.
        claims: names of the faults that are certain to show in it, but for slow kernels.
        cautions: names of those that show in it with some numbers, or in some memory.
        outcome: what came of it in memory filled with large numbers, between pages that nobody may touch.
        calm: what came of it in ordinary memory; None if that was not tried.
    """

    drawn: DrawnUse
    claims: tuple[str, ...]
    cautions: tuple[str, ...]
    outcome: Outcome
    calm: Outcome | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the library refused, lacked, miscomputed or crashed on the use under either condition."""
        return is_bad(self.worst)

    @property
    def is_surprising(self) -> bool:
        """Whether the use ends otherwise than the records say."""
        return bool(self.claims) != self.is_wrong

    @property
    def worst(self) -> Outcome:
        """The outcome that is not right, if there is one."""
        return self.calm if self.calm is not None and is_bad(self.calm) else self.outcome

    @property
    def is_unknown(self) -> bool:
        """Whether the library goes wrong and no record explains it: finite inputs show no fault of NaN."""
        if not self.is_wrong or self.claims:
            return False
        is_finite = all(np.isfinite(array.astype(np.float64)).all() for array in self.drawn.use.arrays)
        return all(is_finite and SINGLE[name].of_nan for name in self.cautions)

    @property
    def depends_on_memory(self) -> bool:
        """Whether the use is right in ordinary memory and goes wrong in filled memory."""
        return self.calm is not None and is_bad(self.outcome) and not is_bad(self.calm)


def measure(
    cases: int,
    seed: int,
    *,
    edition: str | None = None,
    kinds: Sequence[str] = (),
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[Tried]:
    """Draw uses and run them in the loaded library.

    Args:
        cases: number of uses; the ops take turns.
        seed: of all random choices; the same seed and number give the same use.
        edition: name of the edition; by default every edition that is not newer than the library.
        kinds: the ops; all by default.
        workers: number of processes.
        progress: called with the number of uses done and of all.

    Raises:
        ArgumentError: the edition or an op is unknown.
        LibraryError: there is no usable oneDNN library.
        UnsupportedError: the library has no CPU engine, or no worker process can be started.
    """
    from ....capi import default_engine
    from ....native.library import VERSION

    default_engine()  # or one error instead of one for each use
    pages = pages_to_draw(edition, kinds, VERSION)
    draws = (draw(seed, number, pages) for number in range(cases))
    drawn = [one for one in draws if one is not None]
    uses, claims = [one.use for one in drawn], [one.use.claims(VERSION) for one in drawn]
    outcomes = run_uses(uses, claims, HARSH, workers, lambda done: progress(done, len(uses)))
    tried = [
        Tried(use, _named(said, True), _named(said, False), outcome)
        for use, said, outcome in zip(drawn, claims, outcomes, strict=True)
    ]
    surprising = [place for place, one in enumerate(tried) if one.is_surprising]
    contents = [(place, _with_contents(tried[place].drawn, again)) for place in surprising for again in range(AGAIN)]
    calm = run_uses([use for _, use in contents], [claims[place] for place, _ in contents], CALM, workers)
    for (place, _), result in zip(contents, calm, strict=True):
        if tried[place].is_surprising:
            tried[place] = replace(tried[place], calm=result)
    return _confirmed(tried, workers)


def _with_contents(drawn: DrawnUse, again: int) -> ProbedUse:
    """The use, the first time, and then with other numbers: of some a claimed fault may not show."""
    return drawn.use if not again else use_of(drawn.graph, drawn.number + again * FAR) or drawn.use


def _named(claims: Mapping[str, bool], certain: bool) -> tuple[str, ...]:
    return tuple(name for name, shows in claims.items() if shows is certain)


def _confirmed(tried: Sequence[Tried], workers: int) -> list[Tried]:
    """The uses; those that went wrong without a claim are run again, in processes that ran nothing else before."""
    unknown = [place for place, one in enumerate(tried) if one.is_unknown]
    uses = [tried[place].drawn.use for place in unknown]
    harsh, calm = (run_uses(uses, [()] * len(uses), condition, workers) for condition in (HARSH, CALM))
    again = dict(zip(unknown, zip(harsh, calm, strict=True), strict=True))
    return [
        replace(use_tried, outcome=again[place][0], calm=again[place][1]) if place in again else use_tried
        for place, use_tried in enumerate(tried)
    ]
