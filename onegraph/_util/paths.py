"""Checks paths that callers pass."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ArgumentError, shown
from .exact_types import has_type

MAX_PATH = 4096  # bytes, the limit of Linux


def path_of(name: str, path: object, expected: str) -> Path:
    """``path`` as a Path; ArgumentError if it is not a path, contains NUL, or is too long."""
    if not has_type(path, (str, os.PathLike)):
        raise ArgumentError(f"{name}: {shown(path)}; expected {expected}")
    try:
        path_found = Path(path)
        name_of_bytes = os.fsencode(path_found)
        unfit = b"\0" in name_of_bytes or len(name_of_bytes) > MAX_PATH
    except (TypeError, UnicodeError):  # a bytes path, or characters that a file name cannot have
        unfit = True
    if unfit:
        raise ArgumentError(f"{name}: {shown(path)}; expected {expected}")
    return path_found


def absolute(path: str | os.PathLike[str]) -> str:
    """A path with the current folder in front, which an absolute path needs not: the folder may be gone.

    Raises:
        OSError: the path is relative, and there is no current folder.
    """
    plain = os.fspath(path)
    return plain if os.path.isabs(plain) else os.path.join(os.getcwd(), plain)
