"""Records of tensors and ops: which shapes and strides they take, and what they say where a part is missing."""

import copy
import pickle
from contextlib import nullcontext
from types import MappingProxyType, SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.ir import op as records
from onegraph.ir import tensor_type as tensor_types
from onegraph.ir.file_origin import FileOrigin
from onegraph.ir.operators import _OTHER, _SAME, Identity, Operators
from onegraph.ir.tensor_type import as_shape, as_strides, tensor_type
from onegraph.opset.schema import TensorType

F32 = np.float32

# Types, shapes and strides


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        (None, None),
        ((), ()),
        ([2, None, 0], (2, None, 0)),
        (np.array([2, 3]), (2, 3)),
        (np.array([], np.int64), ()),
        ((np.int8(2),), (2,)),
        ((2**60 - 1,), (2**60 - 1,)),
        ((2**59, 1, None), (2**59, 1, None)),
        ((1,) * 12, (1,) * 12),
    ],
)
def test_shapes_are_tuples_of_dims(given, shape):
    made = as_shape(given)
    assert made == shape
    assert made is None or (type(made), {*map(type, made)} <= {int, type(None)}) == (tuple, True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (3, r"a shape is a tuple of dims; write \(3,\)"),
        (np.int8(3), r"a shape is a tuple of dims; write \(3,\)"),
        ("ab", "a shape is a tuple of dims, not 'ab'"),
        ({2}, r"a shape is a tuple of dims, not \{2\}"),
        (np.ones((1, 2)), "a shape is a tuple of dims, not "),
        (np.array(3), "a shape is a tuple of dims, not "),
        ((1.0,), "a dim is an integer, or None where it is unknown, not 1.0"),
        ((True,), "a dim is an integer, or None where it is unknown, not True"),
        (np.array([0.5]), "a dim is an integer, or None where it is unknown, not "),
        ((-1,), "dim -1 is out of range; an unknown dim is written None"),
        ((2**63,), f"dim {2**63} is out of range"),
        ((0, 2**63 - 1), "a tensor has fewer than 2"),
        ((2**60,), "a tensor has fewer than 2"),
        ((2**59, None, 2), "a tensor has fewer than 2"),
        ((1,) * 13, "a tensor has at most 12 dimensions, not 13"),
    ],
)
def test_other_shapes_are_refused(given, text):
    with pytest.raises(og.ArgumentError, match=text):
        as_shape(given)


@pytest.mark.parametrize(
    ("strides", "dims", "wanted"),
    [
        (None, (2, 3), None),
        (None, None, None),
        ([3, 1], (2, 3), (3, 1)),
        ((2**48 - 1, 1), (2, 3), (2**48 - 1, 1)),
        ((0, 1), (1, 3), (0, 1)),
        ([], (), ()),
        ([3], (2, 3), "expected one integer for each dim of a shape that is known"),
        ([3, 1], None, "expected one integer for each dim of a shape that is known"),
        ([3, 1], (None, 3), "expected one integer for each dim of a shape that is known"),
        (3, (2,), "expected one integer for each dim of a shape that is known"),
        ((2**48, 1), (2, 3), r"expected a number of elements, 0 to 2\*\*48 - 1"),
        ((-1, 1), (2, 3), r"expected a number of elements, 0 to 2\*\*48 - 1"),
        ((1, 1), (2, 3), r"strides: \(1, 1\) for shape \[2, 3\]; expected memory of its own for each element"),
    ],
)
def test_strides_are_those_of_known_dims(strides, dims, wanted):
    with pytest.raises(og.ArgumentError, match=wanted) if isinstance(wanted, str) else nullcontext():
        assert as_strides(strides, dims) == wanted


class Record:
    """A logical tensor that a user made, with any objects."""

    def __new__(cls, dtype=og.f32, shape=(2,), value=None):
        return og.LogicalTensor(0, dtype, shape, None, "", value)


@pytest.mark.parametrize(
    ("given", "dtype", "shape", "value"),
    [
        (TensorType(og.f32, (2,), None), og.f32, (2,), None),
        (Record(), og.f32, (2,), None),
        (Record(shape=None), og.f32, None, None),
        (Record(value=np.ones(2, F32)), og.f32, (2,), [1, 1]),
        (Record(shape=[2, None]), og.f32, (2, None), None),
        (Record(dtype="bf16"), og.bf16, (2,), None),
        (("f32", (2, None)), og.f32, (2, None), None),
        ([og.s8, [3]], og.s8, (3,), None),
        (np.ones((2, 3), F32), og.f32, (2, 3), None),
        (np.ones(2, np.int64), og.s64, (2,), [1, 1]),
        (np.ones(2, np.int32), og.s32, (2,), [1, 1]),
        (np.ones((1, 2), np.int32), og.s32, (1, 2), None),
        (np.ones(2, np.int8), og.s8, (2,), None),
        (F32(1), og.f32, (), None),
    ],
)
def test_types_are_those_of_tensors_pairs_and_arrays(given, dtype, shape, value):
    made = tensor_type(given)
    assert (made.dtype, made.shape) == (dtype, shape)
    assert (made.value is None) is (value is None)
    assert value is None or made.value.tolist() == value


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Record(value=[1]), r"value: \[1\]; expected an array, or None"),
        (Record(shape=(True,)), "a dim is an integer"),
        (Record(shape=3), "write"),
        (("f32",), r"is not a logical tensor, a \(dtype, shape\) pair or an array"),
        (("f32", (2,), 3), r"is not a logical tensor, a \(dtype, shape\) pair or an array"),
        (None, r"None is not a logical tensor, a \(dtype, shape\) pair or an array"),
    ],
)
def test_other_types_are_refused(given, text):
    with pytest.raises(og.ArgumentError, match=text):
        tensor_type(given)


