"""Misuse of the C API: the bare calls, and the same wish through onegraph, side by side.

Each row has the name of a record of ``onegraph.faults.api``, which says what the bare calls end in by version, and what
onegraph raises. The raw side is written with ``helpers.raw`` on the bare functions of the library. This file, run as a
script with the name of a group, runs each side in a child of its own and prints one line for each row.
"""

import json
import mmap
import sys
from collections import defaultdict
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from conftest import SANITIZED
from helpers import raw
from helpers.fork_server import run_forked, serve
from helpers.malformed_cases import CASES, CONV, OPS, POOL, graph_of, partition_of, relu, tensors
from helpers.raw import ThrewError, ffi, lib, lt
from helpers.sides import alone, expected, guarded_sides, is_as_noted, raw_side, verdict

import onegraph as og
from onegraph import capi
from onegraph.faults.api import API
from onegraph.faults.catalogue import EVERY_FAULT
from onegraph.native import library

A = og.ArgumentError
F = "f32"
FAULTS = {fault.name: fault for fault in (*API, *EVERY_FAULT)}


class Row(NamedTuple):
    """Both sides of a fault."""

    fault: object
    raw: object
    guarded: object


GROUPS = defaultdict(list)


def record(group, name, guarded, fault=None):
    """Register a raw side, with its guarded side, for the fault of that name."""

    def register(function):
        GROUPS[group].append(Row(FAULTS[fault or f"{group}: {name}"], function, guarded))
        return function

    return register


def twin(batch, name, group=None):
    """Register the raw side of a case of the malformed calls."""
    for found, error, parts, function in CASES[batch]:
        if found == name:
            refusal = FAULTS[f"{group or batch}: {name}"].refusal
            assert (error, parts) == (refusal.error, refusal.parts)
            return record(group or batch, name, function)
    raise KeyError(name)


def ones(shape=(8,), dtype=np.float32):
    return np.ones(shape, dtype)


# One op that the specification forbids, or this library cannot do ----------------------------------------------------


def single(kind, inputs, outputs, attrs, known=None):
    """Run one op on ramps; ``known`` are the shapes of the outputs where the library is told them."""
    dtypes = list(outputs) if isinstance(outputs, list) else [F] * outputs
    ins = [lt(number, shape, dtype) for number, (dtype, shape) in enumerate(inputs)]
    outs = [lt(50 + k, known[k] if known else None, dtype) for k, dtype in enumerate(dtypes)]
    feeds = {}
    for number, (_, shape) in enumerate(inputs):
        ramp = np.linspace(0.25, 2, int(np.prod(shape))).reshape(shape)
        feeds[number] = ramp.astype(raw.numpy_type(ins[number]))
    told = {struct.id: struct for struct in outs} if known else None
    return raw.run([raw.op(kind, 1, ins, outs, attrs)], feeds, outputs=told)


