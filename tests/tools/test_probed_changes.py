"""What is asked of an op beside uses of it, by pages and uses that are written by hand."""

from types import SimpleNamespace

import pytest

from onegraph.opset.errata.correction import INPUTS, NOWHERE, OUTPUTS
from onegraph.opset.signature import Attribute, Fill, Port
from onegraph.tools.conformance.changes import MANY, Changes
from onegraph.tools.conformance.probes import PRINTED, REFUSED, TAKEN, UNPRINTED
from onegraph.tools.conformance.uses import ProbedUse


class Use(ProbedUse):
    """A use of an op that takes all attributes."""

    def arguments(self):
        return {name: [type(value).__name__, value] for name, value in self.attrs.items()}


def use_of(inputs=1, outputs=1, **attrs):
    tensors = [["f32", [2], [1]]] * inputs
    picks = tuple((place, "f32") for place in range(inputs))
    return Use("Quantize", ("given",), picks, attrs, ("f32",) * outputs, tensors)


def page_of(*attributes, inputs=("src",), outputs=("dst",), broken=lambda use: [], variadic=False):
    """A page in the words of the package; ``broken`` tells the rules that a use breaks."""
    schema = SimpleNamespace(
        attributes=attributes,
        attribute=lambda name: next(one for one in attributes if one.name == name),
        inputs=[Port(name, "T") for name in inputs],
        outputs=[Port(name, "T") for name in outputs],
        variadic=variadic,
    )
    return SimpleNamespace(
        schema=schema,
        base=schema,
        base_name=lambda name: name,
        base_word=lambda name, value: value,
        broken_rules=broken,
        allows=lambda use: not broken(use),
    )


def told(probes):
    """The values, what the edition says, and the uses with their controls; an attribute as the library gets it."""
    return [(one.value, one.says, one.use, one.control, one.cause) for one in probes]


def test_words_that_a_page_prints_by_mistake_are_tried():
    meant = Attribute("qtype", "str", "", values=("a", "b", "c"), aliases={"old": "b"})
    uses = [use_of(qtype="a"), use_of(qtype="b"), use_of(axis=1)]
    changes = Changes(page_of(meant), uses, [])
    made = [*changes._printed_attribute(Attribute("qtype", "str", "", values=("a", "old", "typo")), "x")]
    assert told(made) == [
        ("old", PRINTED, uses[1], uses[1], "x"), ("typo", PRINTED, uses[0], uses[0], "x"),
        ("b", UNPRINTED, uses[1], uses[1], "x"),
    ]  # fmt: skip
    assert [one.call for one in made] == [{"qtype": ["str", word]} for word in ("old", "typo", "b")]


@pytest.mark.parametrize(("kind", "values", "calls"), [
    ("s64", (), [{"axis": ["s64", 2]}]), ("f32", (), []), ("s64", ("a",), []),
])  # fmt: skip
def test_types_of_attributes_that_a_page_prints_by_mistake_are_tried(kind, values, calls):
    changes = Changes(page_of(Attribute("axis", "f32", "", values=values)), [use_of(axis=1)], [])
    assert [one.call for one in changes._printed_attribute(Attribute("axis", kind, "", False, 2, values), "x")] == calls


@pytest.mark.parametrize(("section", "fact", "place"), [
    (INPUTS, NOWHERE, 2), (OUTPUTS, NOWHERE, 1), (OUTPUTS, Port("dst", "T"), None), (INPUTS, None, None),
])  # fmt: skip
def test_ports_that_a_page_leaves_out_are_tried(section, fact, place):
    uses = [use_of(1, 1), use_of(1, 2), use_of(3, 1)]
    changes = Changes(page_of(inputs=("a", "b", "c"), outputs=("d", "e")), uses, [])
    correction = SimpleNamespace(name="x", fact=fact, section=section, where="b")
    wanted = [] if place is None else [("given", UNPRINTED, uses[place], uses[place], "correction:x")]
    assert told(changes._correction(correction)) == wanted
    assert [*Changes(changes.page, uses[:1], [])._correction(correction)] == []


