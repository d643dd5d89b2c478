"""Partitions: ops that are compiled together, and the checks of what they are compiled for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, UnsupportedError
from ..forks import new_rlock, refuse_inner
from ..native import VERSION, Handle, call, create, ffi, lib, read
from ..once import once
from ..plain import isinstance
from ..spec.fusions import wrong_fusion
from ..spec.schema import Shape, TensorType
from ..spec.shapes import compatible, dense_strides, overlaps
from ..spec.strides import honours_strides, loses_batches, loses_sums, loses_zero_points
from ..spec.use import Use
from ..spec.wrong_operands import wrong_strides
from ..validate import expect
from .engine import ENGINE_KIND_NAMES, Engine, available_kind
from .logical_tensor import LogicalTensor, is_dense
from .op import Op, check_types, refuse_other_uses
from .settings import has_avx2, has_vnni

if TYPE_CHECKING:
    import threading

    from .compiled import CompiledPartition

_PARTITION = ffi.typeof("dnnl_graph_partition_t")


class Partition(Handle):
    """``dnnl_graph_partition_t``: ops that are compiled and executed together. Graphs make them, or ``from_op``."""

    __slots__ = ("_constants", "_graph_lock", "_graph_ops", "_input_ids", "_op_ids", "_output_ids")

    @once("_ptr")
    def __init__(self, pointer: Any, ops: Mapping[int, Op]) -> None:
        if not isinstance(pointer, ffi.CData) or ffi.typeof(pointer) is not _PARTITION or not pointer:
            raise ArgumentError("a partition comes from Graph.partitions() or Partition.from_op()")
        self._take(pointer, ops, ffi.new("size_t[3]"), ffi.new("size_t[]", count_ids(ops.values())), new_rlock())

    def _take(self, pointer: Any, ops: Mapping[int, Op], sizes: Any, ids: Any, lock: threading.RLock) -> None:
        super().__init__(pointer, lib.dnnl_graph_partition_destroy)
        # The ops are the graph's own, to which it writes when it is partitioned once more.
        self._graph_lock = lock
        # Of the first execution, by id and shape: newer libraries share constants among all that is compiled of it.
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
        """The partitions of a graph with these ops and lock; ``n_ids`` as ``count_ids`` has it."""
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
            ArgumentError: an id stands for two tensors.
            SpecError: the op breaks the specification.
            UnsupportedError: the library refuses the op, crashes on it or computes it wrong.
        """
        expect("op", op, Op)
        kind = available_kind(engine_kind)
        refuse_inner(op._lock, f"op {op._id}")
        with op._lock:
            op._changeable()  # the library would follow the tensors of the op to the other ops of its graph
            op._tell_anew()
            op.check()
            refuse_other_uses(op, {})
            ins, outs = [tensor.id for tensor in op.inputs], [tensor.id for tensor in op.outputs]
            if len(set(outs)) < len(outs) or set(outs) & set(ins):
                raise ArgumentError(f"{op!r}: outputs {outs}, inputs {ins}; expected an id of its own for each output")
            pointer = create(lib.dnnl_graph_partition_create_with_op, "dnnl_graph_partition_t", op._ptr, kind)
            op._frozen = True
        return cls(pointer, {op.id: op})

    @property
    def id(self) -> int:
        """Number of the partition, unique in the process."""
        return int(read(lib.dnnl_graph_partition_get_id, "size_t", self._ptr))

    @property
    def ops(self) -> tuple[int, ...]:
        """Ids of the ops, in the library's order."""
        return self._op_ids

    @property
    def input_ports(self) -> list[LogicalTensor]:
        """The logical tensors that come in; one that is used twice stands twice."""
        return self._ports(lib.dnnl_graph_partition_get_input_ports_num, lib.dnnl_graph_partition_get_input_ports)

    @property
    def output_ports(self) -> list[LogicalTensor]:
        """The logical tensors that go out."""
        return self._ports(lib.dnnl_graph_partition_get_output_ports_num, lib.dnnl_graph_partition_get_output_ports)

    def _ports(self, count_of: Any, ports_of: Any) -> list[LogicalTensor]:
        count = int(read(count_of, "size_t", self._ptr))
        structs = ffi.new("dnnl_graph_logical_tensor_t[]", count)
        if count:
            call(ports_of, self._ptr, count, structs)
        return [LogicalTensor._of(struct) for struct in structs]

    @property
    def input_ids(self) -> list[int]:
        """Ids of ``input_ports``."""
        return [*self._input_ids]

    @property
    def output_ids(self) -> list[int]:
        """Ids of ``output_ports``."""
        return [*self._output_ids]

    @property
    def engine_kind(self) -> str:
        """Kind of engine that it can be compiled for."""
        return ENGINE_KIND_NAMES[read(lib.dnnl_graph_partition_get_engine_kind, "dnnl_engine_kind_t", self._ptr)]

    @property
    def supported(self) -> bool:
        """Whether the library can compile it."""
        return bool(read(lib.dnnl_graph_partition_is_supported, "uint8_t", self._ptr))

    def compile(
        self,
        inputs: Sequence[LogicalTensor] | None = None,
        outputs: Sequence[LogicalTensor] | None = None,
        engine: Engine | None = None,
    ) -> CompiledPartition:
        """Compile for an engine.

        Args:
            inputs: one for each input port, in any order, every dim known; the ports themselves by default. One that
                stands twice among the ports may be given once.
            outputs: one for each output port, in any order; with an unknown shape the library infers it.
            engine: the default engine.

        Raises:
            UnsupportedError: the library does not support the partition, or gets it wrong for these shapes.
            ArgumentError: a logical tensor is missing, is not of this partition, or does not fit it.
            SpecError: an op cannot have inputs of these shapes.
            StatusError: the library refused.
        """
        from .compiled import CompiledPartition

        return CompiledPartition(self, inputs, outputs, engine)

    def _refuse_unsupported(self) -> None:
        if not self.supported:
            raise UnsupportedError(f"the library does not support the partition of {self._kinds()}")

    def _check_tensors(self, inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor]) -> None:
        self._refuse_unsupported()
        for tensor in inputs:
            if tensor.strides is None:
                raise ArgumentError(f"inputs: {tensor!r}; expected a strided layout with every dim known")
        for tensor in outputs:
            if tensor.layout not in ("strided", "any"):
                raise ArgumentError(f"outputs: {tensor!r}; expected layout strided or any")
        # Inputs too: with strides of 0 most kernels compute wrong, or read past the memory.
        for name, tensors in (("inputs", inputs), ("outputs", outputs)):
            for tensor in tensors:
                dims = [dim or 0 for dim in tensor.shape or ()]
                if not is_dense(tensor) and overlaps(dims, tensor.strides or ()):
                    raise ArgumentError(f"{name}: {tensor!r}; expected memory of its own for each element")
        uses = self._check_shapes(inputs, outputs)
        for tensor in (*inputs, *outputs):
            _refuse_strides(tensor, uses)
        strided = {tensor.id for tensor in (*inputs, *outputs) if not is_dense(tensor)}
        reason = (
            wrong_fusion(uses, VERSION, vnni=has_vnni(), avx2=has_avx2()) or wrong_strides(uses, strided, VERSION)
            if len(uses) > 1
            else ""
        )
        if reason:
            raise UnsupportedError(
                f"{self!r}: {reason}; take the partitions of the graph with policy 'debug', one for each op, "
                "or build a onegraph.Graph, whose executable knows what to leave apart"
            )

    def _check_shapes(self, inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor]) -> list[Use]:
        """Infer every shape inside: the library would take output shapes that are wrong for right.

        Returns:
            the ops in an order in which they can run.
        """
        uses: list[Use] = []
        shapes: dict[int, Shape] = {tensor.id: tensor.shape for tensor in inputs}
        pending = self._ops
        inside = {tensor.id for op in pending for tensor in op.outputs}
        while pending:
            later: list[Op] = []
            for op in pending:
                if any(tensor.id not in shapes and tensor.id in inside for tensor in op.inputs):
                    later.append(op)
                    continue
                types = [TensorType(tensor.dtype, shapes.get(tensor.id, tensor.shape)) for tensor in op.inputs]
                results = [TensorType(tensor.dtype, None) for tensor in op.outputs]
                found = check_types(op, types, results)
                shapes.update((tensor.id, shape) for tensor, shape in zip(op.outputs, found, strict=False))
                uses.append(op._use(types))
            if len(later) == len(pending):
                raise ArgumentError(f"ops {[op.id for op in pending]} form a cycle")
            pending = later
        for tensor in outputs:
            if not compatible(tensor.shape, shapes.get(tensor.id)):
                raise ArgumentError(f"outputs: {tensor!r}; expected shape {shapes[tensor.id]}, as the inputs imply")
        return uses

    def __repr__(self) -> str:
        return f"Partition({self.id}: {self._kinds()}{'' if self.supported else ', unsupported'})"

    def _kinds(self) -> str:
        return ", ".join(op.schema.kind for op in self._ops)


