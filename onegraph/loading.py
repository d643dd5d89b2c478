"""Loads what graphs and executables save."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

from ._util.paths import path_of
from ._util.tracebacks import ends_traceback
from .errors import ArgumentError, shown
from .graph import Graph

if TYPE_CHECKING:
    from .runtime.executable import Executable

Loaded = TypeVar("Loaded", "Graph", "Executable")


@overload
def load(path: str | PathLike[str]) -> Graph | Executable: ...


@overload
def load(path: str | PathLike[str], kind: type[Loaded]) -> Loaded: ...


@ends_traceback
def load(path: str | PathLike[str], kind: object = None) -> object:
    """Load what ``Graph.save`` or ``Executable.save`` wrote.

    Args:
        path: of the JSON file of a graph; or of the folder of an executable, which is compiled for the library and the
            processors of this process. Its constants lie in the file, mapped into memory: do not change the file while
            the executable exists. ``Executable.save`` replaces the file, which is safe.
        kind: ``onegraph.Executable`` or ``onegraph.Graph``, if the path must hold that one. Type checkers then know the
            result: ``onegraph.load(path, onegraph.Executable)(x)``.

    Raises:
        FormatError: a file cannot be read, is truncated or was changed; the error names the place in it.
        SpecError: an op breaks the specification.
        ArgumentError: the path is no path, ``kind`` is another class, or the path holds the other kind.
    """
    source = path_of("path", path, "the path of a graph file, or of the folder of a saved executable")
    is_folder = os.path.isdir(source)  # False too where nobody may look; reading then says why
    if kind is not None:
        _expect_kind(source, kind, is_folder)
    if not is_folder:
        return Graph.load(source)
    from .runtime.saved_executable import load_executable

    return load_executable(Graph, source)


def _expect_kind(source: Path, kind: object, is_folder: bool) -> None:
    """ArgumentError if ``kind`` is neither Graph nor Executable, or not what the path holds."""
    from .runtime.executable import Executable

    if kind is not Graph and kind is not Executable:
        raise ArgumentError(f"kind: {shown(kind)}; expected onegraph.Executable or onegraph.Graph")
    if is_folder != (kind is Executable):
        actual = "a folder" if is_folder else "no folder"
        expected = "the folder of a saved executable" if kind is Executable else "the JSON file of a graph"
        raise ArgumentError(f"path: {shown(str(source))} is {actual}; expected {expected}")
