"""The record of one mistake, and the collector of those of one op."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import shown
from .plain import text
from .spec.editions import Edition
from .spec.quirk import LIBRARY as LIBRARY
from .spec.quirk import UNSAFE as UNSAFE
from .spec.schema import Finding

ERROR, NOTE = "error", "note"  # the other severities are those of quirks


@dataclass(frozen=True)
class Violation:
    """One mistake.

    Attributes:
        rule: id of the rule that is broken.
        severity: ``error``: breaks the specification; ``library``: documented, but this library refuses it;
            ``unsafe``: documented, but this library would crash or compute wrong; ``note``: allowed, worth knowing.
        op: kind of the op, with its name where it has one.
        where: attribute or port.
        given: what was given, as text.
        expected: what is allowed, as text.
        message: all of it in one line.
        edition: name of the edition that was checked against.
        page: where the specification says it.
    """

    rule: str
    severity: str
    op: str
    where: str
    given: str
    expected: str
    message: str
    edition: str
    page: str

    def __str__(self) -> str:
        return self.message


class Violations:
    """The violations of one op of an edition, as they are found."""

    def __init__(self, edition: Edition, op: str) -> None:
        self.edition, self.op = edition, op
        self.page = edition.title
        self.violations: list[Violation] = []

    @property
    def errors(self) -> list[Violation]:
        """The violations that break the specification."""
        return [violation for violation in self.violations if violation.severity == ERROR]

    def add(self, rule: str, where: str, given: object, expected: str, fix: str = "", severity: str = ERROR) -> None:
        """Note one violation; ``given`` may be anything that a user passed."""
        said = shortened(given)
        message = f"{self.op}: {where}: {said}; expected {expected}" + (f"; {fix}" if fix else "")
        self.violations.append(
            Violation(rule, severity, self.op, where, said, expected, message, self.edition.name, self.page)
        )

    def add_finding(self, rule: str, finding: Finding) -> None:
        """Note what a rule found."""
        severity = NOTE if finding.note else ERROR
        self.add(rule, finding.where, finding.given, finding.expected, finding.fix, severity)


def shortened(value: object, limit: int = 120) -> str:
    """Text of a value that a user gave: never long, never raises."""
    said = text(value)
    said = shown(value) if said is None else said
    return said if len(said) <= limit else said[: limit - 3] + "..."
