"""The reader of the specification's pages, on pages written for these tests, and the comparison with the records."""

import json
import shutil
import subprocess

import pytest
from helpers.command_line import onegraph
from helpers.specification_pages import BULLETS, MARKDOWN, RST, written_page

from onegraph import ArgumentError
from onegraph.opset.editions.registry import BASE, edition
from onegraph.opset.signature import Fill
from onegraph.tools.specification.checkout import edition_of, read_checkout
from onegraph.tools.specification.differences import PageDifference, compare
from onegraph.tools.specification.headers import compare_headers
from onegraph.tools.specification.importing import import_specification
from onegraph.tools.specification.printed import PrintedAttribute, PrintedPort
from onegraph.tools.specification.reader import read_page, replacements_in
from onegraph.tools.specification.values import UnreadError, default_in

AXIS = PrintedAttribute("axis", "s64", False, -1, frozenset())
MODE = PrintedAttribute("mode", "str", True, "plain", frozenset({"plain", "strong"}))
SIZES = PrintedAttribute("sizes", "s64[]", False, None, frozenset())
ROWS = {("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16")}


@pytest.mark.parametrize("form", ["markdown", "rst", "bullets"])
def test_every_form_of_page_is_read_alike(form):
    text = {"markdown": MARKDOWN, "rst": RST, "bullets": BULLETS}[form]
    page = read_page(text, f"Blend.{form}", replacements_in(".. |attr_how| replace:: :any:`mode<dnnl::attr::mode>`"))
    assert page.title == "Blend"
    assert page.attributes == (AXIS, MODE, SIZES)
    assert page.inputs == (PrintedPort("src_0", False), PrintedPort("scale", True))
    assert [port.name for port in page.outputs] == ["dst"]
    assert page.outputs[0].optional is (None if form == "bullets" else False)
    stray = () if form == "bullets" else (("?", "u8"),)
    assert page.rows == {frozenset((("in0", src), ("in1", scale), ("out0", src), *stray)) for src, scale in ROWS}
    assert page.unread == ()


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("`none` (default), `numpy`", "str", "none"),
        ("`none`,`numpy` (default)", "str", "numpy"),
        ("``none``, ``numpy``, (default)", "str", "numpy"),
        ("`NCX`, `NXC` (default is `NXC`)", "str", "NXC"),
        ("True, False (default)", "bool", False),
        ("`false`, `true` (default is true)", "bool", True),
        ("Arbitrary f32 value (`1.f` by default)", "f32", 1.0),
        ("Positive, 1e-5 (default)", "f32", 1e-5),
        ("[-r,r-1],where r=rank(src). -1 is default", "s64", -1),
        ("Arbitrary s64 value (`1` in default)", "s64", 1),
        ("A s64 list, all zeros by default", "s64[]", Fill(0)),
        ("A list, a list of ``1`` s (default) means none", "s64[]", Fill(1)),
        ("Values in a range. Empty list(default)", "s64[]", ()),
        ("A f32 list,`none` is default", "f32[]", None),
        ("A s64 list containing positive values", "s64[]", None),
    ],
)
def test_defaults_are_read_in_every_wording(text, kind, expected):
    found = default_in(text, kind)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(("text", "kind"), [("by default it depends", "s64"), ("`fast` (default)", "bool")])
def test_unknown_wording_of_a_default_is_an_error(text, kind):
    with pytest.raises(UnreadError):
        default_in(text, kind)


def test_what_the_reader_does_not_understand_is_reported():
    page = read_page(MARKDOWN.replace("string.", "tensor"), "Blend.md")
    assert page.unread == ("attributes: mode: value type 'tensor'",)
    [difference] = [each for each in compare([page], edition("onednn-3.13"), (3, 15)) if each.op == "Blend"]
    assert difference.section == "op"
    page = read_page(MARKDOWN.replace("Value Type", "Type").replace("| Argument Name |", "| Argument |"), "Blend.md")
    lacks = [f"attributes: {name}: no column 'value type'" for name in ("axis", "mode", "sizes")]
    assert page.unread == (*lacks, "outputs: no column 'argument name'")
    page = read_page("Abs\n===\n\nWords without any table.\n", "Abs.md")
    found = [each for each in compare([page], edition("onednn-3.13"), (3, 15)) if each.op == "Abs"]
    assert [(each.section, each.page) for each in found] == [("unread", "page: no section Inputs or Outputs")]
    assert read_page("Operations\n##########\n", "ops/index.rst") is None


# The comparison ------------------------------------------------------------------------------------------------------


