"""Profiles, operation counts, and the names of implementations that the library prints."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util.html_table import RED
from onegraph.compiler.arithmetic import flops
from onegraph.compiler.report import PartitionReport, Report, partition_lines
from onegraph.runtime import implementation_names, measuring
from onegraph.runtime.profile import Profile, ProfileRow, Spans, chrome_trace

# The fusions and kernels of the library are compared.
pytestmark = pytest.mark.usefixtures("finite_math")

F32 = np.float32
WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def network(batch=2):
    """A convolution and a ReLU, an op that numpy runs, a matmul."""
    g = og.Graph()
    x = g.input("x", og.f32, (batch, 6, 6, 3))
    h = g.relu(g.convolution(x, g.constant(np.ones((3, 3, 3, 4), F32)), **WINDOW))
    h = g.op("Rsqrt", [h], edition="legacy-1")
    g.output("y", g.matmul(h, g.constant(np.eye(4, dtype=F32)), dtype="f32"))
    return g


def only(graph):
    (op,) = graph.ops
    return flops(op)


# Counts ---------------------------------------------------------------------------------------------------------------


def tap_counts(kind, data_format="NXC", weights_format="XIO"):
    """The number of multiplications of a 1-D convolution with 2 groups, counted in loops."""
    batch, inside, channels, filters, taps, groups = 2, 7, 4, 6, 3, 2
    outside = inside - taps + 1
    # an output reads the taps of its filter in every channel of its group; transposed: outputs and inputs exchanged
    count = sum(1 for _ in product(*map(range, (batch, outside, filters, channels // groups, taps))))
    x, w, y = (batch, inside, channels), (taps, channels // groups, filters), (batch, outside, filters)
    if kind.startswith("ConvTranspose"):
        w = (taps, filters // groups, channels)
        x, y = (batch, outside, channels), (batch, inside, filters)
        w_formats = {"IOX": (2, 1, 0), "XOI": (0, 1, 2)}
    else:
        w_formats = {"OIX": (2, 1, 0), "XIO": (0, 1, 2)}
    if data_format == "NCX":
        x, y = ((shape[0], shape[2], shape[1]) for shape in (x, y))
    w = tuple(w[axis] for axis in w_formats[weights_format])
    attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "groups": groups}
    attrs |= {"data_format": data_format, "weights_format": weights_format}
    g = og.Graph()
    shapes = {"x": x, "w": w, "y": y}
    parts = "xy" if kind.endswith("Weights") else "yw" if kind.endswith("Data") else "xw"
    if kind.endswith("Weights"):
        attrs["weights_shape"] = list(w)
    if kind == "ConvolutionBackwardData":
        attrs["dst_shape"] = list(x)
    g.op(kind, [g.input(name, og.f32, shapes[name]) for name in parts], attrs)
    return count, g


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("kind", ["Convolution", "ConvTranspose"])
@pytest.mark.parametrize("suffix", ["", "BackwardData", "BackwardWeights"])
def test_counts_operations_of_convolutions(kind, suffix, data_format):
    for weights_format in ("XIO", "OIX") if kind == "Convolution" else ("XOI", "IOX"):
        count, graph = tap_counts(kind + suffix, data_format, weights_format)
        assert only(graph) == 2 * count


def test_counts_operations_with_legacy_weights():
    g = og.Graph()
    x, w = g.input("x", og.f32, (1, 5, 5, 3)), g.input("w", og.f32, (3, 3, 3, 8))
    g.op("ConvTranspose", [x, w], WINDOW, edition="legacy-1")
    assert only(g) == 2 * (5 * 5 * 3) * (3 * 3 * 8)


@pytest.mark.parametrize(
    ("a", "b", "attrs", "expected"),
    [
        ((3, 4), (4, 5), {}, 2 * 3 * 4 * 5),
        ((4, 3), (4, 5), {"transpose_a": True}, 2 * 3 * 4 * 5),
        ((3, 4), (5, 4), {"transpose_b": True}, 2 * 3 * 4 * 5),
        ((7, 1, 3, 4), (2, 4, 5), {}, 2 * 7 * 2 * 3 * 4 * 5),
        ((4,), (4, 5), {}, 2 * 4 * 5),
        ((4,), (4,), {}, 2 * 4),
    ],
)
def test_counts_operations_of_matmul(a, b, attrs, expected):
    g = og.Graph()
    g.matmul(g.input("a", og.f32, a), g.input("b", og.f32, b), dtype="f32", **attrs)
    assert only(g) == expected


def test_ops_without_a_count():
    g = og.Graph()
    g.relu(g.input("x", og.f32, (4,)))
    assert only(g) is None
    g = og.Graph()
    g.matmul(g.input("a", og.f32, (None, 4)), g.input("b", og.f32, (4, 5)), dtype="f32")
    assert only(g) is None
    g = og.Graph()
    g.concat(g.input("a", og.f32, (1, 4)), g.input("b", og.f32, (2, 4)), axis=0)
    assert only(g) is None


# Profiles -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return network().compile(threads=1)


@pytest.fixture(scope="module")
def profile(model):
    return model.profile(np.ones((2, 6, 6, 3), F32), runs=3)


def test_one_row_for_each_partition(model, profile):
    reports = [partition for partition in model.report().partitions if partition.executor != "view"]
    assert [row.index for row in profile.rows] == [partition.index for partition in reports]
    for row, partition in zip(profile.rows, reports, strict=True):
        assert (row.ops, row.executor, row.threads) == (partition.ops, partition.executor, partition.threads)
        assert 0 < row.shortest <= row.seconds
        assert row.bandwidth == pytest.approx(partition.bytes / row.seconds)
        assert row.implementation == ""
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert profile.seconds == pytest.approx(sum(row.seconds for row in profile.rows))
    counts = {"Convolution 'convolution_0'": 2 * (2 * 36 * 4) * 27, "MatMul 'matmul_3'": 2 * (2 * 36 * 4) * 4}
    for row in profile.rows:
        expected = sum(counts.get(name, 0) for name in row.ops)
        assert row.gflops == (pytest.approx(expected / row.seconds * 1e-9) if expected else None)
    assert {row.gflops is None for row in profile.rows} == {True, False}


def test_large_concat_has_one_row():
    g = og.Graph()
    parts = [g.relu(g.input(name, "f32", (16, 400, 8))) for name in "ab"]
    g.output("y", g.relu(g.concat(*parts, axis=2)))
    model = g.compile()
    profile = model.profile(*[np.ones((16, 400, 8), np.float32)] * 2, runs=2)
    assert [row.index for row in profile.rows] == [part.index for part in model.report().partitions]


def test_mapping_table_and_plain_data(profile):
    assert dict(profile) == {row.index: row.seconds for row in profile.rows}
    facts = profile.to_dict()
    assert facts["runs"] == 3
    assert facts["rows"][0]["ops"] == profile.rows[0].ops
    heading, columns, *lines = str(profile).splitlines()
    assert "medians of 3 runs" in heading
    assert columns.split() == ["us", "least", "share", "GFLOP/s", "GB/s", "by,", "threads", "ops"]
    assert len(lines) == len(profile)
    assert any("█" * 24 in line for line in lines)
    places = {line.index(" + ".join(row.ops)) for line, row in zip(lines, profile.rows, strict=True)}
    assert places == {columns.index("ops")}
    html = profile._repr_html_()
    assert html.count("<tr>") == len(profile) + 1
    assert "&#x27;convolution_0&#x27;" in html


def test_table_of_given_times():
    rows = [
        ProfileRow(0, ("A 'a'",), "oneDNN", 0, 3e-3, 2e-3, 0.69, 12.5, 2e9, "matmul x"),
        ProfileRow(2, ("B '<b>'",), "reference", None, 1e-3, 1e-3, 0.31, None, 1e9),
    ]
    table = str(Profile(rows, 5)).splitlines()
    assert table[0] == "2 partitions, 4,000.0 us (medians of 5 runs)"
    assert table[2].split() == [
        *("0", "3,000.0", "2,000.0", "69.0%", "█" * 24, "12.5", "2.00", "oneDNN,", "all", "A", "'a'", "matmul", "x"),
    ]
    assert table[3].split() == ["2", "1,000.0", "1,000.0", "31.0%", "█" * 10 + "▊", "1.00", "reference", "B", "'<b>'"]
    assert "<b>" not in Profile(rows, 5)._repr_html_()
    assert str(Profile([], 1)).startswith("0 partitions, 0.0 us")


def test_equal_parts_of_an_op_are_one_row():
    parts = [
        ProfileRow(number, ("A: Part 'a'",), "oneDNN", 0, seconds, seconds / 2, 0.2, gflops, 4e9, bytes=8)
        for number, seconds, gflops in [(0, 1e-3, 1.0), (2, 3e-3, 5.0), (4, 2e-3, None)]
    ]
    profile = Profile([*parts[:2], ProfileRow(1, ("B 'b'",), "oneDNN", 0, 2e-3, 2e-3, 0.4, None, 1e9)], 5)
    lines = str(profile).splitlines()[2:]
    assert lines[0].split()[:4] == ["0", "and", "1", "other"]
    assert lines[0].split()[4:] == ["4,000.0", "2,000.0", "40.0%", "█" * 24, "4.0", "4.00", "oneDNN,", "all", *PART]
    assert lines[1].split()[:2] == ["1", "2,000.0"]
    assert len(profile) == 3
    assert profile._repr_html_().count("<tr>") == 3
    assert str(Profile(parts, 5)).splitlines()[2].split()[4:] == [
        *("6,000.0", "3,000.0", "60.0%", "█" * 24, "4.00", "oneDNN,", "all", *PART)
    ]


PART = "A:", "Part", "'a'"


def test_a_report_tells_equal_partitions_once():
    kinds, names = ("A: Part",), ("a",)
    reports = [PartitionReport(number, "kernel", kinds, names, ("why",)) for number in range(4)]
    reports[2].reasons = ("another",)
    lines = [line for line in partition_lines(reports) if line[:3].strip()]
    assert [line.split()[0] for line in lines] == ["0", "2"]
    assert lines[0].endswith("; likewise 1 and 1 other")
    assert "likewise" not in lines[1]


def test_view_accepts_a_profile(model, profile):
    page = og.view.page(network(), model.report(), times=profile)
    assert f'"seconds":{profile.rows[0].seconds!r}' in page


def test_profiling_changes_nothing(model):
    x = np.ones((2, 6, 6, 3), F32)
    expected, before = model(x), model.report().to_dict()
    model.profile(x=x, runs=1)
    assert np.array_equal(model(x), expected)
    assert model.report().to_dict() == before
    for wrong in (0, -1, 1.5, True, None, 10**9):
        with pytest.raises(og.ArgumentError, match="runs"):
            model.profile(x, runs=wrong)
    for wrong in (1, None, "yes"):
        with pytest.raises(og.ArgumentError, match=r"implementations: .*; expected True or False"):
            model.profile(x, implementations=wrong)
        with pytest.raises(og.ArgumentError, match=r"implementations: .*; expected True or False"):
            model.report(implementations=wrong)


def test_a_profile_gives_its_memory_back():
    model = network().compile()
    x = np.ones((2, 6, 6, 3), F32)
    for _ in range(3):
        model.profile(x, runs=1)
    assert len(model._programs.only_program().free_frames) == 1


def test_profiles_the_program_for_its_shapes():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None,))))
    model = g.compile(threads=1)
    for size in (8, 16):
        (row,) = model.profile(np.zeros(size, F32), runs=2).rows
        assert row.bandwidth * row.seconds == pytest.approx(2 * 4 * size)


def test_graph_in_stages():
    g = og.Graph()
    shape = g.add(g.input("counts", og.s32, (3,)), g.constant(np.array([0, 1, 0], np.int32)))
    dy, w = g.input("dy", og.f32, (1, 3, 1)), g.constant(np.ones((3, 1, 1), F32))
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.output("dx", g.convolution_backward_data(dy, w, shape, **window))
    found = g.compile().profile(np.array([1, 7, 1], np.int32), np.ones((1, 3, 1), F32), runs=2, implementations=True)
    assert [row.index for row in found.rows] == [0, 1]
    assert [row.ops[0].split()[0] for row in found.rows] == ["Add", "ConvolutionBackwardData"]


# Notebooks and texts --------------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The texts of the cells of an HTML table by row, the tags, and the style of each cell that has a mark."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tags, self.marked = [], set(), []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        self.is_marked = RED in str(attrs)

    def handle_data(self, data):
        if self.rows:
            self.rows[-1][-1] += data
        if self.is_marked:
            self.marked.append(data)


def test_report_is_a_table_in_notebooks():
    model = network().compile(threads=1)
    table = Cells(model.report()._repr_html_())
    assert table.tags <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    heads, *rows = table.rows
    assert heads == ["", "executor", "ops", "inputs", "outputs", "type", "bytes", "threads", "reason"]
    first, second, third = (dict(zip(heads, row, strict=True)) for row in rows)
    assert first["ops"] == "Convolution 'convolution_0'\nReLU 'relu_1'"
    assert first["inputs"] == "x: f32 [2, 6, 6, 3]\nconstant_1: f32 [3, 3, 3, 4]"
    assert (first["executor"], first["threads"], first["bytes"]) == ("oneDNN, fused", "1", "2,448")
    assert (second["executor"], second["reason"]) == ("reference", "Rsqrt is not an op of the library")
    assert third["executor"] == "oneDNN"
    assert table.marked == ["reference"]
    profile = model.profile(np.ones((2, 6, 6, 3), F32), runs=1)
    heads, *rows = Cells(model.report()._repr_html_()).rows
    assert [row[heads.index("us")] for row in rows] == [f"{seconds * 1e6:,.1f}" for seconds in profile.values()]


def test_profile_marks_numpy_and_reference_kernels():
    rows = [
        ProfileRow(0, ("A 'a'",), "oneDNN", 0, 3e-3, 2e-3, 0.5, 12.5, 2e9, "matmul brg:avx512_core"),
        ProfileRow(1, ("B '<b>'",), "reference", None, 1e-3, 1e-3, 0.25, None, 1e9),
        ProfileRow(2, ("C 'c'",), "oneDNN", 1, 1e-3, 1e-3, 0.25, None, 1e9, "reorder jit:uni, binary ref:any"),
    ]
    html = Profile(rows, 5)._repr_html_()
    assert Cells(html).marked == ["reference", "reorder jit:uni, binary ref:any"]
    assert {*re.findall(r"text-align:\w+", html)} == {"text-align:left", "text-align:right"}
    bars = re.findall(r"transparent ([\d.]+%)\)[^>]*>([\d.]+%)<", html)
    assert bars == [("50.00%", "50.0%"), ("25.00%", "25.0%"), ("25.00%", "25.0%")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("matmul ref:any", True), ("x jit:uni, pooling ref_int8:any", True), ("reorder jit:uni", False), ("", False)],
)
def test_reference_kernels_by_name(name, expected):
    assert PartitionReport(0, "oneDNN", (), (), implementation=name).reference_kernel is expected


def test_executable_and_bound_run_describe_themselves():
    model = network().compile(threads=1)
    bound = model.bind(np.ones((2, 6, 6, 3), F32))
    ports = "(x: f32 [2, 6, 6, 3] -> y: f32 [2, 6, 6, 4])"
    assert repr(model) == f"Executable{ports}\n{model.report()}"
    assert repr(model.report()) == str(model.report())
    parts = [line for line in str(model.report()).splitlines() if line.startswith(" ")]  # no options, and no limits
    assert repr(bound).splitlines() == [f"BoundRun{ports}", *parts]
    for shown, name in ((model, "Executable"), (bound, "BoundRun")):
        html = shown._repr_html_()
        assert f"{name}(x: f32 [2, 6, 6, 3] -&gt; y: f32 [2, 6, 6, 4])" in html
        assert [row[1] for row in Cells(html).rows[1:]] == ["oneDNN, fused", "reference", "oneDNN"]


def test_notebook_text_is_escaped():
    g = og.Graph()
    g.output("y", g.relu(g.input("<script>", og.f32, (4,)), name="<img src=x>"))
    model = g.compile()
    for shown in (model, model.report(), model.bind(np.ones(4, F32)), model.profile(np.ones(4, F32), runs=1)):
        assert Cells(shown._repr_html_()).tags.isdisjoint({"script", "img"})


def test_long_cells_open_on_click():
    for count, tags in ((6, set()), (7, {"details", "summary"})):
        names = tuple(f"op{number}" for number in range(count))
        one = PartitionReport(0, "oneDNN", ("<b>",) * count, names, reasons=("why", "", "why", "how"))
        table = Cells(Report("oneDNN", "fusion", "strict", (one,))._repr_html_())
        assert table.tags & {"details", "summary", "b"} == tags
        ops, *_, reason = table.rows[1][2:]
        assert ops.startswith("<b> 'op0', and 6 more<b> 'op1'\n" if tags else "<b> 'op0'\n<b> 'op1'\n")
        assert ops.endswith(f"<b> 'op{count - 1}'")
        assert reason == "why\nhow"


# Measuring ------------------------------------------------------------------------------------------------------------


def product_and_more():
    g = og.Graph()
    y = g.matmul(g.input("x", og.f32, (2, 3)), g.input("w", og.f32, (3, 4)), name="m")
    g.output("y", g.abs(y, name="a"))
    return g


class Clock:
    """A clock that moves when something runs, and the frame of a program whose steps run."""

    def __init__(self, patch):
        self.now, self.released, self.ran = 100.0, [], []
        patch.setattr(measuring, "perf_counter", lambda: self.now)
        self.frame = SimpleNamespace(
            plan=SimpleNamespace(n_steps=4, time=self.time),
            ending=SimpleNamespace(n_steps=1),
            parts=(range(2), "numpy", range(2, 3)),
            run_numpy=lambda part: self.run(part, 8),
            bind=lambda arrays: self.run(arrays, 0),
            run=lambda results: self.run(results, 1000),
        )

    def run(self, what, seconds):
        self.ran.append(what)
        self.now += seconds

    def time(self, first, last):
        taken = [2.0 ** (number - 1) * (2 if len(self.ran) > 3 else 1) for number in range(first, last)]
        self.now += sum(taken) + 5  # what the call takes besides the steps
        return taken


def test_times_of_steps_are_those_of_their_partitions(monkeypatch):
    clock, graph = Clock(monkeypatch), product_and_more()
    notes = [1, 0, 2, 1, 0]
    program = SimpleNamespace(
        check_out=lambda: clock.frame,
        give_back=clock.released.append,
        step_notes=notes,
        whole_graph=lambda: graph,
    )
    reports = [
        PartitionReport(0, "kernel", ("Abs",), ("a",), threads=2),
        PartitionReport(1, "oneDNN", ("MatMul", "Abs"), ("m", "a"), threads=0, implementation="i"),
        PartitionReport(2, "host", ("Other",), ("o",)),
    ]
    found = measuring.measure(program, reports, "arrays", "results", 2)
    assert clock.ran == ["arrays", "results", "numpy", "numpy"]
    assert clock.released == [clock.frame]
    # Steps take 0.5, 1, (numpy) 8, 2 and 4 seconds in the first run, and those of the second part twice that later.
    first, second = found._spans.runs
    assert first == [(1100.0, 2.5), (1100.5, 5.0), (1106.5, 8)]
    assert [seconds for _, seconds in second] == [2.5 + 2, 5.0 + 4, 8]
    rows = {row.index: row for row in found.rows}
    assert [row.index for row in found.rows] == [1, 0, 2]
    assert (rows[1].seconds, rows[1].shortest, rows[0].seconds, rows[0].shortest) == (3.5, 2.5, 7.0, 5.0)
    assert rows[1].share == 3.5 / 18.5
    assert rows[1].gflops == 2 * 24 / 3.5 * 1e-9
    assert (rows[0].gflops, rows[2].gflops) == (None, None)
    assert (rows[1].threads, rows[0].threads, rows[2].threads) == (0, 2, None)
    assert (rows[1].implementation, rows[1].executor, found.runs) == ("i", "oneDNN", 2)
    assert found._spans.limit >= 1


def test_profiles_of_stages_are_joined():
    def profile(index, seconds, limit):
        row = ProfileRow(index, ("A 'a'",), "oneDNN", 0, seconds, seconds, 1.0, None, 1e9)
        return Profile([row], 2, Spans([[(seconds, seconds)], [(9, seconds)]], limit))

    found = measuring.joined(profile(0, 1.0, 2), profile(1, 3.0, 4), 5)
    assert [(row.index, row.seconds, row.share) for row in found.rows] == [(0, 1.0, 0.25), (6, 3.0, 0.75)]
    assert found._spans == Spans([[(1.0, 1.0), (3.0, 3.0)], [(9, 1.0), (9, 3.0)]], 4)
    assert found.runs == 2
    nothing = measuring.joined(profile(0, 0.0, 1), profile(0, 0.0, 1), 1)
    assert [row.share for row in nothing.rows] == [0, 0]


def test_what_numpy_runs_as_a_whole_is_measured(monkeypatch):
    clock, report = Clock(monkeypatch), PartitionReport(0, "host", ("MatMul", "Other"), ("m", "o"))
    times = iter([2, 4, 3])
    found = measuring.measure_heads(product_and_more(), report, lambda: clock.run("numpy", next(times)), 3)
    (row,) = found.rows
    assert (row.seconds, row.shortest, row.share, row.gflops) == (3, 2, 1, 48 / 3 * 1e-9)
    assert found._spans.runs == [[(100, 2)], [(102, 4)], [(106, 3)]]


# Traces ---------------------------------------------------------------------------------------------------------------


def drawn(trace):
    """The spans of a trace, each with its end; on one thread, a span ends before the next one begins."""
    spans, open_by_thread = [], {}
    for event in trace["traceEvents"]:
        thread = event["pid"], event.get("tid")
        if event["ph"] == "B":
            assert thread not in open_by_thread
            open_by_thread[thread] = event
        elif event["ph"] == "E":
            begun = open_by_thread.pop(thread)
            assert begun["name"] == event["name"]
            spans.append({**begun, "end": event["ts"]})
    assert open_by_thread == {}
    return spans


def test_trace_of_given_times():
    rows = [
        ProfileRow(0, ("A 'a'", "B 'b'"), "oneDNN", 0, 2e-6, 2e-6, 0.5, 12.5, 2e9, "matmul x", 64),
        ProfileRow(3, ("C 'c'",), "reference", None, 4e-6, 4e-6, 0.5, None, 1e9, "", 32),
    ]
    spans = Spans([[(7.0, 2e-6), (7.0 + 2e-6, 4e-6)], [(7.0 + 9e-6, 2e-6), (7.0 + 11e-6, 4e-6)]], limit=2)
    trace = json.loads(chrome_trace({"one": Profile(rows, 2, spans), "other": Profile(rows[1:], 0)}))
    assert trace["displayTimeUnit"] == "ns"
    names = [(e["pid"], e.get("tid"), e["args"]["name"]) for e in trace["traceEvents"] if e["name"].endswith("_name")]
    assert names == [
        (0, None, "one"), (0, 0, "calling thread"), (0, 1, "OpenMP thread 1"),
        (1, None, "other"), (1, 0, "calling thread"),
    ]  # fmt: skip
    spans = drawn(trace)
    assert [(event["tid"], event["ts"], event["end"], event["cat"]) for event in spans] == [
        *[(0, 0.0, 2.0, "oneDNN"), (1, 0.0, 2.0, "oneDNN"), (0, 2.0, 6.0, "reference")],
        *[(0, 9.0, 11.0, "oneDNN"), (1, 9.0, 11.0, "oneDNN"), (0, 11.0, 15.0, "reference")],
    ]
    assert spans[0]["name"] == "A 'a' + B 'b'"
    facts = {"partition": 0, "run": 0, "ops": ["A 'a'", "B 'b'"], "bytes": 64, "threads": 2}
    assert spans[0]["args"] == facts | {"implementation": "matmul x", "GFLOP/s": 12.5}
    assert spans[5]["args"] == {"partition": 3, "run": 1, "ops": ["C 'c'"], "bytes": 32, "threads": 1}


def test_trace_has_each_partition_of_each_run(model, profile):
    events = drawn(json.loads(profile.to_chrome_trace()))
    assert [(event["args"]["run"], event["args"]["partition"]) for event in events] == [
        (run, row.index) for run in range(3) for row in profile.rows
    ]
    for before, after in pairwise(events):
        assert before["ts"] < before["end"] <= after["ts"]
    sizes = {partition.index: partition.bytes for partition in model.report().partitions}
    assert all(event["args"]["bytes"] == sizes[event["args"]["partition"]] for event in events)
    for row in profile.rows:
        taken = [event["end"] - event["ts"] for event in events if event["args"]["partition"] == row.index]
        assert sorted(taken)[1] == pytest.approx(row.seconds * 1e6, abs=0.002)


def test_trace_of_a_graph_run_by_numpy():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.output("y", g.reduce_sum(x, g.input("axes", og.s32, (1,))))
    profile = g.compile().profile(np.ones((2, 3), F32), np.array([1], np.int32), runs=2)
    events = drawn(json.loads(profile.to_chrome_trace()))
    assert [(event["tid"], event["cat"]) for event in events] == [(0, profile.rows[0].executor)] * 2


# Implementations ------------------------------------------------------------------------------------------------------


def test_names_of_implementations(model, capfd):
    facts = model.report(implementations=True)
    for partition in facts.partitions:
        expected = {"Convolution": "convolution ", "ReLU": "", "MatMul": "matmul ", "Rsqrt": ""}[partition.kinds[0]]
        assert expected in partition.implementation
        assert bool(expected) == bool(partition.implementation)
        assert partition.implementation in str(facts)
    by_name = {partition.kinds[0]: partition.implementation for partition in facts.partitions}
    assert "matmul" not in by_name["Convolution"]
    assert "convolution" not in by_name["MatMul"]
    rows = model.profile(np.ones((2, 6, 6, 3), F32), runs=1, implementations=True)
    assert [row.implementation for row in rows.rows] == [
        partition.implementation for partition in facts.partitions if partition.executor != "view"
    ]
    assert str(rows).splitlines()[1].endswith("implementation")
    assert not any(partition.implementation for partition in model.report().partitions)
    assert capfd.readouterr().out == ""  # the library prints in another process


def test_names_beside_partitions_of_several_steps():
    """A large Concat has a step for each source."""
    g = og.Graph()
    parts = [g.relu(g.input(name, "f32", (16, 400, 8))) for name in "ab"]
    whole = g.concat(*parts, axis=2)
    g.output("y", g.softmax(g.matmul(whole, g.constant(np.ones((16, 16), F32))), axis=-1))
    facts = g.compile().report(implementations=True)
    found = {part.kinds[-1]: part.implementation.split()[0] for part in facts.partitions if part.implementation}
    assert found == {"ReLU": "eltwise", "MatMul": "matmul", "SoftMax": "softmax"}


def test_starts_the_worker_once(model, monkeypatch):
    model.report(implementations=True)
    monkeypatch.setattr(subprocess, "run", None)
    assert any(partition.implementation for partition in model.report(implementations=True).partitions)


@pytest.mark.parametrize(
    ("executable", "text"),
    [("/nowhere/python", "No such file"), ("/bin/false", "exit status 1"), ("/bin/true", "exit status 0")],
)
def test_worker_that_fails(executable, text, monkeypatch):
    if not os.path.exists(executable) and text != "No such file":
        pytest.skip(f"there is no {executable}")
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4,))))
    model = g.compile()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", executable)
        with pytest.raises(og.UnsupportedError, match=f"implementation names: .*{text}"):
            model.report(implementations=True)
    assert model(np.ones(4, F32)).tolist() == [1] * 4
    assert "eltwise" in model.report(implementations=True).partitions[0].implementation


def test_parses_verbose_output():
    lines = """onednn_verbose,info,oneDNN v3.2.0
onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32 dst_f32,,,16x3,0.1
onegraph_partition,0
onednn_verbose,exec,cpu,convolution,jit:avx512_core,forward_inference,src_f32,,alg,mb8,0.2
onegraph_partition,done
onednn_verbose,exec,cpu,matmul,brg:avx512_core,undef,src,,,1x2,0.1
onegraph_partition,2
onednn_verbose,v1,primitive,exec,cpu,cut,off
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src,,,4,0.1
onednn_verbose,v1,graph,exec,cpu,2,kernel,matmul,,,fpm:strict,dnnl_backend,0.4
onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:jit:f32,undef,src,,,4,0.1
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src,,,4,0.1
a warning of another library,exec,cpu,sum,ref:any,undef,src,,,4,0.1
onegraph_partition,done
onegraph_partition,3
onegraph_partition,done
onegraph_partition,2
onednn_verbose,exec,cpu,eltwise,jit:avx512_core,undef,src,,,4,0.1
onegraph_partition,done
onegraph_partition,end""".splitlines()
    names = implementation_names.parse(lines)
    joined = "reorder jit:uni, matmul gemm:jit:f32, eltwise jit:avx512_core"
    assert names == {0: "convolution jit:avx512_core", 2: joined, 3: ""}
