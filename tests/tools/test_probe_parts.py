"""Parts of the conformance tests on uses and results that are written by hand: claims, words, findings, coverage."""

import signal
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.executables import forked_python

import onegraph as og
from onegraph._util.worker_process import Outcome
from onegraph.faults.capabilities import LIBRARY_VALUES
from onegraph.faults.cpus import ISA_OF_DTYPE
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, DEFAULT, EDITIONS, base_of, edition
from onegraph.opset.errata.correction import (
    ATTRIBUTES,
    DESCRIPTION,
    INPUTS,
    NOWHERE,
    OUTPUTS,
    TYPES,
    Correction,
)
from onegraph.opset.fusion_patterns import patterns_of
from onegraph.opset.signature import Attribute, Fill, Port
from onegraph.tools import cpp_program
from onegraph.tools.capture.recording import Recording
from onegraph.tools.conformance import (
    causes,
    changes,
    claims,
    coverage,
    findings,
    own_causes,
    results,
    uses,
    words,
)
from onegraph.tools.conformance.drawn import drawing, features, filing, libraries
from onegraph.tools.conformance.drawn import findings as drawn_findings
from onegraph.tools.conformance.drawn.c_program import REPEATED, _first, c_type, repeated
from onegraph.tools.conformance.drawn.measurement import Tried
from onegraph.tools.conformance.fused.cases import _counted, _types_allowed, is_promised
from onegraph.tools.conformance.own_causes import OWN
from onegraph.tools.conformance.page_of_op import PageOfOp
from onegraph.tools.conformance.probes import PRINTED, TAKEN, UNPRINTED, Probe
from onegraph.tools.conformance.uses import SINGLE, ProbedUse
from onegraph.tools.conformance.worker import compare, stored
from onegraph.tools.specification.differences import PageDifference
from onegraph.tools.specification.importing import Import


def use_of(inputs=3, outputs=1, dtypes=None, **attrs):
    names = dtypes or ["f32"] * inputs
    tensors = [[name, [2], [1]] for name in names]
    return ProbedUse("LayerNorm", ("given", "a use"), tuple(enumerate(names)), attrs, ("f32",) * outputs, tensors)


# Claims --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "given", "made"), [
    (claims._gamma_alone, use_of(3), use_of(2, use_affine=False)),
    (claims._gamma_alone, use_of(6, use_affine=True), use_of(5, use_affine=False)),
    (claims._gamma_alone, use_of(3, use_affine=False), None), (claims._gamma_alone, use_of(2), None),
    (claims._one_statistic, use_of(keep_stats=False), use_of(outputs=2, keep_stats=False)),
    (claims._one_statistic, use_of(keep_stats=True), None), (claims._one_statistic, use_of(), None),
    (claims._one_gradient, use_of(), use_of(outputs=2)), (claims._one_gradient, use_of(use_affine=False), None),
    (claims._no_gradients, use_of(outputs=3), use_of()), (claims._no_gradients, use_of(use_affine=False), None),
    (claims._one_zero_point, use_of(qtype="per_channel", zps=(4, 5)), use_of(qtype="per_channel", zps=[4])),
    (claims._one_zero_point, use_of(qtype="per_tensor", zps=[4, 5]), None),
    (claims._one_zero_point, use_of(qtype="per_channel"), None),
])  # fmt: skip
def test_claims_change_uses_that_they_are_of(change, given, made):
    found = change(given)
    assert found is made is None or (found.attrs, found.dtypes, found.outputs) == (
        made.attrs,
        made.dtypes,
        made.outputs,
    )


@pytest.mark.parametrize(("has_groups", "ranks", "others"), [
    (False, (2, 1, 1), False), (False, (2, 1, 2), True), (False, (2, 0), True), (True, (2, 2), False),
])  # fmt: skip
def test_pages_without_groups_speak_of_vectors(has_groups, ranks, others):
    schema = SimpleNamespace(has_attribute=lambda name: has_groups and name == "group_shape")
    use = SimpleNamespace(arrays=[np.ones((1,) * rank) for rank in ranks])
    assert claims._other_ranks(schema, use) is others


# Causes and changes --------------------------------------------------------------------------------------------------


def test_probes_in_f32_have_no_types_that_the_cpu_lacks(monkeypatch):
    monkeypatch.setattr(causes, "NOT_NATIVE", ["f16"])
    use = ProbedUse("Add", ("given",), ((0, "f16"), (1, "bf16")), {}, ("bf16", "f16"))
    made = causes._in_f32(Probe(None, "ports", "a", 1, "refused", use, {}, use))
    assert (made.use.dtypes, made.use.outputs, made.says) == (("f32", "bf16"), ("bf16", "f32"), TAKEN)
    assert made.control == made.use
    assert causes._in_f32(Probe(None, "ports", "a", 1, "refused", use, {})).control is None
    assert causes._not_native(use) == ["f16"]


ABOVE_0 = SimpleNamespace(name="positive", holds=lambda number: number > 0)