@pytest.mark.parametrize(
    ("shape", "is_stored"),
    [(None, True), ((2, None), True), ((), True), ((True,), False), ([2], False), ((2.0,), False)],
)
def test_shapes_of_graphs_are_not_converted_again(shape, is_stored, monkeypatch):
    asked = []
    monkeypatch.setattr(tensor_types, "as_shape", lambda dims: asked.append(dims) or (7,))
    assert tensor_type(Record(shape=shape)).shape == (shape if is_stored else (7,))
    assert asked == ([] if is_stored else [shape])
    assert tensor_type(Record(dtype="f32")).shape == (7,)


# Tensors


def test_a_tensor_without_parts_says_so():
    for name in ("dtype", "_graph", "relu"):
        with pytest.raises(og.StateError, match="this LogicalTensor was not made by its constructor"):
            getattr(object.__new__(og.LogicalTensor), name)


def test_a_tensor_says_where_ops_are():
    graph = og.Graph()
    tensor = graph.input("x", "f32", (2,))
    base = "'LogicalTensor' object has no attribute "
    for name, more in {
        "relu": "; ops are methods of the graph, as in g.relu(tensor)",
        "rellu": "; ops are methods of the graph: did you mean 'relu'?",
        "_relu": "",
        "_operator": "",
        "zzzzzzzz": "",
    }.items():
        with pytest.raises(AttributeError) as raised:
            getattr(tensor, name)
        text = str(raised.value)
        assert text.startswith(f"{base}{name!r}{more}")
        assert more or text == f"{base}{name!r}"
        with pytest.raises(AttributeError, match=f"{base}{name!r}$"):
            getattr(Record(), name)


def test_a_tensor_without_its_graph_adds_no_op():
    graph = og.Graph()
    named, own = graph.input("x", "f32", (2,)), Record()
    assert named._builder() is graph
    lost = copy.copy(named)
    del graph
    with pytest.raises(og.StateError, match="to the graph of tensor 0, but no graph made it"):
        own + 1
    with pytest.raises(og.StateError, match="but no graph made it"):
        lost + 1
    with pytest.raises(og.StateError, match="to the graph of tensor 'x', but its graph is no longer referenced"):
        named + 1


def test_a_tensor_with_other_strides_keeps_its_parts():
    graph = og.Graph()
    tensor = graph.constant(np.ones((2, 3), F32))
    assert tensor._laid_out(None) is tensor
    turned = tensor._laid_out((1, 2))
    assert (turned.strides, turned._laid_out((1, 2)) is turned) == ((1, 2), True)
    for name in ("id", "dtype", "shape", "name", "_watches", "_graph"):
        assert getattr(turned, name) == getattr(tensor, name)
    assert turned.constant
    assert turned.type.value.tolist() == tensor.value.tolist()


@pytest.mark.parametrize("dtype", [F32, ml_dtypes.bfloat16])
def test_a_pickled_tensor_has_contents_that_cannot_be_written(dtype):
    array = np.array([1, 2], dtype)
    tensor = Record(og.DataType.of(dtype), value=array)
    again = pickle.loads(pickle.dumps(tensor, 5))
    assert (again.value.dtype, again.value.tolist(), again.value.flags.writeable) == (array.dtype, [1, 2], False)
    assert (again.id, again.dtype, again.shape, again.strides, again.name) == (0, tensor.dtype, (2,), None, "")
    assert array.flags.writeable
    stored = tensor.__reduce__()[1][-1].dtype
    assert stored == (np.uint16 if dtype is ml_dtypes.bfloat16 else dtype)
    assert not pickle.loads(pickle.dumps(Record())).constant
    assert tensor.constant


def test_contents_are_views_that_callers_may_change():
    array = np.ones((2, 3), F32)
    tensor = Record(shape=(2, 3), value=array)
    view = tensor.value
    view.shape = (3, 2)
    assert tensor.value.shape == (2, 3)
    assert view.base is array
    odd = object()
    assert Record(value=odd).value is odd


# Ops


