"""From a graph to the JSON form, as the library's own test program reads it.

Its reader stops for good at the first key that it does not know, throws on all but five escapes, and takes ``type``
before ``value`` only. So known keys come first, in its order, and text is escaped no more than it must be.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..errors import ArgumentError, UnsupportedError, shown
from ..op import LogicalTensor, Op
from ..spec.editions import NEWEST, base_of, edition
from ..spec.library import LIBRARY_VALUES
from ..spec.schema import Attribute, AttrValue, Schema, Version
from ..spec.shapes import dense_strides
from .form import ATTR_TYPES, MAX_ID, UNKNOWN, Json
from .names import KEY, VERSION
from .reader import LIBRARY_ATTRIBUTES

if TYPE_CHECKING:
    from ..graph import Graph

TOP_KEYS = ("version", "engine_kind", "fpmath_mode", "input_ports", "output_ports", "graph")
OP_KEYS = ("id", "name", "kind", "attrs", "inputs", "outputs")
TENSOR_KEYS = ("id", "dtype", "shape", "stride", "layout_type", "property_type")
LARGEST = 3.4028234663852886e38
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNREADABLE = re.compile("[\x00-\x1f\ud800-\udfff]")


def as_text(form: Json) -> str:
    """The text of a file."""
    text = json.dumps(form, indent=2, ensure_ascii=False)
    # Halves of characters have no UTF-8; no name that the library reads has one.
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_version(text: object) -> Version:
    """``"3.2"`` or ``"3.2.1"`` as a pair of numbers."""
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\d{1,9})?", text) if isinstance(text, str) else None
    if match is None or int(match[1]) != NEWEST[0]:
        raise ArgumentError(f"for_version: {shown(text)}; expected a version of oneDNN such as '3.2'")
    return int(match[1]), int(match[2])


def as_form(graph: Graph, for_version: str | None = None, data: str | None = None) -> Json:
    """The graph as a JSON object.

    Args:
        graph: the graph.
        for_version: version of oneDNN, such as ``"3.2"``, that is to read it; the newest by default.
        data: name of the file that the constants are in.

    Raises:
        UnsupportedError: the graph has something that this version does not know.
        ArgumentError: there is no such version.
    """
    return _Writing(graph, None if for_version is None else as_version(for_version)).form(data)


def tensor_ids(graph: Graph) -> dict[int, int]:
    """For each tensor of the graph its id in the file."""
    origin = graph._file
    if origin is None:
        return {tensor.id: tensor.id for tensor in graph._tensors}
    numbers = _free(set(origin.tensor_ids.values()))
    return {
        tensor.id: origin.tensor_ids[tensor.id] if tensor.id in origin.tensor_ids else next(numbers)
        for tensor in graph._tensors
    }


def _free(taken: set[int]) -> Iterator[int]:
    """Ids that are not taken: those above all others, as far as there are any."""
    number = max(taken, default=-1) + 1
    if number + 2**32 > MAX_ID:
        number = 0
    while True:
        if number not in taken:
            yield number
        number += 1


class _Writing:
    def __init__(self, graph: Graph, version: Version | None) -> None:
        self.graph, self.version, self.origin = graph, version, graph._file
        self.raw: Json = {} if self.origin is None else self.origin.raw
        self.ids = tensor_ids(graph)
        self.written: dict[int, Json] = {}  # by id in the file, the first use of each tensor
        self.said: dict[str, Json] = {}  # under onegraph, of ops

    def form(self, data: str | None) -> Json:
        """The whole object."""
        graph, raw = self.graph, self.raw
        ops = self._ops()
        unchanged = self.origin is not None and self.origin.unchanged(graph)
        form: dict[str, object] = {}
        if unchanged:
            form.update((key, raw[key]) for key in TOP_KEYS if key in raw)
        else:
            form["version"] = raw.get("version", _version_of(graph))
            form["engine_kind"] = raw.get("engine_kind", "cpu")
            form["fpmath_mode"] = raw.get("fpmath_mode", "strict")
            form["input_ports"] = self._ports(graph.inputs.values())
            form["output_ports"] = self._ports(graph.outputs.values())
        if self.version is not None:
            form["version"] = f"{self.version[0]}.{self.version[1]}.0"
        form["graph"] = ops
        form.update((key, value) for key, value in raw.items() if key not in TOP_KEYS and key != KEY)
        about = raw.get(KEY) if unchanged else self._about()
        if isinstance(about, Mapping):
            about = {key: value for key, value in about.items() if key != "data"}
            form[KEY] = about if data is None else {**about, "data": data}
        return form

    def _ports(self, tensors: Iterable[LogicalTensor]) -> list[int]:
        ids = dict.fromkeys(self.ids[tensor.id] for tensor in tensors)
        return [number for number in ids if number in self.written]

    # Ops --------------------------------------------------------------------------------------------------------------

    def _ops(self) -> list[Json]:
        """Those of the file as they were, in its order; then those that were added."""
        found: list[Json] = []
        graph, order = self.graph, () if self.origin is None else self.origin.op_order
        given = self.raw.get("graph")
        taken = set()
        for raw, place in zip(given if isinstance(given, list) else (), order, strict=True):
            op = graph.ops[place]
            self._hold(op)
            found.append(self._given_op(op, raw))
            taken.add(raw["id"])
            self._say(op, raw["id"], raw.get("name", ""))
        numbers = _free(taken)
        found += [self._new_op(op, next(numbers)) for op in graph.ops[len(order) :]]
        return found

    def _given_op(self, op: Op, raw: Json) -> Json:
        for key in ("inputs", "outputs"):
            for use in raw.get(key, ()):  # type: ignore[attr-defined]
                self.written.setdefault(use["id"], use)
        form = self._ordered(raw, OP_KEYS)
        for key in ("inputs", "outputs"):
            if key in form:
                form[key] = [self._ordered(use, TENSOR_KEYS) for use in form[key]]  # type: ignore[attr-defined]
        if "attrs" in form:
            attrs: Mapping[str, Json] = form["attrs"]  # type: ignore[assignment]
            form["attrs"] = {
                name: self._ordered(value, ("type", "value"))
                for name, value in attrs.items()
                if self.version is None or not (name in LIBRARY_ATTRIBUTES or self._says_nothing(op, name))
            }
        return form

    def _ordered(self, raw: Json, known: tuple[str, ...]) -> dict[str, object]:
        """``raw`` with the known keys first; without the others where a version is to read it that stops at them."""
        form = {key: raw[key] for key in known if key in raw}
        if self.version is None:
            form.update((key, value) for key, value in raw.items() if key not in known)
        return form

    def _new_op(self, op: Op, number: int) -> Json:
        self._hold(op)
        name = _UNREADABLE.sub(" ", op.name)
        self._say(op, number, name)
        schema = _schema(op)
        attrs = {
            key: self._attr(schema.attribute(key), value)
            for key, value in op.attrs.items()
            if not self._left_out(schema.attribute(key), value)
        }
        inputs = [self._tensor(tensor) for tensor in op.inputs if tensor is not None]
        outputs = [self._tensor(tensor) for tensor in op.outputs]
        return dict(zip(OP_KEYS, (number, name, op.kind, attrs, inputs, outputs), strict=True))

    def _attr(self, attribute: Attribute, value: AttrValue) -> Json:
        kind = ATTR_TYPES[attribute.kind]
        if isinstance(value, str):
            word = LIBRARY_VALUES.get(attribute.name, {}).get(value, value)
            return {"type": kind, "value": word if word in attribute.aliases else value}
        scalars = [_number(kind, element) for element in (value if isinstance(value, tuple) else (value,))]
        return {"type": kind, "value": scalars if kind.endswith("[]") else scalars[0]}

    def _say(self, op: Op, number: int, name: object) -> None:
        """Note what the form does not say of an op."""
        said: dict[str, object] = {}
        if op.name != name:
            said["name"] = op.name
        if op.edition != self.graph.edition:
            said["edition"] = op.edition
        endless = {key: str(value) for key, value in op.attrs.items() if isinstance(value, float) and math.isinf(value)}
        if endless:
            said["attrs"] = endless
        if said:
            self.said[str(number)] = said

    # What a version knows ---------------------------------------------------------------------------------------------

    def _hold(self, op: Op) -> None:
        """Raise where the version that is to read the file lacks something of the op."""
        if self.version is None:
            return
        schema = _schema(op)
        needs = [("kind", base_of(schema).since)]
        for name, value in op.attrs.items():
            if schema.has_attribute(name) and not self._left_out(schema.attribute(name), value):
                needs.append((name, schema.attribute(name).since))
        for index, tensor in enumerate(op.inputs):
            if tensor is not None:
                needs += [(schema.input_port(index).name, max(schema.input_port(index).since, tensor.dtype.since))]
        for port, tensor in zip(schema.outputs, op.outputs, strict=False):
            needs.append((port.name, max(port.since, tensor.dtype.since)))
        for where, since in needs:
            if since > self.version:
                raise UnsupportedError(f"{op.kind} {op.name!r}: {where} needs oneDNN {since[0]}.{since[1]}")

    def _says_nothing(self, op: Op, name: str) -> bool:
        schema = _schema(op)
        return (
            name in op.attrs and schema.has_attribute(name) and self._left_out(schema.attribute(name), op.attrs[name])
        )

    def _left_out(self, attribute: Attribute, value: AttrValue) -> bool:
        """Whether an attribute is newer than the version, and says no more than leaving it out does."""
        return self.version is not None and attribute.since > self.version and value == attribute.default

    # Tensors ----------------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: LogicalTensor) -> Json:
        number = self.ids[tensor.id]
        if number not in self.written:
            self.written[number] = _tensor_form(tensor, number)
        return self._ordered(self.written[number], TENSOR_KEYS)

    def _about(self) -> Json:
        """What the form has no place for."""
        graph, ids = self.graph, self.ids
        constants = [tensor for tensor in graph._tensors if tensor.constant]
        used = {t.id: t for t in (*graph.inputs.values(), *graph.outputs.values(), *constants)}
        about: dict[str, object] = {"form": VERSION, "edition": graph.edition}
        about["inputs"] = [{"id": ids[tensor.id], "name": name} for name, tensor in graph.inputs.items()]
        about["outputs"] = [{"id": ids[tensor.id], "name": name} for name, tensor in graph.outputs.items()]
        about["constants"] = [{"id": ids[tensor.id], "name": tensor.name} for tensor in constants]
        about["vectors"] = [ids[tensor.id] for tensor in graph._tensors if tensor.shape == (None,)]
        about["tensors"] = [_tensor_form(t, ids[t.id]) for t in used.values() if ids[t.id] not in self.written]
        about["ops"] = self.said
        return {key: value for key, value in about.items() if value or key in ("inputs", "outputs")}


def _schema(op: Op) -> Schema:
    schema = edition(op.edition).schema(op.kind)
    assert schema is not None
    return schema


def _version_of(graph: Graph) -> str:
    name, _, version = graph.edition.partition("-")
    return f"{version}.0" if name == "onednn" else f"{NEWEST[0]}.{NEWEST[1]}.0"


def _number(kind: str, value: object) -> float | int:
    assert isinstance(value, (int, float))
    if not kind.startswith("f32"):
        return int(value)
    return max(min(float(value), LARGEST), -LARGEST)


def _tensor_form(tensor: LogicalTensor, number: int) -> Json:
    shape = tensor.shape
    dims = [UNKNOWN] if shape is None else [UNKNOWN if dim is None else dim for dim in shape]
    known = UNKNOWN not in dims
    return {
        "id": number,
        "dtype": str(tensor.dtype),
        "shape": dims,
        "stride": list(tensor.strides or dense_strides(dims)) if known else [UNKNOWN] * len(dims),
        "layout_type": "strided" if known else "undef",
        "property_type": "constant" if tensor.constant else "undef",
    }
