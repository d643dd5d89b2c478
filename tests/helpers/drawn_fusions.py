"""Partitions of a drawn op and of ops that it is joined with: which faults of fusions they run into."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.faults import slow_fusions
from onegraph.faults.fusions import FUSIONS, strided

from .draws import material
from .fault_subjects import fused

FAULTS = (*FUSIONS, *strided.FAULTS, *slow_fusions.FAULTS)
SIZES = (1, 1, 2, 3, 4, 8, 16, 17, 64, 4096)
MAINS = ("product", "image", "transposed", "sum", "number", "pool", "norm")


def tensor(g: og.Graph, drawn: Random, shape: Any, dtype: str) -> Any:
    """An input, or the floats of codes."""
    name = f"x{len(g.inputs)}"
    if dtype != "int8":
        return g.input(name, dtype, shape)
    codes = g.input(name, drawn.choice(("u8", "s8")), shape)
    return g.dequantize(codes, scales=[0.5], zps=[drawn.choice((0, 0, 3))])


def main_op(g: og.Graph, drawn: Random, kind: str, dtype: str) -> Any:
    """The result of the first op."""
    if kind == "product":
        batch = [drawn.choice((1, 2, 3)) for _ in range(drawn.choice((0, 0, 1, 2, 2)))]
        rows, terms, columns = (drawn.choice(SIZES) for _ in range(3))
        turned = drawn.random() < 0.3
        left = tensor(g, drawn, (*batch, rows, terms), dtype)
        ends = (columns, terms) if turned else (terms, columns)
        right = tensor(g, drawn, (*drawn.choice(([], batch)), *ends), "int8" if dtype == "int8" else dtype)
        return g.matmul(left, right, transpose_b=turned)
    axes, channels, form = drawn.choice((1, 2, 2, 3)), drawn.choice(SIZES[:9]), drawn.choice(("NXC", "NCX"))
    sizes = [drawn.choice((1, 2, 3, 5, 8, 16)) for _ in range(axes)]
    shape = (2, channels, *sizes) if form == "NCX" else (2, *sizes, channels)
    if kind in ("image", "transposed"):
        groups, more = drawn.choice((1, 1, 1, channels)), drawn.choice((1, 2, 4, 8))
        out = groups * more
        kernel = [drawn.choice((1, 1, 2, 3)) for _ in range(axes)]
        weights = (*kernel, channels // groups, out) if kind == "image" else (*kernel, out // groups, channels)
        ends = tensor(g, drawn, shape, dtype), tensor(g, drawn, weights, dtype)
        attrs = {
            "pads_begin": drawn.choice((0, 1)),
            "pads_end": 1,
            "strides": drawn.choice((1, 1, 2)),
            "groups": groups,
        }
        make = g.convolution if kind == "image" else g.conv_transpose
        return make(*ends, **attrs, data_format=form, weights_format="XIO" if kind == "image" else "XOI")
    x = tensor(g, drawn, shape, dtype)
    if kind == "sum":
        make = drawn.choice((g.reduce_sum, g.reduce_mean, g.reduce_max))
        return make(x, axes=drawn.sample(range(len(shape)), drawn.choice((1, 2))), keep_dims=drawn.random() < 0.7)
    if kind == "pool":
        return drawn.choice((g.max_pool, g.avg_pool))(x, kernel=1, strides=1, data_format=form)
    if kind == "norm":
        return drawn.choice(
            (g.softmax(x, axis=drawn.choice((1, -1))), g.layer_norm(x, keep_stats=False, use_affine=False))
        )
    return drawn.choice((g.sigmoid, g.exp, g.tanh, g.relu))(x)


def joined(g: og.Graph, drawn: Random, y: Any, dtype: str) -> Any:
    """The result of an op that is joined."""
    kind = drawn.random()
    if kind < 0.2:
        return drawn.choice((g.relu, g.tanh, g.sigmoid, g.gelu, g.exp))(y)
    if kind < 0.3:
        return g.multiply(y, g.sigmoid(y))
    if kind < 0.37 and dtype != "f32":
        return g.type_cast(y, dtype=drawn.choice(("bf16", "f32")))
    if kind < 0.43:
        return g.quantize(y, scales=[0.5], zps=[drawn.choice((0, 5))], dtype=drawn.choice(("u8", "s8")))
    shape = [dim if drawn.random() < 0.55 else 1 for dim in y.shape]
    shape = shape[drawn.choice((0, 0, 0, 1, 2)) :] if drawn.random() < 0.5 else list(y.shape)
    other = tensor(g, drawn, tuple(shape), drawn.choice((y.dtype.value, y.dtype.value, dtype)))
    make = drawn.choice((g.add, g.add, g.multiply, g.subtract, g.divide, g.maximum))
    return make(other, y) if drawn.random() < 0.3 else make(y, other)


@material(lambda: MAINS)
def faults_of_fusions(name: str, number: int) -> list[str]:
    """The faults of a partition."""
    from tests.faults.test_fault_conditions import verdict

    part = partition(name, number)
    if part is None:
        return []
    return ["".join(verdict(one, part) for one in (fault.when, fault.certain) if one is not None) for fault in FAULTS]


def partition(name: str, number: int) -> Any:
    """The drawn partition; None if there is none."""
    drawn, g = Random(f"{name} {number}"), og.Graph()
    dtype = drawn.choice(("f32", "f32", "bf16", "f16", "int8"))
    try:
        y = main_op(g, drawn, name, dtype)
        for _ in range(drawn.choice((1, 1, 2, 3))):
            y = joined(g, drawn, y, dtype)
        g.output("y", y)
        found = fused(
            g, **{flag: drawn.random() < 0.6 for flag in ("vnni", "avx2", "avx512", "amx", "openmp", "strict")}
        )
    except (OneGraphError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return None
    ids = sorted({number for use in found.uses for number in (*use.inputs, *use.outputs)})
    known = frozenset(one for one in ids if drawn.random() < 0.2)
    return replace(found, constants=known, strided=frozenset(drawn.sample(ids, drawn.choice((0, 0, 0, 1)))))
