"""What the machine does at most: measured once, and kept for later processes."""

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
