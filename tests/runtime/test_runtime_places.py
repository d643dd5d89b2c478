"""Where values of programs lie and how long frames hold arrays, with places worked out by hand."""

import mmap
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.steps import CompiledStep, NumpyStep
from onegraph.native.library import address_of
from onegraph.opset.host.control import BODIES, FIXED
from onegraph.runtime import frame as frame_module
from onegraph.runtime import grown_outputs, measuring, placing, subprograms
from onegraph.runtime import program as program_module
from onegraph.runtime.frame import Frame
from onegraph.runtime.placement import ARENA
from onegraph.runtime.profile import Profile, ProfileRow, Spans
from onegraph.runtime.program import LARGE, Program
from onegraph.runtime.program_call import ProgramCall
from onegraph.runtime.subprograms import Control

F32 = np.float32
KERNEL = object.__new__(CompiledKernel)


def value(number, shape=(2, 3), strides=None, storage=None, offset=0, constant=None):
    strides, storage = dense_of(shape) if strides is None else strides, number if storage is None else storage
    return Value(number, og.f32, shape, strides, storage, f"v{number}", constant, offset)


def step(pieces, n_inputs, compiled=None, in_place=(), rows=()):
    return CompiledStep(compiled, compiled, pieces, n_inputs, in_place, 0, 0, rows=rows)


def unaligned(shape=(2, 3)):
    """An array whose numbers start beside their alignment."""
    size = int(np.prod(shape))
    return np.frombuffer(bytearray(4 * size + 1), np.uint8)[1:].view(F32).reshape(shape)


# Slots ----------------------------------------------------------------------------------------------------------------


def planned(steps, more=(), constants=(), outputs=None):
    """The slots of the steps; v1 and v2 are inputs, v3 and v4 outputs unless others are given."""
    values = {number: value(number) for number in range(1, 9)}
    values |= {one.id: one for one in more}
    values |= {number: value(number, constant=array) for number, array in constants}
    outputs = {"y": 3, "z": 4} if outputs is None else outputs
    graph = SimpleNamespace(
        inputs={f"x{number}": SimpleNamespace(id=number) for number in (1, 2)},
        outputs={name: SimpleNamespace(id=number) for name, number in outputs.items()},
    )
    return placing.slots_of(graph, SimpleNamespace(values=values, sizes={}, steps=steps)), values


def test_pieces_of_memory_have_slots_from_their_first_step_to_their_last():
    steps = [step([1, 8, 7], 2), step([5, 2, 6], 2, KERNEL), NumpyStep(None, (6, None, 1), (4,), 0)]
    more = value(5, storage=7, shape=(3, 2)), value(7, shape=(12,))
    slots, _ = planned(steps, more, [(8, np.ones((2, 3), F32))], {"y": 6, "z": 4, "again": 4})
    assert slots.written == {7: 0, 6: 1, 4: 2}
    assert slots.last == {1: 2, 8: 0, 7: 0, 5: 1, 2: 1, 6: 2, 4: 3}
    assert slots.direct == (("y", 6), ("again", 4))
    assert slots.copied == (("z", 4),)
    assert slots.external == (1, 2, 6, 4)
    assert slots.slots == {1: 1, 2: 2, 6: 3, 4: 4, 8: 5}
    assert slots.residents == {6: [6], 4: [4], 1: [1]}
    assert slots.lifetimes.numbers == [7]


