"""Caches the results of checking ops, because real graphs repeat ops with equal attributes and shapes.

A :class:`onegraph.ir.op.Signature` is computed only from its key, which consists of plain immutable values. Data that
is not in the key, such as the contents of weights, is not available to the check and so cannot change its result. Only
valid ops are cached; an invalid op is checked again, so that the messages have its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from ..errors import SpecError
from ..inference.infer import Inference, infer_op
from ..inference.lenient import LenientInference
from ..inference.op_inference import MAX_INPUTS, ErrorInference, OpInference
from ..ir.op import Array, LogicalTensor, Signature, make_signature
from ..opset.dtypes import DataType
from ..opset.editions.registry import Edition, edition
from ..opset.schema import Schema, TensorType, make_type
from ..opset.shapes import known_dims
from ..opset.signature import Shape
from .op_outputs import implied_outputs, output_dtypes

MAX_SIGNATURES = 4096
MAX_ELEMENTS = 256  # of a list or a constant in a key; for longer ones the key costs more than the check
_NUMBERS = frozenset([int, float, bool])
_KINDS = _NUMBERS | {str, list, tuple}

AttrsKey = tuple[tuple[str, type, object], ...]
TensorKey = tuple[DataType, Shape, bytes | None] | None


def signature(
    chosen: Edition,
    kind: object,
    attrs: object,
    inputs: Sequence[LogicalTensor | None],
    *,
    name: str = "",
    dtype: DataType | None = None,
    n_outputs: int | None = None,
    dtypes: tuple[DataType, ...] | None = None,
    lenient: bool = False,
) -> Signature:
    """Check an op, or return the cached result for an equal one.

    Args:
        chosen: the edition of the op.
        kind, attrs: as the user gave them.
        inputs: tensors of a graph, in port order.
        name: name of the op, for messages.
        dtype: data type of the result if the type table allows several.
        n_outputs: number of outputs; by default the number that the attributes imply.
        dtypes: data types of all outputs, if known.
        lenient: also accept ops that break the specification but that the library accepts.

    Raises:
        SpecError: the op breaks the specification; the error lists every violation.
    """
    schema = chosen.schema(kind)
    key = None if schema is None else _key(schema, attrs, inputs)
    if key is not None:
        assert schema is not None
        try:
            known = _remembered(chosen.name, schema.kind, *key, dtype, n_outputs, dtypes)
        except SpecError:  # raised again below, with the name of the op
            known = None
        if known is not None:
            return known
    by: type[OpInference] = ErrorInference
    try:
        checked = infer_op(kind, attrs, inputs, edition=chosen, name=name, dtype=dtype, n_outputs=n_outputs, by=by)
        return _made_from(checked, chosen, dtype, n_outputs, dtypes)
    except SpecError:
        if not lenient:
            raise
    by = LenientInference
    checked = infer_op(kind, attrs, inputs, edition=chosen, name=name, dtype=dtype, n_outputs=n_outputs, by=by)
    return replace(_made_from(checked, chosen, dtype, n_outputs, dtypes), lenient=True)


def _key(
    schema: Schema, attrs: object, inputs: Sequence[LogicalTensor | None]
) -> tuple[AttrsKey, tuple[TensorKey, ...]] | None:
    attributes = None if len(inputs) > MAX_INPUTS else attrs_key(attrs)
    if attributes is None:
        return None
    tensors: list[TensorKey] = []
    for index, tensor in enumerate(inputs):
        if tensor is None:
            tensors.append(None)
        elif index not in schema.read_inputs or (value := tensor.value) is None:
            tensors.append((tensor.dtype, tensor.shape, None))
        elif _is_plain(tensor, value):
            tensors.append((tensor.dtype, tensor.shape, value.tobytes()))
        else:
            return None
    return attributes, tuple(tensors)


@lru_cache(maxsize=MAX_SIGNATURES)
def _remembered(
    edition_name: str,
    kind: str,
    attributes: AttrsKey,
    tensors: tuple[TensorKey, ...],
    dtype: DataType | None,
    n_outputs: int | None,
    dtypes: tuple[DataType, ...] | None,
) -> Signature | None:
    chosen = edition(edition_name)
    inputs = [None if tensor is None else _tensor_type(*tensor) for tensor in tensors]
    read, by = read_attrs(attributes), ErrorInference
    checked = infer_op(kind, read, inputs, edition=chosen, dtype=dtype, n_outputs=n_outputs, by=by)
    return None if checked.errors else _made_from(checked, chosen, dtype, n_outputs, dtypes)


def _made_from(
    checked: Inference,
    chosen: Edition,
    dtype: DataType | None,
    n_outputs: int | None,
    dtypes: tuple[DataType, ...] | None,
) -> Signature:
    """The signature of a checked op; SpecError if it has errors, or ``dtype`` is missing or not allowed."""
    if checked.errors:
        raise SpecError(checked.errors)
    schema, attrs, inputs = checked.schema, checked.attrs, checked.inputs
    assert schema is not None
    assert attrs is not None
    if dtypes is None:
        count = implied_outputs(schema, attrs, inputs) if n_outputs is None else n_outputs
        first = next((tensor.dtype for tensor in inputs if tensor is not None), None)
        dtypes = tuple(output_dtypes(chosen, schema, checked.dtype_choices[:count], dtype, first))
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    shapes = checked.shapes[: len(dtypes)]
    return make_signature(schema, MappingProxyType(dict(attrs)), inputs, dtypes, shapes, False)


def attrs_key(attrs: object) -> AttrsKey | None:
    """Attributes as a cache key that distinguishes 1, 1.0 and True, and 0.0 and -0.0; None if that is impossible."""
    if attrs is None:
        return ()
    if type(attrs) is not dict:
        return None  # another mapping class may behave in any way
    key: list[tuple[str, type, object]] = []
    for name, value in [*attrs.items()]:
        kind = type(value)
        if kind not in _KINDS:
            if not (kind is np.ndarray or issubclass(kind, np.generic)) or value.dtype.kind not in "iufb":
                return None
            if value.ndim > 1 or value.size > MAX_ELEMENTS:
                return None
            value = value.tolist()
            kind = type(value)
        if kind is list or kind is tuple:
            value = tuple(value[: MAX_ELEMENTS + 1])
            kinds = {*map(type, value)}
            kind = kinds.pop() if kinds else int
            if kinds or kind not in _NUMBERS or len(value) > MAX_ELEMENTS:
                return None
            if kind is float and not all(value):
                value = tuple(element or repr(element) for element in value)
        elif kind is float:
            value = value or repr(value)
        elif kind not in _KINDS:
            return None
        if type(name) is not str:
            return None
        key.append((name, kind, value))
    return tuple(key)


def read_attrs(key: AttrsKey) -> dict[str, object]:
    """The attributes that a key was made from."""
    return {name: tuple(map(kind, value)) if isinstance(value, tuple) else kind(value) for name, kind, value in key}


def _is_plain(tensor: LogicalTensor, value: Array) -> bool:
    """Whether the contents match the tensor's type and are small enough for a key."""
    return (
        type(value) is np.ndarray
        and value.size <= MAX_ELEMENTS
        and value.shape == tensor.shape
        and value.dtype == tensor.dtype.numpy
    )


def _tensor_type(dtype: DataType, shape: Shape, contents: bytes | None) -> TensorType:
    if contents is None:
        return make_type(dtype, shape, None, None)
    value = np.frombuffer(contents, dtype.numpy) if contents else np.empty(0, dtype.numpy)
    return TensorType(dtype, shape, value.reshape(known_dims(shape)))
