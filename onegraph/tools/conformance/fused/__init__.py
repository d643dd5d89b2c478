"""Holds a library against the documented fusion patterns: what it fuses, what it does not, and what it gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...._util.counted import counted
from ...._util.worker_process import Outcome, Worker
from ....errors import ArgumentError
from ....opset.fusion_graphs import GRAPHS
from ....opset.fusion_patterns import PATTERNS
from ....opset.signature import Version
from ..runner import run_all
from .cases import PatternCase, pattern_cases

LIMIT = 20.0  # seconds of one chain
# The verdict of a finding, and what it says of the chain.
NOT_FUSED, WRONG, BEYOND = "not fused", "wrong", "beyond"
TITLES = {
    NOT_FUSED: "Promised and not fused",
    WRONG: "Fused and wrong",
    BEYOND: "Fused beyond the text",
}


class PatternReport(NamedTuple):
    """The chains that were tried, each with what the library made of it."""

    cases: tuple[PatternCase, ...]
    outcomes: tuple[Outcome, ...]

    def findings(self) -> dict[str, list[tuple[PatternCase, Outcome]]]:
        """The chains of each verdict."""
        by_verdict: dict[str, list[tuple[PatternCase, Outcome]]] = {verdict: [] for verdict in TITLES}
        for case, outcome in zip(self.cases, self.outcomes, strict=True):
            verdict = verdict_of(case, outcome)
            if verdict:
                by_verdict[verdict].append((case, outcome))
        return by_verdict

    def to_dict(self) -> dict[str, object]:
        """The report as plain values for JSON."""
        return {
            "cases": len(self.cases),
            "promised": sum(case.promised for case in self.cases),
            **{
                verdict.replace(" ", "_"): [
                    {**case._asdict(), "outcome": outcome.outcome, "detail": outcome.detail}
                    for case, outcome in finding
                ]
                for verdict, finding in self.findings().items()
            },
        }

    def text(self) -> str:
        """The report as text: each verdict with its chains."""
        promised = sum(case.promised for case in self.cases)
        lines = [f"{counted(len(self.cases), 'chain')}, {promised} of them documented"]
        for verdict, finding in self.findings().items():
            lines += ["", f"{TITLES[verdict]}: {len(finding)}"]
            lines += _grouped(finding)
        return "\n".join(lines)

    def ids(self) -> dict[str, str]:
        """The verdict of each finding by its id; what is fused beyond the text is none."""
        findings = self.findings()
        names = {NOT_FUSED: "unfused", WRONG: "wrong"}
        return {
            f"pattern:{' + '.join(case.kinds)} in {case.dtype}": name
            for verdict, name in names.items()
            for case, _ in findings[verdict]
        }


def _grouped(outcomes: Sequence[tuple[PatternCase, Outcome]]) -> list[str]:
    """A line for the chains of one first op with equal outcomes and data types, in the order of the chains."""
    dtypes: dict[tuple[str, str, str, str], list[str]] = {}
    for case, outcome in outcomes:
        key = (case.pattern, case.kinds[0], case.chain.partition(" + ")[2], outcome.outcome)
        dtypes.setdefault(key, []).append(case.dtype)
    tails: dict[tuple[str, str, str, str], list[str]] = {}
    for (pattern, head, tail, result), names in dtypes.items():
        tails.setdefault((pattern, head, result, ", ".join(names)), []).append(tail)
    return [
        f"  {pattern}: {head} + {chains[0] if len(chains) == 1 else '{' + ', '.join(chains) + '}'} in {types}: {result}"
        for (pattern, head, result, types), chains in tails.items()
    ]


def verdict_of(case: PatternCase, outcome: Outcome) -> str:
    """The verdict on a chain; empty if the library does what the page says."""
    if outcome.outcome not in ("fused", "split", "unsupported", "refused"):
        return WRONG
    if case.promised:
        return "" if outcome.outcome == "fused" else NOT_FUSED
    return BEYOND if outcome.outcome == "fused" else ""


def run(
    version: Version,
    heads: Sequence[str] = (),
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PatternReport:
    """Try the chains of every documented pattern in the loaded library, in processes of their own.

    Args:
        version: the version of the loaded library.
        heads: names of the first ops; all by default.
        workers: number of processes.
        progress: called with the number of chains done, and of all.

    Raises:
        ArgumentError: a pattern starts with none of the given ops.
        UnsupportedError: no process can be started.
    """
    known = {head for pattern in PATTERNS for head in pattern.heads} | {pattern.main for pattern in GRAPHS}
    for head in heads:
        if head not in known:
            raise ArgumentError(
                f"no documented fusion pattern starts with {head!r} or is of it; expected {', '.join(sorted(known))}"
            )
    cases = tuple(pattern_cases(version, heads))
    requests = [_request(case) for case in cases]
    outcomes = run_all(requests, workers, lambda done: progress(done, len(cases)), _worker)
    return PatternReport(cases, tuple(outcomes))


def _worker() -> Worker:
    return Worker(f"{__name__}.worker", {"OMP_NUM_THREADS": "1"})


def _request(case: PatternCase) -> Mapping[str, object]:
    return {**case._asdict(), "limit": LIMIT, "repeat": True}
