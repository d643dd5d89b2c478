"""A service beside writers that are killed and files that are exchanged: what it loads is whole and current.

A driver, which is this file as a script, starts the service and does what may happen to it and to its files, one event
after the other. Every model multiplies ones by weights that have its version, so that an answer tells the version.
The suite runs a few seconds; ONEGRAPH_SERVICE_SECONDS sets how long.
"""

import json
import mmap
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import onegraph as og

pytest.importorskip("onnx", reason="onnx is not installed")
pytestmark = pytest.mark.library

import onegraph.onnx  # noqa: E402

SECONDS = float(os.environ.get("ONEGRAPH_SERVICE_SECONDS", "3"))
SEED = int(os.environ.get("ONEGRAPH_SERVICE_SEED", str(os.getpid())))
DEPTH, WIDTH, ROWS = 64, 48, (1, 3, 4, 5)
KEPT = 4  # executables that a thread goes on to call
FILES = 256  # that the service may have open at once
FINDINGS = "findings"
IS_OPEN = {"ONNX", "parts", "executable", "link"}  # kinds with any number of rows


def graph(version, rows=None):
    g = og.Graph()
    weights = g.constant(np.full((DEPTH, WIDTH), version, np.float32), name="w")
    bias = g.constant(np.full(WIDTH, version, np.float32), name="b")
    g.output("y", g.relu(g.matmul(g.input("x", "f32", (rows, DEPTH)), weights, bias)))
    return g


def variables(version):
    """A model whose weights are variables."""
    g = og.Graph()
    weights = g.variable("w", np.full((DEPTH, WIDTH), version, np.float32))
    bias = g.variable("b", np.full(WIDTH, version, np.float32))
    g.output("y", g.relu(g.matmul(g.input("x", "f32", (4, DEPTH)), weights, bias)))
    return g.compile()


def with_variables(path):
    model = variables(0)
    model.load_variables(path)
    return model


def save_parts(path, version):
    """An ONNX file whose weights are in a file beside it."""
    module = import_module("onegraph.frontends.onnx.save")
    limit, module.MAX_BYTES = module.MAX_BYTES, 1000
    og.onnx.save(graph(version), path)
    module.MAX_BYTES = limit


def save_behind_link(path, version):
    """Save to another folder, and let the link name that one: how a service gets a new version at once."""
    graph(version).compile().save(path.with_name(f"version-{version}"))
    new = path.with_name("new")
    new.unlink(missing_ok=True)
    new.symlink_to(f"version-{version}")
    new.replace(path)


# By kind of model: the name of its file or folder, a function that saves a version, and one that loads it.
KINDS = {
    "ONNX": ("m.onnx", lambda p, n: og.onnx.save(graph(n), p), lambda p: og.onnx.load(p).compile()),
    "parts": ("parts.onnx", save_parts, lambda p: og.onnx.load(p).compile()),
    "graph": ("g.json", lambda p, n: graph(n, 4).save(p), lambda p: og.Graph.load(p).compile()),
    "executable": ("folder", lambda p, n: graph(n).compile().save(p), og.load),
    "link": ("link", save_behind_link, og.load),
    "npz": ("v.npz", lambda p, n: variables(n).save_variables(p), with_variables),
}
with suppress(ImportError):
    import safetensors  # noqa: F401

    KINDS["safetensors"] = ("v.safetensors", lambda p, n: variables(n).save_variables(p), with_variables)
PLACES = [*KINDS]


def load(folder, kind):
    name, _, loaded = KINDS[kind]
    return loaded(folder / name)


class Numbers:
    """The last version of each kind that was begun, the last complete one, and how many answers there were.

    All processes share them.
    """

    def __init__(self):
        self.memory = mmap.mmap(-1, mmap.PAGESIZE)
        self.begun, self.complete, self.answers = (
            memoryview(self.memory)[1024 * place : 1024 * (place + 1)].cast("q") for place in range(3)
        )


class Service:
    """Loads models and calls them in a few threads; findings go to a file.

    Args:
        folder: of the models.
        numbers: the versions that an answer may have.
    """

    def __init__(self, folder, numbers):
        self.folder, self.numbers = folder, numbers

    def run(self, seconds):
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        self.end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(2)]
        while time.monotonic() < self.end:
            with suppress(KeyboardInterrupt):  # which this thread alone gets
                while any(thread.ident is None for thread in threads):
                    next(thread for thread in threads if thread.ident is None).start()
                self.work()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                self.note("a thread does not end")

    def work(self):
        kept = []
        while time.monotonic() < self.end:
            try:
                kept = [*kept, self.loaded(random.choice([*KINDS]))][-KEPT:]
                for kind, model, version in kept:
                    self.expect(self.answer(kind, model) == version, f"{kind}: version {version} has changed")
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever it is, a service must not see it
                self.note(f"{type(error).__name__}: {error}")

    def loaded(self, kind):
        place = PLACES.index(kind)
        oldest = self.numbers.complete[place]
        model = load(self.folder, kind)
        newest = self.numbers.begun[place]
        version = self.answer(kind, model)
        self.expect(oldest <= version <= newest, f"{kind}: version {version} of {oldest} to {newest}")
        self.numbers.answers[place] += 1
        return kind, model, version

    def answer(self, kind, model):
        rows = random.choice(ROWS) if kind in IS_OPEN else 4
        found = np.unique(model(np.ones((rows, DEPTH), np.float32))) / (DEPTH + 1)
        self.expect(len(found) == 1, f"{kind}: torn, {found[:5]}")
        return found[0]

    def expect(self, condition, text):
        if not condition:
            raise AssertionError(text)

    def note(self, text):
        with open(self.folder / FINDINGS, "a") as file:
            file.write(f"{text}\n")


