"""What the library is given for an op of the base vocabulary: the op itself, or another form that it computes right.

A rewrite is a function of a :class:`Call` with every shape known. It returns None where no form does; what is then
still wrong is in :mod:`onegraph.faults.ops`, and numpy runs the op.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...builder.signature_cache import MAX_SIGNATURES
from ...faults.ops import faults_of
from ...ir.op import Signature
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ...opset.editions.dialect import base_call
from ...opset.editions.registry import base_of
from ...opset.schema import Call, Schema
from .compositions import COMPOSITIONS, PREFERRED
from .form import Form, Part, form_of
from .precision import in_own_types, in_table
from .single import SINGLE, as_it_is

# An attribute that allows the library something, which it need not make use of.
PERMISSIONS = frozenset(["accumulation_mode"])


@lru_cache(maxsize=MAX_SIGNATURES)
def signature_form(found: Signature, n_outputs: int, bounds: tuple[int | None, ...] = ()) -> tuple[Form | None, str]:
    """``library_form`` of the ops that share a signature, with the first ``n_outputs`` of their outputs.

    The answer is one record for all of them; nobody may change it.

    Args:
        found: the signature.
        n_outputs: number of outputs.
        bounds: of the inputs, as types have them, where there is one that is known.
    """
    inputs = found.inputs
    if bounds:
        pairs = zip(inputs, bounds, strict=True)
        inputs = tuple([None if tensor is None else replace(tensor, bound=bound) for tensor, bound in pairs])
    call = base_call(found.schema, base_of(found.schema), found.attrs, inputs, n_outputs, found.dtypes[:n_outputs])
    form, reason = library_form(found.schema, call)
    for constant in () if form is None else form.constants:
        constant.flags.writeable = False
    return form, reason


def library_form(schema: Schema, call: Call) -> tuple[Form | None, str]:
    """The op as this library takes it and computes it right, or None and the reason why it cannot.

    Args:
        schema: the op in the words of its edition.
        call: its use, in base words, with the data types of its outputs.
    """
    if schema.dialect is None and schema.kind != call.schema.kind:
        return None, f"{schema.kind} is not an op of the library"
    newer = _too_new(call)
    types = [t for t in call.inputs if t is not None]
    for dtype in (*(t.dtype for t in types), *call.output_types):
        if dtype is not None and dtype.since > VERSION:
            return None, f"data type {dtype} needs oneDNN {_dotted(dtype.since)}"
        if dtype in (DataType.s4, DataType.u4):
            return None, f"the library has two {dtype} in a byte, arrays have one"
    if any(0 in (shape or ()) for shape in (*(t.shape for t in types), *call.schema.shape(call))):
        return (
            None,
            newer or "a tensor is empty; some of the kernels divide by zero then, or leave the result unwritten",
        )
    kind = call.schema.kind
    ways = [PREFERRED.get(kind), None if newer else _single, COMPOSITIONS.get(kind)]
    reason = newer  # what is wrong with the op itself says more than what is wrong with a way around it
    for way in filter(None, ways):
        form, why_not = _right(call, way(call))
        if form is not None:
            found = [] if form.note or form.is_op(call) else faults_of(call, VERSION)
            return replace(form, note=f"rewritten: {found[0].reason}") if found else form, ""
        if way is _single or not reason:
            reason = why_not
    return None, reason


def _single(call: Call) -> Form | None:
    rewrite = SINGLE.get(call.schema.kind, as_it_is)(call)
    return None if rewrite is None else form_of(rewrite, call)


def _right(call: Call, form: Form | None) -> tuple[Form | None, str]:
    """The form in data types that the library has, or why the library would not compute it right."""
    if form is None:
        return None, f"no form of {call.schema.kind} that the library takes"
    form = in_own_types(call, form)
    for part in form.parts:
        use = part.call
        if reason := _too_new(use) or _untabled(use):
            return None, reason
        if found := faults_of(use, VERSION):
            return None, found[0].reason
    return form, ""


def _untabled(call: Call) -> str:
    """Why the library is too old for the data types of an op that has them in the newest edition."""
    if in_table(call):
        return ""
    types = [tensor.dtype for tensor in call.inputs if tensor is not None]
    return f"{call.schema.kind} of {', '.join(map(str, (*types, *call.output_types)))} needs a newer oneDNN"


def _too_new(call: Call) -> str:
    """What of the op the library is too old for."""
    if call.schema.since > VERSION:
        return f"{call.schema.kind} needs oneDNN {_dotted(call.schema.since)}"
    for name, value in call.given.items():
        attribute = call.schema.attribute(name)
        if attribute.since > VERSION and value != attribute.default and name not in PERMISSIONS:
            return f"{name}={value!r} of {call.schema.kind} needs oneDNN {_dotted(attribute.since)}"
    for index, tensor in enumerate(call.inputs):
        port = call.schema.input_port(index)
        if tensor is not None and port.since > VERSION:
            return f"input {port.name} of {call.schema.kind} needs oneDNN {_dotted(port.since)}"
    for port in call.schema.outputs[: call.n_outputs]:
        if port.since > VERSION:
            return f"output {port.name} of {call.schema.kind} needs oneDNN {_dotted(port.since)}"
    return ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


__all__ = ["Form", "Part", "library_form", "signature_form"]
