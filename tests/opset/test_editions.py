"""Every edition compared with the facts parsed from its documents: each op, attribute and port.

Each schema is compared as its page prints it, with the corrections of ``onegraph.opset.errata`` undone.
"""

import dataclasses
import itertools
import json
import re

import pytest
from conftest import SHARED
from helpers.grouped import grouped

from onegraph import ArgumentError, check_attrs, check_op
from onegraph.checker.library_limits import Library, library_violations
from onegraph.inference.infer import infer_op
from onegraph.opset.editions import registry
from onegraph.opset.editions.dialect import edition_words, format_of
from onegraph.opset.editions.registry import BASE, EDITIONS, at_version, base_of, edition
from onegraph.opset.errata.catalogue import corrections
from onegraph.opset.errata.correction import UNNAMED, as_printed, printed_types
from onegraph.opset.schema import RuleFinding, during
from onegraph.opset.signature import Attribute, Fill, rows
from onegraph.opset.signature import ports as parsed_ports
from onegraph.opset.values import takes

COUNTS = {
    "legacy-1": 99,
    "oneapi-1.2": 79,
    "oneapi-1.3": 83,
    "oneapi-1.4": 83,
    **dict(
        zip(
            (f"onednn-3.{minor}" for minor in range(15)), (79, 81, *[83] * 4, 84, *[86] * 4, 87, *[88] * 3), strict=True
        )
    ),
}


GUIDE = tuple(f"onednn-3.{minor}" for minor in range(15))
ONEAPI = ("oneapi-1.2", "oneapi-1.3", "oneapi-1.4")
FIRST = ("oneapi-1.2", "onednn-3.0", "onednn-3.1")
SAME_PAGES = {"onednn-3.14": "onednn-3.13"}  # every page is equal byte by byte


# Both sides in one form: {op: {unit: fact}} --------------------------------------------------------------------------


def printed_facts(name):
    """The facts of every op as its page prints it."""
    return {
        kind: _schema_units(
            as_printed(schema, corrections(name, kind)), _printed_table(schema, corrections(name, kind))
        )
        for kind, schema in edition(name).schemas.items()
    }


def _schema_units(schema, table):
    units = {"op": True, "types": table}
    for attribute in schema.attributes:
        default = attribute.default
        if isinstance(default, Fill):
            default = {0: "zeros", 1: "ones"}[default.value]
        default = list(default) if isinstance(default, tuple) else default
        fact = (attribute.kind, attribute.required, default, set(attribute.values))
        units[f"attr {attribute.name}"] = fact
    for side, ports in (("in", schema.inputs), ("out", schema.outputs)):
        units.update({f"{side} {i}": (port.name, port.optional, port.variadic) for i, port in enumerate(ports)})
    return units


def _printed_table(schema, corrected):
    """Every combination of data types that the page prints, as sets of (port, data type)."""
    if schema.kind == "Wildcard":
        return set()  # no table; the record names what an output of any type may be
    places = {port.name: (f"in{i}", port.type) for i, port in enumerate(schema.inputs)}
    places |= {port.name: (f"out{i}", port.type) for i, port in enumerate(schema.outputs)}
    printed = printed_types(corrected)
    found = set()
    for row in schema.types:
        for types in itertools.product(*row.types.values()):
            bound = dict(zip(row.types, map(str, types), strict=True))
            here = {port: (place, bound.get(variable, variable)) for port, (place, variable) in places.items()}
            first = next(iter(here.values()))[1]
            for key, said in printed.items():
                port, _, only = key.partition("@")
                place, dtype = here.get(port, (UNNAMED, bound.get(said)))
                if not said:
                    del here[port]
                elif only in ("", first):
                    here[port] = (UNNAMED, dtype) if said == UNNAMED or said in bound else (place, said)
            found.add(frozenset(here.values()))
    return found


def document_facts(name):
    stem = SAME_PAGES.get(name, name).replace("oneapi", "oneAPI").replace("onednn-", "onednn-v")
    facts = json.loads((SHARED / "spec" / f"{stem}.json").read_text())
    # If the title of a page differs from the op kind, the edition accepts the title too.
    ops = {kind: edition(name).schema(kind) for kind in facts}
    return {ops[kind].kind if ops[kind] else kind: _document_units(fact) for kind, fact in facts.items()}


