"""Misuse of graphs, ops, logical tensors and tensors."""

from __future__ import annotations

from functools import partial

from ...errors import ArgumentError, SpecError, StateError, UnsupportedError
from ..fault import Faults
from .misuse import misuse

FAULTS = Faults[None]()
_add = partial(misuse, FAULTS)
_INVALID_GRAPH = "refuses graph_finalize: invalid_graph"
_CYCLE = {(3, 2): "wrong", (3, 6): _INVALID_GRAPH}
_ENDLESS_CYCLE = {(3, 2): "hang", (3, 6): _INVALID_GRAPH}
_ANY_SIGNAL = "SIGSEGV | SIGABRT | SIGBUS"

# Graphs and ops ------------------------------------------------------------------------------------------------------

_add(
    "graph: repeated id",
    "wrong",
    "ops are told apart by their ids alone, which nobody compares",
    ArgumentError,
    "op id 1 is taken",
)
_add(
    "graph: other kind, repeated id",
    "wrong",
    "ops are told apart by their ids alone, which nobody compares",
    ArgumentError,
    "op id 1",
)
_add(
    "graph: other dims",
    _INVALID_GRAPH,
    "a tensor with two shapes is refused, and the graph is lost",
    ArgumentError,
    "tensor 1",
    "as an earlier op has it",
)
_add(
    "graph: unknown and known rank",
    _INVALID_GRAPH,
    "a tensor of a known and an unknown rank is refused, and the graph is lost",
    ArgumentError,
    "tensor 1",
)
_add(
    "graph: unknown and known dim",
    _INVALID_GRAPH,
    "a tensor with a known and an unknown dim is refused, and the graph is lost",
    ArgumentError,
    "tensor 1",
)
_add(
    "graph: other layout",
    _INVALID_GRAPH,
    "a tensor with two layouts is refused, and the graph is lost",
    ArgumentError,
    "tensor 1",
    "layout",
)
_add(
    "graph: other property",
    _INVALID_GRAPH,
    "a tensor that is constant and variable is refused, and the graph is lost",
    ArgumentError,
    "tensor 1",
)
_add(
    "graph: other dtype",
    _INVALID_GRAPH,
    "a tensor of two data types is refused, and the graph is lost",
    ArgumentError,
    "tensor 1",
)
_add(
    "graph: two producers",
    "accepted",
    "a tensor that two ops produce is that of one of them",
    ArgumentError,
    "tensor 1 is produced twice",
)
_add("graph: cycle", _CYCLE, "ops that wait for each other are left out without a word", ArgumentError, "cycle")
_add(
    "graph: cycle with a consumer",
    _ENDLESS_CYCLE,
    "the search for an order of the ops never ends",
    ArgumentError,
    "cycle",
)
_add(
    "graph: cycle through a fusion",
    _ENDLESS_CYCLE,
    "the search for an order of the ops never ends",
    ArgumentError,
    "cycle",
)
_add("graph: self loop", _CYCLE, "an op that waits for itself is left out without a word", ArgumentError, "cycle")
_add(
    "graph: add_op after finalize",
    "refuses add_op: invalid_graph",
    "a finalized graph takes no ops",
    StateError,
    "is finalized",
)
_add(
    "graph: kind 1000",
    {(3, 2): "SIGSEGV", (3, 13): "SIGSEGV | exit"},  # a runtime of the library may catch the signal and end the process
    "a table of ops is read beyond its end",
    ArgumentError,
    "kind: 1000",
    "not an op",
)
_add(
    "graph: kind last_symbol",
    {(3, 2): "SIGSEGV", (3, 6): "refuses add_op: invalid_graph_op"},
    "a table of ops is read beyond its end",
    ArgumentError,
    "not an op",
)
_add(
    "graph: kind of the library's own",
    "accepted",
    "ops that only the library's passes make are taken from callers",
    ArgumentError,
    "not an op",
)
_add("graph: policy 0", "accepted", "an unknown policy is taken for another one", ArgumentError, "policy: 0")
_add("graph: fpmath 99", "accepted", "an unknown mode is taken for another one", ArgumentError, "fpmath_mode: 99")
_add(
    "graph: gpu graph",
    "accepted",
    "a library for CPUs takes a graph for GPUs",
    UnsupportedError,
    "no gpu engine",
)
_add("graph: no inputs", "refuses add_op: invalid_graph_op", "the op has no source", SpecError, "src")
_add(
    "graph: list for a scalar",
    "accepted",
    "of a list for one number the first element is taken",
    SpecError,
    "alpha",
    "a number",
)
_add(
    "graph: nothing for a scalar",
    "accepted",
    "an empty list for one number is read beyond its end",
    SpecError,
    "alpha",
)
_add(
    "graph: two kinds of one attribute",
    "refuses add_op: invalid_graph_op",
    "an attribute that was set as a float and as an integer is refused",
    SpecError,
    "alpha",
)
_add(
    "graph: bool of two",
    "refuses op_set_attr_bool: invalid_arguments",
    "a list is no bool",
    SpecError,
    "keep_dims",
    "True or False",
)
_add(
    "graph: nowhere to create",
    "SIGSEGV",
    "the place for the new handle is not looked at",
    ArgumentError,
    "engine kind: None",
)
_add("graph: forty partitions", _ANY_SIGNAL, "handles beyond the number of partitions are never written")
_add(
    "graph: too few partitions",
    f"{_ANY_SIGNAL} | accepted",
    "all partitions are written into an array for fewer",
    ArgumentError,
    "policy: 3",
)
_add(
    "graph: partitions before finalize",
    "SIGSEGV",
    "nothing is written where the graph has no partitions yet, and the status is success",
    StateError,
    "not finalized",
)
_add(
    "graph: ops, graph and partition deleted early",
    f"{_ANY_SIGNAL} | throws | refuses | accepted",
    "a destroyed graph is read",
)
_add(
    "graph: copy of a handle",
    _ANY_SIGNAL,
    "a graph that two copies of a handle destroy is freed twice",
    TypeError,
    "cannot be copied",
)

