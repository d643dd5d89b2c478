"""Lowers LSTM, GRU and RNN."""

from __future__ import annotations

import numpy as np

from ....lowering.elementwise import add
from ....lowering.emitter import Value, dtype_of, is_known, numbers, shape_of
from ....lowering.movement import NATIVE, cast, concat, reshape, slice_, transpose
from ....lowering.recurrence import whole_layer
from ....lowering.recurrent import Activation, Cell, Direction, Steps, activation, parts_of, projected
from ....opset.dtypes import DataType
from ....opset.shapes import compatible, known_dims, show
from ....opset.signature import Shape
from ..node import Node, NotLowered, Unsettled, lowers
from .layers import native

DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
# Activations that take alpha, and beta too; each takes its numbers from the lists of the node in turn.
WITH_ALPHA = frozenset(["affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu", "celu"])
WITH_BETA = frozenset(["affine", "scaledtanh", "hardsigmoid"])


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _activations(node: Node, count: int) -> list[Activation]:
    """The activations of all directions in turn."""
    names = node.attr("activations") or ACTIVATIONS[node.proto.op_type] * count
    names = [_text(name) for name in names]
    alphas, betas = iter(node.attr("activation_alpha", [])), iter(node.attr("activation_beta", []))
    return [
        activation(
            name,
            next(alphas, None) if name.lower() in WITH_ALPHA else None,
            next(betas, None) if name.lower() in WITH_BETA else None,
        )
        for name in names
    ]


@lowers("LSTM", "GRU", "RNN")
def recurrent(node: Node) -> tuple[Value | None, ...]:
    """A network over a number of steps that is known, or is one of the usual kinds."""
    native(node)
    emit, hidden = node.emit, node.attr("hidden_size")
    size = hidden or (node.shape(2) or (None, None, None))[2]
    if not size:
        raise Unsettled("the size of the state is unknown")
    batch_first = bool(node.attr("layout", 0))
    _refuse_other_shapes(node, size, batch_first)
    src = transpose(emit, node.value(0), (1, 0, 2)) if batch_first else node.value(0)
    if (shape_of(src) or (None,))[-1] is None:
        raise Unsettled("unknown inputs")
    cell = _usual_cell(node, src)
    found = _unrolled(node, src, size, batch_first) if cell is None else _whole(node, src, cell, batch_first)
    if batch_first:
        whole, *ends = found
        found = transpose(emit, whole, (2, 0, 1, 3)), *[transpose(emit, end, (1, 0, 2)) for end in ends]
    return found[: len(node.proto.output)]


def _refuse_other_shapes(node: Node, size: int, batch_first: bool) -> None:
    """Raise FormatError if an input has another shape than the specification of ONNX says."""
    direction = node.attr("direction", "forward")
    if direction not in DIRECTIONS:
        raise node.invalid(f"direction {direction!r}", f"one of {', '.join(DIRECTIONS)}")
    count, gates = len(DIRECTIONS[direction]), GATES[node.proto.op_type] * size
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


def _usual_cell(node: Node, src: Value) -> str | None:
    """The cell of a Recurrence that computes the node; None if there is none."""
    kind, count = node.proto.op_type, len(DIRECTIONS[node.attr("direction", "forward")])
    usual = [name.lower() for name in ACTIVATIONS[kind]]
    names = [_text(name).lower() for name in node.attr("activations") or ACTIVATIONS[kind] * count]
    if kind == "RNN" and {*names} == {"relu"}:
        usual = ["relu"]
    is_plain = node.attr("clip") is None and not node.attr("input_forget", 0) and node.optional(7) is None
    if names != usual * count or not is_plain:
        return None
    if dtype_of(src) not in NATIVE or 0 in (shape_of(src) or ()):
        return None
    if kind == "GRU":
        return "gru" if node.attr("linear_before_reset", 0) else "reset_gru"
    return "lstm" if kind == "LSTM" else usual[0]


