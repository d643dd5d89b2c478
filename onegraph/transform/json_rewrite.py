"""Changes a graph through its JSON form, which keeps ids, names and the library's own entries.

The JSON form is changed, all shapes that depend on the change are set to unknown, and reading the form back infers and
checks them again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic

from ..builder.graph import AnyGraph, snapshot
from ..checker.check import ERROR, check_graph
from ..errors import ArgumentError, shown
from ..ir.op import Array
from ..ir.tensor_type import as_shape
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, base_of, edition
from ..opset.ops.quantization import fit_channels
from ..opset.schema import Schema, Shape
from ..opset.shapes import dense_strides, dim_at, known_dims
from ..opset.values import nearest
from ..serialize import write
from ..serialize.document import ATTR_TYPES, FPMATH_MODES, PROPERTIES, UNKNOWN, document, parse_json
from ..serialize.names import KEY, read_names
from ..serialize.reader import build
from ..serialize.writer import op_ids, tensor_ids
from .batch_inputs import with_batch
from .rewrite_values import along, attrs_of, dims_of, strides_of, value_of

JsonObject = dict[str, Any]
FLOATS = ("f32", "bf16", "f16")
REMOVED = "undef"  # the kind that removes an op
CONVERSIONS = ("Quantize", "Dequantize", "DynamicQuantize", "DynamicDequantize", "TypeCast")


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
        graph = snapshot(graph)
        self.before, self.lenient, self.passes_over = graph, lenient, passes_over
        self.passed_over: list[int] = []
        violations = check_graph(graph)  # including notes for shapes that loading corrected
        self.strict = not lenient and not any(
            violation.severity == ERROR or violation.rule == "output_shape" for violation in violations
        )
        self.form: JsonObject = dict(parse_json(write(graph)))
        self.ids = tensor_ids(graph)
        self.constants: dict[int, Array] = {
            self.ids[tensor.id]: tensor.value for tensor in graph._tensors if tensor.value is not None
        }
        self.ops: list[JsonObject] = self.form["graph"]
        self.uses: dict[int, list[JsonObject]] = {}
        about = self.form.get(KEY) or {}
        names = read_names(self.form)
        for op in self.ops:
            op.setdefault("attrs", {})
            # Move infinite numbers from the key onegraph to the attributes, where they can be changed like others.
            for name, value in names.op(op["id"]).attrs.items():
                op["attrs"].get(name, {})["value"] = value
        for notes in about.get("ops", {}).values():
            notes.pop("attrs", None)
        for use in (*(use for op in self.ops for use in (*op["inputs"], *op["outputs"])), *about.get("tensors", ())):
            self.uses.setdefault(use["id"], []).append(use)
        self.inputs = {self.ids[tensor.id]: name for name, tensor in graph.inputs.items()}
        self.changed: set[int] = set()  # ids of changed tensors

    # Finding ops and tensors ------------------------------------------------------------------------------------------

    def _op(self, option: str, key: str | int) -> JsonObject:
        order = {op["id"]: op for op in self.ops}
        if key in order:
            return order[key]
        names = {name: order[number] for name, number in op_ids(self.before).items() if number in order}
        if key in names:
            return names[key]
        listed = ", ".join(f"{form['id']} ({form['kind']} {name!r})" for name, form in [*names.items()][:12])
        listed += ", ..." if len(names) > 12 else ""
        raise ArgumentError(f"{option}: op {shown(key)}; the ops are {listed}{_meant(key, names)}")

    def _tensor(self, option: str, key: str | int) -> int:
        graph = self.before
        for names in (graph.inputs, graph.outputs):
            if isinstance(key, str) and key in names:
                return self.ids[names[key].id]
        if isinstance(key, int) and key in self.uses:
            return key
        listed = ", ".join(f"{number} ({name})" for number, name in [*self.inputs.items()][:12])
        raise ArgumentError(f"{option}: tensor {shown(key)}; the inputs are {listed or 'none'}")

    def _schema(self, op: JsonObject) -> Schema:
        notes = (self.form.get(KEY) or {}).get("ops", {}).get(str(op["id"]), {})
        for name in (notes.get("edition"), self.before.edition, "onednn-3.13", "legacy-1"):
            schema = None if name is None else edition(name).schema(op["kind"])
            if schema is not None:
                return schema
        raise AssertionError(op["kind"])  # the graph was built from it

    # The options ------------------------------------------------------------------------------------------------------

    def set_kinds(self, kinds: Mapping[str | int, Any]) -> None:
        """Replace ops by other ops of their category, or remove them (``undef``).

        Attributes that the new op lacks are dropped.
        """
        for key, kind in kinds.items():
            op = self._op("op_kind", key)
            if type(kind) is str and kind == REMOVED:
                self._remove(op)
                continue
            former = self._schema(op)
            old = {**op}
            op["kind"] = kind
            try:
                schema = self._schema(op) if type(kind) is str else None
            except AssertionError:
                schema = None
            if schema is None or schema.category != former.category or former.category not in ("binary", "elementwise"):
                op.update(old)
                if former.category not in ("binary", "elementwise"):
                    why = "only elementwise and binary ops change"
                    raise ArgumentError(f"op_kind: {former.kind} as {shown(kind)}; {why}")
                schemas = edition(DEFAULT).schemas.values()
                alike = [candidate.kind for candidate in schemas if candidate.category == former.category]
                wanted = f"another op of the category {former.category}{_meant(kind, alike)}"
                raise ArgumentError(f"op_kind: {former.kind} as {shown(kind)}; expected {wanted}")
            op["kind"] = schema.kind
            op["attrs"] = {name: value for name, value in op["attrs"].items() if schema.has_attribute(name)}
            self.changed.update(use["id"] for use in op["outputs"])

    def set_attrs(self, attrs: Mapping[str | int, Any]) -> None:
        """Set attributes of ops."""
        for key, given in attrs.items():
            op = self._op("op_attrs", key)
            schema = self._schema(op)
            for name, value in attrs_of(given).items():
                if not schema.has_attribute(name):
                    names = ", ".join(attribute.name for attribute in schema.attributes)
                    raise ArgumentError(
                        f"op_attrs: {schema.kind} has no attribute {shown(name)}; it has {names or 'none'}"
                    )
                attribute = schema.attribute(name)
                op["attrs"][name] = {"type": ATTR_TYPES[attribute.kind], "value": value_of(attribute, value)}
            self.changed.update(use["id"] for use in op["outputs"])

    def set_shapes(self, shapes: Mapping[str | int, Any]) -> None:
        """Set shapes and strides of graph inputs."""
        for key, given in shapes.items():
            if self.lenient and key not in self.inputs:
                continue
            read = (use["id"] for op in self.ops for use in op["inputs"])
            if self.passes_over and isinstance(key, int) and key not in {*self.inputs, *read}:
                self.passed_over.append(key)
                continue
            number = self._tensor("in_shapes", key)
            if number not in self.inputs:
                what = "a constant whose contents are known" if number in self.constants else "no graph input"
                raise ArgumentError(f"in_shapes: tensor {shown(key)} is {what}; expected a graph input")
            if type(given) is str and given == "default":  # in benchdnn: the shape in the file
                continue
            dims = self.uses[number][0]["shape"]
            strides = None
            if type(given) is str:
                shape, star, order = given.partition("*")
                if shape:
                    dims = [] if shape == "-" else dims_of("in_shapes", shape)
                if star:
                    strides = strides_of(dims, order)
            else:
                try:
                    dims = [operator.index(dim) for dim in as_shape(given) or ()]  # type: ignore[arg-type]
                except (ArgumentError, TypeError):
                    what = "dims such as (2, 64, 56, 56)"
                    raise ArgumentError(f"in_shapes: {shown(given)}; expected {what}") from None
            self._set_shape(number, dims, strides)

    def set_batch(self, mb: int) -> None:
        """Set the batch of all inputs that have one."""
        numbers = with_batch(self.before) if mb else []
        if mb and not numbers:
            raise ArgumentError(f"mb: {mb}; no input of this graph has a batch that no attribute holds too")
        for tensor in numbers:
            number = self.ids[tensor.id]
            use = self.uses[number][0]
            dims, steps = use["shape"], use["stride"]
            order = sorted(range(len(dims)), key=lambda axis: (-steps[axis], axis))
            dims = [mb, *dims[1:]]
            self._set_shape(number, dims, along(dims, order))

    def set_dtype(self, name: str) -> None:
        """Set the data type of all floating-point tensors."""
        if name not in FLOATS:
            raise ArgumentError(f"dt: {shown(name)}; expected one of {', '.join(FLOATS)}, or ID:DTYPE")
        found = [op["kind"] for op in self.ops if base_of(self._schema(op)).kind in CONVERSIONS]
        if found:
            raise ArgumentError(f"dt: {name}, of a graph with {found[0]}; expected floating point alone, or ID:DTYPE")
        kept: set[int] = set()
        for op in self.ops:
            schema = self._schema(op)
            if "_norm" in schema.name:  # statistics, gamma and beta stay f32: allowed always, required with f16
                ports = [schema.input_port(at).type for at in range(len(op["inputs"]))]
                ports += [port.type for port in schema.outputs[: len(op["outputs"])]]
                both = (*op["inputs"], *op["outputs"])
                kept |= {use["id"] for port, use in zip(ports, both, strict=True) if port == "T2"}
        for number, uses in self.uses.items():
            if uses[0]["dtype"] in FLOATS:
                self._set_dtype(number, "f32" if number in kept else name)

    def set_dtypes(self, dtypes: Mapping[str | int, Any]) -> None:
        """Set the data types of single tensors."""
        for key, dtype in dtypes.items():
            try:
                name = str(DataType.of(dtype))
            except ArgumentError as error:
                raise ArgumentError(f"dt: {error}") from None
            self._set_dtype(self._tensor("dt", key), name)

    def set_properties(self, properties: Mapping[str | int, Any]) -> None:
        """Set the property types of tensors."""
        for key, name in properties.items():
            number = self._tensor("tensor_property", key)
            if name not in PROPERTIES:
                raise ArgumentError(f"tensor_property: {shown(name)}; expected one of {', '.join(PROPERTIES)}")
            for use in self.uses[number]:
                use["property_type"] = name

    def set_fpmath(self, text: str) -> None:
        """Set the fpmath mode of the graph, ``MODE`` or ``MODE:APPLY_TO_INT``."""
        mode, _, integers = text.partition(":")
        if mode not in FPMATH_MODES or integers not in ("", "true", "false"):
            wanted = f"MODE or MODE:true, with a mode of {', '.join(FPMATH_MODES)}"
            raise ArgumentError(f"attr_fpmath: {shown(text)}; expected {wanted}")
        self.form.update(fpmath_mode=mode, fpmath_mode_apply_to_int=integers or "false")

    def _remove(self, op: JsonObject) -> None:
        """Remove an op; its readers get the input that it passes on."""
        source, gone = self._passed_on(op), op["outputs"][0]["id"]
        self.changed.add(gone)
        self.ops.remove(op)
        kept = source["id"]
        for use in self.uses.pop(gone):
            if use is not op["outputs"][0]:
                use.clear()
                use.update(source)
                self.uses[kept].append(use)
        about = self.form.get(KEY) or {}
        for entry in (*about.get("inputs", ()), *about.get("outputs", ())):
            entry["id"] = kept if entry["id"] == gone else entry["id"]
        if not any(use["id"] == kept for left in self.ops for use in (*left["inputs"], *left["outputs"])):
            self.form.setdefault(KEY, {}).setdefault("tensors", []).append(source)
        self.form["output_ports"] = [kept if port == gone else port for port in self.form.get("output_ports") or ()]
        self._keep_ports({use["id"] for left in self.ops for use in left["outputs"]} | {kept}, {gone}, [])
        read = {use["id"] for left in self.ops for use in left["inputs"]}
        self.inputs = {number: name for number, name in self.inputs.items() if number in read | {kept}}
        self._keep_op_names()

    def _passed_on(self, op: JsonObject) -> JsonObject:
        """The input that the readers of a removed op get: its only one, or the only one that an op produces."""
        inputs = op["inputs"]
        if self._schema(op).category not in ("binary", "elementwise") or len(inputs) > 2 or len(op["outputs"]) != 1:
            what = "only elementwise and binary ops of one or two inputs are removed"
            raise ArgumentError(f"op_kind: {op['kind']} as {REMOVED!r}; {what}")
        made = {use["id"] for other in self.ops for use in other["outputs"]}
        found = [use for use in inputs if use["id"] in made] if len(inputs) == 2 else inputs
        if len(found) != 1:
            what = "expected one input that an op produces, which the readers get instead"
            raise ArgumentError(f"op_kind: {op['kind']} as {REMOVED!r}: {len(found)} inputs come from ops; {what}")
        source: JsonObject = dict(found[0])
        return source

    def drop_wildcards(self) -> None:
        """Remove all Wildcards: their outputs become graph inputs, and their inputs graph outputs."""
        wild = [op for op in self.ops if op["kind"] == "Wildcard"]
        written = {use["id"] for op in wild for use in op["outputs"]}
        ended = [op for op in self.ops if not op["outputs"] and all(use["id"] in written for use in op["inputs"])]
        dropped = {op["id"] for op in (*wild, *ended)}
        self.ops = self.form["graph"] = [op for op in self.ops if op["id"] not in dropped]
        produced = {use["id"] for op in self.ops for use in op["outputs"]}
        freed = list(dict.fromkeys(use["id"] for op in wild for use in op["inputs"] if use["id"] in produced))
        self._keep_ports(produced, written, freed)
        self._keep_op_names()

    def _keep_ports(self, produced: set[int], written: set[int], freed: Sequence[int]) -> None:
        """Remove ports of removed tensors and of outputs of Wildcards; ``freed`` become graph outputs."""
        about = self.form.get(KEY) or {}
        read = {use["id"] for op in self.ops for use in op["inputs"]}
        kept = produced.union(read, (use["id"] for use in about.get("tensors", ()))) - written
        for key in ("input_ports", "output_ports"):
            self.form[key] = [number for number in self.form.get(key) or () if number in kept]
        self.form["output_ports"] = list(dict.fromkeys([*self.form["output_ports"], *freed]))
        for key in {"inputs", "outputs"} & about.keys():
            about[key] = [entry for entry in about[key] if entry["id"] in kept]
        if "outputs" not in about:
            return
        named = {entry["id"]: entry["name"] for key in ("inputs", "outputs") for entry in about[key]}
        for number in freed:
            if number not in named:
                name = f"t{number}"
                while name in named.values():
                    name += "_"
                named[number] = name
                about["outputs"].append({"id": number, "name": name})

    def _keep_op_names(self) -> None:
        """Write out generated op names: without the Wildcards, reading the form would number the ops differently."""
        names = {number: name for name, number in op_ids(self.before).items()}
        for op in self.ops:
            if op["name"] != names[op["id"]]:
                notes = self.form.setdefault(KEY, {}).setdefault("ops", {})
                notes.setdefault(str(op["id"]), {})["name"] = names[op["id"]]

    # Changes ----------------------------------------------------------------------------------------------------------

    def _set_shape(self, number: int, dims: Sequence[int], strides: Sequence[int] | None) -> None:
        for use in self.uses[number]:
            use["shape"] = list(dims)
            use["stride"] = list(dense_strides(dims) if strides is None else strides)
            use["layout_type"] = "strided"
        self.changed.add(number)

    def _set_dtype(self, number: int, name: str) -> None:
        for use in self.uses[number]:
            use["dtype"] = name
        if number in self.constants:
            self.constants[number] = self.constants[number].astype(DataType[name].numpy)

    def graph(self) -> AnyGraph:
        """The changed graph.

        Raises:
            SpecError: an op of it breaks the specification.
            FormatError: tensors of it do not fit together.
        """
        self._spread()
        self.changed &= self.uses.keys()  # without the tensors of removed ops
        for use in [use for number in self.changed - set(self.inputs) for use in self.uses[number]]:
            use.update(shape=[UNKNOWN], stride=[UNKNOWN], layout_type="undef")
        quantizers = [op for op in self.ops if self._is_per_channel(op)]
        full = [op["attrs"] for op in quantizers]
        # The number of scales depends on shapes that are not inferred yet, so first infer as if per_tensor.
        for op in quantizers:
            op["attrs"] = {name: _single(name, attr) for name, attr in op["attrs"].items()}
        inferred = self._read()
        tensors = {number: inferred._tensors[own] for own, number in tensor_ids(inferred).items()}
        for op, attrs in zip(quantizers, full, strict=True):
            op["attrs"] = _fitted(attrs, tensors[op["inputs"][0]["id"]].shape)
        for number in self.changed - set(self.inputs):
            shape = tensors[number].shape
            if shape is not None and None not in shape:
                self._set_shape(number, known_dims(shape), None)
        return self._read()

    def _spread(self) -> None:
        """Mark every tensor that depends on a changed one as changed; nothing follows from inputs of a Wildcard."""
        for op in self.before.ops:
            followed = any(tensor is not None and self.ids[tensor.id] in self.changed for tensor in op.inputs)
            if followed and op.kind != "Wildcard":
                self.changed.update(self.ids[tensor.id] for tensor in op.outputs)

    def _is_per_channel(self, op: JsonObject) -> bool:
        attrs = op["attrs"]
        per_channel = attrs.get("qtype", {}).get("value") == "per_channel" and "scales" in attrs
        return per_channel and op["inputs"][0]["id"] in self.changed

    def _read(self) -> AnyGraph:
        found, names = document(self.form), read_names(self.form)
        graph = self.before._empty(names.edition, strict=self.strict)
        build(graph, found, names, self.constants)
        for name, tensor in graph.outputs.items():
            old = self.before.outputs.get(name)
            if old is not None and self.ids[old.id] not in self.changed:
                graph._outputs[name] = tensor._laid_out(old.strides)  # reading ignores strides with gaps
        return graph


def without_wildcards(graph: AnyGraph) -> AnyGraph:
    """See :meth:`onegraph.Graph.without_wildcards`."""
    if not any(op.kind == "Wildcard" for op in graph.ops):
        return graph.copy()
    work = JsonRewrite(graph, lenient=not graph.strict)
    work.drop_wildcards()
    return work.graph()


# Scales and zero points -----------------------------------------------------------------------------------------------


def _single(name: str, attr: JsonObject) -> JsonObject:
    """The attribute of a per_channel op, converted to per_tensor."""
    if name == "qtype":
        return {**attr, "value": "per_tensor"}
    return {**attr, "value": attr["value"][:1]} if name in ("scales", "zps") else attr


def _fitted(attrs: JsonObject, shape: Shape) -> JsonObject:
    """Attributes of a per_channel op, with one scale and one zero point for each channel of ``shape``."""
    count = dim_at(shape, attrs["axis"]["value"] if "axis" in attrs else 1)
    if count is None:
        return attrs
    scales, zps = fit_channels(attrs["scales"]["value"], attrs.get("zps", {}).get("value", ()), count)
    values = {"scales": scales, "zps": zps}
    return {name: {**attr, "value": values.get(name, attr["value"])} for name, attr in attrs.items()}


def _meant(given: object, choices: Iterable[str]) -> str:
    close = nearest(given, choices) if type(given) is str else None
    return f"; did you mean {close!r}?" if close else ""
