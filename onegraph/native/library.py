"""Makes the calls of the oneDNN library and turns each status into an exception.

No other module uses the extension. Importing this module loads the library; code that works without oneDNN does not
import this module.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NoReturn

from .._util.fork_safety import new_rlock, refuse_inner
from .._util.init_once import Made
from ..errors import STATUS_ERRORS, LibraryError, StateError, StatusError, UnsupportedError
from ..opset.dtypes import DataType
from .load import INSTALL, TRIED, load

Function = Callable[..., int]
OLDEST = (3, 2)
MAJOR = 3  # of the C interface, and of the name of the file


def _python_functions() -> tuple[Callable[..., Any], ...]:
    """The functions of the extension that take and return Python objects, which cffi does not declare."""
    functions = ctypes.PyDLL(_extension.__file__).onegraph_functions
    functions.restype = ctypes.py_object
    loaded: tuple[Callable[..., Any], ...] = functions()
    return loaded


_handle, _extension = load()
ffi, lib = _extension.ffi, _extension.lib
quick_call, bound_run, _hidden, resume_collector, address_of, new_bytes, array_run = _python_functions()
_version = lib.dnnl_version()
VERSION: tuple[int, int, int] = (_version.major, _version.minor, _version.patch)
HASH = "" if _version.hash == ffi.NULL else ffi.string(_version.hash).decode()
PATH = ffi.string(lib.onegraph_library_path()).decode()
RUNTIMES = {0: "none", 1: "sequential", 2: "OpenMP", 4: "TBB", 8: "thread pool", 512: "SYCL"}
RUNTIME = RUNTIMES.get(_version.cpu_runtime, str(_version.cpu_runtime))
if VERSION < OLDEST or VERSION[0] != MAJOR:
    raise LibraryError(
        f"{PATH} is oneDNN {'.'.join(map(str, VERSION))}; onegraph needs version {MAJOR}, from 3.2 on; {INSTALL}"
    )
if VERSION[:2] not in TRIED:
    warnings.warn(
        f"{PATH} is oneDNN {'.'.join(map(str, VERSION))}, a version that onegraph was never tried with; fused int8 ops "
        f"run one by one; tried are {', '.join(f'{major}.{minor}' for major, minor in sorted(TRIED))}",
        stacklevel=2,
    )


def enum_value(prefix: str, name: str) -> int:
    """Value of the C enumerator ``dnnl_<prefix><name>``; enumerators newer than the headers come from onegraph.h.

    Raises:
        KeyError: neither has the enumerator.
    """
    for stem in (f"dnnl_{prefix}", f"onegraph_{prefix.removeprefix('graph_')}"):
        value = getattr(lib, stem + name, None)
        if isinstance(value, int):
            return value
    raise KeyError(prefix + name)


def enum_names(prefix: str, names: tuple[str, ...]) -> dict[int, str]:
    """The names of C enumerators by value."""
    return {enum_value(prefix, name): name for name in names}


_isa_names = cache(enum_names)


def newest_isa(names: tuple[str, ...]) -> str:
    """The newest instruction set that the library may use, or ``unknown``. The first call fixes it."""
    return _isa_names("cpu_isa_", names).get(int(lib.dnnl_get_effective_cpu_isa()), "unknown")


_STATUS = {enum_value("", name): name for name in ("success", *STATUS_ERRORS, "last_impl_reached", "not_required")}
DTYPES = {dtype: enum_value("", dtype.value) for dtype in DataType if not dtype.is_host}
DTYPE_NAMES = {value: dtype for dtype, value in DTYPES.items()}


def dtype_value(dtype: DataType) -> int:
    """The C value of a data type.

    Raises:
        UnsupportedError: the loaded library is older than the data type.
    """
    since = dtype.since
    if dtype.is_host:
        raise UnsupportedError(f"no version of oneDNN has the data type {dtype}; only host ops take it")
    if since > VERSION:
        raise UnsupportedError(
            f"data type {dtype} needs oneDNN {since[0]}.{since[1]}; the loaded library is {VERSION[0]}.{VERSION[1]}"
        )
    return DTYPES[dtype]


def call(function: Function, *arguments: object) -> None:
    """Call a function of the C API and check its status.

    Raises:
        StatusError: the call failed. The subclass depends on the status; the text is that of the C++ exception.
        StateError: the process was forked and lacks the threads of the library.
    """
    status = function(*arguments)
    if status:
        raise status_error(function.__name__, status)


def status_error(function: str, status: int) -> StatusError | StateError:
    """The exception for a status other than success, with the text of the C++ exception that caused it."""
    if status == lib.onegraph_lost:
        return StateError(
            f"{function}: this process was forked after oneDNN ran, without the threads that oneDNN runs with "
            f"({RUNTIME}); start processes with the method spawn, or fork before anything is compiled"
        )
    name = _STATUS.get(status, str(status))
    return STATUS_ERRORS.get(name, StatusError)(function, name, what())


def what() -> str:
    """The text of the C++ exception that caused the last failure in this thread."""
    return str(ffi.string(lib.onegraph_what()).decode(errors="replace"))


def read(function: Function, ctype: str, *arguments: object) -> Any:
    """Call a function whose last argument is a pointer to the result, and return the result."""
    result = ffi.new(f"{ctype} *")
    call(function, *arguments, result)
    return result[0]


def create(function: Function, ctype: str, *arguments: object) -> Any:
    """Call a function whose first argument is a pointer to the new object, and return the object."""
    result = ffi.new(f"{ctype} *")
    call(function, result, *arguments)
    return result[0]


def address(pointer: Any) -> int:
    """The address that a C pointer holds."""
    return int(ffi.cast("uintptr_t", pointer))


class Final(Made):
    """A class that users cannot subclass, because a subclass could override the checks before a call into C."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if any(issubclass(base, Final) and base.__module__ != __name__ for base in cls.__mro__[1:]):
            raise TypeError(f"a {cls.__bases__[0].__name__} of onegraph.capi cannot be subclassed")


