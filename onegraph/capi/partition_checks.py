"""Checks the logical tensors that a partition is compiled for and the tensors that it is executed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from .._util.validation import as_list
from ..errors import ArgumentError, UnsupportedError
from ..faults.execution import SINGLE_AXES
from ..faults.fusions import wrong_fusion, wrong_strides
from ..faults.layouts import wrong_layout
from ..faults.use import Fused, Laid, Use
from ..native.library import VERSION
from ..opset.schema import TensorType
from ..opset.shapes import beyond_single_axes, compatible, dense_strides, known_dims, overlaps
from ..opset.signature import Shape
from .logical_tensor import LogicalTensor, has_dense_layout
from .op import Op, check_types
from .settings import has_amx, has_avx2, has_avx512, has_vnni, least_alignment
from .tensor import Tensor

Given = TypeVar("Given")


def check_tensors(
    label: str, ops: Sequence[Op], inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor], strict: bool
) -> None:
    """Check the logical tensors that a partition is compiled for.

    Args:
        label: name of the partition, for messages.
        ops: ops of the partition.
        inputs, outputs: one logical tensor for each port.
        strict: whether f32 is computed in f32.

    Raises:
        ArgumentError: the layout or shape of a tensor is not possible here.
        UnsupportedError: the library computes these ops wrong for such tensors.
    """
    for tensor in inputs:
        if tensor.strides is None:
            raise ArgumentError(f"inputs: {tensor!r}; expected a strided layout with every dim known")
    for tensor in outputs:
        if tensor.layout not in ("strided", "any"):
            raise ArgumentError(f"outputs: {tensor!r}; expected layout strided or any")
    # Inputs too: with strides of 0 most kernels compute wrong, or read beyond the memory.
    for name, tensors in (("inputs", inputs), ("outputs", outputs)):
        for tensor in tensors:
            dims = known_dims(tensor.shape)
            if not has_dense_layout(tensor) and overlaps(dims, tensor.strides or ()):
                raise ArgumentError(f"{name}: {tensor!r}; expected memory of its own for each element")
    uses = _infer_shapes(ops, inputs, outputs)
    for tensor in (*inputs, *outputs):
        _refuse_strides(tensor, uses)
    strided = frozenset([tensor.id for tensor in (*inputs, *outputs) if not has_dense_layout(tensor)])
    fused = Fused(uses, has_vnni(), has_avx2(), has_avx512(), strided, amx=has_amx(), strict=strict)
    reason = wrong_fusion(fused, VERSION) or wrong_strides(fused, VERSION) if len(uses) > 1 else ""
    if reason:
        raise UnsupportedError(
            f"{label}: {reason}; take the partitions of the graph with policy 'debug', one for each op, "
            "or build a onegraph.Graph, whose executable knows what to leave apart"
        )


def _infer_shapes(ops: Sequence[Op], inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor]) -> list[Use]:
    """Infer every shape in the partition and check the output shapes, as the library accepts wrong ones.

    Returns:
        the ops in an order in which they can run.
    """
    uses: list[Use] = []
    shapes: dict[int, Shape] = {tensor.id: tensor.shape for tensor in inputs}
    pending = [*ops]
    inside = {tensor.id for op in pending for tensor in op.outputs}
    while pending:
        later: list[Op] = []
        for op in pending:
            if any(tensor.id not in shapes and tensor.id in inside for tensor in op.inputs):
                later.append(op)
                continue
            types = [TensorType(tensor.dtype, shapes.get(tensor.id, tensor.shape)) for tensor in op.inputs]
            results = [TensorType(tensor.dtype, None) for tensor in op.outputs]
            inferred = check_types(op, types, results)
            shapes.update((tensor.id, shape) for tensor, shape in zip(op.outputs, inferred, strict=False))
            uses.append(op._use(types))
        if len(later) == len(pending):
            raise ArgumentError(f"ops {[op.id for op in pending]} form a cycle")
        pending = later
    for tensor in outputs:
        if not compatible(tensor.shape, shapes.get(tensor.id)):
            raise ArgumentError(f"outputs: {tensor!r}; expected shape {shapes[tensor.id]}, as the inputs imply")
    return uses


def _refuse_strides(tensor: LogicalTensor, uses: Sequence[Use]) -> None:
    """Raise UnsupportedError if an op would compute wrong for the strides of this input or output."""
    shape = known_dims(tensor.shape)
    strides = tensor.strides
    if strides is None or strides == dense_strides(shape):
        return
    inside = frozenset([use.kind for use in uses])
    for use in uses:
        laid = Laid(use.kind, len(use.result), shape, strides, tensor.id in use.inputs, inside, use.call.given)
        if reason := wrong_layout(laid, VERSION):
            raise UnsupportedError(f"{tensor!r}: {reason}; pass dense row-major")


def refuse_misaligned(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise ArgumentError if the address of a tensor is not aligned as the library needs it."""
    alignment = least_alignment()
    for tensor in tensors:
        if tensor.nbytes and tensor.address % alignment:
            raise ArgumentError(
                f"{name}: tensor {tensor.logical_tensor.id} is not aligned to {alignment} bytes, which oneDNN asks for "
                "without AVX2; pass a copy of its array"
            )


