"""Runs random valid uses of ops in the bare library, and measures how well the fault records tell what goes wrong.

``run`` draws the uses, runs each in a worker process that may crash or hang, compares with the reference, and joins the
wrong uses that no record claims to findings with the smallest use of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....faults.measured import Score
from .findings import DrawnFinding, findings_of
from .measurement import Tried, measure
from .report import IMPRECISE, DrawnReport, report_of

__all__ = ["IMPRECISE", "DrawnFinding", "DrawnReport", "Score", "Tried", "run"]


def run(
    cases: int,
    seed: int,
    *,
    edition: str | None = None,
    kinds: Sequence[str] = (),
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> DrawnReport:
    """Test the loaded library on random valid uses.

    Args:
        cases: number of uses; the ops take turns.
        seed: of all random choices.
        edition: name of the edition; by default each use is of an edition that is not newer than the library.
        kinds: names of ops; all by default.
        workers: number of processes.
        progress: called with the number of uses done and of all.

    Raises:
        ArgumentError: the edition or an op is unknown.
        LibraryError: there is no usable oneDNN library.
        UnsupportedError: the library has no CPU engine, or no worker process can be started.
    """
    from ....native.library import VERSION

    tried = measure(cases, seed, edition=edition, kinds=kinds, workers=workers, progress=progress)
    return report_of(tried, findings_of(tried, VERSION), VERSION)
