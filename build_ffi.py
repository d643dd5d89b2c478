"""Compile ``onegraph._ffi``: run this file for a checkout, or let hatchling run it as its build hook.

``ONEGRAPH_SANITIZE=address,undefined`` or ``thread`` in the environment builds the extension with gcc's sanitizers, for
``make asan`` and ``make tsan``. The runtime of the sanitizer must then be preloaded.
``ONEGRAPH_SANITIZE_SOURCES=plan.cpp kernels/rows.cpp`` does so for these sources alone. ``ONEGRAPH_GCOV=FOLDER`` counts
what runs of the C++ code, for ``make coverage-native``, and keeps the objects in the folder. ``ONEGRAPH_PURE=1`` builds
no extension, as on systems without a libdnnl wheel. ``ONEGRAPH_OBJECTS=FOLDER`` keeps each object under a digest of all
that it is compiled from, so that a later build compiles only what has changed. ``ONEGRAPH_BUILD_JOBS`` is how many
compilers run at once; else there is one for each processor. ``CXX``, ``CXXFLAGS`` and ``LDFLAGS`` mean what they
usually mean.

The extension uses cffi in API mode. ``include/`` has the declarations that cffi reads, one file per upstream header.
The real headers (from the ``onednn-devel-cpu-gomp`` wheel) give every value, size and signature, so nothing of the C
API is written twice. The glue is compiled as C++, and every call goes through a guard: see
``onegraph/native/csrc/guard.h``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
CSRC = ROOT / "onegraph" / "native" / "csrc"
MODULE = "onegraph._ffi"
STUB = Path("builder/op_methods.pyi")
# In the order in which upstream's headers include each other; onegraph's own header is last.
HEADERS = (
    "dnnl_common_types.h",
    "dnnl_common.h",
    "dnnl_types.h",
    "dnnl.h",
    "dnnl_graph_types.h",
    "dnnl_graph.h",
    "onegraph.h",
)
SOURCES = (
    "guard.cpp",
    "allocator.cpp",
    "library.cpp",
    "file_digest.cpp",
    "partition.cpp",
    "openmp.cpp",
    *sorted(str(path.relative_to(CSRC)) for path in CSRC.glob("kernels/**/*.cpp")),
    "plan.cpp",
    "memory_plan.cpp",
    "open_kernels.cpp",
    "pages.cpp",
    "page_writes.cpp",
    "results.cpp",
    "watch.cpp",
    "call.cpp",
)
HEADER_WHEEL = "onednn-devel-cpu-gomp"
LIBRARY_WHEEL = "onednn-cpu-gomp"
FLAGS = (
    "-std=c++17", "-O2", "-g0", "-DNDEBUG", "-Wall", "-Wsign-compare", "-Wno-unused-function",
    "-fPIC", "-fno-strict-overflow", "-fvisibility=hidden",
)  # fmt: skip
OLDEST_HEADERS = (3, 2)
SANITIZE = "ONEGRAPH_SANITIZE"
SANITIZE_SOURCES = "ONEGRAPH_SANITIZE_SOURCES"
GCOV = "ONEGRAPH_GCOV"
OBJECTS = "ONEGRAPH_OBJECTS"
KEPT = 4  # objects of a source, for builds with other options
JOBS = "ONEGRAPH_BUILD_JOBS"
PURE = "ONEGRAPH_PURE"


class BuildError(SystemExit):
    """The extension cannot be built here; the text names the fix."""

    def __init__(self, text: str) -> None:
        super().__init__(f"onegraph: {text}")


def wheel_file(wheel: str, name: str) -> Path:
    """The path of a file that ``wheel`` installed, whose path ends in ``name``; found in the wheel's list of files."""
    try:
        files = metadata.files(wheel) or []
    except metadata.PackageNotFoundError:
        raise BuildError(f"{wheel} is not installed; run: pip install {wheel}==2023.2.0") from None
    for file in files:
        if file.as_posix().endswith(name):
            path = Path(str(file.locate())).resolve()
            if path.exists():
                return path
    raise BuildError(f"{wheel} is installed without {name}; run: pip install --force-reinstall {wheel}==2023.2.0")


def find_headers() -> Path:
    """The directory for the compiler's include path; raises BuildError if the headers are too old."""
    header = wheel_file(HEADER_WHEEL, "oneapi/dnnl/dnnl_version.h")
    numbers = {
        key: int(value) for key, value in re.findall(r"#define DNNL_VERSION_(MAJOR|MINOR)\s+(\d+)", header.read_text())
    }
    version = numbers.get("MAJOR", 0), numbers.get("MINOR", 0)
    if version < OLDEST_HEADERS:
        raise BuildError(
            f"the oneDNN headers in {header.parent} are {version[0]}.{version[1]}, onegraph needs "
            f"{OLDEST_HEADERS[0]}.{OLDEST_HEADERS[1]}; run: pip install {HEADER_WHEEL}==2023.2.0"
        )
    return header.parents[2]


