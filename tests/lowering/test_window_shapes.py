"""Padding of windows and the elements in them, by hand and in plain loops."""

import itertools

import numpy as np
import pytest

from onegraph.lowering.compression import coded
from onegraph.lowering.packed import packed_points, two_bits_as_four, unpacked_points
from onegraph.lowering.windows import Window, _counts


def window(step, begin, end, apart, auto_pad="None"):
    return Window([step], [begin], [end], [apart], auto_pad)


@pytest.mark.parametrize(
    ("geometry", "size", "kernel", "ceil", "pads"),
    [
        (window(1, 1, 2, 1), 5, 3, False, (1, 2)),
        (window(1, 9, 9, 1, "VALID"), 5, 3, False, (0, 0)),
        # 5 windows of 4 elements need 3 more than the 5 that there are.
        (window(1, 9, 9, 1, "SAME_UPPER"), 5, 4, False, (1, 2)),
        (window(1, 9, 9, 1, "SAME_LOWER"), 5, 4, False, (2, 1)),
        (window(2, 9, 9, 1, "SAME_UPPER"), 5, 3, False, (1, 1)),
        (window(3, 9, 9, 1, "SAME_UPPER"), 6, 2, False, (0, 0)),
        (window(1, 9, 9, 2, "SAME_UPPER"), 5, 2, False, (1, 1)),
        # Windows begin at 0, 2 and 4; the last one ends one element behind the padding.
        (window(2, 0, 0, 1), 6, 3, True, (0, 1)),
        (window(2, 0, 0, 1), 7, 3, True, (0, 0)),
        (window(2, 1, 1, 1), 5, 3, True, (1, 1)),
        (window(3, 0, 0, 1), 5, 2, True, (0, 0)),
        # A window at 4 would begin behind the elements, so that it does not count.
        (window(2, 0, 1, 1), 4, 2, True, (0, 0)),
        (window(2, 1, 1, 1), 3, 2, True, (1, 0)),
    ],
)
def test_padding_is_that_by_hand(geometry, size, kernel, ceil, pads):
    found = geometry.settled([size], [kernel], ceil)
    assert ((*found.begin, *found.end), found.auto_pad) == (pads, "None")
    assert (found.strides, found.dilations) == (geometry.strides, geometry.dilations)


@pytest.mark.parametrize("counted", [(0, 0), (1, 1)])
def test_elements_of_windows_are_counted(counted):
    for step, apart, (begin, end) in itertools.product((1, 2), (1, 2), ((0, 0), (1, 2))):
        found = _counts([5], [3], window(step, begin, end, apart), ([counted[0]], [counted[1]]))
        wanted = [
            sum(-counted[0] <= place < 5 + counted[1] for place in range(start, start + 3 * apart, apart))
            for start in range(-begin, 5 + end - 2 * apart, step)
        ]
        assert found.tolist() == [[wanted]]


def test_counts_of_two_axes_are_products():
    both = Window([1, 1], [1, 0], [1, 0], [1, 1])
    assert _counts([2, 3], [2, 2], both, ([0, 0], [0, 0])).tolist() == [[[[2, 2], [4, 4], [2, 2]]]]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_zero_points_are_packed_and_unpacked(bits):
    points = np.uint8([[1, 2, 3, 0, 1], [3, 2, 1, 0, 2]])
    rows = packed_points(points, bits)
    for row, expected in zip(rows, points, strict=True):
        whole = int.from_bytes(row.tobytes(), "little")
        assert [whole >> bits * place & (1 << bits) - 1 for place in range(5)] == expected.tolist()
    np.testing.assert_array_equal(unpacked_points(rows, bits, 5), points)


def test_codes_of_two_bits_become_codes_of_four():
    assert two_bits_as_four(np.uint8([[0b11100100, 0b00000001]])).tolist() == [[0x10, 0x32, 0x01, 0x00]]


def test_codes_by_hand():
    """The number of the largest size has the code -8 of 4 bits, and 127 or -127 of 8 bits."""
    rows, scales, error = coded(np.float32([[4, -2, 1, 0]]), "u4", 0)
    assert (scales.tolist(), error) == ([[-0.5]], 0)  # 4 / -8; the codes are -8, 4, -2, 0, and 8 is added
    assert rows[:, :2].tolist() == [[0 | 12 << 4, 6 | 8 << 4]]
    assert not rows[:, 2:].any()
    rows, scales, error = coded(np.float32([[127, -64], [-254, 2]]), "s8", 0)
    assert (scales.tolist(), error) == ([[1], [2]], 0)
    assert rows.view(np.int8)[:, :2].tolist() == [[127, -64], [-127, 1]]
    rows, scales, error = coded(np.zeros((1, 4), np.float32), "s8", 2)
    assert (rows.any(), scales.tolist(), error) == (False, [[0, 0]], 0)
    _, scales, _ = coded(np.float32([[127, 1, 254]]), "s8", 2)
    assert scales.tolist() == [[1, 2]]
    _, scales, error = coded(np.float32([[127, 0.4]]), "s8", 5)
    assert scales.tolist() == [[1]]
    assert error == pytest.approx(0.4 / np.hypot(127, 0.4))
