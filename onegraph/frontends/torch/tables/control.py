"""Lowers calls whose arguments are graphs: conditions, loops and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....lowering.control import Looping, Scans, Turn, branch
from ....lowering.emitter import Emitter, Value
from ....lowering.movement import reshape
from ....lowering.subgraph import BodyBuilder
from ..node import HIGHER, NotLowered

# Adds the ops of a module to a graph: from the values of its arguments to its results.
LowerModule = Callable[[Any, Sequence[Any], Emitter], Sequence[Any]]


def _higher(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        HIGHER[name] = function
        return function

    return enter


@_higher("cond")
def condition(emit: Emitter, lower: LowerModule, flag: Any, then: Any, otherwise: Any, operands: Sequence[Any]) -> Any:
    """One of two modules, by a condition that may be known."""
    if isinstance(flag, (bool, np.ndarray)):
        return lower(then if np.asarray(flag).item() else otherwise, operands, emit)

    def side(module: Any) -> Callable[[BodyBuilder], Sequence[Value]]:
        return lambda body: _tensors(lower(module, _captured(body, operands), body.emit))

    return branch(emit, flag, side(then), side(otherwise))


@_higher("while_loop")
def while_loop(
    emit: Emitter, lower: LowerModule, goes: Any, step: Any, states: Sequence[Any], captured: Sequence[Any]
) -> Any:
    """A module for as long as another one says so."""
    first = [*_tensors(states)]

    def iteration(body: BodyBuilder, number: Value, states_in: Sequence[Value], slices: Sequence[Value]) -> Turn:
        del number, slices
        around = _captured(body, captured)
        after = _tensors(lower(step, [*states_in, *around], body.emit))
        (going,) = lower(goes, [*after, *around], body.emit)
        return Turn(_flag(body.emit, going), after, ())

    (begins,) = lower(goes, [*first, *captured], emit)
    return Looping(emit, None, _flag(emit, begins), first, Scans(), iteration).results()


@_higher("scan")
def scan(
    emit: Emitter, lower: LowerModule, step: Any, states: Sequence[Any], scanned: Sequence[Any], captured: Sequence[Any]
) -> Any:
    """A module for each slice along the first axis, with states; its further results are put together."""

    def iteration(body: BodyBuilder, number: Value, states_in: Sequence[Value], slices: Sequence[Value]) -> Turn:
        del number
        result = _tensors(lower(step, [*states_in, *slices, *_captured(body, captured)], body.emit))
        return Turn(np.array(True), result[: len(states)], result[len(states) :])

    return _scanned(emit, lower, step, states, scanned, iteration)


@_higher("map_impl")
def mapped(emit: Emitter, lower: LowerModule, step: Any, scanned: Sequence[Any], captured: Sequence[Any]) -> Any:
    """A module for each slice along the first axis."""

    def iteration(body: BodyBuilder, number: Value, states_in: Sequence[Value], slices: Sequence[Value]) -> Turn:
        del number, states_in
        return Turn(np.array(True), (), _tensors(lower(step, [*slices, *_captured(body, captured)], body.emit)))

    return _scanned(emit, lower, step, (), scanned, iteration)


def _scanned(
    emit: Emitter, lower: LowerModule, step: Any, states: Sequence[Any], scanned: Sequence[Any], iteration: Any
) -> Any:
    del lower
    (end,) = (node for node in step.graph.nodes if node.op == "output")
    count = len(end.args[0]) - len(states)
    zeros, falses = [0] * len(scanned), [False] * len(scanned)
    scans = Scans(_tensors(scanned), zeros, falses, [0] * count, [False] * count)
    return Looping(emit, None, np.array(True), _tensors(states), scans, iteration).results()


def _captured(body: BodyBuilder, values: Sequence[Any]) -> list[Any]:
    """Values of the graph around as the body sees them; numbers stay as they are."""
    return [body.capture(value) if hasattr(value, "shape") else value for value in values]


def _tensors(values: Sequence[Any]) -> Sequence[Value]:
    if not all(hasattr(value, "shape") for value in values):
        raise NotLowered("a body takes or returns what is no tensor")
    return values


def _flag(emit: Emitter, value: Any) -> Value:
    """A condition as a boolean without axes."""
    if not hasattr(value, "shape"):
        return np.array(bool(value))
    result: Value = reshape(emit, value, np.array([], np.int64)) if value.shape != () else value
    return result
