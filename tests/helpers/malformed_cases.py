"""Calls with one malformed argument each, in batches, and the exception that each must raise.

The cases are those that crash, hang or compute wrong through the plain C API of oneDNN 3.2.0.
"""

import collections
import copy
import os
import pickle
import signal
import threading

import numpy as np

import onegraph as og
from onegraph import capi, reference
from onegraph.native import library

ok = None  # in place of an exception: the call is valid
CASES = collections.defaultdict(list)


def case(batch, name, error, *parts):
    """Register a function: it raises exactly ``error`` with all ``parts`` in its message, or returns."""

    def register(function):
        CASES[batch].append((name, error, parts, function))
        return function

    return register


def lt(number, shape, dtype="f32", **options):
    return capi.LogicalTensor(number, dtype, shape, **options)


def relu(number=1, source=0, target=1, shape=(8,), kind="ReLU", **options):
    return capi.Op(number, kind, inputs=[lt(source, shape, **options)], outputs=[lt(target, shape, **options)])


def graph_of(*ops, finalize=True):
    graph = capi.Graph()
    for op in ops:
        graph.add_op(op)
    if finalize:
        graph.finalize()
    return graph


def partition_of(*ops, policy="debug"):
    return graph_of(*ops).partitions(policy)[0]


def subtract(shape=(8,)):
    return capi.Op(1, "Subtract", inputs=[lt(0, shape), lt(1, shape)], outputs=[lt(2, shape)])


def array(shape=(8,), dtype=np.float32):
    return np.ones(shape, dtype)


def tensors(compiled):
    return [
        [capi.Tensor(t, np.ones(t.shape, t.dtype.numpy)) for t in side] for side in (compiled.inputs, compiled.outputs)
    ]


# The graph -----------------------------------------------------------------------------------------------------------


def later(since, *parts):
    """The expected outcome of a feature since a version: no error, or UnsupportedError."""
    return (ok,) if since <= library.VERSION else (U, *parts)


