"""Compositions of ops that have a body and no rule: second derivatives are those of the body."""

from __future__ import annotations

from ...lowering.bodies import add_body
from ...lowering.emitter import Emitter, Value
from ...lowering.movement import cast
from ...opset.bodies import BODIES
from ...opset.dtypes import DataType
from ..use import GradientUse
from . import elementwise, normalization  # noqa: F401  (an op with rules of its own needs no composition)
from .table import RULES, composed


@composed(", ".join(kind for kind in BODIES if kind not in RULES))
def by_body(emit: Emitter, use: GradientUse) -> tuple[Value, ...]:
    """The results of the body. Normalizations are computed in f32, as the specification has it."""
    is_wide = use.base.category == "normalization"
    ports = [port.name for port in use.base.inputs]
    operands = [use[name] if use.has(name) else None for name in ports]
    inputs = [cast(emit, operand, DataType.f32) if is_wide and operand is not None else operand for operand in operands]
    results = add_body(emit, use.call, inputs)
    if not is_wide:
        return tuple(results)
    return tuple([cast(emit, result, tensor.dtype) for result, tensor in zip(results, use.op.outputs, strict=False)])
