"""Runs ONNX nodes with the reference of the package onnx."""

from __future__ import annotations

from base64 import b64decode
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from ...opset.schema import Call

Array = NDArray[Any]


@lru_cache(maxsize=256)
def _evaluator(model: str) -> Any:
    import onnx
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load_from_string(b64decode(model)))


def onnx_node(call: Call, *sources: Array) -> tuple[Array, ...]:
    """The outputs of the nodes."""
    evaluator = _evaluator(call.string("model"))
    return tuple(evaluator.run(None, dict(zip(evaluator.input_names, sources, strict=True))))
