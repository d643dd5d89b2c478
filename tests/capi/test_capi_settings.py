"""Settings of the C API: which numbers they take, what they ask of the library, and what they say of a machine."""

import io
import os
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph import capi
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.capi import caches, engine, machine, settings, threads
from onegraph.faults.cpus import EVERY_ISA
from onegraph.native import library


@pytest.fixture
def calls(monkeypatch):
    """The functions of the library that are called in place of the library, with their arguments."""
    made = []
    for module in (caches, settings, engine):
        monkeypatch.setattr(module, "call", lambda function, *numbers: made.append((function.__name__, *numbers)))
    return made


@pytest.fixture
def newer(monkeypatch):
    """The newer functions that are looked up, with their versions; each writes 77 to its last argument if it can."""
    asked = []

    def found(name, since):
        def function(*arguments):
            asked.append((name, since, *arguments))
            if isinstance(arguments[-1], library.ffi.CData):
                arguments[-1][0] = 77
            return 0

        function.__name__ = name
        return function

    monkeypatch.setattr(library, "newer_function", found)
    return asked


# Caches


@pytest.mark.parametrize("cache", ["primitive", "compiled_partition", "constant_tensor"])
@pytest.mark.parametrize(
    ("capacity", "fits"), [(-1, False), (0, True), (5, True), (2**31 - 1, True), (2**31, False), (True, False)]
)
def test_capacities_are_whole_numbers_of_c(cache, capacity, fits, calls, newer, monkeypatch):
    monkeypatch.setattr(library, "LEAST_PRIMITIVES", 0)
    monkeypatch.setattr(library, "has_compiled", lambda: False)
    kinds = (library.enum_value("", "cpu"),) if cache == "constant_tensor" else ()
    prefix = "dnnl" if cache == "primitive" else "dnnl_graph"
    with nullcontext() if fits else pytest.raises(og.ArgumentError, match=r"capacity: .*expected an integer"):
        getattr(capi, f"set_{cache}_cache_capacity")(capacity)
    assert calls == ([(f"{prefix}_set_{cache}_cache_capacity", *kinds, capacity)] if fits else [])


@pytest.mark.parametrize(("capacity", "fits"), [(0, True), (1, False), (3, False), (4, True), (5, True)])
def test_few_primitives_are_not_cached(capacity, fits, calls, monkeypatch):
    monkeypatch.setattr(library, "LEAST_PRIMITIVES", 4)
    told = f"capacity: {capacity}; .* expected 0, or 4 and more"
    with nullcontext() if fits else pytest.raises(og.UnsupportedError, match=told):
        capi.set_primitive_cache_capacity(capacity)
    assert len(calls) == fits


def test_changes_of_a_capacity_are_counted_at_their_begin_and_end(monkeypatch):
    seen = []
    monkeypatch.setattr(caches, "call", lambda *_: seen.append(caches.compiled_partition_cache_changes()))
    before = caches.compiled_partition_cache_changes()
    capi.set_compiled_partition_cache_capacity(3)
    assert [*seen, caches.compiled_partition_cache_changes()] == [before + 1, before + 2]


@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("kept", [0, 1])
def test_constants_are_kept_as_the_version_does(hashes, kept, calls, monkeypatch):
    monkeypatch.setattr(library, "HASHES_CONSTANTS", hashes)
    monkeypatch.setattr(library, "has_compiled", lambda: False)
    monkeypatch.setattr(caches, "read", lambda function, ctype: kept)
    assert caches._hashed == caches._broken == [False]
    monkeypatch.setattr(caches, "_hashed", [False])
    monkeypatch.setattr(caches, "_broken", [False])
    for enabled in (True, False):
        before = capi.get_constant_tensor_cache()
        assert before is (caches._hashed[0] if hashes else bool(kept))
        calls.clear()
        capi.set_constant_tensor_cache(enabled)
        asked = [("dnnl_graph_set_constant_tensor_cache", int(enabled))]
        assert calls == (asked if not hashes and enabled != kept else [])
        assert caches._hashed == [hashes and enabled]
    assert caches.programs_keep_constants() is bool(kept)
    caches.give_up_constants()
    assert caches.programs_keep_constants() is (bool(kept) and not hashes)


