"""The editions of the specification: the base vocabulary (oneDNN 3.13) and every other one as a delta to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType

from ..errors import ArgumentError
from . import CATEGORIES
from .legacy import legacy
from .schema import Schema, Version
from .values import nearest

BASE: Mapping[str, Schema] = MappingProxyType({schema.kind: schema for category in CATEGORIES for schema in category})
NEWEST: Version = (3, 13)
DEFAULT = "onednn-3.13"


@dataclass(frozen=True)
class Edition:
    """One edition: its name, the document it stands for, and its ops by kind."""

    name: str
    title: str
    schemas: Mapping[str, Schema]

    def schema(self, kind: str) -> Schema | None:
        """The op ``kind``, by its name in the specification or in Python; None where the edition has none."""
        return self.schemas.get(kind) or self._by_name.get(kind)

    @cached_property
    def _by_name(self) -> dict[str, Schema]:
        return {schema.name: schema for schema in self.schemas.values()}

    def nearest(self, kind: str) -> str | None:
        """The op of this edition that ``kind`` was probably meant to be."""
        return nearest(kind, self.schemas)

    def page(self, schema: Schema) -> str:
        """Where the specification describes the op."""
        return f"{self.title}, {schema.page or schema.kind}"


def at_version(schema: Schema, version: Version) -> Schema:
    """The op as it stood in an earlier version: without the attributes, ports and type rows that came later."""
    return replace(
        schema,
        attributes=tuple(attribute for attribute in schema.attributes if attribute.since <= version),
        inputs=tuple(port for port in schema.inputs if port.since <= version),
        outputs=tuple(port for port in schema.outputs if port.since <= version),
        types=tuple(row for row in schema.types if row.since <= version),
    )


def _onednn(version: Version) -> dict[str, Schema]:
    schemas = (at_version(schema, version) for schema in BASE.values() if schema.since <= version)
    # Until 3.1 the guide prints one pair of names for the weights of the ConvTranspose ops; from 3.2 on it prints two.
    return {schema.kind: _undisputed(schema) if version < (3, 2) else schema for schema in schemas}


def _undisputed(schema: Schema) -> Schema:
    attributes = (
        replace(attribute, aliases={}, disputed=frozenset()) if attribute.disputed else attribute
        for attribute in schema.attributes
    )
    return replace(schema, attributes=tuple(attributes))


def _oneapi(version: Version) -> dict[str, Schema]:
    """The oneAPI specification: the guide of one oneDNN version, with the names of the weights formats right."""
    return {kind: _undisputed(schema) for kind, schema in _onednn(version).items()}


def _legacy() -> dict[str, Schema]:
    found = (legacy(at_version(schema, (3, 0))) for schema in BASE.values())
    return {schema.kind: schema for schema in found if schema is not None}


_BUILDERS: dict[str, tuple[str, Callable[[], dict[str, Schema]]]] = {
    "legacy-1": ("oneDNN Graph specification 1.0-beta", _legacy),
    "oneapi-1.2": ("oneAPI specification 1.2, oneDNN graph", partial(_oneapi, (3, 0))),
    "oneapi-1.3": ("oneAPI specification 1.3, oneDNN graph", partial(_oneapi, (3, 2))),
    "oneapi-1.4": ("oneAPI specification 1.4, oneDNN graph", partial(_oneapi, (3, 2))),
    **{
        f"onednn-3.{minor}": (f"oneDNN developer guide v3.{minor}, graph operations", partial(_onednn, (3, minor)))
        for minor in range(NEWEST[1] + 1)
    },
}
EDITIONS = tuple(_BUILDERS)
_loaded: dict[str, Edition] = {}


def edition(name: str) -> Edition:
    """The edition called ``name``.

    Raises:
        ArgumentError: there is none; the message names the nearest.
    """
    if not isinstance(name, str) or name not in _BUILDERS:
        close = nearest(str(name), EDITIONS)
        raise ArgumentError(
            f"unknown edition {name!r}; "
            + (f"did you mean {close!r}? " if close else "")
            + f"The editions are {', '.join(EDITIONS)}"
        )
    if name not in _loaded:
        title, build = _BUILDERS[name]
        _loaded[name] = Edition(name, title, MappingProxyType(build()))
    return _loaded[name]


def base_of(schema: Schema) -> Schema:
    """The schema of the op's meaning in the base vocabulary; itself where it has no successor there."""
    if schema.dialect is not None:
        return BASE[schema.dialect.kind]
    return BASE.get(schema.kind, schema)
