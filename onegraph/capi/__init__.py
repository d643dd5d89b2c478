"""Binds the objects and global settings of the oneDNN graph C API, one to one.

Every query of the C API is available here, and no order of calls or choice of arguments crashes. Most users want
:class:`onegraph.Graph` instead, which infers shapes, checks and runs whole graphs.
"""

from .caches import (
    get_compiled_partition_cache_capacity,
    get_constant_tensor_cache,
    get_constant_tensor_cache_capacity,
    get_primitive_cache_capacity,
    set_compiled_partition_cache_capacity,
    set_constant_tensor_cache,
    set_constant_tensor_cache_capacity,
    set_primitive_cache_capacity,
)
from .engine import Allocator, Engine, Stream, default_engine, engine_count
from .graph import Graph
from .logical_tensor import LogicalTensor
from .op import Op
from .partition import CompiledPartition, Partition
from .settings import (
    get_cpu_isa,
    get_cpu_isa_hints,
    get_default_fpmath_mode,
    set_cpu_isa_hints,
    set_default_fpmath_mode,
    set_dump_mode,
    set_max_cpu_isa,
    set_verbose,
    version_info,
)
from .tensor import Tensor
from .threads import get_num_threads, num_threads, set_num_threads

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
    "engine_count",
    "get_compiled_partition_cache_capacity",
    "get_constant_tensor_cache",
    "get_constant_tensor_cache_capacity",
    "get_cpu_isa",
    "get_cpu_isa_hints",
    "get_default_fpmath_mode",
    "get_num_threads",
    "get_primitive_cache_capacity",
    "num_threads",
    "set_compiled_partition_cache_capacity",
    "set_constant_tensor_cache",
    "set_constant_tensor_cache_capacity",
    "set_cpu_isa_hints",
    "set_default_fpmath_mode",
    "set_dump_mode",
    "set_max_cpu_isa",
    "set_num_threads",
    "set_primitive_cache_capacity",
    "set_verbose",
    "version_info",
]
