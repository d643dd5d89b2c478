"""Multiplies by constant weights of 4, 8 or 16 bits as they are packed, and unpacks them in registers.

The library dequantizes such weights in every run, and a product of few rows takes as long as reading its weights. The
rows of such a table that indices name are read likewise, and no other ones.

It compiles a product for each number of rows, and lays the weights out for the first one alone. So where sizes are
open, weights of 32 bits are laid out in panels: one kernel multiplies any number of rows by them, and adds the bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ..._util.open_numbers import has_open_numbers
from ...capi.settings import has_avx2, is_native
from ...faults.use import DEQUANTIZATIONS
from ...ir.op import Array, Op, schema_of
from ...opset.dtypes import DataType
from ...opset.editions.registry import base_of
from ...opset.host.packed import CODES
from ...opset.schema import Call
from ...opset.signature import AttrValue
from ..ir.edit import Edit
from ..ir.step import Step
from ..ir.value import Value
from ..kernels.kernel import FLOATS, call_of, refusal
from ..kernels.packed_gather import NOTE as OF_ROWS
from ..kernels.packed_gather import PACKED_GATHER
from ..kernels.packed_product import IN_CODES, NOTE, PACKED_EXPERTS, PACKED_PRODUCT, WORTH, PackedProduct
from ..kernels.panel_product import FOR_SIZES, MOST_ROWS, PANEL_PRODUCT
from ..options import Options
from ..packed_weights import CODINGS, Packed, groups_of, is_matrix, numbers_of, pack, panels_of, rows_of
from ..report import nbytes
from ..shared_constants import derived
from .products_of_codes import stays_in_codes

GATHERS = frozenset(["Gather", "PackedGather"])
PRODUCTS = frozenset(["PackedMatMul", "PackedExperts"])


def multiply_packed(edit: Edit, options: Options) -> None:
    """Put steps of executor ``packed`` in the place of such products, and of rows of such tables.

    Steps on constants alone stay as they are, as a later pass computes them, unless they read sizes that are open.
    """
    products = _PackedProducts(edit, options)
    constants = {
        number
        for number, value in edit.graph.values.items()
        if value.constant is not None and not has_open_numbers(value.constant)
    }
    for step in edit.graph.steps:
        if step.inputs and constants.issuperset(step.inputs):
            constants.update(step.outputs)
            continue
        made = products.gathered(step) if step.op.kind in GATHERS else products.made(step)
        if made is not None:
            edit.replace(step, made)


class _PackedProducts:
    def __init__(self, edit: Edit, options: Options) -> None:
        self._edit, self._graph, self._options = edit, edit.graph, options
        self._known: dict[tuple[int, bool], Packed | None] = {}

    def made(self, step: Step) -> Step | None:
        """The step in the place of a product; None for other steps."""
        if step.op.kind in PRODUCTS:
            return self._of_host_product(step)
        part = step.library_part
        if step.kind != "MatMul" or part is None or part.call.flag("transpose_a"):
            return None
        src, weights, *bias = step.inputs
        is_turned, columns = part.call.flag("transpose_b"), self._graph.values[step.outputs[0]].shape[-1:]
        if bias and (prod(self._graph.values[bias[0]].shape),) != columns:
            return None
        if stays_in_codes(self._graph, step):
            return None
        packed, makers = self._weights(weights, is_turned, step)
        if packed is None:
            return None
        self._edit.spare(makers)
        if not bias and self._put_with_bias(step, (src, *packed.values), packed, coded=False):
            return None
        return self._step(step, (src, *packed.values, *bias), packed, has_bias=bool(bias), coded=False)

    def _put_with_bias(self, step: Step, inputs: tuple[int, ...], packed: Packed, *, coded: bool) -> bool:
        """Put a step in the place of a product and the addition of a constant row behind it, if there is one."""
        sum_ = self._biased(step)
        if sum_ is None:
            return False
        bias = [number for number in sum_.inputs if number != step.outputs[0]]
        self._edit.replace(step)
        made = self._step(sum_, (*inputs, *bias), packed, has_bias=True, coded=coded)
        self._edit.replace(sum_, made._replace(members=(step, sum_)))
        return True

    def _of_host_product(self, step: Step) -> Step | None:
        ends, call = [None if end is None else end.id for end in step.op.inputs], call_of(step)
        has_places = step.op.kind == "PackedExperts"
        src, *places, weights = ends[: 2 + has_places]
        assert src is not None
        assert weights is not None
        shapes = [self._graph.values[number].shape for number in (src, *filter(None, places))]
        if any(0 in shape for shape in shapes):
            return None
        packed = self._of_host_op(step, (weights, *ends[2 + has_places :]), shapes[0][-1])
        if packed is None:
            return None
        is_coded = call.string("arithmetic") == CODES
        if not has_places:
            if self._put_with_bias(step, (src, *packed.values), packed, coded=is_coded):
                return None
            return self._step(step, (src, *packed.values), packed, has_bias=False, coded=is_coded)
        experts = self._graph.values[weights].shape[0]
        attrs = {"experts": experts, "turned": True, "strict": False, **self._attrs(packed, is_coded)}
        inputs, note = (src, *filter(None, places), *packed.values), IN_CODES if is_coded else NOTE
        return step.instead(PACKED_EXPERTS.executor, inputs, step.outputs, kind=step.kind, attrs=attrs, note=note)

    def _biased(self, step: Step) -> Step | None:
        """The addition of a constant row to a product, if nothing else reads the product."""
        consumer, values = self._graph.only_consumer(step.outputs[0]), self._graph.values
        if consumer is None or consumer.kind != "Add" or consumer.executor != "library":
            return None
        (row,) = (values[number] for number in consumer.inputs if number != step.outputs[0])
        (result,) = (values[number] for number in consumer.outputs)
        is_row = row.constant is not None and bool(row.shape) and prod(row.shape) == row.shape[-1] == result.shape[-1]
        return consumer if is_row and row.dtype is result.dtype is DataType.f32 else None

    def _step(self, step: Step, inputs: tuple[int, ...], packed: Packed, *, has_bias: bool, coded: bool) -> Step:
        attrs: Mapping[str, AttrValue] = {"bias": has_bias}
        if packed.coding == DataType.f32.value:
            executor = PANEL_PRODUCT.executor
            return step.instead(executor, inputs, step.outputs, kind=step.kind, attrs=attrs, note=FOR_SIZES)
        attrs = {"bias": has_bias, **self._attrs(packed, coded)}
        note, executor = IN_CODES if coded else NOTE, PACKED_PRODUCT.executor
        return step.instead(executor, inputs, step.outputs, kind=step.kind, attrs=attrs, note=note)

    def _attrs(self, packed: Packed, coded: bool) -> dict[str, AttrValue]:
        return {
            "coding": packed.coding,
            "group": packed.group,
            "zero": packed.zero,
            "zeros": packed.has_zeros,
            "coded": coded,
            "unpacks": self._options.reproducible or not packed.is_finite,
        }

    # The weights of a MatMul ------------------------------------------------------------------------------------------

    def _weights(self, number: int, is_turned: bool, product: Step | None) -> tuple[Packed | None, list[Step]]:
        """The packed weights of a product or a table, and the steps that make the weights of the library."""
        makers: list[Step] = []
        maker = self._graph.maker(number)
        # Weights in 16 bits are read as they are packed too, and are not rounded before the sums.
        while maker is not None and (
            maker.kind == "TypeCast" or (maker.kind == "StaticTranspose" and self._exchanges(maker))
        ):
            makers.append(maker)
            is_turned, number = is_turned != (maker.kind == "StaticTranspose"), maker.inputs[0]
            maker = self._graph.maker(number)
        if maker is None:
            if product is None:
                return self._halves_of_table(number) if is_turned and makers else None, makers
            return self._numbers(number, is_turned, product), makers
        key = number, is_turned
        if key not in self._known:
            op = maker.op  # the lowering may have made several steps of it
            is_whole = base_of(schema_of(op)).kind in DEQUANTIZATIONS and op.outputs[0].id == number
            self._known[key] = self._dequantized(op, is_turned) if is_whole else None
        return self._known[key], [*makers, *[step for step in self._graph.steps if step.op is maker.op]]

    def _exchanges(self, step: Step) -> bool:
        """Whether a transpose exchanges the axes of one matrix."""
        shape = self._graph.values[step.inputs[0]].shape
        order = step.attrs.get("order")
        last = [len(shape) - 1, len(shape) - 2], [-1, -2]
        return is_matrix(shape) and isinstance(order, tuple) and [*order[-2:]] in last

    def _halves_of_table(self, number: int) -> Packed | None:
        """A table of 16-bit numbers, which others would cast as a whole."""
        value = self._graph.values[number]
        if value.constant is None or value.dtype not in (DataType.bf16, DataType.f16) or not is_matrix(value.shape):
            return None
        return Packed(value.dtype.value, 1, 0, (number,), False, True)

    def _numbers(self, number: int, is_turned: bool, product: Step) -> Packed | None:
        """Weights of 16 bits, which the library reads slowly for few rows; of 32 bits, if sizes are open."""
        value = self._graph.values[number]
        known = value.constant
        if known is None or not is_matrix(value.shape) or self._options.reproducible:
            return None
        is_half = value.dtype in (DataType.bf16, DataType.f16) and is_native(value.dtype)
        if not (self._is_worth_halves(value, product) if is_half else self._is_worth_full(value, product)):
            return None
        key = derived(("packed", "numbers", is_turned), self._edit.key(number))
        layout = numbers_of if is_half else panels_of
        array = self._graph.shared.once(key, lambda: layout(known, is_turned))
        made = self._edit.constant(array, f"{value.name} (packed)", key)
        return Packed(value.dtype.value, 1, 0, (made,), False, True)

    def _is_worth_halves(self, weights: Value, product: Step) -> bool:
        src = self._graph.values[product.inputs[0]]
        reason = refusal(WORTH, PackedProduct(prod(src.shape[:-1]), nbytes(weights)))
        if reason:
            self._edit.refuse(product, PACKED_PRODUCT.name, reason)
        return not reason

    def _is_worth_full(self, weights: Value, product: Step) -> bool:
        ends = [self._graph.values[number] for number in (*product.inputs, *product.outputs)]
        is_full = weights.dtype is DataType.f32 and all(value.dtype is DataType.f32 for value in ends)
        is_open = self._options.opens and self._options.fpmath_mode == "strict" and has_avx2()
        return is_open and is_full and prod(ends[0].shape[:-1]) <= MOST_ROWS

    def _dequantized(self, op: Op, is_turned: bool) -> Packed | None:
        """Codes behind a Dequantize or DynamicDequantize."""
        values = self._graph.values
        source, *rest = [values[tensor.id] for tensor in op.inputs if tensor is not None]
        codes, known = source.constant, [value.constant for value in rest]
        if codes is None or not all(array is not None for array in known):
            return None
        if source.dtype not in CODINGS or not is_matrix(source.shape):
            return None
        types = [None if tensor is None else tensor.type for tensor in op.inputs]
        parameters = _Parameters(Call(base_of(schema_of(op)), op.attrs, types, 1), known, source.shape)
        coding, depth_axis = CODINGS[source.dtype], -1 if is_turned else -2
        scales, zeros = parameters.arranged(0, depth_axis), parameters.arranged(1, depth_axis)
        groups = groups_of(parameters.group(depth_axis), source.shape[depth_axis], coding)
        if groups is None or scales is None:
            return None
        return pack(
            self._edit,
            source.name,
            coding,
            groups,
            (source.id, lambda: rows_of(codes, is_turned, coding)),
            (rest[0].id if rest else source.id, lambda: scales),
            0 if zeros is None else (rest[1].id if rest else source.id, lambda: zeros),
            (is_turned, sorted(op.attrs.items())),
        )

    # Rows of a table --------------------------------------------------------------------------------------------------

    def gathered(self, step: Step) -> Step | None:
        """The step in the place of a Gather of the rows of packed codes; None for others."""
        if step.op.kind == "PackedGather":
            table, indices, *rest = [None if end is None else end.id for end in step.op.inputs]
            depth, makers = call_of(step).s64("depth"), list[Step]()
            assert table is not None
            assert indices is not None
            numbers, packed = indices, self._of_host_op(step, (table, *rest), depth)
        else:
            table_of_rows, numbers = step.inputs
            shape = self._graph.values[table_of_rows].shape
            if len(shape) != len(("rows", "numbers")) or 0 in shape or call_of(step).s64("axis") % len(shape):
                return None
            packed, makers = self._weights(table_of_rows, True, None)
        if packed is None or self._graph.values[numbers].constant is not None or not self._is_gathered(step):
            return None
        self._edit.spare(makers)
        attrs: Mapping[str, AttrValue] = {
            "coding": packed.coding,
            "group": packed.group,
            "zero": packed.zero,
            "zeros": packed.has_zeros,
        }
        table_, *further = packed.values
        ends = (table_, numbers, *further)
        return step.instead(PACKED_GATHER.executor, ends, step.outputs, kind=step.kind, attrs=attrs, note=OF_ROWS)

    def _is_gathered(self, step: Step) -> bool:
        """Whether the kernel writes the result."""
        result = self._graph.values[step.outputs[0]]
        return result.dtype in FLOATS and 0 not in result.shape

    # Host ops ---------------------------------------------------------------------------------------------------------

    def _of_host_op(self, step: Step, ends: tuple[int | None, ...], depth: int) -> Packed | None:
        """The weights of a host op, if they are constants, of the ids of codes, scales and perhaps zero points.

        Those of several experts become one matrix.
        """
        values, call = self._graph.values, call_of(step)
        weights, scales, zps = (*ends, None)[:3]
        assert weights is not None
        assert scales is not None
        codes, factors = values[weights].constant, values[scales].constant
        points = None if zps is None else values[zps].constant
        groups = groups_of(call.s64("group"), depth, call.string("coding"))
        if codes is None or factors is None or (zps is not None and points is None) or groups is None:
            return None
        if 0 in codes.shape:
            return None
        zeros = call.s64("zero") if zps is None or points is None else (zps, lambda: _as_matrix(points))
        ends_of = (weights, lambda: _as_matrix(codes)), (scales, lambda: _as_matrix(factors))
        return pack(self._edit, values[weights].name, call.string("coding"), groups, *ends_of, zeros)


def _as_matrix(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


class _Parameters:
    """The scales and zero points of a Dequantize or DynamicDequantize, which are attributes or ``constants``."""

    def __init__(self, call: Call, constants: Sequence[Array | None], shape: tuple[int, ...]) -> None:
        self._shape, self._qtype = shape, call.string("qtype")
        self._axis = call.s64("axis") % len(shape)
        self._groups = call.s64s("group_shape") if self._qtype == "per_group" else ()
        if call.schema.has_attribute("scales"):
            zeros = np.array(call.s64s("zps") if call.has("zps") else [0])
            constants = np.array(call.f32s("scales"), np.float32), zeros if zeros.any() else None
        self._constants = [*constants, None]

    def _runs_along(self, axis: int) -> bool:
        return self._axis == len(self._shape) + axis

    def group(self, depth_axis: int) -> int:
        """The codes along the depth that share a scale; 0 for all."""
        if self._qtype == "per_group":
            return self._groups[depth_axis]
        return int(self._qtype == "per_channel" and self._runs_along(depth_axis))

    def arranged(self, place: int, depth_axis: int) -> Array | None:
        """The scales (0) or zero points (1) as (columns, groups); None if there are none."""
        constant, columns = self._constants[place], self._shape[-2 if depth_axis == -1 else -1]
        if constant is None:
            return None
        if self._qtype == "per_group":
            matrix: Array = constant.reshape(constant.shape[-2:])
            matrix = matrix if depth_axis == -1 else matrix.T
            repeats = columns // len(matrix)
            return np.ascontiguousarray(np.repeat(matrix, repeats, 0) if repeats > 1 else matrix)
        if self._qtype == "per_channel" and not self._runs_along(depth_axis):
            return constant.reshape(columns, 1)
        return np.full((columns, 1), constant.reshape(-1)[:1])
