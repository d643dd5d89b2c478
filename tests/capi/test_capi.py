"""The one-to-one objects in correct use; test_malformed has the incorrect uses."""

import itertools
import sys
import threading
import weakref

import numpy as np
import pytest
from helpers.executables import in_a_process
from helpers.interrupts import interrupted

import onegraph as og
from onegraph import capi, reference
from onegraph.capi import op_checks
from onegraph.capi.postponed import compile_postponed
from onegraph.native import library

lt = capi.LogicalTensor
CONV = {
    "strides": [1, 1],
    "pads_begin": [1, 1],
    "pads_end": [1, 1],
    "dilations": [1, 1],
    "groups": 1,
    "data_format": "NXC",
    "weights_format": "XIO",
}
RNG = np.random.default_rng(0)


def values(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def conv_relu(weights_property="undef"):
    graph = capi.Graph()
    source, weights = lt(0, "f32", (2, 8, 8, 3)), lt(1, "f32", (3, 3, 3, 4), property=weights_property)
    middle, result = lt(2, "f32", (2, 8, 8, 4)), lt(3, "f32", (2, 8, 8, 4))
    graph.add_op(capi.Op(10, "Convolution", "conv", inputs=[source, weights], outputs=[middle], attrs=CONV))
    graph.add_op(capi.Op(11, "ReLU", "relu", inputs=[middle], outputs=[result]))
    graph.finalize()
    return graph


def expected(x, w):
    graph = og.Graph()
    source, weights = graph.input("x", "f32", x.shape), graph.input("w", "f32", w.shape)
    graph.output("y", graph.relu(graph.op("Convolution", [source, weights], CONV)))
    return reference.run(graph, {"x": x, "w": w})["y"]


def execute(compiled, arrays):
    """Execute with ``arrays`` by id; returns the outputs by id."""
    ins = [capi.Tensor(t, arrays[t.id]) for t in compiled.inputs]
    outs = [capi.Tensor(t, np.empty(t.shape, t.dtype.numpy)) for t in compiled.outputs]
    compiled.execute(capi.Stream(), ins, outs)
    return {t.logical_tensor.id: t.data for t in outs}


def test_fusion_makes_one_partition():
    graph = conv_relu()
    assert graph.finalized
    assert [op.id for op in graph.ops] == [10, 11]
    (partition,) = graph.partitions("fusion")
    assert sorted(partition.ops) == [10, 11]
    assert partition.supported
    assert partition.engine_kind == graph.engine_kind == "cpu"
    assert [t.id for t in partition.input_ports] == [0, 1]
    assert [t.id for t in partition.output_ports] == [3]
    compiled = partition.compile()
    assert compiled.partition is partition
    assert compiled.engine is capi.default_engine()
    x, w = values(2, 8, 8, 3), values(3, 3, 3, 4)
    np.testing.assert_allclose(execute(compiled, {0: x, 1: w})[3], expected(x, w), rtol=1e-4, atol=1e-5)


def test_debug_makes_two_partitions():
    partitions = conv_relu().partitions("debug")
    assert sorted(p.ops for p in partitions) == [(10,), (11,)]
    assert len({p.id for p in partitions}) == 2
    x, w = values(2, 8, 8, 3), values(3, 3, 3, 4)
    arrays = {0: x, 1: w}
    for partition in sorted(partitions, key=lambda p: p.ops):
        arrays.update(execute(partition.compile(), arrays))
    np.testing.assert_allclose(arrays[3], expected(x, w), rtol=1e-4, atol=1e-5)


def test_unknown_shapes_are_inferred_and_layouts_chosen():
    (partition,) = conv_relu().partitions()
    compiled = partition.compile(None, [lt(3, "f32", layout="any")])
    (found,) = compiled.outputs
    assert found.shape == (2, 8, 8, 4)
    assert found.layout == "strided"
    assert found.mem_size == 2 * 8 * 8 * 4 * 4
    assert compiled.query_logical_tensor(3) == found
    assert compiled.query_logical_tensor(0).shape == (2, 8, 8, 3)


def test_constant_weights_in_repeated_executions():
    (partition,) = conv_relu("constant").partitions()
    compiled = partition.compile()
    assert compiled.query_logical_tensor(1).property == "constant"
    x, w = values(2, 8, 8, 3), values(3, 3, 3, 4)
    for _ in range(3):
        np.testing.assert_allclose(execute(compiled, {0: x, 1: w})[3], expected(x, w), rtol=1e-4, atol=1e-5)


def test_compiling_again_keeps_tensors_of_plans():
    """Plans hold the addresses of the C tensors of a partition, which another partition for other constants shares."""
    (partition,) = conv_relu("constant").partitions()
    first = partition.compile()
    x, w = values(2, 8, 8, 3), values(3, 3, 3, 4)
    ports = first._compilation.ports
    second = first._another()
    assert compile_postponed([[second]], 1) == [0]
    assert second._compilation.ports is first._compilation.ports is ports
    for compiled in (first, second):
        np.testing.assert_allclose(execute(compiled, {0: x, 1: w})[3], expected(x, w), rtol=1e-4, atol=1e-5)


def test_partition_from_a_single_op():
    op = capi.Op(5, "reduce_sum", inputs=[lt(0, "f32", (2, 3, 4))], outputs=[lt(1, "f32")], attrs={"axes": [1]})
    partition = capi.Partition.from_op(op)
    assert partition.ops == (5,)
    x = values(2, 3, 4)
    np.testing.assert_allclose(execute(partition.compile(), {0: x})[1], x.sum(1), rtol=1e-5)
    assert "ReduceSum" in repr(partition)


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": [6], "scales": [9.0]},
        {"scales": [9.0], "sizes": [6]},
        {"scales": [9.0], "sizes": None} | {"sizes": [6]},
    ],
    ids=["scales last", "sizes last", "sizes after none"],
)
def test_drops_scales_beside_sizes(changes):
    ends = {"inputs": [lt(0, "f32", (1, 1, 3))], "outputs": [lt(1, "f32")]}
    op = capi.Op(1, "Interpolate", **ends, attrs={"mode": "nearest", "data_format": "NCX"})
    for name, value in changes.items():
        op.set_attr(name, value)
    op.check()
    assert op.attrs == {"mode": "nearest", "data_format": "NCX", "sizes": (6,), "scales": (9.0,)}
    compiled = capi.Partition.from_op(op).compile()
    result = execute(compiled, {0: np.array([[[1, 2, 3]]], np.float32)})[1]
    assert result.tolist() == [[[1, 1, 2, 2, 3, 3]]]