def count_ids(ops: Iterable[Op]) -> int:
    """Number of ids of ops, their inputs and their outputs; no partition of them has more."""
    return sum([1 + len(op._inputs) + len(op._outputs) for op in ops])


def _refuse_strides(tensor: LogicalTensor, uses: Sequence[Use]) -> None:
    """Raise UnsupportedError where an op would compute wrong for the strides of a tensor that goes in or out."""
    shape = tuple([dim or 0 for dim in tensor.shape or ()])
    strides = tensor.strides
    if strides is None or strides == dense_strides(shape):
        return
    inside = {use.kind for use in uses}
    if loses_batches(inside, shape, strides, VERSION):
        raise UnsupportedError(f"{tensor!r}: attention does not honour such strides; pass dense row-major")
    if loses_sums(inside, shape, strides, VERSION):
        raise UnsupportedError(f"{tensor!r}: Interpolate + Add does not honour such strides; pass dense row-major")
    for use in uses:
        is_read, zero_points = tensor.id in use.inputs, loses_zero_points(inside, use.call.given)
        schema, rank = use.call.schema, len(use.result)
        if not honours_strides(schema, rank, shape, strides, is_read=is_read, zero_points=zero_points):
            raise UnsupportedError(f"{tensor!r}: {use.kind} does not honour strides; pass dense row-major")
