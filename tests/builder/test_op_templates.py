"""Constructors without checks, which the compiler uses, give the same objects as the checked ones."""

import itertools

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph import capi
from onegraph.capi import CompiledPartition, LogicalTensor, default_engine
from onegraph.capi.op_template import LazyOps, OpTemplate
from onegraph.compiler.rewrites import library_form, signature_form
from onegraph.native.library import VERSION, ffi
from onegraph.opset.editions.dialect import base_call
from onegraph.opset.editions.registry import base_of
from onegraph.opset.schema import TensorType

WINDOW = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
RNG = np.random.default_rng(3)


def types(*tensors: LogicalTensor) -> list[TensorType]:
    return [TensorType(tensor.dtype, tensor.shape) for tensor in tensors]


def fields(tensor: LogicalTensor) -> tuple[object, ...]:
    return tensor.id, tensor.dtype, tensor.ndims, tensor.shape, tensor.strides, tensor.layout, tensor.property


@pytest.mark.parametrize("shape", [None, (), (3,), (2, 0, 4), (2, None), (2, 3, 4, 5)], ids=repr)
@pytest.mark.parametrize("layout", ["strided", "any", "undef"])
@grouped("property", ["undef", "variable", "constant"], key=lambda _: "properties")
def test_unchecked_tensor_equals_checked_tensor(shape, layout, property):
    public = LogicalTensor(7, "bf16", shape, layout=layout, property=property)
    known = LogicalTensor._checked(7, og.bf16, shape, None, layout, property)
    for other in (known, LogicalTensor._of(public._struct[0])):
        assert fields(other) == fields(public)
        assert bytes(ffi.buffer(other._struct)) == bytes(ffi.buffer(public._struct))
        assert repr(other) == repr(public)


def test_unchecked_strides_equal_checked_strides():
    public = LogicalTensor(7, "f32", (2, 3), strides=(1, 2))
    known = LogicalTensor._checked(7, og.f32, (2, 3), (1, 2))
    for other in (known, LogicalTensor._of(public._struct[0])):
        assert fields(other) == fields(public) == (7, og.f32, 2, (2, 3), (1, 2), "strided", "undef")
        assert bytes(ffi.buffer(other._struct)) == bytes(ffi.buffer(public._struct))


def tensors() -> list[LogicalTensor]:
    shapes = [(2, 8, 8, 3), (3, 3, 3, 4), (2, 8, 8, 4), (2, 8, 8, 4)]
    return [LogicalTensor(number, "f32", shape) for number, shape in enumerate(shapes)]


def by_lazy_ops() -> capi.Graph:
    graph, (src, weights, middle, dst) = capi.Graph(), tensors()
    conv = OpTemplate.checked("Convolution", WINDOW, types(src, weights), types(middle))
    clamp = OpTemplate.checked("Clamp", {"min": -0.25, "max": 0.5}, types(middle), types(dst))
    ops = LazyOps(
        [src, weights, middle, dst], {tensor.id: place for place, tensor in enumerate((src, weights, middle, dst))}
    )
    ops.add(conv, 10, "conv", [src.id, weights.id], [middle.id])
    ops.add(clamp, 11, "clamp", [middle.id], [dst.id])
    assert graph._add_lazy_ops(ops, [10, 11]) == {}
    assert ops.n_ids == 7
    graph.finalize()
    return graph


def by_ops() -> capi.Graph:
    graph, (src, weights, middle, dst) = capi.Graph(), tensors()
    graph.add_op(capi.Op(10, "Convolution", "conv", inputs=[src, weights], outputs=[middle], attrs=WINDOW))
    attrs = {"min": -0.25, "max": 0.5}
    graph.add_op(capi.Op(11, "Clamp", "clamp", inputs=[middle], outputs=[dst], attrs=attrs))
    graph.finalize()
    return graph


def run(compiled: CompiledPartition, arrays: dict[int, np.ndarray]) -> np.ndarray:
    ins = [capi.Tensor(tensor, arrays[tensor.id]) for tensor in compiled.inputs]
    (out,) = [capi.Tensor(tensor, np.empty(tensor.shape, np.float32)) for tensor in compiled.outputs]
    compiled.execute(capi.Stream(), ins, [out])
    return out.data


