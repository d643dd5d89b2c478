"""Creates one method for each op of the base vocabulary from its schema: ``g.convolution(src, weights, strides=...)``.

So does each host op that the base vocabulary lacks: ``g.gather(src, indices, axis=0)``. Its inputs may also be numbers
and lists of numbers, which become constants, as most of them are sizes and places: ``g.slice(src, [0], [2])``.

Inputs are positional or named by port, attributes are named. A method also writes the attributes that the
specification requires and a caller seldom needs (``Attribute.implied``), takes one number for a list with one element
for each spatial axis and for a list of axes, and casts an f32 bias to the 16-bit type of the other tensors. Signatures
and docstrings are computed from the schemas, and ``op_methods.pyi`` is generated from the same schemas for editors and
type checkers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from .._util.init_once import refuse_unmade
from ..ir.op import LogicalTensor
from ..opset.editions.registry import DEFAULT, HOST, edition
from ..opset.schema import Schema
from ..opset.signature import Attribute, Fill
from ..opset.values import nearest
from .op_names import methods

# What other frameworks call an op, in any spelling, and the method, or the call, that computes it here.
ELSEWHERE = {
    **dict.fromkeys(("addmm", "bmm", "dense", "dot", "gemm", "linear", "mm"), "matmul"),
    **dict.fromkeys(("silu", "swish"), "x * g.sigmoid(x)"),
    **dict.fromkeys(("bceloss", "crossentropy", "nllloss"), "og.training.cross_entropy(g, logits, labels)"),
    **dict.fromkeys(("hardswish", "hardsilu"), "hard_swish"),
    **dict.fromkeys(("permute", "swapaxes", "transpose"), "static_transpose"),
    **dict.fromkeys(("reshape", "view"), "static_reshape"),
    **dict.fromkeys(("adaptiveavgpool", "average", "globalaveragepool", "mean"), "reduce_mean"),
    **dict.fromkeys(("resize", "upsample"), "interpolate"),
    **dict.fromkeys(("mse", "mseloss"), "og.training.mean_squared_error(g, prediction, target)"),
    **dict.fromkeys(("chunk", "narrow", "split"), "slice"),
    **dict.fromkeys(("astype", "to"), "cast"),
    **dict.fromkeys(("amax", "max"), "reduce_max"),
    **dict.fromkeys(("amin", "min"), "reduce_min"),
    **dict.fromkeys(("indexselect", "take"), "gather"),
    **dict.fromkeys(("argsort", "sort"), "top_k"),
    **dict.fromkeys(("fill", "full", "ones", "zeros"), "g.constant(np.full(shape, number, np.float32))"),
    **dict.fromkeys(("depthtospace", "pixelshuffle"), "g.static_reshape and g.static_transpose"),
    "all": "g.reduce_min(g.cast(x, dtype=og.f32), axes=...)",
    "any": "g.reduce_max(g.cast(x, dtype=og.f32), axes=...)",
    "deconvolution": "conv_transpose",
    "eq": "equal",
    "expanddims": "unsqueeze",
    "expm1": "g.exp(x) - 1",
    "flip": "slice",
    "floordivide": "g.floor(x / y)",
    "ge": "greater_equal",
    "gt": "greater",
    "hardtanh": "clamp",
    "le": "less_equal",
    "log1p": "g.log(x + 1)",
    "log2": "g.log(x) / np.log(2)",
    "logicaland": "and_",
    "logicalnot": "not_",
    "logicalor": "or_",
    "logicalxor": "xor",
    "logsumexp": "g.log(g.reduce_sum(g.exp(x), axes=...))",
    "lt": "less",
    "maskedselect": "compress",
    "nantonum": "replace_nan",
    "ne": "g.not_(g.equal(x, y))",
    "notequal": "g.not_(g.equal(x, y))",
    "prod": "reduce_prod",
    "scatteradd": "scatter_elements",
    "softmin": "g.softmax(-x)",
    "std": "g.sqrt(g.reduce_mean(g.square(x - mean), axes=...))",
    "var": "g.reduce_mean(g.square(x - mean), axes=...)",
    "maskedfill": "select",
    "repeat": "tile",
    "stack": "concat",
    "instancenorm": "group_norm",
    "norm": "layer_norm",
    "cat": "concat",
    "t": "static_transpose",
    "einsum": "g.matmul, g.static_transpose and g.static_reshape",
    "flatten": "g.static_reshape(x, shape=(0, -1), special_zero=True)",
    "multiheadattention": "attention",
    "relu6": "g.clamp(x, min=0, max=6)",
    "rsqrt": "g.reciprocal(g.sqrt(x))",
    "scaleddotproductattention": "attention",
    "sub": "subtract",
}


class OpMethods:
    """The op methods of :class:`onegraph.Graph`."""

    def __getattr__(self, name: str) -> Any:
        """Called for a missing attribute: raise AttributeError that suggests the method that was probably meant."""
        refuse_unmade(self, name)
        public = [attribute for attribute in dir(type(self)) if attribute[0] != "_"]
        specified = [attribute for attribute in public if attribute not in _host]
        same = [attribute for attribute in public if attribute.replace("_", "") == name.lower()]
        meant = [] if name.startswith("_") else same or _meant(name, specified) or _meant(name, public)
        others = [one if "g." in one else repr(one) for one in meant]
        fix = f"; did you mean {' or '.join(others)}?" if meant else ""
        # With obj=None Python does not add its own suggestion.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{fix}", name=name, obj=None)


def _meant(name: str, names: list[str]) -> list[str]:
    """The methods nearest to ``name``: an op's name (``MatMul``), a typing error (``relue``) or a part (``conv2d``).

    There are several only if ``name`` is the first words of each, as in ``batch_norm``.
    """
    schema = edition(DEFAULT).schema(name) or edition(HOST).schema(name)
    if schema is not None and schema.kind in _names:
        return [_names[schema.kind]]
    letters = re.sub(r"[123]d$", "", name.lower().replace("_", ""))
    if (pattern := ELSEWHERE.get(letters)) is not None:
        return [pattern]
    alike = {other: other.replace("_", "") for other in names}
    starts = [other for other in names if alike[other].startswith(letters)] if len(letters) > 2 else []
    ends = [other for other in names if alike[other].endswith(letters) and f"_{letters[:3]}" in other]
    forward = [other for other in starts if "backward" not in other] or starts
    if forward and all(alike[other] != letters and other[len(letters) :].count("_") for other in forward):
        return forward
    close = min(forward, key=len, default=None) or (ends[-1] if ends else nearest(name, names))
    return [close] if close else []


class _Unmade:
    """A method that is made when it is first asked for, as all docstrings together take 10 ms."""

    def __init__(self, name: str, schema: Schema, vocabulary: str) -> None:
        self._name = name
        self._schema = schema
        self._vocabulary = vocabulary

    def __get__(self, graph: object, kind: type | None = None) -> Any:
        method = _method(self._name, self._schema, self._vocabulary)
        setattr(OpMethods, self._name, method)
        return method.__get__(graph, kind)


def _method(name: str, schema: Schema, vocabulary: str) -> Any:
    from .op_signatures import OPTIONS, docstring, python_signature

    ports = {port.name: index for index, port in enumerate(schema.inputs) if not port.variadic}
    implied = [attribute for attribute in schema.attributes if attribute.implied is not None]
    lists = {attribute.name for attribute in schema.attributes if attribute.spatial}
    axes = "axes" if schema.has_attribute("axes") else None

    def method(self: Any, *inputs: object, **keywords: Any) -> Any:
        if not (keywords or implied or "bias" in ports or vocabulary == HOST):
            return self.op(schema.kind, inputs, edition=vocabulary)
        options = {option: keywords.pop(option) for option in OPTIONS if option in keywords}
        tensors = list(inputs)
        attrs: dict[str, object] = {}
        for key, value in keywords.items():
            if key in ports and (type(value) is LogicalTensor or not schema.has_attribute(key)):
                index = ports[key]
                tensors += [None] * (index + 1 - len(tensors))
                if tensors[index] is not None:
                    raise TypeError(f"{name}() got two tensors for input {key!r}")
                tensors[index] = value
            elif value is not None or not schema.has_attribute(key):
                attrs[key] = value
        if axes is not None and type(attrs.get(axes)) is int:
            attrs[axes] = [attrs[axes]]
        if lists or implied:
            attrs = _completed(implied, attrs, lists, tensors)
        if "bias" in ports and ports["bias"] < len(tensors):
            return self._op_with_bias(schema, tensors, attrs, ports["bias"], options)
        return self.op(schema.kind, tensors, attrs, edition=vocabulary, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = docstring(schema, vocabulary)
    method.__signature__ = python_signature(schema)  # type: ignore[attr-defined]
    return method


def _completed(
    implied: Sequence[Attribute], attrs: Mapping[str, object], lists: Set[str], tensors: Sequence[object]
) -> dict[str, object]:
    """The attributes with those that are implied, and with a list in place of one number for every spatial axis.

    The rank of the first tensor gives the number of spatial axes; without it no list is written.
    """
    first = tensors[0] if tensors else None
    shape = first.shape if type(first) is LogicalTensor else None
    completed: dict[str, object] = {}
    missing = {
        output.name: output.implied
        for output in implied
        if output.name not in attrs and (output.implied_if is None or output.implied_if(attrs))
    }
    for name, value in {**attrs, **missing}.items():
        number = value.value if isinstance(value, Fill) else value
        if name in lists and type(number) is int and shape is not None:
            completed[name] = [number] * max(len(shape) - 2, 1)
        elif not isinstance(value, Fill):
            completed[name] = value
    return completed


_names: dict[str, str] = {}
_host: set[str] = set()
for _name, _schema, _vocabulary in methods():
    _names[_schema.kind] = _name
    if _vocabulary == HOST:
        _host.add(_name)
    setattr(OpMethods, _name, _Unmade(_name, _schema, _vocabulary))
