"""Adds ops that only rename axes or take part of a tensor to a schedule, as views of their sources."""

from __future__ import annotations

from ..faults.use import VIEWS
from ..opset.shapes import settled_strides
from .ir.step import Step
from .ir.value import dense_of
from .schedule import Schedule
from .view_places import is_host_view, place_of, viewed_constant


def add_view(schedule: Schedule, step: Step) -> bool:
    """Add an op that takes part of a tensor, or renames axes, as a view; returns False if it is none."""
    is_host = is_host_view(step)
    if not is_host and (step.executor != "library" or step.kind not in VIEWS):
        return False
    values = schedule.values
    source, target = values[step.inputs[0]], values[step.outputs[0]]
    if source.storage == target.id:
        schedule.note("view", step, "no copy: written into the memory of the output", step.note)
        return True
    is_returned = target.id in schedule.returned
    is_placed = target.id in schedule.viewed or not (target.dense or is_returned)  # where others expect it
    if 0 in target.shape:
        return False
    place = place_of(step, source, target)
    if place is None and is_returned and target.dense:
        dense = values[values.add(source.placed(target.id, dense_of(source.shape)), shares=True)]
        schedule.add_copy(source, dense, step, "the source of a reshape must be dense")
        return True
    if place is None:
        source = values[schedule.dense_copy(source)]
        place = place_of(step, source, target)
        assert place is not None
    strides = settled_strides(target.shape, place.strides)
    view = target.placed(source.storage, strides, source.offset + place.offset)
    if source.constant is not None and not is_host:
        view = view._replace(constant=viewed_constant(step, source, target))
    if is_returned or is_placed:
        view = values[values.add(view._replace(name=f"{target.name} (view)"), shares=True)]
        schedule.add_copy(view, target, step, "the result is stored as an array of its own")
    else:
        values[target.id] = view
        extent = "part of" if is_host else "other strides on"
        schedule.note("view", step, f"no copy: {extent} the same memory", step.note)
    return True
