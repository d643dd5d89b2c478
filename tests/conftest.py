"""The rule for tests that need the oneDNN library, and settings of the suite.

Systems other than x86-64 Linux have no oneDNN library, and ``ONEGRAPH_PURE=1`` does without it anywhere. There a
module that cannot be imported without the library is skipped. A test with the mark ``library`` must fail, so that
every mark is true; after its first case it is skipped. All other tests must pass.
"""

import gc
import os
import platform
import sys
from contextlib import suppress
from functools import partialmethod
from pathlib import Path
from typing import TypeVar

import pytest

# numpy computes what the tests compare with: its threads would wait for more work in a loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
from onegraph.errors import LibraryError
from onegraph.native.load import has_wheel

pytest.register_assert_rewrite("helpers")
SHARED = Path(__file__).resolve().parents[2] / "shared"
# The processes of the suite share the processors, so waiting OpenMP threads must not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["ONEGRAPH_CACHE"] = ""  # no test depends on what another process has measured
# Hundreds of child processes import the package: they read its byte code instead of compiling 700 files each.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
sys.dont_write_bytecode = False
# Test modules that run as scripts, and code of theirs, import helpers.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
# make test-long draws more random programs than the suite has time for.
Draws = TypeVar("Draws")
LONG = bool(os.environ.get("ONEGRAPH_LONG"))
# The files that take longest, longest first. The processes of the suite take file after file in this order, so that
# none of them is left alone with a long one at the end.
LONGEST = (
    "test_recorded_graphs", "test_stress", "test_recorded_steps", "test_examples", "test_conformance", "test_docs",
    "test_cli_graphs", "test_benchmarks", "test_recorded_plans", "test_system_calls", "test_random_conformance",
    "test_faults", "test_ops", "test_ways_around_faults", "test_rewrites", "test_checker_against_library",
    "test_onnx_save", "test_recurrence", "test_gradient_coverage", "test_view", "test_ops_convolution",
    "test_verify_model", "test_process_faults", "test_reproducible", "test_onnx_backend", "test_whole_files",
    "test_native", "test_fuzz", "test_reduce", "test_verify_proof", "test_arguments", "test_capi", "test_guard",
    "test_malformed", "test_special_values", "test_crashes", "test_bare", "test_open_programs", "test_structure",
    "test_harness", "test_threads", "test_build", "test_cli", "test_slow_fusions", "test_trained_models",
)  # fmt: skip
# A collection of the youngest objects costs more than what it frees: the suite collects seldom, and where tests ask.
gc.set_threshold(20_000, 20, 50)
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")  # make asan


@pytest.fixture(scope="module", autouse=True)
def freeze_objects():
    """Exempt what other files of tests have left from garbage collection: a collection then takes little time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def steady_threads(request):
    """No step is measured with several numbers of threads, except in modules that say MEASURES_THREADS.

    What other processes do would decide how many threads compute, and measuring takes a tenth of a compilation.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not MISSING and not getattr(request.module, "MEASURES_THREADS", False):
            from onegraph.runtime.compiled_program import CompiledProgram

            patch.setattr(CompiledProgram, "_measure", lambda self, steps, counts: [None] * len(steps))
        yield


def check_passes() -> None:
    """Let every graph that the suite compiles be checked after each pass."""
    from onegraph.compiler.ir.check import broken_rules
    from onegraph.compiler.passes import watches

    def check(current, before, after):
        broken = [*broken_rules(after)] if after is not before else []
        assert not broken, f"after the pass {current.name}: {broken}"

    watches.append(check)


@pytest.fixture
def finite_math(monkeypatch):
    """Graphs are compiled with ``finite_math=True``, so that the library computes and fuses what it can."""
    from onegraph.graph import Graph

    monkeypatch.setattr(Graph, "compile", partialmethod(Graph.compile, finite_math=True))


def _missing() -> str:
    """Why the suite runs without the library; empty if it runs with it."""
    if has_wheel(platform.system(), platform.machine()) and not os.environ.get("ONEGRAPH_PURE"):
        return ""
    try:
        import onegraph.native.library  # noqa: F401
    except LibraryError as error:
        return str(error)
    raise pytest.UsageError("this suite expects no oneDNN library, but there is one; unset ONEGRAPH_PURE")


MISSING = _missing()
HAS_SOURCES = (Path(__file__).resolve().parents[1] / "onegraph" / "__init__.py").exists()
if not MISSING:
    check_passes()


def library(*values):
    """The parameters of a case that needs the library."""
    return pytest.param(*values, marks=pytest.mark.library)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip the modules whose import ends in the error that the library is missing."""
    report = yield
    if MISSING and report.failed and MISSING in str(report.longrepr):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {MISSING}")
    return report


def draws(few: Draws, many: Draws) -> Draws:
    """How many random programs a test draws, or which: ``few``, or ``many`` in ``make test-long``."""
    return many if LONG else few


def pytest_collection_modifyitems(items):
    """Take the longest files first; expect the tests that need the library to fail without it, in their first case.

    Some tests of a module with the mark may pass; one with a mark of its own may not. Tests with the mark ``sources``
    are skipped where the sources of the package are not.
    """
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
    tried = set()
    for item in items:
        if not HAS_SOURCES and item.get_closest_marker("sources"):
            item.add_marker(pytest.mark.skip("the sources of the package are not here"))
        if MISSING and item.get_closest_marker("library"):
            is_tried, is_strict = item.function in tried, any(mark.name == "library" for mark in item.own_markers)
            expected = pytest.mark.xfail(reason=MISSING, strict=is_strict)
            item.add_marker(pytest.mark.skip(MISSING) if is_tried else expected)
            tried.add(item.function)


def pytest_collection_finish():
    """Exempt objects that live until the end from garbage collection, which is faster."""
    with suppress(ImportError):  # some environments of the Makefile have fewer packages
        import hypothesis  # noqa: F401  # its plugin imports it at the end, and then warns of objects that are exempted

    gc.collect()
    gc.freeze()
