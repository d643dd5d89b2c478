"""A call that fails changes nothing: every function that adds to a graph, with a failure at each of its inner steps."""

import inspect
import threading

import numpy as np
import pytest

import onegraph as og
from onegraph import training
from onegraph.builder import tensors, transaction
from onegraph.builder.adding_ops import OpAdding
from onegraph.builder.editing import Editing
from onegraph.builder.rewriting import Rewriting
from onegraph.builder.transaction import atomic

pytestmark = pytest.mark.library


def model():
    """A graph with a variable, a loss, and inputs of several kinds."""
    g = og.Graph()
    x, labels = g.input("x", og.f32, (4, 3)), g.input("labels", og.s32, (4,))
    w, mean, variance = (g.variable(name, np.ones(shape, np.float32)) for name, shape in SLOTS.items())
    logits = g.matmul(x, w, name="product")
    bent = g.tanh(logits)
    g.output("probabilities", g.softmax(logits, axis=-1))
    half = g.type_cast(x, dtype=og.bf16)
    recurrent = {"steps": (5, 2, 3)}
    for gates in (3, 4):
        recurrent |= {f"weights of {gates}": (2 * gates, 3), f"recurrence of {gates}": (2 * gates, 2)}
    return g, {
        **{name: g.input(name, og.f32, shape) for name, shape in recurrent.items()},
        "x": x,
        "labels": labels,
        "w": w,
        "mean": mean,
        "variance": variance,
        "logits": logits,
        "bent": bent,
        "half": half,
    }


SLOTS = {"w": (3, 2), "mean": (3,), "variance": (3,)}
TABLES = ("_by_id", "_inputs", "_outputs", "_names", "_initial", "_next")
# Each function that adds to a graph, with arguments that it takes.
CALLS = {
    "op": lambda g, t: g.op("ReLU", [t["x"]]),
    "input": lambda g, t: g.input("other", og.f32, (2,), constant=True),
    "constant": lambda g, t: g.constant(np.ones(2, np.float32)),
    "variable": lambda g, t: g.variable("v", np.ones(2, np.float32)),
    "assign": lambda g, t: g.assign(t["w"], t["w"]),
    "output": lambda g, t: g.output("y", t["x"]),
    "method": lambda g, t: g.relu(t["x"]),
    "bias in another type": lambda g, t: g.bias_add(t["half"], t["mean"]),
    "operator": lambda g, t: t["x"] * np.float32([1, 2, 3]),
    "power": lambda g, t: t["x"] ** 3,
    "replace": lambda g, t: g.replace(t["logits"], t["logits"] * np.float32([1, 2])),
    "remove": lambda g, t: g.remove(g.producer(t["bent"])),
    "rewrite": lambda g, t: g.rewrite(lambda g, op: g.relu(op.inputs[0]) if op.kind == "Tanh" else None),
    "gradient": lambda g, t: g.gradient(t["logits"], [t["w"], t["x"]]),
    "gradient with checkpoints": lambda g, t: g.gradient(t["bent"], t["w"], checkpoint=[t["x"]]),
    "global_norm": lambda g, t: training.global_norm(g, [t["x"], t["w"]]),
    "clip_by_norm": lambda g, t: training.clip_by_norm(g, [t["x"], t["w"]], 1.0),
    "low_precision": lambda g, t: training.low_precision(g, [t["x"], t["w"]]),
    "batch_norm": lambda g, t: training.batch_norm(g, t["x"], t["mean"], t["variance"], t["mean"], t["variance"]),
    "dropout": lambda g, t: training.dropout(g, t["x"], 0.5),
    "lstm": lambda g, t: training.lstm(g, t["steps"], t["weights of 4"], t["recurrence of 4"]),
    "gru": lambda g, t: training.gru(g, t["steps"], t["weights of 3"], t["recurrence of 3"]),
    "mean_squared_error": lambda g, t: training.mean_squared_error(g, t["x"], t["x"]),
    "cross_entropy": lambda g, t: training.cross_entropy(g, t["logits"], t["labels"], ignore_index=-1),
    "SGD": lambda g, t: training.SGD(0.1, momentum=0.9, nesterov=True).minimize(g, t["logits"], [t["w"]]),
    "Adam": lambda g, t: training.Adam(0.1, weight_decay=0.1).minimize(g, t["logits"], [t["w"]]),
    "AdamW": lambda g, t: training.AdamW(0.1).minimize(g, t["logits"], [t["w"]]),
    "update": lambda g, t: training.SGD(0.1).update(g, [t["w"]], [t["w"]]),
    "average": lambda g, t: og.distributed.averaging.average(g, [t["x"], t["logits"]]),
}


def state(g):
    """Everything that a graph holds."""
    tables = {name: [(key, id(value)) for key, value in getattr(g, name).items()] for name in TABLES}
    return {**tables, "ops": [*map(id, g._ops)], "next": next(g._op_ids.copy()), "constant": {*g._constant_inputs}}


class Stop(BaseException):
    """An interrupt."""