def test_templates_make_the_same_graph():
    graphs = by_lazy_ops(), by_ops()
    for ours, theirs in zip(*(graph.ops for graph in graphs), strict=True):
        assert (ours.id, ours.kind, ours.name, ours.attrs) == (theirs.id, theirs.kind, theirs.name, theirs.attrs)
        assert (ours.inputs, ours.outputs) == (theirs.inputs, theirs.outputs)
    arrays = {t.id: RNG.uniform(-1, 1, t.shape).astype(np.float32) for t in tensors()[:2]}
    found = []
    for graph, trusted in itertools.product(graphs, (True, False)):
        (partition,) = graph.partitions()
        assert sorted(partition.ops) == [10, 11]
        ins, outs = partition.input_ports, partition.output_ports
        make = CompiledPartition._checked if trusted else CompiledPartition
        compiled = make(partition, ins, outs, default_engine())
        assert (compiled.inputs, compiled.outputs) == (tuple(ins), tuple(outs))
        assert [fields(tensor) for tensor in compiled.outputs] == [fields(tensor) for tensor in outs]
        found.append(run(compiled, arrays))
    assert all((result == found[0]).all() for result in found)
    assert (found[0].min(), found[0].max()) == (-0.25, 0.5)


def test_op_of_a_template_is_immutable():
    op = by_lazy_ops().ops[1]
    with pytest.raises(og.StateError, match="part of a graph"):
        op.set_attr("min", 0)
    op.attrs["min"] = 9
    assert op.attrs == {"min": -0.25, "max": 0.5}


def test_one_template_for_many_ops():
    graph = capi.Graph()
    alike = LogicalTensor._checked(0, og.f32, (4, 4))
    template = OpTemplate.checked("LeakyReLU", {"alpha": 0.5}, types(alike), types(alike))
    ops = LazyOps([alike], dict.fromkeys(range(6), 0))
    for number in range(5):
        ops.add(template, number, f"op {number}", [number], [number + 1])
    assert graph._add_lazy_ops(ops, [*range(5)]) == {}
    graph.finalize()
    x = {0: np.full((4, 4), -32, np.float32)}
    for partition in sorted(graph.partitions("debug"), key=lambda partition: partition.ops):
        ins, outs = partition.input_ports, partition.output_ports
        x[outs[0].id] = run(CompiledPartition._checked(partition, ins, outs, default_engine()), x)
    assert [x[number][0, 0] for number in range(6)] == [-32, -16, -8, -4, -2, -1]


def test_reports_templates_that_the_library_refuses():
    graph, alike = capi.Graph(), LogicalTensor(0, "f32", (4, 4))
    right, wrong = (OpTemplate.checked("LeakyReLU", {"alpha": 0.5}, types(alike), types(alike)) for _ in range(2))
    wrong._settings_in_c[0].attribute = 0x7777
    ops = LazyOps([alike], dict.fromkeys(range(3), 0))
    ops.add(wrong, 8, "wrong", [0], [1])
    ops.add(right, 9, "right", [1], [2])
    refused = graph._add_lazy_ops(ops, [8, 9])
    assert refused == {8: "dnnl_graph_add_op returned invalid_graph_op"}
    graph.finalize()
    assert [partition.ops for partition in graph.partitions("debug")] == [(9,)]
    assert [op.name for op in graph.ops] == ["right"]


F32 = TensorType(og.f32, (2, 6, 4))


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "outputs"),
    [
        ("ReLU", {}, [F32], [TensorType(og.bf16, F32.shape)]),
        ("ReLU", {}, [F32], [TensorType(og.f32, (2, 6))]),
        ("Clamp", {"min": 1.0}, [F32], [F32]),
        ("ReduceSum", {"axes": (5,)}, [F32], [F32]),
        ("LayerNorm", {"begin_norm_axis": 1, "keep_stats": False, "use_affine": False}, [F32], [F32]),
        ("PReLU", {}, [TensorType(og.f32, (3,)), TensorType(og.f32, (3,))], [TensorType(og.f32, (3,))]),
    ],
    ids=["types", "shape", "missing", "range", "unsafe", "crash"],
)
def test_templates_reject_what_graphs_reject(kind, attrs, inputs, outputs):
    ins = [LogicalTensor(number, t.dtype, t.shape) for number, t in enumerate(inputs)]
    outs = [LogicalTensor(number + 9, t.dtype, t.shape) for number, t in enumerate(outputs)]
    said = []
    for name in ("first", "second"):
        with pytest.raises((og.SpecError, og.UnsupportedError)) as by_template:
            OpTemplate.checked(kind, attrs, inputs, outputs, name)
        with pytest.raises(type(by_template.value)) as by_op:
            capi.Graph().add_op(capi.Op(0, kind, name, inputs=ins, outputs=outs, attrs=attrs))
        assert str(by_template.value) == str(by_op.value)
        assert name in str(by_op.value)
        said.append(str(by_op.value))
    assert said[0].replace("first", "second") == said[1]