@pytest.mark.parametrize("none", [None, "none"])
def test_scales_count_again_without_sizes(none):
    ends = {"inputs": [lt(0, "f32", (1, 1, 3))], "outputs": [lt(1, "f32")]}
    attrs = {"mode": "nearest", "data_format": "NCX", "sizes": [9], "scales": [2.0]}
    op = capi.Op(1, "Interpolate", **ends, attrs=attrs)
    op.set_attr("sizes", none)
    assert "sizes" not in op.attrs
    compiled = capi.Partition.from_op(op).compile()
    result = execute(compiled, {0: np.array([[[1, 2, 3]]], np.float32)})[1]
    assert result.tolist() == [[[1, 1, 2, 2, 3, 3]]]


def test_executes_in_place():
    op = capi.Op(1, "SoftMax", inputs=[lt(0, "f32", (4, 8))], outputs=[lt(1, "f32", (4, 8))], attrs={"axis": 1})
    compiled = capi.Partition.from_op(op).compile()
    pairs = compiled.inplace_pairs
    x = values(4, 8)
    whole = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    source, result = (capi.Tensor(t, x) for t in (*compiled.inputs, *compiled.outputs))
    if pairs:
        assert pairs == [(0, 1)]
        compiled.execute(capi.Stream(), [source], [result])
        np.testing.assert_allclose(x, whole, rtol=1e-5)
    else:
        with pytest.raises(og.ArgumentError, match="shares memory"):
            compiled.execute(capi.Stream(), [source], [result])


def test_executes_a_fused_add_in_place():
    graph = capi.Graph()
    ts = [lt(0, "f32", (16, 16)), lt(1, "f32", (16, 16)), lt(2, "f32", (16, 16)), lt(3, "f32", (16, 16))]
    graph.add_op(capi.Op(1, "MatMul", inputs=ts[:2], outputs=[ts[2]]))
    graph.add_op(capi.Op(2, "Add", inputs=[ts[2], ts[3]], outputs=[lt(4, "f32", (16, 16))]))
    graph.finalize()
    (partition,) = graph.partitions()
    compiled = partition.compile()
    assert compiled.inplace_pairs == [(3, 4)]
    a, b, c = values(16, 16), values(16, 16), values(16, 16)
    whole = a @ b + c
    tensors = {t.id: capi.Tensor(t, {0: a, 1: b, 3: c, 4: c}[t.id]) for t in (*compiled.inputs, *compiled.outputs)}
    compiled.execute(capi.Stream(), [tensors[0], tensors[1], tensors[3]], [tensors[4]])
    np.testing.assert_allclose(c, whole, rtol=1e-4, atol=1e-5)


def test_allocator_counts_blocks():
    engine = capi.Engine(allocator=capi.Allocator())
    assert isinstance(engine.allocator, capi.Allocator)
    assert (engine.kind, engine.index) == ("cpu", 0)
    assert repr(engine) == "Engine('cpu', 0)"
    assert isinstance(capi.default_engine().allocator, capi.Allocator)
    (partition,) = conv_relu().partitions()
    compiled = partition.compile(engine=engine)
    before = capi.Allocator.live()
    stream = capi.Stream(engine)
    assert stream.engine is engine
    x, w = values(2, 8, 8, 3), values(3, 3, 3, 4)
    ins = [capi.Tensor(t, {0: x, 1: w}[t.id], engine) for t in compiled.inputs]
    outs = [capi.Tensor(t, np.empty(t.shape, np.float32), engine) for t in compiled.outputs]
    for _ in range(5):
        compiled.execute(stream, ins, outs)
    np.testing.assert_allclose(outs[0].data, expected(x, w), rtol=1e-4, atol=1e-5)
    assert capi.Allocator.live() - before <= 1


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does")
def test_later_runs_take_no_fresh_memory_for_large_scratch():
    """A transposed operand of 320 MB is copied to scratch memory, which the first run takes from the system."""
    import resource

    g = og.Graph()
    x, y = g.input("x", "f32", (1024, 80000)), g.input("y", "f32", (1024, 64))
    g.output("z", g.matmul(x, y, transpose_a=True))
    bound = g.compile().bind(np.zeros((1024, 80000), np.float32), np.zeros((1024, 64), np.float32))
    bound.run()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bound.run()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 100


