"""Has the table of the nodes that the package onnx may run: each is compared with ONNX Runtime by a test.

``tests/from_onnx/test_onnx_proven.py`` compares random attributes, data types and sizes of every entry with ONNX
Runtime, or with a definition of its own. A kind without an entry, of another op set or with another attribute is
refused when a model is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .protos import NodeProto, contents

ML = "ai.onnx.ml"


class Proof(NamedTuple):
    """What the package is known to run right.

    Attributes:
        since: the op sets, named by the one that brought the meaning.
        only: the values of attributes, if some are wrong; an absent attribute has its default.
    """

    since: tuple[int, ...]
    only: Mapping[str, tuple[Any, ...]] = {}


# By domain and kind.
PROVEN: dict[tuple[str, str], Proof] = {
    ("", "ImageDecoder"): Proof((20,)),
}


def meaning_of(domain: str, kind: str, opset: int) -> int | None:
    """The op set that brought the meaning which a kind has in another op set; None if the package has no such op."""
    import onnx

    try:
        since: int = onnx.defs.get_schema(kind, opset, domain).since_version
    except Exception:  # the package has no such op
        return None
    return since


def is_proven(proto: NodeProto, domain: str, opset: int) -> bool:
    """Whether the package onnx may run a node."""
    proof = PROVEN.get((domain, proto.op_type))
    if proof is None or meaning_of(domain, proto.op_type, opset) not in proof.since:
        return False
    attributes = {one.name: contents(one) for one in proto.attribute if one.name in proof.only}
    return all(_text(value) in proof.only[name] for name, value in attributes.items())


def _text(value: Any) -> Any:
    return value.decode() if type(value) is bytes else value
