"""Multiplies 8-bit codes by constant codes in a kernel of the package where sizes are open.

The library compiles an int8 product or convolution, with what it fuses, for each size, which takes longer than a run.
The kernel of the package takes any number of rows or windows. Its weights lie in panels of columns, which programs for
all sizes share. The sums are exact, and each step behind them is rounded as in the library, so the numbers are equal to
those for known sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import NamedTuple

import numpy as np

from ...capi.settings import has_vnni
from ...ir.op import Array
from ...opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ...opset.dtypes import DataType
from ...opset.shapes import known_dims
from ...opset.signature import AttrValue
from ..code_tails import Tail, tail_of
from ..codings import CODES, LIMITS, coding
from ..ir.edit import Edit
from ..ir.step import Step
from ..kernels.code_product import CODE_MATRICES, CODE_PRODUCT, FOR_CODES, MOST_DEPTH, TAKES, CodeProduct
from ..kernels.kernel import Kernel, refusal
from ..kernels.panel_product import PANEL
from ..options import Options
from ..packed_weights import channel_lines, code_panels, is_matrix, matrices_of
from ..shared_constants import derived

KINDS = frozenset(["MatMul", "Convolution"])
SIGNED = 128  # what is taken from u8 codes, so that they are s8 codes


class CodeSource(NamedTuple):
    """The codes that a product reads: their value, the step that dequantizes them, their scale, and their zero point.

    ``dynamic`` is the value that holds the zero point, if a run computes it.
    """

    codes: int
    maker: Step
    scale: float
    zero: int
    dynamic: int | None


class CodeWeights(NamedTuple):
    """Constant codes: their value, the step that dequantizes them, and the numbers for each column or for all."""

    codes: int
    maker: Step
    scales: Array
    zeros: Array


def multiply_codes(edit: Edit, options: Options) -> None:
    """Put a step of executor ``code panels`` in the place of each such product, with the steps behind it."""
    if not options.opens or not has_vnni():
        return
    taken = set[int]()  # the steps behind a product that another one before it has
    for step in edit.graph.steps:
        if step.kind in KINDS and step.library_part is not None:
            _replace(edit, step, taken)


def _replace(edit: Edit, step: Step, taken: set[int]) -> None:
    source, part, values = _source(edit, step.inputs[0]), step.part, edit.values
    if source is None:
        return
    assert part is not None
    weights = _weights(edit, step)
    if weights is None:
        second = _source(edit, step.inputs[1])
        if second is not None and step.kind == "MatMul":
            _multiply_matrices(edit, step, (source, second), taken)
        return
    src, result = values[source.codes], values[step.outputs[0]]
    biases = [values[number] for number in step.inputs[2:]]
    if not src.dense or any(prod(bias.shape) != result.shape[-1] for bias in biases):
        return
    geometry = convolution_geometry(part.call) if step.kind == "Convolution" else None
    if not (_is_windowed(step) if step.kind == "Convolution" else _is_product(edit, step)):
        return
    groups = 1 if geometry is None else geometry.groups
    channels, columns = src.shape[-1] // groups, result.shape[-1] // groups
    taps = 1 if geometry is None else prod(known_dims(geometry.kernel))
    axes = 0 if geometry is None else len(geometry.strides)
    candidate = CodeProduct(axes, channels, columns, groups, taps, bool(weights.zeros.any()))
    if reason := refusal(TAKES, candidate):
        edit.refuse(step, CODE_PRODUCT.name, reason)
        return
    tail = tail_of(edit, step, taken)
    ends = _constants(edit, step, source, weights, candidate, geometry)
    has_zeros = len(ends) > len(("panels", "scales", "sums"))
    windows = () if geometry is None else _windows(geometry)
    attrs: dict[str, AttrValue] = {
        "groups": groups,
        "axes": axes,
        "zero": source.zero,
        "zeros": has_zeros,
        "dynamic": source.dynamic is not None,
        **tail.attrs(windows),
    }
    inputs = (source.codes, *ends, *([] if source.dynamic is None else [source.dynamic]), *tail.operands)
    _put(edit, tail, (source.maker, weights.maker), CODE_PRODUCT, inputs, attrs)


def _multiply_matrices(edit: Edit, step: Step, sources: tuple[CodeSource, CodeSource], taken: set[int]) -> None:
    """Replace a product of matrices that a run computes."""
    (first, second), part, values = sources, step.part, edit.values
    assert part is not None
    ends = [values[number] for number in (first.codes, second.codes, step.outputs[0])]
    ranks, batches = {len(value.shape) for value in ends}, {value.shape[:-2] for value in ends}
    is_plain = (
        len(step.inputs) == len(ends[:2]) and not part.call.flag("transpose_a") and ends[-1].dtype is DataType.f32
    )
    if not is_plain or len(ranks) > 1 or len(batches) > 1:
        return
    if first.dynamic is not None or second.dynamic is not None:
        return
    if ends[0].shape[-1] > MOST_DEPTH:
        return
    tail = tail_of(edit, step, taken, has_rows=False)
    attrs: dict[str, AttrValue] = {
        "turned": part.call.flag("transpose_b"),
        "zero": first.zero,
        "weights_zero": second.zero,
        "scale": float(np.float32(first.scale) * np.float32(second.scale)),
        **tail.attrs(),
    }
    inputs = (first.codes, second.codes, *tail.operands)
    _put(edit, tail, (first.maker, second.maker), CODE_MATRICES, inputs, attrs)


def _put(
    edit: Edit,
    tail: Tail,
    makers: tuple[Step, Step],
    kernel: Kernel,
    inputs: tuple[int, ...],
    attrs: dict[str, AttrValue],
) -> None:
    """Put a step of the kernel in the place of a product and the steps behind it."""
    step = tail.steps[0]
    note = f"{step.note}; {FOR_CODES}" if step.note else FOR_CODES
    made = step.instead(kernel.executor, inputs, (tail.result,), attrs=attrs, note=note)
    folded_ops = [op for link in (*makers, *tail.steps[1:]) for op in (link.op, *link.folded) if op is not step.op]
    for link in tail.steps:
        edit.replace(link)
    folded = tuple(dict.fromkeys([*step.folded, *folded_ops]))
    edit.replace(tail.steps[-1], made._replace(members=tail.steps, folded=folded))
    edit.spare(makers)


def _is_product(edit: Edit, step: Step) -> bool:
    """Whether a MatMul has a matrix of weights, and its result the axes of src."""
    src, weights = (edit.values[number] for number in step.inputs[:2])
    result, part = edit.values[step.outputs[0]], step.part
    assert part is not None
    return not part.call.flag("transpose_a") and is_matrix(weights.shape) and len(src.shape) == len(result.shape) > 1


def _is_windowed(step: Step) -> bool:
    assert step.part is not None
    return step.part.call.attr("data_format") == "NXC"


def _windows(geometry: ConvolutionGeometry) -> tuple[int, ...]:
    pads, kernel = known_dims(geometry.pads_begin), known_dims(geometry.kernel)
    axes = zip(kernel, geometry.strides, geometry.dilations, pads, strict=True)
    return tuple([number for axis in axes for number in axis])


# Operands -------------------------------------------------------------------------------------------------------------


def _source(edit: Edit, number: int) -> CodeSource | None:
    """The codes behind the first operand of a product, which have one scale."""
    maker = edit.graph.maker(number)
    if maker is None or (maker.library_part is None and maker.kind != "DynamicDequantize"):
        return None
    codes = edit.values[maker.inputs[0]]
    if codes.dtype not in CODES or codes.constant is not None:
        return None
    if maker.kind == "Dequantize":
        coded = coding(maker)
        if coded is None or not _are_codes([coded.zero], codes.dtype):
            return None
        return CodeSource(codes.id, maker, coded.scale, coded.zero, None)
    if maker.attrs.get("qtype", "per_tensor") != "per_tensor":
        return None
    scales, *zeros = [edit.values[end] for end in maker.inputs[1:]]
    known = scales.constant
    if known is None or known.size != 1 or not np.isfinite(known).all():
        return None
    if not zeros:
        return CodeSource(codes.id, maker, float(known.reshape(-1)[0]), 0, None)
    zero = zeros[0]
    if zero.dtype is not codes.dtype or prod(zero.shape) != 1 or not zero.dense:
        return None
    return CodeSource(codes.id, maker, float(known.reshape(-1)[0]), 0, zero.id)


def _are_codes(zeros: Iterable[int], dtype: DataType) -> bool:
    """Whether zero points are codes, which stand for padding, and whose products are no larger than those of codes."""
    lowest, highest = LIMITS[dtype]
    return all(lowest <= zero <= highest for zero in zeros)


def _weights(edit: Edit, step: Step) -> CodeWeights | None:
    """The constant codes behind the second operand of a product, which have scales of columns or one scale."""
    maker, part = edit.graph.maker(step.inputs[1]), step.part
    assert part is not None
    if maker is None or maker.kind != "Dequantize" or maker.library_part is None:
        return None
    codes = edit.values[maker.inputs[0]]
    if codes.constant is None or codes.dtype not in CODES:
        return None
    if step.kind == "MatMul":
        axis = len(codes.shape) - (2 if part.call.flag("transpose_b") else 1)
    else:
        axis = len(codes.shape) - 1 if str(part.call.string("weights_format")).startswith("X") else 0
    scales, zeros = (maker.attrs.get(name) for name in ("scales", "zps"))
    is_by_channel = maker.attrs.get("qtype", "per_tensor") == "per_channel"
    if is_by_channel and int(maker.attrs.get("axis", 1)) % len(codes.shape) != axis:  # type: ignore[arg-type]
        return None
    factors = np.array(scales, np.float32).reshape(-1)
    points = np.array([0] if zeros is None else zeros, np.int64).reshape(-1)
    if not np.isfinite(factors).all() or not _are_codes(points, codes.dtype):
        return None
    return CodeWeights(codes.id, maker, factors, points)


def _constants(
    edit: Edit,
    step: Step,
    source: CodeSource,
    weights: CodeWeights,
    product: CodeProduct,
    geometry: ConvolutionGeometry | None,
) -> tuple[int, ...]:
    """The constants of the kernel: panels, scales, sums, and zero points if some are not 0."""
    value, part = edit.values[weights.codes], step.part
    assert part is not None
    assert value.constant is not None
    codes, columns = value.constant, product.groups * product.columns
    shift = 0 if codes.dtype == np.int8 else SIGNED
    points = np.broadcast_to(weights.zeros - shift, columns)
    is_turned = geometry is None and part.call.flag("transpose_b")
    form = (is_turned, product.groups, "" if geometry is None else geometry.weights_format, product.is_depthwise)

    def matrices() -> Array:
        shifted: Array = np.subtract(matrices_of(codes, is_turned, geometry), shift, dtype=np.int32)
        return shifted

    def numbers(part: str, make: Callable[[], Array], numbers_of: Array) -> int:
        key = derived(("code products", part, form, numbers_of.tobytes()), edit.key(value.id))
        return edit.constant(edit.graph.shared.once(key, make), f"{value.name} ({part})", key)

    def without(zeros: Array) -> Array:
        shifted: Array = np.subtract(matrices(), zeros.reshape(product.groups, 1, product.columns))
        return shifted

    fill = _channel_filled if product.is_depthwise else _panel_filled
    lines = channel_lines if product.is_depthwise else code_panels
    subtracted = points if product.is_depthwise else np.zeros(columns, np.int64)
    ends = [
        numbers("panels", lambda: lines(without(subtracted)), subtracted),
        numbers(
            "scales",
            lambda: fill(
                np.broadcast_to(np.multiply(weights.scales, np.float32(source.scale), dtype=np.float32), columns),
                product,
            ),
            np.append(weights.scales, np.float32(source.scale)),
        ),
        numbers("sums", lambda: fill(without(points).sum(1).reshape(-1), product, np.int32), points),
    ]
    if points.any() and not product.is_depthwise:
        ends.append(numbers("zero points", lambda: fill(points, product, np.int32), points))
    return tuple(ends)


def _panel_filled(array: Array, product: CodeProduct, dtype: type = np.float32) -> Array:
    """Numbers of columns, those of each group filled up to whole panels."""
    padded: Array = np.zeros((product.groups, -(-product.columns // PANEL) * PANEL), dtype)
    padded[:, : product.columns] = array.reshape(product.groups, product.columns)
    return padded.reshape(-1)


def _channel_filled(array: Array, product: CodeProduct, dtype: type = np.float32) -> Array:
    """Numbers of depthwise channels, filled up to one panel."""
    padded: Array = np.zeros(max(product.groups, PANEL), dtype)
    padded[: product.groups] = array.reshape(-1)
    return padded
