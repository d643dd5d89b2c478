"""What a later process makes of a program is the one that was written: its memory, its steps, what is said of it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.called_graphs import CALLED

import onegraph as og
from onegraph.compiler.ir.value import Value
from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.memory_planner import aligned
from onegraph.native.library import DTYPE_NAMES, HASHES_CONSTANTS, ffi
from onegraph.runtime import origin, program_writer, warm_start
from onegraph.runtime.compile_options import CompileOptions
from onegraph.runtime.compiled_program import CompiledProgram
from onegraph.runtime.executable import Executable
from onegraph.runtime.kept_partitions import NotKeptError
from onegraph.runtime.kept_program import KeptProgram, _reach, _refuse_outside, _sections, without_proof
from onegraph.runtime.program_writer import with_proof, written

F32 = np.float32
RNG = np.random.default_rng(0)


def inputs(graph, **shapes):
    return [graph.input(name, "f32", shape) for name, shape in shapes.items()]


def weighted():
    """Two equal products and another one, with weights in another layout, a pad, and an output of its own strides."""
    g = og.Graph()
    (x,) = inputs(g, x=(8, 64))
    w = [g.constant(np.round(RNG.standard_normal(shape) * 8).astype(F32)) for shape in ((64, 64), (64, 64), (64, 96))]
    first = g.relu(g.matmul(x, w[0]))
    g.output("y", g.matmul(g.matmul(first, w[1]), w[2]), strides=(100, 1))
    g.output("first", first)
    g.output("again", first)
    return g, [np.round(RNG.standard_normal((8, 64)) * 8).astype(F32)]


def coded():
    g = og.Graph()
    x = g.input("x", "u8", (4, 32))
    scales = {"scales": [0.5], "zps": [0]}
    w = g.dequantize(g.constant(RNG.integers(-9, 9, (32, 16)).astype(np.int8)), **scales)
    g.output("y", g.quantize(g.matmul(g.dequantize(x, **scales), w), dtype="u8", **scales))
    return g, [RNG.integers(0, 9, (4, 32)).astype(np.uint8)]


def on_host():
    """Steps that numpy runs, one of which has a constant that decides its shape, and no input at one place."""
    g = og.Graph()
    x, i = g.input("x", "f32", (3, 4)), g.input("i", "s64", (2,))
    rows = g.op("Gather", [x, i], {"axis": 0}, edition="host")
    turned = g.op("Reshape", [rows, g.constant(np.array([4, 2]), dtype="s64")], {}, edition="host")
    g.output("y", g.op("Transpose", [turned], {"order": (1, 0)}, edition="host"))
    g.output("sums", g.op("CumSum", [turned], {"axis": 0}, edition="host"))
    g.output("z", g.relu(rows))
    return g, [np.arange(12, dtype=F32).reshape(3, 4) - 5, np.array([2, 0])]


def backwards():
    g = og.Graph()
    (x, w) = inputs(g, x=(1, 8, 8, 4), w=(3, 3, 4, 8))
    pads = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    y = g.convolution(x, w, data_format="NXC", weights_format="XIO", **pads)
    delta = g.input("delta", "f32", (1, 8, 8, 8))
    more = {"data_format": "NXC", "weights_format": "XIO", "dst_shape": [1, 8, 8, 4], **pads}
    g.output("dx", g.convolution_backward_data(delta, w, **more))
    g.output("y", g.max_pool(y, kernel=[2, 2], strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], data_format="NXC"))
    return g, [np.ones((1, 8, 8, 4), F32), np.ones((3, 3, 4, 8), F32), np.ones((1, 8, 8, 8), F32)]


def in_bf16():
    g = og.Graph()
    x = g.input("x", "bf16", (4, 16))
    g.output("y", g.type_cast(g.softmax(g.matmul(x, g.constant(np.ones((16, 8), og.bf16.numpy))), axis=1), dtype="f32"))
    return g, [np.ones((4, 16), og.bf16.numpy)]


NAMES = ("sums", "scalars", "strided", "copied", "copied debug", "sums False", "type bf16", "type s64", "type boolean")
GRAPHS = [weighted, coded, on_host, backwards, in_bf16, *[make for make in CALLED if make.__name__ in NAMES]]


def kept(program, options, graph):
    """What a later process makes of a program."""
    data = memoryview(b"".join(map(bytes, written(program, []))))
    return KeptProgram(data, [], options, lambda: graph)


def of_end(named):
    name, tensor = named
    return name, tensor.id, tensor.dtype, tensor.shape, tensor.strides


def of_array(array):
    return array.dtype, array.shape, array.strides, array.tobytes()


def of_step(step, source, place):
    """A step as C reads it."""
    tensors = [step.tensors[index] for index in range(step.n_inputs + step.n_outputs)]
    shapes = [(one.data_type, ffi.unpack(one.dims, one.ndims)) for one in tensors]
    strides = [ffi.unpack(one.layout.strides, one.ndims) for one in tensors]
    ends = range(place, place + len(tensors))
    return step.n_inputs, shapes, strides, [(source.slots[end], source.offsets[end]) for end in ends], step.threads


def facts_of(program, numbers):
    """All that a run and a report need of a program, by name; ``numbers`` are the values that are asked for."""
    placed, source, place, steps = program.placement, program.source, 0, []
    for step in source.steps:
        steps.append(of_step(step, source, place))
        place += step.n_inputs + step.n_outputs
    names = ("direct", "copied", "external", "slots", "offsets", "arena_size", "in_place", "n_slots")
    values = [placed.values[number]._replace(constant=None) for number in numbers]
    kernels = [one for one in source.compiled if isinstance(one, CompiledKernel)]
    graph = program.graph
    return {
        **{name: getattr(placed, name) for name in names},
        "values": values,
        "constants": [(number, *of_array(array)) for number, array in placed.constants.items()],
        "residents": {piece: [*ends] for piece, ends in placed.residents.items()},
        "ends": [[*map(of_end, side.items())] for side in (graph.inputs, graph.outputs)],
        "steps": steps,
        "kernels": [(one.name, [*one.code], one.ports[0]) for one in kernels],
        "alike": [source.compiled.index(one) for one in source.compiled],
        "source": [source.limit, source.bound, source.n_last, source.keeps, source.threads],
        "parts": [one if isinstance(one, range) else (one.inputs, one.outputs, one.note) for one in program.parts],
        "program": [program.in_c, program.owner_thread, [*program.step_notes], program.share],
        "reports": [(report.to_dict(), report.kinds, report.names, report.reasons) for report in program.reports],
        "sizes": [[(*end[1:4], end.strides) for end in report.sources] for report in program.reports],
    }


@pytest.mark.library
@pytest.mark.skipif(HASHES_CONSTANTS, reason="programs whose constants are found by a hash are not kept")
@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_a_kept_program_is_the_one_that_was_written(make):
    graph, arrays, *options = make()
    model = graph.compile(**dict(*options))
    program, chosen = model._programs.only_program(), model._programs.options
    again = kept(program, chosen, graph)
    numbers = [*again.placement.values]
    found, wanted = facts_of(again, numbers), facts_of(program, numbers)
    for name, fact in wanted.items():
        assert found[name] == fact, name
    results, expected = Executable._of_program(again, chosen, lambda: graph)(*arrays), model(*arrays)
    pairs = [(results, expected)] if len(graph.outputs) == 1 else [*zip(results, expected, strict=True)]
    assert all(of_array(one) == of_array(other) for one, other in pairs)
    assert [op.kind for op in again.whole_graph().ops] == [op.kind for op in program.whole_graph().ops]


def test_steps_may_fill_their_memory_and_leave_none_of_it():
    """The memory of each slot is made as long as its steps need, and then one byte shorter."""
    graph, _, *_ = weighted()
    program = graph.compile()._programs.only_program()
    source, placed, ends, place = program.source, program.placement, {}, 0
    for step in source.steps:
        _, shapes, strides, slots, _ = of_step(step, source, place)
        for (kind, dims), steps, (slot, at) in zip(shapes, strides, slots, strict=True):
            reach = sum((dim - 1) * step for dim, step in zip(dims, steps, strict=True)) + 1
            ends[slot] = max(ends.get(slot, 0), at + reach * DTYPE_NAMES[kind].numpy.itemsize)
        place += len(slots)
    numbers = {slot: number for number, slot in placed.slots.items()}
    assert {0, *numbers} == {*ends}
    assert len(placed.external) > 1 < len(placed.constants)

    def refuses(shorter):
        sizes = {slot: end - (slot == shorter) for slot, end in ends.items()}
        values, constants = dict(placed.values), dict(placed.constants)
        for slot, number in numbers.items():
            if number in constants:
                constants[number] = np.zeros(sizes[slot], np.uint8)
            else:
                values[number] = Value(number, og.u8, (sizes[slot],), (1,), number, "x")
        try:
            _refuse_outside(source, replace(placed, arena_size=sizes[0], values=values, constants=constants))
        except NotKeptError:
            return True
        return False

    assert not refuses(None)
    assert [slot for slot in ends if not refuses(slot)] == []
    before = SimpleNamespace(steps=source.steps, slots=source.slots, offsets=[-(2**20)] * place)
    with pytest.raises(NotKeptError, match="leave its memory"):
        _refuse_outside(before, placed)


def test_tensors_without_elements_need_no_memory():
    graph = og.Graph()
    (x,) = inputs(graph, x=(0, 4))
    graph.output("y", graph.relu(x))
    program = graph.compile()._programs.only_program()
    _refuse_outside(program.source, program.placement)
    array = np.zeros((3, 4), F32)
    assert [*map(_reach, (array, array[:, :2], array[:0], array[1:, ::2]))] == [48, 40, 0, 28]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (with_proof([b"ab", b"c"], [1]), (b"abc", [1])),
        (with_proof([], {"a": 2}), (b"", {"a": 2})),
        ([b"[1]", (3).to_bytes(8, "little")], (b"", [1])),
        ([b"[1]", (9).to_bytes(8, "little")], (b"", [1])),
        ([b"[1]", (2).to_bytes(8, "little")], None),
        ([b"abc"], None),
        ([], None),
    ],
)
def test_a_proof_stands_behind_a_program(data, found):
    whole = memoryview(b"".join(data))
    if found is None:
        with pytest.raises(NotKeptError, match="no proof"):
            without_proof(whole)
    else:
        program, proof = without_proof(whole)
        assert (bytes(program), proof) == found


@pytest.mark.parametrize("more", [0, 1, -1])
def test_sections_of_a_program_have_its_whole_size(more):
    sizes = b"".join(size.to_bytes(8, "little") for size in (3, 2, 4))
    data = memoryview(sizes.ljust(aligned(24)) + b"abcdefghi" + b"j" * max(more, 0))[: aligned(24) + 9 + more]
    if more:
        with pytest.raises(NotKeptError, match="another size"):
            _sections(data)
    else:
        own, text, described = _sections(data)
        assert (own.tobytes(), text, described) == (b"abc", b"de", b"fghi")


USABLE = {"forked": False, "capacity": 0, "hashes": False, "keep": True, "recorders": ()}


@pytest.mark.parametrize(
    "other", [{}, {"forked": True}, {"capacity": 1}, {"hashes": True}, {"keep": False}, {"recorders": ("one",)}]
)
def test_programs_are_kept_where_they_are_like_those_of_others(other, monkeypatch):
    facts = {**USABLE, **other}
    monkeypatch.setattr(warm_start, "RECORDERS", facts["recorders"])
    monkeypatch.setattr(warm_start, "is_forked", lambda: facts["forked"])
    monkeypatch.setattr(warm_start, "get_compiled_partition_cache_capacity", lambda: facts["capacity"])
    monkeypatch.setattr(warm_start, "HASHES_CONSTANTS", facts["hashes"])
    monkeypatch.setattr(warm_start, "programs_keep_constants", lambda: facts["keep"])
    assert warm_start._is_usable() is (facts == USABLE)


@pytest.mark.parametrize(
    ("lengths", "is_short", "proof", "expected"),
    [
        ((warm_start.LONG - 2, 1), True, "p", ["kept", "remembered"]),
        ((warm_start.LONG - 1, 1), True, "p", ["thread", "kept", "remembered"]),
        ((1,), False, "p", ["thread", "kept", "remembered"]),
        ((1,), True, None, []),
        (None, True, "p", []),
    ],
)
@pytest.mark.parametrize("other", ["", "program", "usable"])
def test_long_programs_are_written_by_a_thread(lengths, is_short, proof, expected, other, monkeypatch):
    found = []

    def make(program, mapped):
        if lengths is None:
            raise NotKeptError("no")
        return [range(length) for length in lengths]

    def thread(target, name):
        found.append("thread")
        return SimpleNamespace(start=target)

    program = object() if other == "program" else object.__new__(CompiledProgram)
    programs = SimpleNamespace(only_program=lambda: program, options=CompileOptions("fusion", True, "strict", 1))
    monkeypatch.setattr(program_writer, "written", make)
    monkeypatch.setattr(program_writer, "with_proof", lambda data, one: [one])
    monkeypatch.setattr(warm_start, "_is_usable", lambda: other != "usable")
    monkeypatch.setattr(warm_start.disk_cache, "keep", lambda *given: found.append("kept"))
    monkeypatch.setattr(warm_start, "remember", lambda *given: found.append("remembered"))
    monkeypatch.setattr(warm_start, "threading", SimpleNamespace(Thread=thread))
    kept_from = SimpleNamespace(key="k", files=[], mapped=[], is_short=is_short, proof=lambda: proof)
    warm_start.keep(kept_from, SimpleNamespace(_programs=programs))
    assert found == ([] if other else expected)


def test_what_a_thread_finds_is_waited_for(monkeypatch):
    assert warm_start._started(lambda: True)()
    assert not warm_start._started(lambda: False)()
    monkeypatch.setattr(warm_start.threading, "excepthook", lambda arguments: None)
    assert not warm_start._started(lambda: 1 / 0)()

    def refused(thread):
        raise RuntimeError

    monkeypatch.setattr(warm_start.threading.Thread, "start", refused)
    assert warm_start._started(lambda: "here")() == "here"


def test_keys_of_programs_differ_by_all_that_decides_them(monkeypatch):
    chosen = CompileOptions("fusion", True, "strict", None)
    keys = [warm_start._program_key("key", chosen), warm_start._program_key("other", chosen)]
    keys += [warm_start._program_key("key", chosen._replace(threads=one)) for one in (1, {0: 1, 1: 2}, {0: 2, 1: 1})]
    keys.append(warm_start._program_key("key", chosen._replace(reproducible=True)))
    for name in ("machine", "get_num_threads", "thread_share"):
        monkeypatch.setattr(warm_start, name, lambda: "another")
        keys.append(warm_start._program_key("key", chosen))
    assert len({*keys}) == len(keys) == 9
    swapped = [warm_start._program_key("key", chosen._replace(threads=one)) for one in ({0: 1, 1: 2}, {1: 2, 0: 1})]
    assert swapped[0] == swapped[1]


def source(name, size):
    return SimpleNamespace(written=f"w {name}", resolved=f"r {name}", mapped=None if size is None else bytes(size))


@pytest.fixture
def digests(monkeypatch):
    """The digest of a file is its length; that of the package is a name."""
    monkeypatch.setattr(origin, "package_digest", lambda: "package")
    monkeypatch.setattr(origin, "digest_of", lambda mapped, start, size: f"{start} {size}")


PROOF = ["package", [["w a", "r a", "0 3"], ["w b", "r b", ""]]]
UNPROVEN = [
    ["other", PROOF[1]],
    [None, PROOF[1]],
    ["package", PROOF[1][:1]],
    ["package", PROOF[1][::-1]],
    ["package", [["w a", "r a", "0 4"], PROOF[1][1]]],
    ["package", [PROOF[1][0], ["w b", "r b", "0 0"]]],
    ["package", [["w c", "r a", "0 3"], PROOF[1][1]]],
    ["package", [["w a", "r c", "0 3"], PROOF[1][1]]],
    ["package", [["w a", "r a"], ["w b", "r b"]]],
    ["package"],
    None,
    3,
]


@pytest.mark.parametrize("proof", [PROOF, *UNPROVEN])
def test_a_proof_names_the_package_and_the_contents_of_all_files(proof, digests, monkeypatch):
    files = [source("a", 3), source("b", None)]
    assert origin.is_proven(proof, files) is (proof is PROOF)
    monkeypatch.setattr(origin, "package_digest", lambda: None)
    assert not origin.is_proven(proof, files)


def test_an_origin_is_proven_as_long_as_its_files_stay(digests, monkeypatch):
    files = [(source("a", 3), "0 3"), (source("b", None), "")]
    made = origin.Origin("key", files, "contents")
    assert [package for package, _ in [made.proof()]] == ["package"]
    assert [list(entry) for entry in made.proof()[1]] == PROOF[1]
    assert origin.Origin("key", [(source("a", 4), "0 3")], "").proof() is None
    assert len(made.mapped) == 1
    for size, is_short in ((2, True), (3, False), (4, False)):
        monkeypatch.setattr(origin, "FEW", 3)
        assert origin.Origin("key", [(source("a", size), "")], "").is_short is is_short
    monkeypatch.setattr(origin, "package_digest", lambda: None)
    assert made.proof() is None
