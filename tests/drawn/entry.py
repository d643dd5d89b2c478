"""An entry of the table of generators.

A module of ``generators/`` holds those of a family. An entry is a function of a :class:`~.draw.Draw` with the names of
the kernels that it draws uses of. A second one, with ``graph``, compiles a graph, and fails unless the kernel ran::

    @draws("panel_product")
    def panel_product(draw: Draw) -> None:
        rows, depth, columns = draw.size(), draw.size(), draw.size()
        src, weights = draw.dense((rows, depth)), draw.dense((depth, columns))
        found = draw.result((rows, columns), is_dense=True)
        draw.said = f"{rows}, {depth}, {columns}"  # what a finding says, besides level and threads
        draw.path = "few rows" if rows < 8 else "many rows"  # counted in the table of make kernels
        draw.run(src, panels_of(weights, False), found, bias=False)  # inputs, then results; then numbers by name
        Wanted(exact, error, sizes).check(found, str(draw))  # float64 of its own; anything that raises is a finding

    @draws("panel_product", graph=True)
    def panel_product_in_a_graph(draw: Draw) -> None:
        (found,) = draw.run_graph(g, {"x": src})  # fails unless the program has the kernel
        ...

``draw.run`` draws level and threads itself, puts the arrays before or behind a page that nobody may touch, asks whether
inputs and the memory around the tensors stay as they are, and runs some uses again with other threads, or over an input
where the record of the kernel lets a result lie there. ``NO_GRAPH`` of ``table.py`` says why a kernel has no graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .draw import Draw, EmptyRefusedError

Case = Callable[[Draw], None]
EACH = 100  # one of so many uses is a graph
CASES: dict[str, Case] = {}
GRAPHS: dict[str, Case] = {}


class Generator(NamedTuple):
    """Draws uses of a kernel.

    Attributes:
        kernel: its name.
        case: draws one and runs it.
        graph: draws a graph with the kernel and runs it; None if ``NO_GRAPH`` says why there is none.
    """

    kernel: str
    case: Case
    graph: Case | None

    def run(self, seed: int, *, graph: bool | None = None) -> Draw:
        """The use of a seed, which has run and was right; by default one of some is a graph.

        Raises:
            Exception: the use is a finding.
        """
        draw = Draw(self.kernel, seed)
        is_graph = seed % EACH == EACH - 1 if graph is None else graph
        with np.errstate(all="ignore"):
            try:
                (self.graph if is_graph and self.graph else self.case)(draw)
            except EmptyRefusedError:
                draw.path = "empty, refused"
        return draw


def draws(*kernels: str, graph: bool = False) -> Callable[[Case], Case]:
    """A decorator for the function that draws uses of kernels, or graphs with them."""

    def entered(case: Case) -> Case:
        table = GRAPHS if graph else CASES
        assert not table.keys() & {*kernels}, f"{kernels} have a generator"
        table.update(dict.fromkeys(kernels, case))
        return case

    return entered
