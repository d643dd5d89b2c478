"""Pictures of graphs: the page, the SVG and dot, and the page in a real browser."""

import base64
import hashlib
import io
import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import draws

import onegraph as og
from onegraph import view
from onegraph.compiler.report import Report
from onegraph.view import notebook
from onegraph.view.model import model

WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
HOSTILE = '</script ><!--<script><img src=x onerror="window.pwned=1">\'&\\"]]>${x}\x00\x1b\ud800\u2028'
SIZE = (1300, 900)


def block(relu_name="relu_out"):
    """Convolution, bias and ReLU; then MatMul with a constant."""
    g = og.Graph()
    x = g.input("x", og.f32, (1, 8, 8, 3))
    weights = g.constant(np.ones((3, 3, 3, 4), np.float32), name="w")
    conv = g.convolution(x, weights, name="conv", **WINDOW)
    y = g.relu(conv, name=relu_name)
    g.output("y", y)
    g.output("z", g.matmul(y, g.constant(np.ones((4, 2), np.float32), name="m"), name="last"))
    return g


REPORT = {
    "library": "oneDNN 3.2.0",
    "partitions": [
        {"index": 0, "executor": "oneDNN", "ops": ("Convolution 'conv'", "ReLU 'relu_out'"), "bytes": 5, "threads": 0},
        {"index": 1, "executor": "reference", "ops": ("MatMul 'last'",), "reason": "refused: why"},
    ],
}


def violation(op, **changes):
    fields = {"rule": "a_rule", "severity": "error", "where": "strides", "given": "[0]", "expected": "positive"}
    fields = {**fields, **changes}
    message = f"{op}: {fields['where']}: {fields['given']}; expected {fields['expected']}; pass 1"
    return og.Violation(op=op, message=message, edition="onednn-3.13", page="guide", **fields)


def chain(length, constants=False):
    g = og.Graph()
    y = old = g.input("x", og.f32, (4, 4))
    for number in range(length):
        y = g.add(y, g.constant(np.ones((4,), np.float32))) if constants and number % 3 == 0 else g.relu(y)
        if number % 7 == 6:
            y = old = g.add(y, old)
    g.output("y", y)
    return g


def there_and_back(length):
    """The second half reads every op of the first half, so edges have every length up to the whole graph."""
    g = og.Graph()
    y = g.input("x", og.f32, (4,))
    way = []
    for _ in range(length):
        y = g.tanh(y)
        way.append(y)
    for value in reversed(way):
        y = g.multiply(y, value)
    g.output("y", y)
    return g


def joined():
    """Ops with nine constants each, stacked on both sides."""
    g = og.Graph()
    y = g.input("x", og.f32, (4,))
    for _ in range(3):
        y = g.concat(y, *(g.constant(np.ones(1, np.float32)) for _ in range(9)), axis=0)
    g.output("y", y)
    return g


