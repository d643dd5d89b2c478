"""What the tools find and write: the record tools.json, by kind of material.

The libraries of these runs are made up: an outcome follows from the text of what is asked. So all ways to judge, to
join and to file findings are taken, and what they say is compared. Run as a script, this file writes the record anew;
with names of materials, it prints what their digests are made of.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
import pytest
from conftest import library
from helpers.recorded import digest, keep, kept, lines_of
from helpers.specification_pages import BULLETS, MARKDOWN, RST, damaged, written_page

import onegraph as og
import onegraph.native.library
from onegraph._util.worker_process import Outcome
from onegraph.checker.library_limits import Library
from onegraph.cli import op_records
from onegraph.errors import OneGraphError
from onegraph.faults.cpus import EVERY_ISA
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import edition
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from onegraph.tools import conformance
from onegraph.tools.conformance import causes, drawn
from onegraph.tools.conformance.drawn import filing, findings, libraries, measurement
from onegraph.tools.conformance.markdown import markdown
from onegraph.tools.conformance.page import page
from onegraph.tools.reduce import reduce, size
from onegraph.tools.specification.differences import compare
from onegraph.tools.specification.reader import read_page, replacements_in

KEPT = Path(__file__).parents[1] / "recorded" / "tools.json"


def chance(*parts):
    """A number from 0 to 1 that follows from some texts."""
    return crc32(repr(parts).encode()) / 2**32


class Runner:
    """Makes up the outcomes of probes."""

    share = 0.25  # of the uses that go wrong

    def __init__(self, workers, progress):
        self.progress = progress

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def run(self, requests):
        """The outcome of each request."""
        self.progress(len(requests), len(requests))
        return [self.outcome(json.dumps(one, sort_keys=True), self.share) for one in requests]

    @staticmethod
    def outcome(text, share):
        """An outcome."""
        number = chance(text)
        if number > share:
            return Outcome("right" if number < 0.97 else "ran", "compare", "")
        kind = ("refused", "unsupported", "wrong", "wrong", "crash", "hang")[int(number / share * 6)]
        details = {
            "refused": ("add_op", ("invalid_arguments", "returned runtime_error: it threw")),
            "unsupported": ("compile", ("unimplemented",)),
            "wrong": ("compare", ("output 0 at [0]: 2.0; expected 1.0", "output 1 is written beyond its end")),
            "crash": ("execute", ("SIGSEGV", "SIGFPE")),
            "hang": ("execute", ("no result after 20 s",)),
        }
        stage, texts = details[kind]
        return Outcome(kind, stage, texts[int(chance("detail", text) * len(texts))])


class Changes:
    """Changes attributes of modules for a while."""

    def __init__(self, *changes):
        self.changes = changes

    def __enter__(self):
        self.before = [(place, name, getattr(place, name)) for place, name, _ in self.changes]
        for place, name, value in self.changes:
            setattr(place, name, value)

    def __exit__(self, *error):
        for place, name, value in self.before:
            setattr(place, name, value)


RUNS = {
    "onednn-3.2": ((3, 2, 0), "ReLU LayerNorm"),
    "onednn-3.6": ((3, 6, 1), "Quantize"),
    "onednn-3.13": ((3, 13, 2), "Select AvgPoolBackward"),
    "onednn-3.9": ((3, 15, 0), "StaticReshape"),
}
TRIED = libraries.TriedLibrary("lib.so", "3.2.0", "0123456789abcdef", "a CPU", "AVX2", "a system")


def filed(cases):
    """The texts of folders of findings."""
    with tempfile.TemporaryDirectory() as folder:
        for place in filing.file_findings(cases, Path(folder), ["other.so"]):
            yield place.name
            yield from (file.read_text() for file in sorted(place.iterdir()))


def alone(use, condition, *, call=None):
    """A made-up outcome of a use alone."""
    return Runner.outcome(f"{use.to_dict()} {condition.name} {call} {condition.settings.get('ONEGRAPH_LIBRARY')}", 0.7)


class Worker:
    """Makes up the outcomes of uses, which follow from their attributes alone."""

    def __init__(self, condition):
        self.edges = condition.edges

    def run(self, task, limit):
        """An outcome."""
        use = task["use"]
        return Runner.outcome(f"{use['kind']} {[*use['attrs'].values()][-1:]} {self.edges}", 0.5)

    def close(self):
        """Nothing to end."""


def write(path, writer):
    """Write a file that nobody else reads."""
    with path.open("wb") as stream:
        writer(stream)


MADE_UP = (
    (filing, "run_alone", alone), (findings, "new_worker", Worker), (filing, "library_at", lambda path: TRIED),
    (conformance.uses, "Library", lambda version: Library(version, EVERY_ISA[-1])),
    (filing, "write_atomically", write), (causes, "NOT_NATIVE", ["f16"]), (conformance, "Runner", Runner),
    (findings, "SHRINKING_TESTS", 20),
)  # fmt: skip


def probes():
    """Runs of the probes of some ops: what is asked, what is found, and how it is told."""
    for name, (version, kinds) in RUNS.items():
        with Changes((onegraph.native.library, "VERSION", version), *MADE_UP):
            run = conformance.run(edition(name), kinds.split(), 1)
            yield name, [run.coverage.to_dict(), *run.coverage.lines(names=True), run.skipped]
            yield f"{name} results", [conformance.table(run.results), *[(one.probe, one.causes) for one in run]]
            yield f"{name} findings", [one.to_dict() for one in run.findings]
            facts = {"edition": name, "version": "3.2.0", "cpu_isa": "AVX2", "hash": "0123"}
            yield f"{name} told", [markdown(run, facts), page(run, facts)]
            yield f"{name} filed", filed(filing.cases_of_run(run)[::6])


def uses():
    """Random uses: what is drawn, what is found, and how it is told."""
    for seed, (name, version) in enumerate([(None, (3, 2, 0)), ("onednn-3.6", (3, 6, 2)), (None, (3, 13, 2))]):

        def run_uses(uses, claims, condition, workers, progress=None):
            made = [Worker(condition).run({"use": use.to_dict()}, 0) for use in uses]
            return [
                Outcome("wrong", "compare", "") if [*names] else one for one, names in zip(made, claims, strict=True)
            ]

        changes = (measurement, "run_uses", run_uses), (onegraph.native.library, "VERSION", version), *MADE_UP
        with Changes(*changes):
            report = drawn.run(30, seed, edition=name)
            yield f"{name} {version}", [report.to_dict(), report.text(), report.ids()]
            yield f"{name} {version} filed", filed(filing.cases_of_report(report)[:6])


OTHERS = (None, True, 0, -1, 1.5, "", "x", "f32", "s32", "?", [], [2], ["f32", [2, "?"]], {}, {"dtype": "s64"})


def descriptions():
    """Descriptions of ops, some of them damaged: their violations and their graphs."""
    rng = Random(3)
    for number, case in enumerate(rng.sample(CASES, 60)):
        inputs = [None if one is None else [str(OF_NUMPY[one.dtype]), [*one.shape]] for one in case.inputs]
        facts = {"op": case.kind, "attrs": json.loads(json.dumps(case.attrs)), "inputs": inputs}
        if number % 3 == 0:
            facts["outputs"] = [["f32", ["?"] * rng.randrange(3)]]
        for _ in range(number % 4):
            damage(facts, rng)
        data = facts if number % 5 else {"ops": [facts, facts]} if number % 2 else [facts, {"op": "Abs"}]
        yield case.kind, described(data)


def damage(facts, rng):
    """Put another value somewhere into a description."""
    key = rng.choice(["op", "attrs", "inputs", "inputs", "inputs", "outputs", "edition", "more"])
    if key == "inputs" and isinstance(facts.get(key), list) and facts[key]:
        place = rng.randrange(len(facts[key]))
        forms = {"dtype": rng.choice(["s32", "s64", "f32"]), "shape": rng.choice([None, [2], [1]]), "values": [1, 2]}
        facts[key][place] = rng.choice([rng.choice(OTHERS), forms, {"dtype": "f32", "shape": [2, None]}])
    else:
        facts[key] = rng.choice(OTHERS)


def described(data):
    """What is read of a description of ops."""
    for name, content in (("ops.json", json.dumps(data)), ("ops.toml", json.dumps(data)[:-1])):
        try:
            for facts in op_records.records_of(name, op_records.parsed(name, content.encode())):
                yield from op_records.violations_of(facts, "here", "onednn-3.13", "none")
        except OneGraphError as error:
            yield f"{type(error).__name__}: {error}"
        try:
            graph = op_records.graph_of(name, content.encode())
            yield from [None] if graph is None else lines_of(graph)
        except OneGraphError as error:
            yield f"{type(error).__name__}: {error}"


def reduced():
    """The smallest graphs with some ops, and how large graphs are."""
    for seed in range(6):
        graph = random_graph(seed, n_ops=6)
        kind = graph.ops[seed % len(graph.ops)].kind
        tests = []
        small = reduce(
            graph, lambda one, kind=kind: any(op.kind == kind for op in one.ops), max_tests=60,
            progress=lambda count, best, tests=tests: tests.append((count, size(best))),
        )  # fmt: skip
        yield kind, [size(graph), *tests, *lines_of(small)]


def quantized():
    """Graphs with codes, made of random samples."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        graph, samples = convolutions(rng)
        options = {"method": ("minmax", "percentile")[seed % 2], "portable": seed % 3 == 0}
        try:
            made = og.quantize(graph, samples, limit=(0.1, 0.02)[seed % 4 == 3], **options)
            lines = (re.sub(r"\d\.\d+(e-\d+)?", lambda one: f"{float(one[0]):.2e}", line) for line in lines_of(made))
            yield str(seed), [*lines, *[(one.name, one.reason, f"{one.error:.2e}") for one in made.quantization]]
        except OneGraphError as error:
            yield str(seed), [str(error)]


