"""The C extension: complete declarations, clear errors without a library, object lifetimes, settings."""

import gc
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import SANITIZED
from helpers.executables import in_a_process

import onegraph as og
from onegraph import capi
from onegraph.capi.settings import has_avx512
from onegraph.native import gc_pause, library
from onegraph.runtime import plan

ROOT = Path(__file__).resolve().parents[2]
NOT_DECLARED = {
    "dnnl_graph_sycl_interop_allocator_create": "SYCL only; a CPU build has nothing behind it",
    "dnnl_graph_sycl_interop_make_engine_with_allocator": "SYCL only; a CPU build has nothing behind it",
    "dnnl_graph_sycl_interop_compiled_partition_execute": "SYCL only; a CPU build has nothing behind it",
    "dnnl_graph_set_constant_tensor_cache_capacity": "newer than the headers: looked up by name in settings",
    "dnnl_graph_get_constant_tensor_cache_capacity": "newer than the headers: looked up by name in settings",
    "dnnl_graph_op_get_attr_f32": "newer than the headers; onegraph keeps the attributes itself",
    "dnnl_graph_sycl_interop_compiled_partition_execute_v2": "SYCL only; a CPU build has nothing behind it",
    "dnnl_graph_compiled_partition_execute_v2": "newer than the headers: scratch memory of the caller's own",
    "dnnl_graph_compiled_partition_get_scratchpad_logical_tensor": "newer than the headers: how much of that",
    "dnnl_graph_graph_get_fpmath_mode": "newer than the headers: looked up by name in capi",
    "dnnl_graph_graph_set_fpmath_mode": "newer than the headers: looked up by name in capi",
    "dnnl_graph_set_dump_mode": "newer than the headers: looked up by name in capi",
    "dnnl_graph_tensor_create_scalar": "newer than the headers: looked up by name in capi",
    "dnnl_graph_tensor_get_logical_tensor": "newer than the headers: looked up by name in capi",
}
NOT_CALLED = {
    "dnnl_graph_graph_create": "dnnl_graph_graph_create_with_fpmath_mode does the same and more",
    "dnnl_engine_destroy": "engines are never destroyed: kernels and caches may outlive every owner",
}


# These functions look up a constant.
UNGUARDED = {"dnnl_version", "dnnl_get_effective_cpu_isa", "dnnl_get_cpu_isa_hints"}


def declared(*headers):
    text = "".join((ROOT / "include" / name).read_text() for name in headers)
    return set(re.findall(r"\b(dnnl_\w+)\(", text))


def exported():
    names = re.findall(rb"\0(dnnl_graph_\w+)(?=\0)", Path(library.PATH).read_bytes())
    return {name.decode() for name in names}


