"""Writes a graph in the JSON form that benchdnn reads.

The reader of benchdnn stops at the first unknown key, throws on all but five escapes, and needs ``type`` before
``value``. Therefore known keys come first, in its order, and text is escaped as little as possible. Netron needs every
key, and equal records for all uses of a tensor. Therefore a file that is written for a version is completed, and its
uses are made equal. Without a version, the contents of a loaded file are written back unchanged, unknown keys last.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..faults.capabilities import LIBRARY_VALUES
from ..ir.file_origin import FileOrigin, Json
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.editions.registry import RELEASED
from ..opset.signature import Attribute, AttrValue, Version
from .document import ATTR_TYPES, MAX_ID
from .for_version import ForVersion
from .names import KEY, VERSION
from .reader import LIBRARY_ATTRIBUTES
from .tensor_uses import FileUses, completed, tensor_form

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

OP_KEYS = ("id", "name", "kind", "attrs", "inputs", "outputs")
TENSOR_KEYS = ("id", "dtype", "shape", "stride", "layout_type", "property_type")
LATER_KEYS = ("fpmath_mode_apply_to_int",)  # written last, because older readers stop at them
LARGEST = 3.4028234663852886e38
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNREADABLE = re.compile("[\x00-\x1f\ud800-\udfff]")


def as_text(form: Json) -> str:
    """The JSON text of a file."""
    text = json.dumps(form, indent=2, ensure_ascii=False)
    # Lone surrogates have no UTF-8 encoding, so they are escaped; keys that the library reads have none.
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_form(graph: DataGraph, version: Version | None = None, data: str | None = None) -> Json:
    """The graph as a JSON object.

    Args:
        graph: the graph.
        version: version of oneDNN that is to read it; None writes a loaded file back as it was.
        data: name of the file that holds the constants.

    Raises:
        UnsupportedError: the graph uses a feature that this version lacks.
    """
    return _Writing(graph, version).form(data)


def tensor_ids(graph: DataGraph) -> dict[int, int]:
    """Map the id of each tensor of the graph to its id in the file."""
    origin = graph._file
    if origin is None:
        return {tensor.id: tensor.id for tensor in graph._tensors}
    numbers = _free(set(origin.tensor_ids.values()))
    return {
        tensor.id: origin.tensor_ids[tensor.id] if tensor.id in origin.tensor_ids else next(numbers)
        for tensor in graph._tensors
    }


def op_ids(graph: DataGraph) -> dict[str, int]:
    """Map the name of each op of the graph to its id in the file."""
    order: tuple[int, ...] = () if graph._file is None else graph._file.op_order
    raw_ops: Any = () if graph._file is None else graph._file.raw["graph"]
    ids = {graph.ops[place].name: raw["id"] for raw, place in zip(raw_ops, order, strict=True)}
    numbers = _free({*ids.values()})
    return ids | {op.name: next(numbers) for op in graph.ops[len(order) :]}


def _free(taken: set[int]) -> Iterator[int]:
    """Free ids: above all taken ones, or from 0 if the taken ones are near the maximum."""
    number = max(taken, default=-1) + 1
    if number + 2**32 > MAX_ID:
        number = 0
    while True:
        if number not in taken:
            yield number
        number += 1


def _known_first(raw: Json, known: Sequence[str]) -> Json:
    """The same object with the keys in ``known`` first."""
    return {key: raw[key] for key in (*(key for key in known if key in raw), *(key for key in raw if key not in known))}


class _Writing:
    def __init__(self, graph: DataGraph, version: Version | None) -> None:
        self.variables, self.next = dict(graph.variables), dict(graph._next)
        self.graph = graph = graph._as_step()
        self.version, self.origin = version, graph._file
        self.raw: Json = {} if self.origin is None else self.origin.raw
        self.ids = tensor_ids(graph)
        self.written: dict[int, Json] = {}  # tensor id in the file -> its first use
        self.op_notes: dict[str, Json] = {}  # op id in the file -> its record under the key onegraph
        read = (tensor.id for op in graph.ops for tensor in op.inputs)
        written = {tensor.id for op in graph.ops for tensor in op.outputs}
        wanted = {*read, *(tensor.id for tensor in graph.outputs.values())}
        self.known = ForVersion(version, wanted, {tensor.id for tensor in graph._tensors} - written)
        input_ids = {tensor.id for tensor in graph.inputs.values()}
        self.constant = {graph.inputs[name].id for name in graph.constant_inputs}
        self.returned = {t.id: t for t in graph.outputs.values() if t.id not in input_ids and not t.constant}
        self.is_lost = False  # whether a value of the loaded file changed and is now only under the key onegraph

    def form(self, data: str | None) -> Json:
        """The JSON object of the whole file."""
        graph, raw = self.graph, self.raw
        ops = self._ops()
        unchanged = self.origin is not None and _is_unchanged(graph, self.origin)
        form: dict[str, object] = {
            "version": _UNREADABLE.sub(" ", str(raw.get("version") or _version_of(graph))),
            "engine_kind": raw.get("engine_kind", "cpu"),
            "fpmath_mode": raw.get("fpmath_mode", "strict"),
        }
        ports = {"input_ports": self._ports(graph.inputs.values()), "output_ports": self._ports(graph.outputs.values())}
        for key, right in ports.items():
            raw_value: Any = raw.get(key)
            if unchanged and (self.version is None or (raw_value is not None and self._are_right(raw_value, right))):
                form.update({key: raw_value} if key in raw else {})
            else:
                form[key] = right
        if self.version is not None:
            form["version"] = f"{self.version[0]}.{self.version[1]}.0"
        form["graph"] = ops
        form.update((key, raw[key]) for key in LATER_KEYS if key in raw)
        more = (key for key in raw if key not in form and key != KEY and not _UNREADABLE.search(key))
        form.update([(key, raw[key]) for key in more])
        about = raw.get(KEY) if unchanged and not self.is_lost and self._names_constants() else self._about()
        if isinstance(about, Mapping):
            about = {key: value for key, value in about.items() if key not in ("data", "digest")}
            form[KEY] = about if data is None else {**about, "data": data}
        return form

    def _ports(self, tensors: Iterable[LogicalTensor]) -> list[int]:
        ids = dict.fromkeys(self.ids[tensor.id] for tensor in tensors)
        return [number for number in ids if number in self.written]

    def _are_right(self, actual: list[int], right: list[int]) -> bool:
        """Whether the ports of a file are those of the graph, ignoring repeated ports and constants."""
        constants = {self.ids[tensor.id] for tensor in self.graph._tensors if tensor.constant}
        return {*actual} - constants == {*right} - constants

    # Ops --------------------------------------------------------------------------------------------------------------

    def _ops(self) -> list[Json]:
        """The ops of the loaded file in file order, then the ops that were added later."""
        forms: list[Json] = []
        graph, order = self.graph, () if self.origin is None else self.origin.op_order
        raw_graph = self.raw.get("graph")
        taken = set()
        uses = FileUses(graph, self.origin)
        for raw, place in zip(raw_graph if isinstance(raw_graph, list) else (), order, strict=True):
            op = graph.ops[place]
            self.known.hold(op)
            taken.add(raw["id"])
            if self.known.writes(op):
                forms.append(self._given_op(op, raw, uses))
        numbers = _free(taken)
        forms += [self._new_op(op, next(numbers)) for op in graph.ops[len(order) :] if self.known.writes(op)]
        return forms

    def _given_op(self, op: Op, raw: Any, uses: FileUses) -> Json:
        """An op of the loaded file: unchanged with unknown keys last, or completed if a version is given."""
        name = _UNREADABLE.sub(" ", raw.get("name", ""))
        self.is_lost |= name != raw.get("name", "")
        attrs: dict[str, object] = {}
        for key, attr in raw.get("attrs", {}).items():
            if self.version is not None and (key in LIBRARY_ATTRIBUTES or self.known.says_nothing(op, key)):
                continue
            kind, value = attr["type"], attr["value"]
            if kind != "string":
                value = [_number(kind, item) for item in value] if kind.endswith("[]") else _number(kind, value)
            self.is_lost |= value != attr["value"]
            attrs[key] = {"type": kind, "value": value}
        attrs |= self._completing(op)
        ends = {key: list(raw.get(key, ())) for key in ("inputs", "outputs")}
        if self.version is None:
            ends = {key: [_known_first(use, TENSOR_KEYS) for use in end] for key, end in ends.items()}
        else:
            ends["outputs"] = ends["outputs"][: len(self.known.outputs(op))]
            ends = {key: [uses.form(use) for use in end] for key, end in ends.items()}
        for use in (*ends["inputs"], *ends["outputs"]):
            self.written.setdefault(use["id"], use)
        self._note_op(op, raw["id"], name)
        kind = raw["kind"] if self.version is None else op.kind
        form = {"id": raw["id"], "name": name, "kind": kind, "attrs": attrs, **ends}
        if self.version is not None:
            return form
        return _known_first({key: form.get(key, value) for key, value in raw.items()}, OP_KEYS)

    def _new_op(self, op: Op, number: int) -> Json:
        self.known.hold(op)
        name = _UNREADABLE.sub(" ", op.name)
        self._note_op(op, number, name)
        schema = schema_of(op)
        attrs = {
            key: self._attr(schema.attribute(key), value)
            for key, value in op.attrs.items()
            if not self.known.left_out(schema.attribute(key), value)
        }
        attrs |= self._completing(op)
        inputs = [self._tensor(tensor) for tensor in op.inputs]
        outputs = [self._tensor(tensor) for tensor in self.known.outputs(op)]
        return dict(zip(OP_KEYS, (number, name, op.kind, attrs, inputs, outputs), strict=True))

    def _completing(self, op: Op) -> dict[str, Json]:
        return {one.name: self._attr(one, value) for one, value in self.known.completing(op)}

    def _attr(self, attribute: Attribute, value: AttrValue) -> Json:
        kind = ATTR_TYPES[attribute.kind]
        if isinstance(value, str):
            word = LIBRARY_VALUES.get(attribute.name, {}).get(value, value)
            return {"type": kind, "value": word if word in attribute.aliases else value}
        scalars = [_number(kind, element) for element in (value if isinstance(value, tuple) else (value,))]
        return {"type": kind, "value": scalars if kind.endswith("[]") else scalars[0]}

    def _note_op(self, op: Op, number: int, name: object) -> None:
        """Store the name, edition and infinite attributes of an op that the JSON form cannot hold."""
        notes: dict[str, object] = {}
        if op.name != name:
            notes["name"] = op.name
        if op.edition != self.graph.edition:
            notes["edition"] = op.edition
        infinite = {key: words for key, value in op.attrs.items() if (words := _infinite(value)) is not None}
        if infinite:
            notes["attrs"] = infinite
        if notes:
            self.op_notes[str(number)] = notes

    # Tensors ----------------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: LogicalTensor) -> Json:
        number = self.ids[tensor.id]
        if number not in self.written:
            form = self.written[number] = tensor_form(self.returned.get(tensor.id, tensor), number)
            if tensor.id in self.constant:
                form["property_type"] = "constant"
        return self.written[number]

    def _output(self, name: str, tensor: LogicalTensor) -> Json:
        """The record of a graph output, with strides if they differ from those written for its tensor."""
        number = self.ids[tensor.id]
        stride = tensor_form(tensor, number)["stride"]
        entry = {"id": number, "name": name}
        return entry if stride == completed(self.written[number])["stride"] else {**entry, "stride": stride}

    def _names_constants(self) -> bool:
        """Whether the loaded file has a name for every constant; constants that were made later have none."""
        about: Any = self.raw.get(KEY) or {}
        named = {entry["id"] for entry in about.get("constants", ())}
        return all(self.ids[tensor.id] in named for tensor in self.graph._tensors if tensor.constant)

    def _about(self) -> Json:
        """The contents of the key ``onegraph``."""
        graph, ids = self.graph, self.ids
        variables = [(ids[tensor.id], self.next.get(name)) for name, tensor in self.variables.items()]
        constants = [tensor for tensor in graph._tensors if tensor.constant]
        # A tensor that is both input and output is written with the strides of the input.
        used = {t.id: t for t in (*graph.outputs.values(), *graph.inputs.values(), *constants)}
        about: dict[str, object] = {"form": VERSION, "edition": graph.edition}
        about["inputs"] = [{"id": ids[tensor.id], "name": name} for name, tensor in graph.inputs.items()]
        tensors = [self._tensor(t) for t in used.values() if ids[t.id] not in self.written]
        about["outputs"] = [self._output(name, tensor) for name, tensor in graph.outputs.items()]
        about["constants"] = [{"id": ids[tensor.id], "name": tensor.name} for tensor in constants]
        about["variables"] = [{"id": number} | ({"next": to} if to else {}) for number, to in variables]
        about["vectors"] = [ids[tensor.id] for tensor in graph._tensors if tensor.shape == (None,)]
        about["tensors"] = tensors
        about["ops"] = self.op_notes
        return {key: value for key, value in about.items() if value or key in ("inputs", "outputs")}


def _version_of(graph: DataGraph) -> str:
    name, _, version = graph.edition.partition("-")
    return f"{version}.0" if name == "onednn" else f"{RELEASED[0]}.{RELEASED[1]}.0"


def _number(kind: str, value: object) -> float | int:
    assert isinstance(value, (int, float))
    if not kind.startswith("f32"):
        return int(value)
    return max(min(LARGEST, float(value)), -LARGEST)  # in this order NaN gives a finite number too


def _infinite(value: AttrValue) -> str | list[str | float] | None:
    """An infinite number as a word, or a list with such words in it; None for any other value."""
    if isinstance(value, tuple):
        return [str(item) if math.isinf(item) else item for item in value] if any(map(math.isinf, value)) else None
    return str(value) if isinstance(value, float) and math.isinf(value) else None


def _is_unchanged(graph: DataGraph, origin: FileOrigin) -> bool:
    """Whether nothing was added to a graph after it was loaded."""
    return (
        len(graph.ops) == origin.n_ops
        and tuple(graph.outputs) == origin.outputs
        and len(graph._tensors) == len(origin.tensor_ids)
    )
