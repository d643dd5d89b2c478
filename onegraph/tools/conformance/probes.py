"""Makes the probes of an edition: every attribute value, type row and port count of every op.

A probe is a dictionary that can be sent to a worker process: the op, one of the package's valid uses of it
(:mod:`onegraph.testing.cases`), the changes to that use, and whether the specification allows the changed use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...errors import OneGraphError
from ...faults.capabilities import LIBRARY_VALUES
from ...graph import Graph
from ...ir.op import Array, LogicalTensor
from ...opset.dtypes import DataType
from ...opset.editions.registry import DEFAULT, Edition, base_of
from ...opset.schema import Attribute, Fill, Schema
from ...opset.values import BadValueError, convert
from ...reference import run_op
from ...testing.cases import CASES, Case

GROUPS = ("attribute value", "attribute default", "attribute required", "attribute refused", "data types", "ports")
# For each kind of attribute, a kind that is wrong for it.
WRONG_KIND = {"f32": "s64", "f32[]": "s64[]", "s64": "f32", "s64[]": "f32[]", "bool": "s64", "str": "s64"}
SAMPLES: dict[str, Any] = {"f32": 1.0, "f32[]": [1.0], "s64": 1, "s64[]": [1], "bool": True, "str": "no such value"}


@cache
def _cases(kind: str) -> tuple[Case, ...]:
    return tuple(case for case in CASES if case.kind == kind)


def controls_of(edition: Edition, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """A probe of every unchanged valid use. Uses that the library computes right are the base of further probes."""
    for op in _ops(edition, names, frozenset()):
        for case in op.cases:
            yield op.probe(case, "control", "", "", True, {})


def probes_of(
    edition: Edition, names: Sequence[str] = (), sound: frozenset[tuple[str, str]] = frozenset()
) -> Iterator[dict[str, Any]]:
    """The probes of an edition, op by op.

    Args:
        edition: the edition whose documented values, types and ports are tried.
        names: names of the ops to probe; all by default.
        sound: the (base kind, label) of the uses that the library computes right; they are preferred.
    """
    for op in _ops(edition, names, sound):
        yield from op.probes()


def _ops(edition: Edition, names: Sequence[str], sound: frozenset[tuple[str, str]]) -> Iterator[_Op]:
    for schema in edition.schemas.values():
        base = base_of(schema)
        if (not names or schema.kind in names) and base.kind != "Wildcard" and _cases(base.kind):
            yield _Op(edition, schema, sound)


class _Op:
    """Makes the probes of one op."""

    def __init__(self, edition: Edition, schema: Schema, sound: frozenset[tuple[str, str]]) -> None:
        self.edition, self.schema, self.base = edition, schema, base_of(schema)
        found = [case for case in _cases(self.base.kind) if self._of_edition(case)]
        self.cases = sorted(found, key=lambda case: (case.kind, case.label) not in sound)

    def _of_edition(self, case: Case) -> bool:
        """Whether this edition has the attributes, outputs and types of the case."""
        names = {self._base_name(attribute.name) for attribute in self.schema.attributes}
        outputs = {port.name for port in self.base.outputs[: len(self.schema.outputs)]}
        return set(case.attrs) <= names and set(case.outputs or ()) <= outputs and self._row(case)

    def _row(self, case: Case) -> bool:
        wanted = [DataType[type_name(array)] for array in case.inputs]
        for row in self.schema.types:
            pairs = [(self.schema.input_port(index).type, dtype) for index, dtype in enumerate(wanted)]
            outs = [(self.schema.outputs[0].type, DataType[case.dtype])] if case.dtype and self.schema.outputs else []
            if all(dtype in row.types.get(variable, {dtype}) for variable, dtype in (*pairs, *outs)):
                return True
        return not self.schema.types

    def _base_name(self, name: str) -> str:
        return self.schema.dialect.attributes.get(name, name) if self.schema.dialect else name

    def probes(self) -> Iterator[dict[str, Any]]:
        """Attributes, then data types, then ports."""
        if not self.cases:
            return
        for attribute in self.schema.attributes:
            yield from self._attribute(attribute)
        yield from self._data_types()
        yield from self._ports()

    # Attributes --------------------------------------------------------------------------------------------------

    def _attribute(self, attribute: Attribute) -> Iterator[dict[str, Any]]:
        name = self._base_name(attribute.name)
        for value in self._documented(attribute, name):
            found = self._use_with(name, value)
            if found is not None:
                yield self.probe(found, "attribute value", attribute.name, value, True, {name: value})
        case = self.cases[0]
        if attribute.required:
            yield self.probe(case, "attribute required", attribute.name, "left out", False, {}, leave_out=name)
        else:
            without = next((case for case in self.cases if name not in case.attrs), None)
            if without is not None:
                shown = "left out"
                yield self.probe(without, "attribute default", attribute.name, shown, True, {}, leave_out=name)
        for value in _forbidden(attribute):
            yield self.probe(case, "attribute refused", attribute.name, value, False, {name: value})
        other = WRONG_KIND[attribute.kind]
        shown = f"as {other}"
        change = {name: SAMPLES[other]}
        yield self.probe(case, "attribute refused", attribute.name, shown, False, change, kinds={name: other})

    def _documented(self, attribute: Attribute, name: str) -> list[Any]:
        """The values to try: those that the specification lists, otherwise those of the cases."""
        if attribute.values:
            mapping = self.schema.dialect.values.get(attribute.name, {}) if self.schema.dialect else {}
            return [mapping.get(value, value) for value in (*attribute.values, *sorted(attribute.disputed))]
        if attribute.kind == "bool":
            return [True, False]
        found: list[Any] = []
        for case in self.cases:
            if name in case.attrs and case.attrs[name] not in found:
                found.append(case.attrs[name])
        if not found and isinstance(attribute.default, Fill) and "strides" in self.cases[0].attrs:
            strides = self.cases[0].attrs["strides"]
            assert isinstance(strides, list)
            found.append([attribute.default.value] * len(strides))
        return found[:4]

    def _use_with(self, name: str, value: Any) -> Case | None:
        """A valid use in which the attribute has this value: a case, or a case with the attribute changed."""
        canonical = _canonical(self.base, name, value)
        for case in self.cases:
            if name in case.attrs and _canonical(self.base, name, case.attrs[name]) == canonical:
                return case
        default = self.base.attribute(name).default
        for case in self.cases:
            if name not in case.attrs and canonical == default:
                return case
        return next((case for case in self.cases if outputs_of(case, {name: value}) is not None), None)

    # Data types and ports ----------------------------------------------------------------------------------------

    def _data_types(self) -> Iterator[dict[str, Any]]:
        seen = set()
        for case in self.cases:
            types = tuple(str(array.dtype) for array in case.inputs), case.dtype
            if types not in seen:
                seen.add(types)
                names = [type_name(array) for array in case.inputs]
                shown = ", ".join(names) + (f" -> {case.dtype}" if case.dtype else "")
                yield self.probe(case, "data types", "data types", shown, True, {})
        for array in self.cases[0].inputs[:1]:
            wrong = "s32" if array.dtype != np.int32 else "f16"
            if not any(str(case.inputs[0].dtype) == str(DataType[wrong].numpy) for case in self.cases):
                yield self.probe(self.cases[0], "data types", "data types", f"first {wrong}", False, {}, first=wrong)

    def _ports(self) -> Iterator[dict[str, Any]]:
        seen = set()
        for case in self.cases:
            count = len(case.inputs)
            if count not in seen:
                seen.add(count)
                yield self.probe(case, "ports", "number of inputs", f"{count}", True, {})
        required = sum(not port.optional for port in self.schema.inputs)
        for count, case in ((required - 1, self.cases[0]), (len(self.schema.inputs) + 1, self.cases[-1])):
            if count >= 0 and not self.schema.variadic:
                yield self.probe(case, "ports", "number of inputs", f"{count}", False, {}, count=count)

    def probe(
        self,
        case: Case,
        group: str,
        subject: str,
        value: object,
        allowed: bool,
        changes: Mapping[str, Any],
        *,
        leave_out: str = "",
        kinds: Mapping[str, str] | None = None,
        first: str = "",
        count: int | None = None,
    ) -> dict[str, Any]:
        """One probe: ``case`` with changed, removed or replaced parts."""
        attrs = {name: found for name, found in case.attrs.items() if name != leave_out}
        raw = {name: _library_word(name, found) for name, found in attrs.items()}
        raw.update(changes)
        kinds = kinds or {}
        call = {name: (kinds.get(name, self.base.attribute(name).kind), _plain(found)) for name, found in raw.items()}
        outputs = outputs_of(case, {}) or []
        return {
            "edition": self.edition.name,
            "op": self.schema.kind,
            "base": self.base.kind,
            "name": self.base.name,
            "group": group,
            "subject": subject,
            "value": _plain(value),
            "allowed": allowed,
            "case": case.label,
            "call": call,
            "attrs": {name: _plain(found) for name, found in {**attrs, **(changes if allowed else {})}.items()},
            "outputs": [dtype.value for dtype in outputs],
            "first": first,
            "count": count,
            "tensors": None,
        }


def _library_word(name: str, value: Any) -> Any:
    """The library's spelling of an attribute value that the probe does not test."""
    return LIBRARY_VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value


