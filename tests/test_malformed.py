"""No call with any arguments ends in a signal or a hang; each bad one gives one exception of onegraph.errors.

Everything here runs in child processes: this file, run as a script with the name of a batch. A child prints the name
of each case before it and the outcome after it, so that a crash or a timeout names its case. The cases are those that
crash, hang or compute wrong through the plain C API (oneDNN 3.2.0).
"""

import collections
import copy
import faulthandler
import inspect
import itertools
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading
import unittest.mock
import warnings
from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import pytest
from test_errors import Nameless, Verbose

import onegraph as og
from onegraph import capi, reference, view
from onegraph.native import library
from onegraph.opset.editions.registry import BASE
from onegraph.runtime.executable import Executable
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.bench import Variant, bench
from onegraph.tools.harness import read_harness, rewrite
from onegraph.tools.python_code import load_python, save_python, to_python
from onegraph.tools.reduce import reduce
from onegraph.tools.verify import verify

ok = None  # in the place of an exception: the call is fine
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
    """What is expected where something came with a version: nothing, or that it is unsupported."""
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
case("tensors", "strides of another length", A, "1 integers")(lambda: lt(0, (4,), strides=[1, 1]))
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
    ins[0].data.__setstate__(array((1,)).__reduce__()[2])  # frees the memory and takes less
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

# Name, kind, inputs, number of outputs or their types, attributes, what capi says, what the builder says.
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
    """Make the op, compile it by itself and execute it; no byte beside the outputs may change."""
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
    """The same through the builder; what runs must be what the reference computes."""
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
case("run", "array for a tensor", A, "g.constant(array)")(lambda: og.Graph().relu(one()))
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


# Mutations: every op with every attribute, shape and type changed to something else ----------------------------------

