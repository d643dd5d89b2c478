"""Executables: arrays in, arrays out, compile options, the report."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers.executables import filled, in_a_process, rows_summed

import onegraph as og
from onegraph.opset.editions.registry import HOST


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def two_in_two_out(dtype=og.f32, shape=(2, 3)):
    g = og.Graph()
    a, b = g.input("a", dtype, shape), g.input("b", dtype, shape)
    g.output("total", g.add(a, b))
    g.output("ratio", g.divide(a, b))
    return g


@pytest.mark.library
def test_arguments_by_position_and_name():
    model = two_in_two_out().compile()
    a, b = np.full((2, 3), 6, np.float32), np.full((2, 3), 2, np.float32)
    for result in (model(a, b), model(a, b=b), model(b=b, a=a)):
        assert result._fields == ("total", "ratio")
        assert result.total.tolist() == [[8.0] * 3] * 2
        assert result.ratio.tolist() == [[3.0] * 3] * 2
    assert [port.name for port in model.inputs] == ["a", "b"]
    assert model.outputs[1] == ("ratio", og.f32, (2, 3))


@pytest.mark.library
@pytest.mark.parametrize("form", ["sequence", "mapping", "partial"])
def test_out_writes_into_the_callers_arrays(form):
    model = two_in_two_out().compile()
    a, b = np.full((2, 3), 6, np.float32), np.full((2, 3), 2, np.float32)
    total, ratio = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    out = {"sequence": (total, ratio), "mapping": {"total": total, "ratio": ratio}, "partial": {"ratio": ratio}}[form]
    result = model(a, b, out=out)
    assert result.ratio is ratio
    assert ratio[0, 0] == 3
    assert (result.total is total) == (form != "partial")
    assert result.total[0, 0] == 8


@pytest.mark.library
def test_a_bound_run_reads_and_writes_its_arrays():
    model = two_in_two_out().compile()
    a, b = np.full((2, 3), 6, np.float32), np.full((2, 3), 2, np.float32)
    ratio = np.zeros((2, 3), np.float32)
    run = model.bind(a=a, b=b, ratio=ratio)
    assert run.run().ratio is ratio
    a *= 2
    assert run.run().total[0, 0] == 14
    assert ratio[0, 0] == 6
    assert run.outputs["ratio"] is ratio


@pytest.mark.library
def test_outputs_that_are_inputs_constants_or_duplicates(rng):
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    y = g.relu(x)
    g.output("same", x)
    g.output("fixed", g.constant(np.arange(3, dtype=np.float32)))
    g.output("first", y)
    g.output("second", y)
    model = g.compile()
    data = rng.standard_normal(4).astype(np.float32)
    for result in (model(data), model.bind(x=data).run()):
        assert np.array_equal(result.same, data)
        assert result.same is not data
        assert result.fixed.tolist() == [0, 1, 2]
        assert np.array_equal(result.first, np.maximum(data, 0))
        assert np.array_equal(result.first, result.second)
        assert not np.shares_memory(result.first, result.second)


@pytest.mark.library
def test_intermediates_can_be_outputs(rng):
    g = og.Graph()
    x = g.input("x", og.f32, (8, 8))
    w = g.constant(rng.standard_normal((8, 8)).astype(np.float32))
    product = g.output("product", g.matmul(x, w, dtype="f32"))
    g.output("positive", g.relu(product))
    data = rng.standard_normal((8, 8)).astype(np.float32)
    result = g.compile()(data)
    assert np.allclose(result.product, data @ w.value, atol=1e-5)
    assert np.array_equal(result.positive, np.maximum(result.product, 0))


@pytest.mark.library
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16], ids=lambda dtype: np.dtype(dtype).name)
def test_several_partitions(dtype, rng):
    g = og.Graph()
    x = g.input("x", dtype, (4, 6, 6, 3))
    weights = [g.constant(rng.integers(-2, 3, shape).astype(dtype)) for shape in ((3, 3, 3, 4), (3, 3, 2, 4))]
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    h = g.relu(g.convolution(x, weights[0], **window))
    g.output("y", g.conv_transpose(h, weights[1], **window))
    data = rng.integers(-2, 3, (4, 6, 6, 3)).astype(dtype)
    model = g.compile()
    exact = og.reference.run(g, {"x": data})["y"]
    assert len(model.report().partitions) >= 2
    assert np.allclose(model(data).astype(float), exact.astype(float), rtol=2**-7)


@pytest.mark.library
def test_debug_policy_runs_single_ops():
    g = og.Graph()
    x = g.input("x", og.f32, (4,))
    g.output("y", g.abs(g.add(x, x)))
    fused, single = (g.compile(policy=policy).report() for policy in ("fusion", "debug"))
    assert [partition.fused for partition in fused.partitions] == [True]
    assert [len(partition.ops) for partition in single.partitions] == [1, 1]
    assert fused.to_dict()["partitions"][0]["fused"] is True


@pytest.mark.library
def test_specialises_unknown_dims_at_the_first_call(rng):
    g = og.Graph()
    x = g.input("x", og.f32, (None, 4))
    g.output("y", g.reduce_sum(g.relu(x), axes=[1]))
    model = g.compile()
    assert "not compiled yet" in str(model.report())
    for rows in (3, 5, 3):
        data = rng.standard_normal((rows, 4)).astype(np.float32)
        assert np.allclose(model(data), np.maximum(data, 0).sum(1), rtol=1e-5)
    with pytest.raises(og.ArgumentError, match=r"input 'x': shape \[3, 5\]; expected \[\?, 4\]"):
        model(np.zeros((3, 5), np.float32))


@pytest.mark.library
def test_specialised_graph_keeps_given_contents(rng):
    g = og.Graph()
    x, axes, bias = g.input("x", og.f32, (3, 4)), g.input("axes", og.s32, (1,)), g.input("bias", og.f32, (4,))
    g.output("y", g.add(g.op("ReduceSum", [x, axes]), bias))
    first = np.array([0], np.int32)
    fixed = g.specialise({}, {"axes": first})
    data = rng.standard_normal((3, 4)).astype(np.float32)
    feed = {"x": data, "axes": np.array([0], np.int32), "bias": np.ones(4, np.float32)}
    first[0] = 1
    for y in (fixed.compile()(**feed), og.reference.run(fixed, feed)["y"]):
        assert np.allclose(y, data.sum(0) + 1, rtol=1e-5)
    for run in (fixed.compile(), lambda **feed: og.reference.run(fixed, feed)):  # [3] and [4] do not broadcast
        with pytest.raises(og.SpecError, match="Add"):
            run(**(feed | {"axes": first}))


def test_known_dims_stay_and_another_input_changes_them():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (64, 4))))
    with pytest.raises(og.ArgumentError, match=r"expected \[64, 4\]; g.replace\(name, g.input\(\.\.\.\)\) gives"):
        g.specialise({"x": (3, 4)})
    g.replace("x", g.input("rows", og.f32, (None, 4)))
    g.remove("x")
    assert ([*g.inputs], g.outputs["y"].shape) == (["rows"], (None, 4))


@pytest.mark.library
def test_computed_shape(rng):
    g = og.Graph()
    counts = g.input("counts", og.s32, (3,))
    shape = g.add(counts, g.constant(np.array([0, 1, 0], np.int32)))
    dy, w = g.input("dy", og.f32, (1, 3, 1)), g.constant(np.ones((3, 1, 1), np.float32))
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.output("dx", g.convolution_backward_data(dy, w, shape, **window))
    result = g.compile()(np.array([1, 7, 1], np.int32), np.ones((1, 3, 1), np.float32))
    assert result.ravel().tolist() == [1, 1, 2, 1, 2, 1, 1, 0]


@pytest.mark.library
def test_counts_copies_of_strided_inputs(rng):
    g = og.Graph()
    x = g.input("x", og.f32, (4, 3), strides=(1, 4))
    g.output("y", g.relu(x))
    model = g.compile()
    data = rng.standard_normal((3, 4)).astype(np.float32)
    assert np.array_equal(model(data.T), np.maximum(data.T, 0))
    assert model.copies == 0
    assert np.array_equal(model(np.ascontiguousarray(data.T)), np.maximum(data.T, 0))
    assert model.copies == model.report().copies == 1


@pytest.mark.library
@pytest.mark.parametrize("mode", ["strict", "bf16", "f16", "any"])
def test_fpmath_modes(mode, rng):
    g = og.Graph()
    x = g.input("x", og.f32, (32, 32))
    g.output("y", g.matmul(x, x, dtype="f32"))
    data = rng.standard_normal((32, 32)).astype(np.float32)
    assert np.allclose(g.compile(fpmath_mode=mode)(data), data @ data, atol=1e-4 if mode == "strict" else 0.3)


@pytest.mark.library
def test_drops_unread_optional_outputs(rng):
    g = og.Graph()
    result = g.softmax(g.input("x", og.f32, (4, 8)), axis=1, outputs=["stats"])
    g.output("y", result.dst)
    model = g.compile(fallback=False)
    data = rng.standard_normal((4, 8)).astype(np.float32)
    exact = np.exp(data) / np.exp(data).sum(1, keepdims=True)
    assert np.allclose(model(data), exact, atol=1e-6)
    g.output("stats", result.stats)
    assert np.allclose(g.compile()(data).stats[:, 0], np.log(np.exp(data).sum(1)), atol=1e-5)


@pytest.mark.library
def test_computed_shape_needs_the_fallback():
    g = og.Graph()
    shape = g.add(g.input("counts", og.s32, (3,)), g.constant(np.array([0, 1, 0], np.int32)))
    dy, w = g.input("dy", og.f32, (1, 3, 1)), g.constant(np.ones((3, 1, 1), np.float32))
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.output("dx", g.convolution_backward_data(dy, w, shape, **window))
    counts, gradient = np.array([1, 7, 1], np.int32), np.ones((1, 3, 1), np.float32)
    with pytest.raises(og.UnsupportedError, match="a shape or an axis depends on what the graph computes"):
        g.compile(fallback=False)(counts, gradient)
    model = g.compile()
    model(counts, gradient)
    assert [part.executor for part in model.report().partitions] == ["kernel", "oneDNN"]
    with pytest.raises(og.ArgumentError, match="output 'dx' shares memory with 'dy'"):
        model(counts, gradient, out=gradient)


@pytest.mark.library
def test_computed_axes():
    # All axes are reduced: the output shape is known, but the axes may still repeat.
    g = og.Graph()
    axes = g.add(g.input("a", og.s32, (2,)), g.constant(np.array([0, 1], np.int32)))
    g.output("y", g.reduce_sum(g.input("x", og.f32, (2, 3)), axes))
    assert g.outputs["y"].shape == ()
    with pytest.raises(og.ArgumentError, match=r"'add_0.dst' gives a shape or axes, and is not known before"):
        g.partitions()
    x, model = np.arange(6, dtype=np.float32).reshape(2, 3), g.compile()
    assert model(np.zeros(2, np.int32), x) == 15
    a = np.array([1, 0], np.int32)
    for run in (model, lambda a, x: og.reference.run(g, {"a": a, "x": x})):
        with pytest.raises(og.SpecError, match=r"axes: \[1, 1\]; expected no axis twice"):
            run(a, x)
    with pytest.raises(og.ArgumentError, match="an axis in this graph depends on data"):
        model.bind(a=np.zeros(2, np.int32), x=x)


@pytest.mark.library
def test_input_names_that_clash_with_arguments():
    g = og.Graph()
    g.output("y", g.relu(g.input("self", og.f32, (2,))))
    data = np.float32([-1, 2])
    assert g.compile()(self=data).tolist() == [0, 2]
    assert g.compile().bind(self=data).run().tolist() == [0, 2]
    with pytest.raises(og.ArgumentError, match="name 'out' is the keyword"):
        g.input("out", og.f32, (2,))


@pytest.mark.library
def test_rejects_masked_arrays_and_broken_producers():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2,))))
    model = g.compile()
    with pytest.raises(og.ArgumentError, match="a masked array"):
        model(np.ma.masked_array(np.zeros(2, np.float32), [True, False]))

    class Broken:
        def __dlpack__(self, **options):
            raise RuntimeError("no")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(og.ArgumentError, match="input 'x': Broken gives no array: no"):
        model(Broken())


@pytest.mark.library
def test_searches_a_long_graph_in_pieces(rng, monkeypatch):
    g = og.Graph()
    w = g.constant(rng.standard_normal((8, 8)).astype(np.float32) / 3)
    y = first = g.input("x", "f32", (2, 8))
    for index in range(60):
        y = g.relu(g.add(g.matmul(y, w, dtype="f32"), first))
        if index == 7:
            first = y  # every later step reads this tensor, also in other pieces
    g.output("y", y)
    data = rng.standard_normal((2, 8)).astype(np.float32)
    whole = g.compile(threads=1)
    monkeypatch.setattr("onegraph.compiler.partitioner.PIECE", 20)
    monkeypatch.setattr("onegraph.compiler.partitioner.OVERLAP", 6)
    pieces = g.compile(threads=1)
    assert [p.ops for p in pieces.report().partitions] == [p.ops for p in whole.report().partitions]
    assert np.array_equal(pieces(data), whole(data))
    np.testing.assert_allclose(pieces(data), og.reference.run(g, {"x": data})["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.library
def test_equal_layers_share_no_cached_constants(rng):
    """The library's cache would give a layer the cached weights of an equal layer."""
    before = og.capi.get_compiled_partition_cache_capacity()
    og.capi.set_compiled_partition_cache_capacity(1024)
    try:
        graph = og.Graph()
        x = tensor = graph.input("x", "f32", (8, 32))
        weights = [rng.standard_normal((32, 32)).astype(np.float32) for _ in range(3)]
        wanted = data = rng.standard_normal((8, 32)).astype(np.float32)
        for weight in weights:
            tensor = graph.relu(graph.matmul(tensor, graph.constant(weight)))
            wanted = np.maximum(wanted @ weight, 0)
        graph.output("y", tensor)
        assert x is not tensor
        for policy in ("fusion", "debug"):
            np.testing.assert_allclose(graph.compile(policy=policy)(data), wanted, rtol=1e-4, atol=1e-3)
    finally:
        og.capi.set_compiled_partition_cache_capacity(before)


