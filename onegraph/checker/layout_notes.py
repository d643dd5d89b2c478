"""Notes on tensors that are not dense row-major, which some ops of a version of the library may read wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import NOTE, ArgumentError, Violation
from ..faults.layouts import layout_faults
from ..faults.use import Laid
from ..inference.infer import Inference
from ..inference.violations import Violations
from ..ir.op import LogicalTensor
from ..ir.tensor_type import as_shape, as_strides
from ..opset.editions.dialect import base_call
from ..opset.editions.registry import BASE, base_of
from ..opset.editions.registry import edition as edition_named
from ..opset.shapes import is_dense, known_dims
from .library_limits import Library


def layout_notes(
    checked: Inference,
    edition: str,
    op: str,
    inputs: Iterable[LogicalTensor | None],
    outputs: Iterable[LogicalTensor | None],
    library: Library | None,
) -> list[Violation]:
    """A note for each tensor whose strides the library does not always honour.

    No version lacks a kernel for a layout. Which numbers are wrong depends on the sizes and on the kernel, so that a
    form with these strides may be right.

    Args:
        checked: the op, as the inference has examined it; an op with errors has no notes.
        edition: name of the edition whose words the notes use.
        op: the op, for messages.
        inputs, outputs: the tensors.
        library: the version of the library; None for no library.
    """
    schema, attrs = checked.schema, checked.attrs
    if library is None or checked.errors:
        return []
    assert schema is not None  # as there is no error
    assert attrs is not None
    base = base_of(schema)
    if base.kind not in BASE:
        return []
    call = base_call(schema, base, attrs, checked.inputs, checked.n_outputs, checked.dtypes)
    rank = len(call.shapes[0] or ()) if call.shapes else 0
    noted = Violations(edition_named(edition), op)
    noted.page = noted.edition.page(schema)
    for is_read, tensors in ((True, inputs), (False, outputs)):
        for name, shape, strides in _strided(tensors):
            laid = Laid(base.kind, rank, shape, strides, is_read, frozenset(), call.given)
            for fault in layout_faults(laid, library.version):
                expected = f"dense row-major strides, which {library} always honours; others may give wrong numbers"
                noted.add(fault.name, "strides", f"{strides} of {name or shape}", expected, fault.reason, severity=NOTE)
    return noted.violations


def _strided(tensors: Iterable[LogicalTensor | None]) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Name, shape and strides of the logical tensors that are not dense."""
    for tensor in tensors:
        if tensor is None or tensor.strides is None:
            continue
        try:
            shape = as_shape(tensor.shape)
            strides = as_strides(tensor.strides, shape)
        except ArgumentError:  # a record that a user made directly
            continue
        assert strides is not None
        if not is_dense(known_dims(shape), strides):
            yield tensor.name, known_dims(shape), strides
