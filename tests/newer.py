"""Run the suite on newer oneDNN libraries: ``python tests/newer.py [options of pytest]``; ``make test-newer`` does.

The libraries come from other packages on PyPI, and are kept in ``build/newer``, 2 GB in all: 3.6.2, built for OpenMP,
and 3.13.2, built for SYCL and TBB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEWER = ROOT / "build" / "newer"
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


def main() -> int:
    """Run pytest with each of the libraries; returns how many of the runs failed."""
    failed = 0
    for found in (openmp_library, sycl_library):
        environment = {**os.environ, **found()}
        show = "import onegraph; print(onegraph.version_info()['version'], onegraph.version_info()['path'], flush=True)"
        subprocess.run([sys.executable, "-c", show], check=True, cwd=ROOT, env=environment)
        command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
        failed += subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
