"""Run the suite on newer oneDNN libraries: ``python -m tests.newer [options of pytest]``; ``make test-newer`` does."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.newer_libraries import LIBRARIES, MEASURED


def main() -> int:
    """Run pytest with each of the libraries; returns how many of the runs failed."""
    failed = 0
    for version in MEASURED:
        environment = {**os.environ, **LIBRARIES[version]()}
        show = "import onegraph; print(onegraph.version_info()['version'], onegraph.version_info()['path'], flush=True)"
        subprocess.run([sys.executable, "-c", show], check=True, env=environment)
        failed += subprocess.run([sys.executable, "-m", "pytest", *sys.argv[1:]], env=environment).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
