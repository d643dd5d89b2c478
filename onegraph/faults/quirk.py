"""What one thing is that the library gets wrong; they are gathered in :mod:`.quirks`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..opset.schema import Call, Version


@dataclass(frozen=True)
class Quirk:
    """One thing that the library gets wrong: the attribute or port, for which ops, when, and in which versions.

    ``since`` is the first version that may have it, ``mended`` the first that is known to be right.
    """

    name: str
    where: str
    severity: str
    kinds: frozenset[str]
    when: Callable[[Call], bool]
    reason: str
    mended: Version | None = None
    since: Version = (3, 2)

    def applies(self, call: Call, version: tuple[int, int, int]) -> bool:
        """Whether a library of ``version`` gets this call wrong."""
        if call.schema.kind not in self.kinds or version < self.since:
            return False
        if self.mended is not None and version >= self.mended:
            return False
        return self.when(call)


def kinds(text: str) -> frozenset[str]:
    """The names of ops in a text."""
    return frozenset(text.split())
