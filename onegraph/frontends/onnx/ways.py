"""Says which nodes of a model nothing runs, and which ones the package onnx runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import FormatError
from .functions import domain_of
from .meanings.changes import NEWER_NAMES
from .node import LOWERINGS
from .order import graphs_of, place_of
from .protos import NodeProto
from .proven import is_proven, meaning_of
from .registered import OWN

HELP = (
    "nodes that onegraph lowers, that a function defines, or that onegraph.onnx.register gives a lowering; replace the "
    "node, or leave it to another runtime"
)


class UnloweredError(FormatError):
    """Nothing runs a node."""


class Found(NamedTuple):
    """A node of a model, with the domain and op set of its op."""

    where: str
    domain: str
    kind: str
    opset: int
    proto: NodeProto

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} of {self.domain or 'ai.onnx'}, op set {self.opset}"


class Fallbacks:
    """The nodes of a model that the package onnx runs.

    Args:
        strict: whether they are refused.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self._problems: list[Found] = []

    def mark(self) -> int:
        """The number of nodes until now."""
        return len(self._problems)

    def forget(self, mark: int) -> None:
        """Forget the nodes since a mark, because another way was taken."""
        del self._problems[mark:]

    def note(self, problems: Sequence[Found]) -> None:
        """Note nodes.

        Raises:
            FormatError: they are refused.
        """
        if problems and self.strict:
            further = "".join(f"; {one}" for one in problems[1:])
            text = f"{_named(problems[0])} runs in numpy by the package onnx, which strict=True refuses{further}"
            raise UnloweredError(problems[0].where, text, f"strict=False, or {HELP}")
        self._problems += problems

    def tell(self) -> None:
        """Warn once, if there are such nodes."""
        if self._problems:
            names = ", ".join(dict.fromkeys(f"{one.kind} ({one.where})" for one in self._problems))
            text = f"nodes that the package onnx runs in numpy, slowly: {names}; strict=True refuses them"
            warnings.warn(text, stacklevel=2)


def examine(importer: Any, proto: NodeProto, where: str, reason: str) -> None:
    """Note the nodes that the package onnx runs, with those in graphs of a node.

    Raises:
        FormatError: nothing runs one of them.
    """
    every = [*_nodes(importer, [proto], importer.opsets, where, whole=where)]
    refuse(importer, [one for one in every if not _is_runnable(importer, one)], reason)
    importer.fallbacks.note([one for one in every if is_proven(one.proto, one.domain, one.opset)])


def refuse(importer: Any, lacking: Sequence[Found], reason: str) -> None:
    """Raise FormatError with all nodes of the model that nothing runs, if there are any."""
    if not lacking:
        return
    first, version = lacking[0], importer.model.opset_import
    opsets = {domain_of(one.domain): one.version for one in version}
    further = [
        node for node in _nodes(importer, importer.model.graph.node, opsets, "") if not _is_runnable(importer, node)
    ]
    named = dict.fromkeys(str(one) for one in (*lacking[1:], *further) if str(one) != str(first))
    text = f"{_named(first)} runs nowhere: {reason}; the package onnx is not known to run it right"
    more = f"; nor do {'; '.join(named)}" if named else ""
    raise UnloweredError(first.where, text + more, HELP)


def _named(problem: Found) -> str:
    return f"{problem.kind} of {problem.domain or 'ai.onnx'}, op set {problem.opset},"


def _is_runnable(importer: Any, problem: Found) -> bool:
    key = f"{problem.domain}::{problem.kind}" if problem.domain else NEWER_NAMES.get(problem.kind, problem.kind)
    name = problem.domain, problem.kind
    if key in LOWERINGS or name in importer.functions or name in OWN:
        return True
    return is_proven(problem.proto, problem.domain, problem.opset) or _has_function(problem)


def _has_function(problem: Found) -> bool:
    """Whether ONNX defines the op by a function."""
    import onnx

    if meaning_of(problem.domain, problem.kind, problem.opset) is None:
        return False
    schema = onnx.defs.get_schema(problem.kind, problem.opset, problem.domain)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _nodes(
    importer: Any, nodes: Iterable[NodeProto], opsets: Mapping[str, int], where: str, *, whole: str = ""
) -> Iterator[Found]:
    """The nodes, those in their graphs, and those of the functions of the model that they call."""
    for number, proto in enumerate(nodes):
        place, domain = whole or place_of(proto, number, where), domain_of(proto.domain)
        yield Found(place, domain, proto.op_type, opsets.get(domain, 1), proto)
        for graph in graphs_of(proto):
            yield from _nodes(importer, graph.node, opsets, f"{place}: graph {graph.name!r}: ")
        function = importer.functions.get((domain, proto.op_type))
        if function is not None:
            inner = {**opsets, **{domain_of(one.domain): one.version for one in function.opset_import}}
            yield from _nodes(importer, function.node, inner, f"{place}: ")
