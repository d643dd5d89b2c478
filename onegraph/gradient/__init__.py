"""Differentiates graphs: the vector-Jacobian product of a graph becomes more ops of the same graph.

``rules`` has a function for each op, found by its name. ``reverse`` applies them from the outputs to the inputs, and
``vjp`` adds the ops that are needed to the graph.
"""

from .vjp import gradient

__all__ = ["gradient"]
