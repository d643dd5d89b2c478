"""The list of violations that a check returns, with a text and a notebook form."""

from __future__ import annotations

from .._util.counted import counted
from .._util.html_table import AMBER, GREY, RED, Cell, html_table
from ..errors import ERROR, LIBRARY, NOTE, TAKEN, UNSAFE, Violation

COLOURS = {ERROR: RED, TAKEN: AMBER, UNSAFE: AMBER, LIBRARY: GREY, NOTE: GREY}
# What a violation of each severity means, for one and for several.
MEANINGS = {
    ERROR: ("breaks the specification", "break the specification"),
    TAKEN: (
        "breaks the specification, but this library takes it",
        "break the specification, but this library takes them",
    ),
    UNSAFE: ("is unsafe in this library", "are unsafe in this library"),
    LIBRARY: ("is a limit of this library", "are limits of this library"),
    NOTE: ("is a note", "are notes"),
}


class ViolationList(list[Violation]):
    """A list of violations. ``print`` shows one in each line; notebooks draw a table.

    The list also holds violations that are no errors, such as notes, so ask ``if violations.errors:`` whether the
    specification is broken.
    """

    @property
    def errors(self) -> list[Violation]:
        """The violations that break the specification."""
        return [violation for violation in self if violation.severity == ERROR]

    def __str__(self) -> str:
        return "\n".join(f"{violation}  ({violation.page})" for violation in self) or "no violations"

    def _repr_html_(self) -> str:
        """The violations as HTML for a notebook."""
        if not self:
            return "<p>no violations</p>"
        rows: list[list[str | Cell]] = [
            [
                Cell(violation.severity, COLOURS.get(violation.severity, "")),
                violation.op,
                violation.where,
                violation.given,
                _fix(violation),
                violation.rule,
                violation.page,
            ]
            for violation in self
        ]
        heads = ["severity", "op", "where", "given", "expected", "rule", "page"]
        return html_table(f"{counted(len(self), 'violation')}: {self._summary()}", heads, rows)

    def _summary(self) -> str:
        """How many violations there are of each severity."""
        severities = [one.severity for one in self]
        counts = {severity: severities.count(severity) for severity in dict.fromkeys((*MEANINGS, *severities))}
        return ", ".join(
            f"{count} {MEANINGS.get(severity, (severity, severity))[count > 1]}"
            for severity, count in counts.items()
            if count
        )


def _fix(violation: Violation) -> str:
    """What is expected, with the way to correct it."""
    return violation.message.rpartition("; expected ")[2]
