"""Attention that one kernel takes, and chains of ops beside it that it must leave."""

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import run_passes

HALF = np.array(0.5, np.float32)


def attention(
    queries=8,
    keys=64,
    *,
    kind=og.f32,
    key="rows",
    scale=HALF,
    by="multiply",
    mask=(8, 64),
    is_mask_first=False,
    axis=-1,
    turned="",
    returned=None,
):
    """The steps of a chain of attention after the pass, and how they are scaled and masked."""
    g = og.Graph()
    sizes = {"": (keys, 16), "rows": (queries, 16), "values": (16, keys)}[turned]
    q, v = g.input("q", kind, (1, 2, queries, 16)), g.input("v", kind, (1, 2, *sizes))
    if key == "rows":
        scores = g.matmul(q, g.input("k", kind, (1, 2, keys, 16)), transpose_b=True)
    elif key == "columns":
        scores = g.matmul(q, g.input("k", kind, (1, 2, 16, keys)))
    else:
        scores = g.matmul(q, g.static_transpose(g.input("k", kind, (1, 2, keys, 16)), order=(0, 1, 3, 2)))
    made = {"scores": scores}
    if scale is not None:
        factor = g.input("scale", kind, (1,)) if isinstance(scale, str) else g.constant(scale.astype(kind.numpy))
        scores = made["scaled"] = getattr(g, by)(scores, factor)
    if mask is not None:
        added = g.input("mask", kind, mask)
        scores = made["masked"] = g.add(added, scores) if is_mask_first else g.add(scores, added)
    shares = made["shares"] = g.softmax(scores, axis=axis)
    g.output("y", g.matmul(shares, v, transpose_a=turned == "rows", transpose_b=turned == "values"))
    if returned:
        g.output("z", made[returned])
    return g


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
