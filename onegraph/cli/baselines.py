"""Reads the files of accepted findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import FormatError
from ..serialize.files import read_file
from ..serialize.json_text import decode


def read_baseline(path: str, command: str, kind: type, kinds: str) -> Any:
    """The findings in a file.

    Args:
        path: of the file.
        command: the command that has written it.
        kind: of what the file has: a list or a dictionary.
        kinds: the same in words.

    Raises:
        FormatError: the file cannot be read, or no such command has written it.
    """
    content, expected = read_file(Path(path)), f"what onegraph {command} --write-baseline has written"
    try:
        data = decode(content)
    except FormatError:
        raise FormatError(path, "no JSON", expected) from None
    if not isinstance(data, kind):
        raise FormatError(path, f"no {kinds}", expected)
    return data
