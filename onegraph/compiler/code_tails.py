"""The steps behind a product of codes that a kernel of the package computes with it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from ..opset.dtypes import DataType
from ..opset.signature import AttrValue
from .codings import CODES, PLAIN, Coding, coding
from .epilogues import ACTIVATIONS, slope_of
from .ir.edit import Edit
from .ir.step import Step
from .ir.value import Value
from .kernels.code_product import MOST_STEPS

STEPS = {"Add": "add", "BiasAdd": "add", "Subtract": "subtract", "Multiply": "multiply", "Divide": "divide"}
COMMUTATIVE = "add", "multiply"
BIAS = "BiasAdd"


class Tail(NamedTuple):
    """A product and the steps behind it that the kernel computes with it, as its attributes and the operands."""

    steps: tuple[Step, ...]
    names: tuple[str, ...]
    operands: tuple[int, ...]
    slope: float
    rounded: Coding

    @property
    def result(self) -> int:
        """The value that the last step makes."""
        return self.steps[-1].outputs[0]

    def attrs(self, windows: tuple[int, ...] = ()) -> dict[str, AttrValue]:
        """The numbers of a kernel for the steps behind the product, and for windows."""
        return {
            "slope": self.slope,
            "factor": float(np.float32(1) / np.float32(self.rounded.scale)),
            "dst_zero": float(self.rounded.zero),
            "steps": (*windows, *self.names),  # type: ignore[dict-item]
        }


def tail_of(edit: Edit, product: Step, taken: set[int], *, has_rows: bool = True) -> Tail:
    """A product and the steps behind it, so far as nothing else reads their operands.

    Args:
        edit: the changes of a pass.
        product: the step of the product.
        taken: ids of the steps that others have taken, to which these are added.
        has_rows: whether the kernel takes operands with a number for each column.
    """
    steps, names, operands, slope, rounded = [product], list[str](), list[int](), 1.0, PLAIN
    if len(product.inputs) > len(("src", "weights")):
        names.append("add")
        operands.append(product.inputs[2])
    while len(names) < MOST_STEPS and (step := edit.graph.only_consumer(steps[-1].outputs[0])) is not None:
        number = steps[-1].outputs[0]
        if step.executor != "library" or step.id in taken:
            break
        if step.kind == "Quantize":
            codes_of_step = coding(step)
            if codes_of_step is not None and edit.values[step.outputs[0]].dtype in CODES:
                steps.append(step)
                rounded = codes_of_step
            break
        if step.kind in ACTIVATIONS and "activate" not in names:
            slope = slope_of(step)
            names.append("activate")
        elif (operand := _operand(edit, step, number, has_rows)) is not None:
            names.append(STEPS[step.kind])
            operands.append(operand)
        else:
            break
        steps.append(step)
    taken.update([step.id for step in steps])
    return Tail(tuple(steps), tuple(names), tuple(operands), slope, rounded)


def _operand(edit: Edit, step: Step, number: int, has_rows: bool) -> int | None:
    """The other operand of a step, if the kernel takes it: a number, one for each result, or for each column."""
    if step.kind not in STEPS:
        return None
    first, second = step.inputs
    if first != number and STEPS[step.kind] not in COMMUTATIVE:
        return None
    assert step.part is not None
    if step.kind == BIAS and step.part.call.attr("data_format") != "NXC":
        return None
    operand, result = edit.values[second if first == number else first], edit.values[step.outputs[0]]
    if result.dtype is not DataType.f32 or not operand.dense or not result.dense:
        return None
    source = edit.values[number]
    return operand.id if source.shape == result.shape and any(_fits(operand, result, has_rows)) else None


def _fits(operand: Value, result: Value, has_rows: bool) -> Iterator[bool]:
    yield prod(operand.shape) == 1
    yield has_rows and bool(operand.shape) and operand.shape[-1] == prod(operand.shape) == result.shape[-1]
    yield operand.shape == result.shape
