"""Parts of the runtime on both sides of their conditions."""

import io
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.called_graphs import chosen_rows, copied, counter, sums

import onegraph as og
from onegraph._util.late_imports import import_late
from onegraph._util.size_symbols import OpenSizes
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.capi import threads
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.report import FOR_EARLIER, FOR_THESE, PartitionReport
from onegraph.native import digests
from onegraph.opset.editions.registry import HOST
from onegraph.runtime import (
    apart,
    bound_run,
    direct_ops,
    equal_bits,
    growing,
    grown_outputs,
    implementation_names,
    inspection,
    kept_constants,
    kept_program,
    made_parts,
    measuring,
    op_by_op,
    open_program,
    open_programs,
    open_steps,
    origin,
    placing,
    plan,
    profile,
    program_cache,
    program_finder,
    program_writer,
    repeat,
    sized_program,
    subprograms,
    warm_start,
)
from onegraph.runtime import compiled_program as compiled_module
from onegraph.runtime import program as program_module
from onegraph.runtime.apart import _Edges
from onegraph.runtime.arguments import Arguments, OutputSpec, value_inputs
from onegraph.runtime.compile_options import CompileOptions, refuse_unknown_partitions
from onegraph.runtime.compiled_program import CompiledProgram
from onegraph.runtime.direct_ops import direct
from onegraph.runtime.equal_bits import _numbers, agrees
from onegraph.runtime.growing import SMALL, Growing, Growth, growths_of
from onegraph.runtime.joining import Joining, reason_of
from onegraph.runtime.kept_partitions import NotKeptError
from onegraph.runtime.op_by_op import OFTEN, ExaminedOp, OpByOp, _is_refused_by_numpy, _ranked
from onegraph.runtime.open_parameters import Parameters
from onegraph.runtime.open_program import OpenProgram, _has_bytes_of, _is_like, _is_same
from onegraph.runtime.open_programs import MOST, MOST_FAILURES, MOST_UNUSED, OpenPrograms
from onegraph.runtime.overwriting import overwriting, possible_overs
from onegraph.runtime.program_cache import dispatch
from onegraph.runtime.program_call import ProgramCall
from onegraph.runtime.program_finder import ProgramFinder
from onegraph.runtime.program_writer import SMALL_BYTES, _constant, _Constants, _plain_attribute, _typed, written
from onegraph.runtime.repeat import NONE_RAN, OpenRepeat, Repeat, Slice, may_repeat
from onegraph.runtime.repeat_rounds import Rounds
from onegraph.runtime.sized_program import SizedProgram
from onegraph.runtime.staged import Staged
from onegraph.runtime.state import State
from onegraph.runtime.subprograms import Bodies, CompiledBody, Control

F32 = np.float32
ROW, ROWS, ANY = ("f32", (None,)), ("f32", (None, 3)), ("f32", None)
ONE = ("s64", (1,))
NUMBER = ("s64", ())
MARK = implementation_names.MARK
MEASURE = CompiledProgram._measure  # which other tests do without


def numbers(*given):
    return np.array(given, np.int64)


def op_of(kind, ends, attrs, edition, **more):
    """An op whose inputs are arrays, None, or data types and shapes of inputs of a graph."""
    return graph_of(kind, ends, attrs, edition, **more).ops[-1]


def graph_of(kind, ends, attrs, edition, **more):
    """A graph of one op."""
    graph = og.Graph()
    given = [
        graph.constant(end, dtype="s64" if np.asarray(end).dtype == np.int64 else "f32")
        if hasattr(end, "ndim")
        else end and graph.input(f"x{place}", *end)
        for place, end in enumerate(ends)
    ]
    graph.output("y", graph.op(kind, given, attrs, **({"edition": HOST} if edition else {}), **more))
    return graph


# By op: whether it is a host op, the inputs, the attributes, and whether numpy refuses what the rules refuse.
REFUSED = [
    ("Add", False, [ROW, ROW], {}, True),
    ("Add", False, [ANY, ROW], {}, False),
    ("Add", False, [("bf16", (None,)), ("bf16", (None,))], {}, False),
    ("Exp", False, [ROW], {}, False),
    ("MatMul", False, [ROWS, ROWS], {"transpose_a": True}, True),
    ("MatMul", False, [ROWS, ROW], {"transpose_a": True}, False),
    ("Add", True, [NUMBER, NUMBER], {}, True),
    ("Add", True, [("s64", None), NUMBER], {}, False),
    ("Range", True, [NUMBER, NUMBER, NUMBER], {}, True),
    ("Range", True, [("f32", ()), ("f32", ()), ("f32", ())], {}, False),
    ("NonZero", True, [ROW], {}, True),
    ("NonZero", True, [("f32", ())], {}, False),
    ("NonZero", True, [ANY], {}, False),
    ("ReduceMax", True, [ROWS], {"axes": [1], "keep_dims": True}, True),
    ("ReduceMax", True, [ANY], {"axes": [1], "keep_dims": True}, False),
    ("ReduceMax", True, [ROWS, ONE], {"keep_dims": True}, False),
    ("Reshape", True, [ROWS, numbers(-1)], {}, True),
    ("Reshape", True, [ROWS, ONE], {}, False),
    ("Slice", True, [ROW, ONE, ONE, numbers(0)], {}, True),
    ("Slice", True, [ROW, ONE, ONE], {}, True),
    ("Slice", True, [ROW, ONE, ONE, numbers(0), numbers(2)], {}, True),
    ("Slice", True, [ROW, ONE, ONE, ONE], {}, False),
    ("Slice", True, [ROW, ONE, ONE, numbers(0), ONE], {}, False),
    ("Slice", True, [ROW, ("s64", (None,)), ("s64", (None,)), numbers(0)], {}, False),
    ("Slice", True, [ROW, ONE, ("s64", (None,)), numbers(0)], {}, False),
    ("Gather", True, [ROWS, ONE], {"axis": 0}, True),
    ("Gather", True, [ANY, ONE], {"axis": 0}, False),
    ("Concat", True, [ROW, ROW], {"axis": 0}, True),
    ("Pad", True, [ROW, numbers(1, 1)], {"mode": "constant"}, False),
]


@pytest.mark.parametrize(("kind", "is_host", "ends", "attrs", "refuses"), REFUSED)
def test_ops_whose_shapes_numpy_examines(kind, is_host, ends, attrs, refuses):
    assert _is_refused_by_numpy(op_of(kind, ends, attrs, is_host)) is refuses


ALL = ("boolean", None)
BOXES, LIMITS = [("f32", (None, None, 4)), ("f32", (None, None, None))], [np.array(5), F32([0.5]), F32(0.1)]
# By op: whether it is a host op, the inputs, the attributes, and whether one call of numpy computes it.
DIRECT = [
    ("Add", False, [ROW, ROW], {}, True),
    ("Add", False, [ROW, ROW], {"auto_broadcast": "none"}, False),
    ("Add", False, [("bf16", (None,)), ("bf16", (None,))], {}, False),
    ("Exp", False, [ROW], {}, False),
    ("MatMul", False, [ROWS, ROWS], {"transpose_b": True}, True),
    ("MatMul", False, [ROW, ROWS], {"transpose_b": True}, False),
    ("MatMul", False, [ROWS, ("f32", (1, 3, 3))], {}, False),
    ("MatMul", False, [ROWS, ROWS, ROW], {"transpose_b": True}, False),
    ("MatMul", False, [("bf16", (2, 2)), ("bf16", (2, 2))], {}, False),
    ("MatMul", False, [ANY, ANY], {}, False),
    ("ReduceSum", False, [ROWS], {"axes": (1,)}, True),
    ("ReduceSum", False, [ROWS, ("s32", (1,))], {}, True),
    ("ReduceSum", False, [ROWS], {"axes": ()}, False),
    ("ReduceSum", False, [("bf16", (None, 3))], {"axes": (1,)}, False),
    ("StaticReshape", False, [ROWS], {"shape": (-1,), "special_zero": False}, True),
    ("StaticReshape", False, [ROWS], {"shape": (0, 3), "special_zero": True}, False),
    ("Unsqueeze", True, [NUMBER], {"axes": ()}, True),
    ("Unsqueeze", True, [NUMBER], {"axes": (-1,)}, True),
    ("Unsqueeze", True, [ANY], {"axes": (1,)}, False),
    ("Gather", True, [ROWS, ONE], {"axis": 0}, True),
    ("Gather", True, [ANY, ONE], {"axis": 0}, False),
    ("Reshape", True, [ROWS, numbers(-1)], {}, True),
    ("Reshape", True, [ROWS, numbers(0, 3)], {}, False),
    ("Cast", True, [ROW], {"dtype": "s8"}, True),
    ("Cast", True, [ROW], {"dtype": "bf16"}, False),
    ("Cast", True, [("bf16", (None,))], {"dtype": "f32"}, False),
    ("ReplaceNaN", True, [ROW, ("f32", ())], {}, True),
    ("ReplaceNaN", True, [ROW, ("f32", (1,))], {}, False),
    ("ReplaceNaN", True, [("f16", (None,)), ("f16", ())], {}, False),
    ("Range", True, [NUMBER, NUMBER, NUMBER], {}, True),
    ("Range", True, [NUMBER, NUMBER, ONE], {}, False),
    ("Range", True, [("s32", ()), ("s32", ()), ("s32", ())], {}, False),
    ("NonZero", True, [ANY], {}, False),
    ("ReduceMax", True, [("s8", (None, 3))], {"axes": (1,)}, True),
    ("ReduceMin", True, [("u8", (None, 3))], {"axes": (1,)}, True),
    ("ReduceMin", True, [ROWS], {"axes": (1,)}, True),
    ("ReduceMax", True, [("f16", (None, 3))], {"axes": (1,)}, False),
    ("ReduceMax", True, [("boolean", (None, 3))], {"axes": (1,)}, False),
    ("ReduceMax", True, [ROWS], {"axes": ()}, False),
    ("ReduceMax", True, [ROWS, ONE], {"axes": (1,)}, False),
    ("Compress", True, [ROWS, ("boolean", (None,))], {"axis": 1}, True),
    ("Compress", True, [ANY, ("boolean", (None,))], {"axis": 0}, False),
    ("Compress", True, [ROWS, ALL], {"axis": 0}, False),
    ("Equal", True, [("s8", (None,)), ("s8", (None,))], {}, True),
    ("Equal", True, [("f16", (None,)), ("f16", (None,))], {}, False),
    ("Slice", True, [ROWS, ("s64", (2,)), ("s64", (2,)), numbers(0, -1), numbers(1, 2)], {}, True),
    ("Slice", True, [ROWS, ("s64", (2,)), ("s64", (2,)), numbers(1, -1)], {}, False),
    ("Slice", True, [ROWS, ONE, ONE, numbers(-2)], {}, True),
    ("Slice", True, [ANY, ONE, ONE, numbers(-1)], {}, False),
    ("Slice", True, [ROWS, ONE, ONE, numbers(0), numbers(-1)], {}, False),
    ("Slice", True, [ROWS, ("s64", (0,)), ("s64", (0,))], {}, True),
    ("Slice", True, [ROWS, ("s64", (None,)), ("s64", (None,))], {}, False),
    ("NonMaxSuppression", True, [*BOXES, *LIMITS], {}, True),
    ("NonMaxSuppression", True, [*BOXES, np.array([5, 6]), *LIMITS[1:]], {}, False),
    ("NonMaxSuppression", True, [*BOXES, NUMBER, *LIMITS[1:]], {}, False),
    ("NonMaxSuppression", True, [("f32", None), BOXES[1], *LIMITS], {}, False),
    ("NonMaxSuppression", True, [BOXES[0], ("f32", None), *LIMITS], {}, False),
    ("NonMaxSuppression", True, [("f16", (1, 2, 4)), ("f16", (1, 1, 2)), *LIMITS[:1], *LIMITS[1:]], {}, False),
]


@pytest.mark.parametrize(("kind", "is_host", "ends", "attrs", "is_direct"), DIRECT)
def test_ops_that_one_call_of_numpy_computes(kind, is_host, ends, attrs, is_direct):
    more = {"dtype": attrs["dtype"]} if "dtype" in attrs else {}
    attrs = {name: value for name, value in attrs.items() if name not in more}
    graph = graph_of(kind, ends, attrs, is_host, **more)
    op = graph.ops[-1]
    computed = direct(op)
    assert (computed is not None) is is_direct
    if is_direct:
        arrays = [one.value if one.value is not None else array_for(one, place) for place, one in enumerate(op.inputs)]
        given = {name: arrays[op.inputs.index(one)] for name, one in graph.inputs.items()}
        wanted = og.reference.run(graph, given)["y"]
        np.testing.assert_array_equal(np.asarray(computed(*arrays)), wanted, strict=True)


def array_for(tensor, place):
    """Contents for an input: as many numbers as its place, if they are integers of 64 bits."""
    dims = [3 if dim is None else dim for dim in tensor.shape]
    if tensor.dtype is og.s64:
        return np.full(dims, place, np.int64)
    return (np.arange(np.prod(dims, dtype=int)).reshape(dims) * 7 % 5 % 3).astype(tensor.dtype.numpy)


# Ops of unknown ranks whose rules refuse what numpy computes, or counts otherwise: the inputs, attributes and arrays.
UNRANKED = [
    ("Slice", [ANY, ONE, ONE], {}, [F32(1), numbers(0), numbers(1)]),
    ("Slice", [ANY, ONE, ONE, numbers(2)], {}, [np.ones((3, 3), F32), numbers(0), numbers(1), numbers(2)]),
    ("Slice", [ANY, ONE, ONE, numbers(-3)], {}, [np.ones((3, 3), F32), numbers(0), numbers(1), numbers(-3)]),
    ("Slice", [ANY, ("s64", None), ("s64", None)], {}, [np.ones((3, 3), F32), numbers([0]), numbers([1])]),
    ("Unsqueeze", [ANY], {"axes": (3,)}, [np.ones((3, 3), F32)]),
    ("Unsqueeze", [ANY], {"axes": (-4,)}, [np.ones((3, 3), F32)]),
    ("Unsqueeze", [ANY], {"axes": (0, -3)}, [np.ones(3, F32)]),
    ("Gather", [ANY, ONE], {"axis": 0}, [F32(1), numbers(0)]),
    ("Compress", [ANY, ALL], {"axis": 0}, [F32(1), np.array([True])]),
    ("Compress", [ANY, ALL], {"axis": 0}, [np.ones(3, F32), np.array(True)]),
]