def test_an_op_of_a_user_has_attributes_of_its_own():
    given = {"axis": 1}
    made = og.Op(1, "SoftMax", (), (), given, "y", "onednn-3.2")
    given["axis"] = 2
    assert made.attrs == {"axis": 1}
    assert type(made.attrs) is MappingProxyType
    graph = og.Graph()
    graph.softmax(graph.input("x", "f32", (2,)), axis=0)
    (own,) = graph.ops
    assert own.attrs is own.signature.attrs
    same = og.Op(1, "SoftMax", (), (), own.attrs, "y", own.edition, own.signature)
    assert same.attrs is own.attrs
    other = og.Op(1, "SoftMax", (), (), {"axis": 5}, "y", own.edition, own.signature)
    assert other.attrs == {"axis": 5}
    assert type(other.attrs) is MappingProxyType
    for attrs, signature, text in (([1], None, r"attrs: \[1\]; expected a dictionary"), ({}, 3, "signature: 3; expe")):
        with pytest.raises(og.ArgumentError, match=text):
            og.Op(1, "SoftMax", (), (), attrs, "y", "onednn-3.2", signature)
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == repr(made)


def test_words_and_labels_of_ops_are_short():
    assert records.brief("x" * 500) != repr("x" * 500)
    assert records.brief(["x" * 500]) == repr(["x" * 500])
    assert records.brief("x") == "'x'"
    node = SimpleNamespace(kind="OnnxNode", attrs={"nodes": "Relu Exp"})
    assert records.label_of(node) == "OnnxNode Relu Exp"
    assert records.label_of(SimpleNamespace(kind="ReLU", attrs={})) == "ReLU"


def test_inputs_that_decide_shapes_are_known():
    graph = og.Graph()
    x, axes = graph.input("x", "f32", (2, 3)), graph.constant(np.array([1], np.int32))
    graph.op("ReduceMax", [x, axes])
    (op,) = graph.ops
    bare = og.Op(op.id, op.kind, op.inputs, op.outputs, op.attrs, op.name, op.edition)
    assert records.shape_inputs_of(op) == records.shape_inputs_of(bare) == (1,)
    stated = og.Op(1, "ReLU", (), (), {"shape_inputs": [0]}, "y", "onednn-3.13")
    assert records.shape_inputs_of(stated) == (0,)
    assert records.schema_of(bare).kind == "ReduceMax"


@pytest.mark.parametrize(("raw", "mode"), [({}, "strict"), ({"fpmath_mode": "bf16"}, "bf16")])
def test_files_have_a_mode_of_their_own(raw, mode):
    assert FileOrigin(raw, (), {}, 0, (), ()).fpmath_mode == mode


# Operators

SIGNS = {
    "__add__": ("+", False), "__radd__": ("+", True), "__sub__": ("-", False), "__rsub__": ("-", True),
    "__mul__": ("*", False), "__rmul__": ("*", True), "__truediv__": ("/", False), "__rtruediv__": ("/", True),
    "__matmul__": ("@", False), "__rmatmul__": ("@", True), "__pow__": ("**", False), "__rpow__": ("**", True),
    "__ge__": (">=", False), "__gt__": (">", False), "__le__": ("<=", False), "__lt__": ("<", False),
    "__floordiv__": ("//", False), "__rfloordiv__": ("//", True), "__mod__": ("%", False), "__rmod__": ("%", True),
    "__and__": ("&", False), "__rand__": ("&", True), "__or__": ("|", False), "__ror__": ("|", True),
    "__xor__": ("^", False), "__rxor__": ("^", True),
}  # fmt: skip


class Noted(Operators):
    """A tensor whose graph notes what its operators ask for."""

    def _builder(self):
        return SimpleNamespace(
            _operator=lambda sign, left, right: (sign, left, right), _part=lambda tensor, place: (tensor, place)
        )


@pytest.mark.parametrize("name", SIGNS)
def test_operators_have_a_sign_and_two_operands_in_order(name):
    tensor, other = Noted(), object()
    sign, swapped = SIGNS[name]
    operands = (other, tensor) if swapped else (tensor, other)
    found = getattr(tensor, name)(other)
    assert found[0] == sign
    assert all(one is wanted for one, wanted in zip(found[1:], operands, strict=True))


def test_operators_of_one_operand_have_a_sign():
    tensor = Noted()
    asked = [tensor.__invert__(), tensor.__neg__(), tensor.__abs__(), tensor[3]]
    wanted = [("~", tensor, None), ("*", tensor, -1), ("abs", tensor, None), (tensor, 3)]
    for one, other in zip(asked, wanted, strict=True):
        assert all(part is same for part, same in zip(one, other, strict=True))
    with pytest.raises(NotImplementedError):
        Operators()._builder()
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(tensor)


def test_tensors_are_equal_to_themselves_alone():
    first, second = Noted(), Noted()
    assert [first == first, first == second, first != first, first != second] == [_SAME, _OTHER, _OTHER, _SAME]
    assert (first == first) is _SAME
    assert (first != first) is _OTHER
    assert [bool(one) for one in (_SAME, _OTHER)] == [True, False]
    assert [hash(one) for one in (_SAME, _OTHER)] == [hash(True), hash(False)]
    assert Identity(True) == _SAME != _OTHER
    assert (_SAME == True, _OTHER == False, _SAME == 2) == (True, True, False)  # noqa: E712
    for refused in (lambda: _SAME + 1, lambda: 1 - _OTHER, lambda: -_SAME, lambda: float(_SAME), lambda: _SAME < 1):
        with pytest.raises(TypeError, match="as == and != ask whether tensors are the same one"):
            refused()
