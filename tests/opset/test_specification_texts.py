"""How single lines of the specification's pages are read: headings, tables, bullets, values."""

import io
import tarfile

import pytest
from helpers.specification_pages import RST

from onegraph import ArgumentError
from onegraph.opset.signature import Fill
from onegraph.tools.specification import bullet_pages, checkout, table_pages
from onegraph.tools.specification.printed import PrintedAttribute, PrintedPort
from onegraph.tools.specification.reader import read_page, replacements_in
from onegraph.tools.specification.sections import PageTable, Section, sections, tables
from onegraph.tools.specification.values import (
    UnreadError,
    default_in,
    dtypes_in,
    is_required,
    kind_of,
    name_of,
    value_of,
    words_in,
)


@pytest.mark.parametrize(("text", "found"), [
    ("a\nb", [("", ["a", "b"])]),
    ("a\n## Sub *Text*:\nb", [("", ["a"]), ("sub text", ["b"])]),
    ("###### Six\n####### Seven\n#None", [("", []), ("six", ["####### Seven", "#None"])]),
    ("**Input**:\na\n**Output**\uff1a\n**lower**\n** Space**", [
        ("", []), ("inputs", ["a"]), ("outputs", ["**lower**", "** Space**"]),
    ]),
    ("Title {#ref} of\n===\na", [("", []), ("title  of", ["a"])]),
    ("Two\n==\nThree\n---\n", [("", ["Two", "=="]), ("three", [])]),
    ("===\na\nB\n~~~~", [("", ["===", "a"]), ("b", [])]),
    ("===\na\nB", [("", ["===", "a", "B"])]),
    ("***\nTable\n***\n", [("", ["***", "Table", "***"])]),
    ("***\nTitle\n===\n", [("", ["***"]), ("title", [])]),
    (" Indented\n===\n", [("", [" Indented", "==="])]),
    ("a | b\n---\n* c\n---\n- d\n---\n+ e\n---\n", [
        ("", ["a | b", "---", "* c", "---", "- d", "---", "+ e", "---"]),
    ]),
    ("===\n---\n\n---\n", [("", ["===", "---", "", "---"])]),
    ("=-=\n", [("", ["=-="])]),
    ("Inputs\n^^^\nOutput\n###\n", [("", []), ("inputs", []), ("outputs", [])]),
])  # fmt: skip
def test_pages_are_split_at_headings(text, found):
    assert sections(text) == [Section(*one) for one in found]


@pytest.mark.parametrize(("text", "found"), [
    ("| A | B |\n|---|:-:|\n| 1 | 2 |\n3 | 4 | 5\n| 6\n\nend", [(["A", "B"], [["1", "2"], ["3", "4"], ["6", ""]])]),
    ("A | B\n--|--\n1 \\| 2 | 3", [(["A", "B"], [["1 \\| 2", "3"]])]),
    ("x\nA | B\n--|--", [(["A", "B"], [])]),
    ("A | B", []),
    ("A | B\n-----", []),
    ("A | B\n | |", []),
    ("A\n--|--\n1 | 2", []),
    ("A|\n-|-\n1|\n\nB|\n-|-\n2|", [(["A"], [["1"]]), (["B"], [["2"]])]),
    ("+---+---+\n| A | B |\n| a |   |\n+===+===+\n| 1 | 2 |\n| 3 | 4 |\n+---+---+\n| 5 | 6 |\n+---+---+\nx", [
        (["A a", "B"], [["1 3", "2 4"], ["5", "6"]]),
    ]),
    ("  +---+\n  | A |\n  +---+\n", [(["A"], [])]),
    ("+---+\n", []),
    ("+---+\n| A |\n\n+---+\n| B |\n+---+", [(["B"], [])]),
    ("=== ===\n A   B\n=== ===\n 1   2 and more\n\n 3\n=== ===\nend", [(["A", "B"], [["1", "2 and more"], ["3", ""]])]),
    ("=== ===\n A\n a   B\n=== ===\n 1   2\n=== ===", [(["A a", "B"], [["1", "2"]])]),
    ("===\n===\n===", []),
    ("===\nA\n===\n===", [(["A"], [])]),
    ("=== ===\nA   B\n=== ===\n1   2", []),
    ("=== ===\nA   B\n== ===\n1   2\n=== ===", []),
    ("===\nA\n===\n1\n===\nx\n===\nB\n===\n2\n===", [(["A"], [["1"]]), (["B"], [["2"]])]),
])  # fmt: skip
def test_tables_are_read(text, found):
    assert tables(text.splitlines()) == [PageTable(*one) for one in found]


