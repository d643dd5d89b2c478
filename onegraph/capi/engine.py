"""Binds engines, their allocators and streams."""

from __future__ import annotations

from typing import Any

from .._util.fork_safety import new_rlock
from .._util.init_once import once
from .._util.validation import choice, expect, identifier
from ..errors import UnsupportedError
from ..native.library import Final, Handle, address, call, create, enum_names, enum_value, lib, read
from ..native.siblings import engine_advice

ENGINE_KINDS = ("cpu", "gpu")
ENGINE_KIND_NAMES = enum_names("", ENGINE_KINDS)


class Allocator(Handle):
    """Allocates host memory for an engine, aligned to 64 bytes; each thread keeps freed memory for its next request.

    The callbacks are C functions, because a Python callback would crash at exit.
    """

    __slots__ = ()

    @once("_ptr")
    def __init__(self) -> None:
        pointer = create(lib.onegraph_allocator_create, "dnnl_graph_allocator_t")
        super().__init__(pointer, lib.dnnl_graph_allocator_destroy)

    @staticmethod
    def live() -> int:
        """Number of blocks that the library holds now, over all allocators."""
        return int(lib.onegraph_host_allocations())


_engines: dict[int, Engine] = {}


class Engine(Final):
    """``dnnl_engine_t``: the device. It is never destroyed, because kernels and caches may outlive every owner.

    Args:
        kind: ``cpu``.
        index: number of the engine of that kind; there is one CPU engine.
        allocator: source of the library's scratch memory; the library's own allocator by default.

    Raises:
        UnsupportedError: the library has no such engine.
    """

    __slots__ = ("_allocator", "_index", "_ptr")

    @once("_ptr")
    def __init__(self, kind: str = "cpu", index: int = 0, allocator: Allocator | None = None) -> None:
        number, code, count = identifier("index", index), engine_kind_value(kind), engine_count(kind)
        if number >= count:
            missing = engine_advice() if kind == "cpu" and not count else ""
            raise UnsupportedError(
                f"engine {kind}:{number}: the library has {count} {kind} engines" + (f"; {missing}" if missing else "")
            )
        if allocator is None:
            pointer = create(lib.dnnl_engine_create, "dnnl_engine_t", code, number)
        else:
            expect("allocator", allocator, Allocator)
            make = lib.dnnl_graph_make_engine_with_allocator
            pointer = create(make, "dnnl_engine_t", code, number, allocator._ptr)
        self._ptr, self._index, self._allocator = pointer, number, allocator
        _engines[address(pointer)] = self

    @property
    def kind(self) -> str:
        """Kind of the engine, as the library has it: ``cpu``."""
        return ENGINE_KIND_NAMES[read(lib.dnnl_engine_get_kind, "dnnl_engine_kind_t", self._ptr)]

    @property
    def index(self) -> int:
        """Number of the engine among those of its kind."""
        return self._index

    @property
    def allocator(self) -> Allocator | None:
        """Source of the library's scratch memory; None for the library's own allocator."""
        return self._allocator

    def __repr__(self) -> str:
        return f"Engine({self.kind!r}, {self.index})"


def engine_at(pointer: Any) -> Engine:
    """The Engine for a pointer that the library returned."""
    return _engines[address(pointer)]


def engine_kind_value(kind: str) -> int:
    """The C value of a kind of engine.

    Raises:
        ArgumentError: the kind is unknown.
    """
    return enum_value("", choice("engine kind", kind, ENGINE_KINDS))


def engine_count(kind: str) -> int:
    """Number of engines of a kind.

    Raises:
        ArgumentError: the kind is unknown.
        StatusError: the library failed, for example in the SYCL runtime.
    """
    return int(read(lib.onegraph_engine_count, "size_t", engine_kind_value(kind)))


def available_kind(kind: str) -> int:
    """The C value of an engine kind that the library supports.

    Raises:
        ArgumentError: the kind is unknown.
        UnsupportedError: the library has no engine of this kind.
    """
    if not engine_count(kind):
        raise UnsupportedError(f"the library has no {kind} engine")
    return engine_kind_value(kind)


def engines_exist() -> bool:
    """Whether this process made an engine. Without one, nothing was executed."""
    return bool(_engines)


_default: list[Engine] = []
_default_lock = new_rlock()


def default_engine() -> Engine:
    """The engine that is used where no other one is given; made at the first call."""
    with _default_lock:
        if not _default:
            _default.append(Engine(allocator=Allocator()))
    return _default[0]


def engine_or_default(engine: Engine | None) -> Engine:
    """``engine``, or the default engine for None.

    Raises:
        ArgumentError: ``engine`` is not an Engine.
    """
    if engine is None:
        return default_engine()
    expect("engine", engine, Engine)
    return engine


class Stream(Handle):
    """``dnnl_stream_t``: executes compiled partitions in order. On a CPU the calling thread executes them.

    Args:
        engine: the default engine if None.
    """

    __slots__ = ()

    @once("_ptr")
    def __init__(self, engine: Engine | None = None) -> None:
        owner = engine_or_default(engine)
        pointer = create(lib.dnnl_stream_create, "dnnl_stream_t", owner._ptr, lib.dnnl_stream_default_flags)
        super().__init__(pointer, lib.dnnl_stream_destroy, owner)

    def __repr__(self) -> str:
        return f"Stream({self.engine!r})"

    @property
    def engine(self) -> Engine:
        """The engine of the stream, as the library has it."""
        return engine_at(read(lib.dnnl_stream_get_engine, "dnnl_engine_t", self._ptr))

    def wait(self) -> None:
        """Wait until all executions on the stream are done."""
        call(lib.dnnl_stream_wait, self._ptr)
