"""What a graph is compiled for."""

from __future__ import annotations

from typing import NamedTuple


class Options(NamedTuple):
    """The options of a compilation that passes ask for.

    Attributes:
        policy: ``fusion`` or ``debug``.
        fpmath_mode: name of the library's mode.
        reproducible: whether results are the same in every batch and for every number of threads.
        finite_math: whether NaN and infinities may be lost.
        updates: ids of the next values of variables.
        repeats: whether the graph is the body of a loop.
        opens: whether the steps are for any of several sizes.
    """

    policy: str = "fusion"
    fpmath_mode: str = "strict"
    reproducible: bool = False
    finite_math: bool = False
    updates: frozenset[int] = frozenset()
    repeats: bool = False
    opens: bool = False

    @property
    def fuses(self) -> bool:
        """Whether ops may be joined and take other forms."""
        return self.policy == "fusion"
