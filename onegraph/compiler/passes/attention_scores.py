"""Finds what lies between the two products of attention: factors, masks, a limit, sinks."""

from __future__ import annotations

from typing import NamedTuple

from ...opset.dtypes import DataType
from ...opset.signature import AttrValue
from ..ir.lowered import Lowered
from ..ir.step import Step

RANKS = 4, 5  # of tensors: batch, heads, tokens, size; of five axes, the heads of a group are one of their own
SELECTS = "where_false", "where_true"  # where a condition puts its third operand, or its second one


def is_plain(graph: Lowered, step: Step, n_inputs: int) -> bool:
    """Whether the library runs a step on f32 tensors of four or five axes, or scalars."""
    if step.library_part is None or len(step.inputs) != n_inputs or len(step.outputs) != 1:
        return False
    values = [graph.values[number] for number in (*step.inputs, *step.outputs)]
    return all(value.dtype is DataType.f32 for value in values) and len(values[-1].shape) in RANKS


def only_maker(graph: Lowered, value: int) -> Step | None:
    """The step that makes a value which one other step alone reads."""
    return graph.maker(value) if graph.only_consumer(value) is not None else None


def number_of(graph: Lowered, value: int) -> float | None:
    """The number, finite or minus infinity, that a constant of one element is; None for others."""
    constant = graph.values[value].constant
    if constant is None or constant.size != 1:
        return None
    number = float(constant.reshape(-1)[0])
    return number if abs(number) < float("inf") or number == -float("inf") else None


def is_reshape(graph: Lowered, step: Step) -> bool:
    """Whether a step gives f32 numbers of four axes four others."""
    ends = [graph.values[number].shape for number in (*step.inputs, *step.outputs)]
    return step.kind == "StaticReshape" and is_plain(graph, step, 1) and all(len(shape) == RANKS[0] for shape in ends)


def unscaled(graph: Lowered, value: int) -> tuple[int, float]:
    """A value before it is multiplied by a number for one reader, and that number; itself and 1 if it is not."""
    maker = only_maker(graph, value)
    if maker is None or maker.kind not in ("Multiply", "Divide") or not is_plain(graph, maker, 2):
        return value, 1.0
    number, operand = maker.inputs
    if maker.kind == "Multiply" and graph.values[operand].constant is None:
        number, operand = operand, number
    factor = number_of(graph, operand)
    if not factor or abs(factor) == float("inf") or graph.values[number].shape != graph.values[value].shape:
        return value, 1.0
    return number, factor if maker.kind == "Multiply" else 1 / factor


class _Sinks(NamedTuple):
    """A further column of scores, of a key without a value.

    ``members`` are the steps that join it with the scores of the keys, up to the SoftMax.
    """

    scores: int
    sink: int
    members: list[Step]


def with_sinks(graph: Lowered, softmax: Step) -> _Sinks | None:
    """The scores that a SoftMax reads if the last column is joined to them, maybe less the largest of each row."""
    number, members = softmax.inputs[0], list[Step]()
    maker = only_maker(graph, number)
    if maker is not None and maker.kind == "Subtract" and is_plain(graph, maker, 2):
        whole, most = maker.inputs
        largest = only_maker(graph, most)
        rank = len(graph.values[whole].shape)
        is_largest = largest is not None and largest.kind == "ReduceMax" and largest.library_part is not None
        if not is_largest or largest.inputs != (whole,) or whole in graph.returned:  # type: ignore[union-attr]
            return None
        assert largest is not None
        axes = [int(axis) % rank for axis in largest.attrs["axes"]]  # type: ignore[union-attr]
        if (
            axes != [rank - 1]
            or not largest.attrs.get("keep_dims")
            or len(graph.consumers(whole)) != len((largest, maker))
        ):
            return None
        number, members = whole, [largest, maker]
        maker = graph.maker(whole)
    elif graph.only_consumer(number) is None:
        return None
    if maker is None or maker.kind != "Concat" or maker.library_part is None or len(maker.inputs) != 2:
        return None
    scores, sink = maker.inputs
    shape, column = graph.values[scores].shape, graph.values[sink].shape
    axis = int(maker.attrs["axis"]) % len(shape)  # type: ignore[arg-type]
    if axis != len(shape) - 1 or len(shape) != RANKS[0] or column[-1] != 1 or graph.only_consumer(scores) is None:
        return None
    wide = graph.maker(sink)
    if wide is not None and wide.kind == "Expand" and len(graph.values[wide.inputs[0]].shape) == len(column):
        sink = wide.inputs[0]
    return _Sinks(scores, sink, [maker, *members])


