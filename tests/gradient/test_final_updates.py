"""Updates of variables that run last, over the old values: when they may, and that a step changes all or nothing."""

import signal
import time

import numpy as np
import pytest

import onegraph as og
from onegraph.native.library import address_of
from onegraph.native.watch import Watch

pytestmark = pytest.mark.library

SHAPE = 512, 256  # large enough for an update in place
START = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE) % 97
STEP = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)


def in_place(model):
    """The names of the variables that the program of an executable updates in place."""
    return model._programs.cache.latest().program.ending.variables


def doubled_memory(model):
    """The names of the variables that have two memories."""
    first, second = model._interface.state._memory
    return {name for name in first if first[name] is not second[name]}


def momentum():
    """w and its velocity v are updated together, and count by the library."""
    g = og.Graph()
    x = g.input("x", og.f32, SHAPE)
    w, v = g.variable("w", START), g.variable("v", np.zeros(SHAPE, np.float32))
    count = g.variable("count", np.zeros(1, np.float32))
    after = 0.5 * v + x
    g.assign(v, after)
    g.assign(w, w - 0.25 * after)
    g.assign(count, count + 1)
    g.output("sum", g.reduce_sum(w, axes=[0, 1]))
    return g


def test_large_updates_need_no_second_memory():
    model, w, v = momentum().compile(), START.astype(np.float64), np.zeros(SHAPE)
    bound = model.bind(x=STEP)
    for number in range(6):
        found = bound.run() if number % 2 else model(STEP)
        assert found == pytest.approx(w.sum(), rel=1e-5)
        v = 0.5 * v + STEP
        w = w - 0.25 * v
    np.testing.assert_allclose(model.variables["w"], w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.variables["v"], v, rtol=1e-5, atol=1e-5)
    assert model.variables["count"] == [6]
    assert in_place(model) == {"w", "v"}
    assert doubled_memory(model) == {"count"}


def test_one_op_may_be_the_whole_update():
    g = og.Graph()
    w = g.variable("w", START)
    g.assign(w, w - g.input("x", og.f32, SHAPE))
    model = g.compile()
    for _ in range(3):
        assert model(STEP) == ()
    np.testing.assert_allclose(model.variables["w"], START - 3 * STEP.astype(np.float64), rtol=1e-5, atol=1e-4)
    assert doubled_memory(model) == set()


# Where the old value is still needed ----------------------------------------------------------------------------------


def step_of(build):
    """A graph with the variables a and b and the input x, which ``build`` assigns."""
    g = og.Graph()
    build(g, g.variable("a", START), g.variable("b", STEP), g.input("x", og.f32, SHAPE))
    return g


def each_reads_both(g, a, b, x):
    g.assign(a, a + b * x)
    g.assign(b, b - a * x)


def the_values_change_places(g, a, b, x):
    g.assign(a, b + x * x)
    g.assign(b, a - x * x)


def a_later_op_reads_the_new_value(g, a, b, x):
    new = a - x * b
    g.assign(a, new)
    g.assign(b, g.multiply(g.softmax(new, axis=1), x))


def a_product_reads_the_new_value(g, a, b, x):
    new = a - x * b
    g.assign(a, new)
    g.output("y", g.matmul(new, x, transpose_b=True))


def an_output_is_the_old_value(g, a, b, x):
    g.assign(a, a + x * b)
    g.output("old", a)


def an_output_is_the_new_value(g, a, b, x):
    new = a + x * b
    g.assign(a, new)
    g.output("new", new)


def an_output_is_a_view_of_the_new_value(g, a, b, x):
    new = a + x * b
    g.assign(a, new)
    g.output("turned", g.static_transpose(new, order=[1, 0]))


def the_old_value_is_read_in_another_order(g, a, b, x):
    turned = g.static_reshape(g.static_transpose(a, order=[1, 0]), shape=SHAPE)
    g.assign(a, a + turned * x)


def one_number_of_a_changes_all(g, a, b, x):
    first = g.op("Slice", [a, *(g.constant(np.array(n), dtype=og.s64) for n in ([0, 0], [1, 1]))], edition="host")
    g.assign(a, a * x + first * x)