A, S, E, U, T = og.ArgumentError, og.StateError, og.SpecError, og.UnsupportedError, TypeError
case("graph", "repeated id", A, "op id 1 is taken")(lambda: graph_of(relu(), relu(1, 1, 2)))
case("graph", "other kind, repeated id", A, "op id 1")(lambda: graph_of(relu(), relu(1, 1, 2, kind="Exp")))
case("graph", "other dims", A, "tensor 1", "as an earlier op has it")(
    lambda: graph_of(relu(), relu(2, 1, 2, shape=(4,)))
)
case("graph", "unknown and known rank", A, "tensor 1")(lambda: graph_of(relu(shape=None), relu(2, 1, 2)))
case("graph", "unknown and known dim", A, "tensor 1")(lambda: graph_of(relu(shape=(None,)), relu(2, 1, 2)))
case("graph", "other layout", A, "tensor 1", "layout")(lambda: graph_of(relu(layout="any"), relu(2, 1, 2)))
case("graph", "other property", A, "tensor 1")(lambda: graph_of(relu(property="constant"), relu(2, 1, 2)))
case("graph", "other dtype", A, "tensor 1")(lambda: graph_of(relu(dtype="bf16"), relu(2, 1, 2)))
case("graph", "two producers", A, "tensor 1 is produced twice")(lambda: graph_of(relu(), relu(2, 5, 1, kind="Exp")))
case("graph", "cycle", A, "cycle")(lambda: graph_of(relu(), relu(2, 1, 0, kind="Exp")))
case("graph", "cycle with a consumer", A, "cycle")(
    lambda: graph_of(relu(), relu(2, 1, 0, kind="Exp"), relu(3, 1, 2, kind="Abs"))
)
case("graph", "self loop", A, "cycle")(lambda: graph_of(relu(1, 0, 0)))
case("graph", "self loop in from_op", A, "id of its own")(lambda: capi.Partition.from_op(relu(1, 0, 0)))
TWO_OF_ONE_ID = {"inputs": [lt(0, (2, 3)), lt(0, (3,))], "outputs": [lt(1, None)]}
case("graph", "two tensors of one id", A, "tensor 0", "as another port of the op has it")(
    lambda: graph_of(capi.Op(1, "Add", **TWO_OF_ONE_ID))
)
case("graph", "two tensors of one id in from_op", A, "tensor 0", "as another port of the op has it")(
    lambda: capi.Partition.from_op(capi.Op(1, "Add", **TWO_OF_ONE_ID))
)
case("graph", "empty graph", ok)(lambda: graph_of().partitions())
case("graph", "partitions before finalize", S, "not finalized")(lambda: graph_of(relu(), finalize=False).partitions())
case("graph", "add_op after finalize", S, "is finalized")(lambda: graph_of(relu()).add_op(relu(2, 1, 2)))
case("graph", "policy", A, "policy: 'fast'", "'fusion', 'debug'")(lambda: graph_of(relu()).partitions("fast"))
case("graph", "policy 0", A, "policy: 0")(lambda: graph_of(relu()).partitions(0))
case("graph", "kind 1000", A, "kind: 1000", "not an op")(lambda: capi.Op(1, 1000))
case("graph", "kind last_symbol", A, "not an op")(lambda: capi.Op(1, "last_symbol"))
case("graph", "kind of a later library", *later((3, 6), "GroupNorm needs oneDNN 3.6"))(lambda: capi.Op(1, "GroupNorm"))
case("graph", "name None", A, "name: None")(lambda: capi.Op(1, "ReLU", None))
case("graph", "name with NUL and surrogate", ok)(lambda: capi.Op(1, "ReLU", "a\0b\ud800"))
case("graph", "id -1", A, "id: -1")(lambda: capi.Op(-1, "ReLU"))
case("graph", "id 2**64 - 1", A, "id: 18446744073709551615")(lambda: capi.Op(2**64 - 1, "ReLU"))
case("graph", "id 10**5000", A, "an integer of")(lambda: capi.Op(10**5000, "ReLU"))
case("graph", "gpu graph", U, "no gpu engine")(lambda: capi.Graph("gpu"))
case("graph", "gpu engine", U, "0 gpu engines")(lambda: capi.Engine("gpu"))
case("graph", "gpu partition", U, "no gpu engine")(lambda: capi.Partition.from_op(relu(), "gpu"))
case("graph", "engine 1", U, "1 cpu engines")(lambda: capi.Engine("cpu", 1))
case("graph", "allocator 3", A, "expected an Allocator")(lambda: capi.Engine(allocator=3))
case("graph", "fpmath 99", A, "fpmath_mode: 99")(lambda: capi.Graph(fpmath_mode=99))
case("graph", "add_op None", A, "op: None; expected an Op")(lambda: capi.Graph().add_op(None))
case("graph", "no inputs", E, "src")(lambda: graph_of(capi.Op(1, "ReLU", outputs=[lt(1, (8,))])))
case("graph", "no outputs", E, "outputs: 0", "dst")(lambda: graph_of(capi.Op(1, "ReLU", inputs=[lt(1, (8,))])))
case("graph", "from_op of an op without inputs", E, "src")(lambda: capi.Partition.from_op(capi.Op(1, "ReLU")))
case("graph", "an array for an input", A, "inputs[0]", "LogicalTensor")(lambda: capi.Op(1, "ReLU", inputs=[array()]))
case("graph", "attrs that are no dictionary", A, "attrs: [1]")(lambda: capi.Op(1, "ReLU", attrs=[1]))
case("graph", "unknown attribute", E, "slope", "not an attribute", "alpha")(
    lambda: capi.Op(1, "LeakyReLU", attrs={"slope": 1})
)
case("graph", "attribute of another kind", E, "alpha", "'x'", "a number")(
    lambda: capi.Op(1, "LeakyReLU", attrs={"alpha": "x"})
)
case("graph", "list for a scalar", E, "alpha", "a number")(lambda: capi.Op(1, "LeakyReLU", attrs={"alpha": [1.0] * 3}))
case("graph", "bool of two", E, "keep_dims", "True or False")(
    lambda: capi.Op(1, "ReduceSum", attrs={"keep_dims": [True, True]})
)
case("graph", "string without end", E, "data_format", "'NXCgarbage'", "'NXC'")(
    lambda: capi.Op(1, "MaxPool", attrs={"data_format": "NXCgarbage"})
)
case("graph", "range without end", E, "axes")(lambda: capi.Op(1, "ReduceSum", attrs={"axes": range(10**12)}))
case("graph", "rounding_type foo", E, "rounding_type", "'foo'", "floor")(
    lambda: capi.Op(1, "MaxPool", attrs={"rounding_type": "foo"})
)
case("graph", "qtype foo", E, "qtype", "'foo'")(lambda: capi.Op(1, "Quantize", attrs={"qtype": "foo"}))


@case("graph", "op in two graphs", S, "part of a graph")
def _():
    op = relu()
    graph_of(op)
    graph_of(op)


@case("graph", "attribute after add_op", S, "cannot be changed")
def _():
    op = capi.Op(1, "LeakyReLU", inputs=[lt(0, (8,))], outputs=[lt(1, (8,))], attrs={"alpha": 0.5})
    graph_of(op)
    op.set_attr("alpha", 0.1)


@case("graph", "finalize and filter twice", ok)
def _():
    graph = graph_of(relu(), relu(2, 1, 2, kind="Exp"))
    graph.finalize()
    assert len(graph.partitions("debug")) == 2
    graph.partitions("fusion")


@case("graph", "reverse order", ok)
def _():
    assert len(graph_of(relu(2, 1, 2), relu()).partitions("debug")) == 2


@case("graph", "ops, graph and partition deleted early", ok)
def _():
    compiled = partition_of(relu()).compile()
    compiled.execute(capi.Stream(), *tensors(compiled))


@case("graph", "copy of a handle", T, "cannot be copied")
def _():
    copy.copy(relu())


@case("graph", "forty partitions", ok)
def _():
    ops = [
        capi.Op(i + 1, "SoftMax", inputs=[lt(i, (4, 4))], outputs=[lt(i + 1, (4, 4))], attrs={"axis": 1})
        for i in range(40)
    ]
    assert [p.ops for p in graph_of(*ops).partitions("debug")] == [(i + 1,) for i in range(40)]


