"""What is read of known arrays, and how an emitter keeps them, by hand."""

import mmap
from contextlib import nullcontext

import numpy as np
import pytest

from onegraph._util.mapped_file import MappedFile
from onegraph.errors import ArgumentError
from onegraph.lowering.computed import MAX_COMPUTED, refuse_large
from onegraph.lowering.emitter import _kept
from onegraph.lowering.patterns.attention import HIDDEN, _is_causal
from onegraph.opset.dtypes import DataType

LESS = np.nextafter(np.float32(HIDDEN), np.float32(-np.inf))
CAUSAL = np.where(np.tril(np.ones((3, 3), bool)), np.float32(0), LESS)


def with_one(place, number):
    array = CAUSAL.copy()
    array[place] = number
    return array


@pytest.mark.parametrize(
    ("mask", "is_causal"),
    [
        (CAUSAL, True),
        (CAUSAL[None, None], True),
        (CAUSAL[:2], True),
        (CAUSAL[:, :2], True),
        (None, False),
        (CAUSAL[0], False),
        (np.float32(0), False),
        (np.stack([CAUSAL, CAUSAL]), False),
        (with_one((0, 2), HIDDEN), False),
        (with_one((0, 2), -np.inf), True),
        (with_one((2, 0), 1), False),
        (with_one((1, 1), LESS), False),
        (with_one((0, 1), 0), False),
    ],
)
def test_causal_masks_hide_later_keys_alone(mask, is_causal):
    assert _is_causal(None if mask is None else np.asarray(mask)) is is_causal


def test_dense_constants_are_kept_without_a_copy():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    kept = _kept(array)
    assert np.shares_memory(kept, array)
    assert (kept.flags.writeable, array.flags.writeable) == (False, True)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.arange(6, dtype=np.float32)[::2],
        np.frombuffer(bytes(range(9)), np.float32, 2, offset=1),
    ],
)
def test_constants_of_another_layout_are_copied(array):
    kept = _kept(array)
    assert not np.shares_memory(kept, array)
    assert kept.flags.c_contiguous
    assert kept.flags.aligned
    assert not kept.flags.writeable
    np.testing.assert_array_equal(kept, array)


def test_arrays_in_mapped_files_are_kept_where_they_lie(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(9)))
    with path.open("rb") as file:
        mapped = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(mapped, np.float32, 2, offset=1)
    kept = _kept(array)
    assert np.shares_memory(kept, array)
    assert not kept.flags.aligned


def test_numbers_are_kept_as_arrays():
    assert (_kept(np.float32(3)).shape, _kept(np.float32(3)).tolist()) == ((), 3.0)


@pytest.mark.parametrize(
    ("shape", "dtype", "is_large"),
    [
        ((MAX_COMPUTED,), DataType.u8, False),
        ((MAX_COMPUTED + 1,), DataType.u8, True),
        ((2, MAX_COMPUTED // 8), DataType.f32, False),
        ((1, MAX_COMPUTED // 4 + 1), DataType.f32, True),
        ((None, MAX_COMPUTED), DataType.f32, False),
    ],
)
def test_constants_that_no_file_holds_are_refused(shape, dtype, is_large):
    with pytest.raises(ArgumentError, match="a constant of shape") if is_large else nullcontext():
        refuse_large(shape, dtype)
