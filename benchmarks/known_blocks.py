"""Blocks that stay slow, with the reason: ``python -m benchmarks.blocks`` prints it beside them."""

from __future__ import annotations

import re
from typing import NamedTuple


class Known(NamedTuple):
    """Blocks that stay slow, a row of the table in docs/performance.md.

    Attributes:
        what: their name.
        rival: the contender that is faster.
        reason: why they stay slow.
        pattern: matches the text of such a block: its ops, with the types of their inputs.
    """

    what: str
    rival: str
    reason: str
    pattern: str

    @property
    def row(self) -> str:
        """The row of the table."""
        return f"| {self.what} | {self.rival} | {self.reason} |"


TORCH, ONE_BY_ONE = "torch eager", "one by one"
VOLUME, PLAIN = r"\w+\[\d+(, \d+){4}\]", r"\w+\[[^]]*\]"
ALONE = r"\w+\[(\d+, 1(, \d+)+|(\d+, )+1, \d+)\]"  # weights with one channel in each group
KNOWN = (
    Known(
        "ops of f16 on a CPU without f16",
        TORCH,
        "the library computes them in f32, between two casts that read and write memory",
        r"\bf16\[",
    ),
    Known("ReduceProd", TORCH, "it has a reference kernel only; numpy multiplies in f64", r"ReduceProd\("),
    Known(
        "Convolution of volumes, ConvTranspose, with a channel in each group",
        TORCH,
        "oneDNN has no kernel for them",
        rf"(Convolution\({VOLUME}|ConvTranspose\({PLAIN}), {ALONE}",
    ),
    Known(
        "gradients of a Convolution with 3 channels",
        TORCH,
        "the kernels compute 16 channels at once",
        r"Backward(Data|Weights)\(\w+\[[^]]*, 3\]",
    ),
    Known(
        "ConvTransposeBackwardData",
        TORCH,
        "it is a Convolution, which copies variable weights in each run",
        r"ConvTransposeBackwardData\(",
    ),
    Known("Concat of short rows", TORCH, "the kernel copies the rows one by one", r"Concat\("),
    Known("InterpolateBackward", TORCH, "oneDNN computes it element by element", r"InterpolateBackward\("),
    Known(
        "gradients of SoftMax and LogSoftmax along another axis than the last",
        TORCH,
        "four ops, each of which reads the whole tensor",
        r"(Softmax|SoftMax)Backward\(",
    ),
    Known("GroupNorm", TORCH, "a LayerNorm, which has one thread for each group of an image", r"GroupNorm\("),
    Known(
        "BatchNorm in training, with channels first or few channels",
        TORCH,
        "plain C++ in oneDNN",
        r"BatchNorm\w*Training\w*\(",
    ),
    Known(
        "BatchNormInference of bf16 with channels first",
        TORCH,
        "three binary ops in f32 between two casts",
        r"BatchNormInference\(bf16",
    ),
    Known(
        "ReduceSum of bf16",
        TORCH,
        "a MatMul by ones",
        r"ReduceSum\(bf16",
    ),
    Known("pools with channels first", TORCH, "most of them are plain C++ in oneDNN", r"(Max|Avg)Pool\("),
    Known(
        "a transposed matrix times a vector",
        TORCH,
        "oneDNN computes it as a product of matrices",
        r"MatMul\(\w+\[\d+, \d+\], \w+\[(1, \d+|\d+, 1)\]",
    ),
    Known(
        "attention of few tokens, from 3.6 on",
        ONE_BY_ONE,
        "the fused kernel takes 0.05 ms more to start",
        r"MatMul\(.*SoftMax\(.*MatMul\(",
    ),
)


def known(text: str, rival: str) -> str:
    """Why a block stays slower than a rival; empty if that is not known."""
    return next((one.reason for one in KNOWN if one.rival == rival and re.search(one.pattern, text)), "")
