"""A graph run by the bare C API, and the same graph through onegraph, each in a child of its own.

Run by ``run_forked`` with titles of parts of the catalogue, it prints a line for each example of a fault: what the raw
side ends in, and what is wrong with the guarded side, which is nothing where the line ends in an empty text.
"""

import ctypes
import json
import mmap
import os
import re
import resource
import signal
import sys
from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np
from conftest import LONG, SANITIZED

import onegraph as og
import onegraph.runtime.compiled_program  # once, instead of in every child
from helpers import raw
from helpers.fault_subjects import fused, graph_of
from helpers.fork_server import serve
from helpers.raw import RefusedError, ThrewError
from onegraph import capi, reference
from onegraph.arrays.ndarrays import strided_empty
from onegraph.capi.settings import has_amx, has_avx2, has_avx512, has_vnni, is_native
from onegraph.compiler.unfused import is_kept_apart
from onegraph.faults import slow_fusions
from onegraph.faults.catalogue import CATALOGUE, EVERY_FAULT
from onegraph.faults.fusions import FUSIONS, strided
from onegraph.faults.layouts import LAYOUTS, PARTITIONS
from onegraph.faults.ops import OPS
from onegraph.faults.ops.interpolation import ENDLESS_TABLE, SIZES_AND_SCALES
from onegraph.native import library
from onegraph.runtime import peaks

NAMED, NAMES = re.compile(r"\(fault (\w+)\)"), {fault.name for fault in EVERY_FAULT}
# Outcomes of the bare library that leave the process as it was.
CALM = ("refuses", "unsupported", "accepted", "wrong", "right", "throws")
CPU_SECONDS = 10.0 if SANITIZED else 3.0  # more than any side needs; an endless loop needs more than any number
ENDLESS = 0.5  # of a side that is known to end never


def cpu(isa):
    """The kinds of CPU, as faults name them, that the instruction set which the library uses makes."""
    vnni = isa not in ("sse41", "avx", "avx2", "avx512_core")
    found = {
        "AMX": "amx" in isa,
        "no AMX": "amx" not in isa,
        "no FP16": not is_native(og.f16),
        "no AVX-512": not isa.startswith(("avx512", "avx10")),
        "no VNNI": not vnni,
        "no AVX2": isa in ("sse41", "avx"),
    }
    return [name for name, holds in found.items() if holds]


def expected(seen, on=()):
    """The outcomes that are known of the loaded library, on this CPU; none where no such version was tried."""
    known = [version for version in seen if version <= library.VERSION[:2]]
    noted = seen[max(known)].split(" | ") if known else []
    kinds = reversed(cpu(capi.get_cpu_isa()))  # the narrowest first
    return noted if noted == ["absent"] else next((on[name].split(" | ") for name in kinds if name in on), noted)


def is_as_noted(outcome, noted):
    # Which signal a wild pointer ends in depends on what lies where in memory; in lists of the allocator, in none.
    any_signal = ["SIG", "hang"] if any(note.startswith("SIG") for note in noted) else []
    # A write into the interpreter's own memory, which has also ended in a signal, may end in an error of no code: one
    # KeyError was seen.
    is_destroyed = {"overrun", "SIGSEGV"} <= {*noted} and outcome.startswith("KeyError of the test: ")
    return not noted or is_destroyed or outcome.startswith((*noted, *any_signal))


# Graphs and arrays ---------------------------------------------------------------------------------------------------


def at_the_end(array):
    """A copy behind which there is no memory: a read beyond its end is a signal."""
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, size + mmap.PAGESIZE), np.uint8)
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.ctypes.data + size), mmap.PAGESIZE, 0) == 0  # PROT_NONE
    laid = memory[size - array.nbytes : size].view(array.dtype).reshape(array.shape)
    laid[...] = array
    return laid


def arrays(graph):
    """Random arrays for the inputs of a graph, such that sums of products are exact."""
    rng, found = np.random.default_rng(1), {}
    for name, tensor in graph.inputs.items():
        shape = tuple(dim or 0 for dim in tensor.shape or ())
        low, high = {"u8": (0, 256), "s8": (-128, 128)}.get(str(tensor.dtype), (-64, 64))
        whole = rng.integers(low, high, shape)
        found[name] = (whole if tensor.dtype.numpy.kind in "iu" else whole / 32).astype(tensor.dtype.numpy)
    return found