@pytest.mark.parametrize(("kind", "ends", "attrs", "arrays"), UNRANKED)
def test_ops_of_unknown_ranks_are_refused_as_by_their_rules(kind, ends, attrs, arrays):
    examined = ExaminedOp(op_of(kind, ends, attrs, True))
    for _ in range(2):
        with pytest.raises(og.OneGraphError):
            examined(arrays)


def test_orders_that_are_empty_turn_the_axes():
    (found,) = ExaminedOp(op_of("Transpose", [ROWS], {"order": ()}, True))([np.ones((2, 3), F32)])
    assert found.shape == (3, 2)


@pytest.mark.parametrize("most", [2, 3])
def test_boxes_that_a_kernel_cannot_count_are_refused(most, monkeypatch):
    monkeypatch.setattr(direct_ops, "MOST_ELEMENTS", most)
    kept = direct(op_of("NonMaxSuppression", [*BOXES, *LIMITS], {}, True))
    given = np.ones((1, 3, 4), F32), np.ones((1, 1, 3), F32)
    if most == 3:
        assert kept(*given).tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2]]
    else:
        with pytest.raises(ValueError, match="3 boxes of 4 numbers"):
            kept(*given)


@pytest.mark.parametrize(("end", "rank", "shape"), [(ANY, 2, (None, None)), (ANY, 0, ()), (ROWS, 2, (None, 3))])
def test_unknown_ranks_become_those_of_arrays(end, rank, shape):
    op = op_of("Add", [end, end], {}, False)
    ranked = _ranked(op, (rank, rank))
    assert [tensor.shape for tensor in ranked.inputs] == [shape, shape]
    assert (ranked.id, ranked.kind, ranked.name, ranked.outputs) == (op.id, op.kind, op.name, op.outputs)


@pytest.mark.parametrize(
    ("array", "fits"),
    [(np.zeros((2, 3), F32), True), (np.zeros((2, 4), F32), False), (np.zeros((2, 3), np.float64), False)],
)
def test_a_loop_runs_in_c_on_what_its_body_is_compiled_for(array, fits):
    repeat = object.__new__(Repeat)
    repeat.names, repeat.types = ("s0", "i", "g0"), {"s0": (F32, (2, 3)), "i": (np.dtype(np.int64), ())}
    course = SimpleNamespace(inputs=lambda number: {"s0": array, "i": np.array(number, np.int64)})
    assert repeat._fits(course) is fits


STATE = {"t0": "t0", "y0": "y0"}


@pytest.mark.parametrize(
    ("same", "passed", "fixed", "may"),
    [
        (STATE, {}, {}, True),
        ({}, {}, {}, False),
        (STATE, {"t1": "s1", "y1": "s0"}, {}, True),
        (STATE, {"t1": "s1", "t2": "s0"}, {}, False),
        (STATE, {"t11": "s11"}, {}, True),
        (STATE, {"t11": "s1"}, {}, False),
        (STATE, {}, {"y1": 0, "going": 1}, True),
        (STATE, {}, {"t1": 0}, False),
        (STATE, {"going": "c0"}, {}, False),
    ],
)
def test_loops_that_move_no_state_may_run_in_c(same, passed, fixed, may):
    assert may_repeat(SimpleNamespace(same=same, passed=passed, fixed=fixed)) is may


@pytest.mark.parametrize(
    ("types", "steady"),
    [
        ({"s0": 1, "t0": 1, "y0": 2}, True),
        ({"s0": 1, "t0": 2, "y0": 1}, False),
        ({"t0": 1, "y0": 2}, True),
        ({"s0": 1, "t0": 1, "s12": 2, "y0": 2, "y12": 1}, True),
        ({"s0": 1, "t0": 1, "s12": 1, "y0": 2, "y12": 1}, False),
    ],
)
def test_states_of_a_loop_in_c_keep_their_types(types, steady):
    class Loop(Repeat):
        def __init__(self, *_):
            self.body, self.types = SimpleNamespace(same={**STATE, "t12": "y0", "y12": "y12"}), types

    in_c = {"in_c": True, "owner_thread": None}
    for program, runs in ((in_c, True), ({**in_c, "in_c": False}, False), ({**in_c, "owner_thread": 3}, False)):
        found = Loop.of_program(None, None, SimpleNamespace(**program), {})
        assert (found is not None) is (runs and steady)
    assert Loop.of_program(None, None, None, {}) is None


# What the condition is before and in the body, the limit, the slices, whether shapes fit; how many iterations are to
# run, whether the results are written where they lie, and what is returned.
ROUNDS = [
    (True, None, 4, (), True, 4, True, "finished"),
    (True, None, 1, (), True, 1, True, "finished"),
    (True, True, 4, (), True, 4, True, "finished"),
    (True, False, 4, (), True, 1, True, "finished"),
    (True, None, 4, (5, 6), True, 4, True, "finished"),
    (True, None, 4, (4,), True, 4, True, "finished"),
    (True, None, 4, (7, 3), True, 3, False, None),
    (True, False, 4, (3,), True, 1, True, "finished"),
    (True, None, 4, (5, 0), True, 0, None, None),
    (True, None, 0, (), True, 0, None, None),
    (False, None, 4, (), True, 0, None, None),
    (True, None, 4, (), False, 0, None, None),
]


@pytest.mark.parametrize(("goes", "going", "limit", "lengths", "fits", "most", "in_place", "value"), ROUNDS)
@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_a_loop_in_c_runs_as_long_as_its_slices_last(
    goes, going, limit, lengths, fits, most, in_place, value, runs, ends, monkeypatch
):
    made, returned = [], []

    class Run:
        goes = not ends

        def __init__(self, loop, course, results, most, chosen):
            made.append((results, most, [one.shape for one in chosen.values()]))
            self.done = most

        def all(self, frame):
            return runs

        def states(self):
            return ["last"]

        def finish(self):
            return "finished"

    monkeypatch.setattr(repeat, "Rounds", Run)
    loop = object.__new__(Repeat)
    loop.body = SimpleNamespace(fixed={} if going is None else {"going": np.array(going)})
    tables = [np.zeros((2, length)) for length in lengths]
    loop._slices = {f"g{place}": Slice("c0" if place else tables[0], 1) for place in range(len(tables))}
    loop._program = SimpleNamespace(check_out=lambda: "frame", give_back=returned.append)
    loop._fits = lambda course: fits
    course = SimpleNamespace(goes=goes, limit=limit, given={"c0": tables[-1]} if tables else {}, states=["first"])
    if not limit:
        loop._fits = lambda course: pytest.fail("no iteration has inputs")
    found = loop.run(course, "results")
    assert made == [("results" if in_place else None, most, [(length, 2) for length in lengths])] * (most > 0)
    assert returned == ["frame"] * (most > 0)
    if not most or not runs:
        assert found == NONE_RAN == (None, 0)
    else:
        is_over = ends or value is not None
        assert found == ("finished" if is_over else None, most)
        assert course.states == (["first"] if is_over else ["last"])


def test_a_loop_in_c_for_open_shapes_is_made_once_for_a_program(monkeypatch):
    programs, made = ["one", "one", "two", None, "two"], []
    monkeypatch.setattr(Repeat, "of_program", classmethod(lambda cls, *given: made.append(given) or loops[given[2]]))
    loops = {"one": SimpleNamespace(run=lambda course, results: (results, course.limit)), "two": None}
    body = SimpleNamespace(program=lambda inputs: programs.pop(0))
    course = SimpleNamespace(goes=True, limit=1, inputs=lambda number: number)
    loop = OpenRepeat("call", body)
    for goes, limit in ((False, 1), (True, 0)):
        course.goes, course.limit = goes, limit
        assert loop.run(course, "results") == NONE_RAN
    course.goes, course.limit = True, 1
    found = [loop.run(course, "results") for _ in range(5)]
    assert found == [("results", 1), ("results", 1), NONE_RAN, NONE_RAN, NONE_RAN]
    assert made == [("call", body, "one", {}), ("call", body, "two", {})]


@pytest.mark.parametrize("names", [("going", "t0", "y0"), ("t0", "going", "y0"), ("y0", "t0", "going")])
def test_the_condition_of_a_loop_is_written_last(names):
    rounds = object.__new__(Rounds)
    body = SimpleNamespace(same={name: name for name in names})
    rounds._loop, rounds._checks, rounds.done = SimpleNamespace(body=body, names=("c0", "i", "s0")), True, 2
    rounds._rows, rounds._slices = {"y0": np.zeros((4, 2), F32)}, {}
    rounds._turns = {name: (np.zeros(2, F32), np.zeros(2, F32)) for name in names if name != "y0"}
    rounds._captured, rounds._states = {"c0": np.zeros(3)}, [np.zeros(2, F32)]
    rounds._numbers = np.zeros(4, np.int64)
    places = rounds._places()
    assert [*places][-1] == "going"
    assert [place.step for place in (places["c0"], places["i"], places["s0"], places["y0"])] == [0, 8, 0, 8]
    start = rounds._numbers.ctypes.data - 16
    assert places["i"] == (start, start + 8, start + 8, 8)
    first, second = (one.ctypes.data for one in rounds._turns["t0"])
    assert places["t0"] == (first, second, first, 0)
    assert places["s0"] == (rounds._states[0].ctypes.data, first, second, 0)
    rows = rounds._rows["y0"].ctypes.data
    assert places["y0"] == (rows, rows + 8, rows + 8, 8)


def test_memories_of_variables_change_places():
    graph = og.Graph()
    variable = graph.variable("v", np.ones(2, F32))
    graph.assign(variable, graph.add(variable, variable))
    state = State(graph)
    state.give_memory()
    first, second = state.present["v"], next(iter(state.following.values()))
    assert first is not second
    for turn, present, following in ((1, second, first), (0, first, second), (1, second, first)):
        state.exchange()
        assert state.turn == turn
        assert state.present["v"] is present
        assert next(iter(state.following.values())) is following


def value(dtype="f32", shape=(3, 40)):
    return Value(0, og.DataType.of(dtype), shape, dense_of(shape), 0, "x")


@pytest.mark.parametrize(
    ("dtype", "is_positive", "bounds"),
    [
        ("f32", True, (0, 9)),
        ("f32", False, (-9, 9)),
        ("bf16", True, (0, 9)),
        ("s8", False, (-128, 127)),
        ("u8", True, (0, 255)),
        ("boolean", False, (0, 1)),
    ],
)
def test_numbers_that_forms_of_a_step_are_compared_on(dtype, is_positive, bounds):
    drawn = _numbers(value(dtype), 3, is_positive).astype(np.float64)
    assert drawn.shape == (3, 40)
    assert bounds[0] <= drawn.min() < drawn.max() <= bounds[1]
    assert bool(drawn.min() < 0) is (bounds[0] < 0)


class Own(NamedTuple):
    n_inputs: int
    pieces: object
    shifts: object
    part: object = None


class Comparison:
    """A step with two inputs and two results, which ``write`` writes in its own form and in the canonical one."""

    def __init__(self, shape, patch, write, parts=1, dtypes=("f32", "f32")):
        self.filled, self.planned = [], []
        ends = [value(shape=shape), value(shape=(1, 2)), *[value(dtype, shape) for dtype in dtypes]]
        step = Own(2, (9, 4, 3, 8), (1, 1, 1, 1))
        self.case = SimpleNamespace(
            step=step,
            tensors=ends,
            parts=parts,
            divided=[parts > 1] * 4,
            threads=3,
            canonical=lambda part: step._replace(pieces=(0, 1, 2, 3), part=part),
        )
        patch.setattr(equal_bits, "_fill", lambda _, end, seed, *, is_positive: self.filled.append((seed, is_positive)))

        def plan(steps, threads, memory):
            self.planned.append(([(one.part, [*one.pieces], one.shifts) for one in steps], threads))
            self.size = len(memory)
            is_own = len(self.planned) == 1
            return SimpleNamespace(n_steps=5, run_steps=lambda *ran: write(memory, is_own, len(self.filled) // 2, ran))

        patch.setattr(equal_bits, "_plan", plan)


# The dims and data types of results, how many parts there are, and how often numbers are drawn; 200 numbers are enough.
DRAWS = [
    ((2, 100), ("f32", "f32"), 1, 2),
    ((1, 101), ("f32", "f32"), 1, 2),
    ((1, 50), ("f32", "f32"), 1, 2),
    ((1, 49), ("f32", "f32"), 1, 3),
    ((1, 10), ("f32", "s32"), 1, 7),
    ((2, 100), ("f32", "bf16"), 1, 3),
    ((2, 100), ("bf16", "f32"), 1, 3),
    ((8, 10), ("f32", "f32"), 4, 3),
    ((2, 10), ("f32", "f32"), 2, 5),
]


@pytest.mark.parametrize(("shape", "dtypes", "parts", "draws"), DRAWS)
def test_steps_are_compared_on_positive_numbers_and_on_both_signs(shape, dtypes, parts, draws, monkeypatch):
    monkeypatch.setattr(equal_bits, "ENOUGH", {2: 1000})
    monkeypatch.setattr(equal_bits, "ENOUGH_OTHERS", 200)
    monkeypatch.setattr(equal_bits, "MOST_DRAWS", 7)
    monkeypatch.setattr(equal_bits, "MOST_PARTS", 2)
    ran = []
    comparison = Comparison(shape, monkeypatch, lambda *given: ran.append(given[3]), parts, dtypes)
    assert agrees(comparison.case)
    assert comparison.filled == [(4 * draw + port, draw % 2 == 0) for draw in range(draws) for port in range(2)]
    assert ran == [(0, 5)] * 2 * draws
    (own, own_threads), (canonical, threads) = comparison.planned
    assert (own, own_threads, threads, comparison.size) == ([(None, [0, 1, 2, 3], ())], 3, 1, 6)
    assert [(pieces, shifts) for _, pieces, shifts in canonical] == [([0, 1, 4, 5], (1, 1, 1, 1))] * min(parts, 2)
    assert [part for part, *_ in canonical] == equal_bits._chosen(parts)


# In which memory a bit is written, in which draw and form, and whether the forms agree.
BITS = [
    (2, 1, True, False),
    (3, 2, True, False),
    (4, 2, False, False),
    (5, 1, False, False),
    (0, 1, True, True),
    (1, 1, False, True),
]


@pytest.mark.parametrize(("place", "draw", "is_own", "agree"), BITS)
def test_one_bit_tells_forms_of_a_step_apart(place, draw, is_own, agree, monkeypatch):
    def write(memory, own, count, ran):
        if (own, count) == (is_own, draw):
            memory[place][-1] = 1

    assert agrees(Comparison((2, 100), monkeypatch, write).case) is agree


def test_what_a_form_does_not_write_is_zero(monkeypatch):
    def write(memory, own, count, ran):
        if own or count == 1:
            memory[3 if own else 5][:] = 1

    assert not agrees(Comparison((2, 100), monkeypatch, write).case)


@pytest.mark.parametrize("part", range(4))
def test_chosen_parts_of_results_are_compared(part, monkeypatch):
    monkeypatch.setattr(equal_bits, "MOST_PARTS", 2)

    def write(memory, own, count, ran):
        if own:
            memory[2].view(F32).reshape(4, 2, 10)[part, 1, 9] = 1

    chosen = equal_bits._chosen(4)
    assert len(chosen) == 2
    assert agrees(Comparison((8, 10), monkeypatch, write, parts=4).case) is (part not in chosen)


def test_steps_of_a_comparison_lie_in_the_memory_that_it_fills(monkeypatch):
    made, bound = [], []

    class Source:
        def __init__(self, steps, places, n_slots, limit, pages):
            made.append((steps, places, n_slots, limit, pages))

    class Made:
        def __init__(self, source):
            made.append(source.threads)

        def bind(self, slot, address):
            bound.append((slot, address))

    monkeypatch.setattr(equal_bits, "PlanSource", Source)
    monkeypatch.setattr(equal_bits, "Plan", Made)
    memory = [np.zeros(4), np.zeros(4)]
    equal_bits._plan(["one", "two", "three"], 2, memory)
    assert made == [(["one", "two", "three"], {0: (1, 0), 1: (2, 0)}, 3, 2, {}), [2, 2, 2]]
    assert bound == [(1, memory[0].ctypes.data), (2, memory[1].ctypes.data)]


@pytest.mark.parametrize("constant", [None, np.arange(6, dtype=F32)])
def test_values_of_a_comparison_have_gaps_and_constants(constant):
    end = value(shape=(2, 3))._replace(strides=(5, 2), constant=constant)
    block = equal_bits._memory_of(end)
    block.fill(0)
    assert block.nbytes >= 4 * (1 + 5 + 4)
    equal_bits._fill(block, end, 3, is_positive=True)
    wanted = _numbers(end, 3, True) if constant is None else constant.reshape(2, 3)
    assert np.array_equal(equal_bits._bits(block, end), wanted.view(np.uint32))
    numbers = block[:40].view(F32)
    assert [numbers[5 * row + 2 * column] for row in range(2) for column in range(3)] == wanted.ravel().tolist()
    assert not numbers[[1, 3, 6, 8]].any()


def form(sizes, fits, steps=1):
    parameters = SimpleNamespace(sizes=lambda dims: sizes)
    return SimpleNamespace(
        parameters=parameters, fits=lambda given: fits, schedule=SimpleNamespace(steps=range(steps)), threads=None
    )


@pytest.mark.parametrize(
    ("forms", "shape", "takes"),
    [
        ([], (3, 2), False),
        ([form((3,), True)], (3, 2), True),
        ([form((3,), True)], (3, 2, 1), False),
        ([form((3,), False)], (3, 2), False),
        ([form(None, True)], (3, 2), False),
        ([form((3,), True), form(None, True)], (3, 2), True),
    ],
)
def test_programs_with_open_sizes_take_what_fits_one_of_them(forms, shape, takes):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (None, 2))))
    programs = OpenPrograms(graph, None, None, None)
    programs._forms, programs._ranks = forms, (2,)
    assert programs.takes({"x": shape}) is takes