def find_library() -> Path:
    """The libdnnl for the linker. At run time, onegraph.native.library chooses the library."""
    return wheel_file(LIBRARY_WHEEL, "libdnnl.so.3")


def guarded_calls(declarations: str) -> str:
    """A macro for each declared ``dnnl_status_t f(...)`` and ``dnnl_cpu_isa... f(void)``.

    It makes the glue call the function through the guard.
    """
    names = re.findall(r"^dnnl_status_t (dnnl_\w+)\(", declarations, flags=re.MULTILINE)
    values = re.findall(r"^dnnl_cpu_isa\w* (dnnl_\w+)\(void\)", declarations, flags=re.MULTILINE)
    macros = [f"#define {name}(...) onegraph::guard<&::{name}>(__VA_ARGS__)" for name in names]
    return "\n".join([*macros, *(f"#define {name}() onegraph::value_of<&::{name}>()" for name in values)])


def sanitizers(source: Path | None = None) -> list[str]:
    """Options of a source, or of the linker, for the variables ``ONEGRAPH_SANITIZE`` and ``ONEGRAPH_GCOV``."""
    if source is not None and (chosen := words(SANITIZE_SOURCES)) and not any(source.match(name) for name in chosen):
        return []
    if os.environ.get(GCOV):
        return ["--coverage", "-fprofile-update=atomic", "-include", str(CSRC / "old_symbols.h")]
    wanted = os.environ.get(SANITIZE)
    # A finding ends the process, so that nobody overlooks its report.
    return [f"-fsanitize={wanted}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"] if wanted else []


def words(variable: str) -> list[str]:
    """The words of an environment variable."""
    return shlex.split(os.environ.get(variable, ""))


