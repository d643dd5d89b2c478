"""Variables: tensors that an executable keeps from call to call."""

import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from helpers.command_line import onegraph

import onegraph as og
from onegraph import reference, view
from onegraph.tools.python_code import to_python
from onegraph.transform.translate_graph import translate_graph

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
RATE = np.float32(0.1)


def training_step():
    """A linear layer: the mean of its squared results falls step by step."""
    g = og.Graph()
    x, rate = g.input("x", og.f32, (4, 3)), g.input("rate", og.f32, ())
    w, b = g.variable("w", np.ones((3, 5), np.float32)), g.variable("b", np.zeros(5, np.float32))
    loss = g.output("loss", g.reduce_mean(g.square(g.matmul(x, w, b)), axes=[0, 1]))
    d_w, d_b = g.gradient(loss, ["w", "b"])
    g.assign(w, w - rate * d_w)
    g.assign(b, b - rate * d_b)
    return g


class Expected:
    """The same steps in numpy, in float64."""

    def __init__(self):
        self.w, self.b = np.ones((3, 5)), np.zeros(5)

    def step(self):
        y = X @ self.w + self.b
        self.w, self.b = self.w - RATE * X.T @ (y / 10), self.b - RATE * (y / 10).sum(0)
        return (y**2).mean()

    def check(self, variables):
        np.testing.assert_allclose(variables["w"], self.w, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(variables["b"], self.b, rtol=1e-5, atol=1e-6)


def counter():
    """A graph that counts its calls."""
    g = og.Graph()
    g.output("before", g.op("Add", [count := g.variable("count", np.zeros(3, np.float32)), g.constant(ONES)]))
    g.assign(count, g.ops[-1].outputs[0])
    return g


ONES = np.ones(3, np.float32)


# Calls ----------------------------------------------------------------------------------------------------------------


@pytest.mark.library
def test_calls_train_as_numpy_does():
    model, expected = training_step().compile(), Expected()
    assert [spec.name for spec in model.inputs] == ["x", "rate"]
    assert [spec.name for spec in model.outputs] == ["loss"]
    for _ in range(20):
        assert model(X, RATE) == pytest.approx(expected.step(), rel=1e-5)
    expected.check(model.variables)
    assert model(x=X, rate=RATE) == pytest.approx(expected.step(), rel=1e-5)


@pytest.mark.library
@pytest.mark.parametrize("options", [{}, {"policy": "debug"}, {"threads": 1}], ids=str)
def test_bound_runs_and_calls_share_the_variables(options):
    model, expected = training_step().compile(**options), Expected()
    bound = model.bind(x=X, rate=np.array(RATE))
    for _ in range(3):
        assert bound.run() == pytest.approx(expected.step(), rel=1e-5)
        assert model(X, RATE) == pytest.approx(expected.step(), rel=1e-5)
        assert bound() == pytest.approx(expected.step(), rel=1e-5)
    expected.check(model.variables)


@pytest.mark.library
def test_two_executables_of_a_graph_have_variables_of_their_own():
    g = counter()
    one, two = g.compile(), g.compile()
    assert one().tolist() == [1, 1, 1]
    assert one().tolist() == [2, 2, 2]
    assert two().tolist() == [1, 1, 1]


@pytest.mark.library
def test_variables_exchange_their_values():
    g = og.Graph()
    a, b = g.variable("a", np.array([1, 2], np.float32)), g.variable("b", np.array([3, 4], np.float32))
    g.assign(a, b)
    g.assign(b, a)
    model = g.compile()
    assert model() == ()
    assert model.variables["a"].tolist() == [3, 4]
    assert model.variables["b"].tolist() == [1, 2]


@pytest.mark.library
def test_a_variable_becomes_an_input_or_a_constant():
    g = og.Graph()
    x = g.input("x", og.f32, (2,))
    a, b = g.variable("a", np.zeros(2, np.float32)), g.variable("b", np.zeros(2, np.float32))
    g.assign(a, x)
    g.assign(b, g.constant(np.array([5, 6], np.float32)))
    g.output("sum", g.add(a, b))
    model = g.compile()
    assert model(np.array([1, 2], np.float32)).tolist() == [0, 0]
    assert model(np.array([7, 8], np.float32)).tolist() == [6, 8]


@pytest.mark.library
def test_a_variable_that_is_not_assigned_is_set_between_calls():
    g = og.Graph()
    w = g.variable("w", np.array([2, 3], np.float32))
    g.output("y", g.multiply(g.input("x", og.f32, (2,)), w))
    model = g.compile()
    x = np.array([1, 10], np.float32)
    bound = model.bind(x)
    assert model(x).tolist() == bound.run().tolist() == [2, 30]
    model.variables["w"] = np.array([4, 5], np.float32)
    assert model(x).tolist() == bound.run().tolist() == [4, 50]


@pytest.mark.library
def test_an_output_may_be_a_variable_or_its_next_value():
    g = og.Graph()
    w = g.variable("w", np.array([1.0], np.float32))
    doubled = g.add(w, w)
    g.output("old", w)
    g.output("new", doubled)
    g.assign(w, doubled)
    model = g.compile()
    assert [(found.old[0], found.new[0]) for found in (model() for _ in range(3))] == [(1, 2), (2, 4), (4, 8)]
    bound = model.bind()
    assert [(found.old[0], found.new[0]) for found in (bound.run() for _ in range(2))] == [(8, 16), (16, 32)]


@pytest.mark.library
def test_shapes_of_inputs_share_the_variables():
    g = og.Graph()
    x, w = g.input("x", og.f32, (None, 2)), g.variable("w", np.zeros(2, np.float32))
    total = g.add(w, g.reduce_sum(x, axes=[0]))
    g.assign(w, total)
    g.output("total", total)
    model = g.compile()
    for rows, expected in ((1, 1), (3, 4), (1, 5), (2, 7)):
        assert model(np.ones((rows, 2), np.float32)).tolist() == [expected, expected]
    assert model.cache_info().size == 3


@pytest.mark.library
@pytest.mark.parametrize("dtype", [og.f32, og.bf16, og.f16, og.s32, og.u8, og.boolean], ids=str)
def test_variables_of_every_type_keep_their_bits(dtype, tmp_path):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.numpy)
    g = og.Graph()
    w = g.variable("w", array)
    g.assign(
        w,
        g.op(
            "Transpose", [g.op("Transpose", [w], {"order": [1, 0]}, edition="host")], {"order": [1, 0]}, edition="host"
        ),
    )
    model = g.compile()
    model()
    for name in ("w.npz", "w.safetensors"):
        if name.endswith("s"):
            pytest.importorskip("safetensors")
        model.save_variables(tmp_path / name)
        other = g.compile()
        other.variables["w"] = np.zeros_like(array)
        other.load_variables(tmp_path / name)
        assert other.variables["w"].dtype == dtype.numpy
        assert other.variables["w"].tobytes() == array.tobytes()