class Handle(Final):
    """An object of the C API. Its destructor refers to the objects it depends on, so they always outlive it."""

    __slots__ = ("__weakref__", "_owner", "_ptr")

    def __init__(self, pointer: Any, destroy: Callable[[Any], int], *parents: object) -> None:
        release = _Release(destroy)
        release.parents = parents
        owned = ffi.gc(pointer, release)
        # Hidden from the garbage collector, which calls the destructors of a cycle in any order: a destructor that it
        # calls later may still use this object.
        self._owner = _hidden(owned)
        self._ptr = owned

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """A copy would be a second owner of one C object."""
        raise TypeError(f"a {type(self).__name__} of onegraph.capi cannot be copied or pickled")


class _Release(partial[int]):
    """A destructor and the objects that it needs. It runs no Python code, so no interrupt can arrive inside it."""

    parents: tuple[object, ...]


# The library's global caches are set once, before anything is compiled. The compiled-partition cache is off: it never
# hits across rebuilt graphs but keeps every kernel and its constants alive. The constant tensor cache is on, and must
# not be switched later. From 3.3 on its key is a weak hash of partition id and memory descriptors, so one partition may
# run with the scales or the weights of another. Only programs use it there, and check (runtime.kept_constants).
HASHES_CONSTANTS = VERSION >= (3, 3)
if read(lib.dnnl_graph_get_compiled_partition_cache_capacity, "int"):
    call(lib.dnnl_graph_set_compiled_partition_cache_capacity, 0)
if not read(lib.dnnl_graph_get_constant_tensor_cache, "int"):
    call(lib.dnnl_graph_set_constant_tensor_cache, 1)

# Before 3.6 the library may make a primitive from one that its primitive cache has already evicted. With the default
# capacity evictions come too late for that; the environment may have set a smaller capacity.
LEAST_PRIMITIVES = 1024 if VERSION < (3, 6) else 0
if 0 < read(lib.dnnl_get_primitive_cache_capacity, "int") < LEAST_PRIMITIVES:
    call(lib.dnnl_set_primitive_cache_capacity, LEAST_PRIMITIVES)


def omp_function(name: str) -> Function | None:
    """A function of the OpenMP runtime that the library is linked to; None for other runtimes or unknown names."""
    return getattr(_handle, name, None) if RUNTIME == "OpenMP" else None


def newer_function(name: str, since: str) -> Function:
    """A library function that is newer than the extension's headers. It takes up to 7 numbers and pointers.

    Args:
        name: of the function.
        since: the version that brought it, for the message.

    Raises:
        UnsupportedError: the loaded library lacks the function.
    """
    function = getattr(_handle, name, None)
    if function is None:
        loaded = ".".join(map(str, VERSION))
        raise UnsupportedError(f"{name} needs oneDNN {since}; the loaded library is {loaded}")
    place = ctypes.cast(function, ctypes.c_void_p).value

    def newer(*arguments: Any) -> int:
        words = [int(ffi.cast("uintptr_t", argument)) for argument in arguments]
        return int(lib.onegraph_call_newer(place, ffi.new("uintptr_t[7]", words)))

    newer.__name__ = name
    return newer


os.register_at_fork(
    before=lib.onegraph_before_fork,
    after_in_parent=partial(lib.onegraph_after_fork, 0),
    after_in_child=partial(lib.onegraph_after_fork, 1),
)

_compiled = [False]  # a list, not an Event: a fork or an interrupt might leave an Event's lock taken
before_compilation = new_rlock()  # held while a setting changes that is fixed after the first compilation


def begin_compilation() -> None:
    """Note that something is compiled: the constant tensor cache cannot be switched from now on.

    Raises:
        StateError: a signal handler or a destructor compiles while this thread switches the cache.
    """
    if not _compiled[0]:
        refuse_inner(before_compilation, "the constant tensor cache")
        with before_compilation:
            _compiled[0] = True


def has_compiled() -> bool:
    """Whether anything was compiled in this process."""
    return _compiled[0]
