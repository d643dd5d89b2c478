"""Gradients of recurrent networks with unusual activations or options: those of the ops of each step."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ...lowering.recurrent import composed_recurrence
from ...opset.host.recurrence import is_usual
from ..use import GradientUse
from .recurrence import refuse_many_steps
from .table import composed


@composed("host Recurrence")
def unusual(emit: Emitter, use: GradientUse) -> tuple[Value, ...] | None:
    """A cell with other activations or options as the ops of each step; None for a usual one, which has a rule."""
    if is_usual(use.call):
        return None
    use.dims("weights")
    refuse_many_steps(use, use.dims("inputs")[0])
    ports = ("hidden", "cell", "lengths")
    return composed_recurrence(
        emit, use.call, use["inputs"], use["weights"], *(use[port] if use.has(port) else None for port in ports)
    )