X = (2, 4, 6, 6)
VALID = {
    "Convolution": ([(F, X), (F, (3, 4, 3, 3)), (F, (3,))], 1, CONV),
    "ConvolutionBackwardData": ([(F, (2, 3, 6, 6)), (F, (3, 4, 3, 3))], 1, {**CONV, "dst_shape": [2, 4, 6, 6]}),
    "ConvolutionBackwardWeights": ([(F, X), (F, (2, 3, 6, 6))], 1, {**CONV, "weights_shape": [3, 4, 3, 3]}),
    "ConvTranspose": ([(F, X), (F, (4, 3, 3, 3))], 1, {**CONV, "weights_format": "IOX", "output_padding": [0, 0]}),
    "ConvTransposeBackwardData": ([(F, (2, 3, 6, 6)), (F, (4, 3, 3, 3))], 1, {**CONV, "weights_format": "IOX"}),
    "ConvTransposeBackwardWeights": (
        [(F, X), (F, (2, 3, 6, 6))],
        1,
        {**CONV, "weights_format": "IOX", "weights_shape": [4, 3, 3, 3]},
    ),
    "MaxPool": ([(F, X)], 1, {**POOL, "dilations": [1, 1], "rounding_type": "floor"}),
    "AvgPool": ([(F, X)], 1, {**POOL, "exclude_pad": True}),
    "MaxPoolBackward": ([(F, X), (F, (2, 4, 3, 3))], 1, {**POOL, "dilations": [1, 1]}),
    "AvgPoolBackward": ([(F, (2, 4, 3, 3))], 1, {**POOL, "exclude_pad": False, "src_shape": [2, 4, 6, 6]}),
    "BatchNormInference": ([(F, X)] + [(F, (4,))] * 4, 1, {"epsilon": 1e-3, "data_format": "NCX"}),
    "BatchNormForwardTraining": (
        [(F, X)] + [(F, (4,))] * 4,
        5,
        {"epsilon": 1e-3, "momentum": 0.5, "data_format": "NCX"},
    ),
    "BatchNormTrainingBackward": ([(F, X), (F, X)] + [(F, (4,))] * 3, 3, {"epsilon": 1e-3, "data_format": "NCX"}),
    "LayerNorm": (
        [(F, (2, 3, 4)), (F, (4,)), (F, (4,))],
        3,
        {"begin_norm_axis": -1, "keep_stats": True, "use_affine": True},
    ),
    "LayerNormBackward": (
        [(F, (2, 3, 4))] * 2 + [(F, (2, 3))] * 2 + [(F, (4,))] * 2,
        3,
        {"begin_norm_axis": -1, "use_affine": True},
    ),
    "MatMul": (
        [(F, (2, 5, 6)), (F, (2, 6, 7)), (F, (7,))],
        1,
        {"transpose_a": False, "transpose_b": False},
    ),
    "SoftMax": ([(F, (2, 3, 4))], 1, {"axis": 1}),
    "SoftMaxBackward": ([(F, (2, 3, 4))] * 2, 1, {"axis": 1}),
    "LogSoftmax": ([(F, (2, 3, 4))], 1, {"axis": -1}),
    "LogSoftmaxBackward": ([(F, (2, 3, 4))] * 2, 1, {"axis": -1}),
    "Concat": ([(F, (2, 3, 4))] * 3, 1, {"axis": 1}),
    "Interpolate": ([(F, (1, 2, 4, 4))], 1, {"mode": "nearest", "sizes": [8, 8], "data_format": "NCX"}),
    "InterpolateBackward": (
        [(F, (1, 2, 4, 4)), (F, (1, 2, 8, 8))],
        1,
        {"mode": "linear", "sizes": [8, 8], "data_format": "NCX"},
    ),
    "PReLU": ([(F, X), (F, (4,))], 1, {"data_format": "NCX", "per_channel_broadcast": True}),
    "PReLUBackward": ([(F, X), (F, (1, 4, 1, 1)), (F, X)], 2, {"data_format": "NCX"}),
    "BiasAdd": ([(F, X), (F, (4,))], 1, {"data_format": "NCX"}),
    "BiasAddBackward": ([(F, X)], 1, {"data_format": "NCX"}),
    "Quantize": ([(F, (2, 3))], ["u8"], {**ACROSS, "axis": 1}),
    "Dequantize": ([("u8", (2, 3))], [F], {"scales": [0.1], "zps": [3], "qtype": "per_tensor", "axis": 1}),
    "DynamicQuantize": ([(F, (2, 3)), (F, (1,)), ("s32", (1,))], ["u8"], {"qtype": "per_tensor", "axis": 1}),
    "DynamicDequantize": ([("u8", (2, 3)), (F, (1,))], [F], {"qtype": "per_tensor", "axis": 1}),
    "TypeCast": ([(F, (2, 3))], ["bf16"], {}),
    "StaticReshape": ([(F, (2, 6))], 1, {"shape": [3, 4], "special_zero": False}),
    "StaticTranspose": ([(F, (2, 6, 3))], 1, {"order": [0, 2, 1]}),
    "Select": ([("boolean", (2, 3)), (F, (2, 3)), (F, (1, 3))], 1, {"auto_broadcast": "numpy"}),
    "Clamp": ([(F, (2, 3))], 1, {"min": -1.0, "max": 1.0}),
    "ClampBackward": ([(F, (2, 3))] * 2, 1, {"min": -1.0, "max": 1.0, "use_dst": True}),
    "Elu": ([(F, (2, 3))], 1, {"alpha": 1.0}),
    "ReduceMax": ([(F, (2, 3, 4))], 1, {"axes": [1], "keep_dims": False}),
    "Add": ([(F, (2, 3, 4)), (F, (3, 1))], 1, {"auto_broadcast": "numpy"}),
    "HardSigmoid": ([(F, (2, 3))], 1, {"alpha": 0.5, "beta": 0.5}),
    "Reorder": ([(F, (2, 6, 3))], 1, {}),
}
INTEGERS = [-(2**63), -(2**62), -100, -4, -1, 0, 1, 2, 3, 5, 12, 13, 100, 2**31, 2**40, 2**62, 2**63 - 1, 2**64]
WORDS = [
    "None",
    "none",
    "",
    "NCX",
    "NXC",
    "OIX",
    "XIO",
    "IOX",
    "XOI",
    "SAME_UPPER",
    "same_lower",
    "valid",
    "per_tensor",
]
WORDS += ["per_channel", "nearest", "bilinear", "align_corners", "ceil", "a\0b", "\ud800", 3]
SHAPES = [
    None,
    (),
    (0,),
    (1,),
    (4,),
    (64,),
    (0, 4),
    (4, 0),
    (1, 1),
    (2, 4, 0, 6),
    (0, 4, 6, 6),
    (2, 0, 6, 6),
    (1,) * 12,
]
SHAPES += [(2, 4, 1, 1), (2, 4, 6), (2, 4, 6, 6, 1), (2**31,), (2**40, 2), (None, 3), (None, 4, 6, 6), (2**62,), (-1,)]
DTYPES = ["f32", "bf16", "f16", "s8", "u8", "s32", "boolean", "s64", "f8_e4m3", "s4"]