def run_compiler(*arguments: object) -> str:
    """What the C++ compiler prints; raises BuildError with it if the compiler is missing or fails."""
    compiler = words("CXX") or shlex.split(sysconfig.get_config_var("CXX") or "g++")
    command = [*compiler, *map(str, arguments)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        failure = f"{shlex.join(command)}\n{done.stdout}" if done.returncode else ""
    except OSError as error:
        failure = f"{compiler[0]}: {error.strerror}"
    if failure:
        raise BuildError(
            f"the C++ compiler failed: {failure}; a C++17 compiler and the Python headers are needed "
            "(Debian: apt-get install g++ python3-dev)"
        )
    return done.stdout


@cache
def digest_of(path: Path) -> str:
    """A digest of a file, or of the headers in a folder and their names."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and (file == path or file.suffix != ".cpp"):
            digest.update(f"{file.relative_to(path)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def kept_object(source: Path, target: Path, options: Sequence[str], folders: Sequence[Path]) -> Path | None:
    """Where the object ``target`` of a source is kept; None if none is.

    The name tells apart all that changes the object: the compiler, the options, and the contents of the source and of
    the headers, wherever these lie. Most sources include no header of numpy, whose version may differ between the
    environment that pip makes for a build and the one of the tests.
    """
    if not os.environ.get(OBJECTS) or os.environ.get(GCOV):
        return None
    read = [folder for folder in folders if "numpy" not in folder.parts or b"<numpy/" in source.read_bytes()]
    parts = [run_compiler("--version"), *options, *map(digest_of, (source, *read))]
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return Path(os.environ[OBJECTS]) / f"{target.stem}-{name[:32]}.o"


def compile_source(source: Path, target: Path, options: Sequence[str], folders: Sequence[Path]) -> Path:
    """Compile a source, or copy the object that an earlier build has kept; returns ``target``.

    An object with a warning is not kept, so that each build prints the warning.
    """
    options = [*options[: len(FLAGS)], *sanitizers(source), *options[len(FLAGS) :]]
    kept = kept_object(source, target, options, folders)
    if kept is not None and kept.exists():
        kept.touch()
        return Path(shutil.copyfile(kept, target))
    forced = [] if sanitizers(source) else ["-include", str(CSRC / "old_symbols.h")]
    printed = run_compiler(*options, *forced, *(f"-I{folder}" for folder in folders), "-c", source, "-o", target)
    if printed:
        print(printed, file=sys.stderr)
    elif kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Another build may write the same object.
        Path(shutil.copyfile(target, kept.with_suffix(f".{os.getpid()}"))).replace(kept)
        for old in sorted(kept.parent.glob(f"{target.stem}-{'?' * 32}.o"), key=os.path.getmtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    return target


def settings(csrc: Path = CSRC) -> tuple[list[str], list[Path]]:
    """The options that every source is compiled with, and the folders of headers; ``csrc`` has those of the package."""
    import numpy as np

    python = {Path(sysconfig.get_path(name)) for name in ("include", "platinclude")}
    folders = [find_headers(), Path(np.get_include()), *sorted(python), ROOT / "include", csrc]
    return [*FLAGS, *words("CPPFLAGS"), *words("CXXFLAGS")], folders


def compile_sources(csrc: Path, place: Path, options: Sequence[str], folders: Sequence[Path]) -> list[Path]:
    """Compile the glue and all sources, which lie in ``csrc``, into a folder; returns the objects."""
    from cffi import FFI

    declarations = "\n".join((ROOT / "include" / name).read_text() for name in HEADERS)
    ffi, glue = FFI(), place / "_ffi.cpp"
    ffi.cdef(declarations)
    ffi.set_source(
        MODULE, f'#include "guard.h"\n{guarded_calls(declarations)}\n', source_extension=".cpp", py_limited_api=True
    )
    ffi.emit_c_code(str(glue))
    # The glue takes longest.
    tasks = {place / "_ffi.o": glue} | {place / object_name(name): csrc / name for name in SOURCES}
    pool = ThreadPoolExecutor(int(os.environ.get(JOBS) or len(os.sched_getaffinity(0))))
    try:
        return [*pool.map(lambda task: compile_source(task[1], task[0], options, folders), tasks.items())]
    finally:
        pool.shutdown(cancel_futures=True)  # after an error, what has not begun


def object_name(source: str) -> str:
    """The name of the object of a source."""
    return f"{source.replace('/', '-')}.o"


def link(objects: Sequence[Path], target: Path) -> None:
    """Make the extension of its objects."""
    links = [f"-L{find_library().parent}", "-l:libdnnl.so.3", *(sanitizers() or ["-s"]), *words("LDFLAGS")]
    run_compiler("-shared", "-fPIC", *objects, *links, "-o", target)


def compile_ffi(target: Path) -> Path:
    """Build the extension in a scratch directory and copy it into ``target``; returns its path.

    Raises:
        BuildError: the headers are missing or too old, there is no C++ compiler, or the compiler failed.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise BuildError(
            "the free-threaded build of Python has no stable ABI, which the extension needs; use a Python with the "
            "global interpreter lock, or set ONEGRAPH_PURE=1 for the parts that need no library"
        )
    options, folders = settings()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(os.environ.get(GCOV) or scratch)
        place.mkdir(parents=True, exist_ok=True)
        built = place / "_ffi.abi3.so"
        link(compile_sources(CSRC, place, options, folders), built)
        # Replace the old file atomically: a running process may have it mapped, and must keep its contents.
        arrived = Path(shutil.copy2(built, target / f"{built.name}.new"))
        return arrived.replace(target / built.name)


def write_stub(target: Path) -> Path:
    """Generate the stub of the op methods from the op records; returns its path."""
    subprocess.run([sys.executable, "-m", "onegraph.builder.stubs", str(target)], cwd=ROOT, check=True)
    return target


def can_build() -> bool:
    """Whether this machine has a libdnnl wheel; on other machines, or on request, onegraph is pure Python."""
    return not os.environ.get(PURE) and sys.platform == "linux" and platform.machine() == "x86_64"


class CustomBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: puts the extension and the stub into the wheel; for an editable install, into the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build and register the extension and the stub; ``version`` is hatchling's name for the kind of wheel."""
        if self.target_name != "wheel":
            return
        if version == "editable":
            package = ROOT / "onegraph"
            write_stub(package / STUB)
        else:
            self.scratch = tempfile.TemporaryDirectory()
            package = Path(self.scratch.name)
            build_data["force_include"][str(write_stub(package / STUB.name))] = f"onegraph/{STUB}"
        if not can_build():
            return
        built = compile_ffi(package)
        if version != "editable":
            build_data["force_include"][str(built)] = f"onegraph/{built.name}"
        build_data["pure_python"] = False
        # The stable ABI of the oldest Python in pyproject.toml.
        build_data["tag"] = f"cp310-abi3-{self.platform_tag()}"

    @staticmethod
    def platform_tag() -> str:
        """The platform tag of a wheel before auditwheel makes it portable."""
        from packaging.tags import platform_tags

        return next(tag for tag in platform_tags() if tag.startswith("linux"))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the scratch directory once the wheel is written."""
        if hasattr(self, "scratch"):
            self.scratch.cleanup()


if __name__ == "__main__":
    print(compile_ffi(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "onegraph"))
