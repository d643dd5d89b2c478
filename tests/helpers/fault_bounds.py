"""Programs that ask the records of faults at their bounds: uses of ops and of fusions that no example lies beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import onegraph as og
from onegraph.faults import slow_fusions, slow_strides, strided_ops
from onegraph.faults.constant_inputs import End, WiredOp, added
from onegraph.faults.depthwise import FAR_PADS, Padding
from onegraph.faults.fusions import FUSIONS, strided
from onegraph.faults.fusions.int8 import overflows
from onegraph.faults.leaks import leaks_pairs
from onegraph.faults.ops.elementwise import EXACT, wide_integers
from onegraph.faults.ops.pooling import SLOW_CHANNELS_FIRST, ChannelsFirst, steps_over
from onegraph.faults.ops.size import has_large_factor
from onegraph.faults.ops.windows import copies_wrong
from onegraph.faults.performance import SHORT_ROWS
from onegraph.faults.slow_images import SLOW_FOLDING
from onegraph.faults.slow_spreads import SLOW_WIDENING
from onegraph.faults.use import DEQUANTIZATIONS, Laid, Operand, Use
from onegraph.faults.without_avx512 import SLOW_COLUMNS, Columns
from onegraph.opset.convolution_geometry import convolution_geometry
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.window import AxisWindow

from .fault_subjects import OF_SINGLE_OPS, fused, graph_of
from .small_programs import laid_in, program

F32, F16, BF16, U8 = (DataType(name) for name in ("f32", "f16", "bf16", "u8"))
NEAR = (-1, 0, 1)


def use_of(kind: str, attrs: dict[str, Any], dtype: DataType, *shapes: Any) -> Call:
    """A use of an op on tensors of one type."""
    return Call(BASE[kind], attrs, [TensorType(dtype, shape) for shape in shapes], 1, [dtype])


def quantized_uses() -> Iterator[Call]:
    """Codes with scales and zero points at the ends of their ranges, for each index of an axis or for all."""
    zps = [end + step for end in (2**31, -(2**31), 2**32, 0) for step in NEAR]
    tiny = (2.0**-127, 2.0**-128, 2.0**-129, -(2.0**-128), 0.0, 1.0)
    for kind, dtype in (("Quantize", F32), ("Dequantize", U8)):
        yield from (use_of(kind, {"scales": (0.5,), "zps": points}, dtype, (2, 3)) for points in ((), *zip(zps)))
        yield from (use_of(kind, {"scales": (scale, 1.0), "zps": (0, 0)}, dtype, (2, 3)) for scale in tiny)
        several = ((0.5,) * 2, (0.5, 0.25), (0.5,))
        for axis, scales, qtype in product((-2, -1, 0, 1), several, ("per_channel", "per_tensor")):
            attrs = {"scales": scales, "zps": (0,) * len(scales), "axis": axis, "qtype": qtype}
            yield use_of(kind, attrs, dtype, (2, 2))


def products() -> Iterator[Call]:
    """Products of batches, of one row or several."""
    batches = ((1, 1), (1, 2), (2, 1), (2, 3))
    for first, second, dtype, turned in product(batches, (*batches, ()), (F32, BF16, F16), (False, True)):
        for rows, terms in ((1, 4), (4, 1), (5, 4)):
            yield use_of("MatMul", {"transpose_a": turned}, dtype, (*first, rows, terms), (*second, rows, 6))
            yield use_of("MatMul", {"transpose_b": turned}, dtype, (*first, rows, terms), (*second, terms, 6))


def pools() -> Iterator[Call]:
    """Pools of windows as large as a kernel counts, and pools without an axis."""
    for kernel in ((2**12, 2**12), (2**12, 2**12 + 1), (2**24 - 1, 1), (1, 2**24), (2**24 + 1, 1)):
        window = {"kernel": kernel, "strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "exclude_pad": False}
        yield use_of("AvgPool", window, F32, (1, 2**25, 2**12 + 1, 1))
    far = {"kernel": (1, 140_000), "strides": (1, 1), "pads_begin": (0, 131_100), "pads_end": (0, 131_100)}
    for gap in (1, 2, 3):
        yield use_of("MaxPool", {**far, "dilations": (1, gap)}, F32, (1, 2, 2, 1))
    for strides, groups in product(((1, 1), (1, 2), (2, 2)), (1, 8)):
        attrs = {**dict.fromkeys(("pads_begin", "pads_end"), (0, 0)), "strides": strides, "groups": groups}
        attrs |= {"data_format": "NXC", "weights_format": "XOI", "dilations": (1, 1)}
        yield use_of("ConvTranspose", attrs, BF16, (1, 5, 5, 8), (3, 3, 8 // groups, 8))
    empty = dict.fromkeys(("kernel", "strides", "pads_begin", "pads_end", "dilations"), ())
    yield use_of("MaxPool", empty, F32, (2, 3))


def elementwise_uses() -> Iterator[Call]:
    """Gradients of slopes that rows share, and images between sizes whose quotients no f32 holds."""
    for form, shape in (("NCX", (2, 3, 4, 5)), ("NXC", (2, 4, 5, 3)), ("NCX", (2, 1, 4, 5)), ("NCX", (2, 3, 4, 1))):
        for slope in ((3, 4, 1), (4, 1, 3), (4, 1), (1, 3, 4, 1), (1, 4, 1, 3), (3, 1, 1), (1, 4, 1), (3, 4, 5)):
            yield use_of("PReLUBackward", {"data_format": form}, F32, shape, slope, shape)
    sizes = (1, 2, 3, 6, 7, 12, 2188, 4321, 4377, 2**18 - 1, 2**18)
    for old, new, mode in product(sizes, sizes, ("nearest", "linear")):
        attrs: dict[str, Any] = {"mode": mode, "sizes": (new,), "data_format": "NCX"}
        yield use_of("Interpolate", attrs, F32, (1, 1, old))
        yield use_of("InterpolateBackward", attrs, F32, (1, 1, old), (1, 1, new))


def convolutions() -> Iterator[Call]:
    """Images and volumes, and their gradients, whose windows lie in padding, behind the source or one by one."""
    form = {"data_format": "NXC", "weights_format": "XIO"}
    windows = (((2, 3), (2, 2)), ((3, 3), (2, 2)), ((2, 2), (1, 1)), ((1, 2), (2, 1)), ((5, 1), (1, 2)))
    for (kernel, strides), begin, end, gaps, dtype in product(
        windows, ((2, 0), (0, 1), (1, 3)), ((4, 0), (0, 2)), ((3, 1), (1, 2)), (F32, BF16, F16)
    ):
        attrs = {"strides": strides, "dilations": gaps, "pads_begin": begin, "pads_end": end, **form}
        yield use_of("Convolution", attrs, dtype, (1, 2, 5, 3), (*kernel, 3, 4))
        attrs |= {"weights_shape": (*kernel, 3, 4)}
        yield use_of("ConvolutionBackwardWeights", attrs, dtype, (1, 2, 5, 3), (1, 2, 3, 4))
    for begin, stride, size, gap, dtype in product(
        ((3, 0, 0), (1, 2, 0), (0, 2, 0), (0, 0, 2)), (1, 2, 3), (2, 3, 4), (1, 2), (F32, BF16)
    ):
        attrs = {
            "strides": (stride, 1, 1),
            "dilations": (gap, 1, 1),
            "pads_begin": begin,
            "pads_end": (2, 0, 0),
            **form,
        }
        attrs |= {"weights_shape": (5, 3, 1, 4, 4)}
        yield use_of("ConvolutionBackwardWeights", attrs, dtype, (1, size, 2, 4, 4), (1, 2, 2, 4, 4))
    for kind, gap, groups, size in product(
        ("Convolution", "ConvolutionBackwardWeights"), (1, 2), (1, 7, 8), (1, 2, 17)
    ):
        attrs = {"strides": (2,), "dilations": (gap,), "pads_begin": (0,), "pads_end": (0,), "groups": groups, **form}
        ends = ((2, 2 * size, groups), (1, 1, groups)) if kind == "Convolution" else ((2, 2 * size, 7), (2, size, 7))
        yield use_of(
            kind, attrs | ({} if kind == "Convolution" else {"weights_shape": (1, 7 // groups, 7)}), F32, *ends
        )


def of_uses(uses: Callable[[], Iterator[Call]]) -> Iterator[str]:
    """Which faults the uses run into."""
    from tests.faults.test_fault_conditions import verdict

    for call in uses():
        faults = [one for one in OF_SINGLE_OPS if call.schema.kind in one.ops]
        found = [verdict(asked, call) for one in faults for asked in (one.when, one.certain) if asked is not None]
        yield f"{call.schema.kind} {''.join(found)}"


EVERY_USE = quantized_uses, products, pools, elementwise_uses, convolutions


@program
def _faults_of_uses_at_bounds() -> str:
    return "\n".join(line for uses in EVERY_USE for line in of_uses(uses))


@program
def _sizes_at_bounds() -> str:
    """What is slow at sizes beside bounds: rows, columns, paddings and windows."""
    made = [f"{steps_over(AxisWindow(1, 2, 2, 2 * count, 0), 1, None)}" for count in (2**16, 2**16 + 1, 2**17 + 1)]
    made += [f"{SHORT_ROWS.when(((rows, 16), (16,)))}" for rows in (8192, 8197, 8198, 3 * 2731)]
    columns = [512 * count + step for count in (1, 2, 3, 4, 40) for step in (0, 1)]
    for rows, wide, size in product((23, 24, 263, 264, 302, 354, 355, 542, 541), columns, (1, 2, 4)):
        made.append(f"{SLOW_COLUMNS.when(Columns(rows, wide, size))}")
    for gaps, begin, end, most in product(((1, 1), (1, 2), (2, 1)), (0, 4, 6, 7), (0, 5, 7), (4, 6)):
        attrs = {"strides": (1, 1), "dilations": gaps, "pads_begin": (9, begin), "pads_end": (9, end), "groups": 8}
        attrs |= {"data_format": "NXC", "weights_format": "XIO"}
        image = use_of("Convolution", attrs, F32, (1, 20, 20, 8), (3, 3, 1, 8))
        made.append(f"{FAR_PADS.when(Padding(image, most))}")
    window = {"strides": (2,), "kernel": (3,), "pads_begin": (1,), "pads_end": (0,), "dilations": (1,)}
    kinds = "MaxPool", "AvgPool", "MaxPoolBackward", "AvgPoolBackward"
    for kind, dtype, cache in product(kinds, (F32, BF16), (0, 1, 2, 2**14, 2**20)):
        attrs = {name: one for name, one in window.items() if BASE[kind].has_attribute(name)} | {"data_format": "NCX"}
        attrs |= {"exclude_pad": True} if kind.startswith("Avg") else {}
        attrs |= {"src_shape": (2, 16, 96)} if kind == "AvgPoolBackward" else {}
        shapes = ((2, 16, 96), (2, 16, 48)) if kind == "MaxPoolBackward" else ((2, 16, 48 if "B" in kind else 96),)
        made.append(f"{SLOW_CHANNELS_FIRST.when(ChannelsFirst(use_of(kind, attrs, dtype, *shapes), cache))}")
    made += [
        f"{leaks_pairs(use_of('MatMul', {}, dtype, (4, terms), (terms, 8)), tiles)}"
        for dtype, terms, tiles in product((F32, F16, BF16), (3, 4), (False, True))
    ]
    for first, second in product((EXACT - 2, EXACT - 1, EXACT, None), (0, 1, 2)):
        numbers = [TensorType(DataType.s32, (2,), None, bound) for bound in (first, second)]
        made.append(f"{wide_integers(Call(BASE['Add'], {}, numbers))}")
    prime = 2**31 - 1
    for size in (prime - 1, prime, prime + 1, prime + 12, 2 * prime, 2 * prime + 1, 3 * prime, prime**2, 2**32 - 5):
        made.append(f"{has_large_factor(use_of('ReLU', {}, F32, (1, size), (0,)))}")
    for first, second, result in product(((2, 3), (2, None), (1, 3), None), repeat=3):
        ends = End(0, first), End(1, second), End(2, result)
        nodes = [WiredOp("ReLU", ends[:1], (End(3, first),)), WiredOp("Add", ends[:2], ends[2:])]
        made.append(f"{sorted(added(nodes))}")
    return "\n".join(made)


@program
def _images_in_any_order() -> str:
    """What is slow for images whose axes lie in any order, of either format, inside of fusions or not."""
    from tests.faults.test_fault_conditions import verdict

    made = []
    for shape in ((2, 3), (4, 3, 5), (2, 3, 4, 5), (4, 1, 3, 1), (2, 32, 24, 24)):
        for order in permutations(range(len(shape))):
            strides = laid_in(order, shape, 0)
            made.append(f"{slow_strides.is_channels_last(shape, strides)}")
            made += [verdict(one.when, (shape, strides)) for one in slow_strides.TENSORS]
            for fault, form in product((*slow_strides.FAULTS, *strided_ops.FAULTS), ("NCX", "NXC")):
                for kind, inside in product(sorted(fault.ops)[:2], ((), ("MaxPool",))):
                    laid = Laid(kind, len(shape), shape, strides, True, frozenset(inside), {"data_format": form})
                    made.append(verdict(fault.when, laid))
    return "\n".join(made)


def narrow_and_wide() -> Iterator[og.Graph]:
    """Results that a binary op spreads, or whose axes change places behind a product."""
    shapes = (1, 1, 4), (1, 3, 4), (2, 3, 4), (2, 1, 4), (2, 3, 1)
    for name, first, second, wide in [*product(("add", "subtract"), shapes[:4], shapes[1:4], shapes[1:])][::2]:
        graph = og.Graph()
        ends = [graph.input(f"x{place}", "f32", shape) for place, shape in enumerate((first, second, wide))]
        graph.output("y", graph.relu(graph.multiply(getattr(graph, name)(*ends[:2]), ends[2])))
        yield graph
    graph = og.Graph()
    made = graph.matmul(graph.input("x", "f32", (2, 1, 3, 4)), graph.input("w", "f32", (4, 1)))
    turned = graph.relu(graph.static_transpose(made, order=[0, 2, 1, 3]))
    graph.output("y", graph.multiply(turned, graph.input("o", "f32", (2, 3, 1, 1))))
    yield graph


@program
def _shapes_of_operands() -> str:
    """How operands of any shape lie to what they are joined to, and which volumes a kernel copies wrong."""
    shapes: list[Any] = [(), (1,), (4,), (4, 1), (1, 4), (3, 1), (3, 4), (2, 3, 4), (1, 3, 1), (2, 3, 1), (2, 1, 1)]
    shapes += [(2, 4, 1, 1), (1, 4, 1, 1), (4, 1, 1), (1, 1, 1, 4), (2, 1, 1, 4), (1, 4, 4, 1), (2, 4, 3, 1)]
    made = []
    for kind, form in (("Add", ""), ("BiasAdd", "NXC"), ("BiasAdd", "NCX")):
        attrs = {"data_format": form} if form else {}
        for result, shape in product(shapes, shapes):
            if len(shape) <= len(result) >= (2 if form else 0):
                call = use_of(kind, attrs, F32, result, shape)
                one = Operand(Use(call, (0, 1), (2,), F32), result, shape)
                made.append(
                    f"{one.single} {one.along_last} {one.in_columns} {one.along_bare_channels} {one.is_partial}"
                )
    for deep, kernel, begin, last in product((1, 2), (1, 2), (0, 1), (1, 2)):
        attrs = {"strides": (1, 1, last), "dilations": (1,) * 3, "pads_begin": (begin, 0, 0), "pads_end": (1, 0, 0)}
        attrs |= {"data_format": "NXC", "weights_format": "XIO"}
        for width in (3, 4, 5):
            volume = use_of("Convolution", attrs, F32, (1, deep, 5, width, 8), (kernel, 3, 3, 8, 8))
            geometry = convolution_geometry(volume)
            assert geometry is not None
            made.append(f"{copies_wrong(geometry)}")
    return "\n".join(made)


def sums_beside_products() -> Iterator[og.Graph]:
    """Sums of strided tensors beside products with an operand, and columns with a whole one."""
    for shape, is_turned in product(((6,), (4, 1), (4, 6), (1,)), (False, True)):
        graph = og.Graph()
        x = graph.input("x", "f32", (4, 6), strides=(1, 4) if is_turned else None)
        graph.output("sum", graph.add(x, graph.input("y", "f32", (4, 6))))
        made = graph.matmul(graph.input("a", "f32", (4, 5)), graph.input("b", "f32", (5, 6)))
        graph.output("z", graph.add(made, graph.input("bias", "f32", shape)))
        yield graph
    for batch, last in product(((), (2,), (2, 3)), (1, 6)):
        for shape in ((*batch, 4, last), (4, last), (4, 1), (1,), (*batch, 1, 1), (*batch[1:], 4, last)):
            graph = og.Graph()
            made = graph.matmul(graph.input("a", "f32", (*batch, 4, 5)), graph.input("b", "f32", (5, last)))
            graph.output("y", graph.relu(graph.add(made, graph.input("c", "f32", shape))))
            yield graph


def coded() -> Iterator[og.Graph]:
    """Codes that are floats twice, scales whose quotients are bounds, and norms behind which codes are made."""
    for is_same in (False, True):
        graph = og.Graph()
        codes = graph.input("x", "u8", (4, 4))
        first = graph.dequantize(codes, scales=[0.5], zps=[0])
        again = first if is_same else graph.dequantize(codes, scales=[0.5], zps=[0])
        weights = graph.dequantize(graph.input("w", "s8", (4, 4)), scales=[0.5], zps=[0])
        total = graph.add(graph.matmul(first, weights), again)
        graph.output("y", graph.quantize(total, scales=[1.0], zps=[0], dtype="u8"))
        yield graph
    for power, share in product((18, 19, 22, 23, 24), (1.0, 0.75)):
        graph = og.Graph()
        made = graph.relu(graph.dequantize(graph.input("x", "u8", (4, 4)), scales=[1.0], zps=[0]))
        graph.output("y", graph.quantize(made, scales=[share * 2.0**-power], zps=[0], dtype="u8"))
        yield graph
    rows: tuple[Any, ...] = ((8,), (1, 8), (4, 8), (1,))
    for shape, size in product(((1, 2, 2, 31), (1, 2, 2, 32), (1, 2, 1, 31), (1, 2, 1, 33), (1, 6, 6, 31)), (1, 2)):
        graph = og.Graph()
        pooled = graph.dequantize(graph.input("x", "u8", shape), scales=[0.5], zps=[0])
        pooled = graph.max_pool(pooled, kernel=(size, 1), strides=1, data_format="NXC")
        graph.output("y", graph.quantize(pooled, scales=[0.5], zps=[0], dtype="u8"))
        yield graph
    for form, shape, kind in product(("NXC", "NCX"), (*rows, (8, 1, 1)), ("batch", "layer", "group")):
        if form == "NXC" and shape == (8, 1, 1):
            continue
        graph = og.Graph()
        x = graph.input("x", "f32", (2, 4, 4, 8) if form == "NXC" else (2, 8, 4, 8))
        vectors = [graph.input(f"v{place}", "f32", (8,)) for place in range(4)]
        if kind == "batch":
            made = graph.batch_norm_inference(x, *vectors, epsilon=1e-5, data_format=form)
        elif kind == "layer":
            made = graph.layer_norm(x, keep_stats=False, use_affine=False)
        else:
            attrs = {"groups": 2, "keep_stats": False, "use_affine": False, "data_format": form}
            made = graph.op("GroupNorm", [x], attrs)
        joined = graph.multiply(made, graph.input("o", "f32", shape))
        graph.output("y", graph.quantize(joined, scales=[1.0], zps=[0], dtype="u8"))
        yield graph


def floats(graph: og.Graph, dtype: str, shape: Any, zps: Any, **along: Any) -> Any:
    """The floats of codes."""
    codes = graph.input(f"x{len(graph.inputs)}", dtype, shape)
    return graph.dequantize(codes, scales=[0.5] * len(zps or [0]), zps=zps, **along)


def coded_products() -> Iterator[og.Graph]:
    """Products of codes of few rows or many, and images of codes with padding, groups and scales along an axis."""
    for dtype, zps, rows, batch, turned in product(("u8", "s8"), ([0], [3], None), (4, 600), ((), (2,)), (True, False)):
        graph = og.Graph()
        weights = floats(graph, "s8", (*batch, 6, 5) if turned else (*batch, 5, 6), [0])
        made = graph.matmul(floats(graph, dtype, (*batch, rows, 5), zps), weights, transpose_b=turned)
        graph.output("y", graph.relu(made))
        yield graph
    images = product(("u8", "s8"), ((1, 1), (3, 1), (3, 3)), ((0, 0), (1, 0), (0, 1)), ((1, 1), (1, 2)), (1, 4))
    for number, (dtype, kernel, pads, strides, groups) in enumerate(images):
        graph = og.Graph()
        attrs = {"strides": strides, "pads_begin": pads, "pads_end": (0, 0), "groups": groups, "data_format": "NXC"}
        weights = floats(graph, "s8", (*kernel, 4 // groups, 4), [0])
        source = floats(graph, dtype, (1, 5, 20, 4), [0, 0, 3][number % 3 : number % 3 + 1])
        made = graph.convolution(source, weights, **attrs, dilations=1, weights_format="XIO")
        graph.output("y", graph.quantize(made, scales=[0.5], zps=[0], dtype="u8") if number % 2 else graph.relu(made))
        yield graph
    spreads = product((-1, 0, 1, 2, -2), (1, 2), (1, 2), ("XOI", "IOX"))
    for number, (axis, groups, outs, form) in enumerate(spreads):
        graph = og.Graph()
        shape = (2, 2, outs, 4) if form == "XOI" else (4, outs, 2, 2)
        weights = floats(graph, "s8", shape, [0] * shape[axis], qtype="per_channel", axis=axis)
        attrs = {"strides": (1 + number % 3 // 2, 1), "pads_begin": 0, "pads_end": 0, "groups": groups}
        source = floats(graph, "u8", (1, 4, 4, 4), [0])
        graph.output("y", graph.conv_transpose(source, weights, **attrs, data_format="NXC", weights_format=form))
        yield graph


def joined_to_itself() -> Iterator[og.Graph]:
    """Results that are joined with a function of them, codes whose scales a run computes, and pools between codes."""
    for first, second in product(("multiply", "add"), ("sigmoid", "tanh", "exp")):
        graph = og.Graph()
        made = graph.matmul(graph.input("x", "f32", (4, 5)), graph.input("w", "f32", (5, 6)))
        graph.output("y", getattr(graph, first)(made, getattr(graph, second)(made)))
        yield graph
    for dtype, count in product(("u8", "s8"), (2, 3)):
        graph = og.Graph()
        ends = graph.input("x", dtype, (4, 5)), graph.input("s", "f32", (1,)), graph.input("z", "s32", (1,))
        weights = floats(graph, "s8", (6, 5), [0])
        graph.output("y", graph.matmul(graph.op("DynamicDequantize", ends[:count]), weights, transpose_b=True))
        yield graph
    codings: Any = (([0.5], None), ([0.5], [0]), ([0.5], [3]), ([0.25], [0]))
    for first, second, name in product(codings, codings[1:], ("max_pool", "avg_pool")):
        graph = og.Graph()
        source = graph.dequantize(graph.input("x", "u8", (1, 4, 4, 40)), scales=first[0], zps=first[1])
        pooled = getattr(graph, name)(source, kernel=2, strides=2, data_format="NXC")
        graph.output("y", graph.quantize(pooled, scales=second[0], zps=second[1], dtype="u8"))
        yield graph


@program
def _constants_of_folded_norms() -> str:
    """Which norms are folded anew in each run, by which of the inputs are no constants."""
    made = []
    for kind in ("convolution", "norm", "both"):
        graph = og.Graph()
        end = graph.input("x", "f32", (1, 4, 4, 8))
        if kind != "norm":
            weights = graph.input("w", "f32", (1, 1, 8, 8))
            end = graph.convolution(end, weights, data_format="NXC", weights_format="XIO")
        if kind != "convolution":
            vectors = [graph.input(f"v{place}", "f32", (8,)) for place in range(4)]
            end = graph.batch_norm_inference(end, *vectors, epsilon=1e-5, data_format="NXC")
        graph.output("y", graph.relu(end))
        subject = fused(graph)
        numbers = frozenset(number for use in subject.uses for number in use.inputs)
        parts = [frozenset[int](), numbers, *(numbers - {number} for number in sorted(numbers))]
        made += [f"{SLOW_FOLDING.when(replace(subject, constants=part))}" for part in parts]
    return "\n".join(made)


@program
def _pools_of_channels_first() -> str:
    """Which pools of channels first have no fast kernel, by sizes, types and the memory of a cache."""
    made = []
    sizes = ((16, 48, 48), (3, 64, 64), (4, 64, 64), (16, 1, 96), (16, 2, 96), (16, 96, 1), (1, 96, 96), (16, 96))
    for kind, dtype, (channels, *places), cache in product(
        ("MaxPool", "AvgPool", "MaxPoolBackward", "AvgPoolBackward"), (F32, BF16), sizes, (0, 2**10, 2**30)
    ):
        axes = len(places)
        attrs = {"strides": (1,) * axes, "kernel": (1,) * axes, "data_format": "NCX"}
        attrs |= dict.fromkeys(("pads_begin", "pads_end"), (0,) * axes)
        attrs |= {"exclude_pad": True} if kind.startswith("Avg") else {"dilations": (1,) * axes}
        attrs |= {"src_shape": (2, channels, *places)} if kind == "AvgPoolBackward" else {}
        shape = (2, channels, *places)
        call = use_of(kind, attrs, dtype, *((shape, shape) if kind == "MaxPoolBackward" else (shape,)))
        made.append(f"{SLOW_CHANNELS_FIRST.when(ChannelsFirst(call, cache))}")
    return "\n".join(made)


@program
def _fusions_at_bounds() -> str:
    """Which faults of fusions all their examples run into, and graphs beside bounds."""
    from tests.faults.test_fault_conditions import verdict

    faults = (*FUSIONS, *strided.FAULTS, *slow_fusions.FAULTS)
    graphs = [graph_of(example.build) for fault in faults for example in fault.examples]
    graphs += [
        graph
        for make in (narrow_and_wide, sums_beside_products, coded, coded_products, joined_to_itself)
        for graph in make()
    ]
    made = []
    for graph in graphs:
        subject = fused(graph)
        concerned = [one for one in faults if not subject.kinds.isdisjoint(one.ops)]
        numbers = frozenset(number for use in subject.uses for number in use.inputs)
        others = fused(graph, vnni=False, avx512=False), replace(subject, amx=True, constants=numbers)
        cpus = others if subject.some(DEQUANTIZATIONS) else ()
        made.append("".join(verdict(one.when, each) for each in (subject, *cpus) for one in concerned))
        made.append(f"{overflows(subject.uses)} {[use.kind for use in subject.computed]}")
        made += [str(one.when(subject)) for one in (SLOW_WIDENING,) if "Multiply" in subject.kinds]
    return "\n".join(made)
