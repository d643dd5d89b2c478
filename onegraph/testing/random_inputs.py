"""Makes random inputs for a graph, inside the domain of every op that reads them.

Inputs of roots and logarithms are positive, divisors are not near zero, variances are positive, and shapes given as
tensors fit the graph. Numbers are small, so that chains of ops neither overflow f16 nor saturate int8.
"""

from __future__ import annotations

import itertools
import math
import os
import zlib
from collections.abc import Callable, Iterator
from types import MappingProxyType

import numpy as np

from .._util.records import record
from .._util.validation import callback, integer
from ..arrays.ndarrays import laid_empty
from ..builder.graph import snapshot
from ..errors import ArgumentError
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of
from ..opset.shapes import known_dims, show


@record(frozen=True)
class Domain:
    """Numbers from ``low`` to ``high`` that are at least ``gap`` away from zero; ``zero`` is the zero point."""

    low: float = -2.0
    high: float = 2.0
    gap: float = 0.0
    zero: int = 0

    def __and__(self, other: Domain) -> Domain:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Domain(low, high, max(self.gap, other.gap), self.zero or other.zero) if low < high else self


ANY = Domain()
POSITIVE = Domain(0.25, 4.0)
UNIT = Domain(0.05, 0.95)
DIVISOR = Domain(-2.0, 2.0, 0.5)
SMALL = Domain(0.0, 0.25)
ZERO_POINT = Domain(0.0, 7.0)  # in the range of every integer type
# Domains of inputs by op and index of the port, for the ops of the base vocabulary and of legacy-1.
DOMAINS = MappingProxyType(
    {
        "Sqrt": {0: POSITIVE},
        "Rsqrt": {0: POSITIVE},
        "Log": {0: POSITIVE},
        "Reciprocal": {0: DIVISOR},
        "Divide": {1: DIVISOR},
        "SqrtBackward": {0: POSITIVE},
        "PowBackprop": {0: POSITIVE},
        "PowBackpropExponent": {0: POSITIVE, 2: POSITIVE},
        "BatchNormInference": {1: Domain(0.5, 1.5), 4: POSITIVE},
        "BatchNormForwardTraining": {2: POSITIVE, 3: Domain(0.5, 1.5)},
        "BatchNormTrainingBackward": {3: POSITIVE, 4: Domain(0.5, 1.5)},
        "LayerNorm": {1: Domain(0.5, 1.5)},
        "LayerNormBackward": {3: POSITIVE, 4: Domain(0.5, 1.5)},
        "GroupNorm": {1: Domain(0.5, 1.5)},
        "RMSNorm": {1: Domain(0.5, 1.5)},
        "SoftMaxBackward": {1: UNIT},
        "LogSoftmaxBackward": {1: Domain(-4.0, -0.05)},
        "PReLU": {1: SMALL},
        "PReLUBackward": {1: SMALL},
        "DynamicQuantize": {1: Domain(0.05, 0.5), 2: ZERO_POINT},
        "DynamicDequantize": {1: Domain(0.05, 0.5), 2: ZERO_POINT},
        "ReduceProd": {0: Domain(-1.1, 1.1, 0.9)},  # the product of a thousand of them is still finite
        "Dropout": {3: Domain(0.1, 0.9)},
    }
)
# Default ranges of integers. Products of u8 and s8 stay within 16 bits, in which kernels for the oldest CPUs sum.
INTEGERS = MappingProxyType(
    {
        DataType.s8: (-32, 32),
        DataType.u8: (0, 64),
        DataType.s32: (-100, 100),
        DataType.s64: (0, 1000),
        DataType.s4: (-8, 7),
        DataType.u4: (0, 15),
    }
)
# Limits of integers around a zero point. Products of u8 and s8 stay within 16 bits here too.
AROUND_ZERO_POINT = MappingProxyType({DataType.s8: (-64, 64), DataType.u8: (0, 255)})
# Ops that only move or convert elements: the domain of the result applies to the input too.
PASSED_ON = frozenset({"Reorder", "TypeCast", "StaticReshape", "StaticTranspose", "DynamicReshape", "DynamicTranspose"})
# Ops whose second input selects elements of the first.
INDEXING = frozenset({"Index", "Gather", "GatherElements"})
# Ops of integers whose result has the range of their inputs.
LIMITING = PASSED_ON | {"Cast", "Maximum", "Minimum", "Reshape", "Select", "Squeeze", "Transpose", "Unsqueeze", "Where"}


