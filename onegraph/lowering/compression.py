"""Compresses the constant weights of products to codes of 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Generic
from warnings import warn

import numpy as np

from .._util.tracebacks import ends_traceback
from .._util.validation import choice, integer
from ..arrays.packed_codes import BITS, packed
from ..builder.compression import CompressedWeights
from ..builder.graph import AnyGraph, expect_graph
from ..errors import ArgumentError
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.editions.registry import base_of
from ..transform.part import without_unread
from .elementwise import add
from .emitter import Array, Emitter, Value
from .movement import NATIVE
from .packed import packed_matmul

KINDS: Mapping[str, str] = {"int4": "u4", "int8": "s8"}
LEAST_GROUP, LARGEST_GROUP = 16, 1 << 30
LEAST_SIZE = 1 << 12  # numbers of a matrix; a smaller one takes no time


@ends_traceback
def compress_weights(graph: AnyGraph, kind: str, *, group: int = 32) -> AnyGraph:
    """A graph whose products read constant weights of 4 or 8 bits, for models that wait for memory.

    Each MatMul by a constant matrix of f32, f16 or bf16 reads codes instead, with a scale for each group of a column,
    and sums in f32. Of 4 bits and groups of 32, a weight takes 0.625 bytes; columns are filled up to multiples of 128
    codes of 4 bits, or 64 of 8 bits. Matrices of less than 4,096 numbers, and
    weights that are variables, stay as they are; if all matrices do, a warning says why. Results change:
    ``compression`` of the new graph has the error of each matrix; compare the results of the model too.

    Args:
        graph: the graph, which stays as it is.
        kind: ``int4`` or ``int8``.
        group: numbers of a column that share a scale: a power of 2 from 16 on, or 0 for whole columns.

    Raises:
        ArgumentError: another kind or group, or a matrix has NaN or infinities.
    """
    expect_graph(graph)
    coding = KINDS[choice("kind", kind, [*KINDS])]
    allowed = f"a power of 2 from {LEAST_GROUP} on, or 0 for whole columns"
    size = integer("group", group, 0, LARGEST_GROUP, allowed)
    if size and (size < LEAST_GROUP or size & (size - 1)):
        raise ArgumentError(f"group: {size}; expected {allowed}")
    compression = _Compression(graph._as_step(), coding, size)
    compressed = compression.graph()._with_variables_of(graph)
    if compression.left and not compressed.compression:
        names = ", ".join(compression.left[:3]) + (", ..." if compression.left[3:] else "")
        warn(
            f"compress_weights: the weights of no product were compressed: those of {names} have fewer than"
            f" {LEAST_SIZE:,} numbers, or are not f32, f16 or bf16",
            stacklevel=2,
        )
    return compressed


class _Compression(Generic[AnyGraph]):
    def __init__(self, graph: AnyGraph, coding: str, group: int) -> None:
        self._source, self._coding, self._group = graph, coding, group
        self._makers = {end.id: op for op in graph._ops for end in op.outputs}
        self._known: dict[tuple[int, bool], tuple[Array, Array, float]] = {}
        self._done: list[CompressedWeights] = []
        self.left: list[str] = []  # products whose constant weights are too small, or of another type

    def graph(self) -> AnyGraph:
        """The compressed graph."""
        source, compressed = self._source, self._source._empty()
        renewed = dict[int, Value]()
        for tensor in source._tensors:
            if tensor.constant:
                renewed[tensor.id] = compressed._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
        for name, tensor in source._inputs.items():
            own = compressed._tensor(tensor.dtype, tensor.shape, name, tensor.strides, tensor.value)
            renewed[tensor.id] = compressed._inputs[name] = own
        emit = Emitter(compressed)
        for op in source._ops:
            emit.named(op.name)
            inputs = [None if end is None else emit.tensor(renewed[end.id]) for end in op.inputs]
            product = self._compressed(emit, op, inputs)
            results = emit.repeat(op, inputs) if product is None else (product,)
            renewed.update(zip([end.id for end in op.outputs], results, strict=True))
        compressed._outputs = {
            name: emit.tensor(renewed[end.id])._laid_out(end.strides) for name, end in source._outputs.items()
        }
        compressed._constant_inputs, compressed._roundings = set(source._constant_inputs), source._roundings
        compressed = without_unread(compressed)
        compressed.compression = tuple(self._done)
        return compressed

    def _compressed(self, emit: Emitter, op: Op, inputs: Sequence[LogicalTensor | None]) -> Value | None:
        """The result of a product by compressed weights; None for other ops."""
        attrs = op.attrs
        if base_of(schema_of(op)).kind != "MatMul" or attrs.get("transpose_a"):
            return None
        weights, is_turned, src = op.inputs[1], bool(attrs.get("transpose_b")), inputs[0]
        assert weights is not None
        maker = self._makers.get(weights.id)
        if maker is not None and _exchanges(maker):
            weights, is_turned = maker.inputs[0], not is_turned
        assert src is not None
        assert weights is not None
        if weights.value is None or not src.shape or weights.value.ndim != 2:
            return None
        shape = weights.value.shape
        if weights.dtype not in NATIVE or prod(shape) < LEAST_SIZE:
            self.left.append(op.name)
            return None
        key = weights.id, is_turned
        if key not in self._known:
            matrix = (weights.value if is_turned else weights.value.T).astype(np.float32)
            if not np.isfinite(matrix).all():
                where = f"{op.kind} {op.name!r}"
                raise ArgumentError(f"{where}: weights with NaN or infinities; expected finite ones to compress")
            self._known[key] = coded(matrix, self._coding, self._group)
        codes, scales, error = self._known[key]
        self._done.append(CompressedWeights(op.name, shape, weights.value.nbytes, codes.nbytes + scales.nbytes, error))
        depth = shape[1 if is_turned else 0]
        product = packed_matmul(
            emit,
            src,
            codes,
            scales,
            None,
            coding=self._coding,
            group=self._group if self._group < depth else 0,
            zero=8 if self._coding == "u4" else 0,
            in_codes=False,
        )
        bias = inputs[2] if len(inputs) > len(("src", "weights")) else None
        return product if bias is None else add(emit, product, bias)


def _exchanges(op: Op) -> bool:
    """Whether an op is a transpose that exchanges two axes."""
    return op.attrs.get("order") in ((1, 0), (-1, -2), (1, -2), (-1, 0))


def coded(matrix: Array, coding: str, group: int) -> tuple[Array, Array, float]:
    """Rows of bytes, scales and the relative error of a finite matrix (columns, depth)."""
    columns, depth = matrix.shape
    size = group if 0 < group < depth else depth
    blocks = -(-depth // size)
    parts = np.pad(matrix, ((0, 0), (0, blocks * size - depth))).reshape(columns, blocks, size)
    places = np.abs(parts).argmax(-1)[..., None]
    extreme = np.take_along_axis(parts, places, -1)
    bits = BITS[coding]
    half = 1 << (bits - 1)
    # The number of the largest size is exact: of 4 bits it is -8, the code without a counterpart.
    scales = extreme / -half if bits == 4 else np.abs(extreme) / (half - 1)
    factors = np.where(scales == 0, 1, scales)
    codes = np.clip(np.rint(parts / factors), -half, half - 1)
    norm = float(np.linalg.norm(parts))
    error = float(np.linalg.norm(codes * scales - parts)) / norm if norm else 0.0
    raw = (codes + (half if coding.startswith("u") else 0)).reshape(columns, -1)[:, :depth]
    return packed(raw.astype(np.int16), bits), scales[..., 0].astype(np.float32), error
