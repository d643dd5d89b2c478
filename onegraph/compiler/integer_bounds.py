"""Bounds the integers that ops compute, because the library computes integers in f32.

Attention masks are made of such integers, and they are small.
"""

from __future__ import annotations

import numpy as np

from ..faults.ops.elementwise import INTEGRAL
from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.shapes import known_dims


class IntegerBounds:
    """The largest magnitudes of integer tensors, by id. Call ``of`` once for each op, in the order of the graph."""

    def __init__(self) -> None:
        self._bounds: dict[int, int] = {}

    def of(self, op: Op, kind: str) -> tuple[int | None, ...]:
        """The largest magnitude of each integer input of an op, None if unknown; empty for ops on other types.

        Also stores the bound of the output.

        Args:
            op: the op.
            kind: its kind in the base vocabulary.
        """
        source = op.inputs[0] if op.inputs else None
        if source is None:
            return ()
        if kind == "GenIndex":
            axis = op.attrs["axis"]
            assert isinstance(axis, int)
            self._bounds[op.outputs[0].id] = known_dims(source.shape)[axis]
        if kind not in INTEGRAL or source.dtype is not DataType.s32:
            return ()
        input_bounds = tuple([None if tensor is None else self._bound(tensor) for tensor in op.inputs])
        finite_bounds = [bound for bound in input_bounds if bound is not None]
        if len(finite_bounds) == len(input_bounds):
            self._bounds[op.outputs[0].id] = sum(finite_bounds)
        return input_bounds

    def _bound(self, tensor: LogicalTensor) -> int | None:
        if tensor.value is None:
            return self._bounds.get(tensor.id)
        return int(np.abs(tensor.value.astype(np.int64)).max(initial=0))
