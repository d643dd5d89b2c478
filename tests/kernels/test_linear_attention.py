"""Linear attention by the package's kernel, against float64."""

import numpy as np
import pytest
from helpers.host_cases import HostCase, graph_of

import onegraph as og
from onegraph.compiler.kernels import native
from onegraph.opset.dtypes import OF_NUMPY

TESTED_KERNELS = ("linear_attention",)

pytestmark = pytest.mark.library
RNG = np.random.default_rng(0)


def operands(batch, tokens, heads, queries, size, depth, decays=None, rates=None):
    """Random operands of ordinary size; ``decays`` of a head and ``rates`` of a token if there are any."""
    shapes = [(batch, tokens, heads, queries, size), (batch, tokens, heads, size), (batch, tokens, heads, depth)]
    arrays = [RNG.standard_normal(shape) / shape[-1] ** 0.5 for shape in shapes]
    arrays.append(RNG.standard_normal((batch, heads, size, depth)))
    arrays.append(None if decays is None else RNG.uniform(0.5, 1, (batch, tokens, heads, decays)))
    arrays.append(None if rates is None else RNG.uniform(0, 1, (batch, tokens, rates)))
    return [None if array is None else array.astype(np.float32) for array in arrays]


def attended(query, key, value, state, decay=None, rate=None):
    """By the definition, head by head, in float64."""
    query, key, value, state = (array.astype(np.float64) for array in (query, key, value, state))
    batch, tokens, heads = query.shape[:3]
    dst, state = np.empty((*query.shape[:4], value.shape[3])), state.copy()
    for row, token, head in ((b, t, h) for b in range(batch) for t in range(tokens) for h in range(heads)):
        own, added = state[row, head], value[row, token, head]
        if decay is not None:
            own *= decay[row, token, head].astype(np.float64)[:, None]
        if rate is not None:
            share = rate[row, token, head if rate.shape[2] > 1 else 0]
            added = share * (added - key[row, token, head] @ own)
        own += np.outer(key[row, token, head], added)
        dst[row, token, head] = query[row, token, head] @ own
    return dst, state


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1, 1, 1), (2, 5, 3, 1, 8, 6), (1, 1, 2, 3, 17, 70), (2, 3, 2, 2, 16, 128), (1, 7, 1, 1, 33, 97)],
    ids=str,
)
@pytest.mark.parametrize(("decay", "rate"), [(None, None), ("all", None), ("row", "head"), ("all", "token")])
def test_agrees_with_float64(sizes, decay, rate):
    _, _, heads, _, size, _ = sizes
    arrays = operands(*sizes, {"all": 1, "row": size}.get(decay), {"token": 1, "head": heads}.get(rate))
    g, given = graph_of(HostCase("LinearAttention", arrays, []))
    model = g.compile()
    assert [part.executor for part in model.report().partitions] == ["kernel"]
    for found, wanted in zip(model(**given), attended(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * max(np.abs(wanted).max(), 1))


@pytest.mark.parametrize(("level", "threads"), [(0, 1), (1, 1), (2, 1), (3, 3), (3, 64)])
def test_every_instruction_set_and_number_of_threads_gives_the_same_bits(level, threads, monkeypatch):
    arrays = operands(2, 9, 4, 2, 32, 200, 32, 4)
    monkeypatch.setattr(native, "LEVEL", level)
    found = graph_of(HostCase("LinearAttention", arrays, []))[0].compile(threads=threads)(*arrays)
    monkeypatch.setattr(native, "LEVEL", 0)
    plain = graph_of(HostCase("LinearAttention", arrays, []))[0].compile(threads=1)(*arrays)
    for array, first, wanted in zip(found, plain, attended(*arrays), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=0, atol=1e-5)
        assert np.array_equal(array, first)


def test_special_numbers_reach_what_they_meet_alone():
    nan, inf = np.nan, np.inf
    arrays = operands(1, 3, 2, 1, 4, 3, 1, 2)
    arrays[2][0, 1, 0, 2], arrays[3][0, 1, 0, 1] = nan, inf
    g, given = graph_of(HostCase("LinearAttention", arrays, []))
    with np.errstate(invalid="ignore"):
        wanted = attended(*arrays)
    for found, exact in zip(g.compile()(**given), wanted, strict=True):
        assert np.array_equal(np.isnan(found), np.isnan(exact))
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_the_tokens():
    arrays = [array.astype(np.float64) for array in operands(1, 3, 2, 2, 4, 3, 4, 1)]
    g, given = graph_of(HostCase("LinearAttention", arrays, []))
    factors = [RNG.standard_normal(tensor.shape) for tensor in g.outputs.values()]
    inputs = [*g.inputs.values()]
    weights = [g.constant(array, dtype=OF_NUMPY[array.dtype]) for array in factors]
    grads = g.gradient([*g.outputs.values()], inputs, weights)
    for name, tensor in zip(given, grads, strict=True):
        g.output(f"d{name}", tensor)
    model = g.compile()
    found = model(**given)._asdict()

    def total(arrays):
        return sum((one * factor).sum() for one, factor in zip(attended(*arrays), factors, strict=True))

    for place, name in enumerate(given):
        step = RNG.standard_normal(arrays[place].shape) * 1e-6
        sides = [[*arrays[:place], arrays[place] + sign * step, *arrays[place + 1 :]] for sign in (1, -1)]
        difference = (total(sides[0]) - total(sides[1])) / 2
        np.testing.assert_allclose((found[f"d{name}"] * step).sum(), difference, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(
    ("place", "shape", "text"),
    [
        (0, (1, 2, 2, 4), "5 axes"),
        (1, (1, 2, 2, 5), "key"),
        (3, (1, 2, 4, 4), "state"),
        (4, (1, 2, 2, 3), "decay"),
        (5, (1, 2, 3), "rate"),
    ],
)
def test_operands_that_do_not_fit_are_refused(place, shape, text):
    arrays = operands(1, 2, 2, 1, 4, 3, 4, 2)
    arrays[place] = np.zeros(shape, np.float32)
    with pytest.raises(og.SpecError, match=text):
        graph_of(HostCase("LinearAttention", arrays, []))
