"""Says in words what is special about a use, and which of these words tell the failing uses of an op from the right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ...._util.counted import counted
from ....opset.editions.registry import BASE
from ....opset.signature import Fill
from ..uses import ProbedUse

MOST = 3  # words of one cause
SHARED = 0.8  # of the failing uses have each word but the first
EXCLUDED = 0.7  # of the right uses are left at most, else a word tells nothing


def features(use: ProbedUse) -> frozenset[str]:
    """Attribute values that are no default, data types, ports, ranks and single axes of a use."""
    return frozenset(_features(use))


def _features(use: ProbedUse) -> Iterator[str]:
    schema = BASE[use.kind]
    for attribute in schema.attributes:
        if attribute.name not in use.attrs:
            if not attribute.required:
                yield f"{attribute.name} left out"
            continue
        value, default = use.attrs[attribute.name], attribute.default
        if isinstance(value, list):
            usual = default.value if isinstance(default, Fill) else None
            yield from _of_list(attribute.name, value, usual)
        elif value != default or attribute.values:
            yield f"{attribute.name}={value}"
        if isinstance(value, int) and not isinstance(value, bool) and value < 0:
            yield f"{attribute.name} below 0"
    for index, (dtype, tensor) in enumerate(zip(use.dtypes, use.tensors, strict=True)):
        name, shape = schema.input_port(index).name, tensor[1]
        yield f"{name} of {dtype}"
        yield f"{name} of rank {len(shape)}"
        yield f"{name} given"
        if 1 in shape:
            yield f"{name} with an axis of size 1"
        if set(shape) <= {1}:
            yield f"{name} of one element"
    for index, dtype in enumerate(use.outputs):
        yield f"{schema.outputs[min(index, len(schema.outputs) - 1)].name} of {dtype}"
    yield counted(len(use.outputs), "output")


def _of_list(name: str, value: Sequence[Any], usual: int | None) -> Iterator[str]:
    if name in ("strides", "dilations"):
        usual = 1
    elif name.startswith("pads"):
        usual = 0
    yield f"{name} given"
    if usual is not None and any(number != usual for number in value):
        yield f"{name} other than {usual}"
    if not value:
        yield f"{name} empty"


def cause(failing: Sequence[ProbedUse], right: Sequence[ProbedUse]) -> tuple[tuple[str, ...], list[int]]:
    """The words that most failing uses share and fewest right uses have, and the places of the uses that have them.

    Words are added while they exclude right uses. The words of the result hold for each use at these places.
    """
    of_failing, of_right = [features(use) for use in failing], [features(use) for use in right]
    words: list[str] = []
    places, clean = list(range(len(failing))), list(range(len(right)))
    while clean and len(words) < MOST:
        in_failing = Counter(word for place in places for word in of_failing[place])
        in_right = Counter(word for place in clean for word in of_right[place])
        least = SHARED * len(places) if words else 0
        choices = [word for word, hits in sorted(in_failing.items()) if word not in words and hits >= least]
        best = max(choices, key=lambda word: _gain(in_failing[word], in_right[word]), default="")
        kept = [place for place in clean if best in of_right[place]]
        if not best or len(kept) > EXCLUDED * len(clean):
            break
        words.append(best)
        places, clean = [place for place in places if best in of_failing[place]], kept
    return tuple(words), places


def _gain(failing: int, right: int) -> tuple[float, int]:
    """How well a word tells failing uses from right ones, among those that many failing uses have."""
    return failing * failing / (failing + right), failing