def other(value, rng):
    """Something else in the place of an attribute's value."""
    if isinstance(value, bool):
        return rng.choice([not value, 2, None, "x"])
    if isinstance(value, int):
        return rng.choice([*INTEGERS, 1.5, "x", [1]])
    if isinstance(value, float):
        return rng.choice([-1.0, 0.0, 1e30, 1e39, float("inf"), float("nan"), 10**400, "x", [1.0]])
    if isinstance(value, str):
        return rng.choice(WORDS)
    number = rng.choice(INTEGERS if isinstance(value[0], int) else [0.0, -1.0, float("nan"), float("inf"), 1e39])
    longer = [value + value[:1], [number] * len(value), [number, *value[1:]], [*value[:-1], number]]
    return rng.choice([[], value[:-1], [value[0]] * 12, [value[0]] * 13, None, "x", [[1]], *longer, *longer])


def mutation(kind, rng):
    inputs, outputs, attrs = VALID[kind]
    inputs, attrs = list(inputs), dict(attrs)
    for _ in range(rng.choice([1, 1, 1, 2])):
        what = rng.choice(["attr"] * 6 + ["drop", "shape", "shape", "shapes", "dtype", "count", "outputs"])
        place = rng.randrange(len(inputs)) if inputs else 0
        if what == "attr" and attrs:
            key = rng.choice(sorted(attrs))
            attrs[key] = other(VALID[kind][2][key], rng)
        elif what == "drop" and attrs:
            del attrs[rng.choice(sorted(attrs))]
        elif what == "shape" and inputs:
            inputs[place] = (inputs[place][0], rng.choice(SHAPES))
        elif what == "shapes":
            shape = rng.choice(SHAPES)
            inputs = [(dtype, shape) for dtype, _ in inputs]
        elif what == "dtype" and inputs:
            inputs[place] = (rng.choice(DTYPES), inputs[place][1])
        elif what == "count":
            inputs = rng.choice([inputs[:-1], [*inputs, (F, (4,))], [*inputs, ("s32", (4,))], []])
        elif what == "outputs" and isinstance(outputs, int):
            outputs = rng.randrange(5)
    return inputs, outputs, attrs


def mutations(count):
    rng = random.Random(3)
    for kind in VALID:
        for _ in range(count):
            inputs, outputs, attrs = mutation(kind, rng)
            print(ascii(f"@{kind} {inputs} {outputs} {attrs}"), flush=True)
            for run in (run_capi, run_builder):
                try:
                    run(kind, inputs, outputs, attrs)
                except og.OneGraphError as error:
                    assert str(error)  # noqa: PT017
                except Exception as error:
                    print(f"FAIL {run.__name__}: {type(error).__name__}: {error}", flush=True)


# Junk: every public callable with anything ---------------------------------------------------------------------------


class RudeError(Exception):
    """What the rude objects raise; it may come out, as it is the user's own."""


