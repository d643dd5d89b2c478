"""Binds partitions, which are ops that are compiled together, and compiled partitions, which execute them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .._util.exact_types import has_type
from .._util.fork_safety import new_rlock, refuse_inner
from .._util.init_once import once
from .._util.validation import expect, identifier
from ..errors import ArgumentError, OutOfMemoryError, StatusError, UnsupportedError, shown
from ..native.library import Handle, call, create, ffi, lib, newer_function
from ..opset.signature import Shape
from .caches import get_constant_tensor_cache
from .compilation import Compilation, refusal
from .engine import Engine, Stream, available_kind, engine_or_default
from .execution import execute, given_tensors, refuse_other_threads
from .logical_tensor import LogicalTensor
from .op import Op, refuse_other_uses
from .partition_checks import check_tensors, matched, refuse_overlap, with_one_stride
from .partition_ports import PartitionPorts
from .tensor import Execution, Tensor
from .thread_affinity import OwnerThread

_destroy = lib.dnnl_graph_compiled_partition_destroy
_PARTITION = ffi.typeof("dnnl_graph_partition_t")


class Partition(PartitionPorts, Handle):
    """``dnnl_graph_partition_t``: ops that are compiled together. ``Graph.partitions`` and ``from_op`` make it."""

    __slots__ = ("_constants", "_graph_lock", "_graph_ops", "_input_ids", "_op_ids", "_output_ids", "_strict")

    @once("_ptr")
    def __init__(self, pointer: Any, ops: Mapping[int, Op]) -> None:
        if not has_type(pointer, ffi.CData) or ffi.typeof(pointer) is not _PARTITION or not pointer:
            raise ArgumentError("a partition comes from Graph.partitions() or Partition.from_op()")
        self._take(pointer, ops, ffi.new("size_t[3]"), ffi.new("size_t[]", count_ids(ops.values())), new_rlock())

    def _take(self, pointer: Any, ops: Mapping[int, Op], sizes: Any, ids: Any, lock: threading.RLock) -> None:
        super().__init__(pointer, lib.dnnl_graph_partition_destroy)
        # The partition shares its ops with the graph, which writes to them when it is partitioned again.
        self._graph_lock = lock
        self._strict = True  # whether f32 is computed in f32
        # Contents of the constants in the first execution, by id and shape: newer libraries share prepared constants
        # among all compiled partitions of this partition.
        self._constants: dict[tuple[int, Shape], bytes] = {}
        call(lib.onegraph_partition_ids, pointer, sizes, len(ids), ids)
        n_ops, n_inputs, n_outputs = sizes
        numbers = ffi.unpack(ids, n_ops + n_inputs + n_outputs)
        self._op_ids, self._graph_ops = tuple(numbers[:n_ops]), ops
        self._input_ids, self._output_ids = numbers[n_ops : n_ops + n_inputs], numbers[n_ops + n_inputs :]

    @property
    def _ops(self) -> list[Op]:
        """The ops, in the library's order."""
        return [self._graph_ops[number] for number in self._op_ids]

    @classmethod
    def _all(
        cls, pointers: Sequence[Any], ops: Mapping[int, Op], n_ids: int, lock: threading.RLock
    ) -> Iterator[Partition]:
        """The partitions of a graph with these ops and this lock; ``n_ids`` is the result of ``count_ids``."""
        sizes, ids = ffi.new("size_t[3]"), ffi.new("size_t[]", n_ids)
        for pointer in pointers:
            partition = cls.__new__(cls)
            partition._take(pointer, ops, sizes, ids, lock)
            yield partition

    @classmethod
    def from_op(cls, op: Op, engine_kind: str = "cpu") -> Partition:
        """A partition of one op that is in no graph.

        Raises:
            StateError: the op is in a graph, or in another partition.
            ArgumentError: two tensors have the same id.
            SpecError: the op breaks the specification.
            UnsupportedError: the library refuses the op, crashes on it or computes it wrong.
        """
        expect("op", op, Op)
        kind = available_kind(engine_kind)
        refuse_inner(op._lock, f"op {op._id}")
        with op._lock:
            op._refuse_frozen()  # the library would follow the op's tensors to the other ops of its graph
            op._recreate_if_interrupted()
            op.check()
            refuse_other_uses(op, {})
            ins, outs = [tensor.id for tensor in op.inputs], [tensor.id for tensor in op.outputs]
            if len({*outs, *ins}) < len(outs) + len({*ins}):
                raise ArgumentError(f"{op!r}: outputs {outs}, inputs {ins}; expected an id of its own for each output")
            pointer = create(lib.dnnl_graph_partition_create_with_op, "dnnl_graph_partition_t", op._ptr, kind)
            op._frozen = True
        return cls(pointer, {op.id: op})

    def compile(
        self,
        inputs: Sequence[LogicalTensor] | None = None,
        outputs: Sequence[LogicalTensor] | None = None,
        engine: Engine | None = None,
    ) -> CompiledPartition:
        """Compile for an engine.

        Args:
            inputs: a logical tensor for each input port, in any order, with every dim known; ``input_ports`` by
                default. A tensor that is listed twice there may be given once.
            outputs: a logical tensor for each output port, in any order; ``output_ports`` by default. The library
                infers unknown shapes.
            engine: the default engine if None.

        Raises:
            UnsupportedError: the library does not support the partition, or computes it wrong for these shapes.
            ArgumentError: a logical tensor is missing, unknown, or does not fit its port.
            SpecError: an op cannot have inputs of these shapes.
            StatusError: the library refused the partition.
        """
        return CompiledPartition(self, inputs, outputs, engine)

    def _refuse_unsupported(self) -> None:
        if not self.supported:
            raise UnsupportedError(f"the library does not support the partition of {self._kinds()}")

    def __repr__(self) -> str:
        return f"Partition({self.id}: {self._kinds()}{'' if self.supported else ', unsupported'})"

    def _kinds(self) -> str:
        return ", ".join(op.schema.kind for op in self._ops)