@pytest.mark.library
def test_fpmath_mode_none_follows_the_file():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2,))))
    loaded = og.Graph.from_json(json.dumps({**json.loads(g.to_json()), "fpmath_mode": "bf16"}))
    modes = [graph.compile(fpmath_mode=None).report().fpmath_mode for graph in (loaded, loaded.copy(), g)]
    assert modes == ["bf16", "bf16", "strict"]
    assert loaded.compile().report().fpmath_mode == "strict"
    assert pickle.loads(pickle.dumps(loaded)).compile(fpmath_mode=None).report().fpmath_mode == "bf16"
    with pytest.raises(og.ArgumentError, match="fpmath_mode"):
        g.compile(fpmath_mode="half")


@pytest.mark.library
def test_first_compilation_fixes_the_constant_cache():
    said = in_a_process(
        """
import numpy as np
import onegraph as og
og.capi.set_constant_tensor_cache(False)
og.capi.set_compiled_partition_cache_capacity(8)
g = og.Graph()
w = g.constant(np.eye(4, dtype=np.float32))
g.output("y", g.matmul(g.input("x", og.f32, (4, 4)), w, dtype="f32"))
model = g.compile()
x = np.arange(16, dtype=np.float32).reshape(4, 4)
for _ in range(3):
    assert (model(x) == x).all()
try:
    og.capi.set_constant_tensor_cache(True)
except og.StateError as error:
    print(error)
facts = og.version_info()
assert (model(x) == x).all() and facts["compiled_partition_cache_capacity"] == 8
print(facts["constant_tensor_cache"])
"""
    )
    assert said == "the constant tensor cache can be switched only before anything is compiled\nFalse\n"


