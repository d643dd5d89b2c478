"""Joins results that share a cause to findings, and says of each where the page stands and what should change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from ..._util.counted import counted
from ..._util.records import record
from ...opset.errata.correction import ATTRIBUTES
from .own_causes import OWN
from .page_of_op import PageOfOp
from .probes import UNPRINTED
from .results import VERDICTS, ProbeResult
from .uses import SINGLE
from .words import OWN_MEANING, attribute_text, words_of

RANKS = {verdict: rank for rank, verdict in enumerate(VERDICTS)}
SHOWN = 3  # outcomes that the text of a finding names


@record(frozen=True)
class Disagreement:
    """One cause of disagreements.

    Attributes:
        id: unique within a run: the verdict and the cause.
        verdict: the worst verdict of its rows.
        edition: name of the edition.
        ops: the ops that it concerns.
        section: the part of the page.
        links: for each op the address of the source of its page, in the upstream repository at the edition's tag.
        printed: what the page prints.
        done: what was called.
        came_back: what the library did.
        correction: what should change, as a sentence.
        code: Python code that shows it; empty if no call can.
        rows: the results that it explains.
        fault: name of the known fault; empty if it is none.
    """

    id: str
    verdict: str
    edition: str
    ops: tuple[str, ...]
    section: str
    links: dict[str, str]
    printed: str
    done: str
    came_back: str
    correction: str
    code: str = ""
    rows: tuple[ProbeResult, ...] = ()
    fault: str = ""

    @property
    def simplest(self) -> ProbeResult | None:
        """The row that shows it best; None if no probe shows it."""
        rows = [row for row in self.rows if row.verdict == self.verdict]
        return _simplest(rows) if rows else None

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain dictionaries, lists, strings and numbers; of the rows, what they probe."""
        names = ("id", "verdict", "edition", "section", "links", "printed", "done", "came_back", "correction", "code")
        rows = [
            {key: row.probe[key] for key in ("op", "subject", "value", "case")} | {"happened": row.happened}
            for row in self.rows
        ]
        return {
            **{name: getattr(self, name) for name in names},
            "ops": list(self.ops),
            "fault": self.fault,
            "rows": rows,
        }


def findings_of(results: Sequence[ProbeResult], pages: Sequence[PageOfOp], version: str) -> list[Disagreement]:
    """The findings of a run, the worst first: of the probes, of the mistakes in the texts, and of sibling pages."""
    rows: dict[str, list[ProbeResult]] = defaultdict(list)
    for result in results:
        for cause in result.causes:
            rows[cause].append(result)
    disagreements = [_finding(cause, chosen, version) for cause, chosen in rows.items()]
    shown = {finding.id for finding in disagreements}
    disagreements += [correction for correction in _unprobed_corrections(results, pages) if correction.id not in shown]
    disagreements += _siblings(pages)
    return sorted(disagreements, key=lambda finding: (-RANKS[finding.verdict], finding.id))


def _finding(cause: str, rows: Sequence[ProbeResult], version: str) -> Disagreement:
    verdict = max((row.verdict for row in rows), key=RANKS.__getitem__)
    best = _simplest([row for row in rows if row.verdict == verdict])
    words = words_of(cause, best, version)
    pages = {row.asked.page.schema.kind: row.asked.page for row in rows}
    outcomes = Counter(row.happened.splitlines()[0] for row in rows)
    came = [f"{text} ({count} of {counted(len(rows), 'probe')})" for text, count in outcomes.most_common(SHOWN)]
    if len(outcomes) > SHOWN:
        came.append(f"{len(outcomes) - SHOWN} other outcomes")
    return Disagreement(
        f"{verdict}:{cause.removeprefix(f'{verdict}:')}",
        verdict,
        best.asked.page.edition.name,
        tuple(sorted(pages)),
        words.section,
        {kind: page.edition.link(page.schema) for kind, page in sorted(pages.items())},
        words.printed if len(pages) == 1 else f"{best.asked.page.schema.kind}: {words.printed}",
        _done(best),
        "; ".join(came),
        words.correction,
        best.code(),
        tuple(rows),
        cause if cause in SINGLE else "",
    )