HEADER = """typedef enum {{
    {ops}
    dnnl_graph_op_last_symbol,
}} dnnl_graph_op_kind_t;
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout of 3.13 with the pages that the records describe, in a folder of another name."""
    folder = tmp_path / "docs" / "anywhere"
    folder.mkdir(parents=True)
    for kind in BASE:
        (folder / f"{kind}.md").write_text(written_page("onednn-3.13", kind))
    (tmp_path / "CMakeLists.txt").write_text('set(PROJECT_VERSION "3.13.0")\n')
    header = tmp_path / "include" / "oneapi" / "dnnl" / "dnnl_graph_types.h"
    header.parent.mkdir(parents=True)
    header.write_text(HEADER.format(ops="\n    ".join(f"dnnl_graph_op_{schema.name}," for schema in BASE.values())))
    return tmp_path


def test_pages_equal_to_the_records_have_no_difference(checkout):
    found = import_specification(checkout)
    assert found.differences == ()
    assert (found.edition, found.pages, found.folder) == ("onednn-3.13", len(BASE), "docs/anywhere")


@pytest.mark.parametrize(
    ("kind", "old", "new", "section", "where", "proposal"),
    [
        ("Convolution", "| s64 | list ", "| f32 | list ", "attributes", "strides", "Attribute('strides', 'f32[]'"),
        ("GELU", "default is gelu_erf", "default is gelu_tanh", "attributes", "mode", "default='gelu_tanh'"),
        ("GELU", "`gelu_erf`,", "`gelu_erf`, `fast`,", "attributes", "mode", "'fast'"),
        ("MatMul", "`bias` | Optional", "`bias` | Required", "inputs", "bias", "Port('bias', type)"),
        ("ReLU", "`src`", "`input`", "inputs", "src", "Port('input', type)"),
        ("Abs", "| f32 | f32 |", "| s8 | s8 |", "data types", "", "add the rows src=s8 dst=s8 @3.13 to Abs"),
        (
            "ReLU",
            "It does not support any attribute.",
            "| Attribute Name | Value Type | Supported Values | Required or Optional |\n|--|--|--|--|\n"
            "| [leak](@ref x) | f32 | `0.5` by default | Optional |",
            "attributes",
            "leak",
            "add Attribute('leak', 'f32', doc, default=0.5, since=(3, 13)) to ReLU",
        ),
    ],
)
def test_a_changed_page_is_one_difference(checkout, kind, old, new, section, where, proposal):
    path = checkout / "docs" / "anywhere" / f"{kind}.md"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    differences = import_specification(checkout).differences
    assert (differences[0].op, differences[0].section, differences[0].where) == (kind, section, where)
    assert proposal in differences[0].proposal
    assert {each.op for each in differences} == {kind}


def test_a_corrected_mistake_names_its_correction(checkout):
    path = checkout / "docs" / "anywhere" / "DynamicDequantize.md"
    text = path.read_text()
    assert "`per_channel`, `per_tensor`," in text
    path.write_text(text.replace("`per_channel`, `per_tensor`,", "`per_channel`, `per_group`, `per_tensor`,"))
    [difference] = import_specification(checkout).differences
    assert difference.proposal.endswith("take onednn-3.13 out of the editions of the correction per_group")


def test_a_new_op_gets_a_record_and_a_lost_one_a_question(checkout):
    (checkout / "docs" / "anywhere" / "Blend.md").write_text(MARKDOWN.replace("| Other ", "").replace("| u8    ", ""))
    (checkout / "docs" / "anywhere" / "ReLU.md").unlink()
    new, lost = import_specification(checkout).differences
    assert "ports('src_0:T1 scale:T2?')" in new.proposal
    assert 'rows(\'T1 T2\', "bf16 bf16", "bf16 f32", "f32 f32")' in new.proposal
    assert (lost.op, lost.page) == ("ReLU", "no page")


def test_header_and_records_are_compared():
    chosen = edition("onednn-3.13")
    ops = [f"dnnl_graph_op_{schema.name}," for schema in BASE.values() if schema.kind != "ReLU"]
    text = HEADER.format(ops="\n    ".join([*ops, "dnnl_graph_op_blend,"]))
    found = compare_headers({"dnnl_graph_types.h": text}, chosen)
    assert [(each.op, each.record, each.page) for each in found] == [
        ("blend", "nothing", "an enumerator of the header"),
        ("relu", "the op kind", "no enumerator in the header"),
    ]
    assert compare_headers({}, chosen) == []


