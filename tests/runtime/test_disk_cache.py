"""The folder of files that are kept for later processes, and the measured numbers of threads in it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph._util import disk_cache, drafts, record_log
from onegraph._util.paths import path_of
from onegraph._util.record_log import RecordLog
from onegraph.compiler.known_threads import LOG

KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder that the process uses in the test alone."""
    monkeypatch.setattr(disk_cache, "_chosen", [tmp_path / "cache"])
    return tmp_path / "cache"


def digest(file, offset, size):
    """A digest without the library: the CRC of the bytes."""
    descriptor = file if isinstance(file, int) else file.descriptor
    return f"{zlib.crc32(os.pread(descriptor, size, offset)):08x}"


def find(key):
    return disk_cache.find(key, digest)


def keep(key, data):
    disk_cache.keep(key, digest, data)


def test_finds_what_was_kept(folder):
    assert find(KEY) is None
    keep(KEY, b"first")
    keep(KEY, b"second")
    assert find(KEY) == b"second"
    assert find(KEY[::-1]) is None
    assert [file.name for file in folder.iterdir()] == [f"{KEY}.onegraph"]  # no draft is left
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / f"{KEY}.onegraph").stat().st_mode & 0o777 == 0o600


def test_one_writer_or_some_readers_hold_a_lock(tmp_path):
    with open(tmp_path / "held", "w+b") as first, open(tmp_path / "held", "r+b") as second:
        assert drafts.lock(first.fileno(), shared=True)
        assert drafts.lock(second.fileno(), shared=True)
        with pytest.raises(BlockingIOError):
            drafts.lock(second.fileno(), wait=0)
    with open(tmp_path / "held", "w+b") as first, open(tmp_path / "held", "r+b") as second:
        assert drafts.lock(first.fileno())
        with pytest.raises(BlockingIOError):
            drafts.lock(second.fileno(), wait=0.01)
        first.close()
        assert drafts.lock(second.fileno(), wait=0)


def test_longest_path():
    assert path_of("path", "a" * 4096, "") == Path("a" * 4096)
    for other in ("a" * 4097, "a\0", b"a", 3):
        with pytest.raises(og.ArgumentError, match="expected a path"):
            path_of("path", other, "a path")


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(file.read_bytes().replace(b"data", b"date")),
        lambda file: file.write_bytes(file.read_bytes() + b"x"),
        lambda file: file.write_bytes(b"x" * (disk_cache.MOST_BYTES + 1)),
        lambda file: file.chmod(0) if os.geteuid() else file.unlink(),
        lambda file: file.chmod(0o620),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: (file.unlink(), file.symlink_to(file)),
        lambda file: file.write_bytes(b"another program's file"),
    ],
    ids=[
        "empty",
        "short",
        "changed",
        "longer",
        "large",
        "unreadable",
        "writable by others",
        "folder",
        "pipe",
        "link to itself",
        "foreign",
    ],
)
def test_ignores_damaged_and_foreign_files(folder, damage):
    keep(KEY, b"data")
    damage(folder / f"{KEY}.onegraph")
    assert find(KEY) is None


def test_file_of_another_key_is_ignored(folder):
    keep(KEY, b"data")
    (folder / f"{KEY}.onegraph").rename(folder / f"{KEY[::-1]}.onegraph")
    assert find(KEY[::-1]) is None


def test_goes_on_where_nothing_can_be_written(folder):
    folder.write_bytes(b"a file in the place of the folder")
    keep(KEY, b"data")
    assert find(KEY) is None
    LOG.keep(KEY, "1")
    assert LOG.find(KEY) is None
    assert folder.read_bytes() == b"a file in the place of the folder"


def test_finds_files_that_cannot_be_touched(folder, monkeypatch):
    """On a file system that can only be read, no time of use can be noted."""
    keep(KEY, b"data")

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    assert find(KEY) == b"data"


