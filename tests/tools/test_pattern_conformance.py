"""A library held against the documented fusion patterns: the chains, the verdicts, and what is found."""

import json
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.command_line import onegraph

from onegraph import ArgumentError, UnsupportedError
from onegraph._util.worker_process import Outcome
from onegraph.checker.check import check_graph
from onegraph.opset.fusion_graphs import GRAPHS
from onegraph.opset.fusion_patterns import EVERY_PATTERN, patterns_of
from onegraph.reference import run
from onegraph.tools.conformance import fused
from onegraph.tools.conformance.fused import worker
from onegraph.tools.conformance.fused.cases import PatternCase, is_promised, pattern_cases

NEWEST = (3, 13)
OLD = ((3, 4), (3, 8), (3, 9), (3, 10))


@cache
def cases_of(version=NEWEST):
    return tuple(pattern_cases(version))


@pytest.mark.parametrize("pattern", EVERY_PATTERN, ids=lambda pattern: f"{pattern.name} {pattern.since}")
def test_every_op_of_a_pattern_is_tried_in_every_type(pattern):
    version = next(version for version in (*OLD, NEWEST) if pattern.since <= version < pattern.until)
    cases = [case for case in cases_of(version) if case.pattern == pattern.name]
    assert {case.kinds[0] for case in cases} == set(pattern.heads)
    assert {case.dtype for case in cases} == set(pattern.dtypes)
    behind = {kind for case in cases for kind in case.kinds[1:]}
    assert behind >= {kind for stage in pattern.stages for kind in stage.kinds}
    assert any(case.promised for case in cases)
    assert not all(case.promised for case in cases)


@pytest.mark.parametrize("pattern", GRAPHS, ids=lambda pattern: pattern.title)
def test_every_op_of_a_graph_is_tried_in_every_type(pattern):
    cases = [case for case in cases_of() if case.pattern == pattern.title]
    assert {case.dtype for case in cases} == set(pattern.dtypes)
    assert {case.dtype for case in cases if case.promised} == set(pattern.dtypes) - (
        {"bf16", "f16"} if pattern.name == "gqa" else set()  # its page rules out f32 between the ops
    )
    tried = [{case.kinds[place] for case in cases} - {""} for place in range(len(pattern.nodes))]
    assert tried == [set(node.kinds) for node in pattern.nodes]
    optional = [any(not case.kinds[place] for case in cases) for place in range(len(pattern.nodes))]
    assert optional == [bool(node.group) for node in pattern.nodes]
    for case in cases[:: max(len(cases) // 4, 1)]:
        graph = case.graph()
        assert [op.kind for op in graph.ops] == [kind for kind in case.kinds if kind]
        assert check_graph(graph, library="none").errors == []
        assert set(case.inputs()) == set(graph.inputs)


def test_graph_of_attention_computes_attention():
    kinds = ("MatMul", "Divide", "Add", "SoftMax", "MatMul", "StaticTranspose", "StaticReshape")
    case = PatternCase("attention", kinds, "f32", True)
    feeds = case.inputs()
    scores = feeds["query"] @ feeds["key"].swapaxes(-1, -2) / feeds["factor"] + feeds["bias"]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True)) @ feeds["value"]
    expected = expected.transpose(0, 2, 1, 3).reshape(2, 8, 12)
    np.testing.assert_allclose(run(case.graph(), feeds)["dst"], expected, rtol=1e-5)


@pytest.mark.library
def test_quantized_product_of_codes_is_one_partition():
    for case in (one for one in cases_of() if one.pattern == "quantized MatMul" and one.dtype == "u8"):
        if [kind for kind in case.kinds if kind] == ["Dequantize", "Dequantize", "MatMul", "Quantize"]:
            assert worker.answer(case._asdict())["outcome"] == "fused"
            return
    raise AssertionError("no such case")


def test_chains_are_valid_graphs():
    chains = [case for case in cases_of() if len(case.kinds) < 8 and "" not in case.kinds]
    one_of_each = {(case.kinds[0], *case.kinds[1:3]): case for case in chains}
    for case in list(one_of_each.values())[::7]:
        graph = case.graph()
        assert [op.kind for op in graph.ops] == list(case.kinds)
        assert not [each for each in check_graph(graph, library="none") if each.severity == "error"], case
        assert set(case.inputs()) == set(graph.inputs)


