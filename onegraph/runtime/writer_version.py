"""Refuses pickles that another version of onegraph wrote."""

from __future__ import annotations

from typing import Any

from .._version import __version__
from ..errors import FormatError


class WriterVersion(str):
    """The version of onegraph that wrote a pickle. Reading it raises FormatError in a process of another version."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _same_version, (str(self),)


def _same_version(writer: str) -> str:
    if writer != __version__:
        versions = f"written by onegraph {writer}, and read by onegraph {__version__}"
        raise FormatError(
            "pickle", versions, "the same version; Executable.save writes a folder that newer versions load"
        )
    return writer
