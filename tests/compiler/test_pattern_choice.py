"""Which patterns of partitions are shared, and which fusions are not compiled: asked of a library made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler import patterns as module
from onegraph.compiler.ir.part import Part
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.partition_store import PartitionStore, SharedPartitions
from onegraph.compiler.patterns import Patterns
from onegraph.errors import UnsupportedError
from onegraph.opset.schema import TensorType

ROW = TensorType(og.f32, (2, 3))


def value(number, shape=(2, 3), constant=None, dtype=og.f32):
    return Value(number, dtype, shape, dense_of(shape), number, f"v{number}", constant)


def step(number, inputs, outputs, kind="ReLU"):
    op = SimpleNamespace(inputs=(), outputs=(), kind=kind, name=kind)
    part = Part(kind, {}, (), (ROW,) * len(inputs), (ROW,))
    return Step(number, "library", kind, tuple(inputs), tuple(outputs), op, {}, part=part)


class Found:
    """A partition of the library."""

    def __init__(self, ops, inputs, outputs):
        self.ops, self.input_ids, self.output_ids = ops, inputs, outputs


class Library:
    """Makes partitions of the steps that it gets; notes what it was asked for."""

    def __init__(self, divides=(), refuses=None):
        self.asked, self.divides, self.refuses = [], divides, refuses or {}

    def __call__(self, lowered, mode, steps, results=()):
        numbers = tuple([one.id for one in steps])

        def partitions(policy):
            self.asked.append((mode, policy, numbers, tuple(results)))
            groups = [numbers[:1], numbers[1:]] if numbers in self.divides else [numbers]
            made = {number for one in steps for number in one.outputs}
            ends = dict.fromkeys([number for one in steps for number in one.inputs if number not in made])
            return [Found([9, 9, 9], [], [])] + [Found(group, [*ends], [*results]) for group in groups]

        made = partitions if len(steps) > 1 else lambda policy: partitions(policy)[1:]
        return SimpleNamespace(partitions=made), {
            one.id: self.refuses[one.id] for one in steps if one.id in self.refuses
        }


@pytest.fixture
def machine(monkeypatch):
    """A machine and a library without peculiarities; its attributes change it."""
    facts = SimpleNamespace(library=Library(), wrong=(), slow=None, lifts=0, opened=[])
    for name in ("has_amx", "has_avx2", "has_avx512", "has_vnni"):
        monkeypatch.setattr(module, name, lambda: False)
    monkeypatch.setattr(module, "HASHES_CONSTANTS", False)
    monkeypatch.setattr(module, "programs_keep_constants", lambda: True)
    monkeypatch.setattr(module, "lib", SimpleNamespace(onegraph_can_prepare=lambda: False))
    monkeypatch.setattr(module, "capi_graph", lambda *given: facts.library(*given))
    monkeypatch.setattr(module, "use_of", lambda one, _: SimpleNamespace(kind=one.kind, call=one.kind))
    monkeypatch.setattr(module, "Fused", fused_of)
    monkeypatch.setattr(module, "replace", lambda one, **more: changed(one, more))
    monkeypatch.setattr(module, "wrong_fusion", lambda one, _: "wrong" if one.names in facts.wrong else "")
    monkeypatch.setattr(module, "slow_fusion", lambda one, _: facts.slow)
    monkeypatch.setattr(module, "lifted_rank", lambda *_: facts.lifts)
    monkeypatch.setattr(module, "with_lifted", lambda lowered, *_: lowered)
    monkeypatch.setattr(module, "open_partition", lambda *given: facts.opened.append(given))
    monkeypatch.setattr(module, "f32_flops", lambda steps, inputs: 100 * len(steps) + len(inputs))
    return facts


def fused_of(uses, *facts, **more):
    return SimpleNamespace(uses=[*uses], names="".join(one.kind[0] for one in uses), facts=facts, more=more)


def changed(one, more):
    if "uses" in more:
        return fused_of(more["uses"], *one.facts, **one.more)
    return SimpleNamespace(**{**vars(one), **more})


def patterns_of(values, known=None, *, mode="strict", keeps=False, unkept=(), rounds=False):
    store = PartitionStore()
    store.rounds = rounds
    lowered = SimpleNamespace(values=Values({one.id: one for one in values}), shared=SimpleNamespace(partitions=store))
    schedule = SimpleNamespace(values=lowered.values)
    known = SharedPartitions() if known is None else known
    return Patterns(lowered, schedule, mode, keeps=keeps, unkept=frozenset(unkept), postpones=True, known=known)


WHOLE = [value(number) for number in range(1, 7)]
FIXED = [value(1), value(2, constant=np.ones((2, 3))), *WHOLE[2:]]
PAIR = [step(0, [1, 2], [3], "Add"), step(1, [3], [4])]


def test_equal_steps_share_a_pattern(machine):
    known = SharedPartitions()
    made = patterns_of(WHOLE, known)
    first, numbers = made.find(PAIR, None, [4])
    assert numbers == [1, 2, 3, 4]
    assert (first.ids, first.places, first.n_inputs) == ((1, 2, 4), [0, 1, 3], 2)
    assert (first.nbytes, first.flops, first.reason, first.cut, first.marks) == (72, 202, "", 0, ())
    again = [step(2, [4, 5], [6], "Add"), step(3, [6], [1])]
    assert made.find(again, None, [1]) == (first, [4, 5, 6, 1])
    other, _ = made.find(again, None, [6, 1])
    assert other is not first
    assert [*made] == [first, other]
    later = patterns_of(WHOLE, known)
    assert [*later] == []
    assert later.find(PAIR, None, [4])[0] is first
    assert [*later] == [first]
    assert [asked[:3] for asked in machine.library.asked] == [
        ("strict", "fusion", (0, 1)),
        ("strict", "fusion", (2, 3)),
    ]


def test_a_single_step_has_its_own_results(machine):
    made = patterns_of(WHOLE)
    found, numbers = made.find(PAIR[:1], None, [7, 8])
    assert (found.ids, numbers, found.nbytes, found.cut) == ((1, 2, 3), [1, 2, 3], 72, 0)
    assert found.partition.ops == (0,)
    assert machine.library.asked == [("strict", "debug", (0,), ())]
    given = Found([0, 1], [2, 1], [4, 3])
    assert made.find(PAIR, given, [4])[0].ids == (2, 1, 4, 3)
    assert len(machine.library.asked) == 1


def test_a_refused_op_has_no_pattern(machine):
    machine.library.refuses = {0: "it is too wide"}
    with pytest.raises(UnsupportedError, match=r"^it is too wide$"):
        patterns_of(WHOLE).find(PAIR[:1])


def test_steps_that_the_library_divides_have_no_pattern(machine):
    machine.library.divides = [(0, 1)]
    with pytest.raises(UnsupportedError, match=r"^the library finds another partition for the same ops$"):
        patterns_of(WHOLE).find(PAIR, None, [4])


@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("is_fixed", [False, True])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_patterns_of_constants_are_apart(hashes, keeps, is_fixed, is_elsewhere, machine, monkeypatch):
    monkeypatch.setattr(module, "HASHES_CONSTANTS", hashes)
    known = SharedPartitions()
    values = FIXED if is_fixed else WHOLE
    made = patterns_of(values, known, keeps=keeps)
    first = made.find(PAIR, None, [4])[0]
    is_apart = is_fixed and (hashes or keeps)
    assert len(known.patterns) == (0 if is_apart else 1)
    monkeypatch.setattr(type(first), "is_elsewhere", is_elsewhere)
    again = made.find(PAIR, None, [4])[0]
    assert (again is first) is not (is_elsewhere or (keeps and is_fixed))
    assert len([*made]) == (1 if again is first else 2)  # the replaced one is in use


def test_sizes_that_are_open_are_known(machine, monkeypatch):
    asked, sized = [], []
    monkeypatch.setattr(module, "step_at", lambda one, at: sized.append((one.id, at)) or one)
    store, schedule = PartitionStore(), SimpleNamespace(values=Values({one.id: one for one in WHOLE}))
    lowered = SimpleNamespace(values=schedule.values, shared=SimpleNamespace(partitions=store))
    options = {"keeps": False, "unkept": frozenset(), "postpones": True, "known": SharedPartitions()}
    for at in (None, int):
        made = Patterns(lowered, schedule, "strict", **options, at=at)
        asked.append((type(made._values).__name__, type(made._lowered.values).__name__, made.at))
        assert made.find(PAIR, None, [4])[1] == [1, 2, 3, 4]
    assert asked == [("Values", "Values", None), ("ValuesAt", "SizedValues", int)]
    assert sized == [(0, int), (1, int)]


@pytest.mark.parametrize(
    ("keeps", "reads", "takes_all"), [(True, False, False), (False, False, True), (True, True, True)]
)
def test_patterns_keep_constants_that_no_product_reads_in_place(keeps, reads, takes_all, machine, monkeypatch):
    monkeypatch.setattr(Patterns, "_keeps_constants", lambda *given: given[2] == [1, 2] and keeps)
    monkeypatch.setattr(Patterns, "_reads_in_place", lambda *_: reads)
    products = [step(0, [1, 2], [3], "MatMul"), PAIR[1]]
    assert patterns_of(WHOLE).find(products, None, [4])[0].takes_all is takes_all


def test_a_fusion_is_judged_with_its_constants(machine, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "wrong_fusion", lambda one, _: asked.append(one.more["constants"]) or "")
    patterns_of(FIXED).find(PAIR, None, [4])
    assert asked == [{2}]


def test_constants_of_a_fusion_are_told_apart(machine):
    made, known = patterns_of(FIXED), SharedPartitions()
    assert (
        made.find(PAIR, None, [4])[0] is not made.find([step(2, [3, 4], [5], "Add"), step(3, [5], [6])], None, [6])[0]
    )
    one = patterns_of(WHOLE, known).find(PAIR[:1])[0]
    assert patterns_of(FIXED, known).find(PAIR[:1])[0] is one


@pytest.mark.parametrize(
    ("wrong", "slow", "verdict"),
    [
        ((), None, ("", 0)),
        ((), SimpleNamespace(reason="it is slow", place=2), ("it is slow, so that the ops run apart", 2)),
        (("ARE",), None, ("", 0)),  # of another fusion
        (("ARE", "ARES"), None, ("wrong, so that the ops run apart", 2)),
        (("ARES",), None, ("wrong, so that the ops run apart", 3)),
        (("AR", "ARES"), None, ("wrong, so that the ops run one by one", 0)),
        (("AR", "ARE", "ARES"), None, ("wrong, so that the ops run one by one", 0)),
    ],
)
def test_a_wrong_fusion_is_cut_in_front_of_the_op_that_makes_it_wrong(wrong, slow, verdict, machine):
    machine.wrong, machine.slow = wrong, slow
    kinds = ("Add", "ReLU", "Exp", "Square")
    steps = [step(number, [number + 1], [number + 2], kind) for number, kind in enumerate(kinds)]
    assert patterns_of(WHOLE)._verdict(steps, [2]) == verdict


def test_a_verdict_knows_the_machine(machine, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "wrong_fusion", lambda one, _: asked.append((one.facts, one.more)) or "")
    for names in ([], ["has_vnni"], ["has_avx2"], ["has_avx512"], ["has_amx"]):
        for name in ("has_amx", "has_avx2", "has_avx512", "has_vnni"):
            monkeypatch.setattr(module, name, lambda yes=name in names: yes)
        patterns_of(WHOLE, mode="bf16")._verdict(PAIR, [2])
    monkeypatch.setattr(module, "RUNTIME", "OpenMP")
    patterns_of(WHOLE)._verdict(PAIR, [2])
    monkeypatch.setattr(module, "RUNTIME", "TBB")
    patterns_of(WHOLE)._verdict(PAIR, [])
    assert [facts for facts, _ in asked[:4]] == [
        (False, False, False),
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert [more["amx"] for _, more in asked] == [False] * 4 + [True] * 3
    assert [more["strict"] for _, more in asked] == [False] * 5 + [True] * 2
    assert [more["openmp"] for _, more in asked[5:]] == [True, False]
    assert [more["constants"] for _, more in asked[5:]] == [{2}, frozenset()]


@pytest.mark.parametrize("amx", [False, True])
@pytest.mark.parametrize("mode", ["strict", "bf16"])
@pytest.mark.parametrize("kind", ["Add", "Convolution"])
@pytest.mark.parametrize("spans", [False, True])
def test_convolutions_that_would_crash_are_strict(amx, mode, kind, spans, machine, monkeypatch):
    monkeypatch.setattr(module, "has_amx", lambda: amx)
    monkeypatch.setattr(module, "SPANNED_SOURCE", SimpleNamespace(ops={"Convolution"}))
    monkeypatch.setattr(module, "spans_source", lambda _: spans)
    made = patterns_of(WHOLE, mode=mode)
    one = step(0, [1, 2], [3], kind)._replace(part=SimpleNamespace(call=None))
    is_strict = mode == "strict" or (amx and spans and kind == "Convolution")
    assert made._mode([PAIR[1], one]) == ("strict" if is_strict else mode)
    assert made._mode([one._replace(part=None)]) == mode


def test_a_partition_of_another_mode_is_not_taken(machine, monkeypatch):
    made = patterns_of(WHOLE, mode="bf16")
    monkeypatch.setattr(made, "_mode", lambda _: "strict")
    made.find(PAIR, Found([0, 1], [2, 1], [4]))
    assert machine.library.asked == [("strict", "fusion", (0, 1), (4,))]


def test_lifted_steps_take_the_partition_of_all(machine):
    machine.lifts, known = 2, SharedPartitions()
    found, _ = patterns_of(WHOLE, known).find(PAIR, None, [4])
    assert known.seen == {*()}
    assert (found.lifts, found.marks[0][:16]) == (2, "on four axes, as")
    assert found.partition.ops == (0, 1)
    assert [asked[1] for asked in machine.library.asked] == ["fusion"]
    machine.library = Library(refuses={1: "no"})
    found, _ = patterns_of(WHOLE).find(PAIR, Found([0, 1], [1, 2], [4]))
    assert (found.lifts, found.marks, machine.library.asked) == (0, (), [])
    machine.library = Library(divides=[(0, 1)])
    found, _ = patterns_of(WHOLE).find(PAIR, Found([0, 1], [1, 2], [4]))
    assert (found.lifts, len(machine.library.asked)) == (0, 1)
    machine.library = Library()
    found, _ = patterns_of(WHOLE).find(PAIR[:1])
    assert (found.lifts, [asked[1] for asked in machine.library.asked]) == (2, ["debug"])


def test_a_partition_for_all_sizes_is_made_for_the_second_size(machine, monkeypatch):
    made = []

    def open_partition(values, steps, mode, ends):
        made.append((sorted(values), [one.id for one in values.values()], mode, ends))
        made.append([(one.id, one.inputs, one.outputs) for one in steps])
        return Found((0, 1), [0, 1], ends)

    monkeypatch.setattr(module, "open_partition", open_partition)
    known = SharedPartitions()
    for rows in (5, 6, 7):
        values = [value(number, (rows, 3)) for number in range(1, 7)]
        steps = [step(4, [3, 2], [5], "Add"), step(5, [5], [6])]
        found, numbers = patterns_of(values, known).find(steps, None, [6])
        assert (found.ids, found.places, numbers) == ((3, 2, 6) if rows == 5 else [0, 1, 3], [0, 1, 3], [3, 2, 5, 6])
        known.patterns.clear()
    assert made == [([0, 1, 2, 3], [0, 1, 2, 3], "strict", [3]), [(0, (0, 1), (2,)), (1, (2,), (3,))]]
    assert len(machine.library.asked) == 1
    patterns_of(FIXED, known, keeps=True).find(PAIR, None, [4])
    assert len(known.seen) == 1  # what is apart is compiled for one size


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize(
    ("kinds", "is_fixed", "shape", "is_read"),
    [
        (("MatMul",), True, (3, 5), True),
        (("MatMul",), False, (3, 5), False),
        (("MatMul",), True, (1, 3, 5), False),
        (("Add",), True, (3, 5), False),
        (("Dequantize", "MatMul"), True, (3, 5), True),
        (("TypeCast", "MatMul"), True, (3, 5), True),
        (("ReLU", "MatMul"), True, (3, 5), False),
    ],
)
def test_weights_that_are_prepared_for_other_rows_are_read_in_place(rounds, kinds, is_fixed, shape, is_read, machine):
    known = SharedPartitions()

    def reads(rows):
        weights = value(2, shape, np.ones(shape) if is_fixed else None)
        values = [value(1, (2, rows, 3)), weights, value(3), value(4, shape)]
        steps = [step(0, [2], [4], kinds[0])] if len(kinds) > 1 else []
        steps.append(step(1, [1, 4 if steps else 2], [3], kinds[-1]))
        return patterns_of(values, known, rounds=rounds)._reads_in_place(steps)

    assert [reads(rows) for rows in (4, 4, 5, 4)] == [False, False, rounds and is_read, False]
    assert [*known.prepared.values()] == ([8] if rounds and is_read else [])


@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("has_caches", [False, True])
@pytest.mark.parametrize("prepares", [False, True])
@pytest.mark.parametrize(("size", "is_worthwhile"), [(0, False), (1, False), (2, True), (11, True), (12, False)])
def test_constants_that_the_library_may_keep(hashes, has_caches, prepares, size, is_worthwhile, machine, monkeypatch):
    monkeypatch.setattr(module, "HASHES_CONSTANTS", hashes)
    monkeypatch.setattr(module, "programs_keep_constants", lambda: has_caches)
    monkeypatch.setattr(module, "lib", SimpleNamespace(onegraph_can_prepare=lambda: prepares))
    monkeypatch.setattr(module, "MOST_CONSTANTS", 14)
    sizes = [(1, size), (2, 2 if size > 2 else 0)]
    values = [value(number, (count,), np.ones(count) if count else None) for number, count in sizes] + [value(3)]
    may_keep = not hashes or (has_caches and not prepares and is_worthwhile)
    made = patterns_of(values, unkept=[7])
    assert made._keeps_constants([step(6, [1, 2, 3], [4])], [1, 2, 3]) is may_keep
    assert made._keeps_constants([step(6, [1], [4]), step(7, [1], [4])], [1, 2, 3]) is not hashes
    assert made._can_keep is (hashes and has_caches and not prepares)


def test_steps_without_a_better_kernel_are_marked(machine, monkeypatch):
    monkeypatch.setattr(module, "WITH_REFERENCE_KERNELS", {"ReLU", "Add"})
    monkeypatch.setattr(module, "reference_kernel", lambda call, _: "of odd sizes" if call == "ReLU" else "")
    assert patterns_of(WHOLE).find(PAIR, None, [4])[0].marks == ("reference kernel: of odd sizes",)
    monkeypatch.setattr(module, "WITH_REFERENCE_KERNELS", {"Add"})
    assert patterns_of(WHOLE).find(PAIR, None, [4])[0].marks == ()


def test_another_partition_has_the_same_results(machine):
    made = patterns_of(WHOLE)
    assert made.partition_again(PAIR, [4, 3]).ops == (0, 1)
    assert made.partition_again(PAIR[:1], [3]).ops == (0,)
    assert machine.library.asked == [("strict", "fusion", (0, 1), (4, 3)), ("strict", "debug", (0,), (3,))]


def test_values_that_the_schedule_has_added_are_known(machine, monkeypatch):
    made = patterns_of(WHOLE)
    lowered = made._lowered
    assert made._with_values([1, 2]) is lowered
    made._values = {**lowered.values, 9: value(9)}
    found = []
    monkeypatch.setattr(module, "replace", lambda one, values: found.append((one is lowered, [*values])))
    made._with_values([1, 9])
    assert found == [(True, [1, 2, 3, 4, 5, 6, 9])]