def _document_units(fact):
    rows = {frozenset((place.split(":")[0], dtype) for place, dtype in row.items()) for row in fact["dtypes"]}
    units = {"op": True, "types": rows}
    for attribute in fact["attributes"]:
        kind = {"string": "str"}.get(attribute["type"], attribute["type"])
        values = set(attribute["values"] or ()) if kind == "str" else set()
        units[f"attr {attribute['name']}"] = (kind, attribute["required"], attribute["default"], values)
    for side, ports in (("in", fact["inputs"]), ("out", fact["outputs"])):
        units.update({f"{side} {port['index']}": _document_port(port) for port in ports})
    return units


def _document_port(port):
    """Name, optional, variadic; None if the page does not say, as for the outputs of legacy-1."""
    name, required = port["name"], port["required"]
    if name is not None:
        # A port that takes either of two tensors has the name of the first, a sign may follow; names have underscores.
        name = name.split("/")[0].replace(" ", "_")
    return name, None if required is None else not required, port["variadic"]


def _agree(ours, text):
    if ours is None or text is None or not isinstance(text, tuple) or len(text) != 3:
        return ours == text
    return all(said is None or said == meant for meant, said in zip(ours, text, strict=True))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the facts of the documents are not beside this checkout")
@pytest.mark.parametrize("name", EDITIONS)
def test_printed_schemas_match_the_document(name):
    ours, text = printed_facts(name), document_facts(name)
    differ = set()
    for kind in ours.keys() | text.keys():
        mine, theirs = ours.get(kind, {}), text.get(kind, {})
        units = mine.keys() | theirs.keys()
        differ |= {(kind, unit) for unit in units if not _agree(mine.get(unit), theirs.get(unit))}
    assert differ == set(), "the schema without its corrections and the document differ"


# Without the documents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EDITIONS)
def test_number_of_ops(name):
    assert len(edition(name).schemas) == COUNTS[name]


def test_developer_guide_only_adds():
    for older, newer in itertools.pairwise(GUIDE):
        assert edition(older).schemas.keys() <= edition(newer).schemas.keys()
    assert set(edition("onednn-3.13").schemas) == set(BASE)


@pytest.mark.parametrize("name", EDITIONS)
def test_every_schema_maps_to_the_base(name):
    chosen = edition(name)
    for kind, schema in chosen.schemas.items():
        base = base_of(schema)
        assert schema.kind == kind
        assert chosen.meaning(base) is schema
        assert len(base.inputs) == len(schema.inputs) or kind in ("MaxPoolBackprop", "SoftMax")
        assert chosen.schema(schema.name) is schema


@pytest.mark.parametrize(
    ("kind", "since"),
    [
        ("HardSigmoid", 1),
        ("HardSigmoidBackward", 1),
        ("Pow", 2),
        ("Select", 2),
        ("GroupNorm", 6),
        ("GreaterEqual", 7),
        ("GenIndex", 7),
        ("RMSNorm", 11),
        ("Dropout", 12),
    ],
)
def test_version_that_introduced_an_op(kind, since):
    for minor in range(14):
        assert (edition(f"onednn-3.{minor}").schema(kind) is not None) == (minor >= since)


@pytest.mark.parametrize(
    ("op", "attribute", "since"),
    [
        ("SoftMax", "mode", 8),
        ("GELU", "mode", 9),
        ("GELUBackward", "mode", 9),
        ("MatMul", "accumulation_mode", 10),
        ("DynamicDequantize", "group_shape", 7),
    ],
)
def test_version_that_introduced_an_attribute(op, attribute, since):
    for minor in range(14):
        assert edition(f"onednn-3.{minor}").schemas[op].has_attribute(attribute) == (minor >= since)