def test_types_that_a_page_prints_by_mistake_are_tried():
    uses = [use_of(1), use_of(2)]
    facts = {"a": "s8", "other": "s8", "b": "?", "c": "s8"}
    made = [*Changes(page_of(inputs="abc"), uses[:1], uses[1:])._printed_types({**facts, "b": "u8"}, "x")]
    assert told(made) == [
        ("s8", PRINTED, uses[0].typed({0: "s8"}, {}), uses[0], "x"),
        ("u8", PRINTED, uses[1].typed({1: "u8"}, {}), None, "x"),
    ]
    assert len([*Changes(page_of(inputs="abc"), uses, [])._printed_types(facts, "x")]) == 1


WITH, WITHOUT = use_of(axis=1), use_of()
OTHER = use_of(axis=2)


@pytest.mark.parametrize(("required", "right", "failing", "is_broken", "found"), [
    (True, [WITH], [], True, (REFUSED, WITHOUT, WITH)), (True, [WITHOUT, WITH], [], True, (REFUSED, WITHOUT, WITH)),
    (False, [WITH, OTHER], [], False, (TAKEN, WITHOUT, OTHER)), (False, [WITH], [], True, (REFUSED, WITHOUT, WITH)),
    (False, [WITH], [], False, (TAKEN, WITHOUT, None)), (False, [WITH, WITHOUT], [], False, (TAKEN, WITHOUT, WITHOUT)),
    (False, [], [WITH], True, (REFUSED, WITHOUT, None)), (False, [WITHOUT, WITH], [], True, (TAKEN, WITHOUT, WITHOUT)),
])  # fmt: skip
def test_attributes_are_left_out(required, right, failing, is_broken, found):
    def broken(use):
        return ["missing"] if is_broken and "axis" not in use.attrs else []

    axis = Attribute("axis", "s64", "", required)
    (made,) = Changes(page_of(axis, broken=broken), right, failing)._omission(axis)
    assert (made.says, made.use, made.control) == found
    assert made.group == ("attribute required" if required else "attribute default")
    assert made.cause == ("missing" if found[0] == REFUSED else "")


@pytest.mark.parametrize(("attribute", "right", "found"), [
    (Attribute("flag", "bool", ""), [WITHOUT], [True, False]),
    (Attribute("axis", "s64", "", default=5), [WITHOUT], []),
    (Attribute("axis", "s64", "", default=5), [], [5, 1]),
    (Attribute("qtype", "str", "", values=("a", "b")), [WITHOUT], ["a", "b"]),
])  # fmt: skip
def test_values_of_uses_that_fail_are_tried_if_a_page_lists_them(attribute, right, found):
    """Only the failing use may have the attribute."""
    failing = [use_of(2, axis=1), use_of(2, flag=True)]
    page = page_of(attribute, broken=lambda use: [] if len(use.picks) == 2 else ["x"])
    made = [*Changes(page, right, failing)._values(attribute)]
    assert [one.value for one in made if one.says == TAKEN and one.control is None] == found


def test_words_that_an_attribute_lacks_are_compared_as_they_are():
    changes = Changes(page_of(Attribute("qtype", "str", "", values=("a",), aliases={"A": "a"})), [WITH], [])
    assert [changes._stored("qtype", one) for one in ("A", "a", "typo", 5)] == ["a", "a", "typo", 5]


@pytest.mark.parametrize(("default", "strides", "found"), [
    (Fill(1), {"strides": [2, 2, 2]}, [[1, 1, 1], [7]]), (Fill(1), {}, [[], [7]]), (None, {}, [[7]]),
    ((7,), {}, [[7]]), ((3, 4), {}, [[3, 4], [7]]),
])  # fmt: skip
def test_defaults_and_values_of_uses_are_documented(default, strides, found):
    attribute = Attribute("scales", "s64[]", "", default=default)
    changes = Changes(page_of(attribute), [use_of(**strides)], [use_of(scales=(7,)), use_of(scales=[7])])
    assert changes._documented(attribute, "scales") == found


