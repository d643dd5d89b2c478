"""Checks ops and graphs against the specification and returns every mistake as a record.

The check works without the library. The records also cover ops that the specification allows, but that a version of the
library lacks, refuses or computes wrong: the loaded one, or one that is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Protocol

from .._util.exact_types import elements, entries, has_type
from .._util.tracebacks import ends_traceback
from ..errors import ERROR, ArgumentError, Violation
from ..inference.infer import infer_attrs, infer_op
from ..inference.op_inference import MAX_VIOLATIONS
from ..inference.violations import Violations, shortened
from ..ir.op import LogicalTensor, Op
from ..ir.tensor_type import tensor_type
from ..opset.editions.registry import DEFAULT, Edition
from ..opset.editions.registry import edition as edition_named
from .in_edition import there
from .layout_notes import layout_notes
from .library_limits import Library, library_named, library_violations
from .structure import structure
from .violation_list import ViolationList


@ends_traceback
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


@ends_traceback
def check_op(
    kind: str,
    attrs: object = None,
    inputs: object = (),
    outputs: object = None,
    *,
    edition: str | None = None,
    library: str | None = None,
) -> ViolationList:
    """Check one op: attributes, ports, data types and shapes, and known problems of a library.

    Args:
        kind: the op, as the edition names it.
        attrs: a dictionary of attribute names and values.
        inputs: logical tensors, (dtype, shape) pairs or arrays in port order; None omits an optional input.
        outputs: the outputs in the same form; None if they are not to be checked.
        edition: name of the edition, ``onednn-3.13`` by default.
        library: a version of oneDNN from ``"3.2"`` on, which need not be installed, on a CPU that has every instruction
            set, or with the newest instruction set of a CPU, such as ``"3.6@avx2"``; ``"none"`` checks against the
            specification alone; None takes the loaded library and this CPU, if there is a library.

    Returns:
        Every violation; an empty list if there are none. ``.errors`` has those that break the specification. Severity
        ``library`` and ``unsafe`` mean that the library is too old, has no kernel, refuses the op, or computes wrong
        results.

    Raises:
        ArgumentError: the edition or the version is unknown. Every other mistake is a violation.
    """
    chosen, target = edition_named(DEFAULT if edition is None else edition), library_named(library)
    checked = infer_op(kind, attrs, inputs, outputs, edition=chosen)
    limits = library_violations(checked, chosen.name, shortened(kind), checked.n_outputs or 0, target)
    ins, outs = (
        [element for element in elements(side) or () if has_type(element, LogicalTensor)] for side in (inputs, outputs)
    )
    notes = layout_notes(checked, chosen.name, shortened(kind), ins, outs, target)
    return ViolationList([*checked.violations, *limits, *notes])


class Ops(Protocol):
    """An object with ops, such as a graph."""

    @property
    def ops(self) -> Sequence[Op]:
        """The ops."""


@ends_traceback
def check_graph(graph: Ops | Iterable[Op], *, edition: str | None = None, library: str | None = None) -> ViolationList:
    """Check a graph: every op, and the connections between the ops.

    Args:
        graph: a :class:`onegraph.Graph`, or ops in any order.
        edition: name of an edition that every op must be expressible in; an op of another edition is translated. By
            default each op is checked in the edition of its own words.
        library: a version of oneDNN from ``"3.2"`` on, which need not be installed, on a CPU that has every instruction
            set, or with the newest instruction set of a CPU, such as ``"3.6@avx2"``; ``"none"`` checks against the
            specification alone; None takes the loaded library and this CPU, if there is a library.

    Returns:
        Every violation of every op; an empty list if there are none. ``.errors`` has those that break the
        specification. For a graph loaded from a file, there is a note for each shape of the file that loading has
        corrected.

    Raises:
        ArgumentError: an edition or the version is unknown. Every other mistake is a violation.
    """
    target, chosen = None if edition is None else edition_named(edition), library_named(library)
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
    violations: list[Violation] = []
    for op in ops:
        violations += _of_op(op, target, chosen, read)
    notes = getattr(getattr(graph, "_file", None), "notes", ())
    return ViolationList([*notes, *violations, *structure(ops)])


def _of_op(op: Op, target: Edition | None, library: Library | None, read: Set[int | None]) -> list[Violation]:
    """The violations of one op of a graph, whose ops and results read the tensors ``read``."""
    own, label = edition_named(op.edition), f"{op.kind} {op.name!r}"
    n_outputs = max((count for count, tensor in enumerate(op.outputs, 1) if tensor.id in read), default=0)
    checked = infer_op(op.kind, op.attrs, list(op.inputs), list(op.outputs), edition=own, name=op.name)
    violations = [*checked.violations]
    if target is not None and target is not own and not checked.errors:
        violations = there(op, n_outputs, target)
    limits = library_violations(checked, own.name, label, n_outputs, library)
    return [*violations, *limits, *layout_notes(checked, own.name, label, op.inputs, op.outputs, library)]


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


__all__ = ["ERROR", "Violation", "check_attrs", "check_graph", "check_op"]
