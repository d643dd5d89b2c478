"""Sums over named axes beside numpy.einsum, blocks of images in plain loops, and samples beside the host op."""

import itertools

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.lowering.blocks import MOST_PLACES, from_blocks, to_blocks
from onegraph.lowering.einsum import einsum
from onegraph.lowering.emitter import Emitter, NotLowered, Unsettled
from onegraph.lowering.sampling import composed_grid_sample, grid_sample
from onegraph.lowering.windows import Window

RNG = np.random.default_rng(0)


def drawn(*shape):
    """Small whole numbers, whose sums f32 holds exactly."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


def lowered(lower, *arrays):
    """What a lowering of inputs of these arrays computes."""
    graph = og.Graph()
    ends = [graph.input(f"x{place}", og.f32, array.shape) for place, array in enumerate(arrays)]
    graph.output("y", lower(Emitter(graph), *ends))
    return reference.run(graph, {f"x{place}": array for place, array in enumerate(arrays)})["y"]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("kj,ji", [(2, 3), (3, 4)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ij->i", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,i->", [(3,), (3,)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("ij,ik->ijk", [(2, 3), (2, 4)]),
        ("ab,cd->", [(2, 3), (4, 5)]),
        ("ab,cd->bc", [(2, 3), (4, 5)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 4, 5)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,jk,ik->i", [(2, 3), (3, 4), (2, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 6)]),
        ("...i->...", [(2, 3)]),
        ("i...,i...->...", [(3, 2, 4), (3, 2, 4)]),
        ("i...", [(3, 2)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij,jk->ik", [(2, 3), (3, 1)]),
        (",ij->ij", [(), (2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("biik->kb", [(2, 3, 3, 4)]),
        ("iji,jk->ik", [(3, 2, 3), (2, 4)]),
        ("...ii->...i", [(2, 1, 3, 3)]),
    ],
)
def test_sums_of_named_axes_are_those_of_numpy(equation, shapes):
    arrays = [drawn(*shape) for shape in shapes]
    found = lowered(lambda emit, *ends: einsum(emit, equation, ends), *arrays)
    np.testing.assert_array_equal(found, np.einsum(equation, *arrays))


def test_diagonals_of_other_dims_and_unknown_dims_are_not_lowered():
    graph = og.Graph()
    matrix, unknown = graph.input("x", og.f32, (3, 4)), graph.input("u", og.f32, (3, None))
    with pytest.raises(NotLowered, match="dims 3 and 4 of the axis i"):
        einsum(Emitter(graph), "ii->i", [matrix])
    with pytest.raises(Unsettled, match="unknown dims"):
        einsum(Emitter(graph), "ij->j", [unknown])


WINDOWS = [
    ((5, 6), (2, 3), Window([1, 1], [0, 0], [0, 0], [1, 1])),
    ((5, 6), (2, 3), Window([2, 1], [1, 0], [0, 1], [1, 2])),
    ((5, 6), (3, 2), Window([3, 2], [1, 2], [2, 1], [1, 1])),
    ((4, 4), (1, 1), Window([2, 3], [0, 0], [0, 0], [1, 1])),
    ((7,), (3,), Window([2], [1], [1], [2])),
]


def places_of_blocks(image, kernel, window):
    """By block and place in it, the place in the image; None in the padding."""
    starts = [
        range(-window.begin[axis], size + window.end[axis] - window.dilations[axis] * (kernel[axis] - 1), step)
        for axis, (size, step) in enumerate(zip(image, window.strides, strict=True))
    ]
    for block, start in enumerate(itertools.product(*starts)):
        for number, place in enumerate(itertools.product(*map(range, kernel))):
            at = [begin + step * apart for begin, step, apart in zip(start, place, window.dilations, strict=True)]
            yield (
                block,
                number,
                tuple(at) if all(0 <= one < size for one, size in zip(at, image, strict=True)) else None,
            )


@pytest.mark.parametrize(("image", "kernel", "window"), WINDOWS)
def test_images_become_blocks_and_blocks_images(image, kernel, window):
    src = drawn(2, 3, *image)
    places = [*places_of_blocks(image, kernel, window)]
    blocks, per = 1 + max(block for block, *_ in places), int(np.prod(kernel))
    wanted = np.zeros((2, 3, per, blocks), np.float32)
    for block, number, at in places:
        if at is not None:
            wanted[:, :, number, block] = src[(..., *at)]
    found = lowered(lambda emit, x: to_blocks(emit, x, kernel, window), src)
    np.testing.assert_array_equal(found, wanted.reshape(2, 3 * per, blocks))
    rows = drawn(2, 3, per, blocks)
    total = np.zeros((2, 3, *image), np.float32)
    for block, number, at in places:
        if at is not None:
            total[(..., *at)] += rows[:, :, number, block]
    joined = rows.reshape(2, 3 * per, blocks)
    found = lowered(lambda emit, x: from_blocks(emit, x, image, kernel, window), joined)
    np.testing.assert_array_equal(found, total)


@pytest.mark.parametrize(("kernel", "fits"), [((8, 8), True), ((5, 13), False)])
def test_blocks_have_few_places(kernel, fits):
    graph = og.Graph()
    src = graph.input("x", og.f32, (1, 1, 13, 13))
    window = Window([1, 1], [0, 0], [0, 0], [1, 1])
    if fits:
        assert to_blocks(Emitter(graph), src, kernel, window).shape == (1, MOST_PLACES, 36)
    else:
        with pytest.raises(NotLowered, match="blocks of 65 elements"):
            to_blocks(Emitter(graph), src, kernel, window)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_samples_by_gathers_are_those_of_the_op(mode, padding, align_corners):
    """Places inside an image, at its edges and outside of it; images of one and two axes, and of one row."""
    for image, places in (((4,), (9,)), ((3, 5), (4, 6)), ((1, 2), (3, 3))):
        src = drawn(2, 3, *image)
        grid = RNG.uniform(-1.7, 1.7, (2, *places, len(image))).astype(np.float32)
        grid.reshape(2, -1)[:, :6] = [-1, 1, 0, -3, 2.5, 1e6]
        by_op = lowered(lambda e, x, at: grid_sample(e, x, at, mode, padding, align_corners=align_corners), src, grid)
        found = lowered(
            lambda e, x, at: composed_grid_sample(e, x, at, mode, padding, align_corners=align_corners), src, grid
        )
        np.testing.assert_allclose(found, by_op, rtol=1e-4, atol=1e-4)
