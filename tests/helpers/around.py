"""One drawn change of the subject of a condition: a size, data type or flag wherever it stands, a rank, an absent end,
unknown dims, known contents, and in a partition another op, one fewer, one again, or another value in its place.

:mod:`neighbours` has every change of one leaf; most of them make a use invalid. These keep what belongs together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from math import prod
from random import Random
from typing import Any

import numpy as np

from onegraph.faults.constant_inputs import End
from onegraph.faults.use import Fused, Use
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType

from .neighbours import DTYPES, attributes_beside

TYPES = (*DTYPES, DataType.f32, DataType.f32, DataType.s64, DataType.boolean)
ALIKE = (
    ("Add", "Multiply", "Subtract", "Divide", "Maximum", "Minimum", "BiasAdd", "PReLU", "MatMul", "SquaredDifference"),
    ("ReLU", "Sigmoid", "GELU", "Tanh", "Exp", "Sqrt", "Abs", "Clamp", "TypeCast", "Reorder", "SoftMax", "Square"),
    ("Dequantize", "Quantize", "TypeCast", "DynamicDequantize", "DynamicQuantize", "Reorder", "ReLU"),
    ("Convolution", "ConvTranspose", "MatMul"),
    ("AvgPool", "MaxPool", "ReLU", "Interpolate"),
    ("StaticReshape", "StaticTranspose", "Reorder", "ReLU"),
    ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "SoftMax"),
    ("LayerNorm", "GroupNorm", "BatchNormInference", "RMSNorm", "BiasAdd"),
)
STRINGS = ("MatMul", "SoftMax", "Add", "Convolution", "Select", "ReLU", "StaticTranspose", "LayerNorm", "sse41", "avx2")


def around(subject: Any, bounds: Sequence[int], drawn: Random) -> Any:
    """The subject with one change."""
    if isinstance(subject, Fused):
        return _partition(subject, bounds, drawn)
    if isinstance(subject, Call):
        return _call(subject, bounds, drawn)
    if isinstance(subject, bool):
        return not subject
    if isinstance(subject, int):
        return _size(subject, bounds, drawn)
    if isinstance(subject, str):
        return drawn.choice(STRINGS)
    if isinstance(subject, frozenset):
        return subject ^ {
            drawn.choice([*sorted(subject, key=str), *(range(4) if {*map(type, subject)} == {int} else STRINGS)])
        }
    if isinstance(subject, End) and drawn.random() < 0.3:
        shape = subject.shape or (2, 3)
        return End(subject.id, drawn.choice((None, (*shape[:-1], None), (*shape, 1), shape[:-1], (1, *shape))))
    if isinstance(subject, tuple) and subject:
        sizes = [*_sizes(subject)]
        if sizes and drawn.random() < 0.4:
            old = drawn.choice(sizes)
            return _mapped(subject, {old: _size(old, bounds, drawn)})
        place = drawn.randrange(len(subject))
        changed = [*subject[:place], around(subject[place], bounds, drawn), *subject[place + 1 :]]
        return type(subject)(*changed) if hasattr(subject, "_fields") else tuple(changed)
    if is_dataclass(subject):
        name = drawn.choice(fields(subject)).name
        return replace(subject, **{name: around(getattr(subject, name), bounds, drawn)})  # type: ignore[type-var]
    return subject


def _size(old: int | None, bounds: Sequence[int], drawn: Random) -> int:
    """A size beside one, or beside a bound or a few times that."""
    known = 2 if old is None else old
    near = drawn.choice((known - 1, known + 1, 2 * known, known // 2, 1, 1, 2, 3))
    if bounds and drawn.random() < 0.6:
        near = drawn.choice(bounds) * drawn.choice((1, 1, 1, 1, 2, 3)) + drawn.choice((-1, 0, 0, 1))
    return max(near, 0)


def _sizes(subject: object) -> Iterator[int]:
    if isinstance(subject, tuple):
        for part in subject:
            yield from _sizes(part)
    elif type(subject) is int:
        yield subject


def _mapped(subject: Any, others: dict[Any, Any]) -> Any:
    """A tuple with other leaves."""
    if isinstance(subject, tuple):
        parts = [_mapped(part, others) for part in subject]
        return type(subject)(*parts) if hasattr(subject, "_fields") else tuple(parts)
    return others.get(subject, subject) if isinstance(subject, (int, type(None), DataType)) else subject


def _with_types(call: Call, change: Callable[[TensorType], TensorType], types: Any = None) -> Call:
    inputs = [None if one is None else change(one) for one in call.inputs]
    return Call(call.schema, call.given, inputs, call.n_outputs, call.output_types if types is None else types)


def _of_size(call: Call, others: dict[Any, Any]) -> Call:
    """A call in whose shapes some dims are others."""
    return _with_types(call, lambda one: TensorType(one.dtype, _mapped(one.shape, others)))


def _of_type(call: Call, old: Any, new: Any) -> Call:
    """A call in which a data type is another one."""
    types = [new if one is old else one for one in call.output_types]
    return _with_types(call, lambda one: TensorType(new if one.dtype is old else one.dtype, one.shape), types)


def _dims(calls: Sequence[Call]) -> list[int]:
    return [
        dim for call in calls for one in call.inputs if one is not None for dim in one.shape or () if dim is not None
    ]


def _call(call: Call, bounds: Sequence[int], drawn: Random) -> Call:
    kind, dims = drawn.random(), _dims([call])
    if kind < 0.3:
        others = [*attributes_beside(call.schema, call.given, drawn.sample([*bounds], min(3, len(bounds))))]
        attrs = drawn.choice(others or [dict(call.given)])
        return Call(call.schema, attrs, call.inputs, call.n_outputs, call.output_types)
    if kind < 0.55 and dims:
        old = drawn.choice(dims)
        return _of_size(call, {old: _size(old, bounds, drawn)})
    if kind < 0.65:
        old = drawn.choice([*(one.dtype for one in call.inputs if one is not None), *call.output_types, None])
        return _of_type(call, old, drawn.choice(TYPES))
    if kind < 0.7:
        types = tuple(drawn.choice((*TYPES, one)) for one in call.output_types)
        count = drawn.choice((None, 1, 2, call.n_outputs, (call.n_outputs or 0) + 1))
        return Call(call.schema, call.given, call.inputs, count, drawn.choice((types, (), call.output_types)))
    if not call.inputs:
        return call
    place = drawn.randrange(len(call.inputs))
    changed = _tensor(call.inputs[place], bounds, drawn)
    inputs: Any = [*call.inputs[:place], changed, *call.inputs[place + 1 :]]
    if kind > 0.97:
        inputs = drawn.choice((call.inputs[:-1], [*call.inputs, call.inputs[-1]], call.inputs[::-1]))
    return Call(call.schema, call.given, inputs, call.n_outputs, call.output_types)


def _tensor(known: TensorType | None, bounds: Sequence[int], drawn: Random) -> TensorType | None:
    if known is None:
        return TensorType(DataType.f32, (2,))
    kind, shape = drawn.random(), known.shape
    if kind < 0.1:
        return None
    if kind < 0.2:
        return TensorType(drawn.choice((*TYPES, None)), shape)
    if shape is None or kind < 0.25:
        return TensorType(known.dtype, drawn.choice((None, (2, 3), (2, 3, 4, 5))))
    if kind < 0.35 and known.dtype is not None and known.dtype.numpy is not None and prod(d or 2 for d in shape) < 1024:
        dims = [dim or 2 for dim in shape]
        numbers = np.array([drawn.choice((0, 0, 1, 1, 2, -1, 0.5)) for _ in range(prod(dims))]).reshape(dims)
        with np.errstate(all="ignore"):
            return TensorType(known.dtype, tuple(dims), numbers.astype(known.dtype.numpy))
    if kind < 0.4:
        return TensorType(
            known.dtype, shape, known.value, drawn.choice((None, 1, 127, 1 << 23, 1 << 24, (1 << 24) + 1))
        )
    if kind < 0.6:
        one = drawn.choice((1, 2, None))
        ranks = (
            (one, *shape),
            (*shape, one),
            shape[1:],
            shape[:-1],
            (None,) * len(shape),
            (1,) * len(shape),
            shape[::-1],
        )
        return TensorType(known.dtype, drawn.choice(ranks))
    if not shape:
        return TensorType(known.dtype, (1,))
    place = drawn.randrange(len(shape))
    dim = None if drawn.random() < 0.2 else _size(shape[place], bounds, drawn)
    return TensorType(known.dtype, (*shape[:place], dim, *shape[place + 1 :]))


def _partition(fused: Fused, bounds: Sequence[int], drawn: Random) -> Fused:
    kind, uses = drawn.random(), [*fused.uses]
    numbers = sorted({number for use in uses for number in (*use.inputs, *use.outputs)})
    dims = _dims([use.call for use in uses])
    if kind < 0.1 or not uses:
        name = drawn.choice([one.name for one in fields(Fused) if one.type == "bool"])
        return replace(fused, **{name: not getattr(fused, name)})  # type: ignore[arg-type]
    if kind < 0.2:
        name = drawn.choice(("constants", "constants", "strided"))
        return replace(fused, **{name: getattr(fused, name) ^ {drawn.choice(numbers)}})
    if kind < 0.45 and dims:
        old = drawn.choice(dims)
        new = {old: _size(old, bounds, drawn)}
        return replace(fused, uses=[replace(use, call=_of_size(use.call, new)) for use in uses])
    place = drawn.randrange(len(uses))
    if kind < 0.52:
        old, new = uses[place].dtype, drawn.choice(TYPES)  # type: ignore[assignment]
        uses = [
            replace(use, call=_of_type(use.call, old, new), dtype=new if use.dtype is old else use.dtype)
            for use in uses
        ]  # type: ignore[arg-type]
    elif kind < 0.75:
        call = _call(uses[place].call, bounds, drawn)
        dtype = call.output_types[0] if call.output_types and call.output_types[0] is not None else uses[place].dtype
        uses[place] = replace(uses[place], call=call, dtype=dtype)
    elif kind < 0.85:
        call = uses[place].call
        alike = drawn.choice([kinds for kinds in ALIKE if call.schema.kind in kinds] or ALIKE)
        other = Call(BASE[drawn.choice(alike)], call.given, call.inputs, call.n_outputs, call.output_types)
        uses[place] = replace(uses[place], call=other)
    elif kind < 0.9:
        del uses[place]
    elif kind < 0.95:
        use = uses[place]
        outputs = tuple(max(numbers) + 1 + index for index in range(len(use.outputs)))
        inputs = drawn.choice((use.inputs, use.outputs[:1] + use.inputs[1:], use.inputs[:-1] + use.outputs[:1]))
        uses.insert(place + 1, Use(use.call, inputs, outputs, use.dtype))
    else:
        use = uses[place]
        if use.inputs:
            at = drawn.randrange(len(use.inputs))
            inputs = (*use.inputs[:at], drawn.choice(numbers), *use.inputs[at + 1 :])
            uses[place] = replace(use, inputs=inputs)
    return replace(fused, uses=_settled(uses) if drawn.random() < 0.8 else uses)


def _settled(uses: list[Use]) -> list[Use]:
    """The uses, each of which reads results in the shapes and types in which they are made."""
    made: dict[int, TensorType] = {}
    found = []
    for use in uses:
        call = use.call
        inputs = [made.get(number, one) for number, one in zip(use.inputs, call.inputs, strict=False)]
        inputs += call.inputs[len(inputs) :]
        call = Call(call.schema, call.given, inputs, call.n_outputs, call.output_types)
        for number, shape, dtype in zip(use.outputs, call.shapes, call.output_types, strict=False):
            made[number] = TensorType(dtype, shape)
        found.append(replace(use, call=call))
    return found


def less_known(subject: Any, drawn: Random) -> Any:
    """The subject without the shapes of its inputs, or without their dims along one axis."""
    axis = drawn.choice((None, None, 0, 1, -1, -2))

    def shape(dims: Any) -> Any:
        if axis is None or dims is None:
            return None
        return tuple(None if place in (axis, axis + len(dims)) else dim for place, dim in enumerate(dims))

    if isinstance(subject, Call):
        return _with_types(subject, lambda one: TensorType(one.dtype, shape(one.shape)))
    if isinstance(subject, tuple) and subject and isinstance(subject[0], Call):
        return subject._replace(call=less_known(subject[0], drawn))  # type: ignore[attr-defined]
    return subject