class Forms:
    """Open programs whose forms and programs are made by what ``made`` and ``sized`` say: None, or an error."""

    def __init__(self, patch, options=None, steps=1, **shapes):
        graph, self.made, self.sized, self.asked, self.steps = og.Graph(), [], [], [], steps
        ends = [graph.input(name, "f32", shape) for name, shape in shapes.items()]
        graph.output("result", graph.relu(ends[0]))
        self.threads, found = 4, self

        def raised(errors):
            if errors and (error := errors.pop(0)) is not None:
                raise error

        class Form:
            def __init__(self, parameters, dims, make, options, shared, like, arenas):
                found.asked.append((parameters, dims))
                raised(found.made)
                self.parameters, self.threads, self.like = parameters, found.threads, "the first"
                self.schedule = SimpleNamespace(steps=range(found.steps))

            def fits(self, sizes):
                return max(sizes) < 50

        class Sized:
            def __init__(self, form, sizes, make):
                raised(found.sized)
                self.form, self.sizes, self.compiled = form, sizes, 2

        patch.setattr(open_programs, "OpenProgram", Form)
        patch.setattr(open_programs, "SizedProgram", Sized)
        patch.setattr(open_programs, "thread_state", lambda: self.threads)
        chosen = CompileOptions("fusion", True, "strict", None)._replace(**(options or {}))
        self.programs = OpenPrograms(graph, lambda shapes, room=0: (shapes, room), chosen, None)

    def program(self, *shapes, room=0):
        return self.programs.program(dict(zip("xy", shapes, strict=False)), room)


@pytest.mark.parametrize("room", [0, 9])
def test_dims_that_may_change_are_the_sizes_of_a_program(room, monkeypatch):
    forms = Forms(monkeypatch, x=None, y=(None, 3))
    assert forms.program((4, 3), (4, 3), room=room) is None
    found = forms.program((4, 5), (6, 3), room=room)
    dims, is_open = [4, 5, 6, 3] + [room] * (room > 0), [True, True, True, False] + [True] * (room > 0)
    assert forms.asked == [(Parameters.of(dims, is_open, int(room > 0)), dims)]
    assert (found.sizes, found.form.like) == ([4, 5, 6] + [room] * (room > 0), None)
    programs = forms.programs
    assert (programs.reused, programs.partitions, programs.reason, programs.error) == (0, 0, "", None)
    again = forms.program((7, 5), (7, 3), room=room)
    assert (again.form, again.sizes[:3]) == (found.form, [7, 5, 7])
    assert (programs.reused, programs.partitions, len(forms.asked)) == (1, 2, 1)
    for shapes, takes in (((7, 8), (9, 3)), True), (((7, 8), (9, 4)), False), (((70, 8), (9, 3)), False):
        assert programs.takes(dict(zip("xy", shapes, strict=True)), room) is takes
    assert not programs.takes({"x": (7, 8, 1), "y": (9, 3)}, room)
    forms.threads = 3
    assert forms.program((7, 5), (7, 3), room=room).form is not found.form
    programs.forget()
    assert not programs._forms


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"policy": "debug"}, "the policy is not fusion"),
        ({"reproducible": True}, "the program is reproducible"),
        ({"threads": {0: 1}}, "numbers of threads are stated for partitions"),
        ({"threads": 2}, ""),
    ],
)
def test_options_keep_sizes_from_being_open(options, reason, monkeypatch):
    forms = Forms(monkeypatch, options, x=(None, 3))
    found = [forms.program((size, 3)) is not None for size in (4, 5, 6)]
    assert (found, forms.programs.reason) == ([False, not reason, not reason], reason)


def test_dims_of_one_are_no_sizes(monkeypatch):
    forms = Forms(monkeypatch, x=(None, 3))
    assert [forms.program((size, 3)) for size in (1, 0, 1)] == [None] * 3
    assert not forms.asked


@pytest.mark.parametrize("sizes", [None, []])
def test_a_program_without_open_sizes_is_refused(sizes):
    options = CompileOptions("fusion", True, "strict", None)
    with pytest.raises(open_programs.NoParametersError, match="no dim is open"):
        OpenProgram(SimpleNamespace(sizes=lambda dims: sizes, places=()), (3, 4), None, options, None, None)


@pytest.mark.parametrize("kind", ["If", "Loop"])
def test_a_program_of_open_sizes_has_no_control_flow(kind):
    options, sizes = CompileOptions("fusion", True, "strict", None), lambda dims: dims
    parameters = SimpleNamespace(sizes=sizes, places=[(0,), (1,)], layouts=0, opened=lambda dims, symbols: symbols)
    graph = SimpleNamespace(ops=[SimpleNamespace(kind=kind)])
    with pytest.raises(open_programs.NoParametersError, match="a step runs graphs of its own"):
        OpenProgram(parameters, (3, 4), lambda dims: graph, options, None, None)


def test_open_sizes_are_evaluated_for_sizes():
    rows, columns = OpenSizes([3, 5]).symbols
    program = SimpleNamespace(evaluated=lambda sizes: [sizes[0] + 1], _numbers=[id(rows)])
    at, known = OpenProgram.at(program, [7, 8]), OpenProgram.at(program, [7, 8], [20])
    assert [at(9), at(rows), at(columns), at(rows + columns)] == [9, 8, 8, 15]
    assert [known(9), known(rows), known(columns)] == [9, 20, 8]


REFUSED_SIZES, MISTAKE = open_programs.NoParametersError("refused"), KeyError("mistake")


def test_programs_that_refuse_open_sizes_are_tried_some_times(monkeypatch):
    forms = Forms(monkeypatch, x=(None, 3))
    forms.made = [REFUSED_SIZES, og.ArgumentError("wrong"), None, *[REFUSED_SIZES] * 9]
    found = [forms.program((size, 3)) is not None for size in (4, 5, 6, 7, *range(60, 70))]
    assert found == [False, False, False, True, *[False] * 10]
    assert len(forms.asked) == 3 + MOST_FAILURES
    assert (forms.programs.reason, forms.programs.error) == ("refused", None)


@pytest.mark.parametrize("of_form", [True, False])
def test_mistakes_end_programs_with_open_sizes(of_form, monkeypatch):
    forms = Forms(monkeypatch, x=(None, 3))
    forms.made, forms.sized = ([MISTAKE], []) if of_form else ([], [None, MISTAKE])
    found = [forms.program((size, 3)) is not None for size in range(4, 9)]
    assert found == [False, not of_form, False, False, False]
    assert (len(forms.asked), forms.programs.reason, forms.programs.error) == (1, "KeyError: 'mistake'", MISTAKE)


@pytest.mark.parametrize("of_form", [True, False])
def test_a_lack_of_memory_reaches_the_caller(of_form, monkeypatch):
    forms, error = Forms(monkeypatch, x=(None, 3)), og.OutOfMemoryError(plan.EXECUTE, 1, "no memory")
    forms.made, forms.sized = ([error], []) if of_form else ([], [error])
    forms.program((4, 3))
    with pytest.raises(og.OutOfMemoryError):
        forms.program((5, 3))


def test_sizes_that_a_program_refuses_are_compiled_as_a_whole(monkeypatch):
    forms = Forms(monkeypatch, x=(None, 3))
    forms.sized = [None, REFUSED_SIZES, None]
    found = [forms.program((size, 3)) is not None for size in (4, 5, 6, 7)]
    assert found == [False, True, True, True]
    assert len(forms.asked) == 2
    assert (forms.programs.reused, len(forms.programs._forms)) == (1, 2)


@pytest.mark.parametrize(("steps", "most"), [(1, MOST), (20_000, 2), (20_001, 1), (50_000, 1)])
def test_programs_that_serve_one_size_each_are_made_no_more(steps, most, monkeypatch):
    forms = Forms(monkeypatch, steps=steps, x=(None, 3))
    found = [forms.program((size, 3)) is not None for size in (4, *range(60, 70))]
    assert found == [False, *[False] * 10]
    assert len(forms.asked) == MOST_UNUSED
    assert forms.programs.reason == f"{MOST_UNUSED} programs in a row served one size each"
    assert len(forms.programs._forms) == min(MOST_UNUSED, most)
    for number in range(1, 2 * MOST):
        forms.programs._unused = 0
        forms.program((60, 3))
        assert len(forms.programs._forms) == min(MOST_UNUSED + number, most)


@pytest.mark.parametrize("learned", range(1, MOST_UNUSED + 1))
def test_a_program_that_serves_another_size_lets_more_be_made(learned, monkeypatch):
    forms = Forms(monkeypatch, x=(None, 3))
    assert [forms.program((size, 3)) for size in range(60, 61 + learned)] == [None] * (learned + 1)
    assert forms.program((7, 3)).sizes == [7]
    assert forms.program((8, 3)).sizes == [8]
    assert (forms.programs.reused, len(forms.asked)) == (2, learned)
    assert [forms.program((size, 3)) for size in range(60, 80)] == [None] * 20
    assert len(forms.asked) == learned + MOST_UNUSED


@pytest.mark.parametrize("shape", [(7, 4), (7, 3, 2), (1, 3)])
def test_shapes_that_no_program_takes_make_another_one(shape, monkeypatch):
    forms = Forms(monkeypatch, x=None)
    forms.program((4, 3))
    first = forms.program((5, 3))
    first.form.parameters = SimpleNamespace(sizes=lambda dims: dims[:1] if dims[1:] == [3] and dims[0] > 1 else None)
    second = forms.program(shape)
    assert (first.form is second.form, len(forms.asked)) == (False, 2)
    second.form.parameters = SimpleNamespace(sizes=lambda dims: None)
    assert forms.program((8, 3)).form is first.form
    assert forms.programs._forms == [second.form, first.form]


@pytest.mark.parametrize(
    ("results", "apart"),
    [
        ("ab", True),
        ("a", True),
        ("aa", False),
        ("ax", False),
        ("ac", False),
        ("av", True),
        ("vv", False),
        ("aw", False),
        ("vx", False),
        ("vc", False),
    ],
)
def test_results_of_stages_share_no_memory(results, apart):
    """With each other, an input or a constant; ``v`` is a view, and ``w`` one of the same memory as ``a``."""
    arrays = {name: np.zeros(4) for name in "abxc"}
    arrays.update(v=np.zeros(9)[2:6], w=arrays["a"][1:3])
    staged = object.__new__(Staged)
    staged._constants = {1: arrays["c"]}
    found = staged._is_apart({f"{place}": arrays[name] for place, name in enumerate(results)}, {"x": arrays["x"]})
    assert found is apart


@pytest.mark.parametrize(
    ("recipe", "threads", "used"), [("small", 2, 4), ("large", 2, 2), ("large", None, 4), ("other", 2, 2)]
)
@pytest.mark.parametrize("stated", [None, 3])
def test_small_partitions_of_new_sizes_take_the_threads_of_the_others(recipe, threads, used, stated, monkeypatch):
    class Partitioning(SimpleNamespace):
        pass

    class Counted:
        before, counts = 1, []

        def use(self, count):
            self.counts.append(count)

    monkeypatch.setattr(sized_program, "Partitioning", Partitioning)
    monkeypatch.setattr(sized_program, "ThreadCount", Counted)
    asked, restored = [], []
    monkeypatch.setattr(sized_program, "restore_threads", restored.append)
    monkeypatch.setattr(sized_program, "compile_recipes", lambda recipes, *_, **given: asked.append(given) or recipes)
    Counted.counts = []
    kind = SimpleNamespace(
        recipe=SimpleNamespace(is_small=True) if recipe == "other" else Partitioning(is_small=recipe == "small"),
        threads=threads,
    )
    program = object.__new__(SizedProgram)
    options = SimpleNamespace(policy="fusion", fpmath_mode="strict", threads=stated)
    program._form = SimpleNamespace(
        options=options, threads_of_steps=lambda: 4, kinds=[kind], lowered=None, schedule=None
    )
    program.compiled = 0
    made = program._compiled([0], None)
    assert Counted.counts == [used]
    assert program.compiled == 1
    assert made[0].made is kind.recipe
    assert asked == [{"policy": "fusion", "fpmath_mode": "strict", "share": stated is None}]
    assert restored == [Counted.before]


