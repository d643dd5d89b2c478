"""Models as functions from batches to batches, without an engine."""

import pickle
import threading

import numpy as np
import pytest

import onegraph as og
from onegraph.distributed import BatchInference, batches

pytestmark = pytest.mark.library
W = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)


def graph(rows=None):
    g = og.Graph()
    x = g.input("x", og.f32, (rows, 3))
    y = g.matmul(x, g.constant(W))
    g.output("y", y)
    g.output("positive", g.relu(y))
    return g


def rows(count, dtype=np.float32):
    return (np.arange(count * 3).reshape(count, 3) % 7 - 3).astype(dtype)


@pytest.fixture(params=["graph", "executable", "folder", "file", "onnx"])
def model(request, tmp_path):
    match request.param:
        case "graph":
            return graph()
        case "executable":
            return graph().compile()
        case "folder":
            graph().compile().save(tmp_path / "model")
            return tmp_path / "model"
        case "file":
            graph().save(tmp_path / "model.json")
            return str(tmp_path / "model.json")
        case "onnx":
            pytest.importorskip("onnx")
            from onegraph.onnx import save

            save(graph(), tmp_path / "model.onnx")
            return tmp_path / "model.onnx"


def test_every_kind_of_model_maps_a_batch(model):
    infer = BatchInference(model, keep=["key"])
    found = infer({"x": rows(5), "key": np.arange(5), "other": np.arange(5)})
    assert [*found] == ["y", "positive", "key"]
    np.testing.assert_allclose(found["y"], rows(5) @ W, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["positive"], np.maximum(rows(5) @ W, 0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["key"], np.arange(5))


@pytest.mark.parametrize("remainder", ["pad", "compile"])
@pytest.mark.parametrize(("count", "size"), [(0, None), (0, 4), (1, 4), (3, None), (4, 4), (5, 4), (8, 4), (11, 4)])
def test_batch_of_any_size_is_complete_and_in_order(remainder, count, size):
    infer = BatchInference(graph(), batch_size=size, remainder=remainder)
    found = infer({"x": rows(count)})
    assert found["y"].shape == (count, 2)
    np.testing.assert_allclose(found["y"], rows(count) @ W, rtol=1e-5, atol=1e-5)


def test_padding_compiles_one_program_and_the_other_way_two():
    for remainder, programs in (("pad", 1), ("compile", 2)):
        infer = BatchInference(graph(), batch_size=4, remainder=remainder)
        infer({"x": rows(4)})
        infer({"x": rows(3)})
        assert infer.executable.cache_info().misses == programs


def test_model_for_a_fixed_number_of_rows_is_padded():
    infer = BatchInference(graph(4))
    np.testing.assert_allclose(infer({"x": rows(6)})["y"], rows(6) @ W, rtol=1e-5, atol=1e-5)


def test_prepared_model_compiles_nothing_at_the_first_batch():
    infer = BatchInference(graph(), batch_size=4).prepare()
    assert infer.executable.cache_info().misses == 1
    infer({"x": rows(2)})
    assert infer.executable.cache_info().misses == 1


@pytest.mark.parametrize(
    ("shape", "size", "programs"),
    [((None, 3), None, 0), ((4, 3), None, 1), ((None, 3), 5, 1), ((None, None), 5, 0), (None, 5, 0)],
)
def test_model_is_prepared_where_its_rows_are_known(shape, size, programs):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, shape)))
    infer = BatchInference(g, batch_size=size)
    assert infer.prepare() is infer
    assert infer.executable.cache_info().misses == programs
    np.testing.assert_array_equal(infer({"x": rows(6)})["y"], np.maximum(rows(6), 0))


def test_model_of_a_number_has_no_rows():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, ())))
    with pytest.raises(og.ArgumentError, match=r"shape \[6\]; expected \[\]"):
        BatchInference(g)({"x": rows(2).ravel()})


def test_rows_of_a_second_input_are_those_of_the_model():
    g = og.Graph()
    g.output("y", g.input("a", og.f32, None) + g.input("b", og.f32, (4, 1)))
    found = BatchInference(g)({"a": rows(6)[:, :1], "b": rows(6)[:, 1:2]})["y"]
    np.testing.assert_array_equal(found, rows(6)[:, :1] + rows(6)[:, 1:2])


