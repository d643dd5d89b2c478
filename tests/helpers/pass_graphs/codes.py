"""Products between codes."""

from __future__ import annotations

import numpy as np

import onegraph as og
from onegraph.ir.op import LogicalTensor


def requantized(g: og.Graph, x: LogicalTensor, scale: float = 0.125, zero: int = 3, dtype: str = "s8") -> LogicalTensor:
    kind = {"scales": [scale], "zps": [zero]}
    return g.dequantize(g.quantize(x, dtype=dtype, **kind), **kind)


def two_products(g: og.Graph, x: LogicalTensor, zero: int) -> tuple[LogicalTensor, LogicalTensor]:
    """The s8 codes between two products and the result."""
    rng = np.random.default_rng(1)
    weights = [g.constant(rng.integers(-9, 10, (32, 32)).astype(np.int8)) for _ in range(2)]
    first, second = [g.dequantize(one, scales=[0.0625], zps=[0]) for one in weights]
    inner = g.quantize(g.matmul(requantized(g, x), first), scales=[0.0625], zps=[zero], dtype="s8")
    return inner, g.matmul(g.dequantize(inner, scales=[0.0625], zps=[zero]), second)
