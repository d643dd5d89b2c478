"""Lowers layers of experts: each token goes through a few of several networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..opset.dtypes import DataType
from .elementwise import add, binary, multiply
from .emitter import Array, Emitter, Value, dtype_of, rank_of
from .layers import matmul
from .movement import cast, squeeze, unsqueeze
from .packed import packed_experts
from .reduction import reduce


class PackedLayer(NamedTuple):
    """The products of all experts by packed weights, and what is added.

    Attributes:
        rows: the codes of each column of the result, as bytes, (experts, columns, bytes).
        scales, zeros: (experts, columns, groups); no zero points stand for ``zero``.
        bias: (experts, columns), if there is one.
        coding, group, zero, in_codes: as for :func:`packed_experts`.
    """

    rows: Array
    scales: Array
    zeros: Array | None
    bias: Array | None
    coding: str
    group: int
    zero: int
    in_codes: bool

    def applied(self, emit: Emitter, src: Value, places: Value) -> Value:
        """The product and the sum, (tokens, choices, columns)."""
        form = {"coding": self.coding, "group": self.group, "zero": self.zero, "in_codes": self.in_codes}
        product = packed_experts(emit, src, places, *self[:3], **form)  # type: ignore[arg-type]
        return _biased(emit, product, self.bias, places)


class Layer(NamedTuple):
    """The products of all experts by their weights (experts, columns, depth), and what is added, (experts, columns)."""

    weights: Value
    bias: Value | None

    def applied(self, emit: Emitter, src: Value, places: Value) -> Value:
        """The product and the sum, (tokens, choices, columns)."""
        own = emit.op("Gather", [self.weights, places], {"axis": 0})
        rows = unsqueeze(emit, src, [1, 2] if rank_of(src) == 2 else [2])
        return _biased(emit, squeeze(emit, matmul(emit, rows, own, transpose_b=True), [2]), self.bias, places)


def _biased(emit: Emitter, product: Value, bias: Value | None, places: Value) -> Value:
    return product if bias is None else add(emit, product, emit.op("Gather", [bias, places], {"axis": 0}))


class Experts(NamedTuple):
    """The two layers of all experts, and what is between them: perhaps a product with the results of a third one."""

    first: Layer | PackedLayer
    last: Layer | PackedLayer
    activation: Callable[[Emitter, Value], Value]
    third: Layer | None = None

    def applied(self, emit: Emitter, src: Value, places: Value) -> Value:
        """The results for tokens (tokens, size) and the experts that each has chosen, (tokens, choices, size)."""
        hidden = self.activation(emit, self.first.applied(emit, src, places))
        if self.third is not None:
            hidden = multiply(emit, hidden, self.third.applied(emit, src, places))
        return self.last.applied(emit, hidden, places)


def chosen_experts(emit: Emitter, logits: Value, count: int, weights: Value | None, norm: bool) -> tuple[Value, Value]:
    """The places of the experts with the largest logits of each token, and their shares, each (tokens, count).

    The shares are the softmax of these logits, or ``weights`` of the same experts, divided by their sum if ``norm``.
    """
    best, places = emit.ends("TopK", [logits, np.array([count])], {"axis": -1, "largest": True})
    if weights is None:
        return places, emit.op("SoftMax", [cast(emit, best, DataType.f32)], {"axis": 1})
    shares = cast(emit, emit.op("GatherElements", [weights, places], {"axis": 1}), DataType.f32)
    if norm:
        shares = binary(emit, "Divide", shares, reduce(emit, "ReduceSum", shares, [1], keep=True))
    return places, shares


def mixture(emit: Emitter, src: Value, places: Value, shares: Value, experts: Experts) -> Value:
    """The sum of the results of the experts of each token times their shares, (tokens, size)."""
    outputs = cast(emit, experts.applied(emit, src, places), DataType.f32)
    total = reduce(emit, "ReduceSum", multiply(emit, outputs, unsqueeze(emit, shares, [2])), [1], keep=False)
    return cast(emit, total, dtype_of(src))
