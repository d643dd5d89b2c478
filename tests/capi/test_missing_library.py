"""What a user is told where the oneDNN library or the compiled part of onegraph is missing."""

import os
import re
import struct
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import onegraph as og
from onegraph.native import load, siblings

# How a process loses the library or the extension, and what it is told.
LOSSES = {
    "library": (
        "from onegraph.native import load\nload._find_wheel = lambda: None",
        "the oneDNN library is not installed; run: pip install onednn-cpu-gomp==2023.2.0, or set ONEGRAPH_LIBRARY",
    ),
    "extension": (
        "sys.modules['onegraph._ffi'] = None",
        "the compiled part of onegraph is missing; reinstall onegraph, or run python build_ffi.py in a checkout",
    ),
}


def child(code, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "ONEGRAPH_LIBRARY"}
    command = [sys.executable, "-c", f"import sys\n{code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


ALL = """
from onegraph.cli import main
for command in ("run", "verify", "bench", "reduce", "info"):
    try:
        status = main([command, *([] if command == "info" else sys.argv[1:])])
    except SystemExit as ended:
        status = ended.code
    print(command, status)
"""


@pytest.mark.parametrize("loss", [*LOSSES])
def test_commands_name_the_missing_part(loss, tmp_path):
    lose, told = LOSSES[loss]
    graph = tmp_path / "graph.json"
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2,))))
    g.save(graph)
    done = child(f"{lose}\n{ALL}", graph)
    assert done.stdout.splitlines() == ["run 2", "verify 2", "bench 2", "reduce 2", "info 2"], done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 5
    if find_spec(load.EXTENSION) is not None:  # elsewhere the extension is missing in both cases
        assert all(line.startswith(f"onegraph: {told}") for line in lines)
    assert all(
        line.endswith("; onegraph.reference.run computes a graph in numpy, without the library") for line in lines
    )


@pytest.mark.parametrize("loss", [*LOSSES])
def test_pure_parts_work_after_a_failed_compilation(loss):
    code = """
import numpy as np
import onegraph as og
graph = og.Graph()
graph.output("y", graph.relu(graph.input("x", og.f32, (2,))))
for use in (graph.compile, graph.partitions, lambda: og.version_info(), lambda: og.capi.Engine()):
    try:
        use()
    except og.LibraryError as error:
        print(error)
assert og.reference.run(graph, {"x": np.float32([-1, 2])})["y"].tolist() == [0, 2]
assert og.check_graph(graph) == [] and "<svg" in graph._repr_svg_()
"""
    done = child(LOSSES[loss][0] + code)
    assert done.returncode == 0, done.stderr
    assert len({*done.stdout.splitlines()}) == 1
    assert done.stdout.count("onegraph.reference.run") == 4


@pytest.mark.parametrize("system", [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "aarch64")])
def test_other_systems_are_named(system):
    text = load._missing_extension(*system)
    assert text == f"onegraph runs graphs with the oneDNN library on x86-64 Linux, and this is {' on '.join(system)}"


# Files and folders that are looked at --------------------------------------------------------------------------------


def elf(*segments, start=64, count=None):
    """A 64-bit ELF file of a header and a table of segments, each with its first byte and its size."""
    header = bytearray(b"\x7fELF\x02".ljust(64, b"\0"))
    struct.pack_into("<Q", header, 32, start)
    struct.pack_into("<HH", header, 54, 56, len(segments) if count is None else count)
    return bytes(header) + b"".join(struct.pack("<8xQ16xQ16x", *segment) for segment in segments)


