"""Changes graphs by the options of benchdnn."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Generic

from ..builder.graph import AnyGraph
from ..errors import ArgumentError, shown
from ..ir.tensor_type import as_shape
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, base_of, edition
from ..serialize.document import ATTR_TYPES, FPMATH_MODES, PROPERTIES
from .batch_inputs import with_batch
from .json_form import JsonForm, meant
from .json_removal import REMOVED, remove
from .rewrite_values import along, attrs_of, dims_of, strides_of, value_of

FLOATS = ("f32", "bf16", "f16")


class JsonRewrite(Generic[AnyGraph]):
    """A graph that is being changed.

    Args:
        graph: the graph to change; it stays unchanged itself.
        lenient: True ignores shapes for tensors that are not graph inputs, and allows breaches of the specification
            that the library accepts. Breaches are also allowed if the graph already has some.
        passes_over: True ignores a shape only if no op reads the tensor, as benchdnn does, and adds the tensor's id to
            ``passed_over``.
    """

    def __init__(self, graph: AnyGraph, *, lenient: bool = False, passes_over: bool = False) -> None:
        self._lenient, self._passes_over = lenient, passes_over
        self.passed_over: list[int] = []
        self._form = JsonForm(graph, lenient=lenient)

    def graph(self) -> AnyGraph:
        """The changed graph.

        Raises:
            SpecError: an op of it breaks the specification.
            FormatError: tensors of it do not fit together.
        """
        return self._form.graph()

    def set_kinds(self, kinds: Mapping[str | int, Any]) -> None:
        """Replace ops by other ops of their category, or remove them (``undef``).

        Attributes that the new op lacks are dropped.
        """
        for key, kind in kinds.items():
            op = self._form.op("op_kind", key)
            if type(kind) is str and kind == REMOVED:
                remove(self._form, op)
                continue
            former = self._form.schema(op)
            old = {**op}
            op["kind"] = kind
            try:
                schema = self._form.schema(op) if type(kind) is str else None
            except AssertionError:
                schema = None
            if schema is None or schema.category != former.category or former.category not in ("binary", "elementwise"):
                op.update(old)
                if former.category not in ("binary", "elementwise"):
                    why = "only elementwise and binary ops change"
                    raise ArgumentError(f"op_kind: {former.kind} as {shown(kind)}; {why}")
                schemas = edition(DEFAULT).schemas.values()
                alike = [candidate.kind for candidate in schemas if candidate.category == former.category]
                wanted = f"another op of the category {former.category}{meant(kind, alike)}"
                raise ArgumentError(f"op_kind: {former.kind} as {shown(kind)}; expected {wanted}")
            op["kind"] = schema.kind
            op["attrs"] = {name: value for name, value in op["attrs"].items() if schema.has_attribute(name)}
            self._form.changed.update(use["id"] for use in op["outputs"])

    def set_attrs(self, attrs: Mapping[str | int, Any]) -> None:
        """Set attributes of ops."""
        for key, words in attrs.items():
            op = self._form.op("op_attrs", key)
            schema = self._form.schema(op)
            for name, value in attrs_of(words).items():
                if not schema.has_attribute(name):
                    names = ", ".join(attribute.name for attribute in schema.attributes)
                    raise ArgumentError(
                        f"op_attrs: {schema.kind} has no attribute {shown(name)}; it has {names or 'none'}"
                    )
                attribute = schema.attribute(name)
                op["attrs"][name] = {"type": ATTR_TYPES[attribute.kind], "value": value_of(attribute, value)}
            self._form.changed.update(use["id"] for use in op["outputs"])

    def set_shapes(self, shapes: Mapping[str | int, Any]) -> None:
        """Set shapes and strides of graph inputs."""
        for key, value in shapes.items():
            if self._lenient and key not in self._form.inputs:
                continue
            read = (use["id"] for op in self._form.ops for use in op["inputs"])
            if self._passes_over and isinstance(key, int) and key not in {*self._form.inputs, *read}:
                self.passed_over.append(key)
                continue
            number = self._form.tensor("in_shapes", key)
            if number not in self._form.inputs:
                expected = "a constant whose contents are known" if number in self._form.constants else "no graph input"
                raise ArgumentError(f"in_shapes: tensor {shown(key)} is {expected}; expected a graph input")
            if type(value) is str and value == "default":  # in benchdnn: the shape in the file
                continue
            dims = self._form.uses[number][0]["shape"]
            strides = None
            if type(value) is str:
                shape, star, order = value.partition("*")
                if shape:
                    dims = [] if shape == "-" else dims_of("in_shapes", shape)
                if star:
                    strides = strides_of(dims, order)
            else:
                try:
                    dims = [operator.index(dim) for dim in as_shape(value) or ()]  # type: ignore[arg-type]
                except (ArgumentError, TypeError):
                    expected = "dims such as (2, 64, 56, 56)"
                    raise ArgumentError(f"in_shapes: {shown(value)}; expected {expected}") from None
            self._form.set_shape(number, dims, strides)

    def set_batch(self, mb: int) -> None:
        """Set the batch of all inputs that have one."""
        numbers = with_batch(self._form.before) if mb else []
        if mb and not numbers:
            raise ArgumentError(f"mb: {mb}; no input of this graph has a batch that no attribute holds too")
        for tensor in numbers:
            number = self._form.ids[tensor.id]
            use = self._form.uses[number][0]
            dims, steps = use["shape"], use["stride"]
            order = sorted(range(len(dims)), key=lambda axis: (-steps[axis], axis))
            dims = [mb, *dims[1:]]
            self._form.set_shape(number, dims, along(dims, order))

    def set_dtype(self, name: str) -> None:
        """Set the data type of all floating-point tensors."""
        if name not in FLOATS:
            raise ArgumentError(f"dt: {shown(name)}; expected one of {', '.join(FLOATS)}, or ID:DTYPE")
        floats = [
            op["kind"]
            for op in self._form.ops
            if base_of(self._form.schema(op)).category == "quantization" and not self._is_cast_of_floats(op)
        ]
        if floats:
            raise ArgumentError(f"dt: {name}, of a graph with {floats[0]}; expected floating point alone, or ID:DTYPE")
        kept: set[int] = set()
        for op in self._form.ops:
            schema = self._form.schema(op)
            if "_norm" in schema.name:  # statistics, gamma and beta stay f32: allowed always, required with f16
                ports = [schema.input_port(at).type for at in range(len(op["inputs"]))]
                ports += [port.type for port in schema.outputs[: len(op["outputs"])]]
                ends = (*op["inputs"], *op["outputs"])
                kept |= {use["id"] for port, use in zip(ports, ends, strict=True) if port == "T2"}
        for number, uses in self._form.uses.items():
            if uses[0]["dtype"] in FLOATS:
                self._form.set_dtype(number, "f32" if number in kept else name)
        for op in [*self._form.ops]:
            if self._is_cast_of_floats(op) and op["inputs"][0]["dtype"] == op["outputs"][0]["dtype"]:
                remove(self._form, op)  # as in a graph of bf16 between inputs and outputs of f32

    def _is_cast_of_floats(self, op: Mapping[str, Any]) -> bool:
        """Whether an op converts between data types that become one."""
        ends = [use["dtype"] for use in (*op["inputs"], *op["outputs"])]
        return bool(op["kind"] == "TypeCast" and all(dtype in FLOATS for dtype in ends))

    def set_dtypes(self, dtypes: Mapping[str | int, Any]) -> None:
        """Set the data types of single tensors."""
        for key, dtype in dtypes.items():
            try:
                name = str(DataType.of(dtype))
            except ArgumentError as error:
                raise ArgumentError(f"dt: {error}") from None
            self._form.set_dtype(self._form.tensor("dt", key), name)

    def set_properties(self, properties: Mapping[str | int, Any]) -> None:
        """Set the property types of tensors."""
        for key, name in properties.items():
            number = self._form.tensor("tensor_property", key)
            if name not in PROPERTIES:
                raise ArgumentError(f"tensor_property: {shown(name)}; expected one of {', '.join(PROPERTIES)}")
            for use in self._form.uses[number]:
                use["property_type"] = name

    def set_fpmath(self, text: str) -> None:
        """Set the fpmath mode of the graph, ``MODE`` or ``MODE:APPLY_TO_INT``."""
        mode, _, integers = text.partition(":")
        if mode not in FPMATH_MODES or integers not in ("", "true", "false"):
            wanted = f"MODE or MODE:true, with a mode of {', '.join(FPMATH_MODES)}"
            raise ArgumentError(f"attr_fpmath: {shown(text)}; expected {wanted}")
        self._form.root.update(fpmath_mode=mode, fpmath_mode_apply_to_int=integers or "false")
