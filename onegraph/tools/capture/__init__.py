"""Recording what is compiled: a user's bug in one folder."""

from __future__ import annotations

import json
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING

from ..._util.init_once import Made
from ..._util.validation import flag, integer
from ..._version import __version__
from ...errors import ArgumentError, FormatError, OneGraphError, StateError
from ...serialize.files import path_of
from .recording import Recording, write_text

if TYPE_CHECKING:
    from .recorded import Recorder

MAX_BYTES = 2**28


class capture(Made):  # noqa: N801 - it is called like a function, as contextlib's own are
    """Record every graph compiled within a ``with`` block, in any thread, to files.

    What is written is there before the library is called, so that it is left behind by a crash too. Executables that
    were compiled in the block are recorded until it ends. Blocks may be nested: each of them records.

    Args:
        folder: a folder that is new or empty.
        inputs: also the inputs of each call and of each ``bind``.
        max_bytes: inputs are kept as long as they are no more than this many bytes in all; later ones are left out.

    Raises:
        ArgumentError: the folder holds something, or an option makes no sense.
        FormatError: a file cannot be written.
    """

    def __init__(self, folder: str | PathLike[str], *, inputs: bool = False, max_bytes: int = MAX_BYTES) -> None:
        flag("inputs", inputs)
        self.folder = path_of("folder", folder, "the path of a folder that is new or empty")
        most = integer("max_bytes", max_bytes, 0, 2**63 - 1, "a number of bytes")
        self._recorder: Recorder | None = None
        self._recording = Recording(self.folder, inputs, most)

    def __enter__(self) -> capture:
        """Start to record."""
        if self._recording.is_open or self._recording.n_graphs:
            raise ArgumentError("capture: used before; make another")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise ArgumentError(f"folder: {str(self.folder)!r} is not empty; expected one that is new or empty")
        except OSError as error:
            raise FormatError(str(self.folder), error.strerror or str(error), "a folder to write to") from None
        write_text(self.folder / "info.json", json.dumps(_facts(), indent=2))
        from ...runtime import executable
        from .recorded import Recorder

        self._recorder = Recorder(self._recording)
        self._recording.is_open = True
        executable.RECORDERS += (
            self._recorder,
        )  # the last of all: after an interrupt before it, nobody would stop to record
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to record; a StateError where it does not."""
        from ...runtime.executable import RECORDERS

        self._recording.is_open = False
        if self._recorder not in RECORDERS:
            raise StateError("capture: not recording; expected a with block that has not ended")
        RECORDERS.remove(self._recorder)


def _facts() -> dict[str, object]:
    try:
        from ...capi import version_info

        return {"onegraph": __version__, **version_info()}
    except (ImportError, OneGraphError) as error:
        return {"onegraph": __version__, "error": str(error)}


__all__ = ["capture"]
