"""onegraph check: editions, versions of the library, formats, baselines, and files of several kinds."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

import onegraph as og
from onegraph.cli import cli
from onegraph.cli.json_pointers import line_of, pointer
from onegraph.opset.editions.registry import EDITIONS

WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
BAD = {"op": "Elu", "attrs": {"alpha": -1, "beta": 2}, "inputs": [{"dtype": "f32", "shape": [3]}]}
GOOD = {"op": "ReLU", "inputs": [["f32", [2, None]]]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*arguments, **options):
    return CliRunner().invoke(cli, ["check", *map(str, arguments)], **options)


def command(*arguments):
    return CliRunner().invoke(cli, [*map(str, arguments)])


def findings(*arguments):
    return json.loads(check(*arguments, "--format", "json").stdout)


@pytest.fixture
def norm(folder):
    """A graph of an op that 3.6 has added, and of one that all editions have."""
    g = og.Graph()
    parameters = [g.input(name, "f32", (4,)) for name in ("gamma", "beta")]
    y = g.group_norm(g.relu(g.input("x", "f32", (2, 8, 8, 4))), *parameters, groups=2, keep_stats=False, name="norm")
    g.output("y", y)
    g.save("norm.json")
    return "norm.json"


@pytest.fixture
def wrong(folder):
    """A graph file with mistakes in three ops, one value a line."""
    g = og.Graph()
    y = g.convolution(g.input("x", "f32", (1, 8, 8, 3)), g.input("w", "f32", (3, 3, 3, 4)), **WINDOW)
    g.output("y", g.softmax(g.softmax(y, axis=-1), axis=1))
    data = json.loads(g.to_json())
    data["graph"][0]["attrs"]["strides"]["value"] = [0, 1]
    data["graph"][0]["attrs"]["data_format"] = {"type": "string", "value": "NHWC"}
    for op in data["graph"][1:]:
        op["attrs"]["axis"]["value"] = 9
    (folder / "wrong.json").write_text(json.dumps(data, indent=1))
    return "wrong.json"


# Editions and libraries -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edition", "library", "status", "rules"),
    [
        ("onednn-3.2", "none", 1, ["unknown_op"]),
        ("onednn-3.5", "none", 1, ["unknown_op"]),
        ("onednn-3.6", "none", 0, []),
        ("onednn-3.6", "3.5", 0, ["newer_than_library"]),
        ("onednn-3.6", "3.6.2", 0, []),
        ("legacy-1", "none", 1, ["unknown_op"]),
        (None, "3.2", 0, ["newer_than_library"]),
    ],
)
def test_graph_is_checked_in_any_edition_and_library(norm, edition, library, status, rules):
    done = check(norm, *(("--edition", edition) if edition else ()), "--library", library, "--format", "json")
    assert (done.exit_code, [one["rule"] for one in json.loads(done.stdout)]) == (status, rules)
    graph = og.Graph.load(norm)
    found = og.check_graph(graph, edition=edition, library=library)
    assert [one.rule for one in found] == rules
    assert bool(found.errors) == (status == 1)


def test_matrix_of_editions_and_libraries(norm):
    done = check(norm, "--edition", "all", "--library", "3.2", "--library", "none")
    assert done.exit_code == 1
    rows = {line.split("  ")[0]: re.split(" {2,}", line) for line in done.stdout.splitlines() if "-" in line}
    assert {*rows} >= {*EDITIONS}
    assert rows["onednn-3.5"][1:] == ["1 error", "1 error"]
    assert rows["onednn-3.6"][1:] == ["1 op not in the library", "ok"]


def test_several_editions_are_a_table(norm):
    done = check(norm, "--edition", "onednn-3.6", "--edition", "onednn-3.5", "--library", "none")
    rows = [re.split(" {2,}", line)[:2] for line in done.stdout.splitlines() if "onednn-" in line]
    assert (done.exit_code, rows) == (1, [["onednn-3.6", "ok"], ["onednn-3.5", "1 error"]])
    assert check(norm, "--edition", "onednn-3.6", "--edition", "onednn-3.6", "--library", "none").exit_code == 0


def test_matrix_counts_errors_of_an_op_in_its_own_edition(tmp_path):
    g = og.Graph()
    g.output("y", g.softmax(g.input("x", "f32", (2, 3)), axis=1))
    g.save(tmp_path / "graph.json")
    data = json.loads((tmp_path / "graph.json").read_text())
    data["graph"][0]["attrs"]["axis"]["value"] = 9
    (tmp_path / "graph.json").write_text(json.dumps(data))
    done = check(tmp_path / "graph.json", "--edition", "all", "--library", "3.2", "--library", "none")
    rows = [re.split(" {2,}", line) for line in done.stdout.splitlines() if "-" in line]
    assert [row[1:] for row in rows[-len(EDITIONS) :]] == [["1 error", "1 error"]] * len(EDITIONS)
    done = check(tmp_path / "graph.json", "--edition", "all", "--library", "none", "--format", "json")
    assert [one["rule"] for one in json.loads(done.stdout)] == ["axis_in_range"]  # once, not for each edition


def test_words_of_another_edition_are_translated():
    g = og.Graph(edition="legacy-1")
    d, x = g.input("d", "f32", (2, 11, 11, 4)), g.input("x", "f32", (2, 5, 5, 6))
    attrs = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    g.output("w", g.op("ConvTransposeBackpropFilters", [x, d], {**attrs, "filter_shape": [3, 3, 6, 4]}))
    for edition in EDITIONS:
        assert og.check_graph(g, edition=edition, library="none") == [], edition


def test_attribute_that_an_edition_lacks_is_an_error():
    g = og.Graph()
    ends = g.input("x", "f32", (3, 5)), g.input("w", "f32", (5, 4))
    g.output("y", g.matmul(*ends, accumulation_mode="f16"))
    (found,) = og.check_graph(g, edition="onednn-3.2", library="none").errors
    assert (found.rule, found.where, found.edition) == ("not_in_edition", "accumulation_mode", "onednn-3.2")


@pytest.mark.parametrize("library", ["2.0", "3.1", "x", "3", 3.2, "3.2.0.0"])
def test_unknown_version_of_the_library_is_refused(library):
    with pytest.raises(og.ArgumentError, match=r"expected 'none', or a version from '3\.2' on"):
        og.check_graph(og.Graph(), library=library)


def test_str_of_a_violation_names_severity_and_rule():
    found = og.check_op("Elu", {"alpha": -1.0}, [("f32", (3,))])
    assert str(found.errors[0]).startswith("error: [attribute_range] Elu: alpha: ")


# Files ----------------------------------------------------------------------------------------------------------------


def test_all_mistakes_of_a_graph_at_once(wrong):
    found = findings(wrong)
    assert [(one["pointer"], one["rule"]) for one in found] == [
        ("/graph/0/attrs/strides", "attribute_range"),
        ("/graph/0/attrs/data_format", "attribute_value"),
        ("/graph/1/attrs/axis", "axis_in_range"),
        ("/graph/2/attrs/axis", "axis_in_range"),
    ]
    with open(wrong) as file:
        lines = file.read().splitlines()
    for one in found:
        assert f'"{one["pointer"].rpartition("/")[2]}"' in lines[one["line"] - 1]
        assert one["url"].endswith((".md", ".rst"))


@pytest.mark.parametrize(
    ("name", "text", "begins"),
    [
        ("ops.json", json.dumps([GOOD, BAD], indent=1), '   "alpha"'),
        (
            "ops.toml",
            '[[ops]]\nop = "ReLU"\n\n[[ops]] # 2\nop = "Elu"\nattrs = {alpha = -1, beta = 2}\n',
            "[[ops]] # 2",
        ),
        ("ops.toml", '\n[[ops]]\nop = "ReLU"\n\n\n  [[ops]]\nop = "Elu"\nattrs = {alpha = -1}\n', "  [[ops]]"),
        ("ops.yaml", "- op: ReLU\n- op: Elu\n  attrs: {alpha: -1, beta: 2}\n", "- op: Elu"),
    ],
)
def test_records_have_places(folder, name, text, begins):
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    (folder / name).write_text(text)
    found = findings(name)
    assert [(one["rule"], one["record"], one["pointer"]) for one in found if one["where"] == "alpha"] == [
        ("attribute_range", "record 1", "/1/attrs/alpha" if name != "ops.toml" else "/ops/1/attrs/alpha")
    ]
    number = next(one["line"] for one in found if one["where"] == "alpha")
    assert text.splitlines()[number - 1].startswith(begins)


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github", "--json"])
def test_an_unreadable_file_does_not_hide_others(folder, form):
    (folder / "bad.json").write_text(json.dumps(BAD))
    (folder / "cut.json").write_text('{"op": "ReLU"')
    (folder / "void.toml").write_text("")
    done = check("*.*", *(["--json"] if form == "--json" else ["--format", form]))
    assert done.exit_code == 2
    assert "alpha" in done.stdout
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["onegraph", "onegraph"]
    assert all(name in done.stderr for name in ("cut.json", "void.toml"))
    if form != "text":
        assert done.stdout.count("unreadable_file") >= 2


def test_no_baseline_is_written_beside_an_unreadable_file(folder):
    (folder / "bad.json").write_text(json.dumps(BAD))
    (folder / "cut.json").write_text('{"op": "ReLU"')
    done = check("*.json", "--write-baseline", "accepted.json")
    assert (done.exit_code, (folder / "accepted.json").exists()) == (2, False)
    assert "cut.json" in done.stderr


def test_record_without_tensors_is_checked_for_its_attributes(folder):
    attrs = {"strides": [0, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
    (folder / "alone.json").write_text(json.dumps({"op": "MaxPool", "attrs": attrs}))
    (folder / "empty.json").write_text(json.dumps({"op": "MaxPool", "attrs": attrs, "inputs": []}))
    assert [(one["rule"], one["where"]) for one in findings("alone.json")] == [("attribute_range", "strides")]
    assert "input_count" in {one["rule"] for one in findings("empty.json")}


RECORD = {
    "op": "ConvTransposeBackpropFilters",
    "edition": "legacy-1",
    "inputs": [["f32", [2, 5, 5, 6]], ["f32", [2, 11, 11, 4]], {"dtype": "s32", "values": [3, 3, 6, 4]}],
    "attrs": {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]},
}
SHORT = '[[ops]]\nop = "TypeCast"\ninputs = [["f32", [2, 3]]]\noutputs = [["bf16", [2, 3]]]\n'


@pytest.mark.parametrize(
    ("name", "text", "kinds"),
    [
        ("op.json", json.dumps(RECORD), ["ConvTransposeBackpropFilters"]),
        ("op.toml", SHORT, ["TypeCast"]),
        ("op.yaml", "- op: ReLU\n  inputs: [[f32, [2, 3]]]\n- op: Exp\n  inputs: [[f32, [4]]]\n", ["ReLU", "Exp"]),
    ],
)
def test_records_go_to_the_commands_of_graphs(folder, name, text, kinds):
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    (folder / name).write_text(text)
    assert command("convert", name, "-o", "graph.json").exit_code == 0
    assert [op.kind for op in og.Graph.load("graph.json").ops] == kinds
    assert command("show", name, "--no-compile").exit_code == 0


@pytest.mark.library
def test_described_op_is_verified(folder):
    (folder / "op.json").write_text(json.dumps(RECORD))
    done = command("verify", "op.json")
    assert done.exit_code == 0, done.output
    assert "agrees" in done.stdout
    assert command("run", "op.json").exit_code == 0


@pytest.mark.parametrize(
    ("facts", "message"),
    [({"attributes": {}}, "record 0: unknown key 'attributes'"), ({}, "inputs: 0; expected 1: src")],
)
def test_wrong_record_of_a_graph_command_names_the_mistake(folder, facts, message):
    (folder / "op.json").write_text(json.dumps({"op": "ReLU", **facts}))
    done = command("show", "op.json", "--no-compile")
    assert done.exit_code == 2
    assert message in done.output


def test_many_files_and_patterns(folder, norm):
    (folder / "more").mkdir()
    (folder / "more" / "bad.json").write_text(json.dumps(BAD))
    done = check("**/*.json", "--library", "none")
    assert done.exit_code == 1
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["more/bad.json"] * 2
    none = check("*.nothing")
    assert (none.exit_code, none.stderr) == (
        2,
        "onegraph: *.nothing: no file matches; expected a name or a pattern of files\n",
    )


def test_values_of_shape_tensors_are_checked(folder):
    axes = {"dtype": "s32", "values": [7, 7]}
    (folder / "op.json").write_text(json.dumps({"op": "ReduceSum", "inputs": [["f32", [2, 3]], axes]}))
    assert [one["rule"] for one in findings("op.json")] != []
    axes["values"] = [1]
    (folder / "op.json").write_text(json.dumps({"op": "ReduceSum", "inputs": [["f32", [2, 3]], axes]}))
    assert [one["rule"] for one in findings("op.json", "--library", "none")] == []


@pytest.mark.parametrize(
    "tensor",
    [
        {"dtype": "f32", "values": [1.0]},
        {"dtype": "s32", "values": [2**40]},
        {"dtype": "s32", "shape": [3], "values": [1]},
        {"dtype": "s32", "values": 1},
        {"dtype": "s32", "size": 1},
    ],
)
def test_wrong_values_are_refused(folder, tensor):
    (folder / "op.json").write_text(json.dumps({"op": "ReduceSum", "inputs": [["f32", [2, 3]], tensor]}))
    done = check("op.json")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


# Formats --------------------------------------------------------------------------------------------------------------


# What the schema of SARIF 2.1.0 demands of each object that is written, and the other keys that it has.
SARIF = {
    "log": ("version runs", "$schema"),
    "run": ("tool", "artifacts results"),
    "tool": ("driver", ""),
    "driver": ("name", "version informationUri rules"),
    "rule": ("id", "shortDescription fullDescription help helpUri"),
    "result": ("message", "ruleId level locations properties"),
    "message": ("text", ""),
    "location": ("", "physicalLocation logicalLocations"),
    "physicalLocation": ("artifactLocation", "region"),
    "artifactLocation": ("uri", ""),
    "region": ("startLine", ""),
    "logicalLocation": ("", "fullyQualifiedName"),
    "artifact": ("location", ""),
}
URI_CHARACTERS = re.compile(r"[A-Za-z0-9%/._~-]+")
# What Jenkins' schema of JUnit has for each element: attributes that must be there, others, and elements inside.
JUNIT = {
    "testsuites": ("", "name tests failures errors", "testsuite"),
    "testsuite": ("name tests failures errors", "file", "testcase"),
    "testcase": ("name", "classname time", "failure error skipped system-out"),
    "failure": ("", "message type", ""),
    "error": ("", "message type", ""),
    "system-out": ("", "", ""),
}


def obey(kind, *objects):
    """Assert that objects have the keys that the schema demands, and no others than it knows; returns them."""
    needed, others = ({*keys.split()} for keys in SARIF[kind])
    for one in objects:
        assert needed <= set(one) <= needed | others, (kind, one)
    return objects


def sarif(text):
    """The run of a log, and its results, after a look at all that the schema demands."""
    (log,) = obey("log", json.loads(text))
    assert log["version"] == "2.1.0"
    (run,) = obey("run", *log["runs"])
    (driver,) = obey("driver", obey("tool", run["tool"])[0]["driver"])
    for rule in obey("rule", *driver["rules"]):
        obey("message", rule["shortDescription"], rule["fullDescription"], rule["help"])
        assert rule["helpUri"].startswith("https://")
    obey("artifactLocation", *(one["location"] for one in obey("artifact", *run["artifacts"])))
    for unique in (driver["rules"], run["artifacts"]):
        assert len({json.dumps(one) for one in unique}) == len(unique)
    for result in obey("result", *run["results"]):
        obey("message", result["message"])
        assert result["level"] in ("none", "note", "warning", "error")
        (place,) = obey("location", *result["locations"])
        obey("logicalLocation", *place["logicalLocations"])
        (physical,) = obey("physicalLocation", place["physicalLocation"])
        (address,) = obey("artifactLocation", physical["artifactLocation"])
        assert URI_CHARACTERS.fullmatch(address["uri"])
        assert {"location": address} in run["artifacts"]
        assert obey("region", physical["region"])[0]["startLine"] >= 1
    assert {one["ruleId"] for one in run["results"]} == {one["id"] for one in driver["rules"]}
    return run, run["results"]


def junit(text):
    """The root of a report, after a look at all that the schema demands."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        needed, others, inside = (part.split() for part in JUNIT[element.tag])
        assert {*needed} <= {*element.keys()} <= {*needed, *others}, element.attrib
        assert {child.tag for child in element} <= {*inside}
    for suite in root:
        counts = {tag: len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error")}
        assert (suite.get("failures"), suite.get("errors")) == (str(counts["failure"]), str(counts["error"]))
        assert suite.get("tests") == str(len(suite))
    return root


def test_sarif_has_rules_places_and_levels(wrong):
    run, results = sarif(check(wrong, "--format", "sarif").stdout)
    for one in results:
        place = one["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == wrong
        assert place["region"]["startLine"] > 1
        assert one["level"] == "error"
    assert sarif(check(wrong, wrong, f"./{wrong}", "--format", "sarif").stdout)[0]["tool"] == run["tool"]


def test_formats_of_every_severity_follow_the_schemas(folder, wrong, norm):
    (folder / "op.json").write_text(json.dumps([BAD, GOOD, {"op": "Re\u0001L%U\n"}]))
    (folder / "cut.json").write_text('{"op": "ReLU"')
    (folder / "a,b: \udcff\u0002.json").write_text(json.dumps({"op": "Re%LU\n"}))
    names = ["wrong.json", "norm.json", "op.json", "cut.json"]
    for arguments in ([norm, "--library", "none"], ["*.json", "--library", "3.2", "--library", "3.2@avx2"]):
        _, results = sarif(check(*arguments, "--format", "sarif").stdout)
        root = junit(check(*arguments, "--format", "junit").stdout)
        assert len(results) == sum(len(suite.findall("testcase/*")) for suite in root)
    assert {one["level"] for one in results} == {"error", "warning"}
    texts = [child.text for child in root.iter() if child.tag in ("failure", "error", "system-out")]
    assert {re.match(r"(.*):\d+: ", text)[1] for text in texts} == {*names, "a,b: ??.json"}


def test_junit_has_a_failure_for_each_error(wrong, norm):
    root = junit(check(wrong, norm, "--format", "junit", "--library", "3.2").stdout)
    suites = {suite.get("name"): suite for suite in root}
    assert suites[wrong].get("failures") == "4"
    assert suites[norm].get("failures") == "0"


def test_github_commands_are_escaped(folder):
    (folder / "a,b:c.json").write_text(json.dumps({"op": "Re%LU\r\n::error::no"}))
    (line,) = check("a,b:c.json", "--format", "github").stdout.split("\n")[:-1]
    command, message = re.fullmatch(r"::error (.*?)::(.*)", line).groups()
    # As the runner reads them: properties between commas, values behind the first =.
    facts = dict(part.split("=", 1) for part in command.split(","))
    read = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}
    for code, character in read.items():
        facts = {name: value.replace(code, character) for name, value in facts.items()}
        message = message.replace(code, character) if character not in ":," else message
    assert facts == {"file": "a,b:c.json", "line": "1", "title": "unknown_op"}
    assert "Re%LU" in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "accepted.json: No such file or directory"),
        ("no", "accepted.json: no JSON; expected what onegraph check --write-baseline has written"),
        ("{}", "accepted.json: no list of findings"),
        ("[1]", "accepted.json: no list of findings"),
    ],
)
def test_a_wrong_baseline_is_named(wrong, folder, text, told):
    if text is not None:
        (folder / "accepted.json").write_text(text)
    done = check(wrong, "--baseline", "accepted.json")
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr


