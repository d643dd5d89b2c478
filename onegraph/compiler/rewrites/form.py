"""Defines forms: the ops of the base vocabulary that replace an op, and the values between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ..._util.fork_safety import cached_property
from ..._util.records import record
from ...errors import OutOfMemoryError
from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.editions.registry import BASE
from ...opset.schema import Call, TensorType
from ...opset.shapes import known_dims, show
from ...opset.signature import AttrValue
from ..ir.part import Part, Source
from ..ir.value import Dims

MAX_CONCAT_INPUTS, MAX_CONCAT_RANK = 64, 6  # of the library's Concat


@record(frozen=True, eq=False)
class Form:
    """The parts that replace an op, in an order in which they can run.

    Values are numbered: first the ``n_inputs`` inputs of the op in the base vocabulary, absent ones counted, then the
    results of the parts in order. ``results`` are the numbers of the op's outputs. ``note`` says what was rewritten and
    why; it is empty if the library gets the op itself. ``slow`` says why numpy, or a kernel of the package, is faster;
    it is empty if neither is.
    """

    parts: tuple[Part, ...]
    results: tuple[int, ...]
    n_inputs: int
    note: str = ""
    slow: str = ""

    @cached_property
    def direct(self) -> tuple[int, ...] | None:
        """The inputs that the part reads, if the form has one part, no constants and no dropped outputs; else None."""
        if len(self.parts) > 1:
            return None
        (part,) = self.parts
        ports = tuple([source for source in part.inputs if isinstance(source, int)])
        return ports if len(ports) == len(part.inputs) and len(part.outputs) == len(self.results) else None

    def is_op(self, call: Call) -> bool:
        """Whether the form is the op itself."""
        if self.direct is None:
            return False
        (part,) = self.parts
        return part.kind == call.schema.kind and part.attrs == call.given and part.types == call.inputs

    @property
    def constants(self) -> list[Array]:
        """The constants that the form adds."""
        return [source for part in self.parts for source in part.inputs if isinstance(source, np.ndarray)]


@record(frozen=True)
class Rewrite:
    """A form of one part: another op, or the op with other attributes and inputs.

    ``dropped`` are the types of outputs that the part has beyond those of the op.
    """

    kind: str
    attrs: Mapping[str, AttrValue]
    inputs: Sequence[Source]
    note: str = ""
    dropped: tuple[TensorType, ...] = ()


class FormBuilder:
    """Builds a form part by part.

    Args:
        call: the op to rewrite, with every shape known.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.parts: list[Part] = []
        self._types: list[TensorType | None] = list(call.inputs)
        self._casts: dict[tuple[int, DataType], int] = {}

    def type(self, source: Source) -> TensorType:
        """Data type and shape of a value."""
        if isinstance(source, np.ndarray):
            return TensorType(DataType.of(source.dtype), source.shape)
        tensor = self._types[source]
        assert tensor is not None
        return tensor

    def shape(self, source: Source) -> Dims:
        """Shape of a value."""
        return known_dims(self.type(source).shape)

    def add(self, kind: str, *inputs: Source, outputs: Sequence[TensorType] = (), **attrs: AttrValue) -> int:
        """Add a part; returns the number of its first result, which those of the others follow.

        ``outputs``: types of the results; by default one output with the data type of the first input.
        """
        types = tuple(self.type(source) for source in inputs)
        if not outputs:
            shape = BASE[kind].shape(Call(BASE[kind], attrs, types, 1))[0]
            outputs = (TensorType(types[0].dtype, shape),)
        self.parts.append(Part(kind, attrs, inputs, types, tuple(outputs)))
        first = len(self._types)
        self._types += outputs
        return first

    def cast(self, source: Source, dtype: DataType) -> Source:
        """The value cast to another float type; the same value if it has that type."""
        tensor = self.type(source)
        if tensor.dtype is dtype:
            return source
        if isinstance(source, np.ndarray):
            return source.astype(dtype.numpy)
        if (source, dtype) not in self._casts:
            self._casts[source, dtype] = self.add("TypeCast", source, outputs=(TensorType(dtype, tensor.shape),))
        return self._casts[source, dtype]

    def reshape(self, source: Source, shape: Sequence[int]) -> Source:
        """The value in another shape; the same value if it has that shape."""
        if self.shape(source) == tuple(shape):
            return source
        if isinstance(source, np.ndarray):
            return source.reshape(shape)
        return self.add("StaticReshape", source, shape=tuple(shape), special_zero=False)

    def wide(self) -> list[Source]:
        """The inputs that are present, cast to f32."""
        return [self.cast(index, DataType.f32) for index, tensor in enumerate(self.call.inputs) if tensor is not None]

    def along(self, vector: Source, rank: int, axis: int) -> Source:
        """A vector reshaped to ``rank`` axes of size 1, except for ``axis``, which has its elements."""
        shape = [1] * rank
        shape[axis] = prod(self.shape(vector))
        return self.reshape(vector, shape)

    def form(self, *results: Source, note: str) -> Form:
        """The finished form, with every output cast to its data type and made by a part.

        Results beyond the number of outputs of the call are dropped.
        """
        finished = []
        for result, dtype in zip(results, self.call.output_types, strict=False):
            assert dtype is not None
            typed = self.cast(result, dtype)
            if not isinstance(typed, int) or typed < len(self.call.inputs) or typed in finished:
                typed = self.add("Reorder", typed)
            finished.append(typed)
        return Form(tuple(self.parts), tuple(finished), len(self.call.inputs), note)


def scalar(value: float, rank: int) -> Array:
    """An f32 constant with one element that broadcasts to tensors of ``rank``."""
    return np.full((1,) * rank, value, np.float32)


def filled(call: Call, shape: Dims, value: float, dtype: DataType = DataType.f32) -> Array:
    """A constant with the same number in every element.

    Raises:
        OutOfMemoryError: there is not enough memory for it.
    """
    try:
        return np.full(shape, value, dtype.numpy)
    except (MemoryError, ValueError):  # ValueError: larger than any array
        title = f"{call.schema.kind}: a constant {dtype} {show(shape)}"
        raise OutOfMemoryError("numpy.full", "out_of_memory", title) from None


def result_types(call: Call) -> tuple[TensorType, ...]:
    """The types of the outputs of a call."""
    shapes = call.shapes
    return tuple(TensorType(dtype, shape) for dtype, shape in zip(call.output_types, shapes, strict=False))


def form_of(rewrite: Rewrite, call: Call) -> Form:
    """A rewrite as a form."""
    parts = FormBuilder(call)
    outputs = result_types(call)
    first = parts.add(rewrite.kind, *rewrite.inputs, outputs=(*outputs, *rewrite.dropped), **rewrite.attrs)
    return Form(tuple(parts.parts), tuple(range(first, first + len(outputs))), len(call.inputs), rewrite.note)
