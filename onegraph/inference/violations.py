"""Collects the violations of one op."""

from __future__ import annotations

from .._util.exact_types import text
from ..errors import ERROR, NOTE, Violation, shown
from ..opset.editions.registry import Edition
from ..opset.schema import RuleFinding


class Violations:
    """The violations of one op, which the checks of an edition add."""

    def __init__(self, edition: Edition, op: str) -> None:
        self.edition, self.op = edition, op
        self.page = edition.title
        self.violations: list[Violation] = []

    @property
    def errors(self) -> list[Violation]:
        """The violations that break the specification."""
        return [violation for violation in self.violations if violation.severity == ERROR]

    def add(
        self,
        rule: str,
        where: str,
        value: object,
        expected: str,
        fix: str = "",
        severity: str = ERROR,
        *,
        says: str = ":",
    ) -> None:
        """Add one violation; ``value`` may be any value of a user, and ``says`` joins it to ``where``."""
        given_text = shortened(value)
        message = f"{self.op}: {where}{says} {given_text}; expected {expected}" + (f"; {fix}" if fix else "")
        self.violations.append(
            Violation(rule, severity, self.op, where, given_text, expected, message, self.edition.name, self.page)
        )

    def add_finding(self, rule: str, finding: RuleFinding) -> None:
        """Add the finding of a rule."""
        severity = NOTE if finding.note else ERROR
        self.add(rule, finding.where, finding.given, finding.expected, finding.fix, severity)


def shortened(value: object, limit: int = 120) -> str:
    """Text of a user's value, strings without quotes, at most ``limit`` characters; never raises."""
    word = text(value)
    word = shown(value) if word is None else word
    return word if len(word) <= limit else word[: limit - 3] + "..."