@pytest.mark.library
def test_report_has_layouts_threads_and_bytes():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 3), strides=(1, 4))
    g.output("y", g.abs(x))
    (partition,) = g.compile(threads=1).report().to_dict()["partitions"]
    assert partition["layouts"] == {"x": (1, 4), "abs_0.dst": (3, 1)}
    assert partition["inputs"] == ("x: f32 [4, 3] strides [1, 4]",)
    assert partition["outputs"] == ("abs_0.dst: f32 [4, 3]",)
    assert (partition["executor"], partition["fused"], partition["reason"]) == ("oneDNN", False, "")
    assert (partition["threads"], partition["bytes"]) == (1, 96)


@pytest.mark.library
def test_report_describes_the_last_used_program():
    model = rows_summed()
    for rows in (2, 3, 2):
        model(filled(rows))
        assert f"x: f32 [{rows}, 4]" in model.report().partitions[0].inputs[0]
    assert "x: f32 [?, 4]" in repr(model)


def doubled(size):
    """An executable with one large result, which has whole pages and a part of one."""
    g = og.Graph()
    x = g.input("x", "f32", (size,))
    g.output("y", g.add(x, x))
    return g.compile()


@pytest.mark.parametrize("size", [(1 << 19) - 16, 1 << 19, (1 << 20) + 1000])
@pytest.mark.library
def test_large_results_have_memory_of_their_own(size):
    model = doubled(size)
    given = [np.full(size, number, np.float32) for number in range(4)]
    for _ in range(3):  # later calls get the memory of results that were freed
        found = [model(x) for x in given]
        assert [(y[0], y[-1]) for y in found] == [(2 * number, 2 * number) for number in range(4)]
        assert not any(np.shares_memory(*pair) for pair in combinations(found, 2))
        assert all(y.flags.writeable and y.ctypes.data % 64 == 0 for y in found)
        view = found[2][1:]
        del found
        model(given[3])
        assert view[0] == view[-1] == 4
    assert pickle.loads(pickle.dumps(view)).tolist() == [4] * (size - 1)


