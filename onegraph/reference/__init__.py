"""Computes every op in numpy, from the formulas of the specification, without the library.

There is one module for each category of ops and one function for each op, under the op's Python name. A function is
called as ``f(call, *inputs)``. ``call`` gives attributes and shapes in the base vocabulary. The inputs are arrays, or
None for an absent port; floating-point inputs are widened to float64 and integers to int64. The function returns an
array, or a tuple of arrays in port order, and the runner rounds them to the data types of the outputs. All arithmetic
is float64, so results differ from the exact formula by about one rounding to the output type. Ops that only move
elements get the arrays in their own data types.
"""

from .run import reference_function, run, run_op

__all__ = ["reference_function", "run", "run_op"]
