"""``python -m tests.torch_backend.versions``: the tests of the backend on the oldest and the newest supported PyTorch.

Each version gets an environment of its own in ``build/``. PyTorch comes with several GB of libraries for GPUs.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("2.6.0", "2.14.1")
TESTS = ROOT / "tests" / "from_torch"


def python_with(version: str) -> Path:
    """The interpreter of an environment with this version of PyTorch."""
    folder = ROOT / "build" / f"torch-{version}"
    if not folder.exists():
        venv.create(folder, with_pip=True)
    found = folder / "bin" / "python"
    wanted = [f"torch=={version}", "pytest", "--editable", str(ROOT)]
    subprocess.run([found, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return found


def main() -> int:
    """Run pytest with each version; returns how many of the runs failed."""
    failed = 0
    for version in VERSIONS:
        python = python_with(version)
        subprocess.run([python, "-c", "import torch; print('PyTorch', torch.__version__, flush=True)"], check=True)
        failed += subprocess.run([python, "-m", "pytest", "-q", *sys.argv[1:], str(TESTS)], cwd=ROOT).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
