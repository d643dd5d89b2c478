"""JSON text read into plain values, within limits; numbers that are not finite as C++ and Python print them."""

from __future__ import annotations

import json
import math
import re

from ..errors import FormatError, shown

MAX_BYTES = 2**26
MAX_DEPTH = 64
MAX_DIGITS = 256


class Twice(dict[str, object]):
    """An object in which a key stands twice; ``key`` is that key."""

    key = ""


def decode(text: str | bytes) -> object:
    """What JSON text holds, of any kind.

    Raises:
        FormatError: it is no JSON, too large, nested too deep, or an object within it has a key twice.
    """
    if isinstance(text, (bytes, bytearray, memoryview)):
        if len(text) > MAX_BYTES:
            raise FormatError("text", f"{len(text)} bytes", f"at most {MAX_BYTES}")
        try:
            text = bytes(text).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FormatError("text", f"byte {error.start} is not UTF-8", "a JSON text") from None
    if not isinstance(text, str):
        raise FormatError("text", type(text).__name__, "a JSON text")
    if len(text) > MAX_BYTES:
        raise FormatError("text", f"{len(text)} characters", f"at most {MAX_BYTES}")
    try:
        try:
            value = _DECODER.decode(text)
        except json.JSONDecodeError:
            if _NUMBERS.search(text) is None:
                raise
            # C++ prints numbers that are not finite as JSON has no word for.
            value = _DECODER.decode(_NOT_FINITE.sub(_as_python, text))
    except json.JSONDecodeError as error:
        given = "the end of the text" if error.pos >= len(text.rstrip()) else shown(text[error.pos : error.pos + 20])
        raise FormatError(f"line {error.lineno} column {error.colno}", given, f"JSON: {error.msg}") from None
    except RecursionError:
        raise FormatError("text", "nested too deep", f"at most {MAX_DEPTH} levels") from None
    _check_depth(value)
    return value


def _integer(digits: str) -> int:
    # Python itself refuses to read far longer ones, and is slow at them.
    if len(digits) > MAX_DIGITS:
        raise FormatError("text", f"a number of {len(digits)} digits", f"at most {MAX_DIGITS}")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise FormatError("text", digits[:MAX_DIGITS], "a number that a float holds")
    return value


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice, seen = Twice(found), set()
    for key, _ in pairs:
        if key in seen:
            twice.key = key
        seen.add(key)
    return twice


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_real, object_pairs_hook=_pairs)
_NUMBERS = re.compile(r"\b(?:inf|nan)\b")
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:inf|nan)\b', re.DOTALL)
_WORDS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-nan": "NaN"}


def _as_python(match: re.Match[str]) -> str:
    return _WORDS.get(match[0], match[0])


def _check_depth(whole: object) -> None:
    level: list[object] = [whole]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for value in level
            if isinstance(value, (dict, list))
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
        for value in level:
            if isinstance(value, Twice):
                raise FormatError("text", f"an object with the key {shown(value.key)} twice", "each key once")
    raise FormatError("text", "nested too deep", f"at most {MAX_DEPTH} levels")