def test_constants_are_switched_before_a_compilation(calls, newer, monkeypatch):
    monkeypatch.setattr(library, "has_compiled", lambda: True)
    capi.set_constant_tensor_cache(capi.get_constant_tensor_cache())
    with pytest.raises(og.StateError, match="the constant tensor cache can be switched only before"):
        capi.set_constant_tensor_cache(not capi.get_constant_tensor_cache())
    with pytest.raises(og.StateError, match="the capacity of the constant tensor cache can be set only before"):
        capi.set_constant_tensor_cache_capacity(5)
    assert calls == newer == []


def test_the_capacity_for_constants_is_asked_of_newer_libraries(newer, monkeypatch):
    monkeypatch.setattr(library, "has_compiled", lambda: False)
    cpu = library.enum_value("", "cpu")
    assert capi.get_constant_tensor_cache_capacity() == 77
    capi.set_constant_tensor_cache_capacity(5)
    assert [one[:3] for one in newer] == [
        (f"dnnl_graph_{verb}_constant_tensor_cache_capacity", "3.4", cpu) for verb in ("get", "set")
    ]
    assert newer[1][3:] == (5,)
    with pytest.raises(og.ArgumentError, match="engine kind: 'tpu'"):
        capi.get_constant_tensor_cache_capacity("tpu")


@pytest.mark.parametrize(
    ("modes", "bits"), [((), 0), (("none",), 0), (("graph",), 2), (("subgraph",), 1), (("graph", "subgraph"), 3)]
)
def test_graphs_are_dumped_by_newer_libraries(modes, bits, newer, calls):
    names = ("none", "subgraph", "graph")
    assert [library.enum_value("graph_dump_mode_", name) for name in names] == [0, 1, 2]
    capi.set_dump_mode(*modes)
    assert calls == [("dnnl_graph_set_dump_mode", bits)]
    with pytest.raises(og.ArgumentError, match="modes: 'all'; expected one of 'none', 'subgraph', 'graph'"):
        capi.set_dump_mode("graph", "all")
    assert len(calls) == 1


@pytest.mark.parametrize(("level", "fits"), [(-1, False), (0, True), (2, True), (3, False)])
def test_verbose_has_three_levels(level, fits, calls):
    with nullcontext() if fits else pytest.raises(og.ArgumentError, match=r"level: .*0 to 2"):
        capi.set_verbose(level)
    assert calls == ([("dnnl_set_verbose", level)] if fits else [])


# Instruction sets

# By instruction set: whether it has AVX2, AVX-512, VNNI and AMX.
HAVE = {
    "sse41": "",
    "avx": "",
    "avx2": "2",
    "avx2_vnni": "2v",
    "avx2_vnni_2": "2v",
    "avx512_core": "25",
    "avx512_core_vnni": "25v",
    "avx512_core_bf16": "25v",
    "avx512_core_fp16": "25v",
    "avx512_core_amx": "25va",
    "avx512_core_amx_fp16": "25va",
    "avx10_2": "25v",
    "avx10_2_amx_2": "25va",
    "unknown": "2v",
}


@pytest.mark.parametrize("isa", HAVE)
def test_instruction_sets_have_what_they_are_named_for(isa, monkeypatch):
    monkeypatch.setattr(settings, "get_cpu_isa", lambda: isa)
    asked = (settings.has_avx2, settings.has_avx512, settings.has_vnni, settings.has_amx)
    assert [one() for one in asked] == [mark in HAVE[isa] for mark in "25va"]
    assert settings.least_alignment() == (1 if settings.has_avx2() else 16)


def test_every_instruction_set_is_asked_for():
    assert {*EVERY_ISA, "unknown"} == {*HAVE}
    assert settings.get_cpu_isa() in HAVE


