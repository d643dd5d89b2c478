"""Faults that ONEGRAPH_FAULTS switches off by name, or adds from files."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from onegraph import ArgumentError, FormatError
from onegraph.faults.catalogue import check_names
from onegraph.faults.ops.added import faults_of_users
from onegraph.faults.user_faults import UserFault, read_user_faults
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType

OURS = """
[[faults]]
name = "our_softmax"
ops = ["SoftMax"]
since = "3.2"
until = "3.6"
dtypes = ["f32"]
attrs = { axis = 1 }
reason = "wrong on our machine"
"""
# Prints how a Quantize with two zero points and a SoftMax along axis 1 run, and what check says of them.
PROGRAM = """
import json, numpy as np, onegraph as og
g = og.Graph()
x = g.input("x", og.f32, (2, 3))
codes = {"qtype": "per_channel", "axis": 1, "scales": [1.0] * 3, "zps": [0, 40, 80]}
g.output("q", g.op("Quantize", [x], codes, dtype="u8"))
g.output("s", g.softmax(x, axis=1))
model = g.compile()
q, s = model(np.zeros((2, 3), np.float32))
rules = [one.rule for one in og.check_graph(g)]
executors = {kind: one.executor for one in model.report().partitions for kind in one.kinds}
print(json.dumps([q.tolist(), s.tolist(), rules, executors]))
"""


def _run(value, program=PROGRAM):
    environment = {**os.environ, "ONEGRAPH_FAULTS": value, "ONEGRAPH_CACHE": ""}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.library
def test_faults_are_switched_off_and_added(tmp_path):
    usual = json.loads(_run("").stdout)
    if "differing_zero_points" not in usual[2]:
        pytest.skip("this version has no such fault")
    assert usual[0] == [[0, 40, 80]] * 2
    path = tmp_path / "ours.toml"
    path.write_text(OURS)
    codes, shares, rules, executors = json.loads(_run(f"-differing_zero_points,{path}").stdout)
    assert codes == [[0, 0, 0]] * 2, "the library by itself takes the first zero point"
    assert rules == ["our_softmax"]
    assert executors["SoftMax"] == "reference"
    assert shares[0] == pytest.approx([1 / 3] * 3)


@pytest.mark.library
@pytest.mark.parametrize("program", [PROGRAM, "import onegraph as og\nog.check_op('ReLU')"], ids=["run", "check"])
def test_unknown_fault_is_refused_with_the_nearest_name(program):
    done = _run("-differing_zero_point", program)
    assert done.returncode
    assert "did you mean -differing_zero_points?" in done.stderr


def test_condition_of_an_added_fault(tmp_path):
    (tmp_path / "ours.toml").write_text(OURS)
    found = read_user_faults(str(tmp_path / "ours.toml"))
    (fault,) = faults_of_users(found.added)
    assert [fault.affects((3, minor, 0)) for minor in (2, 5, 6, 13)] == [True, True, False, False]
    for dtype, axis, shows in (("f32", 1, True), ("bf16", 1, False), ("f32", 0, False)):
        call = Call(BASE["SoftMax"], {"axis": axis}, [TensorType(DataType[dtype], (2, 3))], 1, [DataType[dtype]])
        assert fault.when(call) is shows
    assert read_user_faults("").digest == ""
    assert len({read_user_faults(value).digest for value in ("", "-a", "-b", str(tmp_path / "ours.toml"))}) == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "TOML or JSON"),
        ('{"ops": []}', "no list of faults"),
        ('{"faults": [{"name": "a", "reason": "b", "ops": ["Relu"]}]}', r"faults\[0\].ops: \['Relu'\]"),
        ('{"faults": [{"name": "a", "ops": ["ReLU"]}]}', r"faults\[0\].reason"),
        ('{"faults": [{"name": "a", "reason": "b", "ops": ["ReLU"], "axis": 1}]}', "unknown key 'axis'"),
        ('{"faults": [{"name": "a", "reason": "b", "ops": ["ReLU"], "attrs": {"axis": 1}}]}', "an attribute of ReLU"),
        ('{"faults": [{"name": "a", "reason": "b", "ops": ["ReLU"], "since": "3"}]}', "a version of oneDNN"),
        ('{"faults": [{"name": "a", "reason": "b", "ops": ["ReLU"], "dtypes": ["half"]}]}', "a list of data types"),
        ("[1]", "no list of faults"),
        ('{"faults": {}}', "no list of faults"),
        ('[{"name": "", "reason": "b", "ops": ["ReLU"]}]', r"faults\[0\].name"),
        ('[{"name": "a", "reason": 5, "ops": ["ReLU"]}]', r"faults\[0\].reason"),
        ('[{"name": "a", "reason": "b", "ops": []}]', r"faults\[0\].ops"),
        ('[{"name": "a", "reason": "b", "ops": {"ReLU": 1}}]', r"faults\[0\].ops"),
        ('[{"name": "a", "reason": "b", "ops": ["ReLU"], "dtypes": {"f32": 1}}]', "a list of data types"),
        ('[{"name": "a", "reason": "b", "ops": ["ReLU"], "attrs": 5}]', "a table of attributes"),
        ('[{"name": "a", "reason": "b", "ops": ["ReLU"], "since": 3.6}]', "a version of oneDNN"),
        ('[{"name": "a", "reason": "b", "ops": ["ReLU"], "since": "3.6.1"}]', "a version of oneDNN"),
        ('[{"name": "a", "reason": "b", "ops": ["ReLU"], "since": "3.x"}]', "a version of oneDNN"),
        ('[{"name": "a", "reason": "b", "ops": ["ReLU"]}, {"name": "a"}]', r"faults\[1\].reason"),
    ],
)
def test_mistakes_in_a_file_are_told(tmp_path, text, told):
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=told):
        read_user_faults(str(path))


def test_every_op_and_data_type_in_either_format(tmp_path):
    ops, dtypes = [*BASE], [*DataType.__members__]
    (tmp_path / "a").write_text(json.dumps([{"name": "ours", "reason": "b", "ops": ops, "dtypes": dtypes}]))
    (tmp_path / "b").write_text('faults = [{name = "ours", reason = "b", ops = ["ReLU"], until = "3.13"}]')
    found = read_user_faults(f"{tmp_path / 'a'}, -x, ,{tmp_path / 'b'}")
    whole = UserFault("ours", "b", frozenset(ops), (3, 2), None, frozenset(dtypes), {})
    assert found.added == (whole, UserFault("ours", "b", frozenset(["ReLU"]), (3, 2), (3, 13), frozenset(), {}))
    assert found.off == {"x"}


def test_name_of_no_fault_beside_any_is_told():
    with pytest.raises(ArgumentError, match=r"-q_x_z; expected the name of a fault of docs/faults\.md$"):
        check_names(frozenset(["q_x_z"]))


def test_digest_is_that_of_the_names_in_order_and_of_the_files(tmp_path):
    (tmp_path / "ours.toml").write_text(OURS)
    found = read_user_faults(f"-b,{tmp_path / 'ours.toml'},-a")
    assert found.digest == hashlib.blake2b(b"a,b" + OURS.encode(), digest_size=16).hexdigest()


def test_missing_file_is_told():
    with pytest.raises(FormatError, match="ONEGRAPH_FAULTS: /no/file"):
        read_user_faults("/no/file")
