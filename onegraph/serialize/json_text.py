"""Parses JSON text within limits; it accepts infinity and NaN as C++ and Python print them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable

from .._util.counted import counted
from ..errors import FormatError, shown

MAX_BYTES = 2**26
MAX_DEPTH = 64
MAX_DIGITS = 256
# First bytes of files that are not UTF-8 text.
OTHERS = {
    b"\x1f\x8b": "packed by gzip",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"{\0": "text in UTF-16",
    b"\0{": "text in UTF-16",
    b"PK\3\4": "a zip archive, such as PyTorch's torch.save writes",
    b"\x80\2": "a pickle, such as older versions of torch.save write",
    b"\x93NUMPY": "a numpy array",
    b"\x89HDF": "an HDF5 file, such as Keras writes",
}
# A model of ONNX starts with its version, a small number, and then the name of the producer or the opset.
ONNX = re.compile(rb"\x08[\x01-\x20][\x12\x1a\x22\x2a\x3a\x42]")


def other_format(raw: bytes) -> str:
    """What a file is that is no text in UTF-8, by its first bytes; empty if unknown."""
    if ONNX.match(raw):
        return "a model of ONNX, which onegraph.onnx.load reads"
    return next((what for start, what in OTHERS.items() if raw.startswith(start)), "")


class Twice(dict[str, object]):
    """A JSON object that has a key twice; ``key`` is that key."""

    key = ""


def decode(text: str | bytes) -> object:
    """Parse JSON text of any kind into Python values.

    Raises:
        FormatError: ``text`` is not JSON, too large, nested too deep, or an object inside it has a key twice.
    """
    if isinstance(text, (bytes, bytearray, memoryview)):
        try:
            view = memoryview(text)
        except ValueError:
            raise FormatError("text", "a released memoryview", "a JSON text") from None
        if view.nbytes > MAX_BYTES:
            raise FormatError("text", f"{view.nbytes} bytes", f"at most {MAX_BYTES}")
        raw = view.tobytes()
        problem = other_format(raw)
        if problem:
            raise FormatError("text", problem, "JSON in UTF-8")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FormatError("text", f"byte {error.start} is not UTF-8", "a JSON text") from None
    if len(text) > MAX_BYTES:
        raise FormatError("text", counted(len(text), "character"), f"at most {MAX_BYTES}")
    try:
        # The parser is several times faster if it calls no function for each integer.
        decoder = _DECODER if _LONG.search(text) is None else _COUNTING_DECODER
        try:
            value = decoder.decode(text)
        except json.JSONDecodeError:
            if _NUMBERS.search(text) is None:
                raise
            # C++ prints infinity and NaN as words that JSON does not have.
            text = _NOT_FINITE.sub(_as_python, text)
            value = decoder.decode(text)
    except json.JSONDecodeError as error:
        actual = "the end of the text" if error.pos >= len(text.rstrip()) else shown(text[error.pos : error.pos + 20])
        raise FormatError(f"line {error.lineno} column {error.colno}", actual, f"JSON: {error.msg}") from None
    except _NumberError as error:
        where = _place(text, next((token.start() for token in _TOKENS.finditer(text) if token[0] == error.digits), 0))
        raise FormatError(where, error.given, error.expected) from None
    except RecursionError:
        raise _too_deep(text) from None
    if not _is_shallow(value):
        raise _too_deep(text)
    return value


def json_word(value: object) -> str:
    """The value as text for messages, as JSON writes it: ``null``, ``true``."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else shown(value)


def _place(text: str, position: int) -> str:
    """Line and column of a position, counted as ``json.JSONDecodeError`` does."""
    return f"line {text.count(chr(10), 0, position) + 1} column {position - text.rfind(chr(10), 0, position)}"


def _too_deep(text: str) -> FormatError:
    depth, place = 0, "text"
    for match in _TOKENS.finditer(text):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth > MAX_DEPTH:
            place = _place(text, match.start())
            break
    return FormatError(place, "nested too deep", f"at most {MAX_DEPTH} levels")


class _NumberError(Exception):
    """A number that is refused: its digits, and the two parts of the message."""

    def __init__(self, digits: str, actual: str, expected: str) -> None:
        self.digits, self.given, self.expected = digits, actual, expected
        super().__init__(actual)


def _integer(digits: str) -> int:
    # Python is slow with long integers and refuses very long ones.
    if len(digits) > MAX_DIGITS:
        raise _NumberError(digits, f"a number of {counted(len(digits), 'digit')}", f"at most {MAX_DIGITS}")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _NumberError(digits, digits[:MAX_DIGITS], "a number that a float holds")
    return value


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    by_key = dict(pairs)
    if len(by_key) == len(pairs):
        return by_key
    twice, seen = Twice(by_key), set()
    for key, _ in pairs:
        if key in seen:
            twice.key = key
        seen.add(key)
    return twice


_DECODER = json.JSONDecoder(strict=False, parse_float=_real, object_pairs_hook=_pairs)
_COUNTING_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_real, object_pairs_hook=_pairs)
_LONG = re.compile(rf"(?<![0-9])[0-9]{{{MAX_DIGITS}}}")  # a number may have more digits, or its sign is one more
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]|-?[0-9][0-9.eE+-]*', re.DOTALL)
_NUMBERS = re.compile(r"\b(?:inf|nan)\b")
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:inf|nan)\b', re.DOTALL)
_WORDS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-nan": "NaN"}


def _as_python(match: re.Match[str]) -> str:
    return _WORDS.get(match[0], match[0])


def _is_shallow(whole: object) -> bool:
    """Whether nesting is within ``MAX_DEPTH``; FormatError if an object inside ``whole`` has a key twice."""
    level = [whole] if isinstance(whole, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return True
        for value in level:
            if isinstance(value, Twice):
                problem = f"an object with the key {shown(value.key)} twice"
                raise FormatError(_path(whole, value), problem, "each key once")
    return False


def _children(value: object) -> Iterable[tuple[str | int, object]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def _path(whole: object, wanted: object) -> str:
    """The JSON path of the object ``wanted`` inside ``whole``."""
    level = [("", whole)]
    while level:
        level = [
            (f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]", child)
            for path, value in level
            for key, child in _children(value)
        ]
        for path, value in level:
            if value is wanted:
                return shown(path.lstrip("."))[1:-1]
    return "text"