@pytest.mark.parametrize(("cell", "name"), [
    ("[axis](@ref a::b)", "axis"), ("`axis` more", "axis"), ("``axis``", "axis"), ("*axis*", "axis"),
    ("**axis**", "axis"), ("axis_1 (more)", "axis_1"), (r"\src", "src"), ("|attr_axis|", "axis"),
    ("| attr_\n how |", "mode"), ("|other|", "other"), ("[axis] (@ref x)", "axis"), (" axis", "axis"),
    ("", None), ("(axis)", None), ("3d", None), ("[3d]", None), ("[3d] `x`", None),
])  # fmt: skip
def test_names_are_read(cell, name):
    words = {"attr_how": "mode"}
    if name is not None:
        assert name_of(cell, words) == name
        return
    with pytest.raises(UnreadError, match="no name in"):
        name_of(cell, words)


@pytest.mark.parametrize(("cell", "supported", "kind"), [
    ("string.", "", "str"), (" Bool ", "a list", "bool"), ("s64", "a List of", "s64[]"), ("f32", "lists", "f32"),
    ("f32", "a list", "f32[]"), ("s64[]", "list", "s64[]"), ("boolean", "", "bool"), ("int64[]", "", "s64[]"),
])  # fmt: skip
def test_kinds_are_read(cell, supported, kind):
    assert kind_of(cell, supported) == kind


@pytest.mark.parametrize("cell", ["", "s32", "tensor", "s 64"])
def test_unknown_kinds_are_errors(cell):
    with pytest.raises(UnreadError, match="value type"):
        kind_of(cell, "")


@pytest.mark.parametrize(("text", "kind", "value"), [
    ("`None`", "str", None), ("null", "f32", None), ("none", "s64", None), ("none", "str", "none"),
    ("True.", "bool", True), ("FALSE", "bool", False), ('"plain"', "str", "plain"), ("**plain**", "str", "plain"),
    ("1", "s64", 1), ("-1", "s64", -1), ("1.f", "f32", 1.0), ("1e-5", "f32", 1e-5), ("0.5", "f32", 0.5),
    ("all zeros", "s64[]", Fill(0)), ("list of 1", "s64[]", Fill(1)), ("1", "s64[]", Fill(1)), ("0", "s64[]", Fill(0)),
    ("Empty list", "s64[]", ()),
])  # fmt: skip
def test_values_are_read(text, kind, value):
    found = value_of(text, kind)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "kind"), [("yes", "bool"), ("true", "s64"), ("x", "f32"), ("2", "s64[]"), ("", "s64")]
)
def test_unknown_values_are_errors(text, kind):
    with pytest.raises(UnreadError):
        value_of(text, kind)


@pytest.mark.parametrize(("text", "words"), [
    ("`a`, ``b`` and c", {"a", "b"}), ('"a" *b* **c** x"d"', {"a", "b", "c"}), ("`3d`, `a b`, ` a `", {"a"}),
    ("", set()),
])  # fmt: skip
def test_words_are_read(text, words):
    assert words_in(text) == words


