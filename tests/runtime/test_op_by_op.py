"""Parts of a graph whose sizes change from call to call run op by op; programs with host steps have a quick call."""

import numpy as np
import pytest
from helpers.host_cases import cases, graph_of

import onegraph as og
from onegraph.lowering.control import Looping, Scans, Turn
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.movement import concat
from onegraph.opset.editions.registry import HOST
from onegraph.reference import run, run_op
from onegraph.runtime import compiled_program, op_by_op
from onegraph.runtime.direct_ops import BASE_MAKERS, EXACT, MAKERS, UFUNCS, direct
from onegraph.runtime.op_by_op import OFTEN, REFUSED_BY_NUMPY, SELDOM, ExaminedOp, OpByOp
from onegraph.runtime.segments import _stages, segments
from onegraph.runtime.staged import Staged
from onegraph.runtime.subprograms import CompiledBody

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-40, 3e38], np.float32)


def positive_rows(g=None):
    """The rows of x with a positive sum, twice as large, and how many there are: a graph in stages."""
    g = g or og.Graph()
    x = g.input("x", og.f32, (None, 3))
    total = g.op("ReduceSum", [x], {"axes": [1], "keep_dims": False})
    zero = g.constant(np.float32(0))
    places = g.op("NonZero", [g.op("Greater", [total, zero], edition=HOST)], edition=HOST)
    rows = g.op("Gather", [x, g.op("Squeeze", [places], {"axes": [0]}, edition=HOST)], {"axis": 0}, edition=HOST)
    g.output("rows", g.op("Add", [rows, rows]))
    g.output("count", g.op("Shape", [rows], edition=HOST))
    return g


def expected(x):
    rows = x[x.sum(1) > 0]
    return rows * 2, np.array(rows.shape)


def between_sizes():
    """Ops between two sizes that contents decide, among them a Range up to a size, and one up to a number."""
    g = og.Graph()
    x, n = g.input("x", og.f32, (None, 4)), g.input("n", og.s64, (1,))

    def host(kind, inputs, attrs=None, **more):
        return g.op(kind, inputs, attrs or {}, edition=HOST, **more)

    zero, one = g.constant(np.int64(0), dtype=og.s64), g.constant(np.int64(1), dtype=og.s64)
    chosen = host("Greater", [g.op("ReduceSum", [x], {"axes": [1], "keep_dims": False}), g.constant(np.float32(0))])
    rows = host("Compress", [x, chosen], {"axis": 0})
    numbers = host("Range", [zero, host("Gather", [host("Shape", [rows]), zero], {"axis": 0}), one])
    factors = host("Unsqueeze", [host("Cast", [numbers], dtype="f32")], {"axes": [1]})
    scaled = g.op("Multiply", [rows, factors])
    total = g.op("ReduceSum", [scaled], {"axes": [0], "keep_dims": False})
    g.output("total", g.op("Add", [total, total]))
    g.output("places", host("NonZero", [host("Greater", [scaled, total])]))
    g.output("repeated", host("Expand", [g.op("Square", [total]), host("Concat", [n, n], {"axis": 0})]))
    return g


def between_sizes_in_numpy(x, n):
    rows = x[x.sum(1) > 0]
    scaled = rows * np.arange(len(rows), dtype=np.float32)[:, None]
    total = scaled.sum(0)
    return total * 2, np.array((scaled > total).nonzero()), np.broadcast_to(total**2, np.broadcast_shapes((4,), (n, n)))


def test_ops_between_two_sizes_are_a_program_for_sizes_that_come_often():
    model, made = between_sizes().compile(), []
    xs = [np.round(RNG.standard_normal((6, 4)) * 8).astype(np.float32) for _ in range(3)]
    xs += [-np.abs(xs[0]), np.abs(xs[1]), RNG.integers(1, 9, (0, 4)).astype(np.float32)]
    for turn in range(SELDOM + 8):
        for x in xs:
            for found, wanted in zip(model(x, np.array([4])), between_sizes_in_numpy(x, 4), strict=True):
                np.testing.assert_array_equal(found, wanted)
        if turn == 2:
            made.append(programs_of_segments(model))
    assert 0 == made[0] < programs_of_segments(model)
    for number in (4, 1):  # contents of a later call, of which the segment knows nothing
        assert model(xs[0], np.array([number]))[2].shape == (number, 4)
    with pytest.raises(og.OneGraphError):
        model(xs[0], np.array([3]))