@pytest.mark.parametrize(
    ("op", "inputs", "dtype", "since"),
    [
        ("Add", [("s32", (2,)), ("s32", (2,))], "s32", 9),
        ("Multiply", [("f32", (2,)), ("bf16", (2,))], "f32", 8),
        ("MatMul", [("bf16", (2, 2)), ("bf16", (2, 2))], "f32", 8),
        ("SoftMax", [("f32", (2, 2))], "bf16", 8),
        ("SoftMax", [("f16", (2, 2))], "f32", 11),
        ("SoftMaxBackward", [("bf16", (2, 2)), ("bf16", (2, 2))], "f32", 10),
        ("Dequantize", [("f8_e4m3", (2,))], "f32", 4),
        ("DynamicDequantize", [("s4", (2,)), ("f32", (1,))], "f32", 7),
    ],
)
def test_version_that_introduced_data_types(op, inputs, dtype, since):
    attrs = {"scales": [1.0]} if op == "Dequantize" else {}
    for minor in range(14):
        found = check_op(op, attrs, inputs, [(dtype, None)], edition=f"onednn-3.{minor}")
        assert ("data_type" not in {violation.rule for violation in found}) == (minor >= since)


@pytest.mark.parametrize(
    ("variables", "line", "words"),
    [
        ("T", "bf16|f32", "T=bf16|f32"),
        ("T1 T2", "f32 f32", "T1=f32, T2=f32"),
        ("T1 T2 T3", "s8|u8 f32 s8|u8", "T1 and T3=s8|u8, T2=f32"),
        ("A B C D E", "s8|u8 s8|u8 s8|u8 s8|u8 f32", "A to D=s8|u8, E=f32"),
        ("A B C D E", "s8|u8 f32 s8|u8 s8|u8 s8|u8", "A and C and D and E=s8|u8, B=f32"),
    ],
)
def test_variables_of_one_choice_are_told_together(variables, line, words):
    (row,) = rows(variables, line)
    assert str(row) == words


def test_parts_end_before_their_last_version():
    (port,) = parsed_ports("stats:f32?@3.4-3.9")
    (row,) = rows("T", "f32 @3.5-3.7")
    ended = Attribute("mode", "str", "doc", since=(3, 4), until=(3, 9))
    assert (port.since, port.until, row.since, row.until) == ((3, 4), (3, 9), (3, 5), (3, 7))

    @during(since=(3, 6), until=(3, 8))
    def rounded(call):
        """Never broken."""
        return ()

    schema = dataclasses.replace(
        BASE["ReLU"], outputs=(*BASE["ReLU"].outputs, port), types=(row,), attributes=(ended,), rules=(rounded,)
    )
    for minor in range(15):
        there = at_version(schema, (3, minor))
        assert (port in there.outputs, ended in there.attributes) == (4 <= minor < 9,) * 2
        assert (row in there.types) is (5 <= minor < 7)
        assert (rounded in there.rules) is (6 <= minor < 8)


def test_op_that_ended_is_in_earlier_editions_alone(monkeypatch):
    ended = dataclasses.replace(BASE["Mish"], since=(3, 1), until=(3, 4))
    monkeypatch.setattr(registry, "BASE", {**BASE, "Mish": ended})
    assert ["Mish" in registry._onednn((3, minor)) for minor in range(6)] == [False, True, True, True, False, False]
    checked = infer_op("Mish", {}, [("f32", (4,))], edition=edition("onednn-3.2"))
    for version, rules in (((3, 2, 0), []), ((3, 4, 0), ["ended_before_library"]), ((3, 0, 0), ["newer_than_library"])):
        found = library_violations(checked, "onednn-3.2", "Mish", 1, Library(version))
        assert [one.rule for one in found] == rules


def test_softmax_stats_since_3_9():
    assert [len(edition(f"onednn-3.{minor}").schemas["SoftMax"].outputs) for minor in (8, 9)] == [1, 2]


@pytest.mark.parametrize("op", ["Quantize", "Dequantize"])
@pytest.mark.parametrize("name", EDITIONS)
def test_zero_points_are_required_before_3_4(name, op):
    required = name in ("legacy-1", *ONEAPI, *GUIDE[:4])
    assert edition(name).schemas[op].attribute("zps").required == required
    found = check_attrs(op, {"scales": [1.0]}, edition=name)
    assert [violation.rule for violation in found] == ["missing_attribute"] * required


def test_per_group_quantization_since_3_7():
    for minor in range(14):
        found = check_attrs("DynamicDequantize", {"qtype": "per_group"}, edition=f"onednn-3.{minor}")
        assert bool(found) == (minor < 7)


