"""Every op in numpy, written from the formulas of the specification; it never calls the library.

One module for each category of ops, one function for each op under the op's Python name. A function is called as
 ``f(call, *inputs)``: ``call`` gives attributes and shapes in base words, the inputs are arrays (None where a
port is absent) with floating-point types widened to float64 and integers to int64. It returns an array, or a tuple of
arrays in port order; the runner rounds them to the data types of the outputs. All arithmetic is float64, so the result
is the formula's to within one rounding of the output type.
"""

from .run import reference_function, run, run_op

__all__ = ["reference_function", "run", "run_op"]
