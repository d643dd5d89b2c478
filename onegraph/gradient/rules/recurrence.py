"""Gradients of recurrent networks: those of their steps, op by op."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ...lowering.recurrent import op_by_op
from ..use import Use
from .table import composed


@composed("host Recurrence")
def recurrence(emit: Emitter, use: Use) -> tuple[Value, ...]:
    named = use.call.string("cell"), use.call.string("direction")
    hidden, cell = (use[port] if use.has(port) else None for port in ("hidden", "cell"))
    return op_by_op(emit, *named, use["inputs"], use["weights"], hidden, cell)
