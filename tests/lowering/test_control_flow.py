"""Branches and loops as subprograms: compared with ONNX Runtime, with known dims and with open ones."""

from dataclasses import replace

import numpy as np
import pytest

import onegraph as og

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from helpers import host_cases  # noqa: E402
from helpers.onnx_compare import by_runtime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph import reference  # noqa: E402
from onegraph.runtime.subprograms import CompiledBody  # noqa: E402

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ports(*given):
    return [helper.make_tensor_value_info(*one) for one in given]


def graph(nodes, inputs, outputs, known=None):
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in (known or {}).items()]
    return helper.make_graph(nodes, "body", ports(*inputs), ports(*outputs), arrays)


def model(nodes, inputs, outputs, known=None, opset=17):
    proto = graph(nodes, inputs, outputs, known)
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


STATE = [("i", INT, []), ("ci", BOOL, [])]
GOES = node("Identity", ["ci"], ["co"])


def loop(nodes, states, results=(), **known):
    """A Loop over M iterations whose states are pairs of a name and the one of its next value."""
    inputs = [*STATE, *[(name, FLOAT, None) for name, _ in states]]
    ends = [("co", BOOL, []), *[(name, FLOAT, None) for _, name in states], *[(name, FLOAT, None) for name in results]]
    body = graph([*nodes, GOES] if not any("co" in one.output for one in nodes) else nodes, inputs, ends, known)
    outputs = [f"{name}_last" for _, name in states] + [f"{name}_all" for name in results]
    return node("Loop", ["M", "", *[f"{name}_first" for name, _ in states]], outputs, body=body)


def of_loop(one, known=None, opset=17, **shapes):
    inputs = [(name, INT if name == "M" else FLOAT, shape) for name, shape in shapes.items()]
    return model([one], inputs, [(name, FLOAT, None) for name in one.output], known, opset)


def looping(one, known=None, opset=17, trips=5, **feeds):
    arrays = {"M": np.array(trips), **feeds}
    return of_loop(one, known, opset, M=[], **{name: one.shape for name, one in feeds.items()}), arrays


def conv_branches():
    kernels = {"w": numbers(4, 3, 3, 3)}
    then = graph([node("Conv", ["x", "w"], ["a"], pads=[1] * 4), node("Relu", ["a"], ["b"])], [], [("b", FLOAT, None)])
    other = graph([node("Conv", ["x", "v"], ["d"], pads=[1] * 4)], [], [("d", FLOAT, None)], {"v": numbers(4, 3, 3, 3)})
    one = node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    return model([one], [("x", FLOAT, [1, 3, 8, 8]), ("c", BOOL, [])], [("y", FLOAT, None)], kernels)


def branches_of_shapes(same_rank):
    then = graph([node("Transpose", ["x"], ["b"], perm=[1, 0])], [], [("b", FLOAT, None)])
    last = node("Concat", ["x", "x"], ["d"], axis=1) if same_rank else node("Flatten", ["x3"], ["d"], axis=0)
    nodes = [last] if same_rank else [node("Unsqueeze", ["x", "axes"], ["x3"]), node("ReduceSum", ["x3"], ["d"])]
    other = graph(nodes, [], [("d", FLOAT, None)])
    one = [node("If", ["c"], ["y"], then_branch=then, else_branch=other), node("Neg", ["y"], ["z"])]
    known = {} if same_rank else {"axes": np.array([0])}
    return model(one, [("x", FLOAT, [2, 3]), ("c", BOOL, [])], [("z", FLOAT, None)], known)


