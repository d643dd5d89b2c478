"""Lowers LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....lowering.emitter import Value, dtype_of, is_known, shape_of
from ....lowering.movement import cast, transpose
from ....lowering.recurrence import whole_layer
from ....opset.dtypes import DataType
from ....opset.host.recurrence import ACTIVATIONS, USUAL
from ....opset.shapes import compatible, show
from ....opset.signature import AttrValue, Shape
from ..node import Node, Unsettled, lowers
from .layers import native

DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@lowers("LSTM", "GRU", "RNN")
def recurrent(node: Node) -> tuple[Value | None, ...]:
    """A network in all directions over all steps as one op, which computes in f32."""
    native(node)
    size = node.attr("hidden_size") or (node.shape(2) or (None, None, None))[2]
    if not size:
        raise Unsettled("the size of the state is unknown")
    batch_first = bool(node.attr("layout", 0))
    _refuse_other_shapes(node, size, batch_first)
    src, hidden, memory = (node.optional(index) for index in (0, 5, 6))
    assert src is not None
    if batch_first:
        src = transpose(node.emit, src, (1, 0, 2))
        hidden, memory = (
            None if state is None else transpose(node.emit, state, (1, 0, 2)) for state in (hidden, memory)
        )
    if (shape_of(src) or (None,))[-1] is None:
        raise Unsettled("unknown inputs")
    results = _layer(node, src, hidden, memory)
    if batch_first:
        whole, *ends = results
        results = transpose(node.emit, whole, (2, 0, 1, 3)), *[transpose(node.emit, end, (1, 0, 2)) for end in ends]
    return results[: len(node.proto.output)]


def _refuse_other_shapes(node: Node, size: int, batch_first: bool) -> None:
    """Raise FormatError if an input has another shape than the specification of ONNX says."""
    direction = node.attr("direction", "forward")
    if direction not in DIRECTIONS:
        raise node.invalid(f"direction {direction!r}", f"one of {', '.join(DIRECTIONS)}")
    count, gates = DIRECTIONS[direction], GATES[node.proto.op_type] * size
    src = node.shape(0) or (None,) * 3
    if len(src) != 3:
        raise node.invalid(f"X of shape {show(src)}", "(steps, batch, inputs), or (batch, steps, inputs) with layout=1")
    first, second, inputs = src
    state = (first, count, size) if batch_first else (count, second, size)
    wanted: dict[str, tuple[int, Shape]] = {
        "W": (1, (count, gates, inputs)),
        "R": (2, (count, gates, size)),
        "B": (3, (count, 2 * gates)),
        "initial_h": (5, state),
        "initial_c": (6, state),
        "P": (7, (count, 3 * size)),
    }
    for name, (index, shape) in wanted.items():
        if node.optional(index) is None:
            if name in ("W", "R"):
                raise node.invalid(f"no {name}", f"{name} of shape {show(shape)}")
        elif not compatible(node.shape(index), shape):
            raise node.invalid(f"{name} of shape {show(node.shape(index))}", f"shape {show(shape)}")


def _layer(node: Node, src: Value, hidden: Value | None, memory: Value | None) -> tuple[Value, ...]:
    """The states of all steps, the last one, and the last cell state."""

    def wide(value: Value | None) -> Any:
        return None if value is None else cast(node.emit, value, DataType.f32)

    weights, recurrence, bias, peepholes = (node.optional(index) for index in (1, 2, 3, 7))
    for value in (weights, recurrence, bias, peepholes):
        if value is not None and None in (shape_of(value) or (None,)):
            raise Unsettled("unknown dims of an input")
    cell, options = _cell(node)
    results = whole_layer(
        node.emit,
        cell,
        node.attr("direction", "forward"),
        *(wide(src), wide(weights), wide(recurrence)),
        *(wide(bias), wide(hidden), wide(memory)),
        _lengths(node, src),
        wide(peepholes),
        options,
    )
    return tuple([cast(node.emit, result, dtype_of(src)) for result in results])


def _cell(node: Node) -> tuple[str, dict[str, AttrValue]]:
    """The cell of a Recurrence, and its other attributes, of which usual cells have none."""
    kind, count = node.proto.op_type, DIRECTIONS[node.attr("direction", "forward")]
    cell = {"LSTM": "lstm", "RNN": "tanh"}.get(kind) or ("gru" if node.attr("linear_before_reset", 0) else "reset_gru")
    options: dict[str, AttrValue] = {"input_forget": True} if node.attr("input_forget", 0) else {}
    if (clip := node.attr("clip")) is not None:
        if not clip > 0:
            raise node.invalid(f"clip={clip}", "a number above 0")
        options["clip"] = float(clip)
    usual = USUAL[cell] * count
    names = [name.decode() if isinstance(name, bytes) else name for name in node.attr("activations") or usual]
    names = [name.lower() for name in names]
    if not {*names}.issubset(ACTIVATIONS) or len(names) != len(usual):
        raise node.invalid(f"activations {', '.join(names)}", f"{len(usual)} of {', '.join(ACTIVATIONS)}, in any case")
    if kind == "RNN" and {*names} == {"relu"}:
        return "relu", options
    if tuple(names) != usual:
        options["activations"] = " ".join(names)
        for place, key in enumerate(("alpha", "beta")):
            parameters = iter(node.attr(f"activation_{key}", []))
            defaults = [ACTIVATIONS[name][place : place + 1] for name in names]
            options[key] = tuple([float(next(parameters, *default)) if default else 0.0 for default in defaults])
    return cell, options


def _lengths(node: Node, src: Value) -> Value | None:
    """The number of steps of each sequence; None if all have all steps."""
    lengths = node.optional(4)
    is_whole = is_known(lengths) and bool(np.all(lengths == (shape_of(src) or (0,))[0]))
    return None if lengths is None or is_whole else lengths