class Tags(HTMLParser):
    """The tags of a page, and the texts of its script elements by id."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.policy, self.inside, self.model = [], [], "", None, ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        self.inside = given.get("id", "script") if tag == "script" else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "model":
            self.model += data
        elif self.inside:
            self.scripts.append(data)


# What is drawn --------------------------------------------------------------------------------------------------------


def test_model_follows_the_report():
    data = model(block(), REPORT, times=[3e-6, 1e-6])
    assert [op["partition"] for op in data["ops"]] == [0, 0, 1]
    first, second = data["partitions"]
    assert (first["ops"], first["fused"], first["seconds"], first["more"]) == ([0, 1], True, 3e-6, {"threads": "all"})
    assert (second["ops"], second["fused"], second["reason"]) == ([2], False, "refused: why")
    assert data["library"] == "oneDNN 3.2.0"
    assert [name for name, _ in data["outputs"]] == ["y", "z"]
    weights = data["tensors"][data["ops"][0]["inputs"][1]]
    assert weights == {
        "name": "w",
        "dtype": "f32",
        "shape": [3, 3, 3, 4],
        "strides": None,
        "bytes": 432,
        "value": ", ".join(["1.0"] * 12) + ", …",
    }


def test_matches_report_ops_by_name_or_text():
    name = "it's \"so\"\\ + 'b'"
    g = block(relu_name=name)
    report = {"partitions": [{"executor": "oneDNN", "ops": [f"ReLU {name!r}", "Convolution 'conv'"]}]}
    assert model(g, report)["partitions"][0]["ops"] == [1, 0]
    report = {"partitions": [{"executor": "oneDNN", "ops": ["something else"], "names": ["conv", "unknown", name]}]}
    assert model(g, report)["partitions"][0]["ops"] == [0, 1]


@pytest.mark.library
def test_accepts_the_report_of_an_executable():
    g = block()
    executable = g.compile(finite_math=True)
    report = executable.report()
    data = model(g, report, times={0: 1.5e-6})
    assert data["partitions"][0]["ops"] == [0, 1]
    assert {op["partition"] for op in data["ops"]} == set(range(len(report.partitions)))
    assert data["partitions"][0]["seconds"] == 1.5e-6
    assert data == model(g, report.to_dict(), times={0: 1.5e-6})


@pytest.mark.parametrize("shown", [view.notebook_html, view.notebook_svg, view.embedded, view.page, view.dot])
def test_rejects_values_that_are_not_graphs(shown):
    with pytest.raises(og.ArgumentError, match="graph: None; expected a Graph"):
        shown(None)


def test_shows_violations_at_their_op():
    g = block()
    stray = violation("Convolution 'gone'")
    data = model(g, violations=[violation("Convolution 'conv'"), violation("MatMul 'last'", severity="library"), stray])
    assert [[v["severity"] for v in op["violations"]] for op in data["ops"]] == [["error"], [], ["library"]]
    assert data["ops"][0]["violations"][0]["expected"] == "positive; pass 1"
    assert [v["op"] for v in data["violations"]] == ["Convolution 'gone'"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"report": "nonsense"}, "report: 'nonsense'; expected what Executable.report"),
        ({"report": Report}, "report: <class 'onegraph.compiler.report.Report'>; expected what Executable.report"),
        ({"report": SimpleNamespace(to_dict=3)}, r"report: namespace\(to_dict=3\); expected what Executable.report"),
        ({"report": {"partitions": 3}}, "expected what Executable.report"),
        ({"report": {"partitions": [3]}}, "expected what Executable.report"),
        ({"times": "12"}, "times: '12'; expected seconds"),
        ({"times": 3}, "times: 3; expected seconds"),
        ({"times": [1.0, -1]}, r"times: 1: -1; expected seconds by index"),
        ({"times": [float("nan")]}, "times: 0: nan"),
        ({"times": [10**400]}, "times: 0: an integer of 1329 bits"),
        ({"times": {"0": 1.0}}, "times: '0': 1.0"),
        ({"times": [True]}, "times: 0: True"),
    ],
)
def test_rejects_invalid_report_and_times(arguments, message):
    for draw in (view.page, view.dot):
        with pytest.raises(og.ArgumentError, match=message):
            draw(block(), **arguments)


# The page as text -----------------------------------------------------------------------------------------------------


def test_page_is_one_file_without_loads():
    page = view.page(block(), REPORT, [violation("MatMul 'last'")], [1e-6, 2e-6], title="a $title & more")
    tags = Tags(page)
    assert {tag for tag, _ in tags.tags}.isdisjoint({"link", "img", "iframe", "object", "embed", "base"})
    assert not [given for _, given in tags.tags if {"src", "href"} & set(given)]
    assert not [given for _, given in tags.tags if any(name.startswith("on") for name in given)]
    # A name, and the pages of the specification that a reader may follow.
    addresses = set(re.findall(r"https?://[^\"'` ]+", page)) - {"http://www.w3.org/2000/svg"}
    assert {address.rpartition("/")[0] for address in addresses} == {
        "https://github.com/uxlfoundation/oneDNN/blob/v3.13/doc/graph/operations"
    }
    assert "@import" not in page
    assert "sourceMappingURL" not in page
    assert "<h1>a $title &amp; more</h1>" in page


def test_only_the_scripts_of_the_page_may_run():
    tags = Tags(view.page(block()))
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in tags.scripts]
    assert re.findall(r"'sha256-([^']+)'", tags.policy) == digests
    assert tags.policy.startswith("default-src 'none';")
    assert "unsafe-inline" not in tags.policy.partition("script-src")[2]
    assert "unsafe-eval" not in tags.policy


def test_page_holds_the_op_table():
    g = og.Graph()
    attrs = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    y = g.op(
        "ConvTranspose",
        [g.input("x", og.f32, (1, 5, 5, 4)), g.input("w", og.f32, (3, 3, 4, 2))],
        attrs,
        edition="legacy-1",
    )
    g.output("y", g.relu(y))
    specs = json.loads(Tags(view.page(g)).model)["specs"]
    assert [(spec["kind"], spec["edition"]) for spec in specs] == [
        ("ConvTranspose", "legacy-1"),
        ("ReLU", "onednn-3.13"),
    ]
    assert "filter_format" in [one["name"] for one in specs[0]["attributes"]]


def test_page_is_deterministic():
    assert view.page(block(), REPORT, title="t") == view.page(block(), REPORT, title="t")
    assert view.page(block(), REPORT) != view.page(block())


def hostile():
    g = og.Graph()
    x = g.input(HOSTILE, og.f32, (2, 2))
    y = g.op("ReLU", [x], name=HOSTILE + "op")
    g.output(
        HOSTILE + "out", g.matmul(y, g.constant(np.ones((2, 2), np.float32), name=HOSTILE + "c"), name="]]>" + HOSTILE)
    )
    report = {
        "partitions": [
            {"executor": "reference", "ops": [f"ReLU {HOSTILE + 'op'!r}"], "reason": HOSTILE, HOSTILE: HOSTILE}
        ]
    }
    return g, report, [violation(f"ReLU {HOSTILE + 'op'!r}", where=HOSTILE, given=HOSTILE, expected=HOSTILE)]


def test_page_escapes_user_text():
    plain, page = Tags(view.page(block(), title="t")), Tags(view.page(*hostile(), title=HOSTILE))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert page.policy == plain.policy
    data = json.loads(page.model)
    assert data["ops"][0]["name"] == HOSTILE + "op"
    assert data["inputs"][0][0] == HOSTILE
    assert data["partitions"][0]["reason"] == HOSTILE
    assert data["ops"][0]["violations"][0]["where"] == HOSTILE


def test_notebook_frame_is_one_tag():
    g, _, _ = hostile()
    tags = Tags(g._repr_html_()).tags
    assert [tag for tag, _ in tags] == ["iframe"]
    frame = tags[0][1]
    assert "allow-same-origin" not in frame["sandbox"]
    inner = Tags(frame["srcdoc"])
    assert json.loads(inner.model)["ops"][0]["name"] == HOSTILE + "op"
    assert "height:32768px" in view.embedded(g, height=2**15)
    for height in (0, 2**15 + 1):
        with pytest.raises(og.ArgumentError, match="height: "):
            view.embedded(g, height=height)


def test_large_graphs_are_text_in_notebooks(monkeypatch):
    monkeypatch.setattr(notebook, "FRAME", 9)
    monkeypatch.setattr(notebook, "PICTURE", 9)
    g = og.Graph()
    y = g.input("<x>", og.f32, (4,))
    for _ in range(9):
        y = g.relu(y)
    assert g._repr_html_().startswith("<iframe")
    assert g.to_dot().count("label=") == 9 + 1 + 8
    g.output("y", g.tanh(y))
    text = g._repr_html_()
    assert text.startswith(
        "<pre>Graph of 10 ops, edition onednn-3.13\n       9  ReLU\n       1  Tanh\ninputs: &lt;x&gt;\n"
    )
    assert g._repr_svg_() is None


def test_dagre_is_unmodified_and_licensed():
    assets = files("onegraph.view") / "assets"
    digest = hashlib.sha256((assets / "dagre.min.js").read_bytes()).hexdigest()
    assert digest == "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578"  # 3.1.3, dist/dagre.min.js
    assert "Permission is hereby granted, free of charge" in (assets / "dagre.min.js.LEGAL.txt").read_text()


# dot ------------------------------------------------------------------------------------------------------------------


def test_dot():
    assert view.dot(block(), REPORT, [violation("MatMul 'last'")], [3e-6], title="g") == (
        'digraph "g" {\n'
        '  node [shape=box, style="rounded,filled", fillcolor="white", fontname="sans-serif"];\n'
        '  edge [fontname="sans-serif", fontsize=10];\n'
        "  subgraph cluster_0 {\n"
        '    label="partition 0, oneDNN, 3 us";\n'
        "    op_0;\n"
        "    op_1;\n"
        "  }\n"
        '  op_0 [label="Convolution\\nconv", tooltip="strides: (1, 1)\\npads_begin: (1, 1)\\npads_end: (1, 1)\\n'
        'dilations: (1, 1)"];\n'
        '  op_1 [label="ReLU\\nrelu_out", tooltip="ReLU"];\n'
        '  op_2 [label="MatMul\\nlast", tooltip="MatMul", style="rounded,filled,dashed", color="red", penwidth=2];\n'
        '  input_0 [label="x\\nf32 [1, 8, 8, 3]", shape=oval];\n'
        "  input_0 -> op_0;\n"
        '  constant_1 [label="w\\nf32 [3, 3, 3, 4]", shape=oval, fillcolor="gray95"];\n'
        "  constant_1 -> op_0;\n"
        '  op_0 -> op_1 [label="f32 [1, 8, 8, 4]"];\n'
        '  op_1 -> op_2 [label="f32 [1, 8, 8, 4]"];\n'
        '  constant_4 [label="m\\nf32 [4, 2]", shape=oval, fillcolor="gray95"];\n'
        "  constant_4 -> op_2;\n"
        '  output_0 [label="y\\nf32 [1, 8, 8, 4]", shape=oval, penwidth=2];\n'
        "  op_1 -> output_0;\n"
        '  output_1 [label="z\\nf32 [1, 8, 8, 2]", shape=oval, penwidth=2];\n'
        "  op_2 -> output_1;\n"
        "}\n"
    )


def test_sums_the_times_of_a_split_op():
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    y = g.exp(g.relu(x, name="a"), name="b")
    g.output("z", g.tanh(y, name="c"))
    parts = [("oneDNN", "a"), ("reference", "a"), ("oneDNN", "a b"), ("oneDNN", "c"), ("view", "c"), ("oneDNN", "b")]
    report = {"partitions": [{"executor": runs, "names": names.split()} for runs, names in parts]}
    found = {op["name"]: op for op in model(g, report=report, times=[1.0, 2.0, 4.0, 8.0, 16.0, 32.0])["ops"]}
    assert {name: (op["partition"], op["seconds"], op["numpy"]) for name, op in found.items()} == {
        "a": (2, 7.0, True),  # the only op of the first two partitions
        "b": (2, 36.0, False),
        "c": (4, 24.0, False),  # the longest part by far
    }
    page = view.page(g, report=report, times=[1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    assert page.count("</html>") == 1
    plain = {op["name"]: op for op in model(g)["ops"]}
    assert [(op["partition"], op["seconds"], op["numpy"]) for op in plain.values()] == [(None, None, False)] * 3


def test_dot_marks_constant_inputs():
    g = og.Graph()
    x, w = g.input("x", og.f32, (2, 2)), g.input("w", og.f32, (2, 2), constant=True)
    g.output("y", g.matmul(x, w))
    lines = {line.split()[0]: line for line in g.to_dot().splitlines() if "shape=oval" in line}
    assert 'fillcolor="gray95"' in lines[f"input_{w.id}"]
    assert "fillcolor" not in lines[f"input_{x.id}"]


def test_dot_escapes_user_text():
    text = view.dot(*hostile(), title=HOSTILE)
    bare = re.sub(r'"(?:[^"\\]|\\["\\n])*"', "S", text)  # a string has only these escapes
    assert re.fullmatch(r"[A-Za-z0-9_=,;>{}\[\]\n -]+", bare)
    assert len(bare.splitlines()) == text.encode().count(b"\n")
    assert block().to_dot() == view.dot(block())


def test_dot_outlines_errors_only():
    lines = view.dot(block(), violations=[violation("MatMul 'last'", severity="library"), violation("ReLU 'relu_out'")])
    red = {line.split()[0] for line in lines.splitlines() if 'color="red"' in line}
    assert red == {"op_1"}


# SVG ------------------------------------------------------------------------------------------------------------------

NAMESPACE = "{http://www.w3.org/2000/svg}"


def drawn(text):
    """The nodes of an SVG by id: classes, name, and the box (left, top, right, bottom); its edges: ids and path."""
    root = ET.fromstring(text)
    nodes, edges = {}, []
    for group in root.iter(f"{NAMESPACE}g"):
        classes = group.get("class", "").split()
        if "node" in classes:
            x, y = map(float, re.findall(r"-?[\d.]+", group.get("transform")))
            body = next(rect for rect in group.iter(f"{NAMESPACE}rect") if rect.get("class") == "body")
            left, top, width, height = (float(body.get(key)) for key in ("x", "y", "width", "height"))
            box = (x + left, y + top, x + left + width, y + top + height)
            nodes[group.get("id")] = (set(classes), group.find(f"{NAMESPACE}title").text, box)
        elif "edge" in classes:
            path = next(one for one in group.iter(f"{NAMESPACE}path") if one.get("class") == "line").get("d")
            edges.append((group.get("data-from"), group.get("data-to"), set(classes), path))
    return root, nodes, edges


@pytest.fixture
def svg():
    pytest.importorskip("quickjs", reason="the extra 'view' is not installed")
    return view.svg


def test_svg_shows_partitions_fallback_and_violations(svg):
    text = svg(block(), REPORT, [violation("MatMul 'last'"), violation("MatMul 'last'")], title="the <title>")
    root, nodes, edges = drawn(text)
    ops = {number: nodes[f"o{number}"] for number in range(3)}
    assert ops[0][1] == "Convolution conv, partition 0, fused"
    assert ops[2][1] == "MatMul last, partition 1, runs on numpy, 2 violations"
    assert {"op", "fused", "c0"} <= ops[0][0]
    assert {"op", "fallback", "violating", "plain"} <= ops[2][0]
    assert root.get("aria-label") == "the <title>"
    texts = [one.text for one in root.iter(f"{NAMESPACE}text")]
    assert texts.count("P0") == 2
    assert {
        "Convolution",
        "relu_out",
        "f32 1\u00d78\u00d78\u00d74",
        "w",
        "f32 3\u00d73\u00d73\u00d74",
        "y",
        "2",
    } <= set(texts)
    hulls = [group for group in root.iter(f"{NAMESPACE}g") if group.get("class", "").startswith("hull ")]
    assert len(hulls) == 1
    assert len(list(hulls[0].iter(f"{NAMESPACE}rect"))) == 2
    assert {(start, end) for start, end, _, _ in edges} == {
        ("i0", "o0"), ("c1_0", "o0"), ("o0", "o1"), ("o1", "x0"), ("o1", "o2"), ("c4_2", "o2"), ("o2", "x1"),
    }  # fmt: skip


def test_svg_marks_slow_partitions_and_no_limits(svg):
    parts = [
        {"executor": "oneDNN", "names": ["conv"], "reference_kernel": True},
        {"executor": "copy", "names": ["relu_out"]},
        {"executor": "oneDNN", "names": ["last"], "reference_kernel": False},
    ]
    limits = [violation("MatMul 'last'", severity="library"), violation("MatMul 'last'", severity="unsafe")]
    root, nodes, _ = drawn(svg(block(), {"partitions": parts}, limits))
    assert [{"slow", "fallback", "violating"} & nodes[f"o{number}"][0] for number in range(3)] == [
        {"slow"}, {"fallback"}, set(),
    ]  # fmt: skip
    assert nodes["o0"][1] == "Convolution conv, partition 0, reference kernel"
    assert nodes["o2"][1] == "MatMul last, partition 2"
    assert not [group for group in root.iter(f"{NAMESPACE}g") if "badge" in group.get("class", "")]


def normed(constant=True):
    """A BatchNormInference with four parameters: constants, or constant inputs."""
    g = og.Graph()
    names = ("gamma", "beta", "mean", "variance")
    if constant:
        parameters = [g.constant(np.ones(4, np.float32), name=name) for name in names]
    else:
        parameters = [g.input(name, og.f32, (4,), constant=True) for name in names]
    y = g.batch_norm_inference(g.input("x", og.f32, (1, 3, 3, 4)), *parameters, epsilon=1e-5, name="norm")
    g.output("y", g.multiply(y, g.constant(np.ones(1, np.float32), name="k"), name="scaled"))
    return g


@pytest.mark.parametrize("constant", [True, False])
def test_svg_folds_the_constants_of_norms(svg, constant):
    g = normed(constant)
    _, nodes, edges = drawn(svg(g))
    scale = next(tensor.id for tensor in g.ops[1].inputs if tensor.constant)
    image = g.inputs["x"].id
    assert set(nodes) == {"o0", "o1", "n0", f"c{scale}_1", f"i{image}", "x0"}
    assert nodes["n0"][1] == "4 constants, gamma, beta, mean, variance"
    assert [(start, end) for start, end, _, _ in edges].count(("n0", "o0")) == 1


def test_svg_cuts_the_common_prefix_of_constants(svg):
    g = og.Graph()
    names = ("stem_1_gamma", "stem_1_beta", "stem_1_mean", "stem_1_var")
    parameters = [g.constant(np.ones(4, np.float32), name=name) for name in names]
    g.output("y", g.batch_norm_inference(g.input("x", og.f32, (1, 3, 3, 4)), *parameters, epsilon=1e-5))
    root, nodes, _ = drawn(svg(g))
    assert "gamma, beta, mean, var" in [text.text for text in root.iter(f"{NAMESPACE}text")]
    assert nodes["n0"][1] == f"4 constants, {', '.join(names)}"


def test_svg_keeps_constants_of_norms_with_other_readers(svg):
    g = normed(constant=False)
    g.output("also", g.relu(g.inputs["mean"]))
    _, nodes, _ = drawn(svg(g))
    assert nodes["n0"][1] == "3 constants, gamma, beta, variance"
    assert f"i{g.inputs['mean'].id}" in nodes


def test_svg_heat(svg):
    _, nodes, _ = drawn(svg(block(), REPORT, times=[1e-6, 2e-3]))
    assert "q0" in nodes["o0"][0]
    assert "q8" in nodes["o2"][0]
    assert nodes["o2"][1].endswith("runs on numpy, 2 ms")


def test_svg_collapsed_partitions(svg):
    _, nodes, edges = drawn(svg(block(), REPORT, collapse=True))
    assert set(nodes) == {"p0", "o2", "i0", "x0", "x1", "c4_2"}
    assert nodes["p0"][1] == "partition 0: Convolution, ReLU, fused"
    assert ("p0", "o2") in {(start, end) for start, end, _, _ in edges}


@pytest.mark.parametrize(
    "graph",
    [block(), joined(), chain(40), chain(400, constants=True), there_and_back(8), there_and_back(150)],
    ids=["block", "constants", "chain", "long chain", "there and back", "long there and back"],
)
def test_boxes_do_not_overlap_and_lines_go_down(svg, graph):
    _, nodes, edges = drawn(svg(graph))
    boxes = sorted((box[1], box[3], box[0], box[2], name) for name, (_, _, box) in nodes.items())
    for place, (_, bottom, left, right, name) in enumerate(boxes):
        for other_top, _, other_left, other_right, other in boxes[place + 1 :]:
            if other_top >= bottom:
                break
            assert other_right <= left or right <= other_left, (name, other)
    for start, end, classes, path in edges:
        assert "NaN" not in path
        numbers = list(map(float, re.findall(r"-?\d+(?:\.\d+)?", path)))
        upper, lower = nodes[start][2], nodes[end][2]
        if "far" in classes or numbers[1] < upper[3] - 0.2:  # named at its end, or from the side
            continue
        assert upper[3] <= lower[1] + 0.2
        assert numbers[1] == pytest.approx(upper[3], abs=0.2)
        assert numbers[-1] == pytest.approx(lower[1] - 2, abs=0.2)
        assert upper[0] <= numbers[0] <= upper[2]
        assert lower[0] <= numbers[-2] <= lower[2]


def test_chain_is_straight(svg):
    _, nodes, _ = drawn(svg(chain(6, constants=True)))
    middles = {round((box[0] + box[2]) / 2) for name, (_, _, box) in nodes.items() if name[0] in "oix"}
    assert len(middles) == 1


def test_names_cut_lines(svg):
    text = svg(there_and_back(150))
    _, _, edges = drawn(text)
    far = [(start, end) for start, end, classes, _ in edges if "far" in classes]
    assert 50 < len(far) < 150
    assert len(edges) == 150 + 2 * 150 - 1 + 1  # the last tanh is squared: one line, drawn once
    assert text.count("⤷ from tanh_") == len(far)


@pytest.mark.parametrize(
    ("readers", "shape", "is_cut"), [(3, (), False), (4, (), True), (4, (1,), True), (4, (8,), False)]
)
def test_lines_of_a_number_that_many_read_are_cut(svg, readers, shape, is_cut):
    graph = og.Graph()
    rate = graph.abs(graph.input("rate", og.f32, shape), name="rate")
    for number in range(readers):
        variable = graph.input(f"w{number}", og.f32, (8,))
        graph.output(f"next{number}", graph.multiply(variable, rate))
    text = svg(graph)
    assert text.count("⤷ from rate") == (readers if is_cut else 0)
    assert sum("far" in classes for _, _, classes, _ in drawn(text)[2]) == (readers if is_cut else 0)


def test_svg_escapes_user_text(svg):
    text = svg(*hostile(), title=HOSTILE)
    root, nodes, _ = drawn(text)
    kinds = {element.tag.removeprefix(NAMESPACE) for element in root.iter()}
    assert kinds == {"svg", "style", "rect", "defs", "marker", "path", "pattern", "g", "title", "text", "circle"}
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    assert re.sub("[\x00\x1b\ud800]", "\ufffd", HOSTILE) + "op" in nodes["o0"][1]


def test_svg_is_deterministic(svg):
    assert svg(block(), REPORT) == svg(block(), REPORT)
    assert block()._repr_svg_() == svg(block())


@pytest.mark.parametrize("draw", [view.page, view.dot, view.svg])
def test_rejects_other_values_as_graph_or_violations(draw):
    for graph in (None, 3, "graph"):
        with pytest.raises(og.ArgumentError, match=r"graph: .*; expected a Graph"):
            draw(graph)
    by_hand = og.Violation("rule", "error", "op", "where", "given", "expected", None, "onednn-3.13", "page")
    for violations in (1, [1], [None], [by_hand]):
        with pytest.raises(og.ArgumentError, match=r"violations: .*; expected what check_graph returns"):
            draw(og.Graph(), violations=violations)


def test_an_empty_graph(svg):
    assert drawn(svg(og.Graph()))[1:] == ({}, [])
    assert Tags(view.page(og.Graph())).tags
    assert og.Graph().to_dot().startswith('digraph "graph" {')


def test_draws_a_cycle_of_ops(svg):
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    a = og.LogicalTensor(7, og.f32, (4,), None, "a")
    b = og.LogicalTensor(8, og.f32, (4,), None, "b")
    g._ops += [
        og.Op(0, "Add", (x, b), (a,), {}, "one", g.edition),
        og.Op(1, "Nonsense", (a,), (b,), {}, "two", g.edition),
    ]
    _, nodes, edges = drawn(svg(g, violations=og.check_graph(g)))
    assert {"o0", "o1"} <= set(nodes)
    assert len(edges) == 3
    assert "violating" in nodes["o1"][0]


def test_svg_needs_the_interpreter(monkeypatch):
    monkeypatch.setitem(sys.modules, "quickjs", None)
    with pytest.raises(og.UnsupportedError, match=r"extra 'view': pip install 'onegraph\[view\]'"):
        view.svg(block())
    assert block()._repr_svg_() is None


# The page in a browser ------------------------------------------------------------------------------------------------

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --hide-scrollbars --force-device-scale-factor=1"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("there is no chromium with its chromedriver (Debian: apt-get install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in [*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # The sanitizer is not meant for the browser.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER, env=environment))
    metrics = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    yield driver
    driver.quit()


class Page:
    """A page in the browser, with the actions of tests."""

    def __init__(self, browser, path, text):
        path.write_text(text, encoding="utf-8")
        self.browser = browser
        browser.get(path.as_uri())
        self.wait("return document.documentElement.dataset.ready === 'true'")

    def wait(self, script):
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 60, 0.02).until(lambda browser: browser.execute_script(script))

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def held(self, modifier, key):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).key_down(modifier).send_keys(key).key_up(modifier).perform()

    @property
    def panel(self):
        return self.find("#panel").text

    def rows(self):
        """The texts of all cells of each row of the panel, by the text of its first cell."""
        rows = self.run(
            "return [...document.querySelectorAll('#panel tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
        )
        return {row[0]: row for row in reversed(rows)}

    def ids(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.id)", selector)

    @property
    def focused(self):
        return self.run("return document.activeElement.id")

    @property
    def scale(self):
        return self.run(
            "return Number(/scale\\((.*)\\)/.exec(document.getElementById('view').getAttribute('transform'))[1])"
        )

    def picture(self):
        from PIL import Image

        return Image.open(io.BytesIO(self.browser.get_screenshot_as_png())).convert("RGB")


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; afterwards its console has no errors, and the page made no network request."""
    pages = []

    def open_page(text):
        page = Page(browser, tmp_path / "page.html", text)
        pages.append(page)
        return page

    browser.get_log("browser")
    yield open_page
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []
    for page in pages[-1:]:
        asked = page.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert asked == []