class Rude:
    def _refuse(self, *_, **__):
        raise RudeError

    __repr__ = __str__ = __len__ = __iter__ = __index__ = __int__ = __float__ = __array__ = _refuse
    __bool__ = __getitem__ = __hash__ = __eq__ = __dlpack__ = __contains__ = _refuse


class RudeMap(dict):
    items = keys = __iter__ = __repr__ = __len__ = Rude._refuse


class RudeList(list):
    __iter__ = __repr__ = __len__ = Rude._refuse


class Endless:
    def __repr__(self):
        return repr(self)


def junk():
    nested = []
    for _ in range(5000):
        nested = [nested]
    loop = []
    loop.append(loop)
    numbers = [0, 1, -1, 2, 2**31, 2**63, 2**64, -(2**63), 10**5000, 1.5, float("nan"), float("inf"), 1j]
    words = [
        "",
        "x",
        "f32",
        "ReLU",
        "relu",
        "cpu",
        "gpu",
        "fusion",
        "a\0b",
        "\ud800",
        "x" * 10000,
        "legacy-1",
        "strided",
    ]
    lists_ = [[], (), {}, set(), [1], (2, 3), [None], [-1], [2**70], ["a"], [[1]], nested, loop, (1,) * 13, [1.5]]
    dicts = [range(10**12), {"alpha": 1}, {1: 2}, {"axis": nested}, {"x": np.ones(3)}]
    odd = [np.float32(1), np.int64(3), np.bool_(True), np.array(3), np.ones(3), array((2, 3)), np.ones((2, 3), ">f4")]
    odd += [array((0, 3)), array((1,) * 12), array((1,) * 13), np.ones(3, object), np.array(["a"]), np.array([b"a"])]
    odd += [np.zeros(3, [("a", "f4")]), np.zeros(3, "M8[s]"), np.zeros(3, np.complex64), array((4, 6))[::2, ::-1]]
    odd += [np.ones(3, ml_dtypes.bfloat16), np.ma.ones((2, 3)), np.float32, np.dtype("f4"), np.dtype([("a", "f4")])]
    things = [None, True, False, b"", b"ab\0", bytearray(4), memoryview(bytes(8)), Rude(), Rude, RudeMap(a=1)]
    things += [RudeList([1]), Endless(), object(), int, type, len, lambda *_: 1, (i for i in range(3)), Ellipsis]
    things += [NotImplemented, og.f32, og.bf16, og.s64, og.DataType, og.Graph, og.errors, sys]
    return [*numbers, *words, *lists_, *dicts, *odd, *things]


def objects():
    graph = og.Graph()
    x = graph.input("x", F, (2, 3))
    y = graph.relu(x)
    graph.output("y", y)
    model, op, a, b = graph.compile(), relu(shape=(2, 3)), lt(0, (2, 3)), lt(1, (2, 3))
    partition = partition_of(op)
    found = [graph, x, y, model, graph.ops[0], model.report(), model.bind(x=array((2, 3))), a, b, op, relu(2, 1, 2)]
    found += [capi.Graph(), graph_of(relu()), partition, partition.compile(), capi.Stream(), capi.Engine()]
    found += [] if library.RUNTIME == "SYCL" else [capi.Allocator()]
    return [*found, capi.Tensor(a, array((2, 3))), capi.Tensor(b, array((2, 3)))]


RECORDS = {og.DataType, og.Op, og.LogicalTensor, og.Violation}  # an enumeration and plain records


def public(found):
    """Name and callable of everything that a user can call, but exceptions and records."""
    for module in (og, capi):
        for name in module.__all__:
            value = getattr(module, name)
            exception = isinstance(value, type) and (issubclass(value, BaseException) or value in RECORDS)
            if callable(value) and not exception and name != "set_verbose":  # that would print
                yield name, value
    yield "reference.run", reference.run
    for thing in found:
        for name in dir(type(thing)):
            if not name.startswith("_") or name in ("__call__", "__eq__", "__repr__"):
                value = getattr(thing, name)
                if callable(value):
                    yield f"{type(thing).__name__}.{name}", value


