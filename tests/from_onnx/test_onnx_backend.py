"""One backend test of the package onnx for each kind of node; ``make test-onnx`` runs all of them."""

import warnings

import pytest
from conftest import LONG

import onegraph.capi  # noqa: F401 - its graphs run in the library

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from tests.onnx_backend.__main__ import differences, reasons  # noqa: E402
from tests.onnx_backend.cases import Outcome, cases, run  # noqa: E402
from tests.onnx_backend.known import ONNX, UNRANKED  # noqa: E402


def selection():
    """The first test of each kind of node, and every tenth of the models that PyTorch wrote.

    Functions written out as nodes run in ``make test-long``: test_onnx_functions.py compares each function with
    what the node is lowered to.
    """
    chosen = {}
    for case in cases(("node",)).values():
        if case.name.endswith("_expanded") and not LONG:
            continue
        chosen.setdefault(tuple(node.op_type for node in case.model.graph.node), case)
    return [*chosen.values()], [*cases(("simple", "pytorch-converted", "pytorch-operator")).values()][::10]


@pytest.mark.skipif(not onnx.__version__.startswith(ONNX), reason="the table of known failures is for another onnx")
@pytest.mark.parametrize(
    ("kind", "form"),
    [(0, "known"), (0, "open"), (0, "unranked"), (1, "known")],
    ids=["nodes", "nodes of open dims", "nodes of unknown rank", "models"],
)
def test_backend_tests_fail_as_the_table_says(kind, form):
    """Without known dims, the same tests fail. Each of these forms has half of the nodes, and all in long runs."""
    chosen = selection()[kind]
    if not LONG:
        chosen = {"known": chosen, "open": chosen[::2], "unranked": chosen[1::2]}[form]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows are part of the tests
        outcomes = [run(case, form) for case in chosen]
    listed = reasons() | (UNRANKED if form == "unranked" else {})
    known = {name: reason for name, reason in listed.items() if name in {one.name for one in outcomes}}
    assert differences(outcomes, known) == []
    assert any(one.in_onednn for one in outcomes)


def test_both_directions_of_the_table_are_checked():
    outcomes = [Outcome("a", "", True), Outcome("b", "an error", False), Outcome("c", "an error", False)]
    found = differences(outcomes, {"a": "reason", "b": "reason"})
    assert found == ["fails: c: an error", "passes, but is a known failure: a"]


def test_a_wrong_result_fails():
    case = cases(("node",))["test_relu"]
    assert run(case).error == ""
    ((inputs, (expected,)),) = case.data_sets
    changed = type(case)(**{**vars(case), "data_sets": [(inputs, [expected + 1])]})
    assert "AssertionError" in run(changed).error
