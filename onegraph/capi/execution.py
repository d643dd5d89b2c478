"""Executes compiled partitions on tensors that are checked first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._util.validation import as_list
from ..errors import ArgumentError, StateError
from ..native.library import Handle, call, ffi, lib, newer_function
from ..opset.signature import Shape
from .caches import get_constant_tensor_cache
from .compilation import Compilation
from .engine import Engine, Stream
from .logical_tensor import LogicalTensor
from .partition_checks import by_id, is_same, refuse_misaligned, refuse_overlap
from .tensor import Tensor
from .thread_affinity import calling_thread
from .threads import is_forked

Constants = dict[tuple[int, Shape], bytes]


def refuse_other_threads(partition: Handle, compilation: Compilation) -> None:
    """Raise StateError if the compiled partition needs another thread than this one, or threads that a fork lost."""
    if compilation.owner_thread not in (None, calling_thread()):
        raise StateError(
            f"{partition!r} was compiled by another thread, or before a fork, and only that one can execute it"
        )
    if compilation.threads > 1 and is_forked():
        raise StateError(
            f"{partition!r} was compiled for {compilation.threads} threads, and this thread, which comes out of a "
            "fork, would wait for them for ever; compile it again here, or execute in a new thread"
        )


def given_tensors(
    name: str, wanted: Sequence[LogicalTensor], ports: Sequence[int], tensors: Sequence[Tensor], engine: Engine
) -> list[Tensor]:
    """The given tensors in the order of the wanted ones; ArgumentError if one is missing or is not as compiled."""
    by_id_of_tensor = by_id(name, as_list(name, tensors, Tensor), ports, lambda tensor: tensor.logical_tensor.id)
    for tensor in wanted:
        got = by_id_of_tensor[tensor.id]
        if got.engine is not engine:
            fix = "make it with capi.Tensor(..., engine=compiled.engine)"
            raise ArgumentError(f"{name}: tensor {tensor.id} is of another engine than the compiled partition; {fix}")
        if got.nbytes < tensor.known_size or not is_same(got.logical_tensor, tensor):
            raise ArgumentError(f"{name}: {got.logical_tensor!r}; expected {tensor!r}, as it was compiled")
    return [by_id_of_tensor[tensor.id] for tensor in wanted]


def execute(
    pointer: Any,
    compilation: Compilation,
    constants: Constants,
    stream: Stream,
    ins: Sequence[Tensor],
    outs: Sequence[Tensor],
    scratchpad: Tensor | None = None,
) -> None:
    """Execute a compiled partition, and wait; ``constants`` are those of the first execution of its partition."""
    for tensor in outs:
        if not tensor.writable:
            raise ArgumentError(f"outputs: tensor {tensor.logical_tensor.id} is read-only")
    refuse_overlap(ins, outs, compilation.in_place)
    refuse_misaligned("inputs", ins)
    refuse_misaligned("outputs", outs)
    _refuse_other_constants(compilation, constants, ins)
    tensors = [ffi.new("const_dnnl_graph_tensor_t[]", [tensor._ptr for tensor in side]) for side in (ins, outs)]
    arguments = pointer, stream._ptr, len(ins), tensors[0], len(outs), tensors[1]
    if scratchpad is None:
        call(lib.dnnl_graph_compiled_partition_execute, *arguments)
    else:
        call(newer_function("dnnl_graph_compiled_partition_execute_v2", "3.13"), *arguments, scratchpad._ptr)
    stream.wait()


def _refuse_other_constants(compilation: Compilation, first: Constants, inputs: Sequence[Tensor]) -> None:
    """Refuse constants that differ from the first execution, after which the library does not read them again."""
    if not get_constant_tensor_cache():
        return  # and the cache cannot be enabled any more
    pairs = zip(compilation.inputs, inputs, strict=True)
    constants = {(one.id, one.shape): tensor._contents() for one, tensor in pairs if one.property == "constant"}
    # Compare all before storing any; compare again while storing, as another thread may have stored first.
    for known in (first.get, first.setdefault):
        for constant, data in constants.items():
            if known(constant, data) != data:
                raise ArgumentError(
                    f"inputs: tensor {constant[0]} is constant, and its data differs from that of the first "
                    "execution, which the library goes on to use; make it variable, or take the partition from a "
                    "new graph"
                )
