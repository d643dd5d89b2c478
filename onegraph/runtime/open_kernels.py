"""The kernels of steps whose sizes are open as arrays in C, of which those for known sizes are filled at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._util.open_sizes import present
from ..compiler.kernels.native import KernelSource, tensor_of
from ..compiler.library_steps import NoParametersError
from ..compiler.open_values import value_at
from ..ir.op import Array
from ..native.library import address, ffi
from .open_steps import Numbers
from .plan import field_of, rows_of

TENSORS, POINTERS, CODES = map(
    ffi.typeof, ("dnnl_graph_logical_tensor_t[]", "dnnl_graph_logical_tensor_t *[]", "int[]")
)
SIZE, WORD = ffi.sizeof("dnnl_graph_logical_tensor_t"), 8  # bytes of a tensor, and of a dim in it
DIMS, STRIDES = (
    ffi.offsetof("dnnl_graph_logical_tensor_t", *fields) // WORD for fields in (("dims",), ("layout", "strides"))
)
LARGE = 1 << 48  # elements of a tensor with its gaps


class OpenKernels:
    """Kernels whose tensors or numbers depend on sizes. Equal tensors of several are one.

    Args:
        sources: what they are made from.
        place: that of each open size in the list of their values.
    """

    def __init__(self, sources: Sequence[KernelSource], place: Mapping[int, int]) -> None:
        ends = [value for source in sources for value in (*source.inputs, *source.outputs)]
        texts: dict[tuple[object, str, str], int] = {}
        places = [texts.setdefault((end.dtype, repr(end.shape), repr(end.strides)), len(texts)) for end in ends]
        firsts = [ends[places.index(number)] for number in range(len(texts))]
        tensors = [tensor_of(value_at(value, present))._struct[0] for value in firsts]
        self._words = _words_of(ffi.new(TENSORS, tensors)).copy() if tensors else np.empty(0, np.int64)
        # Dims and strides in one row for each tensor, behind axes of size 1 that fill the row.
        ranks = np.array([len(value.shape) for value in firsts], np.intp)
        rank = max([1, *ranks.tolist()])
        self._dims = Numbers(
            [dim for value in firsts for dim in (*(1,) * (rank - len(value.shape)), *value.shape)], place
        )
        self._strides = Numbers(
            [step for value in firsts for step in (*(0,) * (rank - len(value.shape)), *value.strides)], place
        )
        axes = np.arange(rank) - (rank - ranks)[:, None]
        self._is_axis = axes >= 0
        self._at = (axes + np.arange(len(firsts))[:, None] * (SIZE // WORD))[self._is_axis]
        self._of_end = np.array(places, np.intp) * SIZE
        self._codes = Numbers([number for source in sources for number in source.code], place)
        self._rows = rows_of([source.at(present).made() for source in sources])
        counts = [(len(source.inputs) + len(source.outputs), len(source.code)) for source in sources]
        starts = np.cumsum([(0, 0), *counts], axis=0)[:-1]
        self._starts = starts * (ffi.sizeof("void *"), ffi.sizeof("int"))

    def at(self, values: Array) -> tuple[Array, object]:
        """The steps in C of the kernels for these values of the open sizes, one row for each; what must live as long.

        Raises:
            NoParametersError: a tensor or a number is too large.
        """
        if not len(self._rows):
            return self._rows, None
        tensors, pointers = ffi.new(TENSORS, len(self._words) * WORD // SIZE), ffi.new(POINTERS, len(self._of_end))
        words, numbers = _words_of(tensors), self._codes.at(values)
        words[...] = self._words
        dims = self._dims.at(values).reshape(self._is_axis.shape)
        words[self._at + DIMS] = dims[self._is_axis]
        words[self._at + STRIDES] = self._strides_of(dims, values)[self._is_axis]
        codes = numbers.astype(np.intc)
        if (codes != numbers).any():
            raise NoParametersError("a number is too large for a kernel")
        in_c = ffi.new(CODES, len(codes))
        ffi.memmove(in_c, ffi.from_buffer(codes), codes.nbytes)
        np.frombuffer(ffi.buffer(pointers), np.intp)[...] = self._of_end + address(tensors)
        rows: Any = self._rows.copy()
        field_of(rows, "tensors")[...] = self._starts[:, 0] + address(pointers)
        field_of(rows, "code")[...] = self._starts[:, 1] + address(in_c)
        return rows, (tensors, pointers, in_c)

    def _strides_of(self, dims: Any, values: Array) -> Array:
        """The strides of tensors with these dims, as ``capi_tensor`` gives them to kernels."""
        strides: Any = self._strides.at(values).reshape(dims.shape)
        is_wide: Any = dims > 1
        if strides.min() < 0 or (dims * strides.astype(np.float64)).sum(1).max() >= LARGE:
            raise NoParametersError("a tensor is too large for a kernel, or runs backwards")
        dense = np.ones_like(dims)
        np.cumprod(np.maximum(dims, 1)[:, :0:-1], axis=1, out=dense[:, -2::-1])
        is_dense = ((strides == dense) | ~self._is_axis).all(1)
        spans = np.where(is_wide, dims * strides, 1).max(1)
        found: Array = np.where(is_wide | is_dense[:, None], strides, spans[:, None])
        return found


def _words_of(tensors: Any) -> Array:
    """Tensors of the C API as words of 8 bytes, in their memory."""
    return np.frombuffer(ffi.buffer(tensors), np.int64)