@pytest.mark.library
def test_profile_and_report_leave_the_variables_alone():
    model, expected = training_step().compile(), Expected()
    model(X, RATE)
    expected.step()
    model.profile(X, RATE, runs=2)
    assert "MatMul 'matmul_0'" in str(model.report())
    expected.check(model.variables)


@pytest.mark.library
def test_a_pickle_has_the_present_values():
    model, expected = training_step().compile(), Expected()
    model(X, RATE)
    expected.step()
    other = pickle.loads(pickle.dumps(model))
    expected.check(other.variables)
    assert other(X, RATE) == pytest.approx(expected.step(), rel=1e-5)
    assert model(X, RATE) == other_loss(model)


def other_loss(model):
    """The loss that the model has just computed, from the values before its step."""
    expected = Expected()
    expected.step()
    return pytest.approx(expected.step(), rel=1e-5)


# The mapping ----------------------------------------------------------------------------------------------------------


@pytest.mark.library
def test_variables_are_a_mapping_of_read_only_copies():
    model = training_step().compile()
    variables = model.variables
    assert list(variables) == ["w", "b"]
    assert len(variables) == 2
    assert "w" in variables
    with pytest.raises(ValueError, match="read-only"):
        variables["w"][...] = 7
    assert variables["w"].tolist() == np.ones((3, 5)).tolist()
    variables.update({"w": np.full((3, 5), 2, np.float32)}, b=np.full(5, 3, np.float32))
    assert (variables["w"] == 2).all()
    assert (variables["b"] == 3).all()
    assert repr(variables) == "Variables(w: f32 [3, 5], b: f32 [5])"
    assert not og.Graph().variables


