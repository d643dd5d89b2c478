"""Counts the multiply-adds of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.utils.flop_counter import flop_registry

from .lowering import concrete, is_call
from .node import is_higher_order, is_op


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    """Floating-point operations of the scores, and of the sums of values."""
    batch, heads, tokens, size = query.shape
    return 2 * batch * heads * tokens * key.shape[2] * (size + value.shape[3])


def _attention_backward(diff: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    """Floating-point operations of the scores anew, and of the gradients of weights, value, query and key."""
    batch, heads, tokens, size = query.shape
    return 2 * batch * heads * tokens * key.shape[2] * (3 * size + 2 * value.shape[3])


def _lstm(src: Any, weights: Any, recurrence: Any, *args: Any, out_val: Any, **kwargs: Any) -> int:
    """Floating-point operations of one direction of an LSTM: each step multiplies its input and its state."""
    steps, batch, inputs = src.shape
    return int(2 * steps * batch * recurrence.shape[0] * (inputs + recurrence.shape[1]))


# Floating-point operations of the calls that PyTorch's own table lacks.
FORMULAS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    torch.ops.aten.mkldnn_rnn_layer: _lstm,
}


def products_of(node: FxNode) -> int:
    """The multiply-adds of a call; of a loop, those of one turn."""
    if not is_higher_order(node.target):
        return _of_op(node.target, node.args, node.kwargs, node.meta.get("val")) if is_call(node) else 0
    return _of_wrapped(node) if any(map(is_op, node.args)) else _of_bodies(node)


def _of_wrapped(node: FxNode) -> int:
    """The multiply-adds of the op that a higher-order op calls: with a token, another data type, or copies of bases."""
    place = next(place for place, argument in enumerate(node.args) if is_op(argument))
    arguments = [argument for argument in node.args[place + 1 :] if type(argument) is not torch.dtype]
    bases: Any = node.kwargs.get("_all_bases", ())
    kwargs: dict[str, Any] = {}
    for key, value in node.kwargs.items():
        if key.endswith("_base_index"):
            kwargs[key[1 : -len("_base_index")]] = bases[value] if type(value) is int else None
        elif not key.startswith("_"):
            kwargs[key] = value
    results = node.meta.get("val")
    if type(results) in (tuple, list):
        results = results[place]  # a token comes before the result as before the op
    return _of_op(node.args[place], arguments, kwargs, results if hasattr(results, "stride") else ())


def _of_bodies(node: FxNode) -> int:
    """The multiply-adds of a higher-order op: of attention, or of its bodies, of which a condition runs the largest."""
    name = str(node.target)
    if name.startswith("flex_attention"):
        formula = _attention_backward if "backward" in name else _attention
        likes: list[Any] = [argument.meta["val"] for argument in node.args[:3] if type(argument) is FxNode]
        return 0 if len(likes) < 3 else int(concrete(formula(*([None] if "backward" in name else []), *likes))) // 2
    module = node.graph.owning_module
    bodies = [_attribute(module, str(one.target)) for one in node.all_input_nodes if one.op == "get_attr"]
    counts = [sum(products_of(inner) for inner in body.graph.nodes) for body in bodies if isinstance(body, GraphModule)]
    return max(counts, default=0) if name == "cond" else sum(counts)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def _of_op(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    formula = FORMULAS.get(target._overloadpacket) or flop_registry.get(target._overloadpacket)
    if formula is None or result is None:
        return 0
    arguments = [_like(argument) for argument in args]
    named = {key: _like(one) for key, one in kwargs.items()}
    return int(concrete(formula(*arguments, **named, out_val=result))) // 2


def _like(value: Any) -> Any:
    """What an argument is like: the fake tensor or the number of a node, and of those in a list."""
    if type(value) is FxNode:
        like = value.meta.get("val")
        return like if hasattr(like, "stride") else concrete(like)
    return type(value)(map(_like, value)) if type(value) in (list, tuple) else value
