"""The gradient of linear attention: that of the ops of each token."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ...lowering.linear_attention import Tokens, composed_tokens
from ..use import GradientUse
from .recurrence import refuse_many_steps
from .table import composed


@composed("host LinearAttention")
def linear_attention(emit: Emitter, use: GradientUse) -> tuple[Value, Value]:
    refuse_many_steps(use, use.dims("query")[1])
    decay, rate = (use[port] if use.has(port) else None for port in ("decay", "rate"))
    return composed_tokens(emit, Tokens(use["query"], use["key"], use["value"], decay, rate), use["state"])
