"""Costs of ops and partitions beside peaks, by hand."""

from types import SimpleNamespace

import pytest

import onegraph as og
from onegraph._util.html_table import GREY, LONG, MAX_LINES, MAX_ROWS, Cell, html_table
from onegraph.runtime.apart import Edge
from onegraph.runtime.explanation import _ranges, _shares, _table, explained
from onegraph.runtime.peaks import Peaks

PEAKS = Peaks(2, 1e9, {"f32": 1e9})


def graph():
    made = og.Graph()
    product = made.matmul(made.input("x", og.f32, (2, 3)), made.input("w", og.f32, (3, 4)), name="m")
    made.output("y", made.abs(made.relu(product, name="r"), name="a"))
    return made


def report(index, *ops, size=100, arithmetic="f32", implementation=""):
    kinds, names = zip(*(op.rsplit(" ", 1) for op in ops), strict=True)
    return SimpleNamespace(
        index=index,
        kinds=kinds,
        names=names,
        ops=ops,
        executor="oneDNN",
        bytes=size,
        arithmetic=arithmetic,
        implementation=implementation,
    )


def explanation(*reports, times, peaks=PEAKS):
    return explained("oneDNN", graph(), reports, times, peaks, ())


def test_products_take_the_time_of_their_partition():
    found = explanation(report(0, "MatMul m", "ReLU r", implementation="jit"), report(1, "Abs a"), times={0: 2e-6})
    product, relu, last = found.ops
    first, second = found.steps
    assert (first.multiply_adds, first.bytes, first.seconds) == (2 * 3 * 4, 100, 2e-6)
    assert (first.compute, first.memory) == pytest.approx((2 * 24 / 2e-6 / 1e9, 100 / 2e-6 / 1e9))
    assert (second.multiply_adds, second.seconds, second.compute, second.memory) == (0, None, None, None)
    assert (product.steps, product.beside, product.multiply_adds, product.bytes) == ((0,), ("r",), 24, 4 * (6 + 12 + 8))
    assert (product.seconds, product.compute, product.implementation) == (2e-6, first.compute, "jit")
    assert product.memory == pytest.approx(104 / 2e-6 / 1e9)
    assert (relu.seconds, relu.compute, relu.memory, relu.beside) == (0, None, None, ("m",))
    assert (last.seconds, last.steps, last.beside) == (None, (1,), ())


def test_ops_without_products_share_the_time():
    found = explanation(report(0, "MatMul m"), report(3, "ReLU r", "Abs a", "ReLU r"), times={0: 1e-6, 3: 4e-6})
    assert [op.seconds for op in found.ops] == [1e-6, 2e-6, 2e-6]
    assert found.ops[1].compute is None
    assert found.ops[1].memory == pytest.approx(64 / 2e-6 / 1e9)


def test_a_product_of_several_partitions_is_divided():
    parts = report(0, "MatMul: MatMul m"), report(1, "MatMul: Add m"), report(2, "MatMul m")
    found = explanation(*parts, times={0: 1e-6, 1: 2e-6, 2: 3e-6})
    assert [step.multiply_adds for step in found.steps] == [12, 0, 12]
    assert (found.ops[0].steps, found.ops[0].seconds) == ((0, 1, 2), pytest.approx(6e-6))


def test_tensors_of_unknown_size_count_for_no_bytes():
    made = og.Graph()
    x = made.input("x", og.f32, (None, 4))
    made.output("y", made.relu(x, name="r"))
    made.output("z", made.abs(made.input("w", og.bf16, (2, 3)), name="a"))
    found = explained("oneDNN", made, [report(0, "ReLU r"), report(1, "Abs a")], {}, PEAKS, ())
    assert [op.bytes for op in found.ops] == [0, 2 * 2 * 3 * 2]


@pytest.mark.parametrize(
    ("count", "seconds", "arithmetic", "peaks", "shares"),
    [
        (24, 2e-6, "f32", PEAKS, (0.024, 0.05)),
        (0, 2e-6, "f32", PEAKS, (None, 0.05)),
        (24, 2e-6, "bf16", PEAKS, (None, 0.05)),
        (24, 0.0, "f32", PEAKS, (None, None)),
        (24, None, "f32", PEAKS, (None, None)),
        (24, 2e-6, "f32", None, (None, None)),
    ],
)
def test_shares_of_peaks_by_hand(count, seconds, arithmetic, peaks, shares):
    assert _shares(count, 100, seconds, arithmetic, peaks) == pytest.approx(shares)


def test_tables_align_figures_and_leave_out_empty_columns():
    rows = [["op", "us", "memory", "ops"], ["a", "1.0", "", "x"], ["long", "12.5", "", "yy"]]
    assert _table(rows) == ["op      us  ops", "a      1.0  x", "long  12.5  yy"]


