"""The ops behind a convolution that a kernel of the package computes with it: a bias and an activation."""

from __future__ import annotations

from typing import NamedTuple

from ..ir.op import Op
from .ir.edit import Edit
from .ir.step import Step

ACTIVATIONS = ("ReLU", "LeakyReLU")


class Epilogue(NamedTuple):
    """A convolution and what follows it.

    Attributes:
        steps: the convolution, and the BiasAdd and the activation behind it.
        bias: the value that is added to each channel; None if there is none.
        slope: the factor of negative results.
    """

    steps: tuple[Step, ...]
    bias: int | None
    slope: float

    @property
    def result(self) -> int:
        """The value that the last step makes."""
        return self.steps[-1].outputs[0]

    @property
    def folded(self) -> tuple[Op, ...]:
        """The ops of the steps behind the convolution, and those that were folded into their constants."""
        step, *consumers = self.steps
        return (*step.folded, *[op for link in consumers for op in (link.op, *link.folded)])


def epilogue_of(edit: Edit, step: Step) -> Epilogue:
    """A convolution with channels last, and the ops behind it, so far as nothing else reads their operands."""
    steps, bias = [step], step.inputs[2] if len(step.inputs) > 2 else None
    for kinds in (["BiasAdd"], ACTIVATIONS) if bias is None else (ACTIVATIONS,):
        consumer = edit.graph.only_consumer(steps[-1].outputs[0])
        if consumer is None:
            break
        is_taken = consumer.kind in kinds and consumer.executor == "library"
        is_known = consumer.kind in ACTIVATIONS or edit.values[consumer.inputs[-1]].constant is not None
        if is_taken and is_known and _has_channels_last(consumer):
            steps.append(consumer)
            bias = consumer.inputs[-1] if consumer.kind == "BiasAdd" else bias
    return Epilogue(tuple(steps), bias, slope_of(steps[-1]))


def _has_channels_last(step: Step) -> bool:
    return step.part is not None and (step.kind in ACTIVATIONS or step.part.call.attr("data_format") == "NXC")


def slope_of(step: Step) -> float:
    """The factor of negative results of a step."""
    if step.kind == "LeakyReLU":
        return float(str(step.op.attrs["alpha"]))
    return 0.0 if step.kind == "ReLU" else 1.0
