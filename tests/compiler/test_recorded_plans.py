"""How graphs are compiled: the record plans.json, which a change of a pass, a form or a threshold must change too.

Numbers alone do not tell which kernel computed them, and thresholds are measured, so nothing but a record knows them.
A child process compiles for AVX2 and one thread, so that the plans are the same on every machine.
``python tests/compiler/test_recorded_plans.py`` writes the record anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers.recorded import digest, keep, kept

import onegraph as og
from onegraph.capi.settings import has_avx2
from onegraph.compiler.passes import vector_products
from onegraph.native.library import VERSION
from onegraph.opset.editions.registry import BASE
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph

KEPT = Path(__file__).parents[1] / "recorded" / "plans.json"
SETTINGS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1", "ONEGRAPH_CACHE": "", "ONEGRAPH_FAULTS": ""}
TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
RANDOM = 60  # random graphs
SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
CODED = {"qtype": "per_tensor", "scales": [0.125], "zps": [0]}


def numbers(*shape, dtype="f32"):
    return (np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(TYPES.get(dtype, dtype))


def product(g, dtype, rows, depth, columns, behind=()):
    y = g.matmul(g.input("x", dtype, (rows, depth)), g.constant(numbers(depth, columns, dtype=dtype)))
    for kind in behind:
        y = g.op(kind, [y] if kind != "Add" else [y, g.constant(numbers(columns, dtype=dtype))])
    return y


def image(g, dtype, size, channels, results, groups=1, window=3, behind=(), data_format="NXC"):
    shape = (1, size, size, channels) if data_format == "NXC" else (1, channels, size, size)
    weights = g.constant(numbers(window, window, channels // groups, results, dtype=dtype))
    pad = {**SAME, "pads_begin": [window // 2] * 2, "pads_end": [window // 2] * 2}
    attrs = {**pad, "groups": groups, "data_format": data_format, "weights_format": "XIO"}
    y = g.op("Convolution", [g.input("x", dtype, shape), weights], attrs)
    for kind in behind:
        y = g.op(kind, [y])
    return y


def chain(g, dtype, size, *kinds):
    y = x = g.input("x", dtype, (size // 64, 64))
    for kind in kinds:
        y = g.op(kind, [y, x] if kind in ("Add", "Multiply", "Subtract", "Maximum") else [y])
    return y


def codes(g, rows, depth, columns, dtype="u8", relu=False):
    x = g.dequantize(g.input("x", dtype, (rows, depth)), **CODED)
    weights = g.dequantize(g.constant(numbers(depth, columns, dtype=np.int8)), **CODED)
    y = g.matmul(x, weights)
    return g.quantize(g.relu(y) if relu else y, **CODED, dtype=dtype)


def coded_image(g, channels, dtype, groups=1):
    x = g.dequantize(g.input("x", dtype, (1, 14, 14, channels)), **CODED)
    weights = g.dequantize(g.constant(numbers(3, 3, channels // groups, channels, dtype=np.int8)), **CODED)
    return g.quantize(g.relu(g.convolution(x, weights, **SAME, groups=groups)), **CODED, dtype=dtype)


def attention(g, dtype, heads, tokens, size):
    q, k, v = (g.input(name, dtype, (1, heads, tokens, size)) for name in "qkv")
    scores = g.divide(g.matmul(q, k, transpose_b=True), g.constant(np.full((), 8, TYPES[dtype])))
    return g.matmul(g.softmax(scores, axis=-1), v)


def norm(g, kind, dtype, rows, width):
    x, vectors = g.input("x", dtype, (rows, width)), [g.constant(numbers(width, dtype="f32")) for _ in range(2)]
    if kind == "LayerNorm":
        return g.op(kind, [x, *vectors], {"keep_stats": False})
    return g.op(kind, [x, vectors[0]], {"epsilon": 1e-5})


def pool(g, kind, dtype, size, window, data_format):
    shape = (1, size, size, 32) if data_format == "NXC" else (1, 32, size, size)
    attrs = {"kernel": [window] * 2, "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    attrs |= {"exclude_pad": False} if kind == "AvgPool" else {}
    return g.op(kind, [g.input("x", dtype, shape)], {**attrs, "data_format": data_format})


def weights_of_a_graph(g, dtype, rows, depth, columns):
    return g.matmul(g.input("x", dtype, (rows, depth)), g.input("w", dtype, (depth, columns)))


def reduced(g, kind, dtype, shape, axes):
    return g.op(kind, [g.input("x", dtype, shape)], {"axes": axes, "keep_dims": True})


def graphs():
    """By name, functions that add to a graph and return its result, with their arguments."""
    floats = ("f32", "bf16", "f16")
    yield from ((product, dtype, rows, 1024, 768) for dtype in floats for rows in (1, 4, 5, 16, 17, 64))
    yield from ((product, "f32", rows, 256, 1024) for rows in (1, 4, 5, 63, 64))
    yield from (
        (product, "f32", 8, 64, 32, behind) for behind in (("Add",), ("Add", "GELU"), ("ReLU", "Add"), ("Exp",))
    )
    yield from ((weights_of_a_graph, dtype, 8, 256, 256) for dtype in floats)
    yield from ((image, dtype, 14, 64, 64) for dtype in floats)
    yield from ((image, "f32", size, 64, 64) for size in (7, 8, 16, 28, 56))
    yield from (
        (image, "f32", 16, channels, results) for channels, results in ((16, 64), (32, 32), (31, 64), (256, 256))
    )
    yield from ((image, "f32", 16, 32, 32, groups) for groups in (2, 8, 16, 32))
    yield from ((image, "f32", 16, 3, 32, 1, window) for window in (1, 2, 5, 7))
    yield from ((image, "f32", 16, 32, 32, 1, 3, behind) for behind in (("ReLU",), ("HardSwish",), ("Mish", "Abs")))
    yield from ((image, dtype, 16, 32, 32, groups, 3, (), "NCX") for dtype in floats for groups in (1, 32))
    pairs = ("Sigmoid", "Multiply"), ("Add", "Tanh"), ("Exp", "Add", "Log"), ("GELU", "Multiply", "Add")
    yield from ((chain, "f32", size, *kinds) for kinds in pairs for size in (2**12, 2**14, 2**15, 2**16, 2**22, 2**23))
    yield from ((chain, dtype, 2**16, *kinds) for kinds in pairs for dtype in ("bf16", "f16"))
    yield from (
        (codes, rows, 64, 64, dtype, relu) for rows in (1, 64) for dtype in ("u8", "s8") for relu in (False, True)
    )
    yield from ((coded_image, 32, dtype, groups) for dtype in ("u8", "s8") for groups in (1, 2, 32))
    yield from ((attention, dtype, 4, tokens, 32) for dtype in floats for tokens in (1, 16, 128, 513))
    yield from ((norm, kind, dtype, 8, 256) for kind in ("LayerNorm", "RMSNorm") for dtype in floats)
    kinds = "MaxPool", "AvgPool"
    yield from ((pool, kind, "f32", 32, window, at) for kind in kinds for window in (2, 3, 9) for at in ("NXC", "NCX"))
    sides = ((64, 1024), [1]), ((64, 1024), [0]), ((8, 9, 256), [0, 2]), ((2, 4096, 64), [1]), ((1, 2, 3, 4, 5), [1, 3])
    yield from ((reduced, kind, "f32", *at) for kind in ("ReduceSum", "ReduceMax", "ReduceL2") for at in sides)


def steps_of(graph, **options):
    """The partitions of a compiled graph, each as a line."""
    lines = []
    for part in graph.compile(**options).report().partitions:
        said = [part.executor, " + ".join(part.kinds), part.reason, *(f"not by {text}" for text in part.refused)]
        lines.append("; ".join(filter(None, said)))
    return lines


def found():
    vector_products.core_cache = lambda: 1 << 20  # another one on each machine
    plans = {}
    for make, *arguments in graphs():
        graph = og.Graph()
        graph.output("y", make(graph, *arguments))
        plans[f"{make.__name__} {' '.join(map(str, arguments))}"] = steps_of(graph)
    for seed in range(RANDOM):
        plans[f"random graph {seed}"] = digest(steps_of(random_graph(seed, 8)))
    chosen = {}
    for case in (case for case in CASES if BASE[case.kind].outputs and case.kind != "Wildcard"):
        chosen.setdefault((case.kind, case.inputs[-1].dtype if case.inputs else None, case.dtype), case)
    of_kinds = {}
    for case in chosen.values():
        graph = og.Graph()
        ends = [
            graph.constant(array, dtype="s64")
            if array.dtype == np.int64
            else graph.input(f"x{place}", og.DataType.of(array.dtype), array.shape)
            for place, array in enumerate(case.inputs)
        ]
        options = {name: value for name, value in (("dtype", case.dtype), ("outputs", case.outputs)) if value}
        made = graph.op(case.kind, ends, case.attrs, **options)
        for place, tensor in enumerate(made if isinstance(made, tuple) else (made,)):
            graph.output(f"y{place}", tensor)
        of_kinds.setdefault(case.kind, []).append(steps_of(graph))
    return {**plans, **{f"cases of {kind}": digest(lines) for kind, lines in of_kinds.items()}}


def of_a_child():
    command, environment = [sys.executable, __file__, "--print"], {**os.environ, **SETTINGS}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=240, check=True)
    return json.loads(done.stdout)


@pytest.mark.library
@pytest.mark.skipif(VERSION[:2] != (3, 2) or not has_avx2(), reason="the record is of oneDNN 3.2 and a CPU with AVX2")
def test_graphs_are_compiled_as_recorded():
    plans, wanted = of_a_child(), kept(KEPT)
    changed = {name: (plans.get(name), lines) for name, lines in wanted.items() if plans.get(name) != lines}
    assert not changed
    assert [*plans] == [*wanted]


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(json.dumps(found()))
    else:
        keep(KEPT, of_a_child())
