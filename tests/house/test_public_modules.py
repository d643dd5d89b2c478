"""Public modules and methods hand their arguments on, each to its place, and return what comes of them."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from conftest import library

import onegraph as og
from onegraph._util import first_imports

FOLDER = Path(og.__file__).parent


class Result:
    """What a function returns; graphs are given variables afterwards."""

    source = None

    def _with_variables_of(self, source):
        self.source = source
        return self


class Record:
    """Stands for a function, and keeps the arguments of its calls by name."""

    def __init__(self, function):
        self.signature, self.calls, self.result = inspect.signature(function), [], Result()

    def __call__(self, *places, **names):
        self.calls.append(dict(self.signature.bind(*places, **names).arguments))
        return self.result


def replaced(place, monkeypatch):
    """The record in the place of a function of a module, or of a method."""
    module, _, name = place.rpartition(".")
    owner = og.Graph if module == "Graph" else importlib.import_module(f"onegraph.{module}")
    record = Record(getattr(owner, name))
    own = (lambda self, *places, **names: record(self, *places, **names)) if module == "Graph" else record
    monkeypatch.setattr(owner, name, own, raising=False)
    return record


LAYER = {name: name for name in ("x", "weights", "recurrence", "bias")}
FILE = {"for_version": "3.2"}
GRAPHS = {
    "to_json": ("serialize.write", FILE),
    "from_json": ("serialize.read", {"text": "text", "strict": "strict"}),
    "save": ("serialize.save", {"path": "path", **FILE}),
    "load": ("serialize.load", {"path": "path", "strict": "strict"}),
    "to_dot": ("view.dot", {}),
    "_repr_html_": ("view.notebook_html", {}),
    "_repr_svg_": ("view.notebook_svg", {}),
    "translate": ("transform.translate_graph.translate_graph", {"edition": "edition"}),
    "lstm": ("training.layers.lstm", {**LAYER, "state": "state", "cell": "cell"}),
    "gru": ("training.layers.gru", {**LAYER, "state_bias": "state_bias", "state": "state"}),
    "with_constants": ("serialize.with_constants", {"arrays": "arrays"}),
    "with_variables": ("transform.modes.with_variables", {"names": "names", "batch_norm": "batch_norm"}),
    "for_inference": ("transform.modes.for_inference", {"values": "values", "outputs": "outputs"}),
    "without_wildcards": ("transform.json_removal.without_wildcards", {}),
    "specialise": ("lowering.for_shapes.for_shapes", {"shapes": "shapes", "values": "values"}),
    "gradient": ("gradient.gradient", {name: name for name in ("outputs", "wrt", "grad_outputs", "checkpoint")}),
    "partitions": ("compiler.library_partitions.library_partitions", {"policy": "policy"}),
}
STEPS = ("with_constants", "without_wildcards", "specialise", "partitions")


def graph_with_a_variable():
    g = og.Graph()
    x = g.input("x", "f32", (2,))
    g.assign(g.variable("v", np.ones(2, np.float32)), g.output("y", g.relu(x)))
    return g


@pytest.mark.parametrize("name", [library(name) if name == "partitions" else name for name in GRAPHS])
def test_methods_of_graphs_hand_arguments_on(name, monkeypatch):
    place, given = GRAPHS[name]
    record, graph = replaced(place, monkeypatch), graph_with_a_variable()
    made = getattr(graph, name)(**given)
    assert made is (None if name == "save" else record.result)
    (call,) = record.calls
    first, *rest = call.values()
    assert rest == [*given.values()]
    if name in ("from_json", "load"):
        assert first is og.Graph
    elif name in STEPS:
        assert ([*first.inputs], [*first.variables]) == (["x", "v"], [])
        assert record.result.source is (None if name == "partitions" else graph)
    elif name in ("to_json", "save"):
        assert type(first) is og.Graph
        assert first is not graph
    else:
        assert first is graph


OPTIONS = {name: name for name in ("policy", "fallback", "fpmath_mode", "threads", "reproducible", "finite_math")}


@pytest.mark.library
@pytest.mark.parametrize("known", [None, "compiled before"])
@pytest.mark.parametrize("fits", [None, False, True])
@pytest.mark.parametrize("outputs", [None, ["y"]])
def test_compile_asks_for_what_was_compiled_before_and_keeps_the_program(outputs, fits, known, monkeypatch):
    compiled = replaced("runtime.executable.compile_graph", monkeypatch)
    kept = replaced("runtime.warm_start.keep", monkeypatch)
    returned, asked, late = replaced("graph.returning", monkeypatch), [], []
    graph = graph_with_a_variable()
    monkeypatch.setattr(og.Graph, "_compiled_before", lambda self, options: asked.append(options) or known)
    monkeypatch.setattr("onegraph.graph.import_late", lambda *names: late.append(names))
    if fits is not None:
        graph._origin = SimpleNamespace(fits=lambda one: fits and [*one.variables] == ["v"])
    made = graph.compile(**OPTIONS, outputs=outputs)
    assert late == [("onegraph.runtime.executable",)]
    assert asked == ([tuple(OPTIONS)] if outputs is None else [])
    if outputs is None and known:
        assert (made, compiled.calls) == (known, [])
        return
    ((call,), called) = compiled.calls, returned.calls
    assert made is compiled.result
    assert call["options"] == OPTIONS
    assert called == ([] if outputs is None else [{"graph": graph, "argument": outputs}])
    if outputs is None:
        assert call["graph"] is not graph
        assert [*call["graph"].variables] == ["v"]
    else:
        assert call["graph"] is returned.result
    is_kept = outputs is None and fits
    assert kept.calls == ([{"origin": graph._origin, "executable": made}] if is_kept else [])


def test_a_graph_is_pickled_without_its_files():
    graph = graph_with_a_variable()
    graph._origin = "files"
    state = graph.__getstate__()
    assert state == {name: value for name, value in vars(graph).items() if name != "_origin"}
    assert {"_inputs", "_outputs"} <= state.keys()
    assert og.Graph._compiled_before(graph, ()) is None


def test_a_graph_explains_what_it_compiles(monkeypatch):
    model = SimpleNamespace(explain=lambda *arrays, **named: (arrays, named))
    monkeypatch.setattr(og.Graph, "compile", lambda self: model)
    assert og.Graph().explain("x", "w", runs=3) == (("x", "w"), {"runs": 3})


def test_an_embedding_gathers_rows():
    g = og.Graph()
    rows = g.embedding(g.input("table", "f32", (5, 3)), g.input("indices", "s32", (2, 4)))
    assert rows.shape == (2, 4, 3)
    (op,) = g.ops
    assert (op.kind, op.attrs["axis"], [end.name for end in op.inputs]) == ("Gather", 0, ["table", "indices"])


# Modules of other packages --------------------------------------------------------------------------------------------


def run_again(name):
    """A module of the package that runs once more, beside the one that is imported."""
    spec = importlib.util.spec_from_file_location(f"onegraph.{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(monkeypatch, place, **members):
    """A module that stands for one of the package."""
    module = ModuleType(place)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, f"onegraph.frontends.{place}", module)


@pytest.mark.parametrize("name", ["onnx", "gguf"])
def test_a_module_names_the_package_that_it_needs(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == name else "another")
    wanted = rf"^onegraph\.{name} needs the package {name}; run: pip install onegraph\[{name}\]$"
    with pytest.raises(ModuleNotFoundError, match=wanted) as caught:
        run_again(name)
    assert caught.value.name == name


@pytest.mark.parametrize("name", ["onnx", "gguf"])
def test_a_module_has_the_names_of_its_front_end(name, monkeypatch):
    public = {
        "onnx": {"CustomNode": 1, "class_labels": 2, "load": 3, "register": 4},
        "gguf": {"PackedWeights": 1, "Weights": 2, "load_weights": 3},
    }[name]
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: "a place" if package == name else None)
    stand_in(monkeypatch, name, **public)
    stand_in(monkeypatch, f"{name}.save", save="saves")
    module = run_again(name)
    public |= {"save": "saves"} if name == "onnx" else {}
    assert {key: getattr(module, key) for key in module.__all__} == public
    with pytest.raises(AttributeError, match=r"has no attribute 'store'$"):
        _ = module.store


def test_the_functions_of_the_pytorch_front_end_get_their_arguments(monkeypatch):
    calls = []

    def named(name):
        return lambda *places, **names: calls.append((name, places, names)) or name

    stand_in(monkeypatch, "torch")
    stand_in(monkeypatch, "torch.backend", onegraph="backend")
    stand_in(monkeypatch, "torch.export", export=named("export"))
    stand_in(monkeypatch, "torch.judge", verify=named("verify"))
    stand_in(monkeypatch, "torch.registered", CustomCall="CustomCall", register="register")
    stand_in(monkeypatch, "torch.statistics", Statistics="Statistics", reset="reset", statistics=named("stats"))
    module = run_again("torch")
    for name in ("CustomCall", "Statistics", "backend", "register", "reset"):
        assert getattr(module, name) == name
    assert {*module.__all__} <= vars(module).keys()
    assert (module.export("module"), module.verify("module", "inputs"), module.stats()) == ("export", "verify", "stats")
    few = {"dynamic": False, "gradients": None, "options": None, "seed": 0}
    assert calls == [
        ("export", ("module", None, None, None), {}),
        ("verify", ("module", "inputs", None), few),
        ("stats", (), {}),
    ]
    calls.clear()
    module.export("module", "args", "kwargs", dynamic_shapes="shapes")
    many = {name: name for name in few}
    module.verify("module", "inputs", "kwargs", **many)
    assert calls == [
        ("export", ("module", "args", "kwargs", "shapes"), {}),
        ("verify", ("module", "inputs", "kwargs"), many),
    ]


def test_the_package_says_when_its_imports_are_over():
    assert first_imports._is_over


# Saved graphs and executables -----------------------------------------------------------------------------------------


@pytest.mark.library
@pytest.mark.parametrize("kind", ["", "Graph", "Executable", "wrong"])
@pytest.mark.parametrize("name", ["folder", "graph.json", "missing"])
def test_load_takes_what_the_path_holds(name, kind, monkeypatch, tmp_path):
    kind = {"": None, "Graph": og.Graph, "Executable": og.Executable}.get(kind, kind)
    calls, path = [], Path(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(og.Graph, "load", lambda source: calls.append(source) or "a graph")
    monkeypatch.setattr(
        "onegraph.runtime.saved_executable.load_executable", lambda *given: calls.append(given) or "an executable"
    )
    Path("folder").mkdir()
    Path("graph.json").write_text("")
    is_folder = name == "folder"
    if kind == "wrong":
        message = "kind: 'wrong'; expected onegraph.Executable or onegraph.Graph"
    elif kind is og.Executable and not is_folder:
        message = f"path: {name!r} is no folder; expected the folder of a saved executable"
    elif kind is og.Graph and is_folder:
        message = f"path: {name!r} is a folder; expected the JSON file of a graph"
    else:
        assert og.load(name, *([] if kind is None else [kind])) == ("an executable" if is_folder else "a graph")
        assert calls == [(og.Graph, path) if is_folder else path]
        return
    with pytest.raises(og.ArgumentError) as caught:
        og.load(path, kind)
    assert (str(caught.value), calls) == (message, [])