def enumeration(enum, prefix, names):
    lines = [f"    {prefix}{name} = {place}," for place, name in enumerate(names)]
    return "\n".join(["typedef enum {", *lines, f"    // {prefix}old,", f"    /* {prefix}older, */", f"}} {enum};"])


def told(name, noun, *, is_lost=False):
    """The difference of one enumerator."""
    if is_lost:
        proposal = f"the C API of this version lacks the {noun}: a Correction says what onegraph does"
        return PageDifference(name, "op", noun, f"the {noun}", "no enumerator in the header", proposal)
    more = f"add the {noun} with its version"
    return PageDifference(name, "op", noun, "nothing", "an enumerator of the header", more)


def test_attributes_of_a_header_are_compared():
    chosen = edition("onednn-3.13")
    names = sorted({one.name for schema in chosen.schemas.values() for one in schema.attributes} - {"alpha"})
    marks = ("undef", *names, "zoom", "blend", "end", "last_symbol")
    text = enumeration("dnnl_graph_op_attr_t", "dnnl_graph_op_attr_", marks)
    lost = told("alpha", "attribute", is_lost=True)
    found = compare_headers({"a.h": "", "b.h": text}, chosen)
    assert found == [told("blend", "attribute"), told("zoom", "attribute"), lost]


def test_data_types_of_a_header_are_known():
    names = ("data_type_undef", "f16", "f32", "f64", "f4_e3m0", "q3", "data_type_max")
    text = enumeration("dnnl_data_type_t", "dnnl_", names)
    assert compare_headers({"a.h": text}, edition("onednn-3.2")) == [told("q3", "data type")]


@pytest.mark.parametrize(("name", "has"), [("legacy-1", True), ("onednn-3.2", False)])
def test_old_headers_have_old_names(name, has):
    text = enumeration("dnnl_graph_op_kind_t", "dnnl_graph_op_", ("convolution_backprop_filters", "pow"))
    names = {each.op for each in compare_headers({"a.h": text}, edition(name)) if each.record == "the op kind"}
    assert ("relu_backprop" in names) is has
    assert ("relu_backward" in names) is not has
    assert ("convolution_backward_weights" in names) is not has
    assert "pow" not in names
    assert not any(one.startswith("legacy_") for one in names)
    assert "abs" in names  # an op that has no page in the oldest edition


# Checkouts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "version", "name"),
    [
        ("v3.2", None, "onednn-3.2"),
        ("v3.4.1", (3, 4), "onednn-3.4"),
        ("oneAPI-v1.3-rev-1", None, "oneapi-1.3"),
        ("graph-v0.7", None, "legacy-1"),
        ("main", (3, 14), "onednn-3.14"),
        (None, (3, 5), "onednn-3.5"),
        ("v3.15", (3, 15), "onednn-3.14"),
    ],
)
def test_the_edition_follows_from_tag_or_version(checkout, tag, version, name):
    sources = read_checkout(checkout, None)._replace(version=version)
    found, note = edition_of(tag, sources)
    assert found == name
    assert ("is no edition yet" in note) is (tag == "v3.15")


def test_an_unknown_edition_is_asked_for(checkout):
    (checkout / "CMakeLists.txt").unlink()
    with pytest.raises(ArgumentError, match=r"its edition is unknown; pass --edition"):
        import_specification(checkout)


def test_a_folder_without_pages_is_an_error(tmp_path):
    with pytest.raises(ArgumentError, match="no folder has pages of ops"):
        import_specification(tmp_path)
    with pytest.raises(ArgumentError, match="no such folder"):
        import_specification(tmp_path / "missing")


@pytest.mark.skipif(shutil.which("git") is None, reason="a tag is read by git")
def test_a_tag_is_read_instead_of_the_files(checkout):
    def git(*arguments):
        identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
        subprocess.run(["git", "-C", str(checkout), *identity, *arguments], check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "pages")
    git("tag", "v3.13")
    (checkout / "docs" / "anywhere" / "ReLU.md").unlink()
    assert import_specification(checkout, "v3.13").differences == ()
    assert len(import_specification(checkout).differences) == 1
    with pytest.raises(ArgumentError, match="git says"):
        import_specification(checkout, "v9")


def test_command_prints_differences_and_its_status(checkout):
    assert onegraph("spec", "import", str(checkout)).returncode == 0
    (checkout / "docs" / "anywhere" / "ReLU.md").unlink()
    done = onegraph("spec", "import", str(checkout), "--json")
    assert done.returncode == 1
    assert [each["op"] for each in json.loads(done.stdout)["differences"]] == ["ReLU"]
    assert onegraph("spec", "import", str(checkout / "docs" / "nowhere")).returncode == 2
