"""Small parts of the tools on arguments that are written by hand: what is tried, what fits, what is said."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

import onegraph as og
from onegraph._util.worker_process import Outcome
from onegraph.opset.dtypes import DataType
from onegraph.tools import reduce
from onegraph.tools.conformance import runner
from onegraph.tools.conformance.drawn import libraries, trials
from onegraph.tools.conformance.uses import ProbedUse
from onegraph.tools.folded_norms import folded_norms
from onegraph.transform.rebuild import Change

F32 = np.float32

# What reduction tries ------------------------------------------------------------------------------------------------


def told(changes):
    """The shapes, attributes and contents of changes."""
    return [(one.shapes, one.attrs, {key: value.tolist() for key, value in one.values.items()}) for one in changes]


def op_with(*inputs, **attrs):
    return SimpleNamespace(attrs=attrs, inputs=inputs)


@pytest.mark.parametrize(("dims", "axis", "less", "found"), [
    ((4, 5), 1, 2, (4, 3)), ((4, 5), -1, 9, (4, 1)), ((4, 5), 2, 1, (4, 5)), ((4, 5), -2, 1, (3, 5)),
    ((4, 5), -3, 1, (4, 5)), ((), 0, 1, ()), ((3,), 0, 1, (2,)), ((3, 4, 5), 1, 1, (3, 3, 5)),
])  # fmt: skip
def test_dims_get_less_along_an_axis(dims, axis, less, found):
    assert reduce._less(dims, axis, less) == found


@pytest.mark.parametrize(("shape", "known"), [(None, ()), ((None, 2), ()), ((3, 2), (3, 2)), ((), ())])
def test_known_dims(shape, known):
    assert reduce._known(shape) == known


def test_dims_of_one_size_shrink_together():
    graph = SimpleNamespace(ops=[op_with(shape=(8, 3), groups=8, sizes=8, others=(8,)), op_with(groups=3)])
    found = told(reduce._dims_of_one_size(graph, {0: (8, 3), 1: (8,), 2: (1,)}, {5: np.array([8, 3])}))
    wanted = []
    for old, new in [(8, 1), (8, 2), (8, 4), (8, 7), (3, 1), (3, 2)]:
        first, second = (new if old == 8 else 8), (new if old == 3 else 3)
        shapes = {0: (first, second), 1: (first,), 2: (1,)}
        attrs = {"shape": (first, second), "groups": 8, "sizes": 8, "others": (8,)}
        others = {"groups": 3}
        if new == 1:
            del (attrs if old == 8 else others)["groups"]
        wanted += [(shapes, {}, {}), (shapes, {0: attrs, 1: others}, {5: [first, second]})]
    assert found == wanted


def test_dims_of_one_axis_shrink_together():
    graph = SimpleNamespace(ops=[op_with(shape=(6, 4), sizes=6, others=(6,))])
    found = told(reduce._dims_of_one_axis(graph, {0: (6, 4), 1: (3,)}, {5: np.array([6, 2])}))
    steps = [
        (0, 5),
        (0, 3),
        (0, 2),
        (0, 1),
        (1, 3),
        (1, 2),
        (1, 1),
        (-2, 5),
        (-2, 3),
        (-2, 1),
        (-1, 3),
        (-1, 2),
        (-1, 1),
    ]
    assert len(found) == 2 * len(steps)
    for (axis, less), plain, along in zip(steps, found[::2], found[1::2], strict=True):
        place = axis % 2
        shapes = {0: tuple(max(dim - less, 1) if at == place else dim for at, dim in enumerate((6, 4)))}
        if axis in (0, -1):
            shapes[1] = (max(3 - less, 1),)
        vector = [max(dim - less, 1) if at == place else dim for at, dim in enumerate((6, 2))]
        assert plain == (shapes, {}, {})
        assert along == (shapes, {0: {"shape": shapes[0], "sizes": 6, "others": (6,)}}, {5: vector})


def test_single_dims_shrink_alone_and_in_pairs():
    found = told(reduce._single_dims(SimpleNamespace(ops=[]), {0: (2, 3)}, {5: np.array([2])}))
    assert [(shapes, values) for shapes, _, values in found] == [
        ({0: (1, 3)}, {}), ({0: (1, 3)}, {5: [1]}), ({0: (2, 1)}, {}), ({0: (2, 1)}, {5: [2]}),
        ({0: (2, 2)}, {}), ({0: (2, 2)}, {5: [2]}), ({}, {5: [1]}), ({0: (1, 3)}, {5: [1]}),
    ]  # fmt: skip
    pairs = told(reduce._single_dims(SimpleNamespace(ops=[]), {0: (5,), 1: (5, 1), 2: (4, 4)}, {}))[-1:]
    assert pairs == [({0: (1,), 1: (1, 1)}, {}, {})]


def test_attributes_leave_and_get_simple_numbers():
    ends = [SimpleNamespace(id=3, shape=(4, 3)), SimpleNamespace(id=4, shape=None)]
    given = {"groups": 2, "axis": 1, "flag": True, "pads": (2, 0), "word": "x", "rate": 2.5, "none": ()}
    found = told(reduce._attributes(SimpleNamespace(ops=[op_with(), op_with(*ends, **given)])))

    def without(name):
        return {1: {key: value for key, value in given.items() if key != name}}

    def having(**other):
        return {1: {**given, **other}}

    assert [(shapes, attrs) for shapes, attrs, _ in found] == [
        ({}, without("groups")), ({3: (2, 3)}, without("groups")), ({}, having(groups=0)), ({}, having(groups=1)),
        ({}, without("axis")), ({}, having(axis=0)), ({}, without("flag")), ({}, without("pads")),
        *(({}, having(pads=pads)) for pads in ((0, 0), (1, 1), (0, 0), (1, 0), (2, 1))),
        ({}, without("word")), ({}, without("rate")), ({}, without("none")),
        ({}, having(none=())), ({}, having(none=())),
    ]  # fmt: skip


def test_only_some_tensors_have_dims_that_shrink():
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 3))
    y = graph.input("y", "f32", (None, 3))
    shape = graph.constant(np.array([3, 2], np.int32))
    table = graph.constant(np.ones((3, 2), F32))
    graph.output(
        "z", graph.add(graph.op("DynamicReshape", [x, shape], {"special_zero": False}, edition="legacy-1"), table)
    )
    graph.output("w", graph.relu(y))
    changes = told(reduce._dims(graph))
    assert {number for shapes, _, _ in changes for number in shapes} == {x.id, table.id}
    assert {number for _, _, values in changes for number in values} == {shape.id}
    assert reduce._count_unknown_shapes(graph) == 2


def test_types_constants_and_outputs_are_tried():
    types = (DataType.f32, DataType.bf16, DataType.f16, DataType.s8)
    made = [[one.dtype(dtype) for dtype in types] for one in reduce._types(None)]
    f32, bf16, f16, s8 = types
    assert made == [[f32, f32, f32, s8], [f32, f32, f16, s8], [f32, bf16, f32, s8]]
    tensors = [SimpleNamespace(id=number, constant=number > 1) for number in range(4)]
    freed = [one.freed for one in reduce._constants_as_inputs(SimpleNamespace(_tensors=tensors))]
    assert freed == [[2, 3], [2], [3]]
    outputs = [one.outputs for one in reduce._outputs(SimpleNamespace(outputs={"a": 1, "b": 2, "c": 3}))]
    assert outputs == [["b", "c"], ["a", "c"], ["a", "b"]]
    assert [*reduce._names(None)] == [Change(plain=True)]


def test_the_size_of_a_graph_has_the_most_important_first():
    graph = og.Graph()
    x = graph.input("in_0", "bf16", (2, None))
    y = graph.input("y", "bf16", None)
    graph.output("z", graph.add(graph.softmax(x, axis=-1, name="softmax_0"), y, name="own", auto_broadcast="numpy"))
    first = graph.op("Clamp", [x], {"min": -0.5, "max": 1.0}, name="clamp_2")
    graph.output("w", first)
    unknown = sum(int(np.prod([2 if dim is None else dim for dim in one.shape or ()])) for one in graph._tensors)
    assert reduce.size(graph)[1] == unknown
    assert reduce.size(graph)[:1] + reduce.size(graph)[2:] == (3, 4, 40, 2, 0, 5, 1, 1)
    infinite = og.Graph()
    infinite.output("y", infinite.op("Clamp", [infinite.input("in_0", "f32", (2,))], {"min": 0.0, "max": np.inf}))
    assert reduce.size(infinite)[3] == 2**62


def test_graphs_that_are_no_smaller_are_not_tried():
    graph, tried = og.Graph(), []
    graph.output("y", graph.relu(graph.input("in_0", "f32", (1,))))
    assert reduce.reduce(graph, lambda one: tried.append(one) or True) is graph
    assert tried == [graph]


# Norms in weights ----------------------------------------------------------------------------------------------------


def norm_behind_convolution(formats=("NXC", "NXC"), weights_format="XIO", bias=True, read=0, known=True, dtype="f32"):
    """A norm behind a convolution, and what else reads the convolution."""
    graph = og.Graph()
    x = graph.input("x", dtype, (1, 2, 2, 2))
    weights = np.arange(4, dtype=F32).reshape((1, 1, 2, 2) if weights_format == "XIO" else (2, 2, 1, 1))
    weights = weights.astype(x.dtype.numpy)
    ends = [weights, *([np.array([1, 2], x.dtype.numpy)] if bias else [])]
    if not known:
        ends[0] = graph.input("w", dtype, weights.shape)
    y = graph.convolution(x, *ends, data_format=formats[0], weights_format=weights_format, name="c")
    numbers = [np.array(one, F32) for one in ([2, 4], [1, 0], [3, 1], [3, 15])]
    graph.output("y", graph.batch_norm_inference(y, *numbers, epsilon=1.0, data_format=formats[1], name="n"))
    if read == 1:
        graph.output("z", graph.relu(y))
    if read == 2:
        graph.output("z", y)
    return graph


@pytest.mark.parametrize("given", [
    {"formats": ("NCX", "NXC")}, {"formats": ("NXC", "NCX")}, {"read": 1}, {"read": 2}, {"known": False},
    {"dtype": "bf16"},
])  # fmt: skip
def test_norms_stay_where_more_depends_on_the_convolution(given):
    made = folded_norms(norm_behind_convolution(**given))
    assert [op.kind for op in made.ops][:2] == ["Convolution", "BatchNormInference"]


@pytest.mark.parametrize("weights_format", ["XIO", "OIX"])
@pytest.mark.parametrize("bias", [True, False])
def test_norms_are_in_the_weights(weights_format, bias):
    """The factors are gamma / sqrt(variance + epsilon): 1 for both channels."""
    graph = norm_behind_convolution(("NCX", "NCX"), weights_format, bias)
    (op,) = folded_norms(graph).ops
    assert op.kind == "Convolution"
    factor = np.array([2 / 2, 4 / 4])
    before = np.array([1, 2]) if bias else np.zeros(2)
    weights = np.arange(4).reshape(2, 2)
    scaled = weights * factor if weights_format == "XIO" else weights * factor[:, None]
    assert op.inputs[1].value.ravel().tolist() == scaled.ravel().tolist()
    assert op.inputs[2].value.tolist() == ((before - [3, 1]) * factor + [1, 0]).tolist()


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["quantize", "reduce"])
def test_other_values_than_graphs_are_named(function):
    from onegraph.tools.quantize import quantize

    call = {"quantize": lambda graph: quantize(graph, []), "reduce": lambda graph: reduce.reduce(graph, bool)}[function]
    with pytest.raises(og.ArgumentError, match="graph: 5; expected a"):
        call(5)


# ONNX Runtime, by a stand-in -----------------------------------------------------------------------------------------


class Session:
    """Stands for a session; some cannot be made without rewrites."""

    def __init__(self, path, *options, providers):
        self.path = path
        self.made.append((path, [vars(one).copy() for one in options], providers))
        if options[0].graph_optimization_level == "none" and path == "rewritten":
            raise ValueError("no kernel")

    def run(self, names, inputs):
        if self.path == "fails":
            raise ValueError(" first\nsecond")
        if self.path == "long":
            raise ValueError("x" * 400)
        assert names is None
        return [inputs["a"] * 2, 3]


class Options:
    """Stands for the options of a session."""

    def __init__(self):
        self.entries = {}

    def add_session_config_entry(self, name, value):
        self.entries[name] = value


def test_the_process_of_onnx_runtime_answers_each_task(monkeypatch, tmp_path, capsys):
    from onegraph.tools import onnx_runtime

    levels = []
    monkeypatch.setattr(Session, "made", [], raising=False)
    stand_in = SimpleNamespace(
        set_default_logger_severity=levels.append, SessionOptions=Options, InferenceSession=Session,
        GraphOptimizationLevel=SimpleNamespace(ORT_DISABLE_ALL="none", ORT_ENABLE_ALL="all"),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "onnxruntime", stand_in)
    np.savez(tmp_path / "given.npz", _a=np.array([1, 2]))
    models = ["plain", "plain", "rewritten", "fails", "long"]
    tasks = [
        {"model": model, "given": str(tmp_path / "given.npz"), "made": str(tmp_path / f"made{place}.npz")}
        for place, model in enumerate(models)
    ]
    monkeypatch.setattr(sys, "stdin", [json.dumps(task) for task in tasks])
    onnx_runtime.main()
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    done = {"stage": "run", "done": True, "outcome": "done", "detail": ""}
    errors = [{**done, "outcome": "error", "detail": text} for text in ("first", "x" * 300)]
    assert answers == [done, done, done, *errors]
    entries = {"session.x64quantprecision": "1", "session.intra_op.allow_spinning": "0"}
    plain = [{"graph_optimization_level": "none", "entries": entries}]
    changed = [{"graph_optimization_level": "all", "entries": entries}]
    cpu = ["CPUExecutionProvider"]
    assert Session.made == [
        ("plain", plain, cpu), ("rewritten", plain, cpu), ("rewritten", changed, cpu), ("fails", plain, cpu),
        ("long", plain, cpu),
    ]  # fmt: skip
    with np.load(tmp_path / "made2.npz") as made:
        assert {name: made[name].tolist() for name in made.files} == {"_0": [2, 4], "_1": 3}
    assert not (tmp_path / "made3.npz").exists()
    assert levels == [4], "fatal errors alone"


@pytest.mark.parametrize(("outcome", "detail", "error"), [
    ("done", "", ""), ("error", "no kernel", "no kernel"), ("crash", "SIGSEGV", "crash: SIGSEGV"),
])  # fmt: skip
def test_results_and_errors_of_onnx_runtime(monkeypatch, outcome, detail, error):
    from onegraph.tools import onnx_runtime

    ended = []

    class Worker:
        """Stands for the process."""

        def __init__(self, module):
            assert module == onnx_runtime.__name__

        def run(self, task, limit):
            assert (task["model"], limit) == ("m.onnx", onnx_runtime.TIME_LIMIT)
            with np.load(task["given"]) as given:
                np.savez(task["made"], _0=given["_x"], _1=given["_x"] + 1)
            return Outcome(outcome, "run", detail)

        def close(self):
            ended.append(self)

    monkeypatch.setattr(onnx_runtime, "Worker", Worker)
    with onnx_runtime.runtime() as (process, folder):
        ran = process.run(Path("m.onnx"), {"x": np.array([1])})
        assert folder.is_dir()
    assert [one.tolist() for one in ran.results] == ([[1], [2]] if outcome == "done" else [])
    assert ran.error == error
    assert len(ended) == 1
    assert not folder.exists()


@pytest.mark.parametrize("found", [None, object()])
def test_onnx_runtime_may_be_missing(monkeypatch, found):
    from onegraph.tools import onnx_runtime

    monkeypatch.setattr(onnx_runtime, "find_spec", lambda name: found if name == "onnxruntime" else None)
    assert onnx_runtime.is_installed() is (found is not None)


# Workers of conformance tests ----------------------------------------------------------------------------------------


class Working:
    """Stands for a process that answers requests."""

    def __init__(self, steps, fails=False):
        self.steps, self.fails = steps, fails

    def run(self, task, limit, repeat=True):
        self.steps.append((task["n"], limit, repeat))
        if self.fails:
            raise KeyboardInterrupt
        return f"outcome {task['n']}"

    def close(self):
        self.steps.append("close")

    def stop(self):
        self.steps.append("stop")


REQUESTS = ({"n": 0}, {"n": 1, "limit": 3.0, "repeat": False}, {"n": 2, "limit": 1e3})
RUN = [(1, 3.0, False), (0, runner.TIME_LIMIT, True), (2, 1e3, True)]


def test_requests_that_hang_run_first():
    steps, told = [], []
    assert runner.run_all(REQUESTS, 1, told.append, lambda: Working(steps)) == ["outcome 0", "outcome 1", "outcome 2"]
    assert (steps, told) == ([*RUN, "close"], [1, 2, 3])
    steps.clear()
    idle = [Working(steps)]
    assert len(runner.run_all(REQUESTS, 1, told.append, lambda: 1 / 0, idle)) == 3
    assert (steps, len(idle)) == (RUN, 1)
    steps.clear()
    with pytest.raises(KeyboardInterrupt):
        runner.run_all(REQUESTS, 1, told.append, lambda: Working(steps, fails=True))
    assert steps == [RUN[0], "close", "stop"]


@pytest.mark.parametrize(("workers", "count", "made"), [(5, 2, 2), (1, 2, 1), (2, 3, 2), (3, 0, 1)])
def test_no_more_workers_run_than_requests(workers, count, made):
    several, steps = [], []

    def worker():
        several.append(1)
        return Working(steps)

    assert len(runner.run_all(REQUESTS[:count], workers, make_worker=worker)) == count
    assert (len(several), steps.count("close")) == (made, made)


def test_equal_requests_run_once(monkeypatch):
    asked, told, steps = [], [], []

    def run_all(requests, workers, progress, idle):
        asked.append((requests, workers))
        progress(1)
        idle[:] = [Working(steps)]
        return [f"outcome {one['n']}" for one in requests]

    monkeypatch.setattr(runner, "run_all", run_all)
    with runner.Runner(4, lambda *given: told.append(given)) as several:
        assert several.run([{"n": 0}, {"n": 1}, {"n": 0}]) == ["outcome 0", "outcome 1", "outcome 0"]
        assert several.run([{"n": 1}, {"n": 2}]) == ["outcome 1", "outcome 2"]
        assert several.run([{"n": 3, "a": 1}, {"a": 1, "n": 3}]) == ["outcome 3"] * 2
        assert steps == []
    assert asked == [([{"n": 0}, {"n": 1}], 4), ([{"n": 2}], 4), ([{"a": 1, "n": 3}], 4)]
    assert (told, steps) == ([(1, 2), (3, 3), (4, 4)], ["close"])


RELU = ProbedUse("ReLU", ("given", "a use"), ((0, "f32"),), {}, ("f32",), [["f32", [2], [1]]])


def test_uses_that_never_end_have_less_time(monkeypatch):
    known = {"ends": SimpleNamespace(seen={"3.2": "wrong"}), "endless": SimpleNamespace(seen={"3.2": "it hangs"})}
    monkeypatch.setattr(trials, "SINGLE", known)
    for claims, limit in (((), 10.0), (("ends",), 10.0), (("endless",), 3.0), (("ends", "endless"), 3.0)):
        asked = trials.request(RELU, trials.HARSH, claims)
        assert (asked["limit"], asked["repeat"], asked["edges"]) == (limit, not claims, True)
    asked = trials.request(RELU, trials.CALM)
    assert asked == {**asked, "name": "relu", "call": {}, "allowed": True, "edges": False, "repeat": True}
    assert asked["use"] == RELU.to_dict()


def test_uses_run_under_a_condition(monkeypatch):
    asked, steps, conditions = [], [], []

    def run_all(requests, workers, progress, make_worker):
        asked.extend([requests, workers, progress])
        make_worker()
        return "outcomes"

    monkeypatch.setattr(trials, "run_all", run_all)
    monkeypatch.setattr(trials, "Worker", lambda *given: conditions.append(given))
    assert trials.run_uses([RELU, RELU], [(), ()], trials.CALM, 3, print) == "outcomes"
    assert asked == [[trials.request(RELU, trials.CALM)] * 2, 3, print]
    assert conditions == [("onegraph.tools.conformance.drawn.trials", trials.CALM.settings)]

    class Alone(Working):
        def run(self, task, limit):
            self.steps.append((task["call"], task["edges"], limit))
            return "an outcome"

    monkeypatch.setattr(trials, "new_worker", lambda condition: Alone(steps))
    assert trials.run_alone(RELU, trials.HARSH) == "an outcome"
    trials.run_alone(RELU, trials.CALM, call={"alpha": ["f32", 1.0]})
    assert steps == [({}, True, 10.0), "close", ({"alpha": ["f32", 1.0]}, False, 10.0), "close"]


def test_memory_of_workers_is_bounded(monkeypatch):
    steps = []
    monkeypatch.setattr(trials.resource, "setrlimit", lambda *given: steps.append(given))
    monkeypatch.setattr(trials.worker, "main", lambda: steps.append("main"))
    trials.main()
    assert steps == [(trials.resource.RLIMIT_DATA, (4 << 30, 4 << 30)), "main"]


def test_facts_of_a_library_are_read_in_another_process(monkeypatch):
    asked = []
    names = {"path": "p", "version": "3.2.1", "hash": "h", "cpu": "c", "isa": "i"}
    done = SimpleNamespace(returncode=0, stdout=f"noise\n{json.dumps(names)}\n", stderr="")

    def run(command, **options):
        asked.append((command[0], command[1], options["env"].get("ONEGRAPH_LIBRARY")))
        return done

    monkeypatch.setattr(libraries.subprocess, "run", run)
    monkeypatch.setattr(libraries.platform, "freedesktop_os_release", lambda: {"PRETTY_NAME": "Linux of a test"})
    monkeypatch.setattr(libraries.platform, "release", lambda: "6.1")
    monkeypatch.setattr(libraries.platform, "libc_ver", lambda: ("glibc", "2.36"))
    found = libraries.library_at("/lib.so")
    assert found == libraries.TriedLibrary("p", "3.2.1", "h", "c", "i", "Linux of a test, Linux 6.1, glibc 2.36")
    assert asked == [(sys.executable, "-c", "/lib.so")]
    monkeypatch.setattr(libraries.platform, "freedesktop_os_release", Mock(side_effect=OSError))
    monkeypatch.setattr(libraries.platform, "system", lambda: "Unknown")
    assert libraries._system() == "Unknown, Linux 6.1, glibc 2.36"
    monkeypatch.delattr(libraries.platform, "freedesktop_os_release")
    assert libraries._system() == "Unknown, Linux 6.1, glibc 2.36"
    done.returncode, done.stderr = 1, "Traceback\nonegraph.errors.LibraryError: it is cut off\n"
    with pytest.raises(og.LibraryError, match=r"^/lib.so: it is cut off$"):
        libraries.library_at("/lib.so")