@pytest.mark.library
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda v: v.update(w=np.ones((3, 5))),
            r"variable 'w': float64 \[3, 5\]; expected a numpy array, f32 \[3, 5\]",
        ),
        (
            lambda v: v.update(w=np.ones((5, 3), np.float32)),
            r"variable 'w': float32 \[5, 3\]; expected a numpy array, f32 ",
        ),
        (lambda v: v.update(w=3), r"variable 'w': 3; expected a numpy array, f32 \[3, 5\]"),
        (lambda v: v.update(b=np.ones(5, np.float32), c=ONES), r"variables: 'c'; expected a name of w, b"),
    ],
)
def test_an_array_that_does_not_fit_changes_nothing(change, message):
    model = training_step().compile()
    with pytest.raises(og.ArgumentError, match=message):
        change(model.variables)
    assert model.variables["b"].tolist() == [0] * 5
    assert (model.variables["w"] == 1).all()
    with pytest.raises(KeyError, match="the variables are w, b"):
        model.variables["c"]
    with pytest.raises(TypeError, match="cannot be deleted"):
        del model.variables["w"]


# Failure --------------------------------------------------------------------------------------------------------------


def failing_step():
    """A step that fails for an index beyond 1, and ends in numpy; a is assigned before that."""
    g = og.Graph()
    a, b = g.variable("a", np.zeros(2, np.float32)), g.variable("b", np.zeros(2, np.float32))
    one = g.constant(np.ones(2, np.float32))
    g.assign(a, g.add(a, one))
    index = g.input("index", og.s32, (2,))
    gathered = g.op("Gather", [g.add(b, one), index], edition="host")
    g.assign(b, g.op("Pow", [gathered, g.constant(np.ones(2, np.float32))], edition="host"))  # in numpy
    return g


@pytest.mark.library
def test_a_failed_call_leaves_every_variable():
    model = failing_step().compile()
    good, bad = np.array([1, 0], np.int32), np.array([0, 9], np.int32)
    model(good)
    bound = model.bind(bad)
    for run in (lambda: model(bad), bound.run):
        with pytest.raises(og.ArgumentError, match="Gather"):
            run()
        assert model.variables["a"].tolist() == model.variables["b"].tolist() == [1, 1]
    model(good)
    assert model.variables["a"].tolist() == model.variables["b"].tolist() == [2, 2]