NORM = ("LayerNorm", [(F, (2, 3, 4, 5)), (F, (5,)), (F, (5,))], 3)
X = (1, 2, 5, 5)
W = (2, 2, 3, 3)
DECONV = {**CONV, "weights_format": "IOX"}
AVG = {**POOL, "exclude_pad": True}
PER_TENSOR = {"scales": [0.1], "zps": [0], "qtype": "per_tensor"}
# Name, kind, inputs, outputs and attributes.
MORE_OPS = [
    ("src_shape []", "AvgPoolBackward", [(F, (1, 2, 3, 3))], 1, {**AVG, "src_shape": []}),
    ("src_shape long", "AvgPoolBackward", [(F, (1, 2, 3, 3))], 1, {**AVG, "src_shape": [1] * 12}),
    ("weights_shape []", "ConvolutionBackwardWeights", [(F, X), (F, X)], 1, {**CONV, "weights_shape": []}),
    (
        "weights_shape [], transposed",
        "ConvTransposeBackwardWeights",
        [(F, X), (F, X)],
        1,
        {**DECONV, "weights_shape": []},
    ),
    ("groups 0, transposed", "ConvTranspose", [(F, X), (F, W)], 1, {**DECONV, "groups": 0}),
    ("groups 0, gradient", "ConvolutionBackwardData", [(F, X), (F, W)], 1, {**CONV, "groups": 0, "dst_shape": X}),
    ("pool strides 0", "MaxPool", [(F, X)], 1, {**POOL, "strides": [0, 0]}),
    ("average strides []", "AvgPool", [(F, X)], 1, {**AVG, "strides": []}),
    ("average kernel []", "AvgPool", [(F, X)], 1, {**AVG, "kernel": []}),
    ("begin_norm_axis -100", *NORM, {"begin_norm_axis": -100}),
    ("begin_norm_axis 5", *NORM, {"begin_norm_axis": 5}),
    ("begin_norm_axis 2**40", *NORM, {"begin_norm_axis": 2**40}),
    ("Clamp from 1 to -1", "Clamp", [(F, (2, 3))], 1, {"min": 1.0, "max": -1.0}),
    ("Clamp to nan", "Clamp", [(F, (2, 3))], 1, {"min": 1.0, "max": float("nan")}),
    ("axis -100", "SoftMax", [(F, (2, 3))], 1, {"axis": -100}),
    ("axis of Concat", "Concat", [(F, (2, 3))] * 2, 1, {"axis": 5}),
    ("groups -1", "Convolution", [(F, X), (F, W)], 1, {**CONV, "groups": -1}),
    ("no pads", "Convolution", [(F, X), (F, W)], 1, {**CONV, "pads_begin": []}),
    ("gamma too short", "LayerNorm", [(F, (2, 64)), (F, (1,)), (F, (1,))], 1, {"keep_stats": False}),
    (
        "mean too short",
        "BatchNormInference",
        [(F, (1, 64, 2, 2)), (F, (64,)), (F, (64,)), (F, (1,)), (F, (64,))],
        1,
        {"epsilon": 0.001, "data_format": "NCX"},
    ),
    ("slope too short", "PReLU", [(F, (1, 64, 2, 2)), (F, (3,))], 1, {"data_format": "NCX"}),
    ("scale nan", "Quantize", [(F, (2, 3))], ["u8"], {**PER_TENSOR, "scales": [float("nan")]}),
    ("qtype foo", "Quantize", [(F, (1, 3))], ["u8"], {**PER_TENSOR, "qtype": "foo"}),
    ("rounding_type foo", "MaxPool", [(F, X)], 1, {**POOL, "rounding_type": "foo"}),
    ("epsilon nan", "LayerNorm", [(F, (2, 4))], 1, {"use_affine": False, "keep_stats": False, "epsilon": float("nan")}),
    ("strides too long", "MaxPool", [(F, X)], 1, {**POOL, "strides": [2, 2, 2]}),
    ("kernel too long", "MaxPool", [(F, X)], 1, {**POOL, "kernel": [2, 2, 2]}),
    ("pads too long", "MaxPool", [(F, X)], 1, {**POOL, "pads_begin": [0, 0, 0]}),
]
# The same, where the library is told the shape of the output and then looks away.
IGNORED = [
    ("axes", "ReduceSum", [(F, (3, 2))], [(3, 1)], {"axes": [0], "keep_dims": True}),
    ("axes out of range", "ReduceSum", [(F, (3, 2))], [(3, 1)], {"axes": [100], "keep_dims": True}),
    ("sizes", "Interpolate", [(F, (1, 2, 4, 4))], [(1, 2, 8, 8)],
     {"mode": "nearest", "sizes": [3, 3], "data_format": "NCX"}),
    ("dilations 0", "MaxPool", [(F, (1, 2, 4, 4))], [(1, 2, 2, 2)], {**POOL, "dilations": [0, 0]}),
    ("dst_shape", "ConvolutionBackwardData", [(F, X), (F, W)], [X], {**CONV, "dst_shape": [9, 9, 9, 9]}),
    ("weights_shape", "ConvolutionBackwardWeights", [(F, X), (F, X)], [W], {**CONV, "weights_shape": [9, 9, 9, 9]}),
    ("output_padding", "ConvTranspose", [(F, X), (F, W)], [X], {**DECONV, "output_padding": [100, 100]}),
]  # fmt: skip


def through_capi(kind, inputs, outputs, attrs, known=None):
    dtypes = list(outputs) if isinstance(outputs, list) else [F] * outputs
    ins = [capi.LogicalTensor(number, dtype, shape) for number, (dtype, shape) in enumerate(inputs)]
    outs = [capi.LogicalTensor(50 + k, d, known[k] if known else None) for k, d in enumerate(dtypes)]
    return graph_of(capi.Op(1, kind, inputs=ins, outputs=outs, attrs=attrs)).partitions("debug")[0].compile()


def through_builder(kind, inputs, outputs, attrs):
    graph = og.Graph()
    sources = [graph.input(f"i{k}", dtype, shape) for k, (dtype, shape) in enumerate(inputs)]
    graph.op(kind, sources, attrs, dtype=outputs[0] if isinstance(outputs, list) else None)


for name_, kind_, ins_, outs_, attrs_, *_ in OPS:
    if f"ops: {name_}" in FAULTS:  # the others are valid graphs, and examples of faults
        record("ops", name_, lambda a=(kind_, ins_, outs_, attrs_): through_capi(*a))(
            lambda a=(kind_, ins_, outs_, attrs_): single(*a) and None
        )
for name_, kind_, ins_, outs_, attrs_ in MORE_OPS:
    arguments_ = (kind_, ins_, outs_, attrs_)
    record("ops", name_, lambda a=arguments_: through_capi(*a))(lambda a=arguments_: single(*a) and None)
    record("ops", name_, lambda a=arguments_: through_builder(*a))(None)
for name_, kind_, ins_, known_, attrs_ in IGNORED:
    arguments_ = (kind_, ins_, len(known_), attrs_, known_)
    record("ops", f"ignored: {name_}", lambda a=arguments_: through_capi(*a))(lambda a=arguments_: single(*a) and None)


# Strides -------------------------------------------------------------------------------------------------------------


def strided_output(kind, inputs, dtype, strides, attrs, right):
    """One op whose output has gaps between its rows."""
    ins = [lt(number, one.shape) for number, one in enumerate(inputs)]
    out = lt(9, inputs[0].shape, dtype, strides=strides)
    found = raw.run([raw.op(kind, 1, ins, [out], attrs)], dict(enumerate(inputs)), outputs={9: out})
    return verdict(np.allclose(found[9].astype(float), right, atol=1e-4))