def child(code, *arguments, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_every_library_function_is_declared_or_listed():
    found = exported()
    assert len(found) > 50
    missing = found - declared("dnnl_graph.h") - set(NOT_DECLARED)
    assert not missing, f"declare these in include/dnnl_graph.h, or list them with a reason: {sorted(missing)}"
    if library.VERSION[:2] == (3, 2):
        assert declared("dnnl_graph.h") <= found


def test_every_declared_function_is_called_or_listed():
    package = ROOT / "onegraph"
    sources = "".join(path.read_text() for room in ("", "capi/", "native/") for path in package.glob(f"{room}*.py"))
    names = declared("dnnl.h", "dnnl_common.h", "dnnl_graph.h")
    in_c = "".join(path.read_text() for path in package.glob("native/csrc/**/*.cpp"))
    unused = {n for n in names if not re.search(rf"\blib\.{n}\b", sources) and not re.search(rf"\b{n}[(>]", in_c)}
    assert unused == set(NOT_CALLED)


def test_every_declared_function_guards_exceptions():
    headers = [ROOT / "include" / name for name in ("dnnl.h", "dnnl_common.h", "dnnl_graph.h")]
    guarded = {name for path in headers for name in re.findall(r"^dnnl_status_t (dnnl_\w+)\(", path.read_text(), re.M)}
    assert declared(*headers) - guarded == UNGUARDED


def test_every_declared_function_exists():
    for name in declared("dnnl.h", "dnnl_common.h", "dnnl_graph.h"):
        assert callable(getattr(library.lib, name))


@pytest.mark.parametrize("what", ["missing", "directory", "text", "other"])
def test_wrong_library_gives_a_clear_error(what, tmp_path):
    text = tmp_path / "libdnnl.so.3"
    text.write_text("not a library")
    other = next(Path("/").glob("lib/x86_64-linux-gnu/libm.so.6"), None) or next(Path("/").glob("usr/lib*/libm.so.6"))
    path = {"missing": tmp_path / "none.so", "directory": tmp_path, "text": text, "other": other}[what]
    code = """
import onegraph as og
graph = og.Graph()
graph.output("y", graph.relu(graph.input("x", "f32", (2,))))   # needs no library
assert og.check_op("ReLU", inputs=[("f32", (2,))]) == []
try:
    graph.compile()
except og.LibraryError as error:
    print(error)
"""
    done = child(code, ONEGRAPH_LIBRARY=str(path))
    assert done.returncode == 0, done.stderr
    assert str(path.resolve()) in done.stdout or str(path) in done.stdout
    assert "pip install onednn-cpu-gomp" in done.stdout
    assert "oneDNN" in done.stdout


def test_cpp_exceptions_become_errors():
    code = """
import numpy as np
from onegraph.faults import OPS
OPS.records.clear()
import onegraph as og
from onegraph import capi
lt = capi.LogicalTensor
attrs = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [2, 2], "groups": 1,
         "data_format": "NCX", "weights_format": "IOX"}
for _ in range(3):
    op = capi.Op(1, "ConvTransposeBackwardData", inputs=[lt(0, "f32", (1, 2, 9, 9)), lt(1, "f32", (2, 2, 3, 3))],
                 outputs=[lt(2, "f32")], attrs=attrs)
    try:
        capi.Partition.from_op(op).compile()
    except og.LibraryRuntimeError as error:
        assert error.function == "dnnl_graph_partition_compile" and error.status == "runtime_error"
        print(error.what)
try:  # the text of an exception is not given to the next failure
    from onegraph.native import library
    library.call(library.lib.dnnl_set_verbose, 77)
except og.StatusError as error:
    assert error.what == ""
graph = og.Graph()
graph.output("y", graph.relu(graph.input("x", "f32", (2,))))
print(graph.compile()(np.array([-1, 1], np.float32)))
"""
    done = child(code)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # 3.2 has "a" before the kind of primitive, later versions "the", and some add what to do.
    assert len(set(lines[:3])) == 1
    assert "could not create a primitive descriptor for" in lines[0]
    assert "deconvolution" in lines[0]
    assert lines[3] == "[0. 1.]"


LIFE = """
import gc, itertools, random, sys
import numpy as np
from onegraph import capi
from onegraph.native import library
from onegraph.runtime import plan
def make():
    lt = capi.LogicalTensor
    engine = capi.Engine(allocator=capi.Allocator())
    ts = [lt(i, "f32", (16, 16)) for i in range(3)]
    op = capi.Op(1, "MatMul", inputs=ts[:2], outputs=ts[2:])
    graph = capi.Graph(); graph.add_op(op); graph.finalize()
    partition = graph.partitions("debug")[0]
    compiled = partition.compile(engine=engine)
    stream = capi.Stream(engine)
    tensors = [capi.Tensor(t, np.ones((16, 16), np.float32), engine) for t in ts]
    return {"engine": engine, "op": op, "graph": graph, "partition": partition, "compiled": compiled,
            "stream": stream, "tensors": tensors}
"""


def test_objects_may_be_deleted_in_every_order():
    code = f"""{LIFE}
names = ["engine", "op", "graph", "partition", "compiled", "stream", "tensors"]
rng = random.Random(1)
orders = [rng.sample(names, len(names)) for _ in range(24)] + [names, names[::-1]]
gc.collect()
gc.freeze()  # the collections pass over what the imports have made
for order in orders:
    held = make()
    for name in order:
        if {{"compiled", "stream", "tensors"}} <= set(held):
            held["compiled"].execute(held["stream"], held["tensors"][:2], held["tensors"][2:])
            assert (held["tensors"][2].data == 16).all()
        del held[name]
        gc.collect()
print("done")
"""
    assert in_a_process(code) == "done\n"


def test_releasing_an_executable_calls_no_python():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (4,))))
    held, called = [graph.compile()], []
    assert held[0](np.ones(4, np.float32)).tolist() == [1, 1, 1, 1]
    idle = len(plan._idle)
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        held.clear()
    finally:
        sys.setprofile(None)
    assert not [file for file in called if "onegraph" in file]
    assert len(plan._idle) == idle + 1  # the stream is free for the next executable


