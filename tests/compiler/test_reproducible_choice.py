"""How steps run whose results are to repeat: the choice among numbers of threads and parts, with partitions by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import onegraph as og
from onegraph.compiler import reproducible as module
from onegraph.compiler.ir.part import Part
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.notes import Note
from onegraph.compiler.reproducible import Reproducible
from onegraph.compiler.steps import CompiledStep
from onegraph.errors import OutOfMemoryError, UnsupportedError
from onegraph.opset.schema import TensorType


def value(number, shape=(6, 4), strides=None):
    return Value(number, og.f32, shape, strides or dense_of(shape), number, f"v{number}")


def op(kind, inputs=(1,), outputs=(2,), note="", **attrs):
    part = Part(kind, attrs, (), (), (TensorType(og.f32, (6, 4)),))
    return Step(0, "library", kind, tuple(inputs), tuple(outputs), SimpleNamespace(inputs=()), attrs, note, part)


def compiled_step(note=0, ends=(1, 2), like="like", **more):
    made = SimpleNamespace(inputs=[SimpleNamespace(property="variable")], outputs=[], threads=8)
    return CompiledStep(made, like, [11, 12], 1, (), note, 64, ends=ends, **more)


class Parts:
    """The form of a step for a part of the batch."""

    def __init__(self, count=3, values=(1, 2), error=None):
        self.count, self.values, self.error, self.asked = count, values, error, []

    def __call__(self, *given):
        self.asked.append(given[1:2])
        if self.error:
            raise self.error
        return self

    def on_ports(self, index):
        return ("on ports", index)

    def step(self, index):
        return ("part", index)


def chosen(monkeypatch, notes, steps, counts, agrees, form, limit=4):
    """What is chosen, and the comparisons: the number of threads, of parts, and what is divided."""
    asked, made = [], []

    def compiled_for(one, count, variants):
        made.append((count, variants))
        return one._replace(pieces=("for", count))

    def compare(case):
        asked.append((case.threads, case.parts, case.divided))
        assert case.step.pieces == ("for", case.threads)
        form = case.canonical(2)
        assert form == ("on ports", 2) or (form.pieces, case.parts) == (range(2), 1)
        return agrees(case)

    monkeypatch.setattr(module, "compiled_for", compiled_for)
    monkeypatch.setattr(module, "_Part", form)
    schedule = SimpleNamespace(values=Values({number: value(number) for number in (1, 2, 3)}), notes=notes)
    monkeypatch.setattr(module, "replace", lambda one, values: one)
    found = Reproducible(None, "strict", schedule, compare).choose(steps, counts, limit)
    return (
        [([getattr(one, "pieces", one) for one in each.steps], each.threads, each.reason) for each in found],
        asked,
        made,
    )


def note_of(*steps):
    return Note("oneDNN", steps, (), [value(1)], [value(2)])


PRODUCT = [note_of(op("MatMul"))]
ON_FEWER = "reproducible, on {} of 4 threads, because on more the kernel adds in another order"


@pytest.mark.parametrize(
    ("largest", "counts", "wanted"),
    [
        (4, [4, 0], [(4, "reproducible"), (4, "reproducible")]),
        (2, [4, 0], [(2, ON_FEWER.format(2)), (2, ON_FEWER.format(2))]),
        (1, [0], [(1, ON_FEWER.format(1))]),
        (2, [2], [(2, "reproducible")]),
        (1, [1], [(1, "reproducible")]),
    ],
)
def test_steps_get_the_most_threads_that_repeat_bits(largest, counts, wanted, monkeypatch):
    steps = [compiled_step(like=number) for number, _ in enumerate(counts)]
    found, asked, _ = chosen(monkeypatch, PRODUCT, steps, counts, lambda case: case.threads <= largest, Parts())
    assert [one[1:] for one in found] == wanted
    assert [one[0] for one in found] == [[("for", count)] for count, _ in wanted]
    tried = [[count for count in (4, 2, 1) if largest <= count <= (most or 4)] for most in counts]
    assert [one[0] for one in asked] == [count for each in tried for count in each]
    assert {one[1] for one in asked} == {3}
    assert all(one[2] == [True, True] for one in asked)


def test_numbers_of_threads_are_tried_from_the_most(monkeypatch):
    found, asked, _ = chosen(monkeypatch, PRODUCT, [compiled_step()], [0], lambda _: False, Parts(), limit=6)
    assert [one[0] for one in asked] == [6, 4, 2, 1]
    reason = "reproducible in 3 parts of the batch, because the kernel for the whole adds in another order"
    assert found == [([("part", 0), ("part", 1), ("part", 2)], 1, reason)]


def test_values_are_divided_or_shared(monkeypatch):
    form = Parts(values=(2,))
    assert chosen(monkeypatch, PRODUCT, [compiled_step()], [1], lambda _: False, form)[1] == [(1, 3, [False, True])]
    assert chosen(monkeypatch, PRODUCT, [compiled_step(ends=(1,))], [1], lambda _: True, Parts())[1] == [(1, 3, [True])]


def test_equal_steps_are_compared_once(monkeypatch):
    steps = [compiled_step(), compiled_step(), compiled_step(like="another")]
    asked = chosen(monkeypatch, PRODUCT, steps, [2, 2, 2], lambda _: True, Parts())[1]
    assert len(asked) == 2
    assert len(chosen(monkeypatch, PRODUCT, steps[:2], [2, 3], lambda _: True, Parts())[1]) == 2


@pytest.mark.parametrize(
    ("error", "note", "reason"),
    [
        (UnsupportedError("rows"), "", "reproducible for this batch alone, because its rows depend on each other"),
        (UnsupportedError("rows"), module.OF_ONE_IMAGE, "reproducible"),
    ],
)
def test_steps_without_parts_repeat_for_their_batch(error, note, reason, monkeypatch):
    notes = [note_of(op("MatMul", note=note))]
    found, asked, _ = chosen(monkeypatch, notes, [compiled_step()], [0], lambda _: True, Parts(error=error))
    assert found == [([("for", 4)], 4, reason)]
    assert asked == [(4, 1, [False, False])]
    found, asked, _ = chosen(monkeypatch, notes, [compiled_step()], [0], lambda _: False, Parts(error=error))
    assert [one[0] for one in asked] == [4, 2]  # on one thread it is its own canonical form
    assert found == [([("for", 1)], 1, f"{reason}, {module.FEWER.format(1, 4)}")]
    found, asked, _ = chosen(monkeypatch, notes, [compiled_step()], [1], lambda _: False, Parts(error=error))
    assert (found, asked) == ([([("for", 1)], 1, reason)], [])


def test_lack_of_memory_is_no_answer(monkeypatch):
    form = Parts(error=OutOfMemoryError("memory", 1, ""))
    with pytest.raises(OutOfMemoryError):
        chosen(monkeypatch, PRODUCT, [compiled_step()], [0], lambda _: True, form)


@pytest.mark.parametrize(
    ("kinds", "is_kernel", "found"),
    [
        (["AttentionBackward"], False, ([[11, 12]], 1, ON_FEWER.format(1))),
        (["AttentionBackward"], True, ([[11, 12]], 1, ON_FEWER.format(1))),
        (["AttentionBackward", "MatMul"], True, ([[11, 12]], 0, "")),
        (["StaticTranspose"], False, ([[11, 12]], 0, "")),
        (["TypeCast", "StaticReshape"], False, ([[11, 12]], 0, "")),
        (sorted(module.EXACT), False, ([[11, 12]], 0, "")),
        (["MatMul"], True, ([[11, 12]], 0, "")),
        (["StaticTranspose", "MatMul"], False, ([("for", 4)], 4, "reproducible")),
    ],
)
def test_steps_that_are_not_compared(kinds, is_kernel, found, monkeypatch):
    notes = [note_of(*[op(kind) for kind in kinds])]
    one = compiled_step()
    one = one._replace(compiled=object.__new__(CompiledKernel)) if is_kernel else one
    made, asked, _ = chosen(monkeypatch, notes, [one], [0], lambda _: True, Parts())
    assert made == [found]
    assert len(asked) == (found[2] == "reproducible")
    if kinds == ["AttentionBackward"]:
        assert chosen(monkeypatch, notes, [one], [1], lambda _: True, Parts())[0] == [([[11, 12]], 1, "reproducible")]


def test_ops_on_other_values_than_those_of_their_note_run_on_one_thread(monkeypatch):
    notes = [note_of(op("MatMul", [1, 3], [2]), op("ReLU", [2], [3]))]
    assert chosen(monkeypatch, notes, [compiled_step()], [0], lambda _: True, Parts())[0] == [
        ([("for", 4)], 4, "reproducible")
    ]
    notes = [note_of(op("MatMul", [1, 5], [2]))]
    found, asked, _ = chosen(monkeypatch, notes, [compiled_step()], [0], lambda _: True, Parts())
    assert (found, asked) == ([([("for", 1)], 1, module.FIXED)], [])
    found, asked, _ = chosen(monkeypatch, notes, [compiled_step(ends=())], [0], lambda _: True, Parts())
    assert (found, asked) == ([([("for", 4)], 4, "reproducible")], [])


def test_steps_that_prepare_constants_are_compiled_anew(monkeypatch):
    for again, is_apart in ((None, False), (lambda: 1, True)):
        *_, made = chosen(monkeypatch, PRODUCT, [compiled_step(again=again)] * 2, [4, 4], lambda _: True, Parts())
        assert [count for count, _ in made] == [4, 4, 4]
        assert [one is made[0][1] for _, one in made[1:]] == [not is_apart] * 2


def test_a_form_on_one_thread_has_the_ports_as_pieces(monkeypatch):
    monkeypatch.setattr(module, "compiled_for", lambda one, count, variants: one._replace(note=count))
    made = module._on_one_thread(compiled_step(shifts=(4, 8)), {}, 5)
    assert ([*made.pieces], made.shifts, made.note) == ([0, 1], (), 1)


class Partition:
    def __init__(self, ops, inputs, outputs):
        self.ops, self.input_ids, self.output_ids = ops, inputs, outputs


class Made(SimpleNamespace):
    """A compiled partition."""

    made = None

    @classmethod
    def _checked(cls, *given):
        cls.made = given
        return "compiled part"


def form_of(monkeypatch, steps, partitions, values=None, divided=(1, 2), count=3, shifts=(), outputs=None):
    log = []
    values = values or {1: value(1), 2: value(2), 3: value(3, (4, 4))}
    rows = None if divided is None else SimpleNamespace(values={*divided}, number=count)
    monkeypatch.setattr(module, "independent_parts", lambda *_: rows)
    monkeypatch.setattr(module, "CompiledPartition", Made)
    monkeypatch.setattr(module, "capi_tensor", lambda number, one, kind: (number, one.shape, one.strides, kind))
    monkeypatch.setattr(module, "_with_strides", lambda number, one: (number, one.shape, one.strides))
    monkeypatch.setattr(module, "default_engine", lambda: "engine")
    threads = SimpleNamespace(before="before", use=lambda number: log.append(number))
    monkeypatch.setattr(module, "ThreadCount", lambda: threads)
    monkeypatch.setattr(module, "restore_threads", log.append)

    def capi_graph(lowered, mode, given, results):
        laid = {number: (one.shape, one.strides) for number, one in lowered.values.items()}
        log.append((mode, laid, [*given], [*results]))
        return SimpleNamespace(partitions=lambda policy: log.append(policy) or partitions), {}

    monkeypatch.setattr(module, "capi_graph", capi_graph)
    monkeypatch.setattr(module, "replace", lambda one, **more: SimpleNamespace(**{**vars(one), **more}))
    made = Made(inputs=[SimpleNamespace(property="variable"), SimpleNamespace(property="constant")])
    one = CompiledStep(made, made, [11, 13, 12], 2, (), 0, 64, ends=(1, 3, 2), shifts=shifts)
    ends = [values[number] for number in (1, 3)]
    note = Note("oneDNN", steps, (), ends, [(outputs or values)[2]])
    lowered = SimpleNamespace(values=Values(values))
    return module._Part(one, note, lowered, "strict"), log


TWO = [op("MatMul", [1, 3], [4]), op("ReLU", [4], [2])]


def test_a_step_is_compiled_for_a_part_of_the_batch(monkeypatch):
    partitions = [Partition([0], [1], [4]), Partition([0, 1], [3, 1, 3], [2])]
    form, log = form_of(monkeypatch, TWO, partitions)
    laid = {1: ((2, 4), (4, 1)), 2: ((2, 4), (4, 1)), 3: ((4, 4), (4, 1))}
    assert log == [("strict", laid, TWO, [2]), "fusion", 1, "before"]
    partition, ins, outs, engine = Made.made
    assert (partition, engine) == (partitions[1], "engine")
    assert ins == [(3, (4, 4), (4, 1), "constant"), (1, (2, 4), (4, 1), "variable")]
    assert outs == [(2, (2, 4), (4, 1))]
    assert (form.values, form.count) == ({1, 2}, 3)
    on_ports, part = form.on_ports(2), form.step(2)
    assert (on_ports.compiled, on_ports.pieces, on_ports.shifts, on_ports.in_place) == (
        "compiled part",
        [1, 0, 2],
        [0, 64, 64],
        (),
    )
    assert (part.compiled, part.pieces, part.shifts) == ("compiled part", [13, 11, 12], [0, 64, 64])
    form, _ = form_of(monkeypatch, TWO, partitions, shifts=(100, 200, 300))
    assert form.step(1).shifts == [200, 132, 332]
    assert form.step(0).shifts == [200, 100, 300]


def test_a_part_of_a_single_op(monkeypatch):
    _, log = form_of(monkeypatch, [op("MatMul", [1, 3], [2])], [Partition([0], [1, 3], [2])])
    assert log[1] == "debug"


@pytest.mark.parametrize(
    ("divided", "partitions", "told"),
    [
        (None, [], "rows depend on each other"),
        ((1, 2), [], "the library finds another partition for a part of the batch"),
        ((1, 2), [Partition([0], [1], [2])], "the library finds another partition for a part of the batch"),
    ],
)
def test_steps_that_have_no_parts(divided, partitions, told, monkeypatch):
    with pytest.raises(UnsupportedError, match=f"^{told}$"):
        form_of(monkeypatch, TWO, partitions, divided=divided)


def test_parts_have_the_strides_of_the_whole(monkeypatch):
    values = {1: value(1, strides=(8, 1)), 2: value(2), 3: value(3, (4, 4)), 4: value(4, strides=(1, 6))}
    outputs = {2: value(2, strides=(9, 1))}
    partitions = [Partition([0, 1], [1, 3], [2])]
    form, log = form_of(monkeypatch, TWO, partitions, values, (1, 2, 4), 2, outputs=outputs)
    laid = {1: ((3, 4), (8, 1)), 2: ((3, 4), (9, 1)), 3: ((4, 4), (4, 1)), 4: ((3, 4), (4, 1))}
    assert log[0][1] == laid
    _, ins, outs, _ = Made.made
    assert (ins[0][2], outs[0][2]) == ((8, 1), (9, 1))
    assert form.on_ports(1).shifts == [3 * 8 * 4, 0, 3 * 9 * 4]


@pytest.mark.parametrize(
    ("kind", "has_part", "is_divided", "is_changed"),
    [
        ("StaticReshape", True, True, True),
        ("StaticReshape", False, True, False),
        ("StaticReshape", True, False, False),
        ("ReLU", True, True, False),
    ],
)
def test_the_shape_of_a_reshape_is_that_of_a_part(kind, has_part, is_divided, is_changed):
    one = op(kind, [1], [2], shape=(6, 4), special_zero=True)
    one = one if has_part else one._replace(part=None)
    made = module._with_shape(one, {2: value(2, (2, 4))} if is_divided else {1: value(1)})
    assert (made is one) is not is_changed
    if is_changed:
        assert made.attrs == made.part.attrs == {"shape": (2, 4), "special_zero": False}


def test_bytes_to_the_next_part():
    assert module._first_axis(value(1)) == 6 * 4 * 4
    assert module._first_axis(value(1, (3, 4), (9, 2))) == 3 * 9 * 4
    made = module._with_strides(7, value(1, (2, 3), (1, 2)))
    assert (made.id, made.dtype, made.shape, made.strides) == (7, og.f32, (2, 3), (1, 2))