@pytest.mark.skipif(VERSION >= (3, 9), reason="the library has the mode of GELU")
def test_templates_reject_ops_newer_than_the_library():
    with pytest.raises(og.UnsupportedError, match=r"GELU.mode needs oneDNN 3\.9"):
        OpTemplate.checked("GELU", {"mode": "gelu_tanh"}, [F32], [F32])
    with pytest.raises(og.UnsupportedError, match=r"Dropout needs oneDNN 3\.12; the loaded library is"):
        OpTemplate.checked("Dropout", {}, [F32], [F32])


def test_cached_check_distinguishes_attributes():
    src, dst = LogicalTensor(0, "f32", (2, 6, 4)), LogicalTensor(1, "f32", (2, 6, 1))
    for _ in range(2):
        for axis, right in ((2, True), (1, False), (-1, True), (0, False)):
            op = capi.Op(0, "ReduceSum", "sum", inputs=[src], outputs=[dst], attrs={"axes": [axis], "keep_dims": True})
            if right:
                op.check()
                continue
            with pytest.raises(og.SpecError, match="dst"):
                op.check()


def test_finds_cycles_in_any_op_order():
    a, b, c = (LogicalTensor(number, "f32", (2,)) for number in range(3))
    for order in itertools.permutations([(0, a, b), (1, b, c), (2, c, a)]):
        graph = capi.Graph()
        for number, source, target in order:
            graph.add_op(capi.Op(number, "ReLU", inputs=[source], outputs=[target]))
        with pytest.raises(og.ArgumentError, match=r"ops \[0, 1, 2\] form a cycle"):
            graph.finalize()
    graph = capi.Graph()
    graph.add_op(capi.Op(0, "Add", inputs=[a, b], outputs=[b]))
    with pytest.raises(og.ArgumentError, match="form a cycle"):
        graph.finalize()
    graph = capi.Graph()  # ops in reverse order, but no cycle
    for number, source, target in [(1, b, c), (0, a, b)]:
        graph.add_op(capi.Op(number, "ReLU", inputs=[source], outputs=[target]))
    graph.finalize()
    assert len(graph.partitions("debug")) == 2


def test_library_form_matches_the_ops():
    g = og.Graph()
    x, mean = g.input("x", og.f32, (2, 4, 4, 3)), g.input("mean", og.f32, (3,))
    g.reciprocal(x)
    g.avg_pool(x, strides=[2, 2], kernel=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], exclude_pad=True)
    g.op("BatchNormTrainingBackward", [x, x, mean, mean], {"epsilon": 0.1}, outputs=[])
    g.interpolate(x, mode="nearest", coordinate_transformation_mode="align_corners", sizes=[8, 8])
    for op in g.ops:
        found, types_ = op.signature, [None if t is None else t.type for t in op.inputs]
        dtypes = [tensor.dtype for tensor in op.outputs]
        call = base_call(found.schema, base_of(found.schema), op.attrs, types_, len(op.outputs), dtypes)
        (form, reason), (shared, same) = library_form(found.schema, call), signature_form(found, len(op.outputs))
        assert reason == same
        assert (form is None) == (shared is None)
        if form is not None:
            both = [[(part.kind, dict(part.attrs), part.outputs) for part in one.parts] for one in (form, shared)]
            assert both[0] == both[1]
            assert (form.results, form.note) == (shared.results, shared.note)
            assert not any(constant.flags.writeable for constant in shared.constants)
        assert signature_form(found, len(op.outputs))[0] is shared
