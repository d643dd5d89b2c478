"""Says in words what a finding of the conformance tests is, and how to mend it."""

from __future__ import annotations

from typing import Any, NamedTuple

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
from .results import ProbeResult
from .uses import SINGLE

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


class Words(NamedTuple):
    """What a cause says of the page: the section, what is printed, and the correction."""

    section: str
    printed: str
    correction: str


def words_of(cause: str, row: ProbeResult, version: str) -> Words:
    """What a page says, what the library does, and what should change."""
    page = row.asked.page
    kind, _, name = cause.partition(":")
    for claim in CLAIMS:
        if claim.name == cause:
            return Words(claim.section, claim.printed, claim.meant)
    for own in OWN:
        if own.name == cause:
            return Words(own.section, own.printed, own.meant)
    if kind == "correction":
        correction = next(correction for correction in page.corrections if correction.name == name)
        return Words(
            correction.section,
            f"{correction.where}: {correction.printed}",
            f"Print {correction.meant}, because {correction.reason}.",
        )
    if cause in SINGLE:
        section, printed = place(page, SINGLE[cause].where)
        return Words(section, printed, limit(SINGLE[cause], row, version))
    if cause == NO_KERNEL:
        return Words(DESCRIPTION, UNLIMITED, f"Print that oneDNN {version} has no kernel for the op by itself.")
    if kind == "machine":
        needed = ISA_OF_DTYPE[DataType[name]]
        _, printed = place(page, "data types")
        return Words(TYPES, printed, f"Print that {name} needs a CPU with {needed}.")
    if cause.endswith("_spelling"):
        attribute = cause.removesuffix("_spelling")
        section, printed = place(page, attribute)
        words = ", ".join(LIBRARY_VALUES[attribute].values())
        return Words(section, printed, f"Print the values that the library takes: {words}.")
    if kind in ("laxer", "crashes"):
        rule, _, attribute = name.partition(":")
        section, printed = place(page, attribute or row.asked.subject)
        refused = RULES.get(rule) or f"a use that breaks the rule: {meaning_of(page, rule)}"
        return Words(section, printed, f"dnnl_graph_add_op should refuse {refused}.")
    section, printed = place(page, row.asked.subject)
    return Words(section, printed, mend(f"{row.asked.subject} {row.asked.value}", row, version))


def mend(part_name: str, row: ProbeResult, version: str) -> str:
    """What should change if the reason of a failure is unknown."""
    ended = row.outcome.outcome
    should = SHOULD[ended].format(part_name)
    return f"oneDNN {version} should {should}; or the page should say that the library {DOES[ended]} it."


def limit(fault: Fault[Any], row: ProbeResult, version: str) -> str:
    """What should change because of a fault; its reason is that of the first version that was seen to have it."""
    release, ended = tuple(int(part) for part in version.split(".")[:2]), row.outcome.outcome
    seen = {tried: text for tried, text in fault.seen.items() if not FINE.issuperset(text.split(" | "))}
    here, first = [tried for tried in seen if tried <= release], min(seen)
    ends_alike = any(word.startswith(NOTED[ended]) for word in seen[first].split(" | "))
    if ends_alike or not here or seen[max(here)] == seen[first]:
        should = SHOULD[ended].format("this use")
        return f"oneDNN {version} should {should}; or the page should print the limit: {fault.reason}."
    older = ".".join(map(str, first))
    return f"{mend('this use', row, version)} oneDNN {older} behaves in another way: {fault.reason}."


def meaning_of(page: PageOfOp, rule: str) -> str:
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
            return section, ", ".join(f"{port.name} {needed(port)}" for port in ports)
    if subject == "data types":
        return TYPES, "; ".join(map(str, schema.types))
    return DESCRIPTION, UNLIMITED


def needed(port: Port) -> str:
    """Whether a port is required, as pages print it."""
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
        shown = f"a list of {default.value}s" if isinstance(default, Fill) else default
        text += f", by default {shown}" if default != () else ""
    return text + (", required" if attribute.required else ", optional")
