"""Lists valid uses of the convolutions: a few of each."""

from __future__ import annotations

from collections.abc import Iterator

from .case import FLOATS, Attrs, Case, Dims, Make, SeededData, Use, layout, normals, s32, typed

_SIZE = (7, 6)
_COUNTS = {"none": (6, 5), "same_upper": (7, 6), "valid": (5, 4)}


def _with_shape(src: Dims, grad: Dims, weights: Dims, attrs: Attrs) -> Make:
    """A gradient that takes the shape of its result as a tensor."""

    def make(data: SeededData, dtype: str) -> Use:
        return (data.normal(dtype, *src), data.normal(dtype, *grad), s32(*weights)), attrs

    return make


def _uses(fmt: str, auto_pad: str) -> dict[str, Make]:
    formats, shape = (("XIO", "XOI"), (3, 3, 2, 4)) if fmt == "NXC" else (("OIX", "IOX"), (4, 2, 3, 3))
    common: Attrs = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [0, 0], "dilations": [1, 1]}
    common.update(data_format=fmt, auto_pad=auto_pad, groups=2)
    plain, turned = ({**common, "weights_format": weights_format} for weights_format in formats)
    src, dst = layout(fmt, 4, _SIZE), layout(fmt, 4, _COUNTS[auto_pad])
    return {
        "Convolution": normals((src, shape, (4,)), plain),
        "ConvolutionBackwardData": normals((dst, shape), {**plain, "dst_shape": list(src)}),
        "ConvolutionBackwardWeights": _with_shape(src, dst, shape, plain),
        "ConvTranspose": normals((dst, shape, (4,)), turned),
        "ConvTransposeBackwardData": normals((src, shape), turned),
        "ConvTransposeBackwardWeights": normals((dst, src), {**turned, "weights_shape": list(shape)}),
    }


def _plain_gradients(fmt: str) -> dict[str, Make]:
    """Gradients with one group and the shape as an attribute, which every library version supports."""
    formats, shape = ("XIO", (3, 3, 2, 4)) if fmt == "NXC" else ("OIX", (4, 2, 3, 3))
    attrs: Attrs = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [1, 0], "dilations": [1, 2]}
    attrs.update(data_format=fmt, weights_format=formats)
    src, dst = layout(fmt, 2, (7, 8)), layout(fmt, 4, (4, 4))
    return {
        "ConvolutionBackwardData": normals((dst, shape), {**attrs, "dst_shape": list(src)}),
        "ConvolutionBackwardWeights": normals((src, dst), {**attrs, "weights_shape": list(shape)}),
    }


def cases() -> Iterator[Case]:
    """Convolution and ConvTranspose in two groups, and their gradients, in both formats."""
    for fmt in ("NXC", "NCX"):
        for kind, make in _plain_gradients(fmt).items():
            yield from typed(kind, f"plain {fmt}", make)
    for fmt in ("NXC", "NCX"):
        for auto_pad in _COUNTS:
            for kind, make in _uses(fmt, auto_pad).items():
                yield from typed(kind, f"{fmt}-{auto_pad}", make, FLOATS if auto_pad == "none" else ("f32",))
