"""Compiles partitions for further sizes, from what a program with open sizes knows of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..capi import CompiledPartition
from ..capi.postponed import compile_postponed
from ..capi.threads import ThreadCount
from ..native.library import status_error
from .compile import known_by, library_keeps
from .ir.lowered import Lowered
from .ir.value import Value
from .library_steps import NoParametersError, Partitioning
from .open_values import At
from .partition_cache import Compiled, Pattern
from .partition_store import SharedPartitions
from .patterns import Patterns
from .schedule import Schedule
from .single_ops import Collapsing, Reordering

PartitionRecipe = Partitioning | Reordering | Collapsing


class MadePartition(NamedTuple):
    """A partition for known sizes.

    Attributes:
        compiled, like: as in ``CompiledStep``.
        in_place: pairs of an output and the input whose memory it may reuse, as places among the values of a recipe.
        pattern: what must live as long, so that later programs find the partition.
    """

    compiled: CompiledPartition
    like: CompiledPartition
    in_place: Sequence[tuple[int, int]]
    pattern: Pattern | None


def ends_of(recipe: PartitionRecipe) -> Sequence[Value]:
    """The values of a recipe, inputs first, with open sizes."""
    return recipe if isinstance(recipe, Reordering) else recipe.values


def compile_recipes(
    recipes: Sequence[PartitionRecipe],
    at: At,
    lowered: Lowered,
    schedule: Schedule,
    *,
    policy: str,
    fpmath_mode: str,
    share: bool,
) -> list[MadePartition]:
    """The partitions of some steps for known sizes, compiled for the threads that the calling thread may use.

    Args:
        recipes: what they are compiled from.
        at: what open sizes are.
        lowered, schedule: of the program with open sizes.
        policy, fpmath_mode, share: as for ``compile_steps``.

    Raises:
        OneGraphError: the library refuses a partition.
        NoParametersError: for these sizes, other partitions are right or fast.
    """
    threads, keeps, unkept = ThreadCount(), library_keeps(), frozenset[int]()
    with lowered.shared.partitions.lent(known_by(policy, fpmath_mode, share, keeps, unkept)) as shared:
        patterns = Patterns(
            lowered, schedule, fpmath_mode, keeps=keeps, unkept=unkept, postpones=True, known=shared, at=at
        )
        compiled = [_compiled(recipe, at, patterns, schedule, shared, threads) for recipe in recipes]
        groups = [group for pattern in patterns for group in pattern.postponed()]
        if failed := next(filter(None, compile_postponed(groups, threads.before)), 0):
            raise status_error("dnnl_graph_partition_compile", failed)
        for pattern in patterns:
            pattern.settle()
    return [MadePartition(kernel.made, kernel.like, kernel.in_place, pattern) for kernel, pattern in compiled]


def _compiled(
    recipe: PartitionRecipe,
    at: At,
    patterns: Patterns,
    schedule: Schedule,
    shared: SharedPartitions,
    threads: ThreadCount,
) -> tuple[Compiled, Pattern | None]:
    if isinstance(recipe, Partitioning):
        pattern, compiled = recipe.compiled(at, patterns, schedule.key, threads)
        return compiled, pattern
    if isinstance(recipe, Reordering):
        kernel = recipe.compiled(at, shared.reorders, threads)
    else:
        collapsed = recipe.compiled(at, threads)
        if collapsed is None:
            raise NoParametersError("a binary op is slow for another size")
        kernel = collapsed
    if isinstance(recipe, Reordering):  # maybe compiled for other values
        places = {kernel.inputs[0].id: 0, kernel.outputs[0].id: 1}
    else:
        places = {value.id: place for place, value in enumerate(recipe.values)}
    return Compiled(
        kernel, kernel, (), [(places[target], places[source]) for source, target in kernel.inplace_pairs]
    ), None
