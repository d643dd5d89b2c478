"""A matrix of packed weights, in the form that products of the package read."""

from __future__ import annotations

import numpy as np

from ..._util.records import record
from ...arrays.packed_codes import BITS, Array, packed, unpacked
from ...builder.graph import DataGraph
from ...errors import FormatError
from ...ir.op import LogicalTensor
from .blocks import Format


@record(frozen=True, eq=False)
class PackedWeights:
    """A matrix (columns, depth) of codes of 4 or 8 bits: a number is (code - zero point) * scale.

    Attributes:
        name: of the tensor in the file.
        format: of the file, such as ``Q4_K``.
        shape: (columns, depth).
        rows: the codes of each column, as bytes.
        scales: (columns, groups of a column), in f32.
        zeros: zero points in the form of the scales, in f32; None if all are ``zero``.
        zero: the zero point of all codes.
        coding: the data type of the codes.
        group: codes of a column that share a scale.
    """

    name: str
    format: str
    shape: tuple[int, int]
    rows: Array
    scales: Array
    zeros: Array | None
    zero: int
    coding: str
    group: int

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and zero points."""
        return self.rows.nbytes + self.scales.nbytes + (0 if self.zeros is None else self.zeros.nbytes)

    def numbers(self) -> Array:
        """The matrix (columns, depth) in f32."""
        codes = unpacked(self.rows, self.coding, self.shape[1]).astype(np.float32)
        zeros = self.zero if self.zeros is None else self._spread(self.zeros)
        scaled: Array = (codes - zeros) * self._spread(self.scales)
        return scaled

    def _spread(self, values: Array) -> Array:
        return np.repeat(values, self.group, 1)[:, : self.shape[1]]

    def matmul(self, graph: DataGraph, src: LogicalTensor) -> LogicalTensor:
        """Add the product of ``src`` (..., depth) by the transposed matrix to a graph; the result is (..., columns).

        Raises:
            SpecError: src has another last dim, or is neither f32, f16 nor bf16.
        """
        result: LogicalTensor = graph.op("PackedMatMul", [src, *self._constants(graph)], self._attrs(), edition="host")
        return result

    def gather(self, graph: DataGraph, indices: LogicalTensor) -> LogicalTensor:
        """Add the columns that ``indices`` of s32 or s64 name to a graph, as rows of f32: (..., depth)."""
        table, *constants = self._constants(graph)
        attrs = {**self._attrs(), "depth": self.shape[1]}
        result: LogicalTensor = graph.op("PackedGather", [table, indices, *constants], attrs, edition="host")
        return result

    def _constants(self, graph: DataGraph) -> list[LogicalTensor]:
        arrays = [self.rows, self.scales, *([] if self.zeros is None else [self.zeros])]
        return [graph.constant(array) for array in arrays]

    def _attrs(self) -> dict[str, object]:
        group = self.group if self.group < self.shape[1] else 0
        return {"coding": self.coding, "group": group, "zero": self.zero}


def taken_apart(name: str, kind: str, form: Format, data: Array) -> PackedWeights:
    """The weights of a tensor whose rows are bytes (columns, bytes of a column).

    Raises:
        FormatError: the bytes are no blocks.
    """
    columns, nbytes = data.shape
    if nbytes % form.nbytes:
        wanted = f"blocks of {form.nbytes} bytes, as {kind} has"
        raise FormatError(f"tensor {name!r}", f"rows of {nbytes} bytes", wanted)
    depth = nbytes // form.nbytes * form.numbers
    blocks = form.taken_apart(np.ascontiguousarray(data, np.uint8).reshape(-1, form.nbytes))
    codes, scales = blocks.codes.reshape(columns, depth), blocks.scales.reshape(columns, -1)
    zeros = None if blocks.zeros is None else blocks.zeros.reshape(columns, -1)
    if not (np.isfinite(scales).all() and (zeros is None or np.isfinite(zeros).all())):
        raise FormatError(f"tensor {name!r}", "a scale that is NaN or infinite", "finite scales")
    rows = packed(codes, BITS[form.coding])
    return PackedWeights(name, kind, (columns, depth), rows, scales, zeros, blocks.zero, form.coding, form.group)
