"""Lowers reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...._util.open_sizes import is_open
from ....lowering.elementwise import binary, filled, multiply, unary
from ....lowering.emitter import Emitter, Value, dtype_of
from ....lowering.movement import NATIVE, cast, reshape, rounded, scalar
from ....lowering.open_samples import open_factor
from ....lowering.reduction import reduce
from ....opset.dtypes import DataType
from ..node import AtenNode, NotLowered, axes_of, lowers

KINDS = {"mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd"}


def _axes(node: AtenNode) -> list[int]:
    return axes_of(node["dim"], len(node.shape("self")))


@lowers(
    "mean.dim", "mean.default", "sum.dim_IntList", "sum.default", "amax.default", "amin.default", "prod.dim_int",
    "prod.default",
)  # fmt: skip
def plain(node: AtenNode) -> Value:
    """A mean, sum, product or extreme over axes."""
    src = cast(node.emit, node.value("self"), node.result_dtype)
    return reduce(node.emit, KINDS[node.name.split(".")[1]], src, _axes(node), bool(node["keepdim"]))


@lowers("max.default", "min.default")
def extreme(node: AtenNode) -> Value:
    """The largest or smallest element."""
    kind = "ReduceMax" if "max" in node.name else "ReduceMin"
    return reduce(node.emit, kind, node.value("self"), None, False)


@lowers("any.dim", "any.dims", "any.default", "all.dim", "all.dims", "all.default")
def logical(node: AtenNode) -> Value:
    """Whether any or all elements are not 0."""
    kind = "ReduceMax" if ".any." in node.name else "ReduceMin"
    src = cast(node.emit, node.value("self"), DataType.boolean)
    return cast(node.emit, reduce(node.emit, kind, src, _axes(node), bool(node["keepdim"])), node.result_dtype)


def _variance(node: AtenNode) -> tuple[Value, Value]:
    """The variance, and the mean with its axes."""
    src, emit, axes = node.value("self"), node.emit, _axes(node)
    if dtype_of(src) not in NATIVE:
        raise NotLowered(f"{dtype_of(src)} is no data type of the ops")
    count = prod([node.shape("self")[axis] for axis in axes])
    less = int(node["unbiased"]) if "var.dim" in node.name else 1 if node["correction"] is None else node["correction"]
    if not is_open((count,)) and count <= less:
        raise NotLowered("too few elements")
    wide = cast(emit, src, DataType.f32)
    mean = reduce(emit, "ReduceMean", wide, axes, True)
    apart = unary(emit, "Square", binary(emit, "Subtract", wide, mean))
    result = reduce(emit, "ReduceMean", apart, axes, bool(node["keepdim"]))
    return multiply(emit, result, correction(node, count, less)), mean


def correction(node: AtenNode, count: int, less: float, times: float = 1) -> Value:
    """The number of elements, divided by that number less another one; of open sizes infinity where nothing is left.

    Args:
        node: the node.
        count: the number of elements.
        less: the other number.
        times: a factor of the result.
    """

    def of(emit: Emitter, number: Value) -> Value:
        whole = cast(emit, number, DataType.f32)
        left = binary(emit, "Maximum", binary(emit, "Subtract", whole, filled(less, whole)), filled(0, whole))
        result = binary(emit, "Divide", whole, left)
        return result if times == 1 else multiply(emit, result, filled(times, result))

    def opened(emit: Emitter, sizes: Callable[[Sequence[int]], Value]) -> Value:
        return of(emit, reshape(emit, sizes([count]), ()))

    def within() -> Value:
        return of(node.emit, reshape(node.emit, open_factor(node.emit, count), ()))

    result = node.open_value((), DataType.f32, (count,), opened, within)
    return scalar(times * (count / (count - less)), DataType.f32) if result is None else result


@lowers("var.correction", "var.dim")
def variance(node: AtenNode) -> Value:
    """The variance over axes."""
    return rounded(node.emit, _variance(node)[0], node.result_dtype)


@lowers("std.correction")
def deviation(node: AtenNode) -> Value:
    """The standard deviation over axes."""
    return rounded(node.emit, unary(node.emit, "Sqrt", _variance(node)[0]), node.result_dtype)


@lowers("var_mean.correction")
def variance_and_mean(node: AtenNode) -> list[Value]:
    """The variance and the mean over axes."""
    variance, mean = _variance(node)
    if not node["keepdim"]:
        mean = reduce(node.emit, "ReduceMean", cast(node.emit, node.value("self"), DataType.f32), _axes(node), False)
    return [cast(node.emit, one, node.result_dtype) for one in (variance, mean)]


@lowers("max.dim", "min.dim")
def extreme_and_place(node: AtenNode) -> list[Value | None]:
    """The largest or smallest elements along an axis, and their places if somebody reads them."""
    name, src = ("Max" if "max" in node.name else "Min"), node.value("self")
    axis, keep = node.axis("dim"), bool(node["keepdim"])
    places: Value | None = None
    if 1 in node.read:
        places = node.emit.op(f"Arg{name}", [src], {"axis": axis, "keep_dims": keep})
    return [reduce(node.emit, f"Reduce{name}", src, [axis], keep), places]


@lowers("argmax.default", "argmin.default")
def place(node: AtenNode) -> Value:
    """The index of the largest or smallest element along an axis."""
    kind = "ArgMax" if "argmax" in node.name else "ArgMin"
    src, keep = node.value("self"), bool(node["keepdim"])
    if node["dim"] is None:
        flat = reshape(node.emit, src, [-1])
        every = node.emit.op(kind, [flat], {"axis": 0, "keep_dims": False})
        return reshape(node.emit, every, node.result_shape)
    return node.emit.op(kind, [src], {"axis": node.axis("dim"), "keep_dims": keep})


@lowers("cumsum.default", "cumprod.default")
def cumulative(node: AtenNode) -> Value:
    """Sums or products so far along an axis."""
    src = cast(node.emit, node.value("self"), node.result_dtype)
    if not node.shape("self"):
        return src
    return node.emit.op("CumSum" if "cumsum" in node.name else "CumProd", [src], {"axis": node.axis("dim")})


@lowers("linalg_vector_norm.default")
def vector_norm(node: AtenNode) -> Value:
    """The 1-norm or 2-norm over axes."""
    kind = {1.0: "ReduceL1", 2.0: "ReduceL2"}.get(float(node["ord"]))
    if kind is None:
        raise NotLowered(f"the norm of order {node['ord']}")
    src = cast(node.emit, node.value("self"), node.result_dtype)
    if dtype_of(src) in NATIVE:  # sums of squares leave the range of f16 and the precision of bf16
        src = cast(node.emit, src, DataType.f32)
    result = reduce(node.emit, kind, src, _axes(node), bool(node["keepdim"]))
    return rounded(node.emit, result, node.result_dtype)
