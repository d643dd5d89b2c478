"""Partitions: how they are found, ordered, cut and compiled, with a library that is made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler import partition_cache, partitioner, single_ops
from onegraph.compiler.ir.part import Part
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.partition_cache import Pattern, wiring
from onegraph.compiler.partition_store import MOST_STRUCTURES, PartitionStore, SharedPartitions
from onegraph.errors import LibraryRuntimeError, OutOfMemoryError, UnsupportedError
from onegraph.opset.schema import TensorType

ROW = TensorType(og.f32, (2, 3))


def step(number, inputs, outputs, kind="ReLU", executor="library", part=None, **attrs):
    return Step(number, executor, kind, tuple(inputs), tuple(outputs), SimpleNamespace(inputs=()), attrs, part=part)


def value(number, shape=(2, 3), strides=None, constant=None):
    strides = dense_of(shape) if strides is None else strides
    return Value(number, og.f32, shape, strides, number, f"v{number}", constant)


# What programs share --------------------------------------------------------------------------------------------------


def test_a_store_lends_what_is_known_to_one_compilation():
    store = PartitionStore()
    with store.lent("key") as first, store.lent("key") as second, store.lent("another") as other:
        assert len({id(one) for one in (first, second, other)}) == 3
        assert first.prepared is second.prepared
        first.patterns["a"] = many = SharedPartitions()
    with store.lent("key") as again:
        assert again is first  # it has more patterns than the one that came back before it
        assert [*again.patterns] == ["a"]
    with pytest.raises(LibraryRuntimeError), store.lent("key"):
        raise LibraryRuntimeError("failed", 1, "")
    with store.lent("key") as new:
        assert new is not first
    assert many is not None


def test_of_two_compilations_with_as_many_patterns_the_later_one_is_kept():
    store = PartitionStore()
    with store.lent("key") as first, store.lent("key"):
        pass
    with store.lent("key") as again:
        assert again is first


def test_a_store_forgets_all_partitions():
    store, one = PartitionStore(), SharedPartitions()
    with store.lent("key") as first:
        first.prepared["weights"] = 3
    store.variants[one] = {1: one}
    store.forget()
    with store.lent("key") as second:
        assert second is not first
        assert second.prepared == {}
    assert [*store.variants] == []


def test_few_structures_are_kept():
    shared = SharedPartitions()
    for number in range(MOST_STRUCTURES + 1):
        shared.pieces[number] = {"steps": [([0], [number])]}
        shared.keep_groups(number, [((number,), ())])
        assert len(shared.groups) == min(number + 1, MOST_STRUCTURES)
    kept = [*range(1, MOST_STRUCTURES + 1)]
    assert [*shared.groups] == [*shared.pieces] == kept
    assert shared.groups[3] == [((3,), ())]


# The library's search -------------------------------------------------------------------------------------------------


class Found:
    """A partition of ops."""

    def __init__(self, *ops):
        self.ops = ops

    def __repr__(self):
        return f"{self.ops}"


class Searched:
    """A graph whose search joins as many neighbours as it may, and fails where that is said."""

    def __init__(self, joined, fails=(), largest=1000):
        self.joined, self.fails, self.largest, self.asked = joined, fails, largest, []

    def __call__(self, lowered, mode, steps, needed=()):
        numbers = [one.id for one in steps]
        self.asked.append((numbers, sorted(needed)))

        def partitions(policy):
            assert policy == "fusion"
            if {*self.fails} & {*numbers} and len(numbers) > 1:
                raise LibraryRuntimeError("search", 1, "")
            if len(numbers) > self.largest:
                raise LibraryRuntimeError("search", 1, "")
            groups, at = [], 0
            while at < len(numbers):
                size = self.joined.get(numbers[at], 1)
                groups.append(Found(*numbers[at : at + size]))
                at += size
            return groups[::-1]

        return SimpleNamespace(partitions=partitions), {4: "refused"}


def chain(count):
    steps = [step(number, [number], [number + 1]) for number in range(count)]
    return SimpleNamespace(steps=tuple(steps), values={})


def found(monkeypatch, lowered, searched, piece=400, overlap=50):
    monkeypatch.setattr(partitioner, "capi_graph", searched)
    monkeypatch.setattr(partitioner, "PIECE", piece)
    monkeypatch.setattr(partitioner, "OVERLAP", overlap)
    made = partitioner.find_partitions(lowered, "strict")
    return [(None if one is None else one.ops, [step.id for step in steps]) for one, steps in made]


def test_a_small_graph_is_searched_as_a_whole(monkeypatch):
    searched = Searched({0: 2, 5: 3})
    ops = found(monkeypatch, chain(8), searched)
    assert ops == [((0, 1), [0, 1]), ((2,), [2]), ((3,), [3]), (None, [4]), ((5, 6, 7), [5, 6, 7])]
    assert searched.asked == [([*range(8)], [])]


def test_a_long_graph_is_searched_in_pieces_that_overlap(monkeypatch):
    searched = Searched({3: 3, 6: 2, 9: 2})
    ops = found(monkeypatch, chain(12), searched, piece=6, overlap=2)
    assert [numbers for _, numbers in ops] == [[0], [1], [2], [3, 4, 5], [6, 7], [8], [9, 10], [11]]
    # A partition that reaches into the last two steps of a piece waits for the next piece.
    assert searched.asked == [
        ([0, 1, 2, 3, 4, 5], [6]),
        ([3, 4, 5, 6, 7, 8], [9]),
        ([6, 7, 8, 9, 10, 11], []),
    ]


def test_a_piece_that_is_one_partition_is_taken(monkeypatch):
    searched = Searched({0: 4})
    assert [numbers for _, numbers in found(monkeypatch, chain(6), searched, piece=4, overlap=2)] == [
        [0, 1, 2, 3],
        [4],
        [5],
    ]


def test_values_that_later_steps_read_are_kept(monkeypatch):
    steps = [step(0, [0], [1]), step(1, [1], [2]), step(2, [2], [3]), step(3, [1, 3], [4]), step(4, [4], [5])]
    searched = Searched({})
    found(monkeypatch, SimpleNamespace(steps=tuple(steps)), searched, piece=3, overlap=1)
    assert searched.asked[0] == ([0, 1, 2], [1, 3])


def test_a_search_that_fails_is_divided(monkeypatch):
    searched = Searched({0: 5, 2: 2, 3: 2}, fails=[2])
    ops = found(monkeypatch, chain(6), searched)
    assert [numbers for _, numbers in ops] == [[0], [1], [2], [3, 4], [5]]
    assert searched.asked == [
        ([0, 1, 2, 3, 4, 5], []),
        ([0, 1, 2], [3]),
        ([0], [1]),
        ([1, 2], [3]),
        ([1], [2]),
        ([2], [3]),
        ([3, 4, 5], []),
    ]


def test_a_search_that_fails_on_one_op_is_an_error(monkeypatch):
    with pytest.raises(LibraryRuntimeError):
        found(monkeypatch, chain(3), Searched({}, largest=0))


def test_ops_that_stand_for_no_step_are_left_out(monkeypatch):
    class More(Searched):
        def __call__(self, *given, **options):
            graph, refused = super().__call__(*given, **options)
            own = graph.partitions
            return SimpleNamespace(partitions=lambda policy: [*own(policy), Found(3), Found(7)]), refused

    made = found(monkeypatch, chain(3), More({}))
    assert [numbers for _, numbers in made] == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("steps", "groups", "order"),
    [
        ([([0], [1]), ([1], [2]), ([2], [3])], [(2,), (0,), (1,)], [(0,), (1,), (2,)]),
        # The second op of the first partition reads what the partition of op 1 makes.
        ([([0], [1]), ([0], [2]), ([1, 2], [3])], [(0, 2), (1,)], [(1,), (0, 2)]),
        ([([0], [1]), ([0], [2]), ([1, 2], [3]), ([2], [4])], [(0, 2), (1,), (3,)], [(1,), (0, 2), (3,)]),
        ([([0], [1]), ([1], [2]), ([0], [3]), ([2, 3], [4])], [(0, 2), (1, 3)], [(0, 2), (1, 3)]),
        # Two partitions wait for one; the one with the lower id comes first.
        (
            [([0], [1]), ([0], [2]), ([9], [3]), ([3], [4]), ([1, 4], [5]), ([2, 4], [6])],
            [(1, 5), (0, 4), (2, 3)],
            [(2, 3), (0, 4), (1, 5)],
        ),
        # One waits for two others.
        ([([0], [1]), ([9], [2]), ([8], [3]), ([1, 2, 3], [4])], [(0, 3), (1,), (2,)], [(1,), (2,), (0, 3)]),
    ],
)
def test_partitions_run_behind_those_that_they_read(steps, groups, order):
    given = [step(number, *ends) for number, ends in enumerate(steps)]
    partitions = [Found(*ops[::-1]) for ops in groups]
    made = partitioner._in_order(partitions, given)
    assert [tuple(numbers) for _, numbers in made] == order
    assert [tuple(sorted(partition.ops)) for partition, _ in made] == order


# Patterns -------------------------------------------------------------------------------------------------------------


def part(kind="ReLU"):
    return Part(kind, {}, (), (ROW,), (ROW,))


def test_the_wiring_of_steps():
    one = step(0, [7], [8], part=part())
    assert wiring([one], [8]) == (part(), [7, 8])
    twice = step(0, [7, 7], [8], part=part("Add"))
    assert wiring([twice], [8]) == (((part("Add"),), (0, 0, 1), (1,)), [7, 8])
    two = [one, step(1, [8, 9], [4], part=part("Add"))]
    assert wiring(two, [4, 8]) == (((part(), part("Add")), (0, 1, 1, 2, 3), (3, 1)), [7, 8, 9, 4])


class Compiled:
    """A compiled partition; notes what it was asked for."""

    made: ClassVar = []

    def __init__(self, inputs, outputs, **facts):
        self.inputs, self.outputs, self.facts = inputs, outputs, facts
        self.owner_thread, self.inplace_pairs, self.is_made = None, [], False
        Compiled.made.append(self)

    @classmethod
    def _checked(cls, partition, inputs, outputs, engine):
        if partition == "no any":
            raise UnsupportedError("any")
        outputs = [one if one.strides is not None else partition.chosen(one) for one in outputs]
        return cls(inputs, outputs, how="checked")

    @classmethod
    def _postponed(cls, partition, inputs, outputs, engine):
        if partition == "no memory":
            raise OutOfMemoryError("memory", 1, "")
        shape = getattr(partition, "shape", (2, 3))
        made = cls(inputs, [dense_end(one, shape) if one.shape is None else one for one in outputs], how="postponed")
        made.owner_thread = getattr(partition, "owner", None)
        return made

    def _make(self):
        self.is_made = True

    def _another(self):
        return Compiled(self.inputs, self.outputs, how="another")


class Ends:
    """A logical tensor."""

    def __init__(self, number, shape, strides, kind, mem_size=None):
        self.id, self.shape, self.strides, self.kind, self.mem_size = number, shape, strides, kind, mem_size
        self.dtype = og.f32


def dense_end(one, shape=(2, 3)):
    return Ends(one.id, shape, dense_of(shape), one.kind)


@pytest.fixture
def by_hand(monkeypatch):
    Compiled.made = []
    monkeypatch.setattr(partition_cache, "CompiledPartition", Compiled)
    monkeypatch.setattr(partition_cache, "default_engine", lambda: "engine")
    monkeypatch.setattr(
        partition_cache, "capi_tensor", lambda number, one, kind: Ends(number, one.shape, one.strides, kind)
    )
    checked = lambda number, dtype, shape, strides=None, layout="strided": Ends(number, shape, strides, layout)  # noqa: E731
    monkeypatch.setattr(partition_cache, "LogicalTensor", SimpleNamespace(_checked=checked))


def pattern_of(partition="partition", *, keeps=True, postpones=False, kinds=("MatMul",), inputs=(1, 2), outputs=(3,)):
    steps = [step(number, [], [], kind) for number, kind in enumerate(kinds)]
    values = [3, 1, 2, 4]
    return Pattern(partition, steps, inputs, outputs, values, 24, keeps, postpones)


def test_a_pattern_knows_its_ports_and_ops():
    one = pattern_of()
    assert (one.ids, one.places, one.n_inputs, one.nbytes) == ((1, 2, 3), [1, 2, 0], 2, 24)
    assert (one.reason, one.cut, one.marks, one.lifts, one.flops) == ("", 0, (), 0, 0)
    facts = {
        ("MatMul",): (True, False),
        ("ReLU",): (True, True),
        ("Add", "ReLU"): (True, True),
        ("MatMul", "ReLU"): (True, False),
        ("LayerNorm",): (False, True),
        ("GroupNorm",): (False, True),
        ("LayerNorm", "ReLU"): (False, False),
        ("SoftMax",): (False, False),
        ("Convolution", "ReLU"): (False, False),
    }
    assert {kinds: (pattern_of(kinds=kinds).is_quick, pattern_of(kinds=kinds).takes_all) for kinds in facts} == facts
    assert all(pattern_of(kinds=kinds, keeps=False).takes_all for kinds in facts)


def compiled(one, values, free=()):
    layout = one.layout([each.strides for each in values], False)
    return one.compile(values, layout, free, lambda _: b"key")


def test_a_pattern_is_compiled_once_for_strides_and_constants(by_hand):
    values = [value(1), value(2), value(3)]
    one = pattern_of(postpones=False)
    first = compiled(one, values)
    assert compiled(one, values) is first
    assert (first.made is first.like, first.chosen, first.in_place) == (True, (), [])
    assert [made.facts["how"] for made in Compiled.made] == ["postponed"]
    assert Compiled.made[0].is_made
    turned = [value(1), value(2, strides=(1, 2)), value(3)]
    assert compiled(one, turned) is not first
    assert [end.kind for end in Compiled.made[1].inputs] == ["variable", "variable"]
    weights = [value(1), value(2, constant=np.ones((2, 3))), value(3)]
    names = iter((b"a", b"b", b"a"))
    layout = one.layout([each.strides for each in weights], False)
    a, b, c = (one.compile(weights, layout, (), lambda _: next(names)) for _ in range(3))
    assert a is c
    assert (a.made is a.like, b.made is b.like, b.like is a.made) == (True, False, True)
    assert [end.kind for end in a.made.inputs] == ["variable", "constant"]
    assert (b.chosen, b.in_place is a.in_place) == (a.chosen, True)
    assert one.postponed() == [[b.made]]
    assert one.postponed() == []


def test_what_takes_all_constants_is_compiled_once(by_hand):
    one = pattern_of(kinds=("Add",))
    given = [value(1), value(2, constant=np.ones((2, 3))), value(3)]
    assert compiled(one, given) is compiled(one, [value(1), value(2), value(3)])
    assert [end.kind for end in Compiled.made[0].inputs] == ["variable", "variable"]


def test_partitions_are_postponed_with_those_of_other_constants(by_hand):
    one = pattern_of(postpones=True)
    weights = [value(1), value(2, constant=np.ones((2, 3))), value(3)]
    names = iter((b"a", b"b"))
    layout = one.layout([each.strides for each in weights], False)
    a, b = (one.compile(weights, layout, (), lambda _: next(names)) for _ in range(2))
    other = compiled(one, [value(1), value(2), value(3)])
    assert not any(made.is_made for made in Compiled.made)
    assert one.postponed() == [[a.made, b.made], [other.made]]
    a.made.inplace_pairs = [(2, 3)]
    one.settle()
    assert (a.in_place, other.in_place) == ([(2, 1)], [])
    one.settle()
    assert a.in_place == [(2, 1)]
    assert one.postponed() == []


@pytest.mark.parametrize(
    ("owners", "caller", "is_elsewhere"),
    [([], 1, False), ([None], 1, False), ([1], 1, False), ([2], 1, True), ([1, 2], 1, True), ([None, 2], 1, True)],
)
def test_patterns_that_another_thread_owns(owners, caller, is_elsewhere, by_hand, monkeypatch):
    monkeypatch.setattr(partition_cache, "calling_thread", lambda: caller)
    one = pattern_of(SimpleNamespace(owner=5), postpones=True)
    for place, owner in enumerate(owners):
        given = [value(1), value(2, strides=(1, 2 + place)), value(3)]
        compiled(one, given).made.owner_thread = owner
    assert one.is_elsewhere is is_elsewhere
    assert [made.is_made for made in Compiled.made] == [True] * len(owners)  # what one thread owns is not postponed
    assert one.postponed() == []


@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_refused_partition_is_compiled_without_constants(hashes, keeps, by_hand, monkeypatch):
    monkeypatch.setattr(partition_cache, "HASHES_CONSTANTS", hashes)
    one = pattern_of(keeps=keeps)
    monkeypatch.setattr(Compiled, "_postponed", classmethod(refusing_constants))
    given = [value(1), value(2, constant=np.ones((2, 3))), value(3)]
    if keeps and not hashes:
        with pytest.raises(UnsupportedError):
            compiled(one, given)
    else:
        assert [end.kind for end in compiled(one, given).made.inputs] == ["variable", "variable"]
        assert one.takes_all


def refusing_constants(cls, partition, inputs, outputs, engine):
    if any(one.kind == "constant" for one in inputs):
        raise UnsupportedError("constants")
    return cls(inputs, [dense_end(one) for one in outputs], how="postponed")


def test_lack_of_memory_is_no_refusal(by_hand, monkeypatch):
    monkeypatch.setattr(partition_cache, "HASHES_CONSTANTS", True)
    with pytest.raises(OutOfMemoryError):
        compiled(pattern_of("no memory"), [value(1), value(2), value(3)])


def chooses(shape=(2, 3), strides=(1, 2), mem_size=40):
    return SimpleNamespace(chosen=lambda one: Ends(one.id, shape, strides, "any", mem_size))


def test_the_library_chooses_strides(by_hand):
    given = [value(1), value(2), value(3)]
    assert compiled(pattern_of(chooses()), given, (True,)).chosen == ((2, (1, 2), 40),)
    assert compiled(pattern_of(chooses(mem_size=None)), given, (True,)).chosen == ((2, (1, 2), 0),)
    assert compiled(pattern_of(chooses(strides=(3, 1))), given, (True,)).chosen == ()
    assert compiled(pattern_of("partition"), given, (False,)).chosen == ()
    assert [made.facts["how"] for made in Compiled.made] == ["checked", "checked", "checked", "postponed"]
    opaque = compiled(pattern_of(chooses(strides=None)), given, (True,))
    assert (opaque.made.facts["how"], opaque.chosen) == ("postponed", ())
    refused = compiled(pattern_of("no any"), given, (True,))
    assert (refused.made.facts["how"], refused.chosen) == ("postponed", ())


def test_one_of_two_results_may_have_other_strides(by_hand):
    given = [value(1), value(2), value(3, strides=(5, 1)), value(4)]
    found = compiled(pattern_of(chooses(), outputs=(3, 4)), given, (False, True))
    assert found.chosen == ((3, (1, 2), 40),)
    assert [end.kind for end in found.made.outputs] == ["variable", "any"]


@pytest.mark.parametrize(
    ("shape", "strides", "wanted", "told"),
    [
        ((2, 4), (4, 1), (2, 3), "the library infers (2, 4) for v3, not (2, 3)"),
        ((1,), (1,), (), None),
        ((1,), (1,), (1, 1), "the library infers (1,) for v3, not (1, 1)"),
        ((), (), (1,), "the library infers () for v3, not (1,)"),
        ((2, 3), None, (2, 3), "the library chose an opaque layout for v3"),
        ((2, 3), (1, 2), (2, 3), "the library infers strides (1, 2) for v3"),
        ((1, 3), (7, 1), (1, 3), None),
        ((2, 1), (1, 9), (2, 1), None),
    ],
)
def test_results_are_checked(shape, strides, wanted, told):
    one, made = pattern_of(), SimpleNamespace(outputs=[Ends(3, shape, strides, "")], inplace_pairs=[(1, 3)])
    entry = partition_cache.Compiled(made, made, (), [])
    values = [value(1), value(2), value(3, wanted)]
    if told is None:
        assert one._check(entry, values, ()) == ()
        assert entry.in_place == [(2, 0)]
    else:
        with pytest.raises(UnsupportedError) as caught:
            one._check(entry, values, ())
        assert str(caught.value) == told
        if "strides" in told:
            with pytest.raises(UnsupportedError):
                one._check(entry, values, (False,))
            assert one._check(entry, values, (True,)) == ((2, (1, 2), 0),)


def test_values_that_get_more_axes_have_no_other_strides(by_hand):
    one = pattern_of(SimpleNamespace(shape=(1, 1, 2, 3)))
    one.lifts = 2
    found = compiled(one, [value(1), value(2, strides=(1, 2)), value(3)], (True,))
    assert (found.made.facts["how"], found.chosen) == ("postponed", ())
    assert [end.shape for end in found.made.inputs] == [(1, 1, 2, 3)] * 2


# Single ops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "source", "operand", "attrs", "order"),
    [
        ("Add", (4, 2, 3), (4, 1, 3), {}, (1, 2)),
        ("Add", (4, 1, 3), (4, 2, 3), {}, (2, 1)),
        ("Multiply", (4, 1, 3), (4, 2, 3), {}, (2, 1)),
        ("Divide", (4, 2, 3), (4, 1, 3), {}, (1, 2)),
        ("Divide", (4, 1, 3), (4, 2, 3), {}, None),
        ("Subtract", (4, 2, 3), (4, 1, 3), {}, (1, 2)),
        ("Add", (4, 2, 3), (4, 2, 3), {}, None),
        ("Add", (4, 1, 3), (1, 2, 3), {}, None),
        ("Add", (4, 2, 3), (1, 1, 3), {}, None),
        ("MatMul", (4, 2, 3), (4, 1, 3), {}, None),
        ("BiasAdd", (4, 2, 3), (4, 1, 3), {}, (1, 2)),
        ("BiasAdd", (4, 2, 3), (4, 1, 3), {"data_format": "NXC"}, (1, 2)),
        ("BiasAdd", (4, 2, 3), (4, 1, 3), {"data_format": "NCX"}, None),
    ],
)
def test_slow_operands_of_binary_ops(kind, source, operand, attrs, order, monkeypatch):
    """Slow are operands that vary along the first axis, and not along the second."""
    asked = []

    def reason(kinds, shapes, _):
        asked.append((kinds, shapes))
        return "slow" if shapes[1] == (4, 1, 3) else ""

    monkeypatch.setattr(single_ops, "BROADCASTS", SimpleNamespace(reason=reason))
    values = {1: value(1, source), 2: value(2, operand), 3: value(3, (4, 2, 3))}
    found = single_ops.slow_operand(step(0, [1, 2], [3], kind, **attrs), values)
    assert found == (None if order is None else tuple(values[number] for number in order))
    assert all(kinds == {kind} and shapes[0] == (4, 2, 3) for kinds, shapes in asked)


def test_ops_that_are_compiled_once_are_told_apart():
    def kind(part, *shapes):
        values = [value(number, shape) for number, shape in enumerate(shapes)]
        return single_ops.Collapsing(step(0, [0, 1], [2], "Add")._replace(part=part), values).kind(None)

    usual = (4, 3), (1, 3), (4, 3)
    assert kind("a", *usual) == kind("a", *usual) != kind("b", *usual)
    assert kind("a", *usual) != kind("a", (4, 3), (4, 1), (4, 3))


@pytest.mark.parametrize(
    ("shapes", "ends"),
    [
        (((4, 2, 3), (4, 1, 3)), ((4, 2, 3), (4, 1, 3))),
        (((4, 2, 2, 3), (4, 1, 1, 3)), ((4, 4, 3), (4, 1, 3))),
        (((1 << 13, 16), (1, 16)), ((256, 512), (1, 512))),
    ],
)
@pytest.mark.parametrize("turned", [None, 1, 2, 3])
def test_binary_ops_on_fewer_axes(shapes, ends, turned, monkeypatch):
    made = []
    monkeypatch.setattr(single_ops, "BROADCASTS", SimpleNamespace(reason=lambda *_: "slow"))
    monkeypatch.setattr(single_ops, "_compiled", lambda *given: made.append(given) or "compiled")
    monkeypatch.setattr(single_ops, "LibraryTensor", lambda number, dtype, shape: (number, dtype, shape))
    source, operand = shapes
    values = {1: value(1, source), 2: value(2, operand), 3: value(3, source)}
    if turned:
        values[turned] = value(turned, values[turned].shape, values[turned].strides[::-1])
    for kind, name in (("Subtract", "Subtract"), ("BiasAdd", "Add")):
        found = single_ops.collapsed_binary(step(0, [1, 2], [3], kind), values)
        assert found == (None if turned else "compiled")
        wanted = name, [(1, og.f32, ends[0]), (2, og.f32, ends[1])], (3, og.f32, ends[0])
        assert made == ([] if turned else [wanted])
        made.clear()
    monkeypatch.setattr(single_ops, "BROADCASTS", SimpleNamespace(reason=lambda *_: ""))
    assert single_ops.collapsed_binary(step(0, [1, 2], [3], "Subtract"), values) is None


class Threads:
    def __init__(self):
        self.used = []

    def use(self, count):
        self.used.append(count)


def test_copies_between_layouts_are_compiled_once(monkeypatch):
    monkeypatch.setattr(single_ops, "compile_reorder", lambda source, target: (source.id, target.id))
    reorders, threads = {}, Threads()
    for number, (source, target) in enumerate(
        [
            (value(1), value(2, strides=(1, 2))),
            (value(3), value(4, strides=(1, 2))),
            (value(5), value(6, strides=(4, 1))),
            (value(7, strides=(4, 1)), value(8, strides=(1, 2))),
            (value(9, (3, 2)), value(10, (3, 2), strides=(1, 2))),
            (value(11)._replace(dtype=og.bf16), value(12, strides=(1, 2))),
        ]
    ):
        made = single_ops.Reordering(source, target).compiled(int, reorders, threads)
        assert made == ((1, 2) if number == 1 else (source.id, target.id))
    assert (len(reorders), threads.used) == (5, [None] * 5)


def test_a_binary_op_on_fewer_axes_knows_its_ports(monkeypatch):
    asked = []
    monkeypatch.setattr(
        single_ops, "collapsed_binary", lambda one, values: asked.append((one.kind, [*values])) or "made"
    )
    one = single_ops.Collapsing(step(0, [7, 8], [9], "Add"), [value(7), value(8), value(9)])
    threads = Threads()
    assert one.compiled(int, threads) == "made"
    assert (asked, threads.used) == ([("Add", [7, 8, 9])], [None])
    made = SimpleNamespace(inputs=[SimpleNamespace(id=8), SimpleNamespace(id=7)], outputs=[SimpleNamespace(id=9)])
    assert one.places(made) == [1, 0, 2]
    assert one.sizes() == ()
