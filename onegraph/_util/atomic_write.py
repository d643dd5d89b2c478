"""Writes files atomically: a file is written completely, or left as it was."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import FormatError

Write = Callable[[IO[bytes]], object]


def write_atomically(path: Path, write: Write) -> None:
    """Write a temporary file and rename it to ``path``, so that a failed write leaves the old file unchanged.

    A symbolic link stays a link: its target is replaced. A special file, such as ``/dev/null``, is written directly
    and never replaced.

    Args:
        path: the file.
        write: a function that writes the contents to a binary stream.

    Raises:
        FormatError: the file cannot be written.
    """
    write_together([(path, write)])


def write_together(files: Sequence[tuple[Path, Write]]) -> None:
    """Write several files as ``write_atomically`` does; none is renamed before all are written.

    Raises:
        FormatError: a file cannot be written.
    """
    drafts: list[Path] = []
    try:
        for path, place in [(path, _drafted(path, write, drafts)) for path, write in files]:
            with explained(path):
                place()
    finally:
        for draft in drafts:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def _drafted(path: Path, write: Write, drafts: list[Path]) -> Callable[[], object]:
    """Write the contents to a temporary file, add it to ``drafts``, and return the function that renames it."""
    import secrets  # both take long to import
    import shutil

    with explained(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            contents = io.BytesIO()  # writing an archive seeks, which a special file may not allow
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
def explained(path: Path) -> Iterator[None]:
    """A block in which the errors of the system become a FormatError that names the path."""
    try:
        yield
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a path that can be written") from None