# Texts that overflow their box, or reach into the round ends of a pill.
OUTSIDE = """return [...document.querySelectorAll('.node > text')].filter(text => {
    const body = text.parentNode.querySelector('.body').getBoundingClientRect();
    const words = text.getBoundingClientRect();
    const end = text.parentNode.matches('.input, .output') && text.matches('.name') ? body.height / 5 : 0;
    return words.left < body.left + end || words.right > body.right - end
        || words.top < body.top || words.bottom > body.bottom;
}).map(text => text.textContent)"""


def test_browser_draws_everything(opened):
    page = opened(view.page(block(), REPORT, [violation("MatMul 'last'")], title="my graph"))
    assert set(page.ids(".node")) == {"o0", "o1", "o2", "i0", "c1_0", "c4_2", "x0", "x1"}
    assert page.browser.title == page.find("h1").text == "my graph"
    assert page.find("#summary").text == "3 ops · 2 partitions · 1 fused · 1 on numpy · 1 violation · oneDNN 3.2.0"
    assert page.ids(".node.fused") == ["o0", "o1"]
    assert page.ids(".node.fallback") == ["o2"]
    assert page.find("#o2 .badge text").text == "1"
    assert "fallback: runs on numpy" in page.find("#legend").text
    assert page.run(OUTSIDE) == []


