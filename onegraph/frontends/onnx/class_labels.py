"""Finds the keys of the maps that a model of ONNX makes of scores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..._util.exact_types import has_type
from ..._util.paths import path_of
from ...errors import FormatError
from .protos import ModelProto, NodeProto, contents
from .wire import cut

KEYS = ("classlabels_int64s", "classlabels_strings")


def class_labels(model: object) -> Mapping[str, tuple[int | str, ...]]:
    """The labels of the columns of scores, by the output of the model that has them.

    A converter of scikit-learn ends with a ZipMap, whose result is a map from the labels to the scores for each row. A
    graph has the scores instead, as a tensor (rows, classes); these are the labels of its columns, in order.

    Args:
        model: a path, the bytes of a model, or an ``onnx.ModelProto``.

    Raises:
        FormatError: the file cannot be read, or holds no model.
        ArgumentError: ``model`` is no model.
    """
    graph = _proto(model).graph
    makers: dict[str, NodeProto] = {name: node for node in graph.node for name in node.output}
    result: dict[str, tuple[int | str, ...]] = {}
    for output in graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type == "Identity":
            node = makers.get(node.input[0])
        for attribute in node.attribute if node is not None and node.op_type == "ZipMap" else ():
            if attribute.name in KEYS:
                result[output.name] = tuple([_label(content) for content in contents(attribute)])
    return result


def _label(value: object) -> int | str:
    return value.decode() if type(value) is bytes else int(value)  # type: ignore[call-overload]


def _proto(model: object) -> ModelProto:
    if not has_type(model, (str, os.PathLike, bytes, bytearray, memoryview)) and hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not has_type(model, (bytes, bytearray, memoryview)):
        path: Path = path_of("model", model, "a path, the bytes of a model, or a ModelProto")
        try:
            model = path.read_bytes()
        except OSError as error:
            raise FormatError(str(path), error.strerror or str(error), "a file that can be read") from None
    from .read import parsed

    with memoryview(model).cast("B") as data:
        return parsed(cut(data), "model")
