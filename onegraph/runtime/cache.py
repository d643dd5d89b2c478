"""Caches of a decoder in memory of their own, and runs that write each step behind the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from .._util.fork_safety import new_rlock
from .._util.interpreter_tricks import is_held
from .._util.validation import integer
from ..arrays.ndarrays import aligned_empty, array_of
from ..errors import ArgumentError, StateError, StatusError, class_of, shown
from ..ir.op import Array
from ..opset.shapes import show
from .growing import Growth
from .interface import Interface
from .program_finder import ProgramFinder
from .slow_call import slow_call

MOST = 2**31 - 1

if TYPE_CHECKING:
    from .call_types import Result


class Cache:
    """Memory for the keys or values of a decoder, of which the first tokens are in use.

    ``Executable.bind`` takes it for an input that an output begins with, as by a Concat of past and new tokens. Each
    run then writes the new tokens behind those before, without a copy, and makes the cache longer.

    Args:
        past: the tokens so far, which are copied; their number may be 0. Its data type and other dims are those of the
            cache.
        capacity: the largest number of tokens.
        axis: along which tokens lie; by default the last but one, as in (batch, heads, tokens, size).

    Raises:
        ArgumentError: ``past`` is no array with this axis, or has more tokens than ``capacity``.
    """

    def __init__(self, past: object, capacity: int, axis: int = -2) -> None:
        past_array = array_of("past", past)
        rank = past_array.ndim
        self._axis = integer("axis", axis, -rank, rank - 1) % rank  # of a scalar it is none
        tokens: int = past_array.shape[self._axis]
        most = integer("capacity", capacity, tokens, MOST, f"an integer from the {tokens} tokens of 'past' on")
        shape = (*past_array.shape[: self._axis], most, *past_array.shape[self._axis + 1 :])
        self._memory = aligned_empty(shape, past_array.dtype, zeroed=True)
        self._tokens, self._written = tokens, tokens
        self.array[...] = past_array

    @property
    def capacity(self) -> int:
        """The largest number of tokens."""
        return int(self._memory.shape[self._axis])

    @property
    def array(self) -> Array:
        """The tokens in use, a view of the memory, which may be written."""
        return self._first(self._tokens)

    @property
    def length(self) -> int:
        """The number of tokens in use. Setting it forgets the tokens behind, or takes back tokens that were written.

        Raises:
            ArgumentError: so many tokens were never written.
        """
        return self._tokens

    @length.setter
    def length(self, tokens: int) -> None:
        self._tokens = integer(
            "length", tokens, 0, self._written, f"an integer, 0 to the {self._written} written tokens"
        )

    def __len__(self) -> int:
        return self._tokens

    def __repr__(self) -> str:
        shape = show(self.array.shape)
        return f"Cache({self._memory.dtype} {shape}, {self._tokens} of {self.capacity} tokens)"

    def _first(self, tokens: int) -> Array:
        view: Array = self._memory[(*(slice(None),) * self._axis, slice(tokens))]
        return view

    def _grow(self, tokens: int) -> None:
        self._tokens, self._written = tokens, max(self._written, tokens)


class CacheRun:
    """A run on fixed arrays and on caches that grow. ``Executable.bind`` makes it, if an input is a :class:`Cache`.

    Each run reads the tokens of the caches, writes the new ones behind them, and returns the same value as a call. The
    outputs of caches are views of their memory. Only one thread may run it at a time.
    """

    def __init__(
        self,
        interface: Interface,
        programs: ProgramFinder,
        inputs: Mapping[str, object],
        outputs: Mapping[str, object],
    ) -> None:
        self._interface, self._programs = interface, programs
        self._inputs, self._written, self._busy = (
            {name: inputs[name] for name in interface.graph.inputs},
            dict(outputs),
            new_rlock(),
        )
        self._growths = tuple([growth for growth in interface.growing.growths if _is_cache(inputs.get(growth.past))])
        self._caches: list[Cache] = [inputs[growth.past] for growth in self._growths]  # type: ignore[misc]
        self._more: list[int] = []  # tokens that the last run has added to each cache
        _refuse_unfit(interface, self._inputs, self._written, self._growths)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a CacheRun cannot be copied or pickled; bind the arrays again")

    @property
    def outputs(self) -> Mapping[str, Array]:
        """The arrays that runs write into, by name of output: those that were bound, and the caches as they are."""
        caches = {growth.present: cache.array for growth, cache in zip(self._growths, self._caches, strict=True)}
        return {**self._written, **caches}  # type: ignore[dict-item]

    def run(self, /, **arrays: object) -> Result:
        """Run on the bound arrays and the tokens of the caches, which are longer afterwards.

        Args:
            arrays: by name, inputs that take the place of the bound ones from now on, such as a mask over all tokens.

        Raises:
            ArgumentError: a cache has no room, or an array is unknown or does not fit; nothing was run.
            StateError: another thread is running this object.
            StatusError: the library fails, for example because memory is short.
        """
        self._refuse_held()
        for name in arrays:
            if name not in self._inputs or isinstance(self._inputs[name], Cache):
                plain_inputs = [other for other, array in self._inputs.items() if not isinstance(array, Cache)]
                raise ArgumentError(
                    f"run: unknown name {shown(name)}; inputs that are no Cache: {', '.join(plain_inputs)}"
                )
        with self._busy:
            before, self._inputs = self._inputs, {**self._inputs, **arrays}
            try:
                return self._run()
            except StatusError as error:
                raise self._programs.recover(error) from None
            except ArgumentError:
                self._inputs = before
                raise

    __call__ = run

    def warm_up(self, runs: int) -> None:
        """Make the programs for the lengths that the caches have in the next runs, so that no run waits for one.

        Args:
            runs: the number of runs on arrays of the bound shapes; at most those for which the caches have room.

        Raises:
            ArgumentError: ``runs`` is no such number.
            SpecError: an op cannot have inputs of these shapes.
            StateError: another thread is running this object.
        """
        most = integer("runs", runs, 1, MOST)
        self._refuse_held()
        with self._busy:
            lengths = [cache.length for cache in self._caches]
            for _ in range(most):
                lengths = self._lengths(self._arrays(lengths))
                if self._overfull(lengths) is not None:
                    return

    def _refuse_held(self) -> None:
        if is_held(self._busy):
            raise StateError("this run is in use by another thread; bind one for each thread")

    def _arrays(self, lengths: Sequence[int]) -> tuple[object, ...]:
        """The inputs of a run, with so many tokens of each cache."""
        caches = {
            growth.past: cache._first(n) for growth, cache, n in zip(self._growths, self._caches, lengths, strict=True)
        }
        return tuple([caches.get(name, array) for name, array in self._inputs.items()])

    def _overfull(self, lengths: Sequence[int]) -> int | None:
        """The position of a cache that is too small for so many tokens; None if there is none."""
        pairs = enumerate(zip(lengths, self._caches, strict=True))
        return next((place for place, (length, cache) in pairs if length > cache.capacity), None)

    def _run(self) -> Result:
        arrays = tuple([array.array if isinstance(array, Cache) else array for array in self._inputs.values()])
        result: Result | None = None
        lengths = [cache.length + more for cache, more in zip(self._caches, self._more, strict=False)]
        if lengths and self._overfull(lengths) is None:
            out = [self._out(lengths).get(name) for name in self._interface.names]
            result = self._programs.quick(arrays, out[0] if len(out) == 1 else out)
        if result is None:
            lengths = self._lengths(arrays)
            place = self._overfull(lengths)
            if place is not None:
                past, cache = self._growths[place].past, self._caches[place]
                room = f"{cache.length} of {cache.capacity} tokens are in use"
                raise ArgumentError(f"input {past!r}: a run makes {lengths[place]} tokens; {room}; bind a larger cache")
            result = slow_call(self._interface, self._programs, arrays, {}, self._out(lengths))
        self._more = [length - cache.length for length, cache in zip(lengths, self._caches, strict=True)]
        for cache, length in zip(self._caches, lengths, strict=True):
            cache._grow(length)
        return result

    def _lengths(self, arrays: Sequence[object]) -> list[int]:
        """The tokens of each cache after a run on these arrays."""
        held = self._interface.arguments.arrays(arrays, {}, grows=True)
        growth_found = self._interface.growing.prepared([*held.values()], grows=False, moves=False)
        entry = self._programs.find({**held, **self._interface.present}, 0 if growth_found is None else growth_found[1])
        grown = dict(zip([growth.past for growth in self._interface.growing.growths], entry.grown, strict=True))
        return [grown[growth.past].shape[growth.axis] for growth in self._growths]

    def _out(self, lengths: Sequence[int]) -> dict[str, object]:
        """The arrays to write into, by name of output."""
        grown = zip(self._growths, self._caches, lengths, strict=True)
        return {**self._written, **{growth.present: cache._first(length) for growth, cache, length in grown}}


def _is_cache(value: object) -> bool:
    return isinstance(value, Cache)


def _refuse_unfit(
    interface: Interface, inputs: Mapping[str, object], outputs: Mapping[str, object], growths: Sequence[Growth]
) -> None:
    """Raise ArgumentError unless the caches of a model are bound together, alike and to one input each."""
    names = [growth.past for growth in interface.growing.growths]
    caches = {name: value for name, value in inputs.items() if isinstance(value, Cache)}
    for name in caches:
        if name not in names:
            where = ", ".join(map(repr, names)) or "none"
            raise ArgumentError(f"bind: {name!r} is a Cache, but no output begins with it; inputs of caches: {where}")
    if missing := [name for name in names if name not in caches]:
        raise ArgumentError(
            f"bind: {missing[0]!r}: {class_of(inputs[missing[0]])}; expected a Cache, as the others are"
        )
    if len({id(cache) for cache in caches.values()}) < len(caches):
        raise ArgumentError("bind: a Cache is bound to two inputs; make one for each")
    if len({cache.capacity for cache in caches.values()}) > 1:
        raise ArgumentError("bind: the caches have different capacities; make them alike")
    for growth in growths:
        cache = caches[growth.past]
        if cache._axis != growth.axis:
            raise ArgumentError(f"bind: {growth.past!r}: a Cache along axis {cache._axis}; expected axis {growth.axis}")
        if growth.present in outputs:
            raise ArgumentError(f"bind: output {growth.present!r} lies in the Cache {growth.past!r}; leave it out")
