"""Finds the line of a value in a JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SPACE = re.compile(r"[ \t\r\n,:]*")
_decode = json.JSONDecoder(strict=False).raw_decode


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line, from 1, of the value at ``path``; of the last part of the path that the text has.

    Args:
        text: JSON that was parsed before.
        path: keys of objects and indices of lists, from the outermost value on.
    """
    at = _skip(text, 0)
    for part in path:
        inside = _inside(text, at, part)
        if inside is None:
            break
        at = inside
    return text.count("\n", 0, at) + 1


def pointer(path: Sequence[str | int]) -> str:
    """The path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def _inside(text: str, at: int, part: str | int) -> int | None:
    """The place of the value ``part`` of the object or list at ``at``; None if there is none."""
    is_object = text[at : at + 1] == "{"
    if text[at : at + 1] not in ("{", "[") or is_object != isinstance(part, str):
        return None
    at, index = _skip(text, at + 1), 0
    while text[at : at + 1] not in ("}", "]", ""):
        key: str | int = index
        if is_object:
            key, at = _decode(text, at)
            at = _skip(text, at)
        if key == part:
            return at
        try:
            at = _decode(text, at)[1]
        except ValueError:  # a number as C++ prints it, such as inf
            return None
        at, index = _skip(text, at), index + 1
    return None


def _skip(text: str, at: int) -> int:
    """The next place that is neither space nor a separator."""
    match = _SPACE.match(text, at)
    return at if match is None else match.end()