def held_and_laid_out():
    """A strided image and a constant weight, both with long shapes."""
    g = og.Graph()
    x = g.input("x", og.bf16, (128, 16, 1024, 1024, 2), strides=(2**25, 1, 2**15, 32, 16))
    w = g.input("w", og.bf16, (1, 1, 1, 1, 2), constant=True)
    g.output("y", g.multiply(x, w), strides=(2**25, 1, 2**15, 32, 16))
    return g


def test_marks_constant_inputs_and_shows_strides(opened):
    page = opened(view.page(held_and_laid_out()))
    assert [chip.text for chip in page.all(".input text.chip")] == ["constant"]
    assert page.find("#i1").get_attribute("aria-label") == "input w, bf16 1\u00d71\u00d71\u00d71\u00d72, constant"
    assert page.run(OUTSIDE) == []
    strides = "strides [33554432, 1, 32768, 32, 16]"
    assert page.rows()["x"][1] == page.rows()["y"][1] == f"bf16 128\u00d716\u00d71024\u00d71024\u00d72\n{strides}"
    assert page.rows()["w"][1] == "bf16 1\u00d71\u00d71\u00d71\u00d72\nconstant"
    page.find("#i1").click()
    assert page.rows()["graph input"][1] == "w, constant"


def test_op_shows_all_its_partitions(opened):
    parts = [
        {"executor": "oneDNN", "ops": ("Convolution 'conv'", "ReLU 'relu_out'")},
        {"executor": "oneDNN", "ops": ("ReLU 'relu_out'", "MatMul 'last'")},
        *({"executor": "oneDNN", "ops": ("MatMul 'last'",)} for _ in range(3)),
    ]
    page = opened(view.page(block(), {"partitions": parts}))
    assert [page.find(f"#o{number} text.chip").text for number in range(3)] == ["P0", "P0 P1", "P1 +3"]
    page.find("#o1").click()
    assert page.find("#panel .chips").text.split("\n")[0] == "partition 0"
    assert "also partition 1" in page.find("#panel .chips").text
    page.find("#search").send_keys("p3")
    assert page.find("#hits").text == "1 found"


