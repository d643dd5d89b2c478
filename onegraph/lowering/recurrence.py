"""Lowers the usual LSTM, GRU and RNN to one op, Recurrence, which a kernel of the package computes.

The inputs of all steps meet their weights in one product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._util.open_sizes import is_open
from ..arrays.ndarrays import aligned_empty
from ..opset.host.recurrence import GATES, LANES
from ..opset.shapes import known_dims
from ..opset.signature import AttrValue
from .emitter import Emitter, Value, dtype_of, numbers, shape_of
from .layers import matmul
from .movement import concat, expand, reshape, slice_, transpose

# Places of the gates of a Recurrence in the order of PyTorch: in, forget, cell, out; reset, update, new.
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


def parts_of(emit: Emitter, value: Value, count: int, size: int) -> list[Value]:
    """Equal parts along the first axis."""
    return [slice_(emit, value, [at * size], [(at + 1) * size], [0]) for at in range(count)]


def ordered(emit: Emitter, value: Value, cell: str, units: int) -> Value:
    """Weights or biases in the order of PyTorch with the gates of a Recurrence."""
    if cell not in ORDERS:
        return value
    parts = parts_of(emit, value, GATES[cell], units)
    return concat(emit, [parts[place] for place in ORDERS[cell]], 0)


def layer(
    emit: Emitter, cell: str, src: Value, parts: Sequence[Sequence[Value]], firsts: Sequence[Value | None]
) -> list[Value]:
    """One layer with weights in the order of PyTorch: the states of all steps, and the last ones.

    Args:
        emit: adds the ops.
        cell: the attribute of Recurrence.
        src: (steps, batch, inputs); the numbers of steps and of sequences may be unknown.
        parts: the weights, the recurrence and both biases, if there are any, of each direction.
        firsts: the first states (directions, batch, units); None is zeros.

    Returns:
        The states (steps, batch, directions * units), and each last state (directions, batch, units).
    """
    units = known_dims(shape_of(parts[0][1]))[1]

    def of_all(*places: int) -> Value:
        together = [concat(emit, [ordered(emit, part[place], cell, units) for place in places], 0) for part in parts]
        return concat(emit, [reshape(emit, one, numbers(1, *known_dims(shape_of(one)))) for one in together], 0)

    bias = of_all(2, 3) if len(parts[0]) > 2 else None
    direction = "bidirectional" if len(parts) > 1 else "forward"
    hidden, *cells = firsts
    states, *lasts = whole_layer(
        emit, cell, direction, src, of_all(0), of_all(1), bias, hidden, cells[0] if cells else None
    )
    beside = transpose(emit, states, (0, 2, 1, 3))
    return [emit.op("StaticReshape", [beside], {"shape": (0, 0, -1), "special_zero": True}), *lasts]


def whole_layer(
    emit: Emitter,
    cell: str,
    direction: str,
    src: Value,
    weights: Value,
    recurrence: Value,
    bias: Value | None,
    hidden: Value | None,
    cell_state: Value | None,
    lengths: Value | None = None,
    peepholes: Value | None = None,
    options: Mapping[str, AttrValue] | None = None,
) -> tuple[Value, ...]:
    """A layer in all directions as a Recurrence: the states of all steps, the last one, and the last cell state.

    Args:
        emit: adds the ops.
        cell, direction: attributes of Recurrence.
        src: (steps, batch, inputs); the numbers of steps and of sequences may be unknown.
        weights, recurrence: (directions, gates * units, inputs) and (directions, gates * units, units).
        bias: (directions, 2 * gates * units), for the inputs and for the state; None is zeros.
        hidden, cell_state: (directions, batch, units); None is zeros.
        lengths: (batch) of s32, the number of steps of each sequence; None is all steps.
        peepholes: (directions, 3 * units) of an LSTM.
        options: other attributes of Recurrence.
    """
    inputs = known_dims(shape_of(src))[2]
    directions, _, units = known_dims(shape_of(recurrence))
    gates, dtype = GATES[cell], dtype_of(src).numpy
    of_input: Value | None = None
    of_state: Value = np.zeros((directions, gates * units), dtype)
    rows = reshape(emit, weights, numbers(directions * gates * units, inputs))
    if bias is not None:
        of_input, of_state = (slice_(emit, bias, [at], [at + gates * units], [1]) for at in (0, gates * units))
        of_input = reshape(emit, of_input, numbers(-1))
    beside = [reshape(emit, of_state, numbers(directions, gates, units, 1))]
    if peepholes is not None:
        whole = concat(emit, [peepholes, np.zeros((directions, units), dtype)], 1)
        beside.append(reshape(emit, whole, numbers(directions, gates, units, 1)))
    products = matmul(emit, src, rows, of_input, transpose_b=True)
    operands = [
        # The numbers of steps and of sequences may be unknown.
        emit.op("StaticReshape", [products], {"shape": (0, 0, directions, gates, units), "special_zero": True}),
        in_blocks(
            emit,
            reshape(emit, recurrence, numbers(directions, gates, units, units)),
            *beside,
        ),
    ]
    following = [hidden, cell_state if cell == "lstm" else None, lengths]
    while following and following[-1] is None:
        following.pop()
    if any(one is None for one in following):  # ports in front of a given one cannot be left out
        batch = (shape_of(next((one for one in following[:2] if one is not None), src)) or (None,) * 3)[1]
        zeros: Value = np.zeros((1, 1, 1), dtype)
        if batch is None or is_open([batch]):
            ends = [numbers(directions), slice_(emit, emit.op("Shape", [src]), [1], [2], [0]), numbers(units)]
            zeros = expand(emit, zeros, concat(emit, ends, 0))
        else:
            zeros = np.zeros((directions, batch, units), dtype)
        following = [zeros if one is None else one for one in following]
    operands += [one for one in following if one is not None]
    attrs: dict[str, AttrValue] = {"cell": cell, "direction": direction, **(options or {})}
    if peepholes is not None:
        attrs["peepholes"] = True
    return emit.ends("Recurrence", operands, attrs)


def in_blocks(emit: Emitter, recurrence: Value, *beside: Value) -> Value:
    """The weights of a Recurrence: (directions, gates, units, units of the state), and columns with one more unit."""
    directions, gates, units, _ = known_dims(shape_of(recurrence))
    blocks = -(-units // LANES)
    missing = np.zeros((directions, gates, blocks * LANES - units, units + len(beside)), dtype_of(recurrence).numpy)
    whole = concat(emit, [concat(emit, [recurrence, *beside], 3), missing], 2)
    parts = reshape(emit, whole, numbers(directions, gates, blocks, LANES, -1))
    packed = transpose(emit, parts, (0, 2, 4, 1, 3))
    if not isinstance(packed, np.ndarray):
        return packed
    aligned = aligned_empty(packed.shape, packed.dtype)  # the kernel reads whole cache lines
    aligned[...] = packed
    return aligned


def from_blocks(emit: Emitter, weights: Value, units: int, first: int, last: int) -> Value:
    """The factors of some units of the state, from ``first`` to ``last`` (directions, gates, units, those units)."""
    directions, blocks, _, gates, _ = known_dims(shape_of(weights))
    cut = slice_(emit, weights, [first], [last], [2])
    turned = transpose(emit, cut, (0, 3, 1, 4, 2))
    return slice_(
        emit, reshape(emit, turned, numbers(directions, gates, blocks * LANES, last - first)), [0], [units], [2]
    )
