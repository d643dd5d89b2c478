"""Conditions about windows: the same as by listing every place, and as quick for axes of any size."""

import random
import time
from types import SimpleNamespace

import onegraph as og
from onegraph.faults.ops.windows import differs_undilated, leaves_gaps, misses_source
from onegraph.opset.window import AxisWindow


def test_windows_are_judged_as_by_listing_their_places():
    drawn = random.Random(1)
    for _ in range(3000):
        window = AxisWindow(*(drawn.randint(*bounds) for bounds in ((1, 5), (1, 6), (1, 7), (0, 9))), 0)
        size, count = drawn.randint(1, 14), drawn.randint(1, 7)
        starts = [number * window.stride - window.begin for number in range(count)]
        read = [{start + tap * window.dilation for tap in range(window.kernel)} & {*range(size)} for start in starts]
        assert misses_source(window, size, count) == (set() in read), (window, size, count)
        assert leaves_gaps(window, size, count) == (len(set().union(*read)) < size), (window, size, count)


def test_dilations_count_where_windows_read_other_elements_without_them():
    drawn = random.Random(2)
    for _ in range(3000):
        begin, end = drawn.choice((0, 0, 1, 3, 5, 9)), drawn.choice((0, 0, 0, 1, 4))
        window = AxisWindow(*(drawn.randint(*bounds) for bounds in ((1, 5), (1, 6), (1, 4))), begin, end)
        size = drawn.randint(max(1, window.extent - begin - end), max(1, window.extent - begin - end) + 8)
        read = []
        for dilation in (window.dilation, 1):
            reach = (window.kernel - 1) * dilation
            starts = range(-begin, size + end - reach, window.stride)
            places = [[start + tap * dilation for tap in range(window.kernel)] for start in starts]
            read.append([[place if 0 <= place < size else None for place in one] for one in places])
        for wide, dilation in (((size,), window.dilation), (None, window.dilation)):
            geometry = SimpleNamespace(window=lambda _, window=window: window, wide=wide, dilations=(dilation,))
            differs = dilation != 1 if wide is None else read[0] != read[1]
            assert differs_undilated(geometry, 0) is differs, (window, wide)


def test_long_axes_are_checked_at_once():
    began = time.process_time()
    row = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX"}
    tensors = [("bf16", (1, 1, 2**31 - 256)), ("bf16", (3, 1, 1))]
    assert "long_axis" in {one.rule for one in og.check_op("Convolution", row, tensors, library="3.6")}
    transposed = [("bf16", (1, 4, 2**21)), ("bf16", (4096, 4, 4)), ("bf16", (4,))]
    og.check_op("ConvTranspose", {**row, "strides": [512]}, transposed, library="3.13")
    assert time.process_time() - began < 2
