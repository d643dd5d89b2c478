"""The misc category: marks, indices, and Dropout against published and scalar Philox numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.specification import check_op

from onegraph.errors import UnsupportedError
from onegraph.inference.infer import infer_op
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, edition
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.signature import AttrValue, Shape
from onegraph.reference.misc import philox, random_words
from onegraph.reference.run import reference_function

M32, M64 = 2**32 - 1, 2**64 - 1


def run(kind: str, attrs: dict[str, AttrValue], *arrays: object) -> Any:
    inputs = [np.asarray(array) for array in arrays]
    call = Call(BASE[kind], attrs, [TensorType(None, array.shape, array) for array in inputs])
    return reference_function(BASE[kind])(call, *inputs)


def scalar_philox(counter: list[int], key: list[int]) -> list[int]:
    for turn in range(10):
        if turn:
            key = [(key[0] + 0x9E3779B9) & M32, (key[1] + 0xBB67AE85) & M32]
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & M32,
            (first >> 32) ^ counter[3] ^ key[1],
            first & M32,
        ]
    return counter


def scalar_word(index: int, seed: int, offset: int) -> int:
    """One word, computed with 64-bit integers as in the C++ of the library."""
    seed, offset = seed & M64, offset & M64
    if offset == 0:
        block, seed = (index & M32) & ~3, seed & M32
        index, offset, seed = ((block + 3) << 32) + block + 2, ((block + 1) << 32) + block, (seed << 32) + seed
    block = index & ~3
    counter = [offset & M32, offset >> 32, block & M32, block >> 32]
    return scalar_philox(counter, [seed & M32, seed >> 32])[index & 3]


# The known answers of the Random123 library for philox4x32 with ten rounds.
@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_known_answers(counter: str, key: str, answer: str) -> None:
    a, b, c, d = (np.array([int(word, 16)], np.uint64) for word in counter.split())
    first, second = (int(word, 16) for word in key.split())
    assert " ".join(f"{int(word[0]):08x}" for word in philox((a, b, c, d), (first, second))) == answer


@pytest.mark.parametrize("seed", [0, 1, 2**40 + 7, -3])
@pytest.mark.parametrize("offset", [0, 1, 2**35 + 1, -1])
def test_philox_words_match_scalar_code(seed: int, offset: int) -> None:
    assert random_words(11, seed, offset).tolist() == [scalar_word(index, seed, offset) for index in range(11)]


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.7, 1.0])
@pytest.mark.parametrize("offset", [0, 5])
def test_dropout_against_a_loop(chance: float, offset: int) -> None:
    src = np.arange(1.0, 25.0).reshape(2, 3, 4)
    p = np.float32(chance)
    dst, mask = run("Dropout", {}, src, 9, [offset], np.float64(p))
    kept = [scalar_word(index, 9, offset) > float(M32) * float(p) for index in range(24)]
    scale = float(np.float32(1) / (np.float32(1) - p)) if chance != 1 else 0.0
    assert mask.ravel().tolist() == kept
    assert dst.ravel().tolist() == [x * scale if keep else 0.0 for x, keep in zip(src.ravel(), kept, strict=True)]
    assert dst.shape == mask.shape == src.shape


def test_dropout_keeps_the_right_share() -> None:
    _, mask = run("Dropout", {}, np.ones(40000), 123, 1, 0.25)
    assert abs(mask.mean() - 0.75) < 0.01


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_gen_index_against_a_loop(axis: int) -> None:
    got = np.asarray(run("GenIndex", {"axis": axis}, np.zeros((2, 3, 4))))
    assert got.shape == (2, 3, 4)
    assert all(got[place] == place[axis] for place in np.ndindex(2, 3, 4))


def test_end_has_no_result() -> None:
    assert run("End", {}, [1.0]) == ()
    assert BASE["End"].shape(Call(BASE["End"], {}, [TensorType(None, (1,))])) == ()
    assert check_op("End", {}, [("bf16", (1,))], []) == []


def test_wildcard_accepts_anything() -> None:
    assert check_op("Wildcard") == []
    inputs, outputs = [("s8", (2,)), ("f32", None), ("boolean", ())], [("s32", (5,)), ("f16", None)]
    assert check_op("Wildcard", {}, inputs, outputs) == []
    checked = infer_op("Wildcard", {}, inputs, edition=edition("onednn-3.13"), n_outputs=1, dtype=DataType.u8)
    assert checked.shapes == (None,)
    assert checked.dtypes == (DataType.u8,)
    assert BASE["Wildcard"].shape(Call(BASE["Wildcard"], {}, [], n_outputs=3)) == (None, None, None)
    with pytest.raises(UnsupportedError):
        run("Wildcard", {}, [1.0])


@pytest.mark.parametrize("shape", [None, (None, 3), (2, 3)])
def test_outputs_have_the_source_shape(shape: Shape) -> None:
    assert BASE["GenIndex"].shape(Call(BASE["GenIndex"], {"axis": 0}, [TensorType(None, shape)])) == (shape,)
    assert BASE["Dropout"].shape(Call(BASE["Dropout"], {}, [TensorType(None, shape)])) == (shape, shape)


ONE, CHANCE = ("s64", ()), ("f32", (1,))
SRC = ("f16", (2, 3))


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "rule", "where"),
    [
        ("GenIndex", {"axis": 2}, [SRC], "axis_in_range", "axis"),
        ("GenIndex", {"axis": -3}, [SRC], "axis_in_range", "axis"),
        ("Dropout", {}, [SRC, ("s64", (2,)), ONE, CHANCE], "single_elements", "seed"),
        ("Dropout", {}, [SRC, ONE, ("s64", (0,)), CHANCE], "single_elements", "offset"),
        ("Dropout", {}, [SRC, ONE, ONE, ("f32", (2, 1))], "single_elements", "probability"),
        ("Dropout", {}, [SRC, ONE, ONE, TensorType(None, (), np.array(1.5))], "probability_range", "probability"),
        ("Dropout", {}, [SRC, ONE, ONE, np.full(10**4, 1.5, np.float32)], "single_elements", "probability"),
        ("Dropout", {}, [SRC, ("s32", ()), ONE, CHANCE], "data_type", "seed"),
        ("Dropout", {}, [SRC, ONE, ONE], "input_count", "inputs"),
        ("End", {}, [("s8", (2,))], "data_type", "src"),
    ],
)
def test_rules(kind: str, attrs: dict[str, object], inputs: list[object], rule: str, where: str) -> None:
    assert [(violation.rule, violation.where) for violation in check_op(kind, attrs, inputs)] == [(rule, where)]


def test_dropout_with_and_without_mask() -> None:
    inputs = [SRC, ONE, ("s64", None), CHANCE]
    assert check_op("Dropout", {}, inputs, [SRC]) == []
    assert check_op("Dropout", {}, inputs, [SRC, ("u8", (2, 3))]) == []
    assert [found.rule for found in check_op("Dropout", {}, inputs, [SRC, ("u8", (3, 2))])] == ["output_shape"]


def test_later_ops_are_absent_from_earlier_editions() -> None:
    for name, kind, there in (("onednn-3.6", "GenIndex", False), ("onednn-3.7", "GenIndex", True)):
        assert (edition(name).schema(kind) is not None) is there
    assert edition("onednn-3.11").schema("Dropout") is None
    assert edition("onednn-3.12").schema("Dropout") is not None
