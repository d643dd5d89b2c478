"""Defines a node as the functions that lower it see it, and the table of those functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...errors import FormatError
from ...lowering.computed_shapes import known_parts
from ...lowering.emitter import Array, Emitter, NotLowered, Unsettled, Value, dtype_of, shape_of
from ...lowering.movement import cast, rounded
from ...lowering.subgraph import BodyBuilder
from ...opset.dtypes import DataType
from ...opset.shapes import known_dims
from ...opset.signature import Shape
from .protos import GraphProto, NodeProto, contents

__all__ = [
    "LOWERINGS",
    "SEQUENCES",
    "GrowingList",
    "Node",
    "NotLowered",
    "Results",
    "StackedList",
    "TensorList",
    "Unsettled",
    "in_f32",
    "lowers",
]

Results = Any  # a value, or a list or tuple of values; a value is a tensor, a TensorList, or None for an absent one
Lowering = Callable[["Node"], Results]
LOWERINGS: dict[str, Lowering] = {}
# By the functions of ``LOWERINGS`` that compute known arrays in numpy, the functions as they were entered.
COMPUTED = dict[Lowering, Callable[["Node"], Any]]()
KEPT = set[Lowering]()  # those of ``COMPUTED`` whose results for few numbers are kept
SHAPED = set[str]()  # kinds of nodes whose results have shapes that follow from that of input 0 and the other inputs
HALVES = frozenset([DataType.f16, DataType.bf16])
Kept = TypeVar("Kept", bound=Lowering)


class TensorList(list[Value]):
    """A sequence of tensors, which is one value of a model."""


class StackedList(NamedTuple):
    """A sequence whose length a run knows: tensors of one shape, along the first axis of ``stack``."""

    stack: Value


class GrowingList(NamedTuple):
    """A sequence in the body of a loop, to which iterations add tensors.

    Attributes:
        state: the index of the state that it is.
        added: the tensors that this iteration has added at its end.
    """

    state: int
    added: tuple[Value, ...] = ()


SEQUENCES = TensorList, StackedList, GrowingList


class Node:
    """One node of a model with the values of its inputs.

    Attributes:
        emit: adds ops to the graph.
        inputs: a value for each input; None for an absent one.
        opset: version of the node's op set.
    """

    def __init__(self, proto: NodeProto, inputs: Sequence[Any], emit: Emitter, opset: int, where: str) -> None:
        self.proto, self.inputs, self.emit, self.opset, self.where = proto, [*inputs], emit, opset, where
        self.importer: Any = None
        self.scope: dict[str, Any] = {}
        self.depth = 0
        self._attrs = {one.name: one for one in proto.attribute}
        self._read = dict[str, Any]()  # the contents of attributes that were asked for, which the twins share

    def with_inputs(self, inputs: Sequence[Any]) -> Node:
        """The same node with other values of its inputs."""
        twin = Node.__new__(Node)
        twin.__dict__.update(self.__dict__)
        twin.inputs = [*inputs]
        return twin

    def __len__(self) -> int:
        return len(self.inputs)

    def invalid(self, problem: str, expected: str) -> FormatError:
        """The error for a node that ONNX does not allow."""
        return FormatError(self.where, problem, expected)

    def value(self, index: int) -> Value:
        """The tensor that input ``index`` is, which is required."""
        result = self.optional(index)
        if result is None:
            raise self.invalid(f"no input {index}", "an input, which the op requires")
        return result

    def optional(self, index: int) -> Value | None:
        """The tensor that input ``index`` is; None if it is absent."""
        result = self.any(index)
        if isinstance(result, SEQUENCES):
            raise self.invalid(f"input {index} is a sequence", "a tensor")
        return result  # type: ignore[no-any-return]

    def array(self, index: int) -> Array:
        """The contents of input ``index``, which is required."""
        result = self.known(index)
        if result is None:
            raise self.invalid(f"no input {index}", "an input, which the op requires")
        return result

    def wide(self, index: int) -> Array:
        """The contents of input ``index`` as float64."""
        return self.array(index).astype(np.float64)

    def any(self, index: int) -> Any:
        """Input ``index``: a tensor, a sequence, or None if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def present(self, index: int) -> Any:
        """Input ``index``, which is required: a tensor or a sequence."""
        result = self.any(index)
        return self.value(index) if result is None else result

    def tensors(self, index: int) -> TensorList:
        """The sequence that input ``index`` is."""
        result = self.any(index)
        if isinstance(result, SEQUENCES) and not isinstance(result, TensorList):
            raise NotLowered("the length of a sequence is not known before the graph runs")
        if not isinstance(result, TensorList):
            raise self.invalid(f"input {index} is no sequence", "a sequence")
        return result

    def subgraph(self, graph: GraphProto, inputs: Sequence[Any], body: BodyBuilder | None = None) -> list[Any]:
        """The outputs of a graph that is an attribute of the node, lowered here with these inputs, or in a body."""
        result: list[Any] = self.importer.subgraph(graph, inputs, self, body)
        return result

    def known(self, index: int) -> Array | None:
        """The contents of input ``index``; None if it is absent.

        Raises:
            NotLowered: the contents are not known before the graph runs.
        """
        result = self.optional(index)
        if result is not None and not isinstance(result, np.ndarray):
            raise NotLowered(f"input {index} is not known before the graph runs")
        return result

    def settled(self, index: int) -> Array | None:
        """The contents of input ``index``, which decide a shape; None if it is absent.

        Raises:
            Unsettled: the contents are not known yet.
        """
        result = self.optional(index)
        if result is not None and not isinstance(result, np.ndarray):
            raise Unsettled(f"input {index} is not known before the graph runs", [index])
        return result

    def integers(self, index: int) -> list[int] | None:
        """The contents of input ``index``, which decide a shape, as a list of integers; None if it is absent."""
        value = self.optional(index)
        parts = None if isinstance(value, np.ndarray) else known_parts(self.emit, value)
        if parts is not None and None not in parts:  # sizes, which may be open
            return [part for part in parts if part is not None]
        array = self.settled(index)
        return None if array is None else [int(one) for one in array.reshape(-1)]

    def dtype(self, index: int = 0) -> Any:
        """Data type of input ``index``."""
        return dtype_of(self.value(index))

    def shape(self, index: int = 0) -> Any:
        """Shape of input ``index``."""
        return shape_of(self.value(index))

    def rank(self, index: int = 0) -> int:
        """Rank of input ``index``.

        Raises:
            Unsettled: the rank is unknown.
        """
        return len(self.dims(index))

    def dims(self, index: int = 0) -> tuple[int | None, ...]:
        """Shape of input ``index``, whose rank is known.

        Raises:
            Unsettled: the rank is unknown.
        """
        shape: Shape = self.shape(index)
        if shape is None:
            raise Unsettled(f"the rank of input {index} is unknown")
        return shape

    def whole_shape(self, index: int = 0) -> tuple[int, ...]:
        """Shape of input ``index`` with known dims.

        Raises:
            Unsettled: a dim is unknown.
        """
        shape = self.dims(index)
        if None in shape:
            raise Unsettled(f"unknown dims of input {index}")
        return known_dims(shape)

    def rank_of(self, index: int) -> int | None:
        """The rank of an input; None if it is unknown or no tensor."""
        shape = getattr(self.any(index), "shape", None)
        return None if shape is None else len(shape)

    def size_of(self, index: int) -> int | None:
        """The number of elements of an input; None if it is unknown or no tensor."""
        shape = getattr(self.any(index), "shape", None)
        return None if shape is None or None in shape else prod(shape)

    def contents_of(self, index: int) -> Array | None:
        """The contents of an input; None if they are unknown."""
        result = self.any(index)
        return result if isinstance(result, np.ndarray) else None

    def has(self, name: str) -> bool:
        """Whether the node has an attribute."""
        return name in self._attrs

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute: a number, a text, a list, a tensor as an array, or a graph."""
        if name not in self._attrs:
            return default
        if name not in self._read:
            content = contents(self._attrs[name])
            self._read[name] = content.decode() if isinstance(content, bytes) else content
        content = self._read[name]
        return list(content) if isinstance(content, (list, tuple)) else content


def lowers(*kinds: str, domain: str = "", wide: bool = False) -> Callable[[Kept], Kept]:
    """Enter a function into the table for these kinds of nodes.

    Args:
        kinds: the kinds.
        domain: the domain that defines them, if it is another one than ONNX's.
        wide: whether 16-bit floats are computed in f32, as by :func:`in_f32`.
    """

    def enter(function: Kept) -> Kept:
        entered = (lambda node: in_f32(node, function)) if wide else function
        LOWERINGS.update({f"{domain}::{kind}" if domain else kind: entered for kind in kinds})
        return function

    return enter


def in_f32(node: Node, function: Lowering) -> Results:
    """The results of a node whose 16-bit floats are f32 in between, as ONNX Runtime and PyTorch compute them.

    A sum of squares leaves the range of f16 from values of a few hundred on. The only result has the data type of the
    first input that is a 16-bit float.
    """
    narrow = [dtype_of(input_) for input_ in node.inputs if input_ is not None and dtype_of(input_) in HALVES]
    if not narrow:
        return function(node)
    inputs = [
        cast(node.emit, input_, DataType.f32) if input_ is not None and dtype_of(input_) in HALVES else input_
        for input_ in node.inputs
    ]
    result: Any = function(node.with_inputs(inputs))
    return rounded(node.emit, result, narrow[0]) if dtype_of(result) is DataType.f32 else result


def computes(
    *kinds: str, domain: str = "", few: Lowering | None = None, shaped: bool = False, kept: bool = False
) -> Callable[[Kept], Kept]:
    """As :func:`lowers`, for a function that computes a node in numpy, once the contents of all inputs are known.

    Args:
        kinds, domain: as of :func:`lowers`.
        few: lowers nodes of few elements, which numpy takes longer to begin than to compute; it raises Unsettled for
            others.
        shaped: whether the shapes of results follow from the shape of input 0 and the contents of the others.
        kept: whether the results for the last few numbers are kept: a model mostly has the same ones in every call.
    """

    def enter(function: Kept) -> Kept:
        def computed(node: Node) -> Results:
            if not all(value is None or isinstance(value, np.ndarray) for value in node.inputs):
                if few is not None:
                    return few(node)
                raise Unsettled("numpy computes it, once its inputs are known")
            with np.errstate(all="ignore"):
                return function(node)

        computed.__module__ = function.__module__
        lowers(*kinds, domain=domain)(computed)
        COMPUTED[computed] = function
        if kept:
            KEPT.add(computed)
        SHAPED.update(kinds if shaped else ())
        return function

    return enter
