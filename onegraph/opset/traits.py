"""Defines the traits of ops: what a pass or a front end may count on, whatever the attributes of the op are.

Each record has its traits. :mod:`onegraph.opset.kinds` makes sets of ops from them, so that an op with a new record
joins every set to which it belongs.
"""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """What holds for every use of an op.

    ``dst`` is the first output, and ``src`` the first input.

    Attributes:
        NONE: no trait holds.
        POINTWISE: an element of dst depends on the elements at its place in the inputs alone, which numpy's rules
            broadcast.
        ARITHMETIC: pointwise, one formula of two tensors of numbers.
        COMMUTATIVE: dst stays the same if the first two inputs are exchanged.
        ADDS: dst is src plus or minus another input.
        POLYNOMIAL: pointwise, a piecewise polynomial of one number.
        PERIODIC: pointwise, a periodic function of one number.
        JUMPS: the numbers in dst jump where src changes a little; no gradient has the trait.
        KEEPS_ERRORS: pointwise, an error of src grows at most 1.5 times if the slopes in attributes are at most 1.
        BOUNDED: no element of dst has a larger absolute value than the largest one in the inputs.
        UNIT_BOUNDED: no element of dst has a larger absolute value than 1.
        MOVES: each element of dst is an element of src, of a further input of the data type of src, or a fill value.
            Which one it is depends on places alone.
        VIEW: MOVES, and dst can share the memory of src.
        RESHAPES: VIEW, and dst has the elements of src in the same row-major order.
        SUMS: dst adds up elements of src, absolute values of them, or squares under a square root.
        PRODUCT: dst has sums of products of src and the input weights.
        PER_CHANNEL: a channel of dst depends on the same channel of the inputs alone.
        BY_ROW: a row of dst, an index of its first axis, depends on the same row of src and on the whole of the other
            inputs. A pointwise op does not have the trait.
        QUANTIZES: dst has codes of the numbers in src.
        DEQUANTIZES: dst has the numbers that the codes in src stand for.
        CASTS: dst has the numbers of src in another data type.
        SHAPE_ONLY: dst depends on the shape of src, and on none of its elements.
        PER_RUN: runs in each run even if its inputs are constants, because it draws random numbers or waits for other
            processes.
        OPAQUE: stands for a computation that the op set does not define.
    """

    NONE = 0
    POINTWISE = auto()
    ARITHMETIC = auto()
    COMMUTATIVE = auto()
    ADDS = auto()
    POLYNOMIAL = auto()
    PERIODIC = auto()
    JUMPS = auto()
    KEEPS_ERRORS = auto()
    BOUNDED = auto()
    UNIT_BOUNDED = auto()
    MOVES = auto()
    VIEW = auto()
    RESHAPES = auto()
    SUMS = auto()
    PRODUCT = auto()
    PER_CHANNEL = auto()
    BY_ROW = auto()
    QUANTIZES = auto()
    DEQUANTIZES = auto()
    CASTS = auto()
    SHAPE_ONLY = auto()
    PER_RUN = auto()
    OPAQUE = auto()
