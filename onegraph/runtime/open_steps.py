"""The steps of a program with open sizes as arrays, of which the memory of those for known sizes is filled at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util.open_sizes import OpenSize, is_open, present
from ..compiler.ir.value import Value
from ..compiler.open_values import At
from ..compiler.recipes import MadePartition, PartitionRecipe, ends_of
from ..compiler.steps import CompiledStep
from ..ir.op import Array
from .placement import Placement
from .placing import Slots, in_place_of


class Numbers:
    """Numbers some of which are open sizes.

    Args:
        numbers: which they are.
        place: that of each open size in the list of their values.
    """

    def __init__(self, numbers: Sequence[Any], place: Mapping[int, int]) -> None:
        places = [at for at, number in enumerate(numbers) if type(number) is OpenSize]
        self._known = np.array([*map(present, numbers)], np.int64)
        self._at = np.array(places, np.intp)
        self._from = np.array([place[id(numbers[at])] for at in places], np.intp)

    def at(self, values: Array) -> Array:
        """The numbers for these values of the open sizes."""
        numbers = self._known.copy()
        numbers[self._at] = values[self._from]
        return numbers


class Reuse(NamedTuple):
    """Which results of steps may lie in the memory of an input.

    Attributes:
        sources: as ``Lifetimes.planned`` takes them.
        over_inputs: as ``Slots.over_inputs`` finds them.
    """

    sources: Array
    over_inputs: Mapping[int, int]


class OpenSteps:
    """The memory of the tensors of steps whose sizes are open.

    Args:
        steps: those in C.
        indices: of these, among all steps.
        recipes: by index of a step, the recipe of a partition that depends on sizes, and the number of its kind.
        slots: of the values.
        pieces: the sizes of the pieces of memory in the arena, in bytes.
        place: that of each open size in the list of their values.
    """

    def __init__(
        self,
        steps: Sequence[CompiledStep],
        indices: Sequence[int],
        recipes: Mapping[int, tuple[PartitionRecipe, int]],
        slots: Slots,
        pieces: Mapping[int, Any],
        place: Mapping[int, int],
    ) -> None:
        self._steps, self._slots = steps, slots
        self._indices = np.array(indices, np.intp)
        self._recipes = [recipes.get(index) for index in indices]
        ends = [piece for step in steps for piece in step.pieces]
        numbers = slots.lifetimes.numbers
        in_arena = dict(zip(numbers, range(len(numbers)), strict=True))
        self._in_arena = np.array([in_arena.get(piece, len(numbers)) for piece in ends], np.intp)
        self._shifts = Numbers([shift for step in steps for shift in step.shifts or [0] * len(step.pieces)], place)
        self._sizes = Numbers([pieces[number] for number in numbers], place)
        recipe_ends = [end for recipe in self._recipes if recipe is not None for end in ends_of(recipe[0])]
        self._offsets = [*dict.fromkeys([end.offset for end in recipe_ends if is_open((end.offset,))])]
        self._reuse: dict[Hashable, Reuse] = {}

    def placed(
        self, values: Mapping[int, Value], sizes: Array, made: Sequence[MadePartition], at: At
    ) -> tuple[Placement, Array, Array]:
        """The places of values; for each step the start and size of ``CompiledStep.room``; the offsets of the tensors.

        Args:
            values: by number.
            sizes: the values of the open sizes.
            made: the partitions by kind.
            at: what a size is.
        """
        reuse, lifetimes = self._reused(made, at), self._slots.lifetimes
        offsets, arena_size, rooms = lifetimes.planned(self._sizes.at(sizes), reuse.sources)
        placement = self._slots.placed(values, offsets, arena_size, reuse.over_inputs)
        starts = np.append(offsets, 0)[self._in_arena]
        return placement, rooms[self._indices], starts + self._shifts.at(sizes)

    def _reused(self, made: Sequence[MadePartition], at: At) -> Reuse:
        key = tuple([tuple(one.in_place) for one in made]), tuple([not at(offset) for offset in self._offsets])
        reuse = self._reuse.get(key)
        if reuse is None:
            steps = [
                step if recipe is None else step._replace(in_place=in_place_at(recipe[0], made[recipe[1]], at))
                for step, recipe in zip(self._steps, self._recipes, strict=True)
            ]
            in_place = in_place_of(steps)
            reuse = Reuse(self._slots.lifetimes.sources(in_place), self._slots.over_inputs(in_place))
            self._reuse = {key: reuse}
        return reuse


def in_place_at(recipe: PartitionRecipe, made: MadePartition, at: At) -> list[tuple[int, int]]:
    """Pairs of pieces as in ``CompiledStep.in_place``, of a partition that was made of a recipe for known sizes."""
    ends = ends_of(recipe)
    inside = [(ends[to], ends[source]) for to, source in made.in_place]
    return [(to.storage, source.storage) for to, source in inside if not at(source.offset)]
