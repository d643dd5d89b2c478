"""Checks an op against the specification, and against what this library crashes on or computes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ..builder.signature_cache import MAX_SIGNATURES, AttrsKey, attrs_key, read_attrs
from ..errors import OneGraphError, SpecError, UnsupportedError
from ..faults.ops import faults_of
from ..faults.ops.interpolation import ENDLESS_TABLE, MAX_TABULATED
from ..inference.infer import infer_op
from ..inference.op_inference import MAX_INPUTS, OpInference
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE, DEFAULT, NEWEST, edition, edition_of_version
from ..opset.schema import Call, Schema, TensorType
from ..opset.signature import AttrValue, Shape

_LOADED = f"the loaded library is {VERSION[0]}.{VERSION[1]}"
EDITION = edition(edition_of_version(VERSION))


def check_use(
    schema: Schema,
    attrs: dict[str, AttrValue],
    name: str,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
) -> tuple[Shape, ...]:
    """``checked_shapes`` with a cache, whose key is the kind, the attributes and the types."""
    key = attrs_key(attrs) if len(inputs) + len(outputs) <= MAX_INPUTS else None
    if key is None:
        return checked_shapes(schema, attrs, name, inputs, outputs)
    types = tuple([(tensor.dtype, tensor.shape, tensor.bound) for tensor in (*inputs, *outputs)])
    with suppress(OneGraphError):
        return _remembered(schema.kind, key, types, len(inputs))
    return checked_shapes(schema, attrs, name, inputs, outputs)  # for messages that name the op


@lru_cache(maxsize=MAX_SIGNATURES)
def _remembered(
    kind: str, attrs: AttrsKey, types: tuple[tuple[DataType | None, Shape, int | None], ...], n_inputs: int
) -> tuple[Shape, ...]:
    tensors = [TensorType(dtype, shape, None, bound) for dtype, shape, bound in types]
    stored: Any = read_attrs(attrs)
    return checked_shapes(BASE[kind], stored, "", tensors[:n_inputs], tensors[n_inputs:])


def checked_shapes(
    schema: Schema,
    attrs: dict[str, AttrValue],
    name: str,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    by: type[OpInference] | None = None,
) -> tuple[Shape, ...]:
    """The output shapes of an op that passes all checks; ``by`` replaces the usual inference.

    Raises:
        SpecError: the op breaks the specification.
        UnsupportedError: the library refuses the op, crashes on it or computes it wrong.
    """
    checked = infer_op(schema.kind, attrs, list(inputs), list(outputs), edition=EDITION, name=name, by=by)
    label = f"{schema.kind} {name!r}" if name else schema.kind
    if checked.errors:
        newest = infer_op(schema.kind, attrs, list(inputs), list(outputs), edition=edition(DEFAULT), by=by)
        for minor in range(VERSION[1] + 1, NEWEST[1] + 1) if not newest.errors else ():
            later = edition(f"onednn-3.{minor}")
            newer = infer_op(schema.kind, attrs, list(inputs), list(outputs), edition=later, by=by)
            if not newer.errors:
                reason = ", ".join(dict.fromkeys(f"{error.where}: {error.given}" for error in checked.errors))
                raise UnsupportedError(f"{label}: {reason}; needs oneDNN 3.{minor}; {_LOADED}")
        raise SpecError(checked.errors)
    faults = faults_of(Call(schema, attrs, inputs, len(outputs), [tensor.dtype for tensor in outputs]), VERSION)
    if faults:
        reasons = "; ".join(f"{fault.reason} [{fault.severity}: {fault.name}]" for fault in faults)
        raise UnsupportedError(f"{label}: {reasons}")
    _refuse_endless(schema, label, [*inputs, *(TensorType(None, shape) for shape in checked.shapes)])
    return checked.shapes


def _refuse_endless(schema: Schema, label: str, tensors: Sequence[TensorType]) -> None:
    """Refuse long axes, for which compiling takes minutes and gigabytes: the library tabulates every position."""
    if schema.kind not in ENDLESS_TABLE.ops:
        return
    longest = max((dim or 0 for tensor in tensors for dim in tensor.shape or ()), default=0)
    if ENDLESS_TABLE.when(longest):
        raise UnsupportedError(
            f"{label}: an axis of {longest} elements; the library would tabulate every position "
            f"of it; expected at most {MAX_TABULATED}"
        )


def refuse_newer(schema: Schema, attribute: str = "") -> None:
    """Raise UnsupportedError if the loaded library is older than an op, or than one of its attributes."""
    subject = f"{schema.kind}.{attribute}" if attribute else schema.kind
    since = schema.attribute(attribute).since if attribute else schema.since
    if since > VERSION:
        raise UnsupportedError(f"{subject} needs oneDNN {since[0]}.{since[1]}; {_LOADED}")