@pytest.mark.parametrize(
    ("name", "value", "rules"),
    [
        *((name, "XIO", ["attribute_value"]) for name in (*ONEAPI, *GUIDE[:2])),
        *((name, "XIO", ["disputed_value"]) for name in GUIDE[2:]),
        *((name, "XOI", []) for name in (*ONEAPI, *GUIDE)),
    ],
)
def test_transposed_weights_format(name, value, rules):
    required = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    found = check_attrs("ConvTranspose", {**required, "weights_format": value}, edition=name)
    assert [violation.rule for violation in found] == rules


TRANSPOSED = ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
IOX, XOI = "IOX = (in, out / groups, X)", "XOI = (X, out / groups, in)"


@pytest.mark.parametrize("kind", TRANSPOSED)
@grouped(
    "name, value, fix",
    [
        *((name, "oix", f"did you mean 'OIX'? It is taken as {IOX}") for name in GUIDE[2:]),
        *((name, "xio", f"did you mean 'XIO'? It is taken as {XOI}") for name in GUIDE[2:]),
        *((name, "oix", f"onednn-3.2 and later have it as {IOX}") for name in (*ONEAPI, *GUIDE[:2])),
        *((name, "iox", "did you mean 'IOX'?") for name in (*ONEAPI, *GUIDE)),
        *((name, "HWOI", "did you mean 'XOI'?") for name in (*ONEAPI, *GUIDE)),
        *((name, "IXO", f"{IOX}, {XOI}") for name in (*ONEAPI, *GUIDE)),
    ],
    key=lambda case: case[1],
)
def test_suggested_weights_format_keeps_the_axes(kind, name, value, fix):
    found = check_attrs(kind, {"weights_format": value}, edition=name)
    (message,) = [one.message for one in found if one.where == "weights_format"]
    assert message == f"{kind}: weights_format: {value!r}; expected one of 'IOX', 'XOI'; {fix}"


@pytest.mark.parametrize(
    ("value", "fix"), [("oix", "did you mean 'OIX'?"), ("IOX", "OIX = (out, in / groups, X), XIO")]
)
def test_suggested_format_of_convolution_weights(value, fix):
    for name, attribute in (("onednn-3.13", "weights_format"), ("legacy-1", "filter_format")):
        found = check_attrs("Convolution", {attribute: value}, edition=name)
        (message,) = [one.message for one in found if one.where == attribute]
        assert message.startswith(f"Convolution: {attribute}: {value!r}; expected one of 'OIX', 'XIO'; {fix}")


@pytest.mark.parametrize("name", EDITIONS)
def test_note_about_two_pairs_of_names_is_true(name):
    for schema in edition(name).schemas.values():
        says_both = any("both pairs" in one.action for one in edition(name).corrections(schema))
        attribute = next((one for one in schema.attributes if one.name in ("weights_format", "filter_format")), None)
        takes_both = attribute is not None and all(takes(attribute, word) for word in ("OIX", "XIO", "IOX", "XOI"))
        assert says_both == takes_both
        assert says_both == (name in GUIDE[2:] and schema.kind in TRANSPOSED)


# The attributes whose default the page prints as none, apart from those with the string none among their values.
PRINTED_NONE = {
    **{(name, kind): {"sizes", "scales"} for name in EDITIONS for kind in ("Interpolate", "InterpolateBackward")},
    ("legacy-1", "Interpolate"): {"sizes", "scales"},
    ("legacy-1", "InterpolateBackprop"): {"sizes", "scales"},
    ("legacy-1", "BatchNormForwardTraining"): {"momentum"},
    ("legacy-1", "ConvTransposeBackpropFilters"): {"filter_shape"},
}


@pytest.mark.parametrize("name", EDITIONS)
def test_takes_none_where_the_page_prints_it_as_default(name):
    for kind, schema in edition(name).schemas.items():
        for attribute in schema.attributes:
            printed = attribute.name in PRINTED_NONE.get((name, kind), ())
            for value in (None, "none", "None"):
                found = [
                    one for one in check_attrs(kind, {attribute.name: value}, edition=name) if one.given != "missing"
                ]
                if printed or (attribute.default == "none" and attribute.kind == "str"):
                    is_unknown = value == "None" and attribute.name == "mode"
                    assert bool(found) == is_unknown, (kind, attribute.name, value)
                elif value is None:
                    assert [one.rule for one in found] == ["attribute_kind"], (kind, attribute.name)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the facts of the documents are not beside this checkout")
