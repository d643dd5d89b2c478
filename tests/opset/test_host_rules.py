"""Findings and shapes of host ops by hand: unknown ranks and dims, and what lies at both sides of each bound."""

import numpy as np
import pytest

from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import HOST, edition
from onegraph.opset.host.attention import scale_of
from onegraph.opset.schema import Call, TensorType

WINDOW = {"kernel": (3, 3), "strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
TOKENS = "(batch, heads, tokens, size)"
ANGLES = "(rows, angles) beside lengths, else (batch, heads, tokens, angles)"
IMAGES = "(batches, channels, height, width)"
SPATIAL = "(batches, channels, one to three spatial dims)"


def call_of(kind, attrs, **given):
    """A call whose inputs are shapes, lists of numbers that are known, or unknown."""
    schema = edition(HOST).schemas[kind]
    types = {None: None}
    for port, one in given.items():
        value = np.array(one, np.int64) if isinstance(one, list) else None
        shape = None if one == "unknown" else one if value is None else value.shape
        types[port] = TensorType(DataType.f32 if value is None else DataType.s64, shape, value)
    return Call(schema, attrs, [types.get(port.name) for port in schema.inputs])


def told(call):
    schema = call.schema
    return [
        f"{one.where}: {one.given}; {one.expected}" for rule in schema.rules + schema.shape_rules for one in rule(call)
    ]


CASES = [
    ("NonMaxSuppression", {}, {"boxes": (1, 6, 4), "scores": (1, 2, 6)}, []),
    ("NonMaxSuppression", {}, {"boxes": (1, 6, None), "scores": (1, 2, None)}, []),
    ("NonMaxSuppression", {}, {"boxes": "unknown", "scores": "unknown"}, []),
    (
        "NonMaxSuppression",
        {},
        {"boxes": (1, 6, 5), "scores": (1, 2, 6)},
        ["boxes: shape [1, 6, 5]; (batches, boxes, 4)"],
    ),
    ("NonMaxSuppression", {}, {"boxes": (6, 4), "scores": (1, 2, 6)}, ["boxes: shape [6, 4]; (batches, boxes, 4)"]),
    (
        "NonMaxSuppression",
        {},
        {"boxes": "unknown", "scores": (2, 6)},
        ["scores: shape [2, 6]; (batches, classes, boxes)"],
    ),
    (
        "NonMaxSuppression",
        {},
        {"boxes": (1, 6, 4), "scores": (1, 6, 2)},
        ["scores: shape [1, 6, 2]; the batches and boxes of [1, 6, 4] of boxes"],
    ),
    (
        "NonMaxSuppression",
        {},
        {"boxes": (1, 6, 4), "scores": (2, 2, 6)},
        ["scores: shape [2, 2, 6]; the batches and boxes of [1, 6, 4] of boxes"],
    ),
    ("RoiAlign", {}, {"src": (1, 2, 8, 8), "boxes": (3, 4), "images": (3,)}, []),
    ("RoiAlign", {}, {"src": "unknown", "boxes": (3, None), "images": (None,)}, []),
    ("RoiAlign", {}, {"src": (1, 2, 8), "boxes": (3, 4), "images": (3,)}, [f"src: shape [1, 2, 8]; {IMAGES}"]),
    ("RoiAlign", {}, {"src": "unknown", "boxes": (3, 5), "images": (3,)}, ["boxes: shape [3, 5]; (count, 4)"]),
    ("RoiAlign", {}, {"src": "unknown", "boxes": (3,), "images": (3,)}, ["boxes: shape [3]; (count, 4)"]),
    ("RoiAlign", {}, {"boxes": (3, 4), "images": (3, 1)}, ["images: shape [3, 1]; one number for each box"]),
    ("RoiAlign", {}, {"boxes": (3, 4), "images": (4,)}, ["images: shape [4]; one number for each box"]),
    ("RoiAlign", {}, {"boxes": "unknown", "images": (4,)}, []),
    ("RoiAlign", {}, {"boxes": "unknown", "images": "unknown"}, []),
    ("MaxPoolPlaces", WINDOW, {"src": (1, 2, 8, 8)}, []),
    ("MaxPoolPlaces", WINDOW, {"src": "unknown"}, []),
    ("MaxPoolPlaces", WINDOW, {"src": (1, 2)}, [f"src: shape [1, 2]; {SPATIAL}"]),
    ("MaxPoolPlaces", WINDOW, {"src": (1,) * 6}, [f"src: shape [1, 1, 1, 1, 1, 1]; {SPATIAL}"]),
    (
        "MaxPoolPlaces",
        {**WINDOW, "strides": (1,)},
        {"src": "unknown"},
        ["strides: [1]; 2 numbers, one for each spatial axis"],
    ),
    (
        "MaxPoolPlaces",
        {**dict.fromkeys(WINDOW, (1,)), "pads_end": (1, 1)},
        {"src": (1, 2, 8)},
        ["pads_end: [1, 1]; 1 number, one for each spatial axis"],
    ),
    ("MaxPoolPlaces", dict.fromkeys(WINDOW, (1, 1, 1)), {"src": (1, 2, 8, 8, 8)}, []),
    ("MaxUnpool", {}, {"src": (1, 2), "indices": (1, 2), "shape": [2, 4]}, []),
    (
        "MaxUnpool",
        {},
        {"src": (1, 2), "indices": (1, 3), "shape": [2, 4]},
        ["indices: shape [1, 3]; shape [1, 2], as src has"],
    ),
    (
        "DeformColumns",
        {**WINDOW, "offset_groups": 2},
        {"src": (1, 4, 5, 5), "offsets": (1, 36, 3, 3), "mask": (1, 18, 3, 3)},
        [],
    ),
    ("DeformColumns", {**WINDOW, "offset_groups": 2}, {"src": (1, None, 5, 5), "offsets": (1, 36, 3, 3)}, []),
    ("DeformColumns", WINDOW, {"src": "unknown", "offsets": (1, 2)}, []),
    ("DeformColumns", WINDOW, {"src": (1, 4, 5), "offsets": (1, 2)}, [f"src: shape [1, 4, 5]; {IMAGES}"]),
    (
        "DeformColumns",
        {**WINDOW, "offset_groups": 3},
        {"src": (1, 4, 5, 5), "offsets": (1, 54, 3, 3)},
        ["offset_groups: 3; a divisor of 4, the number of channels"],
    ),
    (
        "DeformColumns",
        {**WINDOW, "offset_groups": 2},
        {"src": (1, 4, 5, 5), "offsets": (1, 18, 3, 3)},
        ["offsets: shape [1, 18, 3, 3]; shape [1, 36, 3, 3]"],
    ),
    (
        "DeformColumns",
        WINDOW,
        {"src": (1, 4, 5, 5), "offsets": (1, 18, 3, 3), "mask": (1, 18, 3, 3)},
        ["mask: shape [1, 18, 3, 3]; shape [1, 9, 3, 3]"],
    ),
    (
        "DeformColumns",
        {**WINDOW, "kernel": (3,)},
        {"src": (1, 4, 5, 5), "offsets": (1, 6, 3, 3)},
        ["kernel: [3]; 2 numbers, one for each spatial axis"],
    ),
    ("GridSample", {}, {"src": (1, 2, 5, 5), "grid": (1, 3, 3, 2)}, []),
    ("GridSample", {}, {"src": (1, 2, 5), "grid": (1, 3, 1)}, []),
    ("GridSample", {"mode": "cubic"}, {"src": (1, 2, 5, 5), "grid": (1, 3, 3, 2)}, []),
    ("GridSample", {}, {"src": (1, 2, 5, 5, 5), "grid": (1, 3, 3, 3, 3)}, []),
    (
        "GridSample",
        {"mode": "cubic"},
        {"src": (1, 2, 5, 5, 5), "grid": (1, 3, 3, 3, 3)},
        ["mode: cubic; linear or nearest for volumes"],
    ),
    ("GridSample", {}, {"src": "unknown", "grid": (1, 3)}, []),
    ("GridSample", {}, {"src": (1, 2), "grid": "unknown"}, []),
    ("GridSample", {}, {"src": (1, 2), "grid": (1, 2)}, [f"src: shape [1, 2]; {SPATIAL}"]),
    ("GridSample", {}, {"src": (1,) * 6, "grid": (1, 2)}, [f"src: shape [1, 1, 1, 1, 1, 1]; {SPATIAL}"]),
    ("GridSample", {}, {"src": (1, 2, 5, 5), "grid": (1, 3, 2)}, ["grid: shape [1, 3, 2]; (1, dims, dims, 2)"]),
    ("GridSample", {}, {"src": (1, 2, 5, 5), "grid": (1, 3, 3, 3)}, ["grid: shape [1, 3, 3, 3]; (1, dims, dims, 2)"]),
    ("GridSample", {}, {"src": (1, 2, 5, 5), "grid": (2, 3, 3, 2)}, ["grid: shape [2, 3, 3, 2]; (1, dims, dims, 2)"]),
    ("Compress", {"axis": 1}, {"src": (2, 3), "condition": (3,)}, []),
    ("Compress", {"axis": -2}, {"src": (2, 3), "condition": (2,)}, []),
    ("Compress", {"axis": 1}, {"src": (2, None), "condition": (9,)}, []),
    ("Compress", {"axis": 1}, {"src": (2, 3), "condition": "unknown"}, []),
    ("Compress", {"axis": 5}, {"src": "unknown", "condition": (9,)}, []),
    ("Compress", {"axis": 1}, {"src": (2, 3), "condition": (None,)}, []),
    ("Compress", {"axis": 1}, {"src": (2, 3), "condition": (3, 1)}, ["condition: shape [3, 1]; one axis"]),
    ("Compress", {"axis": 2}, {"src": (2, 3), "condition": (3,)}, ["axis: 2; an axis of [2, 3]"]),
    ("Compress", {"axis": -3}, {"src": (2, 3), "condition": (3,)}, ["axis: -3; an axis of [2, 3]"]),
    (
        "Compress",
        {"axis": 1},
        {"src": (2, 3), "condition": (4,)},
        ["condition: shape [4]; at most 3 elements, the size of the axis"],
    ),
    ("Attention", {}, {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "mask": (5, 6)}, []),
    ("Attention", {}, {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "mask": (1, 4, 1, None)}, []),
    ("Attention", {}, {"query": (None, None, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "mask": "unknown"}, []),
    ("Attention", {}, {"query": "unknown", "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "mask": (7, 7)}, []),
    ("Attention", {}, {"query": (2, 4, 5, 8), "key": "unknown", "value": (2, 2, 6, 3), "mask": (7, 7)}, []),
    (
        "Attention",
        {},
        {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "mask": (5, 7)},
        ["mask: shape [5, 7]; a shape that broadcasts to [2, 4, 5, 6]"],
    ),
    (
        "Attention",
        {},
        {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "mask": (1, 1, 1, 1, 1)},
        ["mask: shape [1, 1, 1, 1, 1]; a shape that broadcasts to [2, 4, 5, 6]"],
    ),
    (
        "Attention",
        {},
        {"query": (2, 3, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3)},
        ["key: 2 heads; a divisor of 3, the number of heads of query"],
    ),
    (
        "Attention",
        {},
        {"query": (2, 3, 5, 8), "key": (2, 0, 6, 8), "value": (2, 0, 6, 3)},
        ["key: 0 heads; a divisor of 3, the number of heads of query"],
    ),
    (
        "Attention",
        {},
        {"query": (None, 4, 5, 8), "key": (2, 4, 6, 8), "value": (3, 4, 6, 3)},
        ["value: shape [3, 4, 6, 3]; a shape like [2, 4, 6, ?], where None is any number"],
    ),
    (
        "Attention",
        {},
        {"query": (2, 4, 5, 8), "key": (2, 4, 6, 7), "value": (2, 4, 6, 3)},
        ["key: shape [2, 4, 6, 7]; a shape like [2, ?, ?, 8], where None is any number"],
    ),
    ("CachedAttention", {}, {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "lengths": (2,)}, []),
    (
        "CachedAttention",
        {},
        {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3), "lengths": (3,)},
        ["lengths: shape [3]; shape [2], one for each batch"],
    ),
    ("Rotary", {}, {"src": (2, 3, 5, 8), "cos": (1, 1, 5, 4), "sin": (1, 1, 5, 4)}, []),
    ("Rotary", {}, {"src": (2, 3, 5, 8), "cos": (2, 3, 5, None), "sin": (2, 3, 5, 4)}, []),
    ("Rotary", {"whole": True}, {"src": (2, 3, 5, 8), "cos": (1, 1, 5, 8), "sin": (1, 1, 5, 8)}, []),
    ("Rotary", {}, {"src": (2, 3, 5, None), "cos": (1, 1, 5, 9), "sin": (1, 1, 5, 9)}, []),
    ("Rotary", {}, {"src": "unknown", "cos": (1, 5), "sin": (1, 5)}, []),
    ("Rotary", {}, {"src": (2, 3, 5, 8), "cos": (9, 4), "sin": (9, 4), "lengths": (2,)}, []),
    ("Rotary", {}, {"src": (2, 3, 8), "cos": (5, 4), "sin": (5, 4)}, [f"src: shape [2, 3, 8]; {TOKENS}"]),
    ("Rotary", {}, {"src": (2, 3, 5, 8), "cos": (5, 4), "sin": (5, 4)}, [f"cos: shape [5, 4]; {ANGLES}"]),
    ("Rotary", {}, {"src": (2, 3, 5, 8), "cos": (1, 5, 4), "sin": (1, 5, 4)}, [f"cos: shape [1, 5, 4]; {ANGLES}"]),
    (
        "Rotary",
        {},
        {"src": (2, 3, 5, 8), "cos": (1, 1, 5, 4), "sin": (1, 1, 5, 4), "lengths": (2,)},
        [f"cos: shape [1, 1, 5, 4]; {ANGLES}"],
    ),
    (
        "Rotary",
        {},
        {"src": (2, 3, 5, 8), "cos": (1, 1, 5, 4), "sin": (1, 1, 5, 3)},
        ["sin: shape [1, 1, 5, 3]; shape [1, 1, 5, 4], as cos has"],
    ),
    (
        "Rotary",
        {},
        {"src": (2, 3, 5, 8), "cos": (1, 2, 5, 4), "sin": (1, 2, 5, 4)},
        ["cos: shape [1, 2, 5, 4]; a shape that broadcasts to [2, 3, 5] and angles"],
    ),
    (
        "Rotary",
        {},
        {"src": (2, 3, 5, 8), "cos": (1, 1, 5, 5), "sin": (1, 1, 5, 5)},
        ["cos: 5 angles; angles of pairs of the 8 numbers of a head"],
    ),
    (
        "Rotary",
        {"whole": True},
        {"src": (2, 3, 5, 8), "cos": (1, 1, 5, 7), "sin": (1, 1, 5, 7)},
        ["cos: 7 angles; angles of pairs of the 8 numbers of a head"],
    ),
    ("ExtendCache", {}, {"past": (2, 3, 5, 8), "rows": (2, 3, 1, 8), "lengths": (2,)}, []),
    ("ExtendCache", {}, {"past": "unknown", "rows": (2, 3, 1, 8), "lengths": (2,)}, []),
    ("ExtendCache", {}, {"past": (2, 5, 8), "rows": (2, 1, 8)}, [f"past: shape [2, 5, 8]; {TOKENS}"]),
    ("ExtendCache", {}, {"past": (2, 3, 5, 8), "rows": (2, 1, 8)}, [f"rows: shape [2, 1, 8]; {TOKENS}"]),
    (
        "ExtendCache",
        {},
        {"past": (2, 3, 5, 8), "rows": (2, 4, 1, 8)},
        ["rows: shape [2, 4, 1, 8]; shape [2, 3, ?, 8], where None is any number"],
    ),
    ("WeightedGather", {"axis": 0}, {"src": (3, 2), "indices": [[0, 2]], "weights": (1, 2)}, []),
    ("WeightedGather", {"axis": 0}, {"src": (None, 2), "indices": [[0, 9]], "weights": (1, 2)}, []),
    ("WeightedGather", {"axis": 0}, {"src": (3, 2), "indices": (1, 2), "weights": (1, 2)}, []),
    ("WeightedGather", {"axis": 0}, {"src": (0, 2), "indices": (1, 2), "weights": (1, 2)}, []),
    ("WeightedGather", {"axis": 0}, {"src": "unknown", "indices": [[7, 8]], "weights": "unknown"}, []),
    (
        "WeightedGather",
        {"axis": 0},
        {"src": (3, 2), "indices": [[0, 3]], "weights": (1, 2)},
        ["indices: 3; indices below 3, the size of axis"],
    ),
    (
        "WeightedGather",
        {"axis": 0},
        {"src": (3, 2), "indices": [0, 1], "weights": (1, 2)},
        ["indices: shape [2]; two axes: the elements of dst, and those of src for each"],
    ),
    (
        "WeightedGather",
        {"axis": 0},
        {"src": (3, 2), "indices": (1, 2), "weights": (2, 2)},
        ["weights: shape [2, 2]; shape [1, 2], as indices has"],
    ),
    ("GatherND", {"batch_dims": 0}, {"src": (2, 3), "indices": (4, 2)}, []),
    ("GatherND", {"batch_dims": 1}, {"src": (2, 3), "indices": (2, 1)}, []),
    ("GatherND", {"batch_dims": 0}, {"src": (2, 3), "indices": (4, None)}, []),
    ("GatherND", {"batch_dims": 0}, {"src": "unknown", "indices": (4, 3)}, []),
    ("GatherND", {"batch_dims": 0}, {"src": (2, 3), "indices": "unknown"}, []),
    (
        "GatherND",
        {"batch_dims": 0},
        {"src": (2, 3), "indices": (4, 3)},
        ["indices: shape [4, 3]; a last dim of at most 2"],
    ),
    (
        "GatherND",
        {"batch_dims": 1},
        {"src": (2, 3), "indices": (2, 2)},
        ["indices: shape [2, 2]; a last dim of at most 1"],
    ),
    (
        "GatherND",
        {"batch_dims": 1},
        {"src": (2, 3), "indices": (3, 1)},
        ["indices: shape [3, 1]; the first 1 dims of [2, 3] of src"],
    ),
    (
        "GatherND",
        {"batch_dims": 2},
        {"src": (2, 3, 4), "indices": (2, 1)},
        ["batch_dims: 2; a number below 2, the rank of indices"],
    ),
    ("ScatterND", {}, {"src": (2, 3), "indices": (4, 1), "updates": (4, 3)}, []),
    ("ScatterND", {}, {"src": (2, 3), "indices": (4, 2), "updates": (4,)}, []),
    ("ScatterND", {}, {"src": (2, 3), "indices": (4, None), "updates": (9,)}, []),
    (
        "ScatterND",
        {},
        {"src": (2, 3), "indices": (4, 1), "updates": (4, 2)},
        ["updates: shape [4, 2]; shape [4, 3], as indices [4, 1] and src [2, 3] ask for"],
    ),
    ("TopK", {"axis": 1}, {"src": (2, 3), "k": [3]}, []),
    ("TopK", {"axis": 1}, {"src": (2, 3), "k": [0]}, []),
    ("TopK", {"axis": 1}, {"src": (2, None), "k": [9]}, []),
    ("TopK", {"axis": 1}, {"src": (2, 3), "k": [4]}, ["k: 4; a number of 0 to 3, the size of axis"]),
    ("Tile", {}, {"src": (2, 3), "repeats": [1, 2]}, []),
    ("Tile", {}, {"src": (2, 3), "repeats": [1, 2, 3]}, ["repeats: 3 elements; 2 elements, for 2 axes"]),
    ("Tile", {}, {"src": "unknown", "repeats": [1, 2, 3]}, []),
    ("Pad", {}, {"src": (2, 3), "pads": [0, 0, 1, -3]}, []),
    ("Pad", {}, {"src": (2, 3), "pads": [0, -2, 1, -1]}, []),
    ("Pad", {}, {"src": (None, 3), "pads": [-9, 0, 0, 0]}, []),
    (
        "Pad",
        {},
        {"src": (2, 3), "pads": [0, -2, 1, -2]},
        ["pads: [0, -2, 1, -2]; no cut of more elements than src has, [2, 3]"],
    ),
    ("Pad", {}, {"src": (2, 3), "pads": [0, 1]}, ["pads: 2 elements; 4 elements, for 2 axes"]),
    ("Pad", {"mode": "constant"}, {"src": (0, 3), "pads": [1, 0, 0, 0]}, []),
    ("Pad", {"mode": "edge"}, {"src": (0, 3), "pads": [0, 1, 0, 0]}, []),
    (
        "Pad",
        {"mode": "edge"},
        {"src": (0, 3), "pads": [0, 0, 1, 0]},
        ["pads: [0, 0, 1, 0]; mode constant for an axis without elements, src has [0, 3]"],
    ),
    ("Reshape", {}, {"src": (2, 3), "shape": [3, -1]}, []),
    ("Reshape", {}, {"src": (2, 3), "shape": [3, 2]}, []),
    ("Reshape", {}, {"src": (2, 0), "shape": [0, -1]}, []),
    ("Reshape", {}, {"src": (2, None), "shape": [7]}, []),
    ("Reshape", {}, {"src": (2, 3), "shape": [-1, -1]}, ["shape: [-1, -1]; dims of 0 or more, and at most one -1"]),
    ("Reshape", {}, {"src": (2, 3), "shape": [6, -2]}, ["shape: [6, -2]; dims of 0 or more, and at most one -1"]),
    ("Reshape", {}, {"src": (2, 3), "shape": [4, -1]}, ["shape: [4, -1]; a shape of 6 elements, as src has"]),
    ("Reshape", {}, {"src": (2, 3), "shape": [0, -1]}, ["shape: [0, -1]; a shape of 6 elements, as src has"]),
    ("Reshape", {}, {"src": (2, 3), "shape": [7]}, ["shape: [7]; a shape of 6 elements, as src has"]),
    ("Squeeze", {"axes": (0, -1)}, {"src": (1, 3, 1)}, []),
    ("Squeeze", {"axes": (1,)}, {"src": (1, None, 1)}, []),
    ("Squeeze", {"axes": (1,)}, {"src": (1, 3, 1)}, ["axes: [1]; axes of size 1 of [1, 3, 1]"]),
    ("Squeeze", {"axes": (3,)}, {"src": (1, 3, 1)}, ["axes: [3]; axes of a rank 3 tensor, -3 to 2"]),
    ("Unsqueeze", {"axes": (0, -1)}, {"src": (3,)}, []),
    ("Unsqueeze", {"axes": (0, -3)}, {"src": (3,)}, ["axes: [0, -3]; different axes of dst, -3 to 2"]),
    ("Unsqueeze", {"axes": (3,)}, {"src": (3, 3)}, ["axes: [3]; different axes of dst, -3 to 2"]),
    ("Slice", {}, {"src": (4, 5), "starts": [0, 1], "ends": [2, 3]}, []),
    (
        "Slice",
        {},
        {"src": (4, 5), "starts": [0, 1, 2], "ends": [2, 3, 4]},
        ["starts: 3 elements; at most 2, one for each axis of src"],
    ),
    ("Slice", {}, {"src": (4, 5), "starts": [0], "ends": [2, 3]}, ["ends: 2 elements; 1 elements, as starts has"]),
    (
        "Slice",
        {},
        {"src": (4, 5), "starts": [0], "ends": [2], "axes": [2]},
        ["axes: [2]; axes of a rank 2 tensor, -2 to 1"],
    ),
    (
        "Slice",
        {},
        {"src": (4, 5), "starts": [0], "ends": [2], "axes": [1], "steps": [0]},
        ["steps: [0]; steps other than 0"],
    ),
    ("Expand", {}, {"src": (2, 1), "shape": [3, 1, 4]}, []),
    ("Expand", {}, {"src": (2, 3), "shape": [4]}, ["shape: [4]; a shape that broadcasts with [2, 3] of src"]),
    ("Triangle", {}, {"src": (2, 3)}, []),
    ("Triangle", {}, {"src": (2,)}, ["src: rank 1; at least two axes"]),
]


@pytest.mark.parametrize("first", range(0, len(CASES), 20))
def test_host_ops_find_mistakes_of_shapes(first):
    for kind, attrs, given, expected in CASES[first : first + 20]:
        assert told(call_of(kind, attrs, **given)) == expected, (kind, attrs, given)


SHAPES = [
    ("RoiAlign", {"rows": 5, "columns": 6}, {"src": (1, 2, 8, 8), "boxes": (3, 4)}, (3, 2, 5, 6)),
    ("RoiAlign", {"rows": 5, "columns": 6}, {"src": "unknown", "boxes": "unknown"}, (None, None, 5, 6)),
    ("MaxPoolPlaces", WINDOW, {"src": (1, 2, 8, None)}, (1, 2, 6, None)),
    ("MaxPoolPlaces", {**WINDOW, "pads_begin": (2, 0), "pads_end": (0, 1)}, {"src": (1, 2, 8, 8)}, (1, 2, 8, 7)),
    ("MaxPoolPlaces", {**WINDOW, "dilations": (2, 3), "strides": (2, 1)}, {"src": (1, 2, 9, 8)}, (1, 2, 3, 2)),
    ("MaxPoolPlaces", WINDOW, {"src": (1, 2, 2, 1)}, (1, 2, 0, 0)),
    ("DeformColumns", WINDOW, {"src": (1, 4, 5, 5), "offsets": (1, 18, 3, 4)}, (1, 4, 9, 12)),
    ("DeformColumns", WINDOW, {"src": "unknown", "offsets": (1, 18, 3, None)}, (None, None, 9, None)),
    ("GridSample", {}, {"src": (1, 2, 5, 5), "grid": (1, 3, 4, 2)}, (1, 2, 3, 4)),
    ("Compress", {"axis": -1}, {"src": (2, 3)}, (2, None)),
    ("Compress", {"axis": 0}, {"src": (2, 3)}, (None, 3)),
    ("Attention", {}, {"query": (2, 4, 5, 8), "value": (2, 2, 6, 3)}, (2, 4, 5, 3)),
    ("ExtendCache", {"room": 7}, {"past": (2, 3, 5, 8)}, (2, 3, 7, 8)),
    ("ExtendCache", {"room": 3}, {"past": (2, 3, 5, 8)}, (2, 3, 5, 8)),
    ("ExtendCache", {"room": 9}, {"past": (2, 3, 5, 8), "total": [6]}, (2, 3, 6, 8)),
    ("ExtendCache", {"room": 9}, {"past": (2, 3, 5, 8), "total": ()}, (2, 3, None, 8)),
    ("ExtendCache", {"room": 9}, {"past": (2, 3, None, 8)}, (2, 3, None, 8)),
    ("WeightedGather", {"axis": 1}, {"src": (3, 2), "indices": (4, 5)}, (3, 4)),
    ("Gather", {"axis": 1}, {"src": (3, 2, 6), "indices": (4, 5)}, (3, 4, 5, 6)),
    ("Gather", {"axis": -1}, {"src": (3, 2, 6), "indices": ()}, (3, 2)),
    ("GatherND", {"batch_dims": 1}, {"src": (2, 3, 4), "indices": (2, 5, 1)}, (2, 5, 4)),
    ("GatherND", {"batch_dims": 0}, {"src": (2, 3, 4), "indices": (2, 5, 1)}, (2, 5, 3, 4)),
    ("OneHot", {"axis": -1}, {"indices": (2, 3), "depth": [5]}, (2, 3, 5)),
    ("OneHot", {"axis": 0}, {"indices": (2, 3), "depth": [5]}, (5, 2, 3)),
    ("OneHot", {"axis": 1}, {"indices": (2, 3), "depth": ()}, (2, None, 3)),
    ("ArgMax", {"axis": 1, "keep_dims": True}, {"src": (2, 3, 4)}, (2, 1, 4)),
    ("ArgMax", {"axis": 1, "keep_dims": False}, {"src": (2, 3, 4)}, (2, 4)),
    ("TopK", {"axis": 0}, {"src": (2, 3), "k": [1]}, (1, 3)),
    ("NonZero", {}, {"src": (2, 3)}, (2, None)),
    ("Range", {}, {"start": [2], "limit": [9], "step": [3]}, (3,)),
    ("Range", {}, {"start": [2], "limit": [8], "step": [3]}, (2,)),
    ("Range", {}, {"start": [9], "limit": [2], "step": [-3]}, (3,)),
    ("Range", {}, {"start": [9], "limit": [2], "step": [3]}, (0,)),
    ("Range", {}, {"start": [9], "limit": (), "step": [3]}, (None,)),
    ("Reshape", {}, {"src": (0, 6), "shape": [0, -1, 2]}, (0, 3, 2)),
    ("Reshape", {}, {"src": (2, 6), "shape": [3, -1]}, (3, 4)),
    ("Reshape", {}, {"src": (2, None), "shape": [3, -1]}, (3, None)),
    ("Reshape", {}, {"src": (2, 6), "shape": (3,)}, (None, None, None)),
    ("Squeeze", {"axes": (0, -1)}, {"src": (1, 3, 1)}, (3,)),
    ("Unsqueeze", {"axes": (0, -1)}, {"src": (3,)}, (1, 3, 1)),
    ("Expand", {}, {"src": (2, 1), "shape": (3,)}, (None, None, None)),
    ("Expand", {}, {"src": (2, 1, 5, 1), "shape": (3,)}, (None,) * 4),
    ("Expand", {}, {"src": (2, 1), "shape": [3, 1, 4]}, (3, 2, 4)),
    ("Tile", {}, {"src": (2, None), "repeats": [3, 2]}, (6, None)),
    ("Tile", {}, {"src": (2, 3), "repeats": (2,)}, (None, None)),
    ("Pad", {}, {"src": (2, 3), "pads": [1, 0, 1, -2]}, (4, 1)),
    ("Pad", {}, {"src": (2, None), "pads": [-2, 0, -1, 0]}, (0, None)),
    ("Slice", {}, {"src": (4, 5), "starts": [1, 0], "ends": [9, -1]}, (3, 4)),
    ("Slice", {}, {"src": (4, 5), "starts": [-1], "ends": [-9], "axes": [1], "steps": [-2]}, (4, 3)),
    ("Slice", {}, {"src": (4, 5), "starts": [3], "ends": [0], "axes": [-1], "steps": [-1]}, (4, 3)),
    ("Slice", {}, {"src": (4, 5), "starts": [-9], "ends": [-9], "axes": [0], "steps": [-1]}, (1, 5)),
    ("Slice", {}, {"src": (4, 5), "starts": (1,), "ends": (1,), "axes": [1]}, (4, None)),
    ("Slice", {}, {"src": (4, 5), "starts": (1,), "ends": (1,)}, (None, None)),
    ("Slice", {}, {"src": (4, None), "starts": [1], "ends": [2], "axes": [1]}, (4, None)),
]


@pytest.mark.parametrize("first", range(0, len(SHAPES), 20))
def test_host_ops_have_the_shapes_by_hand(first):
    for kind, attrs, given, expected in SHAPES[first : first + 20]:
        assert call_of(kind, attrs, **given).shapes[0] == expected, (kind, attrs, given)


@pytest.mark.parametrize(
    ("attrs", "query", "expected"),
    [({}, (1, 1, 5, 16), 0.25), ({"scale": 3.0}, (1, 1, 5, 16), 3.0), ({}, (1, 1, 5, None), 1.0), ({}, "unknown", 1.0)],
)
def test_attention_is_scaled_by_the_size_of_a_head(attrs, query, expected):
    assert scale_of(call_of("Attention", attrs, query=query)) == expected
