"""Finds and loads the oneDNN library and the compiled extension.

The library is the ``libdnnl.so.3`` of the installed ``onednn-cpu-gomp`` wheel, or the file that the environment
variable ``ONEGRAPH_LIBRARY`` names; ``siblings`` finds what that one needs. Both exist on x86-64 Linux alone; elsewhere
onegraph is pure Python.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import LibraryError
from .siblings import advice as sibling_advice
from .siblings import load_with_siblings, missing_library, provide_opencl

EXTENSION = "onegraph._ffi"
WHEEL = "onednn-cpu-gomp"
SONAME = "libdnnl.so.3"
# The versions that make guard or the graphs of tests/library_history were run on; elsewhere, fused ops of int8 run
# one by one.
TRIED = frozenset([(3, 2), (3, 3), (3, 4), (3, 5), (3, 6), (3, 7), (3, 8), (3, 9), (3, 11), (3, 13)])
VARIABLE = "ONEGRAPH_LIBRARY"
INSTALL = f"run: pip install {WHEEL}==2023.2.0, or set {VARIABLE} to the path of a {SONAME} of oneDNN 3.2 or later"
REINSTALL = "reinstall onegraph, or run python build_ffi.py in a checkout"
NUMPY = "onegraph.reference.run computes a graph in numpy, without the library"
SEGMENT = struct.Struct("<8xQ16xQ16x")  # of a 64-bit ELF file: where it begins in the file, and its size there
# Shared libraries that oneDNN needs, and how to install each.
RUNTIME_LIBRARIES = {
    "libgomp": "install libgomp (Debian: apt-get install libgomp1)",
    "libstdc++": "install libstdc++ (Debian: apt-get install libstdc++6)",
}


def load() -> tuple[ctypes.CDLL, Any]:
    """The library and the extension.

    Raises:
        LibraryError: one of them is missing or cannot be loaded; the message names the reason and the fix.
    """
    if find_spec(EXTENSION) is None:
        import platform  # for this message alone

        raise LibraryError(f"{_missing_extension(platform.system(), platform.machine())}; {NUMPY}")
    path = _find_library()
    try:
        _refuse_cut_off(path)
        handle = load_with_siblings(path)
    except OSError as error:
        needs = next((advice for name, advice in RUNTIME_LIBRARIES.items() if name in str(error)), "")
        missing = missing_library(error)
        needs = needs or (INSTALL if missing is None else sibling_advice(missing) or INSTALL)
        raise LibraryError(f"cannot load {path}: {error}; {needs}") from None
    provide_opencl(path)
    if not hasattr(handle, "dnnl_version"):
        raise LibraryError(f"{path} is not a oneDNN library; {INSTALL}")
    if not hasattr(handle, "dnnl_graph_graph_create"):
        raise LibraryError(f"{path} is a oneDNN library without the graph API; {INSTALL}")
    try:
        return handle, import_module(EXTENSION)
    except ImportError as error:
        raise LibraryError(f"the compiled part of onegraph does not fit {path}: {error}; {REINSTALL}") from None


def has_wheel(system: str, machine: str) -> bool:
    """Whether a system has a wheel of the library; elsewhere onegraph is pure Python."""
    return (system, machine) == ("Linux", "x86_64")


def _missing_extension(system: str, machine: str) -> str:
    """Why there is no extension on a system, and what to do."""
    if has_wheel(system, machine):
        return f"the compiled part of onegraph is missing; {REINSTALL}"
    return f"onegraph runs graphs with the oneDNN library on x86-64 Linux, and this is {system} on {machine}"


def _find_library() -> Path:
    """Path of the library to load."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        path = Path(chosen)
        if not path.is_file():
            raise LibraryError(f"{VARIABLE} is {chosen!r}, which is not a file; {INSTALL}")
        return path.resolve()
    folder = _find_wheel()
    if folder is None:
        raise LibraryError(f"the oneDNN library is not installed; {INSTALL}; {NUMPY}")
    record = folder / "RECORD"
    for line in record.read_text().splitlines() if record.is_file() else ():
        file = folder.parent / line.split(",")[0]
        if file.name == SONAME and file.exists():
            return file.resolve()
    raise LibraryError(f"the {WHEEL} package is installed without {SONAME}; {INSTALL}")


def _find_wheel() -> Path | None:
    """The folder with the metadata of the library's wheel; importlib.metadata takes 9 ms to find it."""
    prefix = WHEEL.replace("-", "_")
    for place in sys.path:
        for folder_found in Path(place).glob(f"{prefix}-*.dist-info"):
            return folder_found
    return None


def _refuse_cut_off(path: Path) -> None:
    """Raise LibraryError for a truncated file, whose segments the loader would map and then crash on."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02":
            return  # not a 64-bit ELF file: the loader reports that, and entries of another size
        (start,), (count,) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<H", header, 56)
        file.seek(start)
        table = file.read(SEGMENT.size * count)
    # The end of each segment in the file: its offset plus its size.
    ends = [sum(SEGMENT.unpack_from(table, at)) for at in range(0, len(table) - SEGMENT.size + 1, SEGMENT.size)]
    if max([start + SEGMENT.size * count, *ends]) > size:
        raise LibraryError(f"cannot load {path}: it is cut off at {size} bytes; {INSTALL}")