def random_inputs(graph: Graph, seed: int = 0, progress: Callable[[int, int], None] | None = None) -> dict[str, Array]:
    """An array for each input of a graph, in the declared layout; the same for the same seed and name.

    Args:
        graph: a graph whose inputs have known shapes.
        seed: a number from 0.
        progress: called with the number of inputs done and their total.

    Raises:
        ArgumentError: a shape is unknown, the contents of a shape tensor cannot be derived from the graph, or the
            tensors of the graph are larger than the memory of this machine.
    """
    graph = snapshot(graph)
    start = integer("seed", seed, 0, math.inf, "a number from 0")
    tell = callback("progress", progress)
    for name, tensor in graph.inputs.items():
        if tensor.shape is None or None in tensor.shape:
            fix = "give its batch size (--mb), shape (--in-shapes) or contents (--inputs)"
            raise ArgumentError(
                f"input {name!r}: shape {show(tensor.shape)}; expected known dims for random data; {fix}"
            )
    _refuse_too_large(graph)
    chosen, readers, indices = domains(graph), _readers(graph), _index_limits(graph)
    arrays: dict[str, Array] = {}
    for done, (name, tensor) in enumerate(graph.inputs.items()):
        rng = np.random.default_rng([start, zlib.crc32(name.encode("utf-8", "replace"))])
        uses = readers.get(tensor.id, [])
        values = next((_contents(name, tensor, op, index) for op, index in uses if _is_shape(op, index)), None)
        if values is None:
            values = _draw(rng, tensor, chosen.get(tensor.id, ANY), indices.get(tensor.id))
        arrays[name] = _laid_out(tensor, values)
        tell(done + 1, len(graph.inputs))
    return arrays


def _refuse_too_large(graph: Graph) -> None:
    tensors = {tensor.id: tensor for tensor in graph.inputs.values()}
    tensors.update((tensor.id, tensor) for op in graph.ops for tensor in op.outputs)
    needed = sum(math.prod(known_dims(t.shape)) * t.dtype.numpy.itemsize for t in tensors.values())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        amount, limit = f"{needed / 2**30:,.1f} GiB", f"{memory / 2**30:,.1f} GiB"
        raise ArgumentError(f"the tensors of the graph take {amount}; expected no more than the memory, {limit}")


# Domains --------------------------------------------------------------------------------------------------------------


def _readers(graph: Graph) -> dict[int, list[tuple[Op, int]]]:
    readers: dict[int, list[tuple[Op, int]]] = {}
    for op in graph.ops:
        for index, tensor in enumerate(op.inputs):
            readers.setdefault(tensor.id, []).append((op, index))
    return readers


def domains(graph: Graph) -> dict[int, Domain]:
    """The domain of every tensor that its readers need, directly or after ops that only move data."""
    domains_found: dict[int, Domain] = {}
    for op in reversed(graph.ops):
        for index, tensor in enumerate(op.inputs):
            asked = domains_found.get(op.outputs[0].id) if op.kind in PASSED_ON else _domain(op, index)
            if asked is not None:
                known = domains_found.get(tensor.id)
                domains_found[tensor.id] = asked if known is None else known & asked
    return domains_found


def _domain(op: Op, index: int) -> Domain | None:
    schema = schema_of(op)
    kind = base_of(schema).kind
    if kind == "Pow":
        beta = op.attrs.get("beta")
        whole = isinstance(beta, (int, float)) and float(beta).is_integer()
        return (ANY if beta >= 0 else DIVISOR) if whole and index == 0 else POSITIVE if index == 0 else ANY  # type: ignore[operator]
    if index == 0 and op.attrs.get("use_dst", True) and kind in ("SigmoidBackward", "TanhBackward", "EluBackward"):
        # The input is the result of the forward op.
        alpha = op.attrs.get("alpha", 1.0)
        assert isinstance(alpha, (int, float))
        return {"SigmoidBackward": UNIT, "TanhBackward": Domain(-0.95, 0.95)}.get(
            kind, Domain(max(-0.9 * alpha, -2.0), 2.0)
        )
    zero_points = op.attrs.get("zps")
    if kind == "Dequantize" and isinstance(zero_points, tuple) and zero_points:
        return Domain(zero=round(float(np.mean(zero_points))))
    return DOMAINS.get(kind, {}).get(index)


def _is_shape(op: Op, index: int) -> bool:
    schema = schema_of(op)
    return bool(schema.inputs) and schema.input_port(index).gives_shape