@pytest.mark.parametrize(("first", "second", "same"), [((1, 2), (1, 2), True), ((1, 2), (1, 3), False)])
def test_constants_are_compared_by_their_bytes(first, second, same):
    one, two = np.array(first, F32), np.array(second, F32)
    assert _has_bytes_of(one, two) is same
    assert _has_bytes_of(one, one)


@pytest.mark.parametrize(
    ("strides", "by", "stays"),
    [(None, 0, True), ((3, 1), 0, True), ((4, 1), 0, False), (None, 1, False), ((3, 1), 1, False)],
)
def test_results_lie_as_they_are_stated_at_aligned_addresses(strides, by, stays):
    memory = aligned_empty((25 + by,), np.dtype(np.uint8))
    array = memory[by : 24 + by].view(F32).reshape(2, 3)
    found = OutputSpec("y", og.f32, (2, 3), strides).laid_out(array)
    assert (found is array) is stays
    assert (found.shape, [step // 4 for step in found.strides]) == ((2, 3), [*(strides or (3, 1))])
    assert found.ctypes.data % 64 == 0 or stays


@pytest.mark.parametrize(
    ("shape", "kind", "may"),
    [((4,), "ReLU", False), ((None,), "ReLU", True), ((4,), "NonZero", True), ((None,), "NonZero", True)],
)
def test_graphs_of_sizes_that_come_may_run_op_by_op(shape, kind, may):
    graph = graph_of(kind, [("f32", shape)], {}, kind == "NonZero")
    model = graph.compile()
    make, given = model._programs._executable, (lambda: graph, model._interface, model._programs.options)
    assert (ProgramFinder(*given, make, small=8).op_by_op is not None) is may
    assert ProgramFinder(*given, make).op_by_op is None


def test_shapes_choose_programs_in_quick_calls_unless_there_are_variables():
    graph = graph_of("ReLU", [("f32", (None,))], {}, False)
    model = graph.compile()
    given = lambda: graph, model._interface, model._programs.options, model._programs._executable
    assert ProgramFinder(*given).quick is not program_finder.decline
    model._interface.state = State(graph)
    assert ProgramFinder(*given).quick is program_finder.decline


def test_new_shapes_are_those_of_arrays_of_numpy():
    model = graph_of("ReLU", [("f32", (None,))], {}, False).compile()
    for size in (2, 3):
        model(np.ones(size, F32))
    take = model._programs._new_entry
    for arrays in (([1.0],), (np.ones(4),), (), (np.ones(4, F32),) * 2):
        assert take(arrays, 0) is None
    assert take((np.ones(5, F32),), 0) is model._programs.cache.latest()


def test_frames_of_runs_with_variables_are_kept():
    graph, given = counter()
    model = graph.compile()
    for _ in range(2):
        model(*given)
        assert len(model._programs.only_program().free_frames) == 1


@pytest.mark.parametrize(("threads", "used"), [(None, 2), (3, 3), ({}, 2), (1, 1)])
def test_programs_are_compiled_for_stated_threads_or_their_share(threads, used, monkeypatch):
    counts = []
    monkeypatch.setattr(
        compiled_module, "ThreadCount", lambda: SimpleNamespace(before=4, use=lambda count: counts.append(count))
    )
    monkeypatch.setattr(compiled_module, "restore_threads", lambda count: counts.append(f"again {count}"))
    found = compiled_module._compiled(lambda **given: given, threads, 2, frozenset([1]))
    assert found == {"share": type(threads) is not int, "unkept": {1}}
    assert counts == [used, "again 4"]


@pytest.mark.parametrize(("kind", "reason"), [("If", "control flow"), ("Sin", "a part of an op")])
def test_steps_with_bodies_or_of_parts_of_ops_are_not_kept(kind, reason):
    note = SimpleNamespace(steps=[SimpleNamespace(op=SimpleNamespace(kind=kind), whole=False)])
    with pytest.raises(NotKeptError, match=reason):
        program_writer._part(SimpleNamespace(notes=[note]), SimpleNamespace(run=None, note=0))


def test_times_of_partitions_are_medians_of_their_runs():
    graph = graph_of("MatMul", [("f32", (2, 3)), ("f32", (3, 5))], {}, False)
    op, heads = graph.ops[-1], ("oneDNN", ("MatMul",), (graph.ops[-1].name,), (), graph.ops[-1].inputs)
    parts = [PartitionReport(0, *heads, op.outputs, 2), PartitionReport(3, "host", ("Sin",), ("s",))]
    spans = [[(0.0, seconds), (0.0, 2e-3)] for seconds in (1e-3, 6e-3, 2e-3)]
    (first, second), n_bytes = measuring._profile(graph, parts, spans, 3).rows, 4 * (6 + 15 + 10)
    assert (first.index, first.threads, first.seconds, first.shortest, first.share) == (0, 2, 2e-3, 1e-3, 0.5)
    assert (first.gflops, first.bandwidth) == pytest.approx((2 * 2 * 3 * 5 / 2e-3 / 1e9, n_bytes / 2e-3))
    assert (second.gflops, second.bandwidth, second.share, first.bytes) == (None, 0, 0.5, n_bytes)
    (row,) = measuring._profile(graph, parts[:1], [[(0.0, 0.0)]], 1).rows
    assert (row.share, row.seconds) == (0, 0)


@pytest.mark.parametrize(
    ("options", "small"), [({}, True), ({"policy": "debug"}, False), ({"reproducible": True}, False)]
)
def test_parts_run_op_by_op_where_options_allow(options, small):
    chosen = CompileOptions("fusion", True, "strict", None)._replace(**options)
    assert bool(made_parts.runs_op_by_op(chosen, OFTEN)) is small


@pytest.mark.parametrize(("result", "noted"), [("y", ["y"]), (None, [])])
@pytest.mark.parametrize("learns", [True, False])
def test_results_of_quick_calls_are_noted_as_caches_to_come(learns, result, noted):
    found, entry = [], SimpleNamespace(quick=lambda arrays, out: result, used=0)
    growing = SimpleNamespace(growths=(), may_learn=learns, prepared=lambda *_, **__: None, note=found.append)
    cache = SimpleNamespace(entries={((2,),): entry}, tick=lambda: 7)
    assert dispatch(cache, growing, 1, (), lambda: None)((np.zeros(2),)) == result
    assert found == (noted if learns else [])
    assert entry.used == (7 if result else 0)


@pytest.mark.parametrize("grows", [True, False])
def test_quick_calls_of_new_shapes_run_programs_whose_steps_are_known(grows):
    made = []
    entry = SimpleNamespace(quick=lambda arrays, out: ("y", out), grown=(), used=3)
    step = SimpleNamespace(finish=lambda: made.append("finished"))
    caches = SimpleNamespace(growths=(1,), may_learn=False, step=lambda *_: step, out=lambda step: "memory")
    caches.prepared = lambda arrays, **_: (arrays, 9)
    growing = caches if grows else SimpleNamespace(growths=(), may_learn=False)
    cache = SimpleNamespace(entries={}, tick=lambda: 7)
    call = dispatch(cache, growing, 1, (), lambda: lambda arrays, room: made.append(room) or entry)
    assert call((np.zeros(2),)) == ("y", "memory" if grows else None)
    assert made == ([9, "finished"] if grows else [0])
    assert entry.used == 3
    for none in (None, lambda *_: None):
        assert dispatch(cache, growing, 1, (), lambda none=none: none)((np.zeros(2),)) is None


def test_counters_of_a_cache_make_no_programs():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (None, 2))))
    model = graph.compile()
    model._programs.info()
    assert "_open" not in vars(model._programs)
    model(np.ones((3, 2), F32))
    model(np.ones((4, 2), F32))
    assert "_open" in vars(model._programs)
    assert model.cache_info().reused == model._programs._open.reused


def compiled_program(graph):
    return CompiledProgram(graph, policy="fusion", fallback=True, fpmath_mode="strict")


# How the ops of a product of codes are divided into two partitions, the tensor between these, and what is said of it.
DIVIDED = [
    (["source", "weights", "product"], ["codes"], "y", ""),
    (["source"], ["weights", "product", "codes"], "x", "the ops around it differ"),
    (["source", "weights"], ["product"], "x", "the ops around it differ"),
    (["source", "bare"], ["codes"], "z", "here no Dequantize makes its weights"),
    (["source", "bare"], ["relu"], "z", ""),
]


@pytest.mark.parametrize(("first", "second", "between", "said"), DIVIDED)
def test_products_of_codes_lack_no_codes(first, second, between, said):
    g = og.Graph()
    scale = {"scales": [0.5], "zps": [0]}
    x = g.dequantize(g.input("a", "u8", (4, 4)), name="source", **scale)
    w = g.dequantize(g.input("b", "s8", (4, 4)), name="weights", **scale)
    y = g.matmul(x, w, name="product")
    z = g.matmul(x, g.input("c", "f32", (4, 4)), name="bare")
    relu = "relu" in second
    g.output(
        "d",
        g.relu(z, name="relu") if relu else g.quantize(z if "bare" in first else y, name="codes", dtype="u8", **scale),
    )
    kinds = {op.name: op.kind for op in g.ops}
    reports = [
        PartitionReport(place, "oneDNN", tuple(kinds[name] for name in names), tuple(names))
        for place, names in enumerate((first, second))
    ]
    edges = _Edges(g, reports, CompileOptions("fusion", True, "strict", None), None)
    found = edges._without_codes(*reports, SimpleNamespace(name={"x": x, "y": y, "z": z}[between].name))
    assert found.rpartition("; ")[2] == said


def test_reasons_of_sizes_are_no_reasons_why_partitions_are_apart():
    texts = "", FOR_THESE, "a fault", FOR_EARLIER, "a fault", "a kernel"
    assert reason_of(PartitionReport(0, "oneDNN", (), (), texts)) == "a fault; a kernel"


def test_no_time_is_measured_in_a_thread_that_continues_a_fork():
    program = compiled_program(sums()[0])
    program.owner_thread = -1
    assert MEASURE(program, program.steps, [1] * len(program.steps)) == [None] * len(program.steps)


@pytest.mark.parametrize(
    ("shape", "axis", "known"),
    [
        ((2, 3), 0, {"x0": (3,)}),
        ((2, 3), 1, {"x0": (2,)}),
        ((2, 3), -2, {"x0": (3,)}),
        ((2, 3), 2, {}),
        ((2, 3), -3, {}),
        (None, 0, {}),
    ],
)
def test_bodies_know_the_shapes_of_scanned_elements(shape, axis, known):
    control, shapes = object.__new__(Control), [(), (), (4,), (5,), shape, (6,)]
    control.op = SimpleNamespace(kind="Loop", inputs=[SimpleNamespace(shape=one) for one in shapes])
    control._call = SimpleNamespace(s64=lambda name: 2, s64s=lambda name: [axis], shapes=[(4,), (7,)])
    assert control._shapes(5) == {"c0": (6,), "s0": (4,), **known}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (og.StateError("wrong", 5), ("If 'if_0': ('wrong', 5)", 5)),
        (ValueError("bad"), ("If 'if_0': bad",)),
        (IndexError("bad"), ("If 'if_0': bad",)),
    ],
)
def test_errors_of_bodies_name_the_op(error, told):
    def run(inputs):
        raise error

    class Any(dict):
        def __missing__(self, name):
            return SimpleNamespace(run=run)

    control = object.__new__(Control)
    control.op, control._bodies = SimpleNamespace(kind="If", name="if_0"), Any()
    with pytest.raises(type(error) if isinstance(error, og.OneGraphError) else og.ArgumentError) as raised:
        control.run([np.array(True), np.ones(2, F32)])
    assert raised.value.args == told


def test_slices_are_those_that_the_number_of_an_iteration_chooses():
    graph, table = og.Graph(), np.ones((5, 3), F32)
    number, other = graph.input("i", "s64", ()), graph.input("c2", "s64", ())
    rows, state = graph.input("c0", "f32", (5, 3)), graph.input("s0", "f32", (5, 3))
    any_rows = graph.input("c1", "f32", (None, None))

    def gathered(source, index=number, **attrs):
        return graph.op("Gather", [source, index], attrs, edition=HOST)

    found = [gathered(rows), gathered(graph.constant(table), axis=1), gathered(rows, axis=1)]
    gathered(state)
    gathered(rows, other)
    gathered(any_rows)
    gathered(graph.relu(rows))
    graph.op("GatherND", [rows, graph.op("Unsqueeze", [number], {"axes": (0,)}, edition=HOST)], {}, edition=HOST)
    written_by_program = gathered(rows)
    body = object.__new__(CompiledBody)
    body._graph, body._ends = graph, {written_by_program.id: "y0"}
    slices = body.slices()
    assert [*slices] == [tensor.id for tensor in found]
    assert [one.axis for one in slices.values()] == [0, 1, 1]
    first, second, third = (one.source for one in slices.values())
    assert (first, third) == ("c0", "c0")
    assert np.array_equal(second, table)
    graph = og.Graph()
    graph.op("Gather", [graph.input("c0", "f32", (5, 3)), graph.input("c1", "s64", ())], {}, edition=HOST)
    body._graph = graph
    assert body.slices() == {}