@pytest.mark.parametrize("least", [1, 64])
@pytest.mark.parametrize(
    ("steps", "outputs", "is_outside"),
    [
        ([step([1, 8, 3], 2)], None, False),
        ([step([1, 8, 3], 2, KERNEL)], None, True),
        ([step([1, 8, 3], 2, KERNEL, rows=(1,))], None, False),
        ([step([1, 8, 3], 2, KERNEL, rows=(0,))], None, True),
        ([NumpyStep(None, (1, 8), (3,), 0)], None, True),
        ([NumpyStep(None, (1, 8), (3,), 0, (8,))], None, False),
        ([NumpyStep(None, (1, 8), (3,), 0, (1, None))], None, True),
        ([step([1, 8, 3], 2)], {"y": 3, "z": 8}, True),
    ],
)
def test_unaligned_constants_are_copied_where_more_than_the_library_reads_them(
    steps, outputs, is_outside, least, monkeypatch
):
    monkeypatch.setattr(placing, "least_alignment", lambda: least)
    constant = unaligned()
    slots, _ = planned(steps, (), [(8, constant)], outputs)
    assert (slots.constants[8] is constant) is (least == 1 and not is_outside)
    assert slots.constants[8].flags.aligned is (least != 1 or is_outside)
    aligned = np.ones((2, 3), F32)
    monkeypatch.setattr(placing, "is_aligned", lambda array: True)
    assert planned(steps, (), [(8, aligned)], outputs)[0].constants[8] is aligned


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "size", "lies"),
    [
        ((2, 3), (3, 1), 0, 0, True),
        ((2, 3), (3, 1), 1, 0, False),
        ((2, 3), (3, 1), 1, 28, True),
        ((2, 3), (3, 1), 1, 27, False),
        ((2, 2), (3, 1), 1, 0, True),
        ((2, 3), (-3, 1), 3, 0, True),
        ((2, 3), (-3, 1), 2, 0, False),
        ((3,), (-1,), 5, 0, True),
        ((0, 3), (9, 9), 99, 0, True),
    ],
)
def test_views_lie_inside_of_their_memory(shape, strides, offset, size, lies):
    view = value(2, shape, strides, 1, offset)
    assert placing._lies_inside(view, value(1), {1: size} if size else {}) is lies
    steps = [step([1, 3], 1)]
    values = {number: value(number) for number in (1, 3)} | {2: view}
    graph = SimpleNamespace(inputs={"x": SimpleNamespace(id=1)}, outputs={"y": SimpleNamespace(id=3)})
    schedule = SimpleNamespace(values=values, sizes={1: size} if size else {}, steps=steps)
    if lies:
        assert placing.slots_of(graph, schedule).external == (1, 3)
    else:
        with pytest.raises(og.StateError, match="'v2' would lie outside of its memory; this is a mistake in onegraph"):
            placing.slots_of(graph, schedule)


def test_outputs_lie_over_inputs_that_their_step_reads_last():
    steps = [
        step([1, 5], 1, in_place=[(5, 1)]),
        step([2, 2, 3], 2, in_place=[(3, 2)]),
        step([1, 4], 1, in_place=[(4, 1)]),
    ]
    slots, _ = planned(steps)
    assert placing.in_place_of(steps) == {5: 1, 4: 1}
    assert slots.over_inputs(placing.in_place_of(steps)) == {4: 1}
    assert slots.over_inputs({3: 1}) == {}
    assert slots.over_inputs({3: 2, 4: 5}) == {3: 2}


# Frames ---------------------------------------------------------------------------------------------------------------


def test_a_free_frame_drops_the_arrays_of_the_caller():
    frame = object.__new__(Frame)
    frame._watched, frame._arrays = ["x"], dict.fromkeys((1, 3, 5, 7), "array")
    frame.placement = SimpleNamespace(external=(1, 2, 4), residents={1: [1, 5], 3: [3], 2: [6]})
    program = SimpleNamespace(free_frames=["other"])
    Program.give_back(program, frame)
    assert (frame._watched, [*frame._arrays]) == ([], [3, 7])
    assert program.free_frames == ["other", frame]


