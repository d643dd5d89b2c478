"""Random sequences of what happens to a model between processes: programs that are kept never give old weights.

A step loads and compiles as another process would, or changes the files, the package or the disk. The oracle keeps no
file: it computes the results from the contents of the files with numpy. The suite runs a few sequences;
ONEGRAPH_STATE_SEQUENCES sets how many.
"""

import errno
import fcntl
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import onegraph as og
from onegraph._util import cache_folder, disk_cache
from onegraph.native import digests

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytestmark = pytest.mark.library

from onnx import TensorProto, helper  # noqa: E402

import onegraph.onnx  # noqa: E402

N = 160  # 100 KiB of weights, which stay in their file where nothing is computed from them
SEQUENCES = int(os.environ.get("ONEGRAPH_STATE_SEQUENCES", "6"))
STEPS = 25
X = np.linspace(-1, 1, 4 * N, dtype=np.float32).reshape(4, N)
OPTIONS = ({}, {"threads": 1}, {"policy": "debug"}, {"fpmath_mode": None})


def external(name, location):
    tensor = TensorProto(name=name, data_type=1, dims=[N, N], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", str(4 * N * N))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def model(factor):
    """Products with weights that are computed from a file, with others that stay in a file, and with both."""
    nodes = [
        helper.make_node("Mul", ["W", "factor"], ["scaled"]),
        helper.make_node("MatMul", ["x", "scaled"], ["computed"]),
        helper.make_node("MatMul", ["x", "V"], ["mapped"]),
        helper.make_node("Transpose", ["V"], ["turned"], perm=[1, 0]),
        helper.make_node("Mul", ["turned", "factor"], ["tied"]),
        helper.make_node("MatMul", ["x", "tied"], ["both"]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, [4, N]) for name in ("x", "computed", "mapped", "both")]
    weights = [external("W", "w.bin"), external("V", "v.bin"), helper.make_tensor("factor", 1, [], [factor])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


class World:
    """The files of a model, and what is expected of it.

    Attributes:
        steps: what was done, for the message of a failure.
    """

    def __init__(self, folder, monkeypatch, seed):
        self.folder, self.patch, self.rng = folder, monkeypatch, random.Random(seed)
        self.package, self.steps, self.kept = 0, [], 0
        folder.mkdir(parents=True)
        monkeypatch.setattr(cache_folder, "_chosen", [folder / "cache"])
        self.upgrade()
        (folder / "m.onnx").write_bytes(model(2.0))
        for name in ("w.bin", "v.bin", "spare_w.bin", "spare_v.bin", "other_w.bin", "other_v.bin"):
            self.weights().tofile(folder / name)
        self.maps = {}

    def weights(self):
        return np.random.default_rng(self.rng.getrandbits(32)).standard_normal((N, N)).astype(np.float32)

    def data(self):
        return self.folder / self.rng.choice(["w.bin", "v.bin"])

    def contents(self):
        """The weights, the factor and what follows, from the files as they are."""
        w, v = (np.fromfile(self.folder / name, np.float32).reshape(N, N) for name in ("w.bin", "v.bin"))
        graph = onnx.load(self.folder / "m.onnx", load_external_data=False).graph
        factor = next(one for one in graph.initializer if one.name == "factor").float_data[0]
        wide = X.astype(np.float64)
        return [wide @ (w * np.float32(factor)), wide @ v, wide @ (v.T * np.float32(factor))]

    def check(self, graph, expected, **options):
        executable = graph.compile(**options)
        for name, found, wanted in zip(("computed", "mapped", "both"), executable(X), expected, strict=True):
            assert np.abs(found - wanted).max() < 1e-3, (name, self.steps)
        self.kept += type(executable._programs.only_program()).__name__ == "KeptProgram"
        for thread in threading.enumerate():
            if thread.name == "onegraph cache":
                thread.join()

    # What another process does -----------------------------------------------------------------------------------

    def compile(self):
        self.check(og.onnx.load(self.folder / "m.onnx"), self.contents(), **self.rng.choice(OPTIONS))

    compile_again = compile_once_more = compile

    def replace_between(self):
        """The graph has the contents that its files had when it was loaded."""
        expected, graph = self.contents(), og.onnx.load(self.folder / "m.onnx")
        self.replace()
        self.check(graph, expected)

    def write_between(self):
        """What the results are is undefined, but nothing wrong may be kept."""
        graph = og.onnx.load(self.folder / "m.onnx")
        self.write_through_map()
        with suppress(og.FormatError):  # a file that is known to have changed
            graph.compile()

    # What happens to the files -----------------------------------------------------------------------------------

    def replace(self):
        path = self.data()
        self.weights().tofile(self.folder / "new.bin")
        (self.folder / "new.bin").replace(path)

    def replace_with_old_times(self):
        path = self.data()
        status = path.stat()
        self.replace()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def replace_model(self):
        (self.folder / "new.onnx").write_bytes(model(self.rng.choice([2.0, 4.0])))
        (self.folder / "new.onnx").replace(self.folder / "m.onnx")

    def link(self):
        path = self.data()
        path.unlink()
        path.symlink_to(self.rng.choice([f"spare_{path.name}", f"other_{path.name}"]))

    def write_through_map(self):
        path = self.data()
        status = path.stat()
        mapped = np.memmap(path, np.float32, "r+")
        mapped[self.rng.randrange(N * N) :] += np.float32(self.rng.choice([1, -2]))
        del mapped
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def write_back(self):
        """Write the same contents: nothing has changed."""
        path = self.data()
        path.write_bytes(path.read_bytes())

    def touch(self):
        os.utime(self.data(), (1, self.rng.randrange(2)))

    # What happens to the package and the disk --------------------------------------------------------------------

    def upgrade(self):
        self.package += 1
        self.patch.setattr("onegraph.runtime.origin.package_digest", lambda number=self.package: str(number))

    def fill_disk(self):
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.rng.choice([0, 1000, 50_000, 150_000]), most))
        try:
            self.compile()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    def kill(self):
        """Kill a process while it keeps a program."""
        left = self.rng.randrange(12)

        class Killed(BaseException):
            pass

        def dying(function):
            def call(*arguments, **options):
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                return function(*arguments, **options)

            return call

        with self.patch.context() as patch:
            calls = [(os, "replace"), (os, "unlink"), (os, "mkdir"), (fcntl, "flock"), (disk_cache, "keep")]
            for module, name in calls:
                patch.setattr(module, name, dying(getattr(module, name)))
            with suppress(Killed):
                self.compile()

    def evict(self):
        for file in [*(self.folder / "cache").iterdir()][:: self.rng.choice([1, 2])]:
            file.unlink()

    def damage(self):
        for file in (self.folder / "cache").glob("*.onegraph"):
            whole = bytearray(file.read_bytes())
            whole[self.rng.randrange(len(whole))] ^= 1 << self.rng.randrange(8)
            file.write_bytes(whole)


