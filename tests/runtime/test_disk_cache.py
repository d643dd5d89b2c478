"""The folder of files that are kept for later processes, and the measured numbers of threads in it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util import cache_folder, disk_cache, drafts, folder_index
from onegraph._util.folder_index import INDEX, FolderIndex, RecordLog
from onegraph._util.paths import path_of
from onegraph.compiler.known_threads import LOG

KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder that the process uses in the test alone."""
    monkeypatch.setattr(cache_folder, "_chosen", [tmp_path / "cache"])
    return tmp_path / "cache"


def digest(file, offset, size):
    """A digest without the library: the CRC of the bytes."""
    descriptor = file if isinstance(file, int) else file.descriptor
    data = os.pread(descriptor, size, offset)
    assert len(data) == size
    return f"{zlib.crc32(data):08x}"


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
    assert {file.name for file in folder.iterdir()} == {f"{KEY}.onegraph", "index.log"}  # no draft is left
    assert [path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())] == [0o700, 0o600, 0o600]


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
        assert len([*folder.glob("*.onegraph")]) <= 8
    assert find(keys[-1]) == b"data"
    assert find(keys[0]) is None


@pytest.mark.parametrize(
    ("count", "size", "left"), [(8, 100, 8), (9, 10, 6), (8, 101, 5), (8, 150, 4), (20, 1, 6), (1, 801, 0), (3, 300, 2)]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_quarter_of_the_limits_is_free_again(count, size, left, is_known, folder, monkeypatch):
    folder.mkdir()
    (folder / "other.log").write_bytes(bytes(5000))
    if is_known:
        disk_cache._limit(folder)
    for number in range(count):
        file = folder / f"{number * 7 % count}.onegraph"
        file.write_bytes(bytes(size))
        os.utime(file, (number * 7 % count, number * 7 % count))
        if is_known:
            INDEX.write(folder, "files", {file.name: str(size)})
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    monkeypatch.setattr(disk_cache, "MOST_BYTES_TOGETHER", 800)
    disk_cache._limit(folder)
    names = {f"{number}.onegraph" for number in range(count - left, count)}
    assert {file.name for file in folder.iterdir()} == {"index.log", "other.log", *names}
    assert {*FolderIndex().records("files")[0]} == {"listed", *names}


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


# The index of the files ----------------------------------------------------------------------------------------------


LISTDIR = os.listdir


def names(folder):
    """The files, without their index."""
    return {name for name in LISTDIR(folder) if name != "index.log"}


def files():
    """The records of files in the index, as another process reads it."""
    return {name: size for name, size in FolderIndex().records("files")[0].items() if name != disk_cache.LISTED}


@pytest.fixture
def listed(folder, monkeypatch):
    """The folders that were listed since the first file was kept in a folder."""
    keep("0", b"first")
    folders, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: folders.append(path) or scandir(path))
    monkeypatch.setattr(os, "listdir", lambda path: pytest.fail("lists the folder"))
    return folders


def test_a_new_file_lists_no_folder(folder, listed, monkeypatch):
    for number in range(1, 9):
        keep(str(number), b"data")
        assert len(files()) == number + 1
    assert not listed
    assert files() == {name: str((folder / name).stat().st_size) for name in names(folder)}
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    keep("9", b"data")
    assert not listed
    assert {*files()} == names(folder)
    assert len(files()) == 6


def test_files_of_another_process_are_counted(folder, listed, monkeypatch):
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    for number in range(1, 20):
        with monkeypatch.context() as patch:
            if number % 2:
                patch.setattr(disk_cache, "INDEX", FolderIndex())
            keep(str(number), b"data")
        assert len(names(folder)) <= 8
    assert not listed


@pytest.mark.parametrize(
    "damage",
    [
        lambda index: index.unlink(),
        lambda index: index.write_bytes(b""),
        lambda index: index.write_bytes(index.read_bytes()[:-3]),
        lambda index: index.write_bytes(index.read_bytes() + bytes(range(256))),
        lambda index: index.chmod(0o622),
    ],
    ids=["removed", "empty", "cut off", "bytes", "writable by others"],
)
def test_a_damaged_index_is_made_anew(folder, damage, listed):
    keep("1", b"data")
    damage(folder / "index.log")
    keep("2", b"more")
    assert len(listed) == 3  # the files, and twice the drafts
    assert files() == {f"{key}.onegraph": str(disk_cache.HEADER + size) for key, size in (("0", 5), ("1", 4), ("2", 4))}
    keep("3", b"data")
    assert len(listed) == 3


def test_a_file_that_another_process_keeps_again_is_counted(folder, listed, monkeypatch):
    """Between the removal of a file and its record."""
    monkeypatch.setattr(disk_cache, "MOST_FILES", 4)
    for number in range(1, 4):
        keep(str(number), b"data")
    unlink, removed = os.unlink, []

    def unlink_and_keep(path):
        unlink(path)
        if not removed:
            removed.append(path)
            path.write_bytes(bytes(200))
            FolderIndex().write(folder, "files", {path.name: "200"})

    monkeypatch.setattr(os, "unlink", unlink_and_keep)
    keep("4", b"data")
    assert removed
    assert {*files()} == names(folder)