ROOM = """
import resource
import numpy as np
import onegraph as og

g = og.Graph()
x, y, w = g.input("x", "f32", (12000, 1024)), g.input("y", "f32", (1024, 8)), g.input("w", "f32", (1024, 8000))
sums = g.reduce_sum(g.matmul(g.relu(x), y), axes=[0], keep_dims=True)
g.output("product", g.matmul(w, g.add(y, sums), transpose_a=True))
bound = g.compile().bind(*[np.ones(tensor.shape, np.float32) for tensor in g.inputs.values()])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
bound.run()
assert (bound.outputs["product"] == 1024 * (1 + 12000 * 1024)).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory as Linux states it")
def test_large_scratch_lies_where_intermediates_lay():
    """The transposed operand takes 32 MB, and the result of ReLU, which nobody reads then, 49 MB."""
    assert int(in_a_process(ROOM)) < 16 * 1024


def test_engines():
    assert capi.engine_count("cpu") == 1
    assert capi.engine_count("gpu") == 0
    assert capi.default_engine() is capi.default_engine()
    assert capi.Stream().engine is capi.default_engine()


@pytest.mark.parametrize(
    ("tensor", "shape", "ndims", "strides", "size"),
    [
        (lt(1, "f32"), None, None, None, None),
        (lt(1, "f32", ()), (), 0, (), 4),
        (lt(1, "f32", (2, 3)), (2, 3), 2, (3, 1), 24),
        (lt(1, "bf16", (2, 3)), (2, 3), 2, (3, 1), 12),
        (lt(1, "f32", (None, 3)), (None, 3), 2, None, None),
        (lt(1, "f32", (2, 3), layout="any"), (2, 3), 2, None, None),
        (lt(1, "u8", (2, 3), strides=[8, 1]), (2, 3), 2, (8, 1), 16),
        (lt(1, "f32", (0, 3)), (0, 3), 2, (3, 1), 0),
        (lt(1, "f32", (1,) * 12), (1,) * 12, 12, (1,) * 12, 4),
    ],
)
def test_logical_tensor(tensor, shape, ndims, strides, size):
    assert (tensor.id, tensor.shape, tensor.ndims, tensor.strides) == (1, shape, ndims, strides)
    assert tensor.mem_size == size
    assert tensor.layout_id is None
    assert tensor.property == "undef"
    assert repr(tensor).startswith("LogicalTensor(id=1, dtype=")


def test_logical_tensor_equality():
    assert lt(1, "f32", (2, 3)) == lt(1, "f32", [2, 3], strides=(3, 1))
    assert hash(lt(1, "f32", (2, 3))) == hash(lt(1, "f32", (2, 3)))
    assert lt(1, "f32", (2, 3)) != lt(2, "f32", (2, 3))
    assert lt(1, "f32", (2, 3)) != lt(1, "f16", (2, 3))
    assert lt(1, "f32", (2, 3)) != lt(1, "f32", (2, 3), layout="any")
    assert lt(1, "f32", (2, 3)) != "lt"


def test_all_six_kinds_of_attribute():
    op = capi.Op(1, "Interpolate")
    op.set_attr("mode", "nearest")
    op.set_attr("scales", [2.0, 2])
    op.set_attr("sizes", np.array([8, 8]))
    assert op.attrs == {"mode": "nearest", "scales": (2.0, 2.0), "sizes": (8, 8)}
    op = capi.Op(2, "LayerNorm", attrs={"epsilon": 0.5, "begin_norm_axis": -1, "keep_stats": False})
    op.set_attr("epsilon", 0.25)
    assert op.attrs == {"epsilon": 0.25, "begin_norm_axis": -1, "keep_stats": False}


def test_attributes_reach_the_library():
    x = values(3, 4)
    for attrs, wanted in (({"alpha": 0.5}, np.where(x > 0, x, 0.5 * x)), ({"alpha": 0.0}, np.maximum(x, 0))):
        op = capi.Op(1, "LeakyReLU", inputs=[lt(0, "f32", (3, 4))], outputs=[lt(1, "f32")], attrs=attrs)
        np.testing.assert_allclose(execute(capi.Partition.from_op(op).compile(), {0: x})[1], wanted, rtol=1e-6)


def test_op_properties():
    op = capi.Op(7, "conv_transpose", "up")
    assert (op.id, op.kind, op.name) == (7, "ConvTranspose", "up")
    assert op.schema.kind == "ConvTranspose"
    assert (op.inputs, op.outputs, op.attrs) == ((), (), {})
    tensor = lt(0, "f32", (1, 2, 3, 3))
    op.add_input(tensor)
    op.add_output(lt(1, "f32"))
    assert op.inputs == (tensor,)
    assert len(op.outputs) == 1
    assert repr(op) == "Op(7, 'ConvTranspose', 'up')"


def test_tensor_handles():
    first, second = values(4), values(4)
    tensor = capi.Tensor(lt(0, "f32", (4,)), first)
    assert tensor.data is first
    assert tensor.data_handle == tensor.address == first.ctypes.data
    assert tensor.engine is capi.default_engine()
    assert (tensor.nbytes, tensor.writable) == (16, True)
    tensor.set_data_handle(second)
    assert tensor.data is second
    assert tensor.data_handle == second.ctypes.data
    with pytest.raises(og.ArgumentError):
        tensor.set_data_handle(values(3))
    assert tensor.data_handle == second.ctypes.data
    second.flags.writeable = False
    assert not tensor.writable
    with pytest.raises(AttributeError):
        tensor.nbytes = 10**9


def test_fpmath_mode():
    graph = capi.Graph(fpmath_mode="bf16")
    assert graph.fpmath_mode == "bf16"
    x, y = values(32, 32), values(32, 32)
    graph.add_op(capi.Op(1, "MatMul", inputs=[lt(0, "f32", (32, 32)), lt(1, "f32", (32, 32))], outputs=[lt(2, "f32")]))
    graph.finalize()
    found = execute(graph.partitions()[0].compile(), {0: x, 1: y})[2]
    np.testing.assert_allclose(found, x @ y, atol=0.2)


def test_strided_tensors():
    x = np.asfortranarray(values(4, 6))
    op = capi.Op(1, "Exp", inputs=[lt(0, "f32", (4, 6), strides=(1, 4))], outputs=[lt(1, "f32", (4, 6))])
    np.testing.assert_allclose(execute(capi.Partition.from_op(op).compile(), {0: x})[1], np.exp(x), rtol=1e-5)


def test_strided_tensors_may_interleave_in_memory():
    memory = np.arange(16, dtype=np.float32) - 4
    ends = [lt(number, "f32", (2, 3), strides=(5, 1)) for number in range(2)]
    compiled = capi.Partition.from_op(capi.Op(1, "ReLU", inputs=ends[:1], outputs=ends[1:])).compile()
    first, second = (np.lib.stride_tricks.as_strided(memory[at:], (2, 3), (20, 4)) for at in (0, 8))
    source, result = capi.Tensor(ends[0], first), capi.Tensor(ends[1], second)
    compiled.execute(capi.Stream(), [source], [result])
    assert memory.tolist() == [-4, -3, -2, -1, 0, 1, 2, 3, 0, 0, 0, 7, 8, 1, 2, 3]
    for at in (7, 4):  # the tensors are adjacent, or interleaved
        result.set_data_handle(np.lib.stride_tricks.as_strided(memory[at:], (2, 3), (20, 4)))
        with pytest.raises(og.ArgumentError, match="shares memory"):
            compiled.execute(capi.Stream(), [source], [result])


def test_bf16():
    x = values(4, 6).astype(og.bf16.numpy)
    op = capi.Op(1, "Abs", inputs=[lt(0, "bf16", (4, 6))], outputs=[lt(1, "bf16", (4, 6))])
    partition = capi.Partition.from_op(op)
    if "bf16" not in og.version_info()["cpu_dtypes"]:
        with pytest.raises(og.LibraryRuntimeError, match="could not create a primitive descriptor") as refusal:
            partition.compile()
        wanted = f": this CPU ({og.version_info()['cpu_isa']}) has no bf16; a onegraph.Graph computes in f32 there"
        assert str(refusal.value).endswith(f"Partition({partition.id}: Abs){wanted}")
        return
    np.testing.assert_array_equal(execute(partition.compile(), {0: x})[1], abs(x))


@pytest.mark.parametrize("strides", [(3, 1, 3, 1), (6, 1, 3, 1), (1, 1, 3, 7), (40, 1, 3, 40)], ids=str)
def test_ignores_strides_of_size_one_axes(strides):
    ends = lt(0, "f32", (1, 3, 8, 2)), lt(1, "f32", (1, 3, 2, 1)), lt(2, "f32", (1, 3, 8, 1))
    graph = capi.Graph()
    graph.add_op(capi.Op(1, "MatMul", inputs=ends[:2], outputs=ends[2:]))
    graph.finalize()
    compiled = graph.partitions("debug")[0].compile([ends[0], lt(1, "f32", (1, 3, 2, 1), strides=strides)])
    x, w = values(1, 3, 8, 2), values(2, 3)
    result = execute(compiled, {0: x, 1: np.concatenate([w.ravel(), np.zeros(42, np.float32)])})[2]
    np.testing.assert_allclose(result, x @ w.T[None, :, :, None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strides", [(1, 3, 1), (1, 4, 4), (1, 9, 7)], ids=str)
def test_softmax_over_one_element_writes_no_other_memory(strides):
    ends = lt(0, "f32", (3, 1, 1)), lt(1, "f32", (3, 1, 1))
    op = capi.Op(1, "SoftMax", inputs=ends[:1], outputs=ends[1:], attrs={"axis": 2})
    compiled = capi.Partition.from_op(op).compile(None, [lt(1, "f32", (3, 1, 1), strides=strides)])
    memory = np.full(30, 7, np.float32)
    result = capi.Tensor(compiled.outputs[0], memory[:3])
    compiled.execute(capi.Stream(), [capi.Tensor(compiled.inputs[0], values(3, 1, 1))], [result])
    np.testing.assert_array_equal(memory, [1] * 3 + [7] * 27)


def test_repeated_port_tensor_is_passed_once_or_twice():
    graph, (a, b) = capi.Graph(), (lt(number, "f32", (4, 4)) for number in range(2))
    graph.add_op(capi.Op(0, "MatMul", inputs=[a, a], outputs=[b]))
    graph.finalize()
    (partition,) = graph.partitions()
    assert partition.input_ports == [a, a]
    x, y = values(4, 4), np.empty((4, 4), np.float32)
    source, other, target = capi.Tensor(a, x), capi.Tensor(a, x.copy()), capi.Tensor(b, y)
    for compiled in (partition.compile([a]), partition.compile(partition.input_ports)):
        for given in ([source], [source, source]):
            y[...] = 0
            compiled.execute(capi.Stream(), given, [target])
            np.testing.assert_allclose(y, x @ x, rtol=1e-4, atol=1e-4)
        for given in ([source] * 3, [source, other], []):
            with pytest.raises(og.ArgumentError, match=r"inputs: tensors .*; expected \[0\], each once"):
                compiled.execute(capi.Stream(), given, [target])
    for given in ([a] * 3, [a, lt(0, "f32", (4, 4), strides=(1, 4))], []):
        with pytest.raises(og.ArgumentError, match=r"inputs: tensors .*; expected \[0\], each once"):
            partition.compile(given)


def test_column_with_a_short_stride():
    ends = lt(0, "f32", (1, 4, 1, 3)), lt(1, "f32", (1, 4, 3, 1)), lt(2, "f32", (1, 4, 1, 1))
    graph = capi.Graph()
    graph.add_op(capi.Op(1, "MatMul", inputs=ends[:2], outputs=ends[2:]))
    graph.finalize()
    compiled = graph.partitions("debug")[0].compile([ends[0], lt(1, "f32", (1, 4, 3, 1), strides=(2, 3, 1, 2))])
    x, w = values(1, 4, 1, 3), values(1, 4, 3, 1)
    np.testing.assert_allclose(execute(compiled, {0: x, 1: w})[2], x @ w, rtol=1e-4, atol=1e-5)


# Constants, subclasses, repeated initialization -----------------------------------------------------------------------


def product(*constant, shape=(16, 16)):
    """A compiled product of two matrices; the inputs in ``constant`` are constant."""
    ends = [lt(n, "f32", shape, property="constant" if n in constant else "undef") for n in range(3)]
    graph = capi.Graph()
    graph.add_op(capi.Op(1, "MatMul", inputs=ends[:2], outputs=ends[2:]))
    graph.finalize()
    return graph.partitions("debug")[0].compile()


def test_recomputes_results_of_constants_alone():
    compiled, x = product(0, 1), values(16, 16)
    assert [tensor.property for tensor in compiled.inputs] == ["variable", "variable"]
    for factor in (1, 2, 3):
        whole = execute(compiled, {0: factor * x, 1: x})[2]
        np.testing.assert_allclose(whole, factor * x @ x, rtol=1e-4, atol=1e-4)


def test_checks_constants_in_every_execution():
    compiled, x, w = product(1), values(16, 16), values(16, 16)
    whole = x @ w
    for weights in (w, w, w.copy(), np.concatenate([w, w])):  # memory behind the tensor is ignored
        np.testing.assert_allclose(execute(compiled, {0: x, 1: weights})[2], whole, rtol=1e-4, atol=1e-4)
    w[3, 4] += 1
    if not capi.get_constant_tensor_cache():  # the library caches nothing
        np.testing.assert_allclose(execute(compiled, {0: x, 1: w})[2], x @ w, rtol=1e-4, atol=1e-4)
        return
    with pytest.raises(og.ArgumentError, match="tensor 1 is constant"):
        execute(compiled, {0: x, 1: w})
    w[3, 4] -= 1
    before = product(1)
    execute(before, {0: x, 1: w})
    w += 1  # a change in place is refused, not computed with the old elements
    with pytest.raises(og.ArgumentError, match="tensor 1 is constant"):
        execute(before, {0: x, 1: w.copy()})


def test_compares_constants_by_elements_in_any_layout():
    ends = [lt(n, "f32", (16, 16), property="constant" if n == 1 else "undef") for n in range(3)]
    graph = capi.Graph()
    graph.add_op(capi.Op(1, "MatMul", inputs=ends[:2], outputs=ends[2:]))
    graph.finalize()
    upright = lt(1, "f32", (16, 16), strides=(1, 16), property="constant")
    compiled = graph.partitions("debug")[0].compile([ends[0], upright])
    x, w = values(16, 16), values(16, 16)
    np.testing.assert_allclose(execute(compiled, {0: x, 1: w})[2], x @ w.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(execute(compiled, {0: x, 1: w.T})[2], x @ w.T, rtol=1e-4, atol=1e-4)
    other = np.asfortranarray(w)  # in row-major order it has the bytes of the constant before
    if not capi.get_constant_tensor_cache():
        np.testing.assert_allclose(execute(compiled, {0: x, 1: other})[2], x @ w, rtol=1e-4, atol=1e-4)
        return
    with pytest.raises(og.ArgumentError, match="tensor 1 is constant"):
        execute(compiled, {0: x, 1: other})


@pytest.mark.skipif(not capi.get_constant_tensor_cache(), reason="the library keeps nothing of constants")
def test_refused_execution_records_no_constants():
    graph = capi.Graph()
    ends = [lt(0, "f32"), lt(1, "f32", property="constant"), lt(2, "f32", property="constant"), lt(3, "f32")]
    graph.add_op(capi.Op(1, "MatMul", inputs=ends[:3], outputs=ends[3:]))
    graph.finalize()
    (partition,) = graph.partitions("debug")

    def compiled(depth):
        shapes = [(4, depth), (depth, 8), (8,)]
        return partition.compile([lt(n, "f32", shape, property=ends[n].property) for n, shape in enumerate(shapes)])

    bias, x, w = values(8), values(4, 6), values(6, 8)
    execute(compiled(3), {0: values(4, 3), 1: values(3, 8), 2: bias})
    product = compiled(6)
    with pytest.raises(og.ArgumentError, match="tensor 2 is constant"):
        execute(product, {0: x, 1: values(6, 8), 2: bias + 1})
    np.testing.assert_allclose(execute(product, {0: x, 1: w, 2: bias})[3], x @ w + bias, rtol=1e-4, atol=1e-4)


class Boastful(np.ndarray):
    nbytes = 10**9
    dtype = np.dtype(np.float32)
    __array_interface__ = {"data": (8, False)}  # noqa: RUF012


def test_ignores_overridden_attributes_of_array_subclasses():
    tensor = lt(0, "f32", (64,))
    array = values(64)
    assert capi.Tensor(tensor, array.view(Boastful)).address == array.ctypes.data
    with pytest.raises(og.ArgumentError, match="expected a C-contiguous array of 256 bytes"):
        capi.Tensor(tensor, values(4).view(Boastful))
    with pytest.raises(og.ArgumentError, match="an array of uint8"):
        capi.Tensor(tensor, np.zeros(256, np.uint8).view(Boastful))
    masked = np.ma.masked_array(array, array > 0)
    assert capi.Tensor(tensor, masked).data is masked


class Agreeable(int):
    """A number that passes every comparison with a limit."""

    __le__ = __ge__ = __lt__ = __gt__ = lambda self, other: True


class Other(int):
    """A number whose conversion gives another number."""

    __int__ = __index__ = lambda self: -3


class Growing(list):
    """A list that is longer when it is read again."""

    def __iter__(self):
        self.extend(self[:])
        return super().__iter__()


def test_converts_numbers_and_lists_of_subclasses_once():
    for make in (
        lambda: lt(0, "f32", (4,), strides=(Agreeable(-7),)),
        lambda: lt(0, "f32", (Agreeable(-5),)),
        lambda: lt(Agreeable(-1), "f32"),
        lambda: capi.set_num_threads(Agreeable(10**9)),
        lambda: lt(0, "f32", (2, 3), strides=Growing([3, 1])),
    ):
        with pytest.raises(og.OneGraphError):
            make()
    tensor = lt(0, "f32", (Other(4),), strides=(Other(1),))
    assert (tensor.shape, tensor.strides) == ((4,), (1,))
    assert lt(0, "f32", [2, 3], strides=[3, 1]).strides == (3, 1)
    assert len(capi.Op(1, "Add", inputs=Growing([tensor])).inputs) == 2


class Any(str):
    """A string that equals every other string, and formats as another string."""

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__
    __ne__ = __add__ = replace = encode = lambda self, *_, **__: 0


def test_reads_string_subclasses_by_their_characters():
    for make in (
        lambda: lt(0, "f32", (4,), layout=Any("opaque")),
        lambda: lt(0, "f32", (4,), property=Any("changeable")),
        lambda: capi.Graph(fpmath_mode=Any("loose")),
        lambda: capi.Engine(Any("tpu")),
    ):
        with pytest.raises(og.ArgumentError):
            make()
    tensor = lt(0, "f32", (4,), layout=Any("any"), property=Any("constant"))
    assert (type(tensor.layout), type(tensor.property)) == (str, str)
    graph = capi.Graph(fpmath_mode=Any("bf16"))
    assert (type(graph.engine_kind), type(graph.fpmath_mode)) == (str, str)
    assert capi.Op(1, "ReLU", Any("first")).name is not None
    g = og.Graph()
    g.output("y", g.relu(g.abs(g.input("x", "f32", (2,)), name=Any("first")), name=Any("second")))
    assert g.compile(policy="debug")(np.array([-1, 2], np.float32)).tolist() == [1, 2]


CLASSES = [
    capi.Allocator,
    capi.CompiledPartition,
    capi.Engine,
    capi.Graph,
    capi.LogicalTensor,
    capi.Op,
    capi.Partition,
    capi.Stream,
    capi.Tensor,
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_classes_cannot_be_subclassed(kind):
    with pytest.raises(TypeError, match=f"a {kind.__name__} of onegraph.capi cannot be subclassed"):
        type("Own", (kind,), {})


def test_objects_cannot_be_initialized_twice():
    (partition,) = conv_relu().partitions()
    compiled, tensor = partition.compile(), lt(0, "f32", (4,))
    array = values(4)
    data = capi.Tensor(tensor, array)
    for made, arguments in (
        (tensor, (1, "s8", (2**40,))),
        (data, (lt(0, "f32", (2,)), values(2))),
        (capi.Op(1, "Exp", inputs=[tensor]), (1, "MatMul")),
        (conv_relu(), ()),
        (capi.Stream(), ()),
        (capi.default_engine(), ()),
        (partition, (None, {})),
        (compiled, (partition,)),
    ):
        with pytest.raises(og.StateError, match="is made; make another one"):
            made.__init__(*arguments)
    assert (tensor.shape, data.data, data.nbytes) == ((4,), array, 16)
    late = capi.Tensor.__new__(capi.Tensor)
    with pytest.raises(og.ArgumentError):
        late.__init__(tensor, values(2))
    late.__init__(tensor, array)  # the first call initialized nothing
    assert late.address == data.address


def test_two_threads_cannot_initialize_one_object():
    """A race would mix both initializations: a shape of 64 with an array of 8."""
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ends = [(lt(0, "f32", (size,)), values(size)) for size in (8, 64)]
    try:
        for _ in range(200):
            made, start, refused = capi.Tensor.__new__(capi.Tensor), threading.Barrier(2), []

            def make(arguments, made=made, start=start, refused=refused):
                start.wait()
                try:
                    made.__init__(*arguments)
                except og.StateError as error:
                    refused.append(str(error))

            threads = [threading.Thread(target=make, args=(arguments,)) for arguments in ends]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(refused) == 1
            made.check()
            assert made.nbytes == made.data.nbytes
    finally:
        sys.setswitchinterval(switching)


FORKS = """
import os, sys, threading
import numpy as np
import onegraph as og
from onegraph import capi

