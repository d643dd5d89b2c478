"""Runs the model of an OnnxNode on arrays, in the first of four ways that computes it.

1. The function of the table that computes the node in numpy.
2. The package onnx, if it may run the node.
3. The ops that the table makes of the node for these shapes, one after another; they are kept.
4. The importer lowers the nodes, and each value is known. What is wrong gets its error here.
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
from .node import COMPUTED, KEPT, LOWERINGS, Node
from .package import evaluator_of
from .protos import ModelProto
from .proven import is_proven
from .storage import Storage
from .wire import Pieces

Run = Callable[[Sequence[Array]], Sequence[Array]]
MOST_KEPT, MOST_BYTES = 8, 1 << 20  # results of a node that are kept, and the size of each
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
    if model.functions:
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

    compute = COMPUTED[function]  # whoever runs a host op ignores what numpy warns of

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        returned = compute(empty.with_inputs([None if port is None else arrays[port] for port in ports]))
        results = returned if isinstance(returned, (tuple, list)) else (returned,)
        return [results[end] for end in ends]

    return _keeping(run) if function in KEPT else run


def _keeping(run: Run) -> Run:
    """What runs a node, or copies the results for the same few numbers."""
    kept: dict[object, Sequence[Array]] = {}

    def run_or_copy(arrays: Sequence[Array]) -> Sequence[Array]:
        key = tuple([(array.dtype, array.shape, array.tobytes()) for array in arrays])
        results = kept.get(key)
        if results is None:
            results = run(arrays)
            if len(kept) >= MOST_KEPT:
                kept.clear()
            if sum([array.nbytes for array in results]) <= MOST_BYTES:
                kept[key] = results
        return [array.copy() for array in results]

    return run_or_copy


@lru_cache(maxsize=256)
def _in_package(text: str) -> Run | None:
    """What runs the only node of a model in the package onnx; None for other nodes than those of ``PROVEN``."""
    model = _model(text)
    if len(model.graph.node) != 1 or model.graph.initializer or model.functions:
        return None
    domain = domain_of(model.graph.node[0].domain)
    versions = {domain_of(one.domain): one.version for one in model.opset_import}
    if not is_proven(model.graph.node[0], domain, versions.get(domain, 1)):
        return None
    own = ModelProto()
    own.CopyFrom(model)
    ports, evaluator = [one.name for one in model.graph.input], evaluator_of(own)

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            results: Sequence[Array] = evaluator.run(None, dict(zip(ports, arrays, strict=True)))
        return results

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
        run = (
            _in_numpy(text)
            or _in_package(text)
            or _by_ops(text, tuple([(array.dtype, array.shape) for array in arrays]))
        )
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