@pytest.mark.parametrize(
    ("contents", "is_cut_off"),
    [
        (elf((0, 176), (100, 76)), False),
        (elf((0, 176), (100, 77)), True),
        (elf((0, 177), (100, 76)), True),
        (elf((0, 120), count=2), True),
        (elf((0, 119))[:-1], True),
        (elf(), False),
        (elf(start=65), True),
        (elf(start=120, count=1) + b"\xff" * 56 + elf((0, 176))[64:], False),
        (elf((0, 500)).replace(b"ELF", b"elf"), False),
        (elf()[:63], False),
        (elf()[:7], False),
    ],
)
def test_a_library_that_is_cut_off_is_refused(contents, is_cut_off, tmp_path):
    (path := tmp_path / "library.so").write_bytes(contents)
    if not is_cut_off:
        load._refuse_cut_off(path)
        return
    with pytest.raises(og.LibraryError, match=f"it is cut off at {len(contents)} bytes"):
        load._refuse_cut_off(path)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("libgomp.so.1: cannot open shared object file", "install libgomp"),
        ("libstdc++.so.6: version not found", "install libstdc"),
        ("libsycl.so.7: cannot open shared object file", "this library runs by SYCL"),
        ("libother.so.7: cannot open shared object file", "run: pip install onednn-cpu-gomp"),
        ("no memory", "run: pip install onednn-cpu-gomp"),
    ],
)
@pytest.mark.skipif(find_spec(load.EXTENSION) is None, reason="the extension is missing first")
def test_what_a_library_needs_is_named(error, advice, monkeypatch, tmp_path):
    def fail(path):
        raise OSError(error)

    (tmp_path / "x.so").write_bytes(b"")
    monkeypatch.setattr(load, "_find_library", lambda: tmp_path / "x.so")
    monkeypatch.setattr(load, "load_with_siblings", fail)
    with pytest.raises(og.LibraryError, match=f"{re.escape(error)}; {re.escape(advice)}"):
        load.load()


@pytest.mark.parametrize("recorded", [None, "other.so,,\n", f"x/{load.SONAME},,\n"])
def test_a_wheel_without_its_library_is_refused(recorded, monkeypatch, tmp_path):
    (folder := tmp_path / "wheel.dist-info").mkdir()
    monkeypatch.delenv(load.VARIABLE, raising=False)
    monkeypatch.setattr(load, "_find_wheel", lambda: folder)
    if recorded is not None:
        (folder / "RECORD").write_text(recorded)
    with pytest.raises(og.LibraryError, match=f"installed without {re.escape(load.SONAME)}"):
        load._find_library()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_sibling_that_does_not_help_is_loaded_once(is_there, monkeypatch, tmp_path):
    asked = []

    def opened(path):
        asked.append(os.path.basename(path))
        if len(asked) > 5 or asked[-1] == "own.so":
            raise OSError("libx.so.1: cannot open shared object file")
        return object()

    if is_there:
        (tmp_path / "libx.so.1").write_bytes(b"")
    monkeypatch.setattr(siblings.ctypes, "CDLL", opened)
    monkeypatch.setattr(siblings, "_loaded", [])
    with pytest.raises(OSError, match=r"libx\.so\.1"):
        siblings.load_with_siblings(tmp_path / "own.so")
    assert asked == (["own.so", "libx.so.1", "own.so"] if is_there else ["own.so"])


@pytest.mark.library
def test_sources_are_those_of_packages(monkeypatch, tmp_path):
    from onegraph.native import digests

    for name in ("a.py", "b.so", "sub/c.py", "__pycache__/d.py", "x.y/e.py", "f.txt", "README"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert sorted(os.path.relpath(one, tmp_path) for one in digests._sources(str(tmp_path))) == [
        "a.py",
        "b.so",
        "sub/c.py",
    ]
    monkeypatch.setattr(digests, "find_spec", lambda name: None)
    assert digests._versions() == []
    for origin, found in ((None, 0), (str(tmp_path / "__init__.py"), 0), (str(tmp_path / "sub" / "__init__.py"), 1)):
        (tmp_path / "sub" / "version.py").write_text("")
        monkeypatch.setattr(digests, "find_spec", lambda name, origin=origin: SimpleNamespace(origin=origin))
        assert len(digests._versions()) == found
    monkeypatch.setattr(digests, "_sources", lambda folder: [str(tmp_path / "a.py")])
    monkeypatch.setattr(digests, "PACKAGE", tmp_path)
    for started, is_known in ((2e9 + 2e9, True), (0, False)):
        monkeypatch.setattr(digests, "_started", lambda started=started: started)
        assert (digests.package_digest.__wrapped__() is not None) == is_known
    monkeypatch.setattr(digests, "_started", lambda: 4e9)
    monkeypatch.setattr(digests, "_sources", lambda folder: [])
    assert digests.package_digest.__wrapped__() is None