def _simplest(rows: Sequence[ProbeResult]) -> ProbeResult:
    """The row that shows a cause best: the example of a known fault, one change, f32, few elements."""

    def weight(row: ProbeResult) -> tuple[int, bool, bool, int, int]:
        use, group = row.asked.use, row.asked.group
        own = any(cause.name in row.causes for cause in OWN)
        order = {"known fault": 0, "valid use": 0 if own else 3}.get(group, 1 if row.asked.says != UNPRINTED else 2)
        in_f32 = {*use.dtypes, *use.outputs} <= {"f32", "s32", "u8", "s8"}
        elements = sum(array.size for array in use.arrays)
        return order, row.outcome.outcome in ("refused", "unsupported"), not in_f32, elements, len(use.attrs)

    return min(rows, key=weight)


def _done(row: ProbeResult) -> str:
    asked = row.asked
    value = asked.value if isinstance(asked.value, str) else repr(asked.value)
    if asked.group == "known fault":
        return f"{asked.page.schema.kind}: {asked.value}"
    if asked.group == "valid use":
        return f"{asked.page.schema.kind}: the valid use {value}"
    changed = f", changed in a use that is right ({asked.control.label})" if asked.control is not None else ""
    return f"{asked.page.schema.kind}: {asked.subject} {value}{changed}"


# Findings without a probe of their own -------------------------------------------------------------------------------


def _unprobed_corrections(results: Sequence[ProbeResult], pages: Iterable[PageOfOp]) -> list[Disagreement]:
    """The mistakes in the texts that no probe showed: names, formulas, types that the C API lacks."""
    right: dict[str, list[ProbeResult]] = defaultdict(list)
    happened: dict[str, set[str]] = defaultdict(set)
    for result in results:
        kind = result.asked.page.schema.kind
        if result.asked.group == "valid use" and result.outcome.outcome == "right":
            right[kind].append(result)
        elif result.asked.group == "valid use":
            happened[kind].add(result.happened.splitlines()[0])
    by_name: dict[str, list[PageOfOp]] = defaultdict(list)
    corrections = {}
    for page in pages:
        for correction in page.corrections:
            by_name[correction.name].append(page)
            corrections[correction.name] = correction
    findings = []
    for name, concerned in by_name.items():
        correction = corrections[name]
        shown = [row for page in concerned for row in right.get(page.schema.kind, [])]
        came = f"right as it is meant ({len(shown)} valid uses)" if shown else ""
        came = came or "; ".join(sorted({text for page in concerned for text in happened[page.schema.kind]}))
        findings.append(
            Disagreement(
                f"text:correction:{name}",
                "text",
                concerned[0].edition.name,
                tuple(sorted(page.schema.kind for page in concerned)),
                correction.section,
                {page.schema.kind: page.edition.link(page.schema) for page in concerned},
                f"{correction.where}: {correction.printed}" if correction.where else correction.printed,
                f"{', '.join(page.schema.kind for page in concerned)}: valid uses of what is meant",
                came or "no call shows it",
                f"Print {correction.meant}, because {correction.reason}.",
                _simplest(shown).code() if shown else "",
            )
        )
    return findings


def _siblings(pages: Sequence[PageOfOp]) -> list[Disagreement]:
    """Attributes that pages of one category print in different ways, and no correction explains."""
    printed: dict[tuple[str, str], dict[str, list[PageOfOp]]] = defaultdict(lambda: defaultdict(list))
    for page in pages:
        corrected = {correction.where for correction in page.corrections if correction.fact is not None}
        for attribute in page.schema.attributes:
            if attribute.name not in corrected | OWN_MEANING:
                printed[page.schema.category, attribute.name][attribute_text(attribute)].append(page)
    findings = []
    for (category, name), texts in printed.items():
        if len(texts) < 2:
            continue
        kinds = {text: ", ".join(page.schema.kind for page in concerned) for text, concerned in texts.items()}
        concerned = [page for group in texts.values() for page in group]
        told = [f"{text} ({ops})" for text, ops in kinds.items()]
        findings.append(
            Disagreement(
                f"sibling:{category}:{name}",
                "sibling",
                concerned[0].edition.name,
                tuple(sorted(page.schema.kind for page in concerned)),
                ATTRIBUTES,
                {page.schema.kind: page.edition.link(page.schema) for page in concerned},
                "; ".join(told),
                f"compared the rows of {name} on the pages of the category {category}",
                f"pairs of rows that differ: {len(list(combinations(texts, 2)))}",
                f"Print one row of {name} on all these pages, or the reason of the difference.",
            )
        )
    return findings