def test_column_of_another_name_and_data_type():
    found = BatchInference(graph(), columns={"x": "pixels"})({"pixels": rows(2, np.float64)})
    np.testing.assert_allclose(found["y"], rows(2) @ W, rtol=1e-5, atol=1e-5)


def test_read_only_batch():
    given = rows(4)
    given.flags.writeable = False
    assert BatchInference(graph())({"x": given})["y"].shape == (4, 2)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"z": rows(2)}, "input 'x': no column 'x'; the columns of the batch are z"),
        ({"x": rows(2).astype(complex)}, "column 'x': complex64|complex128"),
        ({"x": np.array([[1, 2], [3]], object)}, "column 'x': object"),
        ({"x": np.float32(3)}, "column 'x': float32"),
        ({"x": np.zeros((2, 4), np.float32)}, "shape"),
        ([1], "batch: "),
    ],
)
def test_wrong_batch_is_refused(batch, message):
    with pytest.raises((og.ArgumentError, og.SpecError), match=message):
        BatchInference(graph())(batch)


def test_columns_of_different_length_are_refused():
    g = og.Graph()
    g.output("y", g.input("a", og.f32, (None, 1)) + g.input("b", og.f32, (None, 1)))
    with pytest.raises(og.ArgumentError, match="one number of rows in all columns"):
        BatchInference(g)({"a": rows(2)[:, :1], "b": rows(3)[:, :1]})


def test_model_without_inputs_is_refused():
    g = og.Graph()
    g.output("y", g.constant(rows(2)))
    with pytest.raises(og.ArgumentError, match="one number of rows in all columns"):
        BatchInference(g, batch_size=2)({"x": rows(2)})


@pytest.mark.parametrize("axes", [[0, 1], [0]])
def test_output_without_rows_is_refused(axes):
    g = og.Graph()
    g.output("total", g.reduce_sum(g.input("x", og.f32, (None, 3)), axes=axes, keep_dims=False))
    with pytest.raises(og.ArgumentError, match="output 'total': shape"):
        BatchInference(g)({"x": rows(2)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: 0"),
        ({"batch_size": 2**31}, "batch_size: 2147483648"),
        ({"remainder": "drop"}, "remainder: 'drop'"),
        ({"keep": "key"}, "keep: "),
        ({"columns": 3}, "columns: 3"),
    ],
)
def test_wrong_option_is_refused(options, message):
    with pytest.raises(og.ArgumentError, match=message):
        BatchInference(graph(), **options)
    BatchInference(graph(), batch_size=2**31 - 1)
    with pytest.raises(og.ArgumentError, match=r"threads: not for an executable"):
        BatchInference(graph().compile(), threads=1)
    with pytest.raises(og.ArgumentError, match="keep: no column 'key'"):
        BatchInference(graph(), keep=["key"])({"x": rows(2)})


def test_saved_executable_takes_no_other_options(tmp_path):
    graph().compile().save(tmp_path)
    with pytest.raises(og.ArgumentError, match="threads: not for a saved executable"):
        BatchInference(tmp_path, threads=1)({"x": rows(1)})


def test_file_is_loaded_once_in_a_process(tmp_path, monkeypatch):
    """As Dask does it: each task unpickles the function, and threads call it at once."""
    graph().compile().save(tmp_path)
    text, loads, found = pickle.dumps(BatchInference(tmp_path, batch_size=4)), [], []
    load = batches.load
    monkeypatch.setattr(batches, "load", lambda path: loads.append(path) or load(path))
    threads = [threading.Thread(target=lambda: found.append(pickle.loads(text)({"x": rows(2)})["y"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(loads), len(found)) == (1, 4)
    assert len(text) < 1000


def test_missing_file_is_refused(tmp_path):
    infer = BatchInference(tmp_path / "missing.json")
    with pytest.raises(og.FormatError, match=r"missing\.json"):
        infer({"x": rows(1)})
