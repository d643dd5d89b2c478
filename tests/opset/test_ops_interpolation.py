"""The interpolation category: literal numbers, a loop over the definition, the adjoint identity, and every rule."""

from __future__ import annotations

from itertools import product
from math import ceil, floor

import numpy as np
import pytest
from helpers.specification import check_op, shape_of
from numpy.typing import NDArray

import onegraph
from onegraph import Graph, SpecError
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, EDITIONS
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.signature import AttrValue, Shape
from onegraph.reference.run import reference_function

Floats = NDArray[np.float64]
MODES = ("nearest", "linear")
TRANSFORMS = ("half_pixel", "align_corners")


def run(kind: str, attrs: dict[str, AttrValue], *arrays: Floats | None) -> Floats:
    types = [None if array is None else TensorType(None, array.shape, array) for array in arrays]
    call = Call(BASE[kind], attrs, types)
    result = np.asarray(reference_function(BASE[kind])(call, *arrays))
    assert (result.shape,) == BASE[kind].shape(call)
    return result


def line(values: list[float], size: int, **attrs: AttrValue) -> list[float]:
    src = np.array(values).reshape(1, 1, -1)
    return run("Interpolate", {"sizes": (size,), "data_format": "NCX", **attrs}, src).ravel().tolist()


def coordinate(place: int, old: int, new: int, transform: str) -> float:
    if transform == "align_corners":
        return 0.0 if new == 1 else place * (old - 1) / (new - 1)
    return (place + 0.5) * old / new - 0.5


def brute(src: Floats, sizes: tuple[int, ...], mode: str, transform: str) -> Floats:
    """NCX; computes one element of dst at a time."""
    dst = np.zeros((*src.shape[:2], *sizes))
    for place in np.ndindex(*sizes):
        reads = []
        for where, old, new in zip(place, src.shape[2:], sizes, strict=True):
            exact = min(max(coordinate(where, old, new, transform), 0.0), old - 1.0)
            low = floor(exact)
            reads.append(
                [(floor(exact + 0.5), 1.0)]
                if mode == "nearest"
                else [(low, 1 - (exact - low)), (ceil(exact), exact - low)]
            )
        for terms in product(*reads):
            weight = float(np.prod([share for _, share in terms]))
            dst[(..., *place)] += weight * src[(..., *(index for index, _ in terms))]
    return dst


def test_nearest_numbers() -> None:
    assert line([1, 2, 3], 6, mode="nearest") == [1, 1, 2, 2, 3, 3]
    # A point exactly between two elements takes the later one.
    assert line([1, 2, 3, 4], 2, mode="nearest") == [2, 4]
    assert line([1, 2, 3, 4, 5], 3, mode="nearest") == [1, 3, 5]
    assert line([1, 2, 3, 4], 3, mode="nearest", coordinate_transformation_mode="align_corners") == [1, 3, 4]


def test_linear_numbers() -> None:
    assert line([0, 4], 4, mode="linear") == [0, 1, 3, 4]
    assert line([0, 4, 8], 2, mode="linear") == [1, 7]
    assert line([0, 4], 5, mode="linear", coordinate_transformation_mode="align_corners") == [0, 1, 2, 3, 4]
    assert line([3, 4], 1, mode="linear", coordinate_transformation_mode="align_corners") == [3]
    assert line([7], 3, mode="linear") == [7, 7, 7]


