"""Parts of what loads and calls the library, on both sides of their conditions, with stand-ins for other libraries."""

import errno
import gc
import json
import os
import re
import sys
import threading
import time
from contextlib import nullcontext
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.executables import in_a_process

import onegraph as og
from onegraph._util.mapped_file import MappedFile
from onegraph.errors import OutOfMemoryError
from onegraph.native import digests, gc_pause, library, load, siblings

# Other versions ------------------------------------------------------------------------------------------------------

# Imports the module again, as if the library had other numbers: each in a child of this process.
IMPORTS = """
import json, os, sys, warnings
from types import SimpleNamespace
from onegraph.native import load

handle, extension = load.load()
ffi, lib = extension.ffi, extension.lib


class Library:
    def __getattr__(self, name):
        return getattr(lib, name)


for major, minor, patch, runtime, capacity, hash in json.loads(sys.argv[1]):
    if os.fork():
        os.wait()
        continue
    text = ffi.NULL if hash is None else ffi.new("char[]", hash.encode())
    version = SimpleNamespace(major=major, minor=minor, patch=patch, cpu_runtime=runtime, hash=text)
    other = Library()
    other.dnnl_version = lambda: version
    load.load = lambda: (handle, SimpleNamespace(ffi=ffi, lib=other, __file__=extension.__file__))
    lib.dnnl_set_primitive_cache_capacity(capacity)
    lib.dnnl_graph_set_compiled_partition_cache_capacity(7)
    lib.dnnl_graph_set_constant_tensor_cache(0)
    del sys.modules["onegraph.native.library"]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            import onegraph.native.library as found
        except Exception as error:
            told = [type(error).__name__, str(error)]
        else:
            read = [found.read(function, "int") for function in (
                lib.dnnl_get_primitive_cache_capacity, lib.dnnl_graph_get_compiled_partition_cache_capacity,
                lib.dnnl_graph_get_constant_tensor_cache)]
            has_openmp = found.omp_function("omp_get_max_threads") is not None
            told = [found.VERSION, found.HASH, found.RUNTIME, found.HASHES_CONSTANTS, found.LEAST_PRIMITIVES, *read,
                    has_openmp, found.has_compiled(), [one.filename for one in warned]]
    print(json.dumps(told), flush=True)
    os._exit(0)
"""
# Numbers of the version, the runtime, the capacity of the cache of primitives before, and the hash; and what is found:
# the hash, the name of the runtime, whether constants are hashed, the least capacity, the capacity, and warnings.
VERSIONS = [
    ((3, 2, 0, 2, 1024, "ab"), ["ab", "OpenMP", False, 1024, 1024, 0]),
    ((3, 2, 5, 1, 1023, None), ["", "sequential", False, 1024, 1024, 0]),
    ((3, 3, 0, 4, 1, "a"), ["a", "TBB", True, 1024, 1024, 0]),
    ((3, 5, 9, 0, 0, "a"), ["a", "none", True, 1024, 0, 0]),
    ((3, 6, 0, 8, 1, "a"), ["a", "thread pool", True, 0, 1, 0]),
    ((3, 10, 0, 512, 0, "a"), ["a", "SYCL", True, 0, 0, 1]),
    ((3, 13, 0, 99, 2000, "a"), ["a", "99", True, 0, 2000, 0]),
    ((3, 1, 9, 2, 0, "a"), "is oneDNN 3.1.9; onegraph needs version 3, from 3.2 on; run: pip install"),
    ((2, 9, 0, 2, 0, "a"), "is oneDNN 2.9.0; onegraph needs version 3"),
    ((4, 0, 0, 2, 0, "a"), "is oneDNN 4.0.0; onegraph needs version 3"),
]


def test_the_library_is_prepared_as_its_version_needs():
    lines = in_a_process(IMPORTS, json.dumps([given for given, _ in VERSIONS])).splitlines()
    for line, (given, wanted) in zip(lines, VERSIONS, strict=True):
        told = json.loads(line)
        if isinstance(wanted, str):
            assert told[0] == "LibraryError"
            assert wanted in told[1]
        else:
            *first, capacity, warned = wanted
            openmp = given[3] == 2 and library.RUNTIME == "OpenMP"
            assert told == [[*given[:3]], *first, capacity, 0, 1, openmp, False, ["<string>"] * warned]


