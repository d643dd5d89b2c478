"""Infers the output data types and shapes of one op; the checker and the builder use it.

The checks run in this order: the edition has the op; each attribute exists, has the right kind and an allowed value; no
required attribute is missing; ports; data types; the rules of the op, except those that read a wrong attribute; and, if
there are no errors, the shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import NamedTuple

from ..errors import ERROR, Violation
from ..opset.dtypes import DataType
from ..opset.editions.registry import Edition
from ..opset.schema import Schema, TensorType
from ..opset.signature import AttrValue, Row, Shape
from .op_inference import MAX_VIOLATIONS, OpInference
from .violations import shortened


class Inference(NamedTuple):
    """The result of checking one op: the violations, and everything that could be inferred.

    Attributes:
        violations: every violation found.
        schema: the op in its edition; None if the op is unknown.
        attrs: the valid attributes in stored form.
        inputs: types of the inputs; empty if any of them is invalid.
        n_outputs: number of outputs, if given.
        shapes: inferred shapes of the outputs; empty after an error.
        dtypes: data type of each output; None if undecided.
        dtype_choices: allowed data types of each output.
        rows: rows of the type table that match the known data types.
    """

    violations: tuple[Violation, ...]
    schema: Schema | None = None
    attrs: Mapping[str, AttrValue] | None = None
    inputs: tuple[TensorType | None, ...] = ()
    n_outputs: int | None = None
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[DataType | None, ...] = ()
    dtype_choices: tuple[tuple[DataType, ...], ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def errors(self) -> tuple[Violation, ...]:
        """The violations that break the specification."""
        return tuple(violation for violation in self.violations if violation.severity == ERROR)


def infer_attrs(kind: object, attrs: object, *, edition: Edition) -> Inference:
    """Check the attributes of an op without its inputs; the result has the valid attributes in stored form."""
    examination = OpInference(edition, shortened(kind))
    schema = examination.find_schema(kind)
    stored = None if schema is None else examination.check_attributes(schema, attrs)
    return Inference(tuple(examination.violations), schema, stored)


def infer_op(
    kind: object,
    attrs: object,
    inputs: object,
    outputs: object = None,
    *,
    edition: Edition,
    name: str = "",
    dtype: DataType | None = None,
    n_outputs: int | None = None,
    by: type[OpInference] | None = None,
) -> Inference:
    """Check one op and infer its outputs; ``check_op`` and the builder use it.

    Args:
        kind, attrs, inputs, outputs: as in :func:`onegraph.check_op`.
        edition: the edition to check against.
        name: name of the op, for messages.
        dtype: data type of an output if the type table allows several.
        n_outputs: number of outputs if ``outputs`` is None.
        by: class that does the checks, :class:`OpInference` by default.
    """
    examination = (by or OpInference)(edition, f"{shortened(kind)} {name!r}" if name else shortened(kind))
    schema = examination.find_schema(kind)
    if schema is None:
        return Inference(tuple(examination.violations))
    stored = examination.check_attributes(schema, attrs, inputs)
    in_types = examination.tensor_types(inputs, "inputs")
    out_types = None if outputs is None else examination.tensor_types(outputs, "outputs")
    if out_types is not None:
        n_outputs = len(out_types)
        examination.check_outputs(schema, len(out_types))
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[DataType | None, ...] = ()
    choices: tuple[tuple[DataType, ...], ...] = ()
    rows: tuple[Row, ...] = ()
    if in_types is not None and examination.check_inputs(schema, in_types):
        rows, choices = examination.matching_rows(schema, in_types, out_types)
        dtypes = tuple(
            [options[0] if len(options) == 1 else dtype if dtype in options else None for options in choices]
        )
        if out_types:
            given_types = [None if tensor is None else tensor.dtype for tensor in out_types]
            dtypes = tuple(given or found for given, found in zip_longest(given_types[: len(dtypes)], dtypes))
        if len(examination.violations) <= MAX_VIOLATIONS:
            shapes = examination.check_shapes(schema, stored, in_types, out_types, n_outputs, dtypes)
    return Inference(
        tuple(examination.violations),
        schema,
        stored,
        tuple(in_types or ()),
        n_outputs,
        shapes,
        dtypes,
        choices,
        rows,
    )
