"""What the machine does at most: measured once, and kept for later processes."""

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og

pytestmark = pytest.mark.library

from onegraph.runtime import peaks  # noqa: E402
from onegraph.runtime.executable import Executable  # noqa: E402
from onegraph.runtime.explanation import Explanation  # noqa: E402


def test_peaks_are_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(peaks, "_known", {})
    monkeypatch.setattr(peaks, "_disturbed", set())
    monkeypatch.setattr(peaks, "SECONDS", 0.01)
    monkeypatch.setattr(peaks, "IDLE", 0.0)  # other tests may keep the processors busy
    before = og.get_cache_folder()
    og.set_cache_folder(tmp_path)
    try:
        found = peaks.peaks_of(Executable, ["f32", "", "boolean"])
        monkeypatch.setattr(peaks, "_known", {})
        again = peaks.peaks_of(None, ["f32"])
    finally:
        og.set_cache_folder(before)
    assert set(found.rates) == {"f32"}
    assert 1e8 < found.bandwidth < 1e13
    assert 1e9 < found.rates["f32"] < 1e15
    assert again == found
    assert not found.disturbed


@pytest.mark.parametrize("kind", peaks.PRODUCTS)
def test_every_type_of_product_is_measured(kind, monkeypatch):
    monkeypatch.setattr(peaks, "SECONDS", 0.0)
    monkeypatch.setattr(peaks, "SIZE", 64)
    assert peaks._rate(Executable, kind)[0] > 0


def test_what_is_measured_on_a_busy_machine_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(peaks, "_known", {})
    monkeypatch.setattr(peaks, "_disturbed", set())
    monkeypatch.setattr(peaks, "SECONDS", 0.0)
    monkeypatch.setattr(peaks, "SIZE", 64)
    monkeypatch.setattr(peaks, "IDLE", 1e9)  # no machine is that idle
    before = og.get_cache_folder()
    og.set_cache_folder(tmp_path)
    try:
        found = peaks.peaks_of(Executable, ["f32"])
        assert found.disturbed
        assert "beside other work" in str(Explanation("oneDNN", found, (), (), ()))
        assert peaks.peaks_of(None, ["f32"]) == found  # this process knows them
        monkeypatch.setattr(peaks, "_known", {})
        with pytest.raises(TypeError):  # another process measures them again
            peaks.peaks_of(None, ["f32"])
    finally:
        og.set_cache_folder(before)


def test_the_shortest_of_the_runs_in_a_time_counts(monkeypatch):
    """The first run is not timed; the last one ends after the time, and not at its end."""
    times, used, runs = iter([10, 10, 10.5, 10.5, 10.75, 10.75, 11, 11, 12]), iter([5, 8]), []
    monkeypatch.setattr(peaks, "SECONDS", 1)
    monkeypatch.setattr(peaks, "perf_counter", lambda: next(times))
    monkeypatch.setattr(peaks, "process_time", lambda: next(used))
    assert peaks._shortest(lambda: runs.append(1)) == (0.25, 1.5)
    assert len(runs) == 5


def made(graph, **options):
    """In place of an executable: what it would run."""
    return SimpleNamespace(bind=lambda *arrays: SimpleNamespace(run=(graph, options, arrays)))


@pytest.mark.parametrize("kind", [peaks.MEMORY, *peaks.PRODUCTS])
def test_rates_are_of_all_bytes_and_of_all_operations(kind, monkeypatch):
    ran = []
    monkeypatch.setattr(peaks, "SIZE", 8)
    monkeypatch.setattr(peaks, "ELEMENTS", 64)
    monkeypatch.setattr(peaks, "_shortest", lambda run: (ran.append(run) or 0.5, 0.75))
    found = peaks._bandwidth(made) if kind == peaks.MEMORY else peaks._rate(made, kind)
    ((graph, options, (array,)),) = ran
    kinds, source = [op.kind for op in graph.ops], peaks.PRODUCTS.get(kind, [og.f32])[0]
    assert options == {"finite_math": True}
    assert array.dtype == source.numpy == graph.inputs["x"].dtype.numpy
    assert array.any() == (kind != peaks.MEMORY)
    if kind == peaks.MEMORY:
        assert (found, kinds, array.shape) == ((2 * 64 * 4 / 0.5, 0.75), ["ReLU"], (64,))
        return
    assert (found, array.shape) == ((2 * 8**3 / 0.5, 0.75), (8, 8))
    is_coded = source in (og.u8, og.s8)
    assert kinds == (["Dequantize"] * 2 if is_coded else []) + ["MatMul"]
    weights = graph.ops[is_coded].inputs[is_coded ^ 1]
    assert (weights.dtype, weights.value.shape) == (peaks.PRODUCTS[kind][1], (8, 8))
    assert np.all(weights.value == 1)
    assert not is_coded or all((op.attrs["scales"], op.attrs["zps"]) == ((1.0,), (0,)) for op in graph.ops[:2])


# What the file has, the processor time of the two measurements, which are then kept, and whether one was disturbed.
KEPT = [
    ("5.5", 9, 9, [], False),
    (None, 9, 9, ["3.5", "2.5"], False),
    ("none", 1.75, 1.75, ["3.5", "2.5"], False),
    (None, 1.5, 1.75, ["2.5"], True),
    (None, 1.75, 1.5, ["3.5"], True),
]


@pytest.mark.parametrize(("text", "share", "share_of_memory", "records", "disturbed"), KEPT)
def test_rates_that_took_all_processors_are_kept(text, share, share_of_memory, records, disturbed, monkeypatch):
    log = []
    monkeypatch.setattr(peaks, "_known", {})
    monkeypatch.setattr(peaks, "_disturbed", {("f32", 3)})  # with another number of threads
    monkeypatch.setattr(peaks, "IDLE", 0.75)
    monkeypatch.setattr(peaks, "LOG", SimpleNamespace(find=lambda key: text, keep=lambda *record: log.append(record)))
    monkeypatch.setattr(peaks, "_bandwidth", lambda make: (2.5, share_of_memory))
    monkeypatch.setattr(peaks, "_rate", lambda make, kind: (3.5, share))
    monkeypatch.setattr(peaks, "threads_now", lambda: 2)
    found = peaks.peaks_of(None, ["f32", "boolean", "f32"])
    rate, bandwidth = (5.5, 5.5) if text == "5.5" else (3.5, 2.5)
    assert (found.threads, found.rates, found.bandwidth, found.disturbed) == (2, {"f32": rate}, bandwidth, disturbed)
    assert [text for _, text in log] == records
    assert len({key for key, _ in log}) == len(log)
