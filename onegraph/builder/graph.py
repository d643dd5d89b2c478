"""The data of a graph, and the op-builder: every shape is inferred, and every mistake is reported at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

from .._util.exact_types import elements, has_type, text
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
from .signature_cache import signature

AnyGraph = TypeVar("AnyGraph", bound="DataGraph")


class DataGraph(OpMethods):
    """The ops, tensors, inputs and outputs of a graph. :class:`onegraph.Graph` adds what is done with them."""

    _file: FileOrigin | None = None

    @once("_ops")
    def __init__(self, edition: str = DEFAULT, *, strict: bool = True) -> None:
        self.edition, self.strict = edition_named(edition).name, flag("strict", strict)
        # Numbers and names are taken in one step of the interpreter each, so that no two threads take the same. What
        # makes an op, input or output one of the graph comes last, so that an interrupt leaves none that nobody has.
        self._ops: list[Op] = []
        self._op_ids = iter(range(2**62))
        self._by_id: dict[int, LogicalTensor] = {}
        self._inputs: dict[str, LogicalTensor] = {}
        self._outputs: dict[str, LogicalTensor] = {}
        self._names: dict[str, int] = {}  # of ops, by which they are taken
        self._constant_inputs: set[str] = set()

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops, in the order in which they were added; every op stands after those that it reads from."""
        return tuple(self._ops)

    @property
    def inputs(self) -> Mapping[str, LogicalTensor]:
        """The graph inputs by name, in the order of the ``input`` calls."""
        return MappingProxyType(self._inputs)

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that are constant, with contents that come later; see ``with_constants``."""
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
            shape: dims; None for an unknown dim, or as a whole for an unknown rank.
            strides: elements between neighbours along each axis, for data that is not dense row-major.
            constant: True says that the contents, such as weights, are the same in every call. Files keep that;
                ``with_constants`` makes use of it.

        Raises:
            ArgumentError: the name is taken, or the data type, shape or strides make no sense.
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
            mend = "; the data type comes before the shape" if swapped else ""
            raise ArgumentError(f"input {shown(name)}: {error}{mend}") from None
        tensor = self._tensor(data_type, dims, name, stored_strides)
        (self._constant_inputs.add if constant else self._constant_inputs.discard)(name)
        self._inputs[name] = tensor
        return tensor

    def constant(self, array: object, *, name: str = "", copy: bool = True, dtype: object = None) -> LogicalTensor:
        """Take an array as a constant, such as trained weights: the library prepares it once.

        Args:
            array: the contents. float64 and int64 arrays are refused; convert them first, or say ``dtype``.
            name: text for reports.
            copy: True copies into aligned read-only memory; False keeps the caller's array and makes it read-only.
                Whoever makes that writable again and writes changes results, or not, as the library keeps copies.
            dtype: data type of the contents. It has to be said for s64 alone, which an int64 array seldom is meant to
                be: few ops take it, such as Dropout for its seed.

        Raises:
            ArgumentError: it is no array, no logical tensor has its data type or it is not ``dtype``, or copy=False is
                asked for an array that cannot be kept: one that is not C-contiguous and aligned, or a view of memory
                that others write.
        """
        flag("copy", copy)
        label = string("name", name)
        found, kept, watches = contents_of(array, dtype, copy=copy)
        # A view keeps its shape and data type, where the caller gives others to the array.
        flags, seen = kept.flags, kept.view()
        seen.flags.writeable = False
        tensor = self._tensor(found, seen.shape, label or f"constant_{len(self._by_id)}", None, seen, watches)
        flags.writeable = False
        return tensor

    def output(self, name: str, tensor: LogicalTensor, *, strides: Sequence[int] | None = None) -> LogicalTensor:
        """Declare a graph output; returns ``tensor``.

        Args:
            name: unique among inputs and outputs; results are called by it.
            tensor: of this graph.
            strides: elements between neighbours along each axis of the array that a call returns, such as those of a
                channels-last image; dense row-major by default.

        Raises:
            ArgumentError: the name is taken, the tensor is of another graph, or the strides make no sense.
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
        """Add an op, in the words of an edition.

        Args:
            kind: the op, as the edition names it.
            inputs: tensors of this graph in port order; None skips an optional port where no later one is given.
            attrs: attributes; defaults may be left out.
            name: text for reports, unique; made from the kind by default.
            dtype: data type of the result, where the type table leaves it open.
            outputs: names of the optional output ports that are wanted; by default what the attributes imply.
            edition: the graph's edition by default.

        Returns:
            The tensor where the op has one output in this call, else a named tuple in port order.

        Raises:
            SpecError: the op breaks the specification; every violation is in it, and the graph is unchanged.
            ArgumentError: an input is of another graph, or the name, dtype or edition makes no sense.
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
        """A graph of the same records; adding to either does not change the other."""
        other = self._empty()
        # Each in one step of the interpreter, and before what it refers to: another thread may add to this graph.
        other._outputs, other._ops = dict(self._outputs), list(self._ops)
        other._inputs, other._by_id = dict(self._inputs), dict(self._by_id)
        other._op_ids, other._names, other._file = copy.copy(self._op_ids), dict(self._names), self._file
        other._constant_inputs = set(self._constant_inputs)
        return other

    __copy__ = copy

    def __repr__(self) -> str:
        seen = DataGraph.copy(self)
        lines = [f"Graph(edition={self.edition!r})"]
        lines += [f"  {t.name}: {t.dtype} {show(t.shape)} input" for t in seen._inputs.values()]
        for op in seen._ops:
            ins = ", ".join("-" if t is None else t.name for t in op.inputs)
            outs = ", ".join(f"{t.name}: {t.dtype} {show(t.shape)}" for t in op.outputs)
            attrs = ", ".join(f"{key}={value!r}" for key, value in op.attrs.items())
            lines.append(f"  {outs} = {op.kind}({ins}{'; ' + attrs if attrs else ''})")
        lines += [f"  {name}: {t.name} output" for name, t in seen._outputs.items()]
        return "\n".join(lines)

    # Internals ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _kind() -> type[DataGraph]:
        """The class of every graph that is made from this one, also where a user has derived a class from it."""
        return DataGraph

    def _empty(self: AnyGraph, edition: str | None = None, *, strict: bool | None = None) -> AnyGraph:
        """A graph without ops; of the same edition and strictness where nothing else is said."""
        strict = self.strict if strict is None else strict
        return cast("AnyGraph", self._kind()(edition or self.edition, strict=strict))

    @property
    def _tensors(self) -> tuple[LogicalTensor, ...]:
        """Every tensor, in the order in which they were made."""
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
            tensor = make_tensor(number, dtype, shape, strides, name, value, watches)
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
        """An op that is in order, and no op of the graph yet; ``names`` are those of its outputs."""
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
        """Add an op like one of another graph; its outputs.

        Args:
            chosen, kind, attrs: the op, in the words of an edition.
            inputs: tensors of this graph, in port order.
            dtypes: of the outputs.
            name: of the op, which nobody has.
            names: of the outputs.

        Raises:
            SpecError: the op breaks the specification.
        """
        count, lenient = len(dtypes), not self.strict
        found = signature(chosen, kind, attrs, inputs, name=name, n_outputs=count, dtypes=dtypes, lenient=lenient)
        op = self._new_op(next(self._op_ids), found, inputs[: len(found.inputs)], name, chosen, names)
        self._append(op)
        return op.outputs

    def _append(self, op: Op) -> None:
        """Add an op whose name nobody has."""
        self._names[op.name] = op.id
        self._ops += (op,)

    def _free_name(self, name: object) -> str:
        """The name of an input or output to be, which must be free."""
        label = text(name)
        if not label:
            mend = "; it comes before the tensor" if has_type(name, LogicalTensor) else ""
            raise ArgumentError(f"name: {shown(name)}; expected a string that is not empty{mend}")
        if label in self._inputs or label in self._outputs:
            raise ArgumentError(f"name {shown(label)} is taken; inputs and outputs share one namespace")
        return label

    def _known(self, tensor: object) -> LogicalTensor | None:
        """The tensor of this graph that is meant, also by what ``output`` returned; None where there is none."""
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
                return given  # which needs no look at each for a message
        except TypeError:  # a record that was made by hand may have anything for its id
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
        """The name of an op to be, which must be free."""
        label = text(name)
        if not label:
            raise ArgumentError(f"name: {shown(name)}; expected a string that is not empty")
        if label in self._names and self._is_taken(label):
            raise ArgumentError(f"name {shown(label)} is taken by another op")
        return label

    def _op_name(self, stem: str, name: str | None, number: int) -> str:
        """Take ``name`` for an op, else one that is made of its number."""
        label, suffix = name or f"{stem}_{number}", number
        while self._names.setdefault(label, number) != number and self._is_taken(label):
            if name is not None:  # another thread was quicker
                raise ArgumentError(f"name {shown(name)} is taken by another op")
            suffix += 1
            label = f"{stem}_{suffix}"
        return label

    def _is_taken(self, name: str) -> bool:
        """Whether an op has the name; that of one that was not added, for an interrupt, is free."""
        return any(op.name == name for op in self._ops)


def snapshot(graph: AnyGraph) -> AnyGraph:
    """A copy of a graph to read from, as other threads, or signal handlers, may add to the graph meanwhile.

    Raises:
        ArgumentError: it is no graph.
    """
    expect_graph(graph)
    return DataGraph.copy(graph)


def expect_graph(value: object) -> None:
    """Raise ArgumentError where ``value`` is no graph."""
    if not has_type(value, DataGraph):
        raise ArgumentError(f"graph: {shown(value)}; expected a Graph")