def strided_capi(kind, shapes, dtype, strides, attrs):
    ins = [capi.LogicalTensor(number, F, shape) for number, shape in enumerate(shapes)]
    out = capi.LogicalTensor(9, dtype, shapes[0], strides=strides)
    graph_of(capi.Op(1, kind, inputs=ins, outputs=[out], attrs=attrs)).partitions("debug")[0].compile()


@record(
    "strides",
    "SoftMax over one element, of other strides",
    lambda: strided_capi("SoftMax", [(3, 1, 1)], F, (1, 4, 4), {"axis": 2}),
    "strided_softmax_of_single_axes",
)
def _():
    return strided_output("SoftMax", [np.ones((3, 1, 1), np.float32)], F, (1, 4, 4), {"axis": 2}, 1)


def with_strides(strides):
    """An Exp whose input has these strides, which numpy could not have."""
    ins, outs = [lt(0, (2, 3), strides=strides)], [lt(1, (2, 3))]
    raw.compile_(raw.partitions(raw.graph(raw.op("Exp", 1, ins, outs)))[0], ins, outs)


twin("tensors", "negative strides", "strides")(lambda: with_strides((-3, 1)))
record("strides", "overlapping output", lambda: strided_capi("Exp", [(2, 3)], F, (1, 1), {}))(
    lambda: strided_output("Exp", [np.ones((2, 3), np.float32)], F, (1, 1), {}, np.e)
)


# Graphs --------------------------------------------------------------------------------------------------------------


def raw_relu(number=1, source=0, target=1, shape=(8,), kind="ReLU", **options):
    return raw.op(kind, number, [lt(source, shape, **options)], [lt(target, shape, **options)])


def partitioned(*ops, policy="debug"):
    return [raw.op_ids(partition) for partition in raw.partitions(raw.graph(*ops), policy)]


INVALID_GRAPH = "refuses graph_finalize: invalid_graph"
twin("graph", "repeated id")(lambda: verdict(len(partitioned(raw_relu(), raw_relu(1, 1, 2))) == 2))
twin("graph", "other kind, repeated id")(
    lambda: verdict(len(partitioned(raw_relu(), raw_relu(1, 1, 2, kind="Exp"))) == 2)
)
twin("graph", "other dims")(lambda: raw.graph(raw_relu(), raw_relu(2, 1, 2, shape=(4,))))
twin("graph", "unknown and known rank")(lambda: raw.graph(raw_relu(shape=None), raw_relu(2, 1, 2)))
twin("graph", "unknown and known dim")(lambda: raw.graph(raw_relu(shape=(None,)), raw_relu(2, 1, 2)))
twin("graph", "other layout")(lambda: raw.graph(raw_relu(layout="any"), raw_relu(2, 1, 2)))
twin("graph", "other property")(lambda: raw.graph(raw_relu(property="constant"), raw_relu(2, 1, 2)))
twin("graph", "other dtype")(lambda: raw.graph(raw_relu(dtype="bf16"), raw_relu(2, 1, 2)))
twin("graph", "two producers")(lambda: partitioned(raw_relu(), raw_relu(2, 5, 1, kind="Exp")) and None)
twin("graph", "cycle")(lambda: verdict(partitioned(raw_relu(), raw_relu(2, 1, 0, kind="Exp"))))
twin("graph", "cycle with a consumer")(
    lambda: partitioned(raw_relu(), raw_relu(2, 1, 0, kind="Exp"), raw_relu(3, 1, 2, kind="Abs"))
)


@record(
    "graph",
    "cycle through a fusion",
    lambda: graph_of(
        capi.Op(
            1, "Add", inputs=[capi.LogicalTensor(n, F, (8,)) for n in (0, 3)], outputs=[capi.LogicalTensor(1, F, (8,))]
        ),
        relu(2, 1, 2),
        relu(3, 2, 3, kind="Exp"),
        relu(4, 2, 4, kind="Abs"),
    ),
)
def _():
    add = raw.op("Add", 1, [lt(0, (8,)), lt(3, (8,))], [lt(1, (8,))])
    partitioned(add, raw_relu(2, 1, 2), raw_relu(3, 2, 3, kind="Exp"), raw_relu(4, 2, 4, kind="Abs"), policy="fusion")


twin("graph", "self loop")(lambda: verdict(partitioned(raw_relu(1, 0, 0))))
twin("graph", "add_op after finalize")(
    lambda: raw.call(lib.dnnl_graph_add_op, raw.graph(raw_relu()), raw_relu(2, 1, 2))
)
twin("graph", "kind 1000")(lambda: raw.partitions(raw.graph(raw_relu_of(1000))))
twin("graph", "kind last_symbol")(lambda: raw.partitions(raw.graph(raw_relu_of(lib.dnnl_graph_op_last_symbol))))
record("graph", "kind of the library's own", lambda: capi.Op(1, 4661))(
    lambda: raw.partitions(raw.graph(raw_relu_of(0x1235))) and None
)
twin("graph", "policy 0")(lambda: raw.partitions(raw.graph(raw_relu()), 0) and None)
twin("graph", "fpmath 99")(
    lambda: raw.made(lib.dnnl_graph_graph_create_with_fpmath_mode, "dnnl_graph_graph_t", lib.dnnl_cpu, 99) and None
)
twin("graph", "gpu graph")(lambda: raw.made(lib.dnnl_graph_graph_create, "dnnl_graph_graph_t", lib.dnnl_gpu) and None)
twin("graph", "no inputs")(lambda: raw.graph(raw.op("ReLU", 1, [], [lt(1, (8,))])))
twin("graph", "list for a scalar")(lambda: alpha([1.0, 2.0, 3.0]))
record("graph", "nothing for a scalar", lambda: capi.Op(1, "LeakyReLU", attrs={"alpha": []}))(lambda: alpha([]))
record("graph", "two kinds of one attribute", lambda: two_kinds())(lambda: alpha([1.0], [1]))
twin("graph", "bool of two")(
    lambda: raw.call(
        lib.dnnl_graph_op_set_attr_bool,
        raw.op("ReduceSum", 1),
        lib.dnnl_graph_op_attr_keep_dims,
        ffi.new("uint8_t[2]"),
        2,
    )
)
record("graph", "nowhere to create", lambda: capi.Graph(None))(
    lambda: raw.call(lib.dnnl_graph_graph_create, ffi.NULL, lib.dnnl_cpu)
)


