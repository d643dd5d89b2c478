"""What the lowering and the passes make of graphs: the record steps.json, which a change of a pass must change too.

A pass decides by many conditions whether it takes some ops, and the numbers are right where it does not. So a child
process lowers graphs for AVX2, or for AVX-512 with bf16 or f16, and one thread. The record has digests of the steps: of
the graphs of plans.json, of random ones, of cases of ops, of gradients, and of graphs that lie one change beside these;
and of what the functions of the compiler make of arguments of their types.
Nothing is compiled, so that the CPU need not have these instructions. Run as a script, this file writes the record
anew; with names of materials, it prints their steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from itertools import product as combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers import drawn_steps
from helpers.graphs import graph_of_case
from helpers.kept_graphs import kept_graphs
from helpers.near_graphs import near
from helpers.recorded import digest, keep, kept

import onegraph as og
from onegraph._util.size_symbols import OpenSizes
from onegraph.capi.settings import has_avx2
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import NAMES, run_passes, vector_products
from onegraph.compiler.shared_constants import SharedConstants
from onegraph.errors import OneGraphError
from onegraph.native import library
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.training import losses
from onegraph.transform.specialise import specialise

KEPT = Path(__file__).parents[1] / "recorded" / "steps.json"
SETTINGS = {"OMP_NUM_THREADS": "1", "ONEGRAPH_CACHE": "", "ONEGRAPH_FAULTS": ""}
NEAR = 7  # graphs beside each
RANDOM = 12  # random graphs of a kind
# Uses of an op that is rewritten, by what is asked of them.
FORMS = {"AVX2": {"form": 20, "newer": 6, "ranked": 5}, "AVX512_CORE_BF16": {"form": 8, "newer": 3}}
OPTIONS = ({"reproducible": True}, {"fpmath_mode": "bf16"}, {"finite_math": True}, {"policy": "debug"})


def compile_for(isa):
    """Let the compiler work for an instruction set, whatever the CPU has."""
    library.newest_isa = lambda _: isa.lower()


def lines_of(graph, *, opens=False, **options):
    """The steps of a graph, each as a line, or why there are none; ``opens``: those of any of several sizes."""
    shared = SharedConstants.of(graph)
    shared.partitions.rounds, options["opens"] = opens, opens
    try:
        lowered = lower(graph, finite_math=options.get("finite_math", False), opens=opens, shared=shared)
        made = run_passes(lowered, Options(**options), NAMES)
    except OneGraphError as error:
        return [f"{type(error).__name__}: {error}"]
    return [described(step, made.values) for step in made.steps]


def described(step, values):
    """A step with what it reads and writes, and the part that the library gets."""
    ends = []
    for number in (*step.inputs, *step.outputs):
        value = values[number]
        ends.append(f"{number} {value.dtype} {value.shape} {value.strides} in {value.storage} from {value.offset}")
        if value.constant is not None:
            ends.append(numbers_of(value.constant))
    part = "" if step.part is None else f"{step.part.kind} {sorted(step.part.attrs.items())}"
    members = [f"{one.executor} {one.kind} {one.inputs} {one.outputs}" for one in step.members]
    texts = step.executor, step.kind, written(step.attrs), ends, step.note, part, step.whole, members, step.refused
    return " | ".join(map(str, texts))


def written(attrs):
    return sorted((name, numbers_of(one) if isinstance(one, np.ndarray) else str(one)) for name, one in attrs.items())


def numbers_of(array):
    """A text of some numbers of an array, to three digits."""
    few = np.asarray(array).ravel()[:64].astype(np.float64)
    with np.errstate(all="ignore"):
        return f"{array.shape} {digest(f'{number:.2e}' for number in few)}"


def planned():
    """The graphs of plans.json, and those beside them."""
    from helpers.pass_graphs.planned import graphs, product

    behind = ("Add",), ("Add", "ReLU"), ("Exp", "Add"), ("GELU",)
    vectors = (
        (product, dtype, rows, 1024, 768, one) for dtype in ("f32", "bf16") for rows in (1, 4, 5) for one in behind
    )
    for make, *arguments in chain(graphs(), vectors):
        graph = og.Graph()
        graph.output("y", make(graph, *arguments))
        yield make.__name__, graph


def attended():
    from helpers.pass_graphs.attended import attention

    for options in ({}, {"queries": 16, "mask": (16, 64)}, {"mask": None}, {"key": "view"}, {"by": "divide"}):
        yield "attention", attention(**options)


def taken():
    """Graphs that single passes take, as the tests of these build them."""
    from helpers.pass_graphs.codes import two_products
    from helpers.pass_graphs.depthwise import FAR, image, row
    from helpers.pass_graphs.labels import ROWS, with_gradient
    from helpers.pass_graphs.layouts import CASES as LAYOUTS
    from helpers.pass_graphs.layouts import graph as with_cast
    from helpers.pass_graphs.windows import CASES, SINGLES, gradient, single

    kinds = "Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights"
    for kind in kinds:
        for layout, data_format in (("OIX", "NXC"), ("XIO", "NCX"), ("XIO", "NXC")):
            g, y = row(kind, layout, data_format, (2, 30), bias=kind == kinds[0])
            g.output("out", y)
            yield "rows as images", g
    for data_format in ("NXC", "NCX"):
        for pads in (([FAR, FAR], [FAR, FAR]), ([2, FAR], [2, 0]), ([2, 0], [2, FAR])):
            yield "far pads", image([2, FAR], pads, data_format, behind=True)
    for options in ({}, {"ignore_index": 3}, {"returned": True}, {"dtype": "bf16"}, {"probabilities": True}):
        yield "label gradients", with_gradient((ROWS, 1024), **options)
    for source, result, weights, attrs in CASES.values():
        yield "window products", gradient(source, result, weights, **attrs)
    for kind, data, weights, weights_format in SINGLES:
        yield "single products", single(kind, data, weights, weights_format=weights_format)
        yield "single products", single(kind, data, weights, weights_format=weights_format, constant=True, then="ReLU")
    for kind, attrs, shape in LAYOUTS:
        yield "weight layouts", with_cast(kind, attrs, shape)
    for zero in (0, 128):
        g = og.Graph()
        for name, tensor in zip("yz", two_products(g, g.input("x", "f32", (4, 32)), zero), strict=True):
            g.output(name, tensor)
        yield "unsigned codes", g
    for rows in (1, 4, 5):
        for turned, first in ((False, False), (True, False), (False, True), (True, True)):
            yield "experts", experts((6, 64, rows) if first else (6, rows, 64), turned, first)
    for coding in ("int4", "int8"):
        g = og.Graph()
        y = g.matmul(g.input("x", "f32", (3, 128)), g.constant(np.arange(128 * 96, dtype=np.float32).reshape(128, 96)))
        g.output("y", g.gelu(g.add(y, g.constant(np.ones(96, np.float32)))))
        yield "packed products", og.compress_weights(g, coding)
    for kind, attrs in (("StaticTranspose", {"order": [0, 2, 1]}), ("StaticReshape", {"shape": [2, 8, 4]})):
        g = og.Graph()
        x = g.dequantize(g.input("x", "u8", (2, 4, 8)), scales=[0.5], zps=[3])
        w = g.dequantize(g.constant(np.ones((4, 8), np.int8)), scales=[0.25], zps=[0])
        moved = g.op(kind, [x], {"special_zero": False, **attrs} if kind == "StaticReshape" else attrs)
        g.output("y", g.quantize(g.matmul(moved, w), scales=[0.5], zps=[1], dtype="u8"))
        yield "moved codes", g
    for kind in kinds[0], "ConvTranspose":
        g = og.Graph()
        x = g.dequantize(g.input("x", "u8", (2, 30, 24)), scales=[0.5], zps=[3])
        w = g.dequantize(g.constant(np.ones((24, 1, 3), np.int8)), scales=[0.25], zps=[0])
        how = {"strides": [1], "pads_begin": [1], "pads_end": [1], "dilations": [1], "groups": 24}
        g.output("y", g.op(kind, [x, w], {**how, "weights_format": "OIX" if kind == kinds[0] else "IOX"}))
        yield "rows of codes", g
    yield from rows_of_codes()
    for axis in (-1, 3):
        g, how = og.Graph(), {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
        x = g.dequantize(g.input("x", "u8", (1, 6, 6, 8)), scales=[0.5], zps=[3])
        w = g.dequantize(g.constant(np.ones((3, 3, 8, 4), np.int8)), scales=[0.25], zps=[0])
        codes = {"qtype": "per_channel", "scales": [0.1, 0.2, 0.3, 0.4], "axis": axis}
        y = g.quantize(g.relu(g.convolution(x, w, **how)), **codes, zps=[0] * 4, dtype="u8")
        g.output("y", g.dequantize(y, **codes, zps=[0] * 4))
        yield "channel scales", g


def rows_of_codes():
    """Gathers of dequantized codes, by the shape of the table, the axis, and how the places are given."""
    for shape, axis, places in (
        ((50, 96), 0, "s64"),
        ((50, 96), -2, "s32"),
        ((50, 96), 1, "s64"),
        ((50, 96), 0, None),
        ((5, 10, 96), 0, "s64"),
        ((50, 0), 0, "s64"),
        ((50, 96), 0, "none"),
        ((50, 96), 0, "read twice"),
    ):
        g = og.Graph()
        table = g.dequantize(g.constant(np.ones(shape, np.int8)), scales=[0.25], zps=[1])
        known = g.constant(np.array([3, 1]), dtype="s64")
        count = (0,) if places == "none" else (7,)
        chosen = known if places is None else g.input("places", places if places == "s32" else "s64", count)
        g.output("y", g.op("Gather", [table, chosen], {"axis": axis}, edition="host"))
        if places == "read twice":
            g.output("z", g.matmul(g.input("x", "f32", (2, 50)), table))
        yield "rows of codes", g


def experts(src, turned, first):
    g = og.Graph()
    rows, chosen = g.input("x", "f32", src), g.input("places", "s64", (6,))
    depths = (5, 64, 32) if turned == first else (5, 32, 64)
    own = g.op("Gather", [g.constant(np.ones(depths, np.float32)), chosen], {"axis": 0}, edition="host")
    ends, name = ([own, rows], "transpose_a") if first else ([rows, own], "transpose_b")
    g.output("y", g.op("MatMul", ends, {name: turned}))
    return g


def summed():
    """Reductions of a middle axis, around the sizes at which they take another form."""
    kinds = "ReduceSum", "ReduceMean", "ReduceL2", "ReduceMax", "ReduceL1", "ReduceProd"
    counts = (1, 2, 63, 64, 255, 256, 768, 769, 4095, 4096, 4097, 8192, 2**16, 3 * 2**16, 2**20)
    for number, (before, count, after) in enumerate(combinations((1, 3, 300), counts, (1, 2, 32, 33, 512))):
        for kind in (kinds[0], kinds[1 + number % 5]):
            g = og.Graph()
            x = g.input("x", "bf16" if number % 4 == 3 else "f32", (before, count, after))
            g.output("y", g.op(kind, [x], {"axes": [1], "keep_dims": bool(number % 2)}))
            yield kind, g

    for kind, count in combinations(kinds[:3], (256, 257)):
        g = og.Graph()
        g.output("y", g.op(kind, [g.input("x", "bf16", (300, count))], {"axes": [1], "keep_dims": False}))
        yield kind, g


def in_codes():
    """Attention to caches of codes."""
    from helpers.pass_graphs.coded import WAYS, cached, dequantized, products, whole

    for way in WAYS:
        for form in (products, cached, whole):
            g = og.Graph()
            ends = [dequantized(g, way, name, (1, 2, 80, 16)) for name in "kv"]
            g.output("y", form(g, g.input("q", "f32", (1, 2, 3, 16)), *ends))
            yield way, g


def opened():
    """Graphs for the steps of any of several sizes."""
    from helpers.pass_graphs.opened import graphs

    return graphs()


def open_graphs():
    """Graphs with open dims, with some sizes of these."""
    from helpers import open_graphs
    from helpers.pass_graphs import code_products
    from helpers.pass_graphs.on_images import OPS, on_images

    for build in open_graphs.MATRICES:
        yield build.__name__, open_graphs.opened(build, (None, 16)), {"x": (24, 16)}
    for build in open_graphs.IMAGES:
        yield build.__name__, open_graphs.opened(build, (None, 4, None, None)), {"x": (2, 4, 9, 12)}
    for kind, build in OPS.items():
        yield kind, on_images(build), {"x": (2, 6, 9, 8)}
    for make in (code_products.a_product, code_products.a_product_of_results, code_products.a_sum_of_products):
        yield make.__name__, make((None, None, 48)), {"x": (2, 5, 48)}
    yield "a convolution", code_products.a_convolution((None, None, None, 48)), {"x": (2, 6, 7, 48)}


def questions():
    """What is asked of open sizes until there are steps, as lines by kind."""
    for kind, graph, shapes in open_graphs():
        ends = graph.inputs.items()
        given = [(name, axis) for name, one in ends for axis, dim in enumerate(one.shape) if dim is None]
        for factor in (1, 30):
            sizes = OpenSizes([shapes[name][axis] * (factor if axis else 1) for name, axis in given])
            symbols = dict(zip(given, sizes.symbols, strict=True))
            dims = {name: [*enumerate(shape)] for name, shape in shapes.items()}
            whole = {name: tuple([symbols.get((name, axis), dim) for axis, dim in one]) for name, one in dims.items()}
            yield kind, [*lines_of(specialise(graph, whole), opens=True), *sizes.conditions(), *sorted(sizes.pinned)]


def forms():
    """What the library gets for uses beside the cases of each op, and what the rewrites of the op make of them."""
    for how, count in FORMS[os.environ["ONEDNN_MAX_CPU_ISA"]].items():
        for kind in drawn_steps.cases():
            drawn = (drawn_steps.lines(lines_of, f"{how} {kind}", number) for number in range(4 * count))
            some = islice(filter(None, drawn), count if kind in drawn_steps.REWRITTEN else 1)
            yield from ((kind, lines) for lines in some)


def newer():
    """The steps of graphs that passes take, for the newest library and a CPU without AVX2."""
    with drawn_steps.newer():
        for number, (kind, graph) in enumerate(chain(taken(), in_codes(), opened())):
            yield kind, lines_of(graph, opens=number % 2 == 1)


def beside():
    """What each pass makes of graphs that it changes, in which one field of a step or a value differs."""
    from helpers import changed_steps

    return changed_steps.changed(described, changed_steps.graphs())


def narrow():
    """The same for what is computed in f16."""
    from helpers import changed_steps

    return changed_steps.changed(described, [changed_steps.normalized()])


def cases():
    for case in CASES[::3]:
        yield case.kind, graph_of_case(case)


def drawn():
    """Random graphs, and those of the fuzzer."""
    from tests.fuzz.blocks import random_block_recipe
    from tests.fuzz.generate import random_recipe
    from tests.fuzz.quantized import random_quantized_recipe
    from tests.fuzz.recipe import build
    from tests.fuzz.training import random_training_recipe

    for seed in range(RANDOM):
        yield "random", random_graph(seed, 8)
    for make in (random_block_recipe, random_recipe, random_quantized_recipe, random_training_recipe):
        for seed in range(RANDOM):
            yield make.__name__, build(make(Random(seed)))[0]


def trained():
    """Layers with a loss and its gradients."""
    for dtype in (og.f32, og.bf16):
        for channels in (4, 32):
            g = og.Graph()
            x = g.input("x", dtype, (4, 8, 8, channels))
            w, v = g.input("w", dtype, (3, 3, channels, 16)), g.input("v", dtype, (16, 10))
            y = g.relu(g.convolution(x, w, strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]))
            y = g.matmul(g.reduce_mean(y, axes=[1, 2], keep_dims=False), v)
            loss = losses.cross_entropy(g, y, g.input("labels", og.s32, (4,)))
            for place, one in enumerate(g.gradient(loss, [x, w, v])):
                g.output(f"d{place}", one)
            yield f"{dtype} {channels}", g


def fixed():
    """Half of the graphs that other tests have compiled, with a constant in the place of an input."""
    for number, (kind, graph, _) in enumerate(kept_graphs()):
        if graph.inputs and number % 2:
            name = [*graph.inputs][number % len(graph.inputs)]
            with suppress(OneGraphError):
                yield kind, graph.with_constants({name: random_inputs(graph, seed=number)[name]})


MATERIAL = {
    make.__name__: make for make in (planned, attended, taken, summed, in_codes, cases, drawn, trained, fixed, opened)
}
NEAR_OF = {"cases": 1, "summed": 0, "opened": 1, "fixed": 0, "planned": 2}  # NEAR for the others
WAYS = {
    "summed": 1,
    "fixed": 1,
    "taken": 3,
    "trained": 3,
    "in_codes": 3,
}  # to lower a graph; 2 for the others


WHOLE = "questions", "forms", "newer", "beside", "narrow"  # materials whose graphs depend on answers


def units(name):
    """What makes the lines of a material, with its kind."""
    if name in WHOLE:
        for kind, lines in globals()[name]():
            yield kind, partial(list, lines)
    elif name == "chosen":
        for kind, number in drawn_steps.graphs(os.environ["ONEDNN_MAX_CPU_ISA"]):
            yield ".".join(kind.split(".")[:3]), partial(drawn_steps.lines, lines_of, kind, number)
    else:
        first = {"opens": True} if name == opened.__name__ else {}
        for number, (kind, graph) in enumerate(MATERIAL[name]()):
            beside = Random(f"{kind} {number}")
            second = {} if first else OPTIONS[number % len(OPTIONS)]
            for options in (first, second, {"opens": True})[: WAYS.get(name, 2)]:
                yield kind, partial(lines_of, graph, **options)
            for other in near(graph, beside, NEAR_OF.get(name, NEAR), number if first else 0):
                yield kind, partial(lines_of, other, **first)


def made(name):
    """The lines of a material, by kind."""
    vector_products.core_cache = lambda: 1 << 20  # another one on each machine
    lines = {}
    for kind, unit in units(name):
        lines.setdefault(kind, []).extend(unit())
    return lines


# The materials of each instruction set.
CHOSEN = {
    "AVX2": [*MATERIAL, "questions", "forms", "newer", "chosen"],
    "AVX512_CORE_BF16": [
        "attended",
        "taken",
        "in_codes",
        "trained",
        "drawn",
        "opened",
        "questions",
        "forms",
        "beside",
        "chosen",
    ],
    "AVX512_CORE_FP16": ["narrow"],
}


def of_a_child(isa):
    """The digests for an instruction set."""
    settings = {**SETTINGS, "ONEDNN_MAX_CPU_ISA": isa}
    command, environment = (
        [sys.executable, "-W", "error::RuntimeWarning", __file__, "--print", *CHOSEN[isa]],
        {**os.environ, **settings},
    )
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    return json.loads(done.stdout)


@pytest.mark.library
@pytest.mark.skipif(library.VERSION[:2] != (3, 2) or not has_avx2(), reason="the record is of oneDNN 3.2 and AVX2")
@pytest.mark.parametrize("isa", CHOSEN)
def test_graphs_become_the_recorded_steps(isa):
    assert of_a_child(isa) == kept(KEPT)[isa]


if __name__ == "__main__":
    if sys.argv[1:]:
        compile_for(os.environ["ONEDNN_MAX_CPU_ISA"])
    if "--print" in sys.argv:
        names = sys.argv[2:]
        print(json.dumps({name: {kind: digest(lines) for kind, lines in made(name).items()} for name in names}))
    elif sys.argv[1:]:
        for name in sys.argv[1:]:
            print(*(f"{kind}: {line}" for kind, lines in made(name).items() for line in lines), sep="\n")
    else:
        keep(KEPT, {isa: of_a_child(isa) for isa in CHOSEN})
