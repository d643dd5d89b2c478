"""The folder of what is kept for later processes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import ArgumentError
from .paths import absolute, path_of

VARIABLE = "ONEGRAPH_CACHE"  # the folder; empty for none
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_chosen: list[Path | None] = []  # what the program has set, otherwise empty


def get_cache_folder() -> Path | None:
    """The folder of the files that onegraph keeps for later processes; None if it keeps none.

    ``set_cache_folder`` sets it; before, it is the environment variable ``ONEGRAPH_CACHE``, where an empty text stands
    for None, or else ``onegraph`` in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    if _chosen:
        return _chosen[-1]
    folder, base = os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME", "")
    try:
        if folder is not None:
            return Path(absolute(folder)) if folder else None
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "onegraph"
    except (OSError, RuntimeError):  # no current folder, no home
        return None


def set_cache_folder(folder: object) -> None:
    """Set the folder of the files that onegraph keeps for later processes; it is made when the first file is written.

    Args:
        folder: a path; None to keep nothing and to read nothing.

    Raises:
        ArgumentError: ``folder`` is neither a path nor None, or is relative where there is no current folder.
    """
    path = None if folder is None else path_of("folder", folder, "the path of a folder, or None")
    if path is not None and os.path.exists(path) and not os.path.isdir(path):
        raise ArgumentError(f"folder: {str(path)!r} is not a folder")
    try:
        _chosen[:] = [None if path is None else Path(absolute(path))]
    except OSError:
        raise ArgumentError(f"folder: {str(path)!r} is relative, and the current folder is gone") from None


def make_folder(folder: Path) -> None:
    """Make the folder, for this user alone, unless it is there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to this user, and no other one may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS
