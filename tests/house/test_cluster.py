"""Real clusters on this machine: Ray, Dask and gloo, with workers that are killed. ``make test-cluster`` runs them."""

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph.distributed import BatchInference
from tests.helpers.killed_once import KilledOnce

pytestmark = [
    pytest.mark.library,
    pytest.mark.skipif("ONEGRAPH_CLUSTER" not in os.environ, reason="starts clusters; make test-cluster runs it"),
]
ROOT = Path(__file__).parents[2]
W = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
ROWS = np.random.default_rng(1).normal(size=(400, 3)).astype(np.float32)
WANTED = ROWS @ W


def graph():
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (None, 3)), g.constant(W)))
    return g


@pytest.fixture
def folder(tmp_path):
    graph().compile(threads=1).save(tmp_path / "model")
    return tmp_path / "model"


def check(batches):
    """All rows are there, in order, and right."""
    np.testing.assert_array_equal(np.concatenate([one["key"] for one in batches]), np.arange(400))
    np.testing.assert_allclose(np.concatenate([one["y"] for one in batches]), WANTED, rtol=1e-5, atol=1e-5)


# Ray ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ray():
    module = pytest.importorskip("ray")
    module.init("local", num_cpus=4, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}})
    yield module
    module.shutdown()


def mapped(ray, model, **options):
    import ray.data

    ray.data.DataContext.get_current().execution_options.preserve_order = True
    rows = [{"x": row, "key": key} for key, row in enumerate(ROWS)]
    data = ray.data.from_items(rows, override_num_blocks=20)
    pool = ray.data.ActorPoolStrategy(size=2)
    done = data.map_batches(model, batch_size=32, num_cpus=1, compute=pool, **options)
    return list(done.iter_batches(batch_size=64))


def test_ray_maps_an_onnx_model(ray, tmp_path):
    pytest.importorskip("onnx")
    from onegraph.onnx import save

    save(graph(), tmp_path / "model.onnx")
    options = {"batch_size": 32, "keep": ["key"]}
    check(mapped(ray, BatchInference, fn_constructor_args=[tmp_path / "model.onnx"], fn_constructor_kwargs=options))


def test_ray_completes_after_a_killed_worker(ray, folder, tmp_path):
    marker = tmp_path / "killed"
    options = {"batch_size": 32, "keep": ["key"]}
    check(mapped(ray, KilledOnce, fn_constructor_args=[folder, str(marker)], fn_constructor_kwargs=options))
    assert marker.exists()


def test_ray_sets_the_threads_and_shares_the_constants(ray, folder):
    """An executable in Ray's object store is read by all workers where it lies."""
    big = np.random.default_rng(0).normal(size=(2048, 2048)).astype(np.float32)
    g = og.Graph()
    words = g.input("words", og.s64, (None,))
    g.output("y", g.op("Gather", [g.constant(big), words], {"axis": 0}, edition="host"))
    stored = ray.put(g.compile())

    @ray.remote(num_cpus=1)
    def look(model):
        (array,) = [tensor.value for tensor in model._interface.graph._tensors if tensor.value is not None]
        model(np.arange(3))
        where = [line for line in Path("/proc/self/maps").read_text().splitlines() if in_line(line, array.ctypes.data)]
        return model.report().threads[:], array.ctypes.data % 64, where

    def in_line(line, address):
        first, _, last = line.split()[0].partition("-")
        return int(first, 16) <= address < int(last, 16)

    threads, alignment, where = ray.get(look.remote(stored))
    assert threads == (1, "OMP_NUM_THREADS=1")
    assert alignment == 0
    assert "/dev/shm" in where[0] or "plasma" in where[0]


# Dask -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def client():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def dask_batches():
    return [{"x": ROWS[at : at + 32], "key": np.arange(at, min(at + 32, 400))} for at in range(0, 400, 32)]


def test_dask_maps_a_saved_model(client, folder):
    infer = BatchInference(folder, batch_size=32, keep=["key"])
    check(client.gather(client.map(infer, dask_batches(), pure=False)))
    threads = client.run(lambda: BatchInference(folder).executable.report().threads[:])
    assert {*threads.values()} == {(1, "OMP_NUM_THREADS=1")}


