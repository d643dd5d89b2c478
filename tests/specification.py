"""The specification's own verdict on an op, without what the loaded library makes of it."""

from __future__ import annotations

from onegraph.checker import check
from onegraph.errors import ERROR, NOTE, Violation


def check_op(
    kind: str, attrs: object = None, inputs: object = (), outputs: object = None, *, edition: str | None = None
) -> list[Violation]:
    """The violations of :func:`onegraph.check_op` that do not depend on the library."""
    found = check.check_op(kind, attrs, inputs, outputs, edition=edition)
    return [violation for violation in found if violation.severity in (ERROR, NOTE)]
