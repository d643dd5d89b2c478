"""Whatever is saved is whole: a reader finds the old files or the new ones, whenever a writer fails or is killed."""

import errno
import fcntl
import os
import re
import resource
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from conftest import draws

import onegraph as og
from onegraph._util import drafts
from onegraph._util.atomic_write import FilePart, TakenError, expect_folder, expect_writable, write_together
from onegraph._util.mapped_file import MappedFile

pytest.importorskip("onnx", reason="onnx is not installed")
pytestmark = pytest.mark.library

import onegraph.onnx  # noqa: E402

X = np.linspace(-1, 1, 256, dtype=np.float32).reshape(4, 64)
SECONDS = float(os.environ.get("ONEGRAPH_STRESS_SECONDS", "1"))


def graph(version):
    """A graph whose attribute and constant have the same number."""
    g = og.Graph()
    weights = g.constant(np.full((64, 10 * version), version, np.float32), name="w")
    g.output("y", g.leaky_relu(g.matmul(g.input("x", og.f32, (4, 64)), weights), alpha=version / 8))
    return g


def version_of(g):
    """The number of a graph; its op and its constant have the same one."""
    product, relu = g.ops[-2:]
    weights = next(tensor.value for tensor in product.inputs if tensor.value is not None)
    versions = {round(relu.attrs["alpha"] * 8), weights.shape[1] // 10, *np.unique(weights).astype(int).tolist()}
    assert len(versions) == 1
    return versions.pop()


def counter(version):
    g = og.Graph()
    for name in ("a", "b"):
        variable = g.variable(name, np.full(1000, version, np.float32))
        g.assign(variable, variable + variable)
        g.output(f"old_{name}", variable)
    return g.compile()


def loaded_variables(path):
    model = counter(0)
    model.load_variables(path)
    (version,) = {int(number) for array in model.variables.values() for number in array}
    return version


MODELS = {version: graph(version).compile() for version in (1, 2, 3)}
COUNTERS = {version: counter(version) for version in (1, 2, 3)}
# By kind of file: its name, a function that saves a version, and one that loads the version.
KINDS = {
    "graph": ("m.json", lambda path, version: graph(version).save(path), lambda path: version_of(og.Graph.load(path))),
    "executable": (
        "folder",
        lambda path, version: MODELS[version].save(path),
        lambda path: version_of(og.load(path)._graph()),
    ),
    "variables": ("v.npz", lambda path, version: COUNTERS[version].save_variables(path), loaded_variables),
    "safetensors": ("v.safetensors", lambda path, version: COUNTERS[version].save_variables(path), loaded_variables),
    "ONNX": (
        "m.onnx",
        lambda path, version: og.onnx.save(graph(version), path),
        lambda path: version_of(og.onnx.load(path)),
    ),
}
CALLS = [(os, "open"), (os, "fsync"), (os, "replace"), (os, "unlink"), (os, "mkdir"), (os, "chmod"), (os, "listdir")]
CALLS += [(os, "scandir"), (os, "urandom"), (fcntl, "flock")]


@pytest.fixture(params=KINDS)
def kind(request, tmp_path, monkeypatch):
    """The path, the function that saves, and the one that loads; the first version is saved."""
    if request.param == "safetensors":
        pytest.importorskip("safetensors", reason="safetensors is not installed")
    monkeypatch.setattr(import_module("onegraph.frontends.onnx.save"), "MAX_BYTES", 1000)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # takes most of the time
    name, save, load = KINDS[request.param]
    save(tmp_path / name, 1)
    return tmp_path / name, save, load


class Killed(BaseException):
    """The process is gone: this call and all later ones do nothing."""


class Calls:
    """Counts the calls that change files, and lets one of them fail.

    Args:
        at: the number of the call that fails, from 0 on.
        failure: what it raises.
    """

    def __init__(self, monkeypatch, at=-1, failure=Killed):
        self.count, self.at, self.failure = 0, at, failure
        for module, name in CALLS:
            monkeypatch.setattr(module, name, self.replaced(name, getattr(module, name)))

    def replaced(self, name, function):
        def call(*arguments, **options):
            number, self.count = self.count, self.count + 1
            if number == self.at or (self.failure is Killed and number > self.at >= 0):
                raise self.failure(errno.EIO, "a fault of the test")
            return function(*arguments, **options)

        return call


def files(path, *, hidden):
    """The files of a folder and its folders."""
    found = (file for file in path.parent.rglob("*") if file.is_file())
    return sorted(str(file.relative_to(path.parent)) for file in found if file.name.startswith(".") == hidden)


def is_right(path, left, kind):
    """Whether no file is visible but those that belong to the model; a killed writer of ONNX may leave constants."""
    extra = {*files(path, hidden=False)} - {*left}
    return not extra or (path.suffix == ".onnx" and len(extra) <= 1 and all(name.endswith(".data") for name in extra))


# A process that is killed closes nothing.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("failure", [Killed, OSError, KeyboardInterrupt])
def test_fault_at_each_call_leaves_old_or_new(kind, monkeypatch, failure):
    """By default, a process is killed at every second call and interrupted at the others."""
    path, save, load = kind
    visible = files(path, hidden=False)
    with monkeypatch.context() as patch:
        calls = Calls(patch)
        save(path, 2)
    assert load(path) == 2
    seen = set()
    for number in range(failure is KeyboardInterrupt, calls.count, 1 if failure is OSError else draws(2, 1)):
        save(path, 1)
        with monkeypatch.context() as patch:
            failing = Calls(patch, number, failure)
            try:
                save(path, 2)
            except (Killed, KeyboardInterrupt, og.FormatError):
                seen.add(failing.count > 0)
        version = load(path)
        assert version in (1, 2), number
        if path.suffix != ".onnx":
            assert files(path, hidden=False) == visible
        else:
            assert is_right(path, files(path, hidden=False), kind)
        save(path, 3)
        assert load(path) == 3
        assert files(path, hidden=True) == [], number
        assert len(files(path, hidden=False)) == len(visible), number
    assert seen == {True}


@pytest.mark.parametrize("limit", [0, 100, 1000, 3000])
def test_full_disk_leaves_the_old_files(kind, limit):
    path, save, load = kind
    visible = files(path, hidden=False)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    try:
        with pytest.raises(og.FormatError, match="File too large"):
            save(path, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert load(path) == 1
    assert files(path, hidden=False) == visible
    assert files(path, hidden=True) == []


def test_readers_see_whole_files_beside_two_writers(kind):
    path, save, load = kind
    end, errors, seen = time.monotonic() + SECONDS / 2, [], []

    def work(turn):
        try:
            while time.monotonic() < end:
                turn()
        except BaseException as error:
            errors.append(error)

    turns = [lambda: save(path, 2), lambda: save(path, 3), lambda: seen.append(load(path))]
    threads = [threading.Thread(target=work, args=(turn,)) for turn in turns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {*seen} <= {1, 2, 3}
    assert seen
    assert load(path) in (2, 3)
    assert files(path, hidden=True) == []


@pytest.mark.parametrize("name", KINDS)
def test_files_and_folders_are_written_to_the_disk(tmp_path, monkeypatch, name):
    flushed, original = set(), os.fsync
    monkeypatch.setattr(import_module("onegraph.frontends.onnx.save"), "MAX_BYTES", 1000)
    monkeypatch.setattr(os, "fsync", lambda file: (flushed.add(os.fstat(file).st_ino), original(file)))
    file, save, _ = KINDS[name]
    save(tmp_path / file, 1)
    found = [tmp_path / file, *tmp_path.rglob("*")]
    assert flushed >= {one.stat().st_ino for one in found if one.is_file()}
    assert {one.parent.stat().st_ino for one in found if one.is_file()} <= flushed


def test_archive_of_another_graph_is_refused(tmp_path):
    for version in (1, 2):
        graph(version).save(tmp_path / f"{version}.json")
    (tmp_path / "1.npz").write_bytes((tmp_path / "2.npz").read_bytes())
    with pytest.raises(og.FormatError, match=r"1\.npz: "):
        og.Graph.load(tmp_path / "1.json")
    for end in ("json", "npz"):  # both files, moved by hand
        (tmp_path / f"2.{end}").rename(tmp_path / f"1.{end}")
    with pytest.raises(og.FormatError, match=r"2\.npz: No such file"):  # the graph names its archive
        og.Graph.load(tmp_path / "1.json")
    (tmp_path / "1.npz").rename(tmp_path / "2.npz")
    assert version_of(og.Graph.load(tmp_path / "1.json")) == 2


def test_graphs_without_digest_are_read(tmp_path):
    """Files of older versions."""
    path = tmp_path / "m.json"
    graph(1).save(path)
    lines = path.read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines) if '"digest"' in text]
    del lines[line]
    path.write_text("\n".join(lines).replace('"data": "m.npz",', '"data": "m.npz"'))
    assert version_of(og.Graph.load(path)) == 1


def test_saving_constants_again_leaves_mapped_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("onegraph.frontends.onnx.save"), "MAX_BYTES", 1000)
    path = tmp_path / "m.onnx"
    large = og.Graph()
    x = large.input("x", og.f32, (4, 64))
    large.output("y", large.matmul(x, large.constant(np.ones((64, 1024), np.float32))))
    og.onnx.save(large, path)
    first = og.onnx.load(path)
    for version in (2, 3):
        og.onnx.save(graph(version), path)
        assert len(os.listdir(tmp_path)) == 2
    np.testing.assert_allclose(first.compile()(X), X.sum(1, keepdims=True).repeat(1024, 1), rtol=1e-4, atol=1e-4)
    assert version_of(og.onnx.load(path)) == 3
    (tmp_path / "other.data").write_bytes(b"")
    monkeypatch.undo()
    og.onnx.save(graph(1), path)  # without a file of constants
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "other.data"]