@pytest.mark.parametrize(("kind", "bounds", "control", "found"), [
    ("s64", None, 3, [99, -99]), ("s64", ABOVE_0, 3, [0, -1, 99, -99]), ("f32", ABOVE_0, 3, [0.0, -1.0, 99.0, -99.0]),
    ("bool", None, True, []), ("s64[]", ABOVE_0, (3, 4), [[0, 0], [-1, -1], [3, 4, 4], [3], [3, 99]]),
    ("f32[]", None, None, [[1, 1, 1], [1], [1, 99]]), ("s64[]", ABOVE_0, (), [[], []]),
    ("s64", SimpleNamespace(holds=lambda number: number in (-1, 0)), 0, [-2, 2, 99, -99]),
])  # fmt: skip
def test_values_out_of_bounds_are_tried(kind, bounds, control, found):
    made = [*changes._forbidden(SimpleNamespace(kind=kind, range=bounds), control)]
    assert made == found
    assert [*map(type, made)] == [*map(type, found)]


def test_words_of_other_pages_are_tried():
    attribute = SimpleNamespace(kind="str", name="auto_broadcast", values=("none",), aliases=("x",))
    assert [*changes._forbidden(attribute, None)] == ["no such value", "numpy"]


def test_further_inputs_belong_to_the_last_port():
    page = SimpleNamespace(schema=SimpleNamespace(inputs=[1, 2]))
    ports = {("inputs", 0), ("inputs", 1), ("outputs", 0), ("outputs", 1)}
    assert changes.page_ports(page, use_of(4, 2)) == ports


# Words ---------------------------------------------------------------------------------------------------------------


def probes_of(fact, section=ATTRIBUTES, right=(), failing=(), outputs=1, **meant):
    """What a mistake of a page makes of uses: subject, value, what the page says, the use, its calls."""
    ports = [SimpleNamespace(name=name) for name in ("src", "gamma", "beta")]
    attribute = SimpleNamespace(**{"kind": "str", "values": (), "aliases": {}, **meant})
    schema = SimpleNamespace(inputs=ports, outputs=ports[:outputs], attribute=lambda name: attribute)
    page = SimpleNamespace(schema=schema, base_name=lambda name: f"own {name}")
    every = [*right, *failing]
    correction = Correction("mistake", (), (), section, "src", "", "", "", "", fact)
    for one in changes.Changes(page, right, failing)._correction(correction):
        calls = {name: value for name, value in one.call.items() if one.use in every}
        assert one.cause == "correction:mistake"
        control = None if one.control is None else every.index(one.control)
        yield one.subject, one.value, one.says, control, calls or one.use.dtypes


WITH = {"own mode": "b"}, {"own mode": "a"}, {}
MODES = tuple(ProbedUse("ReLU", ("given", "x"), ((0, "f32"),), mode, ("f32",)) for mode in WITH)


def test_mistakes_in_attributes_are_probed(monkeypatch):
    def arguments(use):
        return {name: ["str", value] for name, value in use.attrs.items()}

    monkeypatch.setattr(ProbedUse, "arguments", arguments)
    printed = Attribute("mode", "str", "", values=("z", "q", "a"))
    found = probes_of(printed, right=MODES, values=("a", "b", "c"), aliases={"z": "a"})
    assert [*found] == [
        ("mode", "z", PRINTED, 1, {"own mode": ["str", "z"]}),
        ("mode", "q", PRINTED, 0, {"own mode": ["str", "q"]}),
        ("mode", "b", UNPRINTED, 0, {"own mode": ["str", "b"]}),
    ]
    number = Attribute("mode", "f32", "", default=1.5)
    as_printed = ("mode", "as f32", PRINTED, 0, {"own mode": ["f32", 1.5]})
    assert [*probes_of(number, right=MODES, kind="s64")] == [as_printed]
    assert [*probes_of(number, right=MODES, kind="f32")] == []
    assert [*probes_of(Attribute("mode", "str", "", values=("a",)), right=MODES, kind="s64", values=("a",))] == []


def test_mistakes_in_ports_and_types_are_probed():
    few, right, more = use_of(2), use_of(3, outputs=2), use_of(4)
    given = ("src", "given", UNPRINTED, 1, right.dtypes)
    assert [*probes_of(NOWHERE, OUTPUTS, [few, right], outputs=2)] == [given]
    assert [*probes_of(NOWHERE, INPUTS, [few, right], outputs=1)] == [given]
    assert [*probes_of(NOWHERE, OUTPUTS, [few, right], outputs=3)] == []
    assert [*probes_of(Port("src", "T1"), INPUTS, [few, right])] == []
    assert [*probes_of(None, TYPES, [few, right])] == []
    types = {"src": "bf16", "nothing": "f32", "gamma": "T1", "beta": "f16"}
    src = ("src", "bf16", PRINTED, 0, ("bf16", "f32"))
    assert [*probes_of(types, TYPES, [few, right])] == [src, ("beta", "f16", PRINTED, 1, ("f32", "f32", "f16"))]
    assert [*probes_of(types, TYPES, [few], [more])][1][2:] == (PRINTED, None, ("f32", "f32", "f16", "f32"))
    assert [*probes_of(types, TYPES, [few])] == [src]


def page_of(kind):
    words_of_edition = edition(DEFAULT)
    return PageOfOp(words_of_edition, words_of_edition.schema(kind))