def test_keeps_objects_frozen_by_others():
    code = """
import gc
import onegraph as og
g = og.Graph()
g.output("y", g.relu(g.input("x", "f32", (2, 2))))
kept = [g.compile()]
assert gc.get_freeze_count() == 0 and gc.isenabled()
gc.freeze()
count = gc.get_freeze_count()
for _ in range(3):
    kept.append(g.compile())
    assert count - 4 < gc.get_freeze_count() <= count and gc.isenabled()  # a frozen object may be freed
gc.unfreeze()
kept.append(g.compile())
assert gc.get_freeze_count() == 0 and gc.isenabled()
print("right")
"""
    done = child(code)
    assert (done.stdout, done.returncode) == ("right\n", 0), done.stderr


def test_destructors_may_use_objects_of_their_cycle():
    """The garbage collector finalizes the oldest object first; here the object with the destructor is the newest."""
    code = f"""{LIFE}
import onegraph as og
gc.disable()
ones, lent = np.ones((4, 4), np.float32), []
def graph(rows, power):
    g = og.Graph()
    y = g.relu(g.input("x", "f32", (rows, 4)))
    g.output("y", g.relu(g.pow(y, beta=1.5)) if power else y)  # numpy computes the power
    return g
class Last:
    def __init__(self, use, **held):
        vars(self).update(held, use=use, self=self)
    def __del__(self):
        self.use(self)
        lent.append(self)
def one_to_one(s):
    assert s.graph.finalized and s.op.id == 1 and s.partition.supported and len(s.graph.partitions()) == 1
    assert s.partition.compile().inplace_pairs == s.compiled.inplace_pairs and s.stream.engine is s.engine
    s.compiled.execute(s.stream, s.tensors[:2], s.tensors[2:])
    s.tensors[0].set_data_handle(np.ones((16, 16), np.float32))
    assert (s.tensors[2].data == 16).all() and s.tensors[2].data_handle == s.tensors[2].data.ctypes.data
def whole(s):
    assert (s.model(ones) == 1).all() and (s.run() == 1).all() and s.model.profile(ones, runs=1).runs == 1
for used_before in (False, True):
    holders = [Last(one_to_one, **make())]
    for rows, power in itertools.product((4, None), (False, True)):
        model = graph(rows, power).compile()
        holders.append(Last(whole, model=model, run=model.bind(x=ones)))
    for holder in holders if used_before else ():
        holder.use(holder)
    count, holder, model = len(holders), None, None
    holders.clear()
    gc.collect()
    assert len(lent) == count
    for holder in lent:  # which the destructor has kept alive
        holder.use(holder)
    lent.clear()
print("done")
"""
    assert in_a_process(code) == "done\n"


@pytest.mark.parametrize("ending", ["", "held['self'] = held", "sys.exit(0)", "raise SystemExit", "gc.disable()"])
def test_interpreter_may_exit_with_live_objects(ending):
    code = (
        f"{LIFE}\nheld = make()\nheld['compiled'].execute(held['stream'], held['tensors'][:2], held['tensors'][2:])\n"
    )
    code += f"module_level = make(); sys.kept = make()\nprint('done', flush=True)\n{ending}\n"
    done = child(code)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_compiled_partitions_keep_their_parents():
    lt = capi.LogicalTensor
    graph = capi.Graph()
    graph.add_op(capi.Op(1, "ReLU", inputs=[lt(0, "f32", (4,))], outputs=[lt(1, "f32", (4,))]))
    graph.finalize()
    compiled = graph.partitions()[0].compile()
    data, out = np.array([-1, 0, 1, 2], np.float32), np.empty(4, np.float32)
    tensors = [capi.Tensor(t, a) for t, a in zip((*compiled.inputs, *compiled.outputs), (data, out), strict=True)]
    del graph, data
    gc.collect()
    compiled.execute(capi.Stream(), tensors[:1], tensors[1:])
    assert out.tolist() == [0, 0, 1, 2]