def is_same(tensor: LogicalTensor, compiled: LogicalTensor) -> bool:
    """Whether a tensor has the data type, shape and layout that a partition was compiled for."""
    if tensor.dtype is not compiled.dtype or tensor.layout != compiled.layout:
        return False
    if tensor.layout == "opaque":
        return tensor.layout_id == compiled.layout_id
    if tensor.shape != compiled.shape:
        return False
    pairs = zip(tensor.shape or (), tensor.strides or (), compiled.strides or (), strict=True)
    return all(dim == 1 or ours == theirs for dim, ours, theirs in pairs)


def with_one_stride(tensor: LogicalTensor) -> LogicalTensor:
    """The same memory, with the one stride that onegraph gives to an axis of size 1: ``stride_of_a_single_axis``."""
    shape, strides = known_dims(tensor.shape), tensor.strides
    if strides is None or not SINGLE_AXES.when(shape):
        return tensor
    steps = dense_strides(shape) if has_dense_layout(tensor) else beyond_single_axes(shape, strides)
    if steps == strides:
        return tensor
    return LogicalTensor._checked(tensor.id, tensor.dtype, tensor.shape, steps, property=tensor.property)


def matched(name: str, ports: Sequence[LogicalTensor], tensors: Sequence[LogicalTensor] | None) -> list[LogicalTensor]:
    """``tensors`` in the order of ``ports``, each tensor once; the ports themselves for None.

    Raises:
        ArgumentError: the ids are not those of the ports, or a data type or shape does not fit its port.
    """
    wanted = {port.id: port for port in ports}
    if tensors is None:
        return list(wanted.values())
    by_number = by_id(
        name, as_list(name, tensors, LogicalTensor), [port.id for port in ports], lambda tensor: tensor.id
    )
    for tensor in by_number.values():
        port = wanted[tensor.id]
        if tensor.dtype is not port.dtype or not compatible(tensor.shape, port.shape):
            raise ArgumentError(f"{name}: {tensor!r}; expected {port.dtype} {port.shape}, as the graph has it")
    return [by_number[number] for number in wanted]


def by_id(name: str, bound: Sequence[Given], ports: Sequence[int], id_of: Callable[[Given], int]) -> dict[int, Given]:
    """``bound`` by id.

    Raises:
        ArgumentError: the ids are not those of ``ports``, each given once or the same for every port.
    """
    ids, by_number = [id_of(one) for one in bound], {id_of(one): one for one in bound}
    is_same = all(by_number[number] == one for number, one in zip(ids, bound, strict=True))
    if not is_same or sorted(ids) not in (sorted(set(ports)), sorted(ports)):
        raise ArgumentError(f"{name}: tensors {ids}; expected {sorted(set(ports))}, each once")
    return by_number


def refuse_overlap(inputs: Sequence[Tensor], outputs: Sequence[Tensor], in_place: Mapping[int, int]) -> None:
    """Raise ArgumentError if an output shares memory with a tensor other than its input in ``in_place``."""
    for position, out in enumerate(outputs):
        for earlier in (*inputs, *outputs[:position]):
            if out.nbytes == 0 or earlier.nbytes == 0:
                continue
            if out.address + out._span <= earlier.address or earlier.address + earlier._span <= out.address:
                continue
            exact = out.address == earlier.address
            pair = in_place.get(out.logical_tensor.id)
            if not (exact and earlier in inputs and pair == earlier.logical_tensor.id):
                raise ArgumentError(
                    f"outputs: tensor {out.logical_tensor.id} shares memory with tensor "
                    f"{earlier.logical_tensor.id}; only the pairs in inplace_pairs may, as a whole"
                )