def is_without_last(graph: Lowered, step: Step, whole: int) -> bool:
    """Whether a step takes all of a value but the last number of each row."""
    (*rows, size), (result,) = graph.values[whole].shape, step.outputs
    if step.kind != "Slice" or step.inputs[0] != whole or graph.values[result].shape != (*rows, size - 1):
        return False
    arrays = [graph.values[number].constant for number in step.inputs[1:]]
    constants = [None if array is None or array.size != 1 else int(array.reshape(-1)[0]) for array in arrays]
    return constants[:1] == [0] and constants[2:] in ([len(rows)], [-1], [len(rows), 1], [-1, 1])


class Scores:
    """What a graph computes of the product of queries and keys before a SoftMax.

    Attributes:
        number: the product.
        members: the steps behind it, the last one first.
        mask: what is added to the scores, or booleans that say where others come in their place.
        joint: the shape (batch, heads, tokens, keys) of the scores, if the product has the rows of several heads as one
            matrix; empty otherwise.
        factor: a number that a run computes, by which the product is multiplied; None if there is none.
    """

    def __init__(self, graph: Lowered, number: int) -> None:
        self._graph, self.number = graph, number
        self.members, self.mask, self.joint = list[Step](), tuple[int, ...](), tuple[int, ...]()
        self.factor: int | None = None
        self._selects: dict[str, AttrValue] = {}
        self._factor, self._limit = 1.0, 0.0
        self._begin()
        while self._go_on():
            pass

    def numbers(self, factor: float) -> dict[str, AttrValue] | None:
        """The numbers of the kernel; None if it has no such form. ``factor``: of the operands of the product."""
        scale = factor * self._factor * (self._limit or 1.0)
        if not 0 < abs(scale) < float("inf") or self._limit < 0:
            return None
        limit = {"softcap": self._limit} if self._limit else {}
        return {"scale": scale, "masked": bool(self.mask), **limit, **self._selects}

    def _take(self, step: Step, number: int, *mask: int) -> bool:
        self.members.append(step)
        self.number, self.mask = number, mask or self.mask
        return True

    def _begin(self) -> None:
        """Look for a mask."""
        graph, maker = self._graph, only_maker(self._graph, self.number)
        if maker is None:
            return
        shape = graph.values[maker.outputs[0]].shape
        if maker.kind == "Add" and is_plain(graph, maker, 2):
            number, operand = maker.inputs
            if only_maker(graph, number) is None or graph.values[number].shape != shape:
                number, operand = operand, number
            if graph.values[number].shape == shape:
                self._take(maker, number, operand)
        elif maker.kind in ("Where", "Select"):
            condition, *ends = maker.inputs
            for place, fill in enumerate(reversed(ends)):
                hidden, number = number_of(graph, fill), ends[place]
                if hidden is not None and graph.values[number].shape == shape:
                    self._selects = {"hidden": hidden, "selects": SELECTS[place]}
                    self._take(maker, number, condition)
                    return

    def _go_on(self) -> bool:
        """Take one more step before the scores; returns whether there is one."""
        graph, maker = self._graph, only_maker(self._graph, self.number)
        if maker is None:
            return False
        number, factor = unscaled(graph, self.number)
        if number != self.number:
            self._factor *= factor
            return self._take(maker, number)
        if maker.kind == "Multiply" and is_plain(graph, maker, 2) and self.factor is None:
            for number, operand in (maker.inputs, maker.inputs[::-1]):
                if not graph.values[operand].shape and graph.values[operand].constant is None:
                    self.factor = operand
                    return self._take(maker, number)
        if (
            maker.kind == "Tanh"
            and is_plain(graph, maker, 1)
            and not self._limit
            and not self.joint
            and self.factor is None
        ):
            self._limit, self._factor = self._factor, 1.0
            return self._take(maker, maker.inputs[0])
        if is_reshape(graph, maker) and not self.joint:
            self.joint = tuple(graph.values[maker.outputs[0]].shape)
            return self._take(maker, maker.inputs[0])
        return False
