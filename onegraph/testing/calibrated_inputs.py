"""Makes random inputs for which the results of a graph tell right ops from wrong ones.

Random inputs are in the domain of the ops that read them, but results further on can overflow, saturate, or leave the
domain of an op. So the reference runs op by op. Where a result is out of range, an input that it is proportional to is
scaled; where a result is NaN, the inputs that it depends on become positive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import inf, log2

import numpy as np

from .._util.records import record
from ..builder.graph import snapshot
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of
from ..reference.run import narrow, run_op
from .random_inputs import ANY, AROUND_ZERO_POINT, INTEGERS, domains, random_inputs

TRIES = 4  # for each op
SPARSE = 0.35  # the least root mean square of integers; most of them are then 0


@record(frozen=True)
class RmsRange:
    """Sizes, as root mean square, that keep a tensor from overflow and saturation; ``wanted`` replaces others."""

    low: float
    high: float
    wanted: float

    def __and__(self, other: RmsRange) -> RmsRange:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return RmsRange(low, high, min(max(self.wanted, low), high)) if low < high else self


WIDE = RmsRange(2.0**-12, 64.0, 2.0)
# Ops that saturate, or grow fast.
STEEP = dict.fromkeys(
    (
        *("SoftMax", "LogSoftmax", "Sigmoid", "Tanh", "HardSigmoid"),
        *("HardSwish", "Exp", "GELU", "Mish", "SoftPlus", "Elu"),
    ),
    RmsRange(0.125, 3.0, 1.0),
)
# Ops whose result is as large as their first input.
MOVES = frozenset(
    {"Concat", "DynamicReshape", "DynamicTranspose", "Interpolate", "Reorder", "StaticReshape", "StaticTranspose"}
)
ALIKE = MOVES | {
    *("Abs", "AvgPool", "Dequantize", "LeakyReLU", "MaxPool", "Maximum", "Minimum", "ReLU", "TypeCast"),
    *("ReduceMax", "ReduceMean", "ReduceMin"),
}
# Ops whose result is proportional to each of these inputs.
PROPORTIONAL = {
    **dict.fromkeys(ALIKE | {"ReduceSum", "ReduceL1", "ReduceL2", "Quantize", "DynamicQuantize"}, (0,)),
    **dict.fromkeys(("MatMul", "Multiply", "Convolution", "ConvolutionBackwardData"), (0, 1)),
    **dict.fromkeys(("ConvolutionBackwardWeights", "ConvTranspose"), (0, 1)),
    **dict.fromkeys(("ConvTransposeBackwardData", "ConvTransposeBackwardWeights"), (0, 1)),
    **dict.fromkeys(("Add", "Subtract", "BiasAdd", "Select"), (0, 1, 2)),
    "Divide": (0,),
    "DynamicDequantize": (1,),
    "BatchNormInference": (1,),
    "LayerNorm": (1,),
    "GroupNorm": (1,),
    "RMSNorm": (1,),
}


def calibrated_inputs(
    graph: Graph, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> dict[str, Array]:
    """An array for each input of a graph, like :func:`random_inputs`, with finite results of the right size.

    Args:
        graph, seed, progress: as for :func:`random_inputs`.

    Raises:
        ArgumentError: as for :func:`random_inputs`.
        UnsupportedError: the reference cannot compute an op.
    """
    graph = snapshot(graph)
    work = _Calibration(graph, random_inputs(graph, seed, progress), np.random.default_rng(seed))
    work.run()
    return work.inputs


class _Calibration:
    def __init__(self, graph: Graph, inputs: dict[str, Array], rng: np.random.Generator) -> None:
        self.graph, self.inputs, self.rng = graph, inputs, rng
        self.ranges = _ranges(graph)
        self.values = {tensor.id: inputs[name] for name, tensor in graph.inputs.items()}
        self.values |= {graph._inputs[name].id: array for name, array in graph._initial.items()}
        for op in graph.ops:
            self.values |= {tensor.id: tensor.value for tensor in op.inputs if tensor.value is not None}
        self.first: dict[int, int] = {}  # place of the first op that reads an input
        self.names = {tensor.id: name for name, tensor in graph.inputs.items() if tensor.value is None}
        for place, op in enumerate(graph.ops):
            schema = schema_of(op)
            for index, tensor in enumerate(op.inputs):
                if tensor.id in self.names:
                    self.first.setdefault(tensor.id, place)
                    if schema.input_port(index).gives_shape or tensor.dtype is DataType.boolean:
                        del self.names[tensor.id]
        asked = domains(graph)
        self.zeros = {
            number: asked.get(number, ANY).zero
            for number, name in self.names.items()
            if graph.inputs[name].dtype in AROUND_ZERO_POINT
        }
        # The inputs that a tensor is proportional to, and all inputs that it depends on.
        self.knobs = {number: frozenset([number]) for number in self.names}
        self.sources = dict(self.knobs)
        self.tries: Counter[int] = Counter()
        self.dependents: Counter[int] = Counter()  # number of ops that depend on an input
        for op in graph.ops:
            sources = self._union(op, self.sources, range(len(op.inputs)))
            self.sources |= dict.fromkeys([tensor.id for tensor in op.outputs], sources)
            self.dependents.update(sources)

    def run(self) -> None:
        """Compute every op, and change inputs where its results are out of range."""
        place = 0
        while place < len(self.graph.ops):
            op = self.graph.ops[place]
            results = run_op(op, [self.values[tensor.id] for tensor in op.inputs], rounded=False)
            for tensor, wide in zip(op.outputs, results, strict=True):
                self.values[tensor.id] = narrow(wide, tensor.dtype)
                self.knobs[tensor.id] = self._union(op, self.knobs, PROPORTIONAL.get(base_of(schema_of(op)).kind, ()))
            again = self._changed(op, results) if self.tries[place] < TRIES else None
            self.tries[place] += again is not None
            place = place + 1 if again is None else again

    @staticmethod
    def _union(op: Op, sources: dict[int, frozenset[int]], indices: Sequence[int]) -> frozenset[int]:
        tensors = [op.inputs[index] for index in indices if index < len(op.inputs)]
        return frozenset().union(*(sources.get(tensor.id, ()) for tensor in tensors))

    def _changed(self, op: Op, results: Sequence[Array]) -> int | None:
        """Change an input if a result is out of range; returns the first op that reads it."""
        for tensor, wide in zip(op.outputs, results, strict=True):
            if wide.dtype.kind != "f" or not wide.size:
                continue
            if np.isnan(wide).any():
                scale = self._make_positive(self.sources[tensor.id])
                if scale is not None:
                    return scale
            finite = wide[np.isfinite(wide)]
            size = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else inf
            allowed = self.ranges.get(tensor.id, WIDE)
            if size and not allowed.low <= size <= allowed.high:
                factor = allowed.wanted / size if size < inf else 2.0**-4
                scale = self._scale(self.knobs[tensor.id], 2.0 ** round(log2(factor)))
                if scale is not None:
                    return scale
        return None

    def _scale(self, knobs: frozenset[int], factor: float) -> int | None:
        """Scale one of the inputs; returns the first op that reads it, or None if none can be scaled."""
        for number in sorted(knobs, key=lambda number: (self.dependents[number], -number)):
            tensor, zero = self.graph.inputs[self.names[number]], self.zeros.get(number, 0)
            values = self.values[number].astype(np.float64) - zero
            wanted = values * factor
            if tensor.dtype in INTEGERS:
                size = float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
                wanted = values * max(factor, SPARSE / size if size else 1.0)
                wanted = np.floor(wanted + self.rng.random(values.shape))  # so that small products do not all become 0
                if size <= 2 * SPARSE and factor < 1:
                    continue
            if self._set(tensor, wanted + zero):
                return self.first[number]
        return None

    def _make_positive(self, sources: frozenset[int]) -> int | None:
        """Make inputs positive; returns the first op that reads one, or None if all are positive already."""
        changed = [
            self.first[number]
            for number in sources
            if self._set(self.graph.inputs[self.names[number]], np.abs(self.values[number].astype(np.float64)))
        ]
        return min(changed, default=None)

    def _set(self, tensor: LogicalTensor, wanted: Array) -> bool:
        """Set the contents of an input; returns whether they changed, and are still finite and not all zero."""
        if tensor.dtype in INTEGERS:
            limits = AROUND_ZERO_POINT if self.zeros.get(tensor.id, 0) else INTEGERS
            low, high = limits[tensor.dtype]
            wanted = np.clip(np.rint(wanted), low, high)
        made, old = narrow(wanted, tensor.dtype), self.values[tensor.id]
        is_finite = np.isfinite(made.astype(np.float64)).all()
        if np.array_equal(made, old) or not is_finite or not (made != self.zeros.get(tensor.id, 0)).any():
            return False
        old[...] = made
        return True


def _ranges(graph: Graph) -> dict[int, RmsRange]:
    """The range of every tensor that its readers need, directly or after ops that keep the size of their input."""
    ranges: dict[int, RmsRange] = {}
    for op in reversed(graph.ops):
        kind = base_of(schema_of(op)).kind
        for index, tensor in enumerate(op.inputs):
            if index > (0 if kind not in ("Add", "Subtract", "Select") else 2):
                continue
            asked = STEEP.get(kind)
            if kind in ALIKE and kind != "Dequantize":
                asked = ranges.get(op.outputs[0].id)
            elif kind == "Quantize":
                asked = _levels(op)
            elif kind == "Clamp":
                low, high = op.attrs.get("min"), op.attrs.get("max")
                assert isinstance(low, float)
                assert isinstance(high, float)
                if 0 < high - low < inf:
                    size = high - low
                    asked = RmsRange(size / 16, size, size / 2)
            if asked is not None:
                known = ranges.get(tensor.id)
                ranges[tensor.id] = asked if known is None else known & asked
    return ranges


def _levels(op: Op) -> RmsRange:
    """The range of the input of a Quantize, which uses a good part of the integers and seldom saturates."""
    scales = op.attrs.get("scales")
    assert isinstance(scales, tuple)
    step = float(np.abs(np.asarray(scales, np.float64)).mean()) if scales else 1.0
    step = step if 0 < step < inf else 1.0
    return (
        RmsRange(4 * step, 64 * step, 24 * step)
        if op.outputs[0].dtype in INTEGERS
        else RmsRange(step / 2, 16 * step, step)
    )
