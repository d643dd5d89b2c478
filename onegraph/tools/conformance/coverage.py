"""Counts what a run tried of what the pages document, and which known faults it met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._util.records import record
from ...faults.catalogue import CATALOGUE
from ...faults.fault import SLOW
from .causes import GOOD
from .page_of_op import PageOfOp
from .results import ProbeResult
from .uses import SINGLE, uses_of_fault

Item = tuple[str, str, str]  # the op, the subject, the value


@record(frozen=True)
class Coverage:
    """What a run tried.

    Attributes:
        documented: for each kind of documented fact the number of facts, and of those that were tried.
        untried: the documented facts that were not tried.
        skipped: the ops that were not tried, with the reason.
        faults: for each known fault of this version in the probed ops ``met``, or the reason why it was not.
    """

    documented: dict[str, tuple[int, int]]
    untried: list[Item]
    skipped: dict[str, str]
    faults: dict[str, str]

    def lines(self, *, names: bool = True) -> list[str]:
        """The coverage as text, with or without the names of faults that no probe can meet."""
        report_lines = [f"{name}: {tried} of {count} tried" for name, (count, tried) in self.documented.items()]
        met = sum(reason == MET for reason in self.faults.values())
        beyond = sum(reason in BEYOND for reason in self.faults.values())
        can = len(self.faults) - beyond
        report_lines.append(
            f"known faults of this version: {met} of {can} that a probe can meet; {beyond} that none can"
        )
        missed: dict[str, list[str]] = {}
        for name, reason in self.faults.items():
            if reason != MET:
                missed.setdefault(reason, []).append(name)
        for reason, faults in missed.items():
            listed = ", ".join(faults) if names or reason not in BEYOND else str(len(faults))
            report_lines.append(f"  not met, {reason}: {listed}")
        report_lines += [f"not tried: {', '.join(item)}" for item in self.untried]
        report_lines += [f"skipped: {op}, {reason}" for op, reason in self.skipped.items()]
        return report_lines

    def to_dict(self) -> dict[str, Any]:
        """The coverage as plain dictionaries and lists."""
        documented = {name: {"documented": all_, "tried": tried} for name, (all_, tried) in self.documented.items()}
        untried = [list(item) for item in self.untried]
        return {"documented": documented, "untried": untried, "skipped": self.skipped, "faults": self.faults}


VALUES, GIVEN = "attribute value", "given"
MET = "met"
FUSED = "it shows in fused ops alone"
LAYOUT = "it shows in tensors that are not dense"
PROCESS = "it shows in several calls or executions"
SPEED = "the results are right, but slow"
LARGE = "its examples are too large to run"
OTHER_EDITION = "the edition does not allow its examples"
HIDDEN = "its examples ended right here, which may depend on what lies in memory"
BEYOND = (FUSED, LAYOUT, PROCESS, SPEED, LARGE)
# Parts of the catalogue whose faults no probe can meet.
REASONS = {
    "Tensors that are not dense": LAYOUT,
    "Single ops on tensors that are not dense": LAYOUT,
    "Fused: tensors that are not dense": FUSED,
    "Constants of partitions": PROCESS,
    "Between search, compile and execute": PROCESS,
}


def coverage_of(
    results: Sequence[ProbeResult], pages: Sequence[PageOfOp], skipped: dict[str, str], version: tuple[int, int, int]
) -> Coverage:
    """What the results cover of the pages."""
    tried = {(row.asked.page.schema.kind, row.asked.subject, str(row.asked.value)) for row in results}
    documented: dict[str, tuple[int, int]] = {}
    untried: list[Item] = []
    tried |= {(row.asked.page.schema.kind, row.asked.subject, GIVEN) for row in results if row.asked.group == VALUES}
    for name in (
        "attributes given",
        "attribute values",
        "attributes left out",
        "data types",
        "numbers of inputs",
        "numbers of outputs",
    ):
        items = [item for page in pages for item in _documented(page, name)]
        missing = [item for item in items if item not in tried]
        documented[name] = len(items), len(items) - len(missing)
        untried += missing
    probed = {page.base.kind for page in pages}
    return Coverage(documented, untried, skipped, _faults(results, probed, version))


def _documented(page: PageOfOp, name: str) -> list[Item]:
    """The documented facts of one kind."""
    schema, kind = page.schema, page.schema.kind
    required_in = schema.required_inputs
    required_out = sum(not port.optional for port in schema.outputs)
    if name == "attribute values":
        values_seen = [
            (attribute.name, page.base_word(attribute.name, value))
            for attribute in schema.attributes
            for value in attribute.values
        ]
        values_seen += [
            (attribute.name, value)
            for attribute in schema.attributes
            if attribute.kind == "bool"
            for value in ("True", "False")
        ]
    elif name == "attributes given":
        values_seen = [(attribute.name, GIVEN) for attribute in schema.attributes]
    elif name == "attributes left out":
        values_seen = [(attribute.name, "left out") for attribute in schema.attributes]
    elif name == "data types":
        shown = [", ".join(f"{page.name_of(n)}={t}" for n, t in types.items()) for types in page.combinations]
        values_seen = [("data types", text) for text in shown]
    elif name == "numbers of inputs":
        last = 1 if schema.variadic else len(schema.inputs)
        values_seen = [("number of inputs", str(count)) for count in range(required_in, last + 1)]
    else:
        values_seen = [("number of outputs", str(count)) for count in range(required_out, len(schema.outputs) + 1)]
    return [(kind, subject, value) for subject, value in values_seen]


def _faults(results: Sequence[ProbeResult], probed: set[str], version: tuple[int, int, int]) -> dict[str, str]:
    """For each known fault of the version ``met``, or why not."""
    ended: dict[str, list[bool]] = {}
    for row in results:
        if row.asked.cause in SINGLE:
            ended.setdefault(row.asked.cause, []).append(row.outcome.outcome not in GOOD)
        for cause in row.causes:
            if cause in SINGLE:
                ended.setdefault(cause, []).append(True)
    met = {}
    for title, faults in CATALOGUE.items():
        for fault in faults:
            examples = uses_of_fault(fault) if fault.name in SINGLE else {}
            shown_in = {use.kind for use in examples.values()} or fault.ops
            if not fault.affects(version) or probed.isdisjoint(shown_in):
                continue
            if any(ended.get(fault.name, [])):
                met[fault.name] = MET
            elif fault.severity == SLOW:
                met[fault.name] = SPEED
            elif fault.name not in SINGLE:
                large = not any(example.runs for example in fault.examples)
                met[fault.name] = LARGE if large else REASONS.get(title, FUSED)
            elif fault.name in ended:
                met[fault.name] = HIDDEN
            else:
                met[fault.name] = OTHER_EDITION if examples else LARGE
    return met
