"""Reads a model: a path, bytes, or a proto of the package onnx."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from typing import Any, BinaryIO

import onnx

from ..._util.exact_types import elements, has_type, whole
from ..._util.validation import as_dict
from ...arrays.ndarrays import array_of
from ...errors import ArgumentError, FormatError, shown
from ...graph import Graph
from ...ir.op import Array
from ...ir.tensor_type import as_shape
from ...opset.dtypes import DataType
from ...opset.schema import Shape
from ...serialize.files import path_of
from .importer import Importer
from .precision import narrowed
from .storage import Fill, Storage
from .wire import Pieces, cut


def load(
    model: object,
    *,
    shapes: Mapping[str, object] | None = None,
    values: Mapping[str, object] | None = None,
    dtype: object = None,
) -> Graph:
    """The graph of an ONNX model; see :func:`onegraph.onnx.load`.

    Args:
        model: a path, the bytes of a model, or an ``onnx.ModelProto``.
        shapes: shapes of inputs and sizes of named dims, by name.
        values: contents of inputs, by name.
        dtype: bf16 makes products, windows and what moves their numbers bf16; sensitive ops, inputs and outputs keep
            their data types. f32 and None change nothing.

    Raises:
        FormatError: the model is not valid.
        ArgumentError: an argument is of no input, or ``dtype`` is another data type.
    """
    wanted = DataType.f32 if dtype is None else DataType.of(dtype)
    if wanted not in (DataType.f32, DataType.bf16):
        raise ArgumentError(f"dtype: {shown(dtype)}; expected f32, bf16 or None")
    graph = _loaded(model, shapes, values)
    return narrowed(graph) if wanted is DataType.bf16 else graph


def _loaded(model: object, shapes: Mapping[str, object] | None, values: Mapping[str, object] | None) -> Graph:
    given = {name: _shape(name, one) for name, one in _named("shapes", shapes).items()}
    known = {name: _value(name, one) for name, one in _named("values", values).items()}
    if has_type(model, onnx.ModelProto):
        return Importer(model, Storage(None, Pieces(), None), given, known).graph()
    if has_type(model, (bytes, bytearray, memoryview)):
        with memoryview(model) as data:
            pieces = cut(data)
            return Importer(_parsed(pieces, "model"), Storage(_of_bytes(data), pieces, None), given, known).graph()
    path = path_of("model", model, "a path, the bytes of a model, or an onnx.ModelProto")
    try:
        # O_NONBLOCK: opening a pipe must not wait.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not status.st_size:
                raise FormatError(str(path), "an empty file, or none", "a file with a model in the ONNX format")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
                pieces = cut(data)
            storage = Storage(_of_file(file), pieces, path.parent)
            return Importer(_parsed(pieces, str(path)), storage, given, known).graph()
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a file that can be read") from None


def _parsed(pieces: Pieces, where: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(pieces.structure)
    except Exception as error:  # protobuf raises errors of many classes
        raise FormatError(where, str(error), "a model in the ONNX format") from None
    if not model.HasField("graph"):
        raise FormatError(where, "no graph", "a model in the ONNX format")
    pieces.structure = b""
    return model


def _of_bytes(data: memoryview) -> Fill:
    def fill(offset: int, target: memoryview) -> int:
        target[:] = data[offset : offset + len(target)]
        return len(target)

    return fill


def _of_file(file: BinaryIO) -> Fill:
    def fill(offset: int, target: memoryview) -> int:
        done = 0
        while done < len(target):  # one read has at most 2 GB
            count = os.preadv(file.fileno(), [target[done:]], offset + done)
            if not count:
                break
            done += count
        return done

    return fill


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
