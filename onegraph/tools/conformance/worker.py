"""Runs probes in a worker process: it reads one JSON line, and writes a JSON line before each step that may crash.

It calls the C API without the checks of :mod:`onegraph.capi`, because a probe tests the library alone.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...capi import LogicalTensor, Stream, Tensor, default_engine
from ...errors import OneGraphError, StatusError
from ...ir.op import Array
from ...native.library import call, create, enum_value, ffi, lib, read
from ...opset.dtypes import DataType
from ...opset.editions.registry import BASE
from ...opset.shapes import known_dims
from ...testing.tolerance import COARSEST, FLOORS, INEXACT, INEXACTNESS, ROUNDED_TWICE, summed
from .page_ends import at_page_end
from .uses import ProbedUse

PR_SET_PDEATHSIG = 1  # of prctl: the signal that a process gets when its parent ends
ROOM = 4096  # bytes after each output, where a write beyond its end is detected and does no harm
UNTOUCHED = 0xA5
UNWRITTEN = 0x7F  # large numbers in every data type
TERM = 2.0**-23  # the rounding of a term of a sum in f32
TIES, FEW_TIES = 1, 32  # so many integers, and one of so many, may be ties
# Ops whose intermediate results the library stores in the data type of the result.
INEXACT_RESULTS = INEXACT | {"SoftMax"}  # whose stats are a logarithm
STORED_BETWEEN = ROUNDED_TWICE | {"SquaredDifference"}


class OverrunError(Exception):
    """The library wrote beyond the end of an output."""


def tell(**facts: object) -> None:
    """Write one line to the parent immediately."""
    print(json.dumps(facts), flush=True)


def set_attribute(op: Any, name: str, kind: str, value: Any) -> None:
    """Set an attribute with the setter of ``kind``, whatever the op's schema says."""
    number = enum_value("graph_op_attr_", name)
    elements = list(value) if isinstance(value, (list, tuple)) else [value]
    match kind.removesuffix("[]"):
        case "f32":
            call(lib.dnnl_graph_op_set_attr_f32, op, number, ffi.new("float[]", elements), len(elements))
        case "s64":
            call(lib.dnnl_graph_op_set_attr_s64, op, number, ffi.new("int64_t[]", elements), len(elements))
        case "bool":
            call(lib.dnnl_graph_op_set_attr_bool, op, number, ffi.new("uint8_t *", int(value)), 1)
        case _:
            word = str(value).encode()
            call(lib.dnnl_graph_op_set_attr_str, op, number, word, len(word) + 1)


def run(
    name: str,
    attrs: Mapping[str, Sequence[Any]],
    types: Sequence[str],
    inputs: Sequence[Array],
    outputs: Sequence[str],
    *,
    edges: bool = False,
) -> list[Array] | None:
    """Run one op through the whole C API; None if the library does not support its partition.

    Args:
        name, attrs, types, inputs, outputs: the op, as :func:`set_attribute` and the C API take it.
        edges: whether inputs and outputs end at a page that nobody may touch, so that a read or write behind them is
            a signal, and elements that the library does not write hold large numbers.

    Raises:
        StatusError: a call failed.
        OverrunError: the library wrote beyond the end of an output.
    """
    default_engine()  # its start takes seconds in some libraries
    tell(stage="add_op")
    tensors = [
        LogicalTensor(index, dtype, array.shape) for index, (dtype, array) in enumerate(zip(types, inputs, strict=True))
    ]
    results = [LogicalTensor(len(inputs) + index, dtype) for index, dtype in enumerate(outputs)]
    op = create(lib.dnnl_graph_op_create, "dnnl_graph_op_t", 0, enum_value("graph_op_", name), b"probe")
    for tensor in tensors:
        call(lib.dnnl_graph_op_add_input, op, tensor._struct)
    for tensor in results:
        call(lib.dnnl_graph_op_add_output, op, tensor._struct)
    for attribute, (kind, value) in attrs.items():
        set_attribute(op, attribute, kind, value)
    graph = create(lib.dnnl_graph_graph_create, "dnnl_graph_graph_t", lib.dnnl_cpu)
    call(lib.dnnl_graph_add_op, graph, op)
    tell(stage="partition")
    call(lib.dnnl_graph_graph_finalize, graph)
    call(lib.dnnl_graph_graph_filter, graph, lib.dnnl_graph_partition_policy_debug)
    pointers = ffi.new("dnnl_graph_partition_t[]", 1)
    call(lib.dnnl_graph_graph_get_partitions, graph, 1, pointers)
    if not read(lib.dnnl_graph_partition_is_supported, "uint8_t", pointers[0]):
        return None
    return _compile_and_execute(pointers[0], tensors, results, inputs, edges)