@case("graph", "one graph from many threads", ok)
def _():
    graph, failed = capi.Graph(), []

    def add(start):
        for number in range(start, start + 50):
            try:
                graph.add_op(relu(number, 2 * number, 2 * number + 1))
            except og.OneGraphError as error:
                failed.append(error)

    threads = [threading.Thread(target=add, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    graph.finalize()
    assert not failed
    assert len(graph.partitions("debug")) == 200


# Logical tensors -----------------------------------------------------------------------------------------------------

case("tensors", "13 dims", A, "at most 12 dimensions, not 13")(lambda: lt(0, (1,) * 13))
case("tensors", "400 dims", A, "not 400")(lambda: lt(0, (1,) * 400))
case("tensors", "dim -1", A, "dim -1", "None")(lambda: lt(0, (-1,)))
case("tensors", "dim INT64_MIN", A, "out of range")(lambda: lt(0, (-(2**63),)))
case("tensors", "dim 2**63", A, "out of range")(lambda: lt(0, (2**63,)))
case("tensors", "dim 10**5000", A, "an integer of", "out of range")(lambda: lt(0, (10**5000,)))
case("tensors", "dim 1.5", A, "a dim is an integer", "1.5")(lambda: lt(0, (1.5,)))
case("tensors", "dim True", A, "True")(lambda: lt(0, (True,)))
case("tensors", "shape 3", A, "write (3,)")(lambda: lt(0, 3))
case("tensors", "more than 2**60 elements", A, "2**60")(lambda: lt(0, (2**31, 2**33)))
case("tensors", "opaque", A, "layout: 'opaque'")(lambda: lt(0, (4,), layout="opaque"))
case("tensors", "layout 7", A, "layout: 7")(lambda: lt(0, (4,), layout=7))
case("tensors", "property", A, "property: 'fixed'")(lambda: lt(0, (4,), property="fixed"))
case("tensors", "negative strides", A, "-1")(lambda: lt(0, (4,), strides=[-1]))
case("tensors", "strides of another length", A, "1 integer,")(lambda: lt(0, (4,), strides=[1, 1]))
case("tensors", "strides of unknown dims", A, "every dim known")(lambda: lt(0, (None,), strides=[1]))
case("tensors", "strides beyond memory", A, "2**63 bytes")(lambda: lt(0, (1, 2), strides=[2**61, 2**61]))
case("tensors", "f64", A, "float64", ".astype(np.float32)")(lambda: lt(0, (4,), "float64"))
case("tensors", "dtype of a later library", *later((3, 4), "f8_e4m3 needs oneDNN 3.4"))(lambda: lt(0, (4,), "f8_e4m3"))
case("tensors", "data None", A, "data: None")(lambda: capi.Tensor(lt(0, (8,)), None))
case("tensors", "data 0", A, "data: 0")(lambda: capi.Tensor(lt(0, (8,)), 0))
case("tensors", "data list", A, "expected a numpy array")(lambda: capi.Tensor(lt(0, (8,)), [1.0] * 8))
case("tensors", "data too small", A, "32 bytes")(lambda: capi.Tensor(lt(0, (8,)), array((7,))))
case("tensors", "data float64", A, "float64", "astype")(lambda: capi.Tensor(lt(0, (8,)), np.ones(8)))
case("tensors", "data of the other byte order", A, "astype")(lambda: capi.Tensor(lt(0, (8,)), array(8, ">f4")))
case("tensors", "data strided", A, "strides")(lambda: capi.Tensor(lt(0, (8,)), array(16)[::2]))
case("tensors", "data backwards", A, "strides")(lambda: capi.Tensor(lt(0, (8,)), array(8)[::-1]))
case("tensors", "data not aligned", A, "not aligned")(
    lambda: capi.Tensor(lt(0, (8,)), np.frombuffer(bytearray(40), np.float32, 8, 1))
)
case("tensors", "layout any", A, "no size yet")(lambda: capi.Tensor(lt(0, (8,), layout="any"), array()))
case("tensors", "unknown dims", A, "no size yet")(lambda: capi.Tensor(lt(0, None), array()))
case("tensors", "resized", ValueError, "resize")(lambda: resized(capi.Tensor(lt(0, (8,)), array())))


def resized(tensor):
    tensor.data.resize(2**20, refcheck=False)


@case("tensors", "sizes", ok)
def _():
    sizes = [lt(0, s).mem_size for s in ((), (0, 4), (4, 4), None, (None, 2))]
    assert sizes == [4, 0, 64, None, None], sizes
    assert lt(0, (4,), layout="any").mem_size is None
    assert lt(0, (4, 4), strides=[16, 1]).mem_size == 256


@case("tensors", "moved array", A)
def _():
    compiled = partition_of(relu()).compile()
    ins, outs = tensors(compiled)
    ins[0].data.__setstate__(array((1,)).__reduce__()[2])  # frees the memory and allocates less
    compiled.execute(capi.Stream(), ins, outs)


# Compile -------------------------------------------------------------------------------------------------------------

case("compile", "missing input", A, "inputs: tensors [0]; expected [0, 1], each once")(
    lambda: partition_of(subtract()).compile([lt(0, (8,))])
)
case("compile", "one input twice", A, "each once")(lambda: partition_of(subtract()).compile([lt(0, (8,))] * 2))
case("compile", "extra input", A, "inputs: tensors [0, 1, 9]; expected [0, 1], each once")(
    lambda: partition_of(subtract()).compile([lt(0, (8,)), lt(1, (8,)), lt(9, (8,))])
)
case("compile", "extra output", A, "outputs: tensors [1, 9]; expected [1], each once")(
    lambda: partition_of(relu()).compile(None, [lt(1, (8,)), lt(9, (8,))])
)
case("compile", "no output", A, "outputs: tensors []; expected [1], each once")(
    lambda: partition_of(relu()).compile(None, [])
)
case("compile", "None among inputs", A, "inputs[0]: None")(lambda: partition_of(relu()).compile([None]))
case("compile", "inputs 3", A, "inputs: 3")(lambda: partition_of(relu()).compile(3))
case("compile", "other shape than the graph", A, "as the graph has it")(
    lambda: partition_of(relu()).compile([lt(0, (4,))])
)
case("compile", "other dtype than the graph", A, "as the graph has it")(
    lambda: partition_of(relu()).compile([lt(0, (8,), "bf16")])
)
case("compile", "unknown dims", A, "every dim known")(lambda: partition_of(relu(shape=None)).compile())
case("compile", "input of layout any, ReLU", A, "strided layout")(
    lambda: partition_of(relu()).compile([lt(0, (8,), layout="any")])
)
case("compile", "input of layout any, Subtract", A, "strided layout")(
    lambda: partition_of(subtract()).compile([lt(0, (8,)), lt(1, (8,), layout="any")])
)
case("compile", "input with a stride of 0", A, "inputs", "memory of its own for each element")(
    lambda: partition_of(capi.Op(1, "Exp", inputs=[lt(0, (2, 4), strides=[0, 1])], outputs=[lt(1, (2, 4))])).compile()
)
case("compile", "output of layout undef", A, "strided or any")(
    lambda: partition_of(relu()).compile(None, [lt(1, (8,), layout="undef")])
)
case("compile", "engine None is the default", ok)(lambda: partition_of(relu()).compile(engine=None))
case("compile", "engine 3", A, "engine: 3")(lambda: partition_of(relu()).compile(engine=3))
case("compile", "CompiledPartition(None)", A, "partition: None")(lambda: capi.CompiledPartition(None))
case("compile", "CompiledPartition does what compile does", A, "strided layout")(
    lambda: capi.CompiledPartition(partition_of(relu()), [lt(0, (8,), layout="any")], [lt(1, (8,))])
)
case("compile", "Partition(None)", A, "comes from")(lambda: capi.Partition(None, {}))
case("compile", "unsupported partition", U, "does not support", "Pow")(
    lambda: capi.Partition.from_op(
        capi.Op(
            1,
            "Pow",
            inputs=[lt(0, (4,))],
            outputs=[lt(1, (4,))],
            attrs={"beta": 3.0},
        )
    ).compile()
)
case("compile", "wrong output shape", A, "as the inputs imply")(
    lambda: capi.Partition.from_op(
        capi.Op(1, "ReduceSum", inputs=[lt(0, (3, 2))], outputs=[lt(1, None)], attrs={"axes": [0], "keep_dims": True})
    ).compile(None, [lt(1, (3, 1))])
)
case("compile", "strides that LayerNorm does not honour", U, "does not honour strides")(
    lambda: partition_of(
        capi.Op(
            1,
            "LayerNorm",
            inputs=[lt(0, (2, 4))],
            outputs=[lt(1, (2, 4))],
            attrs={"use_affine": False, "keep_stats": False},
        )
    ).compile(None, [lt(1, (2, 4), strides=[6, 1])])
)
case("compile", "unknown id", A, "tensor 7", "[0, 1]")(lambda: partition_of(relu()).compile().query_logical_tensor(7))
case("compile", "an axis of 2**31", U, "tabulate")(
    lambda: partition_of(
        capi.Op(
            1,
            "Interpolate",
            inputs=[lt(0, (1, 2, 4, 4))],
            outputs=[lt(1, None)],
            attrs={"mode": "bilinear", "sizes": [2**31, 8], "data_format": "NCX"},
        )
    ).compile()
)
case("compile", "cache capacity", A, "capacity: -1")(lambda: capi.set_compiled_partition_cache_capacity(-1))
case("compile", "primitive cache capacity", A, "capacity: None")(lambda: capi.set_primitive_cache_capacity(None))
case("compile", "constant cache 5", A, "enabled: 5")(lambda: capi.set_constant_tensor_cache(5))


@case("compile", "constant cache after a compilation", S, "before anything is compiled")
def _():
    partition_of(relu()).compile()
    capi.set_constant_tensor_cache(not capi.get_constant_tensor_cache())


@case("compile", "known shape where the graph has none", ok)
def _():
    compiled = partition_of(relu(shape=None)).compile([lt(0, (16,))])
    assert compiled.outputs[0].shape == (16,)


@case("compile", "the order of the inputs does not matter", ok)
def _():
    compiled = partition_of(subtract()).compile([lt(1, (8,)), lt(0, (8,))])
    a, b, c = np.full(8, 5, np.float32), np.full(8, 2, np.float32), array()
    ts = [capi.Tensor(t, x) for t, x in ((lt(1, (8,)), b), (lt(0, (8,)), a))]
    for inputs in (ts, ts[::-1]):
        compiled.execute(capi.Stream(), inputs, [capi.Tensor(lt(2, (8,)), c)])
        assert (c == 3).all()


# Execute -------------------------------------------------------------------------------------------------------------


def execute(change, op=subtract):
    compiled = partition_of(op()).compile()
    ins, outs = tensors(compiled)
    stream, ins, outs = change(capi.Stream(), ins, outs)
    compiled.execute(stream, ins, outs)


case("execute", "one input", A, "tensors [0]; expected [0, 1]")(lambda: execute(lambda s, i, o: (s, i[:1], o)))
case("execute", "no output", A, "outputs: tensors []; expected [2]")(lambda: execute(lambda s, i, o: (s, i, [])))
case("execute", "extra input", A, "each once")(lambda: execute(lambda s, i, o: (s, [*i, i[0]], o)))
case("execute", "None tensor", A, "inputs[1]: None")(lambda: execute(lambda s, i, o: (s, [i[0], None], o)))
case("execute", "arrays", A, "expected a Tensor")(lambda: execute(lambda s, i, o: (s, [array(), array()], o)))
case("execute", "inputs None", A, "inputs: None")(lambda: execute(lambda s, i, o: (s, None, o)))
case("execute", "stream None", A, "stream: None")(lambda: execute(lambda s, i, o: (None, i, o)))
case("execute", "other engine's stream", A, "another engine")(
    lambda: execute(lambda s, i, o: (capi.Stream(capi.Engine()), i, o))
)
case("execute", "other engine's tensor", A, "tensor 0 is of another engine")(
    lambda: execute(lambda s, i, o: (s, [capi.Tensor(lt(0, (8,)), array(), capi.Engine()), i[1]], o))
)
case("execute", "other shape", A, "as it was compiled")(
    lambda: execute(lambda s, i, o: (s, [capi.Tensor(lt(0, (4,)), array()), i[1]], o))
)
case("execute", "other dtype", A, "as it was compiled")(
    lambda: execute(lambda s, i, o: (s, [capi.Tensor(lt(0, (8,), "s32"), array(8, np.int32)), i[1]], o))
)
case("execute", "other strides", A, "as it was compiled")(
    lambda: execute(lambda s, i, o: (s, [capi.Tensor(lt(0, (8,), strides=[2]), array(16)), i[1]], o))
)
case("execute", "inputs for outputs", A, "outputs: tensors [0]")(lambda: execute(lambda s, i, o: (s, i, i[:1])))


@case("execute", "read-only output", A, "tensor 2 is read-only")
def _():
    frozen = array()
    frozen.flags.writeable = False
    execute(lambda s, i, o: (s, i, [capi.Tensor(lt(2, (8,)), frozen)]))


@case("execute", "output made read-only later", A, "read-only")
def _():
    def change(stream, ins, outs):
        outs[0].data.flags.writeable = False
        return stream, ins, outs

    execute(change)


@case("execute", "partial overlap", A, "shares memory with tensor 0")
def _():
    memory = array(9)
    execute(lambda s, i, o: (s, [capi.Tensor(lt(0, (8,)), memory[:8]), i[1]], [capi.Tensor(lt(2, (8,)), memory[1:])]))


@case("execute", "two streams, four threads", ok)
def _():
    compiled = partition_of(subtract((64, 64))).compile()

    def work():
        ins, outs = tensors(compiled)
        stream = capi.Stream()
        for _ in range(50):
            compiled.execute(stream, ins, outs)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Ops on which the plain C API crashes --------------------------------------------------------------------------------

CONV = {
    "strides": [1, 1],
    "pads_begin": [1, 1],
    "pads_end": [1, 1],
    "dilations": [1, 1],
    "groups": 1,
    "data_format": "NCX",
    "weights_format": "OIX",
}
POOL = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "data_format": "NCX"}
ACROSS = {"scales": [0.1, 0.2, 0.3], "zps": [0, 0, 0], "qtype": "per_channel"}
F = "f32"

# Name, kind, inputs, number of outputs or their types, attributes, outcome of capi, outcome of the builder.
OPS = [
    ("axes of size 1", "ReduceSum", [(F, (3, 1, 4))], 1, {"axes": [1]}, (U, "size 1"), ok),
    (
        "dilated gradient",
        "ConvTransposeBackwardData",
        [(F, (1, 2, 9, 9)), (F, (2, 2, 3, 3))],
        1,
        {**CONV, "weights_format": "IOX", "dilations": [2, 2]},
        (U, "dilations"),
        ok,
    ),
    ("Quantize axis -1", "Quantize", [(F, (2, 3))], ["u8"], {**ACROSS, "axis": -1}, (U, "negative axis"), ok),
    ("Dequantize axis -1", "Dequantize", [("u8", (2, 3))], [F], {**ACROSS, "axis": -1}, (U, "negative axis"), ok),
    ("Quantize axis 5", "Quantize", [(F, (2, 3))], ["u8"], {**ACROSS, "axis": 5}, (E, "axis"), (E, "axis")),
    (
        "DynamicQuantize across, with zps",
        "DynamicQuantize",
        [(F, (2, 3)), (F, (3,)), ("s32", (3,))],
        ["u8"],
        {"qtype": "per_channel", "axis": 1},
        (U, "DynamicQuantize"),
        ok,
    ),
    (
        "DynamicDequantize across, with zps",
        "DynamicDequantize",
        [("u8", (2, 3)), (F, (3,)), ("s32", (3,))],
        [F],
        {"qtype": "per_channel", "axis": 1},
        (U, "DynamicDequantize"),
        ok,
    ),
    ("LayerNorm of one input", "LayerNorm", [(F, (2, 4))], 1, {"keep_stats": False}, (E, "gamma"), (E, "gamma")),
    ("MaxPool of nothing", "MaxPool", [(F, (0, 4, 6, 6))], 1, POOL, (U, "empty"), ok),
    ("Quantize of nothing", "Quantize", [(F, (0, 3))], ["u8"], {**ACROSS, "axis": 1}, (U, "empty"), ok),
    ("ReduceSum of nothing", "ReduceSum", [(F, (0, 4))], 1, {"axes": [1]}, (U, "empty"), ok),
    ("MatMul over nothing", "MatMul", [(F, (2, 0)), (F, (0, 3))], 1, {}, (U, "empty"), ok),
    (
        "strides 0",
        "Convolution",
        [(F, (1, 2, 5, 5)), (F, (2, 2, 3, 3))],
        1,
        {**CONV, "strides": [0, 0]},
        (E, "strides", "[0, 0]", "positive"),
        (E, "strides", "[0, 0]", "positive"),
    ),
    (
        "groups 0",
        "Convolution",
        [(F, (1, 2, 5, 5)), (F, (2, 2, 3, 3))],
        1,
        {**CONV, "groups": 0},
        (E, "groups", "0", "positive"),
        (E, "groups", "0", "positive"),
    ),
    ("kernel []", "MaxPool", [(F, (1, 2, 6, 6))], 1, {**POOL, "kernel": []}, (E, "kernel"), (E, "kernel")),
    ("strides []", "MaxPool", [(F, (1, 2, 6, 6))], 1, {**POOL, "strides": []}, (E, "strides"), (E, "strides")),
    (
        "output_padding []",
        "ConvTranspose",
        [(F, (1, 2, 5, 5)), (F, (2, 2, 3, 3))],
        1,
        {**CONV, "weights_format": "IOX", "output_padding": []},
        (E, "output_padding"),
        (E, "output_padding"),
    ),
    (
        "dst_shape []",
        "ConvolutionBackwardData",
        [(F, (1, 2, 5, 5)), (F, (2, 2, 3, 3))],
        1,
        {**CONV, "dst_shape": []},
        (E, "dst_shape"),
        (E, "dst_shape"),
    ),
    (
        "no src_shape",
        "AvgPoolBackward",
        [(F, (2, 4, 5, 4))],
        1,
        {**POOL, "exclude_pad": True},
        (E, "src_shape"),
        (E, "src_shape"),
    ),
    (
        "begin_norm_axis 100",
        "LayerNorm",
        [(F, (2, 3, 4, 5)), (F, (5,)), (F, (5,))],
        3,
        {"begin_norm_axis": 100},
        (E, "begin_norm_axis", "100"),
        (E, "begin_norm_axis", "100"),
    ),
    (
        "gradient without gamma",
        "LayerNormBackward",
        [(F, (2, 4)), (F, (2, 4)), (F, (2,)), (F, (2,))],
        3,
        {},
        (E, "gamma"),
        (E, "gamma"),
    ),
    ("MatMul of a scalar", "MatMul", [(F, ()), (F, (7, 5))], 1, {}, (E, "src"), (E, "src")),
    ("MaxPool of rank 1", "MaxPool", [(F, (64,))], 1, POOL, (E, "src"), (E, "src")),
    ("Interpolate of rank 1", "Interpolate", [(F, (64,))], 1, {"mode": "nearest", "sizes": [8]}, (E, ""), (E, "")),
    (
        "BatchNorm of rank 1",
        "BatchNormInference",
        [(F, (20,))] + [(F, (5,))] * 4,
        1,
        {"epsilon": 1e-3},
        (E, "src"),
        (E, "src"),
    ),
    (
        "gamma of length 1",
        "BatchNormInference",
        [(F, (1, 4, 2, 2))] + [(F, (1,))] * 4,
        1,
        {"epsilon": 1e-3, "data_format": "NCX"},
        (E, "gamma"),
        (E, "gamma"),
    ),
    (
        "bias of a higher rank",
        "MatMul",
        [(F, (6, 7)), (F, (7, 5)), (F, (1, 1, 5))],
        1,
        {},
        (E, "bias"),
        (E, "bias"),
    ),
    ("axis 2**32", "SoftMax", [(F, (2, 2))], 1, {"axis": 2**32}, (E, "axis"), (E, "axis")),
]


def lists(kind, inputs, outputs, attrs):
    dtypes = list(outputs) if isinstance(outputs, list) else [F] * outputs
    ins = [lt(number, shape, dtype) for number, (dtype, shape) in enumerate(inputs)]
    return capi.Op(1, kind, inputs=ins, outputs=[lt(50 + k, None, d) for k, d in enumerate(dtypes)], attrs=attrs)


def run_capi(kind, inputs, outputs, attrs, limit=1 << 24):
    """Compile the op alone and execute it; no byte beside the outputs may change."""
    for partition in graph_of(lists(kind, inputs, outputs, attrs)).partitions("debug"):
        compiled = partition.compile()
        if any(t.mem_size is None or t.mem_size > limit for t in (*compiled.inputs, *compiled.outputs)):
            return
        ins, _ = tensors(compiled)
        memory = [np.full(t.mem_size + 256, 0xAB, np.uint8) for t in compiled.outputs]
        outs = [
            capi.Tensor(t, m[128 : 128 + t.mem_size].view(t.dtype.numpy))
            for t, m in zip(compiled.outputs, memory, strict=True)
        ]
        compiled.execute(capi.Stream(), ins, outs)
        assert all((m[:128] == 0xAB).all() and (m[-128:] == 0xAB).all() for m in memory), "written beside the output"


def run_builder(kind, inputs, outputs, attrs, limit=1 << 24):
    """Build, compile and run the op alone."""
    graph = og.Graph()
    sources = [graph.input(f"i{k}", dtype, shape) for k, (dtype, shape) in enumerate(inputs)]
    found = graph.op(kind, sources, attrs, dtype=outputs[0] if isinstance(outputs, list) and outputs else None)
    found = found if isinstance(found, tuple) else (found,)
    for k, tensor in enumerate(found):
        graph.output(f"o{k}", tensor)
    for tensor in (*sources, *found):
        if tensor.shape is not None and np.prod([float(dim or 1) for dim in tensor.shape]) > limit:
            return
    arrays = {
        name: np.ones([dim or 3 if dim is None else dim for dim in t.shape or ()], t.dtype.numpy)
        for name, t in graph.inputs.items()
    }
    graph.compile()(**arrays)


for name_, kind_, inputs_, outputs_, attrs_, raw_, built_ in OPS:
    case("ops", f"capi {name_}", *(raw_ or (ok,)))(lambda a=(kind_, inputs_, outputs_, attrs_): run_capi(*a))
    case("ops", f"builder {name_}", *(built_ or (ok,)))(lambda a=(kind_, inputs_, outputs_, attrs_): run_builder(*a))


@case("ops", "SoftMax + Add of rank 1, fused", ok)
def _():
    graph = og.Graph()
    x, y = graph.input("x", F, (4, 8)), graph.input("y", F, (8,))
    graph.output("z", graph.add(graph.softmax(x, axis=-1, dtype=F, outputs=[]), y))
    feed = {"x": np.arange(32, dtype=np.float32).reshape(4, 8), "y": np.arange(8, dtype=np.float32)}
    np.testing.assert_allclose(graph.compile()(**feed), reference.run(graph, feed)["z"], rtol=1e-5)


@case("ops", "Dequantize + Reorder + Quantize, fused", ok)
def _():
    graph = og.Graph()
    x = graph.input("x", "u8", (4, 8))
    wide = graph.dequantize(x, scales=[0.02], zps=[5])
    graph.output("z", graph.quantize(graph.reorder(wide), scales=[0.05], zps=[0], dtype="u8"))
    feed = {"x": np.arange(32, dtype=np.uint8).reshape(4, 8)}
    np.testing.assert_array_equal(graph.compile()(**feed), reference.run(graph, feed)["z"])


# Executables ---------------------------------------------------------------------------------------------------------


def model(shape=(2, 3), **options):
    graph = og.Graph()
    x, y = graph.input("x", F, shape, **options), graph.input("y", F, shape)
    graph.output("sum", graph.add(x, y))
    graph.output("twice", graph.relu(graph.add(x, x)))
    return graph.compile()


def one(shape=(2, 3), dtype=np.float32):
    return np.ones(shape, dtype)


def simple():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", F, (2, 3))))
    return graph


def frozen(values):
    values.flags.writeable = False
    return values


case("run", "no inputs", A, "missing inputs: x, y")(lambda: model()())
case("run", "one input", A, "missing inputs: y")(lambda: model()(one()))
case("run", "three inputs", A, "3 inputs given; expected 2: x, y")(lambda: model()(one(), one(), one()))
case("run", "unknown name", A, "unknown input 'z'", "x, y")(lambda: model()(one(), z=one()))
case("run", "twice", A, "'x' is given twice")(lambda: model()(one(), x=one()))
case("run", "float64", A, "input 'x'", "float64", ".astype(np.float32)")(lambda: model()(np.ones((2, 3)), one()))
case("run", "int64", A, "int64", ".astype(np.float32)")(lambda: model()(one(dtype=np.int64), one()))
case("run", "other byte order", A, ">f4")(lambda: model()(one(dtype=">f4"), one()))
case("run", "objects", A, "object")(lambda: model()(one(dtype=object), one()))
case("run", "shape", A, "input 'y'", "shape [3, 2]", "expected [2, 3]")(lambda: model()(one(), one((3, 2))))
case("run", "rank", A, "input 'x'")(lambda: model()(one((1, 2, 3)), one()))
case("run", "list", A, "input 'x': list")(lambda: model()([[1.0] * 3] * 2, one()))
case("run", "None", A, "input 'x': NoneType")(lambda: model()(None, one()))
case("run", "an object", A, "input 'x': object")(lambda: model()(object(), one()))
case("run", "out of another shape", A, "output 'sum'", "[3, 2]")(lambda: model()(one(), one(), out=[one((3, 2)), None]))
case("run", "out of another dtype", A, "float64; expected f32")(
    lambda: model()(one(), one(), out=[np.ones((2, 3)), None])
)
case("run", "out read-only", A, "read-only")(lambda: model()(one(), one(), out=[frozen(one()), None]))
case("run", "out strided", A, "C-contiguous")(lambda: model()(one(), one(), out=[one((3, 2)).T, None]))
case("run", "out not aligned", A, "aligned")(
    lambda: model()(one(), one(), out=[np.frombuffer(bytearray(28), np.float32, 6, 1).reshape(2, 3), None])
)
case("run", "out of one", A, "expected 2 arrays", "sum, twice")(lambda: model()(one(), one(), out=[one()]))
case("run", "out 3", A, "expected 2 arrays")(lambda: model()(one(), one(), out=3))
case("run", "out by a wrong name", A, "unknown output 'zum'")(lambda: model()(one(), one(), out={"zum": one()}))
case("run", "out list", A, "output 'sum': list")(lambda: model()(one(), one(), out={"sum": [1]}))
case("run", "bind nothing", A, "missing inputs")(lambda: model().bind())
case("run", "bind unknown", A, "unknown name 'z'")(lambda: model().bind(x=one(), y=one(), z=one()))
case("run", "bind strided", A, "strides")(lambda: model().bind(x=one((3, 2)).T, y=one()))
case("run", "policy", A, "policy: 'fast'")(lambda: simple().compile(policy="fast"))
case("run", "no output", A, "no output")(lambda: og.Graph().compile())
case("run", "tensor of another graph", A, "of another graph")(lambda: og.Graph().relu(og.Graph().input("x", F, (2,))))
case("run", "list for a tensor", A, "a tensor of this graph")(lambda: og.Graph().relu([1.0]))
case("run", "threads 10**9", A, "threads: 1000000000")(lambda: simple().compile(threads=10**9))
case("run", "set_num_threads 10**9", A, "threads: 1000000000")(lambda: og.set_num_threads(10**9))
case("run", "bound array resized", ValueError, "resize")(lambda: bound_and_resized())


def bound_and_resized():
    x = one()
    run = model().bind(x=x, y=one())
    try:
        x.resize((2**12, 2**10), refcheck=False)
    finally:
        run()


@case("run", "out that is an input", A, "output 'sum' shares memory with 'x'")
def _():
    x = one()
    model()(x, one(), out=[x, None])


@case("run", "one array for two outputs", A, "shares memory with 'sum'")
def _():
    x = one()
    model()(one(), one(), out=[x, x])


@case("run", "bind an output to an input", A, "shares memory")
def _():
    x = one()
    model().bind(x=x, y=one(), sum=x)


@case("run", "input not aligned", ok)
def _():
    x = np.frombuffer(bytearray(28), np.float32, 6, 1).reshape(2, 3)
    assert (model()(x, one()).sum == 1).all()


@case("run", "one bound run in two threads", ok)
def _():
    graph = og.Graph()
    graph.output("y", graph.exp(graph.input("x", F, (512, 512))))
    run, raised = graph.compile().bind(x=one((512, 512))), []

    def work():
        for _ in range(50):
            try:
                run.run()
            except og.StateError as error:
                raised.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("in use by another thread" in text for text in raised)
    run.run()


@case("run", "one executable in many threads", ok)
def _():
    call, wrong = model((64, 64)), []

    def work(number):
        for _ in range(30):
            found = call(np.full((64, 64), number, np.float32), one((64, 64)))
            wrong.extend([number] if (found.sum != number + 1).any() else [])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@case("run", "shapes at the edges", ok)
def _():
    for shape in ((), (0, 3), (1,) * 12, (2,) * 12, (1,)):
        found = model(shape)(one(shape), one(shape))
        assert found.sum.shape == shape
        assert (found.twice == 2).all()


@case("run", "pickled graph and executable", ok)
def _():
    call = pickle.loads(pickle.dumps(model()))
    assert (call(one(), one()).sum == 2).all()
    graph = simple()
    again = pickle.loads(pickle.dumps(graph))
    assert repr(again) == repr(graph)
    again.output("z", again.exp(again.inputs["x"]))
    again.compile()(one())


def relu_by_hand():
    compiled = partition_of(relu()).compile()
    compiled.execute(capi.Stream(), *tensors(compiled))


@case("run", "forked after use", ok)
def _():
    call = model((256, 256))
    call(one((256, 256)), one((256, 256)))
    process = os.fork()
    if not process and library.RUNTIME != "OpenMP":
        failed = 0
        for again in (lambda: call(one((256, 256)), one((256, 256))), lambda: model()(one(), one()), relu_by_hand):
            try:
                again()
            except og.StateError as error:
                failed += "forked after oneDNN ran" in str(error)
        os._exit(0 if failed == 3 else 1)
    if not process:
        threads = og.get_num_threads()
        good = threads == 1 and (call(one((256, 256)), one((256, 256))).sum == 2).all()
        good = good and (model((64, 64))(one((64, 64)), one((64, 64))).sum == 2).all()
        try:
            og.set_num_threads(2)
            good = False
        except og.UnsupportedError:
            pass
        os._exit(0 if good else 1)
    assert os.waitpid(process, 0)[1] == 0


@case("run", "interrupted", ok)
def _():
    call = model((512, 512))
    x = one((512, 512))
    for delay in (0.001, 0.003, 0.01, 0.02):
        signal.setitimer(signal.ITIMER_REAL, delay)
        try:
            while True:
                call(x, x)
        except KeyboardInterrupt:
            pass
    assert (call(x, x).sum == 2).all()
