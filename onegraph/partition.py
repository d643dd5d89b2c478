"""Ops, graphs, partitions and compiled partitions of the C API, one to one, and as safe as the builder.

What the library does not check itself is checked here before C is reached: every op against the specification and
against what this library is known to crash on or to compute wrong; ids, cycles and producers of a graph; and the
logical tensors and tensors that compile and execute are given, matched by id.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from .check import Violation, examine
from .errors import ArgumentError, SpecError, StateError, StatusError, UnsupportedError, shown
from .native import VERSION, Handle, begin_compilation, call, create, enum_names, enum_value, ffi, lib, read
from .runtime import (
    ENGINE_KINDS,
    Engine,
    LogicalTensor,
    Stream,
    Tensor,
    as_list,
    choice,
    default_engine,
    engine_count,
    expect,
    identifier,
)
from .settings import (
    FPMATH_MODES,
    get_compiled_partition_cache_capacity,
    get_primitive_cache_capacity,
    set_compiled_partition_cache_capacity,
    set_primitive_cache_capacity,
)
from .spec.editions import BASE, NEWEST, edition
from .spec.library import DENSE_ONLY, LIBRARY_VALUES, quirks
from .spec.schema import Attribute, AttrValue, Call, Schema, Shape, TensorType
from .spec.shapes import compatible
from .spec.values import BadValueError, convert

POLICIES = ("fusion", "debug")
MAX_INTERPOLATED = 2**24
EDITION = edition(f"onednn-{VERSION[0]}.{min(VERSION[1], NEWEST[1])}")
_ENGINE_KINDS = {enum_value("", kind): kind for kind in ENGINE_KINDS}
_KINDS = enum_names("graph_op_", tuple(schema.name for schema in BASE.values()))
_PARTITION = ffi.typeof("dnnl_graph_partition_t")
_BY_NAME = {schema.name: schema for schema in BASE.values()}


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements; an empty axis counts as one of size 1, as the library has it."""
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


def is_dense(tensor: LogicalTensor) -> bool:
    """Whether a strided tensor is row-major without gaps; axes of size 1 do not count."""
    shape, strides = tensor.shape, tensor.strides
    if shape is None or strides is None:
        return tensor.layout == "strided"
    pairs = zip(shape, strides, dense_strides([dim or 0 for dim in shape]), strict=True)
    return all(dim == 1 or step == dense for dim, step, dense in pairs)


