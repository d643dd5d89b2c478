"""Mapped files: arrays in them, and the pages that are given back to the system."""

import errno
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph._util import mapped_file
from onegraph._util.mapped_file import MappedFile
from onegraph.arrays.mapped_files import LEAST_BYTES, file_of, give_back, pages_of, refuse_shortened

NUMBERS = np.arange(LEAST_BYTES, dtype=np.float32)


@pytest.fixture
def mapped(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(b"odd" + NUMBERS.tobytes())
    with open(path, "rb") as file:
        return MappedFile.of(file.fileno(), path)


def resident(file):
    """The bytes of a mapping that are in the memory of this process."""
    mappings = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in mappings:
        if line.startswith(f"{file.address:x}-"):
            return next(int(one.split()[1]) for one in mappings if one.startswith("Rss:")) * 1024
    raise AssertionError("the mapping is not listed")


@pytest.mark.parametrize("offset", [3, 3 + 4 * 100])
def test_an_array_has_the_numbers_of_its_place(mapped, offset):
    array = mapped.array(offset, (5, 20), np.dtype(np.float32))
    np.testing.assert_array_equal(array.ravel(), NUMBERS[offset // 4 :][:100])
    assert not array.flags.writeable
    assert file_of(array[1:].T) is mapped


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="only Linux lists mappings")
def test_pages_given_back_are_read_again(mapped):
    array = mapped.array(3, NUMBERS.shape, NUMBERS.dtype)
    assert array.sum(dtype=np.float64) == NUMBERS.sum(dtype=np.float64)
    assert resident(mapped) > NUMBERS.nbytes
    give_back([array])
    assert resident(mapped) == 0
    np.testing.assert_array_equal(array, NUMBERS)


def test_other_memory_is_left_alone(mapped):
    own = NUMBERS.copy()
    give_back([own, own[::-1], np.broadcast_to(own[:1], own.shape)])
    np.testing.assert_array_equal(own, NUMBERS)
    assert file_of(own) is None
    assert pages_of(own) is None


def test_pages_end_with_the_file(mapped):
    array = mapped.array(3, NUMBERS.shape, NUMBERS.dtype)
    for view in (array, array[::-1], np.broadcast_to(array[-1:], array.shape)):
        pages = pages_of(view)
        assert pages.address % mmap.PAGESIZE == pages.size % mmap.PAGESIZE == 0
        assert (
            mapped.address <= pages.address < pages.address + pages.size <= mapped.address + len(mapped) + mmap.PAGESIZE
        )
        give_back([view])
    np.testing.assert_array_equal(array, NUMBERS)


def test_a_file_that_became_shorter_is_refused(mapped):
    array = mapped.array(3, NUMBERS.shape, NUMBERS.dtype)
    refuse_shortened([array, NUMBERS])
    os.truncate(mapped.path, 100)
    with pytest.raises(og.FormatError, match=r"a file that became shorter: 100 bytes; .* load the model again"):
        refuse_shortened([NUMBERS, array])


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "no disk"), KeyboardInterrupt(), None])
def test_a_file_that_is_refused_is_closed(fault, tmp_path, monkeypatch):
    opened, closed = [], []

    def looked_at(descriptor):
        opened.append(descriptor)
        if fault is not None:
            raise fault
        return os.stat(tmp_path)

    monkeypatch.setattr(mapped_file.os, "fstat", looked_at)
    monkeypatch.setattr(mapped_file.os, "close", closed.append)
    (tmp_path / "file").write_bytes(b"1")
    with pytest.raises(type(fault) if fault is not None else mapped_file.NotRegularError):
        mapped_file.open_regular(tmp_path / "file")
    monkeypatch.undo()
    assert len(opened) == 1
    assert closed == opened
    os.close(opened[0])
