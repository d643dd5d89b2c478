"""Building and packaging."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import LONG

import build_ffi

ROOT = Path(__file__).parents[2]
# What the frontend calls in three processes: the complete build shows that they work.
HATCHLING, WHEEL = ("hatchling", "build"), ("--target", "wheel", "--directory")


def build(*arguments, cwd=ROOT, tool=("build", "--no-isolation"), **environment):
    command = [sys.executable, "-m", *tool, *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The source distribution, unpacked."""
    target = tmp_path_factory.mktemp("sdist")
    done = build("--sdist", "--outdir", str(target))
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(target.glob("*.tar.gz"))) as archive:
        # Python 3.11.4 added the filter; later versions warn without it.
        archive.extractall(target, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return next(path for path in target.iterdir() if path.is_dir())


@pytest.mark.library
def test_complete_sdist_builds_a_wheel(sdist, tmp_path):
    names = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    assert {"build_ffi.py", "pyproject.toml", "README.md", "LICENSE", "onegraph/native/csrc/guard.h"} <= names
    assert {"SECURITY.md", "CITATION.cff", "CONTRIBUTING.md", "Makefile", "docs/versions.md"} <= names
    assert {f"{path.relative_to(ROOT)}" for path in (ROOT / "tests").glob("*/test_*.py")} <= names
    assert {f"include/{header}" for header in build_ffi.HEADERS} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]
    # The sources of the distribution are those that the checkout was built from: each object that its sources and
    # headers give is there.
    kept = {} if LONG else {build_ffi.OBJECTS: str(ROOT / "build" / "objects")}
    done = build("--wheel", "--outdir", str(tmp_path), cwd=sdist, **kept)
    assert done.returncode == 0, done.stderr
    assert "warning:" not in done.stdout + done.stderr
    wheel = next(tmp_path.glob("*.whl"))
    assert "-cp310-abi3-linux_x86_64" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    assert {
        "onegraph/_ffi.abi3.so",
        "onegraph/py.typed",
        "onegraph/builder/op_methods.pyi",
        "onegraph/graph.py",
    } <= inside
    assert not [name for name in inside if name.endswith((".cpp", ".h"))]
    code = "import onegraph as og; print(og.__file__); og.capi.Engine()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "installed", capture_output=True, text=True)
    assert str(tmp_path) in done.stdout, done.stderr


@pytest.mark.library
def test_missing_compiler_gives_a_clear_error(sdist, tmp_path):
    done = build(*WHEEL, str(tmp_path), cwd=sdist, tool=HATCHLING, CC="/nonexistent/cc", CXX="/nonexistent/c++")
    assert done.returncode != 0
    assert "onegraph: the C++ compiler failed" in done.stdout + done.stderr
    assert "apt-get install g++" in done.stdout + done.stderr


@pytest.mark.library
def test_an_object_is_kept_until_what_it_reads_changes(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv(build_ffi.OBJECTS, str(tmp_path / "objects"))
    source, header, target = tmp_path / "a.cpp", tmp_path / "headers" / "a.h", tmp_path / "a.o"
    header.parent.mkdir()
    source.write_text('#include "a.h"\nint f() { return N; }\n')
    for number, options, kept in [(1, (), 1), (1, (), 1), (2, (), 2), (2, ("-O1",), 3)]:
        header.write_text(f"#define N {number}\n")
        build_ffi.digest_of.cache_clear()
        assert build_ffi.compile_source(source, target, options, [header.parent]) == target
        assert target.read_bytes() in {path.read_bytes() for path in (tmp_path / "objects").iterdir()}
        assert len([*(tmp_path / "objects").iterdir()]) == kept
        target.unlink()
    header.write_text('#define N 4\n#warning "message of the compiler"\n')
    for _ in range(2):  # no object is kept without its warning
        build_ffi.digest_of.cache_clear()
        build_ffi.compile_source(source, target, (), [header.parent])
        assert "message of the compiler" in capfd.readouterr().err
    header.write_text("#error message of the compiler\n")
    build_ffi.digest_of.cache_clear()
    with pytest.raises(build_ffi.BuildError, match=r"(?s)a\.cpp -o .*error message of the compiler"):
        build_ffi.compile_source(source, target, (), [header.parent])


@pytest.mark.library
def test_sources_of_one_name_keep_their_objects(monkeypatch, tmp_path):
    monkeypatch.setenv(build_ffi.OBJECTS, str(tmp_path / "objects"))
    count = build_ffi.KEPT + 1
    for number in range(count):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "avx.cpp").write_text(f"int f{number}() {{ return {number}; }}\n")
    commands = []
    run = build_ffi.run_compiler
    monkeypatch.setattr(build_ffi, "run_compiler", lambda *words: commands.append(words) or run(*words))
    for _ in range(2):
        for number in range(count):
            build_ffi.compile_source(tmp_path / f"{number}/avx.cpp", tmp_path / f"{number}-avx.o", (), ())
    assert sum("-c" in words for words in commands) == count