def test_a_frame_of_zeros_has_an_aligned_place_for_each_external_value(monkeypatch):
    bound, mapped, memory, map_pages = [], [], np.ones(100, np.uint8), mmap.mmap
    pages = SimpleNamespace(mmap=lambda *given: mapped.append(given) or map_pages(*given))
    monkeypatch.setattr(frame_module, "mmap", pages)
    frame = object.__new__(Frame)
    frame.arena, frame.plan = memory, SimpleNamespace(bind=lambda slot, place: bound.append((slot, place)))
    values = {3: value(3, (10,)), 5: value(5, (0,)), 7: value(7, (20,)), 9: value(9, (1,))}
    frame.placement = SimpleNamespace(external=(3, 5, 7, 9), values=values, slots={3: 4, 5: 1, 7: 2, 9: 3})
    with frame.blank() as plan:
        assert plan is frame.plan
        (_, first) = bound[1]
        assert bound == [
            (ARENA, address_of(memory)),
            *zip((4, 1, 2, 3), (first + by for by in (0, 64, 128, 256)), strict=True),
        ]
        assert first % 4096 == 0
        assert not memory.any()
    frame.placement.external = ()
    with frame.blank():
        assert mapped == [(-1, 320), (-1, 1)]


@pytest.mark.parametrize(("takes", "frames", "trims"), [(LARGE, 0, 0), (LARGE + 1, 0, 1), (LARGE + 1, 1, 0)])
def test_freed_memory_goes_back_before_a_large_frame_is_made(takes, frames, trims, monkeypatch):
    trimmed = []
    monkeypatch.setattr(program_module, "lib", SimpleNamespace(onegraph_trim=lambda: trimmed.append(1)))
    placement = SimpleNamespace(arena_size=takes - 5, external_size=lambda: 5)
    program = SimpleNamespace(
        free_frames=["free"] * frames, placement=placement, source="steps", _frame=lambda source: f"of {source}"
    )
    program._takes = lambda: Program._takes(program)
    assert Program.check_out(program) == ("free" if frames else "of steps")
    assert (len(trimmed), program.free_frames) == (trims, [])


def test_memory_of_a_trial_is_that_of_the_next_frame(monkeypatch):
    monkeypatch.setattr(program_module, "Frame", lambda *given: given)
    program = SimpleNamespace(_spare_arenas=["spare"], placement=1, parts=2, ending=3)
    assert [Program._frame(program, 4) for _ in range(2)] == [(1, 2, 3, 4, "spare"), (1, 2, 3, 4, None)]


# Times ----------------------------------------------------------------------------------------------------------------


def test_each_step_has_a_time_in_order(monkeypatch):
    clock, by_numpy = iter([100.0, 200.0, 250.0, 300.0, 400.0]), []
    monkeypatch.setattr(measuring, "perf_counter", lambda: next(clock))
    plan = SimpleNamespace(n_steps=6, time=lambda start, stop: map(float, range(start, stop)))
    parts, ending = [range(2), "by numpy", range(2, 4)], SimpleNamespace(n_steps=2)
    spans = [*measuring._time(SimpleNamespace(parts=parts, plan=plan, ending=ending, run_numpy=by_numpy.append))]
    assert spans == [(100, 0), (100, 1), (200, 50), (300, 2), (302, 3), (400, 4), (404, 5)]
    assert by_numpy == ["by numpy"]
    assert measuring._joined([0, 0, 1, 2, 1, 3, 3], spans) == [(100, 1), (200, 53), (300, 2), (400, 9)]


@pytest.mark.parametrize(("seconds", "shares"), [((1.0, 3.0), [0.25, 0.75]), ((0.0, 0.0), [0, 0])])
def test_profiles_of_two_stages_are_joined(seconds, shares):
    first, second = (
        Profile([ProfileRow(0, (), "oneDNN", 1, time, time, 1.0, None, 1.0)], runs, Spans([[(time, place)]], place))
        for time, runs, place in zip(seconds, (5, 6), (7, 3), strict=True)
    )
    both = measuring.joined(first, second, 4)
    assert ([row.index for row in both.rows], [row.share for row in both.rows], both.runs) == ([0, 4], shares, 5)
    assert both._spans == Spans([[(seconds[0], 7), (seconds[1], 3)]], 7)
    assert measuring.joined(second, first, 4)._spans.limit == 7