# Logical tensors and tensors -----------------------------------------------------------------------------------------

_add(
    "tensors: 13 dims",
    {(3, 2): "wrong", (3, 13): "refuses logical_tensor_init_with_dims: invalid_arguments"},
    "dims beyond the twelfth are written behind the array, over other fields",
    ArgumentError,
    "at most 12 dimensions, not 13",
)
_add(
    "tensors: 400 dims",
    {(3, 2): "SIGABRT | SIGSEGV | wrong", (3, 13): "refuses logical_tensor_init_with_dims: invalid_arguments"},
    "dims beyond the twelfth are written behind the structure, over other memory",
    ArgumentError,
    "not 400",
)
_add(
    "tensors: more than 2**60 elements",
    "wrong",
    "the number of bytes overflows",
    ArgumentError,
    "2**60",
)
_add("tensors: layout any", "wrong", "a size is said of a layout that is not chosen yet", ArgumentError, "no size yet")
_add(
    "tensors: unknown dims",
    {(3, 2): "wrong", (3, 13): "SIGSEGV | wrong"},
    "unknown dims are counted with as numbers",
    ArgumentError,
    "no size yet",
)
_add("tensors: sizes", {(3, 2): "wrong", (3, 6): "right"}, "the size of an empty tensor is not 0")
_add("tensors: negative strides", "wrong", "negative strides make a wrong size", ArgumentError, "-1")
_add("tensors: opaque", "SIGSEGV", "an id of a layout that nobody made is looked up", ArgumentError, "layout: 'opaque'")
_add("tensors: dims of an opaque one", "SIGSEGV", "an opaque layout has no id yet", ArgumentError, "'opaque'")
_add(
    "tensors: equal to an opaque one",
    "SIGSEGV",
    "an id of a layout that nobody made is looked up",
    ArgumentError,
    "'opaque'",
)
_add("tensors: undefined data type", "wrong", "no data type has no size", ArgumentError, "undef")
_add("tensors: -5 dims", "accepted", "a negative number of dims is taken", ArgumentError, "-5")
_add("tensors: data None", "SIGSEGV", "a tensor without memory is read", ArgumentError, "data: None")
_add("tensors: data too small", "overrun", "the memory of a tensor has no size", ArgumentError, "32 bytes")
_add(
    "tensors: copy of a handle",
    "SIGSEGV | SIGABRT",
    "a tensor that two copies of a handle destroy is freed twice",
    TypeError,
    "cannot be copied",
)
_add("strides: negative strides", "throws", "no kernel takes negative strides", ArgumentError, "-1")
_add(
    "strides: overlapping output",
    "throws",
    "elements of an output that share memory overwrite each other",
    ArgumentError,
    "memory of its own",
)
