"""What a call of an executable returns, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    class Result(np.ndarray[Any, np.dtype[Any]]):
        """An array for one output, else a named tuple of arrays, which is read by index, by name or in a loop.

        The number of outputs is known when the graph is compiled. Therefore type checkers see both as an array that
        also has attributes: those of the outputs, which are arrays.
        """

        def __getattr__(self, name: str) -> np.ndarray[Any, np.dtype[Any]]: ...