@pytest.mark.parametrize(("cell", "required"), [
    ("Required", True), ("*optional*.", False), (" Yes ", True), ("no.", False), ("maybe", None), ("", None),
])  # fmt: skip
def test_cells_say_what_is_required(cell, required):
    if required is not None:
        assert is_required(cell) is required
        return
    with pytest.raises(UnreadError, match="instead of Required or Optional"):
        is_required(cell)


@pytest.mark.parametrize(("cell", "dtypes"), [
    (" f32, bf16 ", ["f32", "bf16"]), ("f32/s8.u8`f16`", ["f32", "s8", "u8", "f16"]), ("", []), ("F32", None),
    ("f32 (s8)", None), ("8s", None),
])  # fmt: skip
def test_data_types_are_read(cell, dtypes):
    if dtypes is not None:
        assert dtypes_in(cell) == dtypes
        return
    with pytest.raises(UnreadError, match="data types"):
        dtypes_in(cell)


def test_a_default_in_a_sentence_needs_the_word():
    assert default_in("no word", "s64") is None
    assert default_in("defaults of others", "s64") is None
    with pytest.raises(UnreadError, match="default in"):
        default_in("a Default of some kind", "s64")


# Bullets -------------------------------------------------------------------------------------------------------------


def bullets(text, heading="attributes"):
    lines = text.splitlines()
    found = bullet_pages._entries([Section("other", ["* none"]), Section(heading, lines)], heading)
    return [(one.text, one.fields) for one in found]


@pytest.mark.parametrize(("text", "found"), [
    ("before\n * **Type**: x\n* a\n  b", [("a b", {})]),
    ("* a\n  * **Type**: s64\n    more\n- b\n  c", [("a", {"type": "s64 more"}), ("b c", {})]),
    ("* a\n  - **Default value** : 1\n  * **Notion**: x", [("a", {"default value": "1 * **Notion**: x"})]),
    ("* a\n  * **lower**: x", [("a * **lower**: x", {})]),
    ("*  a\n*b", [("a *b", {})]),
    ("  * **Type**: x\n  more", []),
])  # fmt: skip
def test_bullets_are_read_with_their_fields(text, found):
    assert bullets(text) == found


def bullet(text, **fields):
    made = bullet_pages.Bullet(text)
    made.fields = {name.replace("_", " "): value for name, value in fields.items()}
    return made


@pytest.mark.parametrize(("given", "found"), [
    (bullet("*axis*", type="s64.", default_value="-1 (the last)", required="*optional*"), ("axis", "s64", False, -1)),
    (bullet("``axis``", type="f32", default_value=" ", required=" "), ("axis", "f32", None, None)),
    (bullet("axis", type="s64[]", default_value="all zeros", required="yes"), ("axis", "s64[]", True, Fill(0))),
])  # fmt: skip
def test_attributes_are_read_of_bullets(given, found):
    assert bullet_pages._attribute(given) == PrintedAttribute(*found, frozenset())


def test_attributes_of_unknown_types_are_errors():
    with pytest.raises(UnreadError, match=r"^axis: type 'tensor'$"):
        bullet_pages._attribute(bullet("axis", type="tensor"))


@pytest.mark.parametrize(("fields", "values"), [
    ({"range_of_values": "* *plain* x * `strong (more)`"}, {"plain", "strong", "more"}),
    ({"range_of_values": "* *plain (two words)*"}, {"plain"}),
    ({"range_of_values": "`a`, `b` (as `c`)"}, {"a", "b"}),
    ({"description": "* **plain** * **strong**", "range_of_values": ""}, {"plain", "strong"}),
    ({"description": "`plain`"}, set()),
])  # fmt: skip
def test_strings_are_read_of_bullets(fields, values):
    assert bullet_pages._strings(bullet("x", **fields), "str") == values
    assert bullet_pages._strings(bullet("x", **fields), "s64") == frozenset()


