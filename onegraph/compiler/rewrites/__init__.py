"""Finds a form of an op that the library computes right: the op itself, or other ops in its place.

A rewrite is a function of a :class:`Call` with every shape known. It returns None where no form does; what is then
still wrong is in :mod:`onegraph.faults.ops`, and numpy runs the op.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...builder.signature_cache import MAX_SIGNATURES
from ...faults.ops import faults_of
from ...faults.performance import slow_alone
from ...ir.op import Signature
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ...opset.editions.dialect import base_call
from ...opset.editions.registry import HOST, base_of
from ...opset.schema import Call, Schema
from ..kernels.kernel import HOST_OP
from ..kernels.registry import exact_kernel
from .compositions import COMPOSITIONS, PREFERRED
from .form import Form, Rewrite, form_of
from .precision import in_own_types, in_table
from .single import SINGLE, as_it_is

# Attributes that only permit the library something, so an older library may ignore them.
PERMISSIONS = frozenset(["accumulation_mode"])


@lru_cache(maxsize=MAX_SIGNATURES)
def signature_form(
    signature: Signature,
    n_outputs: int,
    bounds: tuple[int | None, ...] = (),
    finite_math: bool = False,
) -> tuple[Form | None, str]:
    """``library_form`` for all ops with this signature, computed once; the result must not be changed.

    Args:
        signature: the signature.
        n_outputs: number of outputs to compute, the first ones.
        bounds: the largest magnitudes of integer inputs, None for an unknown one; empty if they do not matter.
        finite_math: as for ``library_form``.
    """
    inputs = signature.inputs
    if bounds:
        pairs = zip(inputs, bounds, strict=True)
        inputs = tuple([None if tensor is None else replace(tensor, bound=bound) for tensor, bound in pairs])
    call = base_call(
        signature.schema, base_of(signature.schema), signature.attrs, inputs, n_outputs, signature.dtypes[:n_outputs]
    )
    form, reason = library_form(signature.schema, call, finite_math=finite_math)
    for constant in () if form is None else form.constants:
        constant.flags.writeable = False
    return form, reason


def library_form(schema: Schema, call: Call, *, finite_math: bool = False) -> tuple[Form | None, str]:
    """A form of the op that this library computes right, or None and the reason why there is none.

    Args:
        schema: the op's record in its edition.
        call: the op in the base vocabulary, with the data types of its outputs.
        finite_math: whether the form may lose NaN and infinities. Otherwise an op that a kernel of the package computes
            is its own form, and so is one that is newer than the library.
    """
    if schema.category == HOST:
        return None, HOST_OP
    if schema.dialect is None and schema.kind != call.schema.kind:
        return None, f"{schema.kind} is not an op of the library"
    kernel = exact_kernel(call)
    if kernel is not None and (not finite_math or call.schema.since > VERSION or kernel.is_faster):
        return form_of(Rewrite(call.schema.kind, call.given, range(len(call.inputs))), call), ""
    newer = _too_new(call)
    types = [t for t in call.inputs if t is not None]
    for dtype in (*(t.dtype for t in types), *call.output_types):
        if dtype is not None and dtype.since > VERSION:
            return None, f"data type {dtype} needs oneDNN {_dotted(dtype.since)}"
        if dtype in (DataType.s4, DataType.u4):
            return None, f"the library has two {dtype} in a byte, arrays have one"
    if any(0 in (shape or ()) for shape in (*(t.shape for t in types), *call.shapes)):
        return (
            None,
            newer or "a tensor is empty; some of the kernels divide by zero then, or leave the result unwritten",
        )
    kind, slow = call.schema.kind, slow_alone(call, VERSION)
    candidates = [PREFERRED.get(kind), None if newer else _single, COMPOSITIONS.get(kind)]
    reason = newer  # a reason about the op itself tells more than one about a rewrite
    for candidate in filter(None, candidates):
        form, refusal = _correct_form(call, candidate(call))
        if form is not None:
            faults = [] if form.note or form.is_op(call) else faults_of(call, VERSION)
            return replace(
                form, note=f"rewritten: {faults[0].told}" if faults else form.note, slow=slow or form.slow
            ), ""
        if candidate is _single or not reason:
            reason = refusal
    return None, reason


def takes(call: Call) -> bool:
    """Whether this library computes the op right as it is."""
    form, _ = _correct_form(call, form_of(as_it_is(call), call))
    return form is not None and form.is_op(call)


def is_best_alone(call: Call) -> bool:
    """Whether no other ops are preferred to the op itself in the library."""
    preferred = PREFERRED.get(call.schema.kind)
    return preferred is None or preferred(call) is None


def _single(call: Call) -> Form | None:
    rewrite = SINGLE.get(call.schema.kind, as_it_is)(call)
    return None if rewrite is None else form_of(rewrite, call)


def _correct_form(call: Call, form: Form | None) -> tuple[Form | None, str]:
    """The form in data types that the library has, or None and the reason why the library computes it wrong."""
    if form is None:
        return None, f"no form of {call.schema.kind} that the library takes"
    form = in_own_types(call, form)
    for part in form.parts:
        use = part.call
        if reason := _too_new(use) or _missing_from_table(use):
            return None, reason
        if faults := faults_of(use, VERSION):
            return None, faults[0].told
    return form, ""


def _missing_from_table(call: Call) -> str:
    """A reason if the library is too old for the data types of an op that has them in the newest edition, else ''."""
    if in_table(call):
        return ""
    types = [tensor.dtype for tensor in call.inputs if tensor is not None]
    return f"{call.schema.kind} of {', '.join(map(str, (*types, *call.output_types)))} needs a newer oneDNN"


def _too_new(call: Call) -> str:
    """A reason if the library is too old for the op, an attribute or a port, else ''."""
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


__all__ = ["Form", "library_form", "signature_form", "takes"]
