"""Defines a probe, which is one run of an op, and makes the probes that start all others: valid uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._util.records import record
from ...opset.signature import Fill
from .page_of_op import PageOfOp
from .uses import SINGLE, ProbedUse, uses_of_cases, uses_of_fault

# What the edition says about the changed use: it allows it; it forbids it; its page prints it by mistake; it means it,
# but the page leaves it out.
TAKEN, REFUSED, PRINTED, UNPRINTED = "taken", "refused", "printed", "not printed"
GROUPS = (
    "valid use",
    "attribute value",
    "attribute default",
    "attribute required",
    "attribute refused",
    "data types",
    "ports",
    "known fault",
    "text",
)
TIME_LIMIT = 20.0  # seconds for one probe; a healthy one takes milliseconds
SHORT_LIMIT = 4.0  # where a hang is known


@record(frozen=True)
class Probe:
    """One run of an op.

    Attributes:
        page: the op and its edition.
        group: one of :data:`GROUPS`.
        subject: the attribute, or what else is probed.
        value: what is tried.
        says: what the edition says about it: taken, refused, printed, or not printed.
        use: the use that the edition means.
        call: for each attribute the kind of its setter and the value.
        control: the right use that the probe changes, or that has what a failing use lacks; None if there is none.
        cause: the cause of a disagreement, where it is known before.
    """

    page: PageOfOp
    group: str
    subject: str
    value: Any
    says: str
    use: ProbedUse
    call: Mapping[str, Sequence[Any]]
    control: ProbedUse | None = None
    cause: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the edition means to allow it."""
        return self.says in (TAKEN, UNPRINTED)

    def request(self) -> dict[str, Any]:
        """What the worker gets."""
        fault = SINGLE.get(self.cause)
        hangs = fault is not None and any("hang" in seen for seen in fault.seen.values())
        return {
            "name": self.page.base.name,
            "use": self.use.to_dict(),
            "call": self.call,
            "allowed": self.allowed,
            "limit": SHORT_LIMIT if hangs else TIME_LIMIT,
        }


def valid_uses(page: PageOfOp, version: tuple[int, int, int]) -> list[Probe]:
    """Every valid use of the op that the package has, and the examples of known faults; those of ``version`` say so."""
    uses = [use for use in uses_of_cases(page.base.kind) if page.allows(use)]
    probes = [Probe(page, "valid use", "use", use.label, TAKEN, use, use.arguments()) for use in uses]
    for fault in SINGLE.values():
        if page.base.kind not in fault.ops:
            continue
        for name, use in uses_of_fault(fault).items():
            if use.kind == page.base.kind and page.allows(use):
                cause = fault.name if fault.affects(version) else ""
                probes.append(Probe(page, "known fault", fault.where, name, TAKEN, use, use.arguments(), None, cause))
    return probes


def completed(page: PageOfOp, use: ProbedUse) -> Iterator[ProbedUse]:
    """A use with what the library needs beyond the text: dilations, and shapes as attributes instead of tensors."""
    arrays, schema = use.arrays, page.base
    for index, port in enumerate(schema.inputs[: len(use.picks)]):
        if schema.has_attribute(port.name):  # the last input
            yield use.taking(index).having(**{port.name: arrays[index].ravel().tolist()})
    for attribute in schema.attributes:
        if isinstance(attribute.default, Fill) and attribute.name not in use.attrs and "strides" in use.attrs:
            yield use.having(**{attribute.name: [attribute.default.value] * len(use.attrs["strides"])})