lt = capi.LogicalTensor
window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1], "weights_format": "OIX"}
window["data_format"] = "NCX"
x, w = lt(0, "f32", (2, 16, 16, 16)), lt(1, "f32", (16, 16, 3, 3))
if sys.argv[1] == "gradient":
    window["weights_shape"] = w.shape
    op = capi.Op(1, "ConvolutionBackwardWeights", inputs=[x, lt(2, "f32", x.shape)], outputs=[w], attrs=window)
else:
    op = capi.Op(1, "Convolution", inputs=[x, w], outputs=[lt(2, "f32", x.shape)], attrs=window)
partition = capi.Partition.from_op(op)


def executed(compiled):
    ends = [capi.Tensor(t, np.ones(t.shape, np.float32)) for t in (*compiled.inputs, *compiled.outputs)]
    compiled.execute(capi.Stream(), ends[:2], ends[2:])
    return ends[2].data


with og.num_threads(2):
    compiled = partition.compile()
    wanted = executed(compiled)
child = os.fork()
if not child:
    try:
        executed(compiled)
    except og.StateError as error:
        print(error, flush=True)
    print(np.allclose(executed(partition.compile()), wanted), flush=True)
    if sys.argv[1] != "gradient":
        thread = threading.Thread(target=lambda: print(np.allclose(executed(compiled), wanted), flush=True))
        thread.start()
        thread.join()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(library.RUNTIME != "OpenMP", reason="threads can be set for OpenMP only")