def arguments(function, pick, rng):
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if rng.random() < 0.4 or not parameters:
        return [pick() for _ in range(rng.randrange(5))], {}
    wanted = [p for p in parameters if p.default is p.empty or rng.random() < 0.5]
    return (
        [pick() for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
        {p.name: pick() for p in wanted if p.kind == p.KEYWORD_ONLY},
    )


def junk_calls(count):
    rng, pile = random.Random(7), junk()
    warnings.simplefilter("ignore")
    for number in range(count):
        if number % 500 == 0:
            found = objects()
            callables = list(public(found))
        name, function = rng.choice(callables)
        choices = [pile, pile, pile, found]
        given, named = arguments(function, lambda choices=choices: rng.choice(rng.choice(choices)), rng)
        print(f"@{number} {name}", flush=True)
        try:
            function(*given, **named)
        except (og.OneGraphError, RudeError) as error:
            str(error)
        except TypeError as error:
            if "object has no" in str(error):
                print(f"FAIL TypeError from inside: {error}", flush=True)
        except BaseException as error:
            print(f"FAIL {type(error).__name__}: {str(error)[:200]!a}", flush=True)


# One argument of a valid call, or something in it, replaced by what lies ----------------------------------------------


class Liar:
    """What says that it is of another class, as mocks and proxies do."""

    def __init__(self, kind):
        self.kind = kind

    __class__ = property(lambda self: self.kind)


class Unhashable(str):
    def __eq__(self, other):
        return np.ones(3)

    __hash__ = None


class NoEnd(list):
    def __iter__(self):
        return itertools.count()


class Long(tuple):
    def __len__(self):
        return 2**62


class Lying(np.ndarray):
    shape = ndim = dtype = size = property(lambda self: "x")

    def __iter__(self):
        return itertools.count()


class EndlessMap(Mapping):
    def __len__(self):
        return 1

    def __iter__(self):
        return map("k{}".format, itertools.count())

    def __getitem__(self, key):
        return 1


MANY = {f"k{n}": n for n in range(10**5)}


def liars():
    kinds = [str, int, float, bool, bytes, list, tuple, dict, np.ndarray, np.dtype, np.float32, np.int64, Mapping]
    kinds += [og.LogicalTensor, og.Op, og.Graph, og.DataType, pathlib.Path, Sequence]
    kinds += [capi.LogicalTensor, capi.Op, capi.Tensor, capi.Engine, capi.Stream, capi.Partition]
    yield from ((f"Liar({kind.__name__})", Liar(kind)) for kind in kinds)
    yield from ((f"Mock({kind.__name__})", unittest.mock.Mock(spec=kind)) for kind in kinds[::4])
    others = [unittest.mock.MagicMock(), np.timedelta64(5), np.datetime64("NaT"), Unhashable("x"), Unhashable("f32")]
    others += [Verbose(), [Verbose()], Nameless("N", (Rude,), {})(), type("C" * 10**6, (), {})(), NoEnd([1]), Long([2])]
    others += [np.array([2, 3]).view(Lying), EndlessMap(), range(10**18), memoryview(np.array(1.0)), "x" * 10**7]
    others += [og.Op(0, 1, (None,), (None,), {}, 2, "x"), np.zeros(2, object), np.zeros(2, "S1"), np.float16("inf")]
    others += [np.matrix([[1, 2]]), MANY.copy()]
    yield from ((f"others[{number}]", other) for number, other in enumerate(others))


def valid_calls():
    """Functions with arguments that are right."""
    graph = simple()
    report, x = {"partitions": [{"index": 0, "names": ["relu_0"], "executor": "oneDNN"}]}, one()
    ends = (og.LogicalTensor(0, og.f32, (2,)),), (og.LogicalTensor(1, og.f32, (2,)),)

    def building(method, *args, **named):
        def call(*args, **named):
            made = og.Graph()
            tensor = made.input("x", F, (2, 3))
            before = repr(made)
            try:
                getattr(made, method)(*[tensor if arg is x else arg for arg in args], **named)
            except og.OneGraphError:
                assert repr(made) == before
                raise

        call.__qualname__ = method
        return call, args, named

    tables = {"keep_stats": True, "begin_norm_axis": -1, "use_affine": False}
    scales = {"scales": [1.0], "zps": [0], "qtype": "per_tensor"}
    legacy = {**{key: CONV[key] for key in ("strides", "pads_begin", "pads_end", "dilations")}, "filter_format": "OIX"}
    yield building("input", "n", F, (2, 3), strides=(3, 1), constant=False)
    yield building("constant", x, name="c", copy=True, dtype=F)
    yield building("output", "o", x, strides=(3, 1))
    yield building("op", "LayerNorm", x, tables, name="n", outputs=["mean", "variance"], edition="onednn-3.13")
    yield building("quantize", x, **scales, dtype="s8", name="q")
    yield from [
        (og.Graph, [], {"edition": "onednn-3.2", "strict": True}),
        (og.Graph.from_json, [graph.to_json()], {"strict": False}),
        (og.Graph.load, ["absent.json"], {}),
        (graph.save, ["absent/absent.json"], {"for_version": "3.2"}),
        (graph.compile, [], {"policy": "debug", "fallback": True, "fpmath_mode": "strict", "threads": {0: 1}}),
        (graph.specialise, [{"x": (2, 3)}], {"values": {}}),
        (graph.with_constants, [{"x": x}], {}),
        (og.DataType.of, [F], {}),
        (og.check_op, ["LayerNorm", tables, [(F, (2, 3))], [(F, (2, 3))]], {"edition": "onednn-3.13"}),
        (og.check_op, ["ConvolutionBackpropInput", legacy, [x, x]], {"edition": "legacy-1"}),
        (og.check_op, ["MatMul", {"transpose_a": False}, [one((3, 2)), (F, (3, 4))]], {}),
        (og.check_attrs, ["Interpolate", {"mode": "nearest", "sizes": [4], "scales": [1.0]}], {}),
        (og.check_graph, [[og.Op(0, "ReLU", *ends, {}, "n", "onednn-3.13")]], {}),
        (og.Op, [0, "ReLU", *ends, {}, "n", "onednn-3.13"], {}),
        (og.translate, ["ReLU", {}, [(F, (2, 3))]], {"source": "onednn-3.2", "target": "legacy-1"}),
        (reference.run, [graph, {"x": x, "y": x}], {}),
        (reference.run_op, [graph.ops[0], [x, x]], {}),
        (graph.compile(threads=1), [x, x], {"out": {}}),
        (graph.compile(threads=1).bind, [], {"x": x, "y": x}),
        (Executable, [graph], {"threads": 1}),
        (og.set_num_threads, [1], {}),
        (og.capture, ["folder"], {"inputs": True, "max_bytes": 9}),
        (capi.LogicalTensor, [0, F, (2, 3)], {"strides": [3, 1], "layout": "strided", "property": "variable"}),
        (capi.Op, [1, "LayerNorm", "n"], {"inputs": [lt(0, (2,))], "outputs": [lt(1, (2,))], "attrs": tables}),
        (capi.Graph, ["cpu", "strict"], {}),
        (relu().set_attr, ["alpha", 1.0], {}),
        (partition_of(relu()).compile, [[lt(0, (8,))], [lt(1, (8,))], capi.default_engine()], {}),
        (capi.Tensor, [lt(0, (2, 3)), x, capi.default_engine()], {}),
        (view.page, [graph], {"report": report, "violations": [], "times": {0: 1.0}, "title": "t"}),
        (view.dot, [graph], {"report": report, "times": [1.0]}),
        (view.embedded, [graph], {"height": 100}),
        (verify, [graph, {"x": x, "y": x}], {"policy": "fusion", "threads": 1, "seed": 0, "progress": print}),
        (bench, [graph, {"x": x, "y": x}, [Variant(threads=1)]], {"seconds": 0, "runs": 1, "in_place": False}),
        (reduce, [graph, lambda graph: False], {"max_tests": 1, "progress": print}),
        (random_graph, [0, 1], {"dtypes": [F], "kinds": ["ReLU"], "edition": "onednn-3.2"}),
        (random_inputs, [graph, 0], {}),
        (rewrite, [graph], {"in_shapes": {"x": (4, 3)}, "op_attrs": {}, "mb": 0, "dt": {"x": F}, "op_kind": {}}),
        (read_harness, ["absent"], {}),
        (to_python, [graph, "data.npz"], {}),
        (save_python, [graph, "absent/absent.py"], {}),
        (load_python, ["absent.py"], {}),
    ]


def places(value, depth=0):
    """The places within arguments, as what to look up one after the other."""
    pairs = value.items() if type(value) is dict else enumerate(value) if type(value) in (list, tuple) else ()
    for key, element in pairs if depth < 4 else ():
        yield (key,)
        yield from ((key, *rest) for rest in places(element, depth + 1))


def replaced(value, place, other):
    key, *rest = place
    made = dict(value) if type(value) is dict else list(value)
    made[key] = replaced(made[key], rest, other) if rest else other
    return made if type(value) is dict else type(value)(made)


def lies():
    warnings.simplefilter("ignore")
    spots = [(call, place) for call in valid_calls() for place in places(call[1:]) if len(place) > 1]
    for number, ((function, args, named), place) in enumerate(spots):
        for name, liar in itertools.islice(liars(), number % 16, None, 16):
            print(f"@{getattr(function, '__qualname__', function.__class__.__name__)} {place} {name}", flush=True)
            try:
                given, keywords = replaced((args, named), place, liar)
                function(*given, **keywords)
            except og.OneGraphError as error:
                if len(str(error)) > 8000:
                    print(f"FAIL {len(str(error))} characters", flush=True)
            except (RudeError, ZeroDivisionError):
                pass
            except Exception as error:
                print(f"FAIL {type(error).__name__}: {str(error)[:200]!a}", flush=True)


# The two sides -------------------------------------------------------------------------------------------------------

BATCHES = {"mutations": lambda: mutations(40), "junk": lambda: junk_calls(12000), "lies": lies}


def run_cases(batch):
    for name, error, parts, function in CASES[batch]:
        print(f"@{name}", flush=True)
        try:
            function()
        except Exception as raised:
            text = str(raised)
            wrong = error is None or not isinstance(raised, error) or not all(part in text for part in parts)
            outcome = f"{type(raised).__name__}: {text}" if wrong else ""
        else:
            outcome = "" if error is None else f"no {error.__name__}"
        if outcome:
            print("FAIL", ascii(outcome), flush=True)


@pytest.mark.parametrize("batch", [*CASES, *BATCHES])
def test_no_signal_and_one_clear_exception(batch, tmp_path):
    command = [sys.executable, os.path.abspath(__file__), batch]
    try:  # in a directory of its own: junk is a file name now and then
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
        output, code, errors = done.stdout, done.returncode, done.stderr
    except subprocess.TimeoutExpired as expired:
        output, code, errors = (expired.stdout or b"").decode(), "timeout", ""
    lines = output.splitlines()
    failed = [f"{lines[k - 1]}\n  {line}" for k, line in enumerate(lines) if line.startswith("FAIL")]
    last = next((line for line in reversed(lines) if line.startswith(("@", "'@", '"@'))), "no case")
    assert code == 0, f"{code} at {last}\n{errors[-3000:]}"
    assert last != "no case"
    assert not failed, "\n".join(failed)


assert set(VALID) <= set(BASE)

if __name__ == "__main__":
    faulthandler.enable()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    BATCHES.get(sys.argv[1], lambda: run_cases(sys.argv[1]))()
