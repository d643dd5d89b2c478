"""Marks the products and convolutions whose kernels let NaN and infinities into other elements of the result.

Where an element is NaN or infinite, further steps compute the op again: see ``RowLeaks``.
"""

from __future__ import annotations

import numpy as np

from ...capi.settings import get_cpu_isa, has_amx
from ...faults.leaks import LEAKY, SOURCES, has_tiles, leaks_pairs
from ...native.library import VERSION
from ...opset.convolution_geometry import SIDES
from ..ir.edit import Edit
from ..ir.step import Step
from ..ir.value import Value
from ..kernels.kernel import FLOATS
from ..options import Options
from .magnitudes import finite_values

LEAKS = "lets NaN into other rows"  # the mark of a product
SPREADS = "meets NaN with zeros"  # the mark of a convolution


def mark_leaks(edit: Edit, options: Options) -> None:
    """Mark each product whose kernel lets NaN into other rows, unless its source is finite for all inputs.

    Mark each convolution, too, whose weights or gradients may be NaN: kernels multiply them by zeros for padding, other
    groups, and channels that fill a vector.
    """
    if options.finite_math:
        return
    chosen = [step for step in edit.graph.steps if _leaks(step)]
    finite = finite_values(edit.graph) if chosen else frozenset[int]()
    leaking = {step.id for step in chosen if not finite.issuperset([step.inputs[port] for port in SOURCES[step.kind]])}
    for step in edit.graph.steps:
        marks = {LEAKS: step.id in leaking, SPREADS: _spreads(edit, step)}
        if any(marks.values()):
            edit.replace(step, step._replace(attrs={**step.attrs, **{name: True for name in marks if marks[name]}}))


def _leaks(step: Step) -> bool:
    part = step.library_part
    if part is None:
        return False
    if step.kind in SOURCES and leaks_pairs(part.call, has_amx()):
        return True
    is_tiled = has_amx() and has_tiles(part.types[0].dtype, get_cpu_isa())
    return is_tiled and bool(LEAKY.of(frozenset([part.kind]), part.call, VERSION))


def convolution_of(step: Step) -> Step:
    """The convolution that a product, or one with joined groups, stands for; other steps are returned as they are."""
    return step.members[0] if step.kind in ("MatMul", "Convolution") and step.members else step


def has_joined_groups(step: Step) -> bool:
    """Whether a step is a convolution whose groups were joined, so that its source meets zeros."""
    return step.kind == "Convolution" and convolution_of(step) is not step


def _spreads(edit: Edit, step: Step) -> bool:
    part, origin = step.library_part, convolution_of(step)
    if (
        origin.kind not in SIDES
        or part is None
        or any(tensor.dtype not in FLOATS for tensor in (*part.types[:2], *part.outputs))
    ):
        return False
    if has_joined_groups(step):
        return True
    return SIDES[origin.kind][2] is None or not is_finite(edit.values[origin.inputs[1]])


def is_finite(value: Value) -> bool:
    """Whether a value is a constant without NaN and infinities.

    No ``errstate`` of numpy is needed, which crashes where memory runs out.
    """
    return value.constant is not None and bool(np.isfinite(value.constant).all())
