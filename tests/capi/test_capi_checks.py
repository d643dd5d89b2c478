"""Checks of the objects of the C API by tables: tensors that are the same, fit, overlap, or have strides."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph import capi
from onegraph.capi import partition_checks
from onegraph.capi.op import c_name, passed, refuse_other_uses, setting_of
from onegraph.capi.partition_checks import by_id, is_same, matched, refuse_overlap, with_one_stride
from onegraph.capi.tensor import _check_data
from onegraph.faults.use import Fused, Laid
from onegraph.native import library
from onegraph.opset.editions.registry import BASE

lt = capi.LogicalTensor
F32 = np.dtype(np.float32)


def chain(*ends, kind="ReLU"):
    """Ops from a tensor to a tensor, with the places of the ends as their numbers."""
    return [
        capi.Op(n, kind, inputs=[lt(source, "f32", (2, 3))], outputs=[lt(target, "f32", (2, 3))])
        for n, (source, target) in enumerate(ends)
    ]


# Logical tensors


@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "fits"),
    [
        ("f32", (2, 3), [3, 1], True),
        ("f32", (2, 3), [2**60 - 3, 1], True),
        ("f32", (2, 3), [2**60 - 2, 1], False),
        ("f32", (2, 1), [1, 2**61 - 4], True),
        ("f32", (2, 1), [1, 2**61 - 3], False),
        ("f32", (2, 0), [1, 2**61 - 4], True),
        ("f32", (2, 0), [1, 2**61 - 3], False),
        ("u8", (1,), [2**62 - 1], True),
        ("u8", (1,), [2**62], False),
        ("u8", (1,), [-1], False),
    ],
)
def test_strides_reach_less_than_2_to_the_63_bytes(dtype, shape, strides, fits):
    told = r"expected a tensor of less than 2\*\*63 bytes|0 to 2\*\*62 - 1"
    with nullcontext() if fits else pytest.raises(og.ArgumentError, match=told):
        assert lt(0, dtype, shape, strides=strides).strides == tuple(strides)


def opaque(number):
    """A logical tensor of an opaque layout with a number, as the library makes it."""
    struct = library.ffi.new("dnnl_graph_logical_tensor_t *", lt(0, "f32", (2,))._struct[0])
    struct.layout_type, struct.layout.layout_id = library.enum_value("graph_layout_type_", "opaque"), number
    return lt._of(struct[0])


def test_opaque_tensors_are_equal_by_their_layouts(monkeypatch):
    from onegraph.capi import logical_tensor

    asked = []
    monkeypatch.setattr(logical_tensor, "read", lambda function, ctype, *ends: asked.append(ends) or 1)
    dense, first, second = lt(0, "f32", (2,)), opaque(5), opaque(6)
    assert [one.layout_id for one in (dense, first, second)] == [None, 5, 6]
    assert [one == other for one, other in ((first, dense), (dense, first), (first, second))] == [False] * 3
    assert asked == []
    again = opaque(5)
    assert first == again
    assert asked == [(first._struct, again._struct)]
    assert dense.__eq__("dense") is NotImplemented
    assert dense == dense._numbered(0)
    assert len(asked) == 2


def test_a_tensor_with_another_number_is_a_copy():
    tensor = lt(3, "s8", (2, 3), strides=(1, 2), property="constant")
    for found in (tensor._numbered(8), tensor._numbered(3)._numbered(8)):
        assert found == lt(8, "s8", (2, 3), strides=(1, 2), property="constant")
        assert found != tensor
        assert (found.strides, found.layout, found.property) == ((1, 2), "strided", "constant")
    assert tensor.id == tensor._struct.id == 3


@pytest.mark.parametrize(
    ("shape", "strides", "layout", "text"),
    [
        ((2,), [1], "any", "strides need layout='strided' and a shape with every dim known"),
        ((2,), [1], "undef", "strides need layout='strided' and a shape with every dim known"),
        (None, [1], "strided", "strides need layout='strided' and a shape with every dim known"),
        ((None,), [1], "strided", "strides need layout='strided' and a shape with every dim known"),
        ((2,), [1, 1], "strided", r"strides: \[1, 1\]; expected 1 integer, one for each dim"),
        ((2, 2), 3, "strided", "strides: 3; expected 2 integers, one for each dim"),
        ((2,), [2**62], "strided", r"expected a number of elements, 0 to 2\*\*62 - 1"),
    ],
)
def test_strides_are_one_for_each_known_dim(shape, strides, layout, text):
    with pytest.raises(og.ArgumentError, match=text):
        lt(0, "f32", shape, strides=strides, layout=layout)


@pytest.mark.parametrize(
    ("shape", "strides", "data", "steps", "fits"),
    [
        ((2, 3), (5, 1), (2, 3), (20, 4), True),
        ((2, 3), (5, 1), (2, 3), (24, 4), False),
        ((2, 3), (5, 1), (3, 2), (20, 4), False),
        ((2, 1), (5, 7), (2, 1), (20, 99), True),
        ((2, 3), None, (2, 3), (20, 4), False),
        ((2, 3), (3, 1), (7,), (4,), True),
        ((2, 3), (3, 1), (6,), (4,), True),
        ((2, 3), (3, 1), (5,), (4,), False),
    ],
)
def test_arrays_are_dense_or_have_the_strides_of_their_tensor(shape, strides, data, steps, fits):
    end = SimpleNamespace(layout="strided", dtype=og.f32, shape=shape, strides=strides)
    array = np.lib.stride_tricks.as_strided(np.zeros(200, F32), data, steps)
    told = r"data: shape .*; expected a C-contiguous array of 24 bytes, or shape \(2, \d\) with strides"
    with nullcontext() if fits else pytest.raises(og.ArgumentError, match=told):
        _check_data(end, 24, array)


@pytest.mark.parametrize(
    ("layout", "array", "text"),
    [
        ("opaque", np.zeros(6, np.uint8), ""),
        ("opaque", np.zeros(5, np.uint8), "expected a C-contiguous array of 6 bytes"),
        ("opaque", np.full(6, None), "data: an array of Python objects; expected one of numbers"),
        ("opaque", np.frombuffer(bytearray(13), np.float32, 3, 1), "data: not aligned to 4 bytes; pass a copy"),
        ("strided", np.zeros(6, np.uint8), "data: an array of uint8; expected f32; convert it with .astype"),
    ],
)
def test_arrays_of_opaque_tensors_have_enough_bytes(layout, array, text):
    end = SimpleNamespace(layout=layout, dtype=og.f32, shape=(1,), strides=None)
    with pytest.raises(og.ArgumentError, match=text) if text else nullcontext():
        _check_data(end, 6, array)


SAME = lt(0, "f32", (2, 1), strides=(3, 1))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (lt(5, "f32", (2, 1), strides=(3, 1), property="constant"), True),
        (lt(0, "f32", (2, 1), strides=(3, 9)), True),
        (lt(0, "f32", (2, 1), strides=(4, 1)), False),
        (lt(0, "s32", (2, 1), strides=(3, 1)), False),
        (lt(0, "f32", (1, 2), strides=(3, 1)), False),
        (lt(0, "f32", (2, 1), layout="any"), False),
    ],
)
def test_tensors_are_the_same_apart_from_single_axes(other, same):
    bare, shapeless = lt(0, "f32", (), layout="any"), lt(0, "f32", layout="any")
    assert is_same(bare, bare)
    assert is_same(shapeless, shapeless)
    assert is_same(SAME, other) is is_same(other, SAME) is same


@pytest.mark.parametrize(
    ("shape", "strides", "wanted"),
    [
        ((2, 3), (5, 1), None),
        ((2, 1), (1, 7), (1, 1)),
        ((2, 1, 3), (3, 3, 1), None),
        ((2, 1, 3), (3, 9, 1), (3, 3, 1)),
        ((2, 1, 3), (1, 1, 2), (1, 6, 2)),
        ((2, 1, 3), (1, 6, 2), None),
        ((None, 1), None, None),
    ],
)
def test_single_axes_have_one_stride(shape, strides, wanted):
    tensor = lt(4, "f32", shape, strides=strides, property="constant")
    found = with_one_stride(tensor)
    if wanted is None:
        assert found is tensor
    else:
        assert (found.strides, found.shape, found.id, found.property) == (wanted, shape, 4, "constant")


# Ports


PORTS = [lt(0, "f32", (2, None)), lt(1, "s8"), lt(0, "f32", (2, None))]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([lt(1, "s8"), lt(0, "f32", (2, 3))], ""),
        ([lt(0, "f32", (2, 3)), lt(1, "s8", (5,)), lt(0, "f32", (2, 3))], ""),
        ([lt(0, "f32"), lt(1, "s8")], ""),
        ([lt(0, "f32", (3, 3)), lt(1, "s8")], r"x: Lo.*; expected f32 \(2, None\), as the graph has it"),
        ([lt(0, "f32"), lt(1, "u8")], "x: Lo.*; expected s8 None, as the graph has it"),
        ([lt(0, "f32"), lt(1, "s8"), lt(1, "s8")], r"x: tensors \[0, 1, 1\]; expected \[0, 1\], each once"),
        ([lt(0, "f32"), lt(1, "s8"), lt(0, "f32", (2, 3))], r"x: tensors \[0, 1, 0\]; expected \[0, 1\], each once"),
        ([lt(0, "f32")], r"x: tensors \[0\]; expected \[0, 1\], each once"),
        ([lt(0, "f32"), lt(2, "s8")], r"x: tensors \[0, 2\]; expected \[0, 1\], each once"),
        ([lt(0, "f32"), None], r"x\[1\]: None; expected a LogicalTensor"),
    ],
)
def test_tensors_are_matched_with_ports_by_their_ids(given, text):
    with pytest.raises(og.ArgumentError, match=text) if text else nullcontext():
        assert [tensor.id for tensor in matched("x", PORTS, given)] == [0, 1]
    assert matched("x", PORTS, None) == [PORTS[2], PORTS[1]]
    numbers = by_id("x", ["a0", "b1"], [0, 1], lambda word: int(word[1]))
    assert numbers == {0: "a0", 1: "b1"}


def memory(number, address, span, size=None):
    return SimpleNamespace(
        address=address, _span=span, nbytes=span if size is None else size, logical_tensor=SimpleNamespace(id=number)
    )


@pytest.mark.parametrize(
    ("source", "result", "pairs", "fits"),
    [
        (memory(0, 100, 8), memory(1, 108, 8), {}, True),
        (memory(0, 108, 8), memory(1, 100, 8), {}, True),
        (memory(0, 100, 8), memory(1, 107, 8), {}, False),
        (memory(0, 107, 8), memory(1, 100, 8), {}, False),
        (memory(0, 100, 8), memory(1, 100, 8), {}, False),
        (memory(0, 100, 8), memory(1, 100, 8), {1: 0}, True),
        (memory(0, 100, 8), memory(1, 100, 8), {1: 5}, False),
        (memory(0, 100, 8), memory(1, 104, 8), {1: 0}, False),
        (memory(0, 100, 8, 0), memory(1, 100, 8), {}, True),
        (memory(0, 100, 8), memory(1, 100, 8, 0), {}, True),
    ],
)
def test_results_share_memory_with_the_inputs_of_their_pairs(source, result, pairs, fits):
    told = "outputs: tensor 1 shares memory with tensor 0; only the pairs in inplace_pairs may, as a whole"
    with nullcontext() if fits else pytest.raises(og.ArgumentError, match=told):
        refuse_overlap([memory(7, 0, 1), source], [memory(9, 900, 1), result], pairs)
    with nullcontext() if fits and not pairs else pytest.raises(og.ArgumentError, match="tensor 1 shares memory"):
        refuse_overlap([], [source, result], pairs)


# Partitions


@pytest.mark.parametrize(
    ("count", "fusion", "strides", "text"),
    [(1, "first", "second", ""), (2, "first", "", "first"), (2, "", "second", "second"), (2, "", "", "")],
)
def test_fused_ops_are_examined_for_this_machine(count, fusion, strides, text, monkeypatch):
    seen, uses = [], [object()] * count
    for name in ("vnni", "avx2", "avx512", "amx"):
        monkeypatch.setattr(partition_checks, f"has_{name}", lambda name=name: name)
    monkeypatch.setattr(partition_checks, "_infer_shapes", lambda *given: uses)
    monkeypatch.setattr(partition_checks, "_refuse_strides", lambda tensor, given: seen.append(tensor.id))
    monkeypatch.setattr(partition_checks, "wrong_fusion", lambda fused, version: seen.append(fused) or fusion)
    monkeypatch.setattr(partition_checks, "wrong_strides", lambda fused, version: seen.append(fused) or strides)
    dense, turned = lt(0, "f32", (2, 3)), lt(1, "f32", (2, 3), strides=(1, 2))
    told = f"part: {text}; take the partitions of the graph with policy 'debug'"
    with pytest.raises(og.UnsupportedError, match=told) if text else nullcontext():
        partition_checks.check_tensors("part", [], [dense, turned], [lt(2, "f32", (2, 3), layout="any")], "strict")
    fused = Fused(uses, "vnni", "avx2", "avx512", frozenset([1]), amx="amx", strict="strict")
    assert seen == [0, 1, 2, *[fused] * (0 if count == 1 else 1 if fusion else 2)]


@pytest.mark.parametrize(
    ("source", "result", "text"),
    [
        (lt(0, "f32", (2, 3), layout="any"), lt(1, "f32", (2, 3)), "inputs: .*; expected a strided layout with every"),
        (lt(0, "f32", (2, None)), lt(1, "f32", (2, 3)), "inputs: .*; expected a strided layout with every dim known"),
        (lt(0, "f32", (2, 3)), lt(1, "f32", (2, 3), layout="undef"), "outputs: .*; expected layout strided or any"),
        (lt(0, "f32", (2, 3), strides=(1, 1)), lt(1, "f32", (2, 3)), "inputs: .*; expected memory of its own for"),
        (lt(0, "f32", (2, 3)), lt(1, "f32", (2, 3), strides=(1, 1)), "outputs: .*; expected memory of its own for"),
        (lt(0, "f32", (2, 3)), lt(1, "f32", (2, 4)), r"outputs: .*; expected shape \(2, 3\), as the inputs imply"),
        (lt(0, "f32", (2, 3)), lt(1, "f32", layout="any"), ""),
    ],
)
def test_partitions_are_compiled_for_tensors_that_fit(source, result, text):
    ops = [capi.Op(0, "ReLU", inputs=[lt(0, "f32")], outputs=[lt(1, "f32")])]
    with pytest.raises(og.ArgumentError, match=text) if text else nullcontext():
        partition_checks.check_tensors("part", ops, [source], [result], True)


def test_shapes_are_inferred_in_an_order_in_which_ops_can_run():
    ends = [lt(0, "f32", (2, 3))]
    uses = partition_checks._infer_shapes(chain((2, 3), (1, 2), (0, 1)), ends, [lt(3, "f32")])
    assert [use.inputs for use in uses] == [(0,), (1,), (2,)]
    assert [use.call.inputs[0].shape for use in uses] == [(2, 3)] * 3
    with pytest.raises(og.ArgumentError, match=r"ops \[0, 1\] form a cycle"):
        partition_checks._infer_shapes(chain((2, 1), (1, 2), (0, 3)), ends, [])
    outside = partition_checks._infer_shapes(chain((7, 8)), [], [])  # a tensor of no op and no port
    assert outside[0].call.inputs[0].shape == (2, 3)


@pytest.mark.parametrize("strides", [None, (3, 1), (1, 2)])
@pytest.mark.parametrize("wrong", [False, True])
def test_strides_are_examined_for_each_op(strides, wrong, monkeypatch):
    seen = []
    reason = "does not honour strides" if wrong else ""
    monkeypatch.setattr(partition_checks, "wrong_layout", lambda laid, version: seen.append(laid) or reason)
    uses = [
        SimpleNamespace(kind=kind, result=(2, 3), inputs=(number,), call=SimpleNamespace(given={kind: 1}))
        for number, kind in enumerate(("ReLU", "Exp"))
    ]
    tensor = lt(1, "f32", (2, 3), layout="any") if strides is None else lt(1, "f32", (2, 3), strides=strides)
    refused = wrong and strides == (1, 2)
    told = "does not honour strides; pass dense row-major"
    with pytest.raises(og.UnsupportedError, match=told) if refused else nullcontext():
        partition_checks._refuse_strides(tensor, uses)
    inside = frozenset(["ReLU", "Exp"])
    laid = [
        Laid("ReLU", 2, (2, 3), (1, 2), False, inside, {"ReLU": 1}),
        Laid("Exp", 2, (2, 3), (1, 2), True, inside, {"Exp": 1}),
    ]
    assert seen == ([] if strides != (1, 2) else laid[:1] if wrong else laid)


# Ops and graphs


def test_tensors_of_one_id_are_equal_in_all_ops():
    first, same, other = lt(0, "f32", (2,)), lt(0, "f32", (2,)), lt(0, "f32", (3,))
    op = capi.Op(1, "Add", inputs=[first, same], outputs=[lt(1, "f32")])
    refuse_other_uses(op, {})
    refuse_other_uses(op, {0: same})
    with pytest.raises(og.ArgumentError, match=r"tensor 0: .*; expected .*\(3,\).*, as an earlier op has it"):
        refuse_other_uses(op, {0: other})
    op = capi.Op(1, "Add", inputs=[first, other], outputs=[lt(1, "f32")])
    with pytest.raises(og.ArgumentError, match=r"tensor 0: .*\(3,\).*as another port of the op has it"):
        refuse_other_uses(op, {})
    loop = capi.Op(1, "ReLU", inputs=[first], outputs=[other])
    with pytest.raises(og.ArgumentError, match="as another port of the op has it"):
        refuse_other_uses(loop, {})


def test_attributes_are_passed_to_c():
    schema = BASE["Interpolate"]
    assert passed(schema, {"sizes": (2,), "scales": (1.0,)}) == {"sizes": (2,)}
    assert passed(schema, {"sizes": (), "scales": (1.0,)}) == {"sizes": (), "scales": (1.0,)}
    assert passed(schema, {"scales": (1.0,)}) == {"scales": (1.0,)}
    assert [c_name(name) for name in ("a\0b", "\u00e4", "\ud800")] == [b"ab", "\u00e4".encode(), b"?"]
    for name, value, contents in (
        ("mode", "nearest", b"nearest\0"),
        ("scales", (1.0, 2.0), [1.0, 2.0]),
        ("sizes", (3,), [3]),
    ):
        setting = setting_of(schema.attribute(name), value)
        values = [ord(one) if isinstance(one, bytes) else one for one in setting.value]
        assert values[: setting.length] == [*contents]
        assert setting.length == len(contents)
        assert setting.number == library.enum_value("graph_op_attr_", name)


@pytest.mark.parametrize(
    ("ends", "cycle"),
    [
        ([(0, 1), (1, 2)], None),
        ([(1, 2), (0, 1)], None),
        ([(3, 4), (2, 3), (1, 2), (0, 1), (2, 5), (2, 6)], None),
        ([(0, 0)], [0]),
        ([(1, 2), (2, 1)], [0, 1]),
        ([(0, 1), (3, 4), (4, 3), (4, 5)], [1, 2, 3]),
    ],
)
def test_cycles_are_named(ends, cycle):
    graph = capi.Graph()
    for op in chain(*ends):
        graph.add_op(op)
    told = "" if cycle is None else f"ops \\{cycle} form a cycle, or wait for one"
    with nullcontext() if cycle is None else pytest.raises(og.ArgumentError, match=told):
        graph.finalize()
    assert graph.finalized is (cycle is None)


def test_the_mode_of_a_graph_is_asked_of_newer_libraries(monkeypatch):
    from onegraph.capi import graph as graphs

    asked = []

    def newer(name, since):
        def function(pointer, *numbers):
            asked.append((name, since, numbers))
            if "get" in name:
                numbers[0][0], numbers[1][0] = library.enum_value("fpmath_mode_", "bf16"), 1
            return 0

        return function

    monkeypatch.setattr(graphs, "newer_function", newer)
    graph = capi.Graph()
    graph.set_fpmath_mode("f16", True)
    assert (graph.fpmath_mode, graph._applies_to_int) == ("f16", True)
    assert graph.get_fpmath_mode() == ("bf16", True)
    graph._create_graph()  # as after an interrupt
    number = library.enum_value("fpmath_mode_", "f16")
    assert asked[0] == asked[2] == ("dnnl_graph_graph_set_fpmath_mode", "3.7", (number, 1))
    assert asked[1][:2] == ("dnnl_graph_graph_get_fpmath_mode", "3.7")
    graph.set_fpmath_mode("strict")
    assert asked[-1][2] == (library.enum_value("fpmath_mode_", "strict"), 0)
    for given in (("fast",), ("any", 1)):
        with pytest.raises(og.ArgumentError, match=r"mode: 'fast'|apply_to_int: 1; expected True or False"):
            graph.set_fpmath_mode(*given)
    graph.finalize()
    for refused in (lambda: graph.set_fpmath_mode("any"), graph.get_fpmath_mode):
        with pytest.raises(og.StateError, match="the graph is finalized; the"):
            refused()
    assert len(asked) == 4
    plain = capi.Graph()
    plain._create_graph()
    assert len(asked) == 4


@pytest.mark.parametrize("name", ["set_fpmath_mode", "add_op", "finalize", "partitions"])
def test_a_graph_is_not_changed_in_the_midst_of_a_change(name):
    graph, (op,) = capi.Graph(), chain((0, 1))
    given = {"set_fpmath_mode": ["strict"], "add_op": [op]}.get(name, [])
    with graph._lock, pytest.raises(og.StateError, match=r"^graph: this thread is in the midst of changing it"):
        getattr(graph, name)(*given)


def test_an_op_or_tensor_is_not_changed_in_the_midst_of_a_change():
    from onegraph.capi import tensor as tensors

    (op,) = chain((0, 1))
    with op._lock:
        for change in (
            lambda: op.add_input(lt(2, "f32")),
            lambda: op.add_output(lt(2, "f32")),
            lambda: capi.Graph().add_op(op),
            lambda: capi.Partition.from_op(op),
        ):
            with pytest.raises(og.StateError, match=r"^op 0: this thread is in the midst of changing it"):
                change()
    soft = capi.Op(5, "SoftMax")
    with soft._lock, pytest.raises(og.StateError, match=r"^op 5: this thread is in the midst of changing it"):
        soft.set_attr("axis", 1)
    tensor = capi.Tensor(lt(7, "f32", (2,)), np.zeros(2, F32))
    with tensors._lock, pytest.raises(og.StateError, match=r"^tensor 7: this thread is in the midst"):
        tensor.set_data_handle(np.ones(2, F32))
    tensor.set_data_handle(np.ones(2, F32))
    assert tensor._library_address == tensor.address
    tensor._library_address = None  # as after an interrupt
    assert tensor.data_handle == tensor._library_address == tensor.address


def test_a_c_op_is_made_anew_only_where_it_must_give_something_up():
    op = capi.Op(1, "Interpolate", attrs={"mode": "nearest"})
    made = op._ptr
    for change in (
        lambda: op.add_input(lt(0, "f32", (1, 1, 3))),
        lambda: op.set_attr("scales", [2.0]),
        lambda: op.set_attr("scales", [3.0]),
        lambda: op.add_output(lt(1, "f32")),
    ):
        change()
        assert op._ptr is made
    op.set_attr("sizes", [6])
    assert op._ptr is not made
    made = op._ptr
    op.set_attr("sizes", None)
    assert op._ptr is not made
    assert op.attrs == {"mode": "nearest", "scales": (3.0,)}
    for end, change in (("input", op.add_input), ("output", op.add_output)):
        with pytest.raises(og.ArgumentError, match=f"^{end}: 5; expected a LogicalTensor"):
            change(5)


@pytest.mark.parametrize("count", [2, 3])
def test_a_tensor_has_one_producer(count):
    source, result = lt(0, "f32", (2, 3)), lt(9, "f32", (2, 3))
    ends = [source, lt(1, "f32", (3,)), lt(2, "f32", (2,)), lt(3, "f32", (2,))]
    op = capi.Op(4, "LayerNorm", inputs=ends[:1], outputs=[result, *[lt(5, "f32", (2,))] * 2])
    op.set_attr("use_affine", False)
    graph = capi.Graph()
    with pytest.raises(og.ArgumentError, match=r"tensor 5 is produced twice, by Op\(4.* and Op\(4"):
        graph.add_op(op)
    (first,), second = chain((0, 9)), capi.Op(count, "Exp", inputs=[source], outputs=[result])
    graph.add_op(first)
    with pytest.raises(og.ArgumentError, match=rf"tensor 9 is produced twice, by Op\(0.* and Op\({count}"):
        graph.add_op(second)
    assert graph.ops == (first,)


@pytest.mark.parametrize("mode", ["strict", "bf16"])
def test_partitions_know_whether_f32_is_strict(mode, monkeypatch):
    from onegraph.capi import graph as graphs
    from onegraph.capi.partition import count_ids

    graph, (op,) = capi.Graph("cpu", mode), chain((0, 1))
    graph.add_op(op)
    graph.finalize()
    assert [one._strict for one in graph.partitions()] == [mode == "strict"]
    asked = []
    monkeypatch.setattr(graphs, "unproduced_weights", lambda ends, version: asked.append(ends) or [5])
    assert len(graph.partitions("debug")) == 1
    with pytest.raises(
        og.UnsupportedError, match=r"tensor 5: weights that no op produces, .*; expected policy='debug'"
    ):
        graph.partitions("fusion")
    assert asked == [[("ReLU", [0], [1])]]
    (bare,) = chain((0, 1))
    assert capi.Partition.from_op(bare)._strict
    assert count_ids([op, bare]) == 6
    assert count_ids([capi.Op(1, "ReLU")]) == 1


def test_partitions_come_from_graphs_and_ops():
    ffi = library.ffi
    for pointer in (None, 5, ffi.new("int *"), ffi.cast("dnnl_graph_partition_t", 0), ffi.NULL):
        with pytest.raises(og.ArgumentError, match=r"a partition comes from Graph\.partitions"):
            capi.Partition(pointer, {})
    for call in (capi.Partition.from_op, capi.Graph().add_op):
        with pytest.raises(og.ArgumentError, match=r"^op: 5; expected an Op"):
            call(5)


@pytest.mark.parametrize("fails", [False, True])
def test_arrays_stay_while_they_are_computed_with(fails, monkeypatch):
    from onegraph.capi import partition

    (op,) = chain((0, 1))
    compiled = capi.Partition.from_op(op).compile()
    assert compiled.owner_thread is None
    ends = [capi.Tensor(one, np.zeros((2, 3), F32)) for one in (*compiled.inputs, *compiled.outputs)]
    refused = []

    def executed(*given):
        for end in ends:
            with pytest.raises(og.StateError, match="in use by an execution") as raised:
                end.set_data_handle(np.ones((2, 3), F32))
            refused.append(raised)
        if fails:
            raise KeyError("no")

    monkeypatch.setattr(partition, "execute", executed)
    with pytest.raises(KeyError) if fails else nullcontext() as kept:
        compiled.execute(capi.Stream(), ends[:1], ends[1:])
    assert len(refused) == 2
    for end in ends:  # although the error is kept, with what was computed with
        end.set_data_handle(np.ones((2, 3), F32))
    assert (kept is None) is not fails
    with pytest.raises(og.ArgumentError, match="stream: of another engine than the compiled partition"):
        compiled.execute(capi.Stream(capi.Engine()), ends[:1], ends[1:])
    with pytest.raises(og.ArgumentError, match="stream: 5; expected a Stream"):
        compiled.execute(5, ends[:1], ends[1:])
