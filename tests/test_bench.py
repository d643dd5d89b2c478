"""Graphs timed side by side."""

import pytest
from helpers.graphs import network

import onegraph as og
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.bench import Variant, bench


def test_measures_variants_in_turn():
    g, rounds = network(depth=1), []
    variants = [Variant(), Variant("debug"), Variant(threads=1), Variant(fpmath_mode="bf16")]
    found = bench(g, random_inputs(g), variants, seconds=0.0, progress=lambda *state: rounds.append(state))
    assert [one.variant for one in found] == variants
    assert [len(one.samples) for one in found] == [10] * 4  # one sample for each round
    assert all(0 < one.min <= one.median <= max(one.samples) for one in found)
    assert all(one.min <= one.mean <= max(one.samples) for one in found)
    assert [len(one.model.report().partitions) for one in found[:2]] == [1, 3]
    assert found[3].model.report().fpmath_mode == "bf16"
    assert rounds == [(done, 10) for done in range(11)]
    assert [str(variant) for variant in variants] == ["fusion", "debug", "fusion, 1 thread", "fusion, fpmath bf16"]


@pytest.mark.parametrize("runs", [1, 7, 25])
def test_limits_the_number_of_runs(runs):
    g = network(depth=1)
    (found,) = bench(g, random_inputs(g), [Variant()], seconds=60, runs=runs)
    assert len(found.samples) == runs


def test_measures_graphs_with_data_dependent_shapes():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3, 4))
    g.output("y", g.reduce_sum(x, g.input("axes", og.s32, (1,))))
    (found,) = bench(g, random_inputs(g), [Variant()], seconds=0.0)
    assert len(found.samples) == 10


@pytest.mark.parametrize("seconds", [-1, float("nan"), 10**400, True, "1", None])
def test_rejects_invalid_seconds(seconds):
    g = network(depth=1)
    with pytest.raises(og.ArgumentError, match=r"seconds: .*; expected a number, 0 to"):
        bench(g, random_inputs(g), [Variant()], seconds=seconds)