def test_unreadable_file_hides_no_finding_of_others(folder):
    (folder / "bad.json").write_text(json.dumps(BAD))
    (folder / "broken file.json").write_text('{\n "op": \n')
    plain = check("*.json", "nothing.json", "--library", "none")
    assert plain.exit_code == 2
    assert len(plain.stdout.splitlines()) == 2
    assert [line.split(": ")[1] for line in plain.stderr.splitlines()] == ["broken file.json", "nothing.json"]
    of_form = {form: check("*.json", "--library", "none", "--format", form) for form in ("sarif", "junit", "github")}
    assert {done.exit_code for done in of_form.values()} == {2}
    results = json.loads(of_form["sarif"].stdout)["runs"][0]["results"]
    assert [one["ruleId"] for one in results][-1] == "unreadable_file"
    place = results[-1]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("broken%20file.json", 3)
    root = ET.fromstring(of_form["junit"].stdout)
    assert [(suite.get("failures"), suite.get("errors")) for suite in root] == [("2", "0"), ("0", "1")]
    assert of_form["github"].stdout.splitlines()[-1].startswith("::error file=broken file.json,line=3,title=unreadable")


def test_every_format_holds_control_characters(folder):
    (folder / "op.json").write_text(json.dumps({"op": "Re\u0001LU"}))
    ET.fromstring(check("op.json", "--format", "junit").stdout)
    json.loads(check("op.json", "--format", "sarif").stdout)


