"""Runs the nodes of an ONNX model that was read as a graph, by the reader of models."""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

from ..._util.counted import counted
from ..._util.late_imports import import_late
from ...opset.schema import Call

Array = NDArray[Any]
# A graph from a file, or a kept program, may have such nodes while nothing else needs the reader.
READER = "onegraph.frontends.onnx.evaluate"


def onnx_node(call: Call, *sources: Array) -> tuple[Array, ...]:
    """The outputs of the nodes.

    Raises:
        ValueError: the nodes cannot be computed; the text has the reason.
    """
    try:
        import_late(READER)
    except ImportError as error:
        raise ValueError(f"{error}; run: pip install onegraph[onnx]") from None
    node: tuple[Array, ...] = sys.modules[READER].run_node(call.string("model"), sources)
    if len(node) < (call.n_outputs or 1):
        raise ValueError(f"the model has {counted(len(node), 'output')}; expected {call.n_outputs}")
    return node