def test_dask_completes_after_a_killed_worker(client, folder, tmp_path):
    infer = KilledOnce(folder, str(tmp_path / "killed"), batch_size=32, keep=["key"])
    check(client.gather(client.map(infer, dask_batches(), pure=False)))
    assert (tmp_path / "killed").exists()


def test_dask_sends_constants_out_of_band(client):
    from distributed.protocol import serialize

    big = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (None, 512)), g.constant(big)))
    _, frames = serialize(g.compile())
    assert any(memoryview(frame).nbytes >= big.nbytes for frame in frames)
    assert len(pickle.dumps(frames[0])) < 10_000


def test_threads_of_a_dask_worker_share_the_processors(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    total = os.cpu_count()
    options = {"n_workers": 1, "threads_per_worker": 2 * total, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        limit, reason = client.submit(lambda: graph().compile().report().threads[:]).result()
    assert (limit, reason) == (1, f"Dask runs {2 * total} tasks at once on {total} processors")


# Serving --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def serve(ray):
    pytest.importorskip("aiohttp")
    from ray import serve

    yield serve
    serve.shutdown()


def test_service_answers_and_refuses_overload_in_order(serve):
    from benchmarks.cluster import serving

    serving.start(1)
    easy = asyncio.run(serving.load(20, 3))
    assert (len(easy.latencies), easy.refused, easy.lost) == (60, 0, [])
    hard = asyncio.run(serving.load(2000, 1))
    assert hard.lost == []
    assert len(hard.latencies) + hard.refused == 2000
    again = asyncio.run(serving.load(20, 2))
    assert (len(again.latencies), again.refused, again.lost) == (40, 0, [])


def test_no_request_is_lost_in_a_rolling_restart(serve):
    from benchmarks.cluster import serving

    found = serving.restarted(rate=20, seconds=20)
    assert found.lost == []
    assert len(found.latencies) + found.refused == 400
    assert found.refused == 0


# Training -------------------------------------------------------------------------------------------------------------

WORKER = """
import json, os, signal, sys, time
import numpy as np
import onegraph as og

STEPS, BATCH = 12, 16
rank, size, port, folder, dies = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5] == "dies"
group = og.distributed.join(rank, size, f"127.0.0.1:{port}", timeout=20)
rows = BATCH // size
g, random = og.Graph(), np.random.default_rng(0)
x, labels = g.input("x", og.f32, (rows, 8)), g.input("labels", og.s32, (rows,))
w0 = g.variable("w0", random.normal(0, 0.4, (8, 16)).astype(np.float32))
w1 = g.variable("w1", random.normal(0, 0.4, (16, 4)).astype(np.float32))
loss = og.training.cross_entropy(g, g.matmul(g.relu(g.matmul(x, w0)), w1), labels)
gradients = og.distributed.average(g, g.gradient(loss, [w0, w1]), bucket_bytes=1)
og.training.Adam(1e-2).update(g, [w0, w1], gradients)
g.output("loss", *og.distributed.average(g, [loss]))
step = g.compile(threads=1)
checkpoint = os.path.join(folder, "checkpoint.npz")
if os.path.exists(checkpoint):
    step.load_variables(checkpoint)
group.share_variables(step)
losses = []
for number in range(int(step.variables["adam/step"]), STEPS):
    data = np.random.default_rng(number)
    images = data.normal(size=(size, rows, 8)).astype(np.float32)
    if dies and number == 6 and rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.perf_counter()
    try:
        losses.append(float(step(images[rank], images[rank, :, :4].argmax(1).astype(np.int32))))
    except og.StateError as error:
        print(json.dumps({"error": str(error), "seconds": time.perf_counter() - begun,
                          "step": int(step.variables["adam/step"])}))
        sys.exit(3)
    if rank == 0:
        step.save_variables(checkpoint)
print(json.dumps({"losses": losses, "w0": step.variables["w0"].tolist()}))
"""


def trained(folder, size, port, dies=False):
    """What each process of a group tells."""
    script = folder / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, script]
    arguments = [str(size), str(port), str(folder), "dies" if dies else "lives"]
    processes = [
        subprocess.Popen([*command, str(rank), *arguments], env=environment, stdout=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    texts = [process.communicate(timeout=120)[0] for process in processes]
    return [
        json.loads(text) if text else {"killed": process.returncode}
        for text, process in zip(texts, processes, strict=True)
    ]


@pytest.fixture
def port():
    from socket import socket

    pytest.importorskip("torch")
    with socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_two_processes_learn_like_one_with_the_whole_batch(tmp_path, port):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (one,) = trained(tmp_path / "one", 1, port)
    first, second = trained(tmp_path / "two", 2, port)
    assert first["losses"] == second["losses"]
    assert first["w0"] == second["w0"]
    np.testing.assert_allclose(first["losses"], one["losses"], rtol=1e-5)
    np.testing.assert_allclose(first["w0"], one["w0"], rtol=1e-3, atol=1e-5)
    assert one["losses"][-1] < one["losses"][0]


def test_killed_process_ends_all_others_and_training_resumes(tmp_path, port):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole = trained(tmp_path / "whole", 3, port)[0]
    begun = time.perf_counter()
    *others, dead = trained(tmp_path / "killed", 3, port, dies=True)
    assert time.perf_counter() - begun < 60
    assert dead == {"killed": -signal.SIGKILL}
    for one in others:
        assert "has lost its group" in one["error"]
        assert one["seconds"] < 10
        assert one["step"] == 6  # the variables are those of the last whole step
    resumed = trained(tmp_path / "killed", 3, port)[0]
    np.testing.assert_array_equal(resumed["losses"], whole["losses"][6:])
    np.testing.assert_array_equal(resumed["w0"], whole["w0"])


LOSING = """
import sys
import numpy as np
import torch.distributed
import onegraph as og

rank, port, losses = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
init = torch.distributed.init_process_group

def losing(*args, **options):
    global losses
    if rank == 1 and losses and options["world_size"] > 1:
        losses -= 1
        raise RuntimeError("[pair.cc:1] Connection closed by peer")
    return init(*args, **options)

torch.distributed.init_process_group = losing
try:
    with og.distributed.join(rank, 2, f"127.0.0.1:{port}", timeout=2):
        g = og.Graph()
        g.output("mean", *og.distributed.average(g, [g.input("x", og.f32, (2,))]))
        print(g.compile()(np.full(2, rank, np.float32)).tolist())
except og.StateError as error:
    print(str(error).partition(": ")[2].partition(": ")[2])
"""


@pytest.mark.parametrize(
    ("losses", "told"),
    [(1, "[0.5, 0.5]"), (3, "rank 1 has lost the rendezvous: Connection closed by peer, in each of 3 attempts")],
)
def test_lost_rendezvous_is_tried_again(port, losses, told):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "always", "-c", LOSING]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(port), str(losses)], env=environment, text=True, stdout=-1, stderr=-1
        )
        for rank in range(2)
    ]
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert out == f"{told}\n", errors
        assert errors.count("all processes try again") == min(losses, 2)


SILENT = """
import os, signal, sys, time
import numpy as np
import onegraph as og

rank, port = int(sys.argv[1]), sys.argv[2]
og.distributed.join(rank, 2, f"127.0.0.1:{port}", timeout=3)
g = og.Graph()
g.output("mean", *og.distributed.average(g, [g.input("x", og.f32, (2,)) * 2]))
step = g.compile()
print(step(np.full(2, rank, np.float32)).tolist(), flush=True)
if rank:
    os.kill(os.getpid(), signal.SIGSTOP)
begun = time.perf_counter()
for _ in range(2):
    try:
        step(np.ones(2, np.float32))
    except og.StateError as error:
        print(time.perf_counter() - begun < 10, "Timed out" in str(error), "/" in str(error))
"""


def test_silent_process_is_lost_after_the_timeout(port):
    command = [sys.executable, "-c", SILENT]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first, second = (
        subprocess.Popen([*command, str(rank), str(port)], env=environment, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    )
    try:
        told = first.communicate(timeout=90)[0].splitlines()
    finally:
        second.kill()
        second.communicate()
    assert told == ["[1.0, 1.0]", "True True False", "True True False"]  # the second call knows of the loss at once