def test_memory_does_not_grow():
    code = f"""{LIFE}
import resource
for number in itertools.count():
    make()
    if number == 20:
        first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if number == 120:
        break
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first)
"""
    assert int(in_a_process(code)) < 30_000, (
        "kilobytes"
    )  # engines are never destroyed; a leaked kernel would take far more


# Settings of the process, each in another process ---------------------------------------------------------------------


FEW_PRIMITIVES = """
from onegraph import capi
from onegraph.native.library import lib
lib.dnnl_set_primitive_cache_capacity(1)
ends = [capi.LogicalTensor(0, "f32", (4, 16)), capi.LogicalTensor(1, "f32", (16, 8), property="constant")]
ends += [capi.LogicalTensor(2, "f32"), capi.LogicalTensor(3, "f32")]
for _ in range(20):
    graph = capi.Graph()
    graph.add_op(capi.Op(0, "MatMul", inputs=ends[:2], outputs=ends[2:3]))
    graph.add_op(capi.Op(1, "ReLU", inputs=ends[2:3], outputs=ends[3:]))
    graph.finalize()
    graph.partitions()[0].compile()
"""


def test_small_primitive_cache_capacity():
    is_old = library.VERSION < (3, 6)
    if not SANITIZED:
        expected = -signal.SIGSEGV if is_old and has_avx512() else 0
        # Freed memory is overwritten; what the library finds there depends on chance.
        ends = (child(FEW_PRIMITIVES, MALLOC_PERTURB_="165").returncode for _ in range(4))
        assert expected in ends
    code = "from onegraph import capi; print(capi.get_primitive_cache_capacity())"
    kept = child(code, ONEDNN_PRIMITIVE_CACHE_CAPACITY="3")
    assert kept.stdout.split() == ["1024" if is_old else "3"], kept.stderr
    if is_old:
        with pytest.raises(og.UnsupportedError, match=r"capacity: 7; .* expected 0, or 1024 and more"):
            capi.set_primitive_cache_capacity(7)


def test_settings_round_trip():
    code = """
from onegraph import capi
from onegraph.native import library
from onegraph.runtime import plan
import onegraph as og
capi.set_constant_tensor_cache(False); assert capi.get_constant_tensor_cache() is False
capi.set_constant_tensor_cache(True); assert capi.get_constant_tensor_cache() is True
capi.set_primitive_cache_capacity(2048); assert capi.get_primitive_cache_capacity() == 2048
capi.set_compiled_partition_cache_capacity(3); assert capi.get_compiled_partition_cache_capacity() == 3
capi.set_compiled_partition_cache_capacity(0)
for mode in ("bf16", "f16", "any", "tf32", "strict"):
    capi.set_default_fpmath_mode(mode); assert capi.get_default_fpmath_mode() == mode
capi.set_verbose(0)
capi.set_cpu_isa_hints("prefer_ymm"); assert capi.get_cpu_isa_hints() == "prefer_ymm"
capi.set_max_cpu_isa("avx2"); assert capi.get_cpu_isa() in ("sse41", "avx", "avx2")
for late in (lambda: capi.set_max_cpu_isa("avx"), lambda: capi.set_cpu_isa_hints("no_hints")):
    try:
        late()
    except og.StateError as error:
        assert "before the library is first used" in str(error)
    else:
        raise AssertionError
for bad in (lambda: capi.set_max_cpu_isa("mmx"), lambda: capi.set_default_fpmath_mode("f64"),
            lambda: capi.set_verbose(3), lambda: capi.set_cpu_isa_hints(None), lambda: capi.set_num_threads(0)):
    try:
        bad()
    except og.ArgumentError as error:
        assert "expected" in str(error)
    else:
        raise AssertionError
if library.RUNTIME == "OpenMP":
    capi.set_num_threads(1); assert capi.get_num_threads() == 1
else:
    assert capi.get_num_threads() is None
    try:
        capi.set_num_threads(1)
    except og.UnsupportedError as error:
        assert "only OpenMP's can be set" in str(error)
    else:
        raise AssertionError
"""
    done = child(code)
    assert done.returncode == 0, done.stderr


