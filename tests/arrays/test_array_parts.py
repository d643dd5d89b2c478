"""Parts of the arrays of callers and of files on both sides of their conditions."""

import ctypes
import gc
import mmap
import os
import sys
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph._util import mapped_file
from onegraph._util.mapped_file import MappedFile, NotRegularError, SourceFiles
from onegraph.arrays import dlpack, mapped_files, ndarrays
from onegraph.arrays.ndarrays import (
    LARGE,
    Held,
    aligned_copy,
    aligned_empty,
    check_output,
    has_strides,
    laid_empty,
    numpy_array,
    owners,
    place_of,
    strided,
    strided_empty,
)

F32 = np.dtype(np.float32)

# Memory


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("skew", [0, 4, 60])
def test_memory_begins_behind_a_multiple(skew):
    for count in (1, 15, 16, 17):
        made = aligned_empty((count,), F32, zeroed=True, skew=skew)
        assert address(made) % 64 == skew
        assert not made.any()
        assert made.base.nbytes == made.nbytes + 63 + skew
        copied = aligned_copy(np.arange(count, dtype=F32)[::-1], skew=skew)
        assert address(copied) % 64 == skew
        assert copied.tolist() == [*range(count)][::-1]


def test_memory_that_numpy_cannot_write_is_lacking(monkeypatch):
    def read_only(*given):
        made = np.ndarray(*given)
        made.flags.writeable = False
        return made

    monkeypatch.setattr(ndarrays, "np", SimpleNamespace(ndarray=read_only, zeros=np.zeros, empty=np.empty))
    with pytest.raises(og.errors.OutOfMemoryError, match=r"out_of_memory: 12 bytes for shape \(3,\)"):
        aligned_empty((3,), F32)


@pytest.mark.parametrize(("size", "value", "zeroed"), [(0, 0, True), (-1, 0, False), (0, 1, False), (64, 0, True)])
def test_large_zeros_take_no_memory(size, value, zeroed, monkeypatch):
    asked, make = [], ndarrays.aligned_empty
    monkeypatch.setattr(ndarrays, "aligned_empty", lambda *given, **named: asked.append(named) or make(*given, **named))
    array = np.full(LARGE + size, value, np.uint8)
    assert (aligned_copy(array, skew=8) == array).all()
    assert asked == [{"skew": 8, **({"zeroed": True} if zeroed else {})}]


@pytest.mark.parametrize(
    ("strides", "declared", "text"),
    [
        ((3, 1), None, ""),
        ((1, 2), (1, 2), ""),
        ((1, 2), (1, 3), r"not C-contiguous, and not of the strides \(1, 3\) in elements; pass a contiguous copy"),
        ((1, 2), None, "not C-contiguous; pass a contiguous copy, np.ascontiguousarray"),
        ((3, 1), (1, 2), ""),
    ],
)
def test_outputs_are_dense_or_have_the_declared_strides(strides, declared, text):
    array = np.lib.stride_tricks.as_strided(np.zeros(6, F32), (2, 3), [4 * step for step in strides])
    with pytest.raises(og.ArgumentError, match=f"^output 'y': {text}") if text else nullcontext():
        assert check_output("y", og.f32, (2, 3), declared, array) is array


def test_owners_are_found_through_views_of_memory():
    base = np.zeros(8, F32)
    part = np.asarray(memoryview(base[2:])[1:])[::2]
    found = [*owners(part)]
    assert found[0] is part
    assert found[-1] is base
    assert len(found) == 4
    assert [*owners(base)] == [base]
    (alone,) = owners(np.frombuffer(b"1234", F32))
    assert alone.size == 1


def test_arrays_that_are_held_are_not_resized():
    array = np.zeros(4, F32)
    held = Held({"x": array})
    assert held.given["x"] is array
    assert held["x"].base is array
    assert len(held._watches) == 1
    with pytest.raises(ValueError, match="cannot resize"):
        array.resize(8, refcheck=False)
    del held
    gc.collect()
    array.resize(8, refcheck=False)
    assert array.shape == (8,)


def test_views_of_the_same_numbers_have_one_place():
    array = np.arange(6, dtype=F32).reshape(2, 3)
    assert place_of(array[:]) == place_of(array)
    others = [array[::-1], array.T, array[:, :2], array.view(np.int32), array.copy(), array.ravel()]
    assert not [one for one in others if place_of(one) == place_of(array)]
    for bare in (np.float32(3), np.zeros(()), np.zeros((0, 3))):
        assert place_of(np.asarray(bare)) != place_of(np.asarray(bare).copy())
        again = np.asarray(bare)
        assert place_of(again) == id(again)


