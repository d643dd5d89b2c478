"""Reads a model: a path, bytes, or a proto of the package onnx."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from ...builder.graph import DataGraph
from ...errors import FormatError, shown
from .importer import Importer

OLDEST, NEWEST = 13, onnx.defs.onnx_opset_version()


def load(model: object, *, shapes: Mapping[str, object] | None = None) -> DataGraph:
    """The graph of an ONNX model; see :func:`onegraph.onnx.load`."""
    proto, directory = _proto(model)
    return Importer(_converted(proto), directory, dict(shapes or {})).graph()


def _proto(model: object) -> tuple[onnx.ModelProto, str]:
    """The model, and the directory of its external data."""
    if isinstance(model, onnx.ModelProto):
        return model, ""
    try:
        if isinstance(model, (bytes, bytearray, memoryview)):
            return onnx.load_model_from_string(bytes(model)), ""
        path = Path(model)  # type: ignore[arg-type]
        return onnx.load_model_from_string(path.read_bytes()), str(path.parent)
    except Exception as error:  # the package raises errors of many classes
        raise FormatError(shown(model), str(error), "a model in the ONNX format") from None


def _converted(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model in an op set that the table of nodes knows."""
    version = next((one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")), OLDEST)
    if version >= OLDEST:
        return proto
    try:
        return onnx.version_converter.convert_version(proto, OLDEST)
    except Exception as error:  # the package raises errors of many classes
        raise FormatError(f"opset_import {version}", str(error), f"a model that onnx converts to {OLDEST}") from None
