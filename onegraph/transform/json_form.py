"""The JSON form of a graph, which keeps ids, names and the library's own entries while a graph is changed.

After a change, all shapes that depend on it are set to unknown, and reading the form back infers and checks them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic

from .._util.counted import some_of
from ..builder.graph import AnyGraph, snapshot
from ..checker.check import ERROR, check_graph
from ..errors import ArgumentError, shown
from ..ir.op import Array
from ..opset.dtypes import DataType
from ..opset.editions.registry import edition
from ..opset.ops.quantization import fit_channels
from ..opset.schema import Schema
from ..opset.shapes import dense_strides, dim_at, known_dims
from ..opset.signature import Shape
from ..opset.values import nearest
from ..serialize import write
from ..serialize.document import UNKNOWN, document, parse_json
from ..serialize.names import KEY, read_names
from ..serialize.reader import build
from ..serialize.writer import op_ids, tensor_ids

JsonObject = dict[str, Any]


class JsonForm(Generic[AnyGraph]):
    """A graph that is being changed.

    Args:
        graph: the graph to change; it stays unchanged itself.
        lenient: whether the changed graph may break the specification where the library accepts it. It may also if the
            graph already does.

    Attributes:
        before: the graph before the changes.
        root: the whole form.
        ops: the ops in the form.
        uses: by id, the entries of a tensor in the form.
        inputs: the names of the graph inputs by id.
        constants: the contents of tensors by id.
        changed: ids of changed tensors.
    """

    def __init__(self, graph: AnyGraph, *, lenient: bool) -> None:
        graph = snapshot(graph)
        self.before, self._strict = graph, not lenient and _keeps_specification(graph)
        self.root: JsonObject = dict(parse_json(write(graph)))
        self.ids = tensor_ids(graph)
        self.constants: dict[int, Array] = {
            self.ids[tensor.id]: tensor.value for tensor in graph._tensors if tensor.value is not None
        }
        self.ops: list[JsonObject] = self.root["graph"]
        self.uses: dict[int, list[JsonObject]] = {}
        about = self.root.get(KEY) or {}
        names = read_names(self.root)
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
        self.changed: set[int] = set()

    def op(self, option: str, key: str | int) -> JsonObject:
        """The op with this id or name; ``option`` names the source of the key in messages."""
        order = {op["id"]: op for op in self.ops}
        if key in order:
            return order[key]
        names = {name: order[number] for name, number in op_ids(self.before).items() if number in order}
        if key in names:
            return names[key]
        listed = some_of(f"{form['id']} ({form['kind']} {name!r})" for name, form in names.items())
        raise ArgumentError(f"{option}: op {shown(key)}; the ops are {listed}{meant(key, names)}")

    def tensor(self, option: str, key: str | int) -> int:
        """The id of the tensor with this id, or of the graph input or output with this name."""
        for name, tensor in (*self.before.inputs.items(), *self.before.outputs.items()):
            if name == key:
                return self.ids[tensor.id]
        for number in self.uses:
            if number == key:
                return number
        listed = some_of(f"{number} ({name})" for number, name in self.inputs.items())
        raise ArgumentError(f"{option}: tensor {shown(key)}; the inputs are {listed}")

    def schema(self, op: JsonObject) -> Schema:
        """The schema of an op; AssertionError if no edition has its kind."""
        notes = (self.root.get(KEY) or {}).get("ops", {}).get(str(op["id"]), {})
        for name in (notes.get("edition"), self.before.edition, "onednn-3.13", "legacy-1"):
            schema = None if name is None else edition(name).schema(op["kind"])
            if schema is not None:
                return schema
        raise AssertionError(op["kind"])  # the graph was built from it

    def keep_op_names(self) -> None:
        """Write out generated op names: without some of the ops, reading the form would number the ops differently."""
        names = {number: name for name, number in op_ids(self.before).items()}
        for op in self.ops:
            if op["name"] != names[op["id"]]:
                notes = self.root.setdefault(KEY, {}).setdefault("ops", {})
                notes.setdefault(str(op["id"]), {})["name"] = names[op["id"]]

    def set_shape(self, number: int, dims: Sequence[int], strides: Sequence[int] | None) -> None:
        """Set the shape of a tensor; the strides are dense by default."""
        for use in self.uses[number]:
            use["shape"] = list(dims)
            use["stride"] = list(dense_strides(dims) if strides is None else strides)
            use["layout_type"] = "strided"
        self.changed.add(number)

    def set_dtype(self, number: int, name: str) -> None:
        """Set the data type of a tensor, and cast its contents if they are known."""
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
                self.set_shape(number, known_dims(shape), None)
        return self._read()

    def _spread(self) -> None:
        """Mark every tensor that depends on a changed one as changed; nothing follows from inputs of a Wildcard."""
        for op in self.before.ops:
            followed = any(self.ids[tensor.id] in self.changed for tensor in op.inputs)
            if followed and op.kind != "Wildcard":
                self.changed.update(self.ids[tensor.id] for tensor in op.outputs)

    def _is_per_channel(self, op: JsonObject) -> bool:
        attrs = op["attrs"]
        per_channel = attrs.get("qtype", {}).get("value") == "per_channel" and "scales" in attrs
        return per_channel and op["inputs"][0]["id"] in self.changed

    def _read(self) -> AnyGraph:
        doc, names = document(self.root), read_names(self.root)
        graph = self.before._empty(names.edition, strict=self._strict)
        build(graph, doc, names, self.constants)
        for name, tensor in graph.outputs.items():
            old = self.before.outputs.get(name)
            if old is not None and self.ids[old.id] not in self.changed:
                graph._outputs[name] = tensor._laid_out(old.strides)  # reading ignores strides with gaps
        return graph


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


def meant(word: object, choices: Iterable[str]) -> str:
    """The choice that was probably meant, for messages; empty if none is close."""
    close = nearest(word, choices) if type(word) is str else None
    return f"; did you mean {close!r}?" if close else ""


def _keeps_specification(graph: AnyGraph) -> bool:
    """Whether a graph has no breach, and no shape that loading corrected, which is a note."""
    return not any(violation.severity == ERROR or violation.rule == "output_shape" for violation in check_graph(graph))
