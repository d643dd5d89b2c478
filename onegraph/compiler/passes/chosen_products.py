"""Multiplies rows by the matrices that indices name of several, as layers of experts do, and copies no matrix.

The library would get a copy of a matrix for each row. The rows that name a matrix are multiplied together instead.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.edit import Edit
from ..ir.step import Step
from ..kernels.kernel import call_of
from ..kernels.packed_product import OF_CHOSEN, PACKED_EXPERTS
from ..options import Options

MOST_ROWS = 32  # of a matrix that one index names; the library multiplies more of them in less time


def multiply_chosen(edit: Edit, options: Options) -> None:
    """Put steps of executor ``packed experts`` in the place of products with gathered matrices."""
    for step in edit.graph.steps:
        part = step.library_part
        if step.kind != "MatMul" or part is None or len(step.inputs) != 2:
            continue
        turns = part.call.flag("transpose_a"), part.call.flag("transpose_b")
        for place in (1, 0):  # a gathered matrix may be the first operand of a column
            chosen = _chosen(edit, step.inputs[place], turns[1] if place else not turns[0])
            if chosen is not None and _fits(edit, step, chosen, place, turns):
                edit.spare(chosen.makers)
                edit.replace(step, _product(edit, step, chosen, step.inputs[1 - place], options))
                break


class _Chosen(NamedTuple):
    """Matrices that are gathered: the ids of the indices and of all matrices, and the steps that gather and turn them.

    Those that are turned are (matrices, columns, depth).
    """

    indices: int
    matrices: int
    is_turned: bool
    makers: list[Step]


def _chosen(edit: Edit, number: int, is_turned: bool) -> _Chosen | None:
    graph, makers, indices = edit.graph, list[Step](), None
    while (maker := graph.maker(number)) is not None:
        if maker.kind == "StaticTranspose" and _exchanges(edit, maker):
            is_turned = not is_turned
        elif indices is None and maker.op.kind == "Gather":
            if call_of(maker).s64("axis") % len(graph.values[maker.inputs[0]].shape):
                return None
            indices = maker.inputs[1]
        else:
            break
        makers.append(maker)
        number = maker.inputs[0]
    matrices = graph.values[number]
    if indices is None or len(matrices.shape) != 3 or 0 in matrices.shape:
        return None
    return _Chosen(indices, number, is_turned, makers)


def _exchanges(edit: Edit, step: Step) -> bool:
    """Whether a transpose exchanges the axes of each matrix."""
    rank, order = len(edit.values[step.inputs[0]].shape), step.attrs.get("order")
    last = [*range(rank - 2), rank - 1, rank - 2]
    return isinstance(order, tuple) and [int(axis) % rank for axis in order] == last


def _fits(edit: Edit, step: Step, chosen: _Chosen, place: int, turns: tuple[bool, bool]) -> bool:
    """Whether each index names the matrix of a few rows of src, or those before an axis share these rows."""
    src, matrices = edit.values[step.inputs[1 - place]], edit.values[chosen.matrices]
    places, rows = edit.values[chosen.indices].shape, src.shape[-2:]
    if len(src.shape) < 2 or not matrices.dense:
        return False
    if place == 0:
        rows = rows if turns[1] else rows[::-1]
        if rows[0] != 1:
            return False
    elif turns[0]:
        return False
    if rows[0] > MOST_ROWS:
        edit.refuse(step, PACKED_EXPERTS.name, f"the library is faster for more than {MOST_ROWS} rows of a matrix")
        return False
    own = (*[1] * (len(places) - len(src.shape) + 2), *src.shape[:-2])
    shared = next((axis for axis, dims in enumerate(zip(own, places, strict=False)) if dims[0] != dims[1]), len(places))
    return len(own) == len(places) and all(dim == 1 for dim in own[shared:])


def _product(edit: Edit, step: Step, chosen: _Chosen, src: int, options: Options) -> Step:
    matrices = edit.values[chosen.matrices]
    attrs = {
        "coding": matrices.dtype.value,
        "group": 0,
        "zero": 0,
        "zeros": False,
        "coded": False,
        "unpacks": options.reproducible,
        "experts": matrices.shape[0],
        "turned": chosen.is_turned,
        "strict": True,
    }
    inputs = src, chosen.indices, chosen.matrices
    return step.instead(PACKED_EXPERTS.executor, inputs, step.outputs, kind=step.kind, attrs=attrs, note=OF_CHOSEN)
