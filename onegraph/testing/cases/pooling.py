"""Lists valid uses of the pooling ops."""

from __future__ import annotations

from collections.abc import Iterator

from ..._util.records import record
from .case import FLOATS, Attrs, Case, Dims, Make, SeededData, Use, layout, normals, s32, typed


@record(frozen=True)
class _Pool:
    """The size of the image and the attributes of the pool; empty attributes other than pads are omitted."""

    size: Dims
    kernel: Dims
    strides: Dims
    pads_begin: Dims = ()
    pads_end: Dims = ()
    dilations: Dims = ()
    auto_pad: str = ""
    rounding_type: str = ""

    def attrs(self, data_format: str) -> Attrs:
        no_padding = [0] * len(self.size)
        attrs_set: Attrs = {
            "pads_begin": list(self.pads_begin) or no_padding,
            "pads_end": list(self.pads_end) or no_padding,
            "kernel": list(self.kernel),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "auto_pad": self.auto_pad,
            "rounding_type": self.rounding_type,
            "data_format": data_format,
        }
        return {name: value for name, value in attrs_set.items() if value}

    def counts(self) -> Dims:
        """Number of window positions along each axis, by rounding_type."""
        same, up = self.auto_pad.startswith("same"), self.rounding_type == "ceil"
        counts = []
        for axis, (dim, stride) in enumerate(zip(self.size, self.strides, strict=True)):
            dilation = self.dilations[axis] if self.dilations else 1
            last_start = dim - (self.kernel[axis] - 1) * dilation - 1
            if not self.auto_pad:
                last_start += sum(pads[axis] for pads in (self.pads_begin, self.pads_end) if pads)
            counts.append(-(-dim // stride) if same else (-(-last_start // stride) if up else last_start // stride) + 1)
        return tuple(counts)


_POOLS = {
    "plain": _Pool((7, 6), (3, 2), (2, 2)),
    "padded": _Pool((7, 6), (3, 3), (2, 1), (1, 2), (2, 0)),
    "ceil": _Pool((8, 7), (3, 3), (2, 3), rounding_type="ceil"),
    "ceil padded": _Pool((9, 8), (3, 3), (3, 2), (1, 1), (1, 1), rounding_type="ceil"),
    "same_upper": _Pool((7, 6), (3, 4), (2, 3), auto_pad="same_upper"),
    "same_lower": _Pool((7, 6), (3, 4), (2, 3), auto_pad="same_lower"),
    "same and unread": _Pool((7, 9), (1, 2), (4, 4), auto_pad="same_upper"),
    "same and ceil": _Pool((7, 6), (3, 2), (2, 2), auto_pad="same_upper", rounding_type="ceil"),
    "valid": _Pool((8, 6), (3, 2), (2, 3), (2, 2), auto_pad="valid"),
    "1d": _Pool((9,), (4,), (2,), (1,), (1,)),
    "3d": _Pool((5, 4, 6), (2, 3, 2), (2, 1, 2), rounding_type="ceil"),
    "dilated": _Pool((9, 8), (3, 2), (2, 1), dilations=(2, 3)),
    "dilated ceil": _Pool((10, 8), (2, 2), (3, 2), (1, 0), (0, 1), (3, 2), rounding_type="ceil"),
    "whole": _Pool((4, 5), (4, 5), (1, 1)),
    "padding alone": _Pool((4, 5), (2, 2), (2, 2), (2, 0), (0, 3)),
}


def _maximum(src: Dims, attrs: Attrs) -> Make:
    def make(data: SeededData, dtype: str) -> Use:
        return (data.distinct(dtype, *src),), attrs

    return make


def _maximum_backward(src: Dims, dst: Dims, attrs: Attrs) -> Make:
    def make(data: SeededData, dtype: str) -> Use:
        return (data.distinct(dtype, *src), data.normal(dtype, *dst)), attrs

    return make


def cases() -> Iterator[Case]:
    """MaxPool and AvgPool, and their gradients, in both formats."""
    for label, pool in _POOLS.items():
        for fmt in ("NXC", "NCX"):
            yield from _pools(label, pool, fmt)


def _pools(label: str, pool: _Pool, fmt: str) -> Iterator[Case]:
    attrs = pool.attrs(fmt)
    gradient = {name: value for name, value in attrs.items() if name != "rounding_type"}
    src, dst = layout(fmt, 3, pool.size), layout(fmt, 3, pool.counts())
    types = FLOATS if label in ("plain", "ceil padded") else ("f32",)
    yield from typed("MaxPool", f"{label}-{fmt}", _maximum(src, attrs), types)
    yield from typed("MaxPoolBackward", f"{label}-{fmt}", _maximum_backward(src, dst, gradient), types)
    if pool.dilations:
        return
    for exclude in (True, False):
        if exclude and label == "padding alone":
            continue
        average = normals((src,), {**attrs, "exclude_pad": exclude})
        shared = normals((dst,), {**gradient, "exclude_pad": exclude, "src_shape": list(src)})
        yield from typed("AvgPool", f"{label}-{fmt}-{exclude}", average, types)
        yield from typed("AvgPoolBackward", f"{label}-{fmt}-{exclude}", shared, types)
    if label == "plain":
        inputs = (SeededData(fmt).normal("f32", *dst), s32(*src))
        yield Case("AvgPoolBackward", f"tensor-{fmt}", inputs, {**gradient, "exclude_pad": True})