@pytest.mark.parametrize(
    ("shape", "strides", "declared", "has"),
    [
        ((2, 3), (12, 4), (3, 1), True),
        ((2, 3), (12, 4), (3, 2), False),
        ((1, 3), (99, 4), (3, 1), True),
        ((2, 1), (4, 99), (1, 7), True),
        ((2, 1), (4, 99), (2, 7), False),
        ((), (), (), True),
    ],
)
def test_strides_of_single_elements_do_not_count(shape, strides, declared, has):
    array = np.lib.stride_tricks.as_strided(np.zeros(64, F32), shape, strides)
    assert has_strides(array, declared) is has


@pytest.mark.parametrize(
    ("shape", "strides", "size"),
    [((2, 3), (5, 1), 8), ((2, 3), (1, 2), 6), ((0, 3), (9, 1), 3), ((1, 1), (9, 9), 1), ((), (), 1)],
)
@pytest.mark.parametrize("dtype", [F32, np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.int4)], ids=str)
def test_memory_reaches_to_the_last_element(shape, strides, size, dtype, monkeypatch):
    asked, make = [], ndarrays.aligned_empty
    monkeypatch.setattr(ndarrays, "aligned_empty", lambda *given: asked.append(given) or make(*given))
    made = strided_empty(shape, strides, dtype)
    assert asked == [((size,), dtype)]
    assert (made.shape, made.dtype) == (shape, dtype)
    assert made.strides == tuple(step * dtype.itemsize for step in strides)
    assert address(made) % 64 == 0
    assert laid_empty(shape, strides, dtype).strides == made.strides
    assert laid_empty(shape, None, dtype).flags.c_contiguous


@pytest.mark.parametrize("shift", [0, 4, 8])
def test_memory_is_seen_from_a_place_on(shift):
    array = np.arange(12, dtype=F32).reshape(3, 4)[:, :3]
    found = strided(array, (2, 2), (4, 1), shift)
    first = shift // 4
    assert found.tolist() == [[first, first + 1], [first + 4, first + 5]]
    assert np.shares_memory(found, array)
    backwards = strided(array, (3,), (-1,), 8)
    assert backwards.tolist() == [2, 1, 0]


def test_scalars_and_arrays_are_taken():
    assert numpy_array("x", np.float32(3), "numbers").shape == ()
    for value, text in (([1.0], r"x: \[1.0\]; expected numbers"), (np.ma.ones(2), "x: a masked array; expected plain")):
        with pytest.raises(og.ArgumentError, match=text):
            numpy_array("x", value, "numbers")


def test_masked_arrays_are_known_where_their_module_is_loaded(monkeypatch):
    masked = np.ma.ones(2)
    monkeypatch.delitem(sys.modules, "numpy.ma")
    assert ndarrays.array_of("x", masked).tolist() == [1, 1]


# DLPack


@pytest.mark.parametrize(
    ("shape", "strides", "found"),
    [
        ((), None, ((), None, 4)),
        ((2, 3), None, ((2, 3), None, 24)),
        ((2, 3), (3, 1), ((2, 3), (12, 4), 24)),
        ((2, 3), (5, 1), ((2, 3), (20, 4), 32)),
        ((2, 1), (5, 9), ((2, 1), (20, 0), 24)),
        ((2, 3), (0, 1), ((2, 3), (0, 4), 12)),
        ((1, 1), (-1, -1), ((1, 1), (0, 0), 4)),
    ],
)
def test_layouts_of_other_libraries_are_in_bytes(shape, strides, found):
    dims, steps = (None if one is None else np.array(one, np.int64) for one in (shape, strides))
    places = {"shape": dims.ctypes.data, "strides": 0 if steps is None else steps.ctypes.data}
    assert dlpack._layout(SimpleNamespace(ndim=len(shape), **places), 4) == found


@pytest.mark.parametrize("deleter", [False, True])
def test_memory_of_other_libraries_is_released_once(deleter):
    released = []
    function = dlpack._Deleter(released.append)
    owner = dlpack._Owner(77, ctypes.cast(function, ctypes.c_void_p).value if deleter else None)
    owner.release()
    owner.release()
    del owner
    assert released == [77] * deleter


