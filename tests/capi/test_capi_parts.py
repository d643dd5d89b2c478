"""Parts of the objects of the C API on both sides of their conditions, with stand-ins for the library."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph import capi
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.capi import compilation, execution, logical_tensor, op_checks, op_template, partition, partition_checks
from onegraph.capi import engine as engines
from onegraph.capi import postponed as postponing
from onegraph.capi import tensor as tensors
from onegraph.capi.compilation import Compilation
from onegraph.errors import InvalidArgumentsError, OutOfMemoryError
from onegraph.inference.lenient import LenientInference
from onegraph.native import library
from onegraph.native.library import ffi
from onegraph.opset.editions.registry import BASE

lt = capi.LogicalTensor
F32 = np.float32


def made(kind, **attributes):
    """An object of a class that its constructor has not made, with these attributes."""
    new = object.__new__(kind)
    for name, one in attributes.items():
        setattr(new, name, one)
    return new


def op(kind, n_inputs, n_outputs, constant=(), shape=(4, 4)):
    ends = [lt(n, "f32", shape, property="constant" if n in constant else "undef") for n in range(n_inputs + n_outputs)]
    return capi.Op(1, kind, inputs=ends[:n_inputs], outputs=ends[n_inputs:])


# Compilations


def compiled_for(new, keeps=True):
    return Compilation(None, [new], new.inputs, new.outputs, capi.default_engine(), keeps)


@pytest.mark.parametrize(
    ("new", "properties"),
    [
        (op("MatMul", 2, 1, (1,)), "undef constant"),
        (op("MatMul", 2, 1, (0, 1)), "variable variable"),
        (op("MatMul", 2, 1), "undef undef"),
        (op("PReLUBackward", 3, 2, (1,)), "undef variable undef"),
        (op("LayerNormBackward", 4, 3, (1,)), "undef variable undef undef"),
    ],
    ids=["one constant", "constants alone", "none", "two results", "three results"],
)
@pytest.mark.parametrize("keeps", [False, True])
def test_constants_are_variables_where_the_library_would_lose_results(new, properties, keeps):
    found = compiled_for(new, keeps)
    assert [tensor.property for tensor in found.inputs] == properties.split()
    passed = properties if keeps else properties.replace("constant", "variable")
    assert [tensor.property for tensor in found._compiled] == passed.split()
    assert [one.property for one in found._ins] == [tensor._struct.property for tensor in found._compiled]
    assert found.keeps_constants is (keeps and "constant" in properties)
    assert len(found._outs) == len(new.outputs)


def test_constants_that_later_runs_would_overwrite_are_variables(monkeypatch):
    asked = []
    monkeypatch.setattr(compilation, "variables", lambda nodes, constants: asked.append(constants) or {0, 2})
    found = compiled_for(op("Select", 3, 1, (1, 2)))
    assert [tensor.property for tensor in found.inputs] == ["undef", "constant", "variable"]
    assert asked == [{1, 2}]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("kind", ["MatMul", "Quantize", "DynamicQuantize", "Dequantize", "DynamicDequantize"])
def test_the_first_run_may_keep_memory(constant, hashes, kind, monkeypatch):
    monkeypatch.setattr(compilation, "HASHES_CONSTANTS", hashes)
    found = compiled_for(op(kind, 2, 1, (1,) if constant else ()))
    assert found.prepares is (constant or hashes or kind != "MatMul")


@pytest.mark.parametrize("affects", [False, True])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("bound", [False, True])
def test_compilations_have_the_faults_of_their_ops(affects, strided, bound, monkeypatch):
    of_blocking = SimpleNamespace(affects=lambda version: affects, when=lambda kinds: strided and kinds == ["MatMul"])
    monkeypatch.setattr(compilation, "SHARED_BLOCKING", of_blocking)
    monkeypatch.setattr(compilation, "SCRATCH_OF_THE_THREAD", SimpleNamespace(when=lambda kinds: bound))
    found = compiled_for(op("MatMul", 2, 1))
    assert found._is_exclusive is (affects and strided)
    assert found.owner_thread is (compilation.calling_thread() if bound else None)
    assert found.threads == compilation.threads_now()


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    ("status", "error", "empties"),
    [
        (0, None, False),
        (3, InvalidArgumentsError("f", "s", "what it threw"), True),
        (3, InvalidArgumentsError("f", "s"), False),
        (3, og.StateError("lost"), False),
    ],
)
def test_caches_are_emptied_where_a_compilation_threw(bound, status, error, empties, monkeypatch):
    done, jobs = [], []
    monkeypatch.setattr(compilation, "compile_all", lambda *given: jobs.append(given) or [(["object"], status)])
    monkeypatch.setattr(compilation, "status_error", lambda name, number: done.append((name, number)) or error)
    monkeypatch.setattr(compilation, "empty_caches", lambda: done.append("emptied"))
    owner = SimpleNamespace(clear=lambda: done.append("cleared")) if bound else None
    one = made(Compilation, owner_thread=owner)
    with nullcontext() if error is None else pytest.raises(type(error)) as raised:
        assert one.make(2) == ["object"]
    assert error is None or raised.value is error
    asked = [("dnnl_graph_partition_compile", 3)] if status else []
    assert done == ["cleared"] * bound + asked + ["emptied"] * empties
    assert jobs == [([(one, 2)], 1)]


@pytest.mark.parametrize("of_stats", [False, True])
@pytest.mark.parametrize("readers", [1, 2])
def test_results_may_lie_over_inputs_that_one_op_reads(of_stats, readers, monkeypatch):
    pairs = ffi.new("dnnl_graph_inplace_pair_t[]", [(0, 2), (1, 3), (5, 6)])
    asked = []

    def listed(function, pointer, count, found):
        asked.append((function.__name__, pointer))
        count[0], found[0] = 2, pairs

    monkeypatch.setattr(compilation, "call", listed)
    monkeypatch.setattr(compilation, "STATS_IN_PLACE", SimpleNamespace(when=lambda nodes: of_stats))
    fields = {"name": "result of the query"}

    def filled(function, pointer, number):
        return SimpleNamespace(**fields, number=number, _struct=lt(number, "f32")._struct)

    monkeypatch.setattr(compilation, "LogicalTensor", SimpleNamespace(_filled=filled))
    ops = [op("MatMul", 2, 1), *[op("ReLU", 1, 1)] * (readers - 1)]
    ends = {"inputs": ops[0].inputs, "_given": ops[0].outputs}
    one = made(Compilation, ops=ops, _is_read=False, **ends)
    one.query("pointer")
    assert one.in_place == ({} if of_stats else {3: 1} if readers == 2 else {2: 0, 3: 1})
    assert [tensor.number for tensor in one.outputs] == [2]
    assert one.ports[:2] == (2, 1)
    assert [struct.id for struct in one.ports[2]] == [0, 1, 2]
    before = one.ports
    one.query("another")
    assert one.ports is before
    assert asked == [("dnnl_graph_compiled_partition_get_inplace_ports", "pointer")]


def test_several_partitions_are_compiled_at_once(monkeypatch):
    begun, asked = [], []
    monkeypatch.setattr(compilation, "begin_compilation", lambda: begun.append(1))
    engine = capi.default_engine()
    ends = {"_partition": SimpleNamespace(_ptr=ffi.cast("dnnl_graph_partition_t", 8)), "engine": engine}
    new, other = compiled_for(op("MatMul", 2, 1)), compiled_for(op("PReLUBackward", 3, 2))
    for number, one in enumerate((new, other)):
        one._partition, one.threads, one._is_exclusive = ends["_partition"], 2 + number, number == 0
        one.owner_thread = object() if number else None

    def compile_jobs(function, count, jobs, most):
        for job in jobs[0:count]:
            asked.append((job.count, job.n_inputs, job.n_outputs, job.threads, job.is_bound, job.is_exclusive))
            assert (job.partition, job.engine) == (ends["_partition"]._ptr, engine._ptr)
            assert job.inputs[0].id == 0
            assert job.outputs[0].id == job.n_inputs
            for place in range(job.count):
                job.compiled[place] = ffi.cast("dnnl_graph_compiled_partition_t", 16 * len(asked) + place)
        jobs[1].status = 3
        asked.append((function.__name__, count, most))

    monkeypatch.setattr(compilation, "call", compile_jobs)
    found = compilation.compile_all([(new, 2), (other, 1), (new, 1)], 5)
    addresses = [([library.address(one) for one in pointers], status) for pointers, status in found]
    assert addresses == [([16, 17], 0), ([], 3), ([48], 0)]
    jobs = [(2, 2, 1, 2, 0, 1), (1, 3, 2, 3, 1, 0), (1, 2, 1, 2, 0, 1)]
    assert (begun, asked) == ([1], [*jobs, ("onegraph_compile", 3, 5)])


@pytest.mark.parametrize(
    ("native", "advice"),
    [
        ((), "this CPU (avx2) has no f32 and s8; a onegraph.Graph computes in f32 there"),
        (("f32",), "this CPU (avx2) has no s8; a onegraph.Graph computes in f32 there"),
        (("f32", "s8"), "a onegraph.Graph finds another way"),
    ],
)
def test_a_refusal_names_the_types_that_the_cpu_lacks(native, advice, monkeypatch):
    monkeypatch.setattr(compilation, "is_native", lambda dtype: dtype.value in native)
    monkeypatch.setattr(compilation, "get_cpu_isa", lambda: "avx2")
    new = capi.Op(1, "TypeCast", inputs=[lt(0, "s8")], outputs=[lt(1, "f32")])
    found = compilation.refusal(InvalidArgumentsError("f", "s", "what"), "part", [new])
    assert type(found) is InvalidArgumentsError
    assert str(found) == f"f returned s: what: 'part': {advice}"


@pytest.mark.parametrize("interrupted", [False, True])
def test_caches_get_their_capacities_back(interrupted, monkeypatch):
    done = []

    def put(name):
        def changed(capacity):
            done.append((name, capacity))
            if interrupted and not capacity:
                raise KeyboardInterrupt

        return changed

    for name, capacity in (("primitive", 0), ("compiled_partition", 5)):
        monkeypatch.setattr(compilation, f"get_{name}_cache_capacity", lambda capacity=capacity: capacity)
        monkeypatch.setattr(compilation, f"set_{name}_cache_capacity", put(name))
    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        compilation.empty_caches()
    assert done == [("compiled_partition", 0), ("compiled_partition", 5)]


@pytest.mark.parametrize("status", [0, 3])
def test_postponed_partitions_are_compiled_some_at_a_time(status, monkeypatch):
    calls, owned, queried, emptied = [], [], [], []

    def compiled(jobs, most):
        calls.append((len(jobs), most))
        failed = status if len(calls) == 1 else 0
        return [([] if failed else [f"{one} {place}" for place in range(n)], failed) for one, n in jobs]

    monkeypatch.setattr(postponing, "compile_all", compiled)
    monkeypatch.setattr(postponing, "empty_caches", lambda: emptied.append(1))

    class Named(str):
        def query(self, pointer):
            queried.append(pointer)

    def group(name, count):
        one = Named(name)
        return [SimpleNamespace(_compilation=one, _own=owned.append) for _ in range(count)]

    count = postponing.AT_ONCE + 1
    statuses = postponing.compile_postponed([group(f"g{number}", 1 + number % 2) for number in range(count)], 3)
    assert statuses == [status] * (count - 1) + [0]
    assert calls == [(count - 1, 3), (1, 3)]
    done = range(count) if not status else [count - 1]
    assert owned == [f"g{number} {place}" for number in done for place in range(1 + number % 2)]
    assert queried == [f"g{number} 0" for number in done]
    assert len(emptied) == bool(status)


# Compiled partitions


def partition_of(new):
    found = made(capi.Partition, _graph_lock=nullcontext(), _op_ids=(1,), _graph_ops={1: new}, _strict=True)
    found._constants = {}
    return found


@pytest.fixture
def unchecked(monkeypatch):
    """Partitions are compiled by functions that tests give, without checks of the tensors."""
    new = op("MatMul", 2, 1)
    for name, ends in (("input_ports", new.inputs), ("output_ports", new.outputs)):
        monkeypatch.setattr(capi.Partition, name, property(lambda self, ends=ends: [*ends]))
    monkeypatch.setattr(capi.Partition, "_refuse_unsupported", lambda self: None)
    monkeypatch.setattr(capi.Partition, "__repr__", lambda self: "part")
    monkeypatch.setattr(partition, "check_tensors", lambda *given: None)
    return partition_of(new)


@pytest.mark.parametrize("decides", [False, True])
def test_layouts_that_a_library_hides_are_dense(decides, unchecked, monkeypatch):
    asked = []

    def compiled(self, part, ins, outs, engine, keeps):
        asked.append(([tensor.id for tensor in ins], outs, engine, keeps))
        undecided = len(asked) == 1 and not decides
        self._compilation = SimpleNamespace(outputs=[lt(2, "f32", (4, 4), layout="any" if undecided else "strided")])

    monkeypatch.setattr(capi.CompiledPartition, "_compile", compiled)
    outputs = [lt(2, "f32", (4, 4), layout="any", property="variable")]
    capi.CompiledPartition(unchecked, None, outputs)
    engine, keeps = capi.default_engine(), capi.get_constant_tensor_cache()
    dense = lt(2, "f32", (4, 4), property="variable")
    assert asked == [([0, 1], given, engine, keeps) for given in ([outputs] if decides else [outputs, [dense]])]


@pytest.mark.parametrize(
    ("error", "advised"),
    [(OutOfMemoryError("f", "out_of_memory"), False), (InvalidArgumentsError("f", "s"), True), (og.StateError, False)],
)
def test_refusals_of_the_library_have_advice(error, advised, unchecked, monkeypatch):
    def refused(*given):
        raise error

    monkeypatch.setattr(capi.CompiledPartition, "_compile", refused)
    with pytest.raises(error if isinstance(error, type) else type(error)) as raised:
        capi.CompiledPartition(unchecked)
    assert ("part: a onegraph.Graph finds another way" in str(raised.value)) is advised


def scratch_of(monkeypatch, size):
    """A compiled partition that needs so many bytes of scratch memory."""

    def filled(pointer, struct):
        struct[0] = lt(0, "u8", (size,))._struct[0]
        return 0

    monkeypatch.setattr(partition, "newer_function", lambda name, since: asked.append((name, since)) or filled)
    compiled = made(capi.CompiledPartition, _compilation=SimpleNamespace(engine=capi.default_engine()))
    asked = []
    library.Handle.__init__(compiled, ffi.new("char[]", 8), lambda pointer: 0)
    return compiled, asked


def test_scratch_memory_is_asked_of_newer_libraries(monkeypatch):
    compiled, asked = scratch_of(monkeypatch, 7)
    assert compiled.scratchpad == lt(0, "u8", (7,))
    assert asked == [("dnnl_graph_compiled_partition_get_scratchpad_logical_tensor", "3.13")]


@pytest.mark.parametrize(
    ("size", "change", "text"),
    [
        (8, "", ""),
        (9, "", ""),
        (7, "", "scratchpad: 7 bytes; expected at least 8"),
        (8, "frozen", "scratchpad: read-only, or of another engine"),
        (8, "engine", "scratchpad: read-only, or of another engine"),
        (8, "overlap", "shares memory with tensor 3"),
        (None, "", "scratchpad: None; expected a Tensor"),
    ],
)
def test_scratch_memory_is_checked(size, change, text, monkeypatch):
    compiled, _ = scratch_of(monkeypatch, 8)
    memory = np.zeros(16, np.uint8)
    scratch = None
    if size is not None:
        array = memory[:size]
        array.flags.writeable = change != "frozen"
        scratch = capi.Tensor(lt(1, "u8", (size,)), array, capi.Engine() if change == "engine" else None)
    other = capi.Tensor(lt(3, "u8", (8,)), memory[4 if change == "overlap" else 8 :][:8])
    if size == 9:
        other = capi.Tensor(lt(3, "u8", (4,)), memory[12:])
    with pytest.raises(og.ArgumentError, match=text) if text else nullcontext():
        assert compiled._checked_scratchpad(scratch, [other]) is scratch


# Executions


@pytest.mark.parametrize(
    ("owner", "threads", "forked", "text"),
    [
        (None, 1, True, ""),
        (None, 2, False, ""),
        ("own", 1, True, ""),
        ("other", 1, False, "'part' was compiled by another thread, or before a fork"),
        (None, 2, True, "'part' was compiled for 2 threads, and this thread, which comes out of a fork"),
    ],
)
def test_lost_threads_are_refused(owner, threads, forked, text, monkeypatch):
    monkeypatch.setattr(execution, "calling_thread", lambda: "own")
    monkeypatch.setattr(execution, "is_forked", lambda: forked)
    with pytest.raises(og.StateError, match=text) if text else nullcontext():
        execution.refuse_other_threads("part", SimpleNamespace(owner_thread=owner, threads=threads))


def opaque(number=0, layout_id=5, size=8, dtype=og.f32):
    return SimpleNamespace(
        id=number, layout="opaque", layout_id=layout_id, known_size=size, dtype=dtype, shape=(2,), strides=None
    )


@pytest.mark.parametrize(
    ("size", "other", "engine", "text"),
    [
        (8, {}, "own", ""),
        (9, {}, "own", ""),
        (7, {}, "own", "as it was compiled"),
        (8, {"layout_id": 6}, "own", "as it was compiled"),
        (8, {"dtype": og.s32}, "own", "as it was compiled"),
        (8, {}, "another", "x: tensor 0 is of another engine than the compiled partition; make it with capi.Tensor"),
    ],
)
def test_tensors_of_opaque_layouts_are_those_of_the_compilation(size, other, engine, text, monkeypatch):
    monkeypatch.setattr(execution, "as_list", lambda name, given, kind: given)
    given = [
        SimpleNamespace(logical_tensor=opaque(number, **(other if number == 0 else {})), nbytes=size, engine=engine)
        for number in (1, 0)
    ]
    with pytest.raises(og.ArgumentError, match=text) if text else nullcontext():
        assert execution.given_tensors("x", [opaque(0), opaque(1)], [0, 1], given, "own") == given[::-1]


@pytest.fixture
def executions(monkeypatch):
    """Calls of the library by an execution, and waits for its stream; and a function that executes arrays."""
    done = []

    def newer(name, since):
        return SimpleNamespace(__name__=f"{name} since {since}")

    monkeypatch.setattr(execution, "newer_function", newer)
    monkeypatch.setattr(execution, "call", lambda function, *given: done.append((function.__name__, *given)))
    stream = SimpleNamespace(_ptr="stream", wait=lambda: done.append("waited"))

    def execute(source, result, scratch=None, constant=False):
        ends = [lt(n, "f32", one.shape, property="constant" if constant else "undef") for n, one in enumerate(source)]
        ins = [capi.Tensor(end, one) for end, one in zip(ends, source, strict=True)]
        outs = [capi.Tensor(lt(9, "f32", one.shape), one) for one in result]
        part = SimpleNamespace(in_place={}, inputs=ends)
        execution.execute("compiled", part, {}, stream, ins, outs, scratch)
        return ins, outs

    return done, execute


@pytest.mark.parametrize("scratch", [False, True])
def test_an_execution_is_waited_for(scratch, executions):
    done, execute = executions
    name = "dnnl_graph_compiled_partition_execute"
    memory = SimpleNamespace(_ptr="scratch") if scratch else None
    ins, outs = execute([aligned_empty((4,), np.dtype(F32)) for _ in range(2)], [np.empty(4, F32)], memory)
    (called, waited), more = done, ("scratch",) * scratch
    assert called[0] == (f"{name}_v2 since 3.13" if scratch else name)
    assert (*called[1:4], called[5], *called[7:]) == ("compiled", "stream", 2, 1, *more)
    assert [[*called[4]], [*called[6]]] == [[one._ptr for one in side] for side in (ins, outs)]
    assert waited == "waited"


@pytest.mark.parametrize(
    ("skews", "size", "text"),
    [
        ((0, 0), 4, ""),
        ((4, 0), 4, "inputs: tensor 0 is not aligned to 16 bytes"),
        ((0, 4), 4, "outputs: tensor 9 is not aligned to 16 bytes"),
        ((4, 4), 0, ""),
    ],
)
def test_memory_is_aligned_for_libraries_without_avx2(skews, size, text, executions, monkeypatch):
    monkeypatch.setattr(partition_checks, "least_alignment", lambda: 16)
    done, execute = executions
    source, result = (aligned_empty((size,), np.dtype(F32), skew=skew) for skew in skews)
    with pytest.raises(og.ArgumentError, match=text) if text else nullcontext():
        execute([source], [result])
    assert len(done) == (0 if text else 2)


def test_results_are_written_to_memory_of_their_own(executions):
    done, execute = executions
    source = np.zeros(4, F32)
    with pytest.raises(og.ArgumentError, match="outputs: tensor 9 shares memory with tensor 0"):
        execute([source], [source])
    source.flags.writeable = False
    with pytest.raises(og.ArgumentError, match="outputs: tensor 9 is read-only"):
        execute([np.zeros(4, F32)], [source])
    assert done == []


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("property", ["constant", "variable"])
def test_constants_of_later_executions_are_those_of_the_first(keeps, property, monkeypatch):
    monkeypatch.setattr(execution, "get_constant_tensor_cache", lambda: keeps)
    ends = [lt(number, "f32", (2,), property=property) for number in range(2)]
    first, part = {}, SimpleNamespace(inputs=ends)
    arrays = np.arange(6, dtype=F32).reshape(3, 2)

    def run(*places):
        given = [capi.Tensor(end, arrays[place]) for end, place in zip(ends, places, strict=True)]
        execution._refuse_other_constants(part, first, given)

    run(0, 1)
    counts = keeps and property == "constant"
    assert first == ({(n, (2,)): arrays[n].tobytes() for n in range(2)} if counts else {})
    run(0, 1)
    for places, wrong in (((2, 1), 0), ((0, 2), 1)):
        with pytest.raises(og.ArgumentError, match=f"inputs: tensor {wrong} is c") if counts else nullcontext():
            run(*places)


# Tensors


def test_a_tensor_that_is_executed_keeps_its_array():
    tensor = capi.Tensor(lt(4, "f32", (2,)), np.zeros(2, F32))
    running, done, gone = (tensors.Execution() for _ in range(3))
    assert not running.done
    for one in (done, running, gone):
        one.use([tensor])
    done.done = gone.done = True
    last = tensors.Execution()
    last.use([tensor])
    assert [ref() for ref in tensor._executions] == [running, last]
    last.done = True
    with pytest.raises(og.StateError, match="tensor 4: in use by an execution"):
        tensor.set_data_handle(np.ones(2, F32))
    assert tensor.data.tolist() == [0, 0]
    del running
    tensor.set_data_handle(np.ones(2, F32))
    assert tensor.data.tolist() == [1, 1]


def test_a_tensor_that_does_not_fit_is_not_executed():
    array = np.zeros((2, 3), F32)
    tensor = capi.Tensor(lt(4, "f32", (2, 3)), array)
    array.shape = (3, 2)
    tensors.Execution().use([tensor])  # as many bytes
    array.dtype = np.int32
    with pytest.raises(og.ArgumentError, match="data: an array of int32; expected f32"):
        tensors.Execution().use([tensor])


def test_a_child_ends_the_executions_of_other_threads():
    own, other = tensors.Execution(), tensors.Execution()
    other.thread += 1
    before = {one: one.done for one in tensors._executions}
    tensors._end_executions()
    assert (own.done, other.done) == (False, True)
    for one, was in before.items():
        one.done = was


@pytest.mark.parametrize("changed", [False, True])
def test_the_library_gets_an_address_where_it_has_another_one(changed, monkeypatch):
    tensor, done = capi.Tensor(lt(4, "f32", (2,)), np.zeros(2, F32)), []
    if changed:
        tensor._library_address = None
    monkeypatch.setattr(tensors, "call", lambda function, *given: done.append((function.__name__, int(given[1]) * 0)))
    monkeypatch.setattr(tensors, "ffi", SimpleNamespace(cast=lambda kind, number: number))
    tensor._set_library_address()
    assert len(done) == changed
    assert tensor._library_address == tensor.address


def test_scalars_of_the_host_are_made_by_newer_libraries(monkeypatch):
    monkeypatch.setattr(logical_tensor, "VERSION", (3, 9, 0))
    asked = []

    def scalar(pointer, struct, place):
        asked.append((struct, library.address(place)))
        pointer[0] = made_by_library._ptr
        return 0

    monkeypatch.setattr(tensors, "newer_function", lambda name, since: asked.append((name, since)) or scalar)
    made_by_library = capi.Tensor(lt(0, "f32", ()), np.zeros((), F32))
    monkeypatch.setattr(tensors.Handle, "__init__", lambda self, pointer, *parents: setattr(self, "_ptr", pointer))
    number = np.ones((), F32)
    # The library of this process has no such property.
    end = lt(0, "f32", ())
    end._property = "host_scalar"
    scalar_tensor = capi.Tensor(end, number)
    assert asked == [("dnnl_graph_tensor_create_scalar", "3.9"), (end._struct, number.ctypes.data)]
    assert scalar_tensor.engine is capi.default_engine()


@pytest.mark.parametrize(
    ("version", "dims", "layout", "error"),
    [
        ((3, 9, 0), (), "strided", None),
        ((3, 9, 0), (), "undef", None),
        ((3, 9, 0), (), "any", og.ArgumentError("shape: [], layout 'any'; expected (), and a strided layout")),
        ((3, 9, 0), (1,), "strided", og.ArgumentError("shape: [1], layout 'strided'; expected ()")),
        ((3, 9, 0), None, "strided", og.ArgumentError("shape: of unknown rank, layout 'strided'; expected ()")),
        ((3, 8, 9), (), "strided", og.UnsupportedError("needs oneDNN 3.9; the loaded library is 3.8.9")),
    ],
)
def test_scalars_of_the_host_have_no_axes(version, dims, layout, error, monkeypatch):
    monkeypatch.setattr(logical_tensor, "VERSION", version)
    with pytest.raises(type(error)) if error else nullcontext() as raised:
        logical_tensor._check_host_scalar(dims, layout)
    assert error is None or str(error) in str(raised.value)


@pytest.mark.parametrize("dtype", [og.s4, og.u4, og.f4_e2m1])
@pytest.mark.parametrize(("size", "fits"), [(1, False), (2, True), (4, False)])
def test_two_codes_of_four_bits_are_in_a_byte(dtype, size, fits):
    end = SimpleNamespace(layout="strided", dtype=dtype, shape=(4,), strides=(1,))
    array = np.zeros(size, dtype.numpy)
    array.view(np.uint8)[:] = 0x12
    told = f"data: {size} bytes; expected 2, with two {dtype} in each"
    with nullcontext() if fits else pytest.raises(og.ArgumentError, match=told):
        tensors._check_data(end, 2, array)
    held = tensors._Held(array, array, array.ctypes.data, ())
    packed = made(capi.Tensor, _held=held, _logical_tensor=end, _nbytes=min(size, 2))
    assert packed._contents() == b"\x12" * min(size, 2)
    assert packed._span == min(size, 2)


# Ops


@pytest.mark.parametrize("since", [3, 4, 12, 13, None])
def test_ops_of_newer_libraries_are_named_with_the_version(since, monkeypatch):
    asked = []

    def inferred(kind, attrs, inputs, outputs, *, edition, name="", by=None):
        asked.append(edition.name)
        minor = int(edition.name.rpartition(".")[2])
        found = [SimpleNamespace(where="src", given="bf16")] * 2 + [SimpleNamespace(where="dst", given="f16")]
        return SimpleNamespace(errors=found if len(asked) == 1 or since is None or minor < since else [])

    monkeypatch.setattr(op_checks, "infer_op", inferred)
    monkeypatch.setattr(op_checks, "VERSION", (3, 2, 0))
    monkeypatch.setattr(op_checks, "SpecError", lambda errors: ValueError(len(errors)))
    with pytest.raises(ValueError if since is None else og.UnsupportedError) as raised:
        op_checks.checked_shapes(BASE["ReLU"], {}, "first", [], [])
    told = f"ReLU 'first': src: bf16, dst: f16; needs oneDNN 3.{since}; {op_checks._LOADED}"
    assert str(raised.value) == ("3" if since is None else told)
    tried = [] if since is None else [f"onednn-3.{minor}" for minor in range(3, since + 1)]
    assert asked == [op_checks.EDITION.name, op_checks.DEFAULT, *tried]


@pytest.mark.parametrize(
    ("kind", "pads", "lenient"),
    [
        ("Convolution", (0, 0), False),
        ("Convolution", (0, -1), True),
        ("Convolution", None, False),
        ("Convolution", [-1, -1], False),
        ("MaxPool", (-1, -1), False),
    ],
)
def test_negative_pads_of_convolutions_come_from_lenient_graphs(kind, pads, lenient, monkeypatch):
    checked = []
    monkeypatch.setattr(op_template, "check_use", lambda *given: checked.append(given))
    monkeypatch.setattr(op_template, "checked_shapes", lambda *given: checked.append(given))
    monkeypatch.setattr(op_template.OpTemplate, "__init__", lambda self, *given: checked.append(given))
    attrs = {} if pads is None else {"pads_end": pads}
    op_template.OpTemplate.checked(kind, attrs, ["src"], ["dst"], "name")
    use = (BASE[kind], attrs, "name", ["src"], ["dst"])
    assert checked == [(*use, LenientInference) if lenient else use, (kind, attrs)]


@pytest.mark.parametrize("attribute", ["", "qtype"])
@pytest.mark.parametrize(("since", "newer"), [((3, 3), False), ((3, 5), True)])
def test_ops_and_attributes_newer_than_the_library_are_refused(attribute, since, newer, monkeypatch):
    monkeypatch.setattr(op_checks, "VERSION", (3, 4, 0))
    of_attribute = SimpleNamespace(since=since)
    schema = SimpleNamespace(kind="Op", since=(3, 0) if attribute else since, attribute=lambda name: of_attribute)
    subject = "Op.qtype" if attribute else "Op"
    with pytest.raises(og.UnsupportedError, match=f"^{subject} needs oneDNN 3.5; ") if newer else nullcontext():
        op_checks.refuse_newer(schema, attribute)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("refused", [False, True])
def test_checks_of_few_tensors_are_remembered(more, refused, monkeypatch):
    asked = []

    def remembered(*given):
        asked.append(("remembered", *given))
        if refused:
            raise og.ArgumentError("without the name")
        return ((1,),)

    monkeypatch.setattr(op_checks, "_remembered", remembered)
    monkeypatch.setattr(op_checks, "checked_shapes", lambda *given: asked.append(("checked", *given)) or ((2,),))
    count = op_checks.MAX_INPUTS + more
    ins, outs = [op_checks.TensorType(og.f32, (4,))] * (count - 1), [op_checks.TensorType(og.s8, None)]
    found = op_checks.check_use(BASE["Concat"], {"axis": 0}, "name", ins, outs)
    assert found == (((2,),) if more or refused else ((1,),))
    key = op_checks.attrs_key({"axis": 0})
    types = (*[(og.f32, (4,), None)] * (count - 1), (og.s8, None, None))
    first, last = ("remembered", "Concat", key, types, count - 1), ("checked", BASE["Concat"], {"axis": 0}, "name")
    assert asked == [*[first] * (not more), *[(*last, ins, outs)] * (more or refused)]


@pytest.mark.parametrize(
    ("shapes", "longest"), [([], 0), ([None], 0), ([()], 0), ([(None, 0)], 0), ([(2, None), None, (5, 3)], 5)]
)
@pytest.mark.parametrize("kind", ["Interpolate", "ReLU"])
@pytest.mark.parametrize("endless", [False, True])
def test_long_axes_are_refused_where_every_position_is_tabulated(shapes, longest, kind, endless, monkeypatch):
    asked = []
    table = SimpleNamespace(ops={"Interpolate"}, when=lambda number: asked.append(number) or endless)
    monkeypatch.setattr(op_checks, "ENDLESS_TABLE", table)
    types, refused = [op_checks.TensorType(None, shape) for shape in shapes], endless and kind == "Interpolate"
    told = f"label: an axis of {longest} elements; .* expected at most {op_checks.MAX_TABULATED}"
    with pytest.raises(og.UnsupportedError, match=told) if refused else nullcontext():
        op_checks._refuse_endless(BASE[kind], "label", types)
    assert asked == ([longest] if kind == "Interpolate" else [])


def test_results_that_are_read_as_constants_are_variables():
    first, other = (lt(number, "f32", (2, 2)) for number in (0, 2))
    result, constant = (lt(number, "f32", (2, 2), property="constant") for number in (1, 3))
    graph = capi.Graph()
    graph.add_op(capi.Op(0, "ReLU", inputs=[first], outputs=[result]))
    graph.add_op(capi.Op(1, "Add", inputs=[result, constant], outputs=[other]))
    graph.finalize()
    (added,) = [one for one in graph.partitions("debug") if one.ops == (1,)]
    assert {one.id: one.property for one in added.input_ports} == {1: "variable", 3: "constant"}
    assert [one.property for one in graph.ops[1].inputs] == ["constant", "constant"]


def test_an_engine_is_an_engine_or_the_default_one():
    own = capi.Engine(allocator=capi.Allocator())
    assert engines.engine_or_default(own) is own
    assert engines.engine_or_default(None) is engines.default_engine()
    for call in (engines.engine_or_default, capi.Stream):
        with pytest.raises(og.ArgumentError, match=r"engine: 'cpu'"):
            call("cpu")
