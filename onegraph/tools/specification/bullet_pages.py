"""Reads the pages that have lists: the oneDNN Graph specification, whose ops end in "-1"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from .printed import PrintedAttribute, PrintedPage, PrintedPort, PrintedRow
from .sections import Section
from .values import KINDS, UnreadError, dtypes_in, is_required, value_of, words_in

ENTRY = re.compile(r"[*-] +(?P<text>.+)")
FIELD = re.compile(r" +[*-] +\*\*(?P<name>[A-Z][\w ]*)\*\*\s*:?\s*(?P<text>.*)")
CONSTRAINT = re.compile(r"\*?(T\d?)\*? can be (\w+) only when \*?(T\d?)\*? is (\w+)")
DIFFERENT = re.compile(r"[Ww]hen (T\d?) is (\w+), (T\d?) should be ([\w ]+?)(?=[;.,]|$)")
ONE_OF_TWO = re.compile(r"when (T\d?) is (\w+) or (\w+), (T\d?) should be (\w+)")


class Bullet:
    """One bullet: its first line with what continues it, and its fields such as **Type**."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fields: dict[str, str] = {}

    def field(self, name: str) -> str:
        """The text of a field; empty if there is none."""
        return self.fields.get(name.lower(), "")


def read(title: str, file: str, parts: Sequence[Section]) -> PrintedPage:
    """The page with these sections."""
    unread: list[str] = []
    attributes = []
    for entry in _entries(parts, "attributes"):
        try:
            attributes.append(_attribute(entry))
        except UnreadError as error:
            unread.append(f"attributes: {error}")
    inputs = [_port(entry) for entry in _entries(parts, "inputs")]
    outputs = [_port(entry) for entry in _entries(parts, "outputs")]
    variables = {f"in{index}": variable for index, (_, variable) in enumerate(inputs)}
    variables |= {f"out{index}": variable for index, (_, variable) in enumerate(outputs)}
    rows: frozenset[PrintedRow] = frozenset()
    try:
        rows = _rows(_entries(parts, "types"), variables)
    except UnreadError as error:
        unread.append(f"data types: {error}")
    taken, made = (tuple(port for port, _ in side) for side in (inputs, outputs))
    return PrintedPage(title, file, tuple(attributes), taken, made, rows, tuple(unread))


def _entries(parts: Sequence[Section], heading: str) -> list[Bullet]:
    entries: list[Bullet] = []
    field = ""
    for line in (line for part in parts if part.heading == heading for line in part.lines):
        entry, inner = ENTRY.fullmatch(line), FIELD.fullmatch(line)
        if entry:
            entries.append(Bullet(entry["text"]))
            field = ""
        elif entries and inner and inner["name"].lower() not in ("notion",):
            field = inner["name"].lower()
            entries[-1].fields[field] = inner["text"]
        elif field:
            entries[-1].fields[field] += f" {line.strip()}"
        elif entries:
            entries[-1].text += f" {line.strip()}"
    return entries


def _attribute(entry: Bullet) -> PrintedAttribute:
    name = re.sub(r"[*`]", "", entry.text).strip()
    word = entry.field("type").strip().strip(".")
    if word not in KINDS:
        raise UnreadError(f"{name}: type {word!r}")
    kind = KINDS[word]
    printed, said = entry.field("default value"), entry.field("required")
    default = value_of(re.sub(r"\(.*\)", "", printed), kind) if printed.strip() else None
    required = is_required(said) if said.strip() else None
    return PrintedAttribute(name, kind, required, default, _strings(entry, kind))


def _strings(entry: Bullet, kind: str) -> frozenset[str]:
    """The allowed strings: those of the range, or the bullets of the description."""
    if kind != "str":
        return frozenset()
    span = entry.field("range of values")
    listed = re.findall(r"\* +[*`]+([a-z_]+)(?: \(([\w ]+)\))?[*`]+", span or entry.field("description"))
    words = {word for pair in listed for word in pair if word and " " not in word}
    return frozenset(words) or words_in(re.sub(r"\(.*", "", span))


def _port(entry: Bullet) -> tuple[PrintedPort, str]:
    """A port and its type variable."""
    text = entry.text
    name = re.match(r"\*\*[\d.N \-]+\*\*: *``?([A-Za-z_][\w ]*?)``?", text)
    said = re.findall(r"\*\*(required|optional)\.?\*\*", text, re.IGNORECASE)
    optional = None if not said else said[-1].lower() == "optional"
    variadic = bool(re.match(r"\*\*\d *(\.\.|-)", text)) or "arbitrary number" in text
    variable = re.fullmatch(r"(T\d?|[a-z]+\d+)\.?", entry.field("type").strip())
    port = PrintedPort("" if name is None else name[1].replace(" ", "_"), optional, variadic)
    return port, "" if variable is None else variable[1]


def _rows(entries: Sequence[Bullet], places: Mapping[str, str]) -> frozenset[PrintedRow]:
    types: dict[str, list[str]] = {}
    rules: list[str] = []
    for entry in entries:
        match = re.match(r"\*+(T\d?)\*+\s*:\s*(.*)", entry.text)
        if match:
            types[match[1]] = dtypes_in(re.sub(r"[*`]", "", match[2]))
        elif "onstraint" in entry.text:
            rules.append(entry.text)
    allowed = [check for rule in rules for check in _checks(rule)]
    if rules and not allowed:
        raise UnreadError(f"constraint {rules[0]!r}")
    rows = set()
    for choice in product(*types.values()):
        bound = dict(zip(types, choice, strict=True))
        if all(bound[given] != value or bound[other] in others for given, value, other, others in allowed):
            here = {place: bound.get(variable, variable) for place, variable in places.items() if variable}
            rows.add(frozenset(here.items()))
    return frozenset(rows) if types else frozenset()


def _checks(text: str) -> Iterator[tuple[str, str, str, set[str]]]:
    """What a constraint says: if a variable is of this type, another one is of these types."""
    for variable, dtype, beside, value in CONSTRAINT.findall(text):
        yield variable, dtype, beside, {value}
    for variable, dtype, beside, values in DIFFERENT.findall(text):
        yield variable, dtype, beside, set(values.split(" or "))
    for variable, first, second, beside, value in ONE_OF_TWO.findall(text):
        yield variable, first, beside, {value}
        yield variable, second, beside, {value}
