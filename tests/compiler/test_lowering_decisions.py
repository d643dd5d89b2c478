"""Functions of the lowering that decide between forms, at both sides of each bound."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from onegraph.lowering.attention import Masking, has_kernel, is_tiled
from onegraph.lowering.quantization import Scale

LENGTHS = np.array([1, 2])
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s32": np.int32}


@pytest.mark.parametrize(
    ("masking", "fits"),
    [
        (Masking(), True),
        (Masking(causal=True), True),
        (Masking(right=0), True),
        (Masking(right=1), False),
        (Masking(left=0), False),
        (Masking(left=3, right=0), True),
        (Masking(left=3, causal=True), True),
        (Masking(lengths=LENGTHS), False),
        (Masking(causal=True, lengths=LENGTHS), False),
    ],
)
def test_the_kernel_for_attention_takes_these_masks(masking, fits):
    query = np.zeros((1, 1, 256, 8), np.float32)
    assert has_kernel(query, masking) == fits
    assert is_tiled(query, np.zeros((1, 1, 256, 8), np.float32), masking) == fits
    assert not has_kernel(query.astype(np.int32), masking)


# With 256 queries, from 256 keys on; where half of the scores is skipped, from 16 keys on.
@pytest.mark.parametrize(
    ("dtype", "masking", "keys", "taken"),
    [
        ("f32", Masking(), 256, True),
        ("f32", Masking(), 255, False),
        ("bf16", Masking(), 255, False),
        ("f16", Masking(), 1, True),
        ("f32", Masking(causal=True), 16, True),
        ("f32", Masking(causal=True), 15, False),
        ("f32", Masking(right=0), 16, True),
        ("f32", Masking(right=0), 15, False),
        ("s32", Masking(), 256, False),
    ],
)
def test_attention_has_its_kernel_from_some_scores_on(dtype, masking, keys, taken):
    query, key = (np.zeros((1, 1, count, 8), NUMPY[dtype]) for count in (256, keys))
    assert is_tiled(query, key, masking) == taken


F = np.float32
SCALES = [
    (Scale(np.full((), 0.5, F)), 2, {"qtype": "per_tensor", "scales": [0.5], "zps": [0]}),
    (Scale(np.full(1, 0.5, F), np.full(1, 3, np.uint8)), 2, {"qtype": "per_tensor", "scales": [0.5], "zps": [3]}),
    (
        Scale(np.full(2, 0.5, F), np.array([3, 255], np.uint8), axis=-1),
        2,
        {"qtype": "per_channel", "scales": [0.5, 0.5], "zps": [3, 255], "axis": 1},
    ),
    (Scale(np.full(2, 0.5, F), axis=-4), 4, {"qtype": "per_channel", "scales": [0.5, 0.5], "zps": [0, 0], "axis": 0}),
    (Scale(np.zeros(0, F), axis=1), 2, {"qtype": "per_channel", "scales": [], "zps": [], "axis": 1}),
]


@pytest.mark.parametrize(("scale", "rank", "attrs"), SCALES)
def test_scales_are_attributes(scale, rank, attrs):
    assert scale.attrs(rank) == attrs
    assert replace(scale, block=2).attrs(rank) is None
    assert replace(scale, scale=None).attrs(rank) is None