def _compile_and_execute(
    partition: Any,
    tensors: Sequence[LogicalTensor],
    results: Sequence[LogicalTensor],
    inputs: Sequence[Array],
    edges: bool,
) -> list[Array]:
    tell(stage="compile")
    compiled = create(lib.dnnl_graph_compiled_partition_create, "dnnl_graph_compiled_partition_t", partition)
    call(
        lib.dnnl_graph_partition_compile,
        partition,
        compiled,
        len(tensors),
        ffi.new("dnnl_graph_logical_tensor_t *[]", [tensor._struct for tensor in tensors]),
        len(results),
        ffi.new("dnnl_graph_logical_tensor_t *[]", [tensor._struct for tensor in results]),
        default_engine()._ptr,
    )
    query = lib.dnnl_graph_compiled_partition_query_logical_tensor
    inferred = [
        LogicalTensor._of(read(query, "dnnl_graph_logical_tensor_t", compiled, tensor.id)) for tensor in results
    ]
    memory, arrays = [], list[Array]()
    for tensor in inferred:
        shape, dtype = known_dims(tensor.shape), tensor.dtype.numpy
        size = math.prod(shape) * dtype.itemsize
        if edges:
            room = at_page_end(np.full(size, UNWRITTEN, np.uint8))
            arrays.append(room.view(dtype).reshape(shape))
            continue
        room = np.zeros(size + ROOM, np.uint8)
        room[-ROOM:] = UNTOUCHED
        memory.append(room)
        arrays.append(room[:-ROOM].view(dtype).reshape(shape))
    stored_inputs = [at_page_end(stored(array)) if edges else stored(array) for array in inputs]
    ins = [Tensor(tensor, array) for tensor, array in zip(tensors, stored_inputs, strict=True)]
    outs = [Tensor(tensor, array) for tensor, array in zip(inferred, arrays, strict=True)]
    stream = Stream()
    tell(stage="execute")
    call(
        lib.dnnl_graph_compiled_partition_execute,
        compiled,
        stream._ptr,
        len(ins),
        ffi.new("const_dnnl_graph_tensor_t[]", [tensor._ptr for tensor in ins]),
        len(outs),
        ffi.new("const_dnnl_graph_tensor_t[]", [tensor._ptr for tensor in outs]),
    )
    stream.wait()  # libraries with the runtime SYCL return before they are done
    for index, room in enumerate(memory):
        if (room[-ROOM:] != UNTOUCHED).any():
            raise OverrunError(f"output {index} is written beyond its end")
    return arrays


def stored(array: Array) -> Array:
    """The array as the library stores it: dense, with two integers of 4 bits in a byte, the first in the low bits."""
    if DataType.of(array.dtype if array.dtype != np.int64 else "s64") not in (DataType.s4, DataType.u4):
        return np.ascontiguousarray(array)
    halves = np.append(array.view(np.uint8).ravel() & 15, np.zeros(array.size % 2, np.uint8)).reshape(-1, 2)
    packed: Array = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8).view(array.dtype)
    return packed


