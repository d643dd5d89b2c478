"""Graphs whose programs have the kernels that move, normalize, pool and code, and those of host ops.

What such a kernel computes is compared with float64 elsewhere: a graph proves that programs have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import onegraph as og
from onegraph import reference
from tests.drawn.generators.trees import Forest
from tests.helpers.drawn import TYPES, Array
from tests.helpers.host_cases import HostCase, graph_of

from ..draw import Draw
from ..entry import draws
from ..numbers import check

Given = list[Mapping[str, Array]]
Build = Callable[[Draw], tuple[og.Graph, Given]]
SHARES = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def host(kind: str, arrays: list[Any], attrs: Mapping[str, Any] | None = None, known: tuple[int, ...] = (),
         dtype: og.DataType | None = None) -> tuple[og.Graph, Given]:  # fmt: skip
    """A graph of one host op."""
    g, given = graph_of(HostCase(kind, arrays, [], attrs or {}, frozenset(known), dtype))
    return g, [given]


def some(draw: Draw, *shape: int, dtype: str = "f32", special: bool = True) -> Array:
    """Numbers in dense memory, now and then with one that is NaN or infinite."""
    array = draw.rng.standard_normal(shape).astype(TYPES[dtype])
    if special and draw.flag(0.3):
        array[tuple(draw.between(0, dim - 1) for dim in shape)] = draw.of([np.nan, np.inf, -np.inf])
    return array


def graph_with(draw: Draw, arrays: Mapping[str, Array], build: Callable[..., Any], open_: bool = False) -> og.Graph:
    """A graph with inputs for arrays, whose sizes may be open, and what a function makes of them as its outputs."""
    g = og.Graph()
    ends = [
        g.input(name, og.DataType.of(array.dtype), (None,) * array.ndim if open_ else array.shape)
        for name, array in arrays.items()
    ]
    made = build(g, *ends)
    for place, tensor in enumerate(made if isinstance(made, (tuple, list)) else [made]):
        g.output(f"y{place}", tensor)
    return g


def opened(draw: Draw, build: Callable[..., Any], *shape: int) -> tuple[og.Graph, Given]:
    """A graph of open sizes, and inputs of several sizes."""
    given = [{"x": some(draw, *[n + more for n in shape])} for more in (3, 1, 2, 0)]
    return graph_with(draw, given[0], build, open_=True), given


def fixed(draw: Draw, build: Callable[..., Any], *arrays: Array) -> tuple[og.Graph, Given]:
    """A graph of known sizes, and its inputs."""
    given = {f"x{place}": array for place, array in enumerate(arrays)}
    return graph_with(draw, given, build), [given]


def norm(draw: Draw) -> tuple[og.Graph, Given]:
    dtype, count = draw.of(["f32", "f16", "bf16"]), draw.size(33)
    vectors = [some(draw, count, special=False) for _ in range(3)]

    def build(g: og.Graph, x: Any) -> Any:
        ends = [g.constant(vector.astype(np.float32)) for vector in (*vectors, np.abs(vectors[0]) + 1)]
        return g.batch_norm_inference(x, *ends, epsilon=1e-3, data_format="NCX")

    return fixed(draw, build, some(draw, 2, count, draw.size(17), 3, dtype=dtype))


def turned(draw: Draw) -> tuple[og.Graph, Given]:
    shape = draw.size(33, 2), draw.size(33, 2)
    return host("Transpose", [draw.rng.integers(-(2**40), 2**40, shape)], {"order": [1, 0]})


def pooled(draw: Draw) -> tuple[og.Graph, Given]:
    window = {"strides": (2, 1), "kernel": (3, 2), "pads_begin": (1, 0), "pads_end": (1, 1)}
    x = some(draw, 2, draw.size(33), 5, 6, dtype=draw.dtype())
    return fixed(draw, lambda g, x: g.max_pool(x, **window, data_format="NCX"), x)


def averaged(draw: Draw) -> tuple[og.Graph, Given]:
    window = {"strides": (2, 1), "kernel": (3, 2), "pads_begin": (1, 0), "pads_end": (1, 1), "exclude_pad": draw.flag()}
    return opened(draw, lambda g, x: g.avg_pool(g.relu(x), **window, data_format="NCX"), 1, 3, 5, draw.size(33, 4))


def resized(draw: Draw) -> tuple[og.Graph, Given]:
    mode = draw.of(["bilinear", "nearest"])
    return opened(
        draw,
        lambda g, x: g.interpolate(g.relu(x), mode=mode, scales=(2.0, 1.5), data_format="NCX"),
        1,
        3,
        4,
        draw.size(17),
    )


def softened(draw: Draw) -> tuple[og.Graph, Given]:
    x = some(draw, draw.between(2, 4), draw.size(33), draw.size(33, 2))
    return fixed(draw, lambda g, x: g.softmax(x, axis=1), x)


def gathered(draw: Draw) -> tuple[og.Graph, Given]:
    rows, depth = draw.between(2, 9), 2 * draw.size(65)
    table = draw.rng.integers(0, 256, (rows, depth // 2)).astype(np.uint8)
    indices, scales = draw.rng.integers(-rows, rows, draw.size(17)), some(draw, rows, 1)
    return host("PackedGather", [table, indices, scales], {"coding": "u4", "zero": 8, "depth": depth, "group": 0})


def trees_of(draw: Draw) -> tuple[og.Graph, Given]:
    from onegraph.arrays.trees import ordered, table_of

    forest, src = Forest(draw, 4, np.float32), some(draw, draw.size(17), 4)
    table, roots = table_of(forest.trees, ordered(forest.trees), forest.trees.holds)
    weights = draw.rng.standard_normal(forest.leaves).astype(np.float32)
    return host("TreeEnsemble", [src, table, roots, weights], {"n_targets": 1}, (1, 2, 3))


def cached(draw: Draw) -> tuple[og.Graph, Given]:
    tokens, new, size = draw.size(17), draw.between(1, 3), draw.size(33)
    ends = [some(draw, 2, 3, count, size) for count in (tokens, new)]
    lengths = draw.rng.integers(0, tokens + new + 1, 2)
    return host("ExtendCache", [*ends, lengths, np.array(tokens + new)], known=(3,))


def rotated(draw: Draw) -> tuple[og.Graph, Given]:
    tokens, pairs = draw.size(17), draw.size(33)
    src, tables = some(draw, 2, 3, tokens, 2 * pairs), [some(draw, tokens + 4, pairs) for _ in range(2)]
    return host("Rotary", [src, *tables, draw.rng.integers(0, tokens + 5, 2)], {"interleaved": draw.flag()})


def counted(draw: Draw) -> tuple[og.Graph, Given]:
    attrs = {"tuples": [1, 2, 1], "sizes": [1, 2], "columns": [0, 1], "skips": 1, "width": 2}
    return host("CountTuples", [draw.rng.integers(0, 3, (draw.size(17), draw.size(17)))], attrs)


def keyed(draw: Draw) -> tuple[og.Graph, Given]:
    keys = np.arange(draw.size(33))
    values = [keys, some(draw, len(keys), special=False), np.float32(7)]
    return host("LookUp", [draw.rng.integers(-3, 40, draw.size()), *values], {}, (1, 2, 3))


def classified(draw: Draw) -> tuple[og.Graph, Given]:
    count = draw.between(3, 9)
    return host("Classify", [some(draw, draw.size(33), count), np.arange(count)], {"transform": "softmax"})


def quantized(draw: Draw) -> tuple[og.Graph, Given]:
    src = some(draw, draw.size(33), draw.size(33), special=False)
    return host("DynamicQuantizeLinear", [src], dtype=og.u8)


def centered(draw: Draw) -> tuple[og.Graph, Given]:
    width = draw.size(65)
    vectors, g = [some(draw, width, special=False) for _ in range(2)], og.Graph()
    x = g.input("x", "f32", (None, width))
    g.output("y", g.layer_norm(g.relu(x), *vectors, keep_stats=False))
    return g, [{"x": some(draw, rows, width)} for rows in (3, 1, 2, draw.between(4, 20))]


GRAPHS: dict[str, Build] = {
    "arrays": lambda draw: host("CumSum", [draw.rng.integers(-9, 9, (draw.size(33), draw.size(33)))], {"axis": 1}),
    "avg_pool": averaged,
    "batch_norm": norm,
    "cast_integers": lambda draw: host("Cast", [draw.rng.integers(-99, 99, draw.size(), np.int32)], dtype=og.f32),
    "classify": classified,
    "count_tuples": counted,
    "dynamic_quantize": quantized,
    "elements": lambda draw: host("Add", [draw.rng.integers(-9, 9, (draw.size(), 3)), np.arange(3)]),
    "extend_cache": cached,
    "find_keys": keyed,
    "interpolate": resized,
    "layer_norm": centered,
    "log_softmax": lambda draw: fixed(draw, lambda g, x: g.log_softmax(x, axis=-1), some(draw, 5, draw.size(least=2))),
    "max_pool": pooled,
    "packed_gather": gathered,
    "reduce_extreme": lambda draw: fixed(
        draw, lambda g, x: g.reduce_max(x, axes=[1]), some(draw, draw.size(17), draw.size(least=2))
    ),
    "replace_nan": lambda draw: host("ReplaceNaN", [some(draw, 5, draw.size()), np.float32(7)]),
    "rms_norm": lambda draw: fixed(
        draw, lambda g, x: g.op("RMSNorm", [x], {"epsilon": 1e-3}), some(draw, 5, draw.size())
    ),
    "rotary": rotated,
    "select": lambda draw: fixed(
        draw, lambda g, c, a, b: g.select(c, a, b),
        draw.rng.integers(0, 2, (5, 33)).astype(np.bool_), some(draw, 5, 33), some(draw, 5, 33),
    ),
    "softmax": softened,
    "strided_copy": turned,
    "trees": trees_of,
}  # fmt: skip


@draws(*GRAPHS, graph=True)
def in_a_graph(draw: Draw) -> None:
    g, given = GRAPHS[draw.kernel](draw)
    draw.said = str({name: array.shape for name, array in given[-1].items()})
    found = draw.run_graph(g, *given)
    for one, wanted in zip(found, reference.run(g, given[-1]).values(), strict=True):
        exact, other = wanted.astype(np.float64), one.astype(np.float64)
        largest = np.abs(exact[np.isfinite(exact)]).max(initial=1)
        near = np.abs(other - exact) <= SHARES.get(one.dtype.name, 0) * largest
        check(near | (other == exact) | (np.isnan(other) & np.isnan(exact)), one, wanted, draw)