@pytest.mark.parametrize(
    ("kinds", "dtype", "promised"),
    [
        (("MatMul", "Add"), "f32", True),
        (("MatMul", "Add"), "bf16", False),  # the page: the epilogue is of f32
        (("Convolution", "TypeCast"), "bf16", True),
        (("Convolution", "TypeCast"), "f32", False),  # the page: bf16 to f32 alone
        (("SoftMax", "TypeCast"), "f32", True),
        (("BatchNormInference", "ReLU"), "f16", True),
        (("BatchNormInference", "Abs"), "f16", False),
    ],
)
def test_data_types_and_limits_of_a_page_decide_what_is_promised(kinds, dtype, promised):
    [case] = [case for case in cases_of() if (case.kinds, case.dtype) == (kinds, dtype)]
    assert case.promised is promised


@pytest.mark.parametrize(
    ("kinds", "dtype", "versions"),
    [
        (("Convolution", "Add", "ReLU", "Add"), "f32", "3.4 3.8 3.9 3.10"),
        (("Convolution", "Add", "ReLU", "Add", "ReLU"), "f32", "3.9 3.10"),
        (("Convolution", *("Add", "ReLU") * 10), "f32", "3.10"),
        (("ReLU", "Add"), "f32", "3.4 3.8 3.9 3.10"),
        (("ReLU", "Tanh"), "f32", "3.9 3.10"),
        (("AvgPool", "ReLU"), "f32", "3.9 3.10"),
        (("MatMul", "Pow"), "f32", "3.4 3.8"),
        (("MatMul", "Mish"), "f32", "3.9 3.10"),
        (("MatMul", "Select"), "f32", "3.8 3.9 3.10"),
        (("MatMul", "Add"), "bf16", "3.4 3.8 3.9"),
        (("SoftMax", "Add"), "bf16", "3.8 3.9 3.10"),
        (("SoftMax", "ReLU", "TypeCast"), "f32", ""),  # since 3.11 alone
        (("Reorder", "Add"), "f32", "3.4 3.8"),
    ],
)
def test_each_guide_promises_what_its_text_has(kinds, dtype, versions):
    promised = [".".join(map(str, version)) for version in OLD if is_promised(patterns_of(version), kinds, dtype)]
    assert promised == versions.split()


@pytest.mark.parametrize(
    ("title", "dtype", "first"),
    [
        ("attention", "f32", (3, 6)),
        ("attention", "bf16", (3, 8)),
        ("attention with stats", "f16", (3, 9)),
        ("grouped attention", "f32", (3, 7)),
        ("gated MLP", "f32", (3, 7)),
        ("gated MLP", "f16", (3, 12)),
        ("quantized Convolution", "u8", (3, 2)),
    ],
)
def test_graphs_are_promised_since_their_guide(title, dtype, first):
    pattern = next(pattern for pattern in GRAPHS if pattern.title == title)
    plain = next(iter(pattern.choices(dtype)))
    documented = [minor for minor in range(2, 14) if pattern.is_documented(plain, dtype, (3, minor))]
    assert documented == list(range(first[1], 14))


def test_older_libraries_are_not_asked_for_newer_ops():
    assert not any("GroupNorm" in case.kinds for case in pattern_cases((3, 2)))
    assert any("GroupNorm" in case.kinds for case in cases_of())


@pytest.mark.parametrize(
    ("promised", "outcome", "verdict"),
    [
        (True, "fused", ""),
        (True, "split", fused.NOT_FUSED),
        (True, "unsupported", fused.NOT_FUSED),
        (True, "refused", fused.NOT_FUSED),
        (True, "wrong", fused.WRONG),
        (False, "wrong", fused.WRONG),
        (False, "crash", fused.WRONG),
        (False, "fused", fused.BEYOND),
        (False, "split", ""),
    ],
)
def test_verdict_follows_from_promise_and_outcome(promised, outcome, verdict):
    case = PatternCase("matmul_fusion_patterns", ("MatMul", "Add"), "f32", promised)
    assert fused.verdict_of(case, Outcome(outcome, "execute", "")) == verdict


CHAINS = (
    ("MatMul", "Add", "f32", True, "split"), ("MatMul", "Add", "bf16", True, "split"),
    ("MatMul", "ReLU", "f32", True, "split"), ("MatMul", "ReLU", "bf16", True, "split"),
    ("MatMul", "Tanh", "f32", True, "unsupported"), ("MatMul", "Exp", "f32", True, "wrong"),
    ("ReLU", "Add", "f16", False, "fused"), ("ReLU", "Add", "f32", True, "fused"),
    ("ReLU", "Exp", "f32", False, "split"),
)  # fmt: skip


