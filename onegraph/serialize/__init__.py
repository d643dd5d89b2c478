"""Graphs to and from oneDNN Graph's own JSON form, which its test program and Netron read.

The form has no names of inputs and outputs, no editions and no data. What is missing stands under the key
``onegraph``, where other readers do not look, and the contents of constants in an ``.npz`` beside the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..arrays import aligned_empty
from ..errors import ArgumentError, shown
from ..op import Array
from .files import as_path, read_constants, read_file, write_files
from .form import document, parse
from .names import read_names
from .reader import Origin, build
from .writer import as_form, as_text, tensor_ids

if TYPE_CHECKING:
    from pathlib import Path

    from ..graph import Graph

__all__ = ["Origin", "load", "read", "save", "with_constants", "write"]


def write(graph: Graph, for_version: str | None = None) -> str:
    """The JSON text of a graph; see :meth:`onegraph.Graph.to_json`."""
    return as_text(as_form(graph, for_version))


def read(make: type[Graph], text: str | bytes, *, strict: bool = False) -> Graph:
    """The graph of a JSON text; see :meth:`onegraph.Graph.from_json`."""
    return _graph(make, text, None, strict)


def save(graph: Graph, path: object, for_version: str | None = None) -> None:
    """Write a graph to a file; see :meth:`onegraph.Graph.save`."""
    target = as_path(path)
    ids = tensor_ids(graph)
    arrays: Mapping[str, Array] = {f"t{ids[t.id]}": t.value for t in graph._tensors if t.value is not None}
    data = target.with_suffix(".npz").name if arrays else None
    write_files(target, as_text(as_form(graph, for_version, data)), arrays)


def load(make: type[Graph], path: object, *, strict: bool = False) -> Graph:
    """The graph of a file; see :meth:`onegraph.Graph.load`."""
    source = as_path(path)
    return _graph(make, read_file(source), source, strict)


def with_constants(graph: Graph, arrays: Mapping[str, Array]) -> Graph:
    """The graph with these contents of inputs, by name, as constants."""
    raw = as_form(graph)
    ids = tensor_ids(graph)
    data = {ids[tensor.id]: tensor.value for tensor in graph._tensors if tensor.value is not None}
    for name, values in arrays.items():
        tensor = graph.inputs[name]
        kept = aligned_empty(values.shape, tensor.dtype.numpy)
        kept[...] = values
        kept.flags.writeable = False
        data[ids[tensor.id]] = kept
    made = type(graph)(graph.edition)
    build(made, document(raw), read_names(raw), data, strict=False)
    return made


def _graph(make: type[Graph], text: str | bytes, path: Path | None, strict: object) -> Graph:
    if not isinstance(strict, bool):
        raise ArgumentError(f"strict: {shown(strict)}; expected True or False")
    raw = parse(text)
    found, names = document(raw), read_names(raw)
    data = {} if path is None else read_constants(path, found, names)
    graph = make(names.edition)
    build(graph, found, names, data, strict=strict)
    return graph
