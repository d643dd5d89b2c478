"""How many threads a step gets: the choice among steps, partitions and times made by hand, and what is kept of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import onegraph as og
from onegraph.compiler import known_threads, thread_tuning
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.notes import Note
from onegraph.compiler.partition_store import PartitionStore
from onegraph.compiler.steps import CompiledStep
from onegraph.compiler.thread_tuning import (
    LARGE_BYTES,
    LARGE_FLOPS,
    MIN_GAIN_SECONDS,
    QUICK_SECONDS,
    compiled_for,
    fastest,
    long_seconds,
    measured,
    powers_of_two,
    share_threads,
    without_barriers,
)
from onegraph.errors import UnsupportedError

US, LIMIT = 1e-6, 4


class Threads:
    """The number of threads of the calling thread."""

    now, restored = 0, []

    def __init__(self):
        self.before = "before"

    def use(self, count):
        Threads.now = count


class Made:
    """A partition that is compiled for a number of threads."""

    def __init__(self, partition, threads, inputs="inputs", outputs="outputs", engine="engine"):
        self.partition, self.threads = partition, threads
        self.inputs, self.outputs, self.engine = inputs, outputs, engine

    @classmethod
    def _checked(cls, partition, inputs, outputs, engine):
        if partition == "refused":
            raise UnsupportedError("refused")
        assert (inputs, outputs, engine) == ("inputs", "outputs", "engine")
        return cls(partition, Threads.now)


@pytest.fixture(autouse=True)
def no_library(monkeypatch):
    pretend(monkeypatch)


def pretend(monkeypatch):
    """Compile nothing, and keep nothing on disk."""
    Threads.restored = []
    monkeypatch.setattr(thread_tuning, "CompiledPartition", Made)
    monkeypatch.setattr(thread_tuning, "ThreadCount", Threads)
    monkeypatch.setattr(thread_tuning, "restore_threads", Threads.restored.append)
    monkeypatch.setattr(thread_tuning, "find_counts", lambda *_: None)
    monkeypatch.setattr(thread_tuning, "keep_counts", lambda *_: None)
    monkeypatch.setattr(thread_tuning, "key_of", lambda kinds, limit: (*kinds, limit))


def step_of(name, note=0, nbytes=64, flops=0, *, like=None, **more):
    made = Made(name, 1 if more.get("is_small") else LIMIT)
    return CompiledStep(made, like or made, (), 0, (), note, nbytes, flops, **more)


class Clock:
    """The times of steps, by the partition and the number of threads; notes what is asked."""

    def __init__(self, **times):
        self.times, self.asked = times, []

    def __call__(self, steps, counts):
        asked = [
            (step.compiled.partition, step.compiled.threads, count) for step, count in zip(steps, counts, strict=True)
        ]
        self.asked.append(asked)
        return [self.times[name][threads if len(self.asked) > 1 else 0] for name, threads, _ in asked]


def shared(steps, clock, fixed=None, store=None, notes=("a", "b", "c", "d")):
    store = PartitionStore() if store is None else store
    chosen, counts = share_threads(steps, notes, fixed or {}, LIMIT, clock, store)
    return [(step.compiled.partition, step.compiled.threads) for step in chosen], counts


# By name: what is said of a step, and whether its time is measured.
MEASURED = {
    "few bytes": ({"nbytes": 64}, True),
    "just so many bytes": ({"nbytes": LARGE_BYTES}, True),
    "many bytes": ({"nbytes": LARGE_BYTES + 1}, False),
    "just so many operations": ({"flops": LARGE_FLOPS * LIMIT}, True),
    "many operations": ({"flops": LARGE_FLOPS * LIMIT + 1}, False),
    "small": ({"is_small": True}, True),
    "small, with many operations": ({"is_small": True, "flops": LARGE_FLOPS * LIMIT + 1}, True),
    "quick": ({"is_quick": True}, False),
    "small and quick": ({"is_small": True, "is_quick": True}, False),
}


@pytest.mark.parametrize("name", MEASURED)
def test_steps_whose_time_is_measured(name):
    facts, is_measured = MEASURED[name]
    clock = Clock(first={0: 2 * US})
    given = step_of("first", **facts)
    made, counts = shared([given], clock)
    assert clock.asked == ([[("first", given.compiled.threads, 1)], []] if is_measured else [])
    assert counts == [1 if is_measured or "is_small" in facts else 0]
    assert made == [("first", 1 if is_measured else given.compiled.threads)]


def test_nothing_is_measured_without_memory():
    steps = [step_of("first"), step_of("second", is_small=True)]
    assert shared(steps, None) == ([("first", LIMIT), ("second", 1)], [0, 1])


def test_equal_steps_are_measured_once_and_keep_the_fastest_form():
    first = step_of("first", like=(like := Made("like", LIMIT)))
    steps, store = [first, step_of("second", like=like), step_of("third"), step_of("first", note=3)], PartitionStore()
    clock = Clock(first={0: 20 * US, 1: 20 * US, 2: 9 * US, 4: 12 * US}, third={0: 50 * US})
    made, counts = shared(steps, clock, {3: 3}, store)
    assert counts == [2, 2, 0, 3]
    assert made == [("first", 2), ("second", 2), ("third", LIMIT), ("first", 3)]
    assert clock.asked == [
        [("first", LIMIT, 1), ("third", LIMIT, 1)],
        [("first", 1, 1), ("first", 2, 2), ("first", LIMIT, 4)],
    ]


def test_what_was_compiled_to_be_measured_is_dropped():
    one, store = step_of("first"), PartitionStore()
    clock = Clock(first={0: 20 * US, 1: 20 * US, 2: 9 * US, 4: 12 * US})
    made, counts = shared([one], clock, store=store)
    assert (made, counts) == ([("first", 2)], [2])
    assert {number: each.threads for number, each in store.variants[one.compiled].items()} == {2: 2}


def test_all_threads_are_0_and_what_cannot_be_measured_stays():
    clock = Clock(first={0: 20 * US, 1: 20 * US, 2: 15 * US, 4: 9 * US}, second={0: None}, third={0: 0})
    steps = [step_of("first"), step_of("second"), step_of("third", is_small=True)]
    assert shared(steps, clock) == ([("first", LIMIT), ("second", LIMIT), ("third", 1)], [0, 0, 1])


def test_steps_that_prepare_constants_are_compiled_anew():
    steps = [step_of("first", again=lambda: "anew"), step_of("second", again=lambda: "another")]
    clock = Clock(first={0: 2 * US}, second={0: 50 * US}, anew={0: 2 * US})
    store = PartitionStore()
    chosen, counts = share_threads(steps, "ab", {}, LIMIT, clock, store)
    assert [(one.compiled.partition, one.compiled.threads) for one in chosen] == [("anew", 1), ("another", LIMIT)]
    assert counts == [1, 0]
    kept = [made for variants in store.variants.values() for made in variants.values()]
    assert {one.compiled for one in chosen}.isdisjoint(kept)


def test_kernels_of_the_package_run_with_any_number_of_threads():
    kernel = object.__new__(CompiledKernel)
    one = CompiledStep(kernel, kernel, (), 0, (), 0, 64)
    _, counts = share_threads([one], ["a"], {}, LIMIT, lambda steps, _: [2 * US] * len(steps), PartitionStore())
    assert counts == [1]
    assert compiled_for(one, 3, variants := {}) is one
    assert variants == {}


# Times ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alone", "count", "is_sure", "rounds"),
    [
        (None, None, False, 0),
        (0.0, None, False, 0),
        (QUICK_SECONDS - 1e-9, 1, True, 0),
        (QUICK_SECONDS, 2, True, 3),
        (long_seconds(LIMIT) - 1e-9, 2, True, 3),
        (long_seconds(LIMIT), 4, True, 0),
    ],
)
def test_numbers_of_threads_by_the_time_on_one(alone, count, is_sure, rounds):
    clock = Clock(first={0: alone, 1: 9 * US, 2: 3 * US, 4: 3 * US})
    assert measured([step_of("first")], LIMIT, clock, {}) == ([count], is_sure)
    assert [len(one) for one in clock.asked] == [1, rounds]


def test_a_time_that_is_missing_makes_the_number_unsure():
    clock = Clock(first={0: 20 * US, 1: 9 * US, 2: None, 4: 3 * US})
    assert measured([step_of("first")], LIMIT, clock, {}) == ([4], False)


@pytest.mark.parametrize(
    ("seconds", "alone", "index"),
    [
        ([2.0, 1.0 + MIN_GAIN_SECONDS, 1.0], 1.0, 1),
        ([1.0 + 2 * MIN_GAIN_SECONDS, 1.0 + 3 * MIN_GAIN_SECONDS, 1.0], 1.0, 2),
        ([1.0, 0.5, 0.5], 1.0, 1),
        ([1.0, None, 0.5], 1e-5, 2),
        ([None, None, None], 0.9e-5, 0),
        ([1.0], 1.0, 0),
    ],
)
def test_the_smallest_number_that_is_about_as_fast(seconds, alone, index):
    assert fastest(seconds, alone) == index


def test_numbers_of_threads_that_are_tried():
    assert [powers_of_two(limit) for limit in (1, 2, 3, 4, 5, 8, 9)] == [
        *([], [1], [1, 2], [1, 2]),
        *([1, 2, 4], [1, 2, 4], [1, 2, 4, 8]),
    ]


@pytest.mark.parametrize(("limit", "seconds"), [(1, 1e-5), (2, 2e-5), (10, 1e-4), (11, 1e-4), (64, 1e-4)])
def test_times_from_which_a_step_gets_all_threads(limit, seconds):
    assert long_seconds(limit) == pytest.approx(seconds, rel=1e-12)


def test_a_step_is_compiled_once_for_a_number_of_threads():
    variants, one = {}, step_of("first", again=lambda: "again")
    first = compiled_for(one, 3, variants)
    assert (first.compiled.partition, first.compiled.threads) == ("again", 3)
    assert compiled_for(one, 3, variants).compiled is first.compiled
    assert compiled_for(step_of("plain"), 2, {}).compiled.threads == 2
    refused = step_of("refused")
    assert compiled_for(refused, 3, variants) == refused
    assert variants[refused.compiled] == {3: None}
    assert Threads.restored == ["before"] * 3


def test_a_step_that_is_compiled_for_the_number_stays():
    for is_small, own in ((True, 1), (False, LIMIT)):
        one = step_of("first", is_small=is_small)
        for count in (1, 2, LIMIT):
            made = thread_tuning._on(count, one, LIMIT, {})
            assert (made is one) is (count == own)
            assert made.compiled.threads == count


@pytest.mark.parametrize(
    ("facts", "note", "count", "is_kernel", "has_form"),
    [
        ({}, 1, 0, False, True),
        ({}, 1, 2, False, True),
        ({}, 1, 1, False, False),
        ({}, 0, 0, False, False),
        ({}, 2, 0, False, False),
        ({"again": lambda: "again"}, 1, 0, False, False),
        ({}, 1, 0, True, False),
    ],
)
def test_steps_with_barriers_have_a_form_for_one_thread(facts, note, count, is_kernel, has_form):
    """Of notes, the first is about an op without barriers, and the user has set threads for the last."""
    notes = [SimpleNamespace(steps=[SimpleNamespace(kind=kind)]) for kind in ("ReLU", "BatchNormForwardTraining")]
    notes.append(notes[1])
    one = step_of("first", note=note, **facts)
    if is_kernel:
        kernel = object.__new__(CompiledKernel)
        one = one._replace(compiled=kernel, like=kernel)
    (made,) = without_barriers([one], notes, {2: 3}, [count])
    assert made.compiled is one.compiled
    assert (made.alone and made.alone.threads) == (1 if has_form else None)
    refused = [step_of("refused", note=1)]
    assert without_barriers(refused, notes, {}, [0]) == refused


# What is kept ---------------------------------------------------------------------------------------------------------


def noted(*kinds):
    return SimpleNamespace(steps=[SimpleNamespace(kind=kind) for kind in kinds])


@pytest.mark.parametrize("rounds", [False, True])
def test_numbers_of_threads_are_found_where_sizes_change(rounds, monkeypatch):
    kept, asked = [], []
    monkeypatch.setattr(thread_tuning, "find_counts", lambda *given: asked.append(given))
    monkeypatch.setattr(thread_tuning, "keep_counts", lambda *given: kept.append(given))
    store, notes = PartitionStore(), [noted("ReLU"), noted("Add", "Exp")]
    store.rounds = rounds
    clock = Clock(first={0: 2 * US}, second={0: 90 * US})
    steps = [step_of("first", 0, 64), step_of("second", 1, 127, is_small=True)]
    assert shared(steps, clock, store=store, notes=notes)[1] == [1, 0]
    assert asked == [((*notes, LIMIT), 2, LIMIT)]
    assert kept == [((*notes, LIMIT), [1, LIMIT])]
    known = {(("ReLU",), 7, False, LIMIT): 1, (("Add", "Exp"), 7, True, LIMIT): LIMIT}
    assert store.counts == (known if rounds else {})
    clock.asked.clear()
    again = [step_of("first", 0, 100), step_of("second", 1, 64, is_small=True)]
    assert shared(again, clock, store=store, notes=notes)[1] == [1, 0]
    assert len(clock.asked) == (0 if rounds else 2)
    if rounds:
        shared([step_of("first", 0, 128), again[1]], clock, store=store, notes=notes)
        assert len(clock.asked) == 2  # one of them is new


def test_numbers_of_threads_that_a_file_has_are_taken(monkeypatch):
    kept = []
    monkeypatch.setattr(thread_tuning, "find_counts", lambda *_: [2])
    monkeypatch.setattr(thread_tuning, "keep_counts", lambda *given: kept.append(given))
    assert shared([step_of("first")], Clock()) == ([("first", 2)], [2])
    monkeypatch.setattr(thread_tuning, "find_counts", lambda *_: None)
    shared([step_of("first")], Clock(first={0: None}))
    assert kept == []


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (None, None),
        ("0,1,4", [None, 1, 4]),
        ("4,4,4", [4, 4, 4]),
        ("0,1", None),
        ("0,1,4,4", None),
        ("0,1,5", None),
        ("0,1,", None),
        ("0,1,-1", None),
        ("0,1,01", None),
    ],
)
def test_kept_numbers_of_threads_are_read(text, counts, monkeypatch):
    kept = []
    log = SimpleNamespace(find=lambda key: text if key == "key" else None, keep=lambda *given: kept.append(given))
    monkeypatch.setattr(known_threads, "LOG", log)
    assert known_threads.find_counts("key", 3, 4) == counts
    assert known_threads.find_counts("another", 3, 4) is None
    if counts:
        known_threads.keep_counts("key", counts)
    assert kept == ([("key", text)] if counts else [])


def test_every_number_of_threads_can_be_kept(monkeypatch):
    kept = []
    monkeypatch.setattr(known_threads, "LOG", SimpleNamespace(keep=lambda *given: kept.append(given)))
    known_threads.keep_counts("key", [known_threads.MAX_THREADS, None])
    assert kept == [("key", f"{known_threads.MAX_THREADS},0")]


def value(dtype=og.f32, shape=(2, 3), strides=None, constant=None):
    return Value(0, dtype, shape, strides or dense_of(shape), 0, "v", constant)


def test_the_key_of_numbers_of_threads_tells_steps_apart(monkeypatch):
    plain = (value(),)

    def note(executor="oneDNN", kind="ReLU", attrs=(), inputs=plain, outputs=plain):
        return Note(executor, [SimpleNamespace(kind=kind, attrs=dict(attrs))], ("a reason",), inputs, outputs)

    notes = [
        *(note(), note("kernel"), note(kind="Exp"), note(attrs={"a": 1}), note(attrs={"a": 2})),
        *(note(inputs=(value(og.bf16),)), note(inputs=(value(shape=(3, 3)),)), note(inputs=(value(strides=(1, 2)),))),
        *(note(inputs=(value(constant=1),)), note(inputs=()), note(outputs=(value(og.bf16),)), note(outputs=())),
    ]
    keys = [known_threads.key_of([one], 4) for one in notes]
    keys += [known_threads.key_of(notes[:1], 5), known_threads.key_of([notes[0], notes[0]], 4)]
    keys.append(known_threads.key_of([], 4))
    monkeypatch.setattr(known_threads, "machine", lambda: "another")
    keys.append(known_threads.key_of(notes[:1], 4))
    assert len({*keys}) == len(keys) == 16
    assert {len(key) for key in keys} == {32}
    monkeypatch.undo()
    assert known_threads.key_of([note(attrs={"b": 1, "a": 2})], 4) == known_threads.key_of(
        [note(attrs={"a": 2, "b": 1})._replace(reasons=())], 4
    )