@np.errstate(invalid="ignore")
def test_infinity_does_not_spread() -> None:
    inf = float("inf")
    assert line([inf, 1, 2], 3, mode="linear") == [inf, 1, 2]
    assert line([inf, 1], 4, mode="linear") == [inf, inf, inf, 1]
    assert line([inf, 1], 4, mode="nearest") == [inf, inf, 1, 1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("sizes", [(3,), (11,), (2, 7), (5, 3), (1, 8), (2, 3, 4)])
def test_forward_against_a_loop(mode: str, transform: str, sizes: tuple[int, ...]) -> None:
    src = np.random.default_rng(1).integers(-8, 8, (2, 3, 5, 4, 3)[: len(sizes) + 2]).astype(float)
    attrs: dict[str, AttrValue] = {"mode": mode, "coordinate_transformation_mode": transform, "sizes": sizes}
    expected = brute(src, sizes, mode, transform)
    np.testing.assert_allclose(run("Interpolate", {**attrs, "data_format": "NCX"}, src), expected, atol=1e-12)
    last = np.moveaxis(src, 1, -1)
    np.testing.assert_allclose(run("Interpolate", attrs, last), np.moveaxis(expected, 1, -1), atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("sizes", [(3,), (11,), (2, 7), (9, 1), (2, 3, 4)])
def test_backward_is_the_adjoint(mode: str, transform: str, data_format: str, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    src = rng.normal(size=(2, 3, 5, 4, 3)[: len(sizes) + 2])
    attrs: dict[str, AttrValue] = {
        "mode": mode,
        "coordinate_transformation_mode": transform,
        "sizes": sizes,
        "data_format": data_format,
    }
    dst = run("Interpolate", attrs, src)
    gradient = rng.normal(size=dst.shape)
    back = run("InterpolateBackward", attrs, np.zeros(src.shape), gradient)
    np.testing.assert_allclose(np.vdot(dst, gradient), np.vdot(src, back), rtol=1e-12)


def test_backward_numbers() -> None:
    attrs: dict[str, AttrValue] = {"mode": "linear", "sizes": (4,)}
    got = run("InterpolateBackward", attrs, np.zeros((1, 2, 1)), np.array([1.0, 2, 3, 4]).reshape(1, 4, 1))
    assert got.ravel().tolist() == [1 + 2 * 0.75 + 3 * 0.25, 2 * 0.25 + 3 * 0.75 + 4]


def test_truncates_scaled_sizes() -> None:
    src = np.arange(5.0).reshape(1, 5, 1)
    by_scale = run("Interpolate", {"mode": "linear", "scales": (1.5,)}, src)
    assert by_scale.shape == (1, 7, 1)
    np.testing.assert_array_equal(by_scale, run("Interpolate", {"mode": "linear", "sizes": (7,)}, src))


def test_sizes_input_overrides_the_attribute() -> None:
    src, sizes = np.arange(3.0).reshape(1, 3, 1), np.array([6])
    attrs: dict[str, AttrValue] = {"mode": "nearest", "sizes": (3,)}
    assert run("Interpolate", attrs, src, sizes).ravel().tolist() == [0, 0, 1, 1, 2, 2]
    got = run("InterpolateBackward", attrs, src, np.ones((1, 6, 1)), sizes)
    assert got.ravel().tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("attrs", "shapes", "expected"),
    [
        ({"sizes": (4, 5)}, [(2, 3, 3, 7)], (2, 4, 5, 7)),
        ({"sizes": (4, 5), "data_format": "NCX"}, [(2, 7, 3, 3)], (2, 7, 4, 5)),
        ({"sizes": (4,)}, [(None, None, 7)], (None, 4, 7)),
        ({"sizes": (4,)}, [None], (None, 4, None)),
        ({"scales": (2.0, 0.5)}, [(2, 3, None, 7)], (2, 6, None, 7)),
        ({"scales": (2.0,), "data_format": "NCX"}, [None], (None, None, None)),
        ({}, [(2, 3, 4, 5), (2,)], (2, None, None, 5)),
        ({}, [None, (2,)], (None, None, None, None)),
        ({}, [(2, 3, 5), None], (2, None, 5)),
        ({}, [None, None], None),
    ],
)
def test_forward_shape(attrs: dict[str, AttrValue], shapes: list[Shape], expected: Shape) -> None:
    assert shape_of("Interpolate", {"mode": "linear", **attrs}, *shapes) == expected


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(2, 3, 5), (2, 4, 5)], (2, 3, 5)),
        ([(None, 3, None), (2, 4, 5)], (2, 3, 5)),
        ([None, (2, 4, 5)], (2, None, 5)),
        ([(2, 3, 5), None], (2, 3, 5)),
        ([None, None], None),
    ],
)
def test_backward_shape(shapes: list[Shape], expected: Shape) -> None:
    assert shape_of("InterpolateBackward", {"mode": "linear", "sizes": (4,)}, *shapes) == expected


