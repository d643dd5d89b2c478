"""Bounds of what is drawn for notebooks, and of the reports that drawings take."""

import json
import re
from html import unescape

import numpy as np
import pytest

import onegraph as og
from onegraph.view import document, given, notebook


def graph_of(count):
    graph = og.Graph()
    end = graph.input("x", "f32", (2,))
    for _ in range(count):
        end = graph.relu(end)
    graph.output("y", end)
    return graph


@pytest.mark.parametrize(("count", "frame", "picture"), [(2, True, True), (3, True, False), (4, False, False)])
def test_notebooks_draw_graphs_of_few_ops(monkeypatch, count, frame, picture):
    monkeypatch.setattr(notebook, "FRAME", 3)
    monkeypatch.setattr(notebook, "PICTURE", 2)
    monkeypatch.setattr(notebook, "embedded", lambda graph: "a frame")
    monkeypatch.setattr(notebook, "svg", lambda graph: "a picture")
    html = notebook.notebook_html(graph_of(count))
    assert html == "a frame" if frame else html.startswith(f"<pre>Graph of {count} ops, edition ")
    assert notebook.notebook_svg(graph_of(count)) == ("a picture" if picture else None)


def test_notebooks_do_without_the_interpreter(monkeypatch):
    def svg(graph):
        raise og.UnsupportedError("no interpreter")

    monkeypatch.setattr(notebook, "svg", svg)
    assert notebook.notebook_svg(graph_of(1)) is None


@pytest.mark.parametrize("draw", [notebook.notebook_html, notebook.notebook_svg])
def test_notebooks_draw_graphs_alone(draw):
    with pytest.raises(og.ArgumentError, match="graph: 5; expected a"):
        draw(5)


@pytest.mark.parametrize(("draw", "is_embedded"), [(document.page, False), (document.embedded, True)])
def test_pages_have_the_tables_of_the_specification(draw, is_embedded):
    text = re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", unescape(draw(graph_of(2))))[1]
    data = json.loads(text)
    assert data["embedded"] is is_embedded
    assert [one["kind"] for one in data["specs"]] == ["ReLU"]
    assert {"attributes", "inputs", "outputs"} <= data["specs"][0].keys()


@pytest.mark.parametrize("height", [1, 2**15])
def test_frames_have_a_height(height):
    assert f"height:{height}px" in document.embedded(graph_of(1), height=height)


@pytest.mark.parametrize("height", [0, 2**15 + 1])
def test_heights_of_frames_are_bounded(height):
    with pytest.raises(og.ArgumentError, match="height"):
        document.embedded(graph_of(1), height=height)


@pytest.mark.parametrize("entry", [
    {"index": "0"}, {"executor": 1}, {"reason": None}, {"names": "x"}, {"ops": {}}, {"inputs": 3}, {"outputs": "y"},
    {"names": [1]}, {"ops": [None]}, [], "x", 3, None,
])  # fmt: skip
def test_entries_of_partitions_have_types(entry):
    with pytest.raises(og.ArgumentError, match=r"^report: "):
        given.facts_of({"partitions": [{}, entry]})
    assert given.facts_of({"partitions": [{}, {"index": 1, "names": ["x"], "ops": ["y"], "more": 3}]})


@pytest.mark.parametrize(("value", "plain"), [
    (2**64 - 1, 2**64 - 1), (1 - 2**64, 1 - 2**64), (np.int64(3), 3), (1.5, 1.5), (np.float64(2), 2.0), (True, True),
    (None, None), ("x", "x"), ((1, [2]), [1, [2]]), ({"a": {1: (2,)}}, {"a": {1: [2]}}),
])  # fmt: skip
def test_values_of_reports_become_plain(value, plain):
    found = given.facts_of({"partitions": [], "value": value})["value"]
    assert found == plain
    assert type(found) is type(plain)


@pytest.mark.parametrize("value", [2**64, -(2**64), float("inf"), float("nan"), 1j, b"x", object()])
def test_values_that_json_lacks_are_refused(value):
    with pytest.raises(og.ArgumentError, match=r"^report: "):
        given.facts_of({"partitions": [], "value": value})
