"""Keeps the variables of an executable from call to call."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TypeVar

import numpy as np

from .._util.fork_safety import new_rlock
from ..arrays.ndarrays import aligned_copy, aligned_empty, numpy_array
from ..builder.graph import DataGraph
from ..compiler.transformed_weights import skew_of_variable
from ..errors import ArgumentError, StateError, shown
from ..ir.op import Array, LogicalTensor
from ..native.library import ffi
from ..opset.shapes import show

Result = TypeVar("Result")


class State:
    """The values of variables, and memory for those after the next call.

    A call reads the present values and writes the next ones. At its end, one call into C writes those values over the
    present ones that a program updates in place, and exchanges the memories of all others. A call that fails or is
    interrupted before leaves the present values as they were.

    Attributes:
        updates: by name of variable, the output that is its next value.
        turns: the C number that says which of the two memories is the present one, 0 or 1.
    """

    def __init__(self, graph: DataGraph) -> None:
        self.tensors: dict[str, LogicalTensor] = dict(graph.variables)
        self.updates = dict(graph._next)
        first = {name: _copy(array) for name, array in graph._initial.items()}
        # A variable has a second memory if a program needs one.
        self._memory, self.turns = (first, dict(first)), ffi.new("int *", 0)
        self._busy = new_rlock()

    def without_contents(self, graph: DataGraph) -> DataGraph:
        """A copy of the graph that does not keep the first contents of its variables in memory."""
        stripped = graph.copy()
        stripped._initial = {
            name: np.broadcast_to(array.flat[:1], array.shape) if array.size > 1 else array
            for name, array in stripped._initial.items()
        }
        return stripped

    @property
    def turn(self) -> int:
        """Which of the two memories is the present one."""
        return int(self.turns[0])

    @property
    def present(self) -> dict[str, Array]:
        """The values by name of variable."""
        return self._memory[self.turn]

    @property
    def following(self) -> dict[str, Array]:
        """By name of output, the memory for the values after the next call."""
        memory_after = self._memory[1 - self.turn]
        return {output: memory_after[name] for name, output in self.updates.items()}

    def give_memory(self, in_place: Container[str] = ()) -> None:
        """Give each assigned variable a second memory, but not those that a program updates in place."""
        first, second = self._memory
        alone = [name for name in self.updates if name not in in_place and first[name] is second[name]]
        if alone:
            memory = [dict(first), dict(second)]  # new ones, as frames know what they have bound by the dictionaries
            memory[1 - self.turn].update({name: _blank(first[name]) for name in alone})
            self._memory = memory[0], memory[1]

    def exchange(self) -> None:
        """Let the next values be the present ones, in one interpreter step."""
        self.turns[0] = 1 - self.turn

    @contextmanager
    def reading(self, action: str) -> Iterator[None]:
        """A block in which no other thread changes the values.

        Raises:
            StateError: a signal handler or a destructor interrupted a call in this thread.
        """
        if self._busy._is_owned():  # type: ignore[attr-defined]
            raise StateError(f"{action}: this thread is in the midst of a call that changes the variables")
        with self._busy:
            yield

    def step(self, run: Callable[[], Result]) -> Result:
        """Run a call, which gives the variables their next values. Other threads wait.

        Raises:
            StateError: a call in this thread was interrupted by another one.
        """
        with self.reading("a call"):
            return run()

    def read(self, name: str) -> Array:
        """A read-only copy of a value: what is written into a copy would be lost."""
        with self.reading(f"variable {name!r}"):
            value = self.present[name].copy()
        value.flags.writeable = False
        return value

    def write(self, arrays: Mapping[str, Array]) -> None:
        """Set values, which fit their variables; all of them in one interpreter step, so an interrupt sets none."""
        with self.reading("variables"):
            copies = {name: _copy(array) for name, array in arrays.items()}
            first, second = self._memory
            alone = {name: array for name, array in copies.items() if first[name] is second[name]}
            memory = [{**values, **alone} for values in self._memory]
            memory[self.turn].update(copies)
            self._memory = memory[0], memory[1]


class Variables(MutableMapping[str, Array]):
    """The values of an executable's variables, by name. Reading makes a read-only copy; writing sets the whole array.

    Raises:
        KeyError: there is no such variable.
        ArgumentError: an array has another data type or shape than the variable.
        StateError: a call in this thread was interrupted, and would have to wait for itself.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Array:
        if name not in self._state.tensors:
            raise KeyError(f"{name}; the variables are {', '.join(self._state.tensors) or 'none'}")
        return self._state.read(name)

    def __setitem__(self, name: str, array: object) -> None:
        self.update({name: array})

    def __delitem__(self, name: str) -> None:
        raise TypeError("an executable keeps its variables; they cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.tensors)

    def __len__(self) -> int:
        return len(self._state.tensors)

    def __repr__(self) -> str:
        ends = (f"{name}: {tensor.dtype} {show(tensor.shape)}" for name, tensor in self._state.tensors.items())
        return f"Variables({', '.join(ends)})"

    def update(self, arrays: Mapping[str, object] = {}, /, **named: object) -> None:  # type: ignore[override]
        """Set several variables, all or none."""
        named_arrays = {**arrays, **named}
        self._state.write({name: self._fitting(name, array) for name, array in named_arrays.items()})

    def save(self, path: str | PathLike[str]) -> None:
        """Write all values to a file; see ``Executable.save_variables``."""
        from ..serialize.variables import write_variables

        with self._state.reading("save_variables"):
            write_variables(Path(path), self._state.present)

    def load(self, path: str | PathLike[str], *, strict: bool = True) -> None:
        """Set values from a file; see ``Executable.load_variables``."""
        from ..serialize.variables import read_variables

        self._state.write(read_variables(Path(path), self._state.tensors, whole=strict))

    def _fitting(self, name: object, array: object) -> Array:
        """The array for a variable, if it fits."""
        tensor = self._state.tensors.get(name) if isinstance(name, str) else None
        if tensor is None:
            names = ", ".join(self._state.tensors) or "none"
            raise ArgumentError(f"variables: {shown(name)}; expected a name of {names}")
        expected = f"a numpy array, {tensor.dtype} {show(tensor.shape)}"
        values = numpy_array(f"variable {name!r}", array, expected)
        if values.dtype != tensor.dtype.numpy or values.shape != tensor.shape:
            raise ArgumentError(f"variable {name!r}: {values.dtype} {show(values.shape)}; expected {expected}")
        return values


def _copy(array: Array) -> Array:
    return aligned_copy(array, skew=skew_of_variable(array))


def _blank(array: Array) -> Array:
    return aligned_empty(array.shape, array.dtype, skew=skew_of_variable(array))