# Calls ---------------------------------------------------------------------------------------------------------------


def test_enumerators_are_found_in_both_headers():
    assert library.enum_value("graph_op_", "relu") == library.lib.dnnl_graph_op_relu
    assert library.enum_value("graph_dump_mode_", "graph") == library.lib.onegraph_dump_mode_graph
    for name in ("nothing", "create"):  # a function is no enumerator
        with pytest.raises(KeyError, match=f"graph_graph_{name}"):
            library.enum_value("graph_graph_", name)
    assert library.enum_names("graph_op_", ("relu",)) == {library.lib.dnnl_graph_op_relu: "relu"}


def test_an_instruction_set_without_a_name_is_unknown(monkeypatch):
    number = library.enum_value("cpu_isa_", "avx2")
    monkeypatch.setattr(library, "lib", SimpleNamespace(dnnl_get_effective_cpu_isa=lambda: number))
    monkeypatch.setattr(library, "_isa_names", lambda prefix, names: {number: prefix} if names else {})
    assert [library.newest_isa(names) for names in (("avx2",), ())] == ["cpu_isa_", "unknown"]


HOST_TYPE = next(one for one in og.DataType if one.is_host)


@pytest.mark.parametrize(
    ("dtype", "version", "text"),
    [
        (og.f8_e4m3, (3, 4, 0), ""),
        (og.f8_e4m3, (3, 3, 9), "data type f8_e4m3 needs oneDNN 3.4; the loaded library is 3.3"),
        (HOST_TYPE, (9, 0, 0), f"no version of oneDNN has the data type {HOST_TYPE}; only host ops take it"),
    ],
)
def test_data_types_have_a_first_version(dtype, version, text, monkeypatch):
    monkeypatch.setattr(library, "VERSION", version)
    with pytest.raises(og.UnsupportedError) if text else nullcontext() as raised:
        assert library.dtype_value(dtype) == library.enum_value("", dtype.value)
    assert not text or str(raised.value) == text


def test_statuses_become_errors():
    def function(status):
        return status

    library.call(function, 0)
    assert library.call(function, 0) is None
    with pytest.raises(OutOfMemoryError) as raised:
        library.call(function, library.enum_value("", "out_of_memory"))
    assert (raised.value.function, raised.value.status) == ("function", "out_of_memory")
    names = {"success": 0, "last_impl_reached": 0, "not_required": 0, "unimplemented": og.errors.UnimplementedError}
    for name, kind in names.items():
        error = library.status_error("f", library.enum_value("", name))
        assert (type(error), error.status) == (kind or og.StatusError, name)
    unknown = library.status_error("f", 12345)
    assert (type(unknown), unknown.status) == (og.StatusError, "12345")
    lost = library.status_error("f", library.lib.onegraph_lost)
    assert type(lost) is og.StateError
    assert f"without the threads that oneDNN runs with ({library.RUNTIME})" in str(lost)


def test_results_are_read_from_the_last_argument_and_objects_from_the_first():
    def last(number, place):
        place[0] = number + 1
        return 0

    def first(place, number):
        place[0] = number + 2
        return 0

    assert library.read(last, "int", 4) == 5
    assert library.create(first, "int", 4) == 6
    assert library.address(library.ffi.cast("void *", 77)) == 77


def test_a_handle_destroys_its_object_before_its_parents():
    done, kept = [], library.ffi.new("char[]", 8)

    class Parent:
        def __del__(self):
            done.append("parent")

    handle = library.Handle(kept, lambda pointer: done.append(pointer == kept) or 0, Parent())
    gc.collect()
    assert done == []
    del handle
    assert done == [True, "parent"]