@pytest.mark.parametrize(("size", "shown"), [(1000, "50.0%"), (2000, "100.0%"), (2001, "cache")])
def test_texts_name_the_machine_and_caches(size, shown):
    found = explanation(report(0, "ReLU r", size=size), times={0: 2e-6})
    lines = str(found).splitlines()
    assert lines[0] == "oneDNN; this machine: 1.0 GB/s, f32 1 GFLOP/s on 2 threads"
    assert lines[-1].split() == ["0", "oneDNN", f"{size:,}", "2.0", shown, "ReLU", "r"]
    disturbed = explained("oneDNN", graph(), (), {}, Peaks(1, 1e9, {}, disturbed=True), ())
    assert (
        str(disturbed).splitlines()[0].endswith(" on 1 thread, measured beside other work, so that shares are too high")
    )


def test_a_faster_partition_raises_its_peak():
    found = explanation(report(0, "MatMul m"), times={0: 1e-9})
    assert (found.peaks.rates, found.steps[0].compute, found.ops[0].compute) == ({"f32": 2 * 24 / 1e-9}, 1, 1)
    assert explanation(report(0, "MatMul: MatMul m"), times={0: 1e-9}).peaks == PEAKS


def test_steps_of_the_same_parts_are_one_row():
    parts = [report(number, "MatMul: MatMul m", size=100 * (number + 1)) for number in range(3)]
    edges = [Edge(number, number + 1, "m (part)", 8, "rewritten", "why") for number in range(2)]
    found = explained("oneDNN", graph(), parts, {0: 1e-6, 1: 1e-6, 2: 2e-6}, PEAKS, tuple(edges))
    text = str(found)
    assert "MatMul 'm'  0-2 " in text
    assert text.split("ops\n")[-1].split()[:6] == ["0", "and", "2", "others", "oneDNN", "24"]
    assert "  600  4.0 " in text
    assert text.endswith("0 -> 1 and 1 other  m (part), 8 bytes: rewritten\n    why")
    assert found._repr_html_().count("why</td>") == 1
    assert len(found.steps) == 3
    assert len(found.edges) == 2


@pytest.mark.parametrize(("numbers", "text"), [((), ""), ((4,), "4"), ((0, 1, 2, 5, 7, 8), "0-2 5 7-8")])
def test_numbers_in_order_are_ranges(numbers, text):
    assert _ranges(numbers) == text


def test_tables_of_notebooks_have_what_they_are_given():
    rows = [["<a>", "", Cell("1", GREY)], ["b", "", Cell("2", part=0.25)]]
    side, cell = (
        "text-align:{};padding:.25em .6em",
        "text-align:{};vertical-align:top;white-space:pre-wrap;padding:.25em .6em",
    )
    heads = "".join(
        f'<th style="{side.format(one)}">{name}</th>' for one, name in (("left", "x &amp; y"), ("right", "n"))
    )
    tinted = f"{cell.format('right')};background:{GREY}33;box-shadow:inset 3px 0 {GREY}"
    bar = f"{cell.format('right')};background:linear-gradient(90deg,#4a90d988 25.00%,transparent 25.00%)"
    lines = [("&lt;a&gt;", tinted, "1"), ("b", bar, "2")]
    body = "".join(
        f'<tr><td style="{cell.format("left")}">{first}</td><td style="{style}">{last}</td></tr>'
        for first, style, last in lines
    )
    above = '<caption style="caption-side:top;text-align:left;white-space:pre-wrap;padding:.4em 0">c &lt; d</caption>'
    table = f"<table>{above}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    found = html_table("c < d", ["x & y", "empty", "n"], rows, [2])
    assert found == f'<div style="overflow-x:auto">{table}</div>'


@pytest.mark.parametrize(("count", "more"), [(MAX_ROWS, ""), (MAX_ROWS + 1, "1"), (MAX_ROWS + 1000, "1,000")])
def test_long_tables_of_notebooks_end(count, more):
    found = html_table("c", ["x", "late"], [["r", "" if number < MAX_ROWS else "s"] for number in range(count)])
    assert found.count("<tr>") == MAX_ROWS + 1
    assert "late" not in found
    assert (f"c\n{more} more rows are not shown<" in found) is bool(more)
    assert ("more rows" in found) is bool(more)


@pytest.mark.parametrize(("count", "is_hidden"), [(MAX_LINES, False), (MAX_LINES + 1, True), (MAX_LINES + 2, True)])
@pytest.mark.parametrize("length", [LONG, LONG + 1])
def test_long_cells_of_notebooks_open(count, is_hidden, length):
    lines = ["<" * length, *["l<"] * (count - 1)]
    found = html_table("", ["x"], [["\n".join(lines)]])
    shown, rest = "&lt;" * length, "\n".join(["l&lt;"] * (count - 1))
    folded = f"<details><summary>{shown}, and {count - 1} more</summary>{rest}</details></td>"
    assert (folded if is_hidden else f"{shown}\n{rest}</td>") in found
    assert ("min-width" in found) is (length > LONG)