def is_mapped(address):
    ends = (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
    return any(int(begin, 16) <= address < int(end, 16) for begin, end in ends)


@pytest.mark.library
def test_a_gibibyte_of_freed_results_is_kept():
    from onegraph.native.library import new_bytes

    def freed(mebibytes):
        return new_bytes(mebibytes << 20).ctypes.data + (mebibytes << 19)

    assert not is_mapped(freed(1025))
    first, second = freed(600), freed(400)
    assert is_mapped(first)
    assert is_mapped(second)
    third = freed(300)  # the oldest is given back
    assert [is_mapped(address) for address in (first, second, third)] == [False, True, True]
    freed(1020)  # and now all others


@pytest.mark.library
def test_large_results_are_freed_by_any_thread():
    size, model = 1 << 20, doubled(1 << 20)

    def sums(number):
        x = np.full(size, number, np.float32)
        return [float(model(x).sum()) / size for _ in range(8)]

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(sums, range(8))] == [[2.0 * number] * 8 for number in range(8)]


@pytest.mark.library
def test_large_results_that_were_freed_are_used_again():
    size, model = 5 << 20, doubled(5 << 20)
    x = np.ones(size, np.float32)
    model(x)  # Python runs the first call
    assert len({model(x).ctypes.data for _ in range(5)}) == 1


@pytest.mark.parametrize("indices", [[], [7]], ids=["no index", "a bad index"])
@pytest.mark.library
def test_no_elements_are_computed_without_a_step(indices):
    g = og.Graph()
    x, i = g.input("x", og.f32, (4, 0)), g.input("i", og.s64, (len(indices),))
    rows = g.op("Gather", [x, i], {"axis": 0}, edition=HOST)
    total = g.op("Atan", [g.op("Concat", [rows, rows], {"axis": 1}, edition=HOST)], edition=HOST)
    g.output("y", total)
    g.output("sum", g.op("ReduceSum", [total], {"axes": [1], "keep_dims": False}))
    model, arrays = g.compile(), (np.zeros((4, 0), np.float32), np.array(indices, np.int64))
    if indices:
        with pytest.raises(og.ArgumentError, match="7"):
            model(*arrays)
    else:
        y, total = model(*arrays)
        assert (y.shape, total.shape) == ((0, 0), (0,))
        (frame,) = model._programs.only_program().free_frames
        assert not [part for part in frame._active if not isinstance(part, range)]
