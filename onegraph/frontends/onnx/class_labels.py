"""Finds the keys of the maps that a model of ONNX makes of scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..._util.exact_types import has_type
from ..._util.paths import path_of
from ...errors import FormatError
from .protos import AttributeProto, ModelProto, NodeProto, contents
from .wire import cut

KEYS = {"classlabels_int64s": AttributeProto.INTS, "classlabels_strings": AttributeProto.STRINGS}


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
        left = dict(makers)  # each is met once, also in a circle
        node = left.pop(output.name, None)
        while node is not None and node.op_type == "Identity":
            node = left.pop(node.input[0], None) if node.input else None
        for attribute in node.attribute if node is not None and node.op_type == "ZipMap" else ():
            if KEYS.get(attribute.name) == attribute.type:
                result[output.name] = tuple([_label(content, output.name) for content in contents(attribute)])
    return result


def _label(value: int | bytes, name: str) -> int | str:
    try:
        return value.decode() if type(value) is bytes else int(value)
    except UnicodeDecodeError:
        raise FormatError(f"output {name!r}", f"label {value!r}", "a label in UTF-8") from None


def _proto(model: object) -> ModelProto:
    if hasattr(model, "SerializeToString"):
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
