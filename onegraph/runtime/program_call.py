"""Calls of one program, which need no executable as long as all arrays have exactly its layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._util.fork_safety import cached_property
from ..errors import StatusError
from ..ir.op import Array
from .compile_options import CompileOptions
from .executable import Executable
from .program import Program
from .quick_call import quick_call


class ProgramCall:
    """A function of the arrays of a program. It takes less time to make than an executable.

    Args:
        program: of a graph without variables.
        options: of its compilation.
    """

    def __init__(self, program: Program, options: CompileOptions) -> None:
        self._program, self._options = program, options
        self._quick = quick_call(program, None if len(program.graph.outputs) == 1 else all_results)
        if self._quick is not None and not program.free_frames:
            program.give_back(program.check_out())

    @cached_property
    def _executable(self) -> Executable:
        """What runs the calls that the quick call declines, such as those of other threads meanwhile."""
        return Executable._of_program(self._program, self._options, self._program.whole_graph)

    def __call__(self, *arrays: Array) -> Any:
        """The result of the program, or its results."""
        try:
            result = None if self._quick is None else self._quick(arrays, None)
        except StatusError as error:
            self._quick = None  # the executable compiles again
            raise self._executable._programs.recover(error) from None
        return self._executable(*arrays) if result is None else result


def all_results(*results: Array) -> Sequence[Array]:
    """The results as a sequence."""
    return results


__all__ = ["ProgramCall", "all_results"]
