"""Makes the probes of an op from right uses, by one change to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...faults.capabilities import LIBRARY_VALUES
from ...opset.dtypes import DataType
from ...opset.editions.registry import BASE
from ...opset.errata.correction import INPUTS, NOWHERE, Correction
from ...opset.signature import Attribute, Fill, Port
from ...opset.values import BadValueError, convert
from .claims import CLAIMS
from .page_of_op import PageOfOp
from .probes import PRINTED, REFUSED, TAKEN, UNPRINTED, Probe
from .uses import ProbedUse, plain

# For each kind of attribute, a kind that is wrong for it.
WRONG_KIND = {"f32": "s64", "f32[]": "s64[]", "s64": "f32", "s64[]": "f32[]", "bool": "s64", "str": "s64"}
SAMPLES: dict[str, Any] = {"f32": 1.0, "f32[]": [1.0], "s64": 1, "s64[]": [1], "bool": True, "str": "no such value"}
OTHER_TYPES = ("bf16", "f16", "f32", "s32", "s8", "u8")
FAR = 99  # beyond the axes and sizes of every use
MOST = 5  # values of an attribute that are tried if the page lists none: the default, and those of uses
MANY = 65  # inputs of an op that takes any number


class Changes:
    """The probes of one op.

    Args:
        page: the op.
        right: the uses that the library computes right; the first is the one that most probes change.
        failing: the other valid uses.
    """

    def __init__(self, page: PageOfOp, right: Sequence[ProbedUse], failing: Sequence[ProbedUse]) -> None:
        self.page, self.right, self.failing = page, right, failing
        self.control = (*right, *failing)[0]

    def probes(self) -> Iterator[Probe]:
        """Attributes, data types, ports, and what the page prints by mistake."""
        for attribute in self.page.schema.attributes:
            yield from self._values(attribute)
            yield from self._omission(attribute)
            yield from self._refused(attribute)
        yield from self._data_types()
        yield from self._counts()
        for correction in self.page.corrections:
            yield from self._correction(correction)
        for claim in CLAIMS:
            if self.page.base.kind in claim.ops:
                for control in self.right:
                    changed = claim.change(control)
                    if changed is not None:
                        yield self._probe("text", claim.where, claim.value, PRINTED, changed, control, cause=claim.name)
                        break

    # Attributes --------------------------------------------------------------------------------------------------

    def _values(self, attribute: Attribute) -> Iterator[Probe]:
        name = self.page.base_name(attribute.name)
        words = LIBRARY_VALUES.get(name)
        for value in self._documented(attribute, name):
            control, use = self._use_with(name, value)
            listed = attribute.values or attribute.kind == "bool" or not self.right
            if use is None or (control is None and not listed):
                continue  # a value that no page lists, seen in uses that fail for another reason
            yield self._probe("attribute value", attribute.name, value, TAKEN, use, control)
            if words is not None:
                call = {**use.arguments(), name: [attribute.kind, value]}
                yield self._probe("attribute value", attribute.name, value, PRINTED, use, use, call, f"{name}_spelling")

    def _documented(self, attribute: Attribute, name: str) -> list[Any]:
        """The values to try: those that the specification lists, otherwise those of the uses."""
        if attribute.values:
            return [self.page.base_word(attribute.name, value) for value in attribute.values]
        if attribute.kind == "bool":
            return [True, False]
        default, tried_values = attribute.default, list[Any]()
        if isinstance(default, Fill):
            tried_values.append([default.value] * len(self.control.attrs.get("strides", ())))
        elif default is not None:
            tried_values.append(plain(default))
        for use in (*self.right, *self.failing):
            if name in use.attrs and plain(use.attrs[name]) not in tried_values:
                tried_values.append(plain(use.attrs[name]))
        return tried_values[:MOST]

    def _use_with(self, name: str, value: Any) -> tuple[ProbedUse | None, ProbedUse | None]:
        """A control and a valid use in which the attribute has this value, the same if the library takes it."""
        wanted = self._stored(name, value)

        def has(use: ProbedUse) -> bool:
            if name not in use.attrs:
                return bool(wanted == self.page.base.attribute(name).default)
            return bool(self._stored(name, use.attrs[name]) == wanted)

        for use in self.right:
            if has(use):
                return use, use
        for control in self.right:
            changed = control.having(**{name: value})
            if self.page.allows(changed):
                return control, changed
        as_they_are = [use for use in self.failing if has(use)]
        changed_ones = (control.having(**{name: value}) for control in self.failing)
        return None, next((use for use in (*as_they_are, *changed_ones) if self.page.allows(use)), None)

    def _stored(self, name: str, value: Any) -> Any:
        try:
            return convert(self.page.base.attribute(name), value)
        except BadValueError:
            return value

    def _omission(self, attribute: Attribute) -> Iterator[Probe]:
        name = self.page.base_name(attribute.name)
        group = "attribute required" if attribute.required else "attribute default"
        for control in (*self.right, self.control):
            without = control.without(name)
            broken = self.page.broken_rules(without)
            if name in control.attrs and bool(broken) == (attribute.required or control is self.control):
                says = REFUSED if broken else TAKEN
                yield self._probe(group, attribute.name, "left out", says, without, control, cause=_rule(broken))
                return
        without_it = next((use for use in (*self.right, *self.failing) if name not in use.attrs), None)
        if without_it is None and not self.page.broken_rules(self.control.without(name)):
            without_it = self.control.without(name)
        if without_it is not None:
            yield self._probe(group, attribute.name, "left out", TAKEN, without_it, without_it)

    def _refused(self, attribute: Attribute) -> Iterator[Probe]:
        name = self.page.base_name(attribute.name)
        control = next((use for use in self.right if name in use.attrs), self.control)
        for value in _forbidden(attribute, control.attrs.get(name)):
            changed = control.having(**{name: value})
            broken = self.page.broken_rules(changed)
            if broken:
                yield self._probe(
                    "attribute refused", attribute.name, value, REFUSED, changed, control, cause=_rule(broken)
                )
        for control in self._settings():
            if attribute.kind == "bool":
                value = not self._flag(control, name)
                changed = control.having(**{name: value})
                broken = self.page.broken_rules(changed)
                if broken:
                    yield self._probe(
                        "attribute refused", attribute.name, value, REFUSED, changed, control, cause=_rule(broken)
                    )
        kind_of_value = WRONG_KIND[attribute.kind]
        tried = [(kind_of_value, SAMPLES[kind_of_value], f"as {kind_of_value}", "wrong_kind")]
        if attribute.kind in ("f32", "s64"):
            sample = control.attrs.get(name, SAMPLES[attribute.kind])
            tried.append((attribute.kind, [sample, sample], "two numbers", "several_numbers"))
        for kind, value, shown, cause in tried:
            call = {**control.arguments(), name: [kind, value]}
            yield self._probe("attribute refused", attribute.name, shown, REFUSED, control, control, call, cause)

    def _flag(self, use: ProbedUse, name: str) -> bool:
        return bool(use.attrs.get(name, self.page.base.attribute(name).default))

    def _settings(self) -> list[ProbedUse]:
        """For each setting of the flags one right use, or the control."""
        flags = [attribute.name for attribute in self.page.base.attributes if attribute.kind == "bool"]
        uses: dict[tuple[bool, ...], ProbedUse] = {}
        for use in self.right or (self.control,):
            uses.setdefault(tuple(self._flag(use, name) for name in flags), use)
        return list(uses.values())

    # Data types and ports ----------------------------------------------------------------------------------------

    def _data_types(self) -> Iterator[Probe]:
        page = self.page
        for types in page.combinations:
            shown = ", ".join(f"{page.name_of(name)}={dtype}" for name, dtype in types.items())
            alike = [use for use in self.right if page.combination(use) == types]
            typed = [page.typed(control, types) for control in self.right[:1]] + [*self.failing]
            use = next((use for use in (*alike, *typed) if page.combination(use) == types and page.allows(use)), None)
            if use is not None:
                control = use if use in alike else None if use in self.failing else self.control
                yield self._probe("data types", "data types", shown, TAKEN, use, control)
        full = max(self.right or (self.control,), key=lambda use: len(use.picks) + len(use.outputs))
        for changed, shown in self._other_types(full):
            if page.broken_rules(changed) == ["data_type"]:
                yield self._probe("data types", "data types", shown, REFUSED, changed, full, cause="data_type")

    def _other_types(self, use: ProbedUse) -> Iterator[tuple[ProbedUse, str]]:
        """The use with other data types of all ports of a type variable, and of each of these ports."""
        page, present = self.page, page_ports(self.page, use)
        for name, ends in page.variables.items():
            here = [end for end in ends if end in present]
            for places in ([here] if len(here) > 1 else []) + [[end] for end in here]:
                for dtype in OTHER_TYPES:
                    sides = {side: {i: dtype for s, i in places if s == side} for side in ("inputs", "outputs")}
                    where = name if len(places) > 1 else ""
                    ports = page.name_of(where) + ", ..." if where else page.port(*places[0]).name
                    yield use.typed(sides["inputs"], sides["outputs"]), f"{ports}={dtype}"

    def _counts(self) -> Iterator[Probe]:
        """Every number of inputs and outputs, for each setting of the flags."""
        page, seen = self.page, set()
        most = len(page.schema.inputs)
        for control in self._settings():
            counts = {*range(len(control.picks) + 1), *([MANY] if page.schema.variadic else [most + 1])}
            for count in sorted(counts):
                changed = control.taking(count)
                broken = page.broken_rules(changed)
                seen.add(count)
                shown = f"{count}"
                says = REFUSED if broken else TAKEN
                yield self._probe("ports", "number of inputs", shown, says, changed, control, cause=_rule(broken))
            for count in range(len(page.schema.outputs) + 2):
                changed = control.giving(count)
                broken = page.broken_rules(changed)
                says = REFUSED if broken else TAKEN
                yield self._probe("ports", "number of outputs", f"{count}", says, changed, control, cause=_rule(broken))
        last = page.base.inputs[-1]
        for control in self.right:
            if last.name in control.attrs and len(control.picks) == len(page.base.inputs) - 1:
                changed = control.with_tensor_for(last.name)
                if page.allows(changed):
                    seen.add(len(changed.picks))
                    shown = f"{len(changed.picks)}"
                    yield self._probe("ports", "number of inputs", shown, TAKEN, changed, control)
                    break
        for use in (*self.right, *self.failing):
            if len(use.picks) not in seen:
                seen.add(len(use.picks))
                yield self._probe("ports", "number of inputs", f"{len(use.picks)}", TAKEN, use, None)

    # What the page prints ----------------------------------------------------------------------------------------

    def _correction(self, correction: Correction) -> Iterator[Probe]:
        fact, cause = correction.fact, f"correction:{correction.name}"
        if isinstance(fact, Attribute):
            yield from self._printed_attribute(fact, cause)
        elif isinstance(fact, Port):
            if fact is NOWHERE:
                of_inputs = correction.section == INPUTS
                ports = self.page.schema.inputs if of_inputs else self.page.schema.outputs
                lengths = ((use, len(use.picks if of_inputs else use.outputs)) for use in self.right)
                use = next((use for use, length in lengths if length == len(ports)), None)
                if use is not None:
                    yield self._probe("text", correction.where, "given", UNPRINTED, use, use, cause=cause)
        elif fact is not None:
            yield from self._printed_types(fact, cause)

    def _printed_attribute(self, fact: Attribute, cause: str) -> Iterator[Probe]:
        name = self.page.base_name(fact.name)
        meant = self.page.schema.attribute(fact.name)
        for value in fact.values:
            if value in meant.values:
                continue
            wanted = meant.aliases.get(value)
            control = next((use for use in self.right if wanted is None or use.attrs.get(name) == wanted), self.control)
            call = {**control.arguments(), name: [fact.kind, value]}
            yield self._probe("text", fact.name, value, PRINTED, control, control, call, cause)
        for value in meant.values:
            use = next((use for use in self.right if use.attrs.get(name) == value), None)
            if use is not None and value not in fact.values:
                yield self._probe("text", fact.name, value, UNPRINTED, use, use, cause=cause)
        if fact.kind != meant.kind and not fact.values:
            call = {**self.control.arguments(), name: [fact.kind, plain(fact.default)]}
            yield self._probe("text", fact.name, f"as {fact.kind}", PRINTED, self.control, self.control, call, cause)

    def _printed_types(self, fact: Mapping[str, str], cause: str) -> Iterator[Probe]:
        names = [port.name for port in self.page.schema.inputs]
        for where, dtype in fact.items():
            if where not in names or dtype not in DataType.__members__:
                continue
            index = names.index(where)
            control = next((use for use in (*self.right, *self.failing) if len(use.picks) > index), None)
            if control is not None:
                changed = control.typed({index: dtype}, {})
                yield self._probe("text", where, dtype, PRINTED, changed, control, cause=cause)

    def _probe(
        self,
        group: str,
        subject: str,
        value: Any,
        says: str,
        use: ProbedUse,
        control: ProbedUse | None,
        call: Mapping[str, Sequence[Any]] | None = None,
        cause: str = "",
    ) -> Probe:
        """A probe whose control counts only if the library computes it right."""
        sound = control if control in self.right else None
        arguments = use.arguments() if call is None else call
        return Probe(self.page, group, subject, plain(value), says, use, arguments, sound, cause)


def page_ports(page: PageOfOp, use: ProbedUse) -> set[tuple[str, int]]:
    """The ports of a use, by side and index."""
    inputs = {("inputs", min(index, len(page.schema.inputs) - 1)) for index in range(len(use.picks))}
    return inputs | {("outputs", index) for index in range(len(use.outputs))}


def _rule(broken: Sequence[str]) -> str:
    return broken[0] if broken else ""


def _forbidden(attribute: Attribute, control_value: Any) -> Iterator[Any]:
    """Values that are probably not allowed: other words, numbers out of range, lists of other lengths."""
    if attribute.kind == "str":
        yield "no such value"
        alike = [one for schema in BASE.values() for one in schema.attributes if one.name == attribute.name]
        values = {value for one in alike for value in one.values}
        yield from sorted(values - {*attribute.values, *attribute.aliases})
        return
    outside = [] if attribute.range is None else [n for n in (0, -1, -2, 2) if not attribute.range.holds(n)][:2]
    if not attribute.kind.endswith("[]"):
        far = [FAR, -FAR] if attribute.kind in ("f32", "s64") else []
        yield from (float(number) if attribute.kind == "f32" else number for number in (*outside, *far))
        return
    numbers = list(plain(control_value)) if control_value is not None else [1, 1]
    yield from ([number] * len(numbers) for number in outside)
    if numbers:
        yield [*numbers, numbers[-1]]
        yield numbers[:-1]
        yield [*numbers[:-1], FAR]
