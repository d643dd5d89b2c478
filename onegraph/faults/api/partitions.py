"""Misuse of partitions and compiled partitions, engines, allocators and settings of the process."""

from __future__ import annotations

from functools import partial

from ...errors import ArgumentError, StateError, UnsupportedError
from ..fault import Faults
from .misuse import misuse

FAULTS = Faults[None]()
_add = partial(misuse, FAULTS)

# Compile -------------------------------------------------------------------------------------------------------------

_INVALID = "refuses partition_compile: invalid_arguments"
_add(
    "compile: missing input",
    _INVALID,
    "an input of the partition is not among the tensors",
    ArgumentError,
    "inputs: tensors [0]; expected [0, 1], each once",
)
_add("compile: one input twice", _INVALID, "one input is there twice and the other is not", ArgumentError, "each once")
_add(
    "compile: extra input",
    "accepted",
    "a tensor that the partition does not read is ignored",
    ArgumentError,
    "inputs: tensors [0, 1, 9]; expected [0, 1], each once",
)
_add("compile: None among inputs", "SIGSEGV", "a null pointer is read", ArgumentError, "inputs[0]: None")
_add(
    "compile: other shape than the graph",
    "accepted",
    "what the graph said of the tensor is forgotten",
    ArgumentError,
    "as the graph has it",
)
_add(
    "compile: other dtype than the graph",
    "accepted",
    "what the graph said of the tensor is forgotten",
    ArgumentError,
    "as the graph has it",
    on={"no AVX-512": "throws could not create a primitive"},  # which has no bf16
)
_add(
    "compile: unknown dims",
    {(3, 2): _INVALID, (3, 13): "SIGSEGV | wrong"},
    "a kernel needs every dim",
    ArgumentError,
    "every dim known",
)
_add("compile: input of layout any, ReLU", "throws", "an input must have a layout", ArgumentError, "strided layout")
_add(
    "compile: input of layout any, Subtract",
    {(3, 2): "hang | throws std::bad_alloc", (3, 6): _INVALID},
    "strides that are not there are computed with",
    ArgumentError,
    "strided layout",
)
_add(
    "compile: input of layout undef",
    "throws | SIGSEGV | refuses",
    "strides that are not there are computed with",
    ArgumentError,
    "strided layout",
)
_add(
    "compile: unsupported partition",
    _INVALID,
    "the library has no kernel, which it says if it is asked",
    UnsupportedError,
    "does not support",
    "Pow",
)
_add(
    "compile: wrong output shape",
    {(3, 2): "wrong", (3, 6): "refuses partition_compile: invalid_shape"},
    "the shape of an output is taken for right, and the op for another one",
    ArgumentError,
    "as the inputs imply",
)
_add(
    "compile: unknown id",
    "wrong",
    "the query of a tensor that is not there leaves the structure as it was, and the status is success",
    ArgumentError,
    "tensor 7",
    "[0, 1]",
)
_add(
    "compile: cache capacity",
    "refuses set_compiled_partition_cache_capacity",
    "a capacity is no negative number",
    ArgumentError,
    "capacity: -1",
)
_add(
    "compile: constant cache 5",
    "refuses set_constant_tensor_cache",
    "the cache is on or off",
    ArgumentError,
    "enabled: 5",
)
_add(
    "compile: executed before it is compiled",
    "SIGSEGV",
    "a handle that was created and never compiled is executed",
    StateError,
    "was not made by",
)
_add(
    "compile: in-place pairs before it is compiled",
    {(3, 2): "SIGSEGV", (3, 6): "accepted"},
    "a handle that was created and never compiled is read",
    StateError,
    "was not made by",
)
_add(
    "compile: into what another partition made",
    "SIGSEGV | accepted | throws",
    "the handle for the result belongs to another partition",
)

# Execute -------------------------------------------------------------------------------------------------------------

_add(
    "execute: one input",
    "SIGSEGV | wrong | right",
    "tensors are looked up beyond the end of the array",
    ArgumentError,
    "tensors [0]; expected [0, 1]",
)
_add(
    "execute: no output",
    "SIGSEGV",
    "tensors are looked up beyond the end of the array",
    ArgumentError,
    "outputs: tensors []; expected [2]",
)
_add("execute: extra input", "right", "a tensor that nobody reads is ignored", ArgumentError, "each once")
_add("execute: None tensor", "SIGSEGV", "a null pointer is read", ArgumentError, "inputs[1]: None")
_add("execute: other shape", "overrun", "tensors are not compared", ArgumentError, "as it was compiled")
_add("execute: other dtype", "right", "tensors are not compared", ArgumentError, "as it was compiled")
_add("execute: other strides", "wrong", "tensors are not compared", ArgumentError, "as it was compiled")
_add("execute: the order of the inputs does not matter", "wrong", "tensors are taken by their place, not by their ids")
_add(
    "execute: partial overlap",
    "wrong",
    "memory of an output that is also that of an input is overwritten before it is read",
    ArgumentError,
    "shares memory with tensor 0",
)
_add(
    "execute: read-only output",
    "SIGSEGV",
    "read-only memory is written",
    ArgumentError,
    "tensor 2 is read-only",
)

# Lifetimes and settings of the process -------------------------------------------------------------------------------

_add("lifetimes: destroyed engine", "throws | SIGSEGV | SIGABRT", "a compiled partition keeps no engine alive")
_add("lifetimes: allocator 3", "SIGSEGV", "an allocator is not looked at", ArgumentError, "expected an Allocator")
_add(
    "lifetimes: the kernel of a destroyed engine",
    "throws | SIGSEGV | SIGABRT | right",
    "the cache of compiled partitions keeps no engine alive",
)
_add(
    "lifetimes: allocator of Python",
    {(3, 2): "SIGSEGV", (3, 13): "refuses allocator_create: invalid_arguments"},
    "memory that an allocator could not get is written",
    TypeError,
)
_add(
    "lifetimes: constant cache off after a compilation",
    "throws | SIGSEGV",
    "what was compiled with the cache looks for its constants there",
    StateError,
    "before anything is compiled",
)
_add(
    "lifetimes: constant cache on after a compilation",
    "SIGSEGV | SIGABRT | accepted",
    "what was compiled without the cache is destroyed as if it had constants there",
    StateError,
    "before anything",
)
_add(
    "lifetimes: other constants after the first execution",
    {(3, 2): "wrong", (3, 13): "right"},
    "the constants of the first execution are kept for all later ones",
    ArgumentError,
    "tensor 1 is constant",
)
_add(
    "lifetimes: compiled again after it threw",
    "throws std::future_error",
    "a compilation that throws leaves a promise in the caches that nobody keeps, and the next of its kind trips",
)