def row_of(page, subject="axis", value=3, outcome="refused"):
    return SimpleNamespace(
        asked=SimpleNamespace(page=page, subject=subject, value=value), outcome=Outcome(outcome, "", "")
    )


@pytest.mark.parametrize(("kind", "cause", "section", "correction"), [
    ("SoftMax", "no_kernel_of_its_own", DESCRIPTION, "Print that oneDNN 3.2.0 has no kernel for the op by itself."),
    ("SoftMax", "machine:bf16", TYPES, f"Print that bf16 needs a CPU with {ISA_OF_DTYPE[DataType.bf16]}."),
    ("Convolution", "auto_pad_spelling", ATTRIBUTES,
     f"Print the values that the library takes: {', '.join(LIBRARY_VALUES['auto_pad'].values())}."),
    ("SoftMax", "laxer:attribute_value:mode", ATTRIBUTES,
     "dnnl_graph_add_op should refuse words that are not among the printed values."),
    ("SoftMax", "crashes:input_count", ATTRIBUTES,
     "dnnl_graph_add_op should refuse another number of inputs than the table has."),
    ("SoftMax", "laxer:some_rule", ATTRIBUTES,
     "dnnl_graph_add_op should refuse a use that breaks the rule: some rule."),
    ("SoftMax", "stricter:axis:3", ATTRIBUTES,
     "oneDNN 3.2.0 should accept axis 3; or the page should say that the library refuses it."),
])  # fmt: skip
def test_causes_say_what_should_change(kind, cause, section, correction):
    found = words.words_of(cause, row_of(page_of(kind)), "3.2.0")
    assert (found.section, found.correction) == (section, correction)


@pytest.mark.parametrize(("subject", "found"), [
    ("inputs", (INPUTS, "src (required)")), ("number of inputs", (INPUTS, "src (required)")),
    ("src", (INPUTS, "src (required)")), ("number of outputs", (OUTPUTS, "dst (required)")),
    ("dst", (OUTPUTS, "dst (required)")),
    ("other", (DESCRIPTION, words.UNLIMITED)),
])  # fmt: skip
def test_subjects_have_places_on_the_page(subject, found):
    assert words.place(page_of("Elu"), subject) == found


@pytest.mark.parametrize(("given", "text"), [
    ({"kind": "str", "values": ("x", "y"), "default": "x"}, "a: string, x or y, by default x, optional"),
    ({"kind": "s64[]", "default": Fill(1)}, "a: s64 list, by default a list of 1s, optional"),
    ({"kind": "f32[]", "default": ()}, "a: f32 list, optional"),
    ({"kind": "bool", "required": True}, "a: bool, required"),
    ({"kind": "f32", "range": ABOVE_0, "default": 0.0}, "a: f32, positive, by default 0.0, optional"),
])  # fmt: skip
def test_rows_of_attributes(given, text):
    usual = {"name": "a", "values": (), "range": None, "default": None, "required": False}
    assert words.attribute_text(SimpleNamespace(**{**usual, **given})) == text


@pytest.mark.parametrize(("variadic", "optional", "text"), [
    (True, True, "(any number)"), (False, True, "(optional)"), (False, False, "(required)"),
])  # fmt: skip
def test_ports_are_required_or_not(variadic, optional, text):
    assert words.needed(SimpleNamespace(variadic=variadic, optional=optional)) == text


LIMIT = "oneDNN {} should {} this use; or the page should print the limit: a reason."
OTHER = (
    "oneDNN 3.6.0 should compute the formula for this use; or the page should say that the library computes other "
    "numbers for it. oneDNN 3.2 behaves in another way: a reason."
)


@pytest.mark.parametrize(("version", "outcome", "text"), [
    ("3.2.0", "refused", LIMIT.format("3.2.0", "accept")), ("3.6.0", "wrong", OTHER),
    ("3.6.0", "refused", LIMIT.format("3.6.0", "accept")),
    ("3.1.0", "wrong", LIMIT.format("3.1.0", "compute the formula for")),
    ("3.4.2", "wrong", LIMIT.format("3.4.2", "compute the formula for")),
])  # fmt: skip
def test_limits_are_those_of_the_first_version(version, outcome, text):
    fault = SimpleNamespace(seen={(3, 0): "right", (3, 2): "refuses", (3, 6): "wrong"}, reason="a reason")
    assert words.limit(fault, row_of(None, outcome=outcome), version) == text


# Results, findings and coverage --------------------------------------------------------------------------------------


def test_code_is_packed_into_lines():
    assert results._packed(["a", "b", "c"], 7) == ["a, b, c,"]
    assert results._packed(["a", "b", "c"], 6) == ["a, b,", "    c,"]
    assert results._packed(["a", "bc"], 4) == ["a,", "    bc,"]
    assert results._packed(["a", "bc"], 5) == ["a, bc,"]


