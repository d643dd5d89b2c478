"""The facts of libraries that findings are run on: version, hash, processor and system."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

from ...._util.records import record
from ....errors import LibraryError

_FACTS = "import json; from onegraph.capi.machine import library_and_machine as f; print(json.dumps(f()))"


@record(frozen=True)
class TriedLibrary:
    """A library that findings are run on: its path, version and hash; and the processor and the system."""

    path: str
    version: str
    hash: str
    cpu: str
    isa: str
    system: str


def library_at(path: str) -> TriedLibrary:
    """The facts of the library at ``path``, read in a process of its own; of the loaded one if it is empty.

    Raises:
        LibraryError: the library cannot be loaded.
    """
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {_FACTS}"],
        env={**os.environ, **_environment(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        reason = run.stderr.strip().splitlines()[-1].removeprefix("onegraph.errors.LibraryError: ")
        raise LibraryError(f"{path}: {reason}")
    facts = json.loads(run.stdout.splitlines()[-1])
    return TriedLibrary(facts["path"], facts["version"], facts["hash"], facts["cpu"], facts["isa"], _system())


def _environment(path: str) -> dict[str, str]:
    return {"ONEGRAPH_LIBRARY": path} if path else {}


def _system() -> str:
    """The name of the distribution, its kernel, and the C library."""
    names = {}
    if hasattr(platform, "freedesktop_os_release"):
        try:
            names = platform.freedesktop_os_release()
        except OSError:
            names = {}
    return f"{names.get('PRETTY_NAME', platform.system())}, Linux {platform.release()}, {' '.join(platform.libc_ver())}"
