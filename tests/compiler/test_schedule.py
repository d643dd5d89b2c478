"""The schedule of a program: copies, casts and kernels that it adds, with stand-ins for what the library compiles."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.small_lowered import lowered, step

import onegraph as og
from onegraph.compiler import concats, schedule, wide_hosts
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.notes import Note
from onegraph.compiler.schedule import Schedule
from onegraph.compiler.steps import CompiledStep, NumpyStep, shifts_of
from onegraph.compiler.thread_tuning import SMALL_BYTES
from onegraph.errors import UnsupportedError
from onegraph.ir.op import LogicalTensor, Op
from onegraph.opset.editions.registry import HOST

F32, BF16 = og.f32, og.bf16


def as_one(_):
    return "all"


def value(number, shape=(2, 3), strides=None, *, dtype=F32, constant=None, storage=None, offset=0):
    strides = dense_of(shape) if strides is None else strides
    return Value(number, dtype, shape, strides, number if storage is None else storage, f"v{number}", constant, offset)


def of_values(*values, steps=(), returned=(), **more):
    """A schedule of these values, without a graph."""
    made = object.__new__(Schedule)
    made.values = Values({one.id: one for one in values})
    made.steps, made.notes, made.returned, made.viewed = [], [], frozenset(returned), set()
    made._copies, made._numbers, made._kernels, made.keys, made._placed = {}, {}, {}, {}, {}
    made._repeated, made._first, made.wide, made.grown = {}, {}, {}, {}
    made.changes, made.threads, made._reorders = False, "threads", "reorders"
    graph = lowered(steps, {one.id: one.shape for one in values}, returned=returned)
    once = SimpleNamespace(once=lambda key, make: make())
    made._lowered = SimpleNamespace(
        consumers=graph.consumers,
        only_consumer=graph.only_consumer,
        maker=graph.maker,
        key=lambda one: f"key {one.id}".encode(),
        shared=once,
    )
    vars(made).update(more)
    return made


# Kernels --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def kernels(monkeypatch):
    """The kernels that are compiled, in order."""
    made = []
    monkeypatch.setattr(schedule, "packed", lambda name, numbers: (name, *sorted(numbers.items())))
    monkeypatch.setattr(schedule, "compiled", lambda *given: made.append(given) or f"kernel {len(made)}")
    return made


@pytest.mark.parametrize(("count", "varies", "small", "quick"), [
    (SMALL_BYTES // 8, False, True, True), (SMALL_BYTES // 8 + 1, False, False, False),
    (SMALL_BYTES // 8 + 1, True, False, True), (SMALL_BYTES // 8, True, True, True),
])  # fmt: skip
def test_kernels_of_few_bytes_are_small_and_quick(count, varies, small, quick, kernels):
    given = of_values(value(1, (count,)), value(2, (count,), storage=7, offset=3))
    given.add_kernel("relu", [given.values[1]], [given.values[2]], 5, {"slope": 2}, [(2, 1)], varies=varies, rows=(1,))
    (made,) = given.steps
    assert (made.is_small, made.is_quick, made.nbytes, made.flops) == (small, quick, 8 * count, 0)
    assert (made.compiled, made.like, made.pieces, made.n_inputs) == ("kernel 1", "kernel 1", [1, 7], 1)
    assert (made.in_place, made.note, made.shifts, made.rows) == ([(2, 1)], 5, [0, 12], (1,))
    assert kernels == [("relu", [given.values[1]], [given.values[2]], ("relu", ("slope", 2)))]


def test_equal_kernels_are_compiled_once(kernels):
    ends = [value(1), value(2), value(3, strides=(1, 2)), value(4, dtype=BF16), value(5, (3, 2)), value(6)]
    given, (plain, second, turned, half, other, again) = of_values(*ends), ends
    uses = [
        ("a", [plain], [second], {}),
        ("a", [again], [plain], {}),
        ("b", [plain], [second], {}),
        ("a", [plain, second], [], {}),
        ("a", [turned], [second], {}),
        ("a", [half], [second], {}),
        ("a", [other], [second], {}),
        ("a", [plain], [second], {"n": 1}),
    ]
    for name, inputs, outputs, numbers in uses:
        given.add_kernel(name, inputs, outputs, 0, numbers)
    assert [one.compiled for one in given.steps] == [f"kernel {number}" for number in (1, 1, 2, 3, 4, 5, 6, 7)]
    assert given.steps[0].in_place == ()
    large = value(8, (SMALL_BYTES,))
    given.add_kernel("a", [large], [large], 0)
    assert (given.steps[-1].is_quick, given.steps[0].is_quick) == (False, True)
    assert not given.steps[0].rows


def test_shifts_are_left_out_where_all_are_0():
    assert shifts_of([value(1), value(2)]) == ()
    assert shifts_of([value(1), value(2, offset=2), value(3, offset=3, dtype=BF16)]) == [0, 8, 6]


def test_compiled_partitions_read_and_write_their_values():
    tensors = [SimpleNamespace(id=name) for name in "abcd"]
    compiled = SimpleNamespace(inputs=tensors[:2], outputs=tensors[2:], inplace_pairs=[("a", "c"), ("b", "d")])
    given = of_values(value(1), value(2, storage=9, offset=1), value(3), value(4, storage=8))
    given.add_compiled(compiled, [1, 2, 3, 4], 6, "recipe")
    (made,) = given.steps
    assert (made.pieces, made.n_inputs, made.in_place, made.note) == ([1, 9, 3, 8], 2, [(3, 1)], 6)
    assert (made.nbytes, made.flops, made.is_small, made.is_quick) == (96, 0, False, False)
    assert (made.shifts, made.recipe) == ([0, 4, 0, 0], "recipe")


# Copies ---------------------------------------------------------------------------------------------------------------


class Reorder:
    """What the library would copy with."""

    def __init__(self, source, target):
        self.ends = source.id, target.id

    def compiled(self, present, reorders, threads):
        if self.ends[0] == "refused":
            raise UnsupportedError("no such copy")
        assert (reorders, threads) == ("reorders", "threads")
        return f"reorder of {self.ends[0]}"


@grouped(
    "name, shape, strides, target, dtype, changes, native, executor",
    [
        ("x", (2, 4, 4), (16, 1, 4), (16, 4, 1), F32, False, True, "oneDNN"),
        ("x", (2, 4, 4), (0, 1, 4), (16, 4, 1), F32, False, True, "copy"),
        ("x", (2, 4, 4), (16, 1, -4), (16, 4, 1), F32, False, True, "copy"),
        ("x", (2, 4, 4), (16, 1, 4), (16, 4, 1), og.DataType.float64, False, True, "copy"),
        ("x", (2, 4, 4), (16, 1, 4), (16, 4, 1), F32, False, False, "copy"),
        ("x", (3, 1, 1), (1, 1, 1), (4, 4, 4), F32, False, True, "copy"),
        ("x", (2, 4, 4), (16, 1, 4), (16, 4, 1), F32, True, True, "copy"),
        ("refused", (2, 4, 4), (16, 1, 4), (16, 4, 1), F32, False, True, "copy"),
        ("x", (2, 4, 4), (16, 1, 4), (16, 4, 1), og.s32, True, True, "copy"),
    ],
    key=as_one,
)
def test_the_library_copies_layouts_that_it_has(
    name, shape, strides, target, dtype, changes, native, executor, monkeypatch
):
    monkeypatch.setattr(schedule, "Reordering", Reorder)
    monkeypatch.setattr(schedule, "is_native", lambda _: native)
    source, result = value(name, shape, strides, dtype=dtype), value("y", shape, target, dtype=dtype)
    given, log = of_values(source, result, changes=changes), []
    given.cast = lambda *ends: log.append(("cast", *ends))
    given.add_compiled = lambda *ends: log.append(("compiled", *ends[:-1], ends[-1].ends))
    one = step("Reorder", name, "y")
    given.notes = ["before"]
    for with_step in (one, None):
        given.add_copy(source, result, with_step, "because")
    steps = [(one,), ()]
    assert given.notes[1:] == [Note(executor, each, ("because",), (source,), (result,)) for each in steps]
    made = {"copy": lambda place: ("cast", (name,), ("y",), place)}
    made["oneDNN"] = lambda place: ("compiled", f"reorder of {name}", (name, "y"), place, (name, "y"))
    assert log == [made[executor](place) for place in (1, 2)]


def test_copies_are_made_once_for_each_layout():
    number = np.arange(6, dtype=np.float32).reshape(2, 3)
    given, log = (
        of_values(
            value(0, strides=(1, 2)), value(1, constant=number), value(2, strides=(1, 2), constant=number.T.copy().T)
        ),
        [],
    )
    given.add_copy = lambda *ends: log.append(ends)
    first = given.copy(given.values[0], (3, 1), "why")
    assert given.copy(given.values[0], (3, 1), "why") == first
    assert given.copy(given.values[0], (6, 2), "why") not in (first, 0)
    assert [(source.id, target.id, one, reason) for source, target, one, reason in log] == [
        (0, first, None, "why"),
        (0, first + 1, None, "why"),
    ]
    assert (given.values[first].name, given.values[first].strides) == ("v0 (dense)", (3, 1))
    assert given.values[first + 1].name == "v0 (channels last)"
    # A constant has its key if it stays, and another one if it is copied.
    kept = given.copy(given.values[1], (1, 2), "why")
    moved = given.dense_copy(given.values[2])
    assert (given.values[kept].constant is number, given.keys[kept]) == (True, b"key 1")
    assert given.values[moved].constant.flags.c_contiguous
    assert given.keys[moved] != b"key 2"
    assert len(log) == 2


@grouped(
    "shape, strides, is_copied",
    [
        ((2, 3), (3, 1), False),
        ((2, 3), (0, 1), False),
        ((2, 3), (-3, 1), True),
        ((1, 3), (-3, 1), False),
        ((2, 3), (3, -1), True),
        ((2, 1), (1, -1), False),
    ],
    key=as_one,
)
def test_kernels_read_no_values_that_run_backwards(shape, strides, is_copied):
    given = of_values(value(0, shape, strides))
    given.add_copy = lambda *_: None
    assert (given.forwards(0) != 0) is is_copied


def test_vectors_are_tiled_once():
    given = of_values(value(0, (1, 3)), value(1, (3,), constant=np.float32([1, 2, 3])))
    first = given.tiled(0, 4)
    assert given.tiled(0, 4) == first != given.tiled(0, 5)
    assert (given.values[first].shape, given.values[first].name) == ((4, 3), "v0")
    assert [(one.inputs, one.outputs, one.note) for one in given.steps] == [
        ((0,), (first,), 0),
        ((0,), (first + 1,), 1),
    ]
    assert [note.reasons for note in given.notes] == [("4 times side by side",), ("5 times side by side",)]
    assert [note.executor for note in given.notes] == ["copy", "copy"]
    tiled = given.values[given.tiled(1, 2)]
    assert (tiled.constant.tolist(), len(given.steps)) == ([[1, 2, 3]] * 2, 2)


def test_numbers_are_made_once_for_each_rank():
    given = of_values()
    first = given.new_number(0.1, 2)
    assert given.new_number(np.float32(0.1), 2) == first != given.new_number(0.1, 3)
    assert (given.values[first].constant.tolist(), given.values[first].shape) == ([[np.float32(0.1)]], (1, 1))
    assert given.values[first].name == "number"


# Casts ----------------------------------------------------------------------------------------------------------------


@grouped(
    "source, target, made",
    [
        (value(0), value(1, strides=(1, 2)), "strided_copy 0"),
        (value(0, strides=(-3, 1)), value(1), "strided_copy 1"),
        (value(0), value(1, dtype=BF16), "cast"),
        (value(0, strides=(0, 1)), value(1, dtype=BF16), "copy cast"),
        (value(0, dtype=og.s32), value(1), "numpy"),
        (value(0, (0, 3)), value(1, (0, 3)), "numpy"),
        (value(0), value(1, strides=(0, 1)), "numpy"),
        (value(0, strides=(0, 1), dtype=og.s32), value(1), "numpy"),
    ],
    key=as_one,
)
def test_what_casts_a_value(source, target, made, monkeypatch):
    given, log = of_values(source, target), []
    given.add_copy = lambda *_: log.append("copy")
    given.add_kernel = lambda name, inputs, outputs, note, numbers=None: log.append(
        name if numbers is None else f"{name} {numbers['backwards']}"
    )
    given.cast((0,), (1,), 4)
    if made == "numpy":
        (one,) = given.steps
        assert (one.run, one.inputs, one.outputs, one.note) == (schedule.store, (0,), (1,), 4)
    else:
        assert (" ".join(log), given.steps) == (made, [])


@grouped(
    "source, note, reason, reasons, copies",
    [
        (value(0), "", "", "by onegraph: the library's kernel for data types that the CPU has not is slower", 0),
        (value(0), "said", "", "said", 0),
        (value(0), "", "why", "why", 0),
        (value(0, strides=(0, 1)), "", "why", "why", 1),
        (value(0, strides=(0, 1), dtype=og.s32), "", "why", "why", 0),
    ],
    key=as_one,
)
def test_casts_say_why_the_package_runs_them(source, note, reason, reasons, copies):
    given, log = of_values(source, value(1, dtype=BF16)), []
    given.dense_copy, given.cast = (lambda one: log.append(one.id)), (lambda *ends: log.append(ends))
    given.add_cast(step("TypeCast", "", "")._replace(inputs=(0,), outputs=(1,), note=note), reason)
    assert log == [*[0] * copies, ((0,), (1,), 0)]
    assert [one for one in given.notes[0].reasons if one] == [reasons]
    assert given.notes[0].executor == "copy"


# Memory ---------------------------------------------------------------------------------------------------------------


def scatter(**more):
    return step("ScatterElements", "x", "y", "reference", op_kind="ScatterElements", **{"edition": HOST, **more})


@grouped(
    "one, given, overwrites",
    [
        (scatter(), {}, True),
        (scatter(edition="onednn-3.2"), {}, False),
        (step("Tanh", "x", "y", op_kind="Tanh", edition=HOST), {}, False),
        (scatter(), {"viewed": {"x"}}, False),
        (scatter(), {"viewed": {"y"}}, False),
        (scatter(), {"returned": ["x"]}, False),
        (scatter(), {"returned": ["y"]}, False),
        (scatter(), {"storage": "z"}, False),
        (scatter(), {"strides": (1, 2)}, False),
        (scatter(), {"readers": 1}, False),
        (scatter(), {"maker": False}, False),
    ],
    key=as_one,
)
def test_ops_that_change_some_elements_take_the_memory_of_their_source(one, given, overwrites):
    source = value("x", strides=given.get("strides"), storage=given.get("storage"))
    steps = [
        *[step("Tanh", "u", "x")] * given.get("maker", True),
        one,
        *[step("Tanh", "x", "z")] * given.get("readers", 0),
    ]
    made = of_values(source, value("y"), value("z"), value("u"), steps=steps, returned=given.get("returned", ()))
    made.viewed = given.get("viewed", set())
    made.let_overwrite(one)
    assert (made.values["y"].storage == "x") is overwrites
    assert made.values["y"].strides == (3, 1)


def test_repeated_steps_take_the_first_result():
    made = of_values(value(1), value(2, strides=(1, 2)), value(3), value(4), value(5), returned=[4])
    made._repeated, made._placed = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, {5: None}
    outcomes = [made.add_repeated(step("Tanh", "", "")._replace(outputs=(number,))) for number in (2, 3, 4, 5, 6, 2)]
    assert outcomes == [False, True, False, False, False, False]
    assert (made.values[3].storage, made.values[3].strides) == (2, (1, 2))
    assert made.values[4].storage == 4


def test_places_in_outputs_are_taken_back():
    made = of_values(value(1, storage=9), value(2), value(9))
    made._placed, made.viewed = {1: value(1)}, {1, 9, 5}
    assert made.take_back([2]) is False
    assert made.take_back([1, 2]) is True
    assert (made.values[1].storage, made.viewed, made._placed) == (1, {5}, {})
    assert made.take_back([1]) is False


def test_values_that_nobody_reads():
    made = of_values(value("x"), value("y"), value("z"), steps=[step("Tanh", "x", "y")], returned=["z"])
    assert [made.is_read(name) for name in "xyz"] == [True, False, True]
    made.keys["x"] = "own"
    assert [made.key(made.values[name]) for name in "xy"] == ["own", b"key y"]


def test_numpy_steps_say_who_runs_them(monkeypatch):
    monkeypatch.setattr(schedule, "numpy_step", lambda one, values, note: (one.kind, note))
    kind = next(iter(schedule.REPLACED_FORMS))
    made = of_values(value("x"), value("y"))
    for one in (step("Tanh", "x", "y", edition=HOST), step("Tanh", "x", "y"), step(kind, "x", "y")):
        made.add_numpy(one, "why")
    assert [note.executor for note in made.notes] == ["host", "reference", "reference"]
    more = f"why; other ops take its place for {schedule.REPLACED_FORMS[kind]} alone"
    assert [note.reasons for note in made.notes] == [("why",), ("why",), (more,)]
    assert made.steps == [("Tanh", 0), ("Tanh", 1), (kind, 2)]


# Concats and host ops of 16 bits --------------------------------------------------------------------------------------


@grouped(
    "kind, dims, given, copies",
    [
        ("Concat", (1, 64, 64), {}, 2),
        ("Concat", (1, 64, 63), {}, None),
        ("Concat", (1, 64, 63), {"changes": True}, 2),
        ("Add", (1, 64, 64), {}, None),
        ("Concat", (1, 64, 63), {"gaps": True}, 2),
        ("Concat", (1, 64, 64), {"dtype": og.s64}, None),
        ("Concat", (1, 64, 63), {"grown": "before"}, 2),
        ("Concat", (1, 64, 63), {"grown": "complete"}, 1),
    ],
    key=as_one,
)
def test_concats_are_copies_into_parts(kind, dims, given, copies):
    dtype, whole = given.get("dtype", F32), (2, *dims[1:])
    one, first = step(kind, "x z", "y", axis=-3)._replace(id=5), step("Concat", "x", "w", axis=0)._replace(id=4)
    strides = (2 * dims[1] * dims[2], 2 * dims[2], 2) if given.get("gaps") else None
    made, log = (
        of_values(
            value("x", dims, dtype=dtype),
            value("z", dims, dtype=dtype),
            value("y", whole, strides, dtype=dtype, offset=3),
        ),
        [],
    )
    made.changes, made.grown = given.get("changes", False), {5: first} if "grown" in given else {}
    made.copy_into = lambda source, target, note: log.append(
        (source, made.values[target].offset, made.values[target].shape, note)
    )
    adding = concats.Concats(made)
    adding._complete = {4} if given.get("grown") == "complete" else set()
    assert adding.add(one) is (copies is not None)
    size = dims[1] * dims[2] * (2 if given.get("gaps") else 1)
    wanted = [("x", 3, dims, 0), ("z", 3 + size, dims, 0)]
    assert log == wanted[2 - (copies or 0) :]
    assert (5 in adding._complete) is (copies is not None)
    assert [note.reasons for note in made.notes] == [("into parts of the result", "")] * len(log[:1])


def host(kind, inputs=(F32,), outputs=(F32,), edition=HOST, whole=True, **attrs):
    op = SimpleNamespace(
        kind=kind, edition=edition, attrs=attrs, inputs=tuple([one and SimpleNamespace(dtype=one) for one in inputs]),
        outputs=tuple([SimpleNamespace(dtype=one) for one in outputs]),
    )  # fmt: skip
    return SimpleNamespace(op=op, whole=whole)


@grouped(
    "one, computes",
    [
        (host("Sin", (BF16,), (BF16,)), True),
        (host("Sin", (og.f16,), (og.f16,)), True),
        (host("Sin"), False),
        (host("Sin", (BF16,), (F32,)), True),
        (host("Sin", (F32,), (BF16,)), True),
        (host("Sin", (BF16, None), (BF16,)), True),
        (host("Sin", (BF16, og.DataType.float64), (BF16,)), False),
        (host("Where", (BF16,), (BF16,)), False),
        (host("ScatterElements", (BF16,), (BF16,), reduction="none"), False),
        (host("ScatterElements", (BF16,), (BF16,), reduction="add"), True),
        (host("ReduceSum", (BF16,), (BF16,), edition="onednn-3.2"), True),
        (host("ReduceSum", (BF16,), (BF16,), edition="onednn-3.2", whole=False), False),
        (host("Exp", (BF16,), (BF16,), edition="onednn-3.2"), False),
    ],
    key=as_one,
)
def test_ops_of_16_bits_that_compute_in_f32(one, computes):
    assert wide_hosts._computes(one) is computes


def test_host_ops_of_16_bits_run_between_casts():
    number = np.ones((2, 3)).astype(BF16.numpy)
    ends = [
        LogicalTensor("x", BF16, (2, 3), None, "x"),
        LogicalTensor("k", BF16, (2, 3), None, "k", number),
        LogicalTensor("i", og.s64, (2, 3), None, "i"),
    ]
    out = LogicalTensor("y", BF16, (2, 3), None, "y")
    op = Op(0, "Mod", tuple(ends), (out,), {}, "mod", HOST)
    made = of_values(
        value("x", dtype=BF16),
        value("k", dtype=BF16, constant=number),
        value("i", dtype=og.s64),
        value("y", dtype=BF16),
    )
    log = []
    made.cast = lambda inputs, outputs, note: log.append(("cast", inputs, outputs, note))
    one = step("Mod", "x k i", "y", "reference")._replace(op=op)
    assert wide_hosts.add_widened(made, one, lambda each: log.append(("add", each.inputs, each.outputs, each.op)))
    wide = {name: made.wide[name] for name in "xk"}
    (_, (source,), (into,), _), (_, inputs, outputs, computed), (_, (result,), last, _) = log
    assert (source, into, inputs, last) == ("x", wide["x"], (wide["x"], wide["k"], "i"), ("y",))
    assert outputs == (result,)
    assert [end.dtype for end in (*computed.inputs, *computed.outputs)] == [F32, F32, og.s64, F32]
    assert made.values[wide["k"]].constant.dtype == computed.inputs[1].value.dtype == np.float32
    assert (made.notes[0].reasons, computed.name, computed.kind) == ((wide_hosts.REASON,), "mod", "Mod")
    # A second reader takes the same value in f32, and a cast between floats is one cast.
    del log[:]
    wide_hosts.add_widened(made, one, lambda each: log.append(("add", each.inputs)))
    assert [each[0] for each in log] == ["add", "cast"]
    assert log[0][1] == (wide["x"], wide["k"], "i")
    cast = Op(0, "Cast", tuple(ends[:1]), (LogicalTensor("z", F32, (2, 3), None, "z"),), {}, "cast", HOST)
    made.values["z"] = value("z")
    del log[:]
    assert wide_hosts.add_widened(made, step("Cast", "x", "z", "reference")._replace(op=cast), None)
    assert log == [("cast", ("x",), ("z",), len(made.notes) - 1)]
    assert made.notes[-1].reasons == ("one cast between floats",)


def test_steps_have_defaults():
    assert CompiledStep._field_defaults["room"] == (0, 0)
    assert (NumpyStep(None, (), (), 0).rows, NumpyStep(None, (), (), 0).source) == ((), None)