def test_baseline_leaves_out_accepted_findings(wrong, folder):
    assert check(wrong, "--write-baseline", "accepted.json").exit_code == 0
    done = check(wrong, "--baseline", "accepted.json")
    assert (done.exit_code, done.stdout) == (0, "no violations beside 4 accepted\n")
    data = json.loads((folder / wrong).read_text())
    data["graph"][1]["attrs"]["axis"]["value"] = 8  # another mistake than the accepted one
    (folder / wrong).write_text(json.dumps(data))
    assert check(wrong, "--baseline", "accepted.json").exit_code == 1
    (folder / "accepted.json").write_text("{}")
    assert check(wrong, "--baseline", "accepted.json").exit_code == 2


def test_pattern_may_match_the_baseline(folder):
    (folder / "bad.json").write_text(json.dumps(BAD))
    for _ in range(2):  # the second one replaces a baseline that is there
        assert check("*.json", "--write-baseline", "accepted.json").exit_code == 0
    done = check("*.json", "--baseline", "accepted.json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert check("*.json").exit_code == 2


@pytest.mark.parametrize(("has_baseline", "said"), [(False, "good.json: "), (True, "the working directory: No such")])
def test_a_removed_folder_is_named(folder, tmp_path_factory, has_baseline, said):
    baseline = tmp_path_factory.mktemp("other") / "accepted.json"
    baseline.write_text("[]")
    folder.rmdir()
    done = check("good.json", *(("--baseline", baseline) if has_baseline else ()))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"onegraph: {said}")


