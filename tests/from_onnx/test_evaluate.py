"""Which way computes the model of a node that runs on the host: the first one that can."""

from base64 import b64encode

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from onegraph.errors import FormatError, OutOfMemoryError  # noqa: E402
from onegraph.frontends.onnx import evaluate  # noqa: E402

pytestmark = pytest.mark.library
F = TensorProto.FLOAT
SQUARE = np.float32([[2, 1], [1, 3]])
DTYPES = ((SQUARE.dtype, (2, 2)),)


def text_of(*nodes, opset=21, inputs=("x",), functions=(), outputs=("y",), initializers=()):
    """A model of nodes, as an OnnxNode has it."""
    ends = ([helper.make_tensor_value_info(name, F, None) for name in names] for names in (inputs, outputs))
    graph = helper.make_graph([*nodes], "g", *ends, [*initializers])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("d", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[*functions])
    return b64encode(model.SerializeToString()).decode()


def node(kind, *inputs, outputs=("y",), domain="", **attributes):
    return helper.make_node(kind, [*(inputs or ("x",))], [*outputs], domain=domain, **attributes)


FUNCTION = helper.make_function("d", "Own", ["x"], ["y"], [node("Relu")], [helper.make_opsetid("", 21)])
ONE = helper.make_tensor("one", F, (), [1.0])
CASES = {
    "numpy": (text_of(node("Det")), (True, False, False)),
    "results in another order": (
        text_of(node("Unique", outputs=("y", "at", "", "n")), outputs=("n", "y")),
        (True, False, False),
    ),
    "the package": (text_of(node("ImageDecoder"), opset=20), (False, True, False)),
    "the package with a constant": (text_of(node("ImageDecoder"), opset=20, initializers=[ONE]), (False, False, False)),
    "ops": (text_of(node("Neg")), (False, False, True)),
    "ops with an own function": (text_of(node("Own", domain="d"), functions=[FUNCTION]), (False, False, True)),
    "numpy beside a function": (text_of(node("Det"), functions=[FUNCTION]), (False, False, False)),
    "an older meaning": (text_of(node("DFT", axis=1), opset=17), (False, False, False)),
    "a value from elsewhere": (text_of(node("Unique", "z")), (False, False, False)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_way_that_can_runs_a_node(name, monkeypatch):
    monkeypatch.setattr(evaluate, "evaluator_of", lambda model: None)  # the package takes a second to import it
    text, wanted = CASES[name]
    found = evaluate._in_numpy(text), evaluate._in_package.__wrapped__(text), evaluate._by_ops(text, DTYPES)
    assert tuple(one is not None for one in found) == wanted


def test_each_way_gives_the_results_in_the_order_of_the_model():
    text = CASES["results in another order"][0]
    count, values = evaluate._in_numpy(text)([SQUARE])
    assert (count.tolist(), values.tolist()) == ([2, 1, 1], [1, 2, 3])
    (negative,) = evaluate._by_ops(CASES["ops"][0], DTYPES)([SQUARE])
    assert negative.tolist() == (-SQUARE).tolist()
    count, values = evaluate.run_node(text, [SQUARE])
    assert (count.tolist(), values.tolist()) == ([2, 1, 1], [1, 2, 3])


def test_several_nodes_are_no_single_one():
    text = text_of(node("Neg", outputs=("v",)), node("Relu", "v"))
    with pytest.raises(ValueError, match="too many values"):
        evaluate._in_numpy(text)
    assert evaluate._in_package(text) is None
    assert [one.tolist() for one in evaluate.run_node(text, [-SQUARE])] == [SQUARE.tolist()]


def test_results_of_the_last_few_numbers_are_kept():
    ran = []

    def run(arrays):
        ran.append(arrays[0].tolist())
        return [arrays[0] + 1]

    kept = evaluate._keeping(run)
    most = evaluate.MOST_KEPT
    for number in range(most):
        for _ in range(2):
            (found,) = kept([np.float32([number])])
            assert found.tolist() == [number + 1]
            found[...] = 9  # the caller's own
    assert ran == [[number] for number in range(most)]
    for number in (most, most, 1):  # none of the others has room beside the first of these
        kept([np.float32([number])])
    assert ran[most:] == [[most], [1]]
    for other in (np.float64([1]), np.float32([[1]]), np.float32([1]).view(np.int32)):
        kept([other])
    assert len(ran) == most + 5


@pytest.mark.parametrize(("more", "times"), [(0, 1), (1, 2)])
def test_large_results_are_not_kept(more, times):
    ran = []
    kept = evaluate._keeping(lambda arrays: ran.append(1) or [np.zeros(evaluate.MOST_BYTES - 4, np.uint8), arrays[0]])
    given = np.zeros(4 + more, np.uint8)
    assert kept([given])[1].size == kept([given])[1].size == 4 + more
    assert len(ran) == times


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (FormatError("here", "a", "b"), ValueError, "^here: a; expected b$"),
        (KeyError("x"), ValueError, "^KeyError: 'x'$"),
        (MemoryError("much"), MemoryError, "^$"),
        (OutOfMemoryError("much", 1), MemoryError, "^$"),
    ],
)
def test_errors_of_the_last_way_are_told(error, kind, text, monkeypatch):
    def refuse(*_):
        raise error

    monkeypatch.setattr(evaluate, "evaluated", refuse)
    with pytest.raises(kind, match=text):
        evaluate.run_node(CASES["a value from elsewhere"][0], [SQUARE])
    monkeypatch.setattr(evaluate, "_in_numpy", refuse)
    with pytest.raises(kind, match=text):
        evaluate.run_node(CASES["numpy"][0], [SQUARE])
