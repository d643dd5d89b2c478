"""Loads the folders that ``Executable.save`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .._util.atomic_write import read_together
from .._util.mapped_file import SourceFiles
from .._util.validation import flag
from ..builder.graph import DataGraph
from ..errors import ArgumentError, FormatError, shown
from ..serialize import load_model
from ..serialize.model_folder import MODEL, read_settings
from .compile_options import CompileOptions, compile_options
from .executable import Executable, compile_graph
from .origin import Reading, keeps_programs, key_of, opened
from .program_cache import stated_capacity
from .warm_start import find, keep


class _Settings(NamedTuple):
    options: CompileOptions
    cache_capacity: int
    as_read: bool  # whether a front end has made the graph, and each new size tries its patterns again
    roundings: frozenset[str] | None  # see DataGraph


def load_executable(make: type[DataGraph], folder: Path) -> Executable:
    """The executable in a folder; see :func:`onegraph.load`.

    Args:
        make: the class of its graph.
        folder: the folder.

    Raises:
        FormatError: a file is missing, truncated or changed, or a setting is unknown or wrong.
        SpecError: an op breaks the specification.
    """
    key = key_of(folder) if keeps_programs() else None
    if key is not None and (files := opened(key)) is not None:
        settings = _checked(read_settings(folder, files).settings, None)
        if program := find(key, settings.options, files, lambda: _graph(load_model(make, folder, files)[0], settings)):
            program.cache_capacity = settings.cache_capacity
            return program
    reading, graph, settings_read = read_together(folder / MODEL, lambda: _read(make, folder, key))
    settings = _checked(settings_read, graph)
    executable = compile_graph(_graph(graph, settings), **settings.options._asdict())
    executable.cache_capacity = settings.cache_capacity
    if reading is not None and key is not None and (origin := reading.origin(key, graph)) is not None:
        keep(origin, executable)
    return executable


def _graph(graph: DataGraph, settings: _Settings) -> DataGraph:
    """The graph of a folder with what the reader of its model has said about it."""
    graph._note_reading(settings.roundings, as_read=settings.as_read)
    return graph


def _read(
    make: type[DataGraph], folder: Path, key: str | None
) -> tuple[Reading | None, DataGraph, Mapping[str, object]]:
    """The graph in a folder and its settings, and what its programs are kept by if there is a key."""
    reading = None if key is None else Reading()
    return reading, *load_model(make, folder, SourceFiles() if reading is None else reading.files)


def _checked(settings: Mapping[str, object], graph: DataGraph | None) -> _Settings:
    """The settings of ``model.json``.

    Raises:
        FormatError: a setting is unknown or wrong.
    """
    options = {name: settings.get(name) for name in (*CompileOptions._fields, "cache_capacity")}
    options["finite_math"] = settings.get("finite_math", False)  # older files lack it
    capacity = options.pop("cache_capacity")
    if isinstance(threads := options["threads"], dict):  # JSON has the indices of partitions as text
        options["threads"] = {int(index) if index.isdecimal() else index: count for index, count in threads.items()}
    try:
        return _Settings(
            compile_options(graph, **options),  # type: ignore[arg-type]
            stated_capacity(capacity),
            flag("as_read", settings.get("as_read", False)),
            _roundings(settings.get("roundings")),
        )
    except ArgumentError as error:
        raise FormatError("model.json: settings", str(error), "the settings of an executable") from None


def _roundings(names: object) -> frozenset[str] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"roundings: {shown(names)}; expected null or a list of names of ops")
    return frozenset(names)