@pytest.mark.parametrize(("isa", "least"), [("avx", 16), ("avx2", 1)])
def test_memory_is_aligned_as_instructions_need_it(isa, least, monkeypatch):
    monkeypatch.setattr(settings, "get_cpu_isa", lambda: isa)
    assert [settings.alignment_of(np.zeros(1, kind)) for kind in ("i1", "f4", "c16")] == [least, max(4, least), 16]
    for skew, aligned in ((0, True), (4, least == 1), (16, True)):
        assert settings.is_aligned(aligned_empty((3,), np.dtype(np.float32), skew=skew)) is aligned
    assert not settings.is_aligned(np.frombuffer(bytearray(9), np.float32, 2, 1))


@pytest.mark.parametrize(
    ("size", "shared", "bytes_of_core"),
    [
        ("32768K", "f", 8 << 20),
        ("1024K", "1", 1 << 20),
        ("3072K", "00000001,80000001", 1 << 20),
        ("32768K", "0", 1 << 20),
        ("32M", "1", 1 << 20),
        (None, "1", 1 << 20),
    ],
)
def test_cores_share_the_last_cache(size, shared, bytes_of_core, monkeypatch, tmp_path):
    asked = []
    if size is not None:
        (tmp_path / "size").write_text(f"{size}\n")
    (tmp_path / "shared_cpu_map").write_text(f"{shared}\n")
    monkeypatch.setattr(settings, "Path", lambda path: asked.append(path) or tmp_path)
    assert settings.core_cache.__wrapped__() == bytes_of_core
    assert asked == ["/sys/devices/system/cpu/cpu0/cache/index3"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"vendor_id : GenuineIntel\nflags : avx512_fp16\n", True),
        (b"vendor_id : GenuineIntel\nflags : avx512f\n", False),
        (b"vendor_id : AuthenticAMD\nflags : avx512_fp16\n", False),
        (None, False),
    ],
)
def test_processors_made_for_amx_are_known(text, found, monkeypatch):
    monkeypatch.setattr(settings, "open", read_from(text), raising=False)
    assert settings._is_made_for_amx() is found
    assert reads == ([] if text is None else [4096])


reads = []  # the sizes that were asked of the file


def read_from(text):
    """A function in the place of ``open``, for which the file of the processors has this text."""
    reads.clear()

    class Read(io.BytesIO):
        def read(self, size=-1):
            reads.append(size)
            return super().read(size)

    def opened(path, mode, buffering):
        assert (path, mode, buffering) == ("/proc/cpuinfo", "rb", 0)
        if text is None:
            raise FileNotFoundError(path)
        return Read(text)

    return opened


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"processor : 0\nmodel name\t: One: two \nmodel name\t: Other\n", "One: two"),
        (b"processor : 0\n", ""),
        (None, ""),
    ],
)
def test_the_processor_is_named_once(text, name, monkeypatch):
    monkeypatch.setattr(machine, "_cpu", [])
    monkeypatch.setattr(machine, "open", read_from(text), raising=False)
    assert [machine._cpu_model() for _ in range(2)] == [name] * 2
    assert reads == ([] if text is None else [2048])


def test_a_machine_has_settings_of_the_library_without_those_of_output(monkeypatch):
    for name in [one for one in os.environ if one.startswith(machine.PREFIXES)]:
        monkeypatch.delenv(name)
    for name in ("OMP_X", "ONEDNN_A", "DNNL_B", "GOMP_C", "ONEDNN_VERBOSE", "DNNL_GRAPH_VERBOSE", "MY_OMP_D", "OMP"):
        monkeypatch.setenv(name, name.lower())
    monkeypatch.setattr(machine, "_cpu", ["cpu"])
    told = machine.machine()
    variables = [("DNNL_B", "dnnl_b"), ("GOMP_C", "gomp_c"), ("OMP_X", "omp_x"), ("ONEDNN_A", "onednn_a")]
    assert told[2:] == (
        library.VERSION,
        library.HASH,
        capi.get_cpu_isa(),
        capi.get_default_fpmath_mode(),
        variables,
        "cpu",
        sorted(os.sched_getaffinity(0)),
    )
    assert machine.library_and_machine() == {
        "path": library.PATH,
        "version": ".".join(map(str, library.VERSION)),
        "hash": library.HASH,
        "cpu": "cpu",
        "isa": capi.get_cpu_isa(),
    }