def raw_relu_of(code):
    return raw.op(code, 1, [lt(0, (8,))], [lt(1, (8,))])


def alpha(reals, whole=None):
    new = raw.op("LeakyReLU", 1, [lt(0, (8,))], [lt(1, (8,))])
    code = lib.dnnl_graph_op_attr_alpha
    raw.call(lib.dnnl_graph_op_set_attr_f32, new, code, ffi.new("float[]", [*reals, 0.5]), len(reals))
    if whole:
        raw.call(lib.dnnl_graph_op_set_attr_s64, new, code, ffi.new("int64_t[]", whole), 1)
    raw.graph(new)


def two_kinds():
    op = capi.Op(1, "LeakyReLU", attrs={"alpha": 0.5})
    op.set_attr("alpha", "1")


def asked_for(count, use):
    """Ask a graph of forty partitions for another number of them, and use the one at ``use``."""
    ops = [raw.op("SoftMax", n + 1, [lt(n, (4, 4))], [lt(n + 1, (4, 4))], {"axis": 1}) for n in range(40)]
    graph = raw.graph(*ops)
    raw.call(lib.dnnl_graph_graph_filter, graph, raw.POLICIES["debug"])
    found = ffi.new("dnnl_graph_partition_t[]", max(count, use + 1))
    raw.call(lib.dnnl_graph_graph_get_partitions, graph, count, found)
    raw.op_ids(found[use])


twin("graph", "forty partitions")(lambda: asked_for(60, 59))
record("graph", "too few partitions", lambda: graph_of(relu()).partitions(3))(lambda: asked_for(1, 0))


@twin("graph", "partitions before finalize")
def _():
    found = ffi.new("dnnl_graph_partition_t[1]")
    raw.call(lib.dnnl_graph_graph_get_partitions, raw.graph(raw_relu(), finalize=False), 1, found)
    raw.op_ids(found[0])


def destroyed_graph():
    graph = raw.graph(raw_relu(), raw_relu(2, 1, 2, kind="Exp"))
    raw.call(lib.dnnl_graph_graph_filter, graph, raw.POLICIES["debug"])
    lib.dnnl_graph_graph_destroy(graph)
    return graph


@twin("graph", "ops, graph and partition deleted early")
def _():
    found = ffi.new("dnnl_graph_partition_t[2]")
    raw.call(lib.dnnl_graph_graph_get_partitions, destroyed_graph(), 2, found)
    raw.op_ids(found[1])


twin("graph", "copy of a handle")(lambda: lib.dnnl_graph_graph_destroy(destroyed_graph()))


# Logical tensors and tensors -----------------------------------------------------------------------------------------


def with_dims(count, layout="strided"):
    init = lib.dnnl_graph_logical_tensor_init_with_dims
    struct, kind = lt(0), getattr(lib, f"dnnl_graph_layout_type_{layout}")
    dims = ffi.cast("int64_t *", ffi.new("int64_t[]", [1] * count))
    raw.call(init, struct, 1, lib.dnnl_f32, count, dims, kind, lib.dnnl_graph_tensor_property_undef)
    return struct


twin("tensors", "13 dims")(lambda: verdict(not with_dims(13)))
twin("tensors", "400 dims")(lambda: verdict(not with_dims(400)))
twin("tensors", "more than 2**60 elements")(lambda: verdict(raw.size(lt(0, (2**31, 2**33))) == 2**66))
twin("tensors", "layout any")(lambda: verdict(raw.size(lt(0, (8,), layout="any")) < 2**63))
twin("tensors", "unknown dims")(lambda: verdict(raw.size(lt(0)) > 0))
twin("tensors", "sizes")(lambda: verdict(raw.size(lt(0, (0, 4))) == 0))
twin("tensors", "negative strides")(lambda: verdict(raw.size(lt(0, (4,), strides=(-1,))) == 16))
twin("tensors", "opaque")(lambda: raw.size(lt(0, (4,), layout="opaque", layout_id=77)))
record("tensors", "dims of an opaque one", lambda: capi.LogicalTensor(1, F, (4,), layout="opaque"))(
    lambda: raw.size(with_dims(4, "opaque"))
)
record("tensors", "equal to an opaque one", lambda: capi.LogicalTensor(1, F, layout="opaque"))(
    lambda: raw.told(
        lib.dnnl_graph_logical_tensor_is_equal, "uint8_t", lt(0, (4,), layout="opaque", layout_id=77), lt(0, (4,))
    )
)
record("tensors", "undefined data type", lambda: capi.LogicalTensor(1, "undef", (8,)))(
    lambda: verdict(raw.size(undefined()) < 2**63)
)
record("tensors", "-5 dims", lambda: capi.LogicalTensor(1, F, -5))(
    lambda: raw.call(
        lib.dnnl_graph_logical_tensor_init, lt(0), 1, lib.dnnl_f32, -5, lib.dnnl_graph_layout_type_strided, 0
    )
)
twin("tensors", "data None")(lambda: subtracted([ones(), None]))
twin("tensors", "data too small")(lambda: overrun(lt(2, (4,))))