@pytest.mark.parametrize(("array", "is_compared", "text"), [
    (np.array([1, 2], np.int32), False, "('f32', [2], [1, 2])"), (np.ones(12, np.int64), False, "('f32', [12], [1"),
    (np.ones(13, np.int64), False, "('f32', [13])"), (np.ones(13, np.int64), True, "('f32', [13], [1])"),
    (np.array([1.5, np.inf], np.float32), True, "('f32', [2], [1.5, float('inf')])"),
    (np.array([1.5, 2], np.float32), False, "('f32', [2])"), (np.zeros((0, 2), np.int32), True, "('f32', [0, 2])"),
    (np.full((20, 2), 3, np.float32), True, "('f32', [20, 2], [3.0])"),
    (np.arange(20, dtype=np.float32), True, "('f32', [20])"),
])  # fmt: skip
def test_tensors_are_written_with_few_contents(array, is_compared, text):
    assert results._tensor("f32", array, is_compared).startswith(text)


def row(group="ports", says=TAKEN, outcome="wrong", dtypes=("f32",), elements=4, attrs=1, own=False):
    use = SimpleNamespace(
        dtypes=dtypes, outputs=("s8",), arrays=[np.ones(elements)], attrs={str(place): 1 for place in range(attrs)}
    )
    asked = SimpleNamespace(use=use, group=group, says=says)
    return SimpleNamespace(asked=asked, outcome=Outcome(outcome, "", ""), causes=(OWN[0].name,) if own else ())


@pytest.mark.parametrize(("better", "worse"), [
    (row("known fault", outcome="refused"), row()), (row("valid use", own=True, outcome="refused"), row()),
    (row(outcome="refused"), row(says=UNPRINTED)), (row(says=UNPRINTED, outcome="refused"), row("valid use")),
    (row(dtypes=("bf16",)), row(outcome="refused")), (row(dtypes=("f16",)), row(outcome="unsupported")),
    (row(elements=9), row(dtypes=("bf16",))), (row(elements=3, attrs=5), row()), (row(attrs=0), row()),
    (row(dtypes=("f32", "s32", "u8", "s8")), row(elements=5)),
])  # fmt: skip
def test_the_simplest_row_shows_a_cause(better, worse):
    assert findings._simplest([better, worse]) is better
    assert findings._simplest([worse, better]) is better


@pytest.mark.parametrize(("group", "control", "text"), [
    ("known fault", None, "Elu: 3"), ("valid use", None, "Elu: the valid use 3"), ("ports", None, "Elu: axis 3"),
    ("ports", SimpleNamespace(label="a case"), "Elu: axis 3, changed in a use that is right (a case)"),
])  # fmt: skip
def test_findings_say_what_was_done(group, control, text):
    for value in (3, "3"):
        asked = SimpleNamespace(page=page_of("Elu"), group=group, subject="axis", value=value, control=control)
        assert findings._done(SimpleNamespace(asked=asked)) == text


def test_coverage_as_text():
    faults = {"f1": coverage.MET, "f2": coverage.FUSED, "f3": coverage.HIDDEN, "f4": coverage.FUSED}
    told = coverage.Coverage({"a": (3, 2)}, [("ReLU", "x", "y")], {"W": "why"}, faults)
    lines = [
        "a: 2 of 3 tried", "known faults of this version: 1 of 2 that a probe can meet; 2 that none can",
        f"  not met, {coverage.FUSED}: f2, f4", f"  not met, {coverage.HIDDEN}: f3", "not tried: ReLU, x, y",
        "skipped: W, why",
    ]  # fmt: skip
    assert told.lines() == told.lines(names=True) == lines
    assert told.lines(names=False) == [*lines[:2], f"  not met, {coverage.FUSED}: 2", *lines[3:]]


@pytest.mark.parametrize(("kind", "inputs", "outputs"), [
    ("Concat", ["1"], ["1"]), ("MatMul", ["2", "3"], ["1"]), ("LayerNorm", ["1", "2", "3"], ["1", "2", "3"]),
    ("End", ["1"], ["0"]),
])  # fmt: skip
def test_pages_document_numbers_of_ports(kind, inputs, outputs):
    for side, numbers in (("inputs", inputs), ("outputs", outputs)):
        items = coverage._documented(page_of(kind), f"numbers of {side}")
        assert items == [(kind, f"number of {side[:-1]}s", number) for number in numbers]


@pytest.mark.parametrize(("count", "text"), [(0, "no difference"), (1, "1 difference"), (2, "2 differences")])
def test_differences_are_counted(count, text):
    one = SimpleNamespace(proposal="first\nsecond")
    made = Import("e", "a note" if count else "", "f", 5, (one,) * count)
    lines = made.to_text().splitlines()
    assert lines[0] == "5 pages in f, compared with e"
    assert lines[1:] == [*(["a note"] if count else ()), *["", str(one), "    first", "    second"] * count, "", text]
    difference = PageDifference("ReLU", "Inputs", "src", "f32", "f16", "first")
    made = made._replace(differences=(difference,) * count)
    assert made.to_dict() == {**made._asdict(), "differences": [difference._asdict()] * count}


def test_an_import_as_plain_values():
    one = SimpleNamespace(_asdict=lambda: {"op": "ReLU"})
    facts = {"edition": "e", "note": "a note", "folder": "f", "pages": 5, "differences": [{"op": "ReLU"}] * 2}
    assert Import("e", "a note", "f", 5, (one, one)).to_dict() == facts


