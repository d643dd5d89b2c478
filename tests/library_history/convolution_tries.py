"""Convolutions, as commits of the oneDNN library mended them."""

from __future__ import annotations

from typing import Any

from onegraph import Graph, LogicalTensor

from .builders import IMAGE, Shape, biased, convolved, quantized, tries, window

tries(
    "strides longer than the kernel",
    *[
        convolved("Convolution", dtype, [(2, 17, 17, channels), (k, k, channels, 16)], strides=[s, s])
        for dtype in ("f32", "bf16")
        for channels in (3, 16, 64)
        for k, s in ((1, 3), (2, 3), (2, 4))
    ],
    *[
        convolved("Convolution", dtype, [(1, 70, 70, 64), (k, k, 64, 32)], strides=[3, 3])
        for dtype in ("f32", "bf16")
        for k in (1, 2)
    ],
    *[
        quantized("Convolution", [(2, 17, 17, channels), (k, k, channels, 16)], **{**IMAGE, "strides": [s, s]})
        for channels in (3, 16, 64)
        for k, s in ((1, 3), (2, 3), (2, 4))
    ],
)
tries(
    "strided transposed convolution",
    *[
        convolved(
            "ConvTranspose", dtype, [(2, 9, 9, channels), (3, 3, 16, channels)], strides=[s, s], pads_begin=[p, p]
        )
        for dtype in ("f32", "bf16")
        for channels in (3, 16, 64)
        for s, p in ((2, 0), (2, 1), (3, 1))
    ],
    *[
        convolved("ConvTranspose", dtype, [(1, size, size, 32), (k, k, 32, 32)], strides=[s, s])
        for dtype in ("f32", "bf16")
        for size, k, s in ((30, 4, 2), (33, 3, 2), (17, 5, 3), (12, 2, 2))
    ],
)
tries(
    "transposed convolution of codes with zero points",
    *[
        quantized(
            "ConvTranspose",
            [(2, size, size, channels), (k, k, 16, channels)],
            source=source,
            zps=(zero, 0),
            to=to,
            **{**IMAGE, "strides": [s, s], "pads_begin": [p, p], "pads_end": [p, p]},
        )
        for size, k, s, p in ((9, 3, 2, 1), (20, 4, 2, 1), (7, 3, 1, 1), (9, 5, 3, 2), (40, 3, 2, 0))
        for channels in (16, 64)
        for source, zero in (("u8", 0), ("s8", 0), ("u8", 7), ("s8", -5))
        for to in ("", "s8")
    ],
)
tries(
    "transposed convolution with a bias",
    *[
        biased(
            "ConvTranspose",
            dtype,
            [(2, size, size, channels), (k, k, 17, channels), (17,)],
            strides=[s, s],
            pads_begin=[p, p],
            pads_end=[p, p],
        )
        for dtype in ("f32", "bf16", "f16")
        for channels in (3, 16, 64)
        for size, k, s, p in ((9, 3, 2, 1), (8, 2, 2, 0), (9, 3, 1, 1), (7, 4, 3, 0))
    ],
)
tries(
    "ops behind int8 convolutions",
    *[
        quantized(
            "Convolution",
            [(*batch, 8, 8, channels), (3, 3, channels // groups, 24), (24,)],
            source=source,
            then=then,
            **{**IMAGE, "pads_begin": [1, 1], "groups": groups},
        )
        for batch in ((1,), (3,))
        for channels, groups in ((16, 1), (24, 24), (12, 2))
        for source in ("u8", "s8")
        for then in ("Add", "Multiply")
    ],
)
tries(
    "padded int8 convolution of single channels",
    *[
        quantized(
            "Convolution",
            [(1, 8, 16, 1), (2, k, 1, oc)],
            source="s8",
            **{**IMAGE, "pads_begin": [0, 1], "pads_end": [0, 2]},
        )
        for k in (1, 3, 4)
        for oc in (1, 8)
    ],
)
tries(
    "padded convolutions of codes with zero points",
    *[
        quantized(
            "Convolution",
            [(1, height, wide, channels), (k, k, channels // groups, count)],
            source=source,
            zps=(zero, 0),
            to=to,
            **{**IMAGE, "pads_begin": [p, p], "pads_end": [p, p], "strides": [s, s], "groups": groups},
        )
        for height, wide in ((6, 7), (5, 65), (40, 12))
        for k, s, p in ((3, 1, 1), (5, 2, 2), (7, 1, 3))
        for channels, count, groups in ((3, 16, 1), (16, 40, 1), (64, 64, 1), (32, 32, 2))
        for source, zero, to in (("s8", 0, ""), ("u8", 128, ""), ("s8", -7, "u8"))
    ],
    *[
        quantized(
            "Convolution",
            [(1, 5, 6, 7, c), (3, 3, 3, c, 16)],
            source=source,
            zps=(zero, 0),
            to="",
            **window(3, pads_begin=1, pads_end=1),
        )
        for c in (3, 16, 64)
        for source, zero in (("s8", 0), ("u8", 9), ("s8", 4))
    ],
)
tries(
    "convolutions of codes of each channel",
    *[
        quantized(
            "Convolution",
            [(2, *[9] * rank, channels), (*[3] * rank, 1, channels), *other],
            source=source,
            zps=(zero, 0),
            to=to,
            then=then,
            **window(rank, pads_begin=1, pads_end=1, strides=s, groups=channels),
        )
        for rank in (1, 2)
        for channels in (3, 16, 24, 70)
        for s in (1, 2)
        for source, zero in (("u8", 0), ("s8", 0), ("u8", 100), ("s8", -9))
        for then, other, to in (("", (), ""), ("", (), "s8"), ("Multiply", ((channels,),), "u8"))
    ],
)
tries(
    "convolutions of codes with a scale for each channel",
    *[
        quantized(
            "Convolution",
            [(2, 7, 8, channels), (k, k, channels // groups, 24)],
            source=source,
            scales=3,
            to=to,
            **{**IMAGE, "pads_begin": [p, p], "groups": groups},
        )
        for channels, groups in ((16, 1), (24, 24), (12, 2), (64, 1))
        for k, p in ((1, 0), (3, 1))
        for source in ("u8", "s8")
        for to in ("", "s8")
    ],
    *[
        quantized("ConvTranspose", [(2, 7, 8, 16), (k, k, 24, 16)], source=source, scales=2, to="", **IMAGE)
        for k in (1, 3)
        for source in ("u8", "s8")
    ],
)


def _images(
    dtype: str, size: int, channels: int, count: int, k: int, s: int, p: int, d: int = 1, groups: int = 1
) -> Any:
    shapes: list[Shape] = [(2, size, size + 1, channels), (k, k, channels // groups, count)]
    options: dict[str, Any] = {"pads_begin": [p, p], "pads_end": [p, p], "dilations": [d, d], "groups": groups}
    return convolved("Convolution", dtype, shapes, strides=[s, s], **options)


tries(
    "padded convolutions of tails of channels",
    *[
        _images(dtype, size, channels, count, k, s, p, d)
        for dtype in ("f32", "bf16", "f16")
        for channels, count in ((1, 16), (3, 17), (17, 40), (34, 64), (66, 70))
        for size, k, s, p, d in (
            (9, 3, 1, 3, 1),
            (7, 3, 2, 4, 1),
            (14, 2, 2, 0, 1),
            (12, 4, 2, 1, 1),
            (11, 3, 1, 2, 2),
            (5, 5, 1, 5, 1),
            (28, 7, 2, 3, 1),
        )
    ],
    *[
        convolved(
            "Convolution", dtype, [(2, size, c), (3, c, 24)], strides=[s], pads_begin=[2], pads_end=[2], dilations=[d]
        )
        for dtype in ("f32", "bf16")
        for c in (3, 16, 33)
        for size, s, d in ((40, 1, 1), (65, 2, 1), (33, 1, 3))
    ],
    *[
        convolved(
            "Convolution", dtype, [(1, 5, 6, 7, c), (3, 3, 3, c, 24)], **window(3, pads_begin=2, pads_end=2, strides=s)
        )
        for dtype in ("f32", "bf16")
        for c in (3, 16, 33)
        for s in (1, 2)
    ],
    *[
        convolved(
            "Convolution",
            dtype,
            [(2, c, 9, 9), (24, c, 3, 3)],
            data_format="NCX",
            weights_format="OIX",
            pads_begin=[1, 1],
        )
        for dtype in ("f32", "bf16")
        for c in (1, 3, 16, 33)
    ],
)
tries(
    "1x1 convolutions of tails",
    *[
        _images(dtype, size, channels, count, 1, s, 0)
        for dtype in ("f32", "bf16", "f16")
        for channels, count in ((16, 16), (33, 70), (130, 40), (64, 200), (1024, 17))
        for size, s in ((5, 1), (14, 1), (23, 1), (14, 2), (15, 3))
    ],
    *[
        quantized(
            "Convolution", [(2, size, size, c), (1, 1, c, count)], source=source, to="", **{**IMAGE, "strides": [s, s]}
        )
        for source in ("u8", "s8")
        for c, count in ((16, 16), (33, 70), (130, 40), (64, 200))
        for size, s in ((5, 1), (14, 1), (23, 1), (14, 2))
    ],
    *[
        convolved("Convolution", dtype, [(1, 3, 4, 5, c), (1, 1, 1, c, 40)], **window(3, strides=s))
        for dtype in ("f32", "bf16")
        for c in (16, 70)
        for s in (1, 2)
    ],
)
tries(
    "convolutions of half precision of few channels",
    *[
        _images("f16", size, channels, count, k, s, p)
        for channels in (1, 2, 3, 4, 8, 12)
        for count in (16, 64, 33)
        for size, k, s, p in ((16, 7, 2, 3), (12, 5, 1, 2), (20, 11, 4, 2), (9, 3, 1, 1))
    ],
)
tries(
    "columns of many channels in half precision",
    *[
        convolved("Convolution", "f16", [(2, height, 1, channels), (k, 1, channels, 8)])
        for height, k in ((2, 2), (5, 3))
        for channels in (33, 65, 129)
    ],
)
tries(
    "windows beside the source",
    *[
        convolved(kind, dtype, [(1, 2, channels), (1, channels, 8)], strides=[1], pads_begin=[0], pads_end=[2])
        for kind in ("Convolution", "ConvTransposeBackwardData")
        for dtype in ("f32", "bf16", "f16")
        for channels in (1, 17)
    ],
    *[
        quantized("Convolution", [(1, 4, 2, channels), (1, 1, channels, 8)], **{**IMAGE, "pads_end": [0, 2]})
        for channels in (1, 16, 17)
    ],
)


def _pair(dtype: str, size: int, s: int, channels: int, then: str) -> Any:
    """A pointwise convolution, and a depthwise one behind it."""

    def build(g: Graph) -> LogicalTensor:
        x, w, d = (
            g.input(name, dtype, shape)
            for name, shape in (("x", (2, size, size, channels)), ("w", (1, 1, channels, 32)), ("d", (3, 3, 1, 32)))
        )
        result = g.op("Convolution", [x, w], IMAGE)
        result = g.op(then, [result]) if then else result
        return g.op("Convolution", [result, d], window(2, strides=s, pads_begin=1, pads_end=1, groups=32))

    return build


tries(
    "pointwise and depthwise convolution",
    *[
        _pair(dtype, size, s, channels, then)
        for dtype in ("f32", "bf16")
        for size in (8, 9, 13)
        for s in (1, 2)
        for channels in (16, 40)
        for then in ("", "ReLU")
    ],
)


def _gradient(
    of: str, dtype: str, size: int, channels: int, count: int, k: int, s: int, p: int, groups: int = 1
) -> Any:
    out = (size + 2 * p - k) // s + 1
    image, weights, outcome = (2, size, size, channels), (k, k, channels // groups, count), (2, out, out, count)
    options: dict[str, Any] = {"strides": [s, s], "pads_begin": [p, p], "pads_end": [p, p], "groups": groups}
    if of == "weights":
        return convolved("ConvolutionBackwardWeights", dtype, [image, outcome], weights_shape=list(weights), **options)
    return convolved("ConvolutionBackwardData", dtype, [outcome, weights], dst_shape=list(image), **options)


tries(
    "gradients of convolutions",
    *[
        _gradient(of, dtype, size, channels, count, k, s, p)
        for of in ("weights", "data")
        for dtype in ("f32", "bf16", "f16")
        for channels, count in ((3, 16), (16, 32), (33, 40), (64, 17))
        for size, k, s, p in ((9, 3, 1, 1), (14, 3, 2, 1), (12, 5, 3, 2), (8, 2, 2, 0), (10, 1, 1, 0), (30, 3, 1, 0))
    ],
    *[
        convolved(
            "ConvolutionBackwardWeights",
            dtype,
            [(2, c, 9, 9), (2, 16, out, out)],
            weights_shape=[16, c, k, k],
            data_format="NCX",
            weights_format="OIX",
        )
        for dtype in ("f32", "bf16")
        for c in (3, 16, 33)
        for k, out in ((1, 9), (3, 7))
    ],
)
tries(
    "gradients of grouped convolutions",
    *[
        _gradient(of, dtype, 9, channels, count, k, 1, p, groups)
        for of in ("weights", "data")
        for dtype in ("f32", "bf16")
        for channels, count, groups in ((8, 12, 2), (12, 6, 3), (16, 16, 16), (8, 16, 8), (32, 64, 4))
        for k, p in ((3, 1), (1, 0))
    ],
)
tries(
    "gradient of strided pixels",
    *[
        convolved(
            "ConvolutionBackwardWeights",
            "f32",
            [(2, 2 * size, 2 * size, ic), (2, size, size, 16)],
            strides=[2, 2],
            weights_shape=[1, 1, ic, 16],
        )
        for size in (16, 32)
        for ic in (1, 7, 15)
    ],
)


def _behind(dtype: str, shape: Shape, kinds: tuple[str, ...]) -> Any:
    """A convolution whose operands behind it are one pixel, or one number."""

    def build(g: Graph) -> LogicalTensor:
        x, w = g.input("x", dtype, (2, 9, 9, 17)), g.input("w", dtype, (3, 3, 17, 24))
        result = g.op("Convolution", [x, w], IMAGE)
        for number, kind in enumerate(kinds):
            result = g.op(kind, [result, g.input(f"y{number}", dtype, shape)])
        return result

    return build


tries(
    "convolutions and operands of one pixel",
    *[
        _behind(dtype, shape, kinds)
        for dtype in ("f32", "bf16")
        for shape in ((1, 1, 1, 24), (1, 1, 1, 1), (1, 7, 7, 1))
        for kinds in (("Multiply", "Add"), ("Add", "Maximum"))
    ],
)
