"""Runs rules on an op that has wrong or missing attributes: rules that do not read these attributes still apply."""

from __future__ import annotations

from collections.abc import Mapping

from .schema import Call
from .signature import AttrValue, Fill


class UnsettledError(Exception):
    """A rule has read an attribute that is wrong or missing."""


class UnsettledCall(Call):
    """A call with some attributes wrong or missing (``unsettled``); reading one of them raises UnsettledError."""

    def __init__(self, call: Call, unsettled: frozenset[str]) -> None:
        super().__init__(call.schema, call.given, call.inputs, call.n_outputs, call.output_types)
        self.unsettled = unsettled

    @property
    def given(self) -> Mapping[str, AttrValue]:
        """Always raises UnsettledError, because all attributes together include a wrong or missing one."""
        raise UnsettledError

    @given.setter
    def given(self, attrs: Mapping[str, AttrValue]) -> None:
        self._given = attrs

    def with_attr(self, name: str, value: AttrValue) -> Call:
        """A copy of this call with another value of an attribute; the same attributes stay unsettled."""
        attrs = {**self._given, name: value}
        call = Call(self.schema, attrs, self.inputs, self.n_outputs, self.output_types)
        return UnsettledCall(call, self.unsettled)

    def has(self, name: str) -> bool:
        """Whether attribute ``name`` was given; UnsettledError if it is missing by mistake."""
        if name in self.unsettled and name not in self._given:
            raise UnsettledError
        return name in self._given

    def attr(self, name: str) -> AttrValue | Fill | None:
        """Value of attribute ``name``, or its default; UnsettledError if the attribute is unsettled."""
        if name in self.unsettled:
            raise UnsettledError
        return self._given[name] if name in self._given else self.schema.attribute(name).default
