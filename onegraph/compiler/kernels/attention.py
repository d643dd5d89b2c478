"""Attention and its gradient of f32, f16 or bf16, in tiles, with memory that is linear in the number of tokens.

Keys and values may be codes of 8 bits with scales and zero points: see ``passes/coded_attention.py``.
"""

from __future__ import annotations

from ...errors import ArgumentError, OutOfMemoryError
from ...opset.host.attention import scale_of
from ..ir.step import Step
from .kernel import NOT_EMPTY, OF_FLOATS, Kernel, call_of
from .native import Numbers

MOST_TOKENS = 2**31 - 1
AXES = {"key_axis": 0, "value_axis": 0}  # of scales of codes
PLAIN = {
    "softcap": 0.0,
    "hidden": 0.0,
    "selects": "none",
    "sink": False,
    **AXES,
}  # numbers that most attentions do not need
LIMITS = 2.0**-100, 2.0**80  # of a softcap: beyond them, f32 has no other shares, and its quotients no digits
OF_CODES = "by onegraph, which reads keys and values as codes of 8 bits"


def numbers_of(step: Step) -> Numbers:
    """What the kernel of an attention is made for besides its tensors."""
    if step.executor == "attention":
        return _numbers_of_scores(step)
    return _numbers_of_cache(step) if step.op.kind == "CachedAttention" else _numbers(step)


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    return {
        "backward": call.schema.kind.endswith("Backward"),
        "mask": call.input("mask") is not None,
        "lengths": False,
        "causal": call.flag("causal"),
        "past": min(call.s64("past"), MOST_TOKENS),
        "window": min(call.s64("window"), MOST_TOKENS) if call.flag("causal") else 0,
        "scale": scale_of(call),
        "plain": False,
        **PLAIN,
    }


def _numbers_of_cache(step: Step) -> Numbers:
    call = call_of(step)
    numbers = {
        "mask": call.input("mask") is not None,
        "scale": scale_of(call),
        "window": min(call.s64("window"), MOST_TOKENS),
        "softcap": _limit(call.f32("softcap")),
    }
    return {"backward": False, "lengths": True, "causal": True, "past": 0, "plain": False, **PLAIN, **numbers}


def _numbers_of_scores(step: Step) -> Numbers:
    numbers = {name: number for name, number in step.attrs.items() if name != "masked"}
    rest = {"backward": False, "lengths": False, "causal": False, "past": 0, "window": 0, "mask": step.attrs["masked"]}
    limit = {"softcap": _limit(float(numbers.get("softcap", 0.0)))}  # type: ignore[arg-type]
    return {**rest, **PLAIN, **numbers, **limit}


def _limit(softcap: float) -> float:
    """A limit of scores that is no limit, or one with which the kernel can compute."""
    return softcap and min(max(softcap, LIMITS[0]), LIMITS[1])


def _numbers_of_codes(step: Step) -> Numbers:
    return step.attrs


KERNELS = (
    Kernel(
        "attention",
        "in tiles by onegraph: the library would write all scores to memory",
        kinds=("Attention", "AttentionBackward"),
        takes=(NOT_EMPTY, OF_FLOATS),
        is_dense=False,
        numbers=_numbers,
        fails=OutOfMemoryError,
    ),
    Kernel(
        "attention",
        "by onegraph: the keys of each row end where its contents say",
        kinds=("CachedAttention",),
        takes=(NOT_EMPTY, OF_FLOATS),
        is_dense=False,
        numbers=_numbers_of_cache,
        varies=True,
        fails=ArgumentError,  # or OutOfMemoryError
    ),
    Kernel(
        "attention",
        executor="attention",
        takes=(NOT_EMPTY, OF_FLOATS),
        is_dense=False,
        numbers=_numbers_of_scores,
        fails=OutOfMemoryError,
    ),
    Kernel(
        "attention",
        executor="attention of codes",
        is_dense=False,
        numbers=_numbers_of_codes,
        varies=True,
        fails=ArgumentError,  # or OutOfMemoryError
    ),
)