def report_of_chains():
    cases = tuple(PatternCase("a page", (*kinds,), dtype, is_promised) for *kinds, dtype, is_promised, _ in CHAINS)
    return fused.PatternReport(cases, tuple(Outcome(chain[-1], "execute", chain[1]) for chain in CHAINS))


def test_report_tells_each_verdict_with_its_chains():
    assert report_of_chains().text().splitlines() == [
        "9 chains, 7 of them documented", "", "Promised and not fused: 5",
        "  a page: MatMul + {Add, ReLU} in f32, bf16: split", "  a page: MatMul + Tanh in f32: unsupported", "",
        "Fused and wrong: 1", "  a page: MatMul + Exp in f32: wrong", "", "Fused beyond the text: 1",
        "  a page: ReLU + Add in f16: fused",
    ]  # fmt: skip


def test_report_as_plain_values():
    report = report_of_chains()
    facts = report.to_dict()
    assert [(key, len(one) if isinstance(one, list) else one) for key, one in facts.items()] == [
        ("cases", 9), ("promised", 7), ("not_fused", 5), ("wrong", 1), ("beyond", 1),
    ]  # fmt: skip
    chain = {"pattern": "a page", "kinds": ("MatMul", "Exp"), "dtype": "f32", "promised": True}
    assert facts["wrong"] == [{**chain, "outcome": "wrong", "detail": "Exp"}]
    assert report.ids() == {
        **{f"pattern:MatMul + {kind} in {dtype}": "unfused" for kind in ("Add", "ReLU") for dtype in ("f32", "bf16")},
        "pattern:MatMul + Tanh in f32": "unfused", "pattern:MatMul + Exp in f32": "wrong",
    }  # fmt: skip


def test_chains_run_in_processes_with_one_thread(monkeypatch):
    asked, told = [], []

    def run_all(requests, workers, progress, make_worker):
        asked.append((requests, workers, make_worker()))
        progress(1)
        return [Outcome("fused", "execute", "")] * len(requests)

    monkeypatch.setattr(fused, "run_all", run_all)
    monkeypatch.setattr(fused, "Worker", lambda module, settings: (module, settings))
    report = fused.run(NEWEST, ["BatchNormInference"], 3, lambda *given: told.append(given))
    ((requests, workers, made),) = asked
    assert (workers, made) == (3, (worker.__name__, {"OMP_NUM_THREADS": "1"}))
    assert requests == [{**case._asdict(), "limit": fused.LIMIT, "repeat": True} for case in report.cases]
    assert {case.kinds[0] for case in report.cases} == {"BatchNormInference"}
    assert told == [(1, len(report.cases))]
    assert len(report.outcomes) == len(report.cases)


def test_partitions_of_a_split_chain_are_named():
    ops = [SimpleNamespace(id=number, kind=kind) for number, kind in enumerate(("MatMul", "ReLU", "Add"))]
    assert worker._kinds(ops, [2, 0]) == ["MatMul", "Add"]


def test_unknown_first_op_is_an_error():
    with pytest.raises(ArgumentError, match="no documented fusion pattern starts with 'StaticReshape'"):
        fused.run(NEWEST, ["StaticReshape"])


def tried(kinds, dtype, outcome, promised=True):
    return PatternCase("a page", tuple(kinds.split()), dtype, promised), Outcome(outcome, "execute", f"of {kinds}")


TRIED = (
    tried("MatMul Add", "f32", "fused"),
    tried("MatMul ReLU", "f32", "split"),
    tried("MatMul ReLU", "bf16", "split"),
    tried("MatMul Exp Add", "f32", "split"),
    tried("MatMul Exp Add", "bf16", "split"),
    tried("MatMul Abs", "f32", "split"),
    tried("MatMul Log", "bf16", "unsupported"),
    tried("Add Log", "bf16", "wrong", promised=False),
    tried("Add ReLU", "f32", "fused", promised=False),
    tried("Add Exp", "f32", "split", promised=False),
)
REPORT = """10 chains, 7 of them documented

Promised and not fused: 6
  a page: MatMul + {ReLU, Exp + Add} in f32, bf16: split
  a page: MatMul + Abs in f32: split
  a page: MatMul + Log in bf16: unsupported

Fused and wrong: 1
  a page: Add + Log in bf16: wrong

Fused beyond the text: 1
  a page: Add + ReLU in f32: fused"""