def test_number_of_files_is_limited(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    keys = [f"{number:016x}" for number in range(20)]
    for age, key in enumerate(keys):
        keep(key, b"data")
        os.utime(folder / f"{key}.onegraph", (age, age))
        assert len([*folder.iterdir()]) <= 8
    assert find(keys[-1]) == b"data"
    assert find(keys[0]) is None


@pytest.mark.parametrize(
    ("count", "size", "left"), [(8, 100, 8), (9, 10, 6), (8, 101, 5), (8, 150, 4), (20, 1, 6), (1, 801, 0), (3, 300, 2)]
)
def test_a_quarter_of_the_limits_is_free_again(count, size, left, tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    monkeypatch.setattr(disk_cache, "MOST_BYTES_TOGETHER", 800)
    (tmp_path / "other.log").write_bytes(bytes(5000))
    for number in range(count):
        file = tmp_path / f"{number * 7 % count}.onegraph"
        file.write_bytes(bytes(size))
        os.utime(file, (number * 7 % count, number * 7 % count))
    disk_cache._limit(tmp_path)
    names = {f"{number}.onegraph" for number in range(count - left, count)}
    assert {file.name for file in tmp_path.iterdir()} == {"other.log", *names}


@pytest.mark.parametrize("more", [0, 1])
def test_files_are_as_long_as_the_limit(more, folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "MOST_BYTES", disk_cache.HEADER + 10)
    keep(KEY, b"1234567890" + b"1" * more)
    assert (find(KEY) == b"1234567890") is not more
    keep(KEY, b"1234567890")
    monkeypatch.setattr(disk_cache, "MOST_BYTES", disk_cache.HEADER + 10 - more)
    assert (find(KEY) is None) is bool(more)


def test_a_file_may_be_empty(folder):
    keep(KEY, b"")
    assert find(KEY) == b""


def test_removed_file_stays_readable_where_mapped(folder):
    keep(KEY, b"data" * 10_000)
    data = find(KEY)
    (folder / f"{KEY}.onegraph").unlink()
    assert data == b"data" * 10_000
    assert find(KEY) is None


def test_long_data_is_not_kept(folder):
    keep(KEY, b"x" * disk_cache.MOST_BYTES)
    assert not folder.exists()


def test_threads_write_whole_files():
    seen, contents = set(), [bytes([65 + number]) * 30_000 for number in range(4)]

    def work(own):
        for _ in range(30):
            keep(KEY, own)
            seen.add(find(KEY))

    threads = [threading.Thread(target=work, args=(own,)) for own in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= {*contents}


@pytest.mark.parametrize("is_held", [False, True])
def test_drafts_of_killed_writers_are_removed(folder, is_held):
    folder.mkdir()
    draft = drafts.Draft(folder, 0o600)
    name = draft.path
    if not is_held:
        draft.path = None  # as if the process was killed: nothing removes it, and its lock is gone
        draft.close()
    keep(KEY, b"data")
    assert name.exists() == is_held
    draft.close()


# One file of short texts ----------------------------------------------------------------------------------------------


def test_only_drafts_are_removed(tmp_path):
    drafts_of = [".onegraph-a.draft", ".onegraph-.draft"]
    others = [".onegraph-a", "a.draft", "draft", "a.onegraph-a.draft"]
    for name in (*drafts_of, *others, ".onegraph-held.draft"):
        (tmp_path / name).touch()
    (tmp_path / ".onegraph-link.draft").symlink_to("a.draft")
    with open(tmp_path / ".onegraph-held.draft", "r+b") as held:
        drafts.lock(held.fileno())
        drafts.remove_abandoned(tmp_path)
    left = {*others, ".onegraph-held.draft", ".onegraph-link.draft"}
    assert {file.name for file in tmp_path.iterdir()} == left
    drafts.remove_abandoned(tmp_path / "missing")


def test_log_finds_the_text_that_was_kept_last(folder):
    writer, reader = RecordLog("x.log"), RecordLog("x.log")
    assert reader.find("a") is None
    for text in ("1", "2,3", "4"):
        writer.keep("a", text)
        writer.keep(text, "other")
        assert reader.find("a") == writer.find("a") == text
    assert [file.name for file in folder.iterdir()] == ["x.log"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-3],
        lambda whole: whole + b"b 3 0000",
        lambda whole: whole.replace(b" 2 ", b" 3 "),
        lambda whole: whole + bytes(range(256)),
        lambda whole: b"",
    ],
    ids=["cut off", "begun", "changed", "bytes", "empty"],
)
def test_log_goes_on_behind_damaged_lines(folder, damage):
    log = RecordLog("x.log")
    log.keep("a", "1")
    log.keep("b", "2")
    file = folder / "x.log"
    file.write_bytes(damage(file.read_bytes()))
    assert RecordLog("x.log").find("b") in ("2", None)
    log.keep("c", "3")
    for reader in (log, RecordLog("x.log")):
        assert reader.find("c") == "3"
        assert reader.find("b") in ("2", None)


def test_log_is_shortened_to_its_newer_half(folder, monkeypatch):
    monkeypatch.setattr(record_log, "MOST_BYTES", 2000)
    log, reader = RecordLog("x.log"), RecordLog("x.log")
    for number in range(300):
        log.keep(f"key{number}", str(number))
        assert reader.find(f"key{number}") == str(number)
        assert (folder / "x.log").stat().st_size < 2100
    assert RecordLog("x.log").find("key0") is None
    assert RecordLog("x.log").find("key290") == "290"
    log.keep("long", "1" * record_log.MOST_TEXT + "1")
    assert log.find("long") is None


@pytest.mark.parametrize(
    ("lines", "bytes_of_limit", "left"), [(9, 8 * 18, 4), (8, 8 * 18 - 1, 3), (8, 8 * 18, 8), (5, 18, 0)]
)
def test_a_log_loses_quarters_until_half_is_free(lines, bytes_of_limit, left, folder, monkeypatch):
    """A line with its ends has 18 bytes."""
    log = RecordLog("x.log")
    for number in range(lines):
        log.keep(f"k{number}", "text")
    assert (folder / "x.log").stat().st_size == 18 * lines
    monkeypatch.setattr(record_log, "MOST_BYTES", bytes_of_limit)
    log._shorten(folder)
    assert (folder / "x.log").stat().st_size == 18 * left
    assert [log.find(f"k{number}") for number in range(lines)] == [None] * (lines - left) + ["text"] * left


@pytest.mark.parametrize("more", [0, 1])
def test_texts_of_a_log_are_as_long_as_the_limit(more, folder, monkeypatch):
    monkeypatch.setattr(record_log, "MOST_TEXT", 5)
    monkeypatch.setattr(RecordLog, "_shorten", lambda self, folder: shortened.append(1))
    log, shortened = RecordLog("x.log"), []
    log.keep("k0", "t" * (5 + more))
    assert (log.find("k0") is None) is bool(more)
    monkeypatch.setattr(record_log, "MOST_BYTES", (folder / "x.log").stat().st_size + 18 if not more else 17)
    log.keep("k1", "text")
    assert shortened == [1] * more


def test_log_that_others_may_write_is_ignored(folder):
    log = RecordLog("x.log")
    log.keep("a", "1")
    (folder / "x.log").chmod(0o622)
    assert log.find("a") is None


def test_log_of_another_folder_has_its_own_texts(tmp_path, monkeypatch):
    """Also where a file with the same number and more bytes takes the place of the one that was read."""
    log = RecordLog("x.log")
    for name, keys in (("first", ["a"]), ("second", ["b", "c", "d"])):
        monkeypatch.setattr(disk_cache, "_chosen", [tmp_path / name])
        for key in keys:
            RecordLog("x.log").keep(key, name)
    monkeypatch.setattr(disk_cache, "_chosen", [tmp_path / "first"])
    assert (log.find("a"), log.find("b")) == ("first", None)
    monkeypatch.setattr(disk_cache, "_chosen", [tmp_path / "second"])
    assert (log.find("a"), log.find("b"), log.find("d")) == (None, "second", "second")


def test_new_key_lists_no_folder(folder, monkeypatch):
    log = RecordLog("x.log")
    log.keep("a", "1")
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, lambda *_: pytest.fail("lists the folder"))
    assert log.find("b") is None
    log.keep("b", "1")
    assert log.find("b") == "1"


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


