"""Tests of the files that are kept for later processes: measured numbers of threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph._util import disk_cache

KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder that the process uses in the test alone."""
    monkeypatch.setattr(disk_cache, "_chosen", [tmp_path / "cache"])
    return tmp_path / "cache"


def test_finds_what_was_kept(folder):
    assert disk_cache.find(KEY) is None
    disk_cache.keep(KEY, b"first")
    disk_cache.keep(KEY, b"second")
    assert disk_cache.find(KEY) == b"second"
    assert disk_cache.find(KEY[::-1]) is None
    assert [file.name for file in folder.iterdir()] == [f"{KEY}.onegraph"]  # no draft is left
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(file.read_bytes().replace(b"data", b"date")),
        lambda file: file.write_bytes(file.read_bytes() + b"x"),
        lambda file: file.write_bytes(b"x" * (disk_cache.MOST_BYTES + 1)),
        lambda file: file.chmod(0) if os.geteuid() else file.unlink(),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: (file.unlink(), file.symlink_to(file)),
        lambda file: file.write_bytes(b"another program's file"),
    ],
    ids=["empty", "short", "changed", "longer", "large", "unreadable", "folder", "pipe", "link to itself", "foreign"],
)
def test_ignores_damaged_and_foreign_files(folder, damage):
    disk_cache.keep(KEY, b"data")
    damage(folder / f"{KEY}.onegraph")
    assert disk_cache.find(KEY) is None


def test_file_of_another_key_is_ignored(folder):
    disk_cache.keep(KEY, b"data")
    (folder / f"{KEY}.onegraph").rename(folder / f"{KEY[::-1]}.onegraph")
    assert disk_cache.find(KEY[::-1]) is None


def test_goes_on_where_nothing_can_be_written(folder):
    folder.write_bytes(b"a file in the place of the folder")
    disk_cache.keep(KEY, b"data")
    assert disk_cache.find(KEY) is None
    assert folder.read_bytes() == b"a file in the place of the folder"


def test_number_of_files_is_limited(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    keys = [f"{number:016x}" for number in range(20)]
    for age, key in enumerate(keys):
        disk_cache.keep(key, b"data")
        os.utime(folder / f"{key}.onegraph", (age, age))
        assert len([*folder.iterdir()]) <= 8
    assert disk_cache.find(keys[-1]) == b"data"
    assert disk_cache.find(keys[0]) is None


def test_long_data_is_not_kept(folder):
    disk_cache.keep(KEY, b"x" * disk_cache.MOST_BYTES)
    assert not folder.exists()


def test_threads_write_whole_files():
    seen, contents = set(), [bytes([65 + number]) * 30_000 for number in range(4)]

    def work(own):
        for _ in range(30):
            disk_cache.keep(KEY, own)
            seen.add(disk_cache.find(KEY))

    threads = [threading.Thread(target=work, args=(own,)) for own in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= {*contents}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ONEGRAPH_CACHE": ""}, None),
        ({"ONEGRAPH_CACHE": "/somewhere"}, "/somewhere"),
        ({"XDG_CACHE_HOME": "/caches"}, "/caches/onegraph"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/onegraph"),
        ({"HOME": "/home/me"}, "/home/me/.cache/onegraph"),
    ],
)
def test_environment_moves_the_folder(monkeypatch, settings, expected):
    monkeypatch.setattr(disk_cache, "_chosen", [])
    for name in ("ONEGRAPH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert og.get_cache_folder() == (None if expected is None else Path(expected))


def test_setting_moves_the_folder(tmp_path):
    og.set_cache_folder(tmp_path / "new")
    assert og.get_cache_folder() == tmp_path / "new"
    disk_cache.keep(KEY, b"data")
    assert (tmp_path / "new" / f"{KEY}.onegraph").exists()
    og.set_cache_folder(None)
    assert og.get_cache_folder() is None
    disk_cache.keep(KEY, b"other")
    assert disk_cache.find(KEY) is None
    (tmp_path / "file").touch()
    for wrong in (1, b"bytes", tmp_path / "file", "\0"):
        with pytest.raises(og.ArgumentError, match="folder"):
            og.set_cache_folder(wrong)
    assert og.get_cache_folder() is None


def products(threads=None):
    """A graph with two steps that are measured, where several threads are allowed."""
    rng = np.random.default_rng(0)
    g = og.Graph()
    x = g.input("x", og.f32, (64, 64))
    y = g.softmax(x @ g.constant(rng.standard_normal((64, 64)).astype(np.float32)), axis=1)
    g.output("y", y)
    with og.num_threads(2):
        return g.compile(policy="debug", threads=threads)


@pytest.fixture
def measured(monkeypatch):
    """How many steps were measured, for each measurement."""
    from onegraph.runtime import compiled_program as program

    counts: list[int] = []

    def measure(_, steps, numbers):
        counts.append(len(steps))
        return [2e-5 / number for number in numbers]

    monkeypatch.setattr(program.CompiledProgram, "_measure", measure)
    return counts


@pytest.mark.library
def test_steps_are_measured_once(measured, folder):
    x = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    first = products()
    assert measured
    measured.clear()
    second = products()
    assert not measured
    threads = [[part.threads for part in model.report().partitions] for model in (first, second)]
    assert threads[0] == threads[1]
    assert np.array_equal(first(x), second(x))
    for file in folder.iterdir():
        file.write_bytes(b"damaged")
    assert [part.threads for part in products().report().partitions] == threads[0]
    assert measured
    measured.clear()
    og.set_cache_folder(None)
    products()
    assert measured


@pytest.mark.library
@pytest.mark.parametrize("kept", [b"", b"1", b"1 3", b"1 -1", b"1 2 2", b"1 x", b"1 1e0", b"\xff\xff", b"1 \xc2\xb2"])
def test_numbers_of_threads_that_do_not_fit_are_ignored(measured, folder, kept):
    expected = [part.threads for part in products().report().partitions]
    (file,) = folder.iterdir()
    key = file.name.removesuffix(".onegraph")
    count = len(bytes(disk_cache.find(key)).split())
    assert count == 2
    disk_cache.keep(key, kept)
    measured.clear()
    assert [part.threads for part in products().report().partitions] == expected
    assert measured


@pytest.mark.library
def test_uncertain_measurements_are_not_kept(monkeypatch, folder):
    from onegraph.runtime import compiled_program as program

    monkeypatch.setattr(program.CompiledProgram, "_measure", lambda _, steps, counts: [None] * len(steps))
    products()
    assert not folder.exists()


@pytest.mark.library
def test_processes_share_the_folder(folder):
    script = (
        "import numpy as np, onegraph as og\n"
        "from onegraph.runtime.compiled_program import CompiledProgram as Program\n"
        # A real measurement is not kept where the machine is busy.
        "Program._measure = lambda _, steps, counts: [2e-5 / count for count in counts]\n"
        "g = og.Graph()\n"
        "x = g.input('x', og.f32, (64, 64))\n"
        "g.output('y', g.softmax(g.relu(x), axis=1))\n"
        "og.set_num_threads(2)\n"
        "print(g.compile(policy='debug')(np.ones((64, 64), 'f4')).sum())\n"
    )
    environment = {**os.environ, "ONEGRAPH_CACHE": str(folder)}
    processes = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    results = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3
    assert [round(float(result)) for result in results] == [64] * 3
    (file,) = folder.iterdir()
    assert disk_cache.find(file.name.removesuffix(".onegraph"))
