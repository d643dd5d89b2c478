"""How graphs are compiled, and what is said of it: the record plans.json, which a change of a pass, a form, a threshold
or a reason must change too.

Numbers alone do not tell which kernel computed them, and thresholds are measured, so nothing but a record knows them.
A child process compiles for AVX2 and one thread, so that the plans are the same on every machine. Of host ops, of ops
beside them and of graphs of other tests, the record has digests of what runs: kernels with their numbers, and their
memory. The record programs.json has digests of all that a program consists of: the places of its values, the steps and
their arguments, what a file would keep of it; and of all objects behind executables that were called a few times.
``python tests/compiler/test_recorded_plans.py`` writes both anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers import drawn_plans, host_cases
from helpers.called_graphs import CALLED
from helpers.kept_graphs import kept_graphs
from helpers.near_graphs import near
from helpers.open_graphs import IMAGES, MATRICES, opened
from helpers.pass_graphs import around_codes
from helpers.pass_graphs.attended import attention
from helpers.pass_graphs.planned import SAME, graphs
from helpers.programs import calls_of
from helpers.recorded import digest, keep, kept
from helpers.states import States

import onegraph as og
from onegraph.capi.settings import has_avx2
from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.passes import vector_products
from onegraph.errors import OneGraphError
from onegraph.native.library import VERSION
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import BASE
from onegraph.runtime.apart import edges_of
from onegraph.runtime.compiled_program import CompiledProgram
from onegraph.runtime.explanation import explained
from onegraph.runtime.kept_partitions import NotKeptError
from onegraph.runtime.peaks import Peaks
from onegraph.runtime.program import Program
from onegraph.runtime.program_writer import written
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from tests.fuzz.blocks import random_block_recipe
from tests.fuzz.quantized import random_quantized_recipe
from tests.fuzz.recipe import build

KEPT = Path(__file__).parents[1] / "recorded" / "plans.json"
KEPT_PROGRAMS = KEPT.with_name("programs.json")
SETTINGS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1", "ONEGRAPH_CACHE": "", "ONEGRAPH_FAULTS": ""}
RANDOM = 60  # random graphs
OPEN_SIZES = 17, 18, 30, 1, 200  # of the dim that is open
PROGRAMS = {}  # the lines of programs by name, as they are collected
STATES = {}  # those of executables that were called, with all objects behind them
NEAR = 4  # graphs beside one of a host op
PEAKS = Peaks(1, 2e9, {"f32": 1e11})


def steps_of(graph, name):
    """The partitions of a compiled graph, each as a line; collects its programs."""
    lines, executable = [], graph.compile()
    collect(name, executable)
    for part in executable.report().partitions:
        said = [part.executor, " + ".join(part.kinds), part.reason, *(f"not by {text}" for text in part.refused)]
        lines.append("; ".join(filter(None, said)))
    return lines


def program_of(program):
    """The lines of a program: where its values lie, what its steps are, and what a file would keep of it."""
    placed, source = program.placement, program.source
    yield [*placed.offsets.items()], placed.arena_size, [*placed.slots.items()], placed.direct, placed.copied
    yield [*placed.residents.items()], [*placed.in_place.items()], placed.external, placed.external_size()
    yield [(number, array.shape, array.strides, array.dtype.str) for number, array in placed.constants.items()]
    yield [*source.slots], [*source.offsets], source.n_slots, source.limit, source.threads, source.bound, source.n_last
    yield source.keeps, len(source.pages), source.arenas is None, program.in_c, program.owner_thread is None
    yield [part if isinstance(part, range) else (part.inputs, part.outputs, part.note) for part in program.parts]
    for step in program.steps:
        kernel = step.compiled
        what = (kernel.name, [*kernel.code]) if isinstance(kernel, CompiledKernel) else "partition"
        yield what, step.pieces, step.n_inputs, step.in_place, step.note, step.shifts, step.room, step.alone is None
        yield step.nbytes, step.flops, step.is_small, step.is_quick, [*step.ends], [*step.rows], step.again is None
    if isinstance(program, CompiledProgram):
        try:
            contents, reports = (json.loads(section) for section in written(program, [])[-2:])
            del contents["share"]  # of the machine
            yield [*contents.items(), reports]
        except NotKeptError as error:
            yield error


def programs_of(executable):
    """The lines of all programs of an executable, also of those for several sizes and of stages."""
    for key, entry in executable._programs.cache.entries.items():
        yield key
        if isinstance(entry.program, Program):
            yield from program_of(entry.program)
        else:
            yield [report.to_dict() for report in entry.program.reports()]
    yield executable.cache_info().whole()
    yield executable.report()


def of_programs():
    """Digests of the programs that were collected, and of those that several calls make."""
    for number in range(4):
        collect(f"reproducible {number}", random_graph(number, 8, dtypes=("f32",)).compile(reproducible=True))
    for made in (*MATRICES, *IMAGES):
        shape = (None, 16) if made in MATRICES else (None, 4, 8, 8)
        arrays = [[np.ones((size, *shape[1:]), np.float32)] for size in OPEN_SIZES]
        collect(f"open {made.__name__}", called(opened(made, shape), arrays))
    for make in CALLED:
        graph, given, *options = make()
        collect(f"called {make.__name__}", called(graph, [given] * 3, **dict(*options)))
    return {name: digest(lines) for name, lines in (PROGRAMS | STATES).items()}


def called(graph, calls, **options):
    """An executable that was called with arrays."""
    model = graph.compile(**options)
    for arrays in calls:
        model(*arrays)
    STATES[f"state {len(STATES)}"] = [*States().lines(model)]
    return model


def collect(name, executable):
    PROGRAMS.setdefault(name, []).extend(programs_of(executable))


def found():
    vector_products.core_cache = lambda: 1 << 20  # another one on each machine
    plans = {}
    for make, *arguments in graphs():
        graph = og.Graph()
        graph.output("y", make(graph, *arguments))
        plans[f"{make.__name__} {' '.join(map(str, arguments))}"] = steps_of(graph, make.__name__)
    for seed in range(RANDOM):
        plans[f"random graph {seed}"] = digest(steps_of(random_graph(seed, 8), f"random graphs {seed // 10}"))
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
        of_kinds.setdefault(case.kind, []).append(steps_of(graph, f"cases of {case.kind}"))
    digests = {f"cases of {kind}": digest(lines) for kind, lines in of_kinds.items()}
    of_programs = {"said of": said(), "calls of": calls(), "drawn of": chosen_draws()}
    told = {f"{what} {kind}": digest(lines) for what, by_kind in of_programs.items() for kind, lines in by_kind.items()}
    return {**plans, **digests, **told}


def chosen_draws():
    """What drawn graphs are compiled to, by what is drawn."""
    numbers = drawn_plans.chosen().items()
    found = ((name, number) for name, some in numbers for number in some)
    lines = {}
    for name, number in found:
        lines.setdefault(name, []).extend(drawn_plans.lines(updates_of, program_of, name, number))
    return {**lines, "reports": drawn_plans.told(120)}


def calls():
    """What runs in graphs, by kind of host op, or by the file of the test that has compiled the graph."""
    lines = {}
    for kind, graph, options in chain(host_graphs(), laid_graphs(), kept_graphs()):
        found, updates = lines.setdefault(kind, []), updates_of(graph)
        for more in ({}, {"updates": updates}) if updates else ({},):
            try:
                found += calls_of(graph, **options, **more)
            except OneGraphError as error:
                found.append(f"{type(error).__name__}: {error}")
    return lines


def host_graphs():
    """Graphs of host ops, and those beside them."""
    for number, case in enumerate(host_cases.cases()):
        graph, _ = host_cases.graph_of(case)
        for other in (graph, *near(graph, Random(number), NEAR, number)):
            yield case.kind, other, {"reproducible": bool(number % 2)}


def laid_graphs():
    """Graphs of an op whose tensors have gaps, exchanged axes, or the channels last."""
    first = {case.kind: case for case in reversed(CASES) if case.kind not in ("Wildcard", "End")}
    for number, (kind, case) in enumerate(sorted(first.items())):
        for way in (number % 3, (number + 1) % 3):
            graph, ends = og.Graph(), []
            for place, array in enumerate(case.inputs):
                dtype, strides = OF_NUMPY[array.dtype], strides_of(array.shape, way)
                is_known, name = dtype is og.s64, f"x{place}"
                ends.append(
                    graph.constant(array, dtype="s64")
                    if is_known
                    else graph.input(name, dtype, array.shape, strides=strides)
                )
            options = {name: one for name, one in (("dtype", case.dtype), ("outputs", case.outputs)) if one}
            made = graph.op(kind, ends, case.attrs, **options)
            for place, one in enumerate(made if isinstance(made, tuple) else (made,)):
                graph.output(f"y{place}", one, strides=strides_of(one.shape, way) if place == number % 2 else None)
            yield f"tensors {('with gaps', 'with exchanged axes', 'with the channels last')[way]}", graph, {}


def strides_of(shape, way):
    """Strides of a tensor, by a number of a way to lay it out; None for few axes."""
    axes = [*range(len(shape))]
    if len(axes) < 2 or 0 in shape:
        return None
    if way == 1:
        axes[-2:] = axes[:-3:-1]
    elif way == 2:
        axes = [0, *axes[2:], 1]
    strides, step = [0] * len(axes), 1
    for axis in axes[::-1]:
        strides[axis], step = step, step * (shape[axis] + (way == 0))
    return strides


def updates_of(graph):
    """The inputs that may be variables, each with a result that may be its next value."""
    free, pairs = [*graph.outputs], {}
    for name, tensor in graph.inputs.items():
        types = tensor.dtype, tensor.shape
        fitting = (output for output in free if (graph.outputs[output].dtype, graph.outputs[output].shape) == types)
        if (following := next(fitting, None)) is not None:
            free.remove(following)
            pairs[name] = following
    return pairs


def said():
    """What is said of the partitions of random graphs, and why they are apart, by cause."""
    lines = {}
    for number, graph in enumerate(drawn()):
        executable = graph.compile(finite_math=number % 3 == 1, policy="debug" if number % 8 == 7 else "fusion")
        collect(f"drawn {number}", executable)
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
    yield from around_codes.graphs()


def image_and_more():
    g = og.Graph()
    y = g.convolution(g.input("x", "f32", (1, 8, 8, 4)), np.ones((3, 3, 4, 8), np.float32), **SAME)
    y = g.softmax(g.divide(g.input("z", "f32", (1, 8, 8, 8)), g.relu(y)), axis=-1)
    g.output("y", g.matmul(g.static_reshape(g.tanh(y), shape=[64, 8], special_zero=False), np.ones((8, 3), np.float32)))
    return g


def of_a_child():
    command, environment = (
        [sys.executable, "-W", "error::RuntimeWarning", __file__, "--print"],
        {**os.environ, **SETTINGS},
    )
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=240, check=True)
    plans, programs = json.loads(done.stdout)
    return {KEPT: plans, KEPT_PROGRAMS: programs}


@pytest.mark.library
@pytest.mark.skipif(VERSION[:2] != (3, 2) or not has_avx2(), reason="the record is of oneDNN 3.2 and a CPU with AVX2")
def test_graphs_are_compiled_as_recorded():
    for path, now in of_a_child().items():
        wanted = kept(path)
        changed = {name: (now.get(name), lines) for name, lines in wanted.items() if now.get(name) != lines}
        assert not changed
        assert [*now] == [*wanted]


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(json.dumps([found(), of_programs()]))
    else:
        for path, now in of_a_child().items():
            keep(path, now)
