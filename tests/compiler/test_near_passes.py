"""Attention that one kernel takes, and chains of ops beside it that it must leave."""

import numpy as np
import pytest
from helpers.pass_graphs.attended import HALF, attention

import onegraph as og
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import run_passes


def steps(graph, options=None):
    return run_passes(lower(graph), options or Options(), ["changing_attention"]).steps


@pytest.mark.parametrize(
    ("options", "scale", "is_masked"),
    [
        ({}, 0.5, True),
        ({"queries": 16}, 0.5, None),
        ({"is_mask_first": True}, 0.5, True),
        ({"by": "divide"}, 2.0, True),
        ({"scale": None}, 1.0, True),
        ({"scale": HALF.reshape(1, 1)}, 0.5, True),
        ({"mask": None}, 0.5, False),
        ({"mask": (64,)}, 0.5, True),
        ({"mask": (1, 1, 8, 1)}, 0.5, True),
        ({"mask": (1, 2, 8, 64)}, 0.5, True),
        ({"key": "view"}, 0.5, True),
        ({"axis": 3}, 0.5, True),
    ],
    ids=str,
)
def test_few_queries_are_attended_by_a_kernel(options, scale, is_masked):
    if options.get("queries") == 16:
        options = {**options, "mask": (16, 64)}
    (step,) = (step for step in steps(attention(**options)) if step.executor == "attention")
    assert (step.attrs["scale"], step.attrs["masked"]) == (scale, True if is_masked is None else is_masked)
    assert len(step.inputs) == 3 + step.attrs["masked"]
    assert "few queries" in step.note


@pytest.mark.parametrize(
    "options",
    [
        {"queries": 17, "mask": (17, 64)},
        {"keys": 63, "mask": (8, 63)},
        {"kind": og.bf16},
        {"key": "columns"},
        {"scale": np.array(0, np.float32)},
        {"scale": np.array(0, np.float32), "by": "divide"},
        {"scale": np.array(np.inf, np.float32)},
        {"scale": np.full((8, 1), 0.5, np.float32)},
        {"scale": "of a run"},
        {"mask": (3, 2, 8, 64)},
        {"mask": (1, 1, 2, 8, 64)},
        {"axis": 2},
        {"turned": "values"},
        {"turned": "rows"},
        {"returned": "scores"},
        {"returned": "scaled"},
        {"returned": "masked"},
        {"returned": "shares"},
    ],
    ids=str,
)
def test_other_chains_are_left(options):
    assert all(step.executor != "attention" for step in steps(attention(**options)))


@pytest.mark.parametrize("options", [{"reproducible": True}, {"fpmath_mode": "bf16"}, {"policy": "debug"}], ids=str)
def test_options_decide_whether_a_kernel_attends(options):
    assert all(step.executor != "attention" for step in steps(attention(), Options(**options)))