def built(build):
    """The graph of an example, and arrays for it behind which there is no memory."""
    graph = graph_of(build)
    feeds = {name: at_the_end(feed) for name, feed in arrays(graph).items()}
    for name, tensor in graph.inputs.items():
        if tensor.strides is not None:
            laid = strided_empty(tensor.shape, tensor.strides, feeds[name].dtype)
            laid[...] = feeds[name]
            feeds[name] = laid
    return graph, feeds


def close(got, wanted, is_fused=False):
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    # The library multiplies by 1 / scale, so that a tie may round to the other side.
    slack = 1 if got.dtype.kind in "iu" else 2e-2 if got.dtype.itemsize == 2 else 1e-4
    if is_fused and got.dtype == og.bf16.numpy:  # rounded once, and by the reference behind each op
        slack = max(slack, 2.0**-7 * np.abs(wanted.astype(float)).max(initial=0.0))
    rounding = 1e-4 if got.dtype.itemsize > 2 else 2.0**-10  # the sum of 289 ones is 288 in bf16
    with np.errstate(all="ignore"):
        return bool(np.allclose(got.astype(float), wanted.astype(float), rtol=rounding, atol=slack, equal_nan=True))


def verdict(right):
    return "right" if right else "wrong"


def raw_graph(build, policy):
    """What the bare library makes of an example."""
    graph, feeds = built(build)
    ops, constants = raw.ops_of(graph)
    fed = constants | {graph.inputs[name].id: feed for name, feed in feeds.items()}
    laid = {tensor.id: raw._lt_of(tensor) for tensor in graph.outputs.values() if tensor.strides is not None}
    found = raw.run(ops, fed, policy, laid)
    wanted = reference.run(graph, feeds)
    return verdict(
        all(close(found[tensor.id], wanted[name], policy == "fusion") for name, tensor in graph.outputs.items())
    )


def executed(fault, example):
    """Whatever the library does, the executable is right, and says what it did."""
    graph, feeds = built(example.build)
    wanted = reference.run(graph, feeds)
    reports = {}
    # The library fuses ops such as ReLU only where it may lose NaN. By themselves, small ops have one thread.
    finite = fault in FUSIONS
    ways = [("fusion", None, False)] if finite else []
    some = [("fusion", 2, finite), ("debug", None, finite)]
    ways += [*product(("fusion", "debug"), (None, 2), (finite,))] if LONG else some
    for policy, threads, finite_math in ways:
        chosen = threads if library.RUNTIME == "OpenMP" else None
        model = graph.compile(policy=policy, threads=chosen, finite_math=finite_math)
        reports[policy] = model.report().partitions
        for _ in range(3):
            found = model(**feeds)
            for name, got in zip(graph.outputs, found if isinstance(found, tuple) else (found,), strict=True):
                assert close(got, wanted[name], policy == "fusion"), f"{name}: {got} is not {wanted[name]}"
    if finite or fault in (*strided.FAULTS, *slow_fusions.FAULTS):
        names_what_it_says(graph, feeds)
    if fault in FUSIONS and is_wrong_here(fault, example):
        sizes = [len(partition.ops) for partition in graph.partitions("fusion")]
        said, parts = texts(fault, graph), reports["fusion"]
        executors = {part.executor for part in parts}
        # What a kernel of the package, or the computation of constants, takes before the library can join it, needs no
        # reason.
        is_told = not executors.isdisjoint(["kernel", "constant"]) or any(
            text in part.reason for part in parts for text in said
        )
        assert max(sizes) < 2 or is_told, "no reason in the report"
        assert executors <= {"oneDNN", "kernel", "view", "copy", "reference", "constant"}


