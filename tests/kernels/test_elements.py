"""The kernel for a few elements of any data type, compared with numpy."""

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.elements import ELEMENTS
from onegraph.opset.dtypes import OF_NUMPY

pytestmark = pytest.mark.library
TESTED_KERNELS = ("elements",)
INTEGERS = ("s8", "u8", "int16", "uint16", "s32", "uint32", "s64", "uint64")
FLOATS = ("f32", "float64")
NUMBERS = (*INTEGERS, *FLOATS)
CAST = ("s8", "u8", "s32", "s64", "f32", "boolean")  # data types that a graph of a user has
OPS = {
    "Add": (np.add, NUMBERS),
    "Subtract": (np.subtract, NUMBERS),
    "Multiply": (np.multiply, NUMBERS),
    "Maximum": (np.maximum, INTEGERS),
    "Minimum": (np.minimum, INTEGERS),
    "Negative": (np.negative, NUMBERS),
    "Equal": (np.equal, NUMBERS),
    "Greater": (np.greater, NUMBERS),
    "GreaterEqual": (np.greater_equal, NUMBERS),
    "Less": (np.less, NUMBERS),
    "LessEqual": (np.less_equal, NUMBERS),
    "And": (np.logical_and, ("boolean",)),
    "Or": (np.logical_or, ("boolean",)),
    "Xor": (np.logical_xor, ("boolean",)),
    "Not": (np.logical_not, ("boolean",)),
    "Where": (np.where, (*NUMBERS, "boolean")),
    "Cast": (None, (*NUMBERS, "boolean")),
}


def numbers(dtype, *shape):
    """Numbers of both signs and at the limits of the data type."""
    kind = og.DataType[dtype].numpy
    rng = np.random.default_rng(len(shape))
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(kind)
    if kind.kind == "f":
        return rng.choice(np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3e38], kind), shape)
    limits = np.iinfo(kind)
    return rng.choice(np.array([limits.min, limits.max, 0, 1, 2, 100, limits.max // 2], kind), shape)


def operands(kind, dtype):
    first, second = numbers(dtype, 3, 1, 2), numbers(dtype, 4, 1)
    if kind == "Where":
        return [numbers("boolean", 3, 4, 2), first, second]
    return [first] if kind in ("Negative", "Not", "Cast") else [first, second]


def targets(kind, dtype):
    """The data types that a Cast of this one is computed to; None for other ops."""
    return [one for one in CAST if dtype not in FLOATS or one not in INTEGERS] if kind == "Cast" else [None]


def test_every_op_of_the_kernel_has_a_case():
    assert {*OPS} == {*ELEMENTS.kinds}


@pytest.mark.parametrize("kind", OPS)
def test_few_elements_agree_with_numpy(kind):
    compute, dtypes = OPS[kind]
    g, arrays, wanted = og.Graph(), {}, {}
    for dtype in dtypes:
        for target in targets(kind, dtype):
            given = operands(kind, dtype)
            names = [f"{dtype}_{target}_{place}" for place in range(len(given))]
            tensors = [g.input(name, OF_NUMPY[one.dtype], one.shape) for name, one in zip(names, given, strict=True)]
            turned = [
                g.op("Transpose", [one], {"order": [*range(len(one.shape))][::-1]}, edition="host") for one in tensors
            ]
            back = [
                g.op("Transpose", [one], {"order": [*range(len(one.shape))][::-1]}, edition="host") for one in turned
            ]
            result = g.op(kind, back, dtype=target, edition="host")
            g.output(f"{dtype}_{target}", result)
            arrays |= dict(zip(names, given, strict=True))
            with np.errstate(all="ignore"):
                wanted[f"{dtype}_{target}"] = (
                    given[0].astype(og.DataType[target].numpy) if compute is None else compute(*given)
                )
    model = g.compile()
    found = model(**arrays)
    for name, one in zip(wanted, found if isinstance(found, tuple) else [found], strict=True):
        np.testing.assert_array_equal(one, wanted[name], name)
        assert one.dtype == wanted[name].dtype
    steps = [part for part in model.report().partitions if part.kinds == (kind,)]
    assert {part.executor for part in steps} <= {"kernel", "oneDNN"}
    assert any(part.executor == "kernel" for part in steps)


def test_more_elements_stay_in_numpy():
    for size, executor in ((1024, "kernel"), (1025, "host")):
        g = og.Graph()
        g.output("y", g.op("Add", [g.input(name, "s64", (size,)) for name in "ab"], edition="host"))
        model = g.compile()
        ones = np.ones(size, np.int64)
        np.testing.assert_array_equal(model(ones, ones), ones + ones)
        assert [part.executor for part in model.report().partitions] == [executor]