@pytest.mark.library
def test_an_interrupted_call_leaves_every_variable(monkeypatch):
    from onegraph.runtime.frame import Frame

    model = failing_step().compile()
    run_numpy = Frame.run_numpy

    def interrupted(frame, step):
        run_numpy(frame, step)
        raise KeyboardInterrupt

    monkeypatch.setattr(Frame, "run_numpy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model(np.array([1, 0], np.int32))
    monkeypatch.undo()
    assert model.variables["a"].tolist() == model.variables["b"].tolist() == [0, 0]
    model(np.array([1, 0], np.int32))
    assert model.variables["b"].tolist() == [1, 1]


@pytest.mark.library
def test_an_interrupted_update_leaves_every_variable(monkeypatch):
    from onegraph.runtime import state

    model = training_step().compile()
    copied, count = state.aligned_copy, iter(range(9))

    def interrupted(array, **where):
        if next(count):
            raise KeyboardInterrupt
        return copied(array, **where)

    monkeypatch.setattr(state, "aligned_copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.variables.update(w=np.zeros((3, 5), np.float32), b=np.ones(5, np.float32))
    assert (model.variables["w"] == 1).all()
    assert (model.variables["b"] == 0).all()


@pytest.mark.library
def test_threads_take_turns():
    model = counter().compile()
    bound = model.bind()
    threads = [threading.Thread(target=lambda run=run: [run() for _ in range(200)]) for run in (model, bound.run) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.variables["count"].tolist() == [800, 800, 800]


@pytest.mark.library
def test_a_call_inside_a_call_of_the_same_thread_is_refused(monkeypatch):
    from onegraph.runtime.frame import Frame

    model = failing_step().compile()
    run_numpy = Frame.run_numpy
    found = []

    def handler(frame, step):
        for inner in (lambda: model(np.array([1, 0], np.int32)), lambda: model.variables["a"]):
            with pytest.raises(og.StateError, match="this thread is in the midst of a call") as error:
                inner()
            found.append(error)
        run_numpy(frame, step)

    monkeypatch.setattr(Frame, "run_numpy", handler)
    model(np.array([1, 0], np.int32))
    assert len(found) == 2
    assert model.variables["b"].tolist() == [1, 1]


@pytest.mark.library
def test_a_process_killed_while_saving_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.npz"
    code = f"""
        import numpy as np, onegraph as og
        g = og.Graph()
        w = g.variable("w", np.zeros(1 << 20, np.float32))
        g.assign(w, g.add(w, g.constant(np.ones(1, np.float32))))
        model = g.compile()
        model.save_variables({str(path)!r})
        print("saved", flush=True)
        while True:
            model()
            model.save_variables({str(path)!r})
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"saved\n"
        for _ in range(20):
            values = np.load(path)["w"]
            assert (values == values[0]).all()
        child.send_signal(signal.SIGKILL)
    values = np.load(path)["w"]
    assert (values == values[0]).all()


@pytest.mark.library
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"w": np.ones((3, 5), np.float32)}, "b: missing; expected an array for each variable of the graph"),
        ({"w": np.ones((3, 5), np.float32), "b": ONES}, r"b: shape \[3\]; expected \[5\]"),
        ({"w": np.ones((3, 5), np.float32), "b": np.ones(5, np.float32), "c": ONES}, "c: unknown variable"),
        ({"w": np.ones((3, 5), np.float64), "b": np.ones(5, np.float32)}, "w: data type float64; expected f32"),
    ],
    ids=["missing", "shape", "unknown", "type"],
)
def test_a_file_that_does_not_fit_changes_nothing(arrays, message, tmp_path):
    model = training_step().compile()
    model.variables["w"] = np.zeros((3, 5), np.float32)
    np.savez(tmp_path / "state.npz", **arrays)
    with pytest.raises(og.FormatError, match=message):
        model.load_variables(tmp_path / "state.npz")
    assert (model.variables["w"] == 0).all()
    with pytest.raises(og.FormatError, match="No such file"):
        model.load_variables(tmp_path / "none.npz")
    with pytest.raises(og.ArgumentError, match="path: 3; expected the path of a file"):
        model.save_variables(3)


# The graph ------------------------------------------------------------------------------------------------------------


def test_a_graph_lists_variables_apart_from_inputs():
    g = training_step()
    assert list(g.inputs) == ["x", "rate"]
    assert list(g.outputs) == ["loss"]
    assert list(g.variables) == ["w", "b"]
    assert list(g.assignments) == ["w", "b"]
    assert re.findall(r"^  \S+: .* (?:variable|assigned)$", repr(g), re.MULTILINE) == [
        "  w: f32 [3, 5] variable",
        "  b: f32 [5] variable",
        f"  w: {g.assignments['w'].name} assigned",
        f"  b: {g.assignments['b'].name} assigned",
    ]
    assert og.check_graph(g) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda g, w, y: g.variable("x", ONES), "name 'x' is taken"),
        (lambda g, w, y: g.input("w", og.f32, (3,)), "name 'w' is taken"),
        (lambda g, w, y: g.variable("u", np.ones(3)), "variable 'u': "),
        (lambda g, w, y: g.variable("u", "ones"), "variable 'u': "),
        (lambda g, w, y: g.assign(g.inputs["x"], y), "assign: 'x' is not a variable; the variables are w, v"),
        (lambda g, w, y: g.assign("w", y), "assign: variable: 'w'; expected a tensor of this graph"),
        (lambda g, w, y: g.assign(w, ONES), "assign: tensor: an array; expected a tensor of this graph"),
        (lambda g, w, y: g.assign(w, og.Graph().input("y", og.f32, (3,))), "of another graph"),
        (
            lambda g, w, y: g.assign(w, g.reduce_sum(y, axes=[0])),
            r"is f32 \[\]; expected f32 \[3\], as variable 'w' is",
        ),
        (lambda g, w, y: g.assign(w, g.type_cast(y, dtype=og.bf16)), r"is bf16 \[3\]; expected f32 \[3\]"),
        (lambda g, w, y: g.assign(g.variables["v"], y), "assign: variable 'v' is assigned twice"),
    ],
)
def test_a_wrong_variable_or_assignment_is_one_error(wrong, message):
    g = og.Graph()
    x, w, v = g.input("x", og.f32, (3,)), g.variable("w", ONES), g.variable("v", ONES)
    y = g.add(x, w)
    g.assign(v, y)
    before = list(g.variables), list(g.assignments), list(g.outputs)
    with pytest.raises(og.ArgumentError, match=message):
        wrong(g, w, y)
    assert (list(g.variables), list(g.assignments), list(g.outputs)) == before


def test_the_array_of_a_variable_is_copied():
    array = np.ones(3, np.float32)
    g = og.Graph()
    g.output("y", g.add(g.variable("w", array), g.constant(ONES)))
    array[...] = 5
    assert reference.run(g, {})["y"].tolist() == [2, 2, 2]


@pytest.mark.library
@pytest.mark.parametrize("way", ["copy", "pickle", "file", "specialise", "translate", "python"])
def test_a_graph_made_from_another_keeps_its_variables(way, tmp_path):
    g = training_step()
    if way == "copy":
        other = g.copy()
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(g))
    elif way == "file":
        g.save(tmp_path / "g.json")
        other = og.Graph.load(tmp_path / "g.json")
    elif way == "specialise":
        other = g.specialise({"x": (4, 3)})
    elif way == "translate":
        other = translate_graph(g, "onednn-3.12")
    else:
        text, arrays = to_python(g, "arrays.npz")
        np.savez(tmp_path / "arrays.npz", **arrays)
        names = {"__file__": str(tmp_path / "g.py")}
        exec(text, names)
        other = names["g"]
    assert list(other.inputs) == ["x", "rate"]
    assert list(other.outputs) == ["loss"]
    assert list(other.assignments) == ["w", "b"]
    model, expected = other.compile(), Expected()
    for _ in range(3):
        assert model(X, RATE) == pytest.approx(expected.step(), rel=1e-5)
    expected.check(model.variables)


def test_a_text_without_contents_makes_inputs_of_variables():
    other = og.Graph.from_json(training_step().to_json())
    assert list(other.inputs)[:4] == ["x", "rate", "w", "b"]
    assert list(other.outputs) == ["loss", "w (next)", "b (next)"]


def test_reference_runs_with_the_first_contents():
    found = reference.run(training_step(), {"x": X, "rate": np.array(RATE)})
    assert list(found) == ["loss"]
    assert found["loss"] == pytest.approx(Expected().step(), rel=1e-5)


def test_a_page_shows_variables_and_their_next_values():
    page = view.page(training_step())
    assert "w (next)" in page
    assert '"w"' in page
    assert "b (next)" in training_step().to_dot()


@pytest.mark.library
@pytest.mark.parametrize("command", ["bench", "show", "run", "verify"])
def test_commands_take_graphs_with_variables(command, tmp_path):
    training_step().save(tmp_path / "g.json")
    found = onegraph(command, tmp_path / "g.json")
    assert found.returncode == 0, found.stderr
    assert found.stdout


def test_a_variable_of_one_repeated_number_takes_no_memory():
    g = og.Graph()
    w = g.variable("w", np.broadcast_to(np.float32(3), (1000, 1000)))
    assert w.shape == (1000, 1000)
    assert g._initial["w"].base.nbytes < 1000
    g.output("y", g.reduce_sum(w, axes=[0, 1]))
    assert reference.run(g, {})["y"] == 3e6


@pytest.mark.library
def test_an_executable_does_not_keep_first_contents_beside_the_values():
    executable = training_step().compile()
    assert all(array.base.nbytes <= 64 for array in executable._interface.graph._initial.values())
    assert (executable.variables["w"] == 1).all()


@pytest.mark.library
def test_report_lists_variables():
    g = training_step()
    g.variable("kept", np.zeros(7, np.float32))
    report = g.compile().report()
    assert "3 variables, 108 bytes; a call assigns 2" in str(report)
    assert report.to_dict()["variables"] == [
        {"name": "w", "dtype": "f32", "shape": (3, 5), "assigned": True},
        {"name": "b", "dtype": "f32", "shape": (5,), "assigned": True},
        {"name": "kept", "dtype": "f32", "shape": (7,), "assigned": False},
    ]


@pytest.mark.library
@pytest.mark.parametrize("name", ["state.npz", "state.safetensors"])
def test_a_part_of_a_checkpoint_is_loaded(name, tmp_path):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors", reason="safetensors is not installed")
    trained, small, other = og.Graph(), og.Graph(), og.Graph()
    for graph, names in ((trained, "w m"), (small, "w b"), (other, "c")):
        for one in names.split():
            graph.output(f"{one}_now", graph.relu(graph.variable(one, np.zeros(3, np.float32))))
    step, model = trained.compile(), small.compile()
    step.variables["w"] = np.float32([1, 2, 3])
    step.save_variables(tmp_path / name)
    with pytest.raises(
        og.FormatError, match="unknown variable; expected one of w, b; strict=False leaves other arrays"
    ):
        model.load_variables(tmp_path / name)
    model.variables["b"] = np.float32([4, 5, 6])
    model.load_variables(tmp_path / name, strict=False)
    assert model.variables["w"].tolist() == [1, 2, 3]
    assert model.variables["b"].tolist() == [4, 5, 6]
    with pytest.raises(og.FormatError, match="no variable of the graph; expected one of c at least"):
        other.compile().load_variables(tmp_path / name, strict=False)
    with pytest.raises(og.FormatError, match="no variable of the graph; expected a graph that has variables"):
        trained.for_inference(step.variables).compile().load_variables(tmp_path / name, strict=False)


@pytest.mark.library
def test_python_numbers_are_inputs_of_rank_0():
    g = og.Graph()
    x, rate = g.input("x", og.f32, (2,)), g.input("rate", og.f32, ())
    g.output("y", x * rate)
    model, x = g.compile(), np.float32([1, 2])
    for number in (0.1, 3, np.float32(0.1), np.float64(0.1)):
        wanted = x * np.float32(number)
        assert model(x, number).tolist() == wanted.tolist()
        assert model(x=x, rate=number).tolist() == wanted.tolist()
    for number in (1e300, "0.1", True, np.array(0.1)):
        with pytest.raises(og.ArgumentError, match="input 'rate'"):
            model(x, number)
    with pytest.raises(og.ArgumentError, match="input 'x'"):
        model(1.0, 0.1)


@pytest.mark.library
def test_numbers_of_integer_inputs_are_whole():
    g = og.Graph()
    g.output("y", g.op("Add", [g.input("a", og.s32, ()), g.input("b", og.s32, ())], edition="host"))
    model = g.compile()
    assert model(2, 3) == 5
    with pytest.raises(og.ArgumentError, match=r"input 'a': 2\.5; expected integers within its range"):
        model(2.5, 3)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "No such file.*expected a file that can be read"),
        (b"", "expected a file of safetensors"),
        (b"\xff" * 64, "expected a file of safetensors"),
        ({"w": np.zeros((3, 5), np.float32)}, "b: missing; expected an array for each variable"),
        ({"w": np.zeros((3, 5), np.float32), "b": np.zeros(5, np.float32), "c": np.zeros(5, np.float32)}, "unknown"),
        ({"w": np.zeros((5, 3), np.float32), "b": np.zeros(5, np.float32)}, r"w: F32 \[5, 3\]; expected F32 \[3, 5\]"),
        ({"w": np.zeros((3, 5), np.float64), "b": np.zeros(5, np.float32)}, r"w: F64 \[3, 5\]; expected F32"),
    ],
    ids=["missing", "empty", "garbage", "incomplete", "too much", "shape", "dtype"],
)
@pytest.mark.library
def test_a_wrong_file_of_safetensors_is_refused(contents, message, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    path = tmp_path / "state.safetensors"
    if isinstance(contents, dict):
        safetensors.save_file(contents, path)
    elif contents is not None:
        path.write_bytes(contents)
    g = og.Graph()
    w, b = g.variable("w", np.ones((3, 5), np.float32)), g.variable("b", np.ones(5, np.float32))
    g.output("y", w + b)
    model = g.compile()
    with pytest.raises(og.FormatError, match=message):
        model.load_variables(path)
    assert model.variables["w"].tolist() == np.ones((3, 5)).tolist()
