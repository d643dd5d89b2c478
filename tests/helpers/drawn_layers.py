"""Convolutions, pools, codes and recurrent layers as lowerings add them: a material of :mod:`draws`.

Attributes fit together in most draws; sizes are known, or some of them are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.lowering import integer_products, recurrence, windows
from onegraph.lowering import quantization as q
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.recurrent import composed_recurrence
from onegraph.lowering.windows import Window
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import HOST, edition
from onegraph.opset.host.recurrence import ACTIVATIONS, GATES
from onegraph.opset.schema import Call, TensorType

from .draws import material, recorded

FLOATS = ("f32", "f32", "f32", "f32", "f16", "bf16")
USUAL = 400  # numbers of draws without rare forms
INTERNAL = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Layer:
    """A graph, and values for one layer."""

    def __init__(self, drawn: Random) -> None:
        self.drawn, self.graph = drawn, og.Graph(strict=False)
        self.emit, self.is_rare = Emitter(self.graph), False

    def one(self, *choices: Any) -> Any:
        return self.drawn.choice(choices)

    def flag(self, share: float = 0.5) -> bool:
        return self.drawn.random() < share

    def input(self, dtype: Any, shape: Any, unknown: float = 0.05) -> Any:
        """An input, of which each size may be unknown, and seldom the rank."""
        dims: Any = [None if self.flag(unknown) else dim for dim in shape]
        made = DataType(dtype)
        given = made if made.value not in ("float64", "int16", "uint16", "s4", "u4") else DataType.f32
        src = self.graph.input(f"x{len(self.graph.inputs)}", given, None if self.flag(0.02) else dims)
        return src if given is made else self.emit.op("Cast", [src], {"saturate": True}, dtype=made)

    def array(self, dtype: Any, shape: Any, low: int = -4, high: int = 5) -> Any:
        made = np.random.RandomState(self.drawn.randrange(99)).randint(low, high, shape)
        kind = DataType(dtype).numpy
        return (np.abs(made) if kind.kind == "u" or str(kind).startswith("uint") else made).astype(kind)

    def value(self, dtype: Any, shape: Any, known: float = 0.5) -> Any:
        return self.array(dtype, shape) if self.flag(known) else self.input(dtype, shape)

    # Windows ---------------------------------------------------------------------------------------------------------

    def window(self, axes: int, pooled: bool = False) -> Window:
        def several(*few: int) -> list[int]:
            return [self.one(*few) for _ in range(axes)]

        pads = (0, 0, 1) if pooled else (0, 0, 1, 1, 2, -1)
        dilations = several(1, 1, 1, 2) if self.flag(0.4) else [1] * axes
        auto_pad = self.one("None", "None", "None", "VALID", "SAME_UPPER", "SAME_LOWER")
        strides, begin, end = several(1, 1, 2, 3), several(*pads), several(*pads)
        if self.is_rare and self.flag(0.4):
            dilations[self.one(0, -1)], strides[-1] = self.one((0, 1), (1, 0), (-1, 1), (3, 1))
            begin[-1] = self.one(0, 9)
        return Window(strides, begin, end, dilations, auto_pad)

    def image(self, axes: int, dtypes: Any = FLOATS, unknown: float = 0.06) -> tuple[Any, Any]:
        channels = self.one(1, 2, 4)
        dims = [self.one(3, 4, 5, 7) for _ in range(axes)]
        return self.input(self.one(*dtypes), (self.one(1, 2), channels, *dims), unknown), channels

    def kernel(self, axes: int) -> list[int]:
        return [self.one(1, 2, 2, 3) for _ in range(axes)]

    def convolution(self) -> Any:
        axes = self.one(1, 2, 3, 3, 3)
        src, channels = self.image(axes, FLOATS, 0.02)
        groups = self.one(channels, channels, 1)
        weights = self.value(src.dtype, (channels * self.one(1, 1, 1, 2), channels // groups, *self.kernel(axes)), 0.9)
        if self.is_rare and self.flag(0.3) and isinstance(weights, np.ndarray):
            weights = self.one(weights[..., 0], weights[None])
        bias = self.value(src.dtype, (len(weights),)) if isinstance(weights, np.ndarray) and self.flag(0.4) else None
        window = self.window(axes)
        if self.flag(0.15):
            more = self.one([0] * axes, [0] * axes, [1] * axes)
            return windows.convolution_transpose(
                self.emit, src, weights, bias, window, output_padding=more, groups=groups
            )
        return windows.convolution(self.emit, src, weights, bias, window, groups=groups)

    def pool(self) -> Any:
        axes, emit = self.one(1, 2, 2, 3), self.emit
        dtypes = (*FLOATS, "s8", "u8", "float64")
        src, _ = self.image(axes, dtypes)
        kernel, window, ceil = self.kernel(axes), self.window(axes, pooled=True), self.flag(0.4)
        return self.one(
            lambda: windows.max_pool(emit, src, kernel, window, ceil=ceil),
            lambda: windows.max_pool_places(emit, src, kernel, window, *self.one([], [True])),
            lambda: windows.average_pool(emit, src, kernel, window, ceil=ceil, exclude_pad=self.flag()),
            lambda: windows.average_pool(emit, src, kernel, window, ceil=ceil, exclude_pad=self.flag()),
            lambda: windows.lp_pool(emit, src, kernel, window, self.one(1, 2, 3), ceil=ceil),
        )()

    # Codes -----------------------------------------------------------------------------------------------------------

    def scale(self, shape: Any, zero: Any) -> q.Scale:
        """A scale and maybe a zero point, of one number, of channels or of blocks."""
        rank, axis = len(shape), self.one(0, 1, -1)
        at = axis % max(rank, 1)
        block = self.one(0, 0, 0, 2, 16) if rank else 0
        form = self.one((), (1,), (1,), *([(shape[at],)] * 3 if rank else []))
        if block:
            form = tuple(-(-dim // block) if place == at else dim for place, dim in enumerate(shape))
        form = form if self.flag(0.95) else (*form, 1)
        if self.is_rare and self.flag(0.3):
            form = self.one((4,), (1, 4), (3, 1))
        known = self.one(1.0, 1.0, 1.0, 0.0)
        scale = self.value(self.one(*["f32"] * 6, "f16"), form, known)
        if isinstance(scale, np.ndarray):
            scale = np.abs(scale) / 2 + (0.5 if self.flag(0.9) else 0)
            scale = scale.astype(np.float32) if scale.dtype != np.float16 else scale
        zeros = None
        if self.flag(0.6):
            zeros = self.value(zero, form, known)
            zeros = zeros * self.one(0, 1, 1, 20) if isinstance(zeros, np.ndarray) and "4" not in zero else zeros
        return q.Scale(scale, zeros, axis, block)

    def codes(self) -> Any:
        shape = self.one((), (4,), (3, 4), (3, 4), (32, 4), (4, 32), (2, 3, 4))
        kind = self.one("s8", "u8", "u8", "s8", "s32", "int16", "s4", "u4")
        src = self.value(kind, shape, 0.5)
        if isinstance(src, np.ndarray) and self.flag(0.3):
            src = self.array(kind, shape, *((-8, 8) if "4" in kind else (-128, 128) if "8" in kind else (-999, 999)))
        dtype = self.one(*[DataType.f32] * 6, DataType.f16, DataType.bf16)
        return q.dequantize(self.emit, src, self.scale(shape, kind), *self.one([], [dtype]))

    def numbers(self) -> Any:
        shape = self.one((), (4,), (3, 4), (2, 3, 4))
        kind = self.one("s8", "u8", "s8", "u8", "s32", "int16", "uint16", "s4", "u4")
        src = self.value(self.one(*FLOATS), shape, 0.2)
        scale = self.scale(shape, kind)
        made = q.quantize(self.emit, src, scale, DataType(kind), *self.one([], [False]))
        if self.flag(0.5):
            again = scale if self.flag(0.8) else self.scale(shape, kind)
            return q.dequantize(self.emit, made, again, *self.one([], [], [DataType.f16]))
        return made

    def ranges(self) -> Any:
        src = self.value(self.one(*FLOATS), self.one((), (3, 4), (2, 3, 4)), 0.2)
        if self.flag(0.4) and len(src.shape or ()) == 2:
            src = self.emit.op("StaticTranspose", [src], {"order": [1, 0]})
        options = {"low": self.one(0, -128), "high": self.one(255, 127), "least": self.one(0.0, 0.5)}
        options = {name: given for name, given in options.items() if self.flag()}
        return q.dynamic_quantize(self.emit, src, self.one(DataType.u8, DataType.s8), **options)

    def integers(self, *shape: int) -> Any:
        """Codes of 8 bits, known or not, which may be as large as they can."""
        kind = self.one("s8", "u8")
        if self.flag(0.3):
            return self.input(kind, shape, 0.03)
        low, high = self.one((-4, 5), (-4, 5), (-128, 128), (120, 128))
        made = self.array("s32", shape, low, high)
        return np.abs(made).astype(np.uint8) * self.one(1, 2) if kind == "u8" else made.astype(np.int8)

    def point(self, kind: Any, *shapes: Any) -> Any:
        """A zero point, known or not."""
        shape = self.one(None, None, *shapes)
        if shape is None:
            return None
        made = self.value(DataType(kind), shape, 0.7)
        return made * self.one(0, 1, 1, 30) if isinstance(made, np.ndarray) else made

    def integer_matmul(self) -> Any:
        depth, columns = self.one(2, 3, 3, 300), self.one(1, 2)
        rows = self.one((4, depth), (4, depth), (2, 3, depth), (depth,), (1, depth))
        weights = self.integers(
            *self.one((depth, columns), (depth, columns), (depth, columns), (2, depth, columns), (depth,))
        )
        src = self.input(self.one("s8", "u8"), rows, 0.05)
        ends = (
            self.point(src.dtype, (), (), (1,), (4,), (4, 1)),
            self.point(DataType.of(weights.dtype), (), (1,), (columns,)),
        )
        return integer_products.integer_matmul(self.emit, src, weights, *ends)

    def integer_convolution(self) -> Any:
        axes, groups = self.one(1, 2, 2), self.one(1, 1, 1, 2)
        channels, columns = groups * self.one(1, 2, 2, 40), groups * self.one(1, 2)
        if self.is_rare:
            groups, channels, columns = 2, 2 * self.one(40, 65, 258), 2
        src = self.input(self.one("s8", "u8"), (1, channels, *[self.one(4, 5) for _ in range(axes)]), 0.02)
        weights = self.integers(columns, channels // groups, *self.kernel(axes))
        window = self.window(axes, pooled=True)
        ends = self.point(src.dtype, (), (1,)), self.point(DataType.of(weights.dtype), (), (1,), (columns,))
        return integer_products.integer_convolution(self.emit, src, weights, *ends, window, groups=groups)

    # Recurrent layers ------------------------------------------------------------------------------------------------

    def layer(self) -> Any:
        """A layer in the words of PyTorch."""
        cell, units, inputs, count = self.one(*GATES), self.one(1, 2, 17), self.one(2, 3), self.one(1, 2)
        gates, dtype = GATES[cell], self.one(*["f32"] * 9, "float64")
        src = self.input(dtype, (self.one(1, 3), 2, inputs), 0.15)
        known, biased = self.one(1, 0.5, 0), self.flag()
        parts = [
            [
                self.array(dtype, shape) if self.flag(known) else self.input(dtype, shape, 0.0)
                for shape in [(gates * units, inputs), (gates * units, units), *[(gates * units,)] * (2 * biased)]
            ]
            for _ in range(count)
        ]
        firsts = [
            self.value(dtype, (count, 2, units), 0.3) if self.flag() else None for _ in range(1 + (cell == "lstm"))
        ]
        return recurrence.layer(self.emit, cell, src, parts, firsts)

    def whole_layer(self) -> Any:
        """A layer in the words of ONNX."""
        cell, units, inputs = self.one("lstm", *GATES), self.one(1, 2, 16), self.one(2, 3)
        direction = self.one("forward", "reverse", "bidirectional")
        count, gates, dtype = 1 + (direction == "bidirectional"), GATES[cell], self.one(*["f32"] * 9, "float64")
        src = self.input(dtype, (self.one(1, 3), 2, inputs), self.one(0, 0.3))

        def maybe(*shape: int, kind: str = dtype, share: float = 0.5) -> Any:
            return weights(kind, *shape) if self.flag(share) else None

        def weights(kind: str, *shape: int) -> Any:
            return self.array(kind, shape) if self.flag(0.4) else self.input(kind, shape, 0.01)

        return recurrence.whole_layer(
            self.emit,
            cell,
            direction,
            src,
            weights(dtype, count, gates * units, inputs),
            weights(dtype, count, gates * units, units),
            maybe(count, 2 * gates * units),
            maybe(count, 2, units),
            maybe(count, 2, units),
            maybe(2, kind="s32", share=0.3),
            maybe(count, 3 * units, share=0.3) if cell == "lstm" else None,
            *self.one([], [], [{"clip": 3.0}]),
        )

    def composed(self) -> Any:
        """A Recurrence op by op."""
        cell, units, schema = self.one("lstm", *GATES), self.one(1, 2, 17), edition(HOST).schemas["Recurrence"]
        direction = self.one("forward", "reverse", "bidirectional")
        count, gates, steps, batch = 1 + (direction == "bidirectional"), GATES[cell], self.one(1, 3), 2
        attrs: dict[str, Any] = {"cell": cell, "direction": direction}
        if self.flag(0.3):
            attrs["clip"] = 2.0
        if self.is_rare and cell in ("lstm", "gru"):
            words = [self.one(*ACTIVATIONS) for _ in range(count * (3 if cell == "lstm" else 2))]
            attrs["activations"] = " ".join(words)
        has_peepholes = cell == "lstm" and self.flag(0.4)
        if has_peepholes:
            attrs["peepholes"] = True
        if cell == "lstm" and self.flag(0.3):
            attrs["input_forget"] = True
        rows = self.input("f32", (steps, batch, count, gates, units), 0.0)
        extra = [self.array("f32", (count, gates, units, 1)) for _ in range(1 + has_peepholes)]
        weights = recurrence.in_blocks(self.emit, self.array("f32", (count, gates, units, units)), *extra)
        if self.flag(0.4):
            weights = self.input("f32", weights.shape, 0.0)
        hidden = self.value("f32", (count, batch, units), 0.3) if self.flag() else None
        memory = self.value("f32", (count, batch, units), 0.3) if cell == "lstm" and self.flag() else None
        lengths = self.value("s32", (batch,), 0.3) if self.flag(0.4) else None
        ends = [None if one is None else TensorType(DataType.f32, one.shape) for one in (rows, weights, hidden, memory)]
        call = Call(schema, attrs, ends)
        return composed_recurrence(self.emit, call, rows, weights, hidden, memory, lengths)


LAYERS: dict[str, Callable[[Layer], Any]] = {
    name: getattr(Layer, name)
    for name in (
        "convolution",
        "pool",
        "codes",
        "numbers",
        "ranges",
        "layer",
        "whole_layer",
        "composed",
        "integer_matmul",
        "integer_convolution",
    )
}


@material(lambda: LAYERS)
def layers(name: str, number: int) -> list[str]:
    """The ops of a layer."""
    layer = Layer(Random(f"{name} {number}"))
    layer.is_rare = number >= USUAL

    def made() -> list[str]:
        try:
            found = LAYERS[name](layer)
        except OneGraphError:
            raise
        except INTERNAL as error:  # a message may be another one in other versions
            return [type(error).__name__]
        for place, one in enumerate(found if isinstance(found, (tuple, list)) else (found,)):
            layer.graph.output(f"y{place}", layer.emit.tensor(one))
        return [*recorded.lines_of(layer.graph)]

    return recorded.outcome(made, also=[recorded.NotLowered])
