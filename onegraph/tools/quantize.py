"""Quantizes graphs: convolutions and products get codes of 8 bits, with ranges that samples show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from math import hypot
from typing import Any

import numpy as np

from .._util.exact_types import elements, text
from .._util.tracebacks import ends_traceback
from .._util.validation import choice, flag, number
from ..builder.compression import QuantizedOp
from ..builder.graph import expect_graph
from ..builder.uses import Uses, uses_of
from ..errors import ArgumentError, shown
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op
from ..lowering.emitter import Emitter, Value
from ..opset import kinds
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT
from ..transform.part import without_unread
from .folded_norms import folded_norms, own_name
from .ranges import NumberRange, ranges

KINDS = kinds.PRODUCTS - kinds.GRADIENTS
# Readers of a quantized tensor that read its codes too, so that no second copy is computed: ops that a kernel joins to
# the op before, and ops that only move numbers.
FOLLOWERS = kinds.PLACING | (kinds.in_category("pooling") - kinds.GRADIENTS) | {"Add", "ReLU"}
CODES = {"s8": 127, "u8": 255}
EXACT = 2**24  # f32 has all integers up to this one
MOST_SCALE = 1e30
LEAST_WEIGHTS = 2**6  # numbers; an op with fewer takes no time


@ends_traceback
def quantize(
    graph: Graph,
    samples: Iterable[object],
    *,
    method: str = "minmax",
    percentile: float = 99.99,
    exclude: Sequence[str] = (),
    limit: float = 0.1,
    portable: bool = False,
) -> Graph:
    """A graph whose convolutions and products compute with integers of 8 bits, for CPUs with VNNI or AMX.

    Each Convolution, ConvTranspose and MatMul of f32 with constant weights reads codes: the weights have a scale for
    each output channel, and the source has one scale, and for products a zero point, from the numbers that it has when
    the graph runs on the samples. BatchNormInference behind a convolution is computed into its weights first. A bias
    becomes a multiple of the product of both scales, so that :func:`onegraph.onnx.save` writes it as integers.
    ``quantization`` of the new graph says what became of each op; compare the results of the model too.

    Args:
        graph: the graph, which stays as it is. Variables have their first contents.
        samples: typical inputs of calls, 10 to 500 of them: dictionaries by name, tuples in the order of the inputs, or
            single arrays.
        method: ``minmax`` takes the whole range of a source; ``percentile`` leaves out the outermost numbers, which
            helps where few of them are far out.
        percentile: the share of the numbers within the range, for ``percentile``.
        exclude: names of ops that stay as they are; ``*`` and ``?`` stand for any characters.
        limit: the largest relative error of the source and the weights of an op together; an op with a larger one stays
            as it is.
        portable: whether the results of these ops and of sums that other ops read become codes too, all of them u8.
            Other runtimes, such as ONNX Runtime, compute with integers only between such codes. It costs accuracy, and
            here no time is gained.

    Raises:
        ArgumentError: an argument is wrong, there is no sample, one does not fit, or a source or weights have NaN or
            infinities, or a source has no elements; or the graph has nothing to quantize.
        LibraryError: there is no usable oneDNN library.
    """
    expect_graph(graph)
    is_cut = choice("quantize: method", method, ["minmax", "percentile"]) == "percentile"
    share = number("quantize: percentile", percentile, 50, 100)
    most, is_portable = number("quantize: limit", limit, 0, float("inf")), flag("quantize: portable", portable)
    folded = folded_norms(Graph.for_inference(graph) if graph.variables else graph)
    chosen = [op for op in folded.ops if _is_candidate(op)]
    left = _excluded(folded, exclude)
    kept = [op for op in chosen if own_name(op) not in left]
    if not kept:
        raise ArgumentError(f"quantize: no {', '.join(sorted(KINDS))} of f32 with constant weights to quantize")
    sources = {op.inputs[0].id: op.inputs[0] for op in kept}
    results = _results(folded, kept) if is_portable else {}
    observed = ranges(folded, [*{**sources, **results}.values()], samples, histograms=is_cut)
    joined = {op.inputs[0].id for op in kept if op.kind != "MatMul"}
    coders = {
        number: _Coder(known, share if is_cut else None, symmetric=number in joined, unsigned=is_portable)
        for number, known in observed.items()
    }
    excluded = [op for op in chosen if own_name(op) in left]
    return _Quantizing(folded, kept, coders, most, excluded, frozenset(results)).graph()


def _results(graph: Graph, kept: Sequence[Op]) -> dict[int, LogicalTensor]:
    """The results of quantized ops and sums that other ops read, by their ids; behind a lone ReLU, its result."""
    uses, results, names = uses_of(graph), dict[int, LogicalTensor](), {own_name(op) for op in kept}
    for op in graph.ops:
        if op.kind != "Add" and own_name(op) not in names:
            continue
        end = op.outputs[0]
        readers: Sequence[Op] = uses.consumers.get(end.id, ())
        if [reader.kind for reader in readers] == ["ReLU"] and end not in graph.outputs.values():
            end = readers[0].outputs[0]
            readers = uses.consumers.get(end.id, ())
        if readers and end.dtype is DataType.f32:
            results[end.id] = end
    return results


def _is_candidate(op: Op) -> bool:
    """Whether an op multiplies a source of f32 by constant weights."""
    if op.kind not in KINDS or op.edition != DEFAULT:
        return False
    src, weights = op.inputs[0], op.inputs[1]
    if weights.value is None or src.constant or src.dtype is not DataType.f32:
        return False
    is_plain = op.kind != "MatMul" or (weights.value.ndim == 2 and not op.attrs.get("transpose_a"))
    return is_plain and weights.value.size >= LEAST_WEIGHTS


def _excluded(graph: Graph, exclude: object) -> set[str]:
    """The names of the ops that stay."""
    patterns = None if text(exclude) is not None else elements(exclude)
    if patterns is None:
        raise ArgumentError(f"quantize: exclude: {shown(exclude)}; expected a list of names of ops")
    excluded: set[str] = set()
    for index, entry in enumerate(patterns):
        pattern = text(entry)
        meant = [op for op in graph.ops if pattern is not None and fnmatchcase(own_name(op), pattern)]
        names = {own_name(op) for op in meant if op.kind in KINDS}
        if not names:
            kinds = ", ".join(dict.fromkeys(op.kind for op in meant))
            problem = f"names {kinds}, which quantize leaves alone" if kinds else "is no op"
            known = ", ".join([own_name(op) for op in graph.ops if op.kind in KINDS][:12])
            raise ArgumentError(f"quantize: exclude[{index}]: {shown(entry)} {problem}; expected one of {known}")
        excluded |= names
    return excluded


class _Coder:
    """The codes of a tensor.

    Attributes:
        dtype, scale, zero: of the codes.
        error: the root of the mean square of the errors, divided by that of the numbers.
    """

    def __init__(self, known: NumberRange, percentile: float | None, *, symmetric: bool, unsigned: bool) -> None:
        low, high = (known.low, known.high) if percentile is None else known.inner(percentile)
        low, high = min(low, 0.0), max(high, 0.0)
        is_unsigned = unsigned or low == 0 or (not symmetric and -low < high / 2)
        self.dtype = "u8" if is_unsigned else "s8"
        span = high - low if is_unsigned else max(-low, high)
        # A scale far below any number would be subnormal.
        self.scale = float(np.float32(max(span / CODES[self.dtype], 1e-30)))
        self.zero = int(np.clip(round(-low / self.scale), 0, 255)) if is_unsigned else 0
        # Rounding to codes is off by a uniform share of the scale.
        size = (known.square / known.count) ** 0.5
        self.error = self.scale / 12**0.5 / size if size else 0.0


class _Quantizing:
    """Makes the new graph."""

    def __init__(
        self,
        graph: Graph,
        kept: Sequence[Op],
        coders: dict[int, _Coder],
        limit: float,
        left: Sequence[Op],
        results: frozenset[int],
    ) -> None:
        self._source, self._coders, self._made = graph, coders, graph._empty()
        self._emit, self._renewed, self._codes = Emitter(self._made), dict[int, Value](), dict[int, Value]()
        self._weights = {op.id: _coded_weights(op, coders[op.inputs[0].id].scale) for op in kept}
        self._records = {op.id: QuantizedOp(own_name(op), "", 0.0, 0, 0.0, "it is excluded") for op in left}
        for op in kept:
            self._records[op.id] = self._judged(op, limit)
        self._done = {op.id for op in kept if not self._records[op.id].reason}
        read = uses_of(graph)
        self._followed = {one for one in coders if self._is_read_as_codes(one, read)}
        self._results = results

    def _judged(self, op: Op, limit: float) -> QuantizedOp:
        """The record of an op."""
        coder = self._coders[op.inputs[0].id]
        error = hypot(coder.error, self._weights[op.id][2])
        reason = f"its error {error:.2%} is above the limit {limit:.2%}" if error > limit else ""
        return QuantizedOp(own_name(op), coder.dtype, coder.scale, coder.zero, error, reason)

    def _is_read_as_codes(self, value_id: int, read: Uses) -> bool:
        """Whether an op that is quantized reads a tensor, whose other readers follow then."""
        return any(op.id in self._done and op.inputs[0].id == value_id for op in read.consumers.get(value_id, ()))

    def graph(self) -> Graph:
        """The quantized graph."""
        source, made, emit = self._source, self._made, self._emit
        for tensor in source._tensors:
            if tensor.constant:
                self._renewed[tensor.id] = made._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
        for name, tensor in source._inputs.items():
            own = made._tensor(tensor.dtype, tensor.shape, name, tensor.strides, tensor.value)
            self._renewed[tensor.id] = made._inputs[name] = own
        for op in source._ops:
            inputs = [emit.tensor(self._read(op, end)) for end in op.inputs]
            if op.id in self._done:
                inputs[1] = emit.tensor(self._dequantized_weights(op))
                if len(inputs) > 2 and (bias := self._stepped_bias(op)) is not None:
                    inputs[2] = emit.tensor(bias)
            emit.named(own_name(op))
            self._renewed.update(zip([end.id for end in op.outputs], emit.repeat(op, inputs), strict=True))
        made._outputs = {
            name: emit.tensor(self._renewed[end.id])._laid_out(end.strides) for name, end in source._outputs.items()
        }
        made._constant_inputs = set(source._constant_inputs)
        made = without_unread(made)
        made.quantization = tuple(self._records[op.id] for op in source._ops if op.id in self._records)
        return made

    def _read(self, op: Op, end: LogicalTensor) -> Value:
        """What an op reads in the place of a tensor: itself, or what its codes stand for."""
        is_source = op.id in self._done and end.id == op.inputs[0].id
        is_followed = end.id in self._followed and op.kind in FOLLOWERS
        if not is_source and not is_followed and end.id not in self._results:
            return self._renewed[end.id]
        if end.id not in self._codes:
            self._codes[end.id] = self._coded(op, end)
        return self._codes[end.id]

    def _coded(self, op: Op, end: LogicalTensor) -> Value:
        coder, emit = self._coders[end.id], self._emit
        emit.named(f"{own_name(op)}/src")
        attrs: dict[str, Any] = {"scales": [coder.scale], "zps": [coder.zero], "qtype": "per_tensor"}
        codes = emit.op("Quantize", [self._renewed[end.id]], attrs, dtype=DataType(coder.dtype))
        return emit.op("Dequantize", [codes], attrs)

    def _stepped_bias(self, op: Op) -> Array | None:
        """A known bias as multiples of the product of the scales of src and weights, of which f32 holds all."""
        src_scale = self._coders[op.inputs[0].id].scale
        steps = np.multiply(self._weights[op.id][1], np.float32(src_scale))
        bias = op.inputs[2].value
        if bias is None or bias.shape != steps.shape or not np.isfinite(bias).all():
            return None
        codes = np.rint(bias.astype(np.float64) / steps)
        return np.where(np.abs(codes) <= EXACT, codes.astype(np.float32) * steps, bias).astype(np.float32)

    def _dequantized_weights(self, op: Op) -> Value:
        codes, scales, _, axis = self._weights[op.id]
        attrs = {"scales": scales.tolist(), "zps": [0] * len(scales), "qtype": "per_channel", "axis": axis}
        self._emit.named(f"{own_name(op)}/weights")
        return self._emit.op("Dequantize", [codes], attrs)


def _coded_weights(op: Op, src_scale: float) -> tuple[Array, Array, float, int]:
    """Codes, scales and the relative error of the weights of an op, and the axis of the scales.

    Weights far below the bias get larger scales than they need, so that the bias is no more than EXACT steps.
    """
    weights, axis = op.inputs[1], _channel_axis(op)
    numbers = np.asarray(weights.value, np.float32)
    if not np.isfinite(numbers).all():
        raise ArgumentError(f"{op.kind} {op.name!r}: weights with NaN or infinities; expected finite ones to quantize")
    other_axes = tuple(place for place in range(numbers.ndim) if place != axis)
    largest = np.abs(numbers).max(axis=other_axes)
    least, bias = np.zeros_like(largest), op.inputs[2] if len(op.inputs) > 2 else None
    if bias is not None and bias.value is not None and bias.value.shape == largest.shape:
        # One rounding of a product of scales stays below the limit.
        least = np.abs(bias.value.astype(np.float64)) / (src_scale * EXACT * (1 - 2.0**-20))
        least = np.where(np.isfinite(least) & (least < MOST_SCALE), least, 0)
    wanted = np.maximum(np.where(largest > 0, np.maximum(largest / 127, np.float32(1e-30)), 0), least)
    scales = np.where(wanted > 0, wanted, 1).astype(np.float32)
    shape = [1] * numbers.ndim
    shape[axis] = -1
    wide = scales.reshape(shape)
    codes = np.rint(numbers / wide).astype(np.int8)
    whole = float(np.linalg.norm(numbers))
    error = float(np.linalg.norm(codes * wide - numbers)) / whole if whole else 0.0
    return codes, scales, error, axis


def _channel_axis(op: Op) -> int:
    """The axis of the weights along which the channels of the result lie."""
    assert op.inputs[1].value is not None
    last = op.inputs[1].value.ndim - 1
    if op.kind == "MatMul":
        return 0 if op.attrs.get("transpose_b") else 1
    if op.kind == "Convolution":
        return 0 if op.attrs.get("weights_format", "XIO") == "OIX" else last
    return 1 if op.attrs.get("weights_format", "XOI") == "IOX" else last - 1