def fan(count, length):
    """A chain that ends in many outputs side by side."""
    g = og.Graph()
    y = g.input("x", og.f32, (4,))
    for _ in range(length):
        y = g.relu(y)
    for number in range(count):
        g.output(f"y{number}", g.tanh(y))
    return g


def one_of_many(count, length):
    """One input at the edge of a wide drawing of chains that start with constants."""
    g = og.Graph()
    ends = [g.relu(g.input("x", og.f32, (4,)))]
    for _ in range(count):
        y = g.constant(np.ones(4, np.float32))
        for _ in range(length):
            y = g.relu(y)
        ends.append(y)
    g.output("y", g.concat(*ends, axis=0))
    return g


def test_toolbar_is_one_line(opened):
    long = "a title that is much longer than the place that a title has, " * 3
    page = opened(view.page(block(), REPORT, [violation("MatMul 'last'")], {0: 1e-5, 1: 1e-6}, title=long))
    assert len(page.all("#filters button")) == len(page.all("#modes button")) == 3
    tops = page.run(
        "return [...document.querySelectorAll('header > *')].map(one => one.getBoundingClientRect()).map("
        "box => (box.top + box.bottom) / 2)"
    )
    assert max(tops) - min(tops) < 6
    assert page.run("const bar = document.querySelector('header'); return bar.scrollWidth <= bar.clientWidth")


