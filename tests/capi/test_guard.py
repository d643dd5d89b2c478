"""Every op on memory between pages that nobody may touch; ``make guard`` runs more cases, on every library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import draws

from tests.guard.memory import compiled

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.library,
    pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer guards memory itself"),
]
STRIDED_PIXELS = {True: 961, False: 950}  # seeds of strided windows of one element, by AVX-512


def guarded(kinds, first, count, side="end", without="", isa=""):
    """The exit status of a child that runs cases, and all that it says."""
    environment = {**os.environ, "LD_PRELOAD": str(compiled()), "GUARD_SIDE": side, "GUARD_WITHOUT": without}
    environment |= {"OMP_NUM_THREADS": "2", **({"ONEDNN_MAX_CPU_ISA": isa} if isa else {})}
    command = [sys.executable, "-m", "tests.guard.worker", kinds, str(first), str(count)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("side", "isa"), [("end", ""), ("begin", "AVX2")])
def test_random_shapes_stay_in_their_memory(side, isa):
    status, said = guarded("training,blocks,quantized", 1, draws(24, 40), side, isa=isa)
    assert status == 0, said[-2000:]
    assert "FAIL" not in said


def test_cases_of_ops_stay_in_their_memory():
    status, said = guarded("cases", 1, 200)
    assert status == 0, said[-2000:]
    assert "FAIL" not in said


def test_finds_a_fault_that_is_forgotten():
    from onegraph.capi.settings import get_cpu_isa

    seed = STRIDED_PIXELS["avx512" in get_cpu_isa()]
    status, said = guarded("training", seed, 1, without="gradient_of_strided_pixels")
    assert status != 0 or "FAIL" in said
    assert guarded("training", seed, 1)[0] == 0


@pytest.mark.parametrize(("side", "place"), [("end", 8), ("begin", -1)])
def test_names_the_block(side, place):
    code = (
        "import ctypes; made = ctypes.CDLL(None).guard_allocate; made.restype = ctypes.c_void_p;"
        f"ctypes.c_char.from_address(made(8, 1) + {place}).value = b'x'"
    )
    environment = {**os.environ, "LD_PRELOAD": str(compiled()), "GUARD_SIDE": side}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 77
    assert done.stderr == f"guard: write at byte {place} of a block of 8 bytes\n"
