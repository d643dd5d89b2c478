"""Runs the model of an OnnxNode on arrays, in the first of three ways that computes it.

1. The function of the table that computes the node in numpy.
2. The ops that the table makes of the node for these shapes, one after another; they are kept.
3. The importer lowers the nodes, and each value is known. What is wrong gets its error here.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ...builder.graph import DataGraph
from ...errors import FormatError, LibraryError, OneGraphError, OutOfMemoryError
from ...lowering.emitter import Array, Emitter
from ...opset.dtypes import OF_NUMPY
from ...opset.host.control import BODIES
from ...opset.kinds import HOST_OPAQUE
from .evaluator import Evaluator
from .functions import domain_of
from .importer import Importer, evaluated
from .meanings import is_modern
from .node import COMPUTED, LOWERINGS, Node
from .protos import ModelProto
from .storage import Storage
from .wire import Pieces

Run = Callable[[Sequence[Array]], Sequence[Array]]
Types = tuple[tuple[np.dtype[np.generic], tuple[int, ...]], ...]


@lru_cache(maxsize=256)
def _model(text: str) -> ModelProto:
    model = ModelProto()
    model.ParseFromString(b64decode(text))
    return model


@lru_cache(maxsize=256)
def _in_numpy(text: str) -> Run | None:
    """The function of the table that computes the only node of a model; None if there is none."""
    model = _model(text)
    if len(model.graph.node) != 1 or model.graph.initializer or model.functions:
        return None
    (proto,), names = model.graph.node, [one.name for one in model.graph.input]
    domain = domain_of(proto.domain)
    function = LOWERINGS.get(f"{domain}::{proto.op_type}" if domain else proto.op_type)
    importer = Importer(model, Storage(None, Pieces(), None), {}, {}, Evaluator(), now=True)
    version = importer.opsets.get(domain, 1)
    if function not in COMPUTED or (not domain and not is_modern(proto.op_type, version)):
        return None
    if any(name and name not in names for name in proto.input):
        return None
    ports = [names.index(name) if name else None for name in proto.input]
    ends = [[*proto.output].index(one.name) for one in model.graph.output]
    empty = Node(proto, [], importer.emit, version, proto.op_type)
    empty.importer = importer

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        returned = function(empty.with_inputs([None if port is None else arrays[port] for port in ports]))
        results = returned if isinstance(returned, (tuple, list)) else (returned,)
        return [results[end] for end in ends]

    return run


@lru_cache(maxsize=256)
def _by_ops(text: str, types: Types) -> Run | None:
    """What runs the ops that the table makes of a model for arrays of these types; None if contents decide them."""
    try:
        from ...runtime.op_by_op import OpByOp
    except LibraryError:
        return None
    model, made = _model(text), DataGraph()
    tensors = [made.input(f"x{port}", OF_NUMPY[dtype], shape) for port, (dtype, shape) in enumerate(types)]
    importer = Importer(model, Storage(None, Pieces(), None), {}, {}, Emitter(made))
    values = dict(zip([one.name for one in model.graph.input], tensors, strict=True))
    try:
        importer.run(model.graph.node, values, "")
        for number, end in enumerate(model.graph.output):
            made.output(f"y{number}", importer.emit.tensor(values[end.name]))
    except (OneGraphError, TypeError, KeyError):
        return None
    if any(op.kind in HOST_OPAQUE or op.kind in BODIES for op in made.ops):
        return None
    steps = OpByOp.of(made, lambda op: NotImplemented)
    return None if steps is None else steps.results


def run_node(text: str, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs of the model of an OnnxNode, which is serialized in base64.

    Raises:
        ValueError: the nodes cannot be computed; the text has the reason.
    """
    try:
        run = _in_numpy(text) or _by_ops(text, tuple([(array.dtype, array.shape) for array in arrays]))
        if run is not None:
            return tuple(run(arrays))
    except Exception:
        pass
    try:
        model = _model(text)
        return tuple(evaluated(model, dict(zip([one.name for one in model.graph.input], arrays, strict=True))))
    except (MemoryError, OutOfMemoryError):
        raise MemoryError from None
    except Exception as error:
        raise ValueError(
            str(error) if isinstance(error, FormatError) else f"{type(error).__name__}: {error}"
        ) from error
