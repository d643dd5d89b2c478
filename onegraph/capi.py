"""The objects of the oneDNN graph C API, one to one, and its global settings.

Everything that the C API can tell is readable here, and no order of calls or choice of arguments crashes. Most users
want :class:`onegraph.Graph` instead, which infers shapes, checks and runs whole graphs.
"""

from .partition import CompiledPartition, Graph, Op, Partition
from .runtime import Allocator, Engine, LogicalTensor, Stream, Tensor, default_engine

__all__ = [
    "Allocator",
    "CompiledPartition",
    "Engine",
    "Graph",
    "LogicalTensor",
    "Op",
    "Partition",
    "Stream",
    "Tensor",
    "default_engine",
]