def _index_limits(graph: Graph) -> dict[int, int]:
    """By id of an integer tensor that selects elements, maybe behind ops that move or limit it, how many there are."""
    limits: dict[int, int] = {}
    for op in reversed(graph.ops):
        passed = limits.get(op.outputs[0].id) if op.outputs and op.kind in LIMITING else None
        for index, tensor in enumerate(op.inputs):
            limit = _rows(op) if index == 1 and op.kind in INDEXING else passed
            if limit is not None and tensor.dtype in (DataType.s32, DataType.s64):
                limits[tensor.id] = min(limit, limits.get(tensor.id, limit))
    return limits


def _rows(op: Op) -> int:
    """Length of the axis that indices select from: the attribute axis, else the first."""
    source, axis = op.inputs[0], op.attrs.get("axis", 0)
    assert isinstance(axis, int)
    return (source.shape[axis] or 1) if source.shape else 1


def _contents(name: str, tensor: LogicalTensor, op: Op, index: int) -> Array:
    """A shape, axes or an order of axes for which the op has the output shape of the graph."""
    assert tensor.shape is not None
    schema = schema_of(op)
    count, source, output = math.prod(known_dims(tensor.shape)), op.inputs[0], op.outputs[0]
    port = schema.input_port(index).name
    shape, target = source.shape, output.shape
    choices: Iterator[tuple[int | None, ...]] = iter(())
    if port == "axes" and shape is not None:
        choices = (axes for axes in itertools.combinations(range(len(shape)), count) if _reduces(op, axes))
    elif port == "order" and shape is not None and len(shape) <= 8:
        orders = itertools.permutations(range(len(shape)))
        choices = (order for order in orders if target is None or _fits([shape[axis] for axis in order], target))
    elif port == "sizes" and target is not None:
        channels_last = op.attrs.get("data_format", "NXC") == "NXC"
        choices = iter([target[1:-1] if channels_last else target[2:]])
    elif target is not None and None not in target:
        choices = iter([target])
    elif port == "shape" and shape is not None and count:
        choices = iter([(*[1] * (count - 1), math.prod(known_dims(shape)))])
    chosen = next((choice for choice in choices if None not in choice and len(choice) == count), None)
    if chosen is None:
        text = f"input {name!r}: {port} of {op.kind} {op.name!r} follows from nothing in the graph"
        raise ArgumentError(f"{text}; give its contents (--inputs)")
    return np.array(chosen, np.int32).reshape(known_dims(tensor.shape))


def _reduces(op: Op, axes: tuple[int, ...]) -> bool:
    source, target = op.inputs[0], op.outputs[0].shape
    assert source.shape is not None
    keep = bool(op.attrs.get("keep_dims", False))
    left = [1 if axis in axes else dim for axis, dim in enumerate(source.shape) if keep or axis not in axes]
    return target is None or _fits(left, target)


def _fits(shape: list[int | None], target: tuple[int | None, ...]) -> bool:
    return len(shape) == len(target) and all(
        a is None or b is None or a == b for a, b in zip(shape, target, strict=True)
    )


# Numbers --------------------------------------------------------------------------------------------------------------


def _draw(rng: np.random.Generator, tensor: LogicalTensor, domain: Domain, rows: int | None) -> Array:
    shape, dtype = known_dims(tensor.shape), tensor.dtype
    if dtype is DataType.boolean:
        return rng.integers(0, 2, shape, np.uint8).astype(np.bool_)
    if dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        if rows is not None:
            low, high = 0, rows - 1
        elif domain is ZERO_POINT:
            low, high = int(domain.low), int(domain.high)
        elif domain.zero and dtype in AROUND_ZERO_POINT:
            width, (lowest, highest) = high - low, AROUND_ZERO_POINT[dtype]
            low = min(max(domain.zero - width // 2, lowest), highest - width)
            high = low + width
        store = np.int64 if dtype is DataType.s64 else np.int32
        return rng.integers(low, high + 1, shape, store).astype(dtype.numpy)
    if dtype is DataType.e8m0:  # powers of two
        return np.exp2(rng.integers(-2, 3, shape)).astype(dtype.numpy)
    values = rng.random(shape, np.float32)
    values = np.asarray(values)
    if domain.gap and domain.low < 0:
        signs = rng.integers(0, 2, shape, np.int8)
        values *= domain.high - domain.gap
        values += domain.gap
        np.negative(values, out=values, where=signs == 1)
    else:
        least = max(domain.low, domain.gap) if domain.gap else domain.low
        values *= domain.high - least
        values += least
    return values if dtype is DataType.f32 else values.astype(dtype.numpy)


def _laid_out(tensor: LogicalTensor, values: Array) -> Array:
    """The values in an aligned array with the declared strides."""
    made = laid_empty(values.shape, tensor.strides, tensor.dtype.numpy)
    made[...] = values
    return made