# Findings of runs ----------------------------------------------------------------------------------------------------


FAULTS = {
    "nan": SimpleNamespace(reason="a reason", of_nan=True, is_certain=lambda call: False),
    "memory": SimpleNamespace(reason="a reason", of_nan=False, is_certain=lambda call: False),
    "certain": SimpleNamespace(reason="a reason", of_nan=True, is_certain=lambda call: True),
}
CAUSE = "Cause, as far as known: a reason."


def finding(fault="", verdict="wrong", correction="Print more.", **asked):
    use = ProbedUse("ReLU", ("given", "a use"), ((0, "f32"),), {}, ("f32",), [["f32", [2], [1]]])
    usual = {"use": use, "call": {}, "allowed": True, "page": page_of("ReLU"), "group": "ports", "subject": "a"}
    simplest = SimpleNamespace(
        asked=SimpleNamespace(**{**usual, "value": 1, **asked}), outcome=Outcome("wrong", "", "")
    )
    return SimpleNamespace(
        id="x", verdict=verdict, fault=fault, edition=DEFAULT, printed="text", correction=correction,
        simplest=simplest, to_dict=dict,
    )  # fmt: skip


def filed(*several):
    return filing.cases_of_run(SimpleNamespace(findings=several))


@pytest.mark.parametrize(("given", "notes"), [
    (finding(), ["Proposed: print more."]), (finding(correction="ReLU is right."), ["Proposed: ReLU is right."]),
    (finding("nan", correction="Say a reason."), ["Proposed: say a reason.", filing.OF_NAN]),
    (finding("nan"), ["Proposed: print more.", CAUSE, filing.OF_NAN]),
    (finding("memory"), ["Proposed: print more.", CAUSE, f"Undefined memory or rounding: {filing.DEPENDS}."]),
    (finding("certain"), ["Proposed: print more.", CAUSE]),
])  # fmt: skip
def test_notes_of_findings(monkeypatch, given, notes):
    monkeypatch.setattr(filing, "SINGLE", FAULTS)
    (case,) = filed(given)
    assert case.notes == ["The page says: text.", *notes]


def test_findings_that_a_call_shows_are_filed():
    silent = finding()
    silent.simplest = None
    assert filed(silent, finding(verdict="text"), finding(verdict="machine")) == []
    assert [case.problem for case in filed(finding(), finding(group="valid use"))] == ["a 1", 1]
    assert [case.graph is None for case in filed(finding(), finding(call={"alpha": ["f32", 1.0]}))] == [False, True]
    assert len(filed(finding(allowed=False, call={"alpha": ["f32", 1.0]}))) == 1


# Comparisons and chains ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("got", "wanted", "fits"), [
    ((1,), (), True), ((), (), True), ((1,), (1, 1), False), ((1, 1), (), False), ((1,), (2,), False),
    ((2,), (2,), True),
])  # fmt: skip
def test_scalars_may_have_an_axis(got, wanted, fits):
    assert ("has shape" in compare([np.ones(got, np.float32)], [np.ones(wanted, np.float32)])) is not fits


def test_results_that_the_library_lacks_are_not_compared():
    one = np.ones(2, np.float32)
    assert compare([one], [one, one]) == ""
    assert compare([one + 1, one], [one]) == "output 0 is 2 at [0], expected 1"


def test_pages_promise_chains_in_some_data_types():
    guide = patterns_of((3, 13))
    assert is_promised(guide, ("MatMul", "ReLU"), "f32") is True
    assert is_promised(guide, ("ReLU", "MatMul"), "f32") is False


@pytest.mark.parametrize(("following", "conversions", "kinds", "dtype", "is_allowed"), [
    ({"f32"}, None, ("MatMul", "TypeCast"), "f32", True), ({"f32"}, None, ("MatMul", "ReLU"), "bf16", False),
    ({"f32", "bf16"}, {("bf16", "f32")}, ("MatMul", "TypeCast"), "bf16", True),
    ({"f32", "bf16"}, {("bf16", "f32")}, ("MatMul", "TypeCast"), "f32", False),
    ({"f32", "bf16"}, {("bf16", "f32")}, ("MatMul", "ReLU"), "f32", True),
    ({"f32"}, {("bf16", "f32")}, ("MatMul", "TypeCast"), "bf16", False),
])  # fmt: skip
def test_pages_allow_data_types_and_conversions(following, conversions, kinds, dtype, is_allowed):
    pattern = SimpleNamespace(following=following, conversions=conversions)
    assert _types_allowed(pattern, kinds, dtype) is is_allowed


def test_inputs_with_the_name_of_an_attribute_give_shapes():
    """So do probes take one for the other; and each page has a row of data types to draw."""
    for schema in BASE.values():
        shapes = [port for port in schema.inputs if schema.has_attribute(port.name)]
        assert shapes in ([], [schema.inputs[-1]]), schema.kind
        assert all(port.gives_shape for port in shapes), schema.kind
    for chosen in map(edition, EDITIONS):
        pages = [PageOfOp(chosen, schema) for schema in chosen.schemas.values() if base_of(schema).kind in BASE]
        assert all(page.combinations for page in pages)


