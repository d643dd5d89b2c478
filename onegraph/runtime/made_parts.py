"""Makes the executables of parts of a graph, which do not refer to the executable of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..builder.graph import DataGraph
from ..compiler.shared_constants import SharedConstants
from .compile_options import CompileOptions
from .op_by_op import OFTEN
from .staged import Runnable

Make = Callable[..., Runnable]  # makes an executable, from a graph and options by name


def make_part(
    executable: Make, options: CompileOptions, often: int, graph: DataGraph, shared: SharedConstants | None = None
) -> Runnable:
    """The executable of a part of the graph, which runs op by op before shapes have come ``often``."""
    threads = None if isinstance(options.threads, Mapping) else options.threads
    settings = options._replace(threads=threads)._asdict()
    return executable(graph, shared=shared, small=runs_op_by_op(options, often), **settings)


def make_body(executable: Make, options: CompileOptions, graph: DataGraph) -> Runnable:
    """The executable of a body of control flow."""
    shared = SharedConstants.of(graph)
    shared.partitions.repeats = not options.reproducible
    return make_part(executable, options, OFTEN, graph, shared)


def runs_op_by_op(options: CompileOptions, often: int) -> int:
    """The number of runs op by op, which rounds in another way; 0 where that is not wanted."""
    return often if options.policy == "fusion" and not options.reproducible else 0