@pytest.mark.parametrize(("given", "port"), [
    (bullet("**1**: ``src`` - text. **Required.**", type="T"), ("src", False, False, "T")),
    (bullet("**2**: `two words` **required** but **Optional**", type=" T1. "), ("two_words", True, False, "T1")),
    (bullet("**1..N**: src", type="f32"), ("", None, True, "f32")),
    (bullet("**1 - N**: `src`", type="T12"), ("src", None, True, "")),
    (bullet("an arbitrary number of `src`", type="any"), ("", None, True, "")),
    (bullet("**12**: `src_1`"), ("src_1", None, False, "")),
])  # fmt: skip
def test_ports_are_read_of_bullets(given, port):
    assert bullet_pages._port(given) == (PrintedPort(*port[:3]), port[3])


@pytest.mark.parametrize(("constraint", "rows"), [
    ("", {("f32", "f32"), ("f32", "s8"), ("bf16", "f32"), ("bf16", "s8")}),
    ("Constraint: T1 can be bf16 only when T2 is s8", {("f32", "f32"), ("f32", "s8"), ("bf16", "s8")}),
    ("constraints: when T1 is f32, T2 should be s8 or u8.", {("f32", "s8"), ("bf16", "f32"), ("bf16", "s8")}),
    ("Constraint: when T1 is f32 or bf16, T2 should be s8", {("f32", "s8"), ("bf16", "s8")}),
    ("a sentence", {("f32", "f32"), ("f32", "s8"), ("bf16", "f32"), ("bf16", "s8")}),
])  # fmt: skip
def test_rows_are_read_of_bullets(constraint, rows):
    entries = [bullet("**T1**: f32, *bf16*"), bullet("*T2* : f32, `s8`"), bullet(constraint), bullet("T3: u8")]
    found = bullet_pages._rows(entries, {"in0": "T1", "out0": "T2", "in1": "s32", "in2": ""})
    assert found == {frozenset({("in0", one), ("out0", two), ("in1", "s32")}) for one, two in rows}


def test_unknown_constraints_are_errors():
    with pytest.raises(UnreadError, match="constraint 'Constraint: none'"):
        bullet_pages._rows([bullet("**T**: f32"), bullet("Constraint: none")], {"in0": "T"})
    assert bullet_pages._rows([bullet("x")], {"in0": "T"}) == frozenset()


# Pages with tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "places"), [
    ("Src / Dst", ["in0", "out0"]), ("Source0/1", ["in0", "?"]), ("src_0", ["in0"]), ("src_0/1", ["in0", "?"]),
    ("Destination", ["out0"]), ("`Scale`", ["in1"]), ("Gamma", ["?"]), ("Source", ["in0"]), ("result", ["out0"]),
])  # fmt: skip
def test_columns_belong_to_ports(column, places):
    names = {"src_i": "in0", "src_0": "in0", "scale": "in1", "result": "out0", "first result": "out0"}
    assert table_pages.ColumnPlaces(names).of(column) == places


PAGE = """# Blend

## Inputs

| Argument Name | Required or Optional |
|---|---|
| `src_i` or `src` | Required |
| `scale` | Optional |
|  |  |

Takes an arbitrary number of {said}.

## Outputs

| Argument Name | Required or Optional |
|---|---|
| `first` | Required |
| `more` | Required |

## Attributes

{attributes}

## Supported data types

| Src | Scale | Dst |
|---|---|---|
| f32, bf16 |  | f32 |
| s8 | f32 | s8 |

{same}
"""


@pytest.mark.parametrize(("said", "inputs", "outputs"), [
    ("inputs", True, False), ("inputs or outputs", True, True), ("things", True, False), ("outputs", True, False),
])  # fmt: skip
def test_ports_of_any_number(said, inputs, outputs):
    page = read_page(PAGE.format(said=said, attributes="It does not support any.", same=""), "Blend.md")
    assert page.inputs == (PrintedPort("src_i", False, True), PrintedPort("scale", True, inputs))
    assert page.outputs == (PrintedPort("first", False, outputs), PrintedPort("more", False, outputs))
    assert page.unread == ()


