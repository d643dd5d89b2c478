"""Stores the tensors, inputs, outputs and constants of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast
from weakref import ref

from .._util.counted import counted, some_of
from .._util.exact_types import has_type, text
from .._util.init_once import once
from .._util.validation import flag, string
from ..errors import ArgumentError, shown
from ..inference.suggestions import nearest_of, no_tensor
from ..ir.op import Array, LogicalTensor, Op, make_tensor
from ..ir.tensor_type import as_shape, as_strides
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT
from ..opset.editions.registry import edition as edition_named
from ..opset.shapes import compatible, is_dense, known_dims, show
from ..opset.signature import Shape
from .constants import contents_of, first_contents_of
from .model_values import EMPTY, ModelValues, refuse_view, tensor_of_value
from .op_methods import OpMethods
from .transaction import OpNumbers, adds


class GraphTensors(OpMethods):
    """The data of a graph, and the calls that add inputs, constants and outputs."""

    _model_values: ModelValues = EMPTY  # of the model that the graph was read from, by their names

    @once("_ops")
    def __init__(self, edition: str = DEFAULT, *, strict: bool = True) -> None:
        self.edition, self.strict = edition_named(edition).name, flag("strict", strict)
        # Each id and name is taken in one interpreter step, so that two threads never take the same one. The step that
        # adds an op, input or output to the graph comes last, so that an interrupt never leaves a half-added one.
        self._ops: list[Op] = []
        self._op_ids = OpNumbers()
        self._by_id: dict[int, LogicalTensor] = {}
        self._inputs: dict[str, LogicalTensor] = {}
        self._outputs: dict[str, LogicalTensor] = {}
        self._names: dict[str, int] = {}  # op name -> id of the op that took the name
        # A variable is an input with initial contents. Its next value is an output, whose name is in ``_next``.
        self._initial: dict[str, Array] = {}
        self._next: dict[str, str] = {}
        self._constant_inputs: set[str] = set()

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops in the order in which they were added; every op comes after the ops that produce its inputs."""
        return tuple(self._ops)

    @property
    def inputs(self) -> Mapping[str, LogicalTensor]:
        """The graph inputs by name, in the order of the ``input`` calls."""
        if self._initial:
            return MappingProxyType(
                {name: input_ for name, input_ in self._inputs.items() if name not in self._initial}
            )
        return MappingProxyType(self._inputs)

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that were declared constant; ``with_constants`` gives them their contents."""
        return tuple(name for name in [*self._inputs] if name in self._constant_inputs)

    @property
    def constants(self) -> Mapping[str, Array]:
        """The contents of the constants by name, as read-only arrays, in the order in which they were made.

        If several have one name, the number of its tensor is added to the name of each further one.
        """
        return MappingProxyType({name: cast("Array", tensor.value) for name, tensor in self._constants.items()})

    @property
    def _constants(self) -> dict[str, LogicalTensor]:
        constants: dict[str, LogicalTensor] = {}
        for tensor in self._tensors:
            if tensor.value is not None:
                constants[f"{tensor.name}_{tensor.id}" if tensor.name in constants else tensor.name] = tensor
        return constants

    @property
    def outputs(self) -> Mapping[str, LogicalTensor]:
        """The graph outputs by name, in the order of the ``output`` calls."""
        if self._next:
            hidden = {*self._next.values()}
            return MappingProxyType({name: output for name, output in self._outputs.items() if name not in hidden})
        return MappingProxyType(self._outputs)

    @property
    def variables(self) -> Mapping[str, LogicalTensor]:
        """The variables by name, in the order of the ``variable`` calls."""
        return MappingProxyType({name: self._inputs[name] for name in self._initial})

    @property
    def assignments(self) -> Mapping[str, LogicalTensor]:
        """By name of variable, the tensors that give variables their next values."""
        return MappingProxyType({name: self._outputs[output] for name, output in self._next.items()})

    def tensor(self, name: str) -> LogicalTensor:
        """The tensor with a name, as a printed graph, ``outputs`` and ``constants`` show it.

        Args:
            name: of an output, an input, a variable, a constant or a result such as ``conv.dst``; of a value of an ONNX
                model, as its file names it; or of an op with one result, such as ``conv``.

        Raises:
            ArgumentError: no tensor has the name, or several have it; or the graph has the value of the model in
                another layout, which the error names.
        """
        label = text(name)
        if label is None:
            raise ArgumentError(f"tensor: {shown(name)}; expected the name of a tensor or of an op")
        return self._tensor_named(label, "tensor")

    def _tensor_named(self, label: str, where: str) -> LogicalTensor:
        end = self.outputs.get(label, self._constants.get(label))
        if end is not None:
            return self._by_id[end.id]
        tensors = [tensor for tensor in self._tensors if tensor.name == label]
        named = None if tensors else tensor_of_value(self._model_values, self._tensors, label)
        if named is not None:
            tensor, view = named
            if view is not None:
                raise refuse_view(where, label, tensor, view)
            return tensor
        tensors = tensors or [op.outputs[0] for op in self.ops if op.name == label and len(op.outputs) == 1]
        if len(tensors) == 1:
            return tensors[0]
        if tensors:
            raise ArgumentError(
                f"{where}: {shown(label)}: {counted(len(tensors), 'tensor')} have this name; take one from g.ops"
            )
        known = dict.fromkeys([*self.outputs, *(op.name for op in self.ops), *self._inputs, *self._constants])
        close = nearest_of(label, [*known, *(name for name, value in self._model_values.items() if value.tensor)])
        if label in self._model_values:
            close = "this value of the model became part of another op, or was left out or replaced"
        names = close or f"it has {some_of(known)}"
        raise ArgumentError(f"{where}: {shown(label)}: the graph has no tensor and no op of this name; {names}")

    def input(
        self,
        name: str,
        dtype: object,
        shape: object = None,
        *,
        strides: Sequence[int] | None = None,
        constant: bool = False,
    ) -> LogicalTensor:
        """Declare a graph input.

        Args:
            name: unique among inputs and outputs; calls of the compiled graph use it.
            dtype: data type: ``og.f32``, ``"f32"``, a numpy or ml_dtypes type.
            shape: dims, with None for an unknown dim; None is an unknown rank.
            strides: stride along each axis in elements, for data that is not dense row-major.
            constant: True if the contents are the same in every call, as for weights. Files store this flag, and
                ``with_constants`` uses it.

        Raises:
            ArgumentError: the name is taken, or the data type, shape or strides are invalid.
        """
        flag("constant", constant)
        name = self._free_name(name)
        if name == "out":
            raise ArgumentError("name 'out' is the keyword that calls take their output arrays by; choose another")
        try:
            data_type, dims = DataType.of(dtype), as_shape(shape)
            stored_strides = as_strides(strides, dims)
        except ArgumentError as error:
            swapped = has_type(dtype, (tuple, list)) and (shape is None or has_type(shape, (str, DataType)))
            fix = "; the data type comes before the shape" if swapped else ""
            raise ArgumentError(f"input {shown(name)}: {error}{fix}") from None
        tensor = self._tensor(data_type, dims, name, stored_strides)
        adds(self, self._inputs, name, tensor)
        (self._constant_inputs.add if constant else self._constant_inputs.discard)(name)
        self._inputs[name] = tensor
        return tensor

    def constant(self, array: object, *, name: str = "", copy: bool = True, dtype: object = None) -> LogicalTensor:
        """Add a constant, such as trained weights; the library prepares its contents once.

        Args:
            array: the contents: a numpy array, or anything with ``__dlpack__`` such as a PyTorch tensor. float64 and
                int64 arrays are refused; convert them first, or pass ``dtype=og.s64``.
            name: text for reports.
            copy: True copies the array into aligned read-only memory; False keeps the caller's array and makes it
                read-only. If the caller makes it writable again and writes to it, later results may or may not change,
                because the library keeps copies.
            dtype: data type of the contents. Only needed for s64: an int64 array is usually a mistake, as only few ops
                take s64, such as Dropout for its seed.

        Raises:
            ArgumentError: ``array`` is not an array, its data type is not supported or is not ``dtype``, or copy=False
                is not possible, because the array is not C-contiguous and aligned, or views writable memory.
        """
        flag("copy", copy)
        label = string("name", name)
        dtype_, kept, watches = contents_of(array, dtype, copy=copy)
        # A view keeps its shape and data type even if the caller sets those of the array.
        flags, view = kept.flags, kept.view()
        view.flags.writeable = False
        tensor = self._tensor(dtype_, view.shape, label or f"constant_{len(self._by_id)}", None, view, watches)
        flags.writeable = False
        return tensor

    def variable(self, name: str, array: object, *, dtype: object = None) -> LogicalTensor:
        """Add a variable: a tensor that an executable keeps from call to call, such as weights in training.

        ``assign`` says what the variable becomes after a call. ``executable.variables`` has the values as arrays.

        Args:
            name: unique among inputs, outputs and variables.
            array: the contents before the first call, as for ``constant``; the array is copied.
            dtype: data type of the contents, needed for s64 only.

        Raises:
            ArgumentError: the name is taken, or ``array`` is not an array of a supported data type.
        """
        name = self._free_name(name)
        try:
            dtype_, kept = first_contents_of(array, dtype)
        except ArgumentError as error:
            raise ArgumentError(f"variable {shown(name)}: {str(error).removeprefix('constant: ')}") from None
        tensor = self._tensor(dtype_, kept.shape, name)
        adds(self, self._initial, name, kept)
        adds(self, self._inputs, name, tensor)
        self._initial[name] = kept  # first, so that an interrupt never leaves an input
        self._inputs[name] = tensor
        return tensor

    def assign(self, variable: LogicalTensor, tensor: LogicalTensor) -> LogicalTensor:
        """Say what a variable becomes after a call of the executable; returns ``tensor``.

        All variables change together at the end of a call. If the call fails, none changes.

        Args:
            variable: what ``variable`` returned.
            tensor: a tensor of this graph of the same data type and shape; it may be another variable.

        Raises:
            ArgumentError: ``variable`` is not a variable of this graph or already has a next value, or ``tensor`` does
                not fit.
        """
        own, new = self._own(variable, "assign: variable"), self._own(tensor, "assign: tensor")
        name = next((name for name in self._initial if self._inputs[name] is own), None)
        if name is None:
            names = f"the variables are {', '.join(self._initial)}" if self._initial else "g.variable makes one"
            raise ArgumentError(f"assign: {own.name!r} is not a variable; {names}")
        if name in self._next:
            raise ArgumentError(f"assign: variable {name!r} is assigned twice; it becomes one tensor after a call")
        if new.dtype is not own.dtype or not compatible(new.shape, own.shape):
            actual, expected = f"{new.dtype} {show(new.shape)}", f"{own.dtype} {show(own.shape)}"
            raise ArgumentError(f"assign: {new.name!r} is {actual}; expected {expected}, as variable {name!r} is")
        output = f"{name} (next)"
        while output in self._inputs or output in self._outputs:
            output += "'"
        end = new._laid_out(None)
        adds(self, self._outputs, output, end)
        adds(self, self._next, name, output)
        self._next[name] = output
        self._outputs[output] = end
        return new

    def output(self, name: str, tensor: LogicalTensor, *, strides: Sequence[int] | None = None) -> LogicalTensor:
        """Declare a graph output; returns ``tensor``.

        Args:
            name: unique among inputs and outputs; calls return the result under this name.
            tensor: a tensor of this graph.
            strides: strides in elements of the array that a call returns, for example those of a channels-last image;
                dense row-major by default.

        Raises:
            ArgumentError: the name is taken, the tensor belongs to another graph, or the strides are invalid.
        """
        name = self._free_name(name)
        tensor = self._own(tensor, "output")
        try:
            stored_strides = as_strides(strides, tensor.shape)
        except ArgumentError as error:
            raise ArgumentError(f"output {shown(name)}: {error}") from None
        if stored_strides is not None and is_dense(known_dims(tensor.shape), stored_strides):
            stored_strides = None
        end = tensor._laid_out(stored_strides)
        adds(self, self._outputs, name, end)
        self._outputs[name] = end
        return tensor

    @property
    def _tensors(self) -> tuple[LogicalTensor, ...]:
        """Every tensor, in the order of creation."""
        return tuple(self._by_id.values())

    def _tensor(
        self,
        dtype: DataType,
        shape: Shape,
        name: str,
        strides: tuple[int, ...] | None = None,
        value: Array | None = None,
        watches: tuple[object, ...] = (),
    ) -> LogicalTensor:
        number = len(self._by_id)
        while True:
            tensor = make_tensor(number, dtype, shape, strides, name, value, watches, ref(self))
            adds(self, self._by_id, number, tensor)
            if self._by_id.setdefault(number, tensor) is tensor:
                return tensor
            number += 1

    def _free_name(self, name: object) -> str:
        """The name for a new input or output as a plain string; ArgumentError if it is taken or empty."""
        label = text(name)
        if not label:
            fix = "; it comes before the tensor" if has_type(name, LogicalTensor) else ""
            raise ArgumentError(f"name: {shown(name)}; expected a string that is not empty{fix}")
        if label in self._inputs or label in self._outputs:
            fix = "; g.remove(name) frees that of an output" if label in self.outputs else ""
            raise ArgumentError(f"name {shown(label)} is taken; inputs and outputs share one namespace{fix}")
        return label

    def _known(self, tensor: object) -> LogicalTensor | None:
        """The tensor of this graph with the same id; None unless ``tensor`` is that tensor or a graph output."""
        if not has_type(tensor, LogicalTensor) or type(tensor.id) is not int:
            return None
        known = self._by_id.get(tensor.id)
        return known if known is tensor or any(tensor is output for output in [*self._outputs.values()]) else None

    def _own(self, tensor: object, where: str) -> LogicalTensor:
        known = self._known(tensor)
        if known is None:
            self._refuse_former(tensor, where)
            raise ArgumentError(no_tensor(tensor, where))
        return known

    def _refuse_former(self, tensor: object, where: str) -> None:
        """Raise ArgumentError if an edit has removed a tensor from the graph, or changed its type."""
        if not has_type(tensor, LogicalTensor) or tensor._graph is None:
            return
        maker: object = tensor._graph()
        if maker is self:
            text = f"{where}: tensor {shown(tensor.name)} was removed from the graph, or has another type since"
            raise ArgumentError(f"{text}; take it from g.ops, g.inputs or g.outputs again")
