"""Some drawn uses of each kernel of the package; ``make kernels`` runs many."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import SANITIZED, draws

from onegraph.capi import get_cpu_isa
from onegraph.compiler.kernels.native import fields_of, registered
from onegraph.faults.cpus import ISA_NAMES
from tests.drawn import draw
from tests.drawn.__main__ import ROOT, judge, table
from tests.drawn.entry import CASES
from tests.drawn.table import GENERATORS, NO_GRAPH

pytestmark = pytest.mark.library


def test_each_kernel_has_a_generator():
    assert sorted(GENERATORS) == sorted(registered())
    assert {name for name, generator in GENERATORS.items() if not generator.graph} <= NO_GRAPH.keys()


@pytest.mark.parametrize("name", GENERATORS)
def test_drawn_uses_are_right(name):
    for seed in range(draws(6, 1000)):
        GENERATORS[name].run(seed, graph=False)
    for seed in range(draws(1, 10)):
        if GENERATORS[name].graph:
            GENERATORS[name].run(seed, graph=True)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_notices_a_wrong_number(name, monkeypatch):
    """An element of the result is off by a twentieth, or is not the right whole number."""
    true = draw.run_compiled

    def changed(kernel, *arrays, results=1, **options):
        true(kernel, *arrays, results=results, **options)
        elements = [*np.ndindex(arrays[-results].shape)]
        for place in elements[len(elements) // 2 :: len(elements)]:
            old = arrays[-results][place]
            arrays[-results][place] = old + 1 if arrays[-results].dtype.kind in "iub" else old * 1.05 + 0.01

    monkeypatch.setattr(draw, "run_compiled", changed)
    with pytest.raises(AssertionError):
        [GENERATORS[name].run(seed, graph=False) for seed in range(20)]


PROCESS = """#!/bin/sh
set -- $7
if [ $1 = 0 ]; then printf '\\003\\0\\0\\0\\0\\0\\0\\0' > $3; kill -SEGV $$; fi
echo "[$2, 0.5, {\\"plain\\": $2}, []]"
"""


@pytest.mark.skipif(SANITIZED, reason="the sanitizer ends the process in another way")
def test_a_use_that_ends_its_process_is_a_finding(tmp_path, monkeypatch):
    """The other uses of its chunk run behind it."""
    script = tmp_path / "python"
    script.write_text(PROCESS)
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    found = judge("relu", 0, 10)
    assert found.findings == ["relu 3: the process ends: signal 11"]
    assert (found.cases, found.paths) == (9, {"plain": 6})
    assert table({"relu": found}).splitlines()[1].split() == ["relu", "9", "0", "1", "plain", "6"]


CAPS = {"SSE41": 0, "AVX2": 1, "AVX512_CORE": 2}  # each with the number ``level`` of its instructions


def bits_of(kernel, level):
    """Digests of what a kernel computes, of which sums depend on the instructions."""
    found = []

    class Recorded(draw.Draw):
        def run_kernel(self, compiled, *arrays, results=1, any_threads=True):
            super().run_kernel(compiled, *arrays, results=results, any_threads=any_threads)
            found.append(hashlib.sha256(arrays[-results].tobytes()).hexdigest())

    for seed in range(12):
        use = Recorded(kernel, seed)
        use.level = level
        with np.errstate(all="ignore"):
            CASES[kernel](use)
    return found


def run_uses_without_level():
    """Some uses of kernels that take the newest instructions they may."""
    for name, generator in GENERATORS.items():
        if all(field.name != "level" for field in fields_of(name)):
            for seed in range(draws(6, 1000)):
                generator.run(seed, graph=False)


def bits_with_cap(cap):
    code = """import json
from tests.kernels.test_drawn import bits_of, run_uses_without_level
run_uses_without_level()
print(json.dumps([bits_of("recurrence", 4), bits_of("tanh", 4)]))"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "ONEDNN_MAX_CPU_ISA": cap}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("cap", CAPS)
def test_kernels_obey_the_limit_of_the_library(cap):
    if ISA_NAMES.index(get_cpu_isa()) <= ISA_NAMES.index(cap.lower()):
        pytest.skip(f"this process has no instructions beyond {cap}")
    sums, tangents = bits_with_cap(cap)
    assert sums == bits_of("recurrence", CAPS[cap]) != bits_of("recurrence", 4 if cap != "AVX512_CORE" else 1)
    if cap == "SSE41":
        assert tangents != bits_of("tanh", 4)  # the kernel has no number ``level``
