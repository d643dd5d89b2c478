"""From a graph to the JSON form, as the library's own test program reads it.

Its reader stops for good at the first key that it does not know, throws on all but five escapes, and takes ``type``
before ``value`` only. So known keys come first, in its order, and text is escaped no more than it must be. Netron wants
every key, and all uses of a tensor to say the same of it. So what a file says is completed and made to agree where it
is written for a version; otherwise it comes back as it was, what nobody knows last.
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
from ..opset.editions.registry import NEWEST, base_of
from ..opset.schema import Attribute, AttrValue, Version
from .document import ATTR_TYPES, MAX_ID
from .for_version import ForVersion
from .names import KEY, VERSION
from .reader import LIBRARY_ATTRIBUTES
from .tensor_uses import Uses, completed, tensor_form

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

OP_KEYS = ("id", "name", "kind", "attrs", "inputs", "outputs")
TENSOR_KEYS = ("id", "dtype", "shape", "stride", "layout_type", "property_type")
LATER_KEYS = ("fpmath_mode_apply_to_int",)  # which a reader that does not know them comes to last
LARGEST = 3.4028234663852886e38
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNREADABLE = re.compile("[\x00-\x1f\ud800-\udfff]")


def as_text(form: Json) -> str:
    """The text of a file."""
    text = json.dumps(form, indent=2, ensure_ascii=False)
    # Halves of characters have no UTF-8; no name that the library reads has one.
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_form(graph: DataGraph, version: Version | None = None, data: str | None = None) -> Json:
    """The graph as a JSON object.

    Args:
        graph: the graph.
        version: version of oneDNN that is to read it; the newest by default.
        data: name of the file that the constants are in.

    Raises:
        UnsupportedError: the graph has something that this version does not know.
    """
    return _Writing(graph, version).form(data)


def tensor_ids(graph: DataGraph) -> dict[int, int]:
    """For each tensor of the graph its id in the file."""
    origin = graph._file
    if origin is None:
        return {tensor.id: tensor.id for tensor in graph._tensors}
    numbers = _free(set(origin.tensor_ids.values()))
    return {
        tensor.id: origin.tensor_ids[tensor.id] if tensor.id in origin.tensor_ids else next(numbers)
        for tensor in graph._tensors
    }


def op_ids(graph: DataGraph) -> dict[str, int]:
    """For each op of the graph, by its name, its id in the file."""
    order: tuple[int, ...] = () if graph._file is None else graph._file.op_order
    given: Any = () if graph._file is None else graph._file.raw["graph"]
    found = {graph.ops[place].name: raw["id"] for raw, place in zip(given, order, strict=True)}
    numbers = _free({*found.values()})
    return found | {op.name: next(numbers) for op in graph.ops[len(order) :]}


def _free(taken: set[int]) -> Iterator[int]:
    """Ids that are not taken: those above all others, as far as there are any."""
    number = max(taken, default=-1) + 1
    if number + 2**32 > MAX_ID:
        number = 0
    while True:
        if number not in taken:
            yield number
        number += 1


def _known_first(raw: Json, known: Sequence[str]) -> Json:
    """The same object, with the keys that readers know first."""
    return {key: raw[key] for key in (*(key for key in known if key in raw), *(key for key in raw if key not in known))}


class _Writing:
    def __init__(self, graph: DataGraph, version: Version | None) -> None:
        self.graph, self.version, self.origin = graph, version, graph._file
        self.raw: Json = {} if self.origin is None else self.origin.raw
        self.ids = tensor_ids(graph)
        self.written: dict[int, Json] = {}  # by id in the file, the first use of each tensor
        self.said: dict[str, Json] = {}  # under onegraph, of ops
        read = (tensor.id for op in graph.ops for tensor in op.inputs if tensor is not None)
        written = {tensor.id for op in graph.ops for tensor in op.outputs}
        wanted = {*read, *(tensor.id for tensor in graph.outputs.values())}
        self.known = ForVersion(version, wanted, {tensor.id for tensor in graph._tensors} - written)
        given = {tensor.id for tensor in graph.inputs.values()}
        self.constant = {graph.inputs[name].id for name in graph.constant_inputs}
        self.returned = {t.id: t for t in graph.outputs.values() if t.id not in given and not t.constant}
        self.is_lost = False  # something that the file said, and that only stands under onegraph now

    def form(self, data: str | None) -> Json:
        """The whole object."""
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
            given: Any = raw.get(key)
            if unchanged and (self.version is None or (given is not None and self._are_right(given, right))):
                form.update({key: given} if key in raw else {})
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
            about = {key: value for key, value in about.items() if key != "data"}
            form[KEY] = about if data is None else {**about, "data": data}
        return form

    def _ports(self, tensors: Iterable[LogicalTensor]) -> list[int]:
        ids = dict.fromkeys(self.ids[tensor.id] for tensor in tensors)
        return [number for number in ids if number in self.written]

    def _are_right(self, given: list[int], right: list[int]) -> bool:
        """Whether ports of a file are those of the graph; it may say one twice, and constants too."""
        constants = {self.ids[tensor.id] for tensor in self.graph._tensors if tensor.constant}
        return {*given} - constants == {*right} - constants

    # Ops --------------------------------------------------------------------------------------------------------------

    def _ops(self) -> list[Json]:
        """Those of the file as they were, in its order; then those that were added."""
        found: list[Json] = []
        graph, order = self.graph, () if self.origin is None else self.origin.op_order
        given = self.raw.get("graph")
        taken = set()
        uses = Uses(graph, self.origin)
        for raw, place in zip(given if isinstance(given, list) else (), order, strict=True):
            op = graph.ops[place]
            self.known.hold(op)
            taken.add(raw["id"])
            if self.known.writes(op):
                found.append(self._given_op(op, raw, uses))
        numbers = _free(taken)
        found += [self._new_op(op, next(numbers)) for op in graph.ops[len(order) :] if self.known.writes(op)]
        return found

    def _given_op(self, op: Op, raw: Any, uses: Uses) -> Json:
        """As it was, what no reader knows last; for a version without that, completed, and as Netron wants it."""
        name = _UNREADABLE.sub(" ", raw.get("name", ""))
        self.is_lost |= name != raw.get("name", "")
        attrs: dict[str, object] = {}
        for key, attr in raw.get("attrs", {}).items():
            if self.version is not None and (key in LIBRARY_ATTRIBUTES or self.known.says_nothing(op, key)):
                continue
            kind, value = attr["type"], attr["value"]
            if kind != "string":
                value = [_number(kind, one) for one in value] if kind.endswith("[]") else _number(kind, value)
            self.is_lost |= value != attr["value"]
            attrs[key] = {"type": kind, "value": value}
        attrs |= self._completing(op)
        ends = {key: list(raw.get(key, ())) for key in ("inputs", "outputs")}
        if self.version is None:
            ends = {key: [_known_first(use, TENSOR_KEYS) for use in found] for key, found in ends.items()}
        else:
            ends["outputs"] = ends["outputs"][: len(self.known.outputs(op))]
            ends = {key: [uses.form(use) for use in found] for key, found in ends.items()}
        for use in (*ends["inputs"], *ends["outputs"]):
            self.written.setdefault(use["id"], use)
        self._say(op, raw["id"], name)
        kind = raw["kind"] if self.version is None else op.kind
        form = {"id": raw["id"], "name": name, "kind": kind, "attrs": attrs, **ends}
        if self.version is not None:
            return form
        return _known_first({key: form.get(key, value) for key, value in raw.items()}, OP_KEYS)

    def _new_op(self, op: Op, number: int) -> Json:
        self.known.hold(op)
        name = _UNREADABLE.sub(" ", op.name)
        self._say(op, number, name)
        schema = schema_of(op)
        attrs = {
            key: self._attr(schema.attribute(key), value)
            for key, value in op.attrs.items()
            if not self.known.left_out(schema.attribute(key), value)
        }
        attrs |= self._completing(op)
        inputs = [self._tensor(tensor) for tensor in op.inputs if tensor is not None]
        outputs = [self._tensor(tensor) for tensor in self.known.outputs(op)]
        return dict(zip(OP_KEYS, (number, name, op.kind, attrs, inputs, outputs), strict=True))

    def _completing(self, op: Op) -> dict[str, Json]:
        own = schema_of(op)
        found = {}
        for name, value in self.known.completing(op).items():
            schema = own if own.has_attribute(name) else base_of(own)  # which has what came later
            found[name] = self._attr(schema.attribute(name), value)
        return found

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
        endless = {key: words for key, value in op.attrs.items() if (words := _endless(value)) is not None}
        if endless:
            said["attrs"] = endless
        if said:
            self.said[str(number)] = said

    # Tensors ----------------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: LogicalTensor) -> Json:
        number = self.ids[tensor.id]
        if number not in self.written:
            form = self.written[number] = tensor_form(self.returned.get(tensor.id, tensor), number)
            if tensor.id in self.constant:
                form["property_type"] = "constant"
        return self.written[number]

    def _output(self, name: str, tensor: LogicalTensor) -> Json:
        """An output; with its strides where its tensor is written with others, as one that two outputs lay out is."""
        number = self.ids[tensor.id]
        stride = tensor_form(tensor, number)["stride"]
        said = {"id": number, "name": name}
        return said if stride == completed(self.written[number])["stride"] else {**said, "stride": stride}

    def _names_constants(self) -> bool:
        """Whether the file has names of all constants; of those whose contents came later it has none."""
        about: Any = self.raw.get(KEY) or {}
        named = {one["id"] for one in about.get("constants", ())}
        return all(self.ids[tensor.id] in named for tensor in self.graph._tensors if tensor.constant)

    def _about(self) -> Json:
        """What the form has no place for."""
        graph, ids = self.graph, self.ids
        constants = [tensor for tensor in graph._tensors if tensor.constant]
        # The strides of a tensor that is an input and an output too are those of the input.
        used = {t.id: t for t in (*graph.outputs.values(), *graph.inputs.values(), *constants)}
        about: dict[str, object] = {"form": VERSION, "edition": graph.edition}
        about["inputs"] = [{"id": ids[tensor.id], "name": name} for name, tensor in graph.inputs.items()]
        tensors = [self._tensor(t) for t in used.values() if ids[t.id] not in self.written]
        about["outputs"] = [self._output(name, tensor) for name, tensor in graph.outputs.items()]
        about["constants"] = [{"id": ids[tensor.id], "name": tensor.name} for tensor in constants]
        about["vectors"] = [ids[tensor.id] for tensor in graph._tensors if tensor.shape == (None,)]
        about["tensors"] = tensors
        about["ops"] = self.said
        return {key: value for key, value in about.items() if value or key in ("inputs", "outputs")}


def _version_of(graph: DataGraph) -> str:
    name, _, version = graph.edition.partition("-")
    return f"{version}.0" if name == "onednn" else f"{NEWEST[0]}.{NEWEST[1]}.0"


def _number(kind: str, value: object) -> float | int:
    assert isinstance(value, (int, float))
    if not kind.startswith("f32"):
        return int(value)
    return max(min(LARGEST, float(value)), -LARGEST)  # in this order, so that NaN gives a number too


def _endless(value: AttrValue) -> str | list[str | float] | None:
    """A number that is not finite in a word, a list with such words in it; None of everything else."""
    if isinstance(value, tuple):
        return [str(one) if math.isinf(one) else one for one in value] if any(map(math.isinf, value)) else None
    return str(value) if isinstance(value, float) and math.isinf(value) else None


def _is_unchanged(graph: DataGraph, origin: FileOrigin) -> bool:
    """Whether nothing was added to a graph since it was loaded."""
    return (
        len(graph.ops) == origin.n_ops
        and tuple(graph.inputs) == origin.inputs
        and tuple(graph.outputs) == origin.outputs
        and len(graph._tensors) == len(origin.tensor_ids)
    )