@pytest.mark.parametrize(
    "build",
    [
        each_reads_both,
        the_values_change_places,
        a_later_op_reads_the_new_value,
        a_product_reads_the_new_value,
        an_output_is_the_old_value,
        an_output_is_the_new_value,
        an_output_is_a_view_of_the_new_value,
        the_old_value_is_read_in_another_order,
        one_number_of_a_changes_all,
    ],
)
def test_every_reader_gets_the_old_value(build):
    g = step_of(build)
    model, bound = g.compile(), g.compile()
    run = bound.bind(x=STEP).run
    values = {"a": START, "b": STEP}
    for _ in range(3):
        expected = og.reference.run(g._as_step(), {"x": STEP, **values})
        values |= {name: expected[output] for name, output in g._next.items()}
        for results, one in ((model(STEP), model), (run(), bound)):
            found = results if isinstance(results, tuple) else (results,)
            for name, result in zip(g.outputs, found, strict=True):
                np.testing.assert_allclose(result, expected[name], rtol=1e-4, atol=1e-2, err_msg=name)
            for name, value in values.items():
                np.testing.assert_allclose(one.variables[name], value, rtol=1e-4, atol=1e-2, err_msg=name)


def test_profile_leaves_the_variables():
    model = momentum().compile()
    model(STEP)
    before = {name: model.variables[name] for name in model.variables}
    rows = model.profile(STEP, runs=2)
    assert any("kernel" in str(row) for row in str(rows).splitlines())
    for name, value in before.items():
        np.testing.assert_array_equal(model.variables[name], value)


# Caches ---------------------------------------------------------------------------------------------------------------

ROOM, HEADS, SIZE = 64, 2, 1024


def decoder(*, rows=1, dtype=og.f32, reads_old=False, more=None):
    """A step that writes tokens behind those of the caches k and v, and attends to all; n counts tokens."""
    g = og.Graph()
    new, step = g.input("new", dtype, (1, HEADS, rows, SIZE)), g.input("step", og.s64, (1,))
    past = np.zeros((1, HEADS, ROOM, SIZE), dtype.numpy)
    k, v, n = g.variable("k", past), g.variable("v", past + 1), g.variable("n", np.zeros(1, np.int64), dtype=og.s64)
    total = g.op("Add", [n, step], edition="host")
    if reads_old:
        g.output("old", g.reduce_sum(k, axes=[3], keep_dims=False))
    keys, values = g.extend_cache(k, new, total), g.extend_cache(v, new, total)
    g.output("y", g.op("CachedAttention", [new, keys, values, total], edition="host"))
    for variable, value in ((k, keys), (v, values), (n, total)):
        g.assign(variable, value)
    if more is not None:
        more(g, k, keys)
    return g


def tokens(count=1, dtype=np.float32):
    return STEP.ravel()[: HEADS * count * SIZE].reshape(1, HEADS, count, SIZE).astype(dtype), np.array([count])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("dtype", [og.f32, og.bf16], ids=str)
