"""The gradient of every op against finite differences in float64."""

from __future__ import annotations

import numpy as np
from helpers.gradient_cases import BASE_CASES, HOST_CASES, subject_of
from helpers.grouped import grouped
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph.opset.editions.registry import HOST


@grouped("case", BASE_CASES)
def test_base_op_has_the_slope_of_finite_differences(case):
    subject = subject_of(case)
    if subject.wrt and subject.results:
        subject.check()


@grouped("case", HOST_CASES)
def test_host_op_has_the_slope_of_finite_differences(case):
    subject = subject_of(case, HOST)
    if subject.wrt and subject.results:
        subject.check()


def test_replace_nan_passes_the_gradient_on_where_src_is_a_number():
    g = og.Graph()
    x, value = g.input("x", og.f32, (4,)), g.input("value", og.f32, ())
    y = g.op("ReplaceNaN", [x, value], edition=HOST)
    gradients = g.gradient(y, [x, value], np.array([1, 2, 3, 4], np.float32))
    given = {"x": np.array([1, np.nan, np.inf, np.nan]), "value": np.array(7.0)}
    assert [one.tolist() for one in run_wide(g, given, gradients)] == [[1, 0, 3, 0], 6]
