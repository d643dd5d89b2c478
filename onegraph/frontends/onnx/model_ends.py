"""Makes inputs and outputs of a graph of those of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._util.records import record
from ...errors import ArgumentError, FormatError
from ...graph import Graph
from ...lowering.emitter import Array, Emitter
from ...opset.shapes import compatible, show
from ...opset.signature import Shape
from . import tables as tables
from .node import GrowingList, StackedList, TensorList
from .protos import (
    TypeProto,
    ValueInfoProto,
)
from .types import data_type


@record(frozen=True)
class ModelEnds:
    """The inputs and outputs of a graph that is made of a model.

    Attributes:
        made: the graph.
        emit: adds its ops.
        shapes: by name: shapes of inputs and sizes of named dims, which replace those of the model.
        known: contents of inputs, by name.
    """

    made: Graph
    emit: Emitter
    shapes: Mapping[str, Any]
    known: Mapping[str, Array]

    def input(self, info: ValueInfoProto) -> Any:
        """The value of an input of the model.

        Raises:
            FormatError: no input of a graph is of this type.
            ArgumentError: the known contents do not fit it.
        """
        where, kind, known_shape = f"input {info.name!r}", info.type, self.shapes.get(info.name)
        if kind.HasField("optional_type"):
            if info.name in self.shapes and known_shape is None:
                return None
            kind = kind.optional_type.elem_type
        if kind.sequence_type.elem_type.HasField("tensor_type"):
            if known_shape is None:
                expected = f"shapes={{{info.name!r}: [a shape for each tensor]}}"
                raise FormatError(where, "a sequence of unknown length", expected)
            dtype = data_type(kind.sequence_type.elem_type.tensor_type.elem_type, where)
            made = [self.made.input(f"{info.name}.{number}", dtype, one) for number, one in enumerate(known_shape)]
            return TensorList(made)
        if not kind.HasField("tensor_type"):
            raise FormatError(where, str(kind.WhichOneof("value")), "a tensor or a sequence of tensors")
        tensor = kind.tensor_type
        dtype, shape = data_type(tensor.elem_type, where), known_shape or self._shape(tensor)
        if info.name not in self.known:
            try:
                end = self.made.input(info.name, dtype, known_shape if info.name in self.shapes else shape)
            except ArgumentError as error:
                raise FormatError(where, str(error), "a name and a shape of a graph's input") from None
            self.made._dims = {**(self.made._dims or {}), info.name: [dim.dim_param for dim in tensor.shape.dim]}
            return end
        value = self.known[info.name]
        if value.dtype != dtype.numpy or not compatible(value.shape, shape):
            stated = f"{dtype.numpy} of shape {show(shape)}"
            raise ArgumentError(f"values: {info.name!r}: {value.dtype} of shape {show(value.shape)}; expected {stated}")
        return value

    def _shape(self, kind: TypeProto.Tensor) -> Shape:
        """The shape of a tensor type; a dim with a name is unknown unless ``shapes`` has it."""
        if not kind.HasField("shape"):
            return None
        dims: list[int | None] = []
        for dim in kind.shape.dim:
            size = dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            named = self.shapes.get(dim.dim_param)
            dims.append(named if isinstance(named, int) else size)
        return tuple(dims)

    def output(self, name: str, value: Any) -> None:
        """Make a value an output of the graph.

        Raises:
            FormatError: it is no tensor, nor a list of tensors.
        """
        if value is None:
            raise FormatError(f"output {name!r}", "an absent optional", "a value")
        if isinstance(value, (StackedList, GrowingList)):
            text = "a sequence whose length a run alone knows"
            raise FormatError(f"output {name!r}", text, "its tensors joined, as by ConcatFromSequence")
        if isinstance(value, TensorList):
            for number, element in enumerate(value):
                self.output(f"{name}.{number}", element)
            return
        while name in self.made.inputs or name in self.made.outputs:
            name += "_"
        try:
            self.made.output(name, self.emit.tensor(value))
        except ArgumentError as error:
            raise FormatError(f"output {name!r}", str(error), "the name of an output") from None
