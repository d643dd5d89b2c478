"""Draws a random use of each op: attributes and further inputs that fit its first input.

A recipe is a function of a :class:`Draw` for an op of the base vocabulary. It requests the dims of the first input and
returns the types of all inputs. Attributes that the recipe does not set are drawn from their records in the schema.
"""

from __future__ import annotations

from ...opset.schema import Schema
from . import elementwise, movement, normalization, window
from .draw import Draw, Recipe

__all__ = ["Draw", "recipe"]

# Recipes by the Python name of the op. The inputs of an op that is not listed have one shape.
_RECIPES: dict[str, Recipe] = {
    **dict.fromkeys(("clamp", "clamp_backward"), elementwise.clamp),
    **dict.fromkeys(("bias_add", "bias_add_backward"), elementwise.bias_add),
    **dict.fromkeys(("prelu", "prelu_backward"), elementwise.prelu),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "legacy_pow"), elementwise.broadcast),
    "matmul": normalization.matmul,
    **dict.fromkeys(("layer_norm", "layer_norm_backward", "rms_norm"), normalization.layer_norm),
    "group_norm": normalization.group_norm,
    "concat": movement.concat,
    "static_reshape": movement.static_reshape,
    "static_transpose": movement.static_transpose,
    "dynamic_reshape": movement.dynamic_reshape,
    "dynamic_transpose": movement.dynamic_transpose,
    "index": movement.index,
    **dict.fromkeys(("quantize", "dequantize"), movement.quantize),
    **dict.fromkeys(("dynamic_quantize", "dynamic_dequantize"), movement.dynamic_quantize),
    "dropout": movement.dropout,
    "gen_index": normalization.axis,
}
_FAMILIES: tuple[tuple[str, Recipe], ...] = (
    ("softmax", normalization.axis),
    ("batch_norm", normalization.batch_norm),
    ("reduce_", normalization.reduction),
    ("interpolate", window.interpolation),
    ("pool", window.pool),
    ("conv", window.convolution),
)


def recipe(schema: Schema) -> Recipe:
    """The recipe of an op."""
    known_recipe = _RECIPES.get(schema.name)
    if known_recipe is not None:
        return known_recipe
    if schema.has_attribute("auto_broadcast"):
        return elementwise.broadcast
    return next((make for part, make in _FAMILIES if part in schema.name), elementwise.alike)