@pytest.mark.parametrize("graph", [fan(5, 6), fan(8, 8), fan(30, 10), one_of_many(8, 4), chain(5)])
def test_legend_covers_nothing(opened, graph):
    page = opened(view.page(graph))
    covered = """const legend = document.getElementById('legend').getBoundingClientRect();
        return [...document.querySelectorAll('.node')].filter(node => {
            const box = node.getBoundingClientRect();
            return box.left < legend.right && box.right > legend.left
                && box.top < legend.bottom && box.bottom > legend.top;
        }).length"""
    assert page.run(covered) == 0
    seen = """const canvas = document.getElementById('canvas').getBoundingClientRect();
        return [...document.querySelectorAll('.node.input')].filter(node => {
            const box = node.getBoundingClientRect();
            return box.left > canvas.left && box.right < canvas.right
                && box.top > canvas.top && box.bottom < canvas.bottom;
        }).length"""
    assert page.run(seen) > 0


def test_a_training_step_is_seen_from_its_data_on(opened):
    g = og.Graph()
    hidden, labels = g.input("images", og.f32, (4, 8)), g.input("labels", og.s32, (4,))
    for number in range(3):
        hidden = g.relu(g.matmul(hidden, g.variable(f"w{number}", np.ones((8, 8), np.float32))))
    og.training.AdamW(1e-3).minimize(g, g.output("loss", og.training.cross_entropy(g, hidden, labels)))
    middle = """const canvas = document.getElementById('canvas').getBoundingClientRect();
        const node = [...document.querySelectorAll('.node.input')].find(one => one.textContent.includes('images'));
        const box = node.getBoundingClientRect();
        return Math.abs((box.left + box.right - canvas.left - canvas.right) / 2) / canvas.width"""
    assert opened(view.page(g)).run(middle) < 0.1