def test_writer_in_a_signal_handler_does_not_wait_for_itself(tmp_path, monkeypatch):
    """A lock that its own thread holds is refused after some time."""
    monkeypatch.setattr(drafts.lock, "__kwdefaults__", {"wait": 0.05, "shared": False})
    graph(1).save(tmp_path / "m.json")
    with drafts.locked(tmp_path), pytest.raises(og.FormatError, match=r"m\.json"):
        graph(2).save(tmp_path / "m.json")
    assert version_of(og.Graph.load(tmp_path / "m.json")) == 1


def test_symbolic_links_stay(tmp_path):
    (tmp_path / "real").mkdir()
    for end in ("json", "npz"):
        (tmp_path / f"m.{end}").symlink_to(Path("real") / f"m.{end}")
    for version in (1, 2):
        graph(version).save(tmp_path / "m.json")
        assert version_of(og.Graph.load(tmp_path / "m.json")) == version
    assert all((tmp_path / f"m.{end}").is_symlink() for end in ("json", "npz"))
    assert sorted(os.listdir(tmp_path / "real")) == ["m.json", "m.npz"]


def test_path_that_nobody_may_look_at_is_described(tmp_path, monkeypatch):
    def refused(path, **_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "stat", refused)
    with pytest.raises(og.FormatError, match=r"model: (Permission denied|No such file)"):
        og.load(tmp_path / "model")


