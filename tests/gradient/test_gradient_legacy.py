"""The gradients of the ops that only legacy-1 has, against finite differences in float64."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.gradient_cases import Subject

X = (np.arange(6, dtype=np.float32).reshape(2, 3) + 2) / 4
ROW = np.float32([[0.5, 1.5, 2]])
CASES = {
    "Erf": ("Erf", [X]),
    "Negative": ("Negative", [X]),
    "Rsqrt": ("Rsqrt", [X]),
    "Pow": ("Pow", [X, ROW]),
    "PowBackprop": ("PowBackprop", [X, X + 1, ROW]),
    "PowBackpropExponent": ("PowBackpropExponent", [X, X + 1, X**2, ROW]),
    "DynamicTranspose": ("DynamicTranspose", [X, np.int32([1, 0])]),
    "DynamicReshape": ("DynamicReshape", [X, np.int32([3, 2])]),
    "Index": ("Index", [X, np.int32([1, 1, 0])]),
}


@pytest.mark.parametrize("name", CASES)
def test_legacy_op_has_the_slope_of_finite_differences(name):
    kind, inputs = CASES[name]
    subject = Subject(kind, inputs, {"special_zero": False} if kind == "DynamicReshape" else {}, None, None, "legacy-1")
    assert subject.wrt
    subject.check()
