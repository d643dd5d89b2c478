"""Compiled partitions: the logical tensors that compile is given, and the tensors that execute is, matched by id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from ..errors import ArgumentError, OutOfMemoryError, StateError, StatusError, shown
from ..native import Handle, call, ffi, lib
from ..once import once
from ..spec.shapes import beyond_single_axes, compatible, dense_strides
from ..validate import as_list, expect, identifier
from .caches import get_constant_tensor_cache
from .compilation import Compilation
from .engine import Engine, Stream, engine_or_default
from .homes import Home, home
from .logical_tensor import LogicalTensor, is_dense
from .partition import Partition
from .settings import get_cpu_isa, is_native, least_alignment
from .tensor import Execution, Tensor
from .threads import is_forked

Given = TypeVar("Given")
_destroy = lib.dnnl_graph_compiled_partition_destroy
AT_ONCE = 32  # compilations between which an interrupt is heard


class CompiledPartition(Handle):
    """``dnnl_graph_compiled_partition_t``: a partition with its kernels. ``Partition.compile`` makes it."""

    __slots__ = ("_compilation",)

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
        ins = _matched("inputs", partition.input_ports, inputs)
        outs = _matched("outputs", partition.output_ports, outputs)
        ins, outs = ([_with_one_stride(tensor) for tensor in tensors] for tensors in (ins, outs))
        partition._check_tensors(ins, outs)
        with partition._graph_lock:
            try:
                self._compile(partition, ins, outs, engine)
                left = [tensor.id for tensor in self.outputs if tensor.layout == "any"]
                if left:  # beside the stats of a SoftMax, 3.9 and later do not say what they chose: it could not be run
                    dense = [LogicalTensor._checked(t.id, t.dtype, t.shape, property=t.property) for t in outs]
                    outs = [one if one.id in left else tensor for one, tensor in zip(dense, outs, strict=True)]
                    self._compile(partition, ins, outs, engine)
            except OutOfMemoryError:
                raise
            except StatusError as error:
                raise _refusal(error, partition) from None

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
        the ops, and ``honours_strides`` holds of all tensors that are not dense. No other thread partitions the graph.

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
        self._compilation = Compilation(partition, inputs, outputs, engine)
        (pointer,) = self._compilation.make(1)
        self._own(pointer)
        self._compilation.query(pointer)

    def _own(self, pointer: Any) -> None:
        compilation, destroy = self._compilation, _destroy
        if compilation.home is not None:
            destroy = partial(compilation.home.destroy, destroy)
        super().__init__(pointer, destroy, compilation.partition, compilation.engine)

    def _another(self) -> CompiledPartition:
        """The same once more, to be compiled by ``_compile_others``: it shares nothing that is made of constants."""
        other = CompiledPartition.__new__(CompiledPartition)
        other._compilation = self._compilation
        return other

    def _compile_others(self, others: Sequence[CompiledPartition]) -> None:
        """Compile what ``_another`` gave, for the number of threads that is set.

        Raises:
            StatusError: the library refused, for want of memory.
        """
        for start in range(0, len(others), AT_ONCE):
            some = others[start : start + AT_ONCE]
            for other, pointer in zip(some, self._compilation.make(len(some)), strict=True):
                other._own(pointer)

    @property
    def is_thread_bound(self) -> bool:
        """Whether only the thread that compiled it can execute it: so it is with most of the gradient ops."""
        return self._compilation.home is not None

    @property
    def home(self) -> Home | None:
        """That thread; None where all can."""
        return self._compilation.home

    @property
    def partition(self) -> Partition:
        """What was compiled."""
        return self._compilation.partition

    @property
    def engine(self) -> Engine:
        """The engine that it was compiled for."""
        return self._compilation.engine

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """The inputs as they were compiled, in the library's order."""
        return self._compilation.inputs

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The outputs as they were compiled: shapes inferred, layouts chosen."""
        return self._compilation.outputs

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
        return [(source, target) for target, source in self._compilation.in_place.items()]

    def execute(self, stream: Stream, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Execute, and wait for the end.

        Args:
            stream: of the engine that this was compiled for.
            inputs, outputs: tensors in any order; they are matched by id, and one that stands twice among the ports
                may stand twice here.

        Raises:
            ArgumentError: a tensor is missing or unknown, differs from what was compiled, is not writable, or
                overlaps another one where that is not allowed; or a constant is not what it was before.
            StatusError: the library failed.
        """
        expect("stream", stream, Stream)
        if self._compilation.home not in (None, home()):
            raise StateError(
                f"{self.partition!r} was compiled by another thread, or before a fork, and only that one can execute it"
            )
        if self._compilation.threads > 1 and is_forked():
            raise StateError(
                f"{self.partition!r} was compiled for {self._compilation.threads} threads, and this thread, which "
                "comes out of a fork, would wait for them for ever; compile it again here, or execute in a new thread"
            )
        if stream.engine is not self.engine:
            raise ArgumentError("stream: of another engine than the compiled partition")
        ins = self._tensors("inputs", self.inputs, self.partition._input_ids, inputs)
        outs = self._tensors("outputs", self.outputs, self.partition._output_ids, outputs)
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
        _refuse_misaligned("inputs", ins)
        _refuse_misaligned("outputs", outs)
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
        if not get_constant_tensor_cache():
            return  # nor does it later: nobody can turn that on any more
        pairs = zip(self._compilation.inputs, inputs, strict=True)
        given = {(one.id, one.shape): tensor._contents() for one, tensor in pairs if one.property == "constant"}
        first = self._compilation.partition._constants
        # All are looked at before one is noted, and once more then, as another thread may have been quicker.
        for note in (first.get, first.setdefault):
            for constant, data in given.items():
                if note(constant, data) != data:
                    raise ArgumentError(
                        f"inputs: tensor {constant[0]} is constant, and its data differs from that of the first "
                        "execution, which the library goes on to use; make it variable, or take the partition from a "
                        "new graph"
                    )

    def _tensors(
        self, name: str, wanted: Sequence[LogicalTensor], ports: Sequence[int], given: Sequence[Tensor]
    ) -> list[Tensor]:
        by_id = _by_id(name, as_list(name, given, Tensor), ports, lambda tensor: tensor.logical_tensor.id)
        for tensor in wanted:
            got = by_id[tensor.id]
            if got.engine is not self.engine:
                raise ArgumentError(f"{name}: tensor {tensor.id} is of another engine")
            if got.nbytes < (tensor.mem_size or 0) or not _same(got.logical_tensor, tensor):
                raise ArgumentError(f"{name}: {got.logical_tensor!r}; expected {tensor!r}, as it was compiled")
        return [by_id[tensor.id] for tensor in wanted]

    def _refuse_overlap(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        for position, out in enumerate(outputs):
            for other in (*inputs, *outputs[:position]):
                if out.nbytes == 0 or other.nbytes == 0:
                    continue
                if out.address + out._span <= other.address or other.address + other._span <= out.address:
                    continue
                exact = out.address == other.address
                pair = self._compilation.in_place.get(out.logical_tensor.id)
                if not (exact and other in inputs and pair == other.logical_tensor.id):
                    raise ArgumentError(
                        f"outputs: tensor {out.logical_tensor.id} shares memory with tensor "
                        f"{other.logical_tensor.id}; only the pairs in inplace_pairs may, as a whole"
                    )


def _refuse_misaligned(name: str, tensors: Sequence[Tensor]) -> None:
    alignment = least_alignment()
    for tensor in tensors:
        if tensor.nbytes and tensor.address % alignment:
            raise ArgumentError(
                f"{name}: tensor {tensor.logical_tensor.id} is not aligned to {alignment} bytes, which oneDNN asks for "
                "without AVX2; pass a copy of its array"
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


def _with_one_stride(tensor: LogicalTensor) -> LogicalTensor:
    """The same memory, with the one stride that onegraph gives to an axis of size 1.

    A MatMul of 3.2 fails with one that is too small for a matrix. From 3.3 on kernels step along such axes, whose
    strides the library's own cache of kernels does not look at.
    """
    shape, strides = [dim or 0 for dim in tensor.shape or ()], tensor.strides
    if strides is None or 1 not in shape:
        return tensor
    steps = dense_strides(shape) if is_dense(tensor) else beyond_single_axes(shape, strides)
    if steps == strides:
        return tensor
    return LogicalTensor._checked(tensor.id, tensor.dtype, tensor.shape, steps, property=tensor.property)


def _refusal(error: StatusError, partition: Partition) -> StatusError:
    """The error, with the partition, why it was refused as far as that is known, and what to do."""
    dtypes = {tensor.dtype for op in partition._ops for tensor in (*op._inputs, *op._outputs)}
    missing = " and ".join(sorted(dtype.value for dtype in dtypes if not is_native(dtype)))
    advice = "a onegraph.Graph finds another way"
    if missing:
        advice = f"this CPU ({get_cpu_isa()}) has no {missing}; a onegraph.Graph computes in f32 there"
    return type(error)(error.function, error.status, error.what, f"{partition!r}: {advice}")


def _matched(name: str, ports: Sequence[LogicalTensor], given: Sequence[LogicalTensor] | None) -> list[LogicalTensor]:
    """``given`` in the order of ``ports``, once each; exactly the ids of the ports, and fitting them."""
    wanted = {port.id: port for port in ports}
    if given is None:
        return list(wanted.values())
    found = _by_id(name, as_list(name, given, LogicalTensor), [port.id for port in ports], lambda tensor: tensor.id)
    for tensor in found.values():
        port = wanted[tensor.id]
        if tensor.dtype is not port.dtype or not compatible(tensor.shape, port.shape):
            raise ArgumentError(f"{name}: {tensor!r}; expected {port.dtype} {port.shape}, as the graph has it")
    return [found[number] for number in wanted]


def _by_id(name: str, given: Sequence[Given], ports: Sequence[int], id_of: Callable[[Given], int]) -> dict[int, Given]:
    """What was given for each id of ``ports``: once, or the same for every port."""
    ids, found = [id_of(one) for one in given], {id_of(one): one for one in given}
    is_same = all(found[number] == one for number, one in zip(ids, given, strict=True))
    if not is_same or sorted(ids) not in (sorted(set(ports)), sorted(ports)):
        raise ArgumentError(f"{name}: tensors {ids}; expected {sorted(set(ports))}, each once")
    return found
