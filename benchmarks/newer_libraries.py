"""oneDNN libraries newer than the one that onegraph needs, for tests and benchmarks.

They come from other packages on PyPI. The first use downloads 3 GB with pip; ``build/newer`` keeps 2 GB. 3.6.2 is built
for OpenMP; 3.13.2 is built for SYCL and TBB.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

NEWER = Path(__file__).parents[1] / "build" / "newer"
SONAME = "libdnnl.so.3"


def openmp_library() -> dict[str, str]:
    """The environment that loads oneDNN 3.6.2, which is part of paddlepaddle."""
    place = NEWER / "3.6"
    library = place / SONAME
    if not library.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--python-version=3.11", f"--dest={place}", "paddlepaddle==3.3.1"], check=True)
        (wheel,) = place.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            library.write_bytes(archive.read(f"paddle/libs/{SONAME}"))
        wheel.unlink()
    return {"ONEGRAPH_LIBRARY": str(library)}


def sycl_library() -> dict[str, str]:
    """The environment that loads oneDNN 3.13.2 and the runtimes that it needs."""
    place = NEWER / "3.13"
    library = place / "lib" / SONAME
    if not library.exists():
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "--quiet", "onednn==2026.1.0"], check=True)
    return {
        "ONEGRAPH_LIBRARY": str(library),
        "LD_LIBRARY_PATH": str(library.parent),
        "OCL_ICD_FILENAMES": str(library.parent / "libintelocl.so"),  # without it there is no CPU engine
    }


# The functions that return the environment of each library, by version.
LIBRARIES = {"3.6.2": openmp_library, "3.13.2": sycl_library}