def convolutions(rng):
    """A graph of a few convolutions and products with norms, and samples."""
    graph, is_first = og.Graph(), bool(rng.integers(2))
    layout = {"data_format": "NCX" if is_first else "NXC"}
    end = graph.input("x", og.f32, (2, 4, 5, 5) if is_first else (2, 5, 5, 4))

    def numbers(*shape, scale=0.3):
        return rng.normal(0, scale, shape).astype(np.float32)

    for number in range(3):
        weights = numbers(4, 4, 3, 3) if rng.integers(2) else numbers(3, 3, 4, 4)
        order = "OIX" if weights.shape[0] == 4 else "XIO"
        bias = [numbers(4)] if rng.integers(2) else []
        scale = (1, 1, 1e-6, 0)[rng.integers(4)]
        made = graph.convolution(
            end, np.float32(weights * scale), *bias, **layout, weights_format=order, pads_begin=1, pads_end=1,
            name=f"conv{number}",
        )  # fmt: skip
        if rng.integers(2):
            made = graph.batch_norm_inference(
                made, *[np.abs(numbers(4, scale=1)) + np.float32(0.5) for _ in range(4)], epsilon=1e-5,
                **layout,
            )  # fmt: skip
        made = graph.relu(made) if rng.integers(2) else made
        end = (
            graph.add(made, end)
            if rng.integers(2)
            else graph.max_pool(made, kernel=[3, 3], strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], **layout)
            if rng.integers(3) == 0
            else made
        )
        if rng.integers(4) == 0:
            graph.output(f"between{number}", made)
    flat = graph.static_reshape(end, shape=[2, 100], special_zero=False)
    is_turned = bool(rng.integers(2))
    head = numbers(20, 100) if is_turned else numbers(100, 20)
    bias = [numbers(20)] if rng.integers(2) else []
    graph.output("y", graph.matmul(flat, head, *bias, transpose_b=is_turned, name="head"))
    shape = graph.inputs["x"].shape
    return graph, [numbers(*shape, scale=1) + np.float32(rng.integers(2)) for _ in range(2)]


