"""Compiled partitions: the logical tensors that compile is given, and the tensors that execute is, matched by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..errors import ArgumentError, StateError, StatusError, shown
from ..native import Handle, begin_compilation, call, ffi, has_compiled, lib
from ..spec.shapes import compatible
from .engine import Engine, Stream, engine_or_default
from .homes import home, is_bound
from .logical_tensor import LogicalTensor
from .partition import Partition
from .settings import (
    get_compiled_partition_cache_capacity,
    get_constant_tensor_cache,
    get_num_threads,
    get_primitive_cache_capacity,
    is_forked,
    set_compiled_partition_cache_capacity,
    set_primitive_cache_capacity,
)
from .tensor import Execution, Tensor
from .validate import as_list, expect, identifier, once

_TENSORS, _COMPILED = ffi.typeof("dnnl_graph_logical_tensor_t *[]"), ffi.typeof("dnnl_graph_compiled_partition_t *")
_create, _compile = lib.dnnl_graph_compiled_partition_create, lib.dnnl_graph_partition_compile
_query = lib.dnnl_graph_compiled_partition_query_logical_tensor


class CompiledPartition(Handle):
    """``dnnl_graph_compiled_partition_t``: a partition with its kernels. ``Partition.compile`` makes it."""

    __slots__ = ("_engine", "_given", "_home", "_in_place", "_inputs", "_outputs", "_partition", "_structs", "_threads")

    def __init__(
        self,
        partition: Partition,
        inputs: Sequence[LogicalTensor] | None = None,
        outputs: Sequence[LogicalTensor] | None = None,
        engine: Engine | None = None,
    ) -> None:
        once(self)
        expect("partition", partition, Partition)
        engine = engine_or_default(engine)
        ins = _matched("inputs", partition.input_ports, inputs)
        outs = _matched("outputs", partition.output_ports, outputs)
        partition._check_tensors(ins, outs)
        self._compile(partition, ins, outs, engine)

    @classmethod
    def _checked(
        cls,
        partition: Partition,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine,
    ) -> CompiledPartition:
        """What the constructor makes, of tensors that are known to be right: nothing is looked at.

        There is one tensor for each port, in the order of the ports, with the data type that the graph has; inputs are
        strided with every dim known, of shapes for which the ops were checked; outputs have the shapes that follow or
        unknown ones, layout strided or any, and memory of its own for each element. ``wrong_fusion`` knows nothing of
        the ops, and ``honours_strides`` holds of all tensors that are not dense.

        Raises:
            UnsupportedError: the library does not support the partition.
            StatusError: the library refused.
        """
        partition._refuse_unsupported()
        compiled = cls.__new__(cls)
        compiled._compile(partition, inputs, outputs, engine)
        return compiled

    def _compile(
        self,
        partition: Partition,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine,
    ) -> None:
        if len(outputs) > 1 or all(tensor.property == "constant" for tensor in inputs):
            # What follows from constants alone is computed in the first execution and not written in the next ones.
            inputs = [tensor._as_variable() for tensor in inputs]
        self._inputs = tuple(inputs)
        ins = ffi.new(_TENSORS, [tensor._struct for tensor in inputs])
        outs = ffi.new(_TENSORS, [tensor._struct for tensor in outputs])
        self._partition, self._engine, self._threads = partition, engine, get_num_threads() or 1
        self._home = home() if is_bound(op.schema.kind for op in partition._ops) else None
        self._make((ins, outs, outputs))
        pointer = self._ptr
        self._outputs = tuple([LogicalTensor._filled(_query, pointer, tensor.id) for tensor in outputs])
        count, pairs = ffi.new("size_t *"), ffi.new("const dnnl_graph_inplace_pair_t **")
        call(lib.dnnl_graph_compiled_partition_get_inplace_ports, pointer, count, pairs)
        ops = partition._ops
        listed = [pairs[0][index] for index in range(count[0] if all(op._in_place for op in ops) else 0)]
        # The library forgets that an op before the one that writes may read the input, too.
        reads = Counter(tensor._id for op in ops for tensor in op._inputs)
        self._in_place = {pair.output_id: pair.input_id for pair in listed if reads[pair.input_id] == 1}
        structs = [tensor._struct for tensor in (*self._inputs, *self._outputs)]
        self._structs = len(self._inputs), len(self._outputs), ffi.new(_TENSORS, structs)

    def _again(self) -> CompiledPartition:
        """The same, compiled once more: what the library keeps of constants is not shared, where its cache is off."""
        compiled = type(self).__new__(type(self))
        compiled._partition, compiled._engine, compiled._home = self._partition, self._engine, self._home
        compiled._inputs, compiled._outputs, compiled._structs = self._inputs, self._outputs, self._structs
        compiled._in_place, compiled._threads = self._in_place, self._threads
        compiled._make(self._given)
        return compiled

    def _make(self, given: tuple[Any, Any, Sequence[LogicalTensor]]) -> None:
        """The C object, compiled for arrays of C tensors: inputs, outputs, and what keeps these alive."""
        if not has_compiled():
            begin_compilation()
        made = ffi.new(_COMPILED)
        call(_create, made, self._partition._ptr)
        pointer, destroy = made[0], lib.dnnl_graph_compiled_partition_destroy
        if self._home is not None:
            self._home.clear()
            destroy = partial(self._home.destroy, destroy)
        super().__init__(pointer, destroy, self._partition, self._engine)
        self._given = ins, outs, _ = given
        try:
            call(_compile, self._partition._ptr, pointer, len(ins), ins, len(outs), outs, self._engine._ptr)
        except StatusError as error:
            if error.what:
                _empty_caches()
            raise

    @property
    def is_thread_bound(self) -> bool:
        """Whether only the thread that compiled it can execute it: so it is with most of the gradient ops."""
        return self._home is not None

    @property
    def partition(self) -> Partition:
        """What was compiled."""
        return self._partition

    @property
    def engine(self) -> Engine:
        """The engine that it was compiled for."""
        return self._engine

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """The inputs as they were compiled, in the library's order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The outputs as they were compiled: shapes inferred, layouts chosen."""
        return self._outputs

    def query_logical_tensor(self, id: int) -> LogicalTensor:
        """The input or output ``id`` as it was compiled: shape inferred, layout chosen.

        Raises:
            ArgumentError: the partition has no such tensor.
        """
        number = identifier("id", id)
        for tensor in (*self.inputs, *self.outputs):
            if tensor.id == number:
                return tensor
        raise ArgumentError(f"tensor {shown(id)}; expected one of {[t.id for t in (*self.inputs, *self.outputs)]}")

    @property
    def inplace_pairs(self) -> list[tuple[int, int]]:
        """(input id, output id) of the tensors that may share memory."""
        return [(source, target) for target, source in self._in_place.items()]

    def execute(self, stream: Stream, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Execute, and wait for the end.

        Args:
            stream: of the engine that this was compiled for.
            inputs, outputs: tensors in any order; they are matched by id.

        Raises:
            ArgumentError: a tensor is missing or unknown, differs from what was compiled, is not writable, or
                overlaps another one where that is not allowed; or a constant is not what it was before.
            StatusError: the library failed.
        """
        expect("stream", stream, Stream)
        if self._home not in (None, home()):
            raise StateError(
                f"{self.partition!r} was compiled by another thread, or before a fork, and only that one can execute it"
            )
        if self._threads > 1 and is_forked():
            raise StateError(
                f"{self.partition!r} was compiled for {self._threads} threads, and this thread, which comes out of a "
                "fork, would wait for them for ever; compile it again here, or execute it in a new thread"
            )
        if stream.engine is not self.engine:
            raise ArgumentError("stream: of another engine than the compiled partition")
        ins = self._tensors("inputs", self.inputs, inputs)
        outs = self._tensors("outputs", self.outputs, outputs)
        execution = Execution()
        try:
            execution.use((*ins, *outs))
            self._execute(stream, ins, outs)
        finally:
            execution.done = True

    def _execute(self, stream: Stream, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
        for tensor in outs:
            if not tensor.writable:
                raise ArgumentError(f"outputs: tensor {tensor.logical_tensor.id} is read-only")
        self._refuse_overlap(ins, outs)
        self._refuse_other_constants(ins)
        call(
            lib.dnnl_graph_compiled_partition_execute,
            self._ptr,
            stream._ptr,
            len(ins),
            ffi.new("const_dnnl_graph_tensor_t[]", [tensor._ptr for tensor in ins]),
            len(outs),
            ffi.new("const_dnnl_graph_tensor_t[]", [tensor._ptr for tensor in outs]),
        )
        stream.wait()

    def _refuse_other_constants(self, inputs: Sequence[Tensor]) -> None:
        """The library keeps what it made of constants in the first execution and looks at them no more."""
        for wanted, tensor in zip(self._inputs, inputs, strict=True):
            if wanted.property != "constant":
                continue
            data = tensor._contents()
            first = self._partition._constants.setdefault((wanted.id, wanted.shape), data)
            if first != data and get_constant_tensor_cache():
                raise ArgumentError(
                    f"inputs: tensor {wanted.id} is constant, and its data differs from that of the first execution, "
                    "which the library goes on to use; make it variable, or take the partition from a new graph"
                )

    def _tensors(self, name: str, wanted: Sequence[LogicalTensor], given: Sequence[Tensor]) -> list[Tensor]:
        given = as_list(name, given, Tensor)
        by_id = {tensor.logical_tensor.id: tensor for tensor in given}
        ids = [tensor.id for tensor in wanted]
        if sorted(by_id) != sorted(ids) or len(given) != len(ids):
            raise ArgumentError(f"{name}: tensors {[t.logical_tensor.id for t in given]}; expected {ids}, each once")
        for tensor in wanted:
            got = by_id[tensor.id]
            if got.engine is not self.engine:
                raise ArgumentError(f"{name}: tensor {tensor.id} is of another engine")
            if got.nbytes < (tensor.mem_size or 0) or not _same(got.logical_tensor, tensor):
                raise ArgumentError(f"{name}: {got.logical_tensor!r}; expected {tensor!r}, as it was compiled")
        return [by_id[number] for number in ids]

    def _refuse_overlap(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        for position, out in enumerate(outputs):
            for other in (*inputs, *outputs[:position]):
                if out.nbytes == 0 or other.nbytes == 0:
                    continue
                if out.address + out.nbytes <= other.address or other.address + other.nbytes <= out.address:
                    continue
                exact = out.address == other.address
                pair = self._in_place.get(out.logical_tensor.id)
                if not (exact and other in inputs and pair == other.logical_tensor.id):
                    raise ArgumentError(
                        f"outputs: tensor {out.logical_tensor.id} shares memory with tensor "
                        f"{other.logical_tensor.id}; only the pairs in inplace_pairs may, as a whole"
                    )


def _same(given: LogicalTensor, compiled: LogicalTensor) -> bool:
    if given.dtype is not compiled.dtype or given.layout != compiled.layout:
        return False
    if given.layout == "opaque":
        return given.layout_id == compiled.layout_id
    if given.shape != compiled.shape:
        return False
    pairs = zip(given.shape or (), given.strides or (), compiled.strides or (), strict=True)
    return all(dim == 1 or ours == theirs for dim, ours, theirs in pairs)


def _matched(name: str, ports: Sequence[LogicalTensor], given: Sequence[LogicalTensor] | None) -> list[LogicalTensor]:
    """``given`` in the order of ``ports``, once each; exactly the ids of the ports, and fitting them."""
    wanted = {port.id: port for port in ports}
    if given is None:
        return list(wanted.values())
    found: dict[int, LogicalTensor] = {}
    for tensor in as_list(name, given, LogicalTensor):
        port = wanted.get(tensor.id)
        if port is None or tensor.id in found:
            raise ArgumentError(f"{name}: tensor {tensor.id}; expected the ids {sorted(wanted)}, each once")
        if tensor.dtype is not port.dtype or not compatible(tensor.shape, port.shape):
            raise ArgumentError(f"{name}: {tensor!r}; expected {port.dtype} {port.shape}, as the graph has it")
        found[tensor.id] = tensor
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise ArgumentError(f"{name}: tensors {missing} are missing")
    return [found[number] for number in wanted]


def _empty_caches() -> None:
    """A compilation that throws leaves a promise in the caches that nobody keeps, and the next of its kind trips."""
    for get, put in (
        (get_primitive_cache_capacity, set_primitive_cache_capacity),
        (get_compiled_partition_cache_capacity, set_compiled_partition_cache_capacity),
    ):
        capacity = get()
        if capacity:
            put(0)
            put(capacity)