def test_a_program_that_is_called_by_itself_has_a_frame():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (2, 3))))
    model = graph.compile()
    program = model._programs.only_program()
    program.free_frames.clear()
    call = ProgramCall(program, model._programs.options)
    (frame,) = program.free_frames
    assert ProgramCall(program, model._programs.options)._quick is not None
    assert program.free_frames == [frame]
    assert call(np.full((2, 3), -1, F32)).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(("axis", "rows"), [(0, 3 + 1), (1, 4 + 4), (2, 4 + 4)])
def test_outputs_that_grow_have_strides_in_bytes_and_room(axis, rows, monkeypatch):
    monkeypatch.setattr(grown_outputs, "room_for", lambda dim: dim + 4)
    past, present = value(1, (2, 3, 4)), value(2, (3, 4, 4), (16, 4, 1))
    made = grown_outputs._grown(past, present, axis, False)
    capacity = grown_outputs.capacity_of((3, 4, 4), (16, 4, 1), axis) or (3, 4, 4)[axis] + 4
    assert (made.dtype, made.shape, made.strides) == (np.dtype(F32), (3, 4, 4), (64, 16, 4))
    assert (made.span, made.size, made.is_over) == (192, 4 * 48 // (3, 4, 4)[axis] * capacity, False)


# Bodies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("repeat", ["whole", None])
@pytest.mark.parametrize("takes_shapes", [False, True])
@pytest.mark.parametrize("may", [False, True])
def test_bodies_read_what_stands_behind_the_values_of_their_op(kind, repeat, takes_shapes, may, monkeypatch):
    class Whole:
        of = Mock(side_effect=lambda call, body: Whole() if repeat else None)

    class Body:
        compiled = 0

        def __init__(self):
            self.takes_shapes = takes_shapes

        @property
        def executable(self):
            Body.compiled += 1

    made, ends = [], [(), (), (4,), (5, 6), (7,)]
    monkeypatch.setattr(subprograms, "Repeat", Whole)
    monkeypatch.setattr(subprograms, "OpenRepeat", lambda call, body: ("open", call, body))
    monkeypatch.setattr(subprograms, "may_repeat", lambda body: may)
    all_bodies = SimpleNamespace(body=lambda *given: made.append((given, Body())) or made[-1][1])
    control = object.__new__(Control)
    control.op = SimpleNamespace(kind=kind, name="op", inputs=[SimpleNamespace(shape=one) for one in ends])
    control._call = SimpleNamespace(s64=lambda name: 1, s64s=lambda name: [-1], shapes=[(4,)])
    control._repeat = None
    control.compile(all_bodies)
    first = 1 if kind == "If" else FIXED + 2
    shapes = {f"c{number}": one for number, one in enumerate(ends[first:])}
    shapes |= {} if kind == "If" else {"s0": (4,), "x0": (5,)}
    assert [given for given, _ in made] == [(control.op, name, first, shapes) for name in BODIES[kind]]
    assert control._bodies == {name: body for name, (_, body) in zip(BODIES[kind], made, strict=True)}
    if kind == "If":
        assert control._repeat is None
    elif repeat:
        assert isinstance(control._repeat, Whole)
    else:
        is_open = takes_shapes and may
        assert control._repeat == (("open", control._call, made[0][1]) if is_open else None)
    assert Body.compiled == (0 if kind == "Loop" and repeat else len(made))


def test_errors_of_shapes_of_bodies_name_the_op():
    control = object.__new__(Control)
    control.op = SimpleNamespace(kind="If", name="choice", inputs=[])
    with pytest.raises(og.ArgumentError, match="If 'choice': wrong"):
        control.compile(SimpleNamespace(body=Mock(side_effect=ValueError("wrong"))))
