"""Checks ops and graphs against the specification and returns every mistake as a record.

The check works without the library. If a library can be loaded, the records also cover ops that the specification
allows but that this library refuses or computes wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from .._util.exact_types import elements, entries, has_type
from ..errors import ERROR, LIBRARY, ArgumentError, Violation
from ..faults.ops import faults_of
from ..inference.infer import Inference, infer_attrs, infer_op
from ..inference.op_inference import MAX_VIOLATIONS
from ..inference.violations import Violations, shortened
from ..ir.op import LogicalTensor, Op
from ..ir.tensor_type import tensor_type
from ..opset.editions.dialect import base_call, edition_words
from ..opset.editions.registry import BASE, DEFAULT, base_of
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Finding, Schema
from ..opset.shapes import counted, show
from ..opset.signature import Version
from .violation_list import ViolationList


def check_attrs(kind: str, attrs: object = None, *, edition: str | None = None) -> ViolationList:
    """Check the attributes of an op without its inputs.

    Args:
        kind: the op, as the edition names it.
        attrs: a dictionary of attribute names and values.
        edition: name of the edition, ``onednn-3.13`` by default.

    Returns:
        Every violation; an empty list if there are none.

    Raises:
        ArgumentError: the edition is unknown. Every other mistake is a violation.
    """
    chosen = edition_named(DEFAULT if edition is None else edition)
    return ViolationList(infer_attrs(kind, attrs, edition=chosen).violations)


def check_op(
    kind: str,
    attrs: object = None,
    inputs: object = (),
    outputs: object = None,
    *,
    edition: str | None = None,
) -> ViolationList:
    """Check one op: attributes, ports, data types and shapes, and known problems of the loaded library.

    Args:
        kind: the op, as the edition names it.
        attrs: a dictionary of attribute names and values.
        inputs: logical tensors, (dtype, shape) pairs or arrays in port order; None omits an optional input.
        outputs: the outputs in the same form; None if they are not to be checked.
        edition: name of the edition, ``onednn-3.13`` by default.

    Returns:
        Every violation; an empty list if there are none. Severity ``error`` breaks the specification; ``library`` and
        ``unsafe`` mean that the loaded library is too old, refuses the op, or computes wrong results.

    Raises:
        ArgumentError: the edition is unknown. Every other mistake is a violation.
    """
    chosen = edition_named(DEFAULT if edition is None else edition)
    checked = infer_op(kind, attrs, inputs, outputs, edition=chosen)
    wanted = checked.n_outputs or 0
    limits = _library_violations(checked, chosen.name, shortened(kind), wanted)
    return ViolationList([*checked.violations, *limits])


class Ops(Protocol):
    """An object with ops, such as a graph."""

    @property
    def ops(self) -> Sequence[Op]:
        """The ops."""


def check_graph(graph: Ops | Iterable[Op]) -> ViolationList:
    """Check a graph: every op, and the connections between the ops.

    Args:
        graph: a :class:`onegraph.Graph`, or ops in any order.

    Returns:
        Every violation; an empty list if there are none. For a graph loaded from a file, there is a note for each shape
        of the file that loading has corrected.

    Raises:
        ArgumentError: the edition of an op is unknown. Every other mistake is a violation.
    """
    # Read the outputs before the ops, because another thread may add ops.
    named = (entries(getattr(graph, name, None)) or {} for name in ("outputs", "assignments"))
    results = [tensor for tensors in named for tensor in tensors.values()]
    ops = elements(getattr(graph, "ops", graph))
    noted = Violations(edition_named(DEFAULT), "graph")
    if ops is None:
        noted.add("graph_kind", "graph", graph, "a Graph or a list of ops")
        return ViolationList(noted.violations)
    for index, op in enumerate(ops):
        if len(noted.violations) <= MAX_VIOLATIONS and not _is_record(op):
            expected = "an Op with a name, of logical tensors, and with integers for ids"
            noted.add("op_kind", f"ops[{index}]", op, expected)
    if noted.violations:
        return ViolationList(noted.violations)
    read = {tensor.id for op in ops for tensor in op.inputs if tensor is not None}
    read |= {getattr(tensor, "id", None) for tensor in results}
    found: list[Violation] = []
    for op in ops:
        chosen = edition_named(op.edition)
        outputs = list(op.outputs)
        checked = infer_op(op.kind, op.attrs, list(op.inputs), outputs, edition=chosen, name=op.name)
        found += checked.violations
        wanted = max((count for count, tensor in enumerate(outputs, 1) if tensor.id in read), default=0)
        found += _library_violations(checked, chosen.name, f"{op.kind} {op.name!r}", wanted)
    notes = getattr(getattr(graph, "_file", None), "notes", ())
    return ViolationList([*notes, *found, *_structure(ops)])


def _is_record(op: object) -> bool:
    """Whether ``op`` is an Op with fields of the right types; a user-made record may hold any objects."""
    if not has_type(op, Op) or not has_type(op.inputs, tuple) or not has_type(op.outputs, tuple):
        return False
    tensors = [*op.outputs, *(tensor for tensor in op.inputs if tensor is not None)]
    if (
        not has_type(op.name, str)
        or not has_type(op.kind, str)
        or not all(has_type(tensor, LogicalTensor) for tensor in tensors)
    ):
        return False
    try:
        ids = (op.id, *(tensor.id for tensor in tensors))
        return all(has_type(number, int) for number in ids) and all(map(tensor_type, tensors))
    except ArgumentError:
        return False


# Connections between ops ----------------------------------------------------------------------------------------------


def _structure(ops: Sequence[Op]) -> Iterator[Violation]:
    ids: dict[int, Op] = {}
    producers: dict[int, Op] = {}
    tensors: dict[int, LogicalTensor] = {}
    for op in ops:
        noted = Violations(edition_named(op.edition), f"{op.kind} {op.name!r}")
        other = ids.setdefault(op.id, op)
        if other is not op:
            noted.add("op_id", "id", op.id, f"an id of its own; it is that of {other.name!r}")
        for tensor in (tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None):
            known = tensors.setdefault(tensor.id, tensor)
            if (known.dtype, known.shape) != (tensor.dtype, tensor.shape):
                expected = f"{known.dtype} {show(known.shape)}, as an earlier use of this id has it"
                noted.add("tensor_mismatch", f"tensor {tensor.id}", f"{tensor.dtype} {show(tensor.shape)}", expected)
        for tensor in op.outputs:
            other = producers.setdefault(tensor.id, op)
            if other is not op:
                noted.add(
                    "two_producers", f"tensor {tensor.id}", "produced again", f"only {other.name!r} to produce it"
                )
        yield from noted.violations
    yield from _cycles(ops, producers)


def _cycles(ops: Sequence[Op], producers: dict[int, Op]) -> Iterator[Violation]:
    """One violation that names all ops on a cycle, or that depend on one."""
    needs = [{t.id for t in op.inputs if t is not None and t.id in producers} for op in ops]
    readers: dict[int, list[int]] = {}
    for index, tensors in enumerate(needs):
        for number in tensors:
            readers.setdefault(number, []).append(index)
    missing = [len(tensors) for tensors in needs]
    ready = [index for index, count in enumerate(missing) if not count]
    for index in ready:  # the loop appends to this list
        for tensor in ops[index].outputs:
            for reader in readers.pop(tensor.id, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
    waiting = [op for op, count in zip(ops, missing, strict=True) if count]
    if waiting:
        noted = Violations(edition_named(waiting[0].edition), f"{waiting[0].kind} {waiting[0].name!r}")
        names = ", ".join(op.name for op in waiting)
        noted.add("cycle", "inputs", f"a cycle among {names}", "ops that do not wait for their own results")
        yield from noted.violations


# Problems of the loaded library ---------------------------------------------------------------------------------------


def _library_version() -> tuple[int, int, int] | None:
    """Version of the library; None if no library can be loaded."""
    try:
        from ..native.library import VERSION
    except ImportError:
        return None
    return VERSION


def _library_violations(checked: Inference, edition: str, op: str, wanted: int) -> list[Violation]:
    """Violations for features that are too new for the loaded library, or that it refuses or computes wrong.

    ``wanted`` is the number of outputs that are used; in a graph, all outputs up to the last one that is read.
    """
    version = _library_version()
    schema, attrs = checked.schema, checked.attrs
    if version is None or schema is None or attrs is None or checked.errors:
        return []
    noted = Violations(edition_named(edition), op)
    noted.page = noted.edition.page(schema)
    loaded = f"oneDNN {'.'.join(map(str, version))}"
    base = base_of(schema)
    for where, since in _newer(checked, schema, version, wanted) if base.kind in BASE else ():
        needed = f"oneDNN {since[0]}.{since[1]} or later; the loaded library is {loaded}"
        noted.add("newer_than_library", where, f"since {since[0]}.{since[1]}", needed, severity=LIBRARY)
    if base.kind not in BASE:
        noted.add(
            "no_library_op", "kind", schema.kind, f"an op that {loaded} has; this runs on numpy", severity=LIBRARY
        )
    elif not noted.violations:
        call = base_call(schema, base, attrs, checked.inputs, checked.n_outputs, checked.dtypes)
        for fault in faults_of(call, version):
            finding = edition_words(schema, base, Finding(fault.where, "", fault.reason), attrs)
            where = finding.where
            given = attrs.get(where, "left out" if schema.has_attribute(where) else _tensors(checked))
            right = f"a form that {loaded} gets right"
            noted.add(fault.name, where, given, right, finding.expected, severity=fault.severity)
    return noted.violations


def _tensors(checked: Inference) -> str:
    """The number and types of the inputs of an op, for a message."""
    inputs = [tensor for tensor in checked.inputs if tensor is not None]
    shown = ", ".join(f"{tensor.dtype} {show(tensor.shape)}" for tensor in inputs[:4])
    return f"{counted(len(inputs), 'input')}: {shown}" + (", ..." if len(inputs) > 4 else "")


def _newer(
    checked: Inference, schema: Schema, version: tuple[int, int, int], wanted: int
) -> Iterator[tuple[str, Version]]:
    """The parts of the op that are newer than the library, each with the first version that has it."""
    base = base_of(schema)
    if base.since > version:
        yield "kind", base.since
    for name, value in (checked.attrs or {}).items():
        attribute = schema.attribute(name)
        if attribute.since > version and value != attribute.default:  # an older library always uses the default
            yield name, attribute.since
    for index, tensor in enumerate(checked.inputs):
        if tensor is not None:
            port = schema.input_port(index)
            since = max(port.since, tensor.dtype.since if tensor.dtype else port.since)
            if since > version:
                yield port.name, since
    for port in schema.outputs[:wanted]:
        if port.since > version:
            yield port.name, port.since
    if checked.rows and all(row.since > version for row in checked.rows):
        yield "data types", min(row.since for row in checked.rows)


__all__ = ["ERROR", "Violation", "check_attrs", "check_graph", "check_op"]