def undefined():
    struct = lt(0, (8,))
    struct.data_type = lib.dnnl_data_type_undef
    return struct


@twin("graph", "copy of a handle", "tensors")
def _():
    tensor = raw.tensor(lt(0, (8,)), ones())
    for _ in range(2):
        lib.dnnl_graph_tensor_destroy(tensor)


# Compile -------------------------------------------------------------------------------------------------------------


def relu_for(inputs, outputs=None, partition=None):
    partition = partition or raw.partitions(raw.graph(raw_relu()))[0]
    return raw.compile_(partition, inputs, outputs or [lt(1, (8,))]) and None


SUBTRACT_IDS = (0, 1)


def subtraction(shape=(8,)):
    return raw.op("Subtract", 1, [lt(n, shape) for n in SUBTRACT_IDS], [lt(2, shape)])


def subtract_for(inputs):
    return raw.compile_(raw.partitions(raw.graph(subtraction()))[0], inputs, [lt(2, (8,))])


twin("compile", "missing input")(lambda: subtract_for([lt(0, (8,))]))
twin("compile", "one input twice")(lambda: subtract_for([lt(0, (8,)), lt(0, (8,))]))
twin("compile", "extra input")(lambda: subtract_for([lt(n, (8,)) for n in (0, 1, 9)]) and None)
twin("compile", "None among inputs")(lambda: relu_for([ffi.NULL]))
twin("compile", "other shape than the graph")(lambda: relu_for([lt(0, (4,))], [lt(1, (4,))]))
twin("compile", "other dtype than the graph")(lambda: relu_for([lt(0, (8,), "bf16")], [lt(1, (8,), "bf16")]))
twin("compile", "unknown dims")(lambda: relu_for([lt(0)]))
twin("compile", "input of layout any, ReLU")(lambda: relu_for([lt(0, (8,), layout="any")]))
twin("compile", "input of layout any, Subtract")(lambda: subtract_for([lt(0, (8,)), lt(1, (8,), layout="any")]))
record(
    "compile",
    "input of layout undef",
    lambda: partition_of(relu()).compile([capi.LogicalTensor(0, F, (8,), layout="undef")]),
)(lambda: relu_for([lt(0, (8,), layout="undef")]))
twin("compile", "unsupported partition")(lambda: unchecked("Pow", (4,), (4,), {"beta": 3.0}))
twin("compile", "wrong output shape")(lambda: reduced_along_another_axis())
twin("compile", "unknown id")(lambda: verdict(raw.query(subtract_for([lt(n, (8,)) for n in SUBTRACT_IDS]), 7).id == 7))
twin("compile", "cache capacity")(lambda: raw.call(lib.dnnl_graph_set_compiled_partition_cache_capacity, -1))
twin("compile", "constant cache 5")(lambda: raw.call(lib.dnnl_graph_set_constant_tensor_cache, -1))


def unchecked(kind, shape, result, attrs):
    ins, outs = [lt(0, shape)], [lt(1, result)]
    (partition,) = raw.partitions(raw.graph(raw.op(kind, 1, ins, outs, attrs)))
    raw.compile_(partition, ins, outs, compiled=uncompiled(partition))


LARGE_PRIME = 2**40 - 87


def long_vector(number):
    return capi.LogicalTensor(number, F, (LARGE_PRIME, 3))


@record(
    "compile",
    "an axis of a large prime",
    lambda: capi.Graph().add_op(capi.Op(0, "Reorder", inputs=[long_vector(0)], outputs=[long_vector(1)])),
    "large_factor",
)
def _():
    ends = [lt(0, (LARGE_PRIME, 3))], [lt(1, (LARGE_PRIME, 3), strides=(1, LARGE_PRIME))]
    raw.compile_(raw.partitions(raw.graph(raw.op("Reorder", 1, *ends)))[0], *ends)


LONG = (1, 5 * 2**22, 1, 2)  # too many to count them in f32
STATISTICS = {"epsilon": 1.0, "momentum": 0.5}


def refused_statistics():
    ins = [capi.LogicalTensor(0, F, LONG), *(capi.LogicalTensor(number, F, (2,)) for number in (1, 2))]
    outs = [capi.LogicalTensor(3, F, LONG), *(capi.LogicalTensor(number, F, (2,)) for number in (4, 5, 6, 7))]
    capi.Graph().add_op(capi.Op(0, "BatchNormForwardTraining", inputs=ins, outputs=outs, attrs=STATISTICS))


@record("compile", "statistics of more numbers than f32 counts", refused_statistics, "long_sums")
def _():
    ins = [lt(0, LONG), lt(1, (2,)), lt(2, (2,))]
    op = raw.op("BatchNormForwardTraining", 1, ins, [lt(number) for number in (3, 4, 5, 6, 7)], STATISTICS)
    given = {0: np.full(LONG, 3, np.float32), 1: np.zeros(2, np.float32), 2: np.ones(2, np.float32)}
    return verdict(np.allclose(raw.run([op], given)[6], 3))


