"""A refusal shows the user's line and at most two frames of the package."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph._util.tracebacks import VARIABLE

MOST = 2  # frames of the package


def graph() -> og.Graph:
    made = og.Graph()
    made.output("y", made.relu(made.input("x", og.f32, (1, 8))))
    return made


def tensor() -> og.LogicalTensor:
    return og.Graph().input("x", og.f32, (1, 8))


REFUSED: dict[str, Callable[[], object]] = {
    "a method of an op": lambda: og.Graph().relu("x"),
    "op": lambda: og.Graph().op("Reluu", []),
    "input": lambda: og.Graph().input("x", (1, 8)),
    "compile": lambda: graph().compile(policy="fast"),
    "a call": lambda: graph().compile()(np.zeros((1, 8))),
    "bind": lambda: graph().compile().bind(np.zeros((1, 8))),
    "load": lambda: og.load("no such file"),
    "onnx.load": lambda: og.onnx.load(b"no model"),
    "onnx.save": lambda: og.onnx.save(graph(), 5),
    "check_op": lambda: og.check_op("ReLU", edition="0.1"),
    "from_json": lambda: og.Graph.from_json("no JSON"),
    "translate_graph": lambda: og.translate_graph(graph(), "0.1"),
    "quantize": lambda: og.quantize(graph(), 5),
    "view.page": lambda: og.view.page(graph().compile()),
    "compress_weights": lambda: og.compress_weights(graph(), "int5"),
}


def frames(call: Callable[[], object]) -> list[str]:
    """The functions of the package in the traceback of a refusal."""
    with pytest.raises(og.OneGraphError) as caught:
        call()
    package = str(Path(og.__file__).parent)
    found = traceback.extract_tb(caught.value.__traceback__)
    return [f"{one.filename}:{one.name}" for one in found if one.filename.startswith(package)]


@pytest.mark.parametrize("what", REFUSED)
def test_traceback_ends_at_the_function_that_was_called(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert len(frames(REFUSED[what])) <= MOST


def test_a_variable_of_the_environment_keeps_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    assert len(frames(REFUSED["compile"])) > MOST


def test_an_operator_adds_one_frame() -> None:
    assert len(frames(lambda: tensor() + np.zeros(5, np.float32))) <= MOST + 1


@pytest.mark.library
def test_what_is_no_refusal_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object, **_named: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("onegraph.runtime.executable.compile_graph", fails)
    with pytest.raises(ZeroDivisionError) as caught:
        graph().compile()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fails"