def test_no_relative_folder_without_a_current_one(monkeypatch):
    def gone():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(os, "getcwd", gone)
    with pytest.raises(og.ArgumentError, match="relative"):
        og.set_cache_folder("relative")
    monkeypatch.setattr(disk_cache, "_chosen", [])
    monkeypatch.setenv("ONEGRAPH_CACHE", "relative")
    assert og.get_cache_folder() is None
    assert find(KEY) is None


def test_setting_moves_the_folder(tmp_path):
    og.set_cache_folder(tmp_path / "new")
    assert og.get_cache_folder() == tmp_path / "new"
    keep(KEY, b"data")
    assert (tmp_path / "new" / f"{KEY}.onegraph").exists()
    og.set_cache_folder(None)
    assert og.get_cache_folder() is None
    keep(KEY, b"other")
    assert find(KEY) is None
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
@pytest.mark.parametrize("kept", ["", "1", "1,3", "1,-1", "1,2,2", "1,x", "1,1e0", "1,,2", "1,\xb2"])
def test_numbers_of_threads_that_do_not_fit_are_ignored(measured, folder, kept):
    expected = [part.threads for part in products().report().partitions]
    (file,) = folder.iterdir()
    key, text, _ = file.read_text().split()
    assert text.count(",") == 1
    LOG.keep(key, kept)
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
    assert LOG.find(file.read_text().split()[0])
