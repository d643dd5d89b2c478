"""Contents of tensors at every place that a model may have them: in it, in its bytes, or in a file beside it."""

import ml_dtypes
import numpy as np
import pytest

import onegraph as og

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from onegraph.frontends.onnx.storage import MAX_BYTES, Storage  # noqa: E402
from onegraph.frontends.onnx.wire import Pieces  # noqa: E402

pytestmark = pytest.mark.library
F = TensorProto.FLOAT
ROWS = {
    "FLOAT": np.float32([[1.5, -2, 3], [0, 4, -5]]),
    "DOUBLE": np.float64([[1.5, -2, 3], [0, 4, -5]]),
    "INT8": np.int8([[1, -2, 3], [0, 4, -5]]),
    "UINT8": np.uint8([[1, 2, 3], [0, 4, 255]]),
    "INT32": np.int32([[1, -2, 3], [0, 4, -5]]),
    "INT64": np.int64([[1, -2, 3], [0, 4, -5]]),
    "FLOAT16": np.float16([[1.5, -2, 3], [0, 4, -5]]),
    "BFLOAT16": np.array([[1.5, -2, 3], [0, 4, -5]]).astype(ml_dtypes.bfloat16),
    "INT4": np.array([[1, -2, 3], [0, 4, -5]]).astype(ml_dtypes.int4),
    "UINT4": np.array([[1, 2, 3], [0, 4, 15]]).astype(ml_dtypes.uint4),
}
LISTED = ("FLOAT", "DOUBLE", "INT8", "UINT8", "INT32", "INT64")


def outside(name, **entries):
    """A tensor of a shape whose contents are in a file."""
    tensor = TensorProto(name="t", data_type=getattr(TensorProto, name), dims=(2, 3))
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def storage(folder=None):
    return Storage(None, Pieces(), folder)


@pytest.mark.parametrize("name", ROWS)
def test_contents_are_those_of_the_tensor_at_every_place(name, tmp_path):
    rows = ROWS[name]
    inside = numpy_helper.from_array(rows, "t")
    raw, pieces = inside.raw_data, Pieces()
    assert inside.HasField("raw_data")
    pieces.chunks = [(0, 1), (3, len(raw))]
    marked = TensorProto(data_type=inside.data_type, dims=(2, 3), raw_data=pieces.mark + (1).to_bytes(8, "little"))
    (tmp_path / "w.bin").write_bytes(b"ab" + raw)
    (tmp_path / "long.bin").write_bytes(b"ab" + raw + b"rest")
    tensors = [
        (storage(), inside),
        (Storage(memoryview(b"abc" + raw + b"rest"), pieces, None), marked),
        (storage(tmp_path), outside(name, offset=2)),
        (storage(tmp_path), outside(name, location="long.bin", offset=2, length=len(raw))),
    ]
    if name in LISTED:
        field = {"FLOAT": "float_data", "DOUBLE": "double_data", "INT64": "int64_data"}.get(name, "int32_data")
        tensors.append((storage(), TensorProto(data_type=inside.data_type, dims=(2, 3), **{field: rows.ravel()})))
    for place, (one, tensor) in enumerate(tensors):
        found = one.array(tensor, "here")
        assert (found.shape, found.tolist()) == ((2, 3), rows.tolist()), place
        assert found.dtype.itemsize == rows.dtype.itemsize


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dims": (-1, 3)}, r"shape \[-1, 3\]; expected dims of a tensor that fits into memory"),
        ({"dims": (MAX_BYTES, 1)}, r"24 bytes; expected \d+ bytes for float32"),
        ({"dims": (MAX_BYTES, 2)}, "expected dims of a tensor that fits into memory"),
        ({"segment": TensorProto.Segment(begin=0, end=1)}, "a segment of a tensor; expected a whole tensor"),
        ({"raw_data": bytes(20)}, r"20 bytes; expected 24 bytes for float32 of shape \[2, 3\]"),
        ({"raw_data": None, "float_data": [1.0]}, r"expected contents of shape \[2, 3\]"),
        ({"raw_data": None, "data_type": TensorProto.FLOAT16}, r"expected contents of shape \[2, 3\]"),
    ],
)
def test_tensors_without_such_contents_are_refused(change, text):
    given = {"data_type": F, "dims": (2, 3), "raw_data": bytes(24), **change}
    tensor = TensorProto(**{key: value for key, value in given.items() if value is not None})
    with pytest.raises(og.FormatError, match=f"here: .*{text}"):
        storage().array(tensor, "here")


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"offset": 3, "length": 24}, "bytes 3 to 27; expected a part of the file, which has 26"),
        ({"offset": 3}, "23 bytes; expected 24 bytes"),
        ({"offset": "9" * 20}, "offset '9{20}' of external data; expected a number"),
        ({"offset": "9" * 19}, "bytes 9{19} to 9{19}; expected a part of the file, which has 26"),
        ({"length": "x"}, "length 'x' of external data; expected a number"),
        ({"location": "empty.bin", "offset": 1}, "bytes 1 to 1; expected a part of the file, which has 0"),
        ({"location": "empty.bin"}, "0 bytes; expected 24 bytes"),
        ({"location": "none.bin"}, "external data in 'none.bin': No such file"),
    ],
)
def test_files_without_such_contents_are_refused(entries, text, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(26))
    (tmp_path / "empty.bin").write_bytes(b"")
    with pytest.raises(og.FormatError, match=f"here: .*{text}"):
        storage(tmp_path).array(outside("FLOAT", **entries), "here")