def programs_of_segments(model):
    """The number of programs that the segments of an executable, and of its stages, have."""
    finders, count = [model._programs], 0
    while finders:
        finder = finders.pop()
        for step in (finder.op_by_op and finder.op_by_op.is_open and finder.op_by_op._divided) or ():
            executable = getattr(step.compute, "executable", None)
            if executable is not None:
                count += len(executable._programs.cache.entries)
        for entry in finder.cache.entries.values():
            if isinstance(entry.program, Staged):
                finders.append(entry.program._rest._programs)
    return count


def test_segments_hold_no_op_whose_size_contents_decide():
    graph, parts = between_sizes(), []
    divided = segments(graph, lambda part: parts.append(part) or (lambda *arrays: None))
    assert [part.kind for part in divided if isinstance(part, og.Op)] == [
        "ReduceSum", "Greater", "Concat", "Compress", "NonZero", "Expand"
    ]  # fmt: skip
    (part,) = parts
    assert {"Range", "Shape", "Multiply", "Square"} <= {op.kind for op in part.ops}
    assert segments(part, lambda part: pytest.fail("one stage is no segment")) is None


def in_stages(is_whole=True):
    """Ops whose sizes follow from those of inputs, from contents, and from sizes that contents decide."""
    g = og.Graph()
    x, n = g.input("x", og.f32, (None, 4)), g.input("n", og.s64, ())
    zero, one, three = (g.constant(np.int64(number), dtype=og.s64) for number in (0, 1, 3))

    def host(name, kind, *inputs, **attrs):
        return g.op(kind, [*inputs], attrs, edition=HOST, name=name)

    shape = host("shape", "Shape", x)
    size, places = host("size", "Gather", shape, zero, axis=0), host("places", "NonZero", shape)
    host("to size", "Range", zero, size, one)
    host("to sum", "Range", zero, host("sum", "Add", size, n), one)
    start = host(
        "start", "Unsqueeze", host("known", "Gather", host("three", "Range", zero, three, one), zero), axes=[0]
    )
    total = g.op("ReduceSum", [x], {"axes": [1], "keep_dims": False}, name="total")
    rows = host("rows", "Compress", x, host("flags", "Greater", total, g.constant(np.float32(0))), axis=0)
    count = host("count", "Gather", host("later shape", "Shape", rows), zero, axis=0)
    host("to count", "Range", zero, count, one)
    end = host("end", "Unsqueeze", count, axes=[0])
    if not is_whole:
        return g
    host("from size", "Range", size, count, one)
    host("all", "Slice", rows, g.constant(numbers_of(0), dtype=og.s64), end)
    host("behind", "Slice", rows, start, end)
    few = host("few", "Squeeze", places, axes=[0])
    host("from places", "Slice", rows, few, g.constant(numbers_of(9, 9), dtype=og.s64))
    host("to both", "Range", zero, host("both", "Add", size, count), one)
    host("last", "Compress", host("twice", "Add", rows, rows), host("chosen", "Equal", end, end), axis=0)
    return g


def numbers_of(*numbers):
    return np.array(numbers, np.int64)


def test_ops_are_in_the_stage_in_which_their_sizes_are_known():
    found = [[[op.name for op in ops] for ops in stage] for stage in _stages(in_stages())]
    first = (
        ["shape", "size", "to size", "sum", "three", "known", "start", "total", "flags"],
        ["places", "to sum", "rows"],
    )
    second = ["later shape", "count", "to count", "end", "all", "few", "both", "twice", "chosen"]
    assert found == [[*first], [second, ["from size", "behind", "from places", "to both", "last"]]]