def test_flags_that_a_rule_forbids_are_turned():
    flag = Attribute("flag", "bool", "", default=False)
    page = page_of(flag, broken=lambda use: ["forbidden"] if use.attrs.get("flag") is True else [])
    uses = [use_of(), use_of(2)]
    changes = Changes(page, uses, [])
    made = [one for one in changes._refused(flag) if one.cause == "forbidden"]
    assert told(made) == [(True, REFUSED, uses[0].having(flag=True), uses[0], "forbidden")]


def test_other_types_are_tried_in_the_use_with_most_ports():
    uses = [use_of(3, 1), use_of(2, 3), use_of(1, 1)]
    page = page_of(inputs="abc", outputs="def", broken=lambda use: ["data_type"])
    page.combinations, page.variables = [], {"T": [("inputs", 0), ("inputs", 2), ("outputs", 0)], "U": [("outputs", 2)]}
    page.name_of, page.port = lambda name: name, lambda side, index: SimpleNamespace(name=f"{side}{index}")
    made = [*Changes(page, uses, [])._data_types()]
    assert all(one.control is uses[1] for one in made)
    assert [one.value for one in made[::6]] == ["T, ...=bf16", "inputs0=bf16", "outputs0=bf16", "outputs2=bf16"]
    assert {one.control for one in Changes(page, [], uses[:1])._data_types()} == {None}
    assert len(made) == 24


def numbers(changes, side="inputs"):
    return [(one.value, one.says, one.control) for one in changes._counts() if one.subject == f"number of {side}"]


def test_every_number_of_ports_is_tried():
    page = page_of(inputs="ab", broken=lambda use: [] if len(use.picks) == 1 and len(use.outputs) == 1 else ["count"])
    use = use_of()
    assert numbers(Changes(page, [use], [])) == [("0", REFUSED, use), ("1", TAKEN, use), ("3", REFUSED, use)]
    assert numbers(Changes(page, [use], []), "outputs") == [
        ("0", REFUSED, use), ("1", TAKEN, use), ("2", REFUSED, use)
    ]  # fmt: skip
    page.schema.variadic = True
    assert numbers(Changes(page, [use], []))[-1] == (f"{MANY}", REFUSED, use)


@pytest.mark.parametrize(("right", "found"), [
    ([use_of(1, b=[3])], [("2", TAKEN, 0)]), ([use_of(1), use_of(2, b=[3]), use_of(1, b=[3])], [("2", TAKEN, 2)]),
    ([use_of(1)], []), ([use_of(2, b=[3])], []), ([use_of(1, b=[1]), use_of(1, b=[3])], [("2", TAKEN, 1)]),
])  # fmt: skip
def test_a_tensor_is_tried_in_the_place_of_an_attribute(right, found):
    page = page_of(inputs="ab", broken=lambda use: ["x"] if use.extra == (1,) else [])
    made = [one for one in Changes(page, right, [])._counts() if one.use.extra]
    assert [(one.value, one.says, one.control) for one in made] == [(*facts, right[place]) for *facts, place in found]


def test_uses_with_other_numbers_of_inputs_are_tried_once():
    page, failing = page_of(inputs="ab"), [use_of(5), use_of(5), use_of(1), use_of(4)]
    assert numbers(Changes(page, [use_of(1)], failing))[-2:] == [("5", TAKEN, None), ("4", TAKEN, None)]
    tensor = page_of(inputs="abcdef")
    made = numbers(Changes(tensor, [use_of(5, f=[3])], [use_of(6), use_of(8)]))
    assert [value for value, _, _ in made][-2:] == ["6", "8"]