def names_what_it_says(graph, feeds):
    """Report and explanation name the faults for which ops are apart, each by a name of the catalogue."""
    model = graph.compile(finite_math=True)
    with patch.object(peaks, "_kept", lambda make, kind, threads: 1e10):  # those of the machine do not matter here
        report, explained = model.report(), model.explain(runs=1, **feeds)
    said = [part.reason for part in report.partitions if is_kept_apart(part.reason)]
    said += [pair.reason for pair in report.unfused() if is_kept_apart(pair.reason)]
    said += [edge.reason for edge in explained.edges if edge.cause == "fault"]
    for text in said:
        assert {*NAMED.findall(text)} & NAMES or "NaN would reach" in text, f"no fault is named: {text}"
        assert text in f"{report}{explained}" or "; " in text, f"not printed: {text}"


def is_wrong_here(fault, example):
    """Whether the library, of this version and on this CPU, always gets an example wrong."""
    noted = expected(example.seen, example.on)
    return fault.affects(library.VERSION) and not {"right", "absent"}.intersection(noted)


def texts(fault, graph):
    """The reasons that onegraph may give for an example: those of all faults that it runs into."""
    subject = fused(graph, vnni=has_vnni(), avx2=has_avx2(), avx512=has_avx512(), amx=has_amx())
    found = [one.told_of(subject) for one in FUSIONS.affecting(subject.kinds, library.VERSION)]
    casts = ["in f32"] if og.bf16 in [tensor.dtype for tensor in graph.inputs.values()] else []
    return [
        *filter(None, found),
        "unimplemented",
        "so that each reader has its own",
        "from other ops: ",
        "has no partition of its own",
        *casts,
    ]


# The one-to-one objects ----------------------------------------------------------------------------------------------


def lt(tensor):
    strides = {} if tensor.shape is None else {"strides": tensor.strides}
    return capi.LogicalTensor(tensor.id, tensor.dtype, tensor.shape, **strides)


def one_to_one(graph):
    """The ops of a graph, as they are."""
    found = capi.Graph()
    for op in graph.ops:
        ins, outs = ([lt(tensor) for tensor in side if tensor is not None] for side in (op.inputs, op.outputs))
        found.add_op(capi.Op(op.id, op.kind, inputs=ins, outputs=outs, attrs=dict(op.attrs)))
    found.finalize()
    return found


def refused(fault, example):
    """The one-to-one objects refuse what a fault of this version, on this CPU, concerns."""
    graph = graph_of(example.build)
    noted = expected(example.seen, example.on)
    if not fault.affects(library.VERSION) or "absent" in noted or fault is SIZES_AND_SCALES:  # capi drops the scales
        return
    if fault in OPS or fault is ENDLESS_TABLE:
        found = []
        for op in graph.ops:
            ends = ([lt(tensor) for tensor in side if tensor is not None] for side in (op.inputs, op.outputs))
            ins, outs = ends
            if op.kind in fault.ops:
                try:
                    capi.Graph().add_op(capi.Op(op.id, op.kind, inputs=ins, outputs=outs, attrs=dict(op.attrs)))
                except og.UnsupportedError as error:
                    found.append(str(error))
        text = "would tabulate" if fault is ENDLESS_TABLE else f"{fault.severity}: {fault.name}]"
        is_newer = any("needs oneDNN" in one for one in found)
        assert is_newer or any(text in one for one in found), f"add_op does not refuse it: {found}"
    elif (fault in FUSIONS or fault in (*LAYOUTS, *PARTITIONS, *strided.FAULTS)) and noted != ["right"]:
        policy = "fusion" if fault in (*FUSIONS, *PARTITIONS, *strided.FAULTS) else "debug"
        found, of, mistakes = [], [], []
        try:
            of = [part for part in one_to_one(graph).partitions(policy) if policy == "debug" or len(part.ops) > 1]
        except og.UnsupportedError as error:
            found.append(str(error))
        known = {tensor.id: tensor for tensor in (*graph.inputs.values(), *graph.outputs.values())}
        for partition in of:
            ins, outs = (
                [lt(known.get(port.id, port)) for port in ports]
                for ports in (partition.input_ports, partition.output_ports)
            )
            try:
                partition.compile(ins, outs)
            except og.UnimplementedError as error:  # the library itself refuses
                found.append(str(error))
            except og.UnsupportedError as error:
                found.append(str(error))
                kinds = repr(partition).partition(": ")[2].removesuffix(")")
                named = any(text in found[-1] for text in texts(fault, graph))
                is_told = fault not in FUSIONS or (named and kinds in found[-1] and "'debug'" in found[-1])
                mistakes += [] if is_told else [found[-1]]
        assert found or not of, "compile does not refuse it"
        assert not mistakes, f"another reason: {mistakes}"
        if fault in FUSIONS and of:  # each op alone is taken, where no other fault concerns one of them
            for partition in one_to_one(graph).partitions("debug"):
                ports = (*partition.input_ports, *partition.output_ports)
                if partition.supported and all(is_native(port.dtype) for port in ports):
                    partition.compile()


