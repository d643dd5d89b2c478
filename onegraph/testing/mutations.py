"""Changes single ops, so that a comparison can show that it would notice a wrong op.

The changes are of three classes: an attribute, the order of the inputs, and an operand that is wrong by 10 %. A change
that has no effect on the results of the op, such as the order of the inputs of Add, is no change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .._util.records import record
from ..errors import OneGraphError
from ..inference.infer import infer_op
from ..inference.lenient import LenientInference
from ..ir.op import Array, Op, schema_of
from ..opset.editions.registry import edition
from ..opset.signature import AttrValue, Fill
from ..reference.run import narrow, run_op

FACTOR = 1.1
LEAST = 0.01  # effect on the results of the op, as a fraction of them, from which a change is one
CLASSES = ("operand", "attribute", "order")


@record(frozen=True)
class Mutation:
    """One change of an op.

    Attributes:
        text: the change, such as ``attribute axis = 2``.
        results: the results of the changed op, not rounded.
    """

    text: str
    results: tuple[Array, ...]


def mutation(kind: str, op: Op, inputs: Sequence[Array | None], results: Sequence[Array]) -> Mutation | None:
    """The first change of a class that has an effect; None if there is none.

    Args:
        kind: one of ``CLASSES``.
        op: the op.
        inputs: the arrays that the op reads.
        results: its results, not rounded.
    """
    for description, changed, arrays in _changes(kind, op, inputs):
        try:
            results_changed = run_op(changed, arrays, rounded=False)
        except OneGraphError:  # the op does not take these values
            continue
        if any(map(_has_effect, results_changed, results)):
            return Mutation(description, results_changed)
    return None


def moved(results: Sequence[Array]) -> Mutation | None:
    """The results with their elements moved by one place, for an op without other changes; truth values that are all
    equal are inverted. None if all other elements are equal.
    """
    results_moved = tuple(
        np.roll(result, 1) if result.size > 1 else np.asarray(result.astype(np.float64) * FACTOR + 1)
        for result in results
    )
    if any(map(_has_effect, results_moved, results)):
        return Mutation("results in other places", results_moved)
    if all(result.dtype == np.bool_ and result.size for result in results):
        return Mutation("results inverted", tuple(np.logical_not(result) for result in results))
    return None


def _has_effect(changed: Array, result: Array) -> bool:
    if changed.shape != result.shape:
        return False
    ours, theirs = changed.astype(np.float64), result.astype(np.float64)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    with np.errstate(over="ignore"):
        off, size = np.abs(ours[finite] - theirs[finite]), np.abs(theirs[finite])
    return bool(off.size and off.max() > 0 and off.mean() >= LEAST * size.mean())


def _changes(kind: str, op: Op, inputs: Sequence[Array | None]) -> Iterator[tuple[str, Op, list[Array | None]]]:
    if kind == "attribute":
        for description, changed in _attributes(op):
            yield description, changed, [*inputs]
        return
    schema = schema_of(op)
    usable = [
        (index, array)
        for index, array in enumerate(inputs)
        if array is not None and array.dtype.kind != "b" and not schema.input_port(index).gives_shape
    ]
    if kind == "operand":
        for index, array in usable:
            tensor = op.inputs[index]
            arrays = [*inputs]
            arrays[index] = narrow(np.multiply(array, FACTOR, dtype=np.float64), tensor.dtype)
            yield f"{schema.input_port(index).name} larger by 10 %", op, arrays
        return
    for place, (first, first_array) in enumerate(usable):
        for second, second_array in usable[place + 1 :]:
            if (first_array.dtype, first_array.shape) == (second_array.dtype, second_array.shape):
                arrays = [*inputs]
                arrays[first], arrays[second] = second_array, first_array
                names = (schema.input_port(index).name for index in (first, second))
                yield f"{' and '.join(names)} exchanged", op, arrays


def _attributes(op: Op) -> Iterator[tuple[str, Op]]:
    """The op with one other attribute, for each one that gives results of the same shapes."""
    defaults = {attribute.name: attribute.default for attribute in schema_of(op).attributes}
    for name, value in {**defaults, **op.attrs}.items():
        if value is None or isinstance(value, Fill):  # no default, or one that depends on the rank
            continue
        for replaced in _values(op, name, value):
            changed = {**op.attrs, **replaced}
            if (checked := _checked(op, changed)) is not None:
                shown = ", ".join(f"{key} = {new}" for key, new in replaced.items())
                yield f"attribute {shown}", replace(op, attrs=checked, signature=None)


def _checked(op: Op, attrs: Mapping[str, AttrValue]) -> Mapping[str, AttrValue] | None:
    checked = infer_op(
        op.kind, attrs, list(op.inputs), list(op.outputs), edition=edition(op.edition), by=LenientInference
    )
    return None if checked.errors else checked.attrs


def _values(op: Op, name: str, value: AttrValue) -> Iterator[dict[str, AttrValue]]:
    """Other values of an attribute."""
    if isinstance(value, bool):
        yield {name: not value}
    elif isinstance(value, str):
        for choice in schema_of(op).attribute(name).values or ():
            if choice != value:
                yield {name: str(choice)}
    elif isinstance(value, int):
        for whole in (value + 1, value - 1, 0, 1, 2, 3, -1):
            if whole != value:
                yield {name: whole}
    elif isinstance(value, float):
        for real in (value * FACTOR, value + 0.1, value / 2):
            yield {name: real}
    elif value and all(isinstance(one, float) for one in value):
        yield {name: tuple(one * FACTOR for one in value)}
    elif value:
        yield from _lists(op, name, value)


def _lists(op: Op, name: str, value: Sequence[int | float]) -> Iterator[dict[str, AttrValue]]:
    turned = tuple(value[::-1])
    if turned != tuple(value):
        yield {name: turned}
    if len(value) > 1:
        yield {name: (*value[1:], value[0])}
        yield {name: (value[1], value[0], *value[2:])}
        yield {name: (*value[:-2], value[-1], value[-2])}
    if name == "pads_begin" and "pads_end" in op.attrs:
        end = op.attrs["pads_end"]
        assert isinstance(end, tuple)
        for step in (1, -1):
            yield {name: tuple(one + step for one in value), "pads_end": tuple(one - step for one in end)}
    yield {name: tuple(int(one) + 1 for one in value)}
    yield {name: tuple(int(one) - 1 for one in value)}
