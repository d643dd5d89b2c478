"""``python tests/without_library.py [options of pytest]``: run the suite where there is no oneDNN library.

The script makes a virtual environment with the packages that macOS on ARM gets for ``onegraph[dev]``. There it runs
the suite on two wheels: the pure one of systems without oneDNN, and that of x86-64 Linux, whose library is then
missing. The suite runs in a folder that has no sources of the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from email import message_from_bytes
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SYSTEM = {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64", "os_name": "posix"}
LEFT_OUT = ("onegraph", "build", "dist", "__pycache__", ".*", "*.so")
# Wheel -> how its error begins, and how it goes on.
REASONS = {
    "py3-none-any": ("the compiled part of onegraph is missing", "onegraph.reference.run"),
    "linux_x86_64": ("the oneDNN library is not installed", "pip install onednn-cpu-gomp==2023.2.0"),
}
CODE = """
import sys
import numpy as np
import onegraph as og

reason, fix = sys.argv[1:]
assert og.__file__.startswith(sys.prefix), og.__file__
graph = og.Graph()
x = graph.input("x", og.f32, (2, 3))
graph.output("y", graph.relu(x * 2 - 1))
assert og.check_op("ReLU", inputs=[x]) == [] and og.check_op("ReLU", {"axis": 1}, [x]) != []
assert og.Graph.from_json(graph.to_json()).to_json() == graph.to_json()
assert og.reference.run(graph, {"x": np.eye(2, 3, dtype=np.float32)})["y"].tolist() == [[1, 0, 0], [0, 1, 0]]
assert "<svg" in graph._repr_svg_() and "<html" in og.view.page(graph)
assert og.translate("LeakyReLU", {"alpha": 0.1}, source="onednn-3.13", target="legacy-1").lost == ()
try:
    graph.compile()
except og.LibraryError as error:
    assert str(error).startswith(reason) and fix in str(error), error
    print(error)
else:
    raise AssertionError("compiled without the library")
"""


def wheel(folder: Path, pure: str) -> Path:
    """Build a wheel in ``folder``; ``pure`` is the value of ONEGRAPH_PURE."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    environment = {**os.environ, "ONEGRAPH_PURE": pure}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    (found,) = folder.glob("*.whl")
    return found


def requirements(file: Path) -> list[str]:
    """What pip installs with ``onegraph[dev]`` on SYSTEM, except the package itself."""
    with zipfile.ZipFile(file) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        listed = [Requirement(text) for text in message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])]
    wanted, extras = {}, ["", "dev"]
    for extra in extras:  # the loop appends the extras that an extra names
        for one in listed:
            if one.marker is None or one.marker.evaluate({**SYSTEM, "extra": extra}):
                if one.name == "onegraph":
                    extras += one.extras - {*extras}
                else:
                    wanted[one.name] = f"{one.name}{one.specifier}"
    return [*wanted.values()]


def main() -> int:
    """Run the suite on both wheels; returns how many of the runs failed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        environment, suite = place / "environment", place / "suite"
        wheels = {name: wheel(place / name, pure) for name, pure in zip(REASONS, ("1", ""), strict=True)}
        assert all(name in file.name for name, file in wheels.items()), wheels
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        shutil.copytree(ROOT, suite, ignore=shutil.ignore_patterns(*LEFT_OUT))
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ONEGRAPH", "LD_"))
        }
        clean |= {"PATH": f"{environment / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin", "ONEGRAPH_PURE": "1"}

        def run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
            return subprocess.run(command, check=check, cwd=suite, env=clean, text=True)

        install = ("pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall")
        failed = 0
        needed = requirements(next(iter(wheels.values())))
        assert not [one for one in needed if one.startswith("onednn")], needed
        run("pip", "install", "--quiet", "--disable-pip-version-check", *needed)
        for name, file in wheels.items():
            print(f"\n{file.name}", flush=True)
            run(*install, str(file))
            run("python", "-c", CODE, *REASONS[name])
            # This script builds the wheels instead.
            tests = run("python", "-m", "pytest", "--ignore=tests/capi/test_build.py", *sys.argv[1:], check=False)
            failed += tests.returncode != 0
        return failed


if __name__ == "__main__":
    sys.exit(main())