@pytest.mark.parametrize("name", ["omp_get_max_threads", "omp_nothing"])
def test_functions_of_openmp_are_those_of_its_runtime(name, monkeypatch):
    monkeypatch.setattr(library, "_handle", SimpleNamespace(omp_get_max_threads="found"))
    for runtime in ("OpenMP", "TBB"):
        monkeypatch.setattr(library, "RUNTIME", runtime)
        wanted = "found" if runtime == "OpenMP" and name == "omp_get_max_threads" else None
        assert library.omp_function(name) == wanted


def test_a_compilation_is_noted_once(monkeypatch):
    asked = []
    monkeypatch.setattr(library, "_compiled", [False])
    monkeypatch.setattr(library, "refuse_inner", lambda lock, subject: asked.append((lock, subject)))
    assert not library.has_compiled()
    for _ in range(2):
        library.begin_compilation()
        assert library.has_compiled()
    assert asked == [(library.before_compilation, "the constant tensor cache")]


# The state of modules ------------------------------------------------------------------------------------------------

CHILD = "after_in_child"
# By module, which functions forks call, and what modules hold before anything has happened.
BEGINNINGS = {
    "_util.collector_pause": ({CHILD: "_after_fork"}, {"_freezes": False, "_pausing": set()}),
    "_util.first_imports": ({}, {"_is_over": False, "_before": None}),
    "_util.fork_safety": ({CHILD: "_free_locks"}, {}),
    "_util.late_imports": (
        {"before": "_before_fork", "after_in_parent": "_after_fork", CHILD: "_after_fork_in_child"},
        {"_imported": set(), "_got": {}},
    ),
    "capi.caches": ({}, {"_capacity_changes": [0], "_hashed": [False], "_broken": [False]}),
    "capi.tensor": ({CHILD: "_end_executions"}, {}),
    "capi.thread_affinity": ({CHILD: "_forget_thread"}, {}),
    "native.gc_pause": ({CHILD: "_after_fork"}, {"_pausing": set()}),
}


def begun(name, monkeypatch):
    """A module that is imported beside the one in use, and the functions that forks are to call."""
    called = {}
    monkeypatch.setattr(os, "register_at_fork", called.update)
    spec = find_spec(f"onegraph.{name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, {when: function.__name__ for when, function in called.items()}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_modules_begin_without_a_past(name, monkeypatch):
    module, called = begun(name, monkeypatch)
    functions, state = BEGINNINGS[name]
    assert (called, {key: getattr(module, key) for key in state}) == (functions, state)


@pytest.mark.parametrize(
    ("runtime", "openmp", "called"),
    [
        ("OpenMP", True, {CHILD: "_after_fork"}),
        ("TBB", False, {CHILD: "_after_fork"}),
        ("SYCL", False, {CHILD: "_after_fork"}),
        ("sequential", False, {}),
    ],
)
def test_children_look_for_threads_of_the_runtime(runtime, openmp, called, monkeypatch):
    monkeypatch.setattr(library, "RUNTIME", runtime)
    monkeypatch.setattr(library, "omp_function", lambda name: (lambda number: 0) if openmp else None)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    module, found = begun("capi.threads", monkeypatch)
    assert (found, module._forked, module.MAX_THREADS) == (called, set(), 64)
    monkeypatch.setattr(os, "cpu_count", lambda: 65)
    assert begun("capi.threads", monkeypatch)[0].MAX_THREADS == 65


# The collector -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_collector_pauses_for_one_function(enabled, fails, monkeypatch):
    own = threading.get_ident()
    monkeypatch.setattr(gc_pause, "_pausing", set())

    def make():
        seen.append((gc.isenabled(), {*gc_pause._pausing}))
        if fails:
            raise KeyError("no")
        return 7

    seen, before = [], gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError) if fails else nullcontext():
            assert gc_pause.without_collector(make) == 7
        assert (gc.isenabled(), gc_pause._pausing) == (enabled, set())
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [(False, {own} if enabled else set())]


