"""The command line."""

import json
import subprocess
import sys

import pytest

import onegraph as og


def onegraph(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "onegraph", *arguments], capture_output=True, text=True, **options)


def test_info_as_json():
    done = onegraph("info", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert facts == {"onegraph": og.__version__, **og.version_info()}
    assert facts["version"].startswith("3.")
    assert "f32" in facts["cpu_dtypes"]
    assert facts["path"].endswith(".so.3") or "libdnnl.so" in facts["path"]


def test_info_for_people():
    done = onegraph("info")
    for text in ("version", "path", "threading runtime", "cpu isa", "dtypes", "constant tensor cache"):
        assert text in done.stdout


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("info", "--nonsense")])
def test_bad_arguments_exit_with_2(arguments):
    done = onegraph(*arguments)
    assert done.returncode == 2
    assert "usage: onegraph" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_library_is_one_line(tmp_path):
    done = onegraph("info", env={"ONEGRAPH_LIBRARY": str(tmp_path / "none.so"), "PATH": ""})
    assert done.returncode == 2
    assert done.stderr.startswith("onegraph: ONEGRAPH_LIBRARY is")
    assert len(done.stderr.splitlines()) == 1


def test_ops_lists_every_op_of_an_edition():
    done = onegraph("ops", "--edition", "legacy-1")
    assert done.returncode == 0
    assert "ConvTransposeBackpropFilters" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.startswith("  ")]) == 99


def test_ops_shows_one_op_in_three_forms():
    shown = onegraph("ops", "Convolution", "--edition", "legacy-1").stdout
    for text in ("filter_format", "OIX, XIO", "output: T", "spatial_fits", "Convolution-1"):
        assert text in shown
    record = json.loads(onegraph("ops", "conv_transpose", "--json").stdout)
    assert record["kind"] == "ConvTranspose"
    assert {"name": "groups", "default": "1"}.items() <= record["attributes"][6].items()
    assert "| strides | s64[] | required | positive |" in onegraph("ops", "MaxPool", "--markdown").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ops", "Convolutoin"), "onegraph: edition onednn-3.13 has no op 'Convolutoin'; did you mean 'Convolution'?"),
        (("ops", "--edition", "onednn-3.14"), "onegraph: unknown edition 'onednn-3.14'"),
        (("check", "/nowhere.json"), "onegraph: /nowhere.json: [Errno 2]"),
        (("check", "/"), "onegraph: /: [Errno 21]"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    done = onegraph(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1


GOOD = {"op": "ReLU", "inputs": [["f32", [2, None]]]}
BAD = {"op": "Elu", "attrs": {"alpha": -1, "beta": 2}, "inputs": [{"dtype": "f32", "shape": [3]}]}


@pytest.mark.parametrize(
    ("text", "status", "rules"),
    [
        (json.dumps(GOOD), 0, []),
        (json.dumps([GOOD, BAD]), 1, ["attribute_range", "unknown_attribute"]),
        ('op = "ReLU"\ninputs = [["f32", ["?", 3]]]', 0, []),
        ('edition = "legacy-1"\nop = "Relu"', 1, ["unknown_op"]),
        ('[[ops]]\nop = "ReLU"\ninputs = [["f64", [3]]]', 1, ["tensor_kind"]),
    ],
)
def test_check(text, status, rules):
    done = onegraph("check", "-", "--json", input=text)
    assert done.returncode == status, done.stderr
    assert [violation["rule"] for violation in json.loads(done.stdout)] == rules
    for_people = onegraph("check", "-", input=text).stdout
    assert all(f"error: [{rule}]" in for_people for rule in rules)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"op": 3}',
        '{"op": "ReLU", "x": 1}',
        '{"graph": []}',
        "\x00",
        "[" * 100000,
        "a = ",
        '{"ops": {"op": "ReLU"}}',
    ],
)
def test_check_of_nonsense_is_one_line(text):
    done = onegraph("check", "-", input=text)
    assert done.returncode == 2
    assert done.stderr.startswith("onegraph: ")
    assert "Traceback" not in done.stderr
