"""Reads the words of a page as values: kinds of attributes, defaults, allowed strings, names and data types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from ...opset.signature import AttrValue, Fill

KINDS = {"string": "str", "str": "str", "bool": "bool", "s64": "s64", "f32": "f32", "s64[]": "s64[]", "f32[]": "f32[]"}
KINDS |= {"boolean": "bool", "int64[]": "s64[]"}  # as some legacy pages print them
NAME = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r"`([^`]+)`")
# The default in a sentence. The first pattern that matches wins; "default is None" must stand before the value itself.
DEFAULTS = (
    re.compile(r"default is `?(?P<value>[^\s`,)]+)"),
    re.compile(r"(?P<value>empty list)", re.IGNORECASE),
    re.compile(r"(?P<value>all zeros) by default", re.IGNORECASE),
    re.compile(r"list of `?(?P<value>1)`?\s?s? ?\(default\)", re.IGNORECASE),
    re.compile(r"`?(?P<value>[^\s`,()]+)`?\s*,?\s*\(?(?:(?:by|in|is)\s+)?default\b"),
)
LISTS: dict[str, Fill | tuple[int, ...]] = {
    "all zeros": Fill(0),
    "list of 1": Fill(1),
    "1": Fill(1),
    "0": Fill(0),
    "empty list": (),
}


class UnreadError(ValueError):
    """A text that no rule understands."""


def quoted(text: str) -> str:
    """The text with the quotes of reStructuredText as those of Markdown."""
    return text.replace("``", "`")


def name_of(cell: str, replacements: Mapping[str, str]) -> str:
    """The name in a cell such as ``[axis](@ref a::b)``, ``|attr_axis|`` or ```` `axis` ````; UnreadError if none."""
    text = quoted(cell).strip().removeprefix("\\")  # \\src is a macro that prints src
    replaced = re.fullmatch(r"\|(\w+)\|", re.sub(r"\s", "", text))
    if replaced:
        word = replaced[1]
        return replacements.get(word, word.removeprefix("attr_"))
    for form in (r"\[(\w+)\]", r"`([A-Za-z_]\w*)", r"\*+(\w+)\*+", r"(\w+)"):
        match = re.match(form, text)
        if match and NAME.fullmatch(match[1]):
            return match[1]
    raise UnreadError(f"no name in {cell!r}")


def kind_of(cell: str, supported: str) -> str:
    """The kind of an attribute from its value type; a list if its supported values are lists."""
    word = cell.strip().strip(".").lower()
    if word not in KINDS:
        raise UnreadError(f"value type {cell!r}")
    kind = KINDS[word]
    is_list = kind in ("s64", "f32") and re.search(r"\blist\b", supported, re.IGNORECASE)
    return f"{kind}[]" if is_list else kind


def default_in(text: str, kind: str) -> AttrValue | Fill | None:
    """The default that a sentence prints; None if it prints none."""
    for form in DEFAULTS:
        match = form.search(quoted(text))
        if match:
            return value_of(match["value"], kind)
    if re.search(r"\bdefault\b", text, re.IGNORECASE):
        raise UnreadError(f"default in {text!r}")
    return None


def value_of(text: str, kind: str) -> AttrValue | Fill | None:
    """A default as a value of its kind."""
    word = re.sub(r"[`\"]|^\*+|\*+$", "", text.strip().strip(".")).strip()
    if word in ("None", "null") or (word.lower() == "none" and kind != "str"):
        return None
    with suppress(ValueError):
        if kind == "str":
            return word
        if kind == "bool" and word.lower() in ("true", "false"):
            return word.lower() == "true"
        if kind.endswith("[]"):
            start = next((name for name in LISTS if word.lower().startswith(name)), None)
            if start is not None:
                return LISTS[start]
        if kind == "s64":
            return int(word)
        if kind == "f32":
            return float(word.removesuffix("f"))
    raise UnreadError(f"default {text!r} of kind {kind}")


def words_in(text: str) -> frozenset[str]:
    """The quoted words of a text: the allowed strings."""
    words = [word.strip() for word in QUOTED.findall(quoted(text))]
    words += re.findall(r"(?<!\w)[\"*]([A-Za-z_]\w*)[\"*](?!\w)", text)
    return frozenset(word for word in words if NAME.fullmatch(word))


def is_required(cell: str) -> bool:
    """Whether a cell says Required."""
    word = cell.strip().strip(".*").lower()
    if word not in ("required", "optional", "yes", "no"):
        raise UnreadError(f"{cell!r} instead of Required or Optional")
    return word in ("required", "yes")


def dtypes_in(cell: str) -> list[str]:
    """The data types in a cell such as ``f32, bf16``."""
    words = [word for word in re.split(r"[\s,/`.]+", cell.strip()) if word]
    if not all(re.fullmatch(r"[a-z]\w*", word) for word in words):
        raise UnreadError(f"data types {cell!r}")
    return words