def test_a_known_fault_is_its_own_cause():
    name = next(iter(SINGLE))
    assert causes._Court((3, 2, 0), set())._known(SimpleNamespace(cause=name), None) == (name,)


# Numbers that repeat, and causes of random uses ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_large_inputs_repeat_a_few_numbers(seed):
    size, dtypes = 3 * REPEATED, ("f32", "s8", "boolean", "bf16", "f32")
    tensors = [*([name, [3, REPEATED], [1]] for name in dtypes[:-1]), ["f32", [2], [5, 6]]]
    picks = tuple((4 - place, name) for place, name in enumerate(reversed(dtypes)))[::-1]
    use = ProbedUse("Add", ("given", "a use"), picks, {}, ("f32",), tensors, (1,))
    made = repeated(use, seed)
    assert (made.source, made.extra) == (("given", "a use"), ())
    assert made.picks == tuple(enumerate(dtypes))
    assert [tensor[:2] for tensor in made.tensors] == [[name, [3, REPEATED]] for name in dtypes[:-1]] + [["f32", [2]]]
    arrays = [array.ravel() for array in made.arrays]
    for array in arrays[:-1]:
        few = _first(array)
        assert few.size == REPEATED
        assert array.tolist() == [few[place % REPEATED * 7 % REPEATED] for place in range(size)]
    quarters = [(number - 8) / 4 for number in range(REPEATED)]
    assert (sorted(arrays[0][:REPEATED].tolist()) == quarters) is (seed == 0)
    assert len({*arrays[0].tolist()}) == REPEATED
    assert {*arrays[1].tolist()} <= {*range(100)}
    assert max(arrays[1]) > 20
    assert {*arrays[2].tolist()} == {False, True}
    assert arrays[4].tolist() == [5, 6]


def test_causes_are_told_from_right_uses(monkeypatch):
    asked, closed = [], []

    def cause(failing, right):
        asked.append(([*failing], [*right]))
        return ("word",), [0]

    def made(kind, verdict, words_, tried, version, workers):
        assert sorted(workers) == ["filled memory", "zeroed memory"]
        return SimpleNamespace(verdict=verdict, numbers=[one.drawn.use.name for one in tried], id=kind)

    monkeypatch.setattr(drawn_findings, "cause", cause)
    monkeypatch.setattr(drawn_findings, "_finding", made)
    monkeypatch.setattr(drawn_findings, "new_worker", lambda condition: SimpleNamespace(close=lambda: closed.append(1)))

    def tried(name, kind, outcome="right", is_unknown=True):
        use = SimpleNamespace(kind=kind, name=name)
        is_wrong = outcome != "right"
        return SimpleNamespace(
            drawn=SimpleNamespace(use=use), is_unknown=is_wrong and is_unknown, is_wrong=is_wrong,
            worst=Outcome(outcome, "", ""),
        )  # fmt: skip

    several = [
        tried("a", "Add"), tried("b", "Add", "wrong"), tried("c", "Add", "wrong"), tried("d", "Add", "wrong", False),
        tried("e", "Abs", "hang"), tried("f", "Abs"), tried("g", "Add", "refused"),
    ]  # fmt: skip
    found = drawn_findings.findings_of(several, (3, 2, 0))
    assert [([one.name for one in failing], [one.name for one in right]) for failing, right in asked] == [
        (["b", "c"], ["a"]), (["c"], ["a"]), (["e"], ["f"]), (["g"], ["a"]),
    ]  # fmt: skip
    assert [(one.verdict, one.numbers) for one in found] == [
        ("crashes", ["e"]), ("wrong", ["b"]), ("wrong", ["c"]), ("stricter", ["g"]),
    ]  # fmt: skip
    assert len(closed) == 2


@pytest.mark.parametrize(("dtype", "name"), [
    ("f32", "float"), ("s64", "int64_t"), ("boolean", "uint8_t"), ("bf16", "uint16_t"), ("f8_e4m3", "uint8_t"),
])  # fmt: skip
def test_elements_have_types_of_c(dtype, name):
    assert c_type(dtype) == name


def test_programs_of_too_many_numbers_are_refused(monkeypatch):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (3,))))
    monkeypatch.setattr(cpp_program, "MOST_ELEMENTS", 6)
    assert "dnnl_graph_op_relu" in cpp_program.to_cpp(graph)
    monkeypatch.setattr(cpp_program, "MOST_ELEMENTS", 5)
    with pytest.raises(og.ArgumentError, match="a program of 6 numbers; expected at most 5"):
        cpp_program.to_cpp(graph)


@pytest.mark.parametrize(("strides", "shape", "memory"), [
    (None, (2, 3), [1, 2, 3, 4, 5, 6]), ((5, 1), (2, 3), [1, 2, 3, 0, 0, 4, 5, 6]),
    ((1, 2), (2, 3), [1, 4, 2, 5, 3, 6]), ((3, 1), (0, 3), [0]), ((0, 1), (1, 2), [1, 2]),
])  # fmt: skip
def test_memory_has_the_gaps_of_strides(strides, shape, memory):
    array = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    assert cpp_program._memory(SimpleNamespace(strides=strides), array).ravel().tolist() == memory


