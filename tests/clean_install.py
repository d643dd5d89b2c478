"""``python tests/clean_install.py [PYTHON ...]``: install and run the wheel in dist without a compiler.

For each Python the script makes a virtual environment, whose programs are the only ones on the path. It installs the
wheel and its dependencies from wheels alone, and runs the first example from another directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = """
import sys, sysconfig, shutil, onegraph as og
assert og.__file__.startswith(sys.prefix), og.__file__
assert og.version_info()["path"].startswith(sys.prefix), og.version_info()
assert shutil.which("cc") is shutil.which("g++") is None
from importlib import metadata
names = {file.name for file in metadata.files("onegraph")}
assert {"dagre.min.js", "dagre.min.js.LEGAL.txt", "LICENSE"} <= names
print(f"Python {sysconfig.get_python_version()}: oneDNN {og.version_info()['version']}")
"""


def try_out(python: str, wheel: Path) -> None:
    """Install ``wheel`` for an interpreter and run an example; raises CalledProcessError on failure."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
        binaries = environment / "bin"
        clean = {**os.environ, "PATH": str(binaries), "CC": "/nonexistent", "CXX": "/nonexistent"}
        clean = {name: value for name, value in clean.items() if not name.startswith(("PYTHON", "ONEGRAPH", "LD_"))}

        def run(*command: str) -> None:
            subprocess.run(command, check=True, cwd=folder, env=clean)

        run(
            str(binaries / "pip"),
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            str(wheel),
        )
        run(str(binaries / "python"), "-c", CODE)
        run(str(binaries / "python"), str(ROOT / "examples" / "getting_started.py"))
        run(str(binaries / "onegraph"), "info")


if __name__ == "__main__":
    (found,) = (ROOT / "dist").glob("onegraph-*-cp310-abi3-manylinux*.whl")
    for name in sys.argv[1:] or [sys.executable]:
        try_out(name, found)
