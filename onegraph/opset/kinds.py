"""Makes sets of op kinds from what the records say, so that no other module lists them.

A set for a narrower meaning is made from these sets by ``-``, ``&`` and ``|``. Kinds of the base vocabulary and of the
host ops are apart, because ops of both can have one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .dtypes import DataType
from .host import CATEGORIES as HOST_CATEGORIES
from .ops import CATEGORIES
from .schema import Schema
from .traits import Trait

Kinds = frozenset[str]


def _kinds(categories: Iterable[Iterable[Schema]], condition: Callable[[Schema], bool]) -> Kinds:
    return frozenset(schema.kind for category in categories for schema in category if condition(schema))


def _has(traits: Trait) -> Callable[[Schema], bool]:
    return lambda schema: schema.traits is not None and traits in schema.traits


def base_kinds(traits: Trait) -> Kinds:
    """The ops of the base vocabulary that have all these traits."""
    return _kinds(CATEGORIES, _has(traits))


def host_kinds(traits: Trait) -> Kinds:
    """The host ops that have all these traits."""
    return _kinds(HOST_CATEGORIES, _has(traits))


def in_category(name: str) -> Kinds:
    """The ops of a category of the base vocabulary."""
    return _kinds(CATEGORIES, lambda schema: schema.category == name)


def with_attribute(name: str) -> Kinds:
    """The ops of the base vocabulary that have an attribute of this name."""
    return _kinds(CATEGORIES, lambda schema: schema.has_attribute(name))


def with_input(name: str) -> Kinds:
    """The ops of the base vocabulary that have an input port of this name."""
    return _kinds(CATEGORIES, lambda schema: any(port.name == name for port in schema.inputs))


def with_output(name: str) -> Kinds:
    """The ops of the base vocabulary that have an output port of this name."""
    return _kinds(CATEGORIES, lambda schema: any(port.name == name for port in schema.outputs))


def with_type(dtype: DataType) -> Kinds:
    """The ops of the base vocabulary whose type table has a data type."""
    return _kinds(CATEGORIES, lambda schema: any(dtype in cell for row in schema.types for cell in row.types.values()))


def _is_unary(schema: Schema) -> bool:
    return len(schema.inputs) == 1 and schema.inputs[0].type == schema.outputs[0].type


EVERY = _kinds(CATEGORIES, lambda schema: True)
GRADIENTS = frozenset(kind for kind in EVERY if "Backward" in kind)
ELEMENTWISE = in_category("elementwise")
REDUCTIONS = in_category("reduction")
QUANTIZATIONS = in_category("quantization") - {"TypeCast"}
DEQUANTIZATIONS = base_kinds(Trait.DEQUANTIZES)
NORMALIZATIONS = with_attribute("epsilon")  # all but SoftMax and LogSoftmax
BATCH_NORMS = NORMALIZATIONS & base_kinds(Trait.PER_CHANNEL)
SOFTMAXES = in_category("normalization") - NORMALIZATIONS - GRADIENTS
ARITHMETIC = base_kinds(Trait.ARITHMETIC)
PRODUCTS = base_kinds(Trait.PRODUCT)
PLACING = base_kinds(Trait.MOVES)
# Of both op sets.
MOVES = PLACING | host_kinds(Trait.MOVES)
JUMPS = base_kinds(Trait.JUMPS) | host_kinds(Trait.JUMPS)
CASTS = base_kinds(Trait.CASTS) | host_kinds(Trait.CASTS)
# Nodes of other packages, and control flow: what they compute is an attribute.
HOST_OPAQUE = host_kinds(Trait.OPAQUE)
OPAQUE = base_kinds(Trait.OPAQUE) | HOST_OPAQUE
PER_RUN = base_kinds(Trait.PER_RUN) | host_kinds(Trait.PER_RUN)
# Functions of one tensor, whose data type they keep.
UNARY = ELEMENTWISE - GRADIENTS
HOST_UNARY = host_kinds(Trait.POINTWISE) & _kinds(HOST_CATEGORIES, _is_unary)
# Ops that put the elements of a tensor in another shape.
HOST_RESHAPES = host_kinds(Trait.RESHAPES)
RESHAPES = base_kinds(Trait.RESHAPES) | HOST_RESHAPES
# Host ops that move elements of the first input by indices, the second one.
INDEXED = host_kinds(Trait.MOVES) & _kinds(
    HOST_CATEGORIES, lambda schema: [port.name for port in schema.inputs][1:2] == ["indices"]
)
# Host ops of whose results contents decide the sizes.
CONTENT_SIZED = frozenset(["Compress", "NonMaxSuppression", "NonZero"])
