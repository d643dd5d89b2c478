"""When the file of a model is read: again if it is replaced meanwhile, and later if programs of it are kept."""

import importlib
import os

import pytest

import onegraph as og

pytest.importorskip("onnx", reason="onnx is not installed")

load = importlib.import_module("onegraph.frontends.onnx.load")
ERROR = og.FormatError("model.onnx", "half of a model", "a whole one")


def reader(path, replaced):
    """What fails to read a file until it was replaced so many times; and how often it was called."""
    calls = []

    def read():
        calls.append(path)
        if len(calls) > replaced:
            return "the graph"
        (path.parent / "other").write_bytes(bytes(len(calls)))
        os.replace(path.parent / "other", path)
        raise ERROR

    return read, calls


@pytest.mark.parametrize("replaced", [0, 1, 3])
def test_a_model_is_read_again_if_it_was_replaced_meanwhile(replaced, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"model")
    read, calls = reader(path, replaced)
    assert load._read_whole(path, read) == "the graph"
    assert len(calls) == replaced + 1


@pytest.mark.parametrize("is_there", [True, False])
def test_a_model_that_stays_the_same_is_read_once(is_there, tmp_path):
    path, calls = tmp_path / "model.onnx", []
    if is_there:
        path.write_bytes(b"model")

    def read():
        calls.append(path)
        raise ERROR

    with pytest.raises(og.FormatError, match="half of a model"):
        load._read_whole(path, read)
    assert len(calls) == 1


@pytest.mark.library
@pytest.mark.parametrize(
    ("folder", "has_library", "keeps", "expected"),
    [
        (None, True, True, False),
        ("cache", False, True, False),
        ("cache", True, False, False),
        ("cache", True, True, True),
    ],
)
def test_models_are_read_late_if_programs_are_kept(folder, has_library, keeps, expected, monkeypatch):
    origin = importlib.import_module("onegraph.runtime.origin")

    def import_late(name):
        if not has_library:
            raise og.LibraryError("no library")

    monkeypatch.setattr(load, "get_cache_folder", lambda: folder)
    monkeypatch.setattr(load, "import_late", import_late)
    monkeypatch.setattr(origin, "keeps_programs", lambda: keeps)
    assert load._keeps_programs() is expected
