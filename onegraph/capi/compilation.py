"""Compiles partitions and records the tensors that they are compiled for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from ..errors import StatusError
from ..faults.constant_inputs import variables
from ..faults.execution import SCRATCH_OF_THE_THREAD, SHARED_BLOCKING, STATS_IN_PLACE
from ..faults.use import DEQUANTIZATIONS
from ..native.library import HASHES_CONSTANTS, VERSION, Handle, begin_compilation, call, ffi, lib, status_error
from .caches import (
    get_compiled_partition_cache_capacity,
    get_primitive_cache_capacity,
    set_compiled_partition_cache_capacity,
    set_primitive_cache_capacity,
)
from .engine import Engine
from .logical_tensor import LogicalTensor
from .op import Op
from .settings import get_cpu_isa, is_native
from .thread_affinity import calling_thread
from .threads import threads_now

_TENSORS, _COMPILED = ffi.typeof("dnnl_graph_logical_tensor_t *[]"), ffi.typeof("dnnl_graph_compiled_partition_t[]")
_JOBS = ffi.typeof("onegraph_job_t[]")
CODING = DEQUANTIZATIONS | {"Quantize", "DynamicQuantize"}
_query = lib.dnnl_graph_compiled_partition_query_logical_tensor


class Compilation:
    """The tensors that a partition is compiled for; compiled partitions of equal tensors share it.

    Attributes:
        inputs: in the order of the ports.
        outputs: as they were compiled. ``query`` sets ``outputs``, ``in_place`` and ``ports``.
        keeps_constants: whether the library keeps what it computes from constants.
        prepares: whether the first execution may allocate memory that stays. The library has constants of its own for
            the scales of quantized ops.
        in_place: for each output that may share memory with an input, the id of the input by that of the output.
        ports: number of inputs, number of outputs, and the C tensors of both.
    """

    def __init__(
        self,
        partition: Handle,
        ops: Sequence[Op],
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine,
        keeps_constants: bool,
    ) -> None:
        if len(outputs) > 1 or all(tensor.property == "constant" for tensor in inputs):
            # The library writes an output that depends on constants alone in the first execution only.
            inputs = [tensor._as_variable() for tensor in inputs]
        elif written := variables(
            [op._node() for op in ops], {tensor._id for tensor in inputs if tensor.property == "constant"}
        ):
            # Later executions would overwrite the prepared form of such a constant, or would not write the output.
            inputs = [tensor._as_variable() if tensor._id in written else tensor for tensor in inputs]
        self.ops, self.engine, self.threads = ops, engine, threads_now()
        self.keeps_constants = keeps_constants and any(tensor.property == "constant" for tensor in inputs)
        self._partition = partition
        kinds = [op.schema.kind for op in ops]
        self.prepares = self.keeps_constants or HASHES_CONSTANTS or not CODING.isdisjoint(kinds)
        self.owner_thread = calling_thread() if SCRATCH_OF_THE_THREAD.when(kinds) else None
        self._is_exclusive = SHARED_BLOCKING.affects(VERSION) and bool(SHARED_BLOCKING.when(kinds))
        self.inputs, self._given = tuple(inputs), [tensor._as_variable() for tensor in outputs]
        self._is_read = False
        self._compiled = inputs if keeps_constants else [tensor._as_variable() for tensor in inputs]
        self._ins = ffi.new(_TENSORS, [tensor._struct for tensor in self._compiled])
        self._outs = ffi.new(_TENSORS, [tensor._struct for tensor in self._given])

    def make(self, count: int) -> list[Any]:
        """Compile the partition ``count`` times; returns the C objects.

        Raises:
            StatusError: the library refused the partition.
        """
        if self.owner_thread is not None:
            self.owner_thread.clear()
        ((made, status),) = compile_all([(self, count)], 1)
        if status:
            error = status_error("dnnl_graph_partition_compile", status)
            if isinstance(error, StatusError) and error.what:
                empty_caches()
            raise error
        return made

    def query(self, pointer: Any) -> None:
        """Read the outputs and the in-place pairs from the C object that was compiled first.

        Those compiled later have the same. Plans hold the addresses of the C tensors, so these stay.
        """
        if self._is_read:
            return
        self.outputs = tuple([LogicalTensor._filled(_query, pointer, tensor.id) for tensor in self._given])
        count, pairs = ffi.new("size_t *"), ffi.new("const dnnl_graph_inplace_pair_t **")
        call(lib.dnnl_graph_compiled_partition_get_inplace_ports, pointer, count, pairs)
        ops = self.ops
        in_place = not STATS_IN_PLACE.when([op._node() for op in ops])
        listed = [pairs[0][index] for index in range(count[0] if in_place else 0)]
        # The library ignores that another op of the partition may read the input too.
        reads = Counter(tensor._id for op in ops for tensor in op._inputs)
        self.in_place = {pair.output_id: pair.input_id for pair in listed if reads[pair.input_id] == 1}
        structs = [tensor._struct for tensor in (*self.inputs, *self.outputs)]
        self.ports = len(self.inputs), len(self.outputs), ffi.new(_TENSORS, structs)
        self._is_read = True


def compile_all(jobs: Sequence[tuple[Compilation, int]], most: int) -> list[tuple[list[Any], int]]:
    """Compile several partitions at once.

    Args:
        jobs: compilations, each with the number of C objects to make. If one has thread affinity, ``most`` is 1.
        most: number of threads that compile.

    Returns:
        for each job the C objects and the status; if it is not success, there are none.
    """
    begin_compilation()
    ends = [0, *accumulate(count for _, count in jobs)]
    made, kept = ffi.new(_COMPILED, ends[-1]), ffi.new(_JOBS, len(jobs))
    for job, (compilation, count), start in zip(kept, jobs, ends, strict=False):
        job.partition, job.engine, job.threads = (
            compilation._partition._ptr,
            compilation.engine._ptr,
            compilation.threads,
        )
        job.n_inputs, job.inputs, job.n_outputs, job.outputs = (
            len(compilation._ins),
            compilation._ins,
            len(compilation._outs),
            compilation._outs,
        )
        job.is_bound, job.is_exclusive = compilation.owner_thread is not None, compilation._is_exclusive
        job.count, job.compiled = count, made + start
    call(lib.onegraph_compile, len(jobs), kept, most)
    return [
        (list(made[start:end]) if not job.status else [], job.status)
        for job, (start, end) in zip(kept, pairwise(ends), strict=True)
    ]


def refusal(error: StatusError, partition: Handle, ops: Sequence[Op]) -> StatusError:
    """The error with the partition, the likely reason and advice added."""
    dtypes = {tensor.dtype for op in ops for tensor in (*op._inputs, *op._outputs)}
    missing = " and ".join(sorted(dtype.value for dtype in dtypes if not is_native(dtype)))
    advice = "a onegraph.Graph finds another way"
    if missing:
        advice = f"this CPU ({get_cpu_isa()}) has no {missing}; a onegraph.Graph computes in f32 there"
    return type(error)(error.function, error.status, error.what, f"{partition!r}: {advice}")


def empty_caches() -> None:
    """Empty the caches after a compilation that threw: its unfinished entry makes the next equal compilation fail."""
    for get, put in (
        (get_primitive_cache_capacity, set_primitive_cache_capacity),
        (get_compiled_partition_cache_capacity, set_compiled_partition_cache_capacity),
    ):
        capacity = get()
        if capacity:
            try:
                put(0)
            finally:  # also after an interrupt
                put(capacity)
