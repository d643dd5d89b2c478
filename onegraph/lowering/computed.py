"""Computes ops whose inputs are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays.mapped_files import give_back
from ..builder.graph import DataGraph
from ..errors import ArgumentError
from ..ir.op import Array, LogicalTensor
from ..opset.dtypes import OF_NUMPY, DataType
from ..opset.shapes import known_dims, show
from ..opset.signature import Shape
from ..reference import run_op

MAX_COMPUTED = 2**31  # bytes


def refuse_large(shape: Shape, dtype: DataType) -> None:
    """Raise ArgumentError if a constant that a model computes would be larger than any that a file can hold."""
    size = math.prod(known_dims(shape)) * dtype.numpy.itemsize
    if size > MAX_COMPUTED:
        raise ArgumentError(f"a constant of shape {show(shape)} and {size} bytes; expected at most {MAX_COMPUTED}")


def computed(
    kind: str,
    inputs: Sequence[LogicalTensor | Array | None],
    attrs: Mapping[str, object] | None,
    dtype: DataType | None,
    outputs: Sequence[str] | None,
    edition: str,
) -> Any:
    """The result of an op of known arrays, or a tuple of results.

    Raises:
        ArgumentError: a result is too large.
        SpecError: the op cannot have these inputs or attributes.
    """
    scratch = DataGraph()
    arrays = [value if isinstance(value, np.ndarray) else None for value in inputs]
    tensors = [
        None if array is None else scratch._tensor(OF_NUMPY[array.dtype], array.shape, "", None, array)
        for array in arrays
    ]
    scratch.op(kind, tensors, attrs, dtype=dtype, outputs=outputs, edition=edition)
    (op,) = scratch.ops
    for result in op.outputs:
        refuse_large(result.shape, result.dtype)
    results = run_op(op, arrays[: len(op.inputs)])
    give_back(array for array in arrays if array is not None)
    return results[0] if len(results) == 1 else results
