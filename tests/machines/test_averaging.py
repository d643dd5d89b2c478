"""Gradients averaged over processes: the ops, their order, and groups without PyTorch."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.capi.settings import has_avx512
from onegraph.reference.host.collective import set_group

pytestmark = pytest.mark.library
W0, W1 = (np.random.default_rng(n).normal(0, 0.3, shape).astype(np.float32) for n, shape in enumerate([(6, 5), (5, 3)]))
X = np.random.default_rng(2).normal(size=(8, 6)).astype(np.float32)
LABELS = (np.arange(8) % 3).astype(np.int32)


class Recorded:
    """A group that records the calls. Other processes hold zeros, so that sums stay as they are."""

    size, rank = 4, 0

    def __init__(self):
        self.calls, self.started = [], {}

    def start(self, memory):
        self.calls.append(("start", memory.size))
        self.started[memory.ctypes.data] = memory.copy()

    def wait(self, memory):
        self.calls.append(("wait", memory.size))
        np.testing.assert_array_equal(memory, self.started.pop(memory.ctypes.data))  # nobody wrote into it meanwhile


@pytest.fixture(autouse=True)
def _no_group():
    yield
    set_group(None)


@pytest.fixture
def group():
    made = Recorded()
    set_group(made)
    return made


def network(g):
    x, labels = g.input("x", og.f32, (8, 6)), g.input("labels", og.s32, (8,))
    w0, w1 = g.variable("w0", W0), g.variable("w1", W1)
    return og.training.cross_entropy(g, g.matmul(g.relu(g.matmul(x, w0)), w1), labels), [w0, w1]


def step(bucket_bytes=None, averaged=True):
    g = og.Graph()
    loss, weights = network(g)
    gradients = g.gradient(loss, weights)
    if averaged:
        options = {} if bucket_bytes is None else {"bucket_bytes": bucket_bytes}
        gradients = og.distributed.average(g, gradients, **options)
        (loss,) = og.distributed.average(g, [loss])
    g.output("loss", loss)
    og.training.SGD(0.1).update(g, weights, gradients)
    return g


@pytest.mark.skipif(not has_avx512(), reason="the bits of an f32 product depend on where its operands lie")
def test_group_of_one_takes_the_same_steps():
    alone, averaged = step(averaged=False).compile(threads=1), step().compile(threads=1)
    with og.distributed.join(size=1) as group:
        assert (group.rank, group.size) == (0, 1)
        for _ in range(3):
            assert averaged(X, LABELS) == alone(X, LABELS)
    np.testing.assert_array_equal(averaged.variables["w0"], alone.variables["w0"])


def test_sums_are_divided_by_the_number_of_processes(group):
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    (mean,) = og.distributed.average(g, [x * 2])
    g.output("mean", mean)
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(g.compile()(given), given / 2)
    np.testing.assert_array_equal(reference.run(g, {"x": given})["mean"], given / 2)


def test_buckets_start_while_the_backward_pass_runs(group):
    model = step(bucket_bytes=1).compile(threads=1)
    model(X, LABELS)
    sizes = [W1.size, W0.size, 1]  # the gradient of the last layer is there first
    assert group.calls == [*[("start", size) for size in sizes], *[("wait", size) for size in sizes]]
    names = [name for part in model.report().partitions for name in part.names]
    starts = [place for place, name in enumerate(names) if name.startswith("host_all_reduce_start")]
    assert any(name.endswith("/gradient") for name in names[starts[0] : starts[1]])


def test_one_bucket_has_all_gradients(group):
    step().compile(threads=1)(X, LABELS)
    assert group.calls == [("start", 45), ("start", 1), ("wait", 45), ("wait", 1)]


def test_order_of_the_results_is_that_of_the_tensors(group):
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    second, first = x * 3, x + 1
    found = og.distributed.average(g, [first, second, first])
    for place, tensor in enumerate(found):
        g.output(f"y{place}", tensor)
    results = g.compile()(np.float32([1, 2, 3, 4]))
    for array, wanted in zip(results, ([2, 3, 4, 5], [3, 6, 9, 12], [2, 3, 4, 5]), strict=True):
        np.testing.assert_array_equal(array, np.float32(wanted) / 4)


def test_buckets_start_behind_what_they_have_and_those_of_earlier_averages():
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    later = g.relu(x)
    first = og.distributed.average(g, [later, x], bucket_bytes=1)
    second = og.distributed.average(g, [x, g.relu(first[0])], bucket_bytes=2**40)
    assert [op.kind for op in g.ops if op.kind.startswith(("All", "ReLU"))] == [
        *("AllReduceStart", "ReLU", "AllReduceStart", "AllReduceDone", "AllReduceDone"),
        *("ReLU", "AllReduceStart", "AllReduceDone"),
    ]
    starts = [op for op in g.ops if op.kind == "AllReduceStart"]
    assert [[end.name for end in op.inputs] for op in starts] == [
        ["x"],
        [starts[0].outputs[0].name, later.name],
        [starts[1].outputs[0].name, "x", g.ops[-5].outputs[0].name],
    ]
    assert [op.attrs.get("after") for op in starts] == [False, True, True]
    assert [one.shape for one in (*first, *second)] == [(4,)] * 4


def test_constant_is_the_same_everywhere(group):
    g = og.Graph()
    (found,) = og.distributed.average(g, [g.constant(np.float32([1, 2]))])
    g.output("y", found)
    assert g.compile()().tolist() == [1, 2]
    assert group.calls == []


def test_file_keeps_the_ops(group, tmp_path):
    g = step()
    g.save(tmp_path / "step.json")
    again = og.Graph.load(tmp_path / "step.json")
    assert again.compile(threads=1)(X, LABELS) == g.compile(threads=1)(X, LABELS)


def test_compilation_needs_no_group_and_a_step_does():
    model = step().compile()
    with pytest.raises(og.StateError, match=r"in no group; call onegraph\.distributed\.join"):
        model(X, LABELS)
    np.testing.assert_array_equal(model.variables["w0"], W0)


def test_step_that_fails_leaves_the_variables(group):
    def lost(memory):
        raise og.StateError("rank 0 of 4 has lost its group")

    model = step(bucket_bytes=1).compile(threads=1)
    model(X, LABELS)
    before = {name: array.copy() for name, array in model.variables.items()}
    group.wait = lost
    with pytest.raises(og.StateError, match="lost its group"):
        model(X, LABELS)
    for name, array in model.variables.items():
        np.testing.assert_array_equal(array, before[name])


def test_gradient_through_an_average_is_refused():
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    (mean,) = og.distributed.average(g, [x * 2])
    with pytest.raises(og.UnsupportedError, match="gradients are averaged after the backward pass"):
        g.gradient(mean, x)


@pytest.mark.parametrize(
    ("tensors", "options"),
    [
        (lambda x: x, {}),
        (lambda x: [], {}),
        (lambda x: ["z"], {}),
        (lambda x: [x], {"bucket_bytes": 0}),
        (lambda x: [x], {"bucket_bytes": 2**40 + 1}),
    ],
)
def test_wrong_argument_is_refused(tensors, options):
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    with pytest.raises(og.ArgumentError, match="average: "):
        og.distributed.average(g, tensors(x), **options)
    assert list(g.ops) == []


@pytest.mark.parametrize(
    "options", [{"size": 0}, {"rank": 2, "size": 2}, {"rank": 1}, {"timeout": 0}, {"size": 2, "rank": 0, "address": 3}]
)
def test_wrong_group_is_refused(options):
    with pytest.raises(og.ArgumentError, match="join: "):
        og.distributed.join(**options)


def test_group_follows_the_environment(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(og.ArgumentError, match="WORLD_SIZE is 'two'"):
        og.distributed.join()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert og.distributed.join().size == 1


def test_group_of_several_without_pytorch(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(og.UnsupportedError, match=r"pip install 'onegraph\[torch\]'"):
        og.distributed.join(0, 2, "127.0.0.1:1")


def test_shared_variables_stay_in_a_group_of_one():
    g = og.Graph()
    g.variable("count", np.float32(3))
    g.output("y", g.variable("w", W1) * 2)
    model = g.compile()
    og.distributed.join().share_variables(model)
    assert model.variables["count"] == 3
    np.testing.assert_array_equal(model.variables["w"], W1)
    with pytest.raises(og.ArgumentError, match="share_variables: executable"):
        og.distributed.join().share_variables({})
