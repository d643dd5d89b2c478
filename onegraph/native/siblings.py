"""Loads a library together with the shared libraries that it needs, wherever its package has put them.

The libraries of SYCL packages need runtimes that lie beside them, or in the ``lib`` folder of an environment. A runtime
of OpenCL has to be named in ``OCL_ICD_FILENAMES`` before the first engine is made, else there is no CPU engine.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

OPENCL, OPENCL_RUNTIME = "OCL_ICD_FILENAMES", "libintelocl.so"
# What the libraries of SYCL packages need, by the beginning of the file name, and the packages of PyPI that have it.
RUNTIMES = (
    "libsycl",
    "libsvml",
    "libimf",
    "libintlc",
    "libirng",
    "libur_loader",
    "libtbb",
    "libOpenCL",
    OPENCL_RUNTIME,
)
PACKAGES = "dpcpp-cpp-rt intel-opencl-rt tbb"
_MISSING = re.compile(r"^(\S+\.so[.\d]*): cannot open shared object file")
_loaded: list[ctypes.CDLL] = []  # which the loader of the system finds by their names from now on


def load_with_siblings(path: Path) -> ctypes.CDLL:
    """The library at ``path``; libraries that it needs and that the system does not find are loaded before it.

    Raises:
        OSError: it cannot be loaded, or one that it needs is nowhere.
    """
    tried: set[str] = set()
    while True:
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            name = missing_library(error)
            place = None if name is None or name in tried else _find(name, path)
            if place is None:
                raise
            assert name is not None
            tried.add(name)
        _loaded.append(load_with_siblings(place))


def missing_library(error: OSError) -> str | None:
    """The name of the shared library that could not be found; None if the error is another one."""
    match = _MISSING.match(str(error))
    return None if match is None else match[1]


def advice(name: str) -> str:
    """How to provide a library that another one needs; empty for one of no known package."""
    if not name.startswith(RUNTIMES):
        return ""
    return (
        f"this library runs by SYCL: run pip install {PACKAGES}, of the year of the onednn package, in any "
        "environment, and set LD_LIBRARY_PATH to its lib folder"
    )


def provide_opencl(path: Path) -> None:
    """Name the runtime of OpenCL in the environment, where a library of a SYCL package is loaded and nothing names it.

    It lies beside ``path``, or beside a library that is loaded.
    """
    if os.environ.get(OPENCL) or not (sycl := _mapped("libsycl.so")):
        return
    library = next((folder / OPENCL_RUNTIME for folder in (sycl.parent, *_folders(path))
                  if (folder / OPENCL_RUNTIME).is_file()), None)  # fmt: skip
    if library is not None:
        os.environ[OPENCL] = str(library)


def engine_advice() -> str:
    """What a library without a CPU engine lacks; empty where nothing is known of it."""
    if _mapped("libsycl.so") is None:
        return ""
    setting = os.environ.get(OPENCL)
    named = (
        f"{OPENCL} is {setting!r}" if setting else f"{OPENCL} is not set, and {OPENCL_RUNTIME} is not beside libsycl.so"
    )
    return f"a library of SYCL finds its CPU by OpenCL: {named}; run: pip install intel-opencl-rt, and set it"


def _find(name: str, path: Path) -> Path | None:
    return next((folder / name for folder in _folders(path) if (folder / name).is_file()), None)


def _folders(path: Path) -> Iterator[Path]:
    """Where packages put libraries: beside this one, in the lib folders above it, and in that of this environment."""
    yield path.parent
    for folder in path.parents[:3]:
        yield folder / "lib"
    yield Path(sys.prefix) / "lib"


def _mapped(name: str) -> Path | None:
    """The path of a loaded library whose file name begins like this; None if there is none."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count("/"))
    return next((Path(path) for path in paths if os.path.basename(path).startswith(name)), None)
