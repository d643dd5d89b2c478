"""Moves the constant weights of MatMuls to addresses where the kernel without AVX-512 packs them.

That kernel packs columns of the weights only where they lie at an address or a stride that is no multiple of 32 bytes;
otherwise it reads them where they lie. If their rows are a multiple of 2 KiB apart, a column falls on one or two of the
64 sets of the cache, and the product takes 1.3 to 1.9 times as long as with packed weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from ..arrays.mapped_files import give_back
from ..capi.settings import has_avx2, has_avx512
from ..faults.without_avx512 import COLUMNS, PACKED_ROWS, Columns
from ..ir.op import Array
from ..native.library import VERSION, address_of
from ..opset.dtypes import DataType
from .lowered import Lowered, Step, Value
from .shared_constants import derived
from .transformed_weights import BY_COLUMNS, BY_ROWS, SKEW, weights_in

F32 = DataType.f32
NOTE = "with weights at an address from where the kernel packs them"


def skew_weights(lowered: Lowered) -> Lowered:
    """The graph with the weights of some MatMuls at addresses that are no multiple of 32 bytes."""
    if has_avx512() or not has_avx2() or not any(step.kind == "MatMul" for step in lowered.steps):
        return lowered
    return _Skewing(lowered).run()


def skew_of_variable(array: Array) -> int:
    """How far behind a multiple of 64 bytes a variable is to start, as products of many rows may read it as weights."""
    if has_avx512() or not has_avx2() or array.ndim != 2 or array.dtype != np.float32:
        return 0
    found = Columns(PACKED_ROWS, array.shape[1], array.itemsize)
    return SKEW if COLUMNS.of(frozenset(["MatMul"]), found, VERSION) else 0


class _Skewing:
    def __init__(self, lowered: Lowered) -> None:
        self._lowered, self._values, self._keys = lowered, dict(lowered.values), dict(lowered.keys)
        self._sources: dict[int, tuple[Array, str]] = {}
        self._made: dict[tuple[int, str], int] = {}

    def run(self) -> Lowered:
        """The graph; called once."""
        steps = tuple(self._steps())
        transformed = {**self._lowered.transformed, **self._sources}
        return replace(self._lowered, values=self._values, steps=steps, keys=self._keys, transformed=transformed)

    def _steps(self) -> Iterator[Step]:
        for step in self._lowered.steps:
            layout = self._layout(step) if step.kind == "MatMul" and step.executor == "library" else ""
            if layout:
                first, weights, *others = step.inputs
                moved = self._skewed(self._values[weights], layout)
                yield step._replace(inputs=(first, moved, *others), note=step.note or NOTE)
            else:
                yield step

    def _layout(self, step: Step) -> str:
        """How the weights of a MatMul are to lie; empty where they stay."""
        src, weights = (self._values[number] for number in step.inputs[:2])
        known = weights.constant
        if known is None or known.shape != weights.shape or src.dtype is not F32 or len(weights.shape) < 2:
            return ""
        is_turned = bool(step.attrs.get("transpose_b"))
        is_by_rows = weights.dense != is_turned
        columns = weights.shape[-2 if is_turned else -1]
        rows = prod(self._values[step.outputs[0]].shape) // max(columns * prod(weights.shape[:-2]), 1)
        if is_by_rows and address_of(known) % (2 * SKEW):
            return ""  # it lies well
        found = Columns(rows, columns, known.itemsize)
        return (BY_COLUMNS if is_turned else BY_ROWS) if COLUMNS.of(frozenset(["MatMul"]), found, VERSION) else ""

    def _skewed(self, value: Value, layout: str) -> int:
        if (number := self._made.get((value.id, layout))) is not None:
            return number
        known = value.constant
        assert known is not None
        key = derived(("skewed", layout), self._lowered.key(value))
        array = self._lowered.shared.once(key, lambda: weights_in(layout, known))
        give_back([known])
        number = self._made[value.id, layout] = len(self._values)
        strides = tuple([step // array.itemsize for step in np.asarray(array).strides])
        self._values[number] = Value(number, F32, value.shape, strides, number, f"{value.name} (moved)", array)
        self._keys[number], self._sources[number] = key, (known, layout)
        return number