STEPS_OF = [name for name, one in vars(World).items() if callable(one) and not name.startswith("_")]
STEPS_OF = [name for name in STEPS_OF if name not in ("weights", "data", "contents", "check")]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_random_sequences_never_use_old_weights(tmp_path, monkeypatch):
    kept = 0
    for seed in range(SEQUENCES):
        world = World(tmp_path / str(seed), monkeypatch, seed)
        world.compile()
        for _ in range(STEPS):
            name = world.rng.choice(STEPS_OF)
            if name in ("evict", "damage") and not (world.folder / "cache").exists():
                continue
            world.steps.append(name)
            getattr(world, name)()
        world.compile()
        kept += world.kept
        shutil.rmtree(world.folder)
    assert kept >= SEQUENCES  # the sequences do meet kept programs


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path / "world", monkeypatch, 0)


def test_the_same_contents_need_no_compilation(world):
    graph = og.onnx.load(world.folder / "m.onnx")
    world.check(graph, world.contents())
    for change in (world.write_back, world.touch):
        change()
        world.kept = 0
        world.check(og.onnx.load(world.folder / "m.onnx"), world.contents())
        assert world.kept == 1, change


def test_sets_of_options_do_not_prove_each_other(world):
    """Each program holds the digests of its own files."""
    for options in ({}, {"threads": 1}):
        world.check(og.onnx.load(world.folder / "m.onnx"), world.contents(), **options)
    world.replace()
    for options in ({"threads": 1}, {}, {}):
        world.check(og.onnx.load(world.folder / "m.onnx"), world.contents(), **options)
    assert world.kept == 1  # the last one


def test_links_in_other_folders_have_their_own_data(world):
    """The same model under two paths, each beside other data."""
    other = world.folder / "other"
    other.mkdir()
    (other / "m.onnx").symlink_to(world.folder / "m.onnx")
    for name in ("w.bin", "v.bin"):
        shutil.copy(world.folder / f"spare_{name}", other / name)
    for _ in range(2):
        world.check(og.onnx.load(world.folder / "m.onnx"), world.contents())
        folder, world.folder = world.folder, other
        world.check(og.onnx.load(other / "m.onnx"), world.contents())
        world.folder = folder
    assert world.kept == 2


def test_package_digest_follows_every_source(tmp_path):
    """A package of the same version whose source has another meaning, of the same size and time."""
    package = tmp_path / "onegraph"
    shutil.copytree(digests.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "csrc"))
    script = "from onegraph.native import digests; print(digests.PACKAGE, digests.package_digest())"

    def found():
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stdout.split()[0] == str(package), done.stderr
        return done.stdout.split()[1]

    first = found()
    source = package / "lowering" / "norms.py"
    status = source.stat()
    source.write_text(source.read_text().replace("1", "2", 1))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    time.sleep(0.1)
    second = found()
    assert len({first, second, "None"}) == 3


def test_process_that_is_older_than_the_sources_keeps_nothing(monkeypatch):
    monkeypatch.setattr(digests, "_started", lambda: 0.0)
    assert digests.package_digest.__wrapped__() is None


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 4096, digests.CHUNK - 1, digests.CHUNK, digests.CHUNK + 300])
def test_digest_notices_every_change(tmp_path, size):
    """The same from the file and from memory; another one after any change of a bit, of the length or of the order."""
    path, rng = tmp_path / "file", np.random.default_rng(size)
    contents = rng.integers(0, 256, size, dtype=np.uint8)

    def found(array, place=0):
        path.write_bytes(bytes(place) + array.tobytes())
        files = disk_cache.MappedFile
        with path.open("rb") as file:
            read = digests.digest_of(file.fileno(), place, array.size)
            if place + array.size:
                assert digests.digest_of(files.of(file.fileno(), path), place, array.size) == read
        return read

    first = found(contents)
    assert found(contents, 3) == first
    assert found(np.append(contents, np.uint8(0))) != first
    assert not size or found(contents[: size // 2]) != first
    for place in rng.integers(0, size, 20 if size < digests.CHUNK - 1 else 3) if size else ():
        changed = contents.copy()
        changed[place] ^= 1 << rng.integers(8)
        assert found(changed) != first
    if size >= 512:
        assert found(np.concatenate([contents[256:512], contents[:256], contents[512:]])) != first


def test_digest_of_a_shortened_file_is_an_error(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    with path.open("rb") as file:
        mapped = disk_cache.MappedFile.of(file.fileno(), path)
        os.truncate(path, 100)
        for one in (mapped, file.fileno()):
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                digests.digest_of(one, 0, 10_000)