@pytest.mark.parametrize(("kind", "value", "text"), [
    ("f32", 1.5, "float(1.5)"), ("s64[]", [1, 2], "{1, 2}"), ("f32[]", [1.0], "{float(1)}"), ("bool", True, "true"),
    ("bool", 0, "false"), ("str", "x", '"x"'), ("s64", 3.0, None), ("s64", 3, "3"),
])  # fmt: skip
def test_values_are_literals_of_cpp(kind, value, text):
    if text is None:
        with pytest.raises(ValueError, match="invalid literal"):
            cpp_program._literal(kind, value)
    else:
        assert cpp_program._literal(kind, value) == text


@pytest.mark.parametrize(("shares", "chosen", "dims", "tables"), [
    ([0.5, 0.5], [64, 64], (64, 64), "ss"), ([0.5, 0.5], [64, 65], (64, 32), "ss"),
    ([0.059, 0.06], [3, 4], (3, 4), "ls"),
    ([0.5] * 3, [20, 20, 20], (10, 20, 20), "sss"), ([], [], (), ""), ([0.5], [9000], (2250,), "s"),
])  # fmt: skip
def test_sources_have_a_bounded_number_of_elements(shares, chosen, dims, tables):
    shares_left, sizes, asked = iter(shares), iter(chosen), []

    class Drawn:
        def randint(self, low, high):
            assert (low, high) == (1, 4)
            return len(chosen)

        def random(self):
            return next(shares_left)

        def choice(self, several):
            asked.append({drawing.DIMS: "s", drawing.LONG_DIMS: "l"}[several])
            return next(sizes)

    assert drawing._source(Drawn(), 1, 4) == dims
    assert "".join(asked) == tables


def words_of_uses(monkeypatch, failing, right):
    monkeypatch.setattr(features, "features", frozenset)
    return features.cause(failing, right)


SUBSETS = ["".join(word for place, word in enumerate("abcd") if number >> place & 1) for number in range(16)]


@pytest.mark.parametrize(("failing", "right", "words_", "places"), [
    (["abcd", "abcd"], SUBSETS, "abc", [0, 1]), (["abcd"], [], "", [0]), (["ab"], ["ab"], "", [0]),
    (["ax", "ay", "bz"], ["x", "y", "z"], "a", [0, 1]), (["a"] * 7 + ["b"] * 3, ["b"] * 3, "a", [*range(7)]),
    (["ab"] * 4 + ["a"], ["a"] * 3 + ["b"] * 4 + ["c"] * 3, "ab", [0, 1, 2, 3]),
    (["ab"] * 3 + ["a"], ["a"] * 3 + ["b"] * 4 + ["c"] * 3, "a", [0, 1, 2, 3]),
    (["ab"] * 4 + ["a"], ["a"] + ["b"] * 4, "ab", [0, 1, 2, 3]),
    (["a"], ["a"] * 7 + ["b"] * 3, "a", [0]), (["a"], ["a"] * 8 + ["b"] * 3, "", [0]),
])  # fmt: skip
def test_causes_are_words_that_right_uses_lack(monkeypatch, failing, right, words_, places):
    assert words_of_uses(monkeypatch, failing, right) == (tuple(words_), places)


@pytest.mark.parametrize("access", ["ctypes.string_at({}, 1)", "ctypes.memset({}, 1, 1)"])
def test_nobody_may_touch_the_page_behind_an_array(access):
    code = (
        "import ctypes, faulthandler; import numpy as np; faulthandler.disable()\n"
        "from onegraph.tools.conformance.page_ends import at_page_end\n"
        "made = at_page_end(np.arange(5, dtype=np.float32)); assert made.tolist() == [0, 1, 2, 3, 4]\n"
        "ctypes.string_at(made.ctypes.data + made.nbytes - 1, 1); print('inside', flush=True)\n"
        f"{access.format('made.ctypes.data + made.nbytes')}; print('outside', flush=True)"
    )
    done = forked_python(code)
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "inside\n")


def test_integers_of_four_bits_share_bytes():
    assert stored(np.array([1, -2, 3]).astype(DataType.s4.numpy)).tobytes() == b"\xe1\x03"
    assert stored(np.array([[9, 10], [11, 12]]).astype(DataType.u4.numpy)).tobytes() == b"\xa9\xcb"
    turned = np.arange(6).reshape(2, 3).T
    assert stored(turned).flags.c_contiguous
    assert stored(turned).tolist() == turned.tolist()


@pytest.mark.parametrize(("dtype", "wrong", "ties", "fits"), [
    ("int8", 3, True, True), ("int8", 4, True, False), ("uint8", 3, True, True), ("int8", 1, False, False),
    ("int32", 1, True, False), ("int8", 0, False, True),
])  # fmt: skip
def test_few_codes_may_be_ties(dtype, wrong, ties, fits):
    """Of 64 codes, one and a 32nd of them."""
    wanted = np.arange(64).astype(dtype)
    got = wanted.copy()
    got[:wrong] += 1
    assert (compare([got], [wanted], ties=ties) == "") is fits
    got[5] += 2
    assert compare([got], [wanted]) == "output 0 is 7 at [5], expected 5"