# The two sides -------------------------------------------------------------------------------------------------------


def raw_side(function):
    try:
        return function() or "accepted"
    except ThrewError as error:
        return f"throws {error}"
    except raw.UnsupportedError:
        return "unsupported"
    except RefusedError as error:
        return f"refuses {error}"
    except OverflowError:
        return "overrun"
    except (ValueError, MemoryError) as error:
        return f"garbage {error}"  # a shape that makes no sense


def guarded_side(function):
    """Empty where it is as it should be."""
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def in_child(work):
    """The lines that ``work`` says in a child of its own, and what the child died of; empty if of nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not SANITIZED:  # whose shadow of the memory is larger than any limit
            resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        work(lambda text: os.write(writing, json.dumps(text[:60000]).encode() + b"\n"))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        lines = [json.loads(line) for line in pipe]
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        return lines, f"exit {os.WEXITSTATUS(status)}" if os.WEXITSTATUS(status) else ""
    number = os.WTERMSIG(status)
    return lines, "hang" if number in (signal.SIGPROF, signal.SIGALRM, signal.SIGKILL) else signal.Signals(number).name


def told(side, function, seconds=None):
    """What a side says, within the limits of its time."""
    signal.setitimer(signal.ITIMER_PROF, seconds or CPU_SECONDS)  # a limit of the process counts whole seconds
    signal.alarm(30)  # for one that waits instead of looping
    try:
        return side(function)
    except BaseException as error:
        return f"{type(error).__name__} of the test: {error}"


def alone(side, function, noted=()):
    """What a side says in a child of its own, or what the child died of; what is noted of it may be a hang."""
    seconds = ENDLESS if "hang" in noted and not SANITIZED else None
    lines, end = in_child(lambda say: say(told(side, function, seconds)))
    return end or lines[0]


def say_each(side, functions, say):
    for function in functions:
        say(told(side, function))


def guarded_sides(functions):
    """What each guarded side says. They share a child, as nothing should make it die."""
    return together(guarded_side, functions)


def together(side, functions):
    """What each side says. They share a child until it dies of one of them."""
    found = []
    while len(found) < len(functions):
        lines, end = in_child(partial(say_each, side, functions[len(found) :]))
        found += [*lines, end] if end else lines
    return found


def run_examples(titles):
    examples = [(fault, example) for title in titles for fault in CATALOGUE[title] for example in fault.examples]
    sides = [(side, *pair) for pair in examples for side in (executed, refused) if side is refused or pair[1].runs]
    said = guarded_sides([partial(*side) for side in sides])
    mistakes = dict(zip(sides, said, strict=True))
    noted = {example: expected(example.seen, example.on) for _, example in examples}
    # The sanitizer turns signals into exits of its own; there is nothing to learn of the library under it.
    tried = [one for _, one in examples if one.runs and not SANITIZED and noted[one] != ["absent"]]
    # What may write anywhere has a child of its own.
    calm = [one for one in tried if noted[one] and all(word.startswith(CALM) for word in noted[one])]
    ends = together(raw_side, [partial(raw_graph, one.build, one.policy) for one in calm])
    outcomes = dict(zip(calm, ends, strict=True))
    for one in tried:
        if one not in outcomes:
            outcomes[one] = alone(raw_side, partial(raw_graph, one.build, one.policy), noted[one])
    for fault, example in examples:
        found = outcomes.get(example, "")
        mistake = mistakes.get((executed, fault, example)) or mistakes[refused, fault, example]
        print(json.dumps([fault.name, example.name, found, mistake]), flush=True)


if __name__ == "__main__":
    serve(lambda: run_examples(sys.argv[1:]))
