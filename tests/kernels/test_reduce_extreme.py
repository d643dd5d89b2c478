"""The kernel of ReduceMax and ReduceMin, compared with numpy: any axes, layouts, data types and numbers of threads."""

import itertools

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.native import compiled, packed, value_of

pytestmark = pytest.mark.library
TESTED_KERNELS = ("reduce_extreme",)
RNG = np.random.default_rng(811)
SHAPES = [(7,), (1, 1), (3, 65), (2, 3, 17), (4, 1, 5, 6), (2, 3, 4, 5, 3), (1030, 3), (2, 1500)]
LAYOUTS = {"dense": lambda a: a, "turned": lambda a: a.T, "every second one": lambda a: np.repeat(a, 2, -1)[..., ::2]}
NUMBERS = {"ordinary": (), "NaN": (np.nan,), "infinite": (np.inf, -np.inf), "all": (np.nan, np.inf, -np.inf, -0.0)}


def axes_of(rank):
    return [axes for count in range(rank + 1) for axes in itertools.combinations(range(rank), count)]


def reduced(source, axes, minimum, threads=1, keeps=True):
    """What the kernel computes of an array."""
    result = np.zeros(np.max(source, axes, keepdims=keeps).shape, source.dtype)
    flags = {"minimum": minimum, "reduced": [int(axis in axes) for axis in range(source.ndim)]}
    kernel = compiled("reduce_extreme", [value_of(source)], [value_of(result)], packed("reduce_extreme", flags))
    kernel.run_once(source, result, threads=threads)
    return result


def drawn(shape, numbers, dtype=np.float32):
    """An array with some of these numbers in it."""
    array = RNG.standard_normal(shape).astype(dtype)
    for number in numbers:
        array.flat[RNG.integers(array.size)] = number
    return array


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_axes_are_reduced_as_numpy_does(layout, numbers):
    for shape, dtype in itertools.product(SHAPES, (np.float32, np.float16)):
        source = LAYOUTS[layout](drawn(shape, NUMBERS[numbers], dtype))
        for axes in axes_of(source.ndim):
            for minimum, keeps in ((False, True), (True, False)):
                expected = (np.min if minimum else np.max)(source, axes, keepdims=keeps)
                np.testing.assert_array_equal(reduced(source, axes, minimum, 1, keeps), expected, f"{shape} {axes}")


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_threads_do_not_change_the_result(axes):
    for shape in ((3, 400_000), (500_000, 3), (300, 4000)):
        source = drawn(shape, ())
        source[-1, -1] = 9
        for threads in (1, 2, 3):
            np.testing.assert_array_equal(reduced(source, axes, False, threads), np.max(source, axes, keepdims=True))
            np.testing.assert_array_equal(reduced(source, axes, True, threads), np.min(source, axes, keepdims=True))


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("finite_math", [False, True])
def test_an_executable_reduces_by_the_kernel(kind, finite_math):
    g = og.Graph()
    source = g.op("StaticTranspose", [g.input("x", "bf16", (4, 6, 5))], {"order": [2, 0, 1]})
    g.output("y", g.op(kind, [source], {"axes": [0, 2]}))
    model = g.compile(finite_math=finite_math)
    assert [part.executor for part in model.report().partitions if part.executor != "view"] == ["kernel"]
    array = drawn((4, 6, 5), (), og.bf16.numpy)
    expected = np.sort(array.astype(np.float32), None)
    result = model(array).astype(np.float32)
    ends = (np.max if kind == "ReduceMax" else np.min)(array.astype(np.float32), (1, 2))
    np.testing.assert_array_equal(result.reshape(-1), ends)
    assert expected[-1 if kind == "ReduceMax" else 0] in result


@pytest.mark.parametrize(
    ("shape", "result", "flags"),
    [((2, 3), (2, 2), [0, 1]), ((2, 3), (2,), [1, 0]), ((2, 3), (2, 1), [0]), ((2, 3), (2, 3), [0, 1])],
)
def test_other_results_are_refused(shape, result, flags):
    source, target = (np.zeros(dims, np.float32) for dims in (shape, result))
    numbers = packed("reduce_extreme", {"minimum": 0, "reduced": flags})
    kernel = compiled("reduce_extreme", [value_of(source)], [value_of(target)], numbers)
    with pytest.raises(og.OneGraphError, match="of a reduction"):
        kernel.run_once(source, target, threads=1)