@pytest.mark.parametrize("name", EDITIONS)
def test_documents_print_these_defaults_as_none(name):
    stem = SAME_PAGES.get(name, name).replace("oneapi", "oneAPI").replace("onednn-", "onednn-v")
    found = {}
    for kind, fact in json.loads((SHARED / "spec" / f"{stem}.json").read_text()).items():
        for attribute in fact["attributes"]:
            if (attribute["default_raw"] or "").strip("`*").lower() in ("none", "null") and not attribute["values"]:
                found.setdefault((name, kind), set()).add(attribute["name"])
    names = edition(name).schemas
    assert found == {key: value for key, value in PRINTED_NONE.items() if key[0] == name and key[1] in names}


def test_legacy_names():
    schemas = edition("legacy-1").schemas
    schema = schemas["ConvolutionBackpropFilters"]
    assert [port.name for port in schema.inputs] == ["input_forward", "output_delta", "filter_shape"]
    assert [port.name for port in schema.outputs] == ["filter_delta"]
    assert {"filter_format", "filter_shape"} <= {attribute.name for attribute in schema.attributes}
    assert schemas["ConvTranspose"].attribute("filter_format").values == ("XIO", "OIX")
    assert [port.name for port in schemas["MatMul"].inputs] == ["input_1", "input_2", "bias"]
    assert [port.name for port in schemas["Select"].inputs] == ["cond", "then", "else"]
    assert [port.name for port in schemas["ReLUBackprop"].inputs] == ["result_forward", "output_delta"]
    assert schemas["SoftPlus"].attribute("beta").kind == "s64"
    assert not schemas["MatMul"].has_attribute("accumulation_mode")


def errors(kind, attrs, tensors, name):
    found = check_op(kind, attrs, tensors, edition=name)
    return [violation.rule for violation in found if violation.severity == "error"]


def test_legacy_max_pool_gradient_takes_indices():
    schema = edition("legacy-1").schemas["MaxPoolBackprop"]
    assert schema.inputs[2].name == "output_forward_indices"
    assert schema.inputs[2].optional
    attrs = {"strides": [2], "kernel": [2], "pads_begin": [0], "pads_end": [0]}
    tensors = [("f32", (1, 4, 1)), ("f32", (1, 2, 1))]
    assert errors("MaxPoolBackprop", attrs, [*tensors, ("u8", (1, 2, 1))], "legacy-1") == []
    assert errors("MaxPoolBackprop", attrs, [*tensors, ("s8", (1, 2, 1))], "legacy-1") == ["data_type"]


@pytest.mark.parametrize("kind", ["HardSigmoid", "Abs", "GroupNorm", "ConvolutionBackwardData", "Dropout"])
def test_ops_and_attributes_missing_in_legacy(kind):
    assert edition("legacy-1").schema(kind) is None


def test_legacy_comparison_rejects_integers():
    tensors = [("s32", (2,)), ("s32", (2,))]
    assert errors("GreaterEqual", {}, tensors, "onednn-3.7") == []
    assert errors("GreaterEqual", {}, tensors, "legacy-1") == ["data_type", "data_type"]


@pytest.mark.parametrize(
    ("name", "title", "kind"),
    [
        ("legacy-1", "ConvTransposeBackpropFilters-1", "ConvTransposeBackpropFilters"),
        ("legacy-1", "Pow-1", "Pow"),
        ("legacy-1", "pow", "Pow"),
        *((name, "Softmax", "SoftMax") for name in FIRST),
    ],
)
def test_accepts_the_page_title_as_op_kind(name, title, kind):
    assert edition(name).schema(title) is edition(name).schemas[kind]


def test_rejects_page_titles_of_other_editions():
    assert edition("onednn-3.2").schema("Softmax") is None
    assert edition("onednn-3.2").nearest("Softmax") == "SoftMax"