# Whether ops stand behind the second segment, of which ops the results are outputs, and how many ops each segment has.
ENDS = [
    (True, "shape size known start total rows count to_both last", [9, 9]),
    (True, "start rows all behind last", [9, 9]),
    (True, "to_sum", [9, 9]),
    (False, "end rows", [9, 4]),
    (False, "to_sum", [9]),
]


@pytest.mark.parametrize(("is_whole", "ends", "sizes"), ENDS)
def test_segments_compute_what_ops_compute(is_whole, ends, sizes):
    """Outputs that segments return, that ops between them read, and that nobody reads."""
    g, made = in_stages(is_whole), []
    for op in g.ops:
        if op.name.replace(" ", "_") in ends.split():
            g.output(op.name, op.outputs[0])

    def make(part):
        def computed(*arrays):
            found = [*run(part, dict(zip(part.inputs, arrays, strict=True))).values()]
            return found[0] if len(found) == 1 else found

        made.append(len(part.ops))
        return computed

    arrays = [np.round(RNG.standard_normal((5, 4)) * 8).astype(np.float32), np.array(7)]
    ops = OpByOp.of(g, None, make)
    ops.is_open = True
    found, wanted = ops.run(arrays), run(g, dict(zip(g.inputs, arrays, strict=True)))
    assert made == sizes
    for one, other in zip(found, wanted.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_new_sizes_need_no_compilation(monkeypatch):
    model = positive_rows().compile()
    sizes = [RNG.standard_normal((20, 3)).astype(np.float32) for _ in range(12)]
    model(sizes[0])
    made, compile_ = [], compiled_program.CompiledProgram.__init__
    monkeypatch.setattr(
        compiled_program.CompiledProgram, "__init__", lambda *a, **k: (made.append(1), compile_(*a, **k))[1]
    )
    for x in sizes:
        for found, wanted in zip(model(x), expected(x), strict=True):
            assert np.array_equal(found, wanted)
    assert not made


def test_results_of_stages_own_their_memory():
    model, x = positive_rows().compile(), np.abs(RNG.standard_normal((4, 3))).astype(np.float32)
    first = model(x)
    kept = [array.copy() for array in first]
    x[:] = 1
    model(x)
    assert all(map(np.array_equal, first, kept))
    out = [np.empty((4, 3), np.float32), np.empty(2, np.int64)]
    model(x, out=out)
    assert (out[0] == 2).all()


def test_often_seen_shapes_are_compiled():
    g = og.Graph()
    x = g.input("x", og.f32, (None,))
    g.output("y", g.op("Add", [x, x]))
    run = OpByOp.of(g, lambda op: pytest.fail("no control flow"))
    x = np.ones(4, np.float32)
    assert all(run.run([x]) is not None for _ in range(OFTEN))
    assert run.run([x]) is None
    assert run.run([np.ones(5, np.float32)])[0].tolist() == [2.0] * 5
    assert run.run([np.ones(1 << 15, np.float32)]) is None  # too large


@pytest.mark.parametrize("kind", sorted(EXACT))
def test_exact_ops_have_the_bits_of_the_reference(kind):
    g = og.Graph()
    n = 1 if kind in ("Abs", "Sqrt", "Square") else 2
    ends = [g.input(f"x{place}", og.f32, (None, None)) for place in range(n)]
    g.output("y", g.op(kind, ends))
    (op,) = g.ops
    arrays = [SPECIAL.reshape(-1, 1), SPECIAL.reshape(1, -1)][:n]
    with np.errstate(all="ignore"):
        (found,), (wanted,) = ExaminedOp(op)(arrays), run_op(op, arrays)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def _wrong(case):
    """Inputs of a case with one axis longer, shorter or missing."""
    for place, array in enumerate(case.inputs):
        if array is None or place in case.known:
            continue
        for axis in range(array.ndim):
            yield place, np.concatenate([array, array], axis)
            yield place, np.take(array, range(array.shape[axis] - 1), axis)


@pytest.mark.parametrize("kind", sorted({case.kind for case in cases()}))
def test_numpy_or_an_examination_refuses_the_shapes_that_rules_refuse(kind):
    some = [case for case in cases() if case.kind == kind]
    for case in some[: 6 if kind in REFUSED_BY_NUMPY else 2]:
        graph, _ = graph_of(case)
        (op,) = [op for op in graph.ops if op.kind == kind][:1]
        tensors = [
            None if tensor is None else tensor if place in case.known else open_dims(tensor)
            for place, tensor in enumerate(op.inputs)
        ]
        opened = og.Op(op.id, op.kind, tuple(tensors), tuple(map(open_dims, op.outputs)), dict(op.attrs), op.name, HOST)
        for place, array in _wrong(case):
            arrays = [array if port == place else one for port, one in enumerate(case.inputs)]
            try:
                wanted = run_op(opened, arrays)
            except og.OneGraphError:
                with pytest.raises((og.OneGraphError, ValueError)):
                    ExaminedOp(opened)(arrays)
            else:
                for found, right in zip(ExaminedOp(opened)(arrays), wanted, strict=True):
                    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("kind", sorted(MAKERS.keys() | UFUNCS.keys()))
def test_direct_calls_of_numpy_agree_with_the_reference(kind):
    taken = 0
    for case in cases():
        if case.kind != kind:
            continue
        (op,) = [op for op in graph_of(case)[0].ops if op.kind == kind][:1]
        examined = ExaminedOp(op)
        taken += examined._needs_no_rules and direct(op) is not None
        for found, wanted in zip(examined(case.inputs), run_op(op, case.inputs), strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert np.array_equal(found, wanted, equal_nan=found.dtype.kind == "f")
    assert taken


@pytest.mark.parametrize(
    ("kind", "attrs", "shapes"),
    [
        ("StaticReshape", {"shape": (-1, 4), "special_zero": False}, [(2, 6)]),
        ("ReduceSum", {"axes": (1, -1), "keep_dims": True}, [(3, 5, 4)]),
        ("MatMul", {"transpose_a": True}, [(5, 3), (5, 4)]),
        ("MatMul", {"transpose_b": True}, [(3, 5), (4, 5)]),
    ],
)
def test_direct_calls_of_base_ops_have_the_bits_of_the_reference(kind, attrs, shapes):
    g, arrays = og.Graph(), [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    g.output("y", g.op(kind, [g.input(f"x{i}", og.f32, (None,) * len(one)) for i, one in enumerate(shapes)], attrs))
    (op,) = g.ops
    assert kind in BASE_MAKERS
    assert direct(op) is not None
    assert np.array_equal(ExaminedOp(op)(arrays)[0], run_op(op, arrays)[0])
    with pytest.raises((og.OneGraphError, ValueError)):
        ExaminedOp(op)([np.concatenate([arrays[0]] * 2)[1:].reshape(-1), *arrays[1:]])


@pytest.mark.parametrize("shape", [(1, 1, 40), (2, 3, 17), (1, 4, 1), (1, 1, 0), (0, 2, 5), (2, 0, 5)])
@pytest.mark.parametrize("limit", [0, 2, 100])
def test_boxes_are_suppressed_without_rules_as_by_the_reference(shape, limit):
    batches, _, count = shape
    g = og.Graph()
    ends = [g.input("b", og.f32, (None, None, 4)), g.input("s", og.f32, (None,) * 3)]
    ends += [g.constant(np.int64(limit), dtype=og.s64), g.constant(np.float32([0.4])), g.constant(np.float32(0.2))]
    g.output("y", g.op("NonMaxSuppression", ends, {"center": limit == 2}, edition=HOST))
    (op,) = g.ops
    corner, scores = RNG.random((batches, count, 2)), RNG.integers(0, 6, shape) / 5
    scores[RNG.random(shape) < 0.1] = np.nan
    boxes = np.concatenate([corner, corner + RNG.random(corner.shape)], 2)
    arrays = [boxes.astype(np.float32), scores.astype(np.float32), *[one.value for one in ends[2:]]]
    examined = ExaminedOp(op)
    assert examined._needs_no_rules
    np.testing.assert_array_equal(examined(arrays)[0], run_op(op, arrays)[0])


def test_a_node_of_onnx_is_examined_for_no_contents(monkeypatch):
    helper = pytest.importorskip("onnx.helper", reason="the package onnx is not installed")
    ports = [[helper.make_tensor_value_info(name, 1, [shape])] for name, shape in (("x", 4), ("y", None))]
    graph = helper.make_graph([helper.make_node("Unique", ["x"], ["y"])], "g", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    monkeypatch.setattr(op_by_op, "run_op", lambda *_, **__: pytest.fail("the rules are asked"))
    executable = og.onnx.load(model).compile()
    for last in range(3, 6):
        np.testing.assert_array_equal(executable(np.float32([2, 1, 2, last])), [1, 2, last])


def test_an_op_of_unknown_rank_is_examined_once_for_each_rank():
    g = og.Graph()
    x, i = g.input("x", og.f32, None), g.input("i", og.s64, (None,))
    g.output("y", g.op("Gather", [x, i], {"axis": -1}, edition=HOST))
    (op,) = g.ops
    examined, i = ExaminedOp(op), np.array([1, 0, -1])
    for shape in ((4,), (2, 3), (5,), (3, 3)):
        x = RNG.standard_normal(shape).astype(np.float32)
        assert np.array_equal(examined([x, i])[0], x[..., i])
    assert sorted(examined._by_ranks) == [(1, 1), (2, 1)]
    assert all(one._needs_no_rules for one in examined._by_ranks.values())
    with pytest.raises(og.OneGraphError):
        examined([x, np.array([7])])


def test_loops_of_new_sizes_share_their_body(monkeypatch):
    """A state grows in each iteration, as in a beam search; the graph around it has another size in each call."""
    g = og.Graph()
    x, trips = g.input("x", og.s64, (None,)), g.input("n", og.s64, ())

    def iteration(body, number, states, slices):
        (state,) = states
        last = body.emit.op("Gather", [state, np.array([-1])], {"axis": 0})
        return Turn(np.array(True), [concat(body.emit, [state, body.emit.op("Add", [last, last])], 0)], [])

    looping = Looping(Emitter(g), trips, np.array(True), [x], Scans(), iteration)
    g.output("y", looping.results()[0])
    made, init = [], CompiledBody.__init__
    monkeypatch.setattr(CompiledBody, "__init__", lambda *a, **k: (made.append(1), init(*a, **k))[1])
    model = g.compile()
    for size in range(1, 6):
        x = RNG.integers(1, 9, size)
        wanted = np.concatenate([x, x[-1] * 2 ** np.arange(1, 5)])
        assert np.array_equal(model(x, np.array(4)), wanted)
    assert len(made) == 1


def open_dims(tensor):
    shape = None if tensor.shape is None else (None,) * len(tensor.shape)
    return og.LogicalTensor(tensor.id, tensor.dtype, shape, None, tensor.name)


def test_host_steps_run_after_a_bad_index():
    g = og.Graph()
    x, i = g.input("x", og.f32, (4, 3)), g.input("i", og.s64, (2,))
    zero = g.constant(np.int64(0), dtype=og.s64)
    chosen = g.op("Greater", [i, zero], edition=HOST)
    rows = g.op("Compress", [g.op("Exp", [x]), chosen], {"axis": 0}, edition=HOST)
    g.output("y", rows)
    model = g.compile()
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    for flags in ([0, 1], [1, 1], [0, 0]):
        given = np.array(flags)
        found = model(x, given)
        assert np.allclose(found, np.exp(x)[:2][given > 0], rtol=1e-5)
    with pytest.raises(og.OneGraphError):
        model(x, np.zeros(3, np.int64))
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 3)
    assert np.allclose(model(unaligned, np.array([1, 0])), np.exp(x)[:1], rtol=1e-5)
