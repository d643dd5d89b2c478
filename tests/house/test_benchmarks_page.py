"""The pages show what was measured: each generated text equals what the kept results give. No test checks times."""

import json
import re
from dataclasses import asdict, replace
from xml.etree import ElementTree as ET

import pytest

from benchmarks import glance, page
from benchmarks.__main__ import NAMES
from benchmarks.chart import svg
from benchmarks.glance import Line
from benchmarks.timing import Row

IDLE, BUSY = {"all": 1.0}, {"all": 60.0, "cc1plus": 60.0}
# The speeds of the peers relative to onegraph: 0.5 is half as fast, so that the peer takes twice the time.
ROWS = [
    Row("ResNet-50, f32, batch 1", {}, {"ONNX Runtime": 0.5, "torch eager": 0.25, "onegraph f32": 0.1}, load=IDLE),
    Row("ResNet-50, f32, batch 16", {}, {"ONNX Runtime": 0.125, "torch eager": 1.0}, load=IDLE),
    Row("ResNet-50, bf16, batch 1", {}, {"torch eager": 2.0}, load=BUSY),
]
LINES = glance.lines(map(asdict, ROWS))
SVG = "{http://www.w3.org/2000/svg}"


def test_pages_show_the_kept_results():
    texts = page.written(json.loads(page.RESULTS.read_text()))
    assert set(texts) == {page.README, page.PAGE, page.CHART, page.TEXT}
    assert [path.name for path, text in texts.items() if path.read_text() != text] == []


def test_ratio_is_their_time_by_ours():
    assert [
        Line("ResNet-50", "f32", "1", {"ONNX Runtime": 2.0, "torch eager": 4.0}),
        Line("ResNet-50", "f32", "16", {"ONNX Runtime": 8.0, "torch eager": 1.0}),
        Line("ResNet-50", "bf16", "1", {"torch eager": 0.5}, disturbed=True),
    ] == LINES


def test_training_is_part_of_the_name():
    (line,) = glance.lines([asdict(Row("BERT, training step, bf16, batch 16", load=IDLE))])
    assert line[:3] == ("BERT, training step", "bf16", "16")


def test_means_are_geometric():
    assert glance.means(LINES) == pytest.approx({"ONNX Runtime": 4.0, "torch eager": 2 ** (1 / 3)})
    assert glance.means([]) == {}


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "-"),
        (0.514, "0.51"),
        (0.994, "0.99"),
        (0.996, "1.0"),
        (1.04, "1.0"),
        (9.94, "9.9"),
        (9.96, "10"),
        (23.4, "23"),
    ],
)
def test_ratio_has_two_digits(ratio, text):
    assert glance.label(ratio) == text


def environment(**other):
    return {"onegraph": "2", "library": "3.2.0", "cpu": "a cpu", "isa": "avx2", "processors": 2, "threads": 2, **other}


def test_table_ends_with_the_means():
    text = page.markdown({"inference": {"environment": environment(), "rows": TIMED}})
    (table,) = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table.splitlines() == [
        "| case | onegraph | OpenVINO | ONNX Runtime |",
        "| --- | ---: | ---: | ---: |",
        "| A, f32, batch 1 | 2.00 ms | 2.0 | - |",
        "| A, f32, batch 16 \\* | 4.00 s | 8.0 | 0.50 |",
        "| **geometric mean** |  | **4.0** | **0.50** |",
    ]
    assert "Measured with onegraph 2 on 2 processors of an a cpu (avx2) with 2 threads: oneDNN 3.2.0." in text
    assert "1 of the rows: onegraph 1." in " ".join(text.split())


TIMED = [
    asdict(Row("A, f32, batch 1", {"onegraph": 2e-3, "OpenVINO": 4e-3}, {"OpenVINO": 0.5}, load=IDLE, version="1")),
    asdict(
        Row(
            "A, f32, batch 16",
            {"onegraph": 4.0, "OpenVINO": 32.0, "ONNX Runtime": 2.0},
            {"OpenVINO": 0.125, "ONNX Runtime": 2.0},
            load=BUSY,
        )
    ),
]


def test_each_row_has_a_time_for_its_first_contender():
    rows = [asdict(Row("a", {"x": 1.0, "z": 2.0}, {"z": 0.5})), asdict(Row("b", {"y": 1e-6, "z": 1e-6}, {"z": 1.0}))]
    table = re.findall(r"^\| [abg*].*", page.markdown({"peak": {"environment": environment(), "rows": rows}}), re.M)
    assert table == ["| a | 1.00 s | 2.0 | - |", "| b | - | 1.0 | 1.00 us |"]