@pytest.mark.parametrize(("same", "kept"), [
    ("", [0, 1, 2]), ("The data types of src and `dst` should be the same.", [0, 2]),
    ("data types of src and scale should be the same", []),
])  # fmt: skip
def test_rows_of_data_types(same, kept):
    page = read_page(PAGE.format(said="", attributes="It does not support any.", same=same), "Blend.md")
    rows = [{"in0": "f32", "out0": "f32"}, {"in0": "bf16", "out0": "f32"}, {"in0": "s8", "in1": "f32", "out0": "s8"}]
    assert page.rows == {frozenset(rows[place].items()) for place in kept}


@pytest.mark.parametrize(("attributes", "unread"), [
    ("Text.", ("attributes: neither a table nor a sentence that there is none",)),
    ("An arbitrary data type.", ()),
    ("| A | B |\n|---|---|\n| 1 | 2 |", ("attributes: neither a table nor a sentence that there is none",)),
    ("| Attribute Name | Value Type | Required or Optional - |\n|---|---|---|\n| `axis` | s64 | perhaps |",
     ("attributes: axis: 'perhaps' instead of Required or Optional",)),
    ("| Attribute Name | Value Type | Required or Optional |\n|---|---|---|\n| `axis` | str | Required |", ()),
])  # fmt: skip
def test_what_is_not_understood_is_named(attributes, unread):
    assert read_page(PAGE.format(said="", attributes=attributes, same=""), "Blend.md").unread == unread


# Titles and files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "file", "title"), [
    ("**Versioned name**: *Blend-1*\n# Other\n", "a/b.md", "Blend"),
    ("# Other {#ref}\n", "a/b.md", "Other"), ("words\nOther\n===\n", "a/b.md", "Other"),
    ("lower\n", "a/Blend.x.md", "Blend.x"), ("# Two Words\n", "b.rst", "b"),
])  # fmt: skip
def test_titles_are_read(text, file, title):
    assert read_page(text, file).title == title


def test_words_between_bars_have_names_of_their_own():
    assert [one.name for one in read_page(RST, "Blend.rst").attributes] == ["axis", "how", "sizes"]
    given = read_page(RST, "Blend.rst", {"attr_axis": "place", "attr_how": "mode"})
    assert [one.name for one in given.attributes] == ["place", "mode", "sizes"]


@pytest.mark.parametrize("file", ["index.md", "ops/INDEX.rst", "a/readme.txt"])
def test_indices_are_no_pages(file):
    assert read_page("# Text\n", file) is None
    assert read_page("# Text\n\n## Inputs\n", file) is not None
    assert read_page("# Text\n", f"{file}x/my{file.rpartition('/')[2]}") is not None


def test_replacements_are_read():
    text = (
        ".. |attr_how| replace:: :any:`mode<dnnl::mode>`\n.. |other| replace:: `x`\n"
        ".. |attr_plain| replace:: ``plain``\n"
    )
    assert replacements_in(text) == {"attr_how": "mode", "attr_plain": "plain"}


class Archive:
    """Stands for git: the names of its files, or an archive of them."""

    def __init__(self, files):
        self.files, self.asked = files, []

    def __call__(self, path, *arguments):
        self.asked.append(arguments)
        if arguments[0] == "ls-tree":
            return "\n".join(self.files).encode()
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("folder/"))
            for name in arguments[arguments.index("--") + 1 :]:
                info = tarfile.TarInfo(name)
                info.size = len(self.files[name])
                archive.addfile(info, io.BytesIO(self.files[name]))
        return made.getvalue()