SIZES, NEAR = {"mode": "nearest", "sizes": [4]}, {"mode": "nearest"}


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "rule", "where"),
    [
        ("Interpolate", SIZES, [("f32", (2, 3))], "spatial_rank", "src"),
        ("Interpolate", NEAR, [("f32", (2, 3, 4))], "size_source", "sizes"),
        ("Interpolate", {**NEAR, "sizes": []}, [("f32", (2, 3, 4))], "size_source", "sizes"),
        ("Interpolate", {**NEAR, "sizes": [4, 4]}, [("f32", (2, 3, 4))], "size_values", "sizes"),
        ("Interpolate", {**NEAR, "scales": [4.0, 4.0]}, [("f32", (2, 3, 4))], "size_values", "scales"),
        ("Interpolate", {**NEAR, "scales": [3e38]}, [("f32", (2, 30, 4))], "size_values", "scales"),
        ("Interpolate", NEAR, [("f32", (2, 3, 4)), ("s32", (2,))], "size_values", "sizes"),
        ("Interpolate", NEAR, [("f32", (2, 3, 4)), ("s32", ())], "size_values", "sizes"),
        ("Interpolate", {**SIZES, "mode": "bilinear"}, [("f32", (2, 3, 4))], "mode_rank", "mode"),
        ("Interpolate", {"mode": "trilinear", "sizes": [4, 4]}, [("f32", None)], "mode_rank", "mode"),
        ("Interpolate", SIZES, [("f32", (2, 0, 4))], "source_has_elements", "src"),
        ("Interpolate", {**NEAR, "sizes": [0]}, [("f32", (2, 3, 4))], "attribute_range", "sizes"),
        ("Interpolate", {**NEAR, "scales": [float("inf")]}, [("f32", (2, 3, 4))], "attribute_range", "scales"),
        ("InterpolateBackward", SIZES, [("f32", (2, 3, 4)), ("f32", (2, 5, 4))], "gradient_resized", "diff_dst"),
        ("InterpolateBackward", SIZES, [("f32", (2, 3, 4)), ("f32", (2, 4, 5))], "gradient_kept", "diff_dst"),
        ("InterpolateBackward", SIZES, [("f32", (2, 3, 4)), ("f32", (1, 4, 4))], "gradient_kept", "diff_dst"),
        ("InterpolateBackward", SIZES, [("f32", (2, 3, 4)), ("f32", (2, 4, 4, 4))], "gradient_kept", "diff_dst"),
        ("InterpolateBackward", SIZES, [("f32", None), ("f32", (2, 5, 4))], "gradient_resized", "diff_dst"),
    ],
)
def test_rules(kind: str, attrs: dict[str, object], inputs: list[object], rule: str, where: str) -> None:
    assert [(violation.rule, violation.where) for violation in check_op(kind, attrs, inputs)] == [(rule, where)]


@pytest.mark.parametrize("diff_dst", [(1, 5, 4), (2, 5, 1), (2, 5, 3), (2, 5, 5, 4)])
def test_lenient_graph_keeps_batch_and_channels(diff_dst: tuple[int, ...]) -> None:
    g = Graph(strict=False)
    src, gradient = g.input("src", "f32", (2, 3, 4)), g.input("diff_dst", "f32", diff_dst)
    with pytest.raises(SpecError, match=r"expected shape \[2, 4, 4\]"):
        g.interpolate_backward(src, gradient, **SIZES)
    # A tensor may have other sizes than the attribute.
    result = g.interpolate_backward(src, g.input("resized", "f32", (2, 5, 4)), **SIZES)
    assert result.shape == (2, 3, 4)


def test_lenient_graph_rejects_gradient_of_empty_source() -> None:
    g = Graph(strict=False)
    src, gradient = g.input("src", "f32", (2, 0, 4)), g.input("diff_dst", "f32", (2, 4, 4))
    with pytest.raises(SpecError, match=r"src: shape \[2, 0, 4\]; expected spatial axes with elements"):
        g.interpolate_backward(src, gradient, mode="nearest", scales=[2.0])
    result = g.interpolate_backward(src, g.input("empty", "f32", (2, 0, 4)), mode="nearest", scales=[2.0])
    assert result.shape == (2, 0, 4)


