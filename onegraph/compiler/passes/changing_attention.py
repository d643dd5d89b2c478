"""Computes attention by one kernel of the package where sizes change or few queries meet many keys.

The library compiles its ops for each size. The steps of a decoder have one token more each time. Products with the
keys and the values, and the SoftMax between them, would be compiled for each number of tokens, which takes 100 times as
long as the attention. The kernel takes any number.

A few queries take as long as reading the keys, which the library copies before the product, in another order.
"""

from __future__ import annotations

from math import prod

from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..options import Options

TURNED = (0, 1, 3, 2)
FEW_QUERIES, LEAST_KEYS = 16, 64  # of a head
CHANGING = "by onegraph: sizes change, and the library would compile its ops for each of them"
FEW = "by onegraph: few queries take as long as reading the keys, which the library would copy first"


def attend(edit: Edit, options: Options) -> None:
    """Put steps of executor ``attention`` in the place of products, a SoftMax and what lies between."""
    graph = edit.graph
    if options.reproducible:
        return
    for step in graph.steps:
        if step.kind != "SoftMax" or not _is_plain(graph, step, 1):
            continue
        match = _attention(graph, step)
        changes = graph.shared.partitions.rounds
        if match is not None and (changes or _has_few_queries(graph, match)):
            match = match._replace(note=CHANGING if changes else FEW)
            *following, last = match.members
            for member in following:
                edit.replace(member)
            edit.replace(last, *_with_keys(edit, match))
            _place_for_reader(edit, match.outputs[0])


def _is_plain(graph: Lowered, step: Step, n_inputs: int) -> bool:
    """Whether the library runs a step on f32 tensors of four axes, or scalars."""
    if step.library_part is None or len(step.inputs) != n_inputs or len(step.outputs) != 1:
        return False
    values = [graph.values[number] for number in (*step.inputs, *step.outputs)]
    return all(value.dtype is DataType.f32 for value in values) and len(values[-1].shape) == 4


def _attention(graph: Lowered, softmax: Step) -> Step | None:
    """The step for the attention around a SoftMax; None if there is none."""
    values, factor = graph.values, 1.0
    mask: tuple[int, ...] = ()
    last, (scores,) = graph.only_consumer(softmax.outputs[0]), softmax.inputs
    if int(softmax.attrs.get("axis", 1)) % 4 != 3 or last is None or last.kind != "MatMul":  # type: ignore[arg-type]
        return None
    if not _is_plain(graph, last, 2) or last.inputs[0] != softmax.outputs[0] or _is_turned(last):
        return None
    members = [softmax, last]
    maker = _only_maker(graph, scores)
    if maker is not None and maker.kind == "Add" and _is_plain(graph, maker, 2):
        number, operand = maker.inputs
        if _only_maker(graph, number) is None:
            number, operand = operand, number
        mask, scores, members = (operand,), number, [maker, *members]
        if len(values[operand].shape) > 4 or values[number].shape != values[scores].shape:
            return None
        maker = _only_maker(graph, scores)
    if maker is not None and maker.kind in ("Multiply", "Divide") and _is_plain(graph, maker, 2):
        number, operand = maker.inputs
        constant = values[operand].constant
        if (
            constant is None
            or prod(values[operand].shape) != 1
            or values[number].shape != values[maker.outputs[0]].shape
        ):
            return None
        taken = float(constant.reshape(-1)[0])
        factor = taken if maker.kind == "Multiply" else 1 / taken if taken else 0.0
        scores, members = number, [maker, *members]
        maker = _only_maker(graph, scores)
    if maker is None or maker.kind != "MatMul" or not _is_plain(graph, maker, 2) or maker.attrs.get("transpose_a"):
        return None
    (query, key), value = maker.inputs, last.inputs[1]
    turned = bool(maker.attrs.get("transpose_b"))
    if not 0 < abs(factor) < float("inf") or not _fit(graph, query, key, value, maker.outputs[0], mask, turned):
        return None
    if not turned and not _is_view(graph.maker(key)):
        return None
    attrs = {"scale": factor, "masked": bool(mask)}
    step = last.instead("attention", (query, key, value, *mask), last.outputs, attrs=attrs)
    return step._replace(members=(maker, *members))


def _has_few_queries(graph: Lowered, step: Step) -> bool:
    """Whether an attention takes as long as reading the keys, which the library copies first."""
    query, _, value = (graph.values[number].shape for number in step.inputs[:3])
    return query[2] <= FEW_QUERIES and value[2] >= LEAST_KEYS


def _is_turned(step: Step) -> bool:
    return bool(step.attrs.get("transpose_a") or step.attrs.get("transpose_b"))


def _only_maker(graph: Lowered, value: int) -> Step | None:
    """The step that makes a value which one other step alone reads."""
    return graph.maker(value) if graph.only_consumer(value) is not None else None


def _is_view(step: Step | None) -> bool:
    """Whether a step only changes the order of axes, so that another order costs nothing either."""
    return step is not None and step.kind == "StaticTranspose" and step.library_part is not None


def _with_keys(edit: Edit, step: Step) -> list[Step]:
    """An attention, behind a view of the keys as (batch, heads, tokens, size) if the product reads them transposed."""
    product, (query, key, *rest_inputs) = step.members[0], step.inputs
    if product.attrs.get("transpose_b"):
        return [step]
    maker = edit.graph.maker(key)
    assert maker is not None
    source, order = edit.values[maker.inputs[0]], [int(axis) % 4 for axis in maker.attrs["order"]]  # type: ignore[union-attr]
    order = [order[axis] for axis in TURNED]
    number = source.id
    added: list[Step] = []
    if order != sorted(order):
        number = edit.values.like(key, "keys", tuple([source.shape[axis] for axis in order]))
        added = [edit.library_step(maker, "StaticTranspose", (source.id,), (number,), {"order": tuple(order)})]
    return [*added, step._replace(inputs=(query, number, *rest_inputs))]


def _place_for_reader(edit: Edit, result: int) -> None:
    """Let the kernel write the heads of each token side by side, if only a view of that order reads the result."""
    graph, value, reader = edit.graph, edit.values[result], edit.graph.only_consumer(result)
    if reader is None or not _is_view(reader) or result in graph.returned or value.storage != result:
        return
    order = [int(axis) % 4 for axis in reader.attrs["order"]]  # type: ignore[union-attr]
    target = edit.values[reader.outputs[0]]
    if target.dense and target.id not in graph.returned:
        edit.change(result, strides=tuple([target.strides[order.index(axis)] for axis in range(4)]))


def _fit(graph: Lowered, query: int, key: int, value: int, scores: int, mask: tuple[int, ...], turned: bool) -> bool:
    """Whether the kernel takes tensors of these shapes, of which none is empty; ``turned``: whether keys are rows."""
    q, k, v, s = (graph.values[number].shape for number in (query, key, value, scores))
    if len(k) == 4 and not turned:
        k = (*k[:2], k[3], k[2])
    if any(0 in shape or len(shape) != 4 for shape in (q, k, v)) or q[:2] != k[:2] or k[:3] != v[:3]:
        return False
    shapes = [graph.values[number].shape for number in mask]
    return s == (*q[:3], k[2]) and all(
        dim in (1, full) for shape in shapes for dim, full in zip(reversed(shape), reversed(s), strict=False)
    )