def gone():
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def test_absolute_paths_need_no_current_folder(kind, monkeypatch):
    path, save, load = kind
    monkeypatch.setattr(os, "getcwd", gone)
    save(path, 2)
    assert load(path) == 2
    for turn in (lambda: save(Path("new"), 2), lambda: load(Path("new"))):
        with pytest.raises(og.FormatError, match="new"):
            turn()


def test_reading_does_without_giving_pages_back(kind, monkeypatch):
    """The system refuses it to a process that has locked its memory."""

    def refused(*_):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    path, _, load = kind
    monkeypatch.setattr(MappedFile, "madvise", refused)
    assert load(path) == 1
    monkeypatch.setattr(os, "urandom", refused)
    with suppress(og.FormatError):  # a model is cut at random numbers
        assert load(path) == 1


# Paths, whether a file and whether files in a folder can be written there, and what else is said.
PLACES = [
    ("new", True, True, ""),
    ("file", True, False, "Not a directory"),
    ("link", True, False, "Not a directory"),
    ("folder", False, True, "Is a directory"),
    ("folder/new", True, True, ""),
    ("missing/new", False, True, "No such file or directory"),
    ("file/new", False, False, "Not a directory"),
    ("closed/new", False, False, "Permission denied"),
    ("closed/deep/new", False, False, "Permission denied|No such file or directory"),
    ("pipe", True, False, "Not a directory"),
]