def test_bodies_that_differ_in_nothing_are_one(monkeypatch):
    class Body:
        def __init__(self, *given):
            self.given = given

    monkeypatch.setattr(subprograms, "CompiledBody", Body)
    monkeypatch.setattr(subprograms, "MOST_BODIES", 5)
    bodies, table, other = Bodies("make"), np.ones(3, F32), np.ones(3, F32)

    def op(*values, body="b"):
        return SimpleNamespace(attrs={"body": body}, inputs=[SimpleNamespace(value=one[0]) for one in values])

    x = (None,)
    known = {"c0": (2,), "c1": (None,)}
    body = bodies.body(op(x, x, (table,)), "body", 1, known)
    assert body.given[1:] == ("body", 1, "make", known)
    for same in (op(x, x, (table,)), op((other,), x, (table,))):
        assert bodies.body(same, "body", 1, known) is body
    assert bodies.body(op(x, x, (table,)), "body", 1, {"c0": (2,), "c1": None}) is body
    others = [
        (op(x, x, (other,)), 1, known),
        (op(x, x, (table,), body="c"), 1, known),
        (op(x, x, (table,)), 1, {"c0": (3,), "c1": (None,)}),
        (op((table,), x, (table,)), 0, known),
    ]
    made = [bodies.body(one, "body", first, shapes) for one, first, shapes in others]
    assert len({*map(id, [body, *made])}) == 5
    assert [bodies.body(one, "body", first, shapes) for one, first, shapes in others] == made
    more = op(x, x, (table,), body="d")
    assert bodies.body(more, "body", 1, known) is not bodies.body(more, "body", 1, known)
    turned = op(x, x, (table[::-1],), body="b")
    assert bodies.body(turned, "body", 1, known) is not body


def test_bodies_are_made_for_shapes_that_tell_something_new(monkeypatch):
    graph, made = og.Graph(), []
    for name, shape in (("c0", (None, 3)), ("c1", (2,)), ("s0", None), ("x0", (None,))):
        graph.input(name, "f32", shape)
    import_late(subprograms.FOR_SHAPES)
    module = sys.modules[subprograms.FOR_SHAPES]
    monkeypatch.setattr(module, "for_shapes", lambda graph, shapes, sparing: made.append((shapes, sparing)) or "made")
    for shapes, new in (
        ({"c0": (4, 3), "c1": (2,), "s0": (1,), "x0": (None,), "c9": (1,)}, {"c0": (4, 3), "s0": (1,)}),
        ({"c1": (2,), "x0": None}, {}),
    ):
        assert subprograms._of_shapes(graph, shapes) == ("made" if new else graph)
        assert made == [(new, True)] * bool(new)
        made.clear()
    for error in (og.SpecError([]), ValueError()):
        monkeypatch.setattr(module, "for_shapes", Mock(side_effect=error))
        assert subprograms._of_shapes(graph, {"c0": (4, 3)}) is graph


@pytest.mark.parametrize(
    ("is_open", "results", "is_small"),
    [(True, ["a", "b"], True), (True, None, False), (False, ["a", "b"], False), (None, None, False)],
)
def test_bodies_run_op_by_op_where_no_program_fits_two_calls(is_open, results, is_small):
    ran = []
    small = SimpleNamespace(is_open=is_open, run=lambda arrays: ran.append(arrays) or results)
    small = None if is_open is None else small
    executable = SimpleNamespace(
        _programs=SimpleNamespace(op_by_op=small),
        _names=("c1", "c0"),
        _interface=SimpleNamespace(names=("y0", "t0")),
        _run_by_name=lambda inputs: {"by": "compiled", **inputs},
    )
    found = CompiledBody._results(None, executable, {"c0": 1, "c1": 2, "c2": 3})
    assert found == ({"y0": "a", "t0": "b"} if is_small else {"by": "compiled", "c0": 1, "c1": 2, "c2": 3})
    assert ran == [[2, 1]] * bool(is_open)


class Kernel(CompiledKernel):
    def __init__(self, name, code):
        self.name, self.code = name, code


ADD, MORE, OTHER, PARTITION = Kernel("add", (1, 2)), Kernel("add", (1, 3)), Kernel("copy", (1, 2)), object()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (ADD, Kernel("add", (1, 2)), True),
        (ADD, MORE, False),
        (ADD, OTHER, False),
        (ADD, PARTITION, False),
        (PARTITION, ADD, False),
        (PARTITION, object(), True),
    ],
)
@pytest.mark.parametrize("other", [{}, {"pieces": (1,)}, {"n_inputs": 1}, {"shifts": [4]}])
def test_steps_are_like_those_of_the_same_kernel_and_memory(first, second, same, other):
    step = {"pieces": (1, 2), "n_inputs": 2, "shifts": [0]}
    one, two = (SimpleNamespace(**step, compiled=kernel) for kernel in (first, second))
    vars(two).update(other)
    assert _is_like(one, two) is (same and not other)


@pytest.mark.parametrize(("keeps", "n_steps"), [([False, True], 0), ([False], 1)])
def test_no_file_has_a_program_with_constants_by_hash_or_with_updates(keeps, n_steps):
    parts = {"placement": None, "graph": None, "source": SimpleNamespace(keeps=keeps)}
    with pytest.raises(NotKeptError, match="found by a hash, or variables are updated"):
        written(SimpleNamespace(**parts, ending=SimpleNamespace(n_steps=n_steps)), [])


def test_no_file_has_a_program_with_what_is_no_plain_data():
    program = compiled_program(sums()[0])
    assert len(written(program, [])) > 2
    program.share = object()
    with pytest.raises(NotKeptError, match="no plain data"):
        written(program, [])


def test_kinds_of_partitions_share_one_that_takes_all_constants():
    program, asked = object.__new__(SizedProgram), []
    alike = ("no pattern", "all", "one", "no pattern", "all", "one", "one")
    patterns = {"no pattern": None, "all": SimpleNamespace(takes_all=True), "one": SimpleNamespace(takes_all=False)}
    program._form = SimpleNamespace(kinds=[SimpleNamespace(alike=one) for one in alike])

    def compiled(numbers, at):
        asked.append(sorted(numbers))
        return {number: SimpleNamespace(made=SimpleNamespace(pattern=patterns[alike[number]])) for number in numbers}

    program._compiled = compiled
    made = program._compile([1, 2, 3, 4, 5, 6], None)
    assert asked == [[1, 2, 3], [5, 6]]
    ids = [*map(id, made)]
    assert [ids.index(one) for one in ids] == [0, 1, 2, 0, 4, 5]


def test_caches_of_one_capacity_are_taken_if_one_of_them_has_room():
    graph, width = og.Graph(), SMALL
    for name in ("key", "value"):
        past, new = graph.input(name, "f32", (2, None, width)), graph.input(f"new_{name}", "f32", (2, 1, width))
        graph.output(f"present_{name}", graph.concat(past, new, axis=1))
    cache, full = np.zeros((2, 9, width), F32)[:, :3], np.zeros((2, 9, width), F32)
    new = np.zeros((2, 1, width), F32)
    for first, second, capacity in ((cache, full, 9), (full, cache, 9), (cache, cache, 9), (full, full, None)):
        found = Growing(graph).prepared([first, new, second, new])
        assert (found and found[1]) == capacity


def test_results_op_by_op_share_no_memory():
    graph, arrays = copied()
    ops = OpByOp.of(graph, None)
    assert ops._is_copied == [True, True, False, True, False]
    results = [*ops.run(arrays), *arrays]
    assert not any(np.shares_memory(one, two) for one in results for two in results if one is not two)


@pytest.mark.parametrize("has_program", [True, False])
@pytest.mark.parametrize("out", [None, "array"])
@pytest.mark.parametrize("quick", [None, "quick"])
@pytest.mark.parametrize("small", [None, ["small"]])
def test_small_calls_without_a_program_run_op_by_op(has_program, out, quick, small):
    finder = SimpleNamespace(
        op_by_op=SimpleNamespace(run=lambda arrays: small),
        _has_program=lambda arrays: has_program,
        _interface=SimpleNamespace(result=None),
    )
    asked = []

    def compiled(arrays, out):
        asked.append(out)
        return quick

    found = ProgramFinder._small_call(finder, compiled, (), out)
    is_quick = has_program and quick is not None
    assert found == (quick if is_quick or out is not None or small is None else "small")
    assert asked == [out] * (has_program + (not is_quick and (out is not None or small is None)))


def test_graphs_in_stages_are_refused_where_numpy_may_not_run_ops():
    graph, arrays = chosen_rows()
    with pytest.raises(og.UnsupportedError, match="the library does not run all of the graph"):
        graph.compile(fallback=False)(*arrays)


def test_variables_are_not_read_in_the_midst_of_a_call_in_the_same_thread():
    graph = og.Graph()
    count = graph.variable("count", np.zeros(2, F32))
    graph.output("y", graph.assign(count, graph.add(count, count)))
    state = State(graph)
    with pytest.raises(og.StateError, match="in the midst of a call"):
        state.step(lambda: state.read("count"))


@pytest.mark.parametrize("reproducible", [True, False])
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_steps_run_with_the_threads_that_reports_name(threads, reproducible):
    graph = og.Graph()
    x = graph.input("x", "f32", (32, 32))
    graph.output("y", graph.softmax(graph.matmul(x, x), axis=1))
    model = graph.compile(threads=threads, reproducible=reproducible)
    model(np.ones((32, 32), F32))
    program, named = model._programs.only_program(), [part.threads for part in model.report().partitions]
    counts = [named[step.note] for step in program.steps]
    wanted = [0] * len(counts) if threads and not reproducible else counts  # 0 is the number that is stated
    assert [*program.source.threads] == wanted
    assert not threads or {*named} == {threads}


def test_results_lie_over_inputs_that_begin_their_memory(monkeypatch):
    places = {"y": 0, "z": 4, "whole": 0, "behind": 8, "later": "a size"}
    ends = {name: SimpleNamespace(storage=name.upper(), offset=offset) for name, offset in places.items()}
    monkeypatch.setattr(open_steps, "ends_of", lambda recipe: ends)
    made = SimpleNamespace(in_place=[("y", "whole"), ("z", "behind"), ("z", "later")])
    for size, found in ((0, [("Y", "WHOLE"), ("Z", "LATER")]), (5, [("Y", "WHOLE")])):
        assert (
            open_steps.in_place_at(None, made, lambda offset, size=size: size if offset == "a size" else offset)
            == found
        )


def two_of_three():
    graph = og.Graph()
    a, b, c = (graph.input(name, "f32", (4, 16)) for name in "abc")
    graph.output("sum", graph.add(a, b))
    graph.output("positive", graph.relu(c))
    return graph


def filled(*numbers_of_arrays, by=0):
    """Arrays of 4 rows and 16 columns, so many bytes behind an aligned address."""
    made = []
    for number in numbers_of_arrays:
        memory = aligned_empty((256 + by,), np.dtype(np.uint8))
        made.append(memory[by:].view(F32).reshape(4, 16))
        made[-1][...] = number
    return made


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("overs", [{0: 0, 1: 2}, {1: 2}, {0: 0}, {}])
def test_results_overwrite_the_inputs_that_are_chosen(overs, by):
    model = two_of_three().compile()
    assert possible_overs(model) == {0: 0, 1: 2}
    run, program = overwriting(model, overs), model._programs.only_program()
    for first in (2, 3):
        arrays = filled(first, 1, -5, by=by)
        results = run(arrays)
        assert [float(one[0, 0]) for one in results] == [first + 1, 0]
        assert [float(one[3, 15]) for one in arrays] == [first + 1 if 0 in overs else first, 1, 0 if 1 in overs else -5]
        assert not by or not any(map(np.may_share_memory, results, arrays))
        assert by or [results[to] is arrays[source] for to, source in overs.items()] == [True] * len(overs)
        assert len(program.free_frames) == 1


def test_a_single_result_overwrites_an_input():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (4, 16))))
    model = graph.compile()
    for by in (0, 1):
        arrays = filled(-2, by=by)
        ((result,),) = [overwriting(model, {0: 0})(arrays)]
        assert not result.any()
        assert not arrays[0].any()


@pytest.mark.parametrize("program", [None, {"in_c": False}])
def test_no_result_overwrites_an_input_of_several_calls(program):
    made = program and SimpleNamespace(**program)
    assert possible_overs(SimpleNamespace(_programs=SimpleNamespace(only_program=lambda: made))) == {}


def a_square():
    graph = og.Graph()
    graph.output("y", graph.square(graph.input("x", "f32", (2, 3))))
    return graph, [np.arange(6, dtype=F32).reshape(2, 3)]


@pytest.mark.parametrize("makes", [sums, lambda: (two_of_three(), filled(1, 2, -3)), a_square])
def test_calls_of_a_program_compute_what_its_executable_computes(makes):
    graph, arrays = makes()
    model = graph.compile()
    program, options = model._programs.only_program(), model._programs.options
    call, wanted = ProgramCall(program, options), model(*arrays)
    assert len(program.free_frames) == 1
    assert ProgramCall(program, options)._quick is not None
    assert len(program.free_frames) == 1
    for given in (arrays, [array.astype(array.dtype) for array in arrays], [np.asfortranarray(one) for one in arrays]):
        found = call(*given)
        found, expected = (one if isinstance(one, tuple) else (one,) for one in (found, wanted))
        assert all(map(np.array_equal, found, expected))
        assert len(found) == len(expected)


def test_a_call_of_a_program_that_fails_is_compiled_again():
    graph, arrays = sums()
    model = graph.compile()
    call = ProgramCall(model._programs.only_program(), model._programs.options)

    def failing(arrays, out):
        raise og.StatusError(plan.EXECUTE, 1, "failed")

    call._quick = failing
    with pytest.raises(og.StatusError):
        call(*arrays)
    assert np.array_equal(call(*arrays)[0], arrays[0] + arrays[1])


# Bytes and blocks that the library keeps, those of each program that exists, and whether the library forgets all.
CONSTANTS = [
    ((0, 0), [], False),
    ((1, 0), [], True),
    ((0, 1), [], True),
    ((120, 4), [(20, 2)], False),
    ((121, 4), [(20, 2)], True),
    ((120, 6), [(20, 2)], False),
    ((120, 7), [(20, 2)], True),
    ((400, 30), [(150, 5), (50, 10)], False),
    ((401, 30), [(150, 5), (50, 10)], True),
    ((400, 31), [(150, 5), (50, 10)], True),
]


@pytest.mark.parametrize(("now", "programs", "forgets"), CONSTANTS)
@pytest.mark.parametrize("keeps", [True, False])
def test_the_library_forgets_constants_of_programs_that_are_gone(now, programs, forgets, keeps, monkeypatch):
    flushed, kept = [], {}

    def prepared(first, second):
        first[0], second[0] = now

    monkeypatch.setattr(kept_constants, "lib", SimpleNamespace(onegraph_prepared=prepared, onegraph_flush_constants=3))
    monkeypatch.setattr(kept_constants, "call", flushed.append)
    monkeypatch.setattr(kept_constants, "programs_keep_constants", lambda: keeps)
    monkeypatch.setattr(kept_constants, "MOST_BYTES", 100)
    monkeypatch.setattr(kept_constants, "MOST_BLOCKS", 4)
    monkeypatch.setattr(kept_constants, "_kept", kept)
    assert kept_constants.prepared_bytes() == now[0]
    kept.update(enumerate(programs, 10**6))
    kept_constants._forget_unused()
    assert flushed == [3] * (forgets and keeps)


