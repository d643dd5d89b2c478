"""Parts of what writes files as a whole: how files are opened, locked, named and read together."""

import errno
import os
import time
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace

import pytest

import onegraph as og
from onegraph._util import atomic_write, drafts, folder_index
from onegraph._util.atomic_write import ATTEMPTS, TornError, explained, hidden, read_together, write_atomically
from onegraph._util.drafts import Draft, flush_folder, is_abandoned, is_draft, locked, remove_abandoned
from onegraph._util.folder_index import FolderIndex
from onegraph._util.mapped_file import open_regular

pytestmark = pytest.mark.skipif(drafts.fcntl is None, reason="this system has no such locks")
NAME = f"{drafts.PREFIX}0123456789abcdef{drafts.SUFFIX}"


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """The flags and modes that files are opened with, by the ends of their names; there is a draft."""
    found, original = [], os.open
    (tmp_path / NAME).touch()

    def noted(path, flags, *mode):
        found.append((Path(path).suffix, flags, *mode))
        return original(path, flags, *mode)

    monkeypatch.setattr(os, "open", noted)
    return found


NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_CLOEXEC
APPENDED = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
REPLACED = os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def test_files_are_opened_for_what_is_done_with_them(opened, tmp_path):
    Draft(tmp_path, 0o640).close()
    assert is_abandoned(tmp_path / NAME)
    with locked(tmp_path) as is_locked:
        assert is_locked
    flush_folder(tmp_path)
    os.close(open_regular(tmp_path / NAME))
    assert opened == [
        *((".draft", NEW, 0o640), (".draft", READ | os.O_NOFOLLOW)),
        *(("", FOLDER), ("", FOLDER), (".draft", READ)),
    ]
    opened.clear()
    index = FolderIndex()
    index.write(tmp_path, "kind", {"key": "text"})
    assert opened == [(".log", APPENDED, 0o600)]
    opened.clear()
    index.replace(tmp_path, lambda records: records)
    assert opened[:3] == [("", FOLDER), (".log", REPLACED, 0o600), (".draft", NEW, 0o600)]


def test_new_files_have_the_mode_of_the_process(tmp_path):
    before = os.umask(0o001)
    try:
        write_atomically(tmp_path / "file", lambda stream: stream.write(b"1"))
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666


# Locks and drafts


class Clock:
    """Time that passes in pauses alone."""

    def __init__(self):
        self.now, self.pauses = 100.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("errors", "wait", "wanted"),
    [
        ([], 0, True),
        ([BlockingIOError], 0, BlockingIOError),
        ([BlockingIOError] * 2, 1, True),
        ([BlockingIOError] * 9, 1, BlockingIOError),
        ([OSError], 1, False),
        ([BlockingIOError, OSError], 1, False),
    ],
)
def test_locks_are_asked_for_until_the_end(shared, errors, wait, wanted, monkeypatch):
    clock, asked, left = Clock(), [], [*errors]

    def flock(descriptor, kind):
        asked.append((descriptor, kind))
        if left:
            raise left.pop(0)

    kinds = SimpleNamespace(LOCK_SH=1, LOCK_EX=2, LOCK_NB=4, flock=flock)
    monkeypatch.setattr(drafts, "fcntl", kinds)
    monkeypatch.setattr(drafts, "time", clock)
    monkeypatch.setattr(drafts, "PAUSE", 0.25)
    with nullcontext() if isinstance(wanted, bool) else pytest.raises(wanted):
        assert drafts.lock(7, wait=wait, shared=shared) is wanted
    assert {*asked} == {(7, 5 if shared else 6)}
    assert {*clock.pauses} <= {drafts.PAUSE}
    blocked = sum(one is BlockingIOError for one in errors)
    assert len(clock.pauses) == min(blocked, 4 * wait)
    monkeypatch.setattr(drafts, "fcntl", None)
    assert drafts.lock(7) is False


def test_a_draft_that_another_writer_removes_is_made_again(tmp_path, monkeypatch):
    removed, original = [], drafts.lock

    def lock(descriptor, **options):
        (path,) = tmp_path.glob("*.draft")
        if not removed:
            removed.append((path.name, descriptor))
            path.unlink()
        return original(descriptor, **options)

    monkeypatch.setattr(drafts, "lock", lock)
    draft = Draft(tmp_path, 0o600)
    assert draft.path == tmp_path / draft.name
    assert draft.name != removed[0][0]
    assert is_draft(draft.name)
    assert len(draft.name) == len(NAME)
    draft.stream.write(b"whole")
    draft.stream.flush()
    assert not is_abandoned(draft.path)
    draft.place(tmp_path / "file")
    assert draft.path is None
    draft.place(tmp_path / "other")
    draft.close()
    assert draft.stream.closed
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert is_abandoned(tmp_path / NAME)


