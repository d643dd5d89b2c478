"""Computes on 8-bit codes what an int8 model computes between Dequantize and Quantize, with kernels of the package.

The library fuses a Dequantize and a Quantize with products and pools only. Behind each other op, a file in the QDQ form
has a Quantize and a Dequantize too, and each would be a pass over memory:

- Ops on single elements of one tensor, from a Dequantize to a Quantize with any others between, make a function of 256
  codes. numpy computes it once, with the rounding of each Quantize, and a run looks the codes up.
- The sum, difference or product of two tensors, between Dequantize and Quantize, is one pass over the codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ...errors import OneGraphError
from ...faults.use import ELEMENTWISE, PRODUCTS
from ...ir.op import Array, LogicalTensor, Op
from ...opset.dtypes import DataType
from ...opset.editions.registry import DEFAULT, HOST
from ...opset.kinds import ARITHMETIC, HOST_UNARY
from ...reference import run_op
from ..codings import CODES, PLAIN, Coding, coding, numbers_of
from ..ir.edit import Edit
from ..ir.step import Step
from ..ir.value import Dims, Value
from ..kernels.codes import EXECUTOR
from ..kernels.kernel import Conditions, refusal
from ..options import Options

COUNT = 256  # codes
COMBINED = {"Add": "add", "Subtract": "add", "Multiply": "multiply"}  # the kernels, by kind of the op


class CodeTable(NamedTuple):
    """A value as a function of the codes of another one.

    Attributes:
        root: the value with the codes.
        contents: what each code stands for, by the unsigned number that its bits make.
        steps: the steps that compute it.
    """

    root: int
    contents: Array
    steps: tuple[Step, ...]


class CodedOperand(NamedTuple):
    """An operand of a sum, difference or product.

    Attributes:
        source: the value that a kernel reads: the codes, or the operand itself.
        shape: of the operand.
        maker: the Dequantize that makes it of 8-bit codes; None for other operands.
        coding: how its elements stand for numbers; None if a kernel cannot read them.
        is_fused: whether the library fuses what makes it with the op that reads it.
    """

    source: int
    shape: Dims
    maker: Step | None
    coding: Coding | None
    is_fused: bool = False


class Combination(NamedTuple):
    """A sum, difference or product of 8-bit codes, and the shape of its result."""

    operands: Sequence[CodedOperand]
    shape: Dims


# When a kernel computes a combination, and the sentence that a report prints where it does not.
CONDITIONS: Conditions[Combination] = (
    (lambda sums: any(operand.shape == sums.shape for operand in sums.operands), "both operands are broadcast"),
    (lambda sums: all(operand.coding for operand in sums.operands), "an operand is neither of 8-bit codes nor of f32"),
    (
        lambda sums: not any(operand.is_fused for operand in sums.operands),
        "the library fuses it with the product before it",
    ),
)


def compute_on_codes(edit: Edit, _: Options) -> None:
    """Put steps that compute on 8-bit codes in the place of what lies between Dequantize and Quantize."""
    if any(step.kind == "Dequantize" for step in edit.graph.steps):
        _Codes(edit).run()


class _Codes:
    def __init__(self, edit: Edit) -> None:
        self._edit, self._graph, self._values = edit, edit.graph, edit.values
        self._tables: dict[int, CodeTable] = {}

    def run(self) -> None:
        """Change the graph; called once."""
        for step in self._graph.steps:
            kernel = self._looked_up(step) or self._combined(step)
            if kernel is not None:
                self._edit.replace(step, kernel)

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

    def _table(self, step: Step) -> CodeTable | None:
        """The result of a step as a function of 8-bit codes; None if it is none."""
        if not _is_computed(step):
            return None
        result = self._values[step.outputs[0]]
        tables = self._tables_of(step)
        if len({table.root for table in tables.values()}) != 1:
            return None
        arrays = [self._contents(number, tables.get(number), result) for number in step.inputs]
        tables_given = [array for array in arrays if array is not None]
        if len(tables_given) < len(arrays) or result.dtype not in (*CODES, DataType.f32):
            return None
        computed = _computed(step, tables_given, result)
        if computed is None:
            return None
        before = {link.id: link for table in tables.values() for link in table.steps}
        return CodeTable(next(iter(tables.values())).root, computed, (*before.values(), step))

    def _tables_of(self, step: Step) -> dict[int, CodeTable]:
        """The inputs of a step that are functions of codes, by their ids; those of a first Dequantize are the codes."""
        tables = {number: self._tables[number] for number in step.inputs if number in self._tables}
        source = self._values[step.inputs[0]]
        if step.kind == "Dequantize" and not tables and source.dtype in CODES and source.constant is None:
            contents = np.arange(COUNT).astype(np.uint8).view(source.dtype.numpy)
            return {source.id: CodeTable(source.id, contents, ())}
        return tables

    def _contents(self, number: int, table: CodeTable | None, result: Value) -> Array | None:
        """What an input holds for each code, or its one number; None if it has neither."""
        value = self._values[number]
        if table is not None and value.shape == result.shape:
            return table.contents
        return value.constant.reshape(1) if value.constant is not None and value.constant.size == 1 else None

    # Two tensors -----------------------------------------------------------------------------------------------------

    def _combined(self, step: Step) -> Step | None:
        """A sum, difference or product of codes in the place of its Quantize; None for other steps."""
        result, dtype = coding(step) if step.kind == "Quantize" else None, self._values[step.outputs[0]].dtype
        if result is None or dtype not in CODES:
            return None
        inner, positive, chain = self._only_maker(step.inputs[0]), False, [step]
        if inner is not None and inner.kind == "ReLU":
            chain.insert(0, inner)
            inner, positive = self._only_maker(inner.inputs[0]), True
        if inner is None or inner.kind not in COMBINED or inner.executor != "library":
            return None
        operands = [self._operand(number) for number in inner.inputs]
        makers = [operand.maker for operand in operands if operand.maker is not None]
        if not makers:
            return None
        if reason := refusal(CONDITIONS, Combination(operands, self._values[step.outputs[0]].shape)):
            self._edit.refuse(step, COMBINED[inner.kind], reason)
            return None
        codings = [operand.coding for operand in operands if operand.coding is not None]
        if inner.kind == "Subtract":
            codings[1] = codings[1]._replace(scale=-codings[1].scale)
        numbers = numbers_of(codings, result, dtype, positive=positive)
        sources = [operand.source for operand in operands]
        return self._kernel(COMBINED[inner.kind], step, sources, numbers, (*makers, inner, *chain))

    def _only_maker(self, number: int) -> Step | None:
        """The step that makes a value, if one step alone reads it."""
        return None if self._graph.only_consumer(number) is None else self._graph.maker(number)

    def _operand(self, number: int) -> CodedOperand:
        """An operand of a binary op, with the coding of codes or that of plain numbers."""
        maker, value = self._graph.maker(number), self._values[number]
        if maker is not None and maker.kind == "Dequantize" and self._values[maker.inputs[0]].dtype in CODES:
            codes = coding(maker)
            if codes is not None:
                return CodedOperand(maker.inputs[0], value.shape, maker, codes)
        is_fused = maker is not None and maker.kind in (*PRODUCTS, "BiasAdd")
        return CodedOperand(number, value.shape, None, PLAIN if value.dtype is DataType.f32 else None, is_fused)

    def _kernel(self, kernel: str, step: Step, sources: Sequence[int], contents: Array, inner: Sequence[Step]) -> Step:
        """A step for a kernel that stands for others, of which ``step`` is the last one."""
        self._edit.spare([*inner, step])
        numbers = self._edit.constant(contents, f"{step.op.name} ({kernel})")
        note = "8-bit codes are " + ("looked up in a table" if kernel == "look_up" else "computed in one pass")
        kernel_step = step.instead(EXECUTOR, (*sources, numbers), step.outputs, attrs={"kernel": kernel}, note=note)
        return kernel_step._replace(folded=tuple(dict.fromkeys(link.op for link in inner if link.op is not step.op)))


def _is_computed(step: Step) -> bool:
    """Whether the elements of a result depend on those at their place alone, and numpy computes them as a run does."""
    if step.kind in ("Quantize", "Dequantize"):
        return coding(step) is not None
    if step.executor == "library":
        return step.kind in ELEMENTWISE or step.kind in ARITHMETIC
    return step.op.edition == HOST and step.kind in HOST_UNARY


def _computed(step: Step, arrays: Sequence[Array], result: Value) -> Array | None:
    """What a step makes of arrays of 256 elements or one; None if numpy cannot compute it."""
    ins = tuple([LogicalTensor(n, DataType.of(array.dtype), array.shape, None, "") for n, array in enumerate(arrays)])
    out = LogicalTensor(len(arrays), result.dtype, (COUNT,), None, "")
    is_host = step.executor == "reference"
    attrs = step.op.attrs if is_host else step.attrs
    op = Op(step.id, step.op.kind if is_host else step.kind, ins, (out,), attrs, "", HOST if is_host else DEFAULT)
    try:
        with np.errstate(all="ignore"):
            (computed,) = run_op(op, arrays)
    except OneGraphError:
        return None
    return np.ascontiguousarray(computed) if prod(computed.shape) == COUNT else None
