"""Kernels on dense arrays, as steps of plans and as Python calls them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

import onegraph as og
from onegraph.compiler.array_kernels import FUNCTIONS, nodes
from onegraph.compiler.array_kernels.arrays import LIMIT
from onegraph.compiler.kernels.arrays import MOVING, RECORDS, _fits, _numbers
from onegraph.compiler.kernels.kernel import call_of
from onegraph.compiler.kernels.native import compiled, packed
from onegraph.errors import OneGraphError
from onegraph.ir.op import Op
from tests.guard.memory import Guarded
from tests.helpers import array_uses as uses
from tests.helpers.drawn import Array
from tests.helpers.kernels import values_of

from ..draw import Draw
from ..entry import draws
from ..numbers import check, check_bits, check_numbers, random_bits

OTHERS = ("Determinant", "Distinct")  # which are no ops
KINDS = sorted({*RECORDS, *FUNCTIONS, *OTHERS})
LARGE = 0.02  # the share of uses that threads divide


@draws("arrays")
def arrays(draw: Draw) -> None:
    kind = draw.of(KINDS)
    if kind in OTHERS:
        (determinants if kind == "Determinant" else distinct)(draw)
        return
    number, is_large = draw.between(0, 2**40), draw.flag(LARGE)
    large = uses.LARGE[kind if kind in uses.LARGE else "CumSum"]
    if is_large and callable(large):
        given, attrs, *known = large(uses.Draw(number))
    else:
        given, attrs, *known = uses.DRAWS[kind](uses.Large(number, large) if is_large else uses.Draw(number))
    draw.path, draw.said = kind, f"{kind} {number}, large {is_large}, {attrs}"
    if kind in MOVING and given[0].dtype.kind == "f" and kind != "OneHot":
        given[0] = random_bits(draw, given[0].shape, given[0].dtype)
    try:
        op = uses.op_of(kind, given, attrs, *known)
    except og.SpecError:  # a window that does not fit
        return
    given = [None if array is None else np.asarray(array) for array in given[: len(op.inputs)]]
    wanted = uses.computed(op, given)
    results = [np.zeros(one.shape, one.dtype) for one in places_of(op, wanted)]
    is_step = kind in RECORDS and not refusal_of(kind, op, given, results) and (kind not in FUNCTIONS or draw.flag())
    if not is_step and kind not in FUNCTIONS:
        return
    try:
        found = run_step(draw, op, given, results) if is_step else run_function(draw, op, given, results)
    except (OneGraphError, IndexError, ValueError) as error:
        draw.path, draw.runs = "refused", 1
        assert isinstance(wanted, og.ArgumentError), f"{draw}: {error}"  # noqa: PT017
        return
    if found is None:  # numpy computes this form
        return
    assert not isinstance(wanted, og.ArgumentError), f"{draw}: not refused: {wanted}"
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), f"{draw}: {one.dtype} {one.shape}"
        if kind in MOVING:
            check_bits(one, other, draw)
        else:
            assert uses.close(one, other), f"{draw}: {one.reshape(-1)[:9]}, not {other.reshape(-1)[:9]}"


def places_of(op: Op, wanted: Any) -> list[Any]:
    """What has the shapes and data types of the results, also where there are none."""
    if not isinstance(wanted, OneGraphError):
        return [*wanted]
    return [SimpleNamespace(shape=tensor.shape, dtype=tensor.dtype.numpy) for tensor in op.outputs]


def refusal_of(kind: str, op: Op, given: list[Any], results: list[Array]) -> str:
    """Why a plan does not take the kernel."""
    record, call = RECORDS[kind], call_of(SimpleNamespace(op=op))  # type: ignore[arg-type]
    values = values_of([*given[: record.n_read], *results])
    if any(0 in value.shape for value in values):
        return "empty"
    return _fits(call, kind, values)


def run_step(draw: Draw, op: Op, given: list[Any], results: list[Array]) -> list[Array]:
    """The results of a step of a plan."""
    read = [np.ascontiguousarray(array).reshape(array.shape) for array in given[: RECORDS[op.kind].n_read]]
    values = values_of([*read, *results])
    numbers = _numbers(SimpleNamespace(op=op))  # type: ignore[arg-type]
    kernel = compiled("arrays", values[: len(read)], values[len(read) :], packed("arrays", numbers))
    draw.run_kernel(kernel, *read, *results, results=len(results))
    return results


@contextmanager
def memory_between_pages() -> Iterator[list[Guarded]]:
    """Let arrays that are made begin or end at pages which nobody may touch."""
    made: list[Guarded] = []
    empty = np.empty

    def guarded(shape: Any, dtype: Any = float) -> Array:
        if not np.prod(shape) or np.dtype(dtype).kind not in "biuf":
            return empty(shape, dtype)
        made.append(Guarded(empty(shape, dtype), at_begin=len(made) % 2 == 1))
        return made[-1].array

    np.empty = guarded  # type: ignore[assignment]
    try:
        yield made
    finally:
        np.empty = empty


def run_function(draw: Draw, op: Op, given: list[Any], results: list[Array]) -> list[Array] | None:
    """The results of a call; None if numpy computes this form."""
    read = [None if array is None else Guarded(array) for array in given]
    written = [Guarded(array, at_begin=draw.flag()) for array in results]
    before = LIMIT.threads
    LIMIT.threads = draw.threads
    try:
        ends = [None if each is None else each.array for each in read], [each.array for each in written]
        with memory_between_pages() as made:
            found = FUNCTIONS[op.kind](call_of(SimpleNamespace(op=op)), *ends)  # type: ignore[arg-type]
    finally:
        LIMIT.threads = before
    if found is None:
        return None
    draw.runs += 1
    copies = [np.array(array) for array in found]
    for array, each in zip(given, read, strict=True):
        if array is not None and each is not None:
            check_bits(each.array, array, draw)
    assert all(each is None or each.is_clean() for each in (*read, *written, *made)), f"{draw}: writes beside an array"
    return copies


def distinct(draw: Draw) -> None:
    src = uses.Draw(draw.between(0, 2**40)).array(draw.size())
    draw.path, draw.said = "Distinct", f"{src.dtype} {src.shape}"
    with memory_between_pages() as made:
        found = nodes.distinct(src)
        assert found is not None
        found = tuple(map(np.array, found))
    draw.runs += 1
    assert all(each.is_clean() for each in made), f"{draw}: writes beside an array"
    for one, wanted in zip(found, np.unique(src, True, True, True), strict=True):
        check_numbers(one, wanted, draw)


def determinants(draw: Draw) -> None:
    size, dtype = draw.of([draw.between(1, 9), draw.between(1, 9), draw.size(33)]), draw.of([np.float32, np.float64])
    src = draw.rng.standard_normal((draw.between(1, 4), size, size)).astype(dtype)
    src[draw.rng.random(src.shape) < draw.of([0, 0, 0.3])] = 0
    src *= dtype(draw.of([1, 1, 1e-3, 100]))
    draw.path, draw.said = "Determinant", f"{src.dtype} {src.shape}"
    guarded = Guarded(src)
    with memory_between_pages() as made:
        found = np.array(nodes.determinants(guarded.array))
    assert all(each.is_clean() for each in made), f"{draw}: writes beside an array"
    draw.runs += 1
    wide = src.astype(np.float64)
    wanted, sizes = np.linalg.det(wide), np.prod(np.linalg.norm(wide, axis=-1), -1)  # of rows, which bound it
    near = np.abs(found - wanted) <= 2e-12 * size * sizes + 2e-7 * np.abs(wanted) + np.finfo(dtype).tiny
    near |= ~np.isfinite(wanted.astype(dtype)) & (np.isinf(found) | (sizes > np.finfo(dtype).max))
    check(near, found, wanted, draw)
