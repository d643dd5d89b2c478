"""Writes files atomically: a reader finds the old contents or the new ones, never a mixture.

Several files that belong together have a head, such as the JSON file of a graph, and parts, such as the archive with
its constants. The head has the digest of each part. A part is first put beside its place under a hidden name that its
digest is in. Then the head is replaced: from this moment on the files are the new ones. At last each part is moved to
its place. A reader takes a part from either place, wherever the digest is right. A process that is killed leaves the
old files before that moment and the new files after it; the next writer ends or removes what it has left.

A head that other programs read cannot have digests. It has the name of its part instead, and each part gets a new name.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from ..errors import FormatError
from .drafts import PREFIX, Draft, flush_folder, locked, remove_abandoned
from .interpreter_tricks import blake2b

Write = Callable[[IO[bytes]], object]
Result = TypeVar("Result")
ATTEMPTS = 100  # of reading files together where there are no locks


class FilePart(NamedTuple):
    """A file that belongs to a head.

    Attributes:
        path: of the file.
        write: writes the contents to a binary stream, and returns their digest, which the head must contain.
    """

    path: Path
    write: Callable[[IO[bytes]], object]


class TornError(FormatError):
    """A part has other contents than its head says: another process replaces them now, or somebody has changed one."""


class TakenError(FormatError):
    """There is a file of the name that a part would get."""


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
    write_together([], path, write)


def write_together(parts: Sequence[FilePart], head: Path, write: Write, named: re.Pattern[str] | None = None) -> None:
    """Write files that belong together as ``write_atomically`` does: all are replaced, or none.

    Args:
        parts: the parts, which are written first.
        head: the file with the digests of the parts.
        write: writes the head, after all parts were written.
        named: for a head that has the names of its parts instead of their digests, all names that its parts get.
            Files of such names beside it are removed when it does not contain them any more.

    Raises:
        TakenError: there is a file of the new name of a part.
        FormatError: a file cannot be written.
    """
    made: list[_File] = []
    try:
        for part in parts:
            made.append(_File(part.path))
            digest = made[-1].write(part.write)
            made[-1].digest = str(digest) if named is None else ""
        made.append(_File(head))
        made[-1].write(write)
        with explained(head), locked(made[-1].target.parent):
            _put_in_place(made[:-1], made[-1], named)
        for changed in {file.target.parent for file in made}:
            remove_abandoned(changed)
    finally:
        for file in made:
            file.close()


class _File:
    """A file that is being written: a draft, or for a special file its contents."""

    def __init__(self, path: Path) -> None:
        self.path, self.digest = path, ""
        with explained(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self.is_special = path.exists() and not path.is_file()
            self.target = path if self.is_special else Path(os.path.realpath(path))
            self._draft = None if self.is_special else Draft(self.target.parent, 0o666)
        self._whole = io.BytesIO()  # of a special file: writing an archive seeks, which it may not allow
        self._contents: IO[bytes] = self._whole if self._draft is None else self._draft.stream

    def write(self, write: Callable[[IO[bytes]], Result]) -> Result:
        """Write the contents, up to the disk."""
        with explained(self.path):
            result = write(self._contents)
            if self._draft is not None:
                if self.target.exists():
                    os.chmod(self._draft.stream.fileno(), self.target.stat().st_mode & 0o7777)
                self._draft.flush()
        return result

    def place(self, path: Path) -> None:
        """Put the contents in a place beside the target or at the target, where those of a special file always go."""
        with explained(self.path):
            if self._draft is not None:
                self._draft.place(path)
            else:
                path.write_bytes(self._whole.getvalue())

    def take_back(self) -> None:
        """Remove the file if its contents were put at the target."""
        if self._draft is not None and self._draft.path is None:
            with suppress(OSError):
                os.unlink(self.target)

    def close(self) -> None:
        """Remove the draft if the contents were put in no place."""
        if self._draft is not None:
            self._draft.close()


def _put_in_place(parts: Sequence[_File], head: _File, named: re.Pattern[str] | None) -> None:
    """Replace the files. Only one process does so at a time."""
    folders = {file.target.parent for file in (*parts, head)}
    old = [] if named is None else _named_parts(head, named)
    try:
        for part in parts:
            end_interrupted(part.target, head.target)
            if named is not None and os.path.lexists(part.target):
                raise TakenError(str(part.path), "there is such a file", "a new name")
            part.place(_first_place(part))
        for folder in folders if parts else ():
            flush_folder(folder)
        head.place(head.target)
    except BaseException:
        for part in parts:  # the head tells whether an interrupt came before it was replaced or after
            with suppress(FormatError):
                end_interrupted(part.target, head.target)
            if named is not None and not _contains(head.target, part.target.name):
                part.take_back()
        raise
    for part in parts:
        if _first_place(part) != part.target:
            with explained(part.path):
                _first_place(part).replace(part.target)
    _remove(old, head.target)
    for folder in folders:
        flush_folder(folder)


def _first_place(part: _File) -> Path:
    """Where a part is put before its head is replaced."""
    return part.target if part.is_special or not part.digest else hidden(part.target, part.digest)


def _named_parts(head: _File, named: re.Pattern[str]) -> list[Path]:
    """The files beside a head that it or an earlier head names; none if the head was written by something else.

    Names with a first group are given by this package alone.
    """
    names = [name for name in os.listdir(head.path.parent) if named.fullmatch(name)]
    is_own = any(_contains(head.target, name) for name in names)
    return [head.path.with_name(name) for name in names if is_own or named.fullmatch(name)[1]]  # type: ignore[index]


def _remove(paths: Sequence[Path], head: Path) -> None:
    """Remove parts that the head does not contain."""
    for path in paths:
        if not _contains(head, path.name):
            with suppress(OSError):
                os.unlink(path)


def _contains(head: Path, text: str) -> bool:
    """Whether a head contains a digest or a name."""
    if not head.is_file() or not head.stat().st_size:
        return False
    with head.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        return whole.find(os.fsencode(text)) >= 0


def hidden(part: Path, digest: str) -> Path:
    """Where the contents of a part with this digest are while its head is replaced."""
    return part.with_name(f"{_hidden_prefix(part)}{digest}")


def _hidden_prefix(part: Path) -> str:
    return f"{PREFIX}{blake2b(os.fsencode(part.name), digest_size=8).hexdigest()}-"


def end_interrupted(part: Path, head: Path) -> None:
    """End what a writer has left that was killed: move the contents to their part if the head has their digest.

    Contents whose digest is not in the head are removed.
    """
    prefix = _hidden_prefix(part)
    with explained(part):
        with os.scandir(part.parent) as entries:
            left = [entry.name for entry in entries if entry.name.startswith(prefix)]
        for name in left:
            if _contains(head, name.removeprefix(prefix)):
                part.with_name(name).replace(part)
            else:
                os.unlink(part.with_name(name))


def read_together(head: Path, read: Callable[[], Result]) -> Result:
    """What ``read`` returns, which opens a head and its parts. It is called again if files were replaced meanwhile.

    Raises:
        TornError: a part has other contents than its head says.
    """
    try:
        return read()
    except TornError:
        folder = Path(os.path.realpath(head)).parent
        with locked(folder, shared=True) as is_locked:
            for _ in range(0 if is_locked else ATTEMPTS):
                with suppress(TornError):
                    return read()
            return read()


def expect_writable(path: Path) -> None:
    """Raise the FormatError of writing a file, if it is known before there is anything to write."""
    with explained(path):
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not path.exists() or path.is_file():
            _expect_open(Path(os.path.realpath(path)).parent)


def expect_folder(path: Path) -> None:
    """Raise a FormatError unless files can be written into a folder, which may be missing."""
    with explained(path):
        folder = Path(os.path.realpath(path))
        while not os.path.lexists(folder):
            folder = folder.parent
        _expect_open(folder)


def _expect_open(folder: Path) -> None:
    """Raise the OSError of adding a file to a folder."""
    if not stat.S_ISDIR(os.stat(folder).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """A block in which the errors of the system become a FormatError that names the path."""
    try:
        yield
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a path that can be written") from None