@pytest.mark.parametrize(("pausing", "enables"), [((), False), (("own",), False), ((-1,), True), (("own", -1), False)])
def test_a_child_collects_unless_its_thread_pauses(pausing, enables, monkeypatch):
    enabled, own = [], threading.get_ident()
    threads = {own if one == "own" else one for one in pausing}
    monkeypatch.setattr(gc_pause, "gc", SimpleNamespace(enable=lambda: enabled.append(1)))
    monkeypatch.setattr(gc_pause, "_pausing", {*threads})
    gc_pause._after_fork()
    assert (len(enabled), gc_pause._pausing) == (enables, threads & {own})


# Digests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize(("processors", "threads"), [(1, 1), (3, 3), (9, 4)])
def test_a_file_is_read_by_few_threads(is_mapped, processors, threads, monkeypatch, tmp_path):
    asked = []
    path, size = tmp_path / "file", digests.CHUNK + 1
    path.write_bytes(b"1" * (size + 2))
    monkeypatch.setattr(digests.os, "sched_getaffinity", lambda process: range(processors) if process == 0 else ())
    monkeypatch.setattr(digests, "lib", SimpleNamespace(onegraph_digest=lambda *given: asked.append(given) or 0))
    with path.open("rb") as file:
        given = MappedFile.of(file.fileno(), path) if is_mapped else file.fileno()
        digests.digest_of(given, 2, size)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)) if is_mapped else nullcontext():
            digests.digest_of(given, 3, size)  # the library says what is missing of a file that it reads
        assert len(asked) == 2 - is_mapped
        ((descriptor, address, *numbers, memory),) = asked[:1]
        assert (descriptor, address) == ((given.descriptor, given.address) if is_mapped else (file.fileno(), 0))
    assert numbers == [2, size, threads]
    assert len(library.ffi.buffer(memory)) == 2 * digests.SIZE


@pytest.mark.parametrize(
    ("changed", "found", "known"), [(0.0, ["a"], True), (0.02, ["a"], True), (0.03, ["a"], False), (0.0, [], False)]
)
def test_sources_are_older_than_the_process(changed, found, known, monkeypatch):
    started, asked = 1_000_000.0, []

    def digest(count, names, place, times):
        asked.append((count, names))
        times[0] = int(1e9 * (started + changed)) - 1000
        return 0

    monkeypatch.setattr(digests, "_started", lambda: started)
    monkeypatch.setattr(digests, "_sources", lambda folder: [f"{folder}/{name}" for name in found])
    monkeypatch.setattr(digests, "_versions", lambda: ["/v"])
    monkeypatch.setattr(digests, "lib", SimpleNamespace(onegraph_digest_files=digest))
    made = digests.package_digest.__wrapped__()
    assert (made is not None) is known
    names = [f"{digests.PACKAGE}/{name}" for name in found]
    assert asked == [(len(found) + 1, b"".join(f"{name}\0".encode() for name in (*names, "/v")))]
    empty = bytearray(2 * digests.SIZE)
    assert not known or made == digests._joined(empty, ["a"], sys.version, np.__version__)
    assert digests._joined(empty) != digests._joined(empty, 1)


@pytest.mark.parametrize("error", [OSError(5, "x"), ValueError("x")])
def test_sources_that_cannot_be_read_have_no_digest(error, monkeypatch):
    def fail(folder):
        raise error

    monkeypatch.setattr(digests, "_sources", fail)
    assert digests.package_digest.__wrapped__() is None
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        digests._refuse(errno.EIO)
    digests._refuse(0)


def test_a_process_knows_when_it_has_started():
    assert digests.package_digest() is None or len(digests.package_digest()) == 32
    before = time.time() - 0.05
    child = in_a_process("import time; from onegraph.native import digests; print(digests._started() - time.time())")
    assert before - time.time() - 1 < float(child) <= 0.01
    assert digests._started() < before


# Libraries beside others ---------------------------------------------------------------------------------------------

MAPS = """\
7f00-7f01 r-xp 00000000 08:01 123 /opt/a b/lib/libsycl.so.8
7f02-7f03 rw-p 00000000 00:00 0
7f04-7f05 r-xp 00000000 08:01 124 /opt/lib/libother.so
7f06-7f07 r-xp 00000000 08:01 125 /opt/lib/libother.so.2
"""


