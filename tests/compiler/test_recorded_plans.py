"""How graphs are compiled, and what is said of it: the record plans.json, which a change of a pass, a form, a threshold
or a reason must change too.

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
from random import Random

import numpy as np
import pytest
from helpers.near_graphs import near
from helpers.pass_graphs.attended import attention
from helpers.pass_graphs.planned import SAME, graphs
from helpers.recorded import digest, keep, kept

import onegraph as og
from onegraph.capi.settings import has_avx2
from onegraph.compiler.passes import vector_products
from onegraph.native.library import VERSION
from onegraph.opset.editions.registry import BASE
from onegraph.runtime.apart import edges_of
from onegraph.runtime.explanation import explained
from onegraph.runtime.peaks import Peaks
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from tests.fuzz.blocks import random_block_recipe
from tests.fuzz.quantized import random_quantized_recipe
from tests.fuzz.recipe import build

KEPT = Path(__file__).parents[1] / "recorded" / "plans.json"
SETTINGS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1", "ONEGRAPH_CACHE": "", "ONEGRAPH_FAULTS": ""}
RANDOM = 60  # random graphs
PEAKS = Peaks(1, 2e9, {"f32": 1e11})


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
    digests = {f"cases of {kind}": digest(lines) for kind, lines in of_kinds.items()}
    return {**plans, **digests, **{f"said of {kind}": digest(lines) for kind, lines in said().items()}}


def said():
    """What is said of the partitions of random graphs, and why they are apart, by cause."""
    lines = {}
    for number, graph in enumerate(drawn()):
        executable = graph.compile(finite_math=number % 3 == 1, policy="debug" if number % 8 == 7 else "fusion")
        programs = executable._programs
        reports, whole = programs.only_program().reports, programs.only_program().whole_graph()
        edges = edges_of(whole, reports, programs.options, type(executable))
        for edge in edges:
            place = f"{number}: {edge.producer} -> {edge.consumer} {edge.tensor} {edge.bytes}"
            lines.setdefault(edge.cause, []).append(f"{place} {edge.reason}")
        times = {report.index: (report.index + 1) * 1e-7 for report in reports if report.index % 4 < 3}
        texts = explained("oneDNN", whole, reports, times, PEAKS if number % 5 else None, edges)
        lines.setdefault("partitions", []).extend([texts, texts._repr_html_(), texts.to_dict(), executable.report()])
    return lines


def drawn():
    for seed in range(RANDOM // 3):
        yield random_graph(seed, 8, dtypes=("f32",))
    for graph in (attention(), image_and_more()):
        yield graph
        yield from near(graph, Random(0), 14)
    for make in (random_block_recipe, random_quantized_recipe):
        yield from (build(make(Random(seed)))[0] for seed in range(RANDOM // 4))


def image_and_more():
    g = og.Graph()
    y = g.convolution(g.input("x", "f32", (1, 8, 8, 4)), np.ones((3, 3, 4, 8), np.float32), **SAME)
    y = g.softmax(g.divide(g.input("z", "f32", (1, 8, 8, 8)), g.relu(y)), axis=-1)
    g.output("y", g.matmul(g.static_reshape(g.tanh(y), shape=[64, 8], special_zero=False), np.ones((8, 3), np.float32)))
    return g


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