def test_version_info_tells_of_library_and_machine(monkeypatch):
    monkeypatch.setattr(settings, "is_native", lambda dtype: dtype is not og.f16)
    monkeypatch.setattr(settings, "get_cache_folder", lambda: None)
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    told = capi.version_info()
    assert told == {
        "version": ".".join(map(str, library.VERSION)),
        "hash": library.HASH,
        "path": library.PATH,
        "threading_runtime": library.RUNTIME,
        "threads": capi.get_num_threads(),
        "cpu_isa": capi.get_cpu_isa(),
        "max_cpu_isa": "no cap",
        "dtypes": [one.value for one in og.DataType if one.since <= library.VERSION],
        "cpu_dtypes": ["f32", "bf16", "s8", "u8", "s32"],
        "constant_tensor_cache": capi.get_constant_tensor_cache(),
        "compiled_partition_cache_capacity": capi.get_compiled_partition_cache_capacity(),
        "primitive_cache_capacity": capi.get_primitive_cache_capacity(),
        "cache_folder": None,
    }
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2")
    monkeypatch.setattr(settings, "get_cache_folder", lambda: "/x")
    told = capi.version_info()
    assert (told["max_cpu_isa"], told["cache_folder"]) == ("AVX2", "/x")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX")
    assert capi.version_info()["max_cpu_isa"] == "AVX"


# Engines


@pytest.mark.parametrize(
    ("kind", "count", "index", "text"),
    [
        ("cpu", 1, 1, "engine cpu:1: the library has 1 cpu engines"),
        ("cpu", 0, 0, "engine cpu:0: the library has 0 cpu engines; install it"),
        ("gpu", 0, 0, "engine gpu:0: the library has 0 gpu engines"),
    ],
)
def test_missing_engines_are_named(kind, count, index, text, monkeypatch):
    monkeypatch.setattr(engine, "engine_count", lambda _: count)
    monkeypatch.setattr(engine, "engine_advice", lambda: "install it")
    with pytest.raises(og.UnsupportedError) as refused:
        capi.Engine(kind, index)
    assert str(refused.value) == text
    monkeypatch.setattr(engine, "engine_advice", lambda: "")
    with pytest.raises(og.UnsupportedError) as refused:
        capi.Engine(kind, index)
    assert str(refused.value) == text.partition("; ")[0]


def test_a_stream_waits_in_the_library(calls):
    stream = capi.Stream()
    assert repr(stream) == "Stream(Engine('cpu', 0))"
    stream.wait()
    assert [one[0] for one in calls] == ["dnnl_stream_wait"]
    assert engine.engines_exist()


# Threads


def test_threads_that_destroy_their_objects():
    from onegraph.capi import thread_affinity

    own, other, destroyed = thread_affinity.calling_thread(), thread_affinity.OwnerThread(), []
    assert thread_affinity.calling_thread() is own
    assert own.destroy(lambda pointer: destroyed.append(pointer) or 5, 1) == 5
    assert destroyed == [1]
    for pointer in (2, 3):
        assert other.destroy(destroyed.append, pointer, ("parent",)) == 0
    assert destroyed == [1]
    other.clear()
    assert destroyed == [1, 2, 3]
    other.clear()
    assert len(destroyed) == 3
    found = []
    thread = threading.Thread(target=lambda: found.append(thread_affinity.calling_thread()))
    thread.start()
    thread.join()
    assert own is not found[0]


def test_the_thread_of_a_child_is_another_one(monkeypatch):
    from onegraph.capi import thread_affinity

    monkeypatch.setattr(thread_affinity, "_local", threading.local())
    before = thread_affinity.calling_thread()
    thread_affinity._forget_thread()
    assert thread_affinity.calling_thread() is not before


