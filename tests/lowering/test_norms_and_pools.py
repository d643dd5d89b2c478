"""Normalizations, pools and rotations as ops, beside their definitions in numpy and in plain loops."""

import itertools

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.lowering import norms, rotary
from onegraph.lowering import windows as w
from onegraph.lowering.emitter import Emitter, Unsettled
from onegraph.lowering.windows import Window
from onegraph.transform.part import without_unread

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def lowered(lower, *arrays, shape=None):
    """What a lowering of inputs computes, and the kinds of its ops; ``shape`` is stated for the first input."""
    graph = og.Graph()
    types = [og.s64 if array.dtype == np.int64 else array.dtype for array in arrays]
    ends = [graph.input(f"x{n}", types[n], array.shape) for n, array in enumerate(arrays)]
    if shape is not None:
        ends[0] = graph.input("x", arrays[0].dtype, shape)
    graph.output("y", lower(Emitter(graph), *ends))
    given = {f"x{n}": array for n, array in enumerate(arrays)} | ({} if shape is None else {"x": arrays[0]})
    with np.errstate(all="ignore"):
        found = reference.run(graph, given)["y"]
    return found, [op.kind for op in without_unread(graph).ops]


def close(found, wanted):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


X, GAMMA, BETA = drawn(2, 3, 4), drawn(4), drawn(4)


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("affine", list(itertools.product([0, 1], repeat=2)), ids=str)
def test_layers_are_normalized_by_the_definition(axis, affine):
    dims = X.shape[axis % 3 :]
    gamma, beta = (drawn(*dims) if one else None for one in affine)
    found, kinds = lowered(lambda e, x: norms.layer_norm(e, x, gamma, beta, axis, 1e-3)[0], X)
    axes = tuple(range(axis % 3, 3))
    normal = (X - X.mean(axes, keepdims=True)) / np.sqrt(X.var(axes, keepdims=True) + 1e-3)
    close(found, normal * (1 if gamma is None else gamma) + (0 if beta is None else beta))
    assert kinds.count("LayerNorm") == 1
    mean, _ = lowered(lambda e, x: norms.layer_norm(e, x, gamma, beta, axis, 1e-3)[1], X)
    close(mean, X.mean(axes, keepdims=True))
    variance, _ = lowered(lambda e, x: norms.layer_norm(e, x, gamma, beta, axis, 1e-3)[2], X)
    close(variance, X.var(axes, keepdims=True))


def test_layers_of_an_unknown_batch_are_normalized():
    found, _ = lowered(lambda e, x: norms.layer_norm(e, x, None, None, 1, 1e-3)[0], X, shape=(None, 3, 4))
    close(found, (X - X.mean((1, 2), keepdims=True)) / np.sqrt(X.var((1, 2), keepdims=True) + 1e-3))
    for shape, affine in (((2, None, 4), (None, None)), ((2, 3, None), (GAMMA, None)), (None, (None, None))):
        graph = og.Graph()
        with pytest.raises(Unsettled):
            norms.layer_norm(
                Emitter(graph), graph.input("x", og.f32, shape), *affine, 1 if affine[0] is None else 2, 1e-3
            )


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("axis", [1, -1])
def test_vectors_have_the_length_one(power, axis):
    zeros = X.copy()
    zeros[0, 0] = zeros[1, :, 1] = 0
    size = np.linalg.norm(zeros, power, axis, keepdims=True)
    found, _ = lowered(lambda e, x: norms.lp_norm(e, x, axis, power), zeros)
    close(found, np.where(size == 0, 0, zeros / np.where(size == 0, 1, size)))


def test_other_norms_are_those_of_the_definition():
    found, _ = lowered(lambda e, x: norms.rms_norm(e, x, GAMMA, 2, 1e-3), X)
    close(found, X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-3) * GAMMA)
    found, _ = lowered(lambda e, x: norms.rms_norm(e, x, None, 2, 1e-3), X)
    close(found, X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-3))
    found, _ = lowered(lambda e, x: norms.mean_variance_norm(e, x, [0, 2]), X)
    close(found, (X - X.mean((0, 2), keepdims=True)) / (X.std((0, 2), keepdims=True) + 1e-9))
    image, gamma, beta = drawn(2, 4, 3, 2), drawn(4), drawn(4)
    parts = image.reshape(2, 2, 12)
    normal = ((parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-3)).reshape(
        image.shape
    )
    found, _ = lowered(lambda e, x: norms.group_norm(e, x, gamma, beta, 2, 1e-3), image)
    close(found, normal * gamma[:, None, None] + beta[:, None, None])
    found, _ = lowered(lambda e, x: norms.group_norm(e, x, None, None, 2, 1e-3), image)
    close(found, normal)


@pytest.mark.parametrize("beta", [0.75, 0.5])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_neighbouring_channels_share_a_response(size, beta):
    image = drawn(2, 5, 3)
    total = np.zeros_like(image)
    for channel in range(5):
        first, last = channel - (size - 1) // 2, channel + -(-(size - 1) // 2)
        total[:, channel] = (image[:, max(first, 0) : last + 1] ** 2).sum(1)
    found, kinds = lowered(lambda e, x: norms.local_response(e, x, size, 0.3, beta, 2.0), image)
    close(found, image / (2 + 0.3 / size * total) ** beta)
    assert ("Pow" in kinds) == (beta == 0.5)


