"""Reads a model whose arguments were checked: a file, bytes, or a proto of the package onnx."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from ..._util.exact_types import has_type
from ..._util.mapped_file import NotRegularError, SourceFiles
from ..._util.paths import path_of
from ...errors import ArgumentError, FormatError
from ...graph import Graph
from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.signature import Shape
from . import again as again
from .importer import Importer
from .precision import narrowed
from .protos import ModelProto
from .storage import Storage
from .wire import Pieces, cut

Shapes = Mapping[str, int | Shape | list[Shape]]  # of inputs by name, and sizes of dims


def read_contents(
    model: object, shapes: Shapes, values: Mapping[str, Array], dtype: DataType, strict: bool, folder: Path | None
) -> Graph:
    """The graph of the bytes of a model, or of a proto; see :func:`onegraph.onnx.load`.

    Args:
        model: whatever the caller gave instead of a path.
        shapes, values: as plain data.
        dtype: f32 or bf16.
        strict: whether nodes that the package onnx runs are refused.
        folder: of external data.
    """
    if has_type(model, _model_classes()):
        graph = Importer(model, Storage(None, Pieces(), folder), shapes, values, strict=strict).graph()
    elif has_type(model, (bytes, bytearray, memoryview)):
        with _bytes(model) as data:
            pieces = cut(data)
            storage = Storage(data, pieces, folder)
            graph = Importer(parsed(pieces, "model"), storage, shapes, values, strict=strict).graph()
    else:
        path_of("model", model, "a path, the bytes of a model, or an ModelProto")
        raise AssertionError
    return _in_dtype(graph, dtype)


def read_file(
    path: Path, shapes: Shapes, values: Mapping[str, Array], dtype: DataType, strict: bool, files: SourceFiles
) -> Graph:
    """The graph of a model; ``files`` open the model and its external data."""
    try:
        mapped = files.open(path)
    except NotRegularError:
        mapped = None
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a file that can be read") from None
    if mapped is None:
        raise FormatError(str(path), "an empty file, or none", "a file with a model in the ONNX format")
    with memoryview(mapped) as data:
        pieces = cut(data)
    storage = Storage(mapped, pieces, path.parent, files)
    graph = Importer(parsed(pieces, str(path)), storage, shapes, values, strict=strict).graph()
    mapped.give_back()
    return _in_dtype(graph, dtype)


def _in_dtype(graph: Graph, dtype: DataType) -> Graph:
    graph_in_dtype = narrowed(graph) if dtype is DataType.bf16 else graph
    graph_in_dtype._note_reading(graph_in_dtype._roundings, as_read=True)
    return graph_in_dtype


def _model_classes() -> tuple[type, ...]:
    """The class of models, and that of the package onnx if it is imported, which protobuf may make anew."""
    return ModelProto, getattr(sys.modules.get("onnx"), "ModelProto", ModelProto)


def _bytes(model: bytes | bytearray | memoryview) -> memoryview:
    try:
        return memoryview(model).cast("B")
    except TypeError:  # a memoryview with steps
        raise ArgumentError("model: a view with gaps between its bytes; expected contiguous bytes") from None


def parsed(pieces: Pieces, where: str) -> ModelProto:
    """The structure of a model without the contents of its large tensors."""
    model = ModelProto()
    if bytes(pieces.structure[:1]) == b"{":
        raise FormatError(where, "JSON, which onegraph.load reads", "a model in the ONNX format")
    try:
        model.ParseFromString(pieces.structure)
    except Exception as error:  # protobuf raises errors of many classes
        raise FormatError(where, str(error), "a model in the ONNX format") from None
    if not model.HasField("graph"):
        raise FormatError(where, "no graph", "a model in the ONNX format")
    pieces.structure = b""
    return model