def compare(
    got: Sequence[Array], expected: Sequence[Array], kind: str = "", terms: float = 0.0, *, ties: bool = True
) -> str:
    """A text about how the results of an op differ from the reference; empty if they agree.

    Args:
        got, expected: the results.
        kind: the op.
        terms: the largest number of its inputs, whose rounding stays where a sum cancels, times the square root of the
            number of terms of a long sum.
        ties: whether a code may be the next one, because a number that lies between two may round to either.
    """
    for index, (actual, wanted) in enumerate(zip(got, expected, strict=False)):
        if actual.shape != (wanted.shape or (1,)) and actual.shape != wanted.shape:  # a scalar may have one axis
            return f"output {index} has shape {list(actual.shape)}, the reference {list(wanted.shape)}"
        ours, theirs = actual.ravel().astype(np.float64), wanted.ravel().astype(np.float64)
        finite = np.isfinite(theirs)
        scale = float(np.abs(theirs[finite]).max(initial=0.0))
        errors = np.zeros(theirs.shape)
        errors[finite] = np.abs(ours[finite] - theirs[finite])
        error = float(errors.max(initial=0.0))
        rounded = 0.0
        if actual.dtype in (np.int8, np.uint8):
            # The library multiplies by the reciprocal of a scale, so that a tie may round to the other side.
            rounded = float(ties and (ours != theirs).sum() <= TIES + ours.size / FEW_TIES)
        limit = FLOORS[dtype] * scale if (dtype := DataType.of(actual.dtype)) in FLOORS else rounded
        limit *= 2 if kind in STORED_BETWEEN else 1
        limit += TERM * terms if DataType.of(actual.dtype) is DataType.f32 else 0.0
        limit += COARSEST.get(kind, INEXACTNESS) if kind in INEXACT_RESULTS and dtype in FLOORS else 0.0
        odd = ~finite & (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
        if odd.any() or not error <= limit:
            worst = int((odd if odd.any() else errors).argmax())  # NaN is the largest error
            place = [int(number) for number in np.unravel_index(worst, wanted.shape)]
            return f"output {index} is {ours[worst]:.6g} at {place}, expected {theirs[worst]:.6g}"
    return ""


def answer(request: Mapping[str, Any]) -> dict[str, object]:
    """The outcome of one probe."""
    try:
        use = ProbedUse.of_dict(request["use"])
        inputs = use.arrays
        expected = use.reference() if request["allowed"] else None
        edges = bool(request.get("edges"))
        got = run(request["name"], request["call"], use.dtypes, inputs, use.outputs, edges=edges)
    except StatusError as error:
        return {"stage": error.function.removeprefix("dnnl_graph_"), "outcome": "refused", "detail": str(error)}
    except OneGraphError as error:
        return {"stage": "logical_tensor", "outcome": "refused", "detail": str(error)}
    except OverrunError as error:
        return {"stage": "execute", "outcome": "wrong", "detail": str(error)}
    if got is None:
        return {"stage": "partition", "outcome": "unsupported", "detail": "is_supported is 0"}
    if expected is None:
        return {"stage": "execute", "outcome": "ran", "detail": ""}
    finite = [np.abs(one[np.isfinite(one)]) for one in (array.astype(np.float64) for array in inputs)]
    largest = max((float(one.max(initial=0.0)) for one in finite), default=0.0)
    terms = largest * math.sqrt(summed(BASE[use.kind], inputs, got[0])) if got else largest
    detail = compare(got, expected, use.kind, terms, ties=not _divides_exactly(use))
    return {"stage": "execute", "outcome": "wrong" if detail else "right", "detail": detail}


def _divides_exactly(use: ProbedUse) -> bool:
    """Whether all scales are powers of two, by which the library multiplies as exactly as the formula divides."""
    scales = use.attrs.get("scales", ())
    return use.kind == "Quantize" and all(math.frexp(scale)[0] == 0.5 for scale in scales)


def serve(answer: Callable[[dict[str, Any]], dict[str, object]]) -> None:
    """Answer the requests of the parent process until it closes the pipe.

    Copies of this process do it, which has everything imported and has run nothing: after a crash the next copy starts
    at once.
    """
    while True:
        copy = os.fork()
        if not copy:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            for line in sys.stdin:
                tell(done=True, **answer(json.loads(line)))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
        if not status:
            return
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        tell(done=True, outcome="crash", detail=name)


def main() -> None:
    """Run probes."""
    serve(answer)
