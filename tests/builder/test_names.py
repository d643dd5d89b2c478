"""The names of the package: what completion shows, and what type checkers refuse."""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from conftest import library

import onegraph as og
from onegraph._util.literals import FpmathMode, Policy
from onegraph.builder.stubs import single_output, stub
from onegraph.opset.editions.registry import EDITIONS, HOST, edition
from onegraph.serialize.document import FPMATH_MODES

ROOT = Path(__file__).parents[2]


def test_dir_lists_exactly_the_public_names():
    assert {name for name in dir(og) if not name.startswith("__")} | {"__version__"} == {*og.__all__}


def test_every_module_of_the_reference_is_a_public_name():
    pages = (ROOT / "docs" / "api" / "index.md").read_text()
    modules = re.findall(r"\[`(?:og|onegraph)\.([a-z]+)`\]", pages)
    for name in {*modules} - {*dir(og)}:
        assert f"import onegraph.{name}" in og._meant(name)
    assert "errors" in modules


@library
@pytest.mark.parametrize("name", og.__all__)
def test_every_public_name_exists(name):
    getattr(og, name)


def test_literals_are_the_choices_of_options():
    from onegraph.cli.options import POLICIES

    assert {*get_args(FpmathMode)} == {*FPMATH_MODES}
    assert get_args(Policy) == POLICIES


def test_type_checker_reads_the_program_of_right_and_misspelt_names():
    (files,) = re.findall("^files = (.*)$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert "tests/builder/typed_program.py" in files
    assert "strict = true" in (ROOT / "pyproject.toml").read_text()  # which refuses errors that a line does not have


def test_kinds_of_one_output_have_one():
    (kinds,) = [line for line in stub().splitlines() if line.startswith("SingleOutput: ")]
    assert f"{single_output()}" in kinds
    assert {"ReLU", "MatMul", "Gather"} < {*single_output()}
    for name in (*EDITIONS, HOST):
        for kind, schema in edition(name).schemas.items():
            one = [port.optional for port in schema.outputs] == [False]
            assert one or kind not in single_output(), (name, kind)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("chek_op", "; did you mean 'check_op'?"),
        ("info", "; did you mean 'version_info'?"),
        ("Error", "'FormatError' or 'InvalidArgumentsError'"),
        ("float32", "; did you mean 'f32'?"),
        ("ops", "; did you mean 'Op'?"),
        ("_ffj", ""),
        ("qqqq", ""),
    ],
)
def test_an_unknown_name_raises(name, fix):
    with pytest.raises(AttributeError) as caught:
        getattr(og, name)
    text = str(caught.value)
    assert text.startswith(f"module 'onegraph' has no attribute {name!r}")
    assert (fix in text) if fix else text.endswith(repr(name))


def test_ops_are_said_to_be_methods_of_the_graph():
    x = og.Graph().input("x", og.f32, (2,))
    with pytest.raises(AttributeError, match=r"no attribute 'relu'; it is a method of graphs, as in g\.relu"):
        og.relu  # noqa: B018
    with pytest.raises(AttributeError, match=r"'LogicalTensor' object has no attribute 'relu'$"):
        x.relu  # noqa: B018 - its graph is gone
    g = og.Graph()
    x = g.input("x", og.f32, (2,))
    with pytest.raises(AttributeError, match=r"no attribute 'relu'; ops are methods of the graph, as in g\.relu"):
        x.relu()
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        x.nonsense()
    with pytest.raises(AttributeError, match=r"ops are methods of the graph: did you mean 'static_reshape'\?"):
        x.reshape(2)
    with pytest.raises(AttributeError, match=r"did you mean 'static_transpose'\?"):
        x.T  # noqa: B018


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda g, x: g.op("Conv", [x, x]), "did you mean 'Convolution'?"),
        (lambda g, x: g.op("BatchNorm", [x]), "did you mean 'BatchNormInference'?"),
        (lambda g, x: g.op("Co", [x]), "expected an op of edition"),
        (lambda g, x: g.input("y", (2, 3)), "the data type comes before the shape"),
        (lambda g, x: g.cast(x, og.bf16), "give the data type of the result by name: dtype=og.bf16"),
        (lambda g, x: g.matmul(x, [[1.0]]), "or an array, as np.array(..., np.float32)"),
        (lambda g, x: g.variable("v", [1.0]), "variable 'v': list; expected a numpy array, as np.array("),
        (
            lambda g, _x: g.convolution(g.input("image", og.f32, (1, 3, 8, 8)), np.ones((8, 3, 3, 3), np.float32)),
            "with data_format='NCX' and weights_format='OIX' they agree",
        ),
        (lambda g, x: g.assign(x, x), "'x' is not a variable; g.variable makes one"),
    ],
)
def test_frequent_mistakes_name_the_fix(call, told):
    g = og.Graph()
    x = g.input("x", og.f32, (2, 2))
    with pytest.raises(og.OneGraphError) as refused:
        call(g, x)
    assert told in str(refused.value)


def test_a_method_of_an_op_is_made_once():
    assert og.Graph.softmax is og.Graph.softmax