@pytest.mark.parametrize("name", ["FLOAT", "INT4"])
def test_no_elements_need_no_bytes(name, tmp_path):
    (tmp_path / "empty.bin").write_bytes(b"")
    (tmp_path / "w.bin").write_bytes(b"abc")
    for entries in ({"location": "empty.bin"}, {"length": 0}, {"offset": 3}):
        tensor = outside(name, **entries)
        tensor.dims[:] = (0, 3)
        assert storage(tmp_path).array(tensor, "here").shape == (0, 3)


def graphs(count):
    """Graphs with an initializer, and with a node that has a tensor."""
    for place in range(count):
        inner = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(ROWS["INT64"], "inner"))
        yield helper.make_graph([inner], f"g{place}", [], [], [numpy_helper.from_array(ROWS["FLOAT"], "outer")])


def node(**attributes):
    return helper.make_node("Kind", ["x"], ["y"], "node", **attributes)


def tensors_in(message):
    """The tensors of a message, at any depth."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from [one] if isinstance(one, TensorProto) else tensors_in(one)


TENSOR = numpy_helper.from_array(ROWS["FLOAT"], "t")
NODES = {
    "tensor": lambda: node(value=TENSOR),
    "tensors": lambda: node(values=[TENSOR, numpy_helper.from_array(ROWS["INT4"], "u")]),
    "graph": lambda: node(body=next(graphs(1))),
    "graphs": lambda: node(bodies=[*graphs(2)]),
    "several": lambda: node(axis=1, value=TENSOR, body=next(graphs(1))),
    "function": lambda: helper.make_function("d", "F", ["x"], ["y"], [node(value=TENSOR), node(axis=1)], []),
}


@pytest.mark.parametrize("name", NODES)
def test_tensors_elsewhere_come_into_their_node(name, tmp_path):
    wanted = NODES[name]()
    assert storage(tmp_path).inlined(wanted) is wanted
    count = len([*tensors_in(wanted)])
    assert count
    for place in range(count):
        given, pieces = type(wanted)(), Pieces()
        given.CopyFrom(wanted)
        tensor = [*tensors_in(given)][place]
        raw = tensor.raw_data
        tensor.raw_data = pieces.mark + bytes(8)
        pieces.chunks = [(2, len(raw))]
        made = Storage(memoryview(b"ab" + raw), pieces, None).inlined(given)
        assert made == wanted, place
        assert tensor.raw_data != raw  # the given node stays
        (tmp_path / f"{place}.bin").write_bytes(raw)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"{place}.bin")
        assert storage(tmp_path).inlined(given) == wanted, place


def test_the_error_of_a_tensor_elsewhere_names_its_node(tmp_path):
    with pytest.raises(og.FormatError, match=r"tensor 't' of 'node': external data in 'w\.bin'"):
        storage(tmp_path).inlined(node(value=outside("FLOAT")))
