"""Random valid uses of the convolution family in every edition that has them, with their results."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from helpers import convolution_by_definition

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
# One rounding of the inputs is exact (they are small multiples of 1/8); what is left is one rounding of the result and
# the library's own f32 accumulation over at most a few hundred terms.
TOLERANCES = {"f32": 1e-5, "bf16": 2.0**-7, "f16": 2.0**-9}
LEGACY, CURRENT, ONEAPI = "legacy-1", "onednn-3.13", "oneapi-1.4"


@dataclass(frozen=True)
class Words:
    """One op in one edition: its role, and the names of the edition."""

    kind: str
    edition: str
    role: str  # forward, by_data or by_weights of a Convolution
    transposed: bool
    weights_format: str
    formats: tuple[str, str]  # spatial axes last, spatial axes first
    swapped: bool  # I and O of the weights are exchanged in comparison with IOX and XOI
    shape: str = ""
    output_padding: bool = False


def _words():
    for edition, fmt, shape, back in (
        (LEGACY, "filter_format", "filter_shape", ("BackpropData", "BackpropFilters", "output_shape")),
        (ONEAPI, "weights_format", "weights_shape", ("BackwardData", "BackwardWeights", "dst_shape")),
        (CURRENT, "weights_format", "weights_shape", ("BackwardData", "BackwardWeights", "dst_shape")),
    ):
        plain = ("OIX", "XIO")
        legacy = edition == LEGACY
        swapped = plain if legacy else ("IOX", "XOI")
        data, weights, data_shape = back
        yield Words("Convolution", edition, "forward", False, fmt, plain, False)
        yield Words("Convolution" + data, edition, "by_data", False, fmt, plain, False, data_shape)
        yield Words("Convolution" + weights, edition, "by_weights", False, fmt, plain, False, shape)
        yield Words("ConvTranspose", edition, "by_data", True, fmt, swapped, legacy, "", True)
        yield Words("ConvTranspose" + data, edition, "forward", True, fmt, swapped, legacy, "", True)
        yield Words("ConvTranspose" + weights, edition, "by_weights", True, fmt, swapped, legacy, shape, True)


WORDS = tuple(_words())


@dataclass(frozen=True)
class Case:
    """One use of an op: the call, its arrays, and the expected result (float64)."""

    words: Words
    dtype: str
    attrs: dict
    inputs: tuple
    shape_value: tuple | None
    expected: np.ndarray

    def __str__(self) -> str:
        return f"{self.words.kind} ({self.words.edition}) {self.dtype} {self.attrs} {[a.shape for a in self.inputs]}"


def make(rng: np.random.Generator, words: Words, dtype: str, **fixed) -> Case:
    """A random case; ``fixed`` pins n (spatial axes), groups, auto_pad, data_format, spatial_first, by_tensor."""

    def pick(name, *choices):
        return fixed[name] if name in fixed else choices[rng.integers(len(choices))]

    n = pick("n", 1, 2, 3)
    groups = pick("groups", 1, 1, 2, 3)
    auto_pad = pick("auto_pad", "none", "none", "same_upper", "same_lower", "valid")
    data_format = pick("data_format", "NXC", "NCX")
    spatial_first = pick("spatial_first", True, False)
    kernel = tuple(rng.integers(1, 5, n).tolist()) if n < 3 else tuple(rng.integers(1, 4, n).tolist())
    strides = tuple(rng.integers(1, 4, n).tolist())
    dilations = tuple(pick("dilations", 1, 1, 2, 3) for _ in range(n))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    wide_channels, narrow_channels = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
    batch = int(rng.integers(1, 3))
    begin = tuple(int(rng.integers(0, r)) for r in reach)
    end = tuple(int(rng.integers(0, r)) for r in reach)
    if words.transposed:
        narrow = tuple(rng.integers(2, 6, n).tolist())
        added = tuple(int(rng.integers(0, s)) for s in strides)
        if auto_pad != "none":
            totals = [max(r - s, 0) if auto_pad != "valid" else 0 for r, s in zip(reach, strides, strict=True)]
            begin, end = _split(totals, auto_pad)
        wide = tuple(
            s * (x - 1) + r - b - e + a
            for s, x, r, b, e, a in zip(strides, narrow, reach, begin, end, added, strict=True)
        )
        if min(wide) < 1 or (min(np.subtract(wide, added)) < 1):
            return make(rng, words, dtype, **fixed)
    else:
        wide = tuple(int(r + rng.integers(0, 6)) for r in reach)
        if auto_pad == "none":
            narrow = tuple(
                (x + b + e - r) // s + 1 for x, b, e, r, s in zip(wide, begin, end, reach, strides, strict=True)
            )
        elif auto_pad == "valid":
            begin = end = (0,) * n
            narrow = tuple((x - r) // s + 1 for x, r, s in zip(wide, reach, strides, strict=True))
        else:
            narrow = tuple(-(-x // s) for x, s in zip(wide, strides, strict=True))
            totals = [max((y - 1) * s + r - x, 0) for y, s, r, x in zip(narrow, strides, reach, wide, strict=True)]
            begin, end = _split(totals, auto_pad)
        added = tuple(
            x - (s * (y - 1) + r - b - e)
            for x, s, y, r, b, e in zip(wide, strides, narrow, reach, begin, end, strict=True)
        )
    window = (strides, dilations, begin, groups)

    def random(*shape):
        return rng.integers(-8, 9, shape) / 8

    wide_array = random(batch, wide_channels, *wide)
    narrow_array = random(batch, narrow_channels, *narrow)
    weights = random(narrow_channels, wide_channels // groups, *kernel)

    def activation(array):
        return np.moveaxis(array, 1, -1) if data_format == "NXC" else array

    def filters(array):
        # (narrow, wide / groups, X) is OIX of a Convolution and IOX of a ConvTranspose.
        if words.swapped:
            array = array.swapaxes(0, 1)
        return np.moveaxis(array, (0, 1), (-1, -2)) if spatial_first else array

    attrs = {
        "strides": list(strides),
        "dilations": list(dilations),
        "pads_begin": list(begin if auto_pad == "none" else rng.integers(0, 4, n).tolist()),
        "pads_end": list(end if auto_pad == "none" else rng.integers(0, 4, n).tolist()),
        "auto_pad": auto_pad,
        "groups": groups,
        "data_format": data_format,
        words.weights_format: words.formats[1 if spatial_first else 0],
    }
    if words.output_padding and (words.role == "by_data" or rng.integers(2)):
        attrs["output_padding"] = list(added)
    if words.role == "forward":
        inputs = (activation(wide_array), filters(weights))
        expected = activation(convolution_by_definition.convolution(wide_array, weights, narrow, *window))
    elif words.role == "by_data":
        inputs = (activation(narrow_array), filters(weights))
        expected = activation(convolution_by_definition.gradient_by_data(narrow_array, weights, wide, *window))
    else:
        sides = (narrow_array, wide_array) if words.transposed else (wide_array, narrow_array)
        inputs = tuple(map(activation, sides))
        expected = filters(convolution_by_definition.gradient_by_weights(wide_array, narrow_array, kernel, *window))
    shape_value = None
    if words.shape:
        if pick("by_tensor", False, True):
            shape_value = expected.shape
        else:
            attrs[words.shape] = list(expected.shape)
    arrays = tuple(np.ascontiguousarray(array).astype(DTYPES[dtype]) for array in inputs)
    return Case(words, dtype, attrs, arrays, shape_value, expected)


def _split(totals, auto_pad):
    small = tuple(total // 2 for total in totals)
    large = tuple(total - total // 2 for total in totals)
    return (small, large) if auto_pad == "same_upper" else (large, small)
