"""Caches that grow: which arrays have room behind them, which inputs set shapes, and when a cache is copied."""

import itertools

import numpy as np
import pytest

import onegraph as og
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.builder.graph import DataGraph
from onegraph.opset.shapes import dense_strides
from onegraph.runtime.arguments import value_inputs
from onegraph.runtime.growing import (
    AHEAD,
    SMALL,
    SPARE,
    Growing,
    Grown,
    Growth,
    Room,
    capacity_of,
    growths_of,
    room_for,
)


def known_capacity(shape, strides, axis):
    """The first capacity whose dense array has these strides where a dim is above 1; 0 where each has them."""
    for capacity in range(max(shape[axis], 1), 26):
        dense = dense_strides((*shape[:axis], capacity, *shape[axis + 1 :]))
        if all(have == want for have, want, dim in zip(strides, dense, shape, strict=True) if dim > 1):
            return 0 if all(dim == 1 for dim in shape[:axis]) else capacity
    return None


def test_capacity_is_that_of_a_dense_array():
    counts = {None: 0, 0: 0, 1: 0}
    for shape in ((2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 4), (3, 1, 1)):
        for axis, strides in itertools.product(range(3), itertools.product((1, 4, 8, 12, 20, 24), repeat=3)):
            found = capacity_of(shape, strides, axis)
            assert found == known_capacity(shape, strides, axis), (shape, strides, axis)
            counts[found and 1] += 1
    assert min(counts.values()) > 20


def test_arrays_of_odd_strides_begin_no_cache():
    assert capacity_of((2, 3, 4), (14, 4, 1), 1) is None
    assert capacity_of((2, 3, 4), (8, 4, 1), 1) is None
    assert capacity_of((2, 0, 4), (8, 4, 1), 1) == 2
    assert capacity_of((2, 3, 0), (8, 4, 1), 1) is None


@pytest.mark.parametrize(("tokens", "room"), [(0, 1), (1, 2), (7, 8), (8, 16), (1023, 1024), (1024, 2048)])
def test_room_is_a_power_of_two_and_some(tokens, room):
    assert room_for(tokens) == room + SPARE


def decoder(tokens=None, heads=2, more=1):
    graph = og.Graph()
    past = graph.input("past", og.f32, (1, heads, tokens, 8))
    new = graph.input("new", og.f32, (1, heads, more, 8))
    graph.output("present", graph.concat(past, new, axis=-2))
    return graph


def growths(graph):
    return growths_of(graph, {name: tensor.shape for name, tensor in graph.inputs.items()})


def test_outputs_that_begin_with_an_input_grow():
    assert growths(decoder()) == (Growth("past", "present", 2, 0, 0),)
    assert growths(decoder(5)) == ()
    graph = og.Graph()
    unknown = [graph.input(name, og.f32, None) for name in ("past", "new")]
    graph.output("present", graph.concat(*unknown, axis=2))
    assert growths(graph) == ()
    for change in ("order", "axis", "twice", "strides", "made", "relu"):
        graph = og.Graph()
        strides = (256, 128, 8, 1) if change == "strides" else None
        shape = (1, 2, 16, 8) if change == "strides" else (1, 2, None, 8)
        past, new = graph.input("past", og.f32, shape, strides=strides), graph.input("new", og.f32, (1, 2, None, 8))
        first = graph.relu(past) if change == "made" else past
        pair = (new.name and new, first) if change == "order" else (first, new)
        total = graph.concat(*pair, axis=1 if change == "axis" else 2)
        graph.output("present", graph.relu(total) if change == "relu" else total)
        if change == "twice":
            graph.output("again", total)
        found = [(growth.past, growth.axis) for growth in growths(graph)]
        assert found == ([("new", 2)] if change == "order" else []), change


def cache(tokens, capacity):
    memory = aligned_empty((1, 2, capacity, 8), np.dtype(np.float32), zeroed=True)
    array = memory[:, :, :tokens]
    array[...] = np.arange(tokens * 16, dtype=np.float32).reshape(array.shape)
    return array


NEW = np.ones((1, 2, 1, 8), np.float32)
LARGE = SMALL // 64  # tokens


def test_small_and_foreign_caches_stay_as_they_are():
    growing = Growing(decoder())
    assert growing.prepared([cache(LARGE - 1, LARGE - 1), NEW]) is None
    assert growing.prepared([cache(LARGE, LARGE), NEW]) is None
    assert growing.prepared([cache(LARGE, LARGE).tolist(), NEW]) is None
    assert growing.prepared([np.zeros((2, 8), np.float32), NEW]) is None
    assert growing.prepared([cache(LARGE, LARGE)[..., ::2], NEW]) is None
    assert Growing(decoder(LARGE)).prepared([cache(LARGE, LARGE + 9), NEW]) is None
    arrays = [cache(3, 4), NEW]
    assert growing.prepared(arrays) == (arrays, 4)
    assert growing.moved == 0


