"""Tests of the threads that read the weights of a model."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

pytest.importorskip("onnx")

from onegraph.frontends.onnx import read_ahead

CHUNKS = [(10 + 70_000 * number, 65_536) for number in range(200)]  # 13 MB, with gaps


@pytest.fixture
def contents():
    return np.random.default_rng(0).integers(0, 256, 10 + 70_000 * 200, np.uint8).tobytes()


@pytest.fixture
def file(tmp_path, contents, monkeypatch):
    """The descriptor of a file, which three threads read."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    (tmp_path / "model").write_bytes(contents)
    descriptor = os.open(tmp_path / "model", os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_takes_what_the_file_has(file, contents):
    before = threading.active_count()
    with read_ahead.reading(file, CHUNKS) as ahead:
        assert len(ahead._threads) == 3
        for offset, size in reversed(CHUNKS):
            for _ in range(2):  # the second time, in other memory
                array = ahead.take(offset, size)
                assert array.tobytes() == contents[offset : offset + size]
                assert array.ctypes.data % 64 == 0
                array.fill(0)
    assert threading.active_count() == before


def test_small_files_are_read_without_threads(file, contents):
    with read_ahead.reading(file, CHUNKS[:2]) as ahead:
        assert not ahead._threads
        assert ahead.take(*CHUNKS[1]).tobytes() == contents[CHUNKS[1][0] :][: CHUNKS[1][1]]


def test_missing_bytes_are_noticed(file):
    os.ftruncate(file, CHUNKS[150][0] + 5)
    with read_ahead.reading(file, CHUNKS) as ahead:
        taken = [ahead.take(*chunk) is not None for chunk in CHUNKS]
    assert taken[0]
    assert not any(taken[150:])


def test_errors_of_reading_are_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with read_ahead.reading(folder, CHUNKS) as ahead, pytest.raises(IsADirectoryError):
            ahead.take(*CHUNKS[0])
    finally:
        os.close(folder)


def test_stop_leaves_no_thread(file):
    with pytest.raises(KeyboardInterrupt), read_ahead.reading(file, CHUNKS) as ahead:
        raise KeyboardInterrupt
    assert not any(thread.is_alive() for thread in ahead._threads)
