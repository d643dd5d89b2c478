"""Computes attention by one kernel of the package where sizes change or few queries meet many keys.

The library compiles its ops for each size. The steps of a decoder have one token more each time. Products with the
keys and the values, and the SoftMax between them, would be compiled for each number of tokens, which takes 100 times as
long as the attention. The kernel takes any number.

A few queries take as long as reading the keys, which the library copies before the product, in another order.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from ...opset.dtypes import DataType
from ...opset.kinds import ARITHMETIC, MOVES
from ...opset.signature import AttrValue
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..options import Options

Dims = tuple[int, ...]
RANKS = 4, 5  # of tensors: batch, heads, tokens, size; of five axes, the heads of a group are one of their own
SELECTS = "where_false", "where_true"  # where a condition puts its third operand, or its second one
SPARE = MOVES | ARITHMETIC | {"TypeCast"}
NARROW = frozenset([DataType.f16, DataType.bf16])
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
            match, factor = match._replace(note=CHANGING if changes else FEW), match.attrs.get("factor")
            match = match._replace(attrs={name: number for name, number in match.attrs.items() if name != "factor"})
            *following, last = match.members
            for member in following:
                edit.replace(member)
            edit.replace(last, *_with_views(edit, match, factor))  # type: ignore[arg-type]
            edit.spare([step for step in graph.steps if step.kind in SPARE])
            _place_for_reader(edit, match.outputs[0])


def _is_plain(graph: Lowered, step: Step, n_inputs: int) -> bool:
    """Whether the library runs a step on f32 tensors of four or five axes, or scalars."""
    if step.library_part is None or len(step.inputs) != n_inputs or len(step.outputs) != 1:
        return False
    values = [graph.values[number] for number in (*step.inputs, *step.outputs)]
    return all(value.dtype is DataType.f32 for value in values) and len(values[-1].shape) in RANKS


def _attention(graph: Lowered, softmax: Step) -> Step | None:
    """The step for the attention around a SoftMax; None if there is none."""
    sinks = _with_sinks(graph, softmax)
    scores = _Scores(graph, softmax.inputs[0] if sinks is None else sinks.scores)
    shares, last = softmax.outputs[0], graph.only_consumer(softmax.outputs[0])
    rank = len(graph.values[shares].shape)
    if int(softmax.attrs.get("axis", 1)) % rank != rank - 1:  # type: ignore[arg-type]
        return None
    members, is_plain = [softmax], True
    if last is not None and last.kind == "ReplaceNaN" and _number_of(graph, last.inputs[1]) == 0:
        members, shares, last, is_plain = [softmax, last], last.outputs[0], graph.only_consumer(last.outputs[0]), False
    rounded = _rounded(graph, shares, last)
    if rounded:
        members, shares = [*members, *rounded], rounded[-1].outputs[0]
        last = graph.only_consumer(shares)
    if sinks is not None:
        if last is None or not _is_without_last(graph, last, shares):
            return None
        members, shares, last = [*members, last], last.outputs[0], graph.only_consumer(last.outputs[0])
    if scores.joint and last is not None and _is_reshape(graph, last):
        members, shares, last = [*members, last], last.outputs[0], graph.only_consumer(last.outputs[0])
    if last is None or last.kind != "MatMul" or not _is_plain(graph, last, 2) or _is_turned(last):
        return None
    product = _only_maker(graph, scores.number)
    if (
        product is None
        or product.kind != "MatMul"
        or not _is_plain(graph, product, 2)
        or product.attrs.get("transpose_a")
    ):
        return None
    (query, key), value, turned = product.inputs, last.inputs[1], bool(product.attrs.get("transpose_b"))
    (result,) = last.outputs
    query, factor = _unscaled(graph, query)
    key, key_factor = _unscaled(graph, key)
    key, value = _exact(graph, key), _exact(graph, value)
    maker = graph.maker(key)
    if last.inputs[0] != shares or (not turned and not _is_view(maker)):
        return None
    if maker is not None and not turned:
        key_factor *= _unscaled(graph, maker.inputs[0])[1]
    attrs = scores.numbers(factor * key_factor)
    if attrs is None:
        return None
    attrs["plain"] = is_plain
    if scores.factor is not None:
        attrs["factor"] = scores.factor
    members = [product, *reversed(scores.members), *([] if sinks is None else sinks.members), *members, last]
    joint = scores.joint or graph.values[product.outputs[0]].shape
    if scores.joint:
        # The rows of heads that share keys and values were one matrix.
        before, behind = graph.maker(query), graph.only_consumer(result)
        if before is not None and _is_reshape(graph, before) and graph.values[before.inputs[0]].shape[:3] == joint[:3]:
            query = before.inputs[0]
        if behind is not None and _is_reshape(graph, behind) and graph.values[behind.outputs[0]].shape[:3] == joint[:3]:
            (result,), members = behind.outputs, [*members, behind]
    own = graph.values[query].shape
    if not _fit(graph, (*joint[:-1], own[-1]) if scores.joint else own, key, value, joint, scores.mask, turned):
        return None
    ends = [query, key, value, *scores.mask]
    if sinks is not None:
        if len(joint) != RANKS[0] or not _fits_scores(graph, sinks.sink, joint):
            return None
        attrs["sink"] = True
        ends.append(sinks.sink)
    step = members[-1].instead("attention", tuple(ends), (result,), attrs=attrs)
    return step._replace(members=tuple(members))


class _Sinks(NamedTuple):
    """A further column of scores, of a key without a value.

    ``members`` are the steps that join it with the scores of the keys, up to the SoftMax.
    """

    scores: int
    sink: int
    members: list[Step]


def _with_sinks(graph: Lowered, softmax: Step) -> _Sinks | None:
    """The scores that a SoftMax reads if the last column is joined to them, maybe less the largest of each row."""
    number, members = softmax.inputs[0], list[Step]()
    maker = _only_maker(graph, number)
    if maker is not None and maker.kind == "Subtract" and _is_plain(graph, maker, 2):
        whole, most = maker.inputs
        largest = _only_maker(graph, most)
        rank = len(graph.values[whole].shape)
        if largest is None or largest.kind != "ReduceMax" or largest.inputs != (whole,) or whole in graph.returned:
            return None
        axes = [int(axis) % rank for axis in largest.attrs["axes"]]  # type: ignore[union-attr]
        if (
            axes != [rank - 1]
            or not largest.attrs.get("keep_dims")
            or len(graph.consumers(whole)) != len((largest, maker))
        ):
            return None
        number, members = whole, [largest, maker]
        maker = graph.maker(whole)
    elif graph.only_consumer(number) is None:
        return None
    if maker is None or maker.kind != "Concat" or len(maker.inputs) != 2:
        return None
    scores, sink = maker.inputs
    shape, column = graph.values[scores].shape, graph.values[sink].shape
    axis = int(maker.attrs["axis"]) % len(shape)  # type: ignore[arg-type]
    if (
        axis != len(shape) - 1
        or len(shape) != RANKS[0]
        or column[-1] != 1
        or graph.values[sink].dtype is not DataType.f32
    ):
        return None
    if graph.only_consumer(scores) is None or graph.values[scores].dtype is not DataType.f32:
        return None
    wide = graph.maker(sink)
    if wide is not None and wide.kind == "Expand" and len(graph.values[wide.inputs[0]].shape) == len(column):
        sink = wide.inputs[0]
    return _Sinks(scores, sink, [maker, *members])


def _is_without_last(graph: Lowered, step: Step, whole: int) -> bool:
    """Whether a step takes all of a value but the last number of each row."""
    (*rows, size), (result,) = graph.values[whole].shape, step.outputs
    if step.kind != "Slice" or step.inputs[0] != whole or graph.values[result].shape != (*rows, size - 1):
        return False
    given = [graph.values[number].constant for number in step.inputs[1:]]
    constants = [None if array is None or array.size != 1 else int(array.reshape(-1)[0]) for array in given]
    return constants[:1] == [0] and constants[2:] in ([len(rows)], [-1], [len(rows), 1], [-1, 1])


class _Scores:
    """What a graph computes of the product of queries and keys before a SoftMax.

    Attributes:
        number: the product.
        members: the steps behind it, the last one first.
        mask: what is added to the scores, or booleans that say where others come in their place.
        joint: the shape (batch, heads, tokens, keys) of the scores, if the product has the rows of several heads as one
            matrix; empty otherwise.
        factor: a number that a run computes, by which the product is multiplied; None if there is none.
    """

    def __init__(self, graph: Lowered, number: int) -> None:
        self._graph, self.number = graph, number
        self.members, self.mask, self.joint = list[Step](), tuple[int, ...](), tuple[int, ...]()
        self.factor: int | None = None
        self._selects: dict[str, AttrValue] = {}
        self._factor, self._limit = 1.0, 0.0
        self._begin()
        while self._go_on():
            pass

    def numbers(self, factor: float) -> dict[str, AttrValue] | None:
        """The numbers of the kernel; None if it has no such form. ``factor``: of the operands of the product."""
        scale = factor * self._factor * (self._limit or 1.0)
        if not 0 < abs(scale) < float("inf") or self._limit < 0:
            return None
        limit = {"softcap": self._limit} if self._limit else {}
        return {"scale": scale, "masked": bool(self.mask), **limit, **self._selects}

    def _take(self, step: Step, number: int, *mask: int) -> bool:
        self.members.append(step)
        self.number, self.mask = number, mask or self.mask
        return True

    def _begin(self) -> None:
        """Look for a mask."""
        graph, maker = self._graph, _only_maker(self._graph, self.number)
        if maker is None or len(maker.outputs) != 1:
            return
        shape = graph.values[maker.outputs[0]].shape
        if maker.kind == "Add" and _is_plain(graph, maker, 2):
            number, operand = maker.inputs
            if _only_maker(graph, number) is None or graph.values[number].shape != shape:
                number, operand = operand, number
            if len(graph.values[operand].shape) <= len(shape) and graph.values[number].shape == shape:
                self._take(maker, number, operand)
        elif maker.kind in ("Where", "Select") and len(maker.inputs) == 3:
            condition, *ends = maker.inputs
            for place, fill in enumerate(reversed(ends)):
                hidden, number = _number_of(graph, fill), ends[place]
                if hidden is not None and graph.values[number].shape == shape and number != fill:
                    self._selects = {"hidden": hidden, "selects": SELECTS[place]}
                    self._take(maker, number, condition)
                    return

    def _go_on(self) -> bool:
        """Take one more step before the scores; returns whether there is one."""
        graph, maker = self._graph, _only_maker(self._graph, self.number)
        if maker is None:
            return False
        number, factor = _unscaled(graph, self.number)
        if number != self.number:
            self._factor *= factor
            return self._take(maker, number)
        if maker.kind == "Multiply" and _is_plain(graph, maker, 2) and self.factor is None:
            for number, operand in (maker.inputs, maker.inputs[::-1]):
                is_factor = len(graph.values[operand].shape) == 0 and graph.values[operand].constant is None
                if is_factor and graph.values[number].shape == graph.values[maker.outputs[0]].shape:
                    self.factor = operand
                    return self._take(maker, number)
        if (
            maker.kind == "Tanh"
            and _is_plain(graph, maker, 1)
            and not self._limit
            and not self.joint
            and self.factor is None
        ):
            self._limit, self._factor = self._factor, 1.0
            return self._take(maker, maker.inputs[0])
        if _is_reshape(graph, maker) and not self.joint:
            self.joint = tuple(graph.values[maker.outputs[0]].shape)
            return self._take(maker, maker.inputs[0])
        return False


def _unscaled(graph: Lowered, value: int) -> tuple[int, float]:
    """A value before it is multiplied by a number for one reader, and that number; itself and 1 if it is not."""
    maker = _only_maker(graph, value)
    if maker is None or maker.kind not in ("Multiply", "Divide") or not _is_plain(graph, maker, 2):
        return value, 1.0
    number, operand = maker.inputs
    if maker.kind == "Multiply" and graph.values[operand].constant is None:
        number, operand = operand, number
    factor = _number_of(graph, operand)
    if not factor or abs(factor) == float("inf") or graph.values[number].shape != graph.values[value].shape:
        return value, 1.0
    return number, factor if maker.kind == "Multiply" else 1 / factor


def _exact(graph: Lowered, value: int) -> int:
    """The f16 or bf16 numbers that an f32 value has, which the kernel reads as they are; otherwise the value."""
    maker = graph.maker(value)
    is_cast = maker is not None and maker.kind == "TypeCast" and graph.values[value].dtype is DataType.f32
    return maker.inputs[0] if is_cast and graph.values[maker.inputs[0]].dtype in NARROW else value  # type: ignore[union-attr]


def _rounded(graph: Lowered, shares: int, first: Step | None) -> tuple[Step, ...]:
    """The steps that round shares to 16 bits and back, where the graph permits f32 between ops; () for none."""
    if graph.graph._roundings is None or first is None or first.kind != "TypeCast":
        return ()
    (narrow,) = first.outputs
    second = graph.only_consumer(narrow)
    is_pair = second is not None and second.kind == "TypeCast" and graph.values[second.outputs[0]].dtype is DataType.f32
    if not is_pair or graph.values[narrow].dtype not in NARROW or graph.values[shares].dtype is not DataType.f32:
        return ()
    return first, second  # type: ignore[return-value]


def _number_of(graph: Lowered, value: int) -> float | None:
    """The number, finite or minus infinity, that a constant of one element is; None for others."""
    constant = graph.values[value].constant
    if constant is None or prod(graph.values[value].shape) != 1 or constant.dtype != np.float32:
        return None
    number = float(constant.reshape(-1)[0])
    return number if abs(number) < float("inf") or number == -float("inf") else None


def _is_reshape(graph: Lowered, step: Step) -> bool:
    """Whether a step gives f32 numbers of four axes four others."""
    ends = [graph.values[number].shape for number in (*step.inputs, *step.outputs)]
    return step.kind == "StaticReshape" and _is_plain(graph, step, 1) and all(len(shape) == RANKS[0] for shape in ends)


def _shared(graph: Lowered, heads: int) -> tuple[int, int]:
    """Keys or values before each head of them is repeated for several of the query, and for how many."""
    joined = graph.maker(heads)
    wide = graph.maker(joined.inputs[0]) if joined is not None and joined.kind == "StaticReshape" else None
    apart = graph.maker(wide.inputs[0]) if wide is not None and wide.kind in ("Expand", "Tile") else None
    if wide is None or apart is None or apart.kind not in ("StaticReshape", "Unsqueeze"):
        return heads, 1
    own, before, behind, shape = (
        graph.values[number].shape for number in (apart.inputs[0], wide.inputs[0], wide.outputs[0], heads)
    )
    if len(own) != 4 or len(behind) != 5 or before != (*own[:2], 1, *own[2:]):
        return heads, 1
    count = behind[2]
    is_whole = behind == (*own[:2], count, *own[2:]) and shape == (own[0], own[1] * count, *own[2:])
    return (apart.inputs[0], count) if is_whole else (heads, 1)


def _has_few_queries(graph: Lowered, step: Step) -> bool:
    """Whether an attention takes as long as reading the keys, which the library copies first."""
    query, _, value = (graph.values[number].shape for number in step.inputs[:3])
    return query[-2] <= FEW_QUERIES and value[-2] >= LEAST_KEYS


def _is_turned(step: Step) -> bool:
    return bool(step.attrs.get("transpose_a") or step.attrs.get("transpose_b"))


def _only_maker(graph: Lowered, value: int) -> Step | None:
    """The step that makes a value which one other step alone reads."""
    return graph.maker(value) if graph.only_consumer(value) is not None else None


def _is_view(step: Step | None) -> bool:
    """Whether a step only changes the order of axes, so that another order costs nothing either."""
    return step is not None and step.kind == "StaticTranspose" and step.library_part is not None


def _with_views(edit: Edit, step: Step, factor: int | None) -> list[Step]:
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
        source = edit.values[_unscaled(edit.graph, maker.inputs[0])[0]]
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
        found = edit.values.like(result, "heads", _joined_shape(edit.values[result].shape))
        behind = [_reshaped(edit, product, found, result)]
        return [*views, step._replace(inputs=(query, key, value, *mask), outputs=(found,)), *behind]
    heads, behind = edit.values[softmax.inputs[0]].shape[:3], list[Step]()
    if edit.values[query].shape[:3] != heads:
        query, source_id = edit.values.like(query, "query", (*heads, edit.values[query].shape[3])), query
        views.append(_reshaped(edit, product, source_id, query))
    if edit.values[result].shape[:3] != heads:
        found = edit.values.like(result, "heads", (*heads, edit.values[result].shape[3]))
        behind, result = [_reshaped(edit, product, found, result)], found
    return [*views, step._replace(inputs=(query, key, value, *mask), outputs=(result,)), *behind]


def _joined_shape(shape: Dims) -> Dims:
    """A shape whose heads and heads of a group, of five axes, are one axis."""
    batch, heads, group, *rest = (*(1,) * (RANKS[1] - len(shape)), *shape)
    return batch, heads * group, *rest


def _before_joining(graph: Lowered, value: int) -> int | None:
    """The value that a step gives a further axis, if its heads are one axis; None if there is none."""
    maker = graph.maker(value)
    if maker is None or maker.kind not in ("Unsqueeze", "StaticReshape"):
        return None
    source, given = graph.values[maker.inputs[0]], graph.values[value]
    return source.id if source.shape == _joined_shape(given.shape) and source.dtype is given.dtype else None


def _joined(edit: Edit, step: Step, value: int, views: list[Step]) -> int:
    """A value whose heads are one axis: before it got another, or a view, which is added to ``views``."""
    own, before = edit.values[value].shape, _before_joining(edit.graph, value)
    shape = _joined_shape(own)
    if before is not None or len(own) < RANKS[0] or own == shape:
        return value if before is None else before
    found = edit.values.like(value, "heads", shape)
    views.append(_reshaped(edit, step, value, found))
    return found


def _reshaped(edit: Edit, step: Step, source: int, target: int) -> Step:
    attrs: dict[str, AttrValue] = {"shape": edit.values[target].shape, "special_zero": False}
    return edit.library_step(step, "StaticReshape", (source,), (target,), attrs)


def _place_for_reader(edit: Edit, result: int) -> None:
    """Let the kernel write the heads of each token side by side, if only a view of that order reads the result."""
    graph, value, reader = edit.graph, edit.values[result], edit.graph.only_consumer(result)
    if reader is None or not _is_view(reader) or result in graph.returned or value.storage != result:
        return
    order = [int(axis) % 4 for axis in reader.attrs["order"]]  # type: ignore[union-attr]
    target = edit.values[reader.outputs[0]]
    if target.dense and target.id not in graph.returned:
        edit.change(result, strides=tuple([target.strides[order.index(axis)] for axis in range(4)]))


def _fit(graph: Lowered, q: Dims, key: int, value: int, s: Dims, mask: tuple[int, ...], turned: bool) -> bool:
    """Whether the kernel takes tensors of these shapes, of which none is empty.

    ``q``: the shape of the query; ``s``: that of the scores; ``turned``: whether keys are rows.
    """
    k, v = (graph.values[number].shape for number in (key, value))
    if len(k) == len(s) and not turned:
        k = (*k[:-2], k[-1], k[-2])
    if any(0 in shape or len(shape) != len(s) for shape in (q, k, v)) or k[:-1] != v[:-1] or len(s) not in RANKS:
        return False
    if q[0] != k[0] or q[1] % k[1] or (len(s) > RANKS[0] and (q[1] != k[1] or k[2] != 1)):
        return False
    return s == (*q[:-1], k[-2]) and all(_fits_scores(graph, number, s) for number in mask)


def _fits_scores(graph: Lowered, mask: int, s: Dims) -> bool:
    """Whether a mask is broadcast to scores of this shape, also where heads are one axis."""
    value = graph.values[mask]
    if not all(dim in (1, full) for dim, full in zip(reversed(value.shape), reversed(s), strict=False)):
        return False
    if len(s) == RANKS[0]:
        return True
    _, *heads, _, _ = (*(1,) * (RANKS[1] - len(value.shape)), *value.shape)
    # The library has no view of booleans.
    is_viewed = value.dtype is DataType.f32 or len(value.shape) < RANKS[0] or value.shape == _joined_shape(value.shape)
    return heads in ([1, 1], [*s[1:3]]) and (is_viewed or _before_joining(graph, mask) is not None)
