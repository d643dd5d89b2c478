"""Convolutions by definition: one window position and one kernel element at a time.

Independent of onegraph.reference, which works on whole slices. The axis order is (N, C, X) for activations and
(O, I / groups, X) for weights, with O and I as in a Convolution.
"""

import itertools

import numpy as np


def convolution(wide, weights, counts, strides, dilations, pads, groups):
    """The narrow side; ``counts`` has the number of window positions along each axis."""
    narrow = np.zeros((wide.shape[0], weights.shape[0], *counts))
    for o, i, y, k, x in _terms(wide.shape, weights.shape, counts, strides, dilations, pads, groups):
        narrow[(slice(None), o, *y)] += wide[(slice(None), i, *x)] @ weights[(o, slice(None), *k)].T
    return narrow


def gradient_by_data(narrow, weights, size, strides, dilations, pads, groups):
    """The wide side; ``size`` has the number of elements along each axis."""
    wide = np.zeros((narrow.shape[0], weights.shape[1] * groups, *size))
    shape, counts = wide.shape, narrow.shape[2:]
    for o, i, y, k, x in _terms(shape, weights.shape, counts, strides, dilations, pads, groups):
        wide[(slice(None), i, *x)] += narrow[(slice(None), o, *y)] @ weights[(o, slice(None), *k)]
    return wide


def gradient_by_weights(wide, narrow, kernel, strides, dilations, pads, groups):
    """The weights."""
    weights = np.zeros((narrow.shape[1], wide.shape[1] // groups, *kernel))
    counts = narrow.shape[2:]
    for o, i, y, k, x in _terms(wide.shape, weights.shape, counts, strides, dilations, pads, groups):
        weights[(o, slice(None), *k)] += narrow[(slice(None), o, *y)].T @ wide[(slice(None), i, *x)]
    return weights


def _terms(wide, weights, counts, strides, dilations, pads, groups):
    out, inner = weights[0] // groups, wide[1] // groups
    for y in itertools.product(*map(range, counts)):
        for k in itertools.product(*map(range, weights[2:])):
            x = tuple(
                p * stride + e * dilation - pad
                for p, e, stride, dilation, pad in zip(y, k, strides, dilations, pads, strict=True)
            )
            if all(0 <= position < size for position, size in zip(x, wide[2:], strict=True)):
                for g in range(groups):
                    yield slice(g * out, (g + 1) * out), slice(g * inner, (g + 1) * inner), y, k, x
