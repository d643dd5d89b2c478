"""Finds the ops for which the library loses NaN or an infinity, and how the package keeps them.

Records in ``compiler/kernels`` name them. Kernels of the package compute elementwise ops, MaxPool and LogSoftmax, also
where the library gives results near 0 without a right digit. The library computes the others, and a kernel computes
them again if an element of the source is NaN or infinite.

Between Dequantize and Quantize all numbers are known to be finite, so that the library may fuse these ops, unless it is
too old for one of them or computes it wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...opset.dtypes import DataType
from ...opset.kinds import PRODUCTS
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..kernels.kernel import FLOATS
from ..kernels.norm_relu import NORMALIZED
from ..kernels.registry import IN_PLACE, special_kernel
from ..kernels.when_special import LARGE
from ..options import Options
from ..rewrites import is_best_alone, takes
from .magnitudes import finite_values
from .slope_gradients import slope_steps

BOUNDED = "of bounded inputs"  # the mark of a step that the library may fuse if the inputs of the graph are bounded
SLOPES = "PReLUBackward"  # which is divided into steps of kernels


def keep_special_values(edit: Edit, options: Options) -> None:
    """Put a step of the package in the place of each op for which the library loses NaN or an infinity.

    ``finite_math`` leaves to the library all ops that it takes and is not slow for.
    """
    chosen = [(step, executor) for step in edit.graph.steps if (executor := _executor(step))]
    finite = finite_values(edit.graph) if chosen and not options.finite_math else frozenset[int]()
    bounded = _bounded(edit.graph, chosen) if options.fuses and not options.finite_math else frozenset[int]()
    for step, executor in chosen:
        is_finite = (options.finite_math or finite.issuperset(step.inputs)) and not _is_faster(step)
        if is_finite and _is_taken(step, executor):
            continue
        if step.id in bounded and _is_taken(step, executor):
            edit.replace(step, step._replace(attrs={**step.attrs, BOUNDED: True}))
        elif step.kind == "ReLU" and _is_normalized(step, edit.graph):
            edit.replace(step, step._replace(attrs={**step.attrs, NORMALIZED: True}))
        elif executor == "slopes":
            edit.replace(step, *slope_steps(edit, step))
        else:
            edit.replace(step, step._replace(executor=executor))


def _bounded(lowered: Lowered, chosen: Sequence[tuple[Step, str]]) -> frozenset[int]:
    """The ids of the Clamps of a product, which are finite where the inputs of the graph are bounded.

    A Clamp bounds what follows. The library fuses it with the product, and one look at the inputs of the graph tells
    whether to compute both again.
    """
    clamps = [step for step, _ in chosen if step.kind == "Clamp" and _is_behind_product(lowered, step)]
    if not clamps:
        return frozenset()
    inputs = [tensor.id for tensor in lowered.graph.inputs.values() if tensor.dtype in FLOATS]
    finite = finite_values(lowered, dict.fromkeys(inputs, LARGE))
    return frozenset([step.id for step in clamps if finite.issuperset((*step.inputs, *step.outputs))])


def _is_behind_product(lowered: Lowered, step: Step) -> bool:
    """Whether a step alone reads the result of a product of the library, which has constant weights."""
    maker = lowered.maker(step.inputs[0])
    if maker is None or maker.kind not in PRODUCTS or maker.library_part is None:
        return False
    is_constant = all(lowered.values[number].constant is not None for number in maker.inputs[1:])
    return is_constant and lowered.only_consumer(step.inputs[0]) is not None


def _is_normalized(step: Step, lowered: Lowered) -> bool:
    """Whether a ReLU alone reads what a BatchNormForwardTraining has normalized, whose statistics tell of NaN."""
    number = step.inputs[0]
    norm = lowered.maker(number)
    if norm is None or norm.kind != "BatchNormForwardTraining" or norm.library_part is None:
        return False
    vectors = [lowered.values[vector] for vector in (*norm.inputs[1:], *norm.outputs[1:])]
    is_known = number == norm.outputs[0] and all(value.dtype is DataType.f32 and value.dense for value in vectors)
    return is_known and lowered.only_consumer(number) is not None


def _is_taken(step: Step, executor: str) -> bool:
    """Whether the library takes a step, and is not slow for it, which the lowering has not asked where a kernel is."""
    assert step.part is not None
    return executor not in IN_PLACE or (takes(step.part.call) and is_best_alone(step.part.call))


def _is_faster(step: Step) -> bool:
    """Whether the kernel of a step is faster than the library, whatever the numbers are."""
    assert step.part is not None
    kernel = special_kernel(step.part.call)
    return kernel is not None and kernel.is_faster


def _executor(step: Step) -> str:
    """The executor of a step that the library computes wrong for some numbers; empty for others."""
    part = step.library_part
    if part is None or part.types[0].dtype not in FLOATS:
        return ""
    if step.kind == SLOPES:
        return "slopes"
    kernel = special_kernel(part.call)
    return "" if kernel is None else kernel.executor