def nested():
    """A loop whose body chooses by the number of the iteration, and loops itself over captured values."""
    ends = [("co2", BOOL, []), ("b2", FLOAT, None)]
    steps = [node("Mul", ["b", "w"], ["b2"]), node("Identity", ["ci2"], ["co2"])]
    body = graph(steps, [("i2", INT, []), ("ci2", BOOL, []), ("b", FLOAT, None)], ends)
    inner = node("Loop", ["two", "", "a"], ["q"], body=body)
    even = graph([inner], [], [("q", FLOAT, None)])
    odd = graph([node("Add", ["a", "x"], ["p"])], [], [("p", FLOAT, None)])
    nodes = [
        node("Mod", ["i", "two"], ["odd"]),
        node("Cast", ["odd"], ["is_odd"], to=BOOL),
        node("If", ["is_odd"], ["a2"], then_branch=odd, else_branch=even),
    ]
    return looping(
        loop(nodes, [("a", "a2")]), {"two": np.array(2), "w": numbers(3), "x": numbers(3)}, a_first=numbers(3)
    )


def step(**known):
    return [node("Mul", ["a", "h"], ["a2"]), node("Add", ["a2", "a"], ["s"])]


HALF = {"h": np.float32(0.5)}
SCANNED = {"scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [1], "scan_output_directions": [1]}


def scan(size, known=True, **attrs):
    body = graph(
        [node("Add", ["s", "p"], ["s2"]), node("Mul", ["s2", "p"], ["o"])],
        [("s", FLOAT, [4]), ("p", FLOAT, [4])],
        [("s2", FLOAT, [4]), ("o", FLOAT, [4])],
    )
    one = node("Scan", ["s0", "x"], ["y", "ys"], body=body, num_scan_inputs=1, **attrs)
    shape = (4, size) if attrs else (size, 4)
    dims = list(shape) if known else [None, None]
    proto = model([one], [("s0", FLOAT, [4]), ("x", FLOAT, dims)], [("y", FLOAT, None), ("ys", FLOAT, None)])
    return proto, {"s0": numbers(4), "x": numbers(*shape)}


def by_condition():
    nodes = [
        node("Add", ["a", "a"], ["a2"]),
        node("ReduceMax", ["a2"], ["t"], keepdims=0),
        node("Less", ["t", "m"], ["co"]),
    ]
    one = loop(nodes, [("a", "a2")], ["t"])
    one.input[:] = ["", "go", "a_first"]
    inputs = [("a_first", FLOAT, [2]), ("go", BOOL, []), ("m", FLOAT, [])]
    proto = model([one], inputs, [("a2_last", FLOAT, None), ("t_all", FLOAT, None)])
    return proto, {"a_first": np.float32([1, 2]), "go": np.array(True), "m": np.array(5e3, np.float32)}


def reads_rows(axis):
    nodes = [node("Gather", ["x", "i"], ["row"], axis=axis), node("Add", ["a", "row"], ["a2"])]
    return looping(loop(nodes, [("a", "a2")], ["row"]), x=numbers(5, 5), a_first=numbers(5))


def swaps():
    nodes = [node("Add", ["a", "b"], ["c"]), node("Identity", ["b"], ["a2"])]
    return looping(loop(nodes, [("a", "a2"), ("b", "c")]), a_first=numbers(3), b_first=numbers(3))


def grows():
    return looping(
        loop([node("Concat", ["a", "x"], ["a2"], axis=0)], [("a", "a2")]), {"x": numbers(1, 3)}, a_first=numbers(2, 3)
    )


def passes_on(size, axis=0, trips=None):
    """A body that returns what it reads: a state before it changes, one that stays, a slice, a value, its number."""
    inputs = [("s", FLOAT, []), ("k", FLOAT, []), ("p", FLOAT, [4])]
    names = {"s": "before", "k": "stays", "p": "slice", "w": "value", "c": "constant"}
    nodes = [node("ReduceSum", ["p"], ["t"], keepdims=0), node("Add", ["s", "t"], ["s2"])]
    nodes += [node("Identity", [name], [result]) for name, result in names.items()] + [node("Identity", ["k"], ["k2"])]
    ends = [("s2", FLOAT, []), ("k2", FLOAT, []), *[(name, FLOAT, None) for name in names.values()]]
    if trips is not None:
        nodes = [node("Gather", ["x", "i"], ["p"], axis=0), *nodes, node("Identity", ["i"], ["number"]), GOES]
        inputs, ends = [*STATE, *inputs[:2]], [("co", BOOL, []), *ends, ("number", INT, None)]
    body = graph(nodes, inputs, ends, {"c": numbers(2)})
    outputs = [f"y{number}" for number in range(len(ends) - (trips is not None))]
    feeds = {"s0": numbers(), "k0": numbers(), "x": numbers(*((size, 4) if axis == 0 else (4, size))), "w": numbers(2)}
    if trips is None:
        results = {"scan_output_axes": [0, 0, axis, 0, 0], "scan_output_directions": [1, 0, 0, 0, 1]}
        one = node("Scan", ["s0", "k0", "x"], outputs, body=body, num_scan_inputs=1, scan_input_axes=[axis], **results)
    else:
        one, feeds["M"] = node("Loop", ["M", "", "s0", "k0"], outputs, body=body), np.array(trips)
    ports_in = [(name, INT if name == "M" else FLOAT, [*value.shape]) for name, value in feeds.items()]
    ports_out = [(name, FLOAT, None) for name in outputs]
    if trips is not None:
        ports_out[-1] = (outputs[-1], INT, None)
    return model([one], ports_in, ports_out), feeds


def appends(insert=True, join="ConcatFromSequence", **attrs):
    """A loop that adds a tensor to a sequence in each iteration, as exported decoders do."""
    nodes = [node("Mul", ["a", "h"], ["a2"]), node("SequenceInsert", ["q", "a2"], ["q2"]), GOES]
    sequence = helper.make_tensor_sequence_value_info
    inputs = [*ports(*STATE, ("a", FLOAT, [2, 3])), sequence("q", FLOAT, None)]
    outputs = [*ports(("co", BOOL, []), ("a2", FLOAT, [2, 3])), sequence("q2", FLOAT, None)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    start = [node("SequenceEmpty", [], ["q0"])] if insert else [node("SequenceConstruct", ["x", "x"], ["q0"])]
    one = node("Loop", ["M", "", "x", "q0"], ["last", "all"], body=body)
    ends = [node(join, ["all", *(["at"] if join == "SequenceAt" else [])], ["y"], **attrs)]
    known = {**HALF, **({"at": np.array(-2)} if join == "SequenceAt" else {})}
    kind = INT if join == "SequenceLength" else FLOAT
    proto = model([*start, one, *ends], [("x", FLOAT, [2, 3]), ("M", INT, [])], [("y", kind, None)], known)
    return proto, {"x": numbers(2, 3), "M": np.array(4)}


def maps():
    """A SequenceMap over the rows of a matrix, whose number a call knows."""
    body = graph([node("Mul", ["p", "h"], ["o"])], [("p", FLOAT, [3])], [("o", FLOAT, [3])], HALF)
    nodes = [
        node("SplitToSequence", ["x"], ["q"], axis=0, keepdims=0),
        node("SequenceMap", ["q"], ["r"], body=body),
        node("ConcatFromSequence", ["r"], ["y"], axis=1, new_axis=1),
    ]
    return model(nodes, [("x", FLOAT, ["n", 3])], [("y", FLOAT, None)], HALF), {"x": numbers(5, 3)}


def splits(**attrs):
    nodes = [
        node("SplitToSequence", ["x"], ["q"], axis=1, **attrs),
        node("SequenceInsert", ["q", "z"], ["r"]),
        node("SequenceAt", ["r", "at"], ["s"]),
        node("SequenceLength", ["r"], ["n"]),
        node("ConcatFromSequence", ["r"], ["y"], axis=0, **({} if attrs else {"new_axis": 0})),
    ]
    shape = [2] if attrs else [2, 1]
    inputs = [("x", FLOAT, [2, "n"]), ("z", FLOAT, shape), ("at", INT, [])]
    proto = model(nodes, inputs, [("y", FLOAT, None), ("s", FLOAT, None), ("n", INT, [])])
    return proto, {"x": numbers(2, 4), "z": numbers(*shape), "at": np.array(1)}


CASES = {
    "sequence: joined": appends(axis=1),
    "sequence: stacked": appends(axis=1, new_axis=1),
    "sequence: of several": appends(insert=False, axis=0),
    "sequence: one of it": appends(join="SequenceAt"),
    "sequence: its length": appends(join="SequenceLength"),
    "sequence: mapped": maps(),
    "sequence: split": splits(),
    "sequence: split without the axis": splits(keepdims=0),
    "if: convolutions": (conv_branches(), {"x": numbers(1, 3, 8, 8), "c": np.array(True)}),
    "if: the other one": (conv_branches(), {"x": numbers(1, 3, 8, 8), "c": np.array(False)}),
    "if: shapes": (branches_of_shapes(True), {"x": numbers(2, 3), "c": np.array(True)}),
    "if: other shapes": (branches_of_shapes(True), {"x": numbers(2, 3), "c": np.array(False)}),
    "if: ranks": (branches_of_shapes(False), {"x": numbers(2, 3), "c": np.array(False)}),
    "nested": nested(),
    "loop": looping(loop(step(), [("a", "a2")], ["s"]), HALF, a_first=numbers(4)),
    "loop: no iteration": looping(loop(step(), [("a", "a2")]), HALF, trips=0, a_first=numbers(4)),
    "loop: one iteration": looping(loop(step(), [("a", "a2")], ["s"]), HALF, trips=1, a_first=numbers(4)),
    "loop: long": looping(loop(step(), [("a", "a2")], ["s"]), HALF, trips=9000, a_first=numbers(4)),
    "loop: a state is a result": looping(loop(step(), [("a", "a2")], ["a2", "s"]), HALF, a_first=numbers(4)),
    "loop: old op set": looping(loop(step(), [("a", "a2")], ["s"]), HALF, opset=10, a_first=numbers(4)),
    "loop: no multiple of 16 bytes": looping(loop(step(), [("a", "a2")], ["s"]), HALF, a_first=numbers(3)),
    "loop: of a condition": by_condition(),
    "loop: rows": reads_rows(0),
    "loop: columns": reads_rows(1),
    "loop: swapped states": swaps(),
    "loop: a state grows": grows(),
    "loop: passes on": passes_on(6, trips=5),
    "loop: passes on once": passes_on(6, trips=1),
    "scan: passes on": passes_on(6),
    "scan: passes on reversed": passes_on(6, axis=1),
    "scan": scan(300),
    "scan: open": scan(7, known=False),
    "scan: reversed": scan(300, **SCANNED),
    "scan: open and reversed": scan(6, known=False, **SCANNED),
}


def compared(proto, arrays, executable):
    wanted = by_runtime(proto, arrays)
    assert wanted is not None
    found = executable(**arrays)
    for one, other in zip(found if isinstance(found, tuple) else [found], wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("proto", "arrays"), CASES.values(), ids=CASES)
def test_control_flow_agrees_with_onnx_runtime(proto, arrays):
    loaded = onegraph.onnx.load(proto)
    assert "OnnxNode" not in {op.kind for op in loaded.ops}
    executable = loaded.compile()
    compared(proto, arrays, executable)
    compared(proto, arrays, executable)  # memory of the first run is used again


IN_C = ["loop", "loop: of a condition", "loop: rows", "loop: passes on", "scan: passes on", "scan: passes on reversed"]


@pytest.mark.parametrize("name", IN_C)
def test_iterations_run_in_c(name, monkeypatch):
    proto, arrays = CASES[name]
    executable = onegraph.onnx.load(proto).compile()
    monkeypatch.setattr(CompiledBody, "run", lambda body, inputs: pytest.fail("an iteration ran in Python"))
    compared(proto, arrays, executable)


def after_contents():
    """A loop over rows whose number contents decide: its body takes the shapes that come."""
    one = loop([node("Mul", ["a", "h"], ["a2"])], [("a", "a2")], ["a2"])
    one.input[-1] = "rows"
    nodes = [node("Compress", ["x", "which"], ["rows"], axis=0), one]
    ends = [(name, FLOAT, None) for name in one.output]
    return model(nodes, [("x", FLOAT, [8, 4]), ("which", BOOL, [8]), ("M", INT, [])], ends, HALF)


def test_iterations_of_shapes_that_came_before_run_in_c(monkeypatch):
    proto, x = after_contents(), numbers(8, 4)
    executable, run, count = onegraph.onnx.load(proto).compile(), CompiledBody.run, []
    monkeypatch.setattr(CompiledBody, "run", lambda body, inputs: (count.append(1), run(body, inputs))[1])
    for size, calls in ((3, 7), (3, 0), (5, 7), (3, 0), (5, 0)):
        count.clear()
        compared(proto, {"x": x, "which": np.arange(8) < size, "M": np.array(7)}, executable)
        assert len(count) == calls


def test_a_state_that_grows_after_shapes_that_came_before():
    proto, arrays = grows()
    executable = onegraph.onnx.load(proto, shapes={"a_first": [None, 3]}).compile()
    for size in (2, 1, 2, 3):
        first = numbers(size, 3)
        found = executable(**{**arrays, "a_first": first})
        np.testing.assert_array_equal(found, np.concatenate([first, *[found[-1:]] * 5]))


@pytest.mark.parametrize("name", ["if: convolutions", "nested", "loop", "scan: reversed", "loop: a state grows"])
def test_open_dims_become_known_in_bodies(name):
    proto, arrays = CASES[name]
    shapes = {key: [None] * array.ndim for key, array in arrays.items() if array.dtype == np.float32}
    compared(proto, arrays, onegraph.onnx.load(proto, shapes=shapes).compile())


SAVED = ["if: convolutions", "if: shapes", "nested", "loop", "loop: of a condition", "scan", "scan: reversed"]


@pytest.mark.parametrize("name", SAVED)
def test_control_flow_is_written_and_read(name, tmp_path):
    proto, arrays = CASES[name]
    loaded = onegraph.onnx.load(proto)
    loaded.save(tmp_path / "g.json")
    compared(proto, arrays, og.Graph.load(tmp_path / "g.json").compile())
    onegraph.onnx.save(loaded, tmp_path / "g.onnx")
    feeds = {key: arrays[key] for key in loaded.inputs}
    again = by_runtime(onnx.load(tmp_path / "g.onnx"), feeds)
    for one, other in zip(by_runtime(proto, arrays), again, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    compared(proto, arrays, onegraph.onnx.load(tmp_path / "g.onnx").compile())


@pytest.mark.parametrize("name", ["if: ranks", "nested", "loop: a state grows", "scan", "loop: rows"])
def test_the_reference_runs_bodies_too(name):
    proto, arrays = CASES[name]
    loaded = onegraph.onnx.load(proto)
    compared(proto, arrays, lambda **given: tuple(og.reference.run(loaded, given).values()))


def test_a_scan_of_no_slices_is_empty():
    proto, arrays = scan(0, known=False)  # ONNX Runtime refuses it
    last, every = onegraph.onnx.load(proto).compile()(**arrays)
    np.testing.assert_array_equal(last, arrays["s0"])
    assert every.shape == (0, 4)


def test_a_wrong_index_in_a_body_names_both_nodes():
    proto, arrays = reads_rows(0)
    executable = onegraph.onnx.load(proto).compile()
    with pytest.raises(og.ArgumentError, match=r"Loop .*: Gather .*5"):
        executable(**{**arrays, "M": np.array(6)})
    compared(proto, arrays, executable)


def test_slices_of_other_numbers_are_refused():
    body = graph([node("Add", ["p", "q"], ["o"])], [("p", FLOAT, None), ("q", FLOAT, None)], [("o", FLOAT, None)])
    one = node("Scan", ["x", "z"], ["ys"], body=body, num_scan_inputs=2)
    proto = model([one], [("x", FLOAT, ["n", 2]), ("z", FLOAT, ["m", 2])], [("ys", FLOAT, None)])
    with pytest.raises(og.ArgumentError, match=r"Loop .*: the scanned tensors have \[3, 4\] slices"):
        onegraph.onnx.load(proto).compile()(x=numbers(3, 2), z=numbers(4, 2))


def test_a_body_that_changes_a_data_type_is_refused():
    one = loop([node("Cast", ["a"], ["a2"], to=TensorProto.DOUBLE)], [("a", "a2")])
    proto, _ = looping(one, a_first=numbers(3))
    with pytest.raises(og.FormatError, match=r"Loop.*state 0 begins as f32 and becomes float64"):
        onegraph.onnx.load(proto)


def test_a_node_in_a_body_that_nothing_runs_is_named():
    other = helper.make_node("Frob", ["a"], ["a2"], domain="far", name="frob")
    proto, _ = looping(loop([other], [("a", "a2")]), a_first=numbers(3))
    proto.opset_import.append(helper.make_opsetid("far", 1))
    with pytest.raises(og.FormatError, match=r"(?s)Loop.*graph 'body': node 'frob' \(Frob\)"):
        onegraph.onnx.load(proto)


@pytest.mark.parametrize("word", ["junk", "AAAA", ""])
def test_a_word_that_is_no_graph_is_one_error(word):
    g = og.Graph()
    attrs = {"then_body": word, "else_body": word, "shapes": [0]}
    g.output(
        "y", g.op("If", [g.input("c", "boolean", ()), g.input("x", "f32", ())], attrs, dtype="f32", edition="host")
    )
    with pytest.raises(og.ArgumentError, match="the body is no graph"):
        g.compile()(np.array(True), np.float32(1))


@pytest.mark.parametrize("attrs", [{"n_states": -1, "n_scanned": 1}, {"n_states": 2, "n_scanned": -1}])
def test_negative_numbers_of_states_are_refused(attrs):
    case = next(case for case in host_cases.cases() if case.kind == "Loop" and case.attrs["n_states"] == 1)
    with pytest.raises(og.SpecError, match=r"Loop: n_s[a-z]+: -1; expected 0 or more"):
        host_cases.graph_of(replace(case, attrs={**case.attrs, **attrs}))


@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        ({"n_states": 0}, "Loop .*: body: a graph with the inputs s0, c0; expected i, c0, c1$"),
        ({"shapes": [1, 3, 1, 3]}, "Loop .*: body: a graph with the outputs going, t0; expected going, t0, y0$"),
        ({"n_states": 1}, None),
    ],
)
def test_a_body_of_another_use_is_refused(attrs, said):
    case = next(case for case in host_cases.cases() if case.kind == "Loop" and case.attrs["n_states"] == 1)
    graph, arrays = host_cases.graph_of(replace(case, attrs={**case.attrs, **attrs}))
    for run in (lambda: graph.compile()(**arrays), lambda: reference.run(graph, arrays)):
        if said is None:
            run()
        else:
            with pytest.raises(og.ArgumentError, match=said):
                run()


def test_a_sequence_of_unknown_length_is_no_output():
    proto, _ = appends(axis=0)
    proto.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("all", FLOAT, None))
    del proto.graph.node[-1]
    with pytest.raises(og.FormatError, match="a sequence whose length a run alone knows; expected its tensors joined"):
        onegraph.onnx.load(proto)


def test_weights_of_a_body_stay_outside():
    weights = numbers(64, 64)
    proto, arrays = looping(
        loop([node("MatMul", ["a", "w"], ["a2"])], [("a", "a2")]), {"w": weights / 9}, a_first=numbers(1, 64)
    )
    loaded = onegraph.onnx.load(proto)
    (op,) = loaded.ops
    assert len(str(op.attrs["body"])) < weights.nbytes // 2
    assert [one.shape for one in op.inputs if one is not None and one.constant] == [(), (64, 64)]
    compared(proto, arrays, loaded.compile())


def test_repr_shortens_the_body_of_a_loop():
    proto, _ = looping(loop([node("Add", ["s", "s"], ["t"])], [("s", "t")]), s_first=numbers(3))
    loaded = onegraph.onnx.load(proto)
    (op,) = (op for op in loaded.ops if op.kind == "Loop")
    body = op.attrs["body"]
    for text in (repr(op), repr(loaded)):
        assert body[:20] in text
        assert body not in text
        assert len(text) < 3 * len(body) + 1000