class Driver:
    """Does what may happen to a service."""

    def __init__(self, folder, seed):
        self.folder, self.rng, self.numbers = folder, random.Random(seed), Numbers()
        self.cache, self.events = Path(os.environ["ONEGRAPH_CACHE"]), Counter()
        for kind in KINDS:
            self.write(kind)

    def run(self, seconds):
        end = time.monotonic() + seconds
        self.start(seconds)
        events = [self.write_or_die] * 20 + [self.spoil_cache] * 8 + [self.interrupt] * 4 + [self.restart]
        while (left := end - time.monotonic()) > 0:
            event = self.rng.choice(events)
            self.events[event.__name__] += 1
            event(left)
        self.stop()
        for kind in KINDS:
            self.write(kind)

    def start(self, seconds):
        self.service = os.fork()
        if not self.service:
            Service(self.folder, self.numbers).run(seconds)
            os._exit(0)

    def stop(self):
        for _ in range(6000):
            if os.waitpid(self.service, os.WNOHANG)[0]:
                return
            time.sleep(0.01)
        os.kill(self.service, signal.SIGABRT)
        raise AssertionError("the service does not end")

    def write(self, kind):
        place, (name, save, _) = PLACES.index(kind), KINDS[kind]
        version = self.numbers.begun[place] = self.numbers.begun[place] + 1
        save(self.folder / name, version)
        self.numbers.complete[place] = version

    def write_or_die(self, _):
        """A writer that is stopped for a while, killed or left alone."""
        kind = self.rng.choice([*KINDS])
        writer = os.fork()
        if not writer:
            try:
                self.write(kind)
            except BaseException as error:
                Service(self.folder, self.numbers).note(f"writer of {kind}: {type(error).__name__}: {error}")
            os._exit(0)
        if self.rng.random() < 0.6:
            time.sleep(self.rng.random() * 0.08)
            if self.rng.random() < 0.3:
                os.kill(writer, signal.SIGSTOP)
                time.sleep(self.rng.random() * 0.1)
            os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        if kind == "link":
            self.remove_old_versions()

    def remove_old_versions(self):
        """Remove all folders but those which the service may be reading."""
        for path in self.folder.glob("version-*"):
            if int(path.name[8:]) < self.numbers.complete[PLACES.index("link")] - 20:
                shutil.rmtree(path)

    def spoil_cache(self, _):
        spare = self.folder / "spare"
        with suppress(OSError, IndexError):  # the service changes the files at the same time; there may be none
            files = [file for file in self.cache.rglob("*") if file.is_file()]
            match self.rng.randrange(7):
                case 0:
                    shutil.rmtree(self.cache)
                case 1:
                    whole = self.rng.choice(files).read_bytes()
                    spare.write_bytes(whole[: self.rng.randrange(len(whole) + 1)])
                    spare.replace(self.rng.choice(files))
                case 2:
                    shutil.copy(self.rng.choice(files), spare)
                    spare.replace(self.rng.choice(files))
                case 3:
                    os.utime(self.rng.choice(files), (self.rng.choice([0, 2**31, time.time()]),) * 2)
                case 4:
                    for path in self.folder.iterdir():
                        os.utime(path, (10**9, 10**9))
                case 5:
                    self.cache.rename(spare)
                    time.sleep(0.02)
                    spare.rename(self.cache)
                case 6:
                    self.cache.rename(spare)
                    self.cache.write_bytes(b"a file")
                    time.sleep(0.05)
                    self.cache.unlink()
        spare.unlink(missing_ok=True) if spare.is_file() else shutil.rmtree(spare, ignore_errors=True)

    def interrupt(self, _):
        os.kill(self.service, signal.SIGINT)

    def restart(self, left):
        os.kill(self.service, signal.SIGKILL)
        os.waitpid(self.service, 0)
        self.start(left)


def python(*arguments, cache):
    environment = {**os.environ, "ONEGRAPH_CACHE": str(cache), "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-X", "faulthandler", __file__, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120 + 2 * SECONDS)
    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    return json.loads(done.stdout)


def test_a_service_answers_whole_and_current_beside_kills(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    written, answers = python("drive", models, SECONDS, SEED, cache=tmp_path / "cache")
    findings = (models / FINDINGS).read_text().splitlines() if (models / FINDINGS).exists() else []
    assert not findings, (SEED, findings[:10])
    assert all(answers)
    assert python("load", models, cache=tmp_path / "cache") == written
    assert not [*models.glob(".*"), *models.glob("folder/.*")]  # drafts of writers that were killed


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    if sys.argv[1] == "drive":
        driver = Driver(folder, int(sys.argv[4]))
        driver.run(float(sys.argv[3]))
        print(dict(driver.events), file=sys.stderr)
        print(json.dumps([[*each[: len(KINDS)]] for each in (driver.numbers.complete, driver.numbers.answers)]))
    else:
        service = Service(folder, None)
        print(json.dumps([int(service.answer(kind, load(folder, kind))) for kind in KINDS]))