def test_checks_constant_sizes() -> None:
    found = check_op("Interpolate", NEAR, [("f32", (2, 3, 4)), constant([0])])
    assert [(violation.rule, violation.where) for violation in found] == [("size_values", "sizes")]
    assert check_op("Interpolate", NEAR, [("f32", (2, 3, 4)), constant([8])], [("f32", (2, 8, 4))]) == []
    found = check_op("Interpolate", NEAR, [("f32", (2, 3, 4)), constant([8])], [("f32", (2, 9, 4))])
    assert [violation.rule for violation in found] == ["output_shape"]


EDITIONS_THAT_IGNORE_SCALES = [name for name in EDITIONS if name != "legacy-1"]


@pytest.mark.library
@pytest.mark.parametrize("edition", EDITIONS_THAT_IGNORE_SCALES)
@pytest.mark.parametrize("scales", [[3.0], [3.0, 0.5]])  # scales are not even counted
def test_sizes_beside_scales_are_only_refused_by_the_library(edition: str, scales: list[float]) -> None:
    found = onegraph.check_op("Interpolate", {**SIZES, "scales": scales}, [("f32", (2, 3, 4))], edition=edition)
    assert [(one.rule, one.severity, one.where) for one in found] == [("sizes_and_scales", "library", "scales")]
    assert found[0].message.endswith(
        "sizes and scales together are rejected; the specification ignores scales beside sizes"
    )
    inputs = [("f32", (2, 3, 4)), ("f32", (2, 4, 4))]
    found = onegraph.check_op("InterpolateBackward", {**SIZES, "scales": scales}, inputs, edition=edition)
    assert [(one.rule, one.severity, one.where) for one in found] == [("sizes_and_scales", "library", "scales")]


@pytest.mark.parametrize("kind", ["Interpolate", "InterpolateBackprop"])
def test_legacy_forbids_sizes_beside_scales(kind: str) -> None:
    inputs = [("f32", (2, 3, 4)), ("f32", (2, 4, 4))][: 1 if kind == "Interpolate" else 2]
    (found,) = onegraph.check_op(kind, {**SIZES, "scales": [3.0]}, inputs, edition="legacy-1")
    assert (found.rule, found.severity) == ("one_size_source", "error")
    assert found.message == f"{kind}: scales: both sizes and scales; expected one of the two; leave scales out"


@pytest.mark.library
def test_runs_with_sizes_and_drops_scales() -> None:
    src = np.array([1, 2, 3], np.float32).reshape(1, 1, 3)
    attrs = {"mode": "nearest", "sizes": [6], "scales": [3.0], "data_format": "NCX"}
    graph = Graph()
    graph.output("y", graph.interpolate(graph.input("x", "f32", src.shape), **attrs))
    assert graph.outputs["y"].shape == (1, 1, 6)
    compiled = graph.compile(fallback=False)
    assert compiled(src).tolist() == [[[1, 1, 2, 2, 3, 3]]]
    assert onegraph.reference.run(graph, {"x": src})["y"].tolist() == [[[1, 1, 2, 2, 3, 3]]]


def constant(values: list[int]) -> TensorType:
    return TensorType(DataType.s32, (len(values),), np.array(values, np.int32))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_linear_and_nearest_accept_any_rank(mode: str, rank: int) -> None:
    attrs = {"mode": mode, "sizes": [4] * (rank - 2), "scales": []}
    assert check_op("Interpolate", attrs, [("f16", (2,) * rank)]) == []


@pytest.mark.parametrize("kind", ["Interpolate", "InterpolateBackward"])
def test_accepts_unknown_shapes(kind: str) -> None:
    tensors = [("bf16", None)] * (1 if kind == "Interpolate" else 2)
    assert check_op(kind, {"mode": "bilinear", "scales": [2.0, 2.0]}, tensors) == []
    assert check_op(kind, {"mode": "bilinear"}, [*tensors, ("s32", (None,))]) == []
