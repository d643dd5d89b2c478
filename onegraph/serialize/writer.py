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

from ..errors import ArgumentError, UnsupportedError, shown
from ..examine import examine
from ..op import LogicalTensor, Op
from ..spec.editions import EDITIONS, NEWEST, base_of, edition
from ..spec.library import LIBRARY_VALUES
from ..spec.schema import Attribute, AttrValue, Schema, Version
from .form import ATTR_TYPES, MAX_ID, Json
from .names import KEY, VERSION
from .reader import LIBRARY_ATTRIBUTES
from .uses import Uses, tensor_form

if TYPE_CHECKING:
    from ..graph import Graph

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


def _known_first(raw: Json, known: Sequence[str]) -> Json:
    """The same object, with the keys that readers know first."""
    return {key: raw[key] for key in (*(key for key in known if key in raw), *(key for key in raw if key not in known))}


class _Writing:
    def __init__(self, graph: Graph, version: Version | None) -> None:
        self.graph, self.version, self.origin = graph, version, graph._file
        self.raw: Json = {} if self.origin is None else self.origin.raw
        self.ids = tensor_ids(graph)
        self.written: dict[int, Json] = {}  # by id in the file, the first use of each tensor
        self.said: dict[str, Json] = {}  # under onegraph, of ops
        read = (tensor.id for op in graph.ops for tensor in op.inputs if tensor is not None)
        self.wanted = {*read, *(tensor.id for tensor in graph.outputs.values())}
        given = {tensor.id for tensor in graph.inputs.values()}
        self.constant = {graph.inputs[name].id for name in graph.constant_inputs}
        self.returned = {t.id: t for t in graph.outputs.values() if t.id not in given and not t.constant}
        self.is_lost = False  # something that the file said, and that only stands under onegraph now

    def form(self, data: str | None) -> Json:
        """The whole object."""
        graph, raw = self.graph, self.raw
        ops = self._ops()
        unchanged = self.origin is not None and self.origin.unchanged(graph)
        form: dict[str, object] = {
            "version": _UNREADABLE.sub(" ", str(raw.get("version") or _version_of(graph))),
            "engine_kind": raw.get("engine_kind", "cpu"),
            "fpmath_mode": raw.get("fpmath_mode", "strict"),
        }
        if unchanged:
            form.update((key, raw[key]) for key in ("input_ports", "output_ports") if key in raw)
        else:
            form["input_ports"] = self._ports(graph.inputs.values())
            form["output_ports"] = self._ports(graph.outputs.values())
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
            self._hold(op)
            found.append(self._given_op(op, raw, uses))
            taken.add(raw["id"])
        numbers = _free(taken)
        found += [self._new_op(op, next(numbers)) for op in graph.ops[len(order) :]]
        return found

    def _given_op(self, op: Op, raw: Any, uses: Uses) -> Json:
        """As it was, what no reader knows last; for a version without that, completed, and as Netron wants it."""
        name = _UNREADABLE.sub(" ", raw.get("name", ""))
        self.is_lost |= name != raw.get("name", "")
        attrs: dict[str, object] = {}
        for key, attr in raw.get("attrs", {}).items():
            if self.version is not None and (key in LIBRARY_ATTRIBUTES or self._says_nothing(op, key)):
                continue
            kind, value = attr["type"], attr["value"]
            if kind != "string":
                value = [_number(kind, one) for one in value] if kind.endswith("[]") else _number(kind, value)
            self.is_lost |= value != attr["value"]
            attrs[key] = {"type": kind, "value": value}
        ends = {key: list(raw.get(key, ())) for key in ("inputs", "outputs")}
        if self.version is None:
            ends = {key: [_known_first(use, TENSOR_KEYS) for use in found] for key, found in ends.items()}
        else:
            ends["outputs"] = ends["outputs"][: len(self._outputs(op))]
            ends = {key: [uses.form(use) for use in found] for key, found in ends.items()}
        for use in (*ends["inputs"], *ends["outputs"]):
            self.written.setdefault(use["id"], use)
        self._say(op, raw["id"], name)
        form = {"id": raw["id"], "name": name, "kind": raw["kind"], "attrs": attrs, **ends}
        if self.version is not None:
            return form
        return _known_first({key: form.get(key, value) for key, value in raw.items()}, OP_KEYS)

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
        outputs = [self._tensor(tensor) for tensor in self._outputs(op)]
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
        endless = {key: words for key, value in op.attrs.items() if (words := _endless(value)) is not None}
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
        attrs = {name: value for name, value in op.attrs.items() if not self._says_nothing(op, name)}
        needs += [(name, schema.attribute(name).since) for name in attrs if schema.has_attribute(name)]
        for index, tensor in enumerate(op.inputs):
            if tensor is not None:
                needs += [(schema.input_port(index).name, max(schema.input_port(index).since, tensor.dtype.since))]
        outputs = self._outputs(op)
        for port, tensor in zip(schema.outputs, outputs, strict=False):
            needs.append((port.name, max(port.since, tensor.dtype.since)))
        for where, since in needs:
            if since > self.version:
                raise UnsupportedError(f"{op.kind} {op.name!r}: {where} needs oneDNN {since[0]}.{since[1]}")
        words = f"onednn-{self.version[0]}.{self.version[1]}"
        if words in EDITIONS and words != op.edition:
            types = [tensor.type for tensor in outputs]
            own, there = (
                examine(op.kind, attrs, op.inputs, types, edition=edition(name), name=op.name).errors
                for name in (op.edition, words)
            )
            # What breaks its own edition too was in a file, and stays as it was there.
            known = {(error.rule, error.where) for error in own}
            added = [error.message for error in there if (error.rule, error.where) not in known]
            if added:
                fix = f"; onegraph convert --edition {words} says a graph of another edition in its words"
                raise UnsupportedError("; ".join(added) + fix * (op.edition == "legacy-1"))

    def _outputs(self, op: Op) -> tuple[LogicalTensor, ...]:
        """Without those at the end that the version does not know and nobody wants."""
        ports, count = _schema(op).outputs, len(op.outputs)
        while self.version is not None and 0 < count <= len(ports) and ports[count - 1].since > self.version:
            if op.outputs[count - 1].id in self.wanted:
                break
            count -= 1
        return op.outputs[:count]

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
            form = self.written[number] = tensor_form(self.returned.get(tensor.id, tensor), number)
            if tensor.id in self.constant:
                form["property_type"] = "constant"
        return self.written[number]

    def _names_constants(self) -> bool:
        """Whether the file has names of all constants; of those whose contents came later it has none."""
        about: Any = self.raw.get(KEY) or {}
        named = {one["id"] for one in about.get("constants", ())}
        return all(self.ids[tensor.id] in named for tensor in self.graph._tensors if tensor.constant)

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
        about["tensors"] = [tensor_form(t, ids[t.id]) for t in used.values() if ids[t.id] not in self.written]
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
    return max(min(LARGEST, float(value)), -LARGEST)  # in this order, so that NaN gives a number too


def _endless(value: AttrValue) -> str | list[str | float] | None:
    """A number that is not finite in a word, a list with such words in it; None of everything else."""
    if isinstance(value, tuple):
        return [str(one) if math.isinf(one) else one for one in value] if any(map(math.isinf, value)) else None
    return str(value) if isinstance(value, float) and math.isinf(value) else None