@pytest.mark.parametrize(("axes", "found"), [
    ([(2, 5, 3)], True), ([(2, 5, 2)], False), ([(2, 5, 1)], False), ([(2, 5, 2), (1, 5, 2)], True), ([], False),
    ([(None, 5, 9)], False), ([(2, None, 9)], False), ([(2, 5, None)], False), (None, False),
])  # fmt: skip
def test_pools_that_round_up_are_a_cause(monkeypatch, axes, found):
    """Each axis has what a window makes of it, its size, and the number of windows."""
    sides = [*zip(*axes, strict=True)] if axes else [(), (), ()]
    windows = [None if count is None else SimpleNamespace(forward=lambda _, count=count: count) for count in sides[0]]
    geometry = None if axes is None else SimpleNamespace(windows=windows, sizes=sides[1], counts=sides[2])
    monkeypatch.setattr(own_causes, "pool_geometry", lambda call: geometry)
    assert own_causes._rounds_up(SimpleNamespace(call="a call")) is found


@pytest.mark.parametrize(("outcome", "calm", "found"), [
    ("wrong", "right", True), ("right", "right", False), ("wrong", "wrong", False), ("wrong", None, False),
    ("crash", "ran", True), ("right", "wrong", False),
])  # fmt: skip
def test_what_is_right_in_calm_memory_alone_depends_on_memory(outcome, calm, found):
    ends = [None if one is None else Outcome(one, "execute", "") for one in (outcome, calm)]
    assert Tried(None, (), (), *ends).depends_on_memory is found


@pytest.mark.parametrize(("dtype", "low", "high"), [
    ("u8", 0, 255), ("s8", -128, 127), ("boolean", 0, 1), ("s32", -64, 63), ("f32", -2, 63 / 32), ("bf16", -2, 63 / 32),
])  # fmt: skip
def test_numbers_of_examples_are_exact(dtype, low, high):
    numbers = uses._exact(og.LogicalTensor(3, DataType(dtype), (64, 128))).astype(np.float64)
    assert (numbers.min(), numbers.max()) == (low, high)
    assert (numbers * 32 == np.rint(numbers * 32)).all()
    assert uses._exact(og.LogicalTensor(3, DataType(dtype), (2, None))).shape == (2, 0)


def a_rule():
    """What the rule means.

    More of it.
    """


def a_bare_rule():
    pass


@pytest.mark.parametrize(("rule", "text"), [
    ("a_rule", "What the rule means"), ("a_bare_rule", "a bare rule"), ("no_rule", "no rule"),
])  # fmt: skip
def test_rules_have_meanings(rule, text):
    a_bare_rule.__doc__ = None
    page = SimpleNamespace(base=SimpleNamespace(rules=(a_bare_rule,), shape_rules=(a_rule,)))
    assert words.meaning_of(page, rule) == text


@pytest.mark.parametrize(("mode", "found"), [
    ("f32", True), ("s32", True), ("f16", True), ("strict", False), ("any", False), (None, False),
])  # fmt: skip
def test_types_of_accumulators_are_a_cause(mode, found):
    (cause,) = [one for one in OWN if one.name == "accumulation_types"]
    assert cause.when(use_of(**({} if mode is None else {"accumulation_mode": mode}))) is found


@pytest.mark.parametrize(("dtypes", "found"), [
    (("bf16",), False), (("bf16", "bf16"), True), (("bf16", "f32"), False), (("f32", "f32"), False),
])  # fmt: skip
def test_parameters_of_bf16_are_a_cause(dtypes, found):
    (cause,) = [one for one in OWN if one.name == "bf16_parameters"]
    assert cause.when(use_of(dtypes=dtypes)) is found


@pytest.mark.parametrize(("mode", "found"), [
    ("strict", False), ("any", False), ("f32", True), ("s32", True), ("f16", True),
])  # fmt: skip
def test_types_of_accumulation_are_a_cause(mode, found):
    (cause,) = [one for one in OWN if one.name == "accumulation_types"]
    assert cause.when(use_of(accumulation_mode=mode)) is found
    assert not cause.when(use_of())


@pytest.mark.parametrize(("use", "found"), [
    (use_of(1, sizes=[2]), False), (use_of(2, sizes=[2]), True), (use_of(2), False),
])  # fmt: skip
def test_no_page_says_which_sizes_count(use, found):
    assert claims.UNSPOKEN["Interpolate"](None, use) is found


def test_long_chains_are_shortened():
    kinds = [*"abcdefgh"]
    assert _counted(kinds[:7]) == kinds[:7]
    assert _counted(kinds) == ["a", "b", "c", "... 4 more", "h"]


def test_other_libraries_are_named_in_the_environment():
    assert libraries._environment("x.so") == {"ONEGRAPH_LIBRARY": "x.so"}
    assert libraries._environment("") == {}


def test_inputs_of_calls_are_recorded_up_to_a_limit(tmp_path):
    recording = Recording(tmp_path, True, 10)
    assert [recording.take(size) for size in (6, 6, 4, 1, 0)] == [True, False, True, False, True]