def test_constants_are_counted_as_long_as_their_program_exists(monkeypatch):
    kept, asked = {}, []
    monkeypatch.setattr(kept_constants, "_kept", kept)
    monkeypatch.setattr(kept_constants, "_forget_unused", lambda: asked.append([*kept.values()]))
    programs = [Kernel("one", ()), Kernel("two", ())]
    for number, program in enumerate(programs):
        kept_constants.count_kept(program, [3, 4][number:])
    assert asked == [[(7, 2)], [(7, 2), (4, 1)]]
    del programs[0], program
    assert asked[2:] == [[(4, 1)]]


@pytest.mark.parametrize(
    ("enough", "most", "ran"), [(25, 9, 3), (20, 9, 3), (19, 9, 2), (99, 2, 2), (0, 9, 1), (9, 0, 0)]
)
def test_samples_are_times_of_whole_runs_until_enough(enough, most, ran, monkeypatch):
    times, runs = iter([100] + [100 + 10 * (place // 2) + place % 2 * 10 for place in range(40)]), []
    monkeypatch.setattr(bound_run, "perf_counter_ns", lambda: next(times))
    assert bound_run.sample(lambda: runs.append(1), enough, most) == [10] * ran
    assert len(runs) == ran


@pytest.mark.parametrize(
    ("enough", "most", "asked"),
    [
        (25, 9, [(25, 4, 4), (1, 4, 4)]),
        (24, 9, [(24, 4, 4), (0, 4, 4)]),
        (23, 9, [(23, 4, 4)]),
        (250, 5, [(200, 4, 4), (226, 1, 4)]),
        (99, 0, []),
    ],
)
def test_samples_in_c_are_taken_in_parts(enough, most, asked, monkeypatch):
    calls = []

    def sample(pointer, enough, most, nanoseconds, count):
        calls.append((enough, most, len(nanoseconds)))
        assert count[0] == 0
        nanoseconds[0:most] = [6] * most
        count[0] = most
        return 0

    monkeypatch.setattr(plan, "CHUNK", 4)
    monkeypatch.setattr(plan, "PART", 200)
    monkeypatch.setattr(plan, "lib", SimpleNamespace(onegraph_plan_sample=sample))
    made = SimpleNamespace(_ptr=None)
    found = plan.Plan.sample(made, enough, most)
    assert [(min(one, 200), count, chunk) for one, count, chunk in asked] == calls
    assert found == [6] * sum(count for _, count, _ in asked)


@pytest.mark.parametrize(("in_c", "state", "way"), [(True, False, "C"), (True, True, ""), (False, False, "")])
def test_runs_without_variables_are_timed_in_c(in_c, state, way, monkeypatch):
    monkeypatch.setattr(bound_run, "sample", lambda run, *limits: ("", limits))
    frame = SimpleNamespace(plan=SimpleNamespace(sample=lambda *limits: ("C", limits)))
    run = SimpleNamespace(_owner=(SimpleNamespace(in_c=in_c), frame, {}), _has_state=state, run=None)
    assert bound_run.BoundRun._sample(run, 1, 2) == (way, (1, 2))


FILES = [SimpleNamespace(address=0), SimpleNamespace(address=0)]


@pytest.fixture
def in_files(monkeypatch):
    """Says in which file an array lies, by the first of its numbers."""
    monkeypatch.setattr(program_writer, "file_of", lambda array: dict(enumerate(FILES)).get(int(array.flat[0])))


def test_constants_lie_in_files_or_behind_each_other(in_files, monkeypatch):
    constants = _Constants(FILES)
    in_second = np.ones((2, 3), F32)
    FILES[1].address = in_second.ctypes.data - 24
    own = np.full((3, 5), 7, F32)[:, ::2]
    assert constants.place(in_second, og.f32) == [1, 24, "f32", (2, 3), (12, 4)]
    assert constants.place(own, og.f32) == [-1, 0, "f32", (3, 3), (12, 4)]
    assert constants.size == 64 == sum(map(len, constants.contents()))
    assert constants.place(own[:1], og.f32) == [-1, 64, "f32", (1, 3), (12, 4)]
    assert [bytes(part)[:4] for part in constants.contents()][::2] == [own.tobytes()[:4]] * 2
    with pytest.raises(NotKeptError, match="file of another graph"):
        _Constants(FILES[:1]).place(in_second, og.f32)
    monkeypatch.setattr(program_writer.disk_cache, "MOST_BYTES", 192)
    constants.place(own, og.f32)
    with pytest.raises(NotKeptError, match="too many bytes"):
        constants.place(own, og.f32)


# The numbers of what a constant is made from, which are 0 or 1 in a file: the weights and their form, its contents, and
# what steps read, which may be the contents; and what is kept of it.
MADE = [
    (None, None, None, 7, ("", 7)),
    (None, None, "same", 1, ("", 1)),
    (None, None, 1, 7, ("copy", 1)),
    (None, None, 5, 7, ("", 7)),
    (1, "panels", None, 7, ("panels", 1)),
    (5, "panels", None, 7, ("panels", 5)),
    (1, "rows", None, 7, ("rows", 1)),
    (5, "rows", None, 7, ("", 7)),
    (5, "rows", 1, 7, ("copy", 1)),
]


@pytest.mark.parametrize(("weights", "form", "contents", "read", "kept"), MADE)
def test_constants_are_kept_as_what_they_are_made_from(weights, form, contents, read, kept, in_files, monkeypatch):
    monkeypatch.setattr(program_writer, "LAYOUTS", {"rows"})
    array = np.full(2, read, F32)
    value = SimpleNamespace(
        constant=array if contents == "same" else contents and np.full(2, contents, F32), dtype=og.f32
    )
    transformed = {} if weights is None else {3: (np.full(2, weights, F32), form)}
    placement = SimpleNamespace(constants={3: array}, values={3: value})
    places = SimpleNamespace(place=lambda array, dtype: (int(array[0]), dtype))
    program = SimpleNamespace(placement=placement, transformed=transformed)
    assert _constant(program, 3, places) == (kept[0], (kept[1], og.f32))


@pytest.mark.parametrize(
    ("value", "with_contents", "kept"),
    [
        (numbers(1, 2), True, [1, 2]),
        (numbers(1, 2), False, None),
        (None, True, None),
        (np.zeros(SMALL_BYTES // 8, np.int64), True, [0] * (SMALL_BYTES // 8)),
        (np.zeros(SMALL_BYTES // 8 + 1, np.int64), True, "large"),
        (np.zeros(2, F32), True, [0.0, 0.0]),
        (np.zeros(2, np.bool_), True, "large"),
    ],
)
def test_contents_that_decide_shapes_are_kept_if_they_are_few(value, with_contents, kept):
    tensor = SimpleNamespace(id=4, dtype=og.s64, shape=(2,), name="x", value=value)
    if kept == "large":
        with pytest.raises(NotKeptError, match="large contents"):
            _typed(tensor, with_contents)
    else:
        assert _typed(tensor, with_contents) == [4, "s64", (2,), "x", kept]


@pytest.mark.parametrize(
    ("value", "is_plain"), [(True, True), (1, True), (0.5, True), ("s", True), ((1,), True), ([1], False), (b"", False)]
)
def test_attributes_are_kept_if_they_are_plain(value, is_plain):
    if is_plain:
        assert _plain_attribute(value) == value
    else:
        with pytest.raises(NotKeptError, match="no plain data"):
            _plain_attribute(value)


def test_one_thread_runs_where_openmp_has_none(monkeypatch):
    assert threads.threads_now() == threads.get_num_threads()
    monkeypatch.setattr(threads, "get_num_threads", lambda: None)
    assert threads.threads_now() == 1


def test_arguments_of_graphs_without_inputs_and_ranks():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.constant(np.ones(2, F32))))
    with pytest.raises(og.ArgumentError, match="shapes by names of inputs: none"):
        Arguments(graph).shapes({"x": (2,)})
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", None)))
    rows = og.Graph()
    rows.output("y", rows.relu(rows.input("x", "f32", (None, 3))))
    for made, sizes in ((graph, {}), (rows, {"x": (2, 4)}), (rows, {"x": (None, 3)})):
        with pytest.raises(og.ArgumentError, match="known dims that fit"):
            Arguments(made).shapes(sizes)
    assert Arguments(graph).shapes({"x": (2, 3)}) == {"x": (2, 3)}


@pytest.mark.parametrize("grows", [True, False])
def test_parts_of_longer_caches_are_copied_unless_they_grow(grows):
    graph = og.Graph()
    past, new = graph.input("past", "f32", (2, None, 4)), graph.input("new", "f32", (2, 1, 4))
    graph.output("present", graph.concat(past, new, axis=1))
    part, arguments = np.zeros((2, 9, 4), F32)[:, :3], Arguments(graph)
    held = arguments.arrays([part, np.zeros((2, 1, 4), F32)], {}, grows=grows)
    assert (held["past"].flags.c_contiguous, arguments.copies) == ((False, 0) if grows else (True, 1))


@pytest.mark.parametrize(("shape", "found"), [((2, 3), ()), ((3,), ("x",)), (None, ())])
def test_inputs_of_rank_two_are_data(shape, found):
    graph = og.Graph()
    sizes, x = graph.input("x", "s64", shape), graph.input("data", "f32", (2, 3))
    wanted = graph.op("ReduceMax", [sizes], {"axes": [0], "keep_dims": shape == (3,)}, edition=HOST)
    graph.output("y", graph.op("Reshape", [x, wanted], edition=HOST))
    assert value_inputs(graph) == found


def test_a_shape_of_an_unknown_rank_is_a_vector():
    graph = og.Graph()
    sizes, more, x = graph.input("sizes", *ONE), graph.input("more", "s64", None), graph.input("x", "f32", (2, 3))
    wanted = graph.op("Add", [sizes, more], edition=HOST)
    graph.output("y", graph.op("Reshape", [x, wanted], edition=HOST))
    assert value_inputs(graph) == ("sizes",)


def test_outputs_of_ops_one_by_one_own_their_memory():
    graph = og.Graph()
    x, known = graph.input("x", "f32", (2,)), graph.constant(F32([3, 4]))
    y = graph.op("Negative", [x], edition=HOST)
    for name, end in (("a", x), ("b", y), ("c", y), ("d", known), ("e", x)):
        graph.output(name, end)
    given = F32([1, 2])
    found = OpByOp.of(graph, None).results([given])
    assert [array.tolist() for array in found] == [[1, 2], [-1, -2], [-1, -2], [3, 4], [1, 2]]
    assert len({*map(id, [given, known.value, *found])}) == 7


def two_concats(**more):
    graph = og.Graph()
    past, new = graph.input("past", "f32", (2, None, 4), **more), graph.input("new", "f32", (2, 1, 4))
    graph.output("present", graph.concat(past, new, axis=1))
    graph.output("longer", graph.concat(past, new, new, axis=1))
    return graph


def test_the_first_output_that_begins_with_an_input_grows():
    (growth,) = Growing(two_concats()).growths
    assert (growth.past, growth.present, growth.axis, growth.target) == ("past", "present", 1, 0)
    grows = Growing(two_concats())  # a graph in stages writes nothing for it
    assert (grows.step((), [None, None]).presents, grows.overs(())) == ({}, {})
    graph = og.Graph()
    past, new = graph.input("past", "f32", (2, 3, 4), strides=(20, 4, 1)), graph.input("new", "f32", (2, 1, 4))
    graph.output("present", graph.concat(past, new, axis=1))
    assert growths_of(graph, {"past": (2, None, 4), "new": (2, 1, 4)}) == ()
    graph = og.Graph()
    past, new = graph.input("past", "f32", None), graph.input("new", "f32", (2, 1, 4))
    graph.output("present", graph.concat(past, new, axis=0))
    assert Growing(graph).growths == ()


@pytest.mark.parametrize("kind", ["Concat", "ReLU"])
@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("has_variables", [True, False])
def test_caches_of_models_are_found_with_their_ops(kind, grows, has_variables, monkeypatch):
    monkeypatch.setattr(growing, "HOST_OPAQUE", frozenset(["Concat"]))
    graph = og.Graph()
    past, new = graph.input("past", "f32", (2, None if grows else 3, 4)), graph.input("new", "f32", (2, 1, 4))
    graph.output("present", graph.concat(past, new, axis=1) if kind == "Concat" else graph.relu(past))
    if has_variables:
        graph.variable("v", np.ones(2, F32))
    found = Growing(graph)
    assert bool(found.growths) is (kind == "Concat" and grows and not has_variables)
    assert found.may_learn is (kind == "Concat" and not grows and not has_variables)


@pytest.mark.parametrize(("first", "second", "room"), [(9, 9, 9), (9, 8, None), (9, 0, 9), (0, 9, 9)])
def test_caches_have_one_capacity_where_they_have_one(first, second, room):
    """The room 0 is of a cache whose leading dims are 1, which has room for any capacity."""
    graph, arrays = og.Graph(), []
    for name, capacity in (("key", first), ("value", second)):
        heads = 2 if capacity else 1
        past, new = graph.input(name, "f32", (heads, None, SMALL)), graph.input(f"new_{name}", "f32", (heads, 1, SMALL))
        graph.output(f"present_{name}", graph.concat(past, new, axis=1))
        arrays += [np.zeros((heads, capacity or 3, SMALL), F32)[:, :3], np.zeros((heads, 1, SMALL), F32)]
    found = Growing(graph).prepared(arrays)
    assert (found and found[1]) == room


def test_caches_with_room_for_any_capacity_are_not_moved():
    graph = og.Graph()
    past, new = graph.input("past", "f32", (1, None, SMALL)), graph.input("new", "f32", (1, 1, SMALL))
    graph.output("present", graph.concat(past, new, axis=1))
    found, arrays = Growing(graph), [np.zeros((1, 3, SMALL), F32), np.zeros((1, 1, SMALL), F32)]
    assert found.prepared(arrays) is None
    found.note(arrays[0])
    assert found.prepared(arrays) == (arrays, 0)
    assert found.moved == 0


def test_caches_of_two_capacities_are_copied():
    graph, arrays, wanted = og.Graph(), [], []
    for name, capacity in (("key", 9), ("value", 8)):
        past, new = graph.input(name, "f32", (2, None, 4)), graph.input(f"new_{name}", "f32", (2, 1, 4))
        graph.output(f"present_{name}", graph.concat(past, new, axis=1))
        whole = np.arange(2 * capacity * 4, dtype=F32).reshape(2, capacity, 4)
        arrays += [whole[:, :3], whole[:, 5:6].copy()]
        wanted.append(np.concatenate(arrays[-2:], axis=1))
    model = graph.compile()
    for _ in range(2):
        for found, array in zip(model(*arrays), wanted, strict=True):
            np.testing.assert_array_equal(found, array)
    assert model.copies == 4


class Step(NamedTuple):
    """A step of a kernel, or of a partition without a name; the first piece is read."""

    name: str
    pieces: tuple[int, ...]
    shifts: tuple[int, ...] = ()
    n_inputs: int = 1

    @property
    def compiled(self):
        return Kernel(self.name, ()) if self.name else PARTITION


COPY, EXTEND, PAST, PRESENT = grown_outputs.CAST.name, grown_outputs.EXTEND_CACHE.name, 1, 2
# The steps of a program with a cache, what numpy reads, and whether an output may lie over its input.
CACHES = [
    ([Step(COPY, (PAST, PRESENT)), Step("add", (3, PRESENT), (0, 64))], (), True),
    ([Step(COPY, (PAST, PRESENT), (0, 0)), Step("", (3, PRESENT), (0, 1))], (), True),
    ([Step(EXTEND, (PAST, 3, PRESENT), (), 2)], (), True),
    ([Step(EXTEND, (PAST, 3, PRESENT), (0, 8, 0), 2)], (), True),
    ([Step(COPY, (PAST, PRESENT)), Step("add", (3, PRESENT), (0, 64))], (PAST,), False),
    ([Step(COPY, (PAST, PRESENT)), Step("add", (3, PRESENT), (0, 64))], (PRESENT,), False),
    ([Step(COPY, (PAST, PRESENT)), Step("add", (3, PRESENT))], (), False),
    ([Step(COPY, (PAST, PRESENT)), Step("add", (3, PRESENT), (64, 0))], (), False),
    ([Step(COPY, (PAST, PRESENT)), Step("add", (3, 4), (64, 0))], (), True),
    ([Step(COPY, (PAST, PRESENT), (4, 0))], (), False),
    ([Step(COPY, (PAST, PRESENT), (0, 4))], (), False),
    ([Step(COPY, (3, PRESENT))], (), False),
    ([Step("", (PAST, PRESENT))], (), False),
    ([Step("add", (PAST, PRESENT))], (), False),
    ([Step("add", (3, PRESENT), (0, 64))], (), False),
    ([Step(COPY, (PAST, PRESENT)), Step("add", (PAST, 4))], (), True),
    ([Step(EXTEND, (PAST, 3, PRESENT), (), 2), Step("add", (PAST, 4))], (), False),
]


@pytest.mark.parametrize(("steps", "resident", "is_kept"), CACHES)
def test_outputs_lie_over_inputs_that_steps_only_continue(steps, resident, is_kept):
    placement = SimpleNamespace(direct=[("present", PRESENT)], residents=dict.fromkeys(resident))
    graph = SimpleNamespace(inputs={"past": SimpleNamespace(id=PAST)})
    program = SimpleNamespace(steps=steps, graph=graph, placement=placement)
    growth = Growth("past", "present", 1, 0, 0)
    assert grown_outputs._kept(program, [growth]) == [growth] * is_kept


@pytest.mark.parametrize(("shape", "span"), [((2, 3, 4), 24), ((2, 0, 4), 4 + 4), ((0, 3, 4), 8 + 4)])
def test_spans_of_outputs_without_elements(shape, span):
    past, present = value(shape=shape), value(shape=shape)._replace(strides=(12, 4, 1))
    grown = grown_outputs._grown(past, present._replace(strides=(4 * max(shape[1], 1), 4, 1)), 1, True)
    assert grown.span == 4 * (24 if 0 not in shape else span)


def relu_of(shape):
    graph = og.Graph()
    graph.output("y", graph.op("Add", [graph.input("x", "f32", shape), graph.input("z", "f32", shape)]))
    return graph


def test_small_parts_end_at_their_bounds(monkeypatch):
    monkeypatch.setattr(op_by_op, "SMALL", 12)
    monkeypatch.setattr(op_by_op, "MOST_COUNTS", 2)
    arrays = {size: [np.ones(size, F32)] * 2 for size in range(4, 8)}
    ops = OpByOp.of(relu_of((None,)), None)
    assert ops.run(arrays[6])[0].tolist() == [2] * 6
    assert ops.run(arrays[7]) is None
    assert [*ops._counts.values()] == [1]
    for size, counts in ((6, [2]), (5, [2, 1]), (5, [2]), (4, [2, 1])):
        ops.run(arrays[size])
        assert [*ops._counts.values()] == counts


def test_parts_with_large_results_are_tried_once():
    graph = og.Graph()
    x, shape = graph.input("x", "f32", (1,)), graph.constant(numbers(20_000), dtype="s64")
    graph.output("y", graph.op("Expand", [x, shape], edition=HOST))
    ops, ran = OpByOp.of(graph, None), []
    results = ops.results
    ops.results = lambda *given: ran.append(1) or results(*given)
    assert [ops.run([np.ones(1, F32)]) for _ in range(3)] == [None] * 3
    assert len(ran) == 1


@pytest.mark.parametrize(("most", "most_terms", "fits"), [(12, 24, True), (11, 24, False), (12, 23, False)])
def test_results_and_products_of_parts_are_limited(most, most_terms, fits):
    graph = og.Graph()
    graph.output("y", graph.matmul(graph.input("a", "f32", (3, 2)), graph.input("b", "f32", (2, 4))))
    arrays = [np.ones((3, 2), F32), np.ones((2, 4), F32)]
    ops = OpByOp.of(graph, None)
    if fits:
        assert ops.results(arrays, most, most_terms)[0].shape == (3, 4)
    else:
        with pytest.raises(op_by_op.TooLargeError):
            ops.results(arrays, most, most_terms)


def test_combinations_of_shapes_are_remembered_up_to_a_number(monkeypatch):
    monkeypatch.setattr(op_by_op, "MOST_KEYS", 2)
    examined, asked = ExaminedOp(op_of("Pad", [ROW, numbers(1, 1)], {"mode": "constant"}, True)), []
    examine = examined._examine
    examined._examine = lambda arrays: asked.append(1) or examine(arrays)
    for size, count in ((1, 1), (1, 1), (2, 2), (3, 3), (3, 4), (2, 4)):
        examined([np.ones(size, F32), numbers(1, 1)])
        assert len(asked) == count


@pytest.mark.parametrize(("size", "index", "has_contents"), [(64, 0, True), (65, 0, False), (65, 1, True)])
def test_contents_of_few_numbers_and_of_shapes_tell_calls_apart(size, index, has_contents):
    examined = ExaminedOp(op_of("Reshape", [ROWS, ONE], {}, True))
    array = np.zeros(size, np.int64)
    assert examined._key_of(index, array) == ((size,), array.tobytes() if has_contents else b"")


def reused(**more):
    """The last stage of a graph: names and ids of its inputs and outputs."""
    ends = {"inputs": {"a": 1, "b": 2}, "outputs": {"y": 1, "z": 2}, "ops": (), **more}
    for key in ("inputs", "outputs"):
        ends[key] = {name: SimpleNamespace(id=number) for name, number in ends[key].items()}
    return SimpleNamespace(**ends)


@pytest.mark.parametrize(
    ("rest", "ends"),
    [
        (reused(), [("y", "a"), ("z", "b")]),
        (reused(outputs={"z": 2}), [("z", "b")]),
        (reused(ops=("op",)), None),
        (reused(outputs={"y": 1, "z": 1}), None),
        (reused(outputs={"y": 1, "z": 3}), None),
    ],
)
def test_last_stages_without_ops_name_their_inputs(rest, ends):
    staged = object.__new__(Staged)
    staged._stages = SimpleNamespace(rest=rest)
    assert staged._named_ends() == ends


@pytest.mark.parametrize(("count", "names"), [(20, 20), (21, 21), (22, 21)])
def test_messages_name_twenty_partitions(count, names):
    reports = [PartitionReport(place, "oneDNN", ("Add",), (f"a{place}",)) for place in range(count)]
    refuse_unknown_partitions({count - 1: 1}, reports)
    with pytest.raises(og.ArgumentError) as raised:
        refuse_unknown_partitions({count: 1}, reports)
    text = str(raised.value).partition("the partitions are ")[2]
    assert (len(text.split("; ")), text.endswith("; ...")) == (names, count > 20)


@pytest.mark.parametrize(("count", "text"), [(6, "a, b, c, d, e, f"), (7, "a, b, c, d, e, f and 1 others")])
def test_messages_name_six_kinds(count, text):
    assert apart._some(frozenset("abcdefg"[:count])) == text


def edges_beside(graph, *reports):
    return _Edges(graph, reports, CompileOptions("fusion", True, "strict", None), None)


def test_ops_of_no_edition_are_foreign():
    graph = og.Graph()
    x = graph.input("x", "f32", (2,))
    graph.op("Where", [graph.op("Equal", [x, x], edition=HOST), x, x], edition=HOST, name="where")
    graph.op("Add", [x, x], edition=HOST, name="host add")
    graph.op("Add", [x, x], name="add")
    edges = edges_beside(graph)
    edges.by_name["old"] = SimpleNamespace(kind="OldKind", edition="legacy-1")
    assert [name for name in edges.by_name if edges._is_foreign(name)] == ["host_equal_0", "where"]


@pytest.mark.parametrize(
    ("kind", "turned", "said"), [("Subtract", True, True), ("Subtract", False, False), ("Add", True, False)]
)
def test_second_operands_of_differences_are_turned(kind, turned, said):
    graph = og.Graph()
    x, y = graph.input("x", "f32", (2,)), graph.input("y", "f32", (2,))
    first = graph.relu(x, name="relu")
    graph.op(kind, [y, first] if turned else [first, y], name="last")
    report = PartitionReport(0, "oneDNN", (kind,), ("last",))
    assert bool(edges_beside(graph, report)._turned(report, first)) is said


def test_copies_of_no_op_are_for_layouts():
    graph = og.Graph()
    x = graph.relu(graph.input("x", "f32", (2,)), name="relu")
    copy, last = PartitionReport(0, "copy", ("Reorder",), ("?",)), PartitionReport(1, "oneDNN", ("ReLU",), ("relu",))
    edges = edges_beside(graph, copy, last)
    assert edges._why(copy, last, x) == ("copy", "Reorder '?': its consumer needs another layout")
    reason = copy.__class__(0, "copy", ("Reorder",), ("?",), ("a reason",))
    assert edges._why(reason, last, x) == ("copy", "Reorder '?': a reason")


@pytest.mark.parametrize(("runs", "wrong"), [(0, "runs: 0"), (10**6 + 1, "runs: "), (10**6, "inputs"), (1, "inputs")])
def test_runs_are_measured_up_to_a_million_times(runs, wrong):
    model = sums()[0].compile()
    for measured in (model.profile, model.explain):
        with pytest.raises(og.ArgumentError, match=wrong):
            measured(1, 2, 3, runs=runs)


def known_steps(**more):
    """A program whose steps are compared, and the part of the open program that compares them."""
    step = SimpleNamespace(alone=False, again=None, pieces=(1, 2), n_inputs=1, shifts=[0], compiled=ADD)
    like = {"ending": 0, "steps": [step], "values": {1: value(), 2: value()}, **more}
    return SimpleNamespace(
        ending=SimpleNamespace(n_steps=like["ending"]),
        steps=like["steps"],
        placement=SimpleNamespace(values=like["values"]),
    )


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({}, None),
        ({"ending": 1}, "at the end"),
        ({"values": {1: value()}}, "other steps"),
        ({"values": {1: value(), 2: value("s8")}}, "other steps"),
        ({"steps": []}, "other steps"),
        ({"steps": "alone"}, "at the end"),
        ({"steps": "again"}, "at the end"),
        ({"steps": "other"}, "other steps"),
    ],
)
def test_programs_of_other_steps_are_refused(more, error, monkeypatch):
    monkeypatch.setattr(open_program, "CompiledStep", SimpleNamespace)
    (step,) = known_steps().steps
    changed = {"alone": {"alone": True}, "again": {"again": 1}, "other": {"compiled": MORE}}.get(str(more.get("steps")))
    if changed:
        more = {"steps": [SimpleNamespace(**{**vars(step), **changed})]}
    form = object.__new__(OpenProgram)
    form.schedule = SimpleNamespace(steps=[step], values={1: value(), 2: value()})
    if error is None:
        form._refuse_unlike(known_steps(**more))
    else:
        with pytest.raises(open_programs.NoParametersError, match=error):
            form._refuse_unlike(known_steps(**more))


TABLE = np.arange(6, dtype=F32)


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        (None, None, True),
        (TABLE, TABLE, True),
        (TABLE, TABLE.copy(), True),
        (TABLE, TABLE + 1, False),
        (TABLE, None, False),
        (None, TABLE, False),
    ],
)
def test_values_with_constants_are_the_same_by_these(mine, theirs, same):
    one = value(shape=(6,))
    assert _is_same(one._replace(constant=mine), one._replace(constant=theirs, name="other")) is same


KEPT_ATTRS = {
    "kind": "Transpose",
    "attrs": {"order": [1, 0]},
    "name": "t",
    "edition": HOST,
    "step": [[0], [1]],
    "note": 3,
}


def test_parts_of_kept_programs_are_steps_in_c_or_of_numpy():
    assert kept_program._kept_part([0, 3]) == range(3)
    ends = {"inputs": [[0, "f32", [2, 3], "x", None]], "outputs": [[1, "f32", [3, 2], "y", None]]}
    part = kept_program._kept_part({**KEPT_ATTRS, **ends})
    assert (part.inputs, part.outputs, part.note) == ((0,), (1,), 3)
    stored = kept_program._kept_part({"inputs": [4], "outputs": [5], "note": 6})
    assert (stored.inputs, stored.outputs, stored.note) == ((4,), (5,), 6)
    assert kept_program._kept_tensor(0, "s64", [2], "x", [1, 2]).value.tolist() == [1, 2]
    assert kept_program._kept_tensor(0, "s64", [2], "x", None).value is None


@pytest.mark.parametrize(("takes", "trimmed"), [(8, 0), (9, 1)])
def test_large_programs_trim_memory_before_they_take_some(takes, trimmed, monkeypatch):
    calls = []
    monkeypatch.setattr(program_module, "LARGE", 8)
    monkeypatch.setattr(program_module, "lib", SimpleNamespace(onegraph_trim=lambda: calls.append(1)))
    program = SimpleNamespace(free_frames=[], _takes=lambda: takes, _frame=lambda source: source, source="frame")
    assert program_module.Program.check_out(program) == "frame"
    assert len(calls) == trimmed


@pytest.mark.parametrize(("left", "stays"), [(10, True), (9, False)])
def test_programs_stay_while_they_take_most_bytes(left, stays, monkeypatch):
    monkeypatch.setattr(program_cache, "FEW", 1)
    monkeypatch.setattr(program_cache, "MOST_BYTES", 0)
    cache = program_cache.ProgramCache(100)
    cache.entries.update({name: SimpleNamespace(used=place, pieces={name: 1}) for place, name in enumerate("ab")})
    cache._left = left
    cache._evict_large({"c": 10})
    assert [*cache.entries] == (["a", "b"] if stays else ["b"])


@pytest.mark.parametrize(("folder", "hashes"), [("f", False), (None, False), ("f", True)])
def test_programs_are_kept_in_a_folder_by_libraries_that_allow_it(folder, hashes, monkeypatch):
    monkeypatch.setattr(origin, "get_cache_folder", lambda: folder)
    monkeypatch.setattr(origin, "HASHES_CONSTANTS", hashes)
    assert origin.keeps_programs() is (folder is not None and not hashes)


def test_contents_of_graphs_with_variables_are_not_compared():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (2,))))
    assert origin.contents_of(graph) == origin.contents_of(graph.copy())
    graph.variable("v", np.ones(2, F32))
    assert origin.contents_of(graph) is None


