"""Files that are written whole, or not at all."""

from __future__ import annotations

import io
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from .errors import FormatError


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under another name first, so that what was there stays until all of it is written.

    A link stays one. What is no regular file, such as ``/dev/null``, is written into and never replaced.

    Args:
        path: the file.
        write: writes the contents into a stream.

    Raises:
        FormatError: the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            contents = io.BytesIO()  # archives are written back and forth
            write(contents)
            path.write_bytes(contents.getvalue())
            return
        target = Path(os.path.realpath(path))
        draft = target.with_name(f".{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as stream:
                write(stream)
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a path that can be written") from None
