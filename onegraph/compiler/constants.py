"""Computes once, at compilation, what depends on constants alone, and folds normalizations into constant weights.

The library would do neither, or in every run: before its first run 3.2 folds a normalization with a reference kernel,
and newer versions without their cache of constants fold it in each run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..arrays.ndarrays import aligned_empty
from ..builder.signature_cache import signature
from ..capi.settings import is_aligned
from ..errors import OneGraphError
from ..faults.ops import faults_of
from ..faults.use import DEQUANTIZATIONS, MOVES, PRODUCTS, VIEWS
from ..ir.op import Array, Op, schema_of
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.editions.dialect import channel_swap, format_of
from ..opset.editions.registry import BASE, edition
from ..opset.ops.movement import transposition
from ..opset.schema import Call, TensorType
from .lowered import Dims, Lowered, Step, Value, dense_of
from .normalized_weights import normalized
from .report import nbytes
from .rewrites import Part
from .rewrites.precision import in_table
from .shared_constants import Key, derived
from .steps import numpy_step

# Dropout draws random numbers.
KEPT = frozenset(["Dropout"])
# A result of at most this many bytes may be larger than the constants that it is computed from.
SMALL_BYTES = 1 << 20
# Axis of the output channels of the weights of a Convolution. A ConvTranspose is slow with a bias.
OUTPUT_CHANNELS = {"XIO": -1, "OIX": 0}


def fold_constants(lowered: Lowered, policy: str) -> Lowered:
    """The graph without the steps that depend on constants alone and without the normalizations that weights take in.

    The constants are new values, and ``Lowered.keys`` has their keys. ``Lowered.folded`` has the steps that were
    computed.

    Args:
        lowered: the graph.
        policy: normalizations stay ops of their own under ``debug``.
    """
    attempts, kept = list[_Folding](), set[int]()
    while True:
        attempts.append(_Folding(lowered, kept))  # the next attempt finds what this one has computed
        try:
            return attempts[-1].run(policy)
        except _NotComputedError as error:
            kept.add(error.step.id)


class _NotComputedError(Exception):
    """numpy cannot compute a step. Where the op runs, the error tells more."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.step = step


class _Maker(NamedTuple):
    """A step on constants, and the values that are read and written where it is computed."""

    step: Step
    sources: list[int]
    results: Sequence[int]