def test_click_opens_the_op_panel(opened):
    page = opened(view.page(block(), REPORT, [violation("Convolution 'conv'")]))
    assert "Partitions" in page.find("#panel").get_attribute("textContent")
    page.find("#o0").click()
    assert page.ids(".node.chosen") == ["o0"]
    rows = page.rows()
    assert rows["strides"][:3] == ["strides", "[1, 1]", "given"]
    assert rows["auto_pad"] == ["auto_pad", "none", "default", "none, same_upper, same_lower, valid"]
    assert rows["weights"][1:] == ["f32 [3, 3, 3, 4]", "w"]
    assert rows["dst"][1:] == ["f32 [1, 8, 8, 4]", "conv.dst\nReLU relu_out"]
    assert rows["channels_match"][1].startswith(
        "The channels of source, result, weights"
    )  # a rule of the specification
    assert "T = bf16" in rows["types"][1]
    assert "positive; pass 1" in page.find("#panel .violation").text
    assert "wrong" in page.run("return [...document.querySelectorAll('#panel tr.wrong')].map(r => r.className)")[0]
    page.find("#panel .chips .link").click()  # the link opens the partition
    assert page.panel.startswith("✕\nPartition 0")
    assert page.ids(".node.chosen") == ["o0", "o1"]
    assert page.rows()["threads"] == ["threads", "all"]
    page.find("#c1_0").click()
    assert page.rows()["shape"] == ["shape", "[3, 3, 3, 4]"]
    assert page.rows()["constant"][1].startswith("1.0, 1.0")
    page.find("#panel .close").click()
    assert page.ids(".node.chosen") == []


def test_click_on_a_line_shows_its_tensor(opened):
    page = opened(view.page(block()))
    page.find(".type").click()
    assert page.find("#panel h2").text == "conv.dst"
    assert page.rows()["size"] == ["size", "1,024 bytes"]
    near = page.run("return [...document.querySelectorAll('.edge.near')].map(e => e.dataset.from + e.dataset.to)")
    assert near == ["o0o1"]


def test_search(opened):
    from selenium.webdriver.common.keys import Keys

    g = chain(40)
    tensors = [[op.name, *(tensor.name for tensor in (*op.inputs, *op.outputs))] for op in g.ops]
    found = sum(any("relu_3" in name for name in names) for names in tensors)  # names of ops and of tensors match
    page = opened(view.page(g))
    page.keys("/")
    assert page.focused == "search"
    page.keys("relu_3")
    assert page.find("#hits").text == f"{found} found"
    assert "o3" in page.ids(".node.hit")
    page.keys(Keys.ENTER)
    assert page.find("#panel h2").text == "ReLU"
    assert page.ids(".node.chosen") == ["o3"]
    page.keys(Keys.ENTER)
    assert page.find("#hits").text == f"2 of {found}"
    page.held(Keys.SHIFT, Keys.ENTER)
    assert page.find("#hits").text == f"1 of {found}"
    page.held(Keys.CONTROL, "a")
    page.keys("no such op")
    assert page.find("#hits").text == "0 found"
    page.keys(Keys.ESCAPE)
    assert page.ids(".node.hit") == []
    assert page.focused == "canvas"


def test_keys(opened):
    from selenium.webdriver.common.keys import Keys

    page = opened(view.page(block(), REPORT))
    page.keys(Keys.ARROW_DOWN)
    assert page.focused == "i0"
    page.keys(Keys.ARROW_DOWN)
    assert page.focused == "o0"
    page.keys(Keys.ARROW_RIGHT)
    assert page.focused == "c1_0"
    page.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert page.focused == "o2"
    page.keys(Keys.ARROW_UP)
    assert page.focused == "o1"
    outline = page.run("return getComputedStyle(document.querySelector('#o1 .body')).strokeWidth")
    assert outline == "3px"  # the focus is visible
    page.keys(Keys.ENTER)
    assert page.panel.startswith("✕\nReLU\nrelu_out")
    page.keys(Keys.ESCAPE)
    assert page.ids(".node.chosen") == []
    page.keys(Keys.TAB)
    assert page.focused in page.ids(".node")
    before = page.scale
    page.keys("+")
    assert page.scale == pytest.approx(before * 1.3)
    page.keys("-", "-")
    assert page.scale == pytest.approx(before / 1.3)
    page.keys("0")
    assert page.scale == pytest.approx(before)
    page.keys("f")
    assert page.ids(".dim .node.kept") == ["o0", "o1"]
    page.keys("n")
    assert page.ids(".dim .node.kept") == ["o2"]
    page.keys("n")
    assert page.ids(".dim .node") == []
    page.keys("?")
    assert page.run("return document.getElementById('helping').open")
    page.keys(Keys.ESCAPE)
    assert not page.run("return document.getElementById('helping').open")


def test_partitions_collapse_and_expand(opened):
    from selenium.webdriver.common.action_chains import ActionChains

    page = opened(view.page(block(), REPORT))
    page.keys("c")
    assert "o0" not in page.ids(".node")
    assert page.find("#p0 .title").text == "Convolution + ReLU"
    page.find("#p0").click()
    assert page.rows()["Convolution conv"][1] == "f32 1\u00d78\u00d78\u00d74"
    ActionChains(page.browser).double_click(page.find("#p0")).perform()
    assert {"o0", "o1"} <= set(page.ids(".node"))


def test_heat_of_a_profile(opened):
    page = opened(view.page(block(), REPORT, times=[2e-6, 5e-4]))
    fills = page.run("return ['o0', 'o2'].map(id => getComputedStyle(document.querySelector(`#${id} .body`)).fill)")
    assert fills == ["rgb(255, 248, 230)", "rgb(198, 47, 49)"]
    assert [one.text for one in page.all(".node .time")] == ["2 µs", "500 µs"]
    assert page.find("#legend .ends").text.split() == ["0", "500", "µs"]
    heading = "getComputedStyle(document.querySelector('#panel th:last-child'))"
    assert page.run(f"return {heading}.textAlign") == "right"  # above the numbers of the partition
    page.keys("m")
    assert page.find("#modes [aria-pressed=true]").text == "Kinds"
    assert "matmul" in page.find("#legend").text


def test_partitions_are_sorted_by_time(opened):
    parts = [
        {"index": 0, "executor": "oneDNN", "names": ["conv"]},
        {"index": 1, "executor": "view", "names": ["relu_out"]},
        {"index": 2, "executor": "reference", "names": ["last"]},
    ]
    page = opened(view.page(block(), {"partitions": parts}, times={0: 1e-6, 2: 5e-6}))
    order = "return [...document.querySelectorAll('#panel tbody tr .link')].map(link => link.textContent)"
    assert page.run(order)[:3] == ["P2", "P0", "P1"]
    assert [row.text.split("\n")[0] for row in page.all("#panel tr.slow")] == ["P2 MatMul"]
    assert page.run("return getComputedStyle(document.querySelector('#o2 .body')).stroke") == "rgb(209, 36, 47)"
    assert page.run("return getComputedStyle(document.querySelector('#o0 .body')).stroke") != "rgb(209, 36, 47)"
    page = opened(view.page(block(), {"partitions": parts}))
    assert page.run(order)[:3] == ["P0", "P1", "P2"]


