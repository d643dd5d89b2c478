"""Adds control flow to a graph: each body becomes a graph of its own, which is an attribute of the op.

A body reads values of the graph around it as further inputs of the op, so that weights stay where they are, and nested
bodies need nothing of their own. Small constants are part of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util.counted import counted
from ..builder.graph import DataGraph
from ..errors import ArgumentError, SpecError
from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.host.control import BODIES
from ..opset.shapes import known
from ..opset.signature import Shape
from .again import NODES
from .bags import loop_of_bags
from .emitter import Array, Emitter, NotLowered, Value, dtype_of, shape_of
from .for_shapes import for_shapes
from .subgraph import BodyBuilder, Captures

ENDLESS = 2**63 - 1
MAX_RESULTS = 16


Branch = Callable[[BodyBuilder], Sequence[Value]]


def branch(emit: Emitter, condition: Value, then: Branch, otherwise: Branch) -> list[Value]:
    """The results of an If, whose condition is not known yet.

    Args:
        emit: adds the op.
        condition: one boolean.
        then, otherwise: add the ops of a branch to a body, and return its results.

    Raises:
        ArgumentError: the branches have different numbers or data types of results.
        NotLowered: there are too many results.
    """
    from ..serialize.words import as_word

    captures, graphs = Captures(emit), list[DataGraph]()
    for add in (then, otherwise):
        body = BodyBuilder(captures)
        graphs.append(body.finish(_numbered("y", add(body))))
    ends = [list(graph.outputs.values()) for graph in graphs]
    types = [[end.dtype for end in bodies] for bodies in ends]
    if types[0] != types[1]:
        texts = [", ".join(map(str, type_)) or "nothing" for type_ in types]
        raise ArgumentError(f"If: the branches return {texts[0]} and {texts[1]}; expected the same data types")
    shapes = [_common(end.shape, second.shape) for end, second in zip(*ends, strict=True)]
    attrs = {"then_body": as_word(graphs[0]), "else_body": as_word(graphs[1]), "shapes": coded(shapes)}
    return _added(emit, "If", [condition, *captures.values], attrs, types[0])


class Scans(NamedTuple):
    """The tensors that a Loop takes apart, and the results that it puts together.

    Attributes:
        scanned: the tensors.
        axes: the axis of the slices of each.
        backwards: of each, whether the last slice comes first.
        result_axes, result_backwards: the same of each result that is no state; by default all have the first axis.
    """

    scanned: Sequence[Value] = ()
    axes: Sequence[int] = ()
    backwards: Sequence[bool] = ()
    result_axes: Sequence[int] = ()
    result_backwards: Sequence[bool] = ()


class Turn(NamedTuple):
    """What an iteration returns: whether another one follows, the next states, the slices of further results."""

    going: Value
    states: Sequence[Value]
    results: Sequence[Value]


Iteration = Callable[[BodyBuilder, LogicalTensor, Sequence[LogicalTensor], Sequence[LogicalTensor]], Turn]


class Looping:
    """A Loop that is lowered.

    Args:
        emit: adds the op.
        trips: the largest number of iterations; None for no limit.
        condition: whether there is a first iteration.
        states: the states at first.
        scans: the scanned tensors.
        iteration: adds the ops of an iteration to a body, from its number, the states and the slices.

    Attributes:
        graph: the body.

    Raises:
        ArgumentError: a state changes its data type.
        NotLowered: there are too many results.
    """

    def __init__(
        self,
        emit: Emitter,
        trips: Value | None,
        condition: Value,
        states: Sequence[Value],
        scans: Scans,
        iteration: Iteration,
    ) -> None:
        self._emit, self._states, self._scans = emit, states, scans
        self._trips = np.array(ENDLESS, np.int64) if trips is None else trips
        self._condition = condition
        shapes = [shape_of(state) for state in states]
        while True:
            self._captures = Captures(emit)
            body = BodyBuilder(self._captures)
            turn = self._turn(body, shapes, iteration)
            after = [_common(old, shape_of(new)) for old, new in zip(shapes, turn.states, strict=True)]
            if after == shapes:
                break
            shapes = after  # fewer dims are known in each round
        self._shapes, self._results = shapes, turn.results
        if not scans.result_axes:
            zeros = [0] * len(turn.results)
            self._scans = scans._replace(result_axes=zeros, result_backwards=[False] * len(zeros))
        outputs = {"going": turn.going, **_numbered("t", turn.states), **_numbered("y", turn.results)}
        self._going = turn.going if isinstance(turn.going, np.ndarray) else None
        self.graph = body.finish(outputs)

    def _turn(self, body: BodyBuilder, shapes: Sequence[Shape], iteration: Iteration) -> Turn:
        number = body.input("i", DataType.s64, ())
        pairs = enumerate(zip(self._states, shapes, strict=True))
        states = [body.input(f"s{index}", dtype_of(state), shape) for index, (state, shape) in pairs]
        slices = [
            body.input(f"x{index}", dtype_of(element), _without(shape_of(element), axis))
            for index, (element, axis) in enumerate(zip(self._scans.scanned, self._scans.axes, strict=True))
        ]
        turn = iteration(body, number, states, slices)
        for index, (state, after) in enumerate(zip(self._states, turn.states, strict=True)):
            if dtype_of(state) is not dtype_of(after):
                text = f"state {index} begins as {dtype_of(state)} and becomes {dtype_of(after)}"
                raise ArgumentError(f"Loop: {text}; expected one data type")
        if len(turn.states) + len(turn.results) > MAX_RESULTS:
            raise NotLowered(f"more than {MAX_RESULTS} results")
        return turn

    @property
    def has_open_shapes(self) -> bool:
        """Whether a shape of the body depends on contents, though all shapes around are known."""
        return all(known(input_.shape) for input_ in self.graph._inputs.values()) and not all(
            known(tensor.shape) for op in self.graph.ops for tensor in op.outputs
        )

    def results(self) -> list[Value]:
        """Add the op; returns the last states, then the results of all iterations."""
        from ..serialize.words import as_word

        if (bags := self.bags()) is not None:
            return [bags]
        scans, count = self._scans, self._count()
        shapes = [*self._shapes]
        for axis, result in zip(scans.result_axes, self._results, strict=True):
            shapes.append(_with(shape_of(result), axis, count))
        attrs = {
            "body": as_word(self.graph),
            "n_states": len(self._states),
            "n_scanned": len(scans.scanned),
            "axes": list(scans.axes),
            "reversed": [*map(int, scans.backwards)],
            "result_axes": list(scans.result_axes),
            "result_reversed": [*map(int, scans.result_backwards)],
            "shapes": coded(shapes),
        }
        values = [*self._states, *scans.scanned, *self._captures.values]
        dtypes = [*map(dtype_of, self._states), *map(dtype_of, self._results)]
        return _added(self._emit, "Loop", [self._trips, self._condition, *values], attrs, dtypes)

    def bags(self) -> Value | None:
        """The result of a loop that reduces one bag of rows in each iteration; None for other loops."""
        scans, conditions = self._scans, (self._going, _known(self._condition))
        if self._states or scans.scanned or [*scans.result_axes] != [0] or any(scans.result_backwards):
            return None
        if not all(condition is not None and condition.all() for condition in conditions):
            return None
        return loop_of_bags(self._emit, self.graph, self._captures.values, self._trips)

    def _count(self) -> int | None:
        """The number of iterations; None if only a run knows it."""
        pairs = zip(self._scans.scanned, self._scans.axes, strict=True)
        sizes = [None if (shape := shape_of(scanned)) is None else shape[axis] for scanned, axis in pairs]
        return _iterations(self._going, _known(self._trips), _known(self._condition), sizes)


def _known(value: Value) -> Array | None:
    return value if isinstance(value, np.ndarray) else None


def _iterations(
    going: Array | None, trips: Array | None, first: Array | None, sizes: Sequence[int | None]
) -> int | None:
    """The number of iterations of a loop; None if only a run knows it.

    Args:
        going: the condition after each iteration.
        trips: the largest number of iterations.
        first: the condition before the first one.
        sizes: the numbers of slices of the scanned tensors.
    """
    if going is None or trips is None or first is None or not going.flat[0]:
        return None
    if not first.flat[0]:
        return 0
    slices = [size for size in sizes if size is not None]
    return max(0, min([int(trips.flat[0]), *slices])) if len(slices) == len(sizes) else None


def coded(shapes: Sequence[Shape]) -> list[int]:
    """Shapes as an attribute has them: the rank and the dims of each; -1 is an unknown rank or dim."""
    return [
        number
        for shape in shapes
        for number in ([-1] if shape is None else [len(shape), *[-1 if dim is None else dim for dim in shape]])
    ]


def _common(left: Shape, right: Shape) -> Shape:
    """The shape of a tensor that has one shape or another one."""
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple([first if first == second else None for first, second in zip(left, right, strict=True)])


def _without(shape: Shape, axis: int) -> Shape:
    if shape is None:
        return None
    if not -len(shape) <= axis < len(shape):
        raise NotLowered(f"axis {axis} of a tensor of {counted(len(shape), 'axis')}")
    axis %= len(shape)
    return (*shape[:axis], *shape[axis + 1 :])


def _with(shape: Shape, axis: int, size: int | None) -> Shape:
    if shape is None:
        return None
    axis %= len(shape) + 1
    return (*shape[:axis], size, *shape[axis:])


def _numbered(letter: str, values: Sequence[Value]) -> dict[str, Value]:
    return {f"{letter}{number}": value for number, value in enumerate(values)}


def _added(
    emit: Emitter, kind: str, inputs: Sequence[Value], attrs: Mapping[str, Any], dtypes: Sequence[DataType]
) -> list[Value]:
    if len(dtypes) > MAX_RESULTS:
        raise NotLowered(f"more than {MAX_RESULTS} results")
    return [*emit.foreign(inputs, attrs, dtypes, repeatable=False, kind=kind)]


def control_again(emit: Emitter, op: Op, inputs: Sequence[LogicalTensor | None]) -> Sequence[Value]:
    """An op of control flow with the shapes that its results have now that more is known of its inputs."""
    try:
        shapes = _branched(op, inputs) if op.kind == "If" else _looped(op, inputs)
    except (SpecError, ValueError):  # a run names the mistake
        return emit.repeat(op, inputs)
    attrs = {**op.attrs, "shapes": coded(shapes)}
    operands = [input_ for input_ in inputs if input_ is not None]
    return _added(emit, op.kind, operands, attrs, [output.dtype for output in op.outputs])


def _ends(word: str, tensors: Mapping[str, LogicalTensor | Shape]) -> Mapping[str, LogicalTensor]:
    """The outputs of a body for inputs of these types."""
    from ..serialize.words import of_word

    graph = of_word(word)
    pairs = {name: tensors[name] for name in graph.inputs if name in tensors}
    shapes = {name: pair.shape if isinstance(pair, LogicalTensor) else pair for name, pair in pairs.items()}
    return for_shapes(graph, shapes, sparing=True).outputs


def _branched(op: Op, inputs: Sequence[LogicalTensor | None]) -> list[Shape]:
    captured = {f"c{number}": input_ for number, input_ in enumerate(inputs[1:]) if input_ is not None}
    ends = [_ends(str(op.attrs[name]), captured) for name in ("then_body", "else_body")]
    return [_common(ends[0][name].shape, ends[1][name].shape) for name in ends[0]]


def _looped(op: Op, inputs: Sequence[LogicalTensor | None]) -> list[Shape]:
    attrs: Any = op.attrs
    count, scanned = attrs["n_states"], attrs.get("n_scanned", 0)
    operands = [input_ for input_ in inputs[2:] if input_ is not None]
    axes = [*attrs.get("axes", ()), *[0] * scanned][:scanned]
    slices = [
        _without(sequence.shape, axis) for sequence, axis in zip(operands[count : count + scanned], axes, strict=True)
    ]
    fixed: dict[str, Any] = {f"c{number}": sequence for number, sequence in enumerate(operands[count + scanned :])}
    fixed |= {f"x{number}": slice_ for number, slice_ in enumerate(slices)} | {"i": ()}
    states = [sequence.shape for sequence in operands[:count]]
    while True:
        ends = _ends(attrs["body"], {**fixed, **{f"s{number}": state for number, state in enumerate(states)}})
        after = [_common(state, ends[f"t{number}"].shape) for number, state in enumerate(states)]
        if after == states:
            break
        states = after
    sizes = [
        None if sequence.shape is None else sequence.shape[axis]
        for sequence, axis in zip(operands[count:], axes, strict=False)
    ]
    limit, first = (None if input_ is None else input_.value for input_ in inputs[:2])
    number = _iterations(ends["going"].value, limit, first, sizes)
    stacked = [ends[f"y{index}"].shape for index in range(len(op.outputs) - count)]
    axes = [*attrs.get("result_axes", ()), *[0] * len(stacked)][: len(stacked)]
    return [*states, *[_with(sequence, axis, number) for sequence, axis in zip(stacked, axes, strict=True)]]


NODES.update(dict.fromkeys(BODIES, control_again))
