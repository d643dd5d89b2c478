"""Adds ops to a graph: shapes are inferred, and all mistakes of an op are reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from .._util.exact_types import elements, has_type, real, text
from ..errors import ArgumentError, SpecError, shown
from ..inference.suggestions import other_form, refused_operand
from ..inference.violations import shortened
from ..ir.op import LogicalTensor, Op, Signature, make_op
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, HOST, Edition
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Schema
from ..opset.signature import AttrValue
from .op_outputs import count_outputs, operand_type, result_type
from .operators import EXACT, ONE_OPERAND, array_of_numbers, contents_like, is_array, op_of, type_of
from .parts import add_part
from .quotients import add_floor_of_quotient
from .signature_cache import signature
from .tensors import GraphTensors
from .transaction import adds, atomic

if TYPE_CHECKING:
    from .op_methods import Operand, SingleOutput


class OpAdding(GraphTensors):
    """The calls that add ops: :meth:`op`, Python's operators, and the cast of a bias."""

    @overload
    def op(
        self,
        kind: SingleOutput,
        inputs: Sequence[Operand | None] | LogicalTensor,
        attrs: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
        edition: str | None = None,
    ) -> LogicalTensor: ...

    @overload
    def op(
        self,
        kind: str,
        inputs: Sequence[Operand | None] | LogicalTensor,
        attrs: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
        edition: str | None = None,
    ) -> Any: ...

    @atomic
    def op(
        self,
        kind: str,
        inputs: Sequence[Operand | None] | LogicalTensor,
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
            inputs: tensors of this graph in port order; None omits an optional input if no later input is given. An
                array becomes a constant of the data type of the other inputs, or of the one that the port takes.
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
        tensors = [] if schema is None else self._op_inputs(inputs, schema)
        if name is not None:
            name = self._free_op_name(name)
        try:
            wanted = None if dtype is None else DataType.of(dtype)
        except ArgumentError as error:
            raise ArgumentError(f"{shortened(kind)}: dtype: {error}") from None
        count = None if schema is None or outputs is None else count_outputs(schema, outputs)
        lenient = not self.strict
        try:
            inferred = signature(
                chosen, kind, attrs, tensors, name=name or "", dtype=wanted, n_outputs=count, lenient=lenient
            )
        except SpecError as error:
            raise error.with_hint(other_form(schema, chosen, tensors, error.violations)) from None
        while tensors and tensors[-1] is None:
            tensors.pop()
        ports, number = inferred.schema.outputs, self._number()
        label = self._op_name(inferred.schema.name, name, number)
        op = self._new_op(number, inferred, tensors, label, chosen, [f"{label}.{port.name}" for port in ports])
        result: Any = op.outputs
        if len(result) == 1:
            (result,) = result
        else:
            result = result_type(inferred.schema.kind, tuple(port.name for port in ports[: len(result)]))._make(result)
        adds(self, self._ops, op)
        self._ops += (op,)
        return result

    @atomic
    def _operator(self, sign: str, left: object, right: object) -> LogicalTensor:
        """Add the op of an operator; NotImplemented if an operand is neither a tensor nor numbers.

        Raises:
            SpecError: the op cannot have these tensors.
            ArgumentError: a tensor belongs to another graph, or its data type does not hold the numbers.
        """
        like = cast("LogicalTensor", left if has_type(left, LogicalTensor) else right)
        power = real(right) if sign == "**" and like is left else None
        if power is not None and like.dtype not in EXACT and not like.dtype.is_host:
            return self.square(like) if power == 2 else self.pow(like, beta=power)
        kind, edition, swapped = op_of(sign, like.dtype)
        if right is None and sign in ONE_OPERAND:
            return cast("LogicalTensor", self.op(kind, [like], edition=edition))
        tensors: list[LogicalTensor] = []
        for operand in (right, left) if swapped else (left, right):
            if has_type(operand, LogicalTensor):
                tensors.append(operand)
            elif (contents := contents_like(kind, operand, like)) is not None:
                tensors.append(self.constant(contents, dtype=like.dtype))
            else:
                return cast("LogicalTensor", NotImplemented)  # Python then raises a TypeError that names both types
        if sign == "**" and tensors[0].dtype is not tensors[1].dtype:  # Pow of ONNX would cut the power to an integer
            exponent = tensors[tensors[0] is like]
            fix = f"g.cast(tensor, dtype=...) converts {exponent.dtype}"
            raise ArgumentError(
                f"{kind}: {exponent.name} is {exponent.dtype}; expected {like.dtype}, as {like.name} is; {fix}"
            )
        if sign == "//":
            return add_floor_of_quotient(self.op, *tensors)
        return cast("LogicalTensor", self.op(kind, tensors, edition=edition))

    @atomic
    def _part(self, tensor: LogicalTensor, place: object) -> LogicalTensor:
        """Add the ops that take a part of a tensor of this graph."""
        return add_part(self.op, self._own(tensor, "index"), place)

    @atomic
    def _op_with_bias(
        self,
        schema: Schema,
        tensors: list[Any],
        attrs: Mapping[str, object],
        place: int,
        options: Mapping[str, Any],
    ) -> Any:
        """Add an op of the base vocabulary whose input ``place`` is its bias.

        If the bias is f32 and the first input bf16 or f16, the bias is cast to that. A refused op leaves no cast.
        """
        known = self._op_inputs(tensors, schema)
        first, bias = known[0], known[place]
        is_narrow = first is not None and first.dtype in (DataType.bf16, DataType.f16)
        if first is not None and is_narrow and bias is not None and bias.dtype is DataType.f32:
            known[place] = self.type_cast(bias, dtype=first.dtype)
        return self.op(schema.kind, known, attrs, edition=DEFAULT, **options)

    def _new_op(
        self,
        number: int,
        inferred: Signature,
        inputs: Sequence[LogicalTensor | None],
        name: str,
        chosen: Edition,
        names: Sequence[str],
    ) -> Op:
        """Create an op from its signature and its output tensors, named ``names``, without adding it to the graph."""
        ends = zip(names, inferred.dtypes, inferred.shapes, strict=False)
        results = tuple([self._tensor(dtype, shape, text) for text, dtype, shape in ends])
        kept = None if inferred.lenient else inferred
        return make_op(number, inferred.schema.kind, tuple(inputs), results, inferred.attrs, name, chosen.name, kept)

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
        inferred = signature(chosen, kind, attrs, inputs, name=name, n_outputs=count, dtypes=dtypes, lenient=lenient)
        op = self._new_op(self._number(), inferred, inputs[: len(inferred.inputs)], name, chosen, names)
        self._append(op)
        return op.outputs

    def _repeat_op(self, op: Op, inputs: Sequence[LogicalTensor | None]) -> tuple[LogicalTensor, ...]:
        """Add an op of another graph, with its names, and return its outputs.

        Args:
            op: the op, whose name must be free.
            inputs: tensors of this graph, with the types of the op's inputs.
        """
        chosen, names = edition_named(op.edition), [tensor.name for tensor in op.outputs]
        if op.signature is None:  # that of an op that breaks the specification depends on this graph
            types = tuple(tensor.dtype for tensor in op.outputs)
            return self._add_op(chosen, op.kind, dict(op.attrs), inputs, types, name=op.name, names=names)
        repeated = self._new_op(self._number(), op.signature, inputs, op.name, chosen, names)
        self._append(repeated)
        return repeated.outputs

    def _number(self) -> int:
        """The number of a new op."""
        number = next(self._op_ids)
        adds(self, self._op_ids, number)
        return number

    def _append(self, op: Op) -> None:
        """Add an op whose name is free."""
        adds(self, self._names, op.name, op.id)
        adds(self, self._ops, op)
        self._names[op.name] = op.id
        self._ops += (op,)

    def _op_inputs(self, inputs: object, schema: Schema) -> list[LogicalTensor | None]:
        listed = [inputs] if has_type(inputs, LogicalTensor) else elements(inputs)
        if listed is None:
            raise ArgumentError(f"{schema.kind}: inputs: {shown(inputs)}; expected a list of tensors of this graph")
        own = self._by_id
        try:
            for tensor in listed:
                if type(tensor) is not LogicalTensor or own.get(tensor.id) is not tensor:
                    break
            else:
                return listed  # the common case, which needs no message
        except TypeError:  # the id of a user-made record may be unhashable
            pass
        known = [None if tensor is None else self._known(tensor) for tensor in listed]
        for index, (tensor, known_tensor) in enumerate(zip(listed, known, strict=True)):
            if tensor is not None and known_tensor is None:
                known[index] = self._as_constant(schema, known, index, tensor)
                if known[index] is None:
                    self._refuse_former(tensor, f"inputs[{index}]")
                    raise ArgumentError(refused_operand(schema, listed, index))
        return known

    def _as_constant(
        self, schema: Schema, known: Sequence[LogicalTensor | None], index: int, value: object
    ) -> LogicalTensor | None:
        """The constant of an array that is given as input ``index`` of an op; None for other values.

        Ops that broadcast take a number too, which becomes a scalar of the data type of the other operand; host ops
        take numbers and lists of them. Numbers of float64 that no other input makes such become f32.
        """
        if not (index < len(schema.inputs) or schema.variadic):
            return None
        own, hosted = None, schema.category == HOST
        if hosted:
            value = array_of_numbers(value)
        if real(value) is not None and schema.has_attribute("auto_broadcast"):
            if schema.inputs[index].type in DataType.__members__ or all(one is None for one in known):
                return None
            value, own = value if has_type(value, (int, float)) else np.asarray(value), DataType.f32
        elif not is_array(value):
            return None
        label_text = f"{schema.kind}: {schema.input_port(index).name}"
        types = [None if one is None else one.dtype for one in known]
        own = own or type_of(value)
        dtype = operand_type(schema, types, index, DataType.f32 if hosted and own is DataType.float64 else own)
        if dtype is None and real(value) is not None:  # the check of the op refuses the types
            dtype = next(filter(None, types), None)
        if dtype is None:
            try:
                return self.constant(value) if is_array(value) else None
            except ArgumentError as error:
                raise ArgumentError(f"{label_text}: {error}") from None
        like = next((one for one in known if one is not None and one.dtype is dtype), None)
        if like is None:
            like = LogicalTensor(-1, dtype, None, name="the input")
        contents = contents_like(label_text, value, like)
        return self.constant(contents, dtype=dtype)

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
        adds(self, self._names, label, number)
        return label

    def _is_taken(self, name: str) -> bool:
        """Whether an op of the graph has the name; the name of an op whose addition was interrupted is free."""
        return any(op.name == name for op in self._ops)