def test_a_tag_has_pages_headers_and_words(monkeypatch, tmp_path):
    pages = {f"doc/ops/{kind}.md": b"# Text\n" for kind in ("ReLU", "Abs", "ConvolutionBackpropFilters")}
    others = {
        "doc/ops/index.rst": b"Index\n", "doc/ops/more.png": b"", "doc/few/ReLU.md": b"", "doc/few/Add.rst": b"",
        "include/x.h": b"", "include/dnnl_types.h": b"// \xff",
        "other/dnnl_types.h": b"", "CMakeLists.txt": b'PROJECT_VERSION "3.4.1"',
        "a/CMakeLists.txt": b'PROJECT_VERSION "9.9"', "a/b/c/d/replacements.inc.rst": b".. |attr_a| replace:: ``b``\n",
    }  # fmt: skip
    git = Archive({**pages, **others})
    monkeypatch.setattr(checkout, "_git", git)
    found = checkout.read_checkout(tmp_path, "v3.4")
    assert found.folder == "doc/ops"
    assert [*found.pages] == ["doc/ops/Abs.md", "doc/ops/ConvolutionBackpropFilters.md", "doc/ops/ReLU.md"]
    assert found.headers == {"dnnl_types.h": "// \ufffd"}
    assert found.version == (3, 4)
    assert {*found.texts} == {*pages, "doc/ops/index.rst"}
    assert [one[0] for one in git.asked] == ["ls-tree", "archive"]
    assert git.asked[1][-2:] == ("CMakeLists.txt", "a/b/c/d/replacements.inc.rst")
    del git.files["doc/ops/Abs.md"]
    with pytest.raises(ArgumentError, match=r" at v3\.4: no folder has pages of ops, such as"):
        checkout.read_checkout(tmp_path, "v3.4")


def test_files_of_a_checkout_are_read_by_their_endings(tmp_path):
    for name in ("a.md", "b/c.rst", "b/d.h", "e.txt", "f.png", "g"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff")
    assert checkout._names(tmp_path, None) == ["a.md", "b/c.rst", "b/d.h", "e.txt"]
    assert checkout._texts(tmp_path, None, ["a.md"]) == {"a.md": "\ufffd"}
    with pytest.raises(ArgumentError, match=": no folder has pages of ops, such as"):
        checkout._op_folder(["ReLU.md", "Abs.md"], tmp_path, None)


def test_git_is_named_where_it_fails(monkeypatch, tmp_path):
    with pytest.raises(ArgumentError, match=": git says "):
        checkout._git(tmp_path, "ls-tree", "v1")

    def run(*_, **__):
        raise FileNotFoundError(2, "No such file")

    monkeypatch.setattr(checkout.subprocess, "run", run)
    with pytest.raises(ArgumentError, match=r"^git: No such file; a tag is read by git$"):
        checkout._git(tmp_path, "ls-tree", "v1")


SOURCES = checkout.Sources("", {}, {}, None, {})


@pytest.mark.parametrize(("tag", "version", "name"), [
    ("x-oneAPI-v1.2-y", None, "oneapi-1.2"), ("graph-v0.7.3", None, "legacy-1"), ("rls-v3.3-x", None, "onednn-3.3"),
    ("graph-v0.7x", (3, 1), "onednn-3.1"), ("oneAPI-v1.99", (3, 1), "onednn-3.1"), ("v3.14", None, "onednn-3.14"),
])  # fmt: skip
def test_editions_follow_from_tags(tag, version, name):
    assert checkout.edition_of(tag, SOURCES._replace(version=version)) == (name, "")


@pytest.mark.parametrize(("tag", "version", "said"), [
    ("v2.9", None, "tag v2.9"), ("main", None, "tag main"), (None, None, "checkout"), (None, (2, 0), "checkout"),
    ("v4.0", (3, 1), "tag v4.0"),
])  # fmt: skip
def test_unknown_editions_are_named(tag, version, said):
    with pytest.raises(ArgumentError, match=f"^{said}: its edition is unknown"):
        checkout.edition_of(tag, SOURCES._replace(version=version))
