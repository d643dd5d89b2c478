"""Capture: every compilation in a block is on disk before it can fail."""

import json
import pickle
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from helpers.interrupts import interrupted

import onegraph as og
from onegraph.runtime.executable import compile_graph
from onegraph.serialize.npz import read_inputs


def doubling(dims=(2, 3), dtype=og.f32):
    g = og.Graph()
    x = g.input("x", dtype, dims)
    g.output("y", g.add(x, x))
    return g


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_records_graph_options_inputs_and_report(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with og.capture(tmp_path / "bug", inputs=True) as recording:
        g = og.Graph()
        w = g.constant(np.ones((3, 4), np.float32))
        g.output("y", g.matmul(g.input("x", og.f32, (2, 3)), w))
        model = g.compile(policy="debug", threads=1)
        first, second = model(x), model(x=2 * x)
    third = model(x)
    folder = tmp_path / "bug"
    assert recording.folder == folder
    assert files(folder) == [
        *(f"0001/{name}" for name in ("call_0001.npz", "call_0002.npz", "graph.json", "graph.npz", "options.json")),
        "0001/report.txt",
        "info.json",
    ]
    facts = json.loads((folder / "info.json").read_text())
    assert facts["onegraph"] == og.__version__
    assert facts["version"] == og.version_info()["version"]
    options = json.loads((folder / "0001" / "options.json").read_text())
    assert (options["policy"], options["threads"], options["fallback"]) == ("debug", 1, True)
    assert "MatMul" in (folder / "0001" / "report.txt").read_text()
    loaded = og.Graph.load(folder / "0001" / "graph.json")
    inputs = read_inputs(folder / "0001" / "call_0002.npz", loaded)
    assert inputs["x"].tolist() == (2 * x).tolist()
    np.testing.assert_array_equal(loaded.compile()(**inputs), second)
    np.testing.assert_array_equal(first, third)


def test_records_no_inputs_by_default(tmp_path):
    with og.capture(tmp_path):
        doubling().compile()(np.zeros((2, 3), np.float32))
        doubling().compile()
    assert files(tmp_path) == [
        *(f"{n}/{name}" for n in ("0001", "0002") for name in ("graph.json", "options.json", "report.txt")),
        "info.json",
    ]


def test_recording_stops_after_the_block(tmp_path):
    from onegraph.runtime.executable import RECORDERS, Executable

    with og.capture(tmp_path):
        inside = doubling().compile()
    assert RECORDERS == []
    assert type(doubling().compile()) is Executable
    assert isinstance(inside, Executable)


def test_interrupt_at_the_start_leaves_no_recorder(tmp_path):
    from onegraph.runtime.executable import RECORDERS, Executable

    for step in range(1, 1000):
        recorder = og.capture(tmp_path / str(step))
        if not interrupted(recorder.__enter__, step):
            break
        assert RECORDERS == []
    assert step > 3
    assert [recorder._recorder] == RECORDERS
    recorder.__exit__(None, None, None)
    assert type(doubling().compile()) is Executable


def test_writes_exceptions_before_they_leave(tmp_path):
    g = doubling((2,))
    g.output("z", g.op("Wildcard", [g.inputs["x"]], dtype=og.f32))
    with og.capture(tmp_path, inputs=True):
        with pytest.raises(og.UnsupportedError):
            g.compile()
        assert "UnsupportedError" in (tmp_path / "0001" / "error.txt").read_text()
        assert og.Graph.load(tmp_path / "0001" / "graph.json").ops[1].kind == "Wildcard"
        model = doubling((None,)).compile()
        with pytest.raises(og.ArgumentError):
            model(np.zeros(3, np.int8))
        text = (tmp_path / "0002" / "call_0001.txt").read_text()
        assert "ArgumentError: input 'x': data type int8" in text
        assert "Traceback" in text
        assert np.load(tmp_path / "0002" / "call_0001.npz")["x"].dtype == np.int8
        for wrong in ((), (object(),), (np.array([None]),), (np.zeros(3), 1, 2)):
            with pytest.raises(og.ArgumentError):
                model(*wrong)
        assert len(list((tmp_path / "0002").glob("call_*.txt"))) == 5
        with pytest.raises(og.ArgumentError):
            doubling().compile(policy="none")
        with pytest.raises(og.ArgumentError, match="no output"):
            og.Graph().compile()
    assert "policy" in (tmp_path / "0003" / "error.txt").read_text()
    assert not (tmp_path / "0002" / "error.txt").exists()
    assert "no output" in (tmp_path / "0004" / "error.txt").read_text()


def test_exception_ends_the_block(tmp_path):
    with pytest.raises(KeyError), og.capture(tmp_path):
        raise KeyError("mine")
    with og.capture(tmp_path / "next"):
        pass
    assert files(tmp_path / "next") == ["info.json"]


def test_records_bound_runs_and_unknown_shapes(tmp_path):
    x = np.float32([1, 2, 3])
    with og.capture(tmp_path, inputs=True):
        model = doubling((None,)).compile()
        assert "not compiled yet" in (tmp_path / "0001" / "report.txt").read_text()
        assert model(x).tolist() == [2, 4, 6]
        assert "Add" in (tmp_path / "0001" / "report.txt").read_text()
        assert model.bind(x=x).run().tolist() == [2, 4, 6]
        out = np.empty(3, np.float32)
        assert model(x, out=out) is out
    assert len(list((tmp_path / "0001").glob("call_*.npz"))) == 3


def test_every_data_type_round_trips(tmp_path):
    dtypes = (og.bf16, og.f16, og.s32)
    with og.capture(tmp_path, inputs=True):
        for dtype in dtypes:
            doubling((3,), dtype).compile()(np.array([1, 2, 3]).astype(dtype.numpy))
    for number, dtype in enumerate(dtypes, 1):
        graph = og.Graph.load(tmp_path / f"000{number}" / "graph.json")
        (values,) = read_inputs(tmp_path / f"000{number}" / "call_0001.npz", graph).values()
        assert values.dtype == dtype.numpy
        assert values.astype(int).tolist() == [1, 2, 3]


def test_records_inputs_up_to_a_limit(tmp_path):
    with og.capture(tmp_path, inputs=True, max_bytes=30):
        model = doubling((None,)).compile()
        for size in (5, 4, 2, 1):
            model(np.zeros(size, np.float32))
    assert sorted(path.name for path in (tmp_path / "0001").glob("call_*")) == ["call_0001.npz", "call_0003.npz"]


def test_nested_blocks_both_record(tmp_path):
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    with og.capture(outer):
        first = doubling().compile()
        with og.capture(inner, inputs=True):
            second = doubling().compile()
            first(np.zeros((2, 3), np.float32))
            second(np.zeros((2, 3), np.float32))
        doubling().compile()
    assert sorted(path.name for path in outer.iterdir()) == ["0001", "0002", "0003", "info.json"]
    assert sorted(path.name for path in inner.iterdir()) == ["0001", "info.json"]
    assert len(list(inner.rglob("call_*.npz"))) == 1
    assert list(outer.rglob("call_*.npz")) == []


def test_records_several_threads(tmp_path):
    failures = []

    def work(number):
        try:
            model = doubling((number + 1,)).compile()
            for _ in range(5):
                model(np.full(number + 1, number, np.float32))
        except Exception as error:  # an exception would be lost in the thread
            failures.append(error)

    with og.capture(tmp_path, inputs=True):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    sizes = set()
    for number in range(1, 5):
        place = tmp_path / f"000{number}"
        graph = og.Graph.load(place / "graph.json")
        calls = sorted(place.glob("call_*.npz"))
        assert len(calls) == 5
        sizes.add(graph.inputs["x"].shape[0])
        for call in calls:
            (values,) = read_inputs(call, graph).values()
            assert values.tolist() == [len(values) - 1] * len(values)
    assert sizes == {1, 2, 3, 4}


def test_recorded_executable_can_be_pickled(tmp_path):
    from onegraph.runtime.executable import Executable

    with og.capture(tmp_path):
        data = pickle.dumps(doubling().compile())
    other = pickle.loads(data)
    assert type(other) is Executable
    assert other(np.ones((2, 3), np.float32)).tolist() == [[2] * 3] * 2


CRASH = """
import os, signal, sys
import numpy as np
import onegraph as og
from onegraph.runtime.executable import Executable

Executable.__call__ = lambda self, *arrays, **named: os.kill(os.getpid(), signal.SIGKILL)
g = og.Graph()
x = g.input("x", og.f32, (2,))
g.output("y", g.relu(x))
with og.capture(sys.argv[1], inputs=True):
    g.compile()(np.float32([1, 2]))
"""


def test_crash_leaves_the_files(tmp_path):
    done = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path / "bug")], timeout=120)
    assert done.returncode == -9
    place = tmp_path / "bug" / "0001"
    graph = og.Graph.load(place / "graph.json")
    assert read_inputs(place / "call_0001.npz", graph)["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folder": 3}, "folder: 3"),
        ({"folder": "x", "inputs": 1}, "inputs: 1; expected True or False"),
        ({"folder": "x", "max_bytes": -1}, "max_bytes: -1"),
        ({"folder": "x", "max_bytes": True}, "max_bytes: True"),
    ],
)
def test_rejects_invalid_arguments(arguments, message):
    with pytest.raises(og.ArgumentError, match=message):
        og.capture(**arguments)


