"""Joins an op of an edition with what its page prints, and decides which uses the edition allows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..._util.fork_safety import cached_property
from ..._util.records import record
from ...opset.dtypes import DataType
from ...opset.editions.registry import DEFAULT, Edition, base_of, edition
from ...opset.errata.correction import NOWHERE, Correction
from ...opset.schema import Schema
from ...opset.signature import Port
from .claims import UNSPOKEN
from .uses import ProbedUse

LEGACY_RULES = "onednn-3.0"  # the first edition in the base vocabulary, for the rules of editions in another one


@record(frozen=True)
class PageOfOp:
    """An op of an edition."""

    edition: Edition
    schema: Schema

    @cached_property
    def base(self) -> Schema:
        """The op in the base vocabulary."""
        return base_of(self.schema)

    @cached_property
    def corrections(self) -> tuple[Correction, ...]:
        """The mistakes on the page."""
        return self.edition.corrections(self.schema)

    def base_name(self, name: str) -> str:
        """The name of an attribute in the base vocabulary."""
        return self.schema.dialect.attributes.get(name, name) if self.schema.dialect else name

    def base_word(self, name: str, value: str) -> str:
        """The value of an attribute in the base vocabulary."""
        mapping = self.schema.dialect.values.get(name, {}) if self.schema.dialect else {}
        return mapping.get(value, value)

    @cached_property
    def _rules(self) -> str:
        """The edition whose rules hold, in the base vocabulary."""
        if self.schema.dialect is None:
            return self.edition.name
        return LEGACY_RULES if self.base.kind in edition(LEGACY_RULES).schemas else DEFAULT

    def allows(self, use: ProbedUse) -> bool:
        """Whether the page allows a use."""
        unspoken = UNSPOKEN.get(self.base.kind) if self.schema.dialect is None else None
        return not self.broken_rules(use) and not (unspoken is not None and unspoken(self.schema, use))

    def broken_rules(self, use: ProbedUse, *, shapes: bool = True) -> list[str]:
        """The rules of the edition that a use breaks, perhaps without knowledge of shapes."""
        names = {self.base_name(attribute.name) for attribute in self.schema.attributes}
        if not names.issuperset(use.attrs):
            return ["unknown_attribute"]
        types = self.combination(use).items()
        if self.schema.dialect is not None and not any(
            types <= combination.items() for combination in self.combinations
        ):
            return ["data_type"]
        return use.broken_rules(self._rules, shapes=shapes)

    # Data types --------------------------------------------------------------------------------------------------

    @cached_property
    def variables(self) -> dict[str, list[tuple[str, int]]]:
        """For each type variable the side and the index of its ports, in the order of the ports."""
        ports_by_type: dict[str, list[tuple[str, int]]] = {}
        sides = (("inputs", self.schema.inputs), ("outputs", self.schema.outputs))
        for side, ports in sides:
            for index, port in enumerate(ports):
                if port.type not in DataType.__members__:
                    ports_by_type.setdefault(port.type, []).append((side, index))
        return ports_by_type

    def name_of(self, variable: str) -> str:
        """The first port of a type variable."""
        side, index = self.variables[variable][0]
        return self.port(side, index).name

    def port(self, side: str, index: int) -> Port:
        """The port of an input or output; further ones belong to the last port, or to none."""
        ports = self.schema.inputs if side == "inputs" else self.schema.outputs
        return ports[min(index, len(ports) - 1)] if ports else NOWHERE

    @cached_property
    def combinations(self) -> list[dict[str, str]]:
        """Every documented combination of data types, by type variable."""
        combinations_found: list[dict[str, str]] = []
        for row in self.schema.types:
            names = [name for name in row.types if name in self.variables]
            for types in product(*(sorted(map(str, row.types[name])) for name in names)):
                combination_ = dict(zip(names, types, strict=True))
                if combination_ not in combinations_found:
                    combinations_found.append(combination_)
        return combinations_found

    def combination(self, use: ProbedUse) -> dict[str, str]:
        """The data types of a use, by type variable; a variable whose ports are all left out is missing."""
        by_type: dict[str, str] = {}
        for side, dtypes in (("inputs", use.dtypes), ("outputs", use.outputs)):
            for index, dtype in enumerate(dtypes):
                port = self.port(side, index)
                if port.type in self.variables:
                    by_type.setdefault(port.type, dtype)
        return by_type

    def typed(self, use: ProbedUse, types: dict[str, str]) -> ProbedUse:
        """The use with other data types, by type variable."""
        inputs = {place: types[p.type] for place, p in enumerate(self._ports("inputs", use)) if p.type in types}
        outputs = {place: types[p.type] for place, p in enumerate(self._ports("outputs", use)) if p.type in types}
        return use.typed(inputs, outputs)

    def _ports(self, side: str, use: ProbedUse) -> Iterator[Port]:
        count = len(use.picks if side == "inputs" else use.outputs)
        return (self.port(side, index) for index in range(count))
