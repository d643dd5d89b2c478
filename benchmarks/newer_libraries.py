"""oneDNN libraries newer than the one that onegraph needs, for tests and benchmarks.

They come from other packages on PyPI: those of paddlepaddle are built for OpenMP, those of onednn for SYCL and TBB. The
first use of a version downloads it with pip into ``build/newer``: 100 MB each, and 1 to 2 GB of runtimes for each year
of the onednn packages.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

NEWER = Path(__file__).parents[1] / "build" / "newer"
SONAME = "libdnnl.so.3"
# The runtimes that the libraries of a year of onednn packages need. Those of 2026 come with the package itself.
RUNTIMES = {"2024": "2024.2.1", "2025": "2025.3.0"}
NEWEST = "2026.1.0"


def _extracted(package: str, place: Path) -> Path:
    """The library from the wheel of ``package``, without what the package needs."""
    library = place / SONAME
    if not library.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--python-version=3.11", f"--dest={place}", package], check=True)
        (wheel,) = place.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith(f"/{SONAME}"))
            library.write_bytes(archive.read(member))
        wheel.unlink()
    return library


def _installed(packages: list[str], place: Path) -> Path:
    """The folder with the libraries of ``packages`` and of what they need, in an environment of their own."""
    ready = place / "ready"
    if not ready.exists() and not (place / "lib" / SONAME).exists():
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.touch()
    return place / "lib"


def openmp_library(package: str, folder: str) -> dict[str, str]:
    """The environment that loads the library of a paddlepaddle package."""
    return {"ONEGRAPH_LIBRARY": str(_extracted(f"paddlepaddle=={package}", NEWER / folder))}


def sycl_library(package: str, folder: str) -> dict[str, str]:
    """The environment that loads the library of an onednn package, and the runtimes that it needs."""
    year = package.partition(".")[0]
    if package == NEWEST:
        runtimes = _installed([f"onednn=={NEWEST}"], NEWER / folder)
        library = runtimes / SONAME
    else:
        library = _extracted(f"onednn=={package}", NEWER / folder)
        if year in RUNTIMES:
            packages = [f"dpcpp-cpp-rt=={RUNTIMES[year]}", f"intel-opencl-rt=={RUNTIMES[year]}", "tbb"]
            runtimes = _installed(packages, NEWER / f"runtimes-{year}")
        else:
            runtimes = _installed([f"onednn=={NEWEST}"], NEWER / "3.13")
    if runtimes == library.parent:  # where the loader finds them
        return {"ONEGRAPH_LIBRARY": str(library)}
    return {"ONEGRAPH_LIBRARY": str(library), "LD_LIBRARY_PATH": str(runtimes)}


# The functions that return the environment of each library, by version.
LIBRARIES: dict[str, Callable[[], dict[str, str]]] = {
    "3.2.1": partial(openmp_library, "2.6.2", "3.2.1"),
    "3.3.0": partial(sycl_library, "2024.0.0", "3.3"),
    "3.4.0": partial(sycl_library, "2024.1.0", "3.4"),
    "3.5.0": partial(sycl_library, "2024.2.1", "3.5"),
    "3.6.1": partial(sycl_library, "2025.0.1", "3.6.1"),
    "3.6.2": partial(openmp_library, "3.3.1", "3.6"),
    "3.7.3": partial(sycl_library, "2025.1.1", "3.7"),
    "3.8.1": partial(sycl_library, "2025.2.0", "3.8"),
    "3.9.1": partial(sycl_library, "2025.3.0", "3.9"),
    "3.11.4": partial(sycl_library, "2026.0.2", "3.11"),
    "3.13.2": partial(sycl_library, NEWEST, "3.13"),
}
# Of these, the versions that the whole suite and the benchmarks run on.
MEASURED = ("3.6.2", "3.13.2")
