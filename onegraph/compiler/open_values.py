"""Values, parts and steps whose sizes are open, and what they are for known sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .._util.interpreter_tricks import written_function
from .._util.open_sizes import OpenSize, is_open, present
from ..opset.schema import TensorType
from ..opset.signature import AttrValue
from .ir.part import Part
from .ir.step import Step
from .ir.value import Value, Values

At = Callable[[Any], int]  # what a size is, which may be open


class SizeRange(NamedTuple):
    """The sizes from ``start`` up to ``stop``, which it lacks; a range would ask an open size whether it is each."""

    start: int
    stop: int

    def __contains__(self, size: object) -> bool:
        return bool(self.start <= size < self.stop)  # type: ignore[operator]


def value_at(value: Value, at: At) -> Value:
    """A value of known sizes; the same one if none was open."""
    if not (is_open(value.shape) or is_open(value.strides) or is_open((value.offset,))):
        return value
    shape, strides = tuple(map(at, value.shape)), tuple(map(at, value.strides))
    number, dtype, _, _, storage, name, constant, offset = value
    return Value(number, dtype, shape, strides, storage, name, constant, at(offset))


def layout_of(value: Value) -> tuple[Hashable, ...]:
    """Type, strides and first element of a value."""
    return value.dtype, value.shape, value.strides, value.offset


def step_at(step: Step, at: At) -> Step:
    """A step of known sizes."""
    part = step.part
    if part is not None:
        part = Part(
            part.kind,
            attrs_at(part.attrs, at),
            part.inputs,
            *[tuple([_type_at(type_, at) for type_ in types]) for types in (part.types, part.outputs)],
        )
    return step._replace(attrs=attrs_at(step.attrs, at), part=part)


def _type_at(type_: TensorType, at: At) -> TensorType:
    dims = type_.shape
    return type_ if dims is None or not is_open(dims) else replace(type_, shape=tuple(map(at, dims)))


def attrs_at(attrs: Mapping[str, AttrValue], at: At) -> Mapping[str, AttrValue]:
    """Attributes of known sizes."""
    sized_attrs = {
        name: tuple(map(at, value)) for name, value in attrs.items() if isinstance(value, tuple) and is_open(value)
    }
    return {**attrs, **sized_attrs} if sized_attrs else attrs


def open_sizes_of(steps: Iterable[Step], values: Iterable[Value]) -> tuple[OpenSize, ...]:
    """The open sizes in steps and values, each once."""
    sizes: dict[OpenSize, None] = {}

    def look(size: Any) -> int:
        if type(size) is OpenSize:
            sizes[size] = None
        return present(size)

    for step in steps:
        step_at(step, look)
    for value in values:
        value_at(value, look)
    return (*sizes,)


class OpenValues:
    """Values some of which have open sizes. What is equal in several, as in the layers of a model, is computed once.

    Args:
        values: by number.
    """

    def __init__(self, values: Mapping[int, Value]) -> None:
        self._values, self._places, texts = values, dict[int, tuple[int, int, int]](), dict[str, int]()
        for number, value in values.items():
            if value_at(value, present) is not value:
                parts = [_text(value.shape), _text(value.strides), repr(value.offset)]
                self._places[number] = tuple([texts.setdefault(text, len(texts)) for text in parts])  # type: ignore[assignment]
        self._evaluate = written_function(["s"], f"[{', '.join(texts)}]")

    def at(self, sizes: Sequence[int]) -> Mapping[int, Value]:
        """The values for these values of the symbols."""
        return _Known(self._values, self._places, self._evaluate(sizes))


class _Known(dict[int, Value]):
    """Values for known sizes, each made when it is read first."""

    def __init__(
        self, values: Mapping[int, Value], places: Mapping[int, tuple[int, int, int]], parts: Sequence[Any]
    ) -> None:
        self._values, self._places, self._parts = values, places, parts

    def __missing__(self, number: int) -> Value:
        value, places, parts = self._values[number], self._places.get(number), self._parts
        if places is not None:
            dtype, _, _, storage, name, constant, _ = value[1:]
            shape, strides, offset = places
            value = Value(number, dtype, parts[shape], parts[strides], storage, name, constant, parts[offset])
        self[number] = value
        return value


def _text(dims: Sequence[Any]) -> str:
    return f"({''.join([f'{dim!r},' for dim in dims])})"


class SizedValues(Values):
    """The values of a graph for known sizes, each made when it is read first.

    Args:
        values: with open sizes.
        at: what a size is.
    """

    def __init__(self, values: Values, at: At) -> None:
        super().__init__(values)
        self._at, self._known = at, set[int]()

    def __getitem__(self, number: int) -> Value:
        value = super().__getitem__(number)
        if number not in self._known:
            self._known.add(number)
            self[number] = value = value_at(value, self._at)
        return value


class ValuesAt(Mapping[int, Value]):
    """The values of a mapping for known sizes, as they are at the time.

    Args:
        values: by number.
        at: what a size is.
    """

    def __init__(self, values: Mapping[int, Value], at: At) -> None:
        self._values, self._at = values, at

    def __getitem__(self, number: int) -> Value:
        return value_at(self._values[number], self._at)

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
