"""Defines a node while it is written in the terms of a newer op set, and the steps that change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ....errors import FormatError
from ....opset.dtypes import OF_NUMPY
from ..protos import AttributeProto, NodeProto, TensorProto, contents
from ..types import NUMBERS

Array = NDArray[Any]
Step = Callable[["NodeDraft"], None]


class Facts(Protocol):
    """What is known of the inputs of a node."""

    def rank_of(self, index: int) -> int | None:
        """The rank of an input; None if it is unknown."""

    def size_of(self, index: int) -> int | None:
        """The number of elements of an input; None if it is unknown."""

    def contents_of(self, index: int) -> Array | None:
        """The contents of an input; None if they are unknown."""


class NodeDraft:
    """A node while it is changed.

    Attributes:
        before, after: nodes that the new form needs around the node.
        known: the constants among them, by name.
        facts: what is known of its inputs.
    """

    def __init__(self, proto: NodeProto, facts: Facts, where: str) -> None:
        self.proto, self.facts, self.where = proto, facts, where
        self.kind, self.inputs, self.outputs = proto.op_type, [*proto.input], [*proto.output]
        self.attrs = {one.name: one for one in proto.attribute}
        self.before: list[NodeProto] = []
        self.after: list[NodeProto] = []
        self.known: dict[str, Array] = {}
        self._base = next((name for name in proto.output if name), proto.name)
        self._count = 0

    def nodes(self) -> list[NodeProto]:
        """The nodes in the place of the old one."""
        made = NodeProto(op_type=self.kind, name=self.proto.name, domain=self.proto.domain)
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        made.input.extend(self.inputs)
        made.output.extend(self.outputs)
        made.attribute.extend(self.attrs.values())
        return [*self.before, made, *self.after]

    def refuse(self, problem: str, expected: str) -> FormatError:
        """The error for a form that has no newer one."""
        return FormatError(self.where, problem, expected)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        return contents(self.attrs[name]) if name in self.attrs else default

    def pop(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, which the new form lacks."""
        result = self.get(name, default)
        self.attrs.pop(name, None)
        return result

    def set(self, **values: int | float | str) -> None:
        """Give attributes these values."""
        self.attrs.update({name: attribute(name, value) for name, value in values.items()})

    def put(self, place: int, name: str) -> None:
        """Make a value an input."""
        self.inputs += [""] * (place + 1 - len(self.inputs))
        self.inputs[place] = name

    def name(self) -> str:
        """A name for another value."""
        self._count += 1
        return f"{self._base}/form_{self._count}"

    def constant(self, array: Array) -> str:
        """The name of a constant."""
        made = TensorProto(dims=array.shape, data_type=NUMBERS[OF_NUMPY[array.dtype]], raw_data=array.tobytes())
        result = self.add("Constant", [], value=made)
        self.known[result] = array
        return result

    def add(self, kind: str, inputs: Sequence[str], **attrs: Any) -> str:
        """The result of a node before the node."""
        name = self.name()
        self.before.append(_node(kind, inputs, [name], attrs))
        return name

    def behind(self, kind: str, inputs: Callable[[str], Sequence[str]], place: int = 0, **attrs: Any) -> None:
        """Put a node behind an output of the node, which then has another name."""
        inner, outer = self.name(), self.outputs[place]
        self.outputs[place] = inner
        self.after.append(_node(kind, inputs(inner), [outer], attrs))


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], attrs: dict[str, Any]) -> NodeProto:
    made = NodeProto(op_type=kind, name=outputs[0], input=inputs, output=outputs)
    made.attribute.extend(attribute(name, value) for name, value in attrs.items())
    return made


def attribute(name: str, value: int | float | str | TensorProto) -> AttributeProto:
    """An attribute of a number, a text or a tensor."""
    if type(value) is TensorProto:
        return AttributeProto(name=name, type=AttributeProto.TENSOR, t=value)
    if type(value) is str:
        return AttributeProto(name=name, type=AttributeProto.STRING, s=value.encode())
    if type(value) is float:
        return AttributeProto(name=name, type=AttributeProto.FLOAT, f=value)
    return AttributeProto(name=name, type=AttributeProto.INT, i=int(value))


def drops(*names: str) -> Step:
    """The step that leaves out attributes that changed nothing."""

    def step(draft: NodeDraft) -> None:
        for name in names:
            draft.attrs.pop(name, None)

    return step


def states(**values: int | float | str) -> Step:
    """The step that writes the old defaults of attributes, as the new ones are others."""

    def step(draft: NodeDraft) -> None:
        draft.set(**{name: value for name, value in values.items() if name not in draft.attrs})

    return step


def to_input(name: str, place: int) -> Step:
    """The step that makes a list of integers or floats, or one integer, an input of one axis."""

    def step(draft: NodeDraft) -> None:
        if name in draft.attrs:
            value = np.atleast_1d(np.array(draft.pop(name)))
            dtype = np.float32 if value.dtype.kind == "f" and value.size else np.int64
            draft.put(place, draft.constant(value.astype(dtype)))

    return step


def to_scalar(name: str, place: int, default: float | None = None) -> Step:
    """The step that makes a float an input without axes, of the data type of the first input."""

    def step(draft: NodeDraft) -> None:
        value = draft.pop(name, default)
        if value is not None:
            number = draft.constant(np.array(value, np.float32))
            draft.put(place, draft.add("CastLike", [number, draft.inputs[0]]))

    return step


def renames(attr: str, **values: str) -> Step:
    """The step that gives values of an attribute their new names."""

    def step(draft: NodeDraft) -> None:
        content = draft.get(attr)
        word = content.decode() if type(content) is bytes else content
        if word in values:
            draft.set(**{attr: values[word]})

    return step
