"""The layouts between partitions, asked of steps and values made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler import edge_layouts, slow_layouts
from onegraph.compiler.edge_layouts import EdgeLayouts
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.errors import UnsupportedError

TURNED = (1, 2)  # strides of a matrix of two rows whose columns lie one after another


def value(number, shape=(2, 3), strides=None, constant=None, storage=None):
    strides = dense_of(shape) if strides is None else strides
    return Value(number, og.f32, shape, strides, number if storage is None else storage, f"v{number}", constant)


def step(kind, inputs, outputs, executor="library", rank=2, **attrs):
    op = SimpleNamespace(outputs=[SimpleNamespace(shape=(2,) * rank), SimpleNamespace(shape=(1,) * 5)], inputs=())
    return Step(0, executor, kind, tuple(inputs), tuple(outputs), op, attrs)


class Scheduled:
    """A schedule that notes the copies."""

    def __init__(self, values, returned=(), viewed=()):
        self.values = {one.id: one for one in values}
        self.returned, self.viewed, self.asked = {*returned}, {*viewed}, []

    def use(self, one):
        return SimpleNamespace(call=one.kind)

    def copy(self, one, strides, reason):
        self.asked.append((one.id, strides, reason))
        made = self.new_value(one, strides)
        return made.id

    def dense_copy(self, one):
        return self.copy(one, dense_of(one.shape), "dense")

    def new_value(self, one, strides):
        number = 100 + len(self.values)
        self.values[number] = one._replace(id=number, strides=strides)
        return self.values[number]


def edges_of(values, steps=(), **options):
    schedule = Scheduled(values, **options)
    lowered = SimpleNamespace(consumers=lambda number: [one for one in steps if number in one.inputs])
    return EdgeLayouts(lowered, schedule), schedule


def faults(affects, when, ops=()):
    return SimpleNamespace(affects=lambda _: affects, when=when, ops=frozenset(ops))


# By name: the shape of value 1, what reads it, and whether the library may choose its layout. Value 2 has a row only.
FREE = {
    "nobody": ((2, 3), [], False),
    "a vector": ((3,), [step("MatMul", [1], [3])], False),
    "no elements": ((2, 0), [step("MatMul", [1], [3])], False),
    "a product": ((2, 3), [step("MatMul", [1], [3])], True),
    "a guarded op": ((2, 3), [step("MatMul", [1], [3], "guarded")], True),
    "a pool": ((2, 3), [step("MaxPool", [1], [3], "pool")], True),
    "numpy": ((2, 3), [step("MatMul", [1], [3], "reference")], False),
    "numpy beside a product": ((2, 3), [step("MatMul", [1], [3]), step("MatMul", [1], [3], "reference")], False),
    "a reshape": ((2, 3), [step("StaticReshape", [1], [3])], False),
    "an exact op": ((2, 3), [step("Exp", [1], [3], "exact")], True),
    "an exact op of another shape": ((2, 3), [step("Exp", [1], [2], "exact")], False),
    "a sum": ((2, 3), [step("Add", [1, 3], [4])], True),
    "a sum with a row": ((2, 3), [step("Add", [1, 2], [4])], False),
    "a product with a row": ((2, 3), [step("MatMul", [1, 2], [4])], True),
    "what needs dense tensors": ((2, 3), [step("MatMul", [1], [3], needs="dense")], False),
    "a slow op": ((2, 3), [step("MatMul", [1], [3], is_slow=True)], False),
}


@pytest.mark.parametrize("name", FREE)
def test_values_whose_layout_the_library_may_choose(name, monkeypatch):
    shape, steps, wanted = FREE[name]
    values = [value(1, shape), value(2, (1, 3)), value(3), value(4)]
    monkeypatch.setattr(edge_layouts, "needs_dense", lambda _, some: "needs" in some[0].attrs)
    monkeypatch.setattr(EdgeLayouts, "has_slow_operand", lambda _, one: "is_slow" in one.attrs)
    assert edges_of(values, steps)[0].is_free(values[0]) is wanted
    for options in ({"returned": [1]}, {"viewed": [1]}):
        assert edges_of(values, steps, **options)[0].is_free(values[0]) is False


@pytest.mark.parametrize(
    ("result", "operand", "repeats"),
    [
        ((2, 3), (1, 3), True),
        ((2, 3), (3,), True),
        ((1, 3), (1, 3), False),
        ((2, 3), (2, 3), False),
        ((2, 3), (1, 1), False),
        ((2, 3), (2, 1), False),
        ((2, 3, 4), (1, 3, 4), True),
        ((2, 3, 4), (1, 1, 4), False),
        ((2, 3, 4), (1, 3, 1), False),
    ],
)
def test_operands_that_repeat_along_the_first_axis_alone(result, operand, repeats):
    edges, _ = edges_of([value(1, result), value(2, operand), value(3, result)])
    assert edges._repeats_batch(step("Add", [1, 2], [3])) is repeats


def test_a_slow_operand_is_looked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(edge_layouts, "slow_operand", lambda one, _: asked.append(one.kind) or None)
    edges, _ = edges_of([])
    assert [edges.has_slow_operand(step("Add", [1, 2], [3])) for _ in range(2)] == [False, False]
    assert asked == ["Add"]
    monkeypatch.setattr(edge_layouts, "slow_operand", lambda one, _: (one, one))
    edges, _ = edges_of([])
    assert [edges.has_slow_operand(step("Add", [1, 2], [3])) for _ in range(2)] == [True, True]


def product(weights, kind="MatMul"):
    return step(kind, [5, *weights], [7])


@pytest.mark.parametrize(
    ("first", "others", "constant", "wanted"),
    [
        (product([1, 6]), [product([1, 6])], None, True),
        (product([1, 6]), [], None, False),
        (product([1, 6]), [product([1, 6])], np.ones((2, 3)), False),
        (product([1, 6], "Add"), [product([1, 6]), product([1, 6])], None, False),
        (product([6, 1]), [product([1, 6]), product([1, 6])], None, False),
        (product([1, 6]), [product([1, 6], "Add")], None, False),
        (product([1, 6]), [product([6, 1])], None, False),
    ],
)
def test_weights_that_several_products_would_copy(first, others, constant, wanted, monkeypatch):
    one = value(1, strides=TURNED, constant=constant)
    for affects, is_slow in ((True, True), (True, False), (False, True)):
        when = [(one.shape, one.strides)] if is_slow else []
        monkeypatch.setattr(edge_layouts, "SLOW_ROWS", faults(affects, when.__contains__))
        edges, _ = edges_of([one], [first, *others])
        assert edges._is_shared(one, first) is (wanted and affects and is_slow)


class Pattern:
    n_inputs = 2

    def __init__(self, known=None):
        self.layouts = {} if known is None else known

    def layout(self, strides, is_open):
        return tuple(strides), is_open


def plain(monkeypatch, *, needs=(), mixed=(), shared=(), refused=(), is_slow_pool=False):
    """Let nothing be slow or wrong but the values with these numbers."""
    monkeypatch.setattr(edge_layouts, "needs_dense", lambda one, _: one.id in needs)
    monkeypatch.setattr(edge_layouts, "mixed", lambda _, some: {one.id for one in some} & {*mixed})
    monkeypatch.setattr(edge_layouts, "is_slow_pool", lambda *_: is_slow_pool)
    monkeypatch.setattr(EdgeLayouts, "_is_shared", lambda _, one, __: one.id in shared)
    monkeypatch.setattr(EdgeLayouts, "_refused_results", lambda *_: {*refused})


# By name: the steps, which of the values 1 to 3 lie in columns, and whether the library may choose the strides.
OPENED = {
    "dense": ([step("MatMul", [1, 2], [3])], [], False),
    "a source in columns": ([step("MatMul", [1, 2], [3])], [1], True),
    "an operand in columns": ([step("MatMul", [1, 2], [3])], [2], True),
    "weights in columns": ([step("Convolution", [1, 2], [3])], [2], False),
    "a source in columns of a convolution": ([step("Convolution", [1, 2], [3])], [1], True),
    "a result in columns": ([step("MatMul", [1, 2], [3])], [3], False),
    "channels first": ([step("Convolution", [1, 2], [3], data_format="NCX")], [], True),
    "channels last": ([step("Convolution", [1, 2], [3], data_format="NXC")], [], False),
    "channels first behind": ([step("ReLU", [1], [2]), step("Convolution", [1, 2], [3], data_format="NCX")], [], True),
}


@pytest.mark.parametrize("name", OPENED)
def test_patterns_whose_strides_the_library_may_choose(name, monkeypatch):
    steps, turned, is_open = OPENED[name]
    plain(monkeypatch)
    values = [value(number, strides=TURNED if number in turned else None) for number in (1, 2, 3)]
    edges, _ = edges_of(values)
    assert edges.choose(Pattern(), steps, values) == ((tuple(one.strides for one in values), is_open), [])
    known = {tuple(one.strides for one in values): "known"}
    assert edges.choose(Pattern(known), steps, values) == ("known", [])


@pytest.mark.parametrize("reason", ["needs", "mixed", "shared", "refused"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_values_in_columns_that_ops_do_not_take_are_copied(reason, number, monkeypatch):
    plain(monkeypatch, **{reason: [number]})
    values = [value(one, strides=TURNED) for one in (1, 2, 3)]
    before, steps = [*values], [step("ReLU", [1], [2]), step("MatMul", [1, 2], [3])]
    edges, schedule = edges_of(values, returned=[3])
    layout, copies = edges.choose(Pattern(), steps, values)
    is_copied = number < 3 or reason != "mixed"  # what ops write is no operand
    strides = [dense_of((2, 3)) if one == number and is_copied else TURNED for one in (1, 2, 3)]
    assert [one.strides for one in values] == strides
    assert layout[0] == tuple(strides)
    assert [one[:2] for one in schedule.asked] == ([(number, dense_of((2, 3)))] if number < 3 else [])
    wanted = [(values[2], before[2], "MatMul writes dense tensors only")] if number == 3 and is_copied else []
    assert copies == wanted


@pytest.mark.parametrize("reason", ["needs", "shared"])
def test_dense_values_are_not_copied(reason, monkeypatch):
    plain(monkeypatch, **{reason: [1, 2, 3]}, mixed=[1, 2])
    values = [value(one) for one in (1, 2, 3)]
    edges, schedule = edges_of(values, returned=[3])
    assert edges.choose(Pattern(), [step("MatMul", [1, 2], [3])], values)[1] == []
    assert (schedule.asked, [one.id for one in values]) == ([], [1, 2, 3])


def test_a_dense_operand_may_be_slow_beside_one_in_columns(monkeypatch):
    plain(monkeypatch, mixed=[1])
    values = [value(1), value(2, strides=TURNED), value(3)]
    edges, schedule = edges_of(values)
    edges.choose(Pattern(), [step("Add", [1, 2], [3])], values)
    assert [one[0] for one in schedule.asked] == [1]


def test_a_result_that_stays_inside_is_not_copied(monkeypatch):
    plain(monkeypatch, needs=[3])
    values = [value(1), value(2), value(3, strides=TURNED)]
    with pytest.raises(UnsupportedError, match=r"^MatMul writes dense tensors only$"):
        edges_of(values)[0].choose(Pattern(), [step("ReLU", [1], [2]), step("MatMul", [1, 2], [3])], values)


@pytest.mark.parametrize("is_slow_pool", [False, True])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("returned", [(), (3,)])
def test_slow_pools_get_channels_last(is_slow_pool, count, returned, monkeypatch):
    plain(monkeypatch, is_slow_pool=is_slow_pool)
    shape, last = (2, 3, 4, 5), (60, 1, 15, 3)
    values = [value(number, shape) for number in (1, 2, 3)]
    before, steps = [*values], [step("MaxPool", [1, 2], [3])] * count
    readers = [step("MaxPool", [3], [4], "library", 4)]
    edges, schedule = edges_of(values, readers, returned=returned)
    layout, copies = edges.choose(Pattern(), steps, values)
    reason = edge_layouts.SLOW_CHANNELS_FIRST.told
    is_last = is_slow_pool and count == 1
    assert schedule.asked == ([(1, last, reason), (2, last, reason)] if is_last else [])
    copied = is_last and returned  # others may have any layout
    assert [one.strides for one in values] == [last if is_last else dense_of(shape)] * 2 + [
        last if copied else dense_of(shape)
    ]
    assert copies == ([(values[2], before[2], reason)] if copied else [])
    assert layout == (tuple(one.strides for one in values), is_last)


@pytest.mark.parametrize(
    ("turned", "count", "wrong", "found"),
    [
        ([], 2, [[]], set()),
        ([3], 1, [[3]], set()),
        ([3], 2, [], set()),
        ([3], 2, [[3]], {3}),
        ([1, 3], 2, [[1, 3]], {3}),
        ([1, 3, 4], 2, [[1, 3, 4]], {3, 4}),
        ([1, 3, 5], 2, [[1, 3, 5]], {3}),  # nobody gets value 5
        ([1, 3], 2, [[1, 3], [1]], None),
        ([1], 2, [[1]], None),
    ],
)
def test_results_whose_strides_a_fusion_does_not_honour(turned, count, wrong, found, monkeypatch):
    """``wrong``: values in columns with which the fusion is wrong."""
    asked = []

    def wrong_strides(fused, _):
        asked.append([*fused.uses])
        return "lost" if sorted(fused.strided) in wrong else ""

    monkeypatch.setattr(edge_layouts, "wrong_strides", wrong_strides)
    values = [value(number, strides=TURNED if number in turned else None) for number in (1, 2, 3, 4, 5)]
    edges, schedule = edges_of(values, returned=[1, 3, 4])
    schedule.use = lambda one: one.kind
    steps = [step("MatMul", [1, 2], [3])] * count
    if found is None:
        with pytest.raises(UnsupportedError, match=r"^lost, so that the ops run one by one$"):
            edges._refused_results(steps, values, 2)
    else:
        assert edges._refused_results(steps, values, 2) == found
    assert asked == [["MatMul"] * 2] * (0 if not turned or count == 1 else 1 if not wrong else 2)


# What is slow ---------------------------------------------------------------------------------------------------------


# By name: the value, the kinds of two steps, and the facts that make it slow.
DENSE = {
    "nothing": (value(1, strides=TURNED), {}, False),
    "a wrong layout": (value(1), {"wrong": ["Second"]}, True),
    "a wrong layout of another": (value(1), {"wrong": ["Third"]}, False),
    "elements that share memory": (value(1, strides=(0, 1)), {}, True),
    "elements that run backwards": (value(1, strides=(3, -1)), {}, True),
    "slow strides": (value(1, strides=TURNED), {"slow": ["First"]}, True),
    "slow strides of a result": (value(3, strides=TURNED), {"slow": ["Second"]}, True),
    "slow strides of what it does not read": (value(1, strides=TURNED), {"slow": ["Second"]}, False),
    "slow strides of a dense value": (value(1), {"slow": ["First"]}, False),
    "slow strides of another op": (value(1, strides=TURNED), {"slow": ["Third"]}, False),
    "gaps": (value(1, strides=TURNED), {"gaps": ["First"]}, True),
    "gaps of a result": (value(3, strides=TURNED), {"gaps": ["First"]}, True),
    "gaps behind another op": (value(3, strides=TURNED), {"gaps": ["Second"]}, False),
    "gaps inside": (value(2, strides=TURNED), {"gaps": ["First"]}, False),
    "a slow op": (value(1, strides=TURNED), {"ops": ["Second"]}, True),
    "a slow op of a dense value": (value(1), {"ops": ["Second"]}, False),
}


@pytest.mark.parametrize("name", DENSE)
def test_values_that_need_dense_strides(name, monkeypatch):
    one, facts, wanted = DENSE[name]
    met = []

    def wrong_layout(laid, _):
        met.append((laid.kind, laid.rank, laid.shape, laid.strides, laid.is_read, laid.inside, laid.attrs))
        return "wrong" if laid.kind in facts.get("wrong", ()) else ""

    for affects in (True, False):
        for is_there in (True, False):
            for key, field in (("slow", "SLOW_STRIDES"), ("gaps", "SLOW_GAPS")):
                fault = faults(
                    affects, lambda place, yes=is_there: yes and place == (one.shape, one.strides), facts.get(key, ())
                )
                monkeypatch.setattr(slow_layouts, field, fault)
            monkeypatch.setattr(slow_layouts, "wrong_layout", wrong_layout)
            others = SimpleNamespace(of=lambda kinds, *_: [*kinds & {*facts.get("ops", ())}])
            monkeypatch.setattr(slow_layouts, "FAULTS", others)
            steps = [step("First", [1], [2], rank=4, a=1), step("Second", [2], [3], rank=3)]
            is_measured = "slow" in facts or "gaps" in facts
            assert slow_layouts.needs_dense(one, steps) is (wanted and (not is_measured or (affects and is_there)))
    if not one.irregular:
        inside = frozenset(["First", "Second"])
        first = ("First", 4, one.shape, one.strides, one.id == 1, inside, {"a": 1})
        assert met[:2] == [first, ("Second", 3, one.shape, one.strides, one.id == 2, inside, {})]


def test_the_rank_is_that_of_the_part():
    of_part = step("MatMul", [1], [2])._replace(part=SimpleNamespace(outputs=[SimpleNamespace(shape=(1, 2, 3))]))
    assert (slow_layouts._rank(of_part), slow_layouts._rank(step("MatMul", [1], [2], rank=4))) == (3, 4)
    without = step("MatMul", [1], [2])._replace(part=SimpleNamespace(outputs=[SimpleNamespace(shape=None)]))
    assert slow_layouts._rank(without) == 0


def test_strides_with_the_channels_last_and_first():
    assert slow_layouts.channels_last((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert slow_layouts.channels_last((2, 3, 4)) == (12, 1, 3)
    assert slow_layouts.channels_first((2, 4, 5, 3)) == (60, 5, 1, 20)
    assert slow_layouts.channels_first((2, 4, 3)) == (12, 1, 4)


@pytest.mark.parametrize("data_format", ["NCX", "NXC", None])
@pytest.mark.parametrize("kind", ["MaxPool", "ReLU"])
@pytest.mark.parametrize("constant", [None, np.ones((2, 3))])
@pytest.mark.parametrize("strides", [None, TURNED])
@pytest.mark.parametrize("is_slow", [True, False])
@pytest.mark.parametrize("has_avx512", [True, False])
def test_pools_that_are_slow_with_channels_first(
    data_format, kind, constant, strides, is_slow, has_avx512, monkeypatch
):
    asked = []

    def when(pool):
        asked.append((pool.call, pool[1]))
        return is_slow

    monkeypatch.setattr(slow_layouts, "SLOW_CHANNELS_FIRST", faults(True, when, ["MaxPool"]))
    monkeypatch.setattr(slow_layouts, "core_cache", lambda: 77)
    monkeypatch.setattr(slow_layouts, "has_avx512", lambda: has_avx512)
    attrs = {} if data_format is None else {"data_format": data_format}
    values = [value(1), value(2, strides=strides, constant=constant)]
    is_asked = (data_format, kind, constant is None, strides) == ("NCX", "MaxPool", True, None)
    assert slow_layouts.is_slow_pool(step(kind, [1], [2], **attrs), "call", values) is (is_asked and is_slow)
    assert asked == ([("call", 77 if has_avx512 else 0)] if is_asked else [])


COLUMNS, GAPS = (1, 2), (4, 1)
MIXED = {
    "no binary op": ([step("ReLU", [1], [9])], {1: ((2, 3), GAPS)}, set()),
    "dense": ([step("Add", [1, 2], [9])], {1: ((2, 3), None), 2: ((2, 3), None)}, set()),
    "columns": ([step("Add", [1, 2], [9])], {1: ((2, 3), COLUMNS), 2: ((2, 3), None)}, {1}),
    "both in columns": ([step("Add", [1, 2], [9])], {1: ((2, 3), COLUMNS), 2: ((2, 3), COLUMNS)}, {1, 2}),
    "gaps beside a matrix": ([step("Add", [1, 2], [9])], {1: ((2, 3), GAPS), 2: ((2, 3), None)}, {1}),
    "gaps beside a vector": ([step("Add", [1, 2], [9])], {1: ((2, 3), GAPS), 2: ((1, 3), None)}, set()),
    "columns beside a vector": ([step("Add", [1, 2], [9])], {1: ((2, 3), COLUMNS), 2: ((1, 3), None)}, {1}),
    "both with gaps": ([step("Add", [1, 2], [9])], {1: ((2, 3), GAPS), 2: ((2, 3), GAPS)}, set()),
    "a small one with gaps": ([step("Add", [1, 2], [9])], {1: ((3, 3), None), 2: ((1, 3), (4, 1))}, set()),
    "a matrix that no such op reads": (
        [step("MatMul", [2, 3], [8]), step("Add", [1], [9])],
        {1: ((2, 3), GAPS), 2: ((2, 9), None), 3: ((2, 3), None)},
        set(),
    ),
    "an elementwise op behind": (
        [step("Add", [1, 2], [8]), step("ReLU", [3], [9])],
        {1: ((2, 3), GAPS), 2: ((2, 3), GAPS), 3: ((2, 3), None)},
        {1, 2},
    ),
    "what is made inside": ([step("Add", [1, 7], [8])], {1: ((2, 3), COLUMNS)}, {1}),
    "nothing": ([step("Add", [7, 8], [9])], {}, set()),
}


@pytest.mark.parametrize("name", MIXED)
def test_operands_whose_strides_are_slow_together(name, monkeypatch):
    steps, laid, wanted = MIXED[name]
    monkeypatch.setattr(slow_layouts, "SLOW_STRIDES", faults(True, lambda place: place[1] == COLUMNS, ["Add"]))
    values = [value(number, *layout) for number, layout in laid.items()]
    assert slow_layouts.mixed(steps, values) == wanted
