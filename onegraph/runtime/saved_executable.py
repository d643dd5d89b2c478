"""Loads the folders that ``Executable.save`` writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .._util.mapped_file import identity_of
from .._util.validation import flag, integer
from ..arrays.mapped_files import file_of
from ..builder.graph import DataGraph
from ..builder.origin import is_known, key_of, origin_of
from ..errors import ArgumentError, FormatError
from ..serialize.model_folder import CONSTANTS, GRAPH, MODEL, read_settings
from .compile_options import Options, compile_options
from .executable import Executable, compile_graph
from .warm_start import find, keep


class _Settings(NamedTuple):
    options: Options
    cache_capacity: int
    as_read: bool  # whether a front end has made the graph, and each new size tries its patterns again


def load_executable(make: type[DataGraph], folder: Path) -> Executable:
    """The executable in a folder; see :func:`onegraph.load`.

    Args:
        make: the class of its graph.
        folder: the folder.

    Raises:
        FormatError: a file is missing, truncated or changed, or a setting is unknown or wrong.
        SpecError: an op breaks the specification.
    """
    key = _key_of(folder)

    def read() -> tuple[DataGraph, Mapping[str, object]]:
        from ..serialize import load_model

        return load_model(make, folder)

    if key is not None and is_known(key):
        settings = _checked(read_settings(folder)[0], None)
        if (found := find(key, settings.options, lambda: read()[0])) is not None:
            found.cache_capacity = settings.cache_capacity
            return found
    graph, given = read()
    settings = _checked(given, graph)
    graph._n_read = len(graph._ops) if settings.as_read else 0
    executable = compile_graph(graph, **settings.options._asdict())
    executable.cache_capacity = settings.cache_capacity
    mapped = [file_of(tensor.value) for tensor in graph._tensors if tensor.value is not None]
    files = {id(file): file for file in mapped if file is not None}
    if (origin := origin_of(key, files.values(), graph)) is not None:
        keep(origin, executable)
    return executable


def _key_of(folder: Path) -> str | None:
    try:
        others = [identity_of(os.stat(folder / name)) for name in (GRAPH, CONSTANTS)]
    except OSError:  # reading tells more
        return None
    return key_of(folder / MODEL, others)


def _checked(settings: Mapping[str, object], graph: DataGraph | None) -> _Settings:
    """The settings of ``model.json``.

    Raises:
        FormatError: a setting is unknown or wrong.
    """
    options = {name: settings.get(name) for name in (*Options._fields, "cache_capacity")}
    capacity = options.pop("cache_capacity")
    if isinstance(given := options["threads"], dict):  # JSON has the indices of partitions as text
        options["threads"] = {int(index) if index.isdecimal() else index: count for index, count in given.items()}
    try:
        return _Settings(
            compile_options(graph, **options),  # type: ignore[arg-type]
            integer("cache_capacity", capacity, 1, 2**31 - 1),
            flag("as_read", settings.get("as_read", False)),
        )
    except ArgumentError as error:
        raise FormatError("model.json: settings", str(error), "the settings of an executable") from None