def pages():
    """Damaged pages of the specification: what is read of them, and how they differ from the records."""
    rng, chosen = Random(1), edition("onednn-3.13")
    kinds = ("Quantize", "MatMul", "Select", "LayerNorm", "Wildcard", "Concat", "Interpolate")
    texts = [("md", MARKDOWN), ("rst", RST), ("md", BULLETS)]
    texts += [("md", written_page("onednn-3.13", kind)) for kind in kinds]
    names = replacements_in(".. |attr_how| replace:: :any:`mode<dnnl::attr::mode>`")
    for number in range(160):
        form, text = texts[number % 3 if number % 2 else number % len(texts)]
        read = read_page(damaged(text, rng), f"{number}.{form}", names)
        found = [] if read is None else compare([read], chosen, (3, 15), ["abs", "blend"] if number % 4 else ())
        ours = [one for one in found if one.page != "no page"]
        sets = (
            [] if read is None else [sorted(map(sorted, read.rows)), *[sorted(one.values) for one in read.attributes]]
        )
        plain = read and read._replace(rows=(), attributes=[one._replace(values=()) for one in read.attributes])
        yield form, [plain, *sets, *ours, *[one.proposal for one in ours]]


MATERIAL = {make.__name__: make for make in (probes, uses, descriptions, reduced, quantized, pages)}


def found(name: str) -> Mapping[str, str]:
    """The digests of a material."""
    digests = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, lines in MATERIAL[name]():
            digests.setdefault(label, []).append(digest(lines))
    return {label: digest(parts) if len(parts) > 1 else parts[0] for label, parts in digests.items()}


@pytest.mark.parametrize(
    "name", [library(name) if name in ("probes", "uses", "quantized") else name for name in MATERIAL]
)
def test_tools_find_and_write_what_is_recorded(name):
    assert found(name) == kept(KEPT)[name]


if __name__ == "__main__":
    if names := sys.argv[1:]:
        for name in names:
            for label, lines in MATERIAL[name]():
                print(label, *lines, sep="\n  ")
    else:
        keep(KEPT, {name: found(name) for name in MATERIAL})