@pytest.mark.parametrize("what", ["convolution", "gradient"])
def test_forked_child_refuses_kernels_for_lost_threads(what):
    refusal, *right = in_a_process(FORKS, what).splitlines()
    assert "before a fork" in refusal if what == "gradient" else "compile it again here" in refusal
    assert right == ["True"] * (1 if what == "gradient" else 2)


# Calls that would crash or hang without a check, each in another process ----------------------------------------------

PRELUDE = """
import faulthandler, itertools, random, signal, sys, threading, time, weakref
import numpy as np
import onegraph as og
from onegraph import capi

faulthandler.dump_traceback_later(60, exit=True)


def lt(number, shape=(4, 4), **options):
    return capi.LogicalTensor(number, "f32", shape, **options)


def graph_of(*ops):
    graph = capi.Graph()
    for op in ops:
        graph.add_op(op)
    graph.finalize()
    return graph


def relu(number, source, target):
    return capi.Op(number, "ReLU", inputs=[source], outputs=[target])


def refused(error, text, function, *arguments):
    try:
        function(*arguments)
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError("nothing was raised")
"""


def alone(script, threads=1):
    setting = f"\nog.set_num_threads({threads})\n" if library.RUNTIME == "OpenMP" else ""
    in_a_process(PRELUDE + setting + script)