def test_files_that_somebody_removed_are_forgotten(folder, listed, monkeypatch):
    for number in range(1, 8):
        keep(str(number), b"data")
        (folder / f"{number}.onegraph").unlink()
    assert len(files()) == 8
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    keep("8", b"data")
    assert {*files()} == {"0.onegraph", "8.onegraph"} == names(folder)
    assert not listed


@pytest.mark.parametrize("end", ["held", "killed", "killed between"])
def test_drafts_of_killed_writers_are_removed(folder, end, listed):
    draft = drafts.Draft(folder, 0o600)
    INDEX.write(folder, "files", {draft.name: "5"})
    path = draft.path
    if end == "killed between":  # the file has got its name, and nothing says so
        draft.place(folder / "1.onegraph")
    elif end == "killed":
        draft.path = None  # nothing removes it, and its lock is gone
        draft.close()
    keep(KEY, b"data")
    assert path.exists() is (end == "held")
    assert {*files()} == names(folder)
    assert bool(listed) is (end != "held")
    draft.close()


def test_nothing_is_kept_where_the_index_is_no_file(folder):
    (folder / "index.log").mkdir(parents=True)
    keep(KEY, b"data")
    assert find(KEY) is None
    assert [file.name for file in folder.iterdir()] == ["index.log"]


def test_a_failed_file_is_forgotten(folder, listed):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    disk_cache.keep(KEY, full, b"data")
    assert {*files()} == {"0.onegraph"}
    assert not listed


def test_what_others_append_to_a_replaced_index_stays(folder, monkeypatch):
    """Before, while and after a process replaces the file."""
    folder.mkdir()
    other, steps = FolderIndex(), []

    def changed(records):
        other.write(folder, "files", {"while": "1"})
        return records

    place = drafts.Draft.place
    monkeypatch.setattr(drafts.Draft, "place", lambda draft, path: (steps.append(1), place(draft, path)))
    other.write(folder, "files", {"before": "1"})
    INDEX.replace(folder, changed)
    assert steps == [1]
    real_write = os.write

    def write(descriptor, data):
        if len(steps) == 1:
            steps.append(2)
            INDEX.replace(folder, lambda records: records)
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    other.write(folder, "files", {"after": "1"})
    assert len(steps) == 3
    assert {*FolderIndex().records("files")[0]} == {"before", "while", "after"}


def test_processes_keep_files_at_once(folder):
    script = (
        "import sys, zlib, os\n"
        "from onegraph._util import disk_cache\n"
        "disk_cache.MOST_FILES = 16\n"
        "digest = lambda *_: 'same'\n"
        "for number in range(60):\n"
        "    disk_cache.keep(f'{sys.argv[1]}{number}', digest, b'data')\n"
    )
    environment = {**os.environ, "ONEGRAPH_CACHE": str(folder)}
    processes = [subprocess.Popen([sys.executable, "-c", script, str(one)], env=environment) for one in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0] * 3
    assert {*files()} == names(folder)
    assert 0 < len(names(folder)) <= 16


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


def log_of():
    """Short texts as another process reads them."""
    return RecordLog("x", FolderIndex())


def test_log_finds_the_text_that_was_kept_last(folder):
    writer, reader = log_of(), log_of()
    assert reader.find("a") is None
    for text in ("1", "2,3", "4"):
        writer.keep("a", text)
        writer.keep(text, "other")
        assert reader.find("a") == writer.find("a") == text
    assert [file.name for file in folder.iterdir()] == ["index.log"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-3],
        lambda whole: whole + b"x b 3 0000",
        lambda whole: whole.replace(b" 2 ", b" 3 "),
        lambda whole: whole + bytes(range(256)),
        lambda whole: b"",
    ],
    ids=["cut off", "begun", "changed", "bytes", "empty"],
)
def test_log_goes_on_behind_damaged_lines(folder, damage):
    log = log_of()
    log.keep("a", "1")
    log.keep("b", "2")
    file = folder / "index.log"
    file.write_bytes(damage(file.read_bytes()))
    assert log_of().find("b") in ("2", None)
    log.keep("c", "3")
    for reader in (log, log_of()):
        assert reader.find("c") == "3"
        assert reader.find("b") in ("2", None)


def test_log_is_shortened_to_its_newer_half(folder, monkeypatch):
    monkeypatch.setattr(folder_index, "MOST_BYTES", 2000)
    log, reader = log_of(), log_of()
    for number in range(300):
        log.keep(f"key{number}", str(number))
        assert reader.find(f"key{number}") == str(number)
        assert (folder / "index.log").stat().st_size < 2100
    assert log_of().find("key0") is None
    assert log_of().find("key290") == "290"
    log.keep("long", "1" * folder_index.MOST_TEXT + "1")
    assert log.find("long") is None


