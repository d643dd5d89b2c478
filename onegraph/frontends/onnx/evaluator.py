"""Computes the ops of nodes whose inputs are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...builder.graph import DataGraph
from ...errors import LibraryError
from ...lowering.emitter import Emitter, Value, edition_of
from ...opset.dtypes import OF_NUMPY, DataType
from ...reference import run_op
from ...reference.run import HostFunction


@cache
def _kernels() -> HostFunction | None:
    """What computes host ops by kernels of the package; None without the library."""
    try:
        from ...compiler.array_kernels import with_kernel
    except LibraryError:
        return None
    return with_kernel


class Evaluator(Emitter):
    """Computes ops at once."""

    def __init__(self) -> None:
        super().__init__(DataGraph())

    def op(
        self,
        kind: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, object] | None = None,
        *,
        dtype: DataType | None = None,
        outputs: Sequence[str] | None = None,
        edition: str | None = None,
    ) -> Any:
        """The result of an op, or a tuple of results; see :meth:`Emitter.op`."""
        arrays = [input_ if isinstance(input_, np.ndarray) else None for input_ in inputs]
        chosen = edition or edition_of(kind, [None if array is None else OF_NUMPY[array.dtype] for array in arrays])
        scratch = DataGraph()
        tensors = [
            None if array is None else scratch._tensor(OF_NUMPY[array.dtype], array.shape, "", None, array)
            for array in arrays
        ]
        scratch.op(kind, tensors, attrs, dtype=dtype, outputs=outputs, edition=chosen)
        (op,) = scratch.ops
        result = run_op(op, arrays[: len(op.inputs)], host=_kernels())
        return result[0] if len(result) == 1 else result
