"""Lowers a node that the package onnx would run, once more is known of its inputs than when the model was read."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence

from ...errors import OneGraphError
from ...ir.op import LogicalTensor, Op
from ...lowering.again import NODES
from ...lowering.emitter import Emitter, Value, dtype_of
from .importer import Importer
from .protos import ModelProto
from .storage import Storage
from .wire import Pieces


def node_again(emit: Emitter, op: Op, inputs: Sequence[LogicalTensor | None]) -> Sequence[Value] | None:
    """The results of an OnnxNode, by other ops if there is a lowering now; None if it is to be run as it is."""
    model = ModelProto()
    model.ParseFromString(b64decode(str(op.attrs["model"])))
    importer = Importer(model, Storage(None, Pieces(), None), {}, {}, emit)
    ports = [input_.value if input_ is not None and input_.value is not None else input_ for input_ in inputs]
    values = dict(zip([one.name for one in model.graph.input], ports, strict=True))
    try:
        importer.run(model.graph.node, values, "")
    except OneGraphError:  # what was known when the model was read may have hidden a mistake; a run names it
        return None
    result = [values[one.name] for one in model.graph.output]
    is_alike = all(dtype_of(one) is end.dtype for one, end in zip(result, op.outputs, strict=True))
    return result if is_alike else None


NODES["OnnxNode"] = node_again