def test_link_to_itself_is_unreadable(folder):
    (folder / "loop.json").symlink_to("loop.json")
    done = check("loop.json")
    assert done.exit_code == 2
    assert done.stderr.startswith("onegraph: loop.json: ")


def test_help_names_every_exit_status():
    text = check("--help").stdout
    assert all(f" {status} " in text.partition("Exit status")[2] for status in (1, 2, 3))


@pytest.mark.parametrize(
    ("path", "line"), [((), 1), (("a",), 2), (("b", 1), 5), (("b", 1, "c"), 6), (("none",), 1), (("b", 9), 3)]
)
def test_lines_of_places_in_json(path, line):
    text = '{\n"a": "x{[\\"",\n"b": [\n-1.5e3,\n{\n"c": null}]}'
    assert line_of(text, path) == line
    assert pointer(("a/b", 0, "c~")) == "/a~1b/0/c~0"


def test_findings_name_no_library_that_is_not_given(tmp_path):
    (tmp_path / "op.json").write_text('{"op": "SoftMax", "attrs": {"axis": 9}, "inputs": [["f32", [2, 3]]]}')
    done = CliRunner().invoke(cli, ["check", str(tmp_path / "op.json"), "--format", "json"])
    assert [one["library"] for one in json.loads(done.stdout)] == [""]
