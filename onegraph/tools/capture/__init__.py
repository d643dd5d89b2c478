"""Records every compiled graph to a folder, to reproduce a bug elsewhere."""

from __future__ import annotations

import json
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING

from ..._util.init_once import Made
from ..._util.paths import path_of
from ..._util.validation import flag, integer
from ..._version import __version__
from ...errors import ArgumentError, FormatError, OneGraphError, StateError
from .recording import Recording, write_text

if TYPE_CHECKING:
    from .recorded import Recorder

MAX_BYTES = 2**28


class capture(Made):  # noqa: N801 - it is called like a function, as contextlib's own are
    """Record every graph that any thread compiles within a ``with`` block, to files.

    The files are written before the library is called, so that they exist after a crash too. Calls of executables that
    were compiled in the block are recorded until the block ends. Blocks may be nested; each records to its own folder.

    Args:
        folder: a folder that is new or empty.
        inputs: True also records the inputs of each call and of each ``bind``.
        max_bytes: limit for the size of all recorded inputs; inputs that would exceed it are not recorded.

    Raises:
        ArgumentError: the folder is not empty, or an option is wrong.
        FormatError: a file cannot be written.
    """

    def __init__(self, folder: str | PathLike[str], *, inputs: bool = False, max_bytes: int = MAX_BYTES) -> None:
        flag("inputs", inputs)
        self.folder = path_of("folder", folder, "the path of a folder that is new or empty")
        most = integer("max_bytes", max_bytes, 0, 2**63 - 1, "a number of bytes")
        self._recorder: Recorder | None = None
        self._recording = Recording(self.folder, inputs, most)

    def __enter__(self) -> capture:
        """Start recording."""
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
        executable.RECORDERS += (self._recorder,)  # done last: after an interrupt before this line, nothing is recorded
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop recording; raises StateError if it was not started."""
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