@pytest.mark.parametrize(("place", "file", "folder", "said"), PLACES)
def test_what_cannot_be_written_is_refused_before(place, file, folder, said, tmp_path, monkeypatch):
    for name in ("folder", "closed"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    closed = os.path.realpath(tmp_path / "closed")
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != closed or mode != os.W_OK | os.X_OK)
    for function, is_open in ((expect_writable, file), (expect_folder, folder)):
        if is_open:
            function(tmp_path / place)
        else:
            with pytest.raises(og.FormatError, match=f"{place}: ({said})"):
                function(tmp_path / place)


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "no disk"), KeyboardInterrupt(), None])
@pytest.mark.parametrize("is_taken", [True, False])
def test_parts_that_a_head_names_go_with_the_head(failure, is_taken, tmp_path, monkeypatch):
    """All of their names that the old head does not need go if it is replaced, and otherwise the new ones go."""
    place, head = drafts.Draft.place, tmp_path / "head"
    write_together([FilePart(tmp_path / "part-1", lambda file: file.write(b"old"))], head, named_by(1), PARTS)
    (tmp_path / "part-7").write_bytes(b"left")
    if is_taken:
        (tmp_path / "part-2").write_bytes(b"taken")

    def failing(draft, path):
        if failure is not None and path == head:
            raise failure
        place(draft, path)

    monkeypatch.setattr(drafts.Draft, "place", failing)
    kept = {"head": b"1 part-1", "part-1": b"old", "part-7": b"left"}
    if failure is None and not is_taken:
        write_together([FilePart(tmp_path / "part-2", lambda file: file.write(b"new"))], head, named_by(2), PARTS)
        kept = {"head": b"2 part-2", "part-2": b"new"}
    else:
        expected = TakenError if is_taken else og.FormatError if isinstance(failure, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            write_together([FilePart(tmp_path / "part-2", lambda file: file.write(b"new"))], head, named_by(2), PARTS)
        kept |= {"part-2": b"taken"} if is_taken else {}
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "no disk"), KeyboardInterrupt()])
def test_parts_that_no_head_names_go_at_once(failure, tmp_path, monkeypatch):
    place, head = drafts.Draft.place, tmp_path / "head"

    def write(number):
        part = FilePart(tmp_path / "part", lambda file: file.write(number) and number.decode())
        write_together([part], head, lambda file: file.write(number))

    def failing(draft, path):
        if path == head:
            raise failure
        place(draft, path)

    write(b"one")
    monkeypatch.setattr(drafts.Draft, "place", failing)
    with pytest.raises(og.FormatError if isinstance(failure, OSError) else KeyboardInterrupt):
        write(b"two")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"head": b"one", "part": b"one"}


@pytest.mark.parametrize(("before", "left"), [(b"1 part-1", []), (b"foreign", ["part-1", "part-2"])])
def test_parts_beside_a_head_of_another_program_stay(before, left, tmp_path):
    """Those with names that no other program gives go all the same."""
    (tmp_path / "head").write_bytes(before)
    for name in ("part-1", "part-2", "own-1", "other-1"):
        (tmp_path / name).write_bytes(b"1")
    names = re.compile(r"part-\d+|(own)-\d+")
    write_together([], tmp_path / "head", lambda file: file.write(b"new"), names)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["head", "other-1", *left]


PARTS = re.compile(r"part-\d+")


def named_by(number):
    return lambda file: file.write(f"{number} part-{number}".encode())


def test_a_special_file_gets_its_contents_and_stays(tmp_path):
    """As the head and as a part, although what writes it may seek."""

    def written(text):
        def write(file):
            file.write(b"?" + text[1:])
            file.seek(0)
            file.write(text[:1])

        return write

    read, pipes = {}, [tmp_path / "part", tmp_path / "head"]
    for pipe in pipes:
        os.mkfifo(pipe)
    threads = [threading.Thread(target=lambda pipe=pipe: read.update({pipe.name: pipe.read_bytes()})) for pipe in pipes]
    for thread in threads:
        thread.start()
    write_together([FilePart(pipes[0], written(b"one"))], pipes[1], written(b"two"))
    for thread in threads:
        thread.join()
    assert read == {"part": b"one", "head": b"two"}
    assert all(pipe.is_fifo() for pipe in tmp_path.iterdir())
