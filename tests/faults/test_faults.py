"""Every fault of oneDNN: its condition, what the library does by itself, and what onegraph does instead."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers.fault_subjects import fused, graph_of, subjects
from helpers.fork_server import run_forked
from helpers.grouped import grouped

from onegraph.builder.graph import DataGraph
from onegraph.errors import LIBRARY, UNSAFE
from onegraph.faults.api import API
from onegraph.faults.catalogue import CATALOGUE, EVERY_FAULT
from onegraph.faults.execution import COLLIDING_CONSTANTS, FEW_PRIMITIVES
from onegraph.faults.fault import CPUS, LACKS, SLOW, Faults, always
from onegraph.faults.fusions import FUSIONS, wrong_fusion
from onegraph.faults.fusions import strided as strided_fusions
from onegraph.faults.layouts import LAYOUTS, PARTITIONS
from onegraph.faults.ops import OPS
from onegraph.opset.editions.registry import BASE

HERE = Path(__file__).parents[1]
PARTS = 6  # of the catalogue; each is a process that starts once
VERSIONS = [(3, 2, 0), (3, 2, 1), (3, 3, 0), (3, 6, 2), (3, 7, 0), (3, 13, 2)]
EXAMPLES = [(fault, example) for fault in EVERY_FAULT for example in fault.examples]
WORDS = ("SIG", "hang", "throws", "refuses", "unsupported", "accepted", "overrun", "garbage", "wrong", "right")
OUTCOMES = (*WORDS, "absent", "slow", "exit")


def test_faults_have_unique_names_in_the_catalogue():
    names = [fault.name for fault in (*EVERY_FAULT, *API)]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    tables = (OPS, FUSIONS, strided_fusions.FAULTS, LAYOUTS, PARTITIONS)
    assert {fault.name for table in tables for fault in table} <= {fault.name for fault in EVERY_FAULT}


@grouped("fault", [*EVERY_FAULT, *API], key=lambda fault: fault.severity, label=lambda fault: fault.name)
def test_every_fault_is_well_formed(fault):
    assert fault.severity in (LIBRARY, UNSAFE, SLOW, LACKS)
    assert fault.ops <= set(BASE)
    assert fault.reason
    assert fault.instead
    assert (3, 2) in fault.seen
    assert fault.examples or fault.refusal is not None
    for seen, on in [(fault.seen, {}), *((example.seen, example.on) for example in fault.examples)]:
        assert (3, 2) in seen
        assert set(on) <= set(CPUS)
        assert all(word.startswith(OUTCOMES) for text in (*seen.values(), *on.values()) for word in text.split(" | "))


@grouped(
    "fault, example", EXAMPLES, key=lambda case: case[0].severity, label=lambda case: f"{case[0].name}, {case[1].name}"
)
def test_the_condition_recognises_the_example(fault, example):
    graph = graph_of(example.build)
    found = subjects(fault, graph)
    if (found is not None and fault.severity != LIBRARY) or fault in OPS:
        assert any(fault.when(subject) for subject in found)


@pytest.mark.library
@pytest.mark.parametrize("part", range(PARTS))
def test_the_library_fails_and_onegraph_does_not(part):
    from helpers import sides

    from onegraph.native import library

    titles = [*CATALOGUE][part::PARTS]
    done = run_forked(sides.__name__, titles, cwd=HERE, seconds=600)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    examples = [(fault, example) for title in titles for fault in CATALOGUE[title] for example in fault.examples]
    assert len(found) == len(examples), done.stderr[-3000:]
    failed = []
    for (fault, example), (_, name, outcome, mistake) in zip(examples, found, strict=True):
        noted = sides.expected(example.seen, example.on)
        if mistake:
            failed.append(f"{fault.name}, {name}: through onegraph: {mistake}")
        if outcome and not sides.is_as_noted(outcome, noted):
            failed.append(f"{fault.name}, {name}: oneDNN {library.VERSION} by itself: {outcome}; noted is {noted}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(
    ("seen", "bounds", "affected"),
    [
        ({(3, 2): "wrong"}, {}, [1, 1, 1, 1, 1, 1]),
        ({(3, 2): "right"}, {}, [0, 0, 0, 0, 0, 0]),
        ({(3, 2): "right", (3, 6): "wrong", (3, 13): "right"}, {}, [0, 0, 1, 1, 1, 0]),
        ({(3, 2): "right", (3, 6): "right", (3, 13): "SIGSEGV"}, {}, [0, 0, 0, 0, 1, 1]),
        ({(3, 2): "wrong", (3, 6): "right"}, {}, [1, 1, 1, 0, 0, 0]),
        ({(3, 2): "wrong", (3, 6): "right"}, {"mended": (3, 2, 1)}, [1, 0, 0, 0, 0, 0]),
        ({(3, 2): "wrong", (3, 6): "right"}, {"mended": (99, 0)}, [1, 1, 1, 1, 1, 1]),
        ({(3, 2): "absent", (3, 13): "wrong"}, {"since": (3, 7)}, [0, 0, 0, 0, 1, 1]),
        ({(3, 2): "unsupported", (3, 6): "wrong", (3, 13): "right"}, {"since": (3, 3)}, [0, 0, 1, 1, 1, 0]),
        ({(3, 2): "right | wrong"}, {}, [1, 1, 1, 1, 1, 1]),
        ({(3, 2): "absent"}, {"since": (3, 7)}, [0, 0, 0, 0, 1, 1]),
        ({(3, 2): "right"}, {"mended": (3, 3)}, [1, 1, 0, 0, 0, 0]),
        ({(3, 2): "right", (3, 6): "wrong"}, {"mended": (3, 6)}, [1, 1, 1, 0, 0, 0]),
        ({(3, 2): "wrong", (3, 6): "right"}, {"mended": (3, 7)}, [1, 1, 1, 1, 0, 0]),
        ({(3, 2): "wrong", (3, 6): "right", (3, 13): "wrong"}, {"since": (3, 6)}, [0, 0, 0, 1, 1, 1]),
        ({(3, 2): "absent", (3, 6): "wrong", (3, 13): "right"}, {"since": (3, 6)}, [0, 0, 0, 1, 1, 0]),
        ({(3, 2): "right", (3, 6): "wrong", (3, 13): "right"}, {"since": (3, 3), "mended": (3, 7)}, [0, 0, 1, 1, 0, 0]),
        ({(3, 2): "right", (3, 3): "wrong", (3, 6): "right", (3, 7): "right"}, {}, [0, 0, 1, 0, 0, 0]),
    ],
)
def test_affected_versions_follow_from_tried_versions(seen, bounds, affected):
    fault = Faults().add("name", ops="", severity=UNSAFE, when=always, seen=seen, reason="reason", **bounds)
    assert [fault.affects(version) for version in VERSIONS] == affected


@pytest.mark.library
def test_native_module_agrees_with_the_faults():
    from onegraph.native import library

    assert COLLIDING_CONSTANTS.affects(library.VERSION) == library.HASHES_CONSTANTS
    assert (library.LEAST_PRIMITIVES > 0) == FEW_PRIMITIVES.affects(library.VERSION)


def test_faults_of_fused_ops_load_lazily():
    code = (
        "import sys, onegraph; onegraph.check_op('ReLU', inputs=[('f32', (3,))]);"
        "assert 'onegraph.faults.ops' in sys.modules;"
        "assert not [name for name in sys.modules if name.startswith('onegraph.faults.fusions')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("dtype", "batch", "mask", "cpu", "is_wrong"),
    [
        ("bf16", (2, 3), (4, 5), {"amx": True}, True),
        ("bf16", (2, 3), (1, 1, 4, 5), {"amx": True}, True),
        ("f32", (2, 3), (4, 5), {"amx": True, "strict": False}, True),
        ("f32", (2, 3), (4, 5), {"amx": True}, False),
        ("bf16", (2, 3), (4, 5), {}, False),
        ("bf16", (2, 3), (1, 3, 4, 5), {"amx": True}, False),
        ("bf16", (2, 3), (2, 1, 1, 5), {"amx": True}, False),
        ("bf16", (2, 3), (5,), {"amx": True}, False),
        ("bf16", (1, 3), (4, 5), {"amx": True}, False),
        ("bf16", (3,), (4, 5), {"amx": True}, False),
    ],
)
def test_one_mask_for_all_is_apart_with_amx(dtype, batch, mask, cpu, is_wrong):
    g = DataGraph()
    product = g.matmul(g.input("x", dtype, (*batch, 4, 8)), g.input("w", dtype, (*batch, 8, 5)))
    g.output("y", g.add(product, g.input("mask", dtype, mask)))
    assert bool(wrong_fusion(fused(g, **cpu), (3, 9, 1))) == is_wrong
    assert not wrong_fusion(fused(g, **cpu), (3, 8, 1))