class CompiledPartition(Handle):
    """``dnnl_graph_compiled_partition_t``: a partition compiled to kernels. ``Partition.compile`` makes it."""

    __slots__ = ("_compilation", "_partition")

    @once("_ptr")
    def __init__(
        self,
        partition: Partition,
        inputs: Sequence[LogicalTensor] | None = None,
        outputs: Sequence[LogicalTensor] | None = None,
        engine: Engine | None = None,
    ) -> None:
        expect("partition", partition, Partition)
        engine = engine_or_default(engine)
        ins = matched("inputs", partition.input_ports, inputs)
        outs = matched("outputs", partition.output_ports, outputs)
        ins, outs = ([with_one_stride(tensor) for tensor in tensors] for tensors in (ins, outs))
        partition._refuse_unsupported()
        check_tensors(repr(partition), partition._ops, ins, outs, partition._strict)
        keeps_constants = get_constant_tensor_cache()
        with partition._graph_lock:
            try:
                self._compile(partition, ins, outs, engine, keeps_constants)
                undecided = [tensor.id for tensor in self.outputs if tensor.layout == "any"]
                if undecided:  # for a SoftMax with stats, 3.9 and later hide the layout, so it could not be executed
                    dense = [LogicalTensor._checked(t.id, t.dtype, t.shape, property=t.property) for t in outs]
                    outs = [one if one.id in undecided else tensor for one, tensor in zip(dense, outs, strict=True)]
                    self._compile(partition, ins, outs, engine, keeps_constants)
            except OutOfMemoryError:
                raise
            except StatusError as error:
                raise refusal(error, partition, partition._ops) from None

    @classmethod
    def _checked(
        cls,
        partition: Partition,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine,
    ) -> CompiledPartition:
        """Compile a partition without checking the tensors.

        The caller guarantees: there is one tensor for each port, in the order of the ports, with the data type that the
        graph has. Inputs are strided with every dim known, and the ops were checked for their shapes. Outputs have the
        inferred shapes or unknown ones, the layout strided or any, and no two elements at one address. ``wrong_fusion``
        reports nothing for the ops, and ``honours_strides`` is true for all tensors that are not dense. No other thread
        partitions the graph. The first execution of a result that keeps
        constants is checked.

        Raises:
            UnsupportedError: the library does not support the partition.
            StatusError: the library refused the partition.
        """
        compiled = cls._postponed(partition, inputs, outputs, engine)
        compiled._make()
        return compiled

    @classmethod
    def _postponed(
        cls,
        partition: Partition,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine,
    ) -> CompiledPartition:
        """A compiled partition as ``_checked`` makes it, for ``compile_postponed`` to compile.

        Raises:
            UnsupportedError: the library does not support the partition.
        """
        partition._refuse_unsupported()
        compiled = cls.__new__(cls)
        compiled._partition = partition
        compiled._compilation = Compilation(partition, partition._ops, inputs, outputs, engine, keeps_constants=True)
        return compiled

    def _compile(
        self,
        partition: Partition,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine,
        keeps_constants: bool,
    ) -> None:
        self._partition = partition
        self._compilation = Compilation(partition, partition._ops, inputs, outputs, engine, keeps_constants)
        self._make()

    def _make(self) -> None:
        (pointer,) = self._compilation.make(1)
        self._own(pointer)
        self._compilation.query(pointer)

    def _own(self, pointer: Any) -> None:
        compilation, destroy = self._compilation, _destroy
        if compilation.owner_thread is not None:
            destroy = partial(compilation.owner_thread.destroy, destroy)
        super().__init__(pointer, destroy, self._partition, compilation.engine)

    def _another(self) -> CompiledPartition:
        """A second compiled partition, for ``compile_postponed`` to compile, with prepared constants of its own."""
        sibling = CompiledPartition.__new__(CompiledPartition)
        sibling._partition, sibling._compilation = self._partition, self._compilation
        return sibling

    @property
    def is_thread_bound(self) -> bool:
        """Whether only the compiling thread can execute it, as for most gradient ops."""
        return self._compilation.owner_thread is not None

    @property
    def owner_thread(self) -> OwnerThread | None:
        """The only thread that can execute it; None if every thread can."""
        return self._compilation.owner_thread

    @property
    def partition(self) -> Partition:
        """The partition that was compiled."""
        return self._partition

    @property
    def engine(self) -> Engine:
        """The engine that the partition was compiled for."""
        return self._compilation.engine

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """The inputs as they were compiled, in the library's order."""
        return self._compilation.inputs

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The outputs as they were compiled, with the inferred shapes and the chosen layouts."""
        return self._compilation.outputs

    def query_logical_tensor(self, id: int) -> LogicalTensor:
        """The input or output ``id`` as it was compiled, with the inferred shape and the chosen layout.

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
        """Pairs (input id, output id) of tensors that may share memory."""
        return [(source, target) for target, source in self._compilation.in_place.items()]

    @property
    def scratchpad(self) -> LogicalTensor:
        """The scratch memory that an execution needs, as a vector of u8; of no elements if it needs none.

        Raises:
            UnsupportedError: the library is older than 3.13.
        """
        name = "dnnl_graph_compiled_partition_get_scratchpad_logical_tensor"
        return LogicalTensor._filled(newer_function(name, "3.13"), self._ptr)

    def execute(
        self,
        stream: Stream,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        scratchpad: Tensor | None = None,
    ) -> None:
        """Execute, and wait until the execution is done.

        Args:
            stream: a stream of ``engine``.
            inputs, outputs: tensors in any order, matched by id. A tensor that is listed twice among the ports may be
                given twice.
            scratchpad: scratch memory of at least the size of ``scratchpad``, which no other execution uses at the same
                time; since oneDNN 3.13. By default the library allocates it.

        Raises:
            UnsupportedError: there is a scratchpad, and the library is older than 3.13.
            ArgumentError: the scratchpad is too small, read-only or overlaps another tensor; the stream or a tensor
                belongs to another engine; a tensor is missing, unknown, misaligned, or differs from the compiled one;
                an output is read-only or overlaps another tensor that is not its pair in ``inplace_pairs``; or a
                constant differs from the first execution.
            StateError: another thread compiled it, or it needs threads that this process lost in a fork.
            StatusError: the library failed.
        """
        expect("stream", stream, Stream)
        refuse_other_threads(self.partition, self._compilation)
        if stream.engine is not self.engine:
            raise ArgumentError(
                "stream: of another engine than the compiled partition; make it with capi.Stream(compiled.engine)"
            )
        ins = given_tensors("inputs", self.inputs, self.partition._input_ids, inputs, self.engine)
        outs = given_tensors("outputs", self.outputs, self.partition._output_ids, outputs, self.engine)
        scratch = () if scratchpad is None else (self._checked_scratchpad(scratchpad, (*ins, *outs)),)
        execution = Execution()
        try:
            execution.use((*ins, *outs, *scratch))
            execute(self._ptr, self._compilation, self._partition._constants, stream, ins, outs, *scratch)
        finally:
            execution.done = True

    def _checked_scratchpad(self, scratchpad: Tensor, bound_tensors: Sequence[Tensor]) -> Tensor:
        expect("scratchpad", scratchpad, Tensor)
        needed = self.scratchpad.known_size
        if scratchpad.nbytes < needed:
            raise ArgumentError(f"scratchpad: {scratchpad.nbytes} bytes; expected at least {needed}")
        if scratchpad.engine is not self.engine or not scratchpad.writable:
            raise ArgumentError("scratchpad: read-only, or of another engine; expected writable memory of this engine")
        refuse_overlap(bound_tensors, [scratchpad], {})
        return scratchpad


def count_ids(ops: Iterable[Op]) -> int:
    """Number of ids of ops, inputs and outputs, counted with repetition: an upper limit for every partition of them."""
    return sum([1 + len(op._inputs) + len(op._outputs) for op in ops])
