"""Writes a node of an old op set in the terms of a newer one."""

from __future__ import annotations

from collections.abc import Sequence

from ..protos import NodeProto
from .changes import CHANGES
from .draft import Facts, NodeDraft


def is_modern(kind: str, opset: int) -> bool:
    """Whether a node of ONNX's own domain means in an op set what it means in ``MODERN``."""
    return all(change.since <= opset for change in CHANGES.get(kind, ()))


def modern(proto: NodeProto, opset: int, facts: Facts, where: str) -> Sequence[NodeProto] | None:
    """The nodes of op set ``MODERN`` that compute a node of ONNX's own domain; None if it means the same there.

    Args:
        proto: the node.
        opset: its op set.
        facts: what is known of its inputs.
        where: the place of the node, for errors.

    Raises:
        NotLowered: the new form depends on what is unknown.
        FormatError: the node has a form that newer op sets lack, such as the training of an old Dropout.
    """
    kind = proto.op_type
    if is_modern(kind, opset):
        return None
    draft = NodeDraft(proto, facts, where)
    last = opset
    while change := next((one for one in CHANGES.get(draft.kind, ()) if one.since > last), None):
        last = change.since
        for step in change.steps:
            step(draft)
    return draft.nodes()
