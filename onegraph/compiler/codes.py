"""Computes on 8-bit codes what an int8 model computes between Dequantize and Quantize, with kernels of the package.

The library fuses a Dequantize and a Quantize with products and pools only. Behind each other op, a file in the QDQ form
has a Quantize and a Dequantize too, and each would be a pass over memory:

- Ops on single elements of one tensor, from a Dequantize to a Quantize with any others between, make a function of 256
  codes. numpy computes it once, with the rounding of each Quantize, and a run looks the codes up.
- The sum, difference or product of two tensors, between Dequantize and Quantize, is one pass over the codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, prod
from typing import NamedTuple

import numpy as np

from ..errors import OneGraphError
from ..faults.use import ELEMENTWISE, PRODUCTS
from ..ir.op import Array, LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, HOST
from ..reference import run_op
from .lowered import Lowered, Step, Value, dense_of

LIMITS = {DataType.s8: (-128, 127), DataType.u8: (0, 255)}
CODES = frozenset(LIMITS)
COUNT = 256  # codes
ARITHMETIC = frozenset(["Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum"])
HOST_ELEMENTWISE = frozenset(["Ceil", "Cos", "Erf", "Floor", "Sign", "Sin"])
COMBINED = {"Add": "add", "Subtract": "add", "Multiply": "multiply"}  # the kernels, by kind of the op
# A zero point beyond this one is not exact in the arithmetic of the kernels.
LARGEST_ZERO = 1 << 15


class Coding(NamedTuple):
    """How 8-bit codes stand for numbers: (code - zero) * scale."""

    scale: float
    zero: int


PLAIN = Coding(1, 0)  # of numbers that stand for themselves


class Table(NamedTuple):
    """A value as a function of the codes of another one.

    Attributes:
        root: the value with the codes.
        contents: what each code stands for, by the unsigned number that its bits make.
        steps: the steps that compute it.
    """

    root: int
    contents: Array
    steps: tuple[Step, ...]


def coding(step: Step) -> Coding | None:
    """The scale and zero point of a Quantize or Dequantize with one of each that the kernels take; None for others."""
    if step.executor != "library" or step.attrs.get("qtype", "per_tensor") != "per_tensor":
        return None
    scales, zeros = _listed(step.attrs.get("scales")), _listed(step.attrs.get("zps")) or [0]
    if len(scales) != 1:
        return None
    scale = float(np.float32(scales[0]))
    if scale == 0 or not isfinite(1 / scale) or len(zeros) != 1 or abs(zeros[0]) > LARGEST_ZERO:
        return None
    return Coding(scale, int(zeros[0]))


def _listed(value: object) -> list[float]:
    return [float(one) for one in value] if isinstance(value, tuple) else []


def numbers_of(
    sources: Sequence[Coding], result: Coding = PLAIN, dtype: DataType = DataType.f32, *, positive: bool = False
) -> Array:
    """The numbers that the kernels for 8-bit codes take: see ``onegraph_scaling`` in ``include/onegraph.h``.

    Args:
        sources: of one input or two.
        result: of the result.
        dtype: data type of the result.
        positive: whether numbers below 0 become 0.
    """
    pairs = [*sources, PLAIN][:2]
    low, high = LIMITS.get(dtype, (0, 0))
    low = max(low, result.zero) if positive else low
    inputs = [number for one in pairs for number in (one.zero, one.scale)]
    factor = np.float32(1) / np.float32(result.scale)
    return np.array([*inputs, factor, result.zero, low, high], np.float32)


def compute_on_codes(lowered: Lowered) -> Lowered:
    """The graph with steps that compute on 8-bit codes."""
    if not any(step.kind == "Dequantize" for step in lowered.steps):
        return lowered
    return _Codes(lowered).run()


class _Codes:
    def __init__(self, lowered: Lowered) -> None:
        self._lowered, self.values = lowered, dict(lowered.values)
        self._makers = {number: step for step in lowered.steps for number in step.outputs}
        self._readers: dict[int, int] = {}
        for step in lowered.steps:
            for number in dict.fromkeys(step.inputs):
                self._readers[number] = self._readers.get(number, 0) + 1
        self._returned = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._tables: dict[int, Table] = {}
        self._absorbed: set[int] = set()  # ids of steps whose results a kernel may not need

    def run(self) -> Lowered:
        """The graph; called once."""
        steps = [self._looked_up(step) or self._combined(step) or step for step in self._lowered.steps]
        if not self._absorbed:
            return self._lowered
        kept = [*self._needed(steps)]
        numbered = tuple([step._replace(id=number) for number, step in enumerate(reversed(kept))])
        return replace(self._lowered, values=self.values, steps=numbered)

    def _needed(self, steps: Sequence[Step]) -> Iterator[Step]:
        """The steps from the last one on, without those that only kernels stood for."""
        read = set(self._returned)
        for step in reversed(steps):
            if (step.executor == "kernel" or step.id in self._absorbed) and read.isdisjoint(step.outputs):
                continue
            read.update(step.inputs)
            if step.whole:
                read.update(tensor.id for tensor in step.op.inputs if tensor is not None)
            yield step

    # Tables ----------------------------------------------------------------------------------------------------------

    def _looked_up(self, step: Step) -> Step | None:
        """A lookup in the place of a Quantize; None for other steps."""
        table = self._table(step)
        if table is None:
            return None
        self._tables[step.outputs[0]] = table
        if step.kind != "Quantize":
            return None
        return self._kernel("look_up", step, [table.root], table.contents, table.steps)

    def _table(self, step: Step) -> Table | None:
        """The result of a step as a function of 8-bit codes; None if it is none."""
        if len(step.outputs) != 1 or not (_is_elementwise(step) or step.kind in ("Quantize", "Dequantize")):
            return None
        source, result = self.values[step.inputs[0]], self.values[step.outputs[0]]
        if 0 in result.shape:
            return None
        if step.kind in ("Quantize", "Dequantize") and coding(step) is None:
            return None
        known = {number: self._tables[number] for number in step.inputs if number in self._tables}
        if step.kind == "Dequantize" and not known and source.dtype in CODES and source.constant is None:
            contents = np.arange(COUNT).astype(np.uint8).view(source.dtype.numpy)
            known = {source.id: Table(source.id, contents, ())}
        if not known or len({table.root for table in known.values()}) > 1:
            return None
        arrays = []
        for number in step.inputs:
            value, constant = self.values[number], self.values[number].constant
            if number in known and value.shape == result.shape:
                arrays.append(known[number].contents)
            elif constant is not None and constant.size == 1:
                arrays.append(constant.reshape(1))
            else:
                return None
        if result.dtype not in (*CODES, DataType.f32):
            return None
        computed = _computed(step, arrays, result)
        if computed is None:
            return None
        before = {one.id: one for table in known.values() for one in table.steps}
        return Table(next(iter(known.values())).root, computed, (*before.values(), step))

    # Two tensors -----------------------------------------------------------------------------------------------------

    def _combined(self, step: Step) -> Step | None:
        """A sum, difference or product of codes in the place of its Quantize; None for other steps."""
        result, dtype = coding(step) if step.kind == "Quantize" else None, self.values[step.outputs[0]].dtype
        if result is None or dtype not in CODES or self.values[step.inputs[0]].dtype is not DataType.f32:
            return None
        inner, positive, chain = self._only(step.inputs[0]), False, [step]
        if inner is not None and inner.kind == "ReLU":
            chain.insert(0, inner)
            inner, positive = self._only(inner.inputs[0]), True
        if inner is None or inner.kind not in COMBINED or inner.executor != "library" or len(inner.inputs) != 2:
            return None
        chain.insert(0, inner)
        ends = [self._operand(number) for number in inner.inputs]
        whole = self.values[step.outputs[0]].shape
        if not any(maker for maker, _ in ends) or 0 in whole:
            return None
        if not any(self.values[number].shape == whole for number in inner.inputs):
            return None
        codings, sources = [], []
        for (maker, found), number in zip(ends, inner.inputs, strict=True):
            product = self._makers.get(number)
            if found is None or (maker is None and product is not None and product.kind in (*PRODUCTS, "BiasAdd")):
                return None  # the library fuses the product with the sum
            codings.append(found)
            sources.append(number if maker is None else maker.inputs[0])
        if inner.kind == "Subtract":
            codings[1] = codings[1]._replace(scale=-codings[1].scale)
        makers = [maker for maker, _ in ends if maker is not None]
        numbers = numbers_of(codings, result, dtype, positive=positive)
        return self._kernel(COMBINED[inner.kind], step, sources, numbers, (*makers, *chain))

    def _only(self, number: int) -> Step | None:
        """The step that makes a value, if one step alone reads it."""
        is_shared = number in self._returned or self._readers.get(number) != 1
        return None if is_shared else self._makers.get(number)

    def _operand(self, number: int) -> tuple[Step | None, Coding | None]:
        """The Dequantize that makes an operand and its coding; without one, the coding of plain numbers."""
        maker, value = self._makers.get(number), self.values[number]
        found = coding(maker) if maker is not None and maker.kind == "Dequantize" else None
        if maker is not None and found is not None and self.values[maker.inputs[0]].dtype in CODES:
            return maker, found
        return None, PLAIN if value.dtype is DataType.f32 else None

    def _kernel(self, kernel: str, step: Step, sources: Sequence[int], contents: Array, inner: Sequence[Step]) -> Step:
        """A step for a kernel that stands for others, of which ``step`` is the last one."""
        self._absorbed.update(one.id for one in inner)
        number = len(self.values)
        dtype = DataType.of(contents.dtype)
        self.values[number] = Value(
            number, dtype, contents.shape, dense_of(contents.shape), number, f"{step.op.name} ({kernel})", contents
        )
        others = dict.fromkeys(one.op for one in inner if one.op is not step.op)
        attrs: Mapping[str, str] = {"kernel": kernel}
        return step._replace(
            executor="kernel",
            inputs=(*sources, number),
            attrs=attrs,
            note="8-bit codes are " + ("looked up in a table" if kernel == "look_up" else "computed in one pass"),
            part=None,
            whole=False,
            folded=tuple(others),
        )


def _is_elementwise(step: Step) -> bool:
    if step.executor == "library":
        return step.kind in ELEMENTWISE or step.kind in ARITHMETIC
    return step.executor == "reference" and step.op.edition == HOST and step.kind in HOST_ELEMENTWISE


def _computed(step: Step, arrays: Sequence[Array], result: Value) -> Array | None:
    """What a step makes of arrays of 256 elements or one; None if numpy cannot compute it."""
    ins = tuple([LogicalTensor(n, DataType.of(one.dtype), one.shape, None, "") for n, one in enumerate(arrays)])
    out = LogicalTensor(len(arrays), result.dtype, (COUNT,), None, "")
    is_host = step.executor == "reference"
    attrs = step.op.attrs if is_host else step.attrs
    op = Op(step.id, step.op.kind if is_host else step.kind, ins, (out,), attrs, "", HOST if is_host else DEFAULT)
    try:
        with np.errstate(all="ignore"):
            (found,) = run_op(op, arrays)
    except OneGraphError:
        return None
    return np.ascontiguousarray(found) if prod(found.shape) == COUNT else None
