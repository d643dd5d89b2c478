"""Reads which faults ``ONEGRAPH_FAULTS`` switches off, and which it adds from files.

The variable has entries with commas between them. ``-name`` switches a fault off: the executor no longer goes around
it, and checks no longer tell it. Another entry is the path of a file in TOML or JSON with a list ``faults``, each with

- ``name``, ``reason``, and ``ops``: names of ops;
- perhaps ``since`` and ``until``: the first version that has the fault, and the first that has it no more, such as
  ``"3.6"``;
- perhaps ``dtypes``: it shows if a tensor has one of them; and ``attrs``: it shows if attributes have these values.

The executor then runs these uses of the ops in another way, in f32 or by the numpy reference.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from .._util.records import record
from ..errors import FormatError
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE
from ..opset.signature import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VARIABLE = "ONEGRAPH_FAULTS"
KEYS = ("name", "reason", "ops", "since", "until", "dtypes", "attrs")


@record(frozen=True)
class UserFault:
    """One fault of a file, as it stands there."""

    name: str
    reason: str
    ops: frozenset[str]
    since: Version
    until: Version | None
    dtypes: frozenset[str]
    attrs: Mapping[str, object]


@record(frozen=True)
class UserFaults:
    """What the variable says.

    Attributes:
        off: names of faults that are switched off.
        added: faults of files.
        digest: of all that; empty if the variable is not set.
    """

    off: frozenset[str]
    added: tuple[UserFault, ...]
    digest: str


def read_user_faults(value: str) -> UserFaults:
    """What a value of the variable says.

    Raises:
        FormatError: a file cannot be read, or a fault in it is wrong.
    """
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    if not entries:
        return UserFaults(frozenset(), (), "")
    import hashlib  # it takes milliseconds, and most processes name no faults

    off = frozenset(entry[1:] for entry in entries if entry.startswith("-"))
    added: list[UserFault] = []
    digest = hashlib.blake2b(",".join(sorted(off)).encode(), digest_size=16)
    for path in (entry for entry in entries if not entry.startswith("-")):
        content = _read(path)
        digest.update(content)
        added += _faults(path, content)
    return UserFaults(off, tuple(added), digest.hexdigest())


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FormatError(
            f"{VARIABLE}: {path}", error.strerror or "unreadable", "a file, or -NAME of a fault"
        ) from None


def _faults(path: str, content: bytes) -> Iterable[UserFault]:
    try:
        text = content.decode()
        data = (
            json.loads(text) if text.lstrip()[:1] in ("{", "[") and not path.endswith(".toml") else tomllib.loads(text)
        )
    except ValueError as error:
        raise FormatError(f"{VARIABLE}: {path}", " ".join(str(error).split()), "TOML or JSON in UTF-8") from None
    listed = data.get("faults") if isinstance(data, dict) else data
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise FormatError(f"{VARIABLE}: {path}", "no list of faults", "a list under the key faults")
    for number, facts in enumerate(listed):
        yield _fault(f"{VARIABLE}: {path}: faults[{number}]", facts)


def _fault(where: str, facts: Mapping[str, object]) -> UserFault:
    for key in facts:
        if key not in KEYS:
            raise FormatError(where, f"unknown key {key!r}", f"the keys {', '.join(KEYS)}")
    for key in ("name", "reason"):
        if not isinstance(facts.get(key), str) or not facts[key]:
            raise FormatError(f"{where}.{key}", repr(facts.get(key)), "a text")
    ops, dtypes, attrs = facts.get("ops"), facts.get("dtypes", []), facts.get("attrs", {})
    if not isinstance(ops, list) or not ops or not {*map(str, ops)} <= {*BASE}:
        raise FormatError(f"{where}.ops", repr(ops), "a list of names of ops, such as Convolution")
    if not isinstance(dtypes, list) or not {*map(str, dtypes)} <= {*DataType.__members__}:
        raise FormatError(f"{where}.dtypes", repr(dtypes), "a list of data types, such as bf16")
    if not isinstance(attrs, dict):
        raise FormatError(f"{where}.attrs", repr(attrs), "a table of attributes and values")
    for kind in ops:
        for name in attrs:
            if not BASE[str(kind)].has_attribute(name):
                raise FormatError(f"{where}.attrs", repr(name), f"an attribute of {kind}")
    since = _version(f"{where}.since", facts.get("since", "3.2"))
    until = _version(f"{where}.until", facts["until"]) if "until" in facts else None
    own = frozenset(map(str, ops)), since, until, frozenset(map(str, dtypes)), dict(attrs)
    return UserFault(str(facts["name"]), str(facts["reason"]), *own)


def _version(where: str, value: object) -> Version:
    parts = str(value).split(".")
    if not isinstance(value, str) or len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise FormatError(where, repr(value), 'a version of oneDNN, such as "3.6"')
    return int(parts[0]), int(parts[1])


USER = read_user_faults(os.environ.get(VARIABLE, ""))
