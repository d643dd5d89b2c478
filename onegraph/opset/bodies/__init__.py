"""The bodies of composed ops: what an op computes, by simpler ops, written once for all who compose it."""

from . import elementwise, normalization
from .expression import BODIES, Expression, Operand, expand

__all__ = ["BODIES", "Expression", "Operand", "elementwise", "expand", "normalization"]
