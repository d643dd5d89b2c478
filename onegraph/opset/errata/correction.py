"""Defines the record of one mistake in the text of the specification, and an op as its page prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..._util.init_once import made_once
from ..._util.records import record
from ..schema import Schema
from ..signature import Attribute, Port
from ..values import BadValueError, convert

# The parts of a page.
DESCRIPTION, ATTRIBUTES, INPUTS, OUTPUTS, TYPES = "description", "attributes", "inputs", "outputs", "data types"
SECTIONS = (DESCRIPTION, ATTRIBUTES, INPUTS, OUTPUTS, TYPES)
NOWHERE = Port("", "")  # a port that its table leaves out
UNNAMED = "?"  # the data type stands in a column that names none of the ports


@made_once
@record(frozen=True)
class Correction:
    """A mistake in the pages of some ops in some editions.

    Attributes:
        name: unique name of the correction.
        editions: names of the editions that print it.
        ops: the ops on whose pages it stands, by the names of these editions.
        section: the part of the page, one of :data:`SECTIONS`.
        where: the attribute or port that it concerns; empty if it concerns the op.
        printed: what the page prints, in as few of its words as show the mistake, without markup of code; or a
            description of it, for tables and for what is missing.
        meant: what onegraph takes it to mean.
        reason: how that is known: from another edition, from the library, or from the mathematics.
        action: what onegraph does.
        fact: the attribute or port of ``where`` as it is printed, :data:`NOWHERE` for a port that is left out, or the
            printed data types by port: ``""`` for none, :data:`UNNAMED`, or a name. ``sizes@f16`` stands for port
            sizes in rows whose first tensor is of f16, and a port that the op lacks for a column too many. None if
            tables cannot express the mistake.
    """

    name: str
    editions: tuple[str, ...]
    ops: tuple[str, ...]
    section: str
    where: str
    printed: str
    meant: str
    reason: str
    action: str
    fact: Attribute | Port | Mapping[str, str] | None = None

    def concerns(self, edition: str, kind: str) -> bool:
        """Whether the page of op ``kind`` in ``edition`` has the mistake."""
        return edition in self.editions and kind in self.ops

    def is_followed_by(self, name: str, value: object) -> bool:
        """Whether attribute ``name`` with this value is what the page prints; the value is plain."""
        if name != self.where or not isinstance(self.fact, Attribute):
            return False
        if isinstance(value, int) is not (self.fact.kind == "s64"):
            return False
        try:
            convert(self.fact, value)
        except BadValueError:
            return False
        return True

    @property
    def printed_types(self) -> Mapping[str, str]:
        """The printed data types by port; empty if the mistake is another one."""
        return self.fact if isinstance(self.fact, Mapping) else {}

    @property
    def remark(self) -> str:
        """What is printed, and why that is a mistake, for messages about a value that follows it."""
        return f"the page prints {self.printed}: {self.reason}"

    def __str__(self) -> str:
        place = f"{self.section}, {self.where}" if self.where else self.section
        return f"{place}. Printed: {self.printed}. Meant: {self.meant}. Reason: {self.reason}. onegraph: {self.action}"


def as_printed(schema: Schema, corrections: Sequence[Correction]) -> Schema:
    """The op with the attributes and ports that its page prints; the data types are unchanged."""
    attributes = {
        correction.where: correction.fact for correction in corrections if isinstance(correction.fact, Attribute)
    }
    ports = {
        (correction.section, correction.where): correction.fact
        for correction in corrections
        if isinstance(correction.fact, Port)
    }

    def printed(section: str, meant: Iterable[Port]) -> tuple[Port, ...]:
        ports_printed = (ports.get((section, port.name), port) for port in meant)
        return tuple(port for port in ports_printed if port is not NOWHERE)

    return replace(
        schema,
        attributes=tuple(attributes.get(attribute.name, attribute) for attribute in schema.attributes),
        inputs=printed(INPUTS, schema.inputs),
        outputs=printed(OUTPUTS, schema.outputs),
    )


def printed_types(corrections: Iterable[Correction]) -> dict[str, str]:
    """The data types that the page prints differently, by port; see :attr:`Correction.fact`."""
    return {port: dtype for correction in corrections for port, dtype in correction.printed_types.items()}


def guide(first: int, last: int = 14) -> tuple[str, ...]:
    """The developer guides from version 3.``first`` to 3.``last``."""
    return tuple(f"onednn-3.{minor}" for minor in range(first, last + 1))


ONEAPI = ("oneapi-1.2", "oneapi-1.3", "oneapi-1.4")
LEGACY = ("legacy-1",)
GUIDES = guide(0)
CURRENT = (*ONEAPI, *GUIDES)  # the editions with the names of today
ALL = (*LEGACY, *CURRENT)
# The first guides, and the oneAPI specification that is of the same date.
FIRST = ("oneapi-1.2", *guide(0, 1))