@pytest.mark.parametrize(("capacity", "is_moved"), [(LARGE, True), (LARGE + AHEAD - 1, True), (LARGE + AHEAD, False)])
def test_returned_caches_move_where_little_room_is_left(capacity, is_moved):
    growing, past = Growing(decoder()), cache(LARGE, capacity)
    growing.note(past)
    assert growing.prepared([past, NEW], moves=False) == ([past, NEW], capacity)
    assert growing.prepared([past, NEW], grows=False) == (None if capacity == LARGE else ([past, NEW], capacity))
    arrays, found = growing.prepared([past, NEW])
    assert (arrays[0] is past, growing.moved) == (not is_moved, int(is_moved))
    assert found == (room_for(LARGE + AHEAD) if is_moved else capacity)
    np.testing.assert_array_equal(arrays[0], past)
    assert arrays[1] is NEW
    assert arrays[0].strides == tuple(4 * step for step in dense_strides((1, 2, found, 8)))


def host(graph, kind, *inputs, **attrs):
    return graph.op(kind, [*inputs], attrs, edition="host")


def test_inputs_that_set_shapes_are_vectors_or_numbers():
    graph = DataGraph()
    x, table = graph.input("x", og.f32, (2, 3)), graph.input("table", og.s64, (4, 2))
    batch, rank = graph.input("batch", og.s64, (1,)), graph.input("rank", og.s64, None)
    row = host(graph, "Gather", table, graph.constant(np.int64(0), dtype=og.s64), axis=0)
    dims = host(graph, "Concat", batch, row, host(graph, "Shape", x), axis=0)
    graph.output("y", host(graph, "Reshape", x, dims))
    graph.output("z", host(graph, "Reshape", x, rank))
    graph.input("unread", og.s64, (2,))
    assert value_inputs(graph) == ("batch", "rank")


def caches(tokens, total=None):
    """Two caches, of which one has nothing outside of its tokens."""
    graph = DataGraph()
    for name, batch in (("key", 2), ("value", 1)):
        past, new = graph.input(name, og.f32, (batch, tokens, 4)), graph.input(f"new_{name}", og.f32, (batch, total, 4))
        graph.output(f"present_{name}", graph.concat(past, new, axis=1))
    return graph


@pytest.mark.parametrize(
    ("tokens", "more", "room", "longer"),
    [
        (3, 2, 9, 9),
        (3, 6, 9, 9),
        (3, 7, 9, room_for(10)),
        (3, 1, 3, room_for(4)),
        (3, None, 9, None),
        (None, 1, 9, None),
    ],
)
def test_caches_are_laid_out_in_memory_with_room(tokens, more, room, longer):
    growing, graph = Growing(caches(None, 1)), caches(tokens, more)
    before = {name: tensor for side in (graph.inputs, graph.outputs) for name, tensor in side.items()}
    assert growing.laid_out(graph, room) is graph
    after = {**graph.inputs, **graph.outputs}
    strides = {name: tensor.strides for name, tensor in after.items() if tensor.strides is not None}
    wanted = {"key": (4 * room, 4, 1), "present_key": longer and (4 * longer, 4, 1)}
    assert strides == (wanted if longer else {})
    assert all(after[name] is tensor for name, tensor in before.items() if name not in strides)
    assert all((after[name].id, after[name].shape) == (before[name].id, before[name].shape) for name in strides)
    assert graph.ops[0].inputs[0] is before["key"]
    assert graph.tensor("key") is after["key"]


@pytest.mark.parametrize(
    ("span", "size", "memory", "alone", "moved", "found"),
    [
        (64, 64, True, True, 0, True),
        (65, 64, True, True, 0, False),
        (64, 64, False, True, 0, False),
        (64, 64, True, False, 0, False),
        (64, 64, True, True, 1, False),
    ],
)
def test_an_array_lies_behind_the_beginning_of_its_memory(span, size, memory, alone, moved, found):
    whole = np.zeros(128, np.uint8)
    row = whole[16 + 4 * moved :]
    past = np.ndarray((2,), np.float32, row.base, 16 + 4 * moved)
    others = [] if alone else [whole[:1]]
    del row
    room = Room(lambda: past.base if memory else past, 16, size)
    present = room.shared(Grown(np.dtype(np.float32), (4,), (8,), span, 99), past, 1)
    assert (present is not None) is found
    assert present is None or (present.shape, present.strides, present.base is past.base) == ((4,), (8,), True)
    assert present is None or present.ctypes.data == past.ctypes.data
    del others
