"""Keeps what a run found: the results, the findings and the coverage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..._util.fork_safety import cached_property
from ..._util.records import record
from ...opset.editions.registry import Edition
from .coverage import Coverage, coverage_of
from .findings import Disagreement, findings_of
from .page_of_op import PageOfOp
from .results import ProbeResult


@record(frozen=True)
class Run:
    """The results of a run, in the order of the ops; it iterates over them.

    Attributes:
        edition: the edition.
        pages: the ops that were tried.
        results: the result of every probe.
        skipped: the ops that were not tried, with the reason.
        version: that of the library.
    """

    edition: Edition
    pages: Sequence[PageOfOp]
    results: Sequence[ProbeResult]
    skipped: dict[str, str]
    version: tuple[int, int, int]

    def __iter__(self) -> Iterator[ProbeResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @cached_property
    def findings(self) -> list[Disagreement]:
        """One finding for each cause of disagreements, the worst first."""
        return findings_of(self.results, self.pages, ".".join(map(str, self.version)))

    @cached_property
    def coverage(self) -> Coverage:
        """What was tried of what the edition documents, and which known faults were met."""
        return coverage_of(self.results, self.pages, self.skipped, self.version)
