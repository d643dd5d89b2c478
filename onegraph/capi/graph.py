"""Binds graphs, and checks ids, producers and cycles, which the library does not check."""

from __future__ import annotations

from collections.abc import Sequence

from .._util.fork_safety import new_rlock, refuse_inner
from .._util.init_once import once
from .._util.validation import choice, expect, flag
from ..errors import ArgumentError, StateError, UnsupportedError
from ..faults.execution import unproduced_weights
from ..native.library import VERSION, Handle, call, create, enum_names, enum_value, ffi, lib, newer_function, read
from .engine import ENGINE_KIND_NAMES, available_kind
from .logical_tensor import LogicalTensor
from .op import Op, refuse_other_uses
from .op_template import LazyOps
from .partition import Partition, count_ids
from .settings import FPMATH_MODES

POLICIES = ("fusion", "debug")


class Graph(Handle):
    """``dnnl_graph_graph_t``: add ops, finalize, take the partitions.

    Args:
        engine_kind: ``cpu``.
        fpmath_mode: the lowest precision that f32 arithmetic may use: strict, bf16, f16, any, tf32.
    """

    __slots__ = (
        "_applies_to_int",
        "_engine_kind",
        "_fpmath_mode",
        "_in_order",
        "_is_in_sync",
        "_lazy_ops",
        "_lock",
        "_ops",
        "_producers",
        "_tensors",
    )

    @once("_ptr")
    def __init__(self, engine_kind: str = "cpu", fpmath_mode: str = "strict") -> None:
        fpmath_mode, kind = choice("fpmath_mode", fpmath_mode, FPMATH_MODES), available_kind(engine_kind)
        self._engine_kind, self._fpmath_mode = ENGINE_KIND_NAMES[kind], fpmath_mode
        self._applies_to_int: bool | None = None  # None unless set_fpmath_mode was called
        self._lock = new_rlock()
        self._ops: dict[int, Op] = {}
        self._lazy_ops: LazyOps | None = None  # all ops, if they were added by _add_lazy_ops
        self._create_graph()

    def _create_graph(self) -> None:
        """Create the C graph with the ops of this object."""
        self._tensors: dict[int, LogicalTensor] = {}
        self._producers: dict[int, Op] = {}
        self._in_order = True  # whether no op reads the output of a later op
        pointer = create(
            lib.dnnl_graph_graph_create_with_fpmath_mode,
            "dnnl_graph_graph_t",
            enum_value("", self._engine_kind),
            enum_value("fpmath_mode_", self._fpmath_mode),
        )
        super().__init__(pointer, lib.dnnl_graph_graph_destroy)
        if self._applies_to_int is not None:
            self._set_fpmath_mode(self._fpmath_mode, self._applies_to_int)
        for op in self._ops.values():
            self._take(op)
        self._is_in_sync = True  # False while an op is being added

    def _recreate_if_interrupted(self) -> None:
        """Create the C graph again after an interrupt while an op was added, as the C graph may or may not have it."""
        if not self._is_in_sync:
            self._create_graph()

    @property
    def engine_kind(self) -> str:
        """Kind of engine that partitions of this graph are compiled for."""
        return self._engine_kind

    @property
    def fpmath_mode(self) -> str:
        """The lowest precision that f32 arithmetic may use."""
        return self._fpmath_mode

    def set_fpmath_mode(self, mode: str, apply_to_int: bool = False) -> None:
        """Change the lowest precision that arithmetic may use.

        Args:
            mode: strict, bf16, f16, any, tf32.
            apply_to_int: whether products of integers may be computed in floating-point numbers, as for weights of
                integers that are dequantized.

        Raises:
            UnsupportedError: the library is older than 3.7.
            StateError: the graph is finalized.
        """
        mode, flagged = choice("mode", mode, FPMATH_MODES), flag("apply_to_int", apply_to_int)
        self._refuse_inner()
        with self._lock:
            if self.finalized:
                raise StateError("the graph is finalized; the mode is set before that")
            self._recreate_if_interrupted()
            self._set_fpmath_mode(mode, flagged)
            self._fpmath_mode, self._applies_to_int = mode, flagged

    def _set_fpmath_mode(self, mode: str, apply_to_int: bool) -> None:
        function = newer_function("dnnl_graph_graph_set_fpmath_mode", "3.7")
        call(function, self._ptr, enum_value("fpmath_mode_", mode), int(apply_to_int))

    def get_fpmath_mode(self) -> tuple[str, bool]:
        """The mode, and whether it applies to integers, as the library has them.

        Raises:
            UnsupportedError: the library is older than 3.7.
            StateError: the graph is finalized; the library tells the mode before that alone.
        """
        function = newer_function("dnnl_graph_graph_get_fpmath_mode", "3.7")
        if self.finalized:
            raise StateError("the graph is finalized; the library tells the mode before that alone")
        mode, applies = ffi.new("dnnl_fpmath_mode_t *"), ffi.new("int *")
        call(function, self._ptr, mode, applies)
        return enum_names("fpmath_mode_", FPMATH_MODES)[mode[0]], bool(applies[0])

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops, in the order in which they were added."""
        return tuple((self._ops if self._lazy_ops is None else self._lazy_ops).values())

    @property
    def finalized(self) -> bool:
        """Whether the graph is finalized, so that no more ops can be added."""
        return bool(read(lib.dnnl_graph_graph_is_finalized, "uint8_t", self._ptr))

    def add_op(self, op: Op) -> None:
        """Add an op. An op that raises leaves the graph unchanged.

        Raises:
            StateError: the graph is finalized, or the op is already in a graph.
            ArgumentError: the op id is taken, a tensor has two producers, or a tensor differs from an earlier use.
            SpecError: the op breaks the specification.
            UnsupportedError: the library refuses the op, crashes on it or computes it wrong.
        """
        expect("op", op, Op)
        self._refuse_inner()
        refuse_inner(op._lock, f"op {op._id}")
        with self._lock, op._lock:
            self._add_op(op)

    def _add_op(self, op: Op) -> None:
        if self.finalized:
            raise StateError("the graph is finalized; ops are added before that")
        op._refuse_frozen()
        self._recreate_if_interrupted()
        op._recreate_if_interrupted()
        if op._id in self._ops:
            raise ArgumentError(f"op id {op._id} is taken by {self._ops[op._id]!r}; the library would drop the op")
        op.check()
        refuse_other_uses(op, self._tensors)
        outputs = [tensor.id for tensor in op.outputs]
        for number in outputs:
            if number in self._producers or outputs.count(number) > 1:
                producer = self._producers.get(number, op)
                raise ArgumentError(f"tensor {number} is produced twice, by {producer!r} and {op!r}")
        for number in outputs:
            if number in self._tensors and self._tensors[number].property == "constant":
                raise ArgumentError(
                    f"tensor {number}: an op before {op!r}, which produces it, reads it as a constant; expected the op "
                    "that produces a tensor before those that read it, or property='variable'"
                )
        self._is_in_sync = False
        self._take(op)
        self._ops[op._id] = op
        op._frozen = True
        self._is_in_sync = True

    def _add_lazy_ops(self, ops: LazyOps, ids: Sequence[int]) -> dict[int, str]:
        """Add the ops with these ids; returns the library's reason for each op that it refuses.

        The caller guarantees: the graph is not finalized and has no other ops, no other thread changes it, and the ops
        form no cycle.
        """
        self._lazy_ops = ops
        return ops.hand_over(self._ptr, ids)

    def _take(self, op: Op) -> None:
        """Add a checked op to the C graph."""
        library_op = op
        if any(tensor._property == "constant" and tensor._id in self._producers for tensor in op._inputs):
            # The output of an op is never constant.
            inputs = [tensor._as_variable() if tensor._id in self._producers else tensor for tensor in op._inputs]
            library_op = Op(op._id, op.kind, op._name, inputs=inputs, outputs=op._outputs, attrs=op._attrs)
        call(lib.dnnl_graph_add_op, self._ptr, library_op._ptr)
        for tensor in op._inputs:
            self._tensors[tensor._id] = tensor
        for tensor in op._outputs:
            # An op that closes a cycle produces an input of an earlier op, or of itself.
            self._in_order = self._in_order and tensor._id not in self._tensors
            self._producers[tensor._id] = op
        for tensor in op._outputs:
            self._tensors[tensor._id] = tensor

    def finalize(self) -> None:
        """Close the graph. Finalizing it again does nothing.

        Raises:
            ArgumentError: the ops form a cycle, in which the library would search for partitions forever.
        """
        self._refuse_inner()
        with self._lock:
            self._recreate_if_interrupted()
            self._refuse_cycles()
            call(lib.dnnl_graph_graph_finalize, self._ptr)

    def _refuse_cycles(self) -> None:
        if self._in_order:
            return
        waiting = {
            number: {self._producers[tensor.id]._id for tensor in op.inputs if tensor.id in self._producers}
            for number, op in self._ops.items()
        }
        users: dict[int, list[int]] = {}
        for number, needs in waiting.items():
            for need in needs:
                users.setdefault(need, []).append(number)
        ready = [number for number, needs in waiting.items() if not needs]
        done = 0
        while ready:
            done += 1
            number = ready.pop()
            for user in users.get(number, ()):
                waiting[user].discard(number)
                if not waiting[user]:
                    ready.append(user)
        if done != len(waiting):
            cycle = sorted(number for number, needs in waiting.items() if needs)
            raise ArgumentError(f"ops {cycle} form a cycle, or wait for one")

    def partitions(self, policy: str = "fusion") -> list[Partition]:
        """The partitions of a finalized graph; every op is in exactly one.

        Args:
            policy: ``fusion`` joins ops that one kernel can compute together; ``debug`` gives each op its partition.

        Raises:
            ArgumentError: the policy is unknown.
            StateError: the graph is not finalized.
            UnsupportedError: the library would crash on this graph.
        """
        policy = choice("policy", policy, POLICIES)
        self._refuse_inner()
        with self._lock:
            return self._partitions(policy)

    def _refuse_inner(self) -> None:
        refuse_inner(self._lock, "graph")

    def _partitions(self, policy: str) -> list[Partition]:
        if not self.finalized:
            raise StateError("the graph is not finalized; call finalize() first")
        if policy == "fusion":
            self._refuse_unproduced_weights()
        call(lib.dnnl_graph_graph_filter, self._ptr, enum_value("graph_partition_policy_", policy))
        count = int(read(lib.dnnl_graph_graph_get_partition_num, "size_t", self._ptr))
        if count == 0:
            return []  # the library refuses to fill an array of no elements
        pointers = ffi.new("dnnl_graph_partition_t[]", count)
        call(lib.dnnl_graph_graph_get_partitions, self._ptr, count, pointers)
        ops = self._ops if self._lazy_ops is None else self._lazy_ops
        n_ids = count_ids(self._ops.values()) if self._lazy_ops is None else self._lazy_ops.n_ids
        partitions = list(Partition._all(ffi.unpack(pointers, count), ops, n_ids, self._lock))
        for partition in partitions:
            partition._strict = self._fpmath_mode == "strict"
        return partitions

    def _refuse_unproduced_weights(self) -> None:
        ends = [
            (op.schema.kind, [tensor._id for tensor in op._inputs], [tensor._id for tensor in op._outputs])
            for op in self._ops.values()
        ]
        for number in unproduced_weights(ends, VERSION):
            raise UnsupportedError(
                f"tensor {number}: weights that no op produces, of a Convolution whose src a Dequantize does, "
                "crash the library's search for fusions; expected policy='debug', or a Wildcard that produces them"
            )