def test_op_belongs_to_one_graph_or_partition():
    alone("""
first, second = relu(0, lt(0), lt(1)), relu(1, lt(1), lt(2))
graph = capi.Graph()
graph.add_op(first)
refused(og.StateError, "part of a graph or partition", capi.Partition.from_op, first)
graph.add_op(second)
graph.finalize()
for op in graph.ops:
    refused(og.StateError, "part of a graph or partition", capi.Partition.from_op, op)
del graph
refused(og.StateError, "part of a graph or partition", capi.Partition.from_op, first)
third = relu(2, lt(0), lt(1))
partition = capi.Partition.from_op(third)
refused(og.StateError, "part of a graph or partition", capi.Partition.from_op, third)
refused(og.StateError, "part of a graph or partition", capi.Graph().add_op, third)
partition.compile()
""")


@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("inputs", ["undef", "constant"])
def test_computed_tensors_are_never_constant(policy, inputs):
    alone(f"""
ends = [lt(0), lt(1, property={inputs!r}), lt(2, property="constant"), lt(3, property="constant")]
graph = graph_of(
    capi.Op(0, "MatMul", inputs=ends[:2], outputs=ends[2:3]),
    capi.Op(1, "Multiply", inputs=[ends[2], ends[2]], outputs=ends[3:]),
)
compiled = [partition.compile() for partition in graph.partitions({policy!r})]
assert all(tensor.property != "constant" for one in compiled for tensor in one.outputs)
(last,) = [p for p in graph.partitions({policy!r}) if 3 in p.output_ids]
last.compile(None, ends[3:])
stream, w = capi.Stream(), np.eye(4, dtype=np.float32)
for factor in (1, 2, 3):
    arrays = [np.full((4, 4), factor, np.float32), w, *(np.zeros((4, 4), np.float32) for _ in range(2))]
    for one in compiled:
        ins, outs = ([capi.Tensor(t, arrays[t.id]) for t in tensors] for tensors in (one.inputs, one.outputs))
        one.execute(stream, ins, outs)
    assert (arrays[3] == factor**2).all(), arrays[3]
""")