@pytest.mark.parametrize("name", CALLS)
def test_a_failure_at_any_step_changes_nothing(name, monkeypatch):
    made = tensors.make_tensor
    for step in range(1000):
        g, given = model()
        before, steps = state(g), iter(range(step))

        def make(*args, steps=steps):
            if next(steps, None) is None:
                raise Stop
            return made(*args)

        with monkeypatch.context() as patch:
            patch.setattr(tensors, "make_tensor", make)
            try:
                CALLS[name](g, given)
            except Stop:
                assert state(g) == before, f"after {step} tensors"
            else:
                break
    assert step > 0 or name in ("assign", "output", "remove")
    text = repr(g)
    again, given = model()
    CALLS[name](again, given)
    assert repr(again) == text


@pytest.mark.parametrize("name", CALLS)
def test_a_failure_behind_a_call_changes_nothing(name):
    g, given = model()
    g._roundings, g._n_read = frozenset(), len(g._ops)

    def whole():
        edits = g.constant_inputs, g._file, g._roundings, g._n_read
        return {**state(g), "constant": edits}

    @atomic
    def failing(graph):
        CALLS[name](graph, given)
        assert whole() != before
        raise Stop

    before = whole()
    with pytest.raises(Stop):
        failing(g)
    assert whole() == before
    assert transaction._open == {}


def test_every_function_that_adds_has_a_case():
    public = {name for name in training.__all__ if inspect.isfunction(getattr(training, name))}
    classes = {name: getattr(training, name) for name in training.__all__ if inspect.isclass(getattr(training, name))}
    optimizers = {name for name, one in classes.items() if issubclass(one, training.Optimizer)} - {"Optimizer"}
    assert public | optimizers <= {*CALLS}
    members = {**vars(OpAdding), **vars(tensors.GraphTensors), **vars(Editing), **vars(Rewriting)}
    primitives = {name for name, one in members.items() if inspect.isfunction(one) and not name.startswith("_")}
    assert primitives - {"producer", "consumers", "tensor"} <= {*CALLS}


REFUSED = {
    "a constant among the variables": lambda g, t: training.Adam(0.1).minimize(g, t["logits"], [t["w"], t["c"]]),
    "a rate of another graph": lambda g, t: training.Adam(t["foreign"]).minimize(g, t["logits"], [t["w"]]),
    "an op that does not fit": lambda g, t: t["x"] + np.ones((5, 5), np.float32),
    "a loss of integers": lambda g, t: training.SGD(0.1).minimize(g, t["labels"], [t["w"]]),
    "a name that is taken": lambda g, t: training.dropout(g, t["x"], 0.5, name="drop"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_changes_nothing(name):
    g, given = model()
    given.update(c=g.constant(np.zeros(3, np.float32)), foreign=og.Graph().input("r", og.f32, ()))
    g.variable("drop/offset", np.ones(2, np.float32))
    before = state(g)
    with pytest.raises((og.ArgumentError, og.SpecError)):
        REFUSED[name](g, given)
    assert state(g) == before


def test_a_second_optimizer_leaves_the_first_alone():
    g, given = model()
    training.SGD(0.1).minimize(g, given["logits"], [given["w"]])
    before = state(g)
    with pytest.raises(og.ArgumentError, match="assigned already"):
        training.Adam(0.1).minimize(g, given["logits"], [given["w"]])
    assert state(g) == before


def test_what_another_thread_adds_stays():
    g, given = model()
    ready, added = threading.Event(), threading.Event()

    def other():
        ready.wait(10)
        g.output("theirs", g.tanh(given["x"], name="theirs"))
        added.set()

    @atomic
    def ours(graph):
        graph.relu(given["x"], name="ours")
        ready.set()
        added.wait(10)
        graph.sqrt(given["x"])
        raise Stop

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(Stop):
        ours(g)
    thread.join()
    names = [op.name for op in g.ops]
    assert "theirs" in names
    assert "ours" not in names
    assert len({op.id for op in g.ops}) == len(names)
    assert g.relu(given["x"], name="ours").shape == (4, 3)
    assert len({op.id for op in g.ops}) == len(g.ops)


def test_an_inner_failure_that_is_caught_is_taken_back_alone():
    g, given = model()

    @atomic
    def inner(graph):
        graph.relu(given["x"], name="inner")
        raise Stop

    @atomic
    def outer(graph):
        graph.relu(given["x"], name="outer")
        with pytest.raises(Stop):
            inner(graph)

    outer(g)
    assert [op.name for op in g.ops][-1] == "outer"
    assert "inner" not in g._names


def test_the_graph_may_be_given_by_its_name():
    g = og.Graph()
    logits, labels = g.input("x", og.f32, (2, 3)), g.input("y", og.s32, (2,))
    with pytest.raises(og.OneGraphError):
        og.training.cross_entropy(graph=g, logits=logits, labels=g.input("z", og.s32, (5,)))
    assert not g.ops
    assert og.training.cross_entropy(graph=g, logits=logits, labels=labels).shape == ()
