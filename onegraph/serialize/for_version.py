"""What a version of oneDNN knows of an op, so that a file that it is to read says no more than that."""

from __future__ import annotations

from collections.abc import Set

from ..errors import UnsupportedError
from ..inference.infer import infer_op
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.registry import EDITIONS, base_of, edition
from ..opset.schema import Attribute, AttrValue, Fill, Version

INTEGERS = frozenset({DataType.s8, DataType.u8})


class ForVersion:
    """Ops as a version has them; as they are where ``version`` is None.

    Args:
        version: the version.
        wanted: ids of tensors that an op reads or the graph returns.
        given: ids of tensors that no op writes.
    """

    def __init__(self, version: Version | None, wanted: Set[int], given: Set[int]) -> None:
        self.version, self.wanted, self.given = version, wanted, given

    def writes(self, op: Op) -> bool:
        """Whether an op stands in the file: benchdnn of 3.2 and before crashes on End, and output_ports say as much."""
        return (
            self.version is None
            or self.version > (3, 2)
            or op.kind != "End"
            or any(tensor and tensor.id in self.given for tensor in op.inputs)
        )

    def hold(self, op: Op) -> None:
        """Raise where the version that is to read the file lacks something of the op."""
        if self.version is None:
            return
        schema = schema_of(op)
        needs = [("kind", base_of(schema).since)]
        attrs = {name: value for name, value in op.attrs.items() if not self.says_nothing(op, name)}
        needs += [(name, schema.attribute(name).since) for name in attrs if schema.has_attribute(name)]
        for index, tensor in enumerate(op.inputs):
            if tensor is not None:
                needs += [(schema.input_port(index).name, max(schema.input_port(index).since, tensor.dtype.since))]
        outputs = self.outputs(op)
        for port, tensor in zip(schema.outputs, outputs, strict=False):
            needs.append((port.name, max(port.since, tensor.dtype.since)))
        for where, since in needs:
            if since > self.version:
                needed = f"{where} needs oneDNN {since[0]}.{since[1]}"
                raise UnsupportedError(f"{op.kind} {op.name!r}: {needed}; for_version is {self._version}")
        words = f"onednn-{self._version}"
        attrs |= self.completing(op)
        if words in EDITIONS and words != op.edition:
            types = [tensor.type for tensor in outputs]
            own, there = (
                infer_op(op.kind, attrs, op.inputs, types, edition=edition(name), name=op.name).errors
                for name in (op.edition, words)
            )
            # What breaks its own edition too was in a file, and stays as it was there.
            known = {(error.rule, error.where) for error in own}
            added = [error.message for error in there if (error.rule, error.where) not in known]
            if added:
                fix = f"; onegraph convert --edition {words} says a graph of another edition in its words"
                raise UnsupportedError(
                    f"for_version {self._version}: " + "; ".join(added) + fix * (op.edition == "legacy-1")
                )

    @property
    def _version(self) -> str:
        return "" if self.version is None else f"{self.version[0]}.{self.version[1]}"

    def completing(self, op: Op) -> dict[str, AttrValue]:
        """Defaults that an op does not say, since benchdnn has others or none; and zero points that were required."""
        schema = None if self.version is None else edition(f"onednn-{self._version}").schema(op.kind)
        if schema is None:
            return {}
        own, found = schema_of(op), {}
        for attribute in schema.attributes:
            name = attribute.name
            default = (own.attribute(name) if own.has_attribute(name) else attribute).default
            if isinstance(default, Fill):
                strides = op.attrs.get("strides")
                default = (default.value,) * len(strides) if isinstance(strides, tuple) else None
            if default is not None and name not in op.attrs and name != "output_padding":  # said, it is exact
                found[name] = default
        scales, types = op.attrs.get("scales"), {t.dtype for t in (*op.inputs, *op.outputs) if t is not None}
        required = schema.has_attribute("zps") and schema.attribute("zps").required
        if required and "zps" not in op.attrs and isinstance(scales, tuple) and types & INTEGERS:
            found["zps"] = (0,) * len(scales)
        return found

    def outputs(self, op: Op) -> tuple[LogicalTensor, ...]:
        """Without those at the end that the version does not know and nobody wants."""
        ports, count = schema_of(op).outputs, len(op.outputs)
        while self.version is not None and 0 < count <= len(ports) and ports[count - 1].since > self.version:
            if op.outputs[count - 1].id in self.wanted:
                break
            count -= 1
        return op.outputs[:count]

    def says_nothing(self, op: Op, name: str) -> bool:
        """Whether an attribute of an op is left out, so that there is no need for the version to know it."""
        schema = schema_of(op)
        return name in op.attrs and schema.has_attribute(name) and self.left_out(schema.attribute(name), op.attrs[name])

    def left_out(self, attribute: Attribute, value: AttrValue) -> bool:
        """Whether an attribute is newer than the version, and says no more than leaving it out does."""
        return self.version is not None and attribute.since > self.version and value == attribute.default
