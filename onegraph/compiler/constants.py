"""Computes once, at compilation, what depends on constants alone, and folds normalizations into constant weights.

The library would do neither, or in every run: before its first run 3.2 folds a normalization with a reference kernel,
and newer versions without their cache of constants fold it in each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..builder.signature_cache import signature
from ..capi.settings import is_aligned
from ..errors import OneGraphError
from ..faults.ops import faults_of
from ..faults.use import VIEWS
from ..ir.op import Array, Op, schema_of
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.editions.dialect import channel_swap, format_of
from ..opset.editions.registry import BASE, edition
from ..opset.ops.movement import transposition
from ..opset.schema import Call, TensorType
from .lower import Lowered, Step, Value, dense_of
from .report import nbytes
from .rewrites import Part
from .rewrites.precision import in_table, rounded
from .steps import numpy_step

# Ops that stay: a fusion with 8-bit weights begins with their Dequantize, and Dropout draws random numbers.
KEPT = frozenset(["Dequantize", "DynamicDequantize", "Dropout"])
# A result of at most this many bytes may be larger than the constants that it is computed from.
SMALL_BYTES = 1 << 20
# Axis of the output channels of the weights of a Convolution. A ConvTranspose is slow with a bias.
OUTPUT_CHANNELS = {"XIO": -1, "OIX": 0}


def fold_constants(lowered: Lowered, policy: str) -> Lowered:
    """The graph without the steps that depend on constants alone and without the normalizations that weights take in.

    The constants are new values; ``Lowered.folded`` has the steps that were computed.

    Args:
        lowered: the graph.
        policy: normalizations stay ops of their own under ``debug``.
    """
    folding = _Folding(lowered)
    steps = [step for step in lowered.steps if not folding.compute(step)]
    if policy == "fusion":
        steps = [*folding.without_norms(steps)]
    if len(steps) == len(lowered.steps):
        return lowered
    numbered = tuple([step._replace(id=number) for number, step in enumerate(steps)])
    folding.drop_unused(numbered)
    return Lowered(lowered.graph, folding.values, numbered, tuple(folding.folded))


class _Folding:
    def __init__(self, lowered: Lowered) -> None:
        self.values = dict(lowered.values)
        self.folded: list[Step] = []
        self._outputs = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._parts: dict[int, Part] = {}  # convolutions with a bias, by id of the part without

    # Steps on constants ----------------------------------------------------------------------------------------------

    def compute(self, step: Step) -> bool:
        """Compute a step whose inputs are constants; returns False for other steps."""
        sources = [self.values[number] for number in step.inputs]
        if step.executor == "view" and self.values[step.outputs[0]].constant is not None:
            return True  # the lowering or the op itself has computed it
        if not sources or any(source.constant is None for source in sources):
            return False
        if not KEPT.isdisjoint([step.kind, step.op.kind]):
            return False
        if step.executor == "view":
            self._view(step)
            return True
        if self._grows(step, sources) or not _is_valid(step.op):
            return False
        if step.kind in VIEWS and step.executor == "library":
            self._view(step)
        elif not self._compute(step):
            return False
        self.folded.append(step)
        return True

    def _compute(self, step: Step) -> bool:
        """Compute a step in numpy; returns False if that is not possible."""
        run = numpy_step(step, self.values, 0)
        given = [None if number is None else self.values[number].constant for number in run.inputs]
        try:
            results = [
                aligned_empty(self.values[number].shape, self.values[number].dtype.numpy) for number in run.outputs
            ]
            run.run(given, results)
        except (OneGraphError, MemoryError):
            return False  # where the op runs, the error tells more
        for number, array in zip(run.outputs, results, strict=True):
            value = self.values[number]
            self.values[number] = value._replace(strides=dense_of(value.shape), storage=number, constant=_placed(array))
        return True

    def _view(self, step: Step) -> None:
        """Compute a step that only changes shape or axis order.

        Large results are views, so that weights are in memory once. Small ones are dense, as ops with broadcasts have
        fast kernels for dense operands only.
        """
        source, target = self.values[step.inputs[0]], self.values[step.outputs[0]]
        assert source.constant is not None
        strides, storage = dense_of(target.shape), target.id
        if step.kind == "StaticReshape":
            constant = _placed(source.constant.reshape(target.shape))
        else:
            order = self._order(step, source)
            constant = source.constant.transpose(order)
            if nbytes(target) > SMALL_BYTES:
                strides, storage = tuple([source.strides[axis] for axis in order]), source.storage
            else:
                constant = _placed(constant)
        self.values[target.id] = target._replace(strides=strides, storage=storage, constant=constant)

    def _order(self, step: Step, source: Value) -> tuple[int, ...]:
        """For each axis of the result of a view the axis of its source."""
        rank = len(source.shape)
        if step.executor == "view":
            return channel_swap(rank, format_of(schema_of(step.op), step.op.attrs))
        order = transposition(Call(BASE[step.kind], step.attrs, [TensorType(source.dtype, source.shape)], 1))
        assert order is not None
        return order

    def _grows(self, step: Step, sources: list[Value]) -> bool:
        size = sum(nbytes(self.values[number]) for number in step.outputs)
        return size > max(SMALL_BYTES, sum(map(nbytes, sources)) * 4)

    def drop_unused(self, steps: Iterable[Step]) -> None:
        """Drop the contents of the constants that neither a step nor the graph needs."""
        used = self._outputs.union(*map(read_by, steps))
        used |= {self.values[number].storage for number in used}
        for number, value in self.values.items():
            if value.constant is not None and number not in used:
                self.values[number] = value._replace(constant=None)

    # Normalizations of convolutions ----------------------------------------------------------------------------------

    def without_norms(self, steps: list[Step]) -> Iterator[Step]:
        """The steps, where each convolution with constant weights takes in the normalization of its result."""
        readers: dict[int, list[Step]] = {}
        for step in steps:
            for number in read_by(step):
                readers.setdefault(number, []).append(step)
        taken: set[int] = set()  # ids of steps
        for step in steps:
            if step.id in taken:
                continue
            following = readers.get(step.outputs[0], []) if step.kind == "Convolution" else []
            joined = self._with_norm(step, following[0]) if len(following) == 1 else None
            if joined is not None:
                taken.add(following[0].id)
            yield joined or step

    def _with_norm(self, step: Step, norm: Step) -> Step | None:
        """The convolution with the normalization in its weights; None if that is not possible."""
        values, part = self.values, step.part
        if norm.kind != "BatchNormInference" or part is None or norm.part is None:
            return None
        if {step.executor, norm.executor} != {"library"} or norm.inputs[0] != step.outputs[0]:
            return None
        if step.outputs[0] in self._outputs or part.call.attr("data_format") != norm.part.call.attr("data_format"):
            return None
        constants = [values[number].constant for number in (*step.inputs[1:], *norm.inputs[1:])]
        if any(array is None for array in constants) or not (_is_valid(step.op) and _is_valid(norm.op)):
            return None
        weights, *rest = (np.asarray(array, np.float32) for array in constants)
        with np.errstate(all="ignore"):
            bias = rest[0] if len(rest) > 4 else np.zeros_like(rest[-1])
            gamma, beta, mean, variance = (array.astype(np.float64) for array in rest[-4:])
            factor = gamma / np.sqrt(variance + norm.part.call.f32("epsilon"))
            axis = OUTPUT_CHANNELS[str(part.call.attr("weights_format"))] % weights.ndim
            dtype = values[step.inputs[1]].dtype
            shift = rounded(beta + (bias - mean) * factor, dtype)
            biased = self._biased(part, TensorType(dtype, bias.shape))
            scaled = None if biased is None else _scaled(weights, factor, axis, dtype)
        if scaled is None or not np.isfinite(shift).all():
            return None
        names = (f"{values[step.inputs[1]].name} (folded)", f"{norm.op.name} (folded)")
        folded = [self._new(name, dtype, _placed(array)) for name, array in zip(names, (scaled, shift), strict=True)]
        note = "; ".join(filter(None, (step.note, f"{norm.op.kind} {norm.op.name!r} is folded into the weights")))
        inputs = (step.inputs[0], *folded)
        return step._replace(
            inputs=inputs, outputs=norm.outputs, note=note, part=biased, whole=False, folded=(norm.op,)
        )

    def _biased(self, part: Part, bias: TensorType) -> Part | None:
        """The convolution with a bias; None if the library gets it wrong."""
        if len(part.types) > 2:
            return part
        if id(part) not in self._parts:  # steps with equal parts share what is compiled
            self._parts[id(part)] = replace(part, inputs=(0, 1, 2), types=(*part.types, bias))
        found = self._parts[id(part)]
        return None if faults_of(found.call, VERSION) or not in_table(found.call) else found

    def _new(self, name: str, dtype: DataType, array: Array) -> int:
        number = len(self.values)
        self.values[number] = Value(number, dtype, array.shape, dense_of(array.shape), number, name, array)
        return number


def read_by(step: Step) -> set[int]:
    """The values that the library, or numpy as a fallback, reads; numpy runs the whole op, which may have more."""
    return {*step.inputs, *[tensor.id for tensor in step.op.inputs if step.whole and tensor is not None]}


def _is_valid(op: Op) -> bool:
    """Whether an op keeps the specification; only then numpy and the library surely compute the same."""
    if op.signature is not None:
        return True
    chosen, dtypes = edition(op.edition), tuple([tensor.dtype for tensor in op.outputs])
    try:  # an op of an unpickled graph has no signature
        signature(chosen, op.kind, dict(op.attrs), list(op.inputs), n_outputs=len(dtypes), dtypes=dtypes)
    except OneGraphError:
        return False
    return True


def _scaled(weights: Array, factor: Array, axis: int, dtype: DataType) -> Array | None:
    """The f32 weights times one factor for each output channel; None if ``dtype`` has not the range of the products.

    The products are rounded once. Weights of a channel that are all smaller than normal numbers would lose their bits.
    """
    others = tuple([other for other in range(weights.ndim) if other != axis])
    largest = np.maximum(weights.max(others), -weights.min(others)) * np.abs(factor)
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    if not np.all((largest <= float(limits.max)) & ((largest == 0) | (largest >= float(limits.smallest_normal)))):
        return None
    scaled = aligned_empty(weights.shape, dtype.numpy)
    shape = [1] * weights.ndim
    shape[axis] = -1
    # numpy casts small pieces, so that large weights have no copy in f64.
    np.multiply(weights, factor.reshape(shape), out=scaled, dtype=np.float64, casting="unsafe")
    return scaled


def _placed(array: Array) -> Array:
    """The array as a read-only one that the library can read."""
    if not (array.flags.c_contiguous and is_aligned(array)):
        placed = aligned_empty(array.shape, array.dtype)
        placed[...] = array
        array = placed
    array.flags.writeable = False
    return array
