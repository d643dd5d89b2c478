"""The messages of the ONNX format, without the rest of the package onnx, whose import takes 40 ms.

The module of the package that has the messages is executed alone. When the package is imported later, protobuf gives it
the same classes. Few models need the rest: nodes that the package converts, expands or runs.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )

__all__ = [
    "AttributeProto",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "TensorProto",
    "TypeProto",
    "ValueInfoProto",
    "contents",
]

MODULE = "onnx.onnx_ml_pb2"


def _messages() -> Any:
    package = None if "onnx" in sys.modules else find_spec("onnx")
    for folder in [] if package is None else cast("list[str]", package.submodule_search_locations):
        file = Path(folder) / f"{MODULE.partition('.')[2]}.py"
        if file.is_file():
            spec = spec_from_file_location(MODULE, file)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    import onnx  # says what is missing, if it is

    return onnx


if not TYPE_CHECKING:
    _found = _messages()
    globals().update({name: getattr(_found, name) for name in __all__ if name[0].isupper()})

# The field that holds the value of an attribute, by the type of the attribute.
_FIELDS = {
    getattr(AttributeProto, name): field
    for name, field in {
        "FLOAT": "f",
        "INT": "i",
        "STRING": "s",
        "TENSOR": "t",
        "GRAPH": "g",
        "TYPE_PROTO": "tp",
        "FLOATS": "floats",
        "INTS": "ints",
        "STRINGS": "strings",
        "TENSORS": "tensors",
        "GRAPHS": "graphs",
        "TYPE_PROTOS": "type_protos",
    }.items()
}


def contents(attribute: AttributeProto) -> Any:
    """The value of an attribute; ValueError if its type is unknown or it refers to an attribute of a function."""
    if attribute.ref_attr_name or attribute.type not in _FIELDS:
        raise ValueError(f"attribute {attribute.name!r} has no value")
    content = getattr(attribute, _FIELDS[attribute.type])
    return [*content] if _FIELDS[attribute.type].endswith("s") and attribute.type != AttributeProto.STRING else content