def test_panel_counts_the_ops_of_long_partitions(opened):
    g = chain(8)
    parts = [{"index": 0, "executor": "oneDNN", "names": [op.name for op in g.ops]}]
    page = opened(view.page(g, {"partitions": parts}))
    assert page.rows()["P0"][1] == "9 ops: 8 ReLU, Add"
    assert len(g.ops) == 9


def test_limits_of_the_library_are_quiet(opened):
    limits = [violation("MatMul 'last'", severity=severity) for severity in ("library", "unsafe")]
    page = opened(view.page(block(), REPORT, limits))
    summary = page.find("#summary").text
    assert "violation" not in summary
    assert summary.endswith("oneDNN 3.2.0 · 2 library limits")
    assert "The graph runs around 2 limits of the library" in page.panel
    assert page.all(".badge, #panel .violation") == []
    assert "Violations" not in page.find("#filters").text
    page.find("#o2").click()
    assert [card.get_attribute("class") for card in page.all("#panel .violation")] == ["violation limit"] * 2
    assert page.find("#panel .violation b").text == "limit of the library: strides"


def test_folded_constants_open_their_op(opened):
    page = opened(view.page(normed()))
    page.find("#n0").click()
    assert page.find("#panel h2").text == "BatchNormInference"
    page.run("arguments[0].click()", next(link for link in page.all("#panel .link") if link.text == "variance"))
    assert page.find("#panel h2").text == "variance"
    assert page.ids(".node.chosen") == ["n0"]
    assert page.run(OUTSIDE) == []


def test_zoom_and_drag(opened):
    from selenium.webdriver.common.action_chains import ActionChains

    page = opened(view.page(block()))
    before = page.find("#o0").rect
    ActionChains(page.browser).drag_and_drop_by_offset(page.find("#o0"), 60, 40).perform()
    after = page.find("#o0").rect
    assert (after["x"] - before["x"], after["y"] - before["y"]) == pytest.approx((60, 40), abs=1)
    assert page.ids(".node.chosen") == []  # a drag is not a click
    scale = page.scale
    page.find("[data-zoom=in]").click()
    assert page.scale > scale
    page.find("[data-zoom=fit]").click()
    assert page.find("#o0").rect == pytest.approx(before, abs=1)


def test_user_text_is_never_executed(opened):
    page = opened(view.page(*hostile(), title=HOSTILE))
    for target in ("#o0", "#o1", "#i0", "#x0", ".edge"):
        page.run("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", page.find(target))
        # the driver cannot hand out half a surrogate pair
        assert page.run("return document.getElementById('panel').textContent.includes('onerror')")
    page.keys("/", "onerror")
    assert page.find("#hits").text == "2 found"
    assert page.run("return window.pwned") is None
    assert page.all("img") == []
    assert page.find("h1").text.startswith("</script ><!--<script><img src=x onerror=")


def test_content_policy_stops_injected_scripts(opened):
    page = opened(view.page(block()))
    page.run(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<b onclick=\"window.pwned=1\" id=b>b</b>')"
    )
    page.run("document.getElementById('b').click()")
    assert page.run("return window.pwned") is None
    blocked = [entry["message"] for entry in page.browser.get_log("browser")]
    assert len(blocked) == 1
    assert "Content Security Policy" in blocked[0]


def test_screenshot_shows_the_graph(opened):
    page = opened(view.page(block(), REPORT))
    picture = page.picture()
    assert picture.size == SIZE

    def colours(picture, selector):
        edges = "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
        box = page.run(f"{edges} return [b.x, b.y, b.right, b.bottom].map(Math.round)", selector)
        return {colour for _, colour in picture.crop(tuple(box)).getcolors(1 << 20)}

    fill = page.run("return getComputedStyle(document.querySelector('#o0 .body')).fill")
    fill = tuple(map(int, re.findall(r"\d+", fill)))
    assert fill in colours(picture, "#o0 .body")
    assert fill not in colours(picture, "#o2 .body")
    assert len(colours(picture, "#panel")) > 20
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    night = page.picture()
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert sum(picture.getpixel((20, 400))) > 700
    assert sum(night.getpixel((20, 400))) < 120


def test_notebook_frame(opened):
    from selenium.webdriver.common.keys import Keys

    page = opened(f"<html data-ready='true'><body>{block()._repr_html_()}</body></html>")
    page.browser.switch_to.frame(0)
    page.wait("return document.documentElement.dataset.ready === 'true'")
    assert len(page.all(".node")) == 8
    assert not page.find("#panel").is_displayed()
    page.find("#o0").click()
    assert page.find("#panel h2").text == "Convolution"
    page.keys("/", "last", Keys.ENTER)
    assert page.find("#panel h2").text == "MatMul"
    page.keys(Keys.ESCAPE, "?")
    page.find("#helping button").click()
    page.keys(Keys.ESCAPE)
    assert not page.find("#panel").is_displayed()
    page.browser.switch_to.default_content()


def test_thousands_of_ops(opened):
    g = chain(draws(800, 2700), constants=True)
    partitions = [
        {"index": at, "executor": "oneDNN", "names": [op.name for op in g.ops[3 * at : 3 * at + 3]]}
        for at in range(-(-len(g.ops) // 3))
    ]
    page = opened(view.page(g, {"partitions": partitions}))
    assert len(page.ids(".node.partition")) == len(partitions) > 300  # initially one box for each partition
    number = next(number for number, op in enumerate(g.ops) if op.kind == "ReLU" and 3 * number > 2 * len(g.ops))
    page.keys("/", g.ops[number].name)
    from selenium.webdriver.common.keys import Keys

    page.keys(Keys.ENTER)
    assert page.ids(".node.chosen") == [f"o{number}"]  # the partition opened, and the op is visible
    rect = page.find(f"#o{number}").rect
    assert 0 < rect["x"] < 900
    assert 46 < rect["y"] < 900
    page.find("#collapse").click()
    page.find("#collapse").click()
    assert len(page.ids(".node.op")) == len(g.ops)
