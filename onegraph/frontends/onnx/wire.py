"""Cuts the large tensors out of a serialized model, so that its structure is parsed without a copy of them.

A model is a tree of protobuf messages. A field is a tag, which is the number and the kind of the field, and the
contents. Only fields that can hold a tensor are looked into; all others are kept as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...errors import FormatError

SMALLEST = 4096  # bytes; smaller tensors stay in the message
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5  # the kinds of fields
SIZES = {FIXED_64: 8, FIXED_32: 4}
RAW_DATA = 9  # a field of a tensor
MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR = range(5)
# The fields to look into, by message: the number of the field, and the message that it holds.
FIELDS: dict[int, dict[int, int]] = {
    MODEL: {7: GRAPH},
    GRAPH: {1: NODE, 5: TENSOR},
    NODE: {5: ATTRIBUTE},
    ATTRIBUTE: {5: TENSOR, 6: GRAPH},
    TENSOR: {},
}
MAX_DEPTH = 64  # of messages in messages


class NotProtobuf(Exception):  # noqa: N818 - no error: the parser of protobuf says what is wrong
    """The bytes are no message that this module reads."""


def _random(count: int) -> bytes:
    try:
        return os.urandom(count)
    except OSError as error:
        raise FormatError("random numbers", error.strerror or str(error), "a system that gives some") from None


@dataclass
class Pieces:
    """The structure of a model, and where its large tensors are in the file.

    Attributes:
        structure: the serialized model; in the place of each large tensor it has ``mark`` and a number.
        chunks: offset and size of each large tensor in the file, by number.
        mark: random bytes.
    """

    structure: bytes = b""
    chunks: list[tuple[int, int]] = field(default_factory=list)
    mark: bytes = field(default_factory=lambda: _random(24))

    def chunk(self, contents: bytes) -> tuple[int, int] | None:
        """Offset and size of the large tensor that ``contents`` stands for; None if it stands for itself."""
        if not contents.startswith(self.mark):
            return None
        return self.chunks[int.from_bytes(contents[len(self.mark) :], "little")]


def cut(data: memoryview) -> Pieces:
    """The pieces of a serialized model; of anything else the structure is the whole data."""
    pieces = Pieces()
    try:
        pieces.structure = b"".join(_message(data, 0, len(data), MODEL, pieces, 0))
    except NotProtobuf:
        pieces.structure, pieces.chunks = bytes(data), []
    return pieces


def _message(data: memoryview, begin: int, end: int, kind: int, pieces: Pieces, depth: int) -> list[bytes | memoryview]:
    """The parts that make the message between two places without its large tensors."""
    if depth > MAX_DEPTH:
        raise NotProtobuf
    parts: list[bytes | memoryview] = []
    kept = place = begin  # all before ``kept`` is in ``parts``
    inner = FIELDS[kind]
    while place < end:
        start = place
        tag, place = _varint(data, place, end)
        number, form = tag >> 3, tag & 7
        if form == VARINT:
            _, place = _varint(data, place, end)
            continue
        size, place = _varint(data, place, end) if form == BYTES else (SIZES.get(form, -1), place)
        if size < 0 or place + size > end:
            raise NotProtobuf
        if size >= SMALLEST and (number in inner or (kind == TENSOR and number == RAW_DATA)):
            if number in inner:
                message: Sequence[bytes | memoryview] = _message(
                    data, place, place + size, inner[number], pieces, depth + 1
                )
            else:
                message = [pieces.mark + len(pieces.chunks).to_bytes(8, "little")]
                pieces.chunks.append((place, size))
            parts += [data[kept:start], _encoded(tag), _encoded(sum(map(len, message))), *message]
            kept = place + size
        place += size
    return [*parts, data[kept:end]]


def _varint(data: memoryview, place: int, end: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    value = shift = 0
    while place < end and shift < 70:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
    raise NotProtobuf


def _encoded(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
