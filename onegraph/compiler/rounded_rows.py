"""Rounds the rows of partitions up where sizes change, so that sizes that are close share one compiled partition.

In ops that compute each row from the same row, such as a product with constant weights, a normalization of rows, and
elementwise ops behind them, further rows change nothing. Their contents are what the memory has. The weights that the
library prepares are shared by all sizes up to the rounded one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from .._util.open_sizes import computed, present
from ..faults.ops import faults_of
from ..native.library import VERSION
from ..opset.kinds import ARITHMETIC, ELEMENTWISE
from ..opset.signature import AttrValue
from .ir.part import Part
from .ir.step import Step
from .ir.value import Dims, Value, dense_of
from .partition_store import SharedPartitions
from .passes.row_leaks import LEAKS
from .report import nbytes
from .schedule import Schedule

EXACT = 4  # rows, up to which they are not rounded
PARTS = 8  # a power of two is divided into so many numbers of rows
SMALL_COPY = 1 << 19  # bytes, which are copied in a hundredth of the time in which a partition is compiled
MOST_PARTS = 4096  # of which is known whether the library computes them right
# The number of rows of an open size, for all its values.
UNIT = f"max({EXACT},(1<<{{0}}.bit_length()-1)//{PARTS})"
ROUNDED = f"(-(-{{0}}//{UNIT})*{UNIT})"
NOTE = "rows rounded up to {}, so that other sizes share the partition"
FIXED = np.zeros(())  # stands for the contents of a value that follows from constants
CALLERS = "the caller's memory has no more rows"


class Rounded(NamedTuple):
    """Steps on more rows.

    Attributes:
        steps: the steps.
        results: the values that others read.
        copies: pairs of a result and the value that gets its rows afterwards.
        note: for the report.
    """

    steps: tuple[Step, ...]
    results: tuple[int, ...]
    copies: tuple[tuple[int, int], ...]
    note: str


def rounded_count(rows: int) -> int:
    """The number of rows that partitions for ``rows`` rows are compiled for: at most an eighth more."""
    if rows <= EXACT:
        return rows
    count = present(rows)
    unit = max(EXACT, (1 << count.bit_length() - 1) // PARTS)
    rounded = -(-count // unit) * unit
    written: int = computed(ROUNDED, rounded, rows)
    return written


def _last_axis(step: Step, rank: int) -> bool:
    """Whether the axis of a step is the last one: of SoftMax, the default is another one than of LogSoftmax."""
    assert step.part is not None
    return step.part.call.s64(AXES[step.kind]) % rank == rank - 1


def _unary(step: Step, values: Sequence[Value]) -> bool:
    return len(step.inputs) == 1


def _product(step: Step, values: Sequence[Value]) -> bool:
    """Rows times constant weights, with a constant bias."""
    _, weights, *bias = values
    is_constant = weights.constant is not None and all(value.constant is not None for value in bias)
    return is_constant and len(weights.shape) == 2 and not step.attrs.get("transpose_a")


def _binary(step: Step, values: Sequence[Value]) -> bool:
    return all(value.constant is None or prod(value.shape[:-1]) == 1 for value in values)


def _normalization(step: Step, values: Sequence[Value]) -> bool:
    is_row = _last_axis(step, len(values[0].shape))
    return is_row and len(step.outputs) == 1 and all(value.constant is not None for value in values[1:])


def _softmax(step: Step, values: Sequence[Value]) -> bool:
    return _last_axis(step, len(values[0].shape)) and len(step.outputs) == 1


def _quantization(step: Step, values: Sequence[Value]) -> bool:
    return step.attrs.get("qtype", "per_tensor") == "per_tensor" and len(values) == 1


def _bias(step: Step, values: Sequence[Value]) -> bool:
    return step.attrs.get("data_format", "NXC") == "NXC" and values[1].constant is not None


# By kind, whether a step computes each row of its result from the same row of its inputs that are no constants.
BY_KIND: Mapping[str, Callable[[Step, Sequence[Value]], bool]] = {
    "MatMul": _product,
    "BiasAdd": _bias,
    "LayerNorm": _normalization,
    **dict.fromkeys(["SoftMax", "LogSoftmax"], _softmax),
    **dict.fromkeys(["Quantize", "Dequantize"], _quantization),
    **dict.fromkeys(ARITHMETIC, _binary),
    **dict.fromkeys(ELEMENTWISE, _unary),
    "TypeCast": _unary,
}
AXES = {"LayerNorm": "begin_norm_axis", "SoftMax": "axis", "LogSoftmax": "axis"}


class RoundedRows:
    """Rounds the rows of the partitions of a graph.

    Args:
        schedule: of the graph, which gets the values with more rows.
        graph_inputs: ids of the inputs of the graph, whose memory is the caller's.
        shared: what earlier programs of the executable have compiled.
    """

    def __init__(self, schedule: Schedule, graph_inputs: frozenset[int], shared: SharedPartitions) -> None:
        self._schedule, self._values, self._graph_inputs, self._known = schedule, schedule.values, graph_inputs, shared
        self._copies: dict[int, int] = {}  # of values in the caller's memory

    def rounded(self, steps: Sequence[Step], results: Sequence[int]) -> Rounded | None:
        """The steps on more rows; None if they stay as they are.

        Args:
            steps: the steps of a partition.
            results: the values that others read.
        """
        lean = [self._without_stats(step) for step in steps]
        spare = {n for step, lean_step in zip(steps, lean, strict=True) for n in step.outputs[len(lean_step.outputs) :]}
        steps, results = lean, [number for number in results if number not in spare]
        fixed = self._fixed(steps)
        rows = self._rows(steps, fixed)
        if rows is None or rows <= EXACT or not fixed.isdisjoint(results):
            return None
        count = rounded_count(rows)  # maybe no more: these rows share the partition with fewer ones
        ends = {number for step in steps for number in (*step.inputs, *step.outputs)}
        fixed |= {number for number in ends if self._values[number].constant is not None}
        rank = max([2, *[len(self._values[number].shape) for number in fixed]])
        shapes: dict[int, Dims] = {
            number: (1,) * (rank - 2) + (count, self._values[number].shape[-1]) for number in ends - fixed
        }
        parts = [self._part(step, shapes, rank) for step in steps]
        if not all(map(self._is_sound, parts)):
            return None
        is_product = any(step.kind == "MatMul" for step in steps)
        produced = {number for step in steps for number in step.outputs} - fixed
        read, written = shapes.keys() - produced, produced.intersection(results)
        callers = [number for number in read | written if self._is_callers(number)]
        if not is_product and sum([nbytes(self._values[number]) for number in callers]) > SMALL_COPY:
            return None  # a copy would take as long
        if not all(self._is_own(number) for number in written if not self._is_callers(number)):
            return None
        at = {number: self._source(number, shape) for number, shape in shapes.items() if number in read}
        copies = []
        for number in produced:
            target = number
            if number in written and self._is_callers(number):
                target = self._values.like(number, "rows")
                copies.append((target, number))
            at[number] = self._with_rows(target, shapes[number])
        renewed = tuple(
            [
                step._replace(
                    inputs=tuple([at.get(number, number) for number in step.inputs]),
                    outputs=tuple([at.get(number, number) for number in step.outputs]),
                    attrs=part.attrs,
                    part=part,
                    whole=False,
                )
                for step, part in zip(steps, parts, strict=True)
            ]
        )
        return Rounded(renewed, tuple([at[number] for number in results]), tuple(copies), NOTE.format(count))

    def finish(self, rounded: Rounded, step: Step) -> None:
        """Add the copies of results to the caller's memory."""
        for source, target in rounded.copies:
            self._schedule.add_copy(self._values[source], self._values[target], step, CALLERS)

    def _without_stats(self, step: Step) -> Step:
        """A LayerNorm without mean and variance if nobody reads them, and other steps as they are."""
        part, (first, *statistics) = step.part, step.outputs
        is_read = any(self._schedule.is_read(number) for number in statistics)
        if step.kind != "LayerNorm" or part is None or not statistics or is_read:
            return step
        attrs = {**part.attrs, "keep_stats": False}
        lean = Part(part.kind, attrs, part.inputs, part.types, part.outputs[:1])
        return step._replace(outputs=(first,), attrs=attrs, part=lean, whole=False)

    def _fixed(self, steps: Sequence[Step]) -> set[int]:
        """The values that follow from constants alone, such as weights that codes stand for."""
        fixed = set[int]()
        for step in steps:
            if all(number in fixed or self._values[number].constant is not None for number in step.inputs):
                fixed.update(step.outputs)
        return fixed

    def _rows(self, steps: Sequence[Step], fixed: Set[int]) -> int | None:
        """The number of rows of all values that are no constants; None if a step does not compute row by row.

        ``fixed``: values that follow from constants alone.
        """
        counts = set[int]()
        for step in steps:
            if fixed >= {*step.outputs} and step.library_part is not None:
                continue
            values = [self._values[number] for number in step.inputs]
            values = [value._replace(constant=FIXED) if value.id in fixed else value for value in values]
            is_by_row = BY_KIND.get(step.kind)
            if step.library_part is None or is_by_row is None or not is_by_row(step, values):
                return None
            if LEAKS in step.attrs:
                return None  # of rows that may hold NaN
            for value in (*values, *[self._values[number] for number in step.outputs]):
                if value.constant is not None:
                    continue
                if len(value.shape) < 2 or not value.dense or value.offset or 0 in value.shape:
                    return None
                counts.add(prod(value.shape[:-1]))
        return counts.pop() if len(counts) == 1 else None

    def _part(self, step: Step, shapes: Mapping[int, Dims], rank: int) -> Part:
        """The part of a step on more rows."""
        part = step.part
        assert part is not None
        attrs: Mapping[str, AttrValue] = part.attrs
        if step.kind in AXES:
            attrs = {**attrs, AXES[step.kind]: rank - 1}
        types = [
            replace(type_, shape=shapes.get(number, type_.shape))
            for number, type_ in zip(step.inputs, part.types, strict=True)
        ]
        outputs = [
            replace(type_, shape=shapes.get(number, type_.shape))
            for number, type_ in zip(step.outputs, part.outputs, strict=True)
        ]
        return Part(part.kind, attrs, part.inputs, tuple(types), tuple(outputs))

    def _is_sound(self, part: Part) -> bool:
        """Whether the library computes a part right."""
        is_sound = self._known.sound.get(part)
        if is_sound is None:
            if len(self._known.sound) >= MOST_PARTS:
                self._known.sound.clear()
            is_sound = self._known.sound[part] = not faults_of(part.call, VERSION)
        return is_sound

    def _is_callers(self, number: int) -> bool:
        """Whether a value lies in the memory of the caller, or of a constant."""
        storage = self._values[self._values[number].storage]
        return storage.id in self._schedule.returned or storage.id in self._graph_inputs or storage.constant is not None

    def _is_own(self, number: int) -> bool:
        """Whether what lies behind a value is no other value."""
        return self._values[number].storage == number

    def _source(self, number: int, shape: Dims) -> int:
        """A value that steps read, with more rows."""
        if self._is_callers(number):
            if number not in self._copies:
                self._copies[number] = copied = self._values.like(number, "rows")
                value = self._values[number]
                self._schedule.add_copy(value, self._values[copied], None, CALLERS)
            number = self._copies[number]
        return self._with_rows(number, shape)

    def _with_rows(self, number: int, shape: Dims) -> int:
        """A value with more rows in the same memory, which becomes as large; a view may be the first part of it."""
        value = self._values[number]
        sizes, size = self._schedule.sizes, prod(shape) * value.dtype.numpy.itemsize
        whole = 0 if value.storage == number else nbytes(self._values[value.storage])
        sizes[value.storage] = max(size, sizes.get(value.storage, whole))
        return self._values.part(value, "rows", shape, dense_of(shape))