SHARE = threads.Share(4, "four")


@pytest.mark.parametrize(
    ("now", "forked", "wanted"),
    [
        (3, True, threads.Share(1, "this process was forked after oneDNN ran")),
        (None, False, SHARE),
        (4, False, SHARE),
        (8, False, SHARE),
        (3, False, threads.Share(3, "onegraph.set_num_threads(3)")),
    ],
)
def test_runs_use_a_share_of_the_processors(now, forked, wanted, monkeypatch):
    monkeypatch.setattr(threads, "get_num_threads", lambda: now)
    monkeypatch.setattr(threads, "processor_share", lambda: SHARE)
    monkeypatch.setattr(threads, "openmp_threads", lambda: 8)
    monkeypatch.setattr(threads, "is_forked", lambda: forked)
    assert threads.thread_share() == wanted
    assert threads.threads_now() == (now or 1)


@pytest.mark.parametrize("forked", [False, True])
def test_the_number_of_threads_changes_for_a_while(forked, monkeypatch):
    numbers = []
    monkeypatch.setattr(threads, "threads_now", lambda: 4)
    monkeypatch.setattr(threads, "is_forked", lambda: forked)
    monkeypatch.setattr(threads, "restore_threads", numbers.append)
    count = threads.ThreadCount()
    assert count.before == 4
    for number in (4, None, 2, 2, 3, None, 4, 1):
        count.use(number)
    assert numbers == ([] if forked else [2, 3, 4, 1])


@pytest.mark.parametrize(("count", "forked", "fits"), [(1, True, True), (2, True, False), (2, False, True)])
def test_forked_threads_are_one(count, forked, fits, monkeypatch):
    numbers = []
    monkeypatch.setattr(threads, "is_forked", lambda: forked)
    monkeypatch.setattr(library, "omp_function", lambda name: numbers.append if name == "omp_set_num_threads" else None)
    with nullcontext() if fits else pytest.raises(og.UnsupportedError, match=f"threads: {count}; .*was forked"):
        capi.set_num_threads(count)
    assert numbers == [count] * fits


@pytest.mark.parametrize("count", [1, 64, threads.MAX_THREADS, 0, threads.MAX_THREADS + 1, 1.0])
def test_threads_have_a_limit(count):
    if count in (1, 64, threads.MAX_THREADS) and type(count) is int:
        assert threads.check_threads(count) == count
    else:
        with pytest.raises(og.ArgumentError, match="threads: "):
            threads.check_threads(count)


def test_only_openmp_can_set_threads(monkeypatch):
    monkeypatch.setattr(library, "omp_function", lambda name: None)
    monkeypatch.setattr(library, "RUNTIME", "TBB")
    assert capi.get_num_threads() is None
    with pytest.raises(og.UnsupportedError, match="the library runs its threads with TBB; only OpenMP's can be set"):
        capi.set_num_threads(1)


@pytest.mark.parametrize(
    ("runtime", "used", "asked", "forked"),
    [
        ("OpenMP", True, ["forked"], True),
        ("OpenMP", False, [], False),
        ("TBB", True, ["lose"], False),
        ("TBB", False, [], False),
    ],
)
def test_a_child_knows_which_threads_it_lacks(runtime, used, asked, forked, monkeypatch):
    made = []
    monkeypatch.setattr(threads, "_forked", set())
    monkeypatch.setattr(library, "RUNTIME", runtime)
    monkeypatch.setattr(library, "has_compiled", lambda: used)
    monkeypatch.setattr(threads, "engines_exist", lambda: used)
    functions = {"onegraph_lose_threads": lambda: made.append("lose"), "onegraph_forked": lambda: made.append("forked")}
    monkeypatch.setattr(threads, "lib", SimpleNamespace(**functions))
    threads._after_fork()
    assert (made, threads.is_forked()) == (asked, forked)