@pytest.mark.parametrize(
    ("name", "path"),
    [("libsycl.so", "/opt/a b/lib/libsycl.so.8"), ("libother", "/opt/lib/libother.so"), ("sycl", None), ("lib/", None)],
)
def test_loaded_libraries_are_found_by_their_names(name, path, monkeypatch):
    monkeypatch.setattr(siblings.Path, "read_text", lambda self: MAPS)
    assert siblings._mapped(name) == (None if path is None else Path(path))

    def fail(self):
        raise PermissionError

    monkeypatch.setattr(siblings.Path, "read_text", fail)
    assert siblings._mapped(name) is None


def test_libraries_lie_beside_others_or_in_folders_of_libraries(tmp_path, monkeypatch):
    monkeypatch.setattr(siblings.sys, "prefix", "/environment")
    folders = [*siblings._folders(Path("/a/b/c/d/libx.so"))]
    assert [*map(str, folders)] == ["/a/b/c/d", "/a/b/c/d/lib", "/a/b/c/lib", "/a/b/lib", "/environment/lib"]
    path = tmp_path / "b" / "libx.so"
    assert siblings._find("liby.so", path) is None
    (tmp_path / "lib" / "liby.so").mkdir(parents=True)
    assert siblings._find("liby.so", path) is None
    (tmp_path / "b" / "lib").mkdir(parents=True)
    (tmp_path / "b" / "lib" / "liby.so").touch()
    assert siblings._find("liby.so", path) == tmp_path / "b" / "lib" / "liby.so"
    (tmp_path / "b" / "liby.so").touch()
    assert siblings._find("liby.so", path) == tmp_path / "b" / "liby.so"


@pytest.mark.parametrize("place", ["sycl", "own", "none"])
def test_a_runtime_of_opencl_lies_beside_either_library(place, monkeypatch, tmp_path):
    for name in ("sycl", "own", "none"):
        (tmp_path / name).mkdir()
    runtime = tmp_path / place / siblings.OPENCL_RUNTIME
    runtime.touch() if place != "none" else runtime.mkdir()
    environment = {}
    monkeypatch.setattr(siblings, "os", SimpleNamespace(environ=environment))
    monkeypatch.setattr(siblings, "_folders", lambda path: [path.parent, tmp_path / "none"])
    monkeypatch.setattr(siblings, "_mapped", lambda name: tmp_path / "sycl" / "libsycl.so.8")
    siblings.provide_opencl(tmp_path / "own" / "libdnnl.so.3")
    assert environment == ({} if place == "none" else {siblings.OPENCL: str(runtime)})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("libx.so.1: cannot open shared object file: No such file", "libx.so.1"),
        ("libx.so: cannot open shared object file", "libx.so"),
        ("/a/libx.so.1: cannot open shared object file", "/a/libx.so.1"),
        ("libx.so.1: wrong ELF class", None),
        ("first libx.so.1: cannot open shared object file", None),
    ],
)
def test_a_missing_library_is_named_by_the_loader(text, name, monkeypatch, tmp_path):
    assert siblings.missing_library(OSError(text)) == name
    monkeypatch.setattr(siblings.ctypes, "CDLL", Mock(side_effect=OSError(text)))
    with pytest.raises(OSError, match=re.escape(text)):
        siblings.load_with_siblings(tmp_path / "own.so")
    assert siblings.advice("libtbb.so.12").startswith("this library runs by SYCL: run pip install dpcpp-cpp-rt")


# The library itself --------------------------------------------------------------------------------------------------


def test_a_library_is_looked_for_once(monkeypatch, tmp_path):
    (tmp_path / "libx.so").touch()
    names, kept = [], []

    def load_library(path):
        names.append(Path(path).name)
        if names[-1] == "own.so" and len(names) < 9:
            raise OSError("libx.so: cannot open shared object file: No such file or directory")
        return names[-1]

    monkeypatch.setattr(siblings, "ctypes", SimpleNamespace(CDLL=load_library))
    monkeypatch.setattr(siblings, "_loaded", kept)
    with pytest.raises(OSError, match="libx"):
        siblings.load_with_siblings(tmp_path / "own.so")
    assert (names, kept) == (["own.so", "libx.so", "own.so"], ["libx.so"])


