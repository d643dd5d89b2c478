"""A use of an op some of whose attributes are wrong, for the rules that can do without them."""

from __future__ import annotations

from collections.abc import Mapping

from .schema import AttrValue, Call, Fill


class UnsettledError(Exception):
    """What was to be read of an op is wrong in itself, or missing."""


class UnsettledCall(Call):
    """A use of an op some of whose attributes are wrong or missing: reading one of them raises UnsettledError."""

    def __init__(self, call: Call, unsettled: frozenset[str]) -> None:
        super().__init__(call.schema, call.given, call.inputs, call.n_outputs, call.output_types)
        self.unsettled = unsettled

    @property
    def given(self) -> Mapping[str, AttrValue]:
        """No reader of all attributes can do with some of them."""
        raise UnsettledError

    @given.setter
    def given(self, attrs: Mapping[str, AttrValue]) -> None:
        self._given = attrs

    def with_attr(self, name: str, value: AttrValue) -> Call:
        """This use with another value of an attribute, of which as little is known."""
        attrs = {**self._given, name: value}
        call = Call(self.schema, attrs, self.inputs, self.n_outputs, self.output_types)
        return UnsettledCall(call, self.unsettled)

    def has(self, name: str) -> bool:
        """Whether attribute ``name`` was given."""
        if name in self.unsettled and name not in self._given:
            raise UnsettledError
        return name in self._given

    def attr(self, name: str) -> AttrValue | Fill | None:
        """Attribute ``name``, as ever."""
        if name in self.unsettled:
            raise UnsettledError
        return self._given[name] if name in self._given else self.schema.attribute(name).default