@pytest.mark.parametrize(("lines", "bytes_of_limit", "left"), [(9, 160, 4), (8, 318, 6), (8, 320, 8), (5, 20, 0)])
def test_a_log_loses_quarters_until_half_is_free(lines, bytes_of_limit, left, folder, monkeypatch):
    """A line with its ends has 20 bytes."""
    log = log_of()
    for number in range(lines):
        log.keep(f"k{number}", "text")
    assert (folder / "index.log").stat().st_size == 20 * lines
    monkeypatch.setattr(folder_index, "MOST_BYTES", bytes_of_limit)
    for _ in range(2):  # another process may do it again
        log.index.replace(folder, folder_index._newer_half)
    head = folder_index.BYTES_OF_HEAD
    assert (folder / "index.log").stat().st_size == head + 20 * left
    assert [log.find(f"k{number}") for number in range(lines)] == [None] * (lines - left) + ["text"] * left


@pytest.mark.parametrize("more", [0, 1])
def test_texts_of_a_log_are_as_long_as_the_limit(more, folder, monkeypatch):
    monkeypatch.setattr(folder_index, "MOST_TEXT", 5)
    monkeypatch.setattr(FolderIndex, "replace", lambda *_: shortened.append(1))
    log, shortened = log_of(), []
    log.keep("k0", "t" * (5 + more))
    assert (log.find("k0") is None) is bool(more)
    monkeypatch.setattr(folder_index, "MOST_BYTES", (folder / "index.log").stat().st_size + 20 if not more else 19)
    log.keep("k1", "text")
    assert shortened == [1] * more


def test_log_that_others_may_write_is_ignored(folder):
    log = log_of()
    log.keep("a", "1")
    (folder / "index.log").chmod(0o622)
    assert log.find("a") is None


def test_log_of_another_folder_has_its_own_texts(tmp_path, monkeypatch):
    """Also where a file with the same number and more bytes takes the place of the one that was read."""
    log = log_of()
    for name, keys in (("first", ["a"]), ("second", ["b", "c", "d"])):
        monkeypatch.setattr(cache_folder, "_chosen", [tmp_path / name])
        for key in keys:
            log_of().keep(key, name)
    monkeypatch.setattr(cache_folder, "_chosen", [tmp_path / "first"])
    assert (log.find("a"), log.find("b")) == ("first", None)
    monkeypatch.setattr(cache_folder, "_chosen", [tmp_path / "second"])
    assert (log.find("a"), log.find("b"), log.find("d")) == (None, "second", "second")


def test_a_long_index_keeps_the_names_of_files(folder, monkeypatch):
    monkeypatch.setattr(folder_index, "MOST_BYTES", 2000)
    log = log_of()
    for number in range(100):
        log.keep(f"key{number}", str(number))
        if number < 20:
            log.index.write(folder, "files", {f"{number}.onegraph": str(number)})
    assert log_of().index.records("files") == ({f"{number}.onegraph": str(number) for number in range(20)}, True)
    assert log_of().find("key99") == "99"
    for number in range(30):  # more than the room
        log.index.write(folder, "files", {f"{number}.{'x' * 40}.onegraph": str(number)})
    assert len(log_of().index.records("files")[0]) == 50
    log.index.write(folder, "files", {f"{number}.onegraph": "" for number in range(20)})
    assert len(log_of().index.records("files")[0]) == 30


def test_a_replaced_index_is_read_anew(folder, monkeypatch):
    """Also where it gets the inode of the old one, and is longer."""
    log, other = log_of(), log_of()
    log.keep("a", "1")
    status = (folder / "index.log").stat()
    assert log.find("a") == "1"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", lambda descriptor: SimpleNamespace(st_ino=status.st_ino, **own(descriptor)))
        other.index.replace(folder, lambda records: {"x": {"b": "2" * 50}})
        assert (log.find("a"), log.find("b")) == (None, "2" * 50)


def own(descriptor):
    """What else is asked of a file, as the system has it."""
    status = os.stat(f"/proc/self/fd/{descriptor}")
    return {name: getattr(status, name) for name in ("st_size", "st_uid", "st_mode")}


def test_a_log_that_was_cut_is_read_anew(folder):
    log = log_of()
    for key in "abc":
        log.keep(key, "1" * 20)
        assert log.find(key)
    file = folder / "index.log"
    file.write_bytes(file.read_bytes()[:60])
    assert (log.find("a"), log.find("b")) == ("1" * 20, None)
    log.keep("d", "1")
    assert (log.find("c"), log.find("d")) == (None, "1")


def test_a_log_makes_its_folder(tmp_path, monkeypatch):
    for name in ("new/folder", "new/other"):
        monkeypatch.setattr(cache_folder, "_chosen", [tmp_path / name])
        for key in "ab":
            log_of().keep(key, "1")
            assert log_of().find(key) == "1"
        path = tmp_path / name
        assert [file.stat().st_mode & 0o777 for file in (path, path / "index.log")] == [0o700, 0o600]


def test_new_key_lists_no_folder(folder, monkeypatch):
    log = log_of()
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
    monkeypatch.setattr(cache_folder, "_chosen", [])
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
    monkeypatch.setattr(cache_folder, "_chosen", [])
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
    _, key, text, _ = file.read_text().split()
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
    assert LOG.find(file.read_text().split()[1])
