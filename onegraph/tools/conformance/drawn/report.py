"""Writes what a run of random uses found, as text and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...._util.counted import counted
from ...._util.records import record
from ....faults.measured import Score
from .findings import DrawnFinding
from .measurement import Tried
from .scores import scores, table, whole

IMPRECISE = "claims"  # the verdict of a record that claims too much
SHOWN = 12  # findings in a text


@record(frozen=True)
class DrawnReport:
    """A run of random uses.

    Attributes:
        tried: the uses, and what came of them.
        records: the score of each fault record.
        findings: causes of wrong uses that no record claims.
        version: that of the library.
    """

    tried: Sequence[Tried]
    records: dict[str, Score]
    findings: Sequence[DrawnFinding]
    version: tuple[int, int, int]

    @property
    def imprecise(self) -> list[str]:
        """The names of the records that claim too much."""
        return [name for name, score in self.records.items() if score.is_imprecise]

    def ids(self) -> dict[str, str]:
        """The verdict of each finding by its id, with the records that claim too much."""
        return {
            **{finding.id: finding.verdict for finding in self.findings},
            **{f"{IMPRECISE}:{name}": IMPRECISE for name in self.imprecise},
        }

    def text(self) -> str:
        """The outcomes, the scores, and the findings, for a terminal."""
        outcomes = Counter(one.outcome.outcome for one in self.tried)
        lines = [", ".join(f"{count} {name}" for name, count in outcomes.most_common()), ""]
        lines += [table(self.records, whole(self.tried)), ""]
        if self.findings:
            lines.append(f"{counted(len(self.findings), 'cause')} of wrong uses that no record claims:")
        for finding in self.findings[:SHOWN]:
            use = finding.smallest.use
            tensors = ", ".join(f"{dtype} {tensor[1]}" for dtype, tensor in zip(use.dtypes, use.tensors, strict=True))
            detail = f": {finding.outcome.detail}" if finding.outcome.detail else ""
            lines.append(
                f"{finding.id}: {counted(len(finding.numbers), 'use')}; the smallest is {finding.kind}({tensors})"
            )
            lines.append(f"  {dict(use.attrs)}: {finding.outcome.outcome} at {finding.outcome.stage}{detail}")
            lines += [f"  {finding.memory}"] if finding.memory else []
        lines += [f"{IMPRECISE}:{name}: less than 99 % of what the record claims is wrong" for name in self.imprecise]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries, lists, strings and numbers."""
        return {
            "cases": len(self.tried),
            "outcomes": dict(Counter(one.outcome.outcome for one in self.tried)),
            "records": {name: score.to_dict() for name, score in self.records.items()},
            "all": whole(self.tried).to_dict(),
            "ops": _by_op(self.tried),
            "findings": [finding.to_dict() for finding in self.findings],
            "imprecise": self.imprecise,
        }


def report_of(tried: Sequence[Tried], findings: Sequence[DrawnFinding], version: tuple[int, int, int]) -> DrawnReport:
    """The report of a run."""
    return DrawnReport(tried, scores(tried, version), findings, version)


def _by_op(tried: Sequence[Tried]) -> dict[str, dict[str, int]]:
    """For each op the number of uses, of wrong ones, and of wrong ones that no record claims."""
    by_op: dict[str, dict[str, int]] = {}
    for use_tried in tried:
        counts = by_op.setdefault(use_tried.drawn.use.kind, {"uses": 0, "wrong": 0, "unknown": 0})
        counts["uses"] += 1
        counts["wrong"] += use_tried.is_wrong
        counts["unknown"] += use_tried.is_unknown
    return by_op