def test_a_draft_is_flushed_to_the_disk(tmp_path, monkeypatch):
    synced = []
    draft = Draft(tmp_path, 0o600)
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((file, draft.path.read_bytes())))
    draft.stream.write(b"whole")
    draft.flush()
    assert synced == [(draft.stream.fileno(), b"whole")]
    draft.close()


@pytest.mark.parametrize("has_locks", [False, True])
def test_drafts_stay_where_nobody_knows_who_writes_them(has_locks, tmp_path, monkeypatch):
    (tmp_path / NAME).touch()
    (tmp_path / f"{drafts.PREFIX}link{drafts.SUFFIX}").symlink_to("nothing")
    if not has_locks:
        monkeypatch.setattr(drafts, "fcntl", None)
    assert is_abandoned(tmp_path / NAME) is has_locks
    remove_abandoned(tmp_path)
    assert (tmp_path / NAME).exists() is not has_locks
    assert len([*tmp_path.iterdir()]) == 2 - has_locks  # a link is never opened
    with locked(tmp_path / "missing") as is_locked:
        assert is_locked is False
    remove_abandoned(tmp_path / "missing")
    flush_folder(tmp_path / "missing")


# Heads and parts


@pytest.mark.parametrize("is_locked", [False, True])
@pytest.mark.parametrize("torn", [0, 1, 2, ATTEMPTS + 1, ATTEMPTS + 2])
def test_files_are_read_again_while_others_replace_them(is_locked, torn, monkeypatch, tmp_path):
    calls, locks = [], []

    @contextmanager
    def lock(folder, *, shared):
        locks.append((folder, shared))
        yield is_locked

    def read():
        calls.append(1)
        if len(calls) <= torn:
            raise TornError("part", "torn", "whole")
        return 7

    monkeypatch.setattr(atomic_write, "locked", lock)
    most = 1 if is_locked else ATTEMPTS + 1
    with pytest.raises(TornError) if torn > most else nullcontext():
        assert read_together(tmp_path / "head", read) == 7
    assert len(calls) == min(torn, most) + 1
    assert locks == [(Path(os.path.realpath(tmp_path)), True)] * (torn > 0)


def test_parts_are_hidden_under_names_of_their_own():
    prefix = blake2b(b"part.bin", digest_size=8).hexdigest()
    assert hidden(Path("/a/part.bin"), "5d") == Path(f"/a/.onegraph-{prefix}-5d")


@pytest.mark.parametrize(
    ("error", "text"), [(OSError(errno.EIO, "no disk"), "no disk"), (OSError("plain"), "plain"), (KeyError("x"), None)]
)
def test_errors_of_the_system_name_the_path(error, text):
    with pytest.raises(KeyError if text is None else og.FormatError) as raised, explained(Path("/a/b")):
        raise error
    assert text is None or str(raised.value).startswith(f"/a/b: {text}; expected a path that can be written")


# The index


def test_an_index_that_is_missing_is_whole(monkeypatch):
    monkeypatch.setattr(folder_index, "get_cache_folder", lambda: None)
    assert FolderIndex().records("kind") == ({}, True)
    assert FolderIndex().find("kind", "key") is None


def test_lines_of_an_index_have_a_checksum():
    lines = folder_index._lines({"kind": {"a": "1", "b": ""}})
    assert lines == b"\nkind a 1 85bcffa4\n\nkind b  fd885f86\n"
    records = {}
    assert folder_index._read_lines(lines, records)
    assert records == {"kind": {"a": "1"}}
    for damaged in (lines.replace(b"a 1", b"a 2"), lines[:-4], b"kind a 1 zz\n", b"\xff\n", lines + b"x\n"):
        assert not folder_index._read_lines(damaged, {})
    more = folder_index._lines({"kind": {"c": "3"}}) + folder_index._lines({"kind": {"a": "2"}})
    assert folder_index._read_lines(more, records)
    assert [*records["kind"].items()] == [("c", "3"), ("a", "2")]
    assert folder_index._read_lines(folder_index._lines({"kind": {"c": "", "d": ""}}), records)
    assert records == {"kind": {"a": "2"}}
    assert folder_index._read_lines(b"", {})


@pytest.mark.parametrize("replaced", [0, 1, 7, 8, 20])
def test_lines_are_appended_to_the_file_in_place(replaced, tmp_path, monkeypatch):
    path, writes, original = tmp_path / "index.log", [], os.write

    def written(descriptor, lines):
        writes.append(lines)
        count = original(descriptor, lines)
        if len(writes) <= replaced:
            path.unlink()
        return count

    monkeypatch.setattr(os, "write", written)
    assert folder_index._append(path, b"12345") == 5
    assert len(writes) == min(replaced + 1, folder_index.ATTEMPTS)
    assert path.exists() is (replaced < folder_index.ATTEMPTS)
    monkeypatch.undo()
    path.write_bytes(b"1")
    assert folder_index._append(path, b"23") == 3
    assert path.read_bytes() == b"123"
    assert time.time() - path.stat().st_mtime < 600