@pytest.mark.parametrize("way", ["call", "bound"])
def test_tokens_are_written_into_variables(way, dtype, rows):
    g = decoder(rows=rows, dtype=dtype)
    model, values = g.compile(), dict(g._initial)
    new, step = tokens(rows, dtype.numpy)
    run = model.bind(new=new, step=step).run if way == "bound" else lambda: model(new, step)
    for _ in range(3):
        expected = og.reference.run(g._as_step(), {"new": new, "step": step, **values})
        values = {name: expected[output] for name, output in g._next.items()}
        limit = {"rtol": 2e-2, "atol": 2e-2} if dtype is og.bf16 else {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(run().astype(np.float32), expected["y"].astype(np.float32), **limit)
        for name, value in values.items():
            np.testing.assert_array_equal(model.variables[name], value)
    assert in_place(model) == {"k", "v"}
    assert doubled_memory(model) == {"n"}
    assert "3 variables" in str(model.report())


def test_a_step_writes_the_pages_of_new_tokens_alone():
    model, (new, step) = decoder().compile(), tokens()
    model(new, step)
    cache = model._interface.state.present["k"]
    first, behind = address_of(cache), address_of(cache) + SIZE * cache.itemsize * 2
    spans = [(first, SIZE * cache.itemsize), (behind, (ROOM - 2) * SIZE * cache.itemsize)]  # but for the second token
    watch = Watch(spans, 1)
    model(new, step)
    assert not watch.is_changed()
    np.testing.assert_array_equal(cache[0, :, 1], new[0, :, 0])


def the_old_keys_are_an_output(g, k, keys):
    g.output("past", k)


def the_old_keys_are_read_behind(g, k, keys):
    g.output("more", g.matmul(g.relu(keys), k, transpose_b=True))


def another_variable_becomes_the_old_keys(g, k, keys):
    g.assign(g.variable("other", np.zeros(k.shape, np.float32)), k)


@pytest.mark.parametrize(
    ("more", "is_in_place"),
    [
        (the_old_keys_are_an_output, {"v"}),
        (the_old_keys_are_read_behind, {"v"}),
        (another_variable_becomes_the_old_keys, {"v"}),
        (None, {"k", "v"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_old_tokens_that_are_read_are_not_written_over(more, is_in_place):
    g = decoder(more=more, reads_old=more is None)
    model, (new, step), values = g.compile(), tokens(), dict(g._initial)
    for _ in range(3):
        expected = og.reference.run(g._as_step(), {"new": new, "step": step, **values})
        values = {name: expected[output] for name, output in g._next.items()}
        found = model(new, step)
        for name, result in zip(g.outputs, found if isinstance(found, tuple) else [found], strict=True):
            np.testing.assert_allclose(result, expected[name], rtol=1e-4, atol=1e-2, err_msg=name)
        for name, value in values.items():
            np.testing.assert_array_equal(model.variables[name], value)
    assert in_place(model) == is_in_place


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("way", ["call", "bound"])
def test_a_failed_step_takes_back_its_tokens(way, in_c):
    def more(g, k, keys):
        picked = g.op("Gather", [keys, g.input("index", og.s32, (1,))], {"axis": 2}, edition="host")
        g.output("picked", picked)
        if not in_c:
            g.output("again", g.input("copied", og.f32, (1,)))

    model, (new, step) = decoder(more=more).compile(), tokens()
    given = {} if in_c else {"copied": np.ones(1, np.float32)}
    start = np.arange(HEADS * ROOM * SIZE, dtype=np.float32).reshape(1, HEADS, ROOM, SIZE)
    model.variables.update(k=start)
    for _ in range(2):
        model(new, step, np.int32([1]), **given)
    assert in_place(model) == {"k", "v"}
    assert model._programs.cache.latest().program.in_c == in_c
    before = {name: model.variables[name] for name in model.variables}
    bad = {"new": 2 * new, "step": step, "index": np.int32([ROOM]), **given}
    with pytest.raises(og.ArgumentError, match="Gather"):
        model.bind(**bad).run() if way == "bound" else model(**bad)
    for name, value in before.items():
        np.testing.assert_array_equal(model.variables[name], value)
    model.profile(new, step, np.int32([1]), **given, runs=2)
    for name, value in before.items():
        np.testing.assert_array_equal(model.variables[name], value)
    with pytest.raises(og.ArgumentError, match="64, the tokens that the cache has room for"):
        model(new, np.array([ROOM]), np.int32([1]), **given)
    model(new, step, np.int32([1]), **given)
    np.testing.assert_array_equal(model.variables["k"][0, :, :3], np.repeat(new[0], 3, 1))
    np.testing.assert_array_equal(model.variables["k"][0, :, 3:], start[0, :, 3:])


# All or nothing -------------------------------------------------------------------------------------------------------


def test_a_failed_step_leaves_every_variable():
    g = momentum()
    rows = g.op("Gather", [g.input("table", og.f32, (2,)), g.input("index", og.s32, (1,))], edition="host")
    g.output("picked", rows)
    model, table = g.compile(), np.ones(2, np.float32)
    good, bad = np.array([1], np.int32), np.array([7], np.int32)
    model(STEP, table, good)
    before = {name: model.variables[name] for name in model.variables}
    bound = model.bind(x=STEP, table=table, index=bad)
    for run in (lambda: model(STEP, table, bad), bound.run):
        with pytest.raises(og.ArgumentError, match="Gather"):
            run()
        for name, value in before.items():
            np.testing.assert_array_equal(model.variables[name], value)
    model(STEP, table, good)
    assert model.variables["count"] == [2]
    assert in_place(model) == {"w", "v"}


def counters(*, in_c):
    """Variables that hold the number of steps: w is updated in place, count exchanged, copied filled in Python."""
    g = og.Graph()
    w, count = g.variable("w", np.zeros(SHAPE, np.float32)), g.variable("count", np.zeros(1, np.float32))
    ones = g.constant(np.ones(SHAPE, np.float32))
    g.assign(w, w + ones)
    g.assign(count, count + 1)
    if not in_c:
        copied = g.variable("copied", np.zeros(1, np.float32))
        g.assign(copied, count)
    return g


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("way", ["call", "bound"])
def test_interrupts_never_leave_half_a_step(in_c, way):
    model = counters(in_c=in_c).compile()
    run = model.bind().run if way == "bound" else model
    run()
    assert in_place(model) == {"w"}
    assert model._programs.cache.latest().program.in_c == in_c
    pauses = np.random.default_rng(0).uniform(1e-4, 2e-3, 60)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    interrupted = 0
    try:
        for pause in pauses:
            try:
                signal.setitimer(signal.ITIMER_REAL, pause)
                end = time.monotonic() + 1
                while time.monotonic() < end:
                    run()
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            count = model.variables["count"][0]
            assert (model.variables["w"] == count).all()
            if not in_c:
                assert model.variables["copied"] == count - 1
    finally:
        signal.signal(signal.SIGALRM, old)
    assert interrupted == len(pauses)
    run()
    assert model.variables["count"] == count + 1


def test_a_program_without_the_update_in_place_gets_memory():
    g = og.Graph()
    x, w = g.input("x", og.f32, (None, SHAPE[1])), g.variable("w", START)
    g.assign(w, w + g.reduce_sum(x, axes=[0], keep_dims=True))
    model, expected = g.compile(), START.astype(np.float64)
    for rows in (1, 3, 1, 3, 3, 1):
        model(STEP[:rows])
        expected = expected + STEP[:rows].sum(0, dtype=np.float64)
        np.testing.assert_allclose(model.variables["w"], expected, rtol=1e-5, atol=1e-4)
    state = model._interface.state
    state.give_memory()  # as for a program whose step of w may fail
    assert doubled_memory(model) == {"w"}
    for rows in (3, 1, 1):
        model(STEP[:rows])
        expected = expected + STEP[:rows].sum(0, dtype=np.float64)
        np.testing.assert_allclose(model.variables["w"], expected, rtol=1e-5, atol=1e-4)


def test_setting_a_variable_reaches_the_next_step():
    model = momentum().compile()
    bound = model.bind(x=STEP)
    for run in (lambda: model(STEP), bound.run, bound.run):
        run()
        model.variables.update(w=START, v=np.zeros(SHAPE, np.float32), count=np.zeros(1, np.float32))
        run()
        np.testing.assert_allclose(model.variables["w"], START - 0.25 * STEP, rtol=1e-5, atol=1e-5)
        assert model.variables["count"] == [1]


SQUARE = (STEP[:, :128].reshape(256, 256) + 0.1).copy()
ELEMENTWISE = {
    "relu": (lambda g, v: g.relu(v), lambda v: np.maximum(v, 0), True),
    "transposed": (
        lambda g, v: g.relu(g.op("StaticTranspose", [v], {"order": [1, 0]})),
        lambda v: np.maximum(v.T, 0),
        False,
    ),
    "both": (
        lambda g, v: g.op("Maximum", [v, g.op("StaticTranspose", [v], {"order": [1, 0]})]),
        lambda v: np.maximum(v, v.T),
        False,
    ),
    "row": (lambda g, v: g.op("Maximum", [v, g.op("ReduceMean", [v], {"axes": [0], "keep_dims": True})]), None, True),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_kernels_update_variables_in_place(name):
    change, expected, is_in_place = ELEMENTWISE[name]
    g = og.Graph()
    v = g.variable("v", SQUARE)
    g.assign(v, change(g, v))
    g.output("first", g.op("ReduceSum", [v], {"axes": [0, 1]}))
    model, exact = g.compile(), SQUARE.astype(np.float64)
    for _ in range(3):
        found = model()
        assert found == pytest.approx(exact.sum(), rel=1e-3, abs=1e-2)
        exact = np.maximum(exact, exact.mean(0)) if expected is None else expected(exact)
    np.testing.assert_allclose(model.variables["v"], exact, rtol=1e-5, atol=1e-6)
    assert (in_place(model) == {"v"}) is is_in_place