def test_long_tables_repeat_their_heads():
    rows = [TIMED[0] | {"case": f"case {number}"} for number in range(2 * page.MOST + 1)]
    text = page.markdown({"inference": {"environment": environment(), "rows": rows}})
    tables = [table.splitlines() for table in re.findall(r"(?m)^(?:\|.*\n)+", text)]
    assert [len(table) for table in tables] == [2 + page.MOST, 2 + page.MOST, 2 + 1 + 1]
    assert len({tuple(table[:2]) for table in tables}) == 1


def test_each_benchmark_has_a_section():
    assert set(page.SECTIONS) == set(NAMES)
    assert set(page.MODELS) <= set(NAMES)


def test_readme_has_the_means_of_each_kind_of_models(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "README", tmp_path / "README.md")
    page.README.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nbehind\n")
    speeds = {"Inductor": 0.25, "Inductor, freezing": 2.0}
    compiled = asdict(Row("M, bf16, batch 1", {"onegraph": 1.0}, speeds, load=IDLE))
    results = {
        "inference": {"environment": environment(), "rows": TIMED},
        "torch": {"environment": environment(date="2030-01-02", library="3.6"), "rows": [compiled]},
    }
    text = page.written(results)[page.README]
    assert [line for line in text.splitlines() if line.startswith("|")][2:] == [
        "| built op by op | 2 | 0.50 | 4.0 | - | - | 2 |",
        "| `torch.compile` | 1 | - | - | - | 0.50 | 2030-01-02 |",
    ]
    assert text.startswith("before\n")
    assert text.endswith("\nbehind\n")
    assert "old" not in text
    assert "Measured on 2 processors of an" in " ".join(text.split())


def test_chart_shows_every_number():
    picture = ET.fromstring(svg(LINES))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    numbers = [text for text in texts if re.fullmatch(r"\d+\.\d+|-", text)]
    assert numbers == ["2.0", "-", "4.0", "-", "8.0", "-", "1.0", "-", "-", "-", "0.50", "-", "4.0", "-", "1.3", "-"]
    assert {*glance.PEERS.values(), "ResNet-50", "f32", "bf16", "16", "geometric mean"} <= set(texts)


def test_bars_begin_at_one():
    picture = ET.fromstring(svg([Line("a", "f32", "1", {"OpenVINO": 4.0}), Line("a", "f32", "2", {"OpenVINO": 0.25})]))
    faster, slower, *_ = (
        (kind, float(bar.get("x")), float(bar.get("width")))
        for bar in picture.iter(f"{SVG}rect")
        if (kind := bar.get("class")) in ("faster", "slower")
    )
    assert (faster[0], slower[0]) == ("faster", "slower")
    assert faster[1] == pytest.approx(slower[1] + slower[2], abs=0.11)
    assert faster[2] == pytest.approx(slower[2], abs=0.11)  # four times as long is as far from 1 as a quarter


def test_chart_has_colors_for_dark_pages():
    style = ET.fromstring(svg(LINES)).find(f"{SVG}style").text
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    assert set(re.findall(r"\.(\w+) { fill", dark)) >= {"page", "faster", "slower"}
    assert "font-face" not in light


def test_text_has_every_figure_and_remark():
    row = Row("case", {"C loop": 2e-6, "bound run": 4e-6}, {"bound run": 0.5}, note="a note", version="2")
    rows = [asdict(one) for one in (row, replace(row, version="1"))]
    text = page.text({"overhead": {"environment": {"onegraph": "2", "cpu": "a cpu"}, "rows": rows}})
    assert "\nonegraph 2, cpu a cpu\n" in text
    assert len(re.findall(r"bound run +4\.00 us +0\.50 x\n  a note\n", text)) == 2
    assert re.findall("measured with .*", text) == ["measured with onegraph 1"]


def test_page_without_results_says_how_to_measure():
    assert "`make bench` measures them" in page.markdown({})


def test_readme_without_markers_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(page, "README", tmp_path / "README.md")
    page.README.write_text("# onegraph\n")
    with pytest.raises(ValueError, match="has 0 parts between"):
        page.written(json.loads(page.RESULTS.read_text()))