class Op(Handle):
    """``dnnl_graph_op_t``: an op that can be added to a graph.

    Args:
        id: number of the op in its graph.
        kind: as the specification or as C names it, ``"ConvTranspose"`` or ``"conv_transpose"``.
        name: text that verbose output shows.
        inputs, outputs: logical tensors in port order.
        attrs: attributes.

    Raises:
        ArgumentError: the kind is unknown or the id is no id.
        SpecError: an attribute is unknown or has a bad value.
        UnsupportedError: the loaded library is older than the op.
    """

    __slots__ = ("_attrs", "_frozen", "_inputs", "_lock", "_name", "_outputs", "_schema")

    def __init__(
        self,
        id: int,
        kind: str,
        name: str = "",
        *,
        inputs: Sequence[LogicalTensor] = (),
        outputs: Sequence[LogicalTensor] = (),
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        number = identifier("id", id)
        expect("name", name, str)
        ins, outs = as_list("inputs", inputs, LogicalTensor), as_list("outputs", outputs, LogicalTensor)
        if attrs is not None and not isinstance(attrs, Mapping):
            raise ArgumentError(f"attrs: {shown(attrs)}; expected a dictionary of attribute names and values")
        schema = BASE.get(kind) or _BY_NAME.get(kind) if isinstance(kind, str) else None
        if schema is None:
            raise ArgumentError(f"kind: {shown(kind)} is not an op; onegraph ops lists them")
        if schema.since > VERSION:
            raise UnsupportedError(
                f"{schema.kind} needs oneDNN {schema.since[0]}.{schema.since[1]}; "
                f"the loaded library is {VERSION[0]}.{VERSION[1]}"
            )
        self._schema, self._name = schema, name
        self._inputs: list[LogicalTensor] = []
        self._outputs: list[LogicalTensor] = []
        self._attrs: dict[str, AttrValue] = {}
        self._frozen = False
        self._lock = threading.RLock()
        pointer = create(
            lib.dnnl_graph_op_create,
            "dnnl_graph_op_t",
            number,
            enum_value("graph_op_", schema.name),
            name.replace("\0", "").encode(errors="replace"),
        )
        super().__init__(pointer, lib.dnnl_graph_op_destroy)
        for tensor in ins:
            self.add_input(tensor)
        for tensor in outs:
            self.add_output(tensor)
        for attribute, value in (attrs or {}).items():
            self.set_attr(attribute, value)

    @property
    def id(self) -> int:
        """Number of the op in its graph."""
        return int(read(lib.dnnl_graph_op_get_id, "size_t", self._ptr))

    @property
    def kind(self) -> str:
        """Name in the specification, from the kind that the library has."""
        return _BY_NAME[_KINDS[read(lib.dnnl_graph_op_get_kind, "dnnl_graph_op_kind_t", self._ptr)]].kind

    @property
    def schema(self) -> Schema:
        """The record of the op in the specification."""
        return self._schema

    @property
    def name(self) -> str:
        """Text that verbose output shows."""
        return self._name

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """The inputs, in port order."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The outputs, in port order."""
        return tuple(self._outputs)

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes that were set."""
        return dict(self._attrs)

    def add_input(self, tensor: LogicalTensor) -> None:
        """Append an input."""
        expect("input", tensor, LogicalTensor)
        with self._lock:
            self._changeable()
            call(lib.dnnl_graph_op_add_input, self._ptr, tensor._struct)
            self._inputs.append(tensor)

    def add_output(self, tensor: LogicalTensor) -> None:
        """Append an output."""
        expect("output", tensor, LogicalTensor)
        with self._lock:
            self._changeable()
            call(lib.dnnl_graph_op_add_output, self._ptr, tensor._struct)
            self._outputs.append(tensor)

    def set_attr(self, name: str, value: object) -> None:
        """Set an attribute of any of the six kinds; setting it again replaces it.

        Raises:
            SpecError: the op has no such attribute, or it cannot have this value.
            UnsupportedError: the loaded library is older than the attribute.
        """
        if not isinstance(name, str) or not self.schema.has_attribute(name):
            names = ", ".join(attribute.name for attribute in self.schema.attributes)
            raise self._spec_error(
                "unknown_attribute", shown(name), "not an attribute of this op", names or "no attribute"
            )
        attribute = self.schema.attribute(name)
        if attribute.since > VERSION:
            raise UnsupportedError(f"{self.schema.kind}.{name} needs oneDNN {'.'.join(map(str, attribute.since))}")
        try:
            stored = convert(attribute, value)
        except BadValueError as bad:
            raise self._spec_error(bad.rule, name, shown(value), bad.expected) from None
        with self._lock:
            self._changeable()
            set_attribute(self._ptr, attribute, stored)
            self._attrs[name] = stored

    def _spec_error(self, rule: str, where: object, given: str, expected: str) -> SpecError:
        message = f"{self.schema.kind}: {where}: {given}; expected {expected}"
        page = EDITION.page(self.schema)
        return SpecError(
            [Violation(rule, "error", self.schema.kind, str(where), given, expected, message, EDITION.name, page)]
        )

    def _changeable(self) -> None:
        if self._frozen:
            raise StateError(f"op {self.id} ({self.schema.kind}) is part of a graph and cannot be changed")

    def check(self) -> None:
        """Raise what keeps this op from being added to a graph.

        Raises:
            SpecError: it breaks the specification.
            UnsupportedError: the library refuses it, crashes on it or computes it wrong.
        """
        check_types(self, [_type(tensor) for tensor in self._inputs], [_type(tensor) for tensor in self._outputs])

    def __repr__(self) -> str:
        return f"Op({self.id}, {self.schema.kind!r}, {self.name!r})"


def _type(tensor: LogicalTensor) -> TensorType:
    return TensorType(tensor.dtype, tensor.shape)


def check_types(op: Op, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> tuple[Shape, ...]:
    """The output shapes of ``op`` for these types; raises as :meth:`Op.check` does."""
    checked = examine(op.schema.kind, op.attrs, list(inputs), list(outputs), edition=EDITION, name=op.name)
    if checked.errors:
        raise SpecError(checked.errors)
    arity = [port for port in op.schema.outputs if not port.optional]
    if not op.schema.types:
        pass  # Wildcard and End: any number
    elif not len(arity) <= len(outputs) <= len(op.schema.outputs):
        names = ", ".join(port.name for port in op.schema.outputs)
        raise op._spec_error("output_count", "outputs", str(len(outputs)), names)
    found = quirks(Call(op.schema, op.attrs, inputs, len(outputs)), VERSION)
    if found:
        reasons = "; ".join(f"{quirk.reason} [{quirk.severity}: {quirk.name}]" for quirk in found)
        raise UnsupportedError(f"{op.schema.kind} {op.name!r}: {reasons}")
    _refuse_endless(op, [*inputs, *(TensorType(None, shape) for shape in checked.shapes)])
    return checked.shapes


def _refuse_endless(op: Op, tensors: Sequence[TensorType]) -> None:
    """The library tabulates every position of an interpolation when it compiles, which takes minutes and gigabytes."""
    longest = max((dim or 0 for tensor in tensors for dim in tensor.shape or ()), default=0)
    if op.schema.kind in ("Interpolate", "InterpolateBackward") and longest > MAX_INTERPOLATED:
        raise UnsupportedError(
            f"{op.schema.kind} {op.name!r}: an axis of {longest} elements; the library would tabulate every position "
            f"of it; expected at most {MAX_INTERPOLATED}"
        )


def set_attribute(pointer: Any, attribute: Attribute, value: AttrValue) -> None:
    """Hand one attribute to the C op, in the library's own spelling."""
    number = enum_value("graph_op_attr_", attribute.name)
    match attribute.kind:
        case "f32":
            call(lib.dnnl_graph_op_set_attr_f32, pointer, number, ffi.new("float *", value), 1)
        case "f32[]":
            call(lib.dnnl_graph_op_set_attr_f32, pointer, number, ffi.new("float[]", list(value)), len(value))  # type: ignore[arg-type]
        case "s64":
            call(lib.dnnl_graph_op_set_attr_s64, pointer, number, ffi.new("int64_t *", value), 1)
        case "s64[]":
            call(lib.dnnl_graph_op_set_attr_s64, pointer, number, ffi.new("int64_t[]", list(value)), len(value))  # type: ignore[arg-type]
        case "bool":
            call(lib.dnnl_graph_op_set_attr_bool, pointer, number, ffi.new("uint8_t *", int(value)), 1)  # type: ignore[arg-type]
        case _:
            word = LIBRARY_VALUES.get(attribute.name, {}).get(str(value), str(value)).encode()
            call(lib.dnnl_graph_op_set_attr_str, pointer, number, word, len(word) + 1)


def _refuse_absent(engine_kind: str) -> None:
    if not engine_count(engine_kind):
        raise UnsupportedError(f"the library has no {engine_kind} engine")


class Graph(Handle):
    """``dnnl_graph_graph_t``: add ops, finalize, take the partitions.

    Args:
        engine_kind: ``cpu``.
        fpmath_mode: how far f32 arithmetic may be lowered: strict, bf16, f16, any, tf32.
    """

    __slots__ = ("_engine_kind", "_fpmath_mode", "_lock", "_ops", "_producers", "_tensors")

    def __init__(self, engine_kind: str = "cpu", fpmath_mode: str = "strict") -> None:
        choice("fpmath_mode", fpmath_mode, FPMATH_MODES)
        _refuse_absent(engine_kind)
        self._engine_kind, self._fpmath_mode = engine_kind, fpmath_mode
        self._lock = threading.RLock()
        self._ops: dict[int, Op] = {}
        self._tensors: dict[int, LogicalTensor] = {}
        self._producers: dict[int, Op] = {}
        pointer = create(
            lib.dnnl_graph_graph_create_with_fpmath_mode,
            "dnnl_graph_graph_t",
            enum_value("", engine_kind),
            enum_value("fpmath_mode_", fpmath_mode),
        )
        super().__init__(pointer, lib.dnnl_graph_graph_destroy)

    @property
    def engine_kind(self) -> str:
        """Kind of engine that the partitions are for."""
        return self._engine_kind

    @property
    def fpmath_mode(self) -> str:
        """How far f32 arithmetic may be lowered."""
        return self._fpmath_mode

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops, in the order in which they were added."""
        return tuple(self._ops.values())

    @property
    def finalized(self) -> bool:
        """Whether the graph is finalized: no op can be added any more."""
        return bool(read(lib.dnnl_graph_graph_is_finalized, "uint8_t", self._ptr))

    def add_op(self, op: Op) -> None:
        """Add an op; the graph is unchanged where it is refused.

        Raises:
            StateError: the graph is finalized, or the op is in a graph already.
            ArgumentError: the id of the op is taken; a tensor has a producer, or differs from an earlier use.
            SpecError: the op breaks the specification.
            UnsupportedError: the library refuses the op, crashes on it or computes it wrong.
        """
        expect("op", op, Op)
        with self._lock, op._lock:
            self._add_op(op)

    def _add_op(self, op: Op) -> None:
        if self.finalized:
            raise StateError("the graph is finalized; ops are added before that")
        op._changeable()
        if op.id in self._ops:
            raise ArgumentError(f"op id {op.id} is taken by {self._ops[op.id]!r}; the library would drop the op")
        op.check()
        own: dict[int, LogicalTensor] = {}
        for tensor in (*op.inputs, *op.outputs):
            earlier = self._tensors.get(tensor.id) or own.setdefault(tensor.id, tensor)
            if earlier != tensor:
                raise ArgumentError(f"tensor {tensor.id}: {tensor!r}; expected {earlier!r}, as an earlier op has it")
        outputs = [tensor.id for tensor in op.outputs]
        for number in outputs:
            if number in self._producers or outputs.count(number) > 1:
                other = self._producers.get(number, op)
                raise ArgumentError(f"tensor {number} is produced twice, by {other!r} and {op!r}")
        call(lib.dnnl_graph_add_op, self._ptr, op._ptr)
        op._frozen = True
        self._ops[op.id] = op
        self._tensors.update(own)
        self._producers.update(dict.fromkeys(outputs, op))

    def finalize(self) -> None:
        """Close the graph. Finalizing it again does nothing.

        Raises:
            ArgumentError: there is a cycle; the library would look for partitions in it forever.
        """
        with self._lock:
            self._refuse_cycles()
            call(lib.dnnl_graph_graph_finalize, self._ptr)

    def _refuse_cycles(self) -> None:
        waiting = {
            number: {self._producers[tensor.id].id for tensor in op.inputs if tensor.id in self._producers}
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
        """The partitions of a finalized graph, every op in one of them.

        Args:
            policy: ``fusion`` joins ops where a kernel can do them together; ``debug`` keeps one op a partition.

        Raises:
            StateError: the graph is not finalized.
        """
        choice("policy", policy, POLICIES)
        with self._lock:
            return self._partitions(policy)

    def _partitions(self, policy: str) -> list[Partition]:
        if not self.finalized:
            raise StateError("the graph is not finalized; call finalize() first")
        call(lib.dnnl_graph_graph_filter, self._ptr, enum_value("graph_partition_policy_", policy))
        count = int(read(lib.dnnl_graph_graph_get_partition_num, "size_t", self._ptr))
        if count == 0:
            return []  # the library refuses to fill an array of no elements
        pointers = ffi.new("dnnl_graph_partition_t[]", count)
        call(lib.dnnl_graph_graph_get_partitions, self._ptr, count, pointers)
        return [Partition(pointer, self._ops) for pointer in pointers]


class Partition(Handle):
    """``dnnl_graph_partition_t``: ops that are compiled and executed together. Graphs make them, or ``from_op``."""

    __slots__ = ("_ops",)

    def __init__(self, pointer: Any, ops: Mapping[int, Op]) -> None:
        if not isinstance(pointer, ffi.CData) or ffi.typeof(pointer) is not _PARTITION or not pointer:
            raise ArgumentError("a partition comes from Graph.partitions() or Partition.from_op()")
        super().__init__(pointer, lib.dnnl_graph_partition_destroy)
        self._ops = {number: ops[number] for number in self.ops}

    @classmethod
    def from_op(cls, op: Op, engine_kind: str = "cpu") -> Partition:
        """A partition of one op that is in no graph."""
        expect("op", op, Op)
        _refuse_absent(engine_kind)
        with op._lock:
            op.check()
            ins, outs = [tensor.id for tensor in op.inputs], [tensor.id for tensor in op.outputs]
            if len(set(outs)) < len(outs) or set(outs) & set(ins):
                raise ArgumentError(f"{op!r}: outputs {outs}, inputs {ins}; expected an id of its own for each output")
            kind = enum_value("", engine_kind)
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
        count = int(read(lib.dnnl_graph_partition_get_op_num, "size_t", self._ptr))
        ids = ffi.new("size_t[]", count)
        call(lib.dnnl_graph_partition_get_ops, self._ptr, count, ids)
        return tuple(int(number) for number in ids)

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
        return [LogicalTensor._of(structs[index]) for index in range(count)]

    @property
    def engine_kind(self) -> str:
        """Kind of engine that it can be compiled for."""
        return _ENGINE_KINDS[read(lib.dnnl_graph_partition_get_engine_kind, "dnnl_engine_kind_t", self._ptr)]

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
            inputs: one for each input port, in any order, every dim known; the ports themselves by default.
            outputs: one for each output port, in any order; with an unknown shape the library infers it.
            engine: the default engine.

        Raises:
            UnsupportedError: the library does not support the partition, or gets it wrong for these shapes.
            ArgumentError: a logical tensor is missing, is not of this partition, or does not fit it.
            SpecError: an op cannot have inputs of these shapes.
            StatusError: the library refused.
        """
        return CompiledPartition(self, inputs, outputs, engine)

    def _check_tensors(self, inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor]) -> None:
        if not self.supported:
            kinds = ", ".join(op.schema.kind for op in self._ops.values())
            raise UnsupportedError(f"the library does not support the partition of {kinds} (id {self.id})")
        for tensor in inputs:
            if tensor.strides is None:
                raise ArgumentError(f"inputs: {tensor!r}; expected a strided layout with every dim known")
        for tensor in outputs:
            if tensor.layout not in ("strided", "any"):
                raise ArgumentError(f"outputs: {tensor!r}; expected layout strided or any")
        dense_only = sorted(op.schema.kind for op in self._ops.values() if op.schema.kind in DENSE_ONLY)
        for tensor in (*inputs, *outputs):
            if dense_only and tensor.strides is not None and not is_dense(tensor):
                raise UnsupportedError(f"{tensor!r}: {dense_only[0]} does not honour strides; pass dense row-major")
        self._check_shapes(inputs, outputs)

    def _check_shapes(self, inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor]) -> None:
        """Infer every shape inside: the library would take output shapes that are wrong for right."""
        shapes: dict[int, Shape] = {tensor.id: tensor.shape for tensor in inputs}
        pending = list(self._ops.values())
        inside = {tensor.id for op in pending for tensor in op.outputs}
        while pending:
            ready = [op for op in pending if all(t.id in shapes or t.id not in inside for t in op.inputs)]
            for op in ready:
                types = [TensorType(tensor.dtype, shapes.get(tensor.id, tensor.shape)) for tensor in op.inputs]
                results = [TensorType(tensor.dtype, None) for tensor in op.outputs]
                found = check_types(op, types, results)
                shapes.update((tensor.id, shape) for tensor, shape in zip(op.outputs, found, strict=False))
            if not ready:
                raise ArgumentError(f"ops {[op.id for op in pending]} form a cycle")
            pending = [op for op in pending if op not in ready]
        for tensor in outputs:
            if not compatible(tensor.shape, shapes.get(tensor.id)):
                raise ArgumentError(f"outputs: {tensor!r}; expected shape {shapes[tensor.id]}, as the inputs imply")

    def __repr__(self) -> str:
        kinds = ", ".join(op.schema.kind for op in self._ops.values())
        return f"Partition({self.id}: {kinds}{'' if self.supported else ', unsupported'})"


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


