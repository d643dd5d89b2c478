"""Chooses the compiled form of a captured graph for the weights of a call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch._dynamo.convert_frame import compile_lock  # tracing changes settings of all threads

from .options import BackendOptions
from .statistics import log
from .weights import ModuleWeights, can_be_watched

Function = Callable[..., Any]
MOST_PROGRAMS = 64  # of one captured graph, each prepared for the weights of one module
MOST_IN_VAIN = 3
PAID = 100  # calls that are worth the time of a compilation
TRIALS = 8  # calls
SHARE = 0.02  # of the time of a call that the comparison of weights may take
CHEAP = 3e-6  # seconds of a comparison that are not worth a compilation


class PreparedProgram:
    """A compiled graph, and the weights that it was prepared for."""

    def __init__(self, function: Function, weights: ModuleWeights) -> None:
        self.function, self.weights = function, weights
        self.calls = 0
        self.owners: list[Any] = []  # weak references to the tensors that hold the weights


class Trial:
    """Finds out whether it takes less time to read the weights in each call than to compare them with prepared ones."""

    def __init__(self) -> None:
        self.comparing: list[float] = []
        self.computing: list[float] = []
        self.reading: list[float] = []

    @property
    def wants_reading(self) -> bool:
        """Whether the next call should read the weights."""
        return len(self.comparing) >= TRIALS

    @property
    def is_over(self) -> bool:
        """Whether nothing remains to be tried."""
        if len(self.comparing) < TRIALS:
            return False
        least = min(self.comparing)
        return least < CHEAP or least <= SHARE * min(self.computing) or len(self.reading) >= TRIALS

    @property
    def reads_faster(self) -> bool:
        """Whether reading the weights took less time."""
        return bool(self.reading) and min(self.reading) < min(self.comparing) + min(self.computing)


class Programs:
    """The compiled forms of a captured graph: one for the weights of each module, and one that reads them in each call.

    A program is dropped when a tensor that holds its weights is gone, and replaced when the weights have changed. If
    that happens often, and if so many modules share the graph, calls read the weights.

    Args:
        compiled: compiles the graph for inputs, with the inputs at these places prepared.
        places: the places of the inputs that are weights.
        options: the options of the backend.
    """

    def __init__(
        self, compiled: Callable[[Sequence[Any], Sequence[int]], Function], places: list[int], options: BackendOptions
    ) -> None:
        self.compiled, self.places, self.is_frozen = compiled, places, options.frozen
        self.programs: dict[tuple[int, ...], PreparedProgram] = {}  # by the number of threads and the tensors
        self.readers: dict[int, Function] = {}  # by the number of threads
        self.trial = None if self.is_frozen else Trial()
        self.in_vain = 0

    def run(self, arguments: Sequence[Any]) -> Any:
        """Run for these inputs."""
        threads, places, trial = torch.get_num_threads(), self.places, self.trial
        if not places:
            return (self.readers.get(threads) or self._reader(threads, arguments))(*arguments)
        if trial is not None:
            return self._tried(trial, threads, arguments)
        tensors = [arguments[place] for place in places]
        program = self.programs.get((threads, *map(id, tensors)))
        if program is None or not program.weights.fit(tensors):
            return self._renewed(threads, arguments)(*arguments)
        program.calls += 1
        return program.function(*arguments)

    def _tried(self, trial: Trial, threads: int, arguments: Sequence[Any]) -> Any:
        """Run and take the time."""
        if trial.wants_reading:
            function = self._reader(threads, arguments)
            start = perf_counter()
            results = function(*arguments)
            trial.reading.append(perf_counter() - start)
        else:
            tensors = [arguments[place] for place in self.places]
            program = self.programs.get((threads, *map(id, tensors)))
            start = perf_counter()
            if program is None or not program.weights.fit(tensors):
                return self._renewed(threads, arguments)(*arguments)
            middle = perf_counter()
            program.calls += 1
            results = program.function(*arguments)
            trial.computing.append(perf_counter() - middle)
            trial.comparing.append(middle - start)
        if trial.is_over:
            self._decide(trial)
        return results

    def _decide(self, trial: Trial) -> None:
        with compile_lock:
            if trial.reads_faster:
                self._read_from_now_on("it takes less time to read the weights than to compare them")
            self.trial = None

    def _read_from_now_on(self, reason: str) -> None:
        log.info("each call reads the weights from now on: %s", reason)
        self.places = []
        self.programs.clear()

    def _reader(self, threads: int, arguments: Sequence[Any]) -> Function:
        """The function that reads the weights in each call."""
        with compile_lock:
            if threads not in self.readers:
                self.readers[threads] = self.compiled(arguments, [])
            return self.readers[threads]

    def _renewed(self, threads: int, arguments: Sequence[Any]) -> Function:
        """A function for weights that no program was prepared for."""
        with compile_lock:
            watched = [place for place in self.places if can_be_watched(arguments[place])]
            if watched != self.places:
                self.places = watched
                self.programs.clear()
            tensors = [arguments[place] for place in self.places]
            key = threads, *map(id, tensors)
            program = self.programs.get(key)
            if program is not None and program.weights.fit(tensors):  # of another thread
                return program.function
            self._forget(key)
            if self.in_vain > MOST_IN_VAIN:
                self._read_from_now_on(f"they changed {self.in_vain} times soon after they were prepared")
            if not self.places or len(self.programs) >= MOST_PROGRAMS:
                return self._reader(threads, arguments)
            weights = ModuleWeights(tensors, threads, self.is_frozen)  # before they are read
            program = PreparedProgram(self.compiled(arguments, self.places), weights)
            forget = partial(_forget_in, weakref.ref(self), key)
            program.owners = [weakref.ref(tensor, forget) for tensor in tensors]
            self.programs[key] = program
            return program.function

    def _forget(self, key: tuple[int, ...], paid: int = PAID) -> None:
        """Drop a program; tensors also go where the interpreter ends, and PAID is gone before them."""
        program = self.programs.pop(key, None)
        if program is not None and program.calls < paid:
            self.in_vain += 1


def _forget_in(programs: weakref.ref[Programs], key: tuple[int, ...], _: object) -> None:
    owner = programs()
    if owner is not None:
        owner._forget(key)


__all__ = ["Programs"]
