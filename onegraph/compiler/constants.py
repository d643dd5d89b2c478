"""Computes once, at compilation, what depends on constants alone, and folds normalizations into constant weights.

The library would do neither, or in every run: before its first run 3.2 folds a normalization with a reference kernel,
and newer versions without their cache of constants fold it in each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..errors import OneGraphError
from ..faults.ops import faults_of
from ..ir.op import Array
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.schema import TensorType
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
        if not sources or step.kind in KEPT or any(source.constant is None for source in sources):
            return False
        if step.op.signature is None or (step.executor != "view" and self._grows(step, sources)):
            return False
        if step.executor == "view":
            return self.values[step.outputs[0]].constant is not None
        run = numpy_step(step, self.values, 0)
        given = [None if number is None else self.values[number].constant for number in run.inputs]
        try:
            results = [np.empty(self.values[number].shape, self.values[number].dtype.numpy) for number in run.outputs]
            run.run(given, results)
        except (OneGraphError, MemoryError):
            return False  # where the op runs, the error tells more
        for number, result in zip(run.outputs, results, strict=True):
            self._set(number, result)
        self.folded.append(step)
        return True

    def _grows(self, step: Step, sources: list[Value]) -> bool:
        size = sum(nbytes(self.values[number]) for number in step.outputs)
        return size > max(SMALL_BYTES, sum(map(nbytes, sources)) * 4)

    def _set(self, number: int, array: Array) -> None:
        value = self.values[number]
        array = np.ascontiguousarray(array).reshape(value.shape)
        array.flags.writeable = False
        self.values[number] = value._replace(strides=dense_of(value.shape), constant=array)

    # Normalizations of convolutions ----------------------------------------------------------------------------------

    def without_norms(self, steps: list[Step]) -> Iterator[Step]:
        """The steps, where each convolution with constant weights takes in the normalization of its result."""
        readers: dict[int, list[Step]] = {}
        for step in steps:
            for number in step.inputs:
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
        if any(array is None for array in constants):
            return None
        weights, *rest = (np.asarray(array, np.float64) for array in constants)
        with np.errstate(all="ignore"):
            gamma, beta, mean, variance = rest[-4:]
            factor = gamma / np.sqrt(variance + norm.part.call.f32("epsilon"))
            shape = [1] * weights.ndim
            shape[OUTPUT_CHANNELS[str(part.call.attr("weights_format"))]] = -1
            bias = rest[0] if len(rest) > 4 else np.zeros_like(mean)
            dtype = values[step.inputs[1]].dtype
            arrays = [
                rounded(array, dtype) for array in (weights * factor.reshape(shape), beta + (bias - mean) * factor)
            ]
        biased = self._biased(part, TensorType(dtype, bias.shape))
        if biased is None or not all(np.isfinite(array.astype(np.float32)).all() for array in arrays):
            return None
        names = (f"{values[step.inputs[1]].name} (folded)", f"{norm.op.name} (folded)")
        folded = [self._new(name, dtype, array) for name, array in zip(names, arrays, strict=True)]
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
        array.flags.writeable = False
        self.values[number] = Value(number, dtype, array.shape, dense_of(array.shape), number, name, array)
        return number
