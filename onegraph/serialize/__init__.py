"""Writes graphs to and reads them from oneDNN Graph's own JSON form, which benchdnn and Netron also read.

The form has no names of inputs and outputs, no editions and no data. onegraph stores names and editions under the key
``onegraph``, which other readers ignore, and the contents of constants in an ``.npz`` file beside the JSON file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._util.atomic_write import read_together
from .._util.collector_pause import CollectorPause
from .._util.counted import some_of
from .._util.exact_types import has_type
from .._util.exact_types import text as characters
from .._util.mapped_file import SourceFiles
from .._util.paths import path_of
from .._util.validation import as_dict, flag
from ..arrays.ndarrays import aligned_empty, numpy_array
from ..builder.graph import AnyGraph, DataGraph, snapshot
from ..errors import ArgumentError, FormatError, class_of, shown
from ..ir.op import Array, LogicalTensor
from ..opset.editions.registry import NEWEST
from ..opset.shapes import compatible, show
from ..opset.signature import Version
from .document import document, parse_json
from .files import as_path, read_constants, read_file, write_files
from .model_folder import GRAPH, read_model, write_model
from .names import KEY, read_names
from .reader import build
from .writer import as_form, as_text, tensor_ids

if TYPE_CHECKING:
    from pathlib import Path


__all__ = ["load", "load_model", "read", "save", "save_model", "with_constants", "with_known", "write"]


# Endings that no JSON file has, and what writes such a file.
OTHER_ENDINGS = {
    ".cpp": "onegraph convert writes programs",
    ".html": "onegraph.view.page writes pages",
    ".onnx": "onegraph.onnx.save writes models of ONNX",
    ".py": "onegraph convert writes Python code",
    ".svg": "onegraph.view.svg writes pictures",
}


def write(graph: DataGraph, for_version: str | None = None) -> str:
    """The JSON text of a graph; see :meth:`onegraph.Graph.to_json`."""
    return as_text(as_form(graph, _as_version(for_version)))


def read(make: type[AnyGraph], text: str | bytes, *, strict: bool = False) -> AnyGraph:
    """The graph of a JSON text; see :meth:`onegraph.Graph.from_json`."""
    plain = characters(text) if has_type(text, str) else text
    if not has_type(plain, (str, bytes, bytearray, memoryview)):
        raise FormatError("text", class_of(text), "a JSON text")
    return _graph(make, plain, None, strict)


def save(graph: DataGraph, path: object, for_version: str | None = None) -> None:
    """Write a graph to a file; see :meth:`onegraph.Graph.save`."""
    target = as_path(path)
    hint = OTHER_ENDINGS.get(target.suffix)
    if hint is not None:
        raise ArgumentError(f"path: {shown(str(target))}; expected the path of a JSON file; {hint}")
    write_files(*_written(graph, target, for_version))


def save_model(graph: DataGraph, path: object, settings: Mapping[str, object]) -> None:
    """Write a graph to a folder, with settings of its compilation; see :meth:`Executable.save`.

    Raises:
        FormatError: a file cannot be written.
        ArgumentError: the path is no path.
    """
    folder = path_of("path", path, "the path of a folder")
    _, text, _, arrays = _written(graph, folder / GRAPH, None)
    write_model(folder, text, arrays, settings)


def load(make: type[AnyGraph], path: object, *, strict: bool = False) -> AnyGraph:
    """The graph of a file; see :meth:`onegraph.Graph.load`."""
    source = as_path(path)
    with naming_the_file(source):
        return read_together(source, lambda: _graph(make, read_file(source), source, strict))


def load_model(make: type[AnyGraph], folder: Path, files: SourceFiles) -> tuple[AnyGraph, Mapping[str, object]]:
    """The graph in a folder, whose constants lie in the mapped file, and the settings; see :func:`onegraph.load`.

    Raises:
        TornError: a part was changed, or the folder is written to now.
        FormatError: a file is missing or truncated.
        SpecError: an op breaks the specification.
    """
    source = folder / GRAPH
    settings, text = read_model(folder, files)
    with naming_the_file(source):
        return _graph(make, text, source, False, files), settings


def _written(
    graph: DataGraph, target: Path, for_version: str | None
) -> tuple[Path, Callable[[str], str], Path, Mapping[str, Array]]:
    """What makes the contents of a graph file from the digest of the archive, and the archive with its constants."""
    ids = tensor_ids(graph)
    arrays: Mapping[str, Array] = {
        **{f"t{ids[t.id]}": t.value for t in graph._tensors if t.value is not None},
        **{f"t{ids[graph._inputs[name].id]}": array for name, array in graph._initial.items()},
    }
    data = target.with_suffix(".npz")
    form: Any = as_form(graph, _as_version(for_version), data.name if arrays else None)

    def text(digest: str) -> str:
        if arrays:
            form[KEY]["digest"] = digest
        return as_text(form)

    return target, text, data, arrays


@contextmanager
def naming_the_file(source: Path) -> Iterator[None]:
    """A block whose format errors name the file."""
    try:
        yield
    except FormatError as error:
        if any(f"{error.where}:".startswith(f"{path}:") for path in (source, source.with_suffix(".npz"))):
            raise  # the message already names the file
        raise type(error)(f"{source}: {error.where}", error.given, error.expected) from None


def with_constants(graph: AnyGraph, arrays: object) -> AnyGraph:
    """The graph with inputs replaced by constants, by name; see :meth:`onegraph.Graph.with_constants`."""
    by_name = as_dict("constants", arrays, "a dictionary of arrays by names of inputs")
    make, graph = type(graph), snapshot(graph)
    raw, ids = as_form(graph), tensor_ids(graph)
    data = {ids[tensor.id]: tensor.value for tensor in graph._tensors if tensor.value is not None}
    _refuse_unknown(graph, by_name)
    for name, values in by_name.items():
        data[ids[graph.inputs[name].id]] = _contents(name, graph.inputs[name], values)
    for op in raw["graph"]:  # type: ignore[attr-defined]
        for use in (*op["inputs"], *op["outputs"]):
            if use["id"] in data:
                use["property_type"] = "constant"
    made = make(graph.edition, strict=graph.strict)
    build(made, document(raw), read_names(raw), data)
    made._outputs = {name: t._laid_out(graph.outputs[name].strides) for name, t in made._outputs.items()}
    return made


def _refuse_unknown(graph: DataGraph, arrays: Mapping[str, object]) -> None:
    for name in arrays:
        if name not in graph.inputs:
            raise ArgumentError(f"{shown(name)} is no input; the inputs are {some_of(graph.inputs)}")


def _contents(name: str, tensor: LogicalTensor, argument: object) -> Array:
    """A read-only copy of the array for an input; ArgumentError if its data type or shape does not fit."""
    expected = f"a numpy array, {tensor.dtype} {show(tensor.shape)}"
    values, wanted = numpy_array(f"constant {name!r}", argument, expected), tensor.dtype.numpy
    if values.dtype != wanted or not compatible(values.shape, tensor.shape):
        fix = "" if values.dtype == wanted else f"; array.astype(og.{tensor.dtype}.numpy) converts it"
        raise ArgumentError(f"constant {name!r}: {values.dtype} {show(values.shape)}; expected {expected}{fix}")
    kept = aligned_empty(values.shape, wanted)
    kept[...] = values
    kept.flags.writeable = False
    return kept


def with_known(graph: AnyGraph, inputs: Mapping[str, Array]) -> tuple[AnyGraph, dict[str, Array]]:
    """Make constants of the inputs that the graph declares constant, with the contents in ``inputs``.

    Returns:
        The new graph, and the arrays for the inputs that are left.

    Raises:
        ArgumentError: the graph has no such input, or an array does not fit its input.
    """
    graph = snapshot(graph)
    by_name = as_dict("inputs", inputs, "a dictionary of arrays by names of inputs")
    _refuse_unknown(graph, by_name)
    known = {name: by_name[name] for name in graph.constant_inputs if name in by_name}
    made = with_constants(graph._as_step(), known)._with_variables_of(graph) if known else graph
    return made, {name: by_name[name] for name in made.inputs if name in by_name}


def _graph(
    make: type[AnyGraph], text: str | bytes, path: Path | None, strict: object, files: SourceFiles | None = None
) -> AnyGraph:
    is_strict = flag("strict", strict)
    with CollectorPause():
        raw = parse_json(text)
        doc, names = document(raw), read_names(raw)
        data = {} if path is None else read_constants(path, doc, names, files)
        graph = make(names.edition, strict=is_strict)
        build(graph, doc, names, data)
    return graph


def _as_version(argument: object) -> Version | None:
    """Parse ``"3.2"`` or ``"3.2.1"`` to (3, 2); None stays None."""
    if argument is None:
        return None
    word = characters(argument)
    digits = r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]{1,9})?"
    match = None if word is None else re.fullmatch(digits, word)
    if match is None or int(match[1]) != NEWEST[0] or int(match[2]) > NEWEST[1]:
        newest = f"{NEWEST[0]}.{NEWEST[1]}"
        raise ArgumentError(f"for_version: {shown(argument)}; expected a version of oneDNN from '3.0' to '{newest}'")
    return int(match[1]), int(match[2])