def test_missing_headers_give_a_clear_error(monkeypatch):
    monkeypatch.setattr(build_ffi, "HEADER_WHEEL", "no-such-wheel")
    with pytest.raises(build_ffi.BuildError, match="no-such-wheel is not installed; run: pip install no-such-wheel"):
        build_ffi.find_headers()


@pytest.mark.library
def test_rejects_headers_that_are_too_old(monkeypatch):
    monkeypatch.setattr(build_ffi, "OLDEST_HEADERS", (9, 0))
    with pytest.raises(build_ffi.BuildError, match=r"are 3\.2, onegraph needs 9\.0; run: pip install"):
        build_ffi.find_headers()


def test_refuses_free_threaded_python(monkeypatch, tmp_path):
    monkeypatch.setattr(build_ffi.sysconfig, "get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
    with pytest.raises(build_ffi.BuildError, match=r"free-threaded build of Python has no stable ABI.*; use a Python"):
        build_ffi.compile_ffi(tmp_path)


def test_guards_every_call_that_returns_a_status_or_looks_at_the_cpu():
    declarations = "\n".join((ROOT / "include" / name).read_text() for name in build_ffi.HEADERS)
    macros = build_ffi.guarded_calls(declarations)
    assert declarations.count("\ndnnl_status_t dnnl_") == macros.count("onegraph::guard<")
    assert "#define dnnl_graph_partition_compile(...) onegraph::guard<&::dnnl_graph_partition_compile>" in macros
    for name in ("dnnl_get_effective_cpu_isa", "dnnl_get_cpu_isa_hints"):
        assert f"#define {name}() onegraph::value_of<&::{name}>()" in macros
    assert macros.count("#define") == macros.count("onegraph::guard<") + 2


def test_pure_wheel_on_request(sdist, tmp_path):
    done = build(*WHEEL, str(tmp_path), cwd=sdist, tool=HATCHLING, ONEGRAPH_PURE="1", CXX="/nonexistent/c++")
    assert done.returncode == 0, done.stderr
    wheel = next(tmp_path.glob("*.whl"))
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    assert {"onegraph/graph.py", "onegraph/builder/op_methods.pyi"} <= {*inside}
    assert not [name for name in inside if name.endswith((".so", ".cpp", ".h"))]


@pytest.mark.parametrize(("system", "machine"), [("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64")])
def test_other_platforms_get_a_pure_wheel(monkeypatch, system, machine):
    monkeypatch.delenv("ONEGRAPH_PURE", raising=False)
    monkeypatch.setattr(build_ffi.sys, "platform", system)
    monkeypatch.setattr(build_ffi.platform, "machine", lambda: machine)
    assert not build_ffi.can_build()


# The newest versions of symbols in Debian 10, Ubuntu 18.04 and Red Hat 8, which the platform tag of the wheel promises.
PROMISED = {"GLIBC": (2, 27), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}


def symbol_versions(path):
    """The versions of symbols that a shared library needs, by prefix."""
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as stream:
        section = ELFFile(stream).get_section_by_name(".gnu.version_r")
        names = [needed.name for _, versions in section.iter_versions() for needed in versions]
    for name in names:
        prefix, _, number = name.partition("_")
        if number[:1].isdigit():
            yield prefix, tuple(map(int, number.split(".")))


@pytest.mark.library
def test_extension_runs_on_the_promised_systems():
    needed = [*symbol_versions(ROOT / "onegraph" / "_ffi.abi3.so")]
    assert {prefix for prefix, _ in needed} >= {"GLIBC", "GLIBCXX"}
    assert [(prefix, version) for prefix, version in needed if version > PROMISED.get(prefix, version)] == []


@pytest.mark.library
def test_extension_has_no_debug_information():
    from elftools.elf.elffile import ELFFile

    with open(ROOT / "onegraph" / "_ffi.abi3.so", "rb") as stream:
        names = [section.name for section in ELFFile(stream).iter_sections()]
    assert not [name for name in names if name.startswith(".debug")]


def test_platform_tag_of_the_wheel_is_checked_by_its_build():
    makefile = (ROOT / "Makefile").read_text()
    assert "PLATFORM := manylinux_2_27_x86_64" in makefile
    assert "--plat $(PLATFORM)" in makefile