def uncompiled(partition):
    return raw.made(lib.dnnl_graph_compiled_partition_create, "dnnl_graph_compiled_partition_t", partition)


def reduced_along_another_axis():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    out = lt(1, (3, 1))
    op = raw.op("ReduceSum", 1, [lt(0, (3, 2))], [lt(1)], {"axes": [0], "keep_dims": True})
    return verdict(np.array_equal(raw.run([op], {0: x}, outputs={1: out})[1], x.sum(0, keepdims=True)))


def never_compiled():
    return capi.CompiledPartition.__new__(capi.CompiledPartition)


def raw_never_compiled():
    return uncompiled(raw.partitions(raw.graph(raw_relu()))[0])


MADE = "was not made by"
record("compile", "executed before it is compiled", lambda: never_compiled().execute(capi.Stream(), [], []))(
    lambda: raw.execute(raw_never_compiled(), [raw.tensor(lt(0, (8,)), ones())], [raw.tensor(lt(1, (8,)), ones())])
)


@record("compile", "in-place pairs before it is compiled", lambda: never_compiled().inplace_pairs)
def _():
    pairs = ffi.new("const dnnl_graph_inplace_pair_t **")
    raw.call(lib.dnnl_graph_compiled_partition_get_inplace_ports, raw_never_compiled(), ffi.new("size_t *"), pairs)


def two_compiled():
    first, second = partition_of(relu()).compile(), partition_of(relu(kind="Exp")).compile()
    for compiled, right in ((first, 1), (second, np.e)):
        ins, outs = tensors(compiled)
        compiled.execute(capi.Stream(), ins, outs)
        np.testing.assert_allclose(outs[0].data, right, rtol=1e-6)


@record("compile", "into what another partition made", two_compiled)
def _():
    other = raw.partitions(raw.graph(subtraction()))[0]
    (mine,) = raw.partitions(raw.graph(raw_relu()))
    compiled = raw.compile_(mine, [lt(0, (8,))], [lt(1, (8,))], compiled=uncompiled(other))
    raw.execute(compiled, [raw.tensor(lt(0, (8,)), ones())], [raw.tensor(lt(1, (8,)), ones())])


# Execute -------------------------------------------------------------------------------------------------------------


def subtracted(arrays, outputs=None, order=SUBTRACT_IDS, structs=None, shape=(8,)):
    """Execute 5 - 2 with whatever is handed in; verdict on the result."""
    compiled = raw.compile_(
        raw.partitions(raw.graph(subtraction(shape)))[0], [lt(n, shape) for n in SUBTRACT_IDS], [lt(2, shape)]
    )
    out = np.full(shape, 7, np.float32)
    ins = [raw.tensor((structs or {}).get(n, lt(n, shape)), one) for n, one in zip(order, arrays, strict=False)]
    raw.execute(compiled, ins, [raw.tensor(lt(2, shape), out)] if outputs is None else outputs)
    return verdict((out == 3).all())


def overrun(struct):
    """Give the output a memory of the size that its own logical tensor has."""
    memory = np.full(8, 7, np.float32)
    subtracted([ones() * 5, ones() * 2], [raw.tensor(struct, memory[:4])])
    if (memory[4:] != 7).any():
        raise OverflowError
    return "right"


FIVE, TWO = np.full(8, 5, np.float32), np.full(8, 2, np.float32)
twin("execute", "one input")(lambda: subtracted([FIVE]))
twin("execute", "no output")(lambda: subtracted([FIVE, TWO], []))
twin("execute", "extra input")(lambda: subtracted([FIVE, TWO, FIVE], order=(0, 1, 9)))
twin("execute", "None tensor")(
    lambda: raw.execute(
        subtract_for([lt(n, (8,)) for n in SUBTRACT_IDS]),
        [raw.tensor(lt(0, (8,)), FIVE), ffi.NULL],
        [raw.tensor(lt(2, (8,)), ones())],
    )
)
twin("execute", "other shape")(lambda: overrun(lt(2, (4,))))
twin("execute", "other dtype")(lambda: subtracted([FIVE, TWO], structs={0: lt(0, (8,), "s32")}))
twin("execute", "other strides")(
    lambda: subtracted([np.repeat(FIVE, 2) * ([1, 0] * 8), TWO], structs={0: lt(0, (8,), strides=(2,))})
)
twin("compile", "the order of the inputs does not matter", "execute")(lambda: subtracted([TWO, FIVE], order=(1, 0)))


@twin("execute", "partial overlap")
def _():
    memory = np.arange(4097, dtype=np.float32)
    shape = (4096,)
    wanted = memory[:-1] - 2
    subtracted([memory[:-1], np.full(shape, 2, np.float32)], [raw.tensor(lt(2, shape), memory[1:])], shape=shape)
    return verdict(np.array_equal(memory[1:], wanted))


@twin("execute", "read-only output")
def _():
    page = np.frombuffer(mmap.mmap(-1, 4096, prot=mmap.PROT_READ), np.float32, 8)
    subtracted([FIVE, TWO], [raw.tensor(lt(2, (8,)), page)])


# Lifetimes and settings of the process -------------------------------------------------------------------------------

SQUARE = (64, 64)


