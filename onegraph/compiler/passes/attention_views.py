"""Puts views around a step of attention, so that the kernel reads and writes tensors where they lie."""

from __future__ import annotations

from ...opset.signature import AttrValue
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from .attention_scores import RANKS, unscaled

Dims = tuple[int, ...]


def with_views(edit: Edit, step: Step, factor: int | None) -> list[Step]:
    """An attention, behind a view of the keys as (batch, heads, tokens, size) if the product reads them transposed.

    It reads the heads that the keys and values have before they are repeated. Where the rows of several heads are one
    matrix, there are views of the query and the result as heads. The query is multiplied by ``factor``.
    """
    product, (query, key, value, *mask), (result,) = step.members[0], step.inputs, step.outputs
    views: list[Step] = []
    if factor is not None:
        whole, query = query, edit.values.like(query, "query", edit.values[query].shape)
        views = [edit.library_step(product, "Multiply", (whole, factor), (query,), {})]
    if not product.attrs.get("transpose_b"):
        maker = edit.graph.maker(key)
        assert maker is not None
        source = edit.values[unscaled(edit.graph, maker.inputs[0])[0]]
        *order, tokens, size = (int(axis) % len(source.shape) for axis in maker.attrs["order"])  # type: ignore[union-attr]
        order += [size, tokens]
        key = source.id
        if order != sorted(order):
            shape = tuple([source.shape[axis] for axis in order])
            key = edit.values.like(maker.outputs[0], "keys", shape)
            views += [edit.library_step(maker, "StaticTranspose", (source.id,), (key,), {"order": tuple(order)})]
    (own_key, times), (own_value, value_times) = (_shared(edit.graph, heads) for heads in (key, value))
    if times == value_times:
        key, value = own_key, own_value
    (softmax,) = (member for member in step.members if member.kind == "SoftMax")
    if len(edit.values[result].shape) > RANKS[0]:
        query, key, value, *mask = (_joined(edit, product, number, views) for number in (query, key, value, *mask))
        heads_value = edit.values.like(result, "heads", joined_shape(edit.values[result].shape))
        after = [_reshaped(edit, product, heads_value, result)]
        return [*views, step._replace(inputs=(query, key, value, *mask), outputs=(heads_value,)), *after]
    heads, after = edit.values[softmax.inputs[0]].shape[:3], list[Step]()
    if edit.values[query].shape[:3] != heads:
        query, source_id = edit.values.like(query, "query", (*heads, edit.values[query].shape[3])), query
        views.append(_reshaped(edit, product, source_id, query))
    if edit.values[result].shape[:3] != heads:
        heads_value = edit.values.like(result, "heads", (*heads, edit.values[result].shape[3]))
        after, result = [_reshaped(edit, product, heads_value, result)], heads_value
    return [*views, step._replace(inputs=(query, key, value, *mask), outputs=(result,)), *after]


def _shared(graph: Lowered, heads: int) -> tuple[int, int]:
    """Keys or values before each head of them is repeated for several of the query, and for how many."""
    joined = graph.maker(heads)
    wide = graph.maker(joined.inputs[0]) if joined is not None and joined.kind == "StaticReshape" else None
    apart = graph.maker(wide.inputs[0]) if wide is not None and wide.kind in ("Expand", "Tile") else None
    if apart is None or apart.kind not in ("StaticReshape", "Unsqueeze"):
        return heads, 1
    assert wide is not None
    own, before, after, shape = (
        graph.values[number].shape for number in (apart.inputs[0], wide.inputs[0], wide.outputs[0], heads)
    )
    if len(after) != 5 or before != (*own[:2], 1, *own[2:]):
        return heads, 1
    count = after[2]
    is_whole = after == (*own[:2], count, *own[2:]) and shape == (own[0], own[1] * count, *own[2:])
    return (apart.inputs[0], count) if is_whole else (heads, 1)


def _joined(edit: Edit, step: Step, value: int, views: list[Step]) -> int:
    """A value whose heads are one axis: before it got another, or a view, which is added to ``views``."""
    own, before = edit.values[value].shape, before_joining(edit.graph, value)
    shape = joined_shape(own)
    if before is not None or len(own) < RANKS[0] or own == shape:
        return value if before is None else before
    heads = edit.values.like(value, "heads", shape)
    views.append(_reshaped(edit, step, value, heads))
    return heads


def joined_shape(shape: Dims) -> Dims:
    """A shape whose heads and heads of a group, of five axes, are one axis."""
    batch, heads, group, *rest = (*(1,) * (RANKS[1] - len(shape)), *shape)
    return batch, heads * group, *rest


def before_joining(graph: Lowered, value: int) -> int | None:
    """The value that a step gives a further axis, if its heads are one axis; None if there is none."""
    maker = graph.maker(value)
    if maker is None or maker.kind not in ("Unsqueeze", "StaticReshape"):
        return None
    source, target = graph.values[maker.inputs[0]], graph.values[value]
    return source.id if source.shape == joined_shape(target.shape) else None


def _reshaped(edit: Edit, step: Step, source: int, target: int) -> Step:
    attrs: dict[str, AttrValue] = {"shape": edit.values[target].shape, "special_zero": False}
    return edit.library_step(step, "StaticReshape", (source,), (target,), attrs)


def place_for_reader(edit: Edit, result: int) -> None:
    """Let the kernel write the heads of each token side by side, if only a view of that order reads the result."""
    graph, reader = edit.graph, edit.graph.only_consumer(result)
    if not is_view(reader):
        return
    assert reader is not None
    order = [int(axis) % 4 for axis in reader.attrs["order"]]  # type: ignore[union-attr]
    target = edit.values[reader.outputs[0]]
    if target.id not in graph.returned:
        edit.change(result, strides=tuple([target.strides[order.index(axis)] for axis in range(4)]))


def is_view(step: Step | None) -> bool:
    """Whether a step only changes the order of axes, so that another order costs nothing either."""
    return step is not None and step.kind == "StaticTranspose" and step.library_part is not None