# Files


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (4 * mmap.PAGESIZE // 256) + b"end")
    with path.open("rb") as opened:
        yield MappedFile.of(opened.fileno(), path)


@pytest.mark.parametrize(
    ("offset", "size", "first", "pages"),
    [(0, 1, 0, 1), (0, "page", 0, 1), (1, "page", 0, 2), ("page", "page", 1, 1), (0, "all", 0, 5), (3, "rest", 0, 5)],
)
def test_pages_of_an_array_are_whole(offset, size, first, pages, file, monkeypatch):
    monkeypatch.setattr(mapped_files, "LEAST_BYTES", 1)
    numbers = {"page": mmap.PAGESIZE, "all": len(file), "rest": len(file) - 3}
    begin = numbers.get(offset, offset)
    array = file.array(begin, (numbers.get(size, size),), np.dtype(np.uint8))
    found = mapped_files.pages_of(array)
    assert found == (file.address + first * mmap.PAGESIZE, pages * mmap.PAGESIZE)
    given = []
    monkeypatch.setattr(MappedFile, "give_back_part", lambda self, *part: given.append(part))
    mapped_files.give_back([array, np.zeros(5)])
    assert given == [(first * mmap.PAGESIZE, pages * mmap.PAGESIZE)]


def test_pages_of_repeated_elements_end_with_the_file(file, monkeypatch):
    monkeypatch.setattr(mapped_files, "LEAST_BYTES", 1 << 16)
    last = np.broadcast_to(file.array(len(file) - 1, (1,), np.dtype(np.uint8)), (1 << 16,))
    assert mapped_files.pages_of(last) == (file.address + 4 * mmap.PAGESIZE, mmap.PAGESIZE)
    assert mapped_files.pages_of(last[:-1]) is None
    assert mapped_files.file_of(np.asarray(memoryview(file)[5:])[1:]) is file
    assert mapped_files.file_of(np.zeros(3)) is None


@pytest.mark.parametrize(("size", "text"), [(0, ""), (1, ""), (-1, "a file that became shorter: "), (None, "no disk")])
def test_files_may_not_become_shorter(size, text, file, monkeypatch):
    def now(self):
        if size is None:
            raise OSError(5, "no disk")
        return len(self) + size

    monkeypatch.setattr(MappedFile, "size", now)
    arrays = [np.zeros(3), file.array(0, (3,), F32)]
    told = f"{text}.*the {len(file)} bytes that it had when the model was loaded; load the model again"
    with pytest.raises(og.FormatError, match=told) if text else nullcontext():
        mapped_files.refuse_shortened(arrays)


def test_a_mapped_file_knows_its_contents_and_its_changes(file, tmp_path):
    status = os.stat(file.path)
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    assert file.identity == identity
    assert file.path == str(tmp_path / "file")
    assert bytes(file.array(1, (1, 3), np.dtype(np.uint8))[0]) == b"\1\2\3"
    assert not file.is_changed()
    os.utime(file.path, ns=(1, 1))
    assert file.is_changed()
    os.utime(file.path, ns=(1, status.st_mtime_ns))
    assert not file.is_changed()
    with open(file.path, "ab") as more:
        more.write(b"1")
    os.utime(file.path, ns=(1, status.st_mtime_ns))
    assert file.is_changed()


@pytest.mark.parametrize("has_advice", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_pages_are_given_back_where_the_system_takes_them(has_advice, fails, monkeypatch):
    asked = []

    class Pages:
        def madvise(self, *given):
            asked.append(given)
            if fails:
                raise OSError(22, "locked")

        def __len__(self):
            return 9

        give_back_part = MappedFile.give_back_part

    monkeypatch.setattr(mapped_file, "mmap", SimpleNamespace(**({"MADV_DONTNEED": 4} if has_advice else {})))
    MappedFile.give_back(Pages())
    assert asked == ([(4, 0, 9)] if has_advice else [])


def test_a_mapped_file_closes_its_descriptor(file):
    descriptor, watch = file.descriptor, weakref.ref(file)
    assert os.fstat(descriptor).st_size == len(file)
    kept = MappedFile.of(descriptor, "again")
    own = kept.descriptor
    del kept
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(own)
    assert watch() is file


def test_source_files_are_opened_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").write_bytes(b"123")
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("full")
    files, noticed = SourceFiles(), []
    assert files.notice is None
    assert files.open("empty") is None
    files.notice = noticed.append
    first = files.open("link")
    assert bytes(first[:]) == b"123"
    assert first.path == "link"
    assert files.open(tmp_path / "link") is first
    assert files.open("empty") is None
    other = files.open("other", str(tmp_path / "full"))
    assert other is not first
    assert other.path == str(tmp_path / "full")
    real = os.path.realpath(tmp_path / "full")
    assert [(one.written, one.resolved) for one in noticed] == [(f"{tmp_path}/link", real), (f"{tmp_path}/other", real)]
    assert [one.mapped for one in files] == [None, first, other]
    with pytest.raises(NotRegularError):
        files.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.open("missing")
    assert len([*files]) == 3
