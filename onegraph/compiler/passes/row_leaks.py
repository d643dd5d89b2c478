"""Marks the products whose kernels let NaN and infinities into other rows of the result.

Where an element of the source is NaN or infinite, further steps compute the product again: see ``RowLeaks``.
"""

from __future__ import annotations

from ...capi.settings import get_cpu_isa, has_amx
from ...faults.leaks import LEAKY, SOURCES
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.step import Step
from ..options import Options
from .magnitudes import finite_values

LEAKS = "lets NaN into other rows"  # the mark of a product


def mark_leaks(edit: Edit, options: Options) -> None:
    """Mark each product whose kernel lets NaN into other rows, unless its source is finite for all inputs."""
    if options.finite_math or not has_amx():
        return
    chosen = [step for step in edit.graph.steps if _leaks(step)]
    finite = finite_values(edit.graph) if chosen else frozenset[int]()
    for step in chosen:
        if not finite.issuperset([step.inputs[port] for port in SOURCES[step.kind]]):
            edit.replace(step, step._replace(attrs={**step.attrs, LEAKS: True}))


def _leaks(step: Step) -> bool:
    part = step.library_part
    if part is None or (part.types[0].dtype is DataType.f16 and "amx_fp16" not in get_cpu_isa()):
        return False
    return bool(LEAKY.of(frozenset([part.kind]), part.call, VERSION))