class _Folding:
    """Decides first which values are constants, and computes only those that a step or the graph needs.

    ``kept``: ids of the steps that stay, whatever they read.
    """

    def __init__(self, lowered: Lowered, kept: Container[int]) -> None:
        self.values, self.keys = dict(lowered.values), dict(lowered.keys)
        self._lowered, self._shared, self._kept = lowered, lowered.shared, kept
        self._folded: list[Step] = []
        self._makers: dict[int, _Maker] = {}  # for each constant that is not in the graph, how it is computed
        self._outputs = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._multiplied = _multiplied(lowered.steps)
        self._parts: dict[int, Part] = {}  # convolutions with a bias, by id of the part without

    def run(self, policy: str) -> Lowered:
        """The graph with its constants; called once.

        Raises:
            _NotComputedError: a step cannot be computed.
        """
        lowered = self._lowered
        steps = [step for step in lowered.steps if not self._takes(step)]
        if policy == "fusion":
            steps = [*self._without_norms(steps)]
        if len(steps) == len(lowered.steps):
            return lowered
        numbered = tuple([step._replace(id=number) for number, step in enumerate(steps)])
        self._settle(numbered)
        return replace(lowered, values=self.values, steps=numbered, keys=self.keys, folded=tuple(self._folded))

    def _settle(self, steps: Iterable[Step]) -> None:
        """Compute the constants that a step or the graph needs, and drop the contents of all others."""
        used = self._outputs.union(*map(read_by, steps))
        used |= {self.values[number].storage for number in used}
        for number in used & self._makers.keys():
            self._contents(number)
        for number, value in self.values.items():
            if value.constant is not None and number not in used:
                self.values[number] = value._replace(constant=None)

    # Steps on constants ----------------------------------------------------------------------------------------------

    def _is_constant(self, number: int) -> bool:
        return number in self._makers or self.values[number].constant is not None

    def _takes(self, step: Step) -> bool:
        """Whether the results of a step are constants, which are computed when they are needed."""
        if step.executor == "view" and self._is_constant(step.outputs[0]):
            return True  # the lowering or the op itself has computed it
        sources = [number for number in step.inputs if self._is_constant(number)]
        if not sources or len(sources) < len(step.inputs) or step.id in self._kept:
            return False
        if not KEPT.isdisjoint([step.kind, step.op.kind]):
            return False
        if step.kind in DEQUANTIZATIONS and step.outputs[0] in self._multiplied:
            return False  # a fusion with 8-bit weights begins with their Dequantize
        if step.executor != "view":
            if self._grows(step) or not _is_valid(step.op) or not all(map(self._is_constant, read_by(step))):
                return False
            self._folded.append(step)
        maker = _Maker(step, *self._ends(step))
        made_from = [self._key(number) for number in maker.sources]
        computation = self._computation(step, maker.results)
        for port, number in enumerate(maker.results):
            strides, storage = self._place(step, number)
            self.values[number] = self.values[number].placed(storage, strides)
            self.keys[number] = derived((port, *computation), *made_from)
            self._makers[number] = maker
        return True

    def _ends(self, step: Step) -> tuple[list[int], Sequence[int]]:
        """The values that are read and written where a step is computed; of an op that is one step, all its tensors."""
        if _is_view(step):
            return [*step.inputs], step.outputs
        run = numpy_step(step, self.values, 0)
        return [number for number in run.inputs if number is not None], run.outputs

    def _computation(self, step: Step, results: Sequence[int]) -> tuple[object, ...]:
        """What a step computes, as plain data."""
        op = step.op
        named = step.executor, step.kind, step.whole, sorted(step.attrs.items())
        whole = op.kind, op.edition, sorted(op.attrs.items()), [tensor is None for tensor in op.inputs]
        return (*named, *whole, [(self.values[number].dtype.value, self.values[number].shape) for number in results])

    def _place(self, step: Step, number: int) -> tuple[Dims, int]:
        """The strides and the storage of a result.

        Large results of a change of axis order are views, so that weights are in memory once. Small ones are dense, as
        ops with broadcasts have fast kernels for dense operands only.
        """
        target = self.values[number]
        if not _is_view(step) or step.kind == "StaticReshape" or nbytes(target) <= SMALL_BYTES:
            return dense_of(target.shape), number
        source = self.values[step.inputs[0]]
        return tuple([source.strides[axis] for axis in self._order(step, source)]), source.storage

    def _key(self, number: int) -> Key:
        """The key of a constant."""
        if number not in self.keys:
            self.keys[number] = self._lowered.key(self.values[number])
        return self.keys[number]

    def _contents(self, number: int) -> Array:
        """The contents of a constant, computed unless a program has them.

        Raises:
            _NotComputedError: numpy cannot compute a step.
        """
        waiting = [number]
        while waiting:
            value = self.values[waiting[-1]]
            if value.constant is None:
                found = self._shared.find(self.keys[value.id])
                if found is None:
                    maker = self._makers[value.id]
                    if missing := [source for source in maker.sources if self.values[source].constant is None]:
                        waiting += missing
                        continue
                    self._compute(maker)
                else:
                    self.values[value.id] = value._replace(constant=found)
            waiting.pop()
        contents = self.values[number].constant
        assert contents is not None
        return contents

    def _compute(self, maker: _Maker) -> None:
        """Compute a step whose inputs have contents."""
        step = maker.step
        try:
            arrays = [self._viewed(step)] if _is_view(step) else self._run(step)
        except (OneGraphError, MemoryError):
            raise _NotComputedError(step) from None
        for number, array in zip(maker.results, arrays, strict=True):
            shared = self._shared.keep(self.keys[number], array)
            self.values[number] = self.values[number]._replace(constant=shared)

    def _run(self, step: Step) -> list[Array]:
        run = numpy_step(step, self.values, 0)
        given = [None if number is None else self.values[number].constant for number in run.inputs]
        values = [self.values[number] for number in run.outputs]
        results = [aligned_empty(value.shape, value.dtype.numpy) for value in values]
        run.run(given, results)
        return [*map(_placed, results)]

    def _viewed(self, step: Step) -> Array:
        """The result of a step that only changes shape or axis order."""
        source, target = self.values[step.inputs[0]], self.values[step.outputs[0]]
        assert source.constant is not None
        if step.kind == "StaticReshape":
            return _placed(source.constant.reshape(target.shape))
        turned = source.constant.transpose(self._order(step, source))
        return _placed(turned) if target.storage == target.id else turned

    def _order(self, step: Step, source: Value) -> tuple[int, ...]:
        """For each axis of the result of a view the axis of its source."""
        rank = len(source.shape)
        if step.executor == "view":
            return channel_swap(rank, format_of(schema_of(step.op), step.op.attrs))
        order = transposition(Call(BASE[step.kind], step.attrs, [TensorType(source.dtype, source.shape)], 1))
        assert order is not None
        return order

    def _grows(self, step: Step) -> bool:
        sources, results = (
            sum([nbytes(self.values[number]) for number in ends]) for ends in (step.inputs, step.outputs)
        )
        return results > max(SMALL_BYTES, sources * 4)

    # Normalizations of convolutions ----------------------------------------------------------------------------------

    def _without_norms(self, steps: list[Step]) -> Iterator[Step]:
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
        numbers = (*step.inputs[1:], *norm.inputs[1:])
        if not all(map(self._is_constant, numbers)) or not (_is_valid(step.op) and _is_valid(norm.op)):
            return None
        biased = self._biased(part, TensorType(values[numbers[0]].dtype, values[numbers[-1]].shape))
        arrays = None if biased is None else self._joined(numbers, part, norm.part)
        if arrays is None:
            return None
        names = (f"{values[step.inputs[1]].name} (folded)", f"{norm.op.name} (folded)")
        folded = [self._new(name, *made) for name, made in zip(names, arrays.items(), strict=True)]
        note = "; ".join(filter(None, (step.note, f"{norm.op.kind} {norm.op.name!r} is folded into the weights")))
        inputs = (step.inputs[0], *folded)
        return step._replace(
            inputs=inputs, outputs=norm.outputs, note=note, part=biased, whole=False, folded=(norm.op,)
        )

    def _joined(self, numbers: Sequence[int], part: Part, norm: Part) -> dict[Key, Array] | None:
        """The weights and the bias of a convolution that takes in a normalization; None if a number is out of range.

        Args:
            numbers: the weights, the bias if there is one, and the vectors of the normalization.
            part, norm: the convolution and the normalization.
        """
        weights = self.values[numbers[0]]
        axis = OUTPUT_CHANNELS[str(part.call.attr("weights_format"))] % len(weights.shape)
        what = "normalized", axis, norm.call.f32("epsilon"), weights.dtype.value
        keys = [derived((port, *what), *map(self._key, numbers)) for port in ("weights", "bias")]
        found = [self._shared.find(key) for key in keys]
        arrays = [array for array in found if array is not None]
        if len(arrays) < len(keys):
            arrays = normalized([self._contents(number) for number in numbers], *what[1:3], weights.dtype)
            arrays = [self._shared.keep(key, _placed(array)) for key, array in zip(keys, arrays, strict=False)]
        return dict(zip(keys, arrays, strict=True)) if arrays else None

    def _biased(self, part: Part, bias: TensorType) -> Part | None:
        """The convolution with a bias; None if the library gets it wrong."""
        if len(part.types) > 2:
            return part
        if id(part) not in self._parts:  # steps with equal parts share what is compiled
            self._parts[id(part)] = replace(part, inputs=(0, 1, 2), types=(*part.types, bias))
        found = self._parts[id(part)]
        return None if faults_of(found.call, VERSION) or not in_table(found.call) else found

    def _new(self, name: str, key: Key, array: Array) -> int:
        number, dtype = len(self.values), DataType.of(array.dtype)
        self.values[number] = Value(number, dtype, array.shape, dense_of(array.shape), number, name, array)
        self.keys[number] = key
        return number


def _multiplied(steps: Sequence[Step]) -> set[int]:
    """The values that a product reads, also behind casts and changes of shape."""
    found: set[int] = set()
    for step in reversed(steps):
        if step.kind in PRODUCTS:
            found.update(step.inputs[:2])
        elif step.kind in MOVES and step.outputs[0] in found:
            found.add(step.inputs[0])
    return found


def _is_view(step: Step) -> bool:
    """Whether a step only changes shape or axis order."""
    return step.executor == "view" or (step.kind in VIEWS and step.executor == "library")


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


def _placed(array: Array) -> Array:
    """The array as a read-only one that the library can read."""
    if not (array.flags.c_contiguous and is_aligned(array)):
        placed = aligned_empty(array.shape, array.dtype)
        placed[...] = array
        array = placed
    array.flags.writeable = False
    return array
