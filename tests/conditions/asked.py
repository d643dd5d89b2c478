"""Imports the modules of the package with questions; all processes of the tests answer into one file.

A place of the file belongs to each question, by the order of the modules, so that an answer is a store into memory.
"""

from __future__ import annotations

import importlib.machinery
import json
import marshal
import mmap
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

from .questions import TAKES, Answers, questions

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "onegraph"
BUILD = ROOT / "build" / "conditions"
CODE = BUILD / "code"


class Asking(importlib.machinery.SourceFileLoader):
    """Loads a module that answers into a part of the file."""

    met: memoryview

    def get_code(self, fullname: str) -> CodeType:
        """The code with the questions, which the first process keeps for the others."""
        kept = CODE / f"{fullname}.{sys.implementation.cache_tag}"
        if not kept.exists():
            code = compile(questions(Path(self.path).read_text())[0], self.path, "exec", dont_inherit=True)
            new = kept.with_suffix(f".{os.getpid()}")
            new.write_bytes(marshal.dumps(code))
            new.replace(kept)
        found: CodeType = marshal.loads(kept.read_bytes())
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, which finds what takes its answers among its globals."""
        vars(module)[TAKES] = Answers(self.met)
        super().exec_module(module)


class Finder:
    """Finds the modules of the package.

    Args:
        file: where the answers stand.
        places: the first place of each module and the number of its questions.
    """

    def __init__(self, file: Path, places: dict[str, tuple[int, int]]) -> None:
        with file.open("r+b") as opened:
            self._met = memoryview(mmap.mmap(opened.fileno(), 0))
        self._places = places

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of a module, with the loader that asks; None for other packages."""
        if name.partition(".")[0] != "onegraph":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = None if spec is None else spec.loader
        if isinstance(loader, importlib.machinery.SourceFileLoader) and loader.path.startswith(f"{PACKAGE}{os.sep}"):
            first, count = self._places[str(Path(loader.path).relative_to(PACKAGE))]
            asking = Asking(loader.name, loader.path)
            asking.met = self._met[first : first + count]
            spec.loader = asking  # type: ignore[union-attr]
        return spec


def prepare(*, keeps: bool = False) -> dict[str, list[str]]:
    """Ask anew; the questions by module. ``keeps``: what was answered before stays so, where the words are the same."""
    asked = {str(path.relative_to(PACKAGE)): questions(path.read_text())[1] for path in sorted(PACKAGE.rglob("*.py"))}
    places, met, first = [], b"", 0
    before: dict[str, dict[str, list[int]]] = {}
    if keeps:
        old = iter((BUILD / "met").read_bytes())
        for name, texts in json.loads((BUILD / "asked.json").read_text()).items():
            for text in texts:
                before.setdefault(name, {}).setdefault(text.partition(" ")[2], []).append(next(old))
    for name, texts in asked.items():
        places.append(f"{name} {first} {len(texts)}")
        first += len(texts)
        known = before.get(name, {})
        met += bytes((known.get(text.partition(" ")[2]) or [0]).pop(0) for text in texts)
    shutil.rmtree(CODE, ignore_errors=True)
    CODE.mkdir(parents=True)
    (BUILD / "places").write_text("\n".join(places))
    (BUILD / "asked.json").write_text(json.dumps(asked))
    (BUILD / "met").write_bytes(met)
    return asked


def missed(asked: dict[str, list[str]]) -> dict[str, list[tuple[str, int]]]:
    """The questions of each module, and whether each is answered; the others are written to missed.txt."""
    met = iter((BUILD / "met").read_bytes())
    found = {name: [(text, next(met)) for text in texts] for name, texts in asked.items()}
    lines = (f"{name}:{text}\n" for name, texts in found.items() for text, is_met in texts if not is_met)
    (BUILD / "missed.txt").write_text("".join(lines))
    return found


def begin() -> None:
    """Let modules of the package answer, in this process."""
    lines = (line.split() for line in Path(os.environ["CONDITIONS"]).read_text().splitlines())
    places = {name: (int(first), int(count)) for name, first, count in lines}
    sys.meta_path.insert(0, Finder(Path(os.environ["CONDITIONS"]).with_name("met"), places))  # type: ignore[arg-type]
