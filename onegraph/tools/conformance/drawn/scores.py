"""Counts how often each fault record is true, and how often the library goes wrong without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...._util.counted import counted
from ....faults.measured import Score
from ..uses import SINGLE
from .measurement import Tried


def scores(tried: Sequence[Tried], version: tuple[int, int, int]) -> dict[str, Score]:
    """The score of every record that concerns a library of ``version`` and an op that was drawn."""
    kinds = {one.drawn.use.kind for one in tried}
    failed = Counter(one.drawn.use.kind for one in tried if one.is_wrong)
    missed = Counter(one.drawn.use.kind for one in tried if one.is_wrong and not one.claims)
    scores_by_name = {}
    for name, fault in SINGLE.items():
        if fault.severity == "slow" or not fault.affects(version) or kinds.isdisjoint(fault.ops):
            continue
        claimed = [one for one in tried if name in one.claims]
        alone = [one for one in claimed if len(one.claims) == 1]
        cautioned = [one for one in tried if name in one.cautions]
        scores_by_name[name] = Score(
            len(claimed),
            _wrong(claimed),
            len(alone),
            _wrong(alone),
            sum(missed[kind] for kind in fault.ops),
            sum(failed[kind] for kind in fault.ops),
            len(cautioned),
            _wrong(cautioned),
        )
    return scores_by_name


def _wrong(tried: Iterable[Tried]) -> int:
    return sum(one.is_wrong for one in tried)


def whole(tried: Sequence[Tried]) -> Score:
    """The score of all records together."""
    claimed = [one for one in tried if one.claims]
    failed = [one for one in tried if one.is_wrong]
    missed = sum(not one.claims for one in failed)
    cautioned = [one for one in tried if one.cautions and not one.claims]
    return Score(len(claimed), _wrong(claimed), 0, 0, missed, len(failed), len(cautioned), _wrong(cautioned))


def table(by_name: dict[str, Score], all_records: Score) -> str:
    """The scores for a terminal: the records that said something of a use, the worst first."""
    met = {name: score for name, score in by_name.items() if score.claimed or score.cautioned}
    width = max(map(len, [*met, "all records"]))
    lines = [f"{'record':{width}}  claimed    wrong  precision  recall of its ops  perhaps    wrong"]
    order = sorted(met, key=lambda name: (met[name].precision or 0, name))
    rows = [(name, met[name]) for name in order] + [("all records", all_records)]
    lines += [
        f"{name:{width}}  {score.claimed:7}  {score.wrong:7}  {_share(score.precision):>9}"
        f"  {_share(score.recall):>17}  {score.cautioned:7}  {score.cautioned_wrong:7}"
        for name, score in rows
    ]
    unmet = sorted(set(by_name) - set(met))
    return "\n".join(
        [*lines, *([f"\nno use was drawn for {counted(len(unmet), 'record')}: {', '.join(unmet)}"] if unmet else [])]
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
