"""Joins results that share a cause to findings, and says of each where the page stands and what should change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from ..._util.records import record
from ...faults.capabilities import LIBRARY_VALUES
from ...faults.cpus import ISA_OF_DTYPE
from ...faults.fault import FINE, Fault
from ...opset.dtypes import DataType
from ...opset.errata.correction import ATTRIBUTES, DESCRIPTION, INPUTS, OUTPUTS, TYPES, as_printed
from ...opset.signature import Attribute, Fill, Port
from .causes import NO_KERNEL, NOTED
from .claims import CLAIMS
from .own_causes import OWN
from .page_of_op import PageOfOp
from .probes import UNPRINTED
from .results import VERDICTS, Result
from .uses import SINGLE

RANKS = {verdict: rank for rank, verdict in enumerate(VERDICTS)}
SHOWN = 3  # outcomes that the text of a finding names
UNLIMITED = "the formula of the op, without a limit"
# For each outcome, what the library should do with a use, and what it does.
SHOULD = {
    "refused": "accept {}",
    "unsupported": "have a kernel for {}",
    "wrong": "compute the formula for {}",
    "crash": "compute {} or refuse it with a status",
    "hang": "compute {} or refuse it with a status",
}
DOES = {
    "refused": "refuses",
    "unsupported": "has no kernel for",
    "wrong": "computes other numbers for",
    "crash": "crashes on",
    "hang": "never ends on",
}
# Attributes whose meaning is that of the formula of each op, so that pages may differ.
OWN_MEANING = frozenset(["alpha", "beta", "weights_format", "filter_format"])
# Rules that no function checks: what the library should refuse.
RULES = {
    "attribute_range": "numbers out of the printed range",
    "attribute_value": "words that are not among the printed values",
    "several_numbers": "a list of several numbers for an attribute of one number; it takes the first",
    "wrong_kind": "an attribute of another type than the printed one",
    "data_type": "data types that are in no row of the table",
    "input_count": "another number of inputs than the table has",
    "output_count": "another number of outputs than the table has",
    "missing_attribute": "an op without a required attribute",
}


@record(frozen=True)
class Finding:
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
    rows: tuple[Result, ...] = ()
    fault: str = ""

    @property
    def simplest(self) -> Result | None:
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


class _Words(NamedTuple):
    """What a cause says of the page: the section, what is printed, and the correction."""

    section: str
    printed: str
    correction: str


def findings_of(results: Sequence[Result], pages: Sequence[PageOfOp], version: str) -> list[Finding]:
    """The findings of a run, the worst first: of the probes, of the mistakes in the texts, and of sibling pages."""
    rows: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        for cause in result.causes:
            rows[cause].append(result)
    found = [_finding(cause, chosen, version) for cause, chosen in rows.items()]
    shown = {finding.id for finding in found}
    found += [one for one in _unprobed_corrections(results, pages) if one.id not in shown]
    found += _siblings(pages)
    return sorted(found, key=lambda finding: (-RANKS[finding.verdict], finding.id))


def _finding(cause: str, rows: Sequence[Result], version: str) -> Finding:
    verdict = max((row.verdict for row in rows), key=RANKS.__getitem__)
    best = _simplest([row for row in rows if row.verdict == verdict])
    words = _words(cause, best, version)
    pages = {row.asked.page.schema.kind: row.asked.page for row in rows}
    outcomes = Counter(row.happened.splitlines()[0] for row in rows)
    came = [f"{text} ({count} of {len(rows)} probes)" for text, count in outcomes.most_common(SHOWN)]
    if len(outcomes) > SHOWN:
        came.append(f"{len(outcomes) - SHOWN} other outcomes")
    return Finding(
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


def _simplest(rows: Sequence[Result]) -> Result:
    """The row that shows a cause best: the example of a known fault, one change, f32, few elements."""

    def weight(row: Result) -> tuple[int, bool, bool, int, int]:
        use, group = row.asked.use, row.asked.group
        own = any(cause.name in row.causes for cause in OWN)
        order = {"known fault": 0, "valid use": 0 if own else 3}.get(group, 1 if row.asked.says != UNPRINTED else 2)
        in_f32 = {*use.dtypes, *use.outputs} <= {"f32", "s32", "u8", "s8"}
        elements = sum(array.size for array in use.arrays)
        return order, row.outcome.outcome in ("refused", "unsupported"), not in_f32, elements, len(use.attrs)

    return min(rows, key=weight)


def _done(row: Result) -> str:
    asked = row.asked
    value = asked.value if isinstance(asked.value, str) else repr(asked.value)
    if asked.group == "known fault":
        return f"{asked.page.schema.kind}: {asked.value}"
    if asked.group == "valid use":
        return f"{asked.page.schema.kind}: the valid use {value}"
    changed = f", changed in a use that is right ({asked.control.label})" if asked.control is not None else ""
    return f"{asked.page.schema.kind}: {asked.subject} {value}{changed}"


# Words ---------------------------------------------------------------------------------------------------------------


def _words(cause: str, row: Result, version: str) -> _Words:
    page = row.asked.page
    kind, _, name = cause.partition(":")
    for claim in CLAIMS:
        if claim.name == cause:
            return _Words(claim.section, claim.printed, claim.meant)
    for own in OWN:
        if own.name == cause:
            return _Words(own.section, own.printed, own.meant)
    if kind == "correction":
        one = next(one for one in page.corrections if one.name == name)
        return _Words(one.section, f"{one.where}: {one.printed}", f"Print {one.meant}, because {one.reason}.")
    if cause in SINGLE:
        section, printed = place(page, SINGLE[cause].where)
        return _Words(section, printed, _limit(SINGLE[cause], row, version))
    if cause == NO_KERNEL:
        return _Words(DESCRIPTION, UNLIMITED, f"Print that oneDNN {version} has no kernel for the op by itself.")
    if kind == "machine":
        needed = ISA_OF_DTYPE[DataType[name]]
        _, printed = place(page, "data types")
        return _Words(TYPES, printed, f"Print that {name} needs a CPU with {needed}.")
    if cause.endswith("_spelling"):
        attribute = cause.removesuffix("_spelling")
        section, printed = place(page, attribute)
        words = ", ".join(LIBRARY_VALUES[attribute].values())
        return _Words(section, printed, f"Print the values that the library takes: {words}.")
    if kind in ("laxer", "crashes"):
        rule, _, attribute = name.partition(":")
        section, printed = place(page, attribute or row.asked.subject)
        refused = RULES.get(rule) or f"a use that breaks the rule: {_meaning(page, rule)}"
        return _Words(section, printed, f"dnnl_graph_add_op should refuse {refused}.")
    section, printed = place(page, row.asked.subject)
    return _Words(section, printed, _mend(f"{row.asked.subject} {row.asked.value}", row, version))


def _mend(what: str, row: Result, version: str) -> str:
    """What should change if the reason of a failure is unknown."""
    found = row.outcome.outcome
    should = SHOULD[found].format(what)
    return f"oneDNN {version} should {should}; or the page should say that the library {DOES[found]} it."


def _limit(fault: Fault[Any], row: Result, version: str) -> str:
    """What should change because of a fault; its reason is that of the first version that was seen to have it."""
    release, found = tuple(int(part) for part in version.split(".")[:2]), row.outcome.outcome
    seen = {tried: text for tried, text in fault.seen.items() if not FINE.issuperset(text.split(" | "))}
    here, first = [tried for tried in seen if tried <= release], min(seen)
    ends_alike = any(word.startswith(NOTED[found]) for word in seen[first].split(" | "))
    if ends_alike or not here or seen[max(here)] == seen[first]:
        should = SHOULD[found].format("this use")
        return f"oneDNN {version} should {should}; or the page should print the limit: {fault.reason}."
    older = ".".join(map(str, first))
    return f"{_mend('this use', row, version)} oneDNN {older} behaves in another way: {fault.reason}."


def _meaning(page: PageOfOp, rule: str) -> str:
    """The first sentence of the docstring of a rule."""
    for function in (*page.base.rules, *page.base.shape_rules):
        if function.__name__ == rule and function.__doc__:
            return function.__doc__.strip().splitlines()[0].rstrip(".")
    return rule.replace("_", " ")


def place(page: PageOfOp, subject: str) -> tuple[str, str]:
    """The section of a page that speaks of an attribute, port or data types, and what it prints."""
    schema = as_printed(page.schema, page.corrections)
    names = {page.base_name(attribute.name): attribute for attribute in schema.attributes}
    names.update({attribute.name: attribute for attribute in schema.attributes})
    if subject in names:
        return ATTRIBUTES, attribute_text(names[subject])
    for section, ports, meant in (
        (INPUTS, schema.inputs, page.base.inputs),
        (OUTPUTS, schema.outputs, page.base.outputs),
    ):
        if subject in (section, f"number of {section}") or subject in {port.name for port in (*ports, *meant)}:
            return section, ", ".join(f"{port.name} {_needed(port)}" for port in ports)
    if subject == "data types":
        return TYPES, "; ".join(map(str, schema.types))
    return DESCRIPTION, UNLIMITED


def _needed(port: Port) -> str:
    return "(any number)" if port.variadic else "(optional)" if port.optional else "(required)"


def attribute_text(attribute: Attribute) -> str:
    """What the row of an attribute prints."""
    kinds = {"str": "string", "f32[]": "f32 list", "s64[]": "s64 list"}
    text = f"{attribute.name}: {kinds.get(attribute.kind, attribute.kind)}"
    if attribute.values:
        text += f", {' or '.join(attribute.values)}"
    if attribute.range is not None:
        text += f", {attribute.range.name}"
    default = attribute.default
    if default is not None:
        filled = isinstance(default, Fill)
        shown = f"a list of {default.value}s" if isinstance(default, Fill) else default
        text += f", by default {shown}" if filled or default != () else ""
    return text + (", required" if attribute.required else ", optional")


# Findings without a probe of their own -------------------------------------------------------------------------------


def _unprobed_corrections(results: Sequence[Result], pages: Iterable[PageOfOp]) -> list[Finding]:
    """The mistakes in the texts that no probe showed: names, formulas, types that the C API lacks."""
    right: dict[str, list[Result]] = defaultdict(list)
    others: dict[str, set[str]] = defaultdict(set)
    for result in results:
        kind = result.asked.page.schema.kind
        if result.asked.group == "valid use" and result.outcome.outcome == "right":
            right[kind].append(result)
        elif result.asked.group == "valid use":
            others[kind].add(result.happened.splitlines()[0])
    by_name: dict[str, list[PageOfOp]] = defaultdict(list)
    corrections = {}
    for page in pages:
        for one in page.corrections:
            by_name[one.name].append(page)
            corrections[one.name] = one
    found = []
    for name, concerned in by_name.items():
        one = corrections[name]
        shown = [row for page in concerned for row in right.get(page.schema.kind, [])]
        came = f"right as it is meant ({len(shown)} valid uses)" if shown else ""
        came = came or "; ".join(sorted({text for page in concerned for text in others[page.schema.kind]}))
        found.append(
            Finding(
                f"text:correction:{name}",
                "text",
                concerned[0].edition.name,
                tuple(sorted(page.schema.kind for page in concerned)),
                one.section,
                {page.schema.kind: page.edition.link(page.schema) for page in concerned},
                f"{one.where}: {one.printed}" if one.where else one.printed,
                f"{', '.join(page.schema.kind for page in concerned)}: valid uses of what is meant",
                came or "no call shows it",
                f"Print {one.meant}, because {one.reason}.",
                _simplest(shown).code() if shown else "",
            )
        )
    return found


def _siblings(pages: Sequence[PageOfOp]) -> list[Finding]:
    """Attributes that pages of one category print in different ways, and no correction explains."""
    printed: dict[tuple[str, str], dict[str, list[PageOfOp]]] = defaultdict(lambda: defaultdict(list))
    for page in pages:
        corrected = {one.where for one in page.corrections if one.fact is not None}
        for attribute in page.schema.attributes:
            if attribute.name not in corrected | OWN_MEANING:
                printed[page.schema.category, attribute.name][attribute_text(attribute)].append(page)
    found = []
    for (category, name), texts in printed.items():
        if len(texts) < 2:
            continue
        kinds = {text: ", ".join(page.schema.kind for page in concerned) for text, concerned in texts.items()}
        concerned = [page for group in texts.values() for page in group]
        told = [f"{text} ({ops})" for text, ops in kinds.items()]
        found.append(
            Finding(
                f"sibling:{category}:{name}",
                "sibling",
                concerned[0].edition.name,
                tuple(sorted(page.schema.kind for page in concerned)),
                ATTRIBUTES,
                {page.schema.kind: page.edition.link(page.schema) for page in concerned},
                "; ".join(told),
                f"compared the rows of {name} on the pages of the category {category}",
                f"{len(list(combinations(texts, 2)))} pairs of rows differ",
                f"Print one row of {name} on all these pages, or the reason of the difference.",
            )
        )
    return found
