"""Runs a graph in the library as it is: no passes, no ways around faults, no kernels of the package.

The ops go to the C API as they are in the graph, after a translation to the newest edition. The library may crash or
hang in them, so :func:`run_bare` uses a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._util.records import record
from .._util.worker_process import Worker
from ..arrays.ndarrays import strided_empty
from ..errors import OneGraphError, UnsupportedError
from ..faults.capabilities import LIBRARY_VALUES
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op
from ..opset.editions.registry import BASE, DEFAULT, HOST
from ..opset.shapes import known_dims
from ..serialize.npz import read_inputs, write_arrays
from ..testing.tolerance import Comparison
from ..transform.translate_graph import translate_graph
from .expected_results import ReferenceOracle

TIME_LIMIT = 60.0  # seconds
RIGHT = "ran"


@record(frozen=True)
class BareRun:
    """What came of a run.

    Attributes:
        outcome: ``ran``, ``unsupported`` (a partition has no kernel), ``refused`` (a call failed), ``crash`` or
            ``hang``.
        stage: the call that did not succeed.
        detail: the message, the signal or the time limit.
        results: the outputs by name, and the next values of variables; empty unless it ran.
        partitions: the kinds of the ops of each partition.
    """

    outcome: str
    stage: str
    detail: str
    results: Mapping[str, Array]
    partitions: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """What came of it, in sentences for a terminal."""
        if self.outcome != RIGHT:
            return f"the library by itself: {self.outcome} at {self.stage}: {self.detail}"
        rows = [f"{number}: {' + '.join(kinds)}" for number, kinds in enumerate(self.partitions)]
        return "\n".join(["partitions of the library by itself", *rows])

    def to_dict(self) -> dict[str, object]:
        """What came of it as plain values, without the results."""
        partitions = [list(kinds) for kinds in self.partitions]
        return {"outcome": self.outcome, "stage": self.stage, "detail": self.detail, "partitions": partitions}


def run_bare(
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    policy: str = "fusion",
    fpmath_mode: str | None = None,
    limit: float = TIME_LIMIT,
) -> BareRun:
    """Run a graph in the bare library, in a process that may crash or hang.

    Args:
        graph: a graph with known dims, of ops that the library has; variables have their first contents.
        inputs: an array for each input.
        policy, fpmath_mode: of the partitions.
        limit: seconds.

    Raises:
        UnsupportedError: the graph has an op that the library does not know, or no process can be started.
    """
    step = bare_step(graph)
    with tempfile.TemporaryDirectory(prefix="onegraph-") as folder:
        place = Path(folder)
        step.save(place / "graph.json")
        write_arrays(str(place / "inputs.npz"), {**inputs, **graph._initial})
        worker = Worker(__name__)
        try:
            outcome = worker.run({"folder": folder, "policy": policy, "fpmath_mode": fpmath_mode or "strict"}, limit)
        finally:
            worker.close()
        results: dict[str, Array] = {}
        partitions: list[list[str]] = []
        if outcome.outcome == RIGHT:
            facts = json.loads(outcome.detail)
            partitions = facts["partitions"]
            with np.load(place / "outputs.npz") as arrays:
                results = {
                    name: arrays[f"{number}"].view(step.outputs[name].dtype.numpy).reshape(facts["shapes"][name])
                    for number, name in enumerate(facts["shapes"])
                }
        detail = "" if outcome.outcome == RIGHT else outcome.detail
        return BareRun(outcome.outcome, outcome.stage, detail, results, tuple(map(tuple, partitions)))


def bare_step(graph: Graph) -> Graph:
    """The graph of one call in base words: variables are inputs, and their next values outputs.

    Raises:
        UnsupportedError: the graph has an op that the library does not know.
    """
    host = [f"{op.kind} {op.name!r}" for op in graph.ops if op.edition == HOST]
    if host:
        raise UnsupportedError(f"the bare library has no op {', '.join(host[:3])}; expected ops of the specification")
    return translate_graph(graph._as_step(), DEFAULT)


def compared(
    graph: Graph, inputs: Mapping[str, Array], results: Mapping[str, Array], fpmath_mode: str, seed: int
) -> tuple[Comparison, ...]:
    """Each output beside the numpy reference.

    Raises:
        UnsupportedError: the reference cannot compute an op.
    """
    step = graph._as_step()
    oracle = ReferenceOracle(step, {**inputs, **graph._initial}, fpmath_mode, seed, lambda what, done, total: None)
    expected = oracle.expected({tensor.id for tensor in step.outputs.values()})
    return tuple(oracle.compare(step, dict(results), expected))


# In the worker -------------------------------------------------------------------------------------------------------


def execute_bare(
    graph: Graph, inputs: Mapping[str, Array], policy: str, fpmath_mode: str, tell: Any
) -> tuple[dict[str, Array], list[list[str]]]:
    """The outputs of a graph of base words, and the kinds of the ops of each partition; ``tell`` gets each stage.

    Raises:
        UnsupportedError: a partition has no kernel.
        OneGraphError: a call failed.
    """
    from ..native.library import call, create, enum_value, ffi, lib, read

    tell("add_op")
    mode = enum_value("fpmath_mode_", fpmath_mode)
    native = create(lib.dnnl_graph_graph_create_with_fpmath_mode, "dnnl_graph_graph_t", lib.dnnl_cpu, mode)
    for number, op in enumerate(graph.ops):
        call(lib.dnnl_graph_add_op, native, _native_op(number, op))
    tell("partition")
    call(lib.dnnl_graph_graph_finalize, native)
    call(lib.dnnl_graph_graph_filter, native, enum_value("graph_partition_policy_", policy))
    count = read(lib.dnnl_graph_graph_get_partition_num, "size_t", native)
    partitions = ffi.new("dnnl_graph_partition_t[]", count)
    if count:
        call(lib.dnnl_graph_graph_get_partitions, native, count, partitions)
    values = {tensor.id: inputs[name] for name, tensor in graph.inputs.items()}
    values |= {t.id: t.value for op in graph.ops for t in op.inputs if t.value is not None}
    tensors = {t.id: t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    waiting, kinds = list(partitions), []
    while waiting:
        ready = next(one for one in waiting if all(port.id in values for port in _ports(one, "input")))
        waiting.remove(ready)
        size = read(lib.dnnl_graph_partition_get_op_num, "size_t", ready)
        ids = ffi.new("size_t[]", size)
        call(lib.dnnl_graph_partition_get_ops, ready, size, ids)
        kinds.append([graph.ops[number].kind for number in ids])
        if not read(lib.dnnl_graph_partition_is_supported, "uint8_t", ready):
            raise UnsupportedError(f"no kernel for {' + '.join(kinds[-1])}")
        _run_partition(ready, values, tensors, tell)
    outputs = {name: t.value if t.value is not None else values[t.id] for name, t in graph.outputs.items()}
    return outputs, kinds


def _native_op(number: int, op: Op) -> Any:
    from ..native.library import call, create, enum_value, lib
    from .conformance.uses import plain
    from .conformance.worker import set_attribute

    schema = BASE[op.kind]
    made = create(
        lib.dnnl_graph_op_create, "dnnl_graph_op_t", number, enum_value("graph_op_", schema.name), op.name.encode()
    )
    for tensor in op.inputs:
        call(lib.dnnl_graph_op_add_input, made, _native_tensor(tensor)._struct)
    for tensor in op.outputs:
        call(lib.dnnl_graph_op_add_output, made, _native_tensor(tensor)._struct)
    for name, value in op.attrs.items():
        word = LIBRARY_VALUES.get(name, {}).get(value, value) if isinstance(value, str) else plain(value)
        set_attribute(made, name, schema.attribute(name).kind, word)
    return made


def _native_tensor(tensor: LogicalTensor, shape: tuple[int, ...] | None = None) -> Any:
    """The logical tensor of the C API: with the dims of an array, or of the graph."""
    from ..capi import LogicalTensor as Native

    property_ = "undef" if tensor.value is None else "constant"
    return Native(
        tensor.id,
        tensor.dtype,
        tensor.shape if shape is None else shape,
        strides=tensor.strides if tensor.shape is not None and None not in tensor.shape else None,
        property=property_,
    )


def _ports(partition: Any, side: str) -> list[Any]:
    from ..native.library import call, ffi, lib, read

    count = read(getattr(lib, f"dnnl_graph_partition_get_{side}_ports_num"), "size_t", partition)
    structs = ffi.new("dnnl_graph_logical_tensor_t[]", count)
    if count:
        call(getattr(lib, f"dnnl_graph_partition_get_{side}_ports"), partition, count, structs)
    return list(structs)


def _run_partition(partition: Any, values: dict[int, Array], tensors: Mapping[int, LogicalTensor], tell: Any) -> None:
    """Compile and execute one partition, and put its results into ``values``."""
    from ..capi import LogicalTensor as Native
    from ..capi import Stream, Tensor
    from ..capi.engine import default_engine
    from ..native.library import call, create, ffi, lib, read
    from .conformance.worker import stored

    tell("compile")
    ins = [_native_tensor(tensors[port.id], values[port.id].shape) for port in _ports(partition, "input")]
    outs = [Native(port.id, tensors[port.id].dtype) for port in _ports(partition, "output")]
    compiled = create(lib.dnnl_graph_compiled_partition_create, "dnnl_graph_compiled_partition_t", partition)
    sides = [ffi.new("dnnl_graph_logical_tensor_t *[]", [one._struct for one in side]) for side in (ins, outs)]
    call(
        lib.dnnl_graph_partition_compile,
        partition,
        compiled,
        len(ins),
        sides[0],
        len(outs),
        sides[1],
        default_engine()._ptr,
    )
    query = lib.dnnl_graph_compiled_partition_query_logical_tensor
    inferred = [Native._of(read(query, "dnnl_graph_logical_tensor_t", compiled, one.id)) for one in outs]
    made = [strided_empty(known_dims(one.shape), one.strides or (), one.dtype.numpy) for one in inferred]
    memories = [_laid(tensors[one.id], stored(values[one.id])) for one in ins]
    first = [Tensor(tensor, array) for tensor, array in zip(ins, memories, strict=True)]
    last = [Tensor(tensor, array) for tensor, array in zip(inferred, made, strict=True)]
    tell("execute")
    stream = Stream()
    call(
        lib.dnnl_graph_compiled_partition_execute,
        compiled,
        stream._ptr,
        len(first),
        ffi.new("const_dnnl_graph_tensor_t[]", [one._ptr for one in first]),
        len(last),
        ffi.new("const_dnnl_graph_tensor_t[]", [one._ptr for one in last]),
    )
    stream.wait()
    values.update({one.id: array for one, array in zip(inferred, made, strict=True)})


def _laid(tensor: LogicalTensor, array: Array) -> Array:
    """The array in the layout that the graph gives the tensor."""
    if tensor.strides is None:
        return array
    laid = strided_empty(array.shape, tensor.strides, array.dtype)
    laid[...] = array
    return laid


def main() -> None:
    """Answer the requests of the parent process until it closes the pipe."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the library prints

        def tell(stage: str, **facts: object) -> None:
            print(json.dumps({"stage": stage, **facts}), file=answers, flush=True)

        for line in sys.stdin:
            tell("load")
            outcome, detail = _answer(json.loads(line), tell)
            print(json.dumps({"done": True, "outcome": outcome, "detail": detail}), file=answers, flush=True)


def _answer(task: Mapping[str, str], tell: Any) -> tuple[str, str]:
    folder = Path(task["folder"])
    graph = Graph.load(str(folder / "graph.json"))
    try:
        inputs = read_inputs(str(folder / "inputs.npz"), graph)
        outputs, kinds = execute_bare(graph, inputs, task["policy"], task["fpmath_mode"], tell)
    except UnsupportedError as error:
        return "unsupported", str(error)
    except OneGraphError as error:
        return "refused", str(error)
    bytes_of = {
        f"{number}": np.ascontiguousarray(array).ravel().view(np.uint8) for number, array in enumerate(outputs.values())
    }
    np.savez(folder / "outputs.npz", **bytes_of)  # type: ignore[arg-type]
    shapes = {name: list(array.shape) for name, array in outputs.items()}
    return RIGHT, json.dumps({"partitions": kinds, "shapes": shapes})


__all__ = ["BareRun", "bare_step", "compared", "execute_bare", "run_bare"]
