"""Joins wrong uses that no record claims to findings: one for each cause, with the smallest use that shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ...._util.records import record
from ...._util.worker_process import Outcome, Worker
from ....opset.editions.registry import BASE, base_of, edition
from ..page_of_op import PageOfOp
from ..uses import ProbedUse
from .drawing import DrawnUse, use_of
from .features import cause
from .measurement import Tried
from .trials import CALM, HARSH, is_bad, new_worker, request

SHRINKING_TESTS = 60
VERDICTS = {"refused": "stricter", "unsupported": "version", "wrong": "wrong", "crash": "crashes", "hang": "crashes"}
MEMORY = "right in zeroed memory: the library reads or writes memory that it does not own or has not written"


@record(frozen=True)
class DrawnFinding:
    """A cause of wrong uses that no fault record claims.

    Attributes:
        id: the verdict, the op, and what the uses share.
        verdict: ``crashes``, ``wrong``, ``stricter`` (refused) or ``version`` (no kernel).
        kind: the op.
        shared: words that every use of the finding has, and few right uses.
        numbers: the numbers of the drawn uses.
        smallest: the smallest use that ends in the same way.
        outcome: what came of it.
        memory: a sentence where the outcome depends on what lies in memory; else empty.
    """

    id: str
    verdict: str
    kind: str
    shared: tuple[str, ...]
    numbers: tuple[int, ...]
    smallest: DrawnUse
    outcome: Outcome
    memory: str

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain dictionaries, lists, strings and numbers."""
        use = self.smallest.use
        return {
            "id": self.id,
            "verdict": self.verdict,
            "op": self.kind,
            "shared": list(self.shared),
            "uses": len(self.numbers),
            "numbers": list(self.numbers),
            "edition": self.smallest.edition,
            "attributes": dict(use.attrs),
            "inputs": [[dtype, tensor[1]] for dtype, tensor in zip(use.dtypes, use.tensors, strict=True)],
            "outputs": list(use.outputs),
            "outcome": self.outcome.outcome,
            "stage": self.outcome.stage,
            "detail": self.outcome.detail,
            "memory": self.memory,
        }


def findings_of(tried: Sequence[Tried], version: tuple[int, int, int]) -> list[DrawnFinding]:
    """The findings of the uses that went wrong and that no record claims, the worst first."""
    wrong: dict[tuple[str, str], list[Tried]] = defaultdict(list)
    right: dict[str, list[ProbedUse]] = defaultdict(list)
    for measured in tried:
        use = measured.drawn.use
        if measured.is_unknown:
            wrong[use.kind, VERDICTS[measured.worst.outcome]].append(measured)
        elif not measured.is_wrong:
            right[use.kind].append(use)
    findings = []
    workers = {condition.name: new_worker(condition) for condition in (HARSH, CALM)}
    try:
        for (kind, verdict), rest in wrong.items():
            while rest:
                words, places = cause([one.drawn.use for one in rest], right[kind])
                findings.append(_finding(kind, verdict, words, [rest[place] for place in places], version, workers))
                rest = [one for place, one in enumerate(rest) if place not in places]
    finally:
        for worker in workers.values():
            worker.close()
    order = list(dict.fromkeys(VERDICTS.values()))[::-1]
    return sorted(findings, key=lambda finding: (order.index(finding.verdict), -len(finding.numbers), finding.id))


def _finding(
    kind: str,
    verdict: str,
    words: tuple[str, ...],
    tried: Sequence[Tried],
    version: tuple[int, int, int],
    workers: Mapping[str, Worker],
) -> DrawnFinding:
    first = min(tried, key=lambda one: (len(one.drawn.use.attrs), sum(len(t[2]) for t in one.drawn.use.tensors)))
    smallest, outcome = shrunk(first, version, workers)
    memory = MEMORY if all(one.depends_on_memory for one in tried) else ""
    numbers = tuple(one.drawn.number for one in tried)
    name = ":".join([verdict, kind, ", ".join(words) or "every use"])
    return DrawnFinding(name, verdict, kind, words, numbers, smallest, outcome, memory)


def shrunk(tried: Tried, version: tuple[int, int, int], workers: Mapping[str, Worker]) -> tuple[DrawnUse, Outcome]:
    """The smallest use that the search finds, which ends like this one and that no record claims; and its outcome.

    ``workers``: by the name of their condition.
    """
    from ...reduce import reduce

    drawn, condition = tried.drawn, HARSH if is_bad(tried.outcome) else CALM
    chosen = edition(drawn.edition)
    schema = next(schema for schema in chosen.schemas.values() if base_of(schema).kind == drawn.use.kind)
    page = PageOfOp(chosen, schema)
    seen: dict[int, tuple[DrawnUse, Outcome]] = {}

    def fails(graph: Any) -> bool:
        use = use_of(graph, drawn.number) if len(graph.ops) == 1 else None
        if use is None or use.kind not in BASE or not page.allows(use) or use.claims(version):
            return False
        task = request(use, condition)
        outcome = workers[condition.name].run(task, float(task["limit"]))
        ends_alike = is_bad(outcome) and VERDICTS[outcome.outcome] == VERDICTS[tried.worst.outcome]
        if ends_alike:
            seen[id(graph)] = DrawnUse(drawn.number, drawn.edition, graph, use), outcome
        return ends_alike

    best = reduce(drawn.graph, fails, max_tests=SHRINKING_TESTS) if fails(drawn.graph) else drawn.graph
    return seen.get(id(best), (drawn, tried.worst))