def _whole(node: Node, src: Value, cell: str, batch_first: bool) -> tuple[Value, ...]:
    """The node as one op for all directions and steps, which computes in f32."""
    weights, recurrence, bias, hidden, memory = (node.optional(index) for index in (1, 2, 3, 5, 6))
    for value in (weights, recurrence, bias):
        if value is not None and None in (shape_of(value) or (None,)):
            raise Unsettled("unknown dims of an input")
    assert weights is not None
    assert recurrence is not None
    if batch_first:
        hidden, memory = (None if one is None else transpose(node.emit, one, (1, 0, 2)) for one in (hidden, memory))
    bias, hidden, memory = (
        None if one is None else cast(node.emit, one, DataType.f32) for one in (bias, hidden, memory)
    )
    found = whole_layer(
        node.emit,
        cell,
        node.attr("direction", "forward"),
        cast(node.emit, src, DataType.f32),
        cast(node.emit, weights, DataType.f32),
        cast(node.emit, recurrence, DataType.f32),
        bias,
        hidden,
        memory,
        _lengths(node, src),
    )
    return tuple([cast(node.emit, one, dtype_of(src)) for one in found])


def _lengths(node: Node, src: Value) -> Value | None:
    """The number of steps of each sequence; None if all have all steps."""
    lengths = node.optional(4)
    is_whole = is_known(lengths) and bool(np.all(lengths == (shape_of(src) or (0,))[0]))
    return None if lengths is None or is_whole else lengths


def _unrolled(node: Node, src: Value, size: int, batch_first: bool) -> tuple[Value, ...]:
    """The node as ops for each direction and step."""
    if None in (shape_of(src) or (None,)):
        raise Unsettled("unknown steps or batch")
    emit, kind = node.emit, node.proto.op_type
    cell = Cell(
        GATES[kind],
        node.attr("clip"),
        bool(node.attr("input_forget", 0)),
        bool(node.attr("linear_before_reset", 0)),
    )
    steps, batch, _ = known_dims(shape_of(src))
    layer = Steps(emit, steps, batch, size, cell, node.optional(4))
    directions = DIRECTIONS[node.attr("direction", "forward")]
    functions, each = _activations(node, len(directions)), len(ACTIVATIONS[kind])
    outputs, states, cells = [], [], []
    for place, backwards in enumerate(directions):
        weights, recurrence = _part(node, 1, place), _part(node, 2, place)
        if weights is None or recurrence is None:
            raise NotLowered("no weights")
        biases, state_bias = _biases(node, cell, place, size)
        direction = Direction(
            recurrence,
            state_bias,
            peepholes=_part(node, 7, place),
            hidden=_state(node, 5, place, batch_first),
            cell=_state(node, 6, place, batch_first),
            activations=functions[place * each : (place + 1) * each],
            reverse=backwards,
        )
        parts = parts_of(emit, weights, cell.gates, size)
        gates = [projected(emit, src, part, bias) for part, bias in zip(parts, biases, strict=True)]
        found = layer.run(direction, gates)
        outputs.append(found[0])
        states.append(reshape(emit, found[1], numbers(1, batch, size)))
        if found[2] is not None:
            cells.append(reshape(emit, found[2], numbers(1, batch, size)))
    return concat(emit, outputs, 1), *[concat(emit, one, 0) for one in (states, cells) if one]


def _biases(node: Node, cell: Cell, place: int, size: int) -> tuple[list[Value | None], Value | None]:
    """What is added to the inputs of each gate, and to the product of the state in a GRU that resets it afterwards."""
    bias = _part(node, 3, place)
    if bias is None:
        return [None] * cell.gates, None
    parts = parts_of(node.emit, bias, 2 * cell.gates, size)
    of_input, of_state = parts[: cell.gates], parts[cell.gates :]
    if not cell.linear_before_reset:
        return [add(node.emit, one, other) for one, other in zip(of_input, of_state, strict=True)], None
    added: list[Value | None] = [add(node.emit, *pair) for pair in zip(of_input[:2], of_state[:2], strict=True)]
    return [*added, of_input[2]], of_state[2]


def _part(node: Node, index: int, place: int) -> Value | None:
    """What one direction has of an input, whose first axis counts the directions."""
    found = node.optional(index)
    if found is None:
        return None
    shape = node.whole_shape(index)
    part = slice_(node.emit, found, [place], [place + 1], [0])
    return reshape(node.emit, part, numbers(*shape[1:]))


def _state(node: Node, index: int, place: int, batch_first: bool) -> Value | None:
    """The first state of one direction."""
    if not batch_first or node.optional(index) is None:
        return _part(node, index, place)
    shape = node.whole_shape(index)
    part = slice_(node.emit, node.value(index), [place], [place + 1], [1])
    return reshape(node.emit, part, numbers(shape[0], shape[2]))