def test_first_compilation_fixes_the_constant_cache():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (2,))))
    graph.compile()
    capi.set_constant_tensor_cache(capi.get_constant_tensor_cache())
    with pytest.raises(og.StateError, match="before anything is compiled"):
        capi.set_constant_tensor_cache(not capi.get_constant_tensor_cache())


SWITCH = """
import os
import signal
import sys

import onegraph as og
from onegraph import capi

PAST, compiled = 3, []  # the status where the call ends before the moment
for moment in range(1, 40):  # in a process of its own each
    if not (child := os.fork()):
        break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, PAST), (moment, status)
    if status == PAST:
        sys.exit(print(moment))
else:
    sys.exit("at no moment")
ends = [capi.LogicalTensor(number, "f32", (4,)) for number in range(2)]


def handler(*_):
    try:
        capi.Partition.from_op(capi.Op(0, "ReLU", inputs=ends[:1], outputs=ends[1:])).compile()
        compiled.append(capi.get_constant_tensor_cache())
    except og.StateError as error:
        assert "the constant tensor cache: this thread is in the midst of changing it" in str(error), error


def watch(frame, event, argument):
    global moment
    if frame.f_code.co_name in ("set_constant_tensor_cache", "call"):
        moment -= 1
        if moment == 0:
            signal.raise_signal(signal.SIGUSR1)
    return watch


signal.signal(signal.SIGUSR1, handler)
sys.settrace(watch)
try:
    capi.set_constant_tensor_cache(not capi.get_constant_tensor_cache())
except og.StateError as error:
    assert "before anything is compiled" in str(error), error
finally:
    sys.settrace(None)
assert all(state == capi.get_constant_tensor_cache() for state in compiled)
sys.exit(PAST if moment > 0 else 0)
"""


def test_signal_handler_compilation_fixes_the_constant_cache():
    assert 5 < int(in_a_process(SWITCH)) < 39


def test_constant_cache_capacity_needs_a_newer_library():
    if library.VERSION >= (3, 4):
        assert capi.get_constant_tensor_cache_capacity() >= 0
    else:
        with pytest.raises(og.UnsupportedError, match=r"needs oneDNN 3\.4"):
            capi.get_constant_tensor_cache_capacity()
        with pytest.raises(og.UnsupportedError, match=r"needs oneDNN 3\.4"):
            capi.set_constant_tensor_cache_capacity(1)


def test_exceptions_of_newer_functions_become_a_status():
    assert library.newer_function("dnnl_version", "3.2").__name__ == "dnnl_version"
    with pytest.raises(og.UnsupportedError, match=r"dnnl_nothing needs oneDNN 9\.0; the loaded library is"):
        library.newer_function("dnnl_nothing", "9.0")
    throws = library.address(library.ffi.addressof(library.lib, "onegraph_host_allocate"))
    arguments = library.ffi.new("uintptr_t[7]", [1, (2**64 - 1) // 3])
    status = library.lib.onegraph_call_newer(throws, arguments)
    assert isinstance(library.status_error("f", status), og.errors.OutOfMemoryError)


def test_version_info():
    info = capi.version_info()
    assert info["version"] == ".".join(map(str, library.VERSION))
    assert Path(str(info["path"])).is_file()
    assert info["compiled_partition_cache_capacity"] == 0
    assert list(itertools.islice(info["dtypes"], 1)) == ["f32"]


def test_garbage_collector_resumes_between_overlapping_compilations(monkeypatch):
    def stopped_until_now():
        gc.enable()
        return False

    monkeypatch.setattr(gc_pause, "gc", SimpleNamespace(isenabled=stopped_until_now, disable=gc.disable))
    assert gc_pause.without_collector(gc.isenabled)
    assert gc.isenabled()
