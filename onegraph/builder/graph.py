"""Stores the data of a graph and adds ops: shapes are inferred, and all mistakes of an op are reported at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast
from weakref import ref

from .._util.exact_types import elements, has_type, real, text
from .._util.init_once import once
from .._util.validation import flag, string
from ..errors import ArgumentError, shown
from ..inference.suggestions import no_tensor
from ..inference.violations import shortened
from ..ir.file_origin import FileOrigin
from ..ir.op import Array, LogicalTensor, Op, Signature, make_op, make_tensor
from ..ir.tensor_type import as_shape, as_strides
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, Edition
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import AttrValue, Schema, Shape
from ..opset.shapes import is_dense, known_dims, show
from .constants import contents_of
from .op_methods import OpMethods
from .op_outputs import count_outputs, result_type
from .operators import OPS, contents_like
from .signature_cache import signature

AnyGraph = TypeVar("AnyGraph", bound="DataGraph")


class DataGraph(OpMethods):
    """The ops, tensors, inputs and outputs of a graph. :class:`onegraph.Graph` adds compiling, files and more."""

    _file: FileOrigin | None = None

    @once("_ops")
    def __init__(self, edition: str = DEFAULT, *, strict: bool = True) -> None:
        self.edition, self.strict = edition_named(edition).name, flag("strict", strict)
        # Each id and name is taken in one interpreter step, so that two threads never take the same one. The step that
        # adds an op, input or output to the graph comes last, so that an interrupt never leaves a half-added one.
        self._ops: list[Op] = []
        self._op_ids = iter(range(2**62))
        self._by_id: dict[int, LogicalTensor] = {}
        self._inputs: dict[str, LogicalTensor] = {}
        self._outputs: dict[str, LogicalTensor] = {}
        self._names: dict[str, int] = {}  # op name -> id of the op that took the name
        self._constant_inputs: set[str] = set()

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops in the order in which they were added; every op comes after the ops that produce its inputs."""
        return tuple(self._ops)

    @property
    def inputs(self) -> Mapping[str, LogicalTensor]:
        """The graph inputs by name, in the order of the ``input`` calls."""
        return MappingProxyType(self._inputs)

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that were declared constant; ``with_constants`` gives them their contents."""
        return tuple(name for name in [*self._inputs] if name in self._constant_inputs)

    @property
    def outputs(self) -> Mapping[str, LogicalTensor]:
        """The graph outputs by name, in the order of the ``output`` calls."""
        return MappingProxyType(self._outputs)

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
            swapped = has_type(dtype, (tuple, list)) and has_type(shape, (str, DataType))
            fix = "; the data type comes before the shape" if swapped else ""
            raise ArgumentError(f"input {shown(name)}: {error}{fix}") from None
        tensor = self._tensor(data_type, dims, name, stored_strides)
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
        found, kept, watches = contents_of(array, dtype, copy=copy)
        # A view keeps its shape and data type even if the caller sets those of the array.
        flags, view = kept.flags, kept.view()
        view.flags.writeable = False
        tensor = self._tensor(found, view.shape, label or f"constant_{len(self._by_id)}", None, view, watches)
        flags.writeable = False
        return tensor

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
        self._outputs[name] = tensor._laid_out(stored_strides)
        return tensor

    def op(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor | None] | LogicalTensor,
        attrs: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
        edition: str | None = None,
    ) -> Any:
        """Add an op, with the names of an edition.

        Args:
            kind: the op, as the edition names it.
            inputs: tensors of this graph in port order; None omits an optional input if no later input is given.
            attrs: attribute names and values; attributes with a default may be omitted.
            name: unique text for reports; made from the kind by default.
            dtype: data type of the result if the type table allows several.
            outputs: names of the wanted optional outputs; by default the outputs that the attributes imply.
            edition: name of the edition; the graph's edition by default.

        Returns:
            The tensor if the op has one output in this call, else a named tuple in port order.

        Raises:
            SpecError: the op breaks the specification; the error lists every violation, and the graph is unchanged.
            ArgumentError: an input belongs to another graph, or the name, dtype or edition is invalid.
        """
        chosen = edition_named(self.edition if edition is None else edition)
        schema = chosen.schema(kind)
        tensors = self._op_inputs(inputs, schema)
        if name is not None:
            name = self._free_op_name(name)
        try:
            wanted = None if dtype is None else DataType.of(dtype)
        except ArgumentError as error:
            raise ArgumentError(f"{shortened(kind)}: dtype: {error}") from None
        count = None if schema is None or outputs is None else count_outputs(schema, outputs)
        lenient = not self.strict
        found = signature(chosen, kind, attrs, tensors, name=name or "", dtype=wanted, n_outputs=count, lenient=lenient)
        while tensors and tensors[-1] is None:
            tensors.pop()
        ports, number = found.schema.outputs, next(self._op_ids)
        label = self._op_name(found.schema.name, name, number)
        op = self._new_op(number, found, tensors, label, chosen, [f"{label}.{port.name}" for port in ports])
        result: Any = op.outputs
        if len(result) == 1:
            (result,) = result
        else:
            result = result_type(found.schema.kind, tuple(port.name for port in ports[: len(result)]))._make(result)
        self._ops += (op,)
        return result

    def copy(self: AnyGraph) -> AnyGraph:
        """A copy of the graph with the same records; adding to one graph does not change the other."""
        other = self._empty()
        # Another thread may add to this graph. Each container is copied in one interpreter step, and before the
        # containers that it refers to.
        other._outputs, other._ops = dict(self._outputs), list(self._ops)
        other._inputs, other._by_id = dict(self._inputs), dict(self._by_id)
        other._op_ids, other._names, other._file = copy.copy(self._op_ids), dict(self._names), self._file
        other._constant_inputs = set(self._constant_inputs)
        return other

    __copy__ = copy

    def __repr__(self) -> str:
        graph = DataGraph.copy(self)
        lines = [f"Graph(edition={self.edition!r})"]
        lines += [f"  {t.name}: {t.dtype} {show(t.shape)} input" for t in graph._inputs.values()]
        for op in graph._ops:
            ins = ", ".join("-" if t is None else t.name for t in op.inputs)
            outs = ", ".join(f"{t.name}: {t.dtype} {show(t.shape)}" for t in op.outputs)
            attrs = ", ".join(f"{key}={value!r}" for key, value in op.attrs.items())
            lines.append(f"  {outs} = {op.kind}({ins}{'; ' + attrs if attrs else ''})")
        lines += [f"  {name}: {t.name} output" for name, t in graph._outputs.items()]
        return "\n".join(lines)

    @once("_ops")
    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Unpickle or copy: the operators of the tensors add to the new graph."""
        vars(self).update(state)
        for tensor in (*self._by_id.values(), *self._outputs.values()):
            object.__setattr__(tensor, "_graph", ref(self))

    # Internals ---------------------------------------------------------------------------------------------------

    def _operator(self, sign: str, left: object, right: object) -> LogicalTensor:
        """Add the op of an operator; NotImplemented if an operand is neither a tensor nor numbers.

        Raises:
            SpecError: the op cannot have these tensors.
            ArgumentError: a tensor belongs to another graph, or its data type does not hold the numbers.
        """
        like = cast("LogicalTensor", left if has_type(left, LogicalTensor) else right)
        if sign == "abs":
            return self.abs(like)
        if sign == "**" and like is left and (power := real(right)) is not None:
            return self.square(like) if power == 2 else self.pow(like, beta=power)
        kind, edition, swapped = OPS[sign]
        tensors: list[LogicalTensor] = []
        for operand in (right, left) if swapped else (left, right):
            if has_type(operand, LogicalTensor):
                tensors.append(operand)
            elif (contents := contents_like(kind, operand, like)) is not None:
                tensors.append(self.constant(contents, dtype=like.dtype))
            else:
                return cast("LogicalTensor", NotImplemented)  # Python then raises a TypeError that names both types
        return cast("LogicalTensor", self.op(kind, tensors, edition=edition))

    def _cast_bias(
        self,
        schema: Schema,
        tensors: Sequence[object],
        attrs: Mapping[str, object],
        place: int,
        options: Mapping[str, Any],
    ) -> object:
        """The bias, which is input ``place`` of a new op: if it is f32 and the first input bf16 or f16, cast to that.

        The op is checked first, so that the graph has no cast for an op that is refused.
        """
        first, bias = tensors[0], tensors[place]
        if not (has_type(first, LogicalTensor) and has_type(bias, LogicalTensor)):
            return bias
        if bias.dtype is not DataType.f32 or first.dtype not in (DataType.bf16, DataType.f16):
            return bias
        given = self._op_inputs(tensors, schema)
        given[place] = LogicalTensor(bias.id, first.dtype, bias.shape)
        if options.get("name") is not None:
            self._free_op_name(options["name"])
        signature(edition_named(DEFAULT), schema.kind, attrs, given, lenient=not self.strict)
        return self.type_cast(bias, dtype=first.dtype)

    @staticmethod
    def _kind() -> type[DataGraph]:
        """The class of graphs that are made from this one; a user's subclass is not used."""
        return DataGraph

    def _empty(self: AnyGraph, edition: str | None = None, *, strict: bool | None = None) -> AnyGraph:
        """A graph without ops; by default of the same edition and strictness."""
        strict = self.strict if strict is None else strict
        return cast("AnyGraph", self._kind()(edition or self.edition, strict=strict))

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
            if self._by_id.setdefault(number, tensor) is tensor:
                return tensor
            number += 1

    def _new_op(
        self,
        number: int,
        found: Signature,
        inputs: Sequence[LogicalTensor | None],
        name: str,
        chosen: Edition,
        names: Sequence[str],
    ) -> Op:
        """Create an op from its signature and its output tensors, named ``names``, without adding it to the graph."""
        ends = zip(names, found.dtypes, found.shapes, strict=False)
        results = tuple([self._tensor(dtype, shape, text) for text, dtype, shape in ends])
        kept = None if found.lenient else found
        return make_op(number, found.schema.kind, tuple(inputs), results, found.attrs, name, chosen.name, kept)

    def _add_op(
        self,
        chosen: Edition,
        kind: str,
        attrs: Mapping[str, AttrValue],
        inputs: Sequence[LogicalTensor | None],
        dtypes: tuple[DataType, ...],
        *,
        name: str,
        names: Sequence[str],
    ) -> tuple[LogicalTensor, ...]:
        """Add an op like one of another graph, and return its outputs.

        Args:
            chosen, kind, attrs: the edition, and the op with its attributes in that edition.
            inputs: tensors of this graph, in port order.
            dtypes: data types of the outputs.
            name: name of the op, which must be free.
            names: names of the outputs.

        Raises:
            SpecError: the op breaks the specification.
        """
        count, lenient = len(dtypes), not self.strict
        found = signature(chosen, kind, attrs, inputs, name=name, n_outputs=count, dtypes=dtypes, lenient=lenient)
        op = self._new_op(next(self._op_ids), found, inputs[: len(found.inputs)], name, chosen, names)
        self._append(op)
        return op.outputs

    def _append(self, op: Op) -> None:
        """Add an op whose name is free."""
        self._names[op.name] = op.id
        self._ops += (op,)

    def _free_name(self, name: object) -> str:
        """The name for a new input or output as a plain string; ArgumentError if it is taken or empty."""
        label = text(name)
        if not label:
            fix = "; it comes before the tensor" if has_type(name, LogicalTensor) else ""
            raise ArgumentError(f"name: {shown(name)}; expected a string that is not empty{fix}")
        if label in self._inputs or label in self._outputs:
            raise ArgumentError(f"name {shown(label)} is taken; inputs and outputs share one namespace")
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
            raise ArgumentError(no_tensor(tensor, where))
        return known

    def _op_inputs(self, inputs: object, schema: Schema | None) -> list[LogicalTensor | None]:
        given = [inputs] if has_type(inputs, LogicalTensor) else elements(inputs)
        if given is None:
            op = "" if schema is None else f"{schema.kind}: "
            raise ArgumentError(f"{op}inputs: {shown(inputs)}; expected a list of tensors of this graph")
        own = self._by_id
        try:
            for tensor in given:
                if type(tensor) is not LogicalTensor or own.get(tensor.id) is not tensor:
                    break
            else:
                return given  # the common case, which needs no message
        except TypeError:  # the id of a user-made record may be unhashable
            pass
        known = [None if tensor is None else self._known(tensor) for tensor in given]
        for index, (tensor, found) in enumerate(zip(given, known, strict=True)):
            if tensor is not None and found is None:
                where, method = f"inputs[{index}]", ""
                if schema is not None:
                    named = index < len(schema.inputs) and not schema.variadic
                    where = f"{schema.kind}: {schema.inputs[index].name if named else where}"
                    method = schema.name if schema.variadic else ""
                raise ArgumentError(no_tensor(tensor, where, given, method))
        return known

    def _free_op_name(self, name: object) -> str:
        """The name for a new op as a plain string; ArgumentError if it is taken or empty."""
        label = text(name)
        if not label:
            raise ArgumentError(f"name: {shown(name)}; expected a string that is not empty")
        if label in self._names and self._is_taken(label):
            raise ArgumentError(f"name {shown(label)} is taken by another op")
        return label

    def _op_name(self, stem: str, name: str | None, number: int) -> str:
        """Take ``name`` for an op; if it is None, take the first free name made from ``stem`` and a number."""
        label, suffix = name or f"{stem}_{number}", number
        while self._names.setdefault(label, number) != number and self._is_taken(label):
            if name is not None:  # another thread took the name first
                raise ArgumentError(f"name {shown(name)} is taken by another op")
            suffix += 1
            label = f"{stem}_{suffix}"
        return label

    def _is_taken(self, name: str) -> bool:
        """Whether an op of the graph has the name; the name of an op whose addition was interrupted is free."""
        return any(op.name == name for op in self._ops)


def snapshot(graph: AnyGraph) -> AnyGraph:
    """A copy of a graph to read from, because other threads or signal handlers may add to the graph.

    Raises:
        ArgumentError: ``graph`` is not a graph.
    """
    expect_graph(graph)
    return DataGraph.copy(graph)


def expect_graph(value: object) -> None:
    """Raise ArgumentError if ``value`` is not a graph."""
    if not has_type(value, DataGraph):
        raise ArgumentError(f"graph: {shown(value)}; expected a Graph")
