"""Constants that the library prepares once: kept, checked in the first execution, and forgotten with their program."""

import gc
import threading

import numpy as np
import pytest
from conftest import SANITIZED
from helpers.executables import at_once, in_a_process

import onegraph as og
from onegraph import capi
from onegraph.compiler import compile as compiler
from onegraph.native.library import HASHES_CONSTANTS, VERSION, call, ffi, lib
from onegraph.runtime import compiled_program, plan

hashed = pytest.mark.skipif(not HASHES_CONSTANTS, reason="the library knows constants by more than a hash")
X = np.arange(-32, 32, dtype=np.float32).reshape(2, 32) / 8


def weights(seed, columns=48):
    return np.random.default_rng(seed).integers(-8, 8, (32, columns)).astype(np.float32)


def products(*seeds, **options):
    """Products of one input with several weights, which have the same types."""
    g = og.Graph()
    x = g.input("x", og.f32, X.shape)
    for seed in seeds:
        g.output(f"y{seed}", g.relu(g.matmul(x, g.constant(weights(seed)))))
    return g.compile(**options)


def right(model, *seeds):
    found = model(X)
    found = found if len(seeds) > 1 else [found]
    return all(np.array_equal(y, np.maximum(X @ weights(seed), 0)) for y, seed in zip(found, seeds, strict=True))


def prepared():
    """Bytes and blocks that the library keeps."""
    now = ffi.new("size_t[2]")
    lib.onegraph_prepared(now, now + 1)
    return tuple(now)


@pytest.fixture
def attempts(monkeypatch):
    """The steps that each attempt to prepare a program finds with constants of another partition."""
    found, prepare = [], compiled_program.CompiledProgram._prepare

    def noted(self):
        taken = prepare(self)
        found.append(len(taken))
        return taken

    monkeypatch.setattr(compiled_program.CompiledProgram, "_prepare", noted)
    return found


def test_steps_of_equal_types_keep_their_own_constants(attempts):
    assert right(products(*range(20)), *range(20))
    assert attempts == [0]


@hashed
def test_library_forgets_with_the_last_program():
    gc.collect()
    assert prepared() == (0, 0)
    model, other = products(1), products(2)
    n_bytes, n_blocks = prepared()
    assert n_bytes >= 2 * weights(1).nbytes
    assert n_blocks == 2
    del other
    gc.collect()
    assert right(model, 1)
    del model
    gc.collect()
    assert prepared() == (0, 0)


@hashed
def test_programs_prepare_again_after_the_library_forgot():
    models = [products(seed) for seed in range(3)]
    call(lib.onegraph_flush_constants)
    assert prepared() == (0, 0)
    for _ in range(2):
        assert all(right(model, seed) for seed, model in enumerate(models))
    assert prepared()[1] == 3


@pytest.mark.skipif(not (3, 3) <= VERSION < (3, 7), reason="keys have the partition alone from 3.3 to 3.6")
def test_constants_of_another_partition_are_noticed(monkeypatch, attempts):
    # Steps of one partition have one key in the library's cache, so the second one takes what the first one prepared.
    class Sharing(compiler._StepCompiler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **{**options, "keeps": False})

    monkeypatch.setattr(compiler, "_StepCompiler", Sharing)
    assert right(products(1, 2, 3), 1, 2, 3)
    assert attempts == [2, 2, 2, 2, 0]  # the last time without kept constants


@hashed
def test_one_collision_is_mended_by_another_attempt(monkeypatch, attempts):
    prepare = plan.Plan.prepare
    results = iter([[-1, 5], [3, 5]])
    monkeypatch.setattr(plan.Plan, "prepare", lambda self: [prepare(self), next(results)][1])
    model = products(1, 2, threads=1)
    assert attempts == [1, 0]
    assert right(model, 1, 2)


@hashed
def test_small_steps_of_any_number_of_threads_keep_constants(attempts):
    seeds = range(8)
    assert all(right(products(seed, threads=threads), seed) for seed in seeds for threads in (None, 1))
    assert set(attempts) == {0}


@hashed
def test_executions_beside_a_flush():
    models, done = [products(seed) for seed in range(4)], threading.Event()

    def flush():
        while not done.is_set():
            call(lib.onegraph_flush_constants)

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        assert all(at_once(4, lambda seed: all(right(models[seed], seed) for _ in range(100))))
    finally:
        done.set()
        flusher.join()


LIMITED = """
import resource
import numpy as np
import onegraph as og
g = og.Graph()
w = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
g.output("y", g.matmul(g.input("x", "f32", (2, 64)), g.constant(w)))
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
print(np.array_equal(g.compile()(np.ones((2, 64), np.float32)), np.ones((2, 64), np.float32) @ w))
"""


@pytest.mark.skipif(
    SANITIZED or capi.get_num_threads() is None, reason="the sanitizer and SYCL take more address space"
)
def test_limited_address_space():
    assert in_a_process(LIMITED).split() == ["True"]
