"""Reads a model: a path, bytes, or a proto of the package onnx."""

from __future__ import annotations

import mmap
import os
import stat
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._util.collector_pause import CollectorPause
from ..._util.exact_types import elements, has_type, whole
from ..._util.paths import path_of
from ..._util.validation import as_dict
from ...arrays.ndarrays import aligned_empty, array_of
from ...errors import ArgumentError, FormatError, shown
from ...graph import Graph
from ...ir.op import Array
from ...ir.tensor_type import as_shape
from ...opset.dtypes import DataType
from ...opset.schema import Shape
from .importer import Importer
from .precision import narrowed
from .protos import ModelProto
from .read_ahead import reading
from .storage import Storage, Take
from .wire import Pieces, cut


def load(
    model: object,
    *,
    shapes: Mapping[str, object] | None = None,
    values: Mapping[str, object] | None = None,
    dtype: object = None,
) -> Graph:
    """Read a model in the ONNX format as a graph.

    What is known when the model is read is computed then: constants, the shapes of tensors of known shape, branches
    with a known condition, loops and scans with a known and small number of iterations. Each other node becomes

    1. ops of the specification and host ops, by the table of nodes; oneDNN runs the former;
    2. the nodes of the function by which ONNX defines the op, if the table lacks the node or the form that it has;
    3. else an op ``OnnxNode``, which the package onnx runs in numpy on the host. ``report()`` of the executable names
       each one. Control flow whose course depends on the input, and random numbers, run this way.

    Models of op set 7 and newer are read. The package onnx converts nodes of old op sets one by one if their meaning
    changed since; of an op set before 7 it converts every node that it can.

    A sequence of tensors has no op. It exists while the model is read, and its length must be known then. A sequence
    ``s`` at an input or output of the model becomes the inputs or outputs ``s.0``, ``s.1`` ... of the graph. Strings
    are not supported. An output that has the name of an input gets ``_`` appended.

    The weights are read from the file into the memory of the constants, without a second copy. External data is mapped
    into memory and copied only if its place in the file is not aligned: the file must not change as long as the graph
    or its executables live. External data is read from regular files in the folder of the model alone; a symbolic link
    may not lead out of it.

    Args:
        model: a path; or the bytes of a model, or an ``onnx.ModelProto``, which cannot have external data. The proto is
            not changed.
        shapes: by the name of an input: its shape, which replaces that of the model; for a sequence a list with a shape
            for each tensor; for an optional None, which leaves it out. By the name of a dim: the size of that dim in
            all inputs. Named dims without a size, like all unknown ones, are None in the graph, so that each call may
            have other sizes.
        values: by the name of an input: its contents. The graph then has no such input. They make known what decides
            the structure of a graph: a trip count, a position in a sequence, a shape.
        dtype: bf16 makes products, windows and what moves their numbers bf16; sensitive ops, inputs and outputs keep
            their data types. f32 and None change nothing.

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
    with CollectorPause():
        graph = _loaded(model, shapes, values)
        return narrowed(graph) if wanted is DataType.bf16 else graph


def _loaded(model: object, shapes: Mapping[str, object] | None, values: Mapping[str, object] | None) -> Graph:
    given = {name: _shape(name, one) for name, one in _named("shapes", shapes).items()}
    known = {name: _value(name, one) for name, one in _named("values", values).items()}
    if has_type(model, _model_classes()):
        return Importer(model, Storage(None, Pieces(), None), given, known).graph()
    if has_type(model, (bytes, bytearray, memoryview)):
        with _bytes(model) as data:
            pieces = cut(data)
            return Importer(_parsed(pieces, "model"), Storage(_of_bytes(data), pieces, None), given, known).graph()
    path = path_of("model", model, "a path, the bytes of a model, or an ModelProto")
    try:
        # O_NONBLOCK: opening a pipe must not wait.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not status.st_size:
                raise FormatError(str(path), "an empty file, or none", "a file with a model in the ONNX format")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
                pieces = cut(data)
            with reading(file.fileno(), pieces.chunks) as ahead:
                storage = Storage(ahead.take, pieces, path.parent)
                return Importer(_parsed(pieces, str(path)), storage, given, known).graph()
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a file that can be read") from None


def _model_classes() -> tuple[type, ...]:
    """The class of models, and that of the package onnx if it is imported, which protobuf may make anew."""
    return ModelProto, getattr(sys.modules.get("onnx"), "ModelProto", ModelProto)


def _bytes(model: bytes | bytearray | memoryview) -> memoryview:
    try:
        return memoryview(model).cast("B")
    except TypeError:  # a memoryview with steps
        raise ArgumentError("model: a view with gaps between its bytes; expected contiguous bytes") from None


def _parsed(pieces: Pieces, where: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(pieces.structure)
    except Exception as error:  # protobuf raises errors of many classes
        raise FormatError(where, str(error), "a model in the ONNX format") from None
    if not model.HasField("graph"):
        raise FormatError(where, "no graph", "a model in the ONNX format")
    pieces.structure = b""
    return model


def _of_bytes(data: memoryview) -> Take:
    def take(offset: int, size: int) -> Array:
        array = aligned_empty((size,), np.dtype(np.uint8))
        array[:] = data[offset : offset + size]
        return array

    return take


def _named(what: str, given: object) -> Mapping[str, Any]:
    found = {} if given is None else as_dict(what, given, "a dictionary by names")
    for name in found:
        if not has_type(name, str):
            raise ArgumentError(f"{what}: {shown(name)}; expected a name")
    return {str(name): one for name, one in found.items()}


def _shape(name: str, given: object) -> int | Shape | list[Shape]:
    """The size of a dim, a shape, or the shapes of the tensors of a sequence."""
    size = whole(given)
    if size is not None:
        return size
    parts = elements(given)
    if parts and all(elements(one) is not None for one in parts):
        return [as_shape(one) for one in parts]
    try:
        return as_shape(given)
    except ArgumentError as error:
        raise ArgumentError(f"shapes: {name!r}: {error}") from None


def _value(name: str, given: object) -> Array:
    return array_of(f"values: {name!r}", given).copy()
