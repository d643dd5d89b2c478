"""Checks the arguments of ``load``; ``read`` reads the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._util.cache_folder import get_cache_folder
from ..._util.collector_pause import CollectorPause
from ..._util.exact_types import elements, has_type, whole
from ..._util.late_imports import import_late
from ..._util.mapped_file import Identity, SourceFiles, identity_of
from ..._util.paths import path_of
from ..._util.tracebacks import ends_traceback
from ..._util.validation import as_dict, flag
from ...arrays.ndarrays import array_of
from ...errors import ArgumentError, FormatError, LibraryError, shown
from ...graph import Graph
from ...ir.op import Array
from ...ir.tensor_type import as_shape
from ...opset.dtypes import DataType
from ...opset.signature import Shape
from .registered import OWN
from .unread import UnreadGraph

READER = "onegraph.frontends.onnx.read"  # a kept program does not wait for its import
ORIGIN = "onegraph.runtime.origin"  # needs the library


@ends_traceback
def load(
    model: object,
    *,
    shapes: Mapping[str, object] | None = None,
    values: Mapping[str, object] | None = None,
    dtype: object = None,
    strict: bool = False,
    folder: object = None,
) -> Graph:
    """Read a model in the ONNX format as a graph.

    What is known when the model is read is computed then: constants, the shapes of tensors of known shape, branches
    with a known condition, loops and scans with a known and small number of iterations. Other control flow becomes the
    ops ``If`` and ``Loop``, whose bodies are compiled. Each other node becomes

    1. ops of the specification and host ops, by the table of nodes; oneDNN runs the former;
    2. the nodes of the function by which ONNX defines the op, if the table lacks the node or the form that it has;
    3. else an op ``OnnxNode``, which runs on the host in numpy. ``report()`` of the executable names each one. Random
       numbers run this way.

    A few kinds of nodes, which are proven by tests, run by the package onnx. ``load`` warns once if a model has some.
    Every other node is refused in one error. :func:`register` gives nodes of your own domains a lowering.

    Nodes of old op sets mean what their op set says: a table has what changed between op sets.

    A sequence of tensors has no op. Where its length is known when the model is read, it is several tensors. Else it is
    one tensor with one more axis, so its tensors have one shape in each call, and the model must join them. A sequence
    ``s`` at an input or output of the model becomes the inputs or outputs ``s.0``, ``s.1`` ... of the graph. The maps
    of a ZipMap become a tensor (rows, classes) of their scores, and :func:`class_labels` has the labels of its columns.
    Strings are not supported. An output that has the name of an input gets ``_`` appended.

    Weights and external data stay in their files, which are mapped into memory: the system reads a weight when it is
    needed, and an executable gives its pages back once the library has its own copy. So a file must not be written to
    as long as the graph or its executables live. It may be deleted, or replaced by another file of its name. The bytes
    of a model, as ``load(path.read_bytes())``, are copied instead. External data is read from regular files in the
    folder of the model alone; a symbolic link may not lead out of it.

    The tensors keep the data types of the model. Where the CPU has no faster arithmetic of a 16-bit type, executables
    keep f32 numbers between ops of that type, as ONNX Runtime does; ``policy="debug"`` rounds the result of each op.

    Args:
        model: a path; or the bytes of a model, or an ``onnx.ModelProto``, whose external data lie in ``folder``. The
            proto is not changed.
        shapes: by the name of an input: its shape, which replaces that of the model; for a sequence a list with a shape
            for each tensor; for an optional None, which leaves it out. By the name of a dim: the size of that dim in
            all inputs. Named dims without a size, like all unknown ones, are None in the graph, so that each call may
            have other sizes.
        values: by the name of an input: its contents. The graph then has no such input. They make known what decides
            the structure of a graph: a trip count, a position in a sequence, a shape.
        dtype: bf16 makes products, windows and what moves their numbers bf16; sensitive ops, inputs and outputs keep
            their data types. f32 and None change nothing.
        strict: True refuses nodes that the package onnx would run.
        folder: the folder of the external data of a proto or of bytes; a path has its own.

    Returns:
        The graph, with the inputs and outputs of the model in their order and of their names.

    Raises:
        FormatError: the file cannot be read, or holds no valid model, or one that no graph can be made of. The error
            names the node, initializer, input or output and what was expected.
        ArgumentError: ``model`` is no model, ``shapes`` or ``values`` do not fit, or ``dtype`` is another one.
    """
    wanted = DataType.f32 if dtype is None else DataType.of(dtype)
    if wanted not in (DataType.f32, DataType.bf16):
        raise ArgumentError(f"dtype: {shown(dtype)}; expected f32, bf16 or None")
    sizes = {name: _shape(name, one) for name, one in _named("shapes", shapes).items()}
    known = {name: _value(name, one) for name, one in _named("values", values).items()}
    is_strict = flag("strict", strict)
    with CollectorPause():
        if not has_type(model, (str, os.PathLike)):
            import_late(READER)
            from .read import read_contents

            where = None if folder is None else path_of("folder", folder, "the path of a folder")
            return read_contents(model, sizes, known, wanted, is_strict, where)
        if folder is not None:
            raise ArgumentError("folder: given beside a path; expected it beside a proto or bytes alone")
        return _of_file(path_of("model", model, "the path of a model"), sizes, known, wanted, is_strict)


def _of_file(
    path: Path, shapes: Mapping[str, Any], values: Mapping[str, Array], dtype: DataType, strict: bool
) -> Graph:
    """The graph of a model, which is read when it is needed if a program of it was kept."""

    def read(files: SourceFiles) -> Graph:
        import_late(READER)
        from .read import read_file

        with CollectorPause():
            return read_file(path, shapes, values, dtype, strict, files)

    if OWN or not _keeps_programs():  # a file does not say what a function of the user adds
        return _read_whole(path, lambda: read(SourceFiles()))
    from ...runtime.origin import Reading, key_of, opened

    contents = [(name, array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(values.items())]
    key = key_of(path, sorted(shapes.items()), contents, dtype, strict)

    def read_first() -> Graph:
        reading = Reading()
        graph = read(reading.files)
        graph._origin = reading.origin(key, graph)
        return graph

    def read_again(files: SourceFiles) -> Graph:
        for file in files:
            if file.mapped is not None and file.mapped.is_changed():
                expected = "the same contents; load it again"
                raise FormatError(file.mapped.path, "a file that has changed since it was loaded", expected)
        reading = Reading(files)
        graph = read(files)
        graph._origin = reading.origin(key, graph)
        return graph

    files = opened(key)
    if files is None:
        return _read_whole(path, read_first)
    return UnreadGraph(key, files, lambda: read_again(files))


def _keeps_programs() -> bool:
    """Whether compiled programs are kept for later processes: there is a folder for them, and a fitting library."""
    if get_cache_folder() is None:
        return False
    try:
        import_late(ORIGIN)
    except LibraryError:
        return False
    from ...runtime.origin import keeps_programs

    return keeps_programs()


def _read_whole(path: Path, read: Callable[[], Graph]) -> Graph:
    """What ``read`` returns. It is called again if the model was replaced while it was read."""
    while True:
        before = _identity(path)
        try:
            return read()
        except FormatError:
            if _identity(path) == before:
                raise


def _identity(path: Path) -> Identity | None:
    try:
        return identity_of(os.stat(path))
    except OSError:
        return None


def _named(argument_name: str, argument: object) -> Mapping[str, Any]:
    by_name = {} if argument is None else as_dict(argument_name, argument, "a dictionary by names")
    for name in by_name:
        if not has_type(name, str):
            raise ArgumentError(f"{argument_name}: {shown(name)}; expected a name")
    return {str(name): one for name, one in by_name.items()}


def _shape(name: str, argument: object) -> int | Shape | list[Shape]:
    """The size of a dim, a shape, or the shapes of the tensors of a sequence."""
    size = whole(argument)
    if size is not None:
        return size
    parts = elements(argument)
    if parts and all(elements(part) is not None for part in parts):
        return [as_shape(part) for part in parts]
    try:
        return as_shape(argument)
    except ArgumentError as error:
        raise ArgumentError(f"shapes: {name!r}: {error}") from None


def _value(name: str, argument: object) -> Array:
    return array_of(f"values: {name!r}", argument).copy()