def test_folder_must_be_new_or_empty(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(og.ArgumentError, match="is not empty"), og.capture(tmp_path):
        pass
    with pytest.raises(og.FormatError), og.capture(tmp_path / "file" / "below"):
        pass
    recording = og.capture(tmp_path / "new" / "deep")
    with recording:
        with pytest.raises(og.ArgumentError, match="used before"), recording:
            pass
        doubling().compile()
    with pytest.raises(og.ArgumentError, match="used before"), recording:
        pass


def test_rejects_exit_outside_the_block(tmp_path):
    recording = og.capture(tmp_path / "bug")
    with pytest.raises(og.StateError, match="not recording"):
        recording.__exit__(None, None, None)
    with recording:
        doubling().compile()
    with pytest.raises(og.StateError, match="not recording"):
        recording.__exit__(None, None, None)


def test_folder_changed_by_another_process(tmp_path):
    for number, change in enumerate((lambda place: (place / "0001").mkdir(), shutil.rmtree)):
        with og.capture(tmp_path / f"{number}"):
            change(tmp_path / f"{number}")
            with pytest.raises(og.FormatError, match="0001"):
                doubling().compile()
    assert doubling().compile()(np.ones((2, 3), np.float32)).tolist() == [[2] * 3] * 2


def test_rejects_invalid_compile_options(tmp_path):
    with og.capture(tmp_path), pytest.raises(og.ArgumentError, match="threads"):
        doubling().compile(threads={(1, 2): 1})


def test_non_graph_leaves_no_files(tmp_path):
    with og.capture(tmp_path / "bug"), pytest.raises(og.ArgumentError, match=r"^graph: "):
        compile_graph(None)
    assert [path.name for path in (tmp_path / "bug").iterdir()] == ["info.json"]
