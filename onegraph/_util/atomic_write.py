"""Files that are written whole, or not at all."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import FormatError

Write = Callable[[IO[bytes]], object]


def write_atomically(path: Path, write: Write) -> None:
    """Write a file under another name first, so that what was there stays until all of it is written.

    A link stays one. What is no regular file, such as ``/dev/null``, is written into and never replaced.

    Args:
        path: the file.
        write: writes the contents into a stream.

    Raises:
        FormatError: the file cannot be written.
    """
    write_together([(path, write)])


def write_together(files: Sequence[tuple[Path, Write]]) -> None:
    """Write files as ``write_atomically`` does, and put none in its place before all of them are written.

    Raises:
        FormatError: a file cannot be written.
    """
    drafts: list[Path] = []
    try:
        for path, place in [(path, _drafted(path, write, drafts)) for path, write in files]:
            with _explained(path):
                place()
    finally:
        for draft in drafts:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def _drafted(path: Path, write: Write, drafts: list[Path]) -> Callable[[], object]:
    """What puts the contents in their place, which are written here; adds the file that holds them to ``drafts``."""
    with _explained(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            contents = io.BytesIO()  # archives are written back and forth
            write(contents)
            return lambda: path.write_bytes(contents.getvalue())
        target = Path(os.path.realpath(path))
        draft = target.with_name(f".{secrets.token_hex(8)}")
        drafts.append(draft)
        with draft.open("xb") as stream:
            write(stream)
        if target.exists():
            shutil.copymode(target, draft)
        return lambda: draft.replace(target)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a path that can be written") from None
