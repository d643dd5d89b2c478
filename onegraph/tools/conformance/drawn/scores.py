"""Counts how often each fault record is true, and how often the library goes wrong without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from ...._util.records import record
from ..uses import SINGLE
from .measurement import Tried

PRECISE = 0.99  # the least precision of a record


@record(frozen=True)
class Score:
    """How a record did on random uses.

    Attributes:
        claimed: uses in which the record says that the fault shows.
        wrong: of these, those that went wrong.
        alone: uses that no other record claims.
        alone_wrong: of these, those that went wrong.
        missed: uses of the record's ops that went wrong, and that no record claims.
        failed: uses of the record's ops that went wrong.
        cautioned: uses of which the record says that the fault shows with some numbers, or in some memory.
        cautioned_wrong: of these, those that went wrong.
    """

    claimed: int = 0
    wrong: int = 0
    alone: int = 0
    alone_wrong: int = 0
    missed: int = 0
    failed: int = 0
    cautioned: int = 0
    cautioned_wrong: int = 0

    @property
    def precision(self) -> float | None:
        """Share of the claimed uses that went wrong, where no other record explains that; None if none was claimed."""
        if self.alone:
            return min(self.alone_wrong / self.alone, self.wrong / self.claimed)
        return self.wrong / self.claimed if self.claimed else None

    @property
    def recall(self) -> float | None:
        """Share of the wrong uses of the record's ops that some record claims; None if none was wrong."""
        return 1 - self.missed / self.failed if self.failed else None

    @property
    def is_imprecise(self) -> bool:
        """Whether the record claims too much."""
        return self.precision is not None and self.precision < PRECISE

    def to_dict(self) -> dict[str, Any]:
        """The score as numbers, rounded to 4 decimals."""
        counts = {field.name: getattr(self, field.name) for field in fields(self)}
        rounded = {name: getattr(self, name) for name in ("precision", "recall")}
        return {**counts, **{name: None if value is None else round(value, 4) for name, value in rounded.items()}}


def scores(tried: Sequence[Tried], version: tuple[int, int, int]) -> dict[str, Score]:
    """The score of every record that concerns a library of ``version`` and an op that was drawn."""
    kinds = {one.drawn.use.kind for one in tried}
    failed = Counter(one.drawn.use.kind for one in tried if one.is_wrong)
    missed = Counter(one.drawn.use.kind for one in tried if one.is_wrong and not one.claims)
    found = {}
    for name, fault in SINGLE.items():
        if fault.severity == "slow" or not fault.affects(version) or kinds.isdisjoint(fault.ops):
            continue
        claimed = [one for one in tried if name in one.claims]
        alone = [one for one in claimed if len(one.claims) == 1]
        cautioned = [one for one in tried if name in one.cautions]
        found[name] = Score(
            len(claimed),
            _wrong(claimed),
            len(alone),
            _wrong(alone),
            sum(missed[kind] for kind in fault.ops),
            sum(failed[kind] for kind in fault.ops),
            len(cautioned),
            _wrong(cautioned),
        )
    return found


def _wrong(tried: Iterable[Tried]) -> int:
    return sum(one.is_wrong for one in tried)


def whole(tried: Sequence[Tried]) -> Score:
    """The score of all records together."""
    claimed = [one for one in tried if one.claims]
    failed = [one for one in tried if one.is_wrong]
    missed = sum(not one.claims for one in failed)
    cautioned = [one for one in tried if one.cautions and not one.claims]
    return Score(len(claimed), _wrong(claimed), 0, 0, missed, len(failed), len(cautioned), _wrong(cautioned))


def table(found: dict[str, Score], all_records: Score) -> str:
    """The scores for a terminal: the records that said something of a use, the worst first."""
    met = {name: score for name, score in found.items() if score.claimed or score.cautioned}
    width = max(map(len, [*met, "all records"]))
    lines = [f"{'record':{width}}  claimed    wrong  precision  recall of its ops  perhaps    wrong"]
    order = sorted(met, key=lambda name: (met[name].precision or 0, name))
    rows = [(name, met[name]) for name in order] + [("all records", all_records)]
    lines += [
        f"{name:{width}}  {one.claimed:7}  {one.wrong:7}  {_share(one.precision):>9}  {_share(one.recall):>17}  "
        f"{one.cautioned:7}  {one.cautioned_wrong:7}"
        for name, one in rows
    ]
    unmet = sorted(set(found) - set(met))
    return "\n".join([*lines, *([f"\nnot drawn: {', '.join(unmet)}"] if unmet else [])])


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
