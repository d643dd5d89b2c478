"""The gradients of random graphs against PyTorch's autograd, in float64 and compiled in f32."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.torch_twins import BUILDS, Twins  # noqa: E402
from helpers.wide_reference import run_wide  # noqa: E402

# Ops whose results jump, so that rounding to f32 could change an element by much.
JUMPING = frozenset(["choice", "modulo", "host_unary", "unary", "top"])
ORDINARY = sorted(BUILDS)
ELSEWHERE = frozenset(["gathered_sums"])  # compiled in tests/from_torch/test_torch_special_values.py
STEADY = sorted(set(BUILDS) - JUMPING - ELSEWHERE)


def compare(seed: int, count: int, names: list[str], coarse: bool) -> tuple[Twins, list[Any], list[Any]]:
    """Build a graph, differentiate it, and compare with autograd in float64."""
    twins = Twins(seed, coarse)
    twins.grow(count, names)
    sinks, sources = twins.sinks(), twins.sources()
    sinks = [one for one in sinks if one.theirs.requires_grad]
    if not sinks:
        return twins, [], []
    seeds = [twins.input(*one.shape) for one in sinks]
    wanted = torch.autograd.grad(
        [one.theirs for one in sinks],
        [one.theirs for one in sources],
        [one.theirs.detach() for one in seeds],
        allow_unused=True,
    )
    exact = [np.zeros(one.shape) if part is None else part.numpy() for one, part in zip(sources, wanted, strict=True)]
    ours = ([one.ours for one in side] for side in (sinks, sources, seeds))
    gradients = [*twins.graph.gradient(*ours)]
    found = run_wide(twins.graph, twins.arrays, gradients)
    for source, ours, theirs in zip(sources, found, exact, strict=True):  # type: ignore[assignment]
        size = max(float(np.abs(theirs).max(initial=0)), 1)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7 * size, err_msg=f"{source.ours.name}, {seed}")
    return twins, gradients, exact


@pytest.mark.parametrize("name", ORDINARY)
def test_op_has_the_gradient_of_autograd(name):
    for turn in range(12):
        compare(zlib.crc32(name.encode()) + turn, 1, [name], coarse=False)


@pytest.mark.parametrize("name", ORDINARY)
def test_op_has_autograds_gradient_at_kinks(name):
    for turn in range(12):
        compare(zlib.crc32(name.encode()) + turn, 1, [name], coarse=True)


@pytest.mark.parametrize("block", range(20))
def test_random_graph_has_the_gradient_of_autograd(block):
    for turn in range(15):
        compare(1000 * block + turn, 2 + turn, ORDINARY, coarse=False)


@pytest.mark.library
@pytest.mark.parametrize("block", range(10))
def test_compiled_gradient_agrees_with_autograd(block):
    twins, gradients, exact = compare(77_000 + block, 8, STEADY, coarse=False)
    for number, one in enumerate(gradients):
        twins.graph.output(f"d{number}", one)
    model = twins.graph.compile()
    given = {name: one.astype(np.float32) for name, one in twins.arrays.items() if name in twins.graph.inputs}
    results = model(**given)
    for ours, theirs in zip([results] if len(gradients) == 1 else results, exact, strict=True):
        size = max(float(np.abs(theirs).max(initial=0)), 1e-3)
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4 * size)