def matmul_on(on=None, destroy=False, property="undef", between=lambda: None):
    """Compile a product, let something happen, execute it."""
    ins, outs = [lt(0, SQUARE), lt(1, SQUARE, property=property)], [lt(2, SQUARE)]
    partition = raw.partitions(raw.graph(raw.op("MatMul", 1, ins, outs)))[0]
    compiled = raw.compile_(partition, ins, outs, on)
    between()
    if destroy:
        lib.dnnl_engine_destroy(on)
    x, y = np.eye(64, dtype=np.float32), np.zeros(SQUARE, np.float32)
    raw.execute(compiled, [raw.tensor(ins[0], x), raw.tensor(ins[1], x)], [raw.tensor(outs[0], y)])
    return verdict(np.array_equal(x, y))


def own_engine(keep=True):
    engine = capi.Engine(allocator=capi.Allocator())
    ts = [capi.LogicalTensor(n, F, SQUARE) for n in range(3)]
    compiled = partition_of(capi.Op(1, "MatMul", inputs=ts[:2], outputs=ts[2:])).compile(engine=engine)
    x, y = np.eye(64, dtype=np.float32), np.zeros(SQUARE, np.float32)
    stream, made = capi.Stream(engine), [capi.Tensor(t, a, engine) for t, a in zip(ts, (x, x, y), strict=True)]
    del engine  # the library would use it after it is freed
    compiled.execute(stream, made[:2], made[2:])
    np.testing.assert_array_equal(x, y)


record("lifetimes", "destroyed engine", own_engine)(
    lambda: matmul_on(raw.made(lib.dnnl_engine_create, "dnnl_engine_t", lib.dnnl_cpu, 0), destroy=True)
)
twin("graph", "allocator 3", "lifetimes")(lambda: matmul_on(raw.engine(ffi.NULL)))


@record("lifetimes", "the kernel of a destroyed engine", own_engine)
def _():
    raw.call(lib.dnnl_graph_set_compiled_partition_cache_capacity, 1024)
    ins, outs = [lt(0, (8,))], [lt(1, (8,))]
    (partition,) = raw.partitions(raw.graph(raw_relu()))
    first = raw.made(lib.dnnl_engine_create, "dnnl_engine_t", lib.dnnl_cpu, 0)
    lib.dnnl_graph_compiled_partition_destroy(raw.compile_(partition, ins, outs, first))
    lib.dnnl_engine_destroy(first)
    raw.engine(), raw.stream()
    y = np.zeros(8, np.float32)
    raw.execute(raw.compile_(partition, ins, outs), [raw.tensor(ins[0], ones())], [raw.tensor(outs[0], y)])
    return verdict((y == 1).all())


def callbacks(allocate):
    free = raw.kept(ffi.callback("void(void *)", lambda pointer: None))
    make = raw.kept(ffi.callback("void *(size_t, size_t)", allocate))
    return raw.made(lib.dnnl_graph_allocator_create, "dnnl_graph_allocator_t", make, free)


record("lifetimes", "allocator of Python", lambda: capi.Allocator(lambda size, alignment: None))(
    lambda: convolved(raw.engine(callbacks(lambda size, alignment: ffi.NULL)))
)


def convolved(on):
    """A convolution that needs scratch memory."""
    ins, outs = [lt(0, (1, 16, 32, 32)), lt(1, (16, 16, 3, 3))], [lt(2, (1, 16, 32, 32))]
    partition = raw.partitions(raw.graph(raw.op("Convolution", 1, ins, outs, CONV)))[0]
    compiled = raw.compile_(partition, ins, outs, on)
    arrays = [np.ones((1, 16, 32, 32), np.float32), np.ones((16, 16, 3, 3), np.float32), ones((1, 16, 32, 32))]
    made = [raw.tensor(struct, one, on) for struct, one in zip((*ins, *outs), arrays, strict=True)]
    raw.execute(compiled, made[:2], made[2:], raw.stream(on))


def switched():
    own_engine()
    capi.set_constant_tensor_cache(not capi.get_constant_tensor_cache())


@record("lifetimes", "constant cache off after a compilation", switched)
def _():
    raw.call(lib.dnnl_graph_set_constant_tensor_cache, 1)
    ins, outs = [lt(0, (1, 16, 32, 32)), lt(1, (16, 16, 3, 3), property="constant")], [lt(2, (1, 16, 32, 32))]
    compiled = raw.compile_(raw.partitions(raw.graph(raw.op("Convolution", 1, ins, outs, CONV)))[0], ins, outs)
    raw.call(lib.dnnl_graph_set_constant_tensor_cache, 0)
    arrays = [np.ones((1, 16, 32, 32), np.float32), np.ones((16, 16, 3, 3), np.float32), ones((1, 16, 32, 32))]
    made = [raw.tensor(struct, one) for struct, one in zip((*ins, *outs), arrays, strict=True)]
    raw.execute(compiled, made[:2], made[2:])


@record("lifetimes", "constant cache on after a compilation", switched)
def _():
    for _ in range(50):
        raw.call(lib.dnnl_graph_set_constant_tensor_cache, 0)
        ins, outs = [lt(0, (1, 16, 32, 32)), lt(1, (16, 16, 3, 3), property="constant")], [lt(2, (1, 16, 32, 32))]
        compiled = raw.compile_(raw.partitions(raw.graph(raw.op("Convolution", 1, ins, outs, CONV)))[0], ins, outs)
        raw.call(lib.dnnl_graph_set_constant_tensor_cache, 1)
        lib.dnnl_graph_compiled_partition_destroy(compiled)


