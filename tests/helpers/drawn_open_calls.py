"""Lowerings that are called with arguments whose sizes are open: a material of :mod:`draws`.

What is recorded has also what was asked of the sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from onegraph._util.open_sizes import present
from onegraph._util.size_symbols import OpenSizes
from onegraph.lowering.open_values import OpenInputs

from .drawn_calls import World, functions, of_call
from .draws import material

VALUES = (1, 2, 3, 4, 6, 8)
FACTORS = (1, 1, 2, 2, 3, 4)
SCALES = (0.5, 0.25, 2.0, 1.5, 3.0, 1 / 3, 1 / 64, 1 / 65, 0.3)
SIZES = frozenset(["size", "count", "length", "steps", "start", "end", "stop", "longest"])


class OpenWorld(World):
    """Arguments of which most sizes are symbols of their values."""

    def __init__(self, drawn: Random, function: Callable[..., Any]) -> None:
        super().__init__(drawn, function)
        self.sizes = OpenSizes(VALUES)
        self.by_value = dict(zip(VALUES, self.sizes.symbols, strict=True))
        self.emit.opened = OpenInputs() if self.flag(0.25) else None
        self.last: Any = self.drawn.choice(self.sizes.symbols)

    def dim(self, size: int) -> Any:
        """A size that is open, or known, seldom unknown."""
        if size in self.by_value and self.flag(0.6):
            return self.by_value[size]
        return None if self.flag(0.03) else size

    def number(self) -> int:
        """A number, which is open if it is one of elements."""
        if self.name not in SIZES or self.flag(0.15):
            return super().number()
        made: Any = self.one(self.last, self.last, *self.by_value.values())
        made = self.one(made, made * self.one(*FACTORS), made * self.one(*FACTORS), made // 2, made + 1, present(made))
        self.last = made if self.name == "size" else self.last
        return made  # type: ignore[no-any-return]

    def named(self, name: str, hint: Any, depth: int = 0) -> Any:
        """A value of a type for an argument or a field of a name."""
        if name == "scale" and hint is float and self.flag(0.7):
            return self.one(*SCALES, *map(float, FACTORS))
        return super().named(name, hint, depth)


@cache
def lowerings() -> dict[str, Any]:
    """The functions of lowerings, by their places."""
    return {name: one for name, one in functions().items() if name.startswith("lowering.")}


@material(lowerings)
def opened(name: str, number: int) -> list[str]:
    """What a lowering makes of arguments of its types, whose sizes are open."""
    lines, world = of_call(name, Random(f"{name} {number}"), OpenWorld)
    if world is None or world.sizes is None:
        return lines
    opened_inputs = {} if world.emit.opened is None else world.emit.opened.recipes
    recipes = [f"{key} {one.kind} {one.numbers}" for key, one in opened_inputs.items()]
    return [*lines, *recipes, *world.sizes.conditions()]
