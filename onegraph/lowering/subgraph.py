"""Makes the graphs of the bodies of control flow, which read values of the graph around them."""

from __future__ import annotations

from collections.abc import Mapping

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.signature import Shape
from .emitter import Emitter, Value

SMALL = 1 << 12  # bytes of a constant that is part of a body


class Captures:
    """The values around the bodies of an op that the bodies read."""

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit
        self.values: list[Value] = []
        self._places: dict[int, int] = {}

    def place(self, value: Value) -> int:
        """The index of a value among the captured ones."""
        number = self._places.get(id(value))
        if number is None:
            number = self._places[id(value)] = len(self.values)
            self.values.append(value)  # kept, so that its id stays its own
        return number


class BodyBuilder:
    """A graph that an op of control flow runs, while its ops are added.

    Args:
        captures: collects what it reads of the graph around it.

    Attributes:
        emit: adds ops to the body.
    """

    def __init__(self, captures: Captures) -> None:
        self._captures, self._graph = captures, DataGraph(captures.emit.graph.edition, strict=False)
        roundings = captures.emit.graph._roundings
        self._graph._roundings = None if roundings is None else frozenset()
        self.emit = Emitter(self._graph, captures.emit.rewrites)
        self._outside: dict[int, LogicalTensor] = {}
        self._arrays: dict[int, Value] = {}

    def capture(self, value: Value) -> Value:
        """A value of the graph around, as the body sees it: a known array stays one."""
        if not isinstance(value, LogicalTensor):
            return value
        number = self._captures.place(value)
        if number not in self._outside:
            self._outside[number] = self.input(f"c{number}", value.dtype, value.shape)
        return self._outside[number]

    def input(self, name: str, dtype: DataType, shape: Shape) -> LogicalTensor:
        """A new input of the body."""
        tensor = self._graph._inputs[name] = self._graph._tensor(dtype, shape, name)
        return tensor

    def finish(self, outputs: Mapping[str, Value]) -> DataGraph:
        """The graph of what the outputs depend on."""
        ends = {name: self.emit.tensor(value) for name, value in outputs.items()}
        known_arrays = {tensor.id: array for array, tensor in self.emit._constants.values()}
        needed, live_ops = {tensor.id for tensor in ends.values()}, list[Op]()
        for op in reversed(self._graph.ops):
            if any(tensor.id in needed for tensor in op.outputs):
                needed.update(tensor.id for tensor in op.inputs if tensor is not None)
                live_ops.append(op)
        body, renewed = self._graph._empty(), dict[int, LogicalTensor]()
        names = {tensor.id: name for name, tensor in self._graph._inputs.items()}
        for tensor in self._graph._tensors:
            name = names.get(tensor.id)
            value = tensor.value  # no input has one
            if tensor.id not in needed or (name is None and value is None):
                continue
            if value is not None and value.nbytes > SMALL:
                name, value = f"c{self._captures.place(known_arrays.get(tensor.id, value))}", None
            renewed[tensor.id] = body._tensor(tensor.dtype, tensor.shape, name or tensor.name, None, value)
            if name is not None:
                body._inputs[name] = renewed[tensor.id]
        for op in reversed(live_ops):
            sources = [None if tensor is None else renewed[tensor.id] for tensor in op.inputs]
            results = body._repeat_op(op, sources)
            renewed.update(zip([tensor.id for tensor in op.outputs], results, strict=True))
        body._outputs = {name: renewed[tensor.id] for name, tensor in ends.items()}
        body._note_reading(self._graph._roundings, as_read=True)
        return body
