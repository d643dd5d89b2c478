"""Gradients of recurrent networks: those of their steps, op by op."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ...lowering.recurrent import op_by_op
from ..use import Use
from .table import composed


@composed("host Recurrence")
def recurrence(emit: Emitter, use: Use) -> tuple[Value, ...]:
    named = use.call.string("cell"), use.call.string("direction")
    cell = use["cell"] if use.has("cell") else None
    return op_by_op(emit, *named, use["inputs"], use["weights"], use["hidden"], cell)
