"""How the shapes of inputs give the sizes of a program with open sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class HowSizes(Protocol):
    """How the dims of inputs give the sizes of a program; see ``Parameters``."""

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """For each size, the places of dims that are that size or give it."""

    @property
    def layouts(self) -> int:
        """The number of dims at the end that decide strides alone."""

    def sizes(self, dims: Sequence[int]) -> list[int] | None:
        """The sizes in the dims of all inputs; None if these dims have none."""

    def opened(self, dims: Sequence[int], symbols: Sequence[Any]) -> list[Any]:
        """The dims with symbols in the place of sizes."""


class Parameters(NamedTuple):
    """How the shapes of inputs give the sizes of a program, where equal dims are one size.

    Attributes:
        fixed: the dims of all inputs one after another; None for each one that is a size.
        places: for each size, the places of the dims that are that size.
        layouts: number of dims at the end that decide strides alone.
    """

    fixed: tuple[int | None, ...]
    places: tuple[tuple[int, ...], ...]
    layouts: int = 0

    @classmethod
    def of(cls, dims: Sequence[int], is_open: Sequence[bool], layouts: int = 0) -> Parameters:
        """Dims that may change and that are equal now are one size; 0 and 1 are special, and stay fixed."""
        places: dict[int, list[int]] = {}
        for place, (dim, changes) in enumerate(zip(dims, is_open, strict=True)):
            if changes and dim > 1:
                places.setdefault(dim, []).append(place)
        used_places = {place for some in places.values() for place in some}
        fixed = tuple([None if place in used_places else dim for place, dim in enumerate(dims)])
        return cls(fixed, tuple(map(tuple, places.values())), layouts)

    def sizes(self, dims: Sequence[int]) -> list[int] | None:
        """The sizes in the dims of all inputs; None if the dims differ where they are fixed, or equal."""
        if len(dims) != len(self.fixed):
            return None
        for fixed_dim, dim in zip(self.fixed, dims, strict=True):
            if fixed_dim is not None and fixed_dim != dim:
                return None
        sizes_found = [dims[some[0]] for some in self.places]
        for places, size in zip(self.places, sizes_found, strict=True):
            for place in places:
                if dims[place] != size:
                    return None
        return sizes_found

    def opened(self, dims: Sequence[int], symbols: Sequence[Any]) -> list[Any]:
        """The dims with symbols in the place of sizes."""
        open_dims: list[Any] = [*dims]
        for symbol, places in zip(symbols, self.places, strict=True):
            for place in places:
                open_dims[place] = symbol
        return open_dims