def constant_product(compiled, weights):
    out = capi.Tensor(compiled.outputs[0], np.empty(SQUARE, np.float32))
    ins = [capi.Tensor(t, a) for t, a in zip(compiled.inputs, (np.eye(64, dtype=np.float32), weights), strict=True)]
    compiled.execute(capi.Stream(), ins, [out])
    np.testing.assert_array_equal(out.data, weights)


def other_constants():
    def fresh():
        ts = [capi.LogicalTensor(n, F, SQUARE, property="constant" if n == 1 else "undef") for n in range(3)]
        return partition_of(capi.Op(1, "MatMul", inputs=ts[:2], outputs=ts[2:]))

    capi.set_constant_tensor_cache(True)
    partition, weights = fresh(), np.arange(64 * 64, dtype=np.float32).reshape(SQUARE)
    compiled = partition.compile()
    constant_product(compiled, weights)
    constant_product(compiled, weights.copy())
    constant_product(fresh().compile(), weights + 1)
    with pytest.raises(A, match="tensor 1 is constant"):  # the same for a second compilation from 3.6 on
        constant_product(partition.compile(), weights + 1)
    constant_product(compiled, weights + 1)


@record("lifetimes", "other constants after the first execution", other_constants)
def _():
    raw.call(lib.dnnl_graph_set_constant_tensor_cache, 1)
    ins, outs = [lt(0, (1, 16, 32, 32)), lt(1, (16, 16, 3, 3), property="constant")], [lt(2, (1, 16, 32, 32))]
    compiled = raw.compile_(raw.partitions(raw.graph(raw.op("Convolution", 1, ins, outs, CONV)))[0], ins, outs)
    found = []
    for factor in (1, 2):
        y = ones((1, 16, 32, 32))
        weights = np.full((16, 16, 3, 3), factor, np.float32)
        made = [raw.tensor(ins[0], ones((1, 16, 32, 32))), raw.tensor(ins[1], weights)]
        raw.execute(compiled, made, [raw.tensor(outs[0], y)])
        found.append(y)
    return verdict(np.allclose(found[1], 2 * found[0]))


@record("lifetimes", "compiled again after it threw", lambda: compiled_twice())
def _():
    raw.call(lib.dnnl_graph_set_compiled_partition_cache_capacity, 1024)
    ins, outs = [lt(0, (3, 1, 4))], [lt(1)]
    (partition,) = raw.partitions(raw.graph(raw.op("ReduceSum", 1, ins, outs, {"axes": [1]})))
    for _ in range(2):
        try:
            raw.compile_(partition, ins, outs)
        except ThrewError as error:
            last = error
    raise last


def compiled_twice():
    """A compilation that throws is the same the second time: what it left in the caches is dropped."""
    for _ in range(2):
        with pytest.raises(og.UnsupportedError, match="size 1"):
            through_capi("ReduceSum", [(F, (3, 1, 4))], 1, {"axes": [1]})


# The two sides -------------------------------------------------------------------------------------------------------


def as_refused(row):
    """The guarded side, which raises what the fault says; of the faults of valid graphs, that these are named."""
    refusal, name = row.fault.refusal, row.fault.name
    wanted = refusal[:2] if refusal is not None else VALID.get(name, (None, ()))
    error, parts = wanted
    try:
        row.guarded()
    except Exception as found:
        if error is None or not isinstance(found, error) or not all(part in str(found) for part in parts):
            raise
        return
    assert error is None, f"no {error}"


VALID = {name: (og.UnsupportedError, (name,)) for name in ("large_factor", "long_sums")}


def of_library(row):
    """What is noted of the bare calls."""
    refusal = row.fault.refusal
    return expected(row.fault.seen, () if refusal is None else refusal.on)


def run_group(group):
    said = guarded_sides([partial(as_refused, row) for row in GROUPS[group]])
    for row, mistake in zip(GROUPS[group], said, strict=True):
        # The sanitizer turns signals into exits of its own; there is nothing to learn of the library under it.
        noted = of_library(row)
        found = alone(raw_side, row.raw, noted) if row.raw is not None and not SANITIZED else ""
        print(json.dumps([found, mistake]), flush=True)


@pytest.mark.parametrize("group", [*GROUPS])
def test_the_library_fails_and_onegraph_does_not(group):
    done = run_forked(__name__, [group])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(GROUPS[group]), done.stderr[-3000:]
    failed = []
    for row, (outcome, mistake) in zip(GROUPS[group], found, strict=True):
        noted = of_library(row)
        if mistake:
            failed.append(f"{row.fault.name}: through onegraph: {mistake}")
        if outcome and not is_as_noted(outcome, noted):
            failed.append(f"{row.fault.name}: oneDNN {library.VERSION} by itself: {outcome}; noted is {noted}")
    assert not failed, "\n".join(failed)


def test_every_misuse_has_both_sides():
    """Every record of the faults of the C API is run here, and everything that is run here has a record."""
    registered = {row.fault.name for rows in GROUPS.values() for row in rows if row.raw is not None}
    assert registered - {fault.name for fault in EVERY_FAULT} == {fault.name for fault in API}


if __name__ == "__main__":
    serve(lambda: run_group(sys.argv[1]))
