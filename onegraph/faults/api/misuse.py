"""How the records of misuse are made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...opset.signature import Version
from ..fault import UNSAFE, Fault, Faults, Refusal, always

Errors = type[Exception] | tuple[type[Exception], ...]


def misuse(
    table: Faults[None],
    name: str,
    seen: Mapping[Version, str] | str,
    reason: str,
    error: Errors | None = None,
    *parts: str,
    on: Mapping[str, str] = MappingProxyType({}),
) -> Fault[None]:
    """Add the record of a misuse.

    Args:
        table: which part of the C API it belongs to.
        name: the group, a colon and what is done.
        seen: what the bare calls end in; a text where that is the same in every version that was tried.
        reason: why.
        error: what onegraph raises; None where the same wish cannot be said, or is right.
        parts: what the message contains.
        on: what the bare calls end in on a kind of CPU, where that is something else.
    """
    outcomes = {(3, 2): seen} if isinstance(seen, str) else seen
    names = [one.__name__ for one in (error if isinstance(error, tuple) else (error,)) if one is not None]
    instead = f"{' or '.join(names)}: {', '.join(parts)}" if names else "the same wish is right"
    refusal = Refusal(error, parts, on)
    return table.add(
        name,
        ops="",
        severity=UNSAFE,
        when=always,
        seen=outcomes,
        reason=reason,
        instead=instead.removesuffix(": "),
        refusal=refusal,
    )
