"""The documented fusion patterns as data, and the reasons why neighbouring ops are not fused."""

from dataclasses import replace

import numpy as np
import pytest

import onegraph as og
from onegraph.opset.editions.registry import BASE
from onegraph.opset.fusion_patterns import EVERY_PATTERN, OF_TABLE, matches


@pytest.mark.parametrize("pattern", EVERY_PATTERN, ids=lambda pattern: f"{pattern.name} {pattern.since}")
def test_every_op_of_a_pattern_exists(pattern):
    kinds = (*pattern.heads, *(kind for stage in pattern.stages for kind in stage.kinds))
    assert set(kinds) <= set(BASE)
    assert pattern.page.endswith(f"/{'supported_patterns' if pattern.name.startswith(OF_TABLE) else pattern.name}.md")


@pytest.mark.parametrize(
    ("kinds", "attrs", "pattern", "length", "missing"),
    [
        (["MatMul", "BiasAdd", "Add", "ReLU", "Select"], {}, "matmul", 5, ""),
        (["MatMul", "ReLU", "BiasAdd"], {}, "matmul", 2, "BiasAdd (bias) stands before ReLU (epilogue)"),
        (["MatMul", "Select", "ReLU"], {}, "matmul", 2, "ReLU (epilogue) stands before Select (select)"),
        (["MatMul", "ReLU", "SoftMax"], {}, "matmul", 2, "has no SoftMax"),
        (["Convolution", "BiasAdd", "BatchNormInference", "ReLU"], {}, "convolution", 4, ""),
        (["Convolution", "BiasAdd", "BiasAdd"], {}, "convolution", 2, "at most 1 of bias"),
        (["Convolution", *["ReLU"] * 20], {}, "convolution", 21, ""),
        (["Convolution", *["ReLU"] * 21], {}, "convolution", 21, "at most 20 of epilogue"),
        (["ConvTranspose", "BiasAdd", "ReLU", "TypeCast"], {}, "convtranspose", 3, "has no TypeCast"),
        (["ReduceSum", "Add", "Sqrt"], {}, "reduction", 3, ""),
        (["AvgPool", "ReLU"], {"rounding_type": "floor", "exclude_pad": False}, "pool", 2, ""),
        (["AvgPool", "ReLU"], {"rounding_type": "ceil", "exclude_pad": False}, "pool", 1, "rules out AvgPool with"),
        (["AvgPool", "ReLU"], {"rounding_type": "ceil", "exclude_pad": True}, "pool", 2, ""),
        (["AvgPool", "ReLU"], {"rounding_type": "ceil"}, "pool", 2, ""),
        (["MaxPool", "ReLU"], {"rounding_type": "ceil", "exclude_pad": False}, "pool", 2, ""),
        (["Interpolate", "Add"], {"coordinate_transformation_mode": "align_corners"}, "interpolate", 1, "rules out"),
        (["Interpolate", "Add"], {"coordinate_transformation_mode": "half_pixel"}, "interpolate", 2, ""),
        (["Interpolate", "Add"], {}, "interpolate", 2, ""),
        (["BatchNormInference"], {}, "norm", 1, ""),
        (["BatchNormInference", "ReLU"], {}, "norm", 2, ""),
        (["BatchNormInference", "ReLU", "ReLU"], {}, "norm", 1, "anything but one ReLU"),
        (["LayerNorm", "Tanh"], {}, "norm", 2, ""),
        (["BatchNormInference", "Tanh"], {}, "norm", 1, "anything but one ReLU"),
        (["LayerNorm", "TypeCast", "Multiply", "Quantize"], {}, "norm", 4, ""),
        (["SoftMax", "TypeCast", "Add"], {}, "softmax", 2, "Add (epilogue) stands before TypeCast"),
    ],
)
def test_a_chain_is_matched_up_to_what_is_missing(kinds, attrs, pattern, length, missing):
    [match] = matches(kinds, attrs)
    assert match.pattern.name.startswith(pattern)
    assert match.length == length
    assert missing in match.missing
    assert bool(match.missing) is bool(missing)


def test_an_op_without_a_pattern_matches_none():
    assert matches(["StaticReshape", "ReLU"]) == []


@pytest.mark.library
def test_report_says_why_ops_are_not_fused():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 8))
    w = g.constant(np.eye(8, dtype=np.float32))
    y = g.matmul(x, w, name="scores")
    g.output("z", g.softmax(y, axis=1, name="weights"))
    found = g.compile().report().unfused()
    assert [str(each) for each in found] == [
        "MatMul 'scores' is not fused with SoftMax 'weights': matmul_fusion_patterns has no SoftMax"
    ]


@pytest.mark.library
def test_report_names_the_readers_of_a_shared_result():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 8))
    y = g.matmul(x, g.constant(np.eye(8, dtype=np.float32)), name="scores")
    g.output("a", g.tanh(y, name="one"))
    g.output("b", g.exp(y, name="other"))
    found = g.compile().report().unfused()
    assert [each.second for each in found] == [("Tanh 'one'",), ("Exp 'other'",)]
    assert all("2 partitions read its result" in each.reason for each in found)


@pytest.mark.library
def test_hint_names_the_guide_that_has_the_pattern(monkeypatch):
    g = og.Graph()
    x = g.input("x", og.f32, (4, 8))
    g.output("y", g.square(g.tanh(x, name="first"), name="second"))
    report = replace(g.compile(policy="debug").report(), policy="fusion")
    for version, expected in (
        (
            (3, 6, 2),
            "the table of patterns of unary ops has no Square; the guide has it since 3.9; the library is oneDNN 3.6.2",
        ),
        ((3, 13, 2), "the pattern is documented, but the library does not fuse it here"),
    ):
        monkeypatch.setattr("onegraph.native.library.VERSION", version)
        [found] = report.unfused()
        assert found.reason.startswith(expected)


@pytest.mark.library
def test_fused_ops_have_no_reason():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 8))
    y = g.matmul(x, g.constant(np.eye(8, dtype=np.float32)))
    g.output("z", g.tanh(y))
    assert g.compile().report().unfused() == []
