"""Builds every edition of the specification from the base vocabulary (oneDNN 3.13) and finds editions by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..._util.exact_types import text
from ..._util.fork_safety import cached_property
from ..._util.init_once import made_once
from ..._util.records import record
from ...errors import ArgumentError, shown
from ..host import CATEGORIES as HOST_CATEGORIES
from ..ops import CATEGORIES
from ..ops.quantization import QTYPE, ZPS
from ..schema import Schema, holds_in
from ..signature import Attribute, Port, Row, Version
from ..values import nearest
from .legacy import legacy
from .legacy_ops import OPS as LEGACY_OPS

if TYPE_CHECKING:
    from ..errata.correction import Correction

BASE: Mapping[str, Schema] = MappingProxyType({schema.kind: schema for category in CATEGORIES for schema in category})
RELEASED: Version = (3, 13)  # the newest release, whose vocabulary the methods of Graph use
NEWEST: Version = (3, 14)  # the newest edition, of a version in development
DEFAULT = f"onednn-{RELEASED[0]}.{RELEASED[1]}"
HOST = "host"  # the name of the op set that the specification lacks
# Attributes that changed, such as by a value that was added or ended: (op, attribute) -> (version of the change, the
# attribute before it). What an edition ends as a whole has ``until`` in its record.
FORMER: Mapping[tuple[str, str], tuple[Version, Attribute]] = MappingProxyType(
    {
        # zps became optional when 8-bit floats, which have no zero point, were added.
        ("Quantize", "zps"): ((3, 4), replace(ZPS, required=True)),
        ("Dequantize", "zps"): ((3, 4), replace(ZPS, required=True)),
        # The value per_group was added together with the attribute group_shape, which it needs.
        ("DynamicDequantize", "qtype"): ((3, 7), QTYPE),
    }
)


@made_once
@record(frozen=True)
class Edition:
    """One edition of the specification.

    Attributes:
        name: such as ``onednn-3.13``.
        title: name of the document.
        schemas: the ops by kind.
        pages: address of the pages' sources in the upstream repository, at the tag of the edition.
        titles: whether page titles differ from op names (``Convolution-1``, or ``Softmax`` for SoftMax); a title is
            then accepted as a name of the op.
    """

    name: str
    title: str
    schemas: Mapping[str, Schema]
    pages: str
    titles: bool = False

    def schema(self, kind: object) -> Schema | None:
        """The op ``kind``, by its name in the specification or in Python; None if the edition has no such op."""
        name = kind if type(kind) is str else text(kind)
        return None if name is None else self.schemas.get(name) or self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Schema]:
        schemas = self.schemas.values()
        names = {re.sub("^(legacy|host)_", "", schema.name): schema for schema in schemas}
        names.update({schema.name: schema for schema in schemas})
        if self.titles:
            names.update({schema.page: schema for schema in schemas if schema.page})
        return names

    @cached_property
    def _by_base(self) -> dict[str, Schema]:
        return {base_of(schema).name: schema for schema in self.schemas.values()}

    def meaning(self, base: Schema) -> Schema | None:
        """The op of this edition with the meaning of ``base``, an op of the base vocabulary; None if there is none."""
        return self._by_base.get(base.name)

    def nearest(self, kind: str) -> str | None:
        """The op of this edition that ``kind`` probably means: its name in another edition, or a misspelled name."""
        return self.renamed(kind) or nearest(kind, self.schemas)

    def renamed(self, kind: str) -> str | None:
        """The op of this edition that another edition calls ``kind``; None if there is none."""
        for name in EDITIONS:
            schema = edition(name).schema(kind)
            base = None if schema is None else self.meaning(base_of(schema))
            if base is not None:
                return base.kind
        return None

    def page(self, schema: Schema) -> str:
        """Title of the document and name of the page that describe the op."""
        return f"{self.title}, {schema.page or schema.kind}"

    def link(self, schema: Schema) -> str:
        """Address of the source of the page that describes the op."""
        return self.pages.format((schema.page or schema.kind).removesuffix("-1"))

    def corrections(self, schema: Schema) -> tuple[Correction, ...]:
        """The mistakes on the page that describes the op."""
        from ..errata.catalogue import corrections  # for pages and checks alone

        return corrections(self.name, schema.kind)


def at_version(schema: Schema, version: Version) -> Schema:
    """The op as of a version: the attributes, ports, type rows and rules that it has there."""
    return replace(
        schema,
        attributes=tuple(
            _former(schema, attribute, version) for attribute in schema.attributes if _is_in(attribute, version)
        ),
        inputs=tuple(port for port in schema.inputs if _is_in(port, version)),
        outputs=tuple(port for port in schema.outputs if _is_in(port, version)),
        types=tuple(row for row in schema.types if _is_in(row, version)),
        rules=tuple(rule for rule in schema.rules if holds_in(rule, version)),
        shape_rules=tuple(rule for rule in schema.shape_rules if holds_in(rule, version)),
    )


def _is_in(part: Schema | Attribute | Port | Row, version: Version) -> bool:
    return part.since <= version < part.until


def _former(schema: Schema, attribute: Attribute, version: Version) -> Attribute:
    until, former = FORMER.get((schema.kind, attribute.name), (version, attribute))
    return former if version < until else attribute


def _onednn(version: Version) -> dict[str, Schema]:
    schemas = (at_version(schema, version) for schema in BASE.values() if _is_in(schema, version))
    # Up to 3.1 the guide has one pair of names for the weights formats of the ConvTranspose ops; since 3.2 it has two.
    return {schema.kind: _undisputed(schema) if version < (3, 2) else schema for schema in schemas}


def _undisputed(schema: Schema) -> Schema:
    attributes = (
        replace(attribute, aliases={}, disputed=frozenset()) if attribute.disputed else attribute
        for attribute in schema.attributes
    )
    return replace(schema, attributes=tuple(attributes))


def _oneapi(version: Version) -> dict[str, Schema]:
    """The oneAPI specification: the guide of one oneDNN version, with only the correct names of weights formats."""
    return {kind: _undisputed(schema) for kind, schema in _onednn(version).items()}


def _legacy() -> dict[str, Schema]:
    schemas = (legacy(at_version(schema, (3, 0))) for schema in BASE.values())
    return {schema.kind: schema for schema in (*schemas, *LEGACY_OPS) if schema is not None}


_ONEDNN = "https://github.com/uxlfoundation/oneDNN/blob/"
_ONEAPI = "https://github.com/uxlfoundation/oneAPI-spec/blob/"
_RST = "source/elements/oneDNN/source/graph/ops/{}.rst"
# Edition -> title of the document, address of its pages, and how its ops are made.
_BUILDERS: dict[str, tuple[str, str, Callable[[], dict[str, Schema]]]] = {
    "legacy-1": (
        "oneDNN Graph specification 1.0-beta",
        f"{_ONEDNN}graph-v0.7/doc/operations/{{}}.md",
        _legacy,
    ),
    **{
        f"oneapi-{version}": (
            f"oneAPI specification {version}, oneDNN graph",
            f"{_ONEAPI}oneAPI-v{version}-rev-1/{_RST}",
            partial(_oneapi, of),
        )
        for version, of in (("1.2", (3, 0)), ("1.3", (3, 2)), ("1.4", (3, 2)))
    },
    **{
        f"onednn-3.{minor}": (
            f"oneDNN developer guide v3.{minor}, graph operations",
            f"{_ONEDNN}v3.{minor}/doc/graph/operations/{{}}.md",
            partial(_onednn, (3, minor)),
        )
        for minor in range(RELEASED[1] + 1)
    },
    # Up to this commit of the main branch the pages are equal to those of 3.13, in another folder.
    "onednn-3.14": (
        "oneDNN developer guide v3.14 (development), graph operations",
        f"{_ONEDNN}3f27bec21fdce6b550f233bf6e0afd086ee8d543/doc/graph_api/operations/{{}}.md",
        partial(_onednn, NEWEST),
    ),
}
_HOST_OPS = {schema.kind: schema for category in HOST_CATEGORIES for schema in category}
_OWN_BASES = {
    **{schema.name: replace(schema, kind=schema.page) for schema in LEGACY_OPS},
    **{schema.name: replace(schema, kind=f"{HOST} {schema.kind}") for schema in _HOST_OPS.values()},
}
EDITIONS = tuple(_BUILDERS)
_BUILDERS[HOST] = ("onegraph host ops", "", lambda: _HOST_OPS)
TITLES = ("legacy-1", "oneapi-1.2", "onednn-3.0", "onednn-3.1")
_loaded: dict[str, Edition] = {}


def edition(name: str) -> Edition:
    """The edition called ``name``.

    Raises:
        ArgumentError: there is no such edition; the message suggests the nearest name.
    """
    if type(name) is str and name in _loaded:
        return _loaded[name]
    word = text(name)
    if word is None or word not in _BUILDERS:
        close = None
        if word is not None:
            version = ".".join(word.removeprefix("v").split(".")[:2])
            ends = (full for full in EDITIONS if full.endswith(f"-{version}"))
            minor = re.fullmatch(rf"(?:onednn-)?v?{NEWEST[0]}\.(\d{{1,4}})(\.\d+)?", word)
            newer = minor is not None and int(minor[1]) > NEWEST[1]
            close = next(ends, None) or (EDITIONS[-1] if newer else nearest(word, EDITIONS))
        raise ArgumentError(
            f"unknown edition {shown(name)}; "
            + (f"did you mean {close!r}? " if close else "")
            + f"the editions are {', '.join(EDITIONS)}"
        )
    if word not in _loaded:
        title, pages, build = _BUILDERS[word]
        _loaded[word] = Edition(word, title, MappingProxyType(build()), pages, word in TITLES)
    return _loaded[word]


def edition_of_version(version: tuple[int, ...]) -> str:
    """Name of the edition of a version of oneDNN; the newest one for a version that is newer than every edition."""
    return f"onednn-{NEWEST[0]}.{min(version[1], NEWEST[1]) if version[:1] == NEWEST[:1] else NEWEST[1]}"


def base_of(schema: Schema) -> Schema:
    """The schema of the same op in the base vocabulary.

    An op that only legacy-1 has is its own base, with its page name as kind, such as ``Pow-1``; so is a host op, such
    as ``host Pow``. Tables keyed by kinds of the base therefore never confuse it with a base op of the same name.
    """
    if schema.dialect is not None:
        return BASE[schema.dialect.kind]
    return _OWN_BASES.get(schema.name) or BASE[schema.kind]
