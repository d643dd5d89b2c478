"""Adapts ops to the version of oneDNN that is to read a file: features it lacks are dropped or refused."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from ..errors import UnsupportedError
from ..inference.infer import infer_op
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.editions.registry import base_of, edition
from ..opset.signature import Attribute, AttrValue, Fill, Version


class ForVersion:
    """Adapts ops to one version of oneDNN.

    Args:
        version: the version; None leaves all ops unchanged.
        wanted: ids of tensors that an op reads or the graph returns.
        given: ids of tensors that no op writes.
    """

    def __init__(self, version: Version | None, wanted: Set[int], constant_ids: Set[int]) -> None:
        self.version, self.wanted, self.given = version, wanted, constant_ids
        self._version = "" if version is None else f"{version[0]}.{version[1]}"

    def writes(self, op: Op) -> bool:
        """Whether to write the op to the file.

        Up to 3.2 benchdnn crashes on End, so an End is left out; output_ports have the same information.
        """
        return (
            self.version is None
            or self.version > (3, 2)
            or op.kind != "End"
            or not self.given.isdisjoint([tensor.id for tensor in op.inputs])
        )

    def hold(self, op: Op) -> None:
        """Raise UnsupportedError if the version lacks a feature that the op uses."""
        if self.version is None:
            return
        schema = schema_of(op)
        needs = [("kind", base_of(schema).since)]
        attrs = {name: value for name, value in op.attrs.items() if not self.says_nothing(op, name)}
        needs += [(name, schema.attribute(name).since) for name in attrs]
        for index, tensor in enumerate(op.inputs):
            needs += [(schema.input_port(index).name, max(schema.input_port(index).since, tensor.dtype.since))]
        outputs = self.outputs(op)
        for port, tensor in zip(schema.outputs, outputs, strict=False):
            needs.append((port.name, max(port.since, tensor.dtype.since)))
        for where, since in needs:
            if since > self.version:
                needed = f"{where} needs oneDNN {since[0]}.{since[1]}"
                raise UnsupportedError(f"{op.kind} {op.name!r}: {needed}; for_version is {self._version}")
        words = f"onednn-{self._version}"
        attrs |= {one.name: value for one, value in self.completing(op)}
        if words != op.edition:
            types = [tensor.type for tensor in outputs]
            own, there = (
                infer_op(op.kind, attrs, op.inputs, types, edition=edition(name), name=op.name).errors
                for name in (op.edition, words)
            )
            # An op that also breaks its own edition came from a file and is written back unchanged.
            known = {(error.rule, error.where) for error in own}
            added = [error.message for error in there if (error.rule, error.where) not in known]
            if added:
                fix = f"; onegraph convert --edition {words} says a graph of another edition in its words"
                raise UnsupportedError(
                    f"for_version {self._version}: " + "; ".join(added) + fix * (op.edition == "legacy-1")
                )

    def completing(self, op: Op) -> list[tuple[Attribute, AttrValue]]:
        """Attributes to add: defaults, because benchdnn has none or others, and zero points where they are required."""
        schema = None if self.version is None else edition(f"onednn-{self._version}").schema(op.kind)
        if schema is None:
            return []
        own, completed = schema_of(op), list[tuple[Attribute, AttrValue]]()
        for newer in schema.attributes:
            name = newer.name
            attribute = own.attribute(name) if own.has_attribute(name) else newer
            default = attribute.default
            if isinstance(default, Fill):
                strides: Any = op.attrs["strides"]
                default = (default.value,) * len(strides)
            # A given output_padding makes the shape check exact, so it is not added.
            if default is not None and name not in op.attrs and name != "output_padding":
                completed.append((attribute, default))
        if schema.has_attribute("zps") and schema.attribute("zps").required and "zps" not in op.attrs:
            scales: Any = op.attrs["scales"]
            completed.append((schema.attribute("zps"), (0,) * len(scales)))
        return completed

    def outputs(self, op: Op) -> tuple[LogicalTensor, ...]:
        """The outputs of the op, without unused outputs at the end that the version lacks."""
        ports, count = schema_of(op).outputs, len(op.outputs)
        while self.version is not None and 0 < count <= len(ports) and ports[count - 1].since > self.version:
            if op.outputs[count - 1].id in self.wanted:
                break
            count -= 1
        return op.outputs[:count]

    def says_nothing(self, op: Op, name: str) -> bool:
        """Whether attribute ``name`` is dropped; see :meth:`left_out`."""
        return name in op.attrs and self.left_out(schema_of(op).attribute(name), op.attrs[name])

    def left_out(self, attribute: Attribute, value: AttrValue) -> bool:
        """Whether an attribute is dropped because it is newer than the version and has its default value."""
        return self.version is not None and attribute.since > self.version and value == attribute.default