def test_constant_must_be_produced_before_it_is_read():
    alone("""
(partition,) = graph_of(
    capi.Op(0, "Add", inputs=[lt(0), lt(0)], outputs=[lt(1, property="constant")]),
    capi.Op(1, "Multiply", inputs=[lt(1, property="constant")] * 2, outputs=[lt(2)]),
).partitions()
partition.compile()
""")
    graph, middle = capi.Graph(), lt(1, "f32", (4,), property="constant")
    graph.add_op(capi.Op(1, "ReLU", inputs=[middle], outputs=[lt(2, "f32", (4,))]))
    with pytest.raises(og.ArgumentError, match="the op that produces a tensor before those that read it"):
        graph.add_op(capi.Op(0, "Exp", inputs=[lt(0, "f32", (4,))], outputs=[middle]))
    assert len(graph.ops) == 1


@pytest.mark.skipif(library.RUNTIME == "SYCL", reason="no kernel of it belongs to a thread")
def test_thread_affine_kernels_are_not_cached():
    alone(
        """
capi.set_compiled_partition_cache_capacity(16)
x, w = lt(0, (8, 64, 28, 28)), lt(2, (64, 64, 3, 3))
window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1], "weights_shape": w.shape}
window.update(data_format="NCX", weights_format="OIX")
ends = [x, lt(1, x.shape)]
(partition,) = graph_of(capi.Op(0, "ConvolutionBackwardWeights", inputs=ends, outputs=[w], attrs=window)).partitions()
arrays = [np.random.default_rng(n).random(x.shape, np.float32) for n in range(2)]
found = []


def work():
    compiled, out = partition.compile(), capi.Tensor(w, np.zeros(w.shape, np.float32))
    assert compiled.is_thread_bound
    for _ in range(10):
        ins = [capi.Tensor(t, array) for t, array in zip(ends, arrays, strict=True)]
        compiled.execute(capi.Stream(), ins, [out])
        found.append(out.data.copy())


work()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 50
assert all(np.allclose(one, found[0], rtol=1e-3, atol=1) for one in found)
assert capi.get_compiled_partition_cache_capacity() == 16
""",
        threads=2,
    )


def test_interrupted_set_data_handle_keeps_one_array():
    alone("""
ends = [lt(0, (64, 64)), lt(1, (64, 64))]
compiled, stream = graph_of(relu(0, *ends)).partitions()[0].compile(), capi.Stream()
source, target = (capi.Tensor(tensor, np.ones(tensor.shape, np.float32)) for tensor in ends)
armed = False


def interrupt(*_):
    if armed:
        raise KeyboardInterrupt


signal.signal(signal.SIGALRM, interrupt)
deadline = time.monotonic() + 1
while time.monotonic() < deadline:
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.random() * 4e-5 + 1e-6)
        target.set_data_handle(np.empty((64, 64), np.float32))
        armed = False
    except KeyboardInterrupt:
        armed = False
    compiled.execute(stream, [source], [target])
    assert (target.data == 1).all()
    assert target.data_handle == target.address == target.data.ctypes.data
""")