def test_the_wheel_is_found_in_the_paths_of_python(monkeypatch, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        (folder / "onednn_cpu_gomp-1.dist-info").mkdir(parents=True)
        (folder / "onednn-cpu-gomp-1.dist-info").mkdir()
    monkeypatch.setattr(load, "sys", SimpleNamespace(path=[str(tmp_path), str(second), str(first)]))
    assert load._find_wheel() == second / "onednn_cpu_gomp-1.dist-info"
    monkeypatch.chdir(first)
    monkeypatch.setattr(load, "sys", SimpleNamespace(path=[""]))
    assert load._find_wheel() == Path("onednn_cpu_gomp-1.dist-info")
    monkeypatch.setattr(load, "sys", SimpleNamespace(path=[str(tmp_path)]))
    assert load._find_wheel() is None


def test_the_library_is_that_of_the_environment_or_of_the_wheel(monkeypatch, tmp_path):
    library_file, link = tmp_path / "x" / load.SONAME, tmp_path / "link"
    library_file.parent.mkdir()
    library_file.touch()
    (tmp_path / "other.so").touch()
    link.symlink_to(library_file)
    (tmp_path / "y.dist-info").mkdir()
    (tmp_path / "y.dist-info" / "RECORD").write_text(f"other.so,,\n{load.SONAME},1,2\nx/{load.SONAME},sha,3\n")
    monkeypatch.setattr(load, "_find_wheel", lambda: tmp_path / "y.dist-info")
    for chosen in (str(link), ""):
        monkeypatch.setenv(load.VARIABLE, chosen)
        assert load._find_library() == library_file.resolve()
    monkeypatch.setenv(load.VARIABLE, str(tmp_path))
    with pytest.raises(og.LibraryError, match=f"ONEGRAPH_LIBRARY is {str(tmp_path)!r}, which is not a file"):
        load._find_library()
    monkeypatch.delenv(load.VARIABLE)
    monkeypatch.setattr(load, "_find_wheel", lambda: None)
    with pytest.raises(og.LibraryError, match=r"the oneDNN library is not installed; .*onegraph\.reference\.run"):
        load._find_library()


@pytest.mark.parametrize(("system", "machine", "has"), [("Linux", "x86_64", True), ("Linux", "arm", False)])
def test_systems_with_a_wheel_miss_a_part_of_it(system, machine, has):
    assert load.has_wheel(system, machine) is has
    assert load._missing_extension(system, machine).startswith("the compiled part of onegraph") is has


@pytest.mark.parametrize(
    ("functions", "error", "text"),
    [
        ((), None, "is not a oneDNN library; run: pip install"),
        (("dnnl_version",), None, "is a oneDNN library without the graph API; run: pip install"),
        (
            ("dnnl_version", "dnnl_graph_graph_create"),
            ImportError("undefined"),
            "does not fit .*: undefined; reinstall",
        ),
        (("dnnl_version", "dnnl_graph_graph_create"), None, ""),
    ],
)
def test_a_file_is_a_library_with_the_graph_api(functions, error, text, monkeypatch, tmp_path):
    provided, handle = [], SimpleNamespace(**dict.fromkeys(functions))

    def imported(name):
        if error is not None:
            raise error
        return name

    monkeypatch.setattr(load, "find_spec", lambda name: name)
    monkeypatch.setattr(load, "_find_library", lambda: tmp_path / "x.so")
    monkeypatch.setattr(load, "_refuse_cut_off", provided.append)
    monkeypatch.setattr(load, "load_with_siblings", lambda path: handle)
    monkeypatch.setattr(load, "provide_opencl", provided.append)
    monkeypatch.setattr(load, "import_module", imported)
    with pytest.raises(og.LibraryError, match=text) if text else nullcontext():
        assert load.load() == (handle, load.EXTENSION)
    assert provided == [tmp_path / "x.so"] * 2
