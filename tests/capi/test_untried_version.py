"""A version of the library that was not tried: one warning, and no fused op of int8."""

import subprocess
import sys

import numpy as np
import pytest

import onegraph as og

pytestmark = pytest.mark.library
CODE = (
    "import warnings; from onegraph.native import load; load.TRIED = frozenset([(3, 1)])\n"
    "with warnings.catch_warnings(record=True) as seen:\n"
    "    warnings.simplefilter('always'); from onegraph.native import library; import onegraph.capi\n"
    "print([str(one.message).partition(' is oneDNN ')[2] for one in seen if 'never tried' in str(one.message)])"
)


def test_an_untried_version_warns_once():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    (said,) = eval(done.stdout)
    assert "a version that onegraph was never tried with; fused int8 ops run one by one; tried are 3.1" in said


def test_an_untried_version_runs_int8_unfused(monkeypatch):
    monkeypatch.setattr("onegraph.faults.fusions.TRIED", frozenset())
    g = og.Graph()
    x, w = (
        g.dequantize(g.input(name, kind, (4, 4)), scales=[0.5], zps=[0]) for name, kind in (("x", "u8"), ("w", "s8"))
    )
    g.output("y", g.relu(g.matmul(x, w, dtype="f32")))
    model = g.compile()
    assert not any(part.fused and "Dequantize" in part.kinds for part in model.report().partitions)
    assert any("never tried" in part.reason for part in model.report().partitions)
    codes = np.arange(16).reshape(4, 4)
    got = model(codes.astype(np.uint8), (codes - 8).astype(np.int8))
    np.testing.assert_array_equal(got, np.maximum(codes @ (codes - 8) / 4, 0))