def test_times_of_steps_that_other_load_kept_are_unknown(monkeypatch):
    def measured(pointer, enough, nanoseconds):
        nanoseconds[0:3] = [-1, 0, 5]
        return 0

    monkeypatch.setattr(plan, "lib", SimpleNamespace(onegraph_plan_measure=measured))
    assert plan.Plan.measure(SimpleNamespace(n_steps=3, _ptr=None), 1.0) == [None, 0.0, 5e-9]


@pytest.mark.parametrize("is_status", [True, False])
def test_failures_of_runs_are_told_to_the_executable(is_status, monkeypatch):
    error = og.StatusError(plan.EXECUTE, 1, "failed") if is_status else og.ArgumentError("wrong")
    monkeypatch.setattr(bound_run, "plan_error", lambda status: error)
    found = bound_run._failure(lambda one: ValueError(one), 1)
    assert (found is error, isinstance(found, ValueError) and found.args == (error,)) == (not is_status, is_status)


@pytest.mark.parametrize(("first", "last"), [("Dequantize", "Quantize"), ("MatMul", "ReLU")])
def test_codes_are_sought_for_ops_before_a_quantize(first, last):
    ops = [SimpleNamespace(kind=kind, name=kind) for kind in (first, last)]
    assert Joining.coded(SimpleNamespace(), ops) == ""


