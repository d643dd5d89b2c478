"""Rewrites convolutions that are slow or wrong in the library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...capi.settings import has_avx512
from ...faults.depthwise import FAR_PADS, MOST_PADS, MOST_PADS_AVX2, Padding
from ...faults.ops.convolution_gradients import GRADIENT_OF_STRIDED_PIXELS
from ...faults.performance import SLOW_TRANSPOSED_BIAS
from ...native.library import VERSION
from ...opset.schema import Call
from ...opset.shapes import known_dims
from .form import Form, FormBuilder, result_types
from .single import SINGLE

LEAST = 1 << 14  # elements; fewer take no time


def far_padded(call: Call) -> Form | None:
    """A Convolution of each channel whose rows get their padding from a Concat with zeros."""
    padding = Padding(call, MOST_PADS if has_avx512() else MOST_PADS_AVX2)
    if not (FAR_PADS.affects(VERSION) and FAR_PADS.when(padding)) or math.prod(known_dims(call.shape("src"))) < LEAST:
        return None
    parts, rewrite = FormBuilder(call), SINGLE["Convolution"](call)
    assert rewrite is not None
    inner = Call(call.schema, rewrite.attrs, call.inputs, call.n_outputs, call.output_types)
    (top, left), (bottom, right) = inner.s64s("pads_begin", 2), inner.s64s("pads_end", 2)
    shape, dtype = parts.shape(0), parts.type(0).dtype
    assert dtype is not None
    axis = len(shape) - (1 if call.string("data_format") == "NCX" else 2)
    sides = [np.zeros((*shape[:axis], width, *shape[axis + 1 :]), dtype.numpy) for width in (left, right)]
    padded = parts.add(
        "Concat", *[piece for piece in (sides[0], 0, sides[1]) if isinstance(piece, int) or piece.size], axis=axis
    )
    attrs = {**rewrite.attrs, "pads_begin": (top, 0), "pads_end": (bottom, 0)}
    result = parts.add("Convolution", padded, *rewrite.inputs[1:], outputs=result_types(call), **attrs)
    return parts.form(result, note=FAR_PADS.told)


def biased_conv_transpose(call: Call) -> Form | None:
    """ConvTranspose and BiasAdd in place of a ConvTranspose with a bias; int8 patterns of the library have both."""
    if not (SLOW_TRANSPOSED_BIAS.affects(VERSION) and SLOW_TRANSPOSED_BIAS.when(call)):
        return None
    rewrite, parts = SINGLE["ConvTranspose"](call), FormBuilder(call)
    assert rewrite is not None
    result = parts.add("ConvTranspose", *rewrite.inputs[:2], outputs=result_types(call), **rewrite.attrs)
    result = parts.add("BiasAdd", result, 2, data_format=call.string("data_format"))
    return parts.form(result, note=SLOW_TRANSPOSED_BIAS.told)


def gradient_of_strided_pixels(call: Call) -> Form | None:
    """A gradient by weights of one element and strides: the elements that the windows meet, and no strides.

    An AvgPool of windows of one element takes these elements as they are.
    """
    if not GRADIENT_OF_STRIDED_PIXELS.when(call):
        return None
    rewrite, parts, strides = SINGLE["ConvolutionBackwardWeights"](call), FormBuilder(call), call.s64s("strides")
    assert rewrite is not None
    unit_steps, no_padding = (1,) * len(strides), (0,) * len(strides)
    window: dict[str, Any] = {
        "strides": strides,
        "kernel": unit_steps,
        "pads_begin": no_padding,
        "pads_end": no_padding,
    }
    met = parts.add("AvgPool", 0, exclude_pad=True, data_format=call.string("data_format"), **window)
    attrs = {**rewrite.attrs, "strides": unit_steps, "pads_begin": no_padding, "pads_end": no_padding}
    result = parts.add("ConvolutionBackwardWeights", met, 1, outputs=result_types(call), **attrs)
    return parts.form(result, note=f"{GRADIENT_OF_STRIDED_PIXELS.instead}: {GRADIENT_OF_STRIDED_PIXELS.told}")