def test_unknown_edition_names_the_nearest():
    with pytest.raises(ArgumentError, match=r"did you mean 'oneapi-1\.4'"):
        edition("oneAPI-1.4")
    with pytest.raises(ArgumentError, match=r"did you mean 'onednn-3\.13'\?"):
        edition("3.13")
    with pytest.raises(ArgumentError, match=r"did you mean 'onednn-3\.2'\?"):
        edition("v3.2.0")


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("onednn-3.15", "onednn-3.14"),
        ("v3.20.1", "onednn-3.14"),
        ("onednn-3.4.2", "onednn-3.4"),
        ("3.1.0", "onednn-3.1"),
    ],
)
def test_newer_edition_suggests_the_newest(name, close):
    with pytest.raises(ArgumentError, match=rf"did you mean '{close}'\?"):
        edition(name)


@pytest.mark.parametrize(
    ("kind", "attrs", "name", "fix"),
    [
        ("RMSNorm", {}, "onednn-3.2", "onednn-3.11 and later have it"),
        ("SoftMax", {"mode": "none"}, "onednn-3.2", "onednn-3.8 and later have it"),
        ("DynamicDequantize", {"qtype": "per_group"}, "onednn-3.2", "onednn-3.7 and later have it"),
        ("Sign", {}, "onednn-3.13", "legacy-1 has it"),
        ("ConvTransposeBackpropFilters", {}, "onednn-3.13", "did you mean 'ConvTransposeBackwardWeights'?"),
        ("SoftMax", {"axes": 1}, "onednn-3.2", "did you mean 'axis'?"),
    ],
)
def test_names_editions_that_have_the_op(kind, attrs, name, fix):
    (found, *_) = check_op(kind, attrs, [("f32", (2, 4))], edition=name)
    assert found.message.endswith(f"; {fix}")


def test_finding_uses_the_names_of_the_edition():
    attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    tensors = [("f32", (1, 8, 4)), ("f32", (1, 6, 2))]
    (found,) = check_op("ConvolutionBackpropFilters", attrs, tensors, edition="legacy-1")
    assert found.where == "filter_shape"
    assert "pass filter_shape as an attribute" in found.message
    (found,) = check_op("Add", {}, [("f32", (2,)), ("f32", (3,))], edition="legacy-1")
    assert found.where == "input_2"
    assert found.expected.endswith("of input_1")
    (found,) = check_op("BiasAdd", {}, [("f32", (2,)), ("f32", (2,))], edition="legacy-1")
    assert found.where == "input"


def test_finding_shows_the_given_shape():
    schema = edition("legacy-1").schemas["ConvTransposeBackpropFilters"]
    given = (5, 6, 4, 3)
    finding = RuleFinding(
        "weights_shape", [5, 6, 3, 4], "weights_format XOI as diff_dst has", "mend weights_shape, src"
    )
    found = edition_words(schema, base_of(schema), finding, {"filter_shape": given})
    assert found == (
        "filter_shape",
        list(given),
        "filter_format XIO as output_delta has",
        "mend filter_shape, input_forward",
        False,
        "",
    )


def test_legacy_docs_use_legacy_names():
    theirs = {"src", "dst", "weights", "diff_dst", "diff_src", "src_0", "weights_format", "weights_shape"}
    schemas = edition("legacy-1").schemas
    assert schemas["Add"].doc == "output = input_1 + input_2"
    assert "filter" in schemas["Convolution"].doc
    for kind in ("Convolution", "MatMul", "Add", "AvgPool", "Select"):
        assert not theirs & set(re.findall(r"\w+", schemas[kind].doc))


def test_the_format_of_weights_has_the_name_of_the_edition():
    assert format_of(BASE["Convolution"], {"weights_format": "OIX"}) == "OIX"
    assert format_of(BASE["Convolution"], {}) == "XIO"
    old = edition("legacy-1").schemas["Convolution"]
    assert format_of(old, {"filter_format": "OIX"}) == "OIX"
    with pytest.raises(KeyError, match="weights_format"):
        format_of(BASE["ReLU"], {})


def test_editions_have_the_type_variables_of_their_ops():
    """The types of an op in any of them say those of all its ports in the newest one."""
    for words in map(edition, (*EDITIONS, "legacy-1")):
        for kind, schema in words.schemas.items():
            ports = {port.type for port in (*schema.inputs, *schema.outputs)}
            base = base_of(schema)
            wanted = {name for row in base.types for name in row.types} if base.kind in BASE else set()
            assert all(wanted <= ports & row.types.keys() for row in schema.types), (words.name, kind)
