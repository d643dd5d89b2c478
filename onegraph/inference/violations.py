"""The violations of one op, collected as they are found."""

from __future__ import annotations

from .._util.exact_types import text
from ..errors import ERROR, NOTE, Violation, shown
from ..opset.editions.registry import Edition
from ..opset.schema import Finding


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
