"""The number of threads follows the share of the processors that a process has, and the report says why."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util import processor_share
from onegraph._util.processor_share import cgroup_quota
from tests.conftest import SANITIZED

TOTAL = os.cpu_count() or 1


def groups(tmp_path, own, files):
    """A mount of control groups and the list of those of this process."""
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        place = tmp_path / "mount" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return cgroup_quota(tmp_path / "mount", tmp_path / "own")


def version_1(folder, quota):
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/job\n", {"job/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/job/task\n", {"job/cpu.max": "50000 100000\n", "job/task/cpu.max": "max 100000\n"}, 0.5),
        ("0::/job\n", {"job/cpu.max": "max 100000\n"}, None),
        ("0::/outside\n", {"cpu.max": "200000 100000\n"}, 2.0),  # as a container sees it
        ("4:cpu,cpuacct:/job\n", version_1("cpu,cpuacct/job", 300000), 3.0),
        ("4:cpu:/\n", version_1("cpu", -1), None),
        ("4:cpu:/\n", version_1("cpu", 0), None),
        ("4:cpu:/\n", {**version_1("cpu", 1), "cpu/cpu.cfs_period_us": "0"}, None),
        ("4:memory:/job\n", {"cpu.max": "1 1\n"}, None),
        ("0::/job\n", {"job/cpu.max": "many\n"}, None),
    ],
)  # fmt: skip
def test_quota_of_control_groups(tmp_path, own, files, quota):
    assert groups(tmp_path, own, files) == quota


def test_no_control_groups(tmp_path):
    assert cgroup_quota(tmp_path, tmp_path / "missing") is None


def relu(**options):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4,))))
    return g.compile(**options)


@pytest.mark.library
def test_report_names_the_quota(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(processor_share, "cgroup_quota", lambda *_: 0.5)
    report = relu().report()
    assert report.threads == (1, f"cgroup quota: 0.5 of {TOTAL} processors")
    assert f"at most 1 thread: cgroup quota: 0.5 of {TOTAL} processors" in str(report)
    assert report.to_dict()["threads"] == {"limit": 1, "reason": report.threads[1]}


@pytest.mark.library
@pytest.mark.skipif(TOTAL < 2, reason="needs two processors")
def test_quota_limits_the_threads_of_kernels(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    g = og.Graph()
    x = g.input("x", og.f32, (256, 256))
    g.output("y", g.matmul(x, x))
    monkeypatch.setattr(processor_share, "cgroup_quota", lambda *_: 1.0)
    (matmul,) = (model := g.compile()).report().partitions
    assert model._programs.find({}).program.source.limit == 1
    assert matmul.threads in (0, 1)
    monkeypatch.setattr(processor_share, "cgroup_quota", lambda *_: None)
    assert g.compile()._programs.find({}).program.source.limit == 0


@pytest.mark.library
def test_number_of_the_thread_goes_before_the_quota(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(processor_share, "cgroup_quota", lambda *_: 1.0)
    with og.num_threads(TOTAL + 1):
        assert relu().report().threads == (TOTAL + 1, f"onegraph.set_num_threads({TOTAL + 1})")


# What OMP_NUM_THREADS states, processors of the machine, those that this process may run on, the quota, tasks of Dask.
SHARES = [
    (("", 8, 8, None, 0), (8, "")),
    (("3", 8, 2, 1.0, 4), (3, "OMP_NUM_THREADS=3")),
    (("", 8, 6, None, 1), (6, "processor affinity: 6 of 8 processors")),
    (("", 8, 6, 5.5, 0), (6, "processor affinity: 6 of 8 processors")),
    (("", 8, 6, 4.5, 0), (5, "cgroup quota: 4.5 of 8 processors")),
    (("", 8, 8, 7.5, 0), (8, "")),
    (("", 8, 8, 8.5, 1), (8, "")),
    (("", 8, 8, None, 2), (4, "Dask runs 2 tasks at once on 8 processors")),
    (("", 8, 6, 4.5, 3), (1, "Dask runs 3 tasks at once on 5 processors")),
    (("", 8, 8, None, 9), (1, "Dask runs 9 tasks at once on 8 processors")),
    (("", None, 1, None, 0), (1, "")),
]


@pytest.mark.parametrize(("given", "share"), SHARES)
def test_the_smallest_limit_is_the_share(given, share, monkeypatch):
    stated, total, count, quota, tasks = given
    monkeypatch.setenv("OMP_NUM_THREADS", stated)
    monkeypatch.setattr(os, "cpu_count", lambda: total)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(count))
    monkeypatch.setattr(processor_share, "cgroup_quota", lambda *_: quota)
    monkeypatch.setattr(processor_share, "dask_tasks", lambda: tasks)
    assert processor_share.processor_share() == share


def test_tasks_of_running_dask_workers_are_counted(monkeypatch):
    def worker(status, count):
        state = SimpleNamespace(nthreads=count)
        return SimpleNamespace(status=status and SimpleNamespace(name=status), state=state)

    for workers, count in (
        ([worker("running", 2), worker("closed", 4), worker(None, 8), worker("running", 1), SimpleNamespace()], 3),
        ([], 0),
    ):
        module = SimpleNamespace(Worker=SimpleNamespace(_instances=workers))
        monkeypatch.setitem(sys.modules, "distributed.worker", module)
        assert processor_share.dask_tasks() == count
    monkeypatch.delitem(sys.modules, "distributed.worker")
    assert processor_share.dask_tasks() == 0


@pytest.mark.library
def test_the_share_limits_executables(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(processor_share, "dask_tasks", lambda: 2 * TOTAL)
    limit, reason = relu().report().threads
    assert (limit, "Dask runs" in reason) == (1, True)


@pytest.mark.library
@pytest.mark.skipif(SANITIZED, reason="starts Python processes without the sanitizer")
@pytest.mark.parametrize(("variable", "command"), [("1", []), (None, ["taskset", "-c", "0"])])
def test_stated_number_and_affinity(variable, command):
    code = "import onegraph as og; g = og.Graph(); g.output('y', g.relu(g.input('x', 'f32', (4,)))); "
    code += "print(g.compile().report().threads[:])"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment |= {} if variable is None else {"OMP_NUM_THREADS": variable}
    found = subprocess.run([*command, sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    wanted = "OMP_NUM_THREADS=1" if variable else f"processor affinity: 1 of {TOTAL} processors"
    assert found.stdout.strip() == str((1, wanted if variable or TOTAL > 1 else "")), found.stderr


@pytest.mark.parametrize(
    ("text", "count"),
    [("3", 3), (" 5 ,1", 5), ("2,4", 2), ("", None), ("0", None), ("-1", None), ("x", None), ("\u00b2", None)],
)
def test_openmp_has_the_stated_number_of_threads(monkeypatch, text, count):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(77))
    assert processor_share.openmp_threads() == (count or 77)


@pytest.mark.library
def test_result_is_the_same_on_a_share(monkeypatch):
    monkeypatch.setattr(processor_share, "cgroup_quota", lambda *_: 1.0)
    x = np.float32([-1, 0, 1, 2])
    np.testing.assert_array_equal(relu()(x), [0, 0, 1, 2])
