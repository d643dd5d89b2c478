"""Notices changes of memory, whoever makes them and however."""

from __future__ import annotations

from collections.abc import Sequence

from .library import call, ffi, lib


class Watch:
    """The contents of memory at one time, which later contents are compared with.

    Digests of 128 bits are compared. Linux 6.7 and later tells which pages of memory have been written, and the other
    pages are not read again. Elsewhere, and for memory that other processes or files can change, each comparison reads
    everything.

    Args:
        spans: address and size in bytes of each piece of memory. The caller keeps them readable.
        threads: number of threads that read.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], threads: int) -> None:
        made = ffi.new("onegraph_watch **")
        addresses = ffi.new("void *[]", [ffi.cast("void *", address) for address, _ in spans])
        sizes = ffi.new("size_t[]", [size for _, size in spans])
        call(lib.onegraph_watch_create, made, len(spans), addresses, sizes, threads)
        self._watch = ffi.gc(made[0], lib.onegraph_watch_destroy)
        self._address = int(ffi.cast("uintptr_t", made[0]))
        self._threads = threads

    def is_changed(self) -> bool:
        """Whether the contents are other ones now."""
        return bool(lib.onegraph_watch_changed(self._address, self._threads))

    @property
    def read_bytes(self) -> int:
        """The bytes that each comparison reads at least."""
        return int(lib.onegraph_watch_bytes(self._watch))


__all__ = ["Watch"]
