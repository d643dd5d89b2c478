"""The kernels of steps whose sizes are open as arrays in C, of which those for known sizes are filled at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._util.open_sizes import present
from ..compiler.kernels.native import KernelSource, tensor_of
from ..compiler.library_steps import NoParametersError
from ..compiler.open_values import value_at
from ..ir.op import Array
from ..native.library import ffi, lib
from .open_steps import Numbers
from .plan import rows_of

TENSORS, POINTERS, CODES = map(
    ffi.typeof, ("dnnl_graph_logical_tensor_t[]", "dnnl_graph_logical_tensor_t *[]", "int[]")
)


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
        self._tensors = bytes(ffi.buffer(ffi.new(TENSORS, tensors)))
        dims = [dim for value in firsts for dim in value.shape]
        strides = [step for value in firsts for step in value.strides]
        codes = [number for source in sources for number in source.code]
        self._numbers = Numbers([*dims, *strides, *codes], place)
        self._count, self._n_codes = len(tensors), len(codes)
        self._ends = np.array(places, np.int64)
        self._rows = rows_of([source.at(present).made() for source in sources])
        counts = [(len(source.inputs) + len(source.outputs), len(source.code)) for source in sources]
        self._starts = np.cumsum([(0, 0), *counts], axis=0, dtype=np.int64)[:-1].copy()
        self._in_c = [ffi.from_buffer("int64_t[]", array) for array in (self._ends, self._starts)]

    def at(self, values: Array) -> tuple[Array, object]:
        """The steps in C of the kernels for these values of the open sizes, one row for each; what must live as long.

        Raises:
            NoParametersError: a tensor or a number is too large.
        """
        if not len(self._rows):
            return self._rows, None
        tensors, pointers = ffi.new(TENSORS, self._count), ffi.new(POINTERS, len(self._ends))
        ffi.memmove(tensors, self._tensors, len(self._tensors))
        codes, rows = ffi.new(CODES, self._n_codes), self._rows.copy()
        status = lib.onegraph_kernels_fill(
            self._count,
            tensors,
            ffi.from_buffer("int64_t[]", self._numbers.at(values)),
            self._n_codes,
            codes,
            len(self._ends),
            self._in_c[0],
            pointers,
            len(rows),
            self._in_c[1],
            ffi.from_buffer("onegraph_step_t[]", rows),
        )
        if status:
            raise NoParametersError("a tensor or a number is too large for a kernel, or a tensor runs backwards")
        return rows, (tensors, pointers, codes)
