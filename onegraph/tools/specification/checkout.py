"""Finds the pages of the ops and the headers of the graph API in a checkout, at any tag and in any folder."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ...errors import ArgumentError
from ...opset.editions.registry import BASE, EDITIONS, NEWEST, edition_of_version
from .printed import PrintedPage
from .reader import read_page, replacements_in

KNOWN = frozenset(kind.lower() for kind in BASE)
FEWEST_PAGES = 3  # of known ops, in a folder of op pages
HEADERS = ("dnnl_graph_types.h", "dnnl_common_types.h", "dnnl_types.h")


class Sources(NamedTuple):
    """What a checkout has: the pages by file, the headers by name, and the version that it says it has, or None."""

    folder: str
    pages: Mapping[str, PrintedPage]
    headers: Mapping[str, str]
    version: tuple[int, int] | None
    texts: Mapping[str, str]


def read_checkout(path: Path, tag: str | None) -> Sources:
    """The op pages and headers of a checkout.

    Args:
        path: a checkout of oneDNN or of the oneAPI specification; a bare git directory if there is a tag.
        tag: a tag, branch or commit; None for the files as they are.

    Raises:
        ArgumentError: git does not know the tag, or no folder has op pages.
    """
    names = _names(path, tag)
    folder = _op_folder(names, path, tag)
    chosen = [name for name in names if PurePosixPath(name).parent == PurePosixPath(folder)]
    chosen = [name for name in chosen if name.endswith((".md", ".rst"))]
    headers = [name for name in names if PurePosixPath(name).name in HEADERS and "include/" in name]
    more_names = [name for name in names if PurePosixPath(name).name in ("replacements.inc.rst", "CMakeLists.txt")]
    more_names = [name for name in more_names if name.count("/") in (0, 4)]
    texts = _texts(path, tag, [*chosen, *headers, *more_names])
    words = {key: value for name in more_names for key, value in replacements_in(texts[name]).items()}
    read = {name: read_page(texts[name], name, words) for name in sorted(chosen)}
    version = re.search(r"PROJECT_VERSION\s+\"(\d+)\.(\d+)", texts.get("CMakeLists.txt", ""))
    return Sources(
        folder,
        {name: page for name, page in read.items() if page is not None},
        {PurePosixPath(name).name: texts[name] for name in headers},
        None if version is None else (int(version[1]), int(version[2])),
        {name: texts[name] for name in chosen},
    )


def edition_of(tag: str | None, sources: Sources) -> tuple[str, str]:
    """The edition that a checkout is, and a note if it is newer than every edition.

    Raises:
        ArgumentError: neither the tag nor the checkout says which edition it is.
    """
    word = tag or ""
    named = re.search(r"oneAPI-v(1\.\d+)", word)
    if named and f"oneapi-{named[1]}" in EDITIONS:
        return f"oneapi-{named[1]}", ""
    if re.fullmatch(r"graph-v0\.7(\.\d+)?", word):
        return "legacy-1", ""
    match = re.fullmatch(r"(?:rls-)?v(\d+)\.(\d+).*", word)
    version = (int(match[1]), int(match[2])) if match else sources.version
    if version is None or version[0] != NEWEST[0]:
        raise ArgumentError(
            f"{'tag ' + word if word else 'checkout'}: its edition is unknown; pass --edition with the edition to "
            f"compare with: {', '.join(EDITIONS)}"
        )
    name = edition_of_version(version)
    older = f"version {version[0]}.{version[1]} is no edition yet; compared with the newest, {name}"
    return name, "" if version <= NEWEST else older


def _names(path: Path, tag: str | None) -> list[str]:
    if tag is not None:
        return _git(path, "ls-tree", "-r", "--name-only", tag).decode().splitlines()
    if not path.is_dir():
        raise ArgumentError(f"{path}: no such folder; expected a checkout")
    paths = [each for each in path.rglob("*") if each.suffix in (".md", ".rst", ".h", ".txt")]
    return sorted(str(each.relative_to(path).as_posix()) for each in paths)


def _op_folder(names: list[str], path: Path, tag: str | None) -> str:
    """The folder with the most pages of known ops."""
    counts: Counter[str] = Counter()
    for name in names:
        file = PurePosixPath(name)
        stem = file.stem.lower().replace("backprop", "backward").replace("filters", "weights")
        if file.suffix in (".md", ".rst") and stem in KNOWN:
            counts[str(file.parent)] += 1
    folder, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < FEWEST_PAGES:
        at = f" at {tag}" if tag else ""
        raise ArgumentError(f"{path}{at}: no folder has pages of ops, such as Convolution.md and ReLU.md")
    return folder


def _texts(path: Path, tag: str | None, names: list[str]) -> dict[str, str]:
    if tag is None:
        return {name: (path / name).read_text(errors="replace") for name in names}
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(_git(path, "archive", "--format=tar", tag, "--", *names))) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is not None:
                texts[member.name] = stream.read().decode(errors="replace")
    return texts


def _git(path: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(path), *arguments], capture_output=True, check=False)
    except OSError as error:
        raise ArgumentError(f"git: {error.strerror}; a tag is read by git") from None
    if done.returncode:
        raise ArgumentError(f"{path}: git says {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