def _forbidden(attribute: Attribute) -> list[Any]:
    if attribute.kind == "str":
        return ["no such value"] if attribute.values else []
    if attribute.range is None:
        return []
    outside = next(number for number in (0, -1, -2, 2) if not attribute.range.holds(number))
    return [[outside] * 2] if attribute.kind.endswith("[]") else [outside]


def _canonical(schema: Schema, name: str, value: Any) -> Any:
    try:
        return convert(schema.attribute(name), value)
    except BadValueError:
        return value


def type_name(array: Array) -> str:
    """The name of the data type of a logical tensor for an array."""
    return "s64" if array.dtype == np.int64 else DataType.of(array.dtype).value


def _plain(value: Any) -> Any:
    """A value as plain Python objects for JSON."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (tuple, range)):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


# Shared with the worker ----------------------------------------------------------------------------------------------


def build(case: Case, changes: Mapping[str, Any]) -> Graph:
    """The graph of one case, with some attributes changed.

    Raises:
        SpecError: a change makes the op invalid.
    """
    graph = Graph(edition=DEFAULT)
    inputs: list[LogicalTensor | None] = []
    for index, array in enumerate(case.inputs):
        if array.dtype == np.int32:
            inputs.append(graph.constant(array))
        else:
            inputs.append(graph.input(f"in{index}", type_name(array), array.shape))
    graph.op(case.kind, inputs, {**case.attrs, **changes}, dtype=case.dtype, outputs=case.outputs)
    return graph


def outputs_of(case: Case, changes: Mapping[str, Any]) -> list[DataType] | None:
    """The data types of the outputs; None if the specification forbids this use."""
    try:
        return [tensor.dtype for tensor in build(case, changes).ops[0].outputs]
    except OneGraphError:
        return None


def _case(probe: Mapping[str, Any]) -> Case:
    if probe["tensors"] is not None:
        rng = np.random.default_rng(0)
        arrays = tuple(_array(rng, *tensor) for tensor in probe["tensors"])
        return Case(probe["base"], "", arrays, probe["attrs"], (probe["outputs"] or [None])[0])
    return next(case for case in _cases(probe["base"]) if case.label == probe["case"])


def _array(rng: np.random.Generator, dtype: str, shape: Sequence[int], values: Sequence[Any] | None = None) -> Array:
    """An array with these contents, or with small random ones."""
    numbers = rng.integers(-4, 5, tuple(shape)) if values is None else np.array(values)
    return np.asarray(numbers).reshape(tuple(shape)).astype(DataType[dtype].numpy)


def inputs_of(probe: Mapping[str, Any]) -> list[Array]:
    """The input arrays of a probe."""
    arrays = list(_case(probe).inputs)
    if probe["first"]:
        arrays[0] = arrays[0].astype(DataType[probe["first"]].numpy)
    count = probe["count"]
    if count is not None:
        arrays = (arrays + arrays[-1:] * count)[:count]
    return arrays


def reference_of(probe: Mapping[str, Any], inputs: Sequence[Array]) -> list[Array] | None:
    """The reference results of a probe; None if the specification forbids the probe."""
    if not probe["allowed"]:
        return None
    case = _case(probe)
    changed = Case(case.kind, case.label, case.inputs, probe["attrs"], case.dtype, case.outputs)
    try:
        return list(run_op(build(changed, {}).ops[0], inputs))
    except OneGraphError:
        return None