def test_report_lists_the_chains_of_each_verdict():
    report = fused.PatternReport(*zip(*TRIED, strict=True))
    assert report.text() == REPORT
    assert report.ids() == {
        "pattern:MatMul + ReLU in f32": "unfused",
        "pattern:MatMul + ReLU in bf16": "unfused",
        "pattern:MatMul + Exp + Add in f32": "unfused",
        "pattern:MatMul + Exp + Add in bf16": "unfused",
        "pattern:MatMul + Abs in f32": "unfused",
        "pattern:MatMul + Log in bf16": "unfused",
        "pattern:Add + Log in bf16": "wrong",
    }
    facts = report.to_dict()
    assert (facts["cases"], facts["promised"]) == (10, 7)
    assert [len(facts[name]) for name in ("not_fused", "wrong", "beyond")] == [6, 1, 1]
    place = {"pattern": "a page", "kinds": ("Add", "Log"), "dtype": "bf16", "promised": False}
    assert facts["wrong"] == [{**place, "outcome": "wrong", "detail": "of Add Log"}]


def test_chains_run_in_processes_of_one_thread(monkeypatch):
    asked, told, made = [], [], []

    def run_all(requests, workers, tell, worker_of):
        asked.append((requests, workers))
        tell(2)
        worker_of()
        return [Outcome("split", "partition", "") for _ in requests]

    monkeypatch.setattr(fused, "run_all", run_all)
    monkeypatch.setattr(fused, "Worker", lambda *given: made.append(given))
    report = fused.run(NEWEST, ["HardSigmoid"], 3, lambda *given: told.append(given))
    fused.run(NEWEST, ["HardSigmoid"])
    cases = tuple(pattern_cases(NEWEST, ["HardSigmoid"]))
    requests = [{**case._asdict(), "limit": 20.0, "repeat": True} for case in cases]
    assert asked == [(requests, 3), (requests, 1)]
    assert (report.cases, len(report.outcomes), told) == (cases, len(cases), [(2, len(cases))])
    assert made == [("onegraph.tools.conformance.fused.worker", {"OMP_NUM_THREADS": "1"})] * 2


@pytest.mark.library
@pytest.mark.parametrize(
    ("parts", "outcome", "detail"),
    [
        ([[0], [1, 2]], "split", "MatMul | ReLU + Abs"),
        ([[0, 2], [1]], "split", "MatMul + Abs | ReLU"),
        ([[0, 1, 2]], "unsupported", "is_supported is 0"),
        (None, "refused", "tensor 3"),
    ],
)
def test_chains_may_not_be_one_partition(monkeypatch, parts, outcome, detail):
    case = PatternCase("a page", ("MatMul", "ReLU", "Abs"), "f32", True)
    numbers, steps = [op.id for op in case.graph().ops], []

    class Library:
        def add_op(self, op):
            steps.append(op.kind)
            if parts is None:
                raise UnsupportedError("tensor 3\nis not there")

        def finalize(self):
            steps.append("finalize")

        def partitions(self, policy):
            steps.append(policy)
            return [SimpleNamespace(ops=[numbers[place] for place in one], supported=False) for one in parts]

    monkeypatch.setattr(worker, "LibraryGraph", Library)
    monkeypatch.setattr(worker, "tell", lambda **facts: steps.append(facts))
    assert worker.answer(case._asdict()) == {"outcome": outcome, "detail": detail}
    known = ["MatMul"] if parts is None else ["MatMul", "ReLU", "Abs", "finalize", "fusion"]
    assert steps == [{"stage": "partition"}, *known]


@pytest.mark.library
def test_command_lists_what_is_not_as_documented():
    done = onegraph("conformance", "--patterns", "BatchNormInference", "--json", "--workers", "1")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert found["cases"] > found["promised"] > 0
    assert {"not_fused", "wrong", "beyond"} <= found.keys()
    assert done.returncode == bool(found["not_fused"] or found["wrong"])


@pytest.mark.library
def test_a_wrong_result_is_found(monkeypatch):
    case = next(case for case in cases_of() if case.kinds == ("MatMul", "ReLU") and case.dtype == "f32")
    assert worker.answer(case._asdict())["outcome"] == "fused"
    run = worker._compile_and_execute
    monkeypatch.setattr(worker, "_compile_and_execute", lambda *given: [array * 1.01 for array in run(*given)])
    found = worker.answer(case._asdict())
    assert found["outcome"] == "wrong"
    assert "off by" in found["detail"]