@pytest.mark.parametrize(("interleaved", "whole"), [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("angles", [1, 3])
def test_pairs_are_turned_by_their_angle(interleaved, whole, angles):
    """Numbers behind the turned ones stay as they are."""
    src, angle = drawn(2, 3, 4, 6), RNG.uniform(0, 6, (2, 1, 4, angles)).astype(np.float32)
    table = angle if not whole else np.repeat(angle, 2, 3) if interleaved else np.concatenate([angle, angle], 3)
    cos, sin = np.cos(table), np.sin(table)
    wanted = src.copy()
    for pair in range(angles):
        a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + angles)
        c, s = np.cos(angle[..., pair]), np.sin(angle[..., pair])
        wanted[..., a], wanted[..., b] = src[..., a] * c - src[..., b] * s, src[..., a] * s + src[..., b] * c
    flags = {"interleaved": interleaved, "whole": whole}
    for function in (rotary.rotated, rotary.composed_rotation):
        close(lowered(lambda e, *ends, f=function: f(e, *ends, **flags), src, cos, sin)[0], wanted)


def test_the_last_tokens_choose_rows_of_a_table():
    table = drawn(8, 3)
    found, _ = lowered(lambda e, t, n: rotary.rows_of(e, t, n, 3), table, np.int64([3, 5, 2]))
    close(found, np.stack([table[[0, 1, 2]], table[[2, 3, 4]], table[[0, 1, 2]]])[:, None])


def pooled(image, kernel, window, ceil, reduce):
    """By window, what a function makes of the elements in it and of their number with the padding."""
    begin, end, step, apart = (one[0] for one in (window.begin, window.end, window.strides, window.dilations))
    size = image.shape[2]
    reach = (kernel - 1) * apart + 1
    free = size + begin + end - reach
    count = (-(-free // step) if ceil else free // step) + 1
    if ceil and (count - 1) * step >= size + begin:
        count -= 1
    columns = []
    for start in range(-begin, -begin + count * step, step):
        places = [start + at * apart for at in range(kernel)]
        inside = [at for at in places if 0 <= at < size]
        columns.append(reduce(image[:, :, inside], sum(-begin <= at < size + end for at in places)))
    return np.stack(columns, -1)


GEOMETRIES = [
    (2, Window([1], [0], [0], [1]), False),
    (3, Window([2], [1], [1], [1]), False),
    (3, Window([2], [1], [1], [1]), True),
    (3, Window([2], [0], [1], [2]), False),
    (2, Window([3], [1], [0], [1]), True),
    (3, Window([2], [1], [0], [1]), True),
]


@pytest.mark.parametrize(("kernel", "window", "ceil"), GEOMETRIES)
def test_pools_are_those_of_plain_loops(kernel, window, ceil):
    image = drawn(2, 3, 8)
    found, _ = lowered(lambda e, x: w.max_pool(e, x, [kernel], window, ceil=ceil), image)
    close(found, pooled(image, kernel, window, ceil, lambda part, _: part.max(-1)))
    codes = RNG.integers(0, 255, (2, 3, 8), np.uint8)
    found, _ = lowered(lambda e, x: w.max_pool(e, x, [kernel], window, ceil=ceil), codes)
    close(found, pooled(codes, kernel, window, ceil, lambda part, _: part.max(-1)))
    for excludes in (True, False):
        found, _ = lowered(
            lambda e, x, flag=excludes: w.average_pool(e, x, [kernel], window, ceil=ceil, exclude_pad=flag), image
        )
        mean = pooled(
            image,
            kernel,
            window,
            ceil,
            lambda part, count, flag=excludes: part.sum(-1) / (part.shape[-1] if flag else count),
        )
        close(found, mean)
    for power in (1, 2, 3):
        found, _ = lowered(lambda e, x, p=power: w.lp_pool(e, x, [kernel], window, p, ceil=ceil), image)
        wanted = pooled(image, kernel, window, ceil, lambda part, _, p=power: (np.abs(part) ** p).sum(-1) ** (1 / p))
        close(found, wanted)


WAITING = {
    "max": lambda e, x, window: w.max_pool(e, x, [3], window, ceil=True),
    "average": lambda e, x, window: w.average_pool(e, x, [3], window, ceil=True),
    "average apart": lambda e, x, window: w.average_pool(e, x, [3], Window([2], [0], [0], [2])),
    "lp": lambda e, x, window: w.lp_pool(e, x, [3], window, 2, ceil=True),
}


@pytest.mark.parametrize("pool", WAITING)
def test_pools_of_unknown_dims_wait_where_counts_matter(pool):
    graph, window = og.Graph(), Window([2], [0], [0], [1])
    emit, x = Emitter(graph), graph.input("x", og.f32, (2, 3, None))
    with pytest.raises(Unsettled):
        WAITING[pool](emit, x, window)
    plain = w.max_pool(emit, x, [3], window, ceil=False), w.average_pool(emit, x, [3], window)
    assert {tensor.shape for tensor in (*plain, w.lp_pool(emit, x, [3], window, 2, ceil=False))} == {(2, 3, None)}