@pytest.mark.parametrize(("fields", "names"), [("cpu,matmul,brg", ""), ("cpu,matmul,brg,more", "matmul brg")])
def test_names_of_implementations_stand_in_lines_of_four_fields(fields, names):
    lines = [f"{implementation_names.MARK}0", f"onednn_verbose,exec,{fields}", "onednn_verbose,graph,exec,cpu,a,b,c"]
    assert implementation_names.parse(lines) == {0: names}


@pytest.mark.parametrize(
    ("lines", "errors", "status", "expected"),
    [
        (
            f"{implementation_names.MARK}3\nonednn_verbose,exec,cpu,matmul,jit,x\n{implementation_names.END}\n",
            "",
            0,
            "",
        ),
        (f"{implementation_names.MARK}3\n", "first\nlast words\n", 1, "failed: 'last words'"),
        ("", "", 5, "failed: 'exit status 5'"),
    ],
)
def test_names_of_a_process_that_fails_are_refused(lines, errors, status, expected, monkeypatch):
    ran = []

    def run(command, input, env, **more):
        ran.append(env)
        return SimpleNamespace(returncode=status, stdout=lines.encode(), stderr=errors.encode())

    monkeypatch.setattr(implementation_names.subprocess, "run", run)
    monkeypatch.setattr(implementation_names, "threads_now", lambda: 2)
    monkeypatch.setenv("DNNL_VERBOSE", "2")
    reports = [SimpleNamespace(index=number, threads=count) for number, count in enumerate((0, None, 5))]
    program = SimpleNamespace(reports=reports, whole_graph=og.Graph)
    if expected:
        with pytest.raises(og.UnsupportedError, match=expected):
            implementation_names.implementation_names(program, "fusion", "strict", False)
    else:
        assert implementation_names.implementation_names(program, "fusion", "strict", False) == {3: "matmul jit"}
    (env,) = ran
    assert (env["ONEDNN_VERBOSE"], env["OMP_NUM_THREADS"], "DNNL_VERBOSE" in env) == ("profile_exec", "5", False)


@pytest.mark.parametrize("seconds", [(0.0, 0.0), (1.0,), (1.0, 3.0)])
@pytest.mark.parametrize("gflops", [None, 8.0])
def test_rows_of_a_profile_are_added(seconds, gflops):
    rows = [
        profile.ProfileRow(place, ("r",), "oneDNN", 2, one, one / 2, 0.25, gflops, 4.0 * place)
        for place, one in enumerate(seconds)
    ]
    found, total = profile._sum(rows), sum(seconds)
    if not total:
        assert found is rows[0]
        return
    assert (found.index, found.seconds, found.shortest, found.share) == (0, total, total / 2, 0.25 * len(rows))
    assert (found.gflops, found.bandwidth) == (gflops, 4.0 * 3 / 4 if len(rows) > 1 else 0.0)


@pytest.mark.parametrize("hashes", [True, False])
def test_prepared_constants_are_counted_where_the_library_hashes(hashes, monkeypatch):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.constant(np.ones(4, F32))))
    monkeypatch.setattr(inspection, "HASHES_CONSTANTS", hashes)
    monkeypatch.setattr(inspection, "prepared_bytes", lambda: 7)
    staged = SimpleNamespace(program=object.__new__(Staged))
    for entry in (None, staged):
        found = inspection.constant_memory(SimpleNamespace(graph=graph), entry)
        assert found == {"mapped": 0, "own": 16, **({"prepared": 7} if hashes else {})}


def test_a_graph_in_stages_has_no_program_for_others():
    staged = SimpleNamespace(program=object.__new__(Staged))
    program = object.__new__(CompiledProgram)
    whole = SimpleNamespace(program=program, used=0)
    cache = SimpleNamespace(entries={((2,),): staged, ((3,),): whole}, tick=lambda: 7)
    finder = SimpleNamespace(cache=cache)
    assert [ProgramFinder.program_for(finder, [(size,)]) for size in (1, 2, 3)] == [None, None, program]
    assert whole.used == 7


TARGET = np.zeros((4, 2), F32)


@pytest.mark.parametrize(
    ("target", "checks", "lies", "is_used"),
    [
        (TARGET, False, True, True),
        (TARGET, True, True, False),
        (TARGET, False, False, False),
        (np.zeros((5, 2), F32), False, True, False),
        (np.zeros((2, 4), F32).T, False, True, False),
        (None, False, True, False),
    ],
)
def test_slices_of_loops_are_written_into_results_that_fit(target, checks, lies, is_used):
    rounds = object.__new__(Rounds)
    rounds._loop = SimpleNamespace(body=SimpleNamespace(same={"y1": "y0"}), types={"y0": (np.dtype(F32), (2,))})
    rounds._course = SimpleNamespace(states=["s"], lies_as_made=lambda number: lies and number == 1)
    rounds._checks, rounds._limit = checks, 4
    found = rounds._memory(1, None if target is None else [None, None, target])
    assert (found is target, found.shape) == (is_used, (4, 2))


@pytest.mark.parametrize(
    ("past", "room"),
    [
        (np.zeros((2, 2, 4), F32)[:, :1], 2),
        (np.zeros((2, 2, 4), F32)[:, :0], 2),
        (np.zeros(4, F32)[::2], None),
        (np.zeros((2, 9, 4), F32)[:, :3], 9),
        (np.zeros((2, 3, 4), F32), None),
    ],
)
def test_parts_of_small_caches_have_room(past, room):
    graph = og.Graph()
    ends = graph.input("past", "f32", (2, None, 4)), graph.input("new", "f32", (2, 1, 4))
    graph.output("present", graph.concat(*ends, axis=1))
    found = Growing(graph).prepared([past, np.zeros((2, 1, 4), F32)])
    assert (found and found[1]) == room


@pytest.mark.parametrize("failures", range(5))
def test_constants_of_no_memory_are_prepared_in_every_run_in_the_end(failures, monkeypatch):
    """The second time those of the steps that fail, the fourth time those of all."""
    asked, left, compiled = [], [*range(failures)], compiled_module._compiled
    monkeypatch.setattr(
        compiled_module, "_compiled", lambda *given: asked.append(len(given[3])) or compiled(*given[:3], frozenset())
    )
    monkeypatch.setattr(CompiledProgram, "_prepare", lambda self: [left.pop() % 2] if left else [])
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    graph.output("y", graph.op("Sin", [graph.op("Cos", [x], edition=HOST)], edition=HOST))
    graph.output("z", graph.op("Cos", [x], edition=HOST))
    CompiledProgram(graph, policy="fusion", fallback=True, fpmath_mode="strict")
    assert asked == [0, 0, 1, 2, 3][: failures + 1]


@pytest.mark.parametrize(
    ("sizes", "without", "kept"),
    [
        ([8, 99, 4, -1], [], [8, 4, 0]),
        ([-1, 99, 4, 0], [5], None),
        ([0, -1, -1, -1], [6], None),
        (None, [5, 6, 7], None),
    ],
)
def test_constants_are_prepared_once_for_each_memory(sizes, without, kept, monkeypatch):
    """A negative size is that of a step that runs with the constants of another one."""
    counted, given_up = [], []

    def prepare():
        if sizes is None:
            raise og.OutOfMemoryError("execute", 1, "out_of_memory")
        return sizes

    monkeypatch.setattr(compiled_module, "count_kept", lambda program, total: counted.append(total))
    monkeypatch.setattr(compiled_module, "give_up_constants", lambda: given_up.append(1))
    frame = SimpleNamespace(blank=lambda: nullcontext(SimpleNamespace(prepare=prepare)))
    steps = [SimpleNamespace(compiled=kernel, pieces=(1, 2)) for kernel in (ADD, ADD, MORE, MORE)]
    program = SimpleNamespace(_keeping=[5, 6, 7], steps=steps, source=SimpleNamespace(keeps=[True, False, True, True]))
    program._trial = lambda source: nullcontext(frame)
    assert CompiledProgram._prepare(program) == without
    assert counted == [kept] * (kept is not None)
    assert len(given_up) == (sizes is None)
    program._keeping = []
    assert CompiledProgram._prepare(program) == []


def test_a_process_knows_when_it_has_started(monkeypatch):
    fields = b" ".join(b"%d" % number for number in (*range(19), 90_000, 7))
    monkeypatch.setattr(digests, "open", lambda *_: io.BytesIO(b"7 (a) (b) " + fields), raising=False)
    clock = digests.time.CLOCK_BOOTTIME
    times = SimpleNamespace(CLOCK_BOOTTIME=clock, clock_gettime={clock: 1000.0}.get, time=lambda: 5000.0)
    monkeypatch.setattr(digests, "time", times)
    monkeypatch.setattr(digests.os, "sysconf", {"SC_CLK_TCK": 100}.get)
    assert digests._started() == 4900.0


def laid(shape, strides=None, constant=None, offset=0, number=1, name="a"):
    return Value(number, og.f32, shape, dense_of(shape) if strides is None else strides, number, name, constant, offset)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "inside"),
    [
        ((1, 4), (4, 1), 0, True),
        ((1, 4), (4, 1), 5, False),
        ((0, 4), (4, 1), 50, True),
        ((2, 4), (4, 1), 0, True),
        ((2, 4), (-4, 1), 4, True),
        ((2, 4), (-4, 1), 3, False),
    ],
)
def test_views_lie_in_the_memory_of_their_elements(shape, strides, offset, inside):
    whole = laid((2, 4), number=7)
    assert placing._lies_inside(laid(shape, strides, offset=offset), whole, {}) is inside


THREE, EQUAL_THREE, OTHER_THREE = np.ones(3, np.float32), np.ones(3, np.float32), np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        (None, None, True),
        (THREE, THREE, True),
        (THREE, EQUAL_THREE, True),
        (THREE, OTHER_THREE, False),
        (THREE, None, False),
        (None, THREE, False),
    ],
)
def test_values_of_open_sizes_have_the_constants_of_a_program(mine, theirs, same):
    value, like = laid((3,), constant=mine), laid((3,), constant=theirs, name="b")
    assert open_program._is_same(value, like) is same
    assert not open_program._is_same(value._replace(shape=(4,)), like)


@pytest.mark.parametrize(
    ("stated", "now", "most", "threads"), [(3, 1, 4, 3), (None, 1, 4, 1), (None, 4, 2, 2), ({0: 3}, 5, 2, 2)]
)
def test_partitions_of_open_sizes_take_the_threads_of_the_share(stated, now, most, threads):
    program = SimpleNamespace(options=SimpleNamespace(threads=stated), threads=(now, most))
    assert open_program.OpenProgram.threads_of_steps(program) == threads


@pytest.mark.parametrize("capacity", [0, 3])
def test_programs_of_a_process_with_a_cache_of_partitions_are_its_own(capacity, monkeypatch):
    monkeypatch.setattr(warm_start, "RECORDERS", [])
    monkeypatch.setattr(warm_start, "is_forked", lambda: False)
    monkeypatch.setattr(warm_start, "HASHES_CONSTANTS", False)
    monkeypatch.setattr(warm_start, "programs_keep_constants", lambda: True)
    monkeypatch.setattr(warm_start, "get_compiled_partition_cache_capacity", lambda: capacity)
    assert warm_start._is_usable() is (capacity == 0)


@pytest.mark.parametrize(("stated", "threads"), [(None, None), (3, 3), ({0: 3}, None)])
def test_parts_take_the_threads_that_are_stated_for_all(stated, threads):
    options, made = CompileOptions("fusion", True, "strict", stated, False, False), Mock()
    made_parts.make_part(made, options, 2, "graph", "shared")
    made.assert_called_once_with("graph", shared="shared", small=2, **(options._asdict() | {"threads": threads}))


def test_a_process_that_names_implementations_may_say_any_bytes(monkeypatch):
    done = SimpleNamespace(stdout=b"\xff\n", stderr=b"first\n\xff last", returncode=1)
    monkeypatch.setattr(implementation_names.subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(implementation_names.pickle, "dumps", lambda _: b"")
    program = SimpleNamespace(reports=[], whole_graph=lambda: None)
    with pytest.raises(og.UnsupportedError, match=r"\\?\ufffd last"):
        implementation_names.implementation_names(program, "fusion", "strict", False)