class CompiledPartition(Handle):
    """``dnnl_graph_compiled_partition_t``: a partition with its kernels. ``Partition.compile`` makes it."""

    __slots__ = ("_engine", "_in_place", "_inputs", "_outputs", "_partition")

    def __init__(
        self,
        partition: Partition,
        inputs: Sequence[LogicalTensor] | None = None,
        outputs: Sequence[LogicalTensor] | None = None,
        engine: Engine | None = None,
    ) -> None:
        expect("partition", partition, Partition)
        if engine is None:
            engine = default_engine()
        expect("engine", engine, Engine)
        ins = _matched("inputs", partition.input_ports, inputs)
        outs = _matched("outputs", partition.output_ports, outputs)
        partition._check_tensors(ins, outs)
        begin_compilation()
        pointer = create(lib.dnnl_graph_compiled_partition_create, "dnnl_graph_compiled_partition_t", partition._ptr)
        super().__init__(pointer, lib.dnnl_graph_compiled_partition_destroy, partition, engine)
        try:
            call(
                lib.dnnl_graph_partition_compile,
                partition._ptr,
                self._ptr,
                len(ins),
                ffi.new("dnnl_graph_logical_tensor_t *[]", [tensor._struct for tensor in ins]),
                len(outs),
                ffi.new("dnnl_graph_logical_tensor_t *[]", [tensor._struct for tensor in outs]),
                engine._ptr,
            )
        except StatusError as error:
            if error.what:
                _empty_caches()
            raise
        self._partition, self._engine = partition, engine
        self._inputs = tuple(ins)
        self._outputs = tuple(self._query(tensor.id) for tensor in outs)
        self._in_place = {pair[1]: pair[0] for pair in self.inplace_pairs}

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

    def _query(self, number: int) -> LogicalTensor:
        struct = read(
            lib.dnnl_graph_compiled_partition_query_logical_tensor, "dnnl_graph_logical_tensor_t", self._ptr, number
        )
        return LogicalTensor._of(struct)

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
        count = ffi.new("size_t *")
        pairs = ffi.new("const dnnl_graph_inplace_pair_t **")
        call(lib.dnnl_graph_compiled_partition_get_inplace_ports, self._ptr, count, pairs)
        return [(int(pairs[0][index].input_id), int(pairs[0][index].output_id)) for index in range(count[0])]

    def execute(self, stream: Stream, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Execute, and wait for the end.

        Args:
            stream: of the engine that this was compiled for.
            inputs, outputs: tensors in any order; they are matched by id.

        Raises:
            ArgumentError: a tensor is missing or unknown, differs from what was compiled, is not writable, or
                overlaps another one where that is not allowed.
            StatusError: the library failed.
        """
        expect("stream", stream, Stream)
        if stream.engine is not self.engine:
            raise ArgumentError("stream: of another engine than the compiled partition")
        ins = self._tensors("inputs", self.inputs, inputs)
        outs = self._tensors("outputs", self.outputs, outputs)
        for tensor in outs:
            if not tensor.writable:
                raise ArgumentError(f"outputs: tensor {tensor.logical_tensor.id} is read-only")
        self._refuse_overlap(ins, outs)
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

    def _tensors(self, name: str, wanted: Sequence[LogicalTensor], given: Sequence[Tensor]) -> list[Tensor]:
        given = as_list(name, given, Tensor)
        by_id = {tensor.logical_tensor.id: tensor for tensor in given}
        ids = [tensor.id for tensor in wanted]
        if sorted(by_id) != sorted(ids) or len(given) != len(ids):
            raise ArgumentError(f"{name}: tensors {[t.logical_tensor.id for t in given]}; expected {ids}, each once")
        for tensor in wanted:
            got = by_id[tensor.id]
            got.check()
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


__all__ = ["FPMATH_MODES", "POLICIES", "CompiledPartition", "Graph", "Op", "Partition"]