def test_interrupted_op_change_is_atomic():
    ends = [lt(number, "f32", (2, 3)) for number in range(2)]
    for step in itertools.count():
        op = capi.Op(1, "SoftMax")
        changes = [
            lambda op=op: op.add_input(ends[0]),
            lambda op=op: op.set_attr("axis", 1),
            lambda op=op: op.add_output(ends[1]),
        ]

        def work(changes=changes):
            while changes:
                changes[0]()
                del changes[0]

        was_interrupted = interrupted(work, step)
        if changes and not (op.inputs, op.attrs, op.outputs)[3 - len(changes)]:
            changes[0]()
        for change in changes[1:]:
            change()
        compiled = capi.Partition.from_op(op).compile()
        result = capi.Tensor(compiled.outputs[0], np.empty((2, 3), np.float32))
        compiled.execute(capi.Stream(), [capi.Tensor(compiled.inputs[0], np.ones((2, 3), np.float32))], [result])
        assert result.data == pytest.approx(1 / 3)  # softmax of three elements along axis 1
        if step and not was_interrupted:
            break
    assert step > 10


def test_a_partition_gets_an_op_without_what_an_interrupted_change_left():
    ends = [lt(number, "f32", (2, 3)) for number in range(3)]
    op = capi.Op(1, "SoftMax", inputs=ends[:1], outputs=ends[1:2])
    library.lib.dnnl_graph_op_add_output(op._ptr, ends[2]._struct)  # which the op itself does not know of
    op._is_in_sync = False
    assert [port.id for port in capi.Partition.from_op(op).output_ports] == [1]


def test_interrupted_add_op_is_atomic():
    for step in itertools.count():  # step 0 has no interrupt and fills the caches of such ops
        graph = capi.Graph()
        ends = [lt(number, "f32", (2, 3)) for number in range(3)]
        ops = [capi.Op(1, kind, inputs=ends[:1], outputs=ends[1:2]) for kind in ("ReLU", "Exp")]
        was_interrupted = interrupted(lambda graph=graph, ops=ops: graph.add_op(ops[0]), step)
        if not graph.ops:
            graph.add_op(ops[1])  # the library ignores an op whose id is taken
        graph.finalize()
        (partition,) = graph.partitions()
        compiled = partition.compile()
        result = capi.Tensor(compiled.outputs[0], np.empty((2, 3), np.float32))
        compiled.execute(capi.Stream(), [capi.Tensor(compiled.inputs[0], np.ones((2, 3), np.float32))], [result])
        assert result.data == pytest.approx({"ReLU": 1, "Exp": np.e}[graph.ops[0].kind])
        if step and not was_interrupted:
            break
    assert step > 10


def test_view_of_a_tensor_keeps_its_memory():
    base = np.ones(64, np.float32)
    tensor = capi.Tensor(lt(0, "f32", (8, 8)), base.reshape(8, 8))
    with pytest.raises(ValueError, match="cannot resize"):
        base.resize(1, refcheck=False)
    tensor.set_data_handle(values(8, 8))
    base.resize(1, refcheck=False)


def test_rejects_weak_proxies():
    tensor = lt(0, "f32", (4,))
    op, data = capi.Op(1, "Exp", inputs=[tensor], outputs=[lt(1, "f32", (4,))]), capi.Tensor(tensor, values(4))
    compiled = capi.Partition.from_op(op).compile()
    for call in (
        lambda: capi.Graph().add_op(weakref.proxy(op)),
        lambda: capi.Partition.from_op(weakref.proxy(op)),
        lambda: compiled.execute(capi.Stream(), [weakref.proxy(data)], []),
        lambda: compiled.execute(weakref.proxy(capi.Stream()), [data], []),
    ):
        with pytest.raises(og.ArgumentError, match="weakproxy"):
            call()


def test_signal_handlers_and_reprs_do_not_deadlock():
    alone("""
class Loud:
    def __repr__(self):
        data.set_data_handle(np.zeros(4, np.float32))
        return "loud"


ends = [lt(0, (4,)), lt(1, (4,))]
data = capi.Tensor(ends[0], np.ones(4, np.float32))
refused(og.ArgumentError, "loud", data.set_data_handle, Loud())
assert (data.data == 0).all()

graph = capi.Graph()
compiled, stream = graph_of(relu(0, *ends)).partitions()[0].compile(), capi.Stream()
tensors, others = ([capi.Tensor(tensor, np.ones(4, np.float32)) for tensor in ends] for _ in range(2))
count, ids = 0, itertools.count(1)


def add():
    number = next(ids)
    graph.add_op(relu(number, lt(2 * number), lt(2 * number + 1)))


def handler(*_):
    global count
    count += 1
    compiled.execute(stream, others[:1], others[1:])
    try:
        add()
        others[0].set_data_handle(np.ones(4, np.float32))
        tensors[0].set_data_handle(np.ones(4, np.float32))
    except og.StateError as error:
        assert "in the midst" in str(error) or "in use by an execution" in str(error)


signal.signal(signal.SIGALRM, handler)
deadline = time.monotonic() + 1
while time.monotonic() < deadline:
    signal.setitimer(signal.ITIMER_REAL, random.random() * 1e-4 + 1e-6)
    compiled.execute(stream, tensors[:1], tensors[1:])
    add()
signal.setitimer(signal.ITIMER_REAL, 0)
assert count > 10
""")


def test_examines_refused_ops_in_two_editions(monkeypatch):
    editions, examine = set(), op_checks.infer_op

    def noted(*arguments, edition, **options):
        editions.add(edition.name)
        return examine(*arguments, edition=edition, **options)

    monkeypatch.setattr(op_checks, "infer_op", noted)
    with pytest.raises(og.SpecError, match="axis: 7"):
        capi.Graph().add_op(
            capi.Op(1, "SoftMax", inputs=[lt(0, "f32", (2, 3))], outputs=[lt(1, "f32")], attrs={"axis": 7})
        )
    assert editions == {op_checks.EDITION.name, "onednn-3.13"}
