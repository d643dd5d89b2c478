"""Runs ONNX nodes with the reference of the package onnx."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.schema import Call

Array = NDArray[Any]


@lru_cache(maxsize=256)
def _evaluator(model: str) -> Any:
    import onnx
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load_from_string(b64decode(model)), new_ops=[_loop()])


@lru_cache(maxsize=1)
def _loop() -> Any:
    """The Loop of the package onnx, with scan outputs stacked along a new axis; the package uses numpy.vstack."""
    reference: Any = import_module("onnx.reference.ops.op_loop").Loop

    class Loop(reference):  # type: ignore[misc]
        op_domain = ""

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self._found = local()  # several threads may run one evaluator
            run_body = vars(self)["_run_body"]

            def run(*inputs: Any, **named: Any) -> Sequence[Any]:
                outputs: Sequence[Any] = run_body(*inputs, **named)
                self._found.scans.append(outputs[len(outputs) - self.K :])
                return outputs

            self._run_body = run

        def _run(self, *args: Any, **named: Any) -> tuple[Any, ...]:
            self._found.scans = []
            results = tuple(super()._run(*args, **named))
            if not self.K or not self._found.scans:
                return results
            return (*results[: -self.K], *map(np.stack, zip(*self._found.scans, strict=True)))

    return Loop


def onnx_node(call: Call, *sources: Array) -> tuple[Array, ...]:
    """The outputs of the nodes.

    Raises:
        ValueError: the package onnx cannot run them; it raises errors of many kinds.
    """
    try:
        evaluator = _evaluator(call.string("model"))
        found = tuple(evaluator.run(None, dict(zip(evaluator.input_names, sources, strict=True))))
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if len(found) < (call.n_outputs or 1):
        raise ValueError(f"the model has {len(found)} outputs; expected {call.n_outputs}")
    return found
