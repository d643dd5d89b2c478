"""``python -m tests.release [--tag]``: check that every text names the version to release, and make the tag of it.

``make release`` runs the tests, the documentation and the wheel between the two.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

from onegraph import __version__

ROOT = Path(__file__).resolve().parents[1]
HEADING = re.compile(r"## (\S+) - (\d{4}-\d\d-\d\d)")


def violations(root: Path, version: str) -> list[str]:
    """What the changes and the citation say that is false of ``version``; each with the text that is expected."""
    headings = [line for line in (root / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    heading = HEADING.fullmatch(headings[0]) if headings else None
    if not heading or heading[1] != version:
        first = headings[0] if headings else "no heading"
        return [f"CHANGELOG.md: {first!r}; expected '## {version} - {date.today()}' as the first heading"]
    wrong = []
    if date.fromisoformat(heading[2]) > date.today():
        wrong.append(f"CHANGELOG.md: the date {heading[2]} is to come; expected today, {date.today()}, at the latest")
    citation = (root / "CITATION.cff").read_text().splitlines()
    for line in (f"version: {version}", f"date-released: {heading[2]}"):
        if line not in citation:
            wrong.append(f"CITATION.cff: the line '{line}' is missing")
    return wrong


def measured(root: Path) -> dict[str, list[str]]:
    """The versions of onegraph that the kept results measured, each with its benchmarks."""
    versions: dict[str, list[str]] = {}
    for name, result in json.loads((root / "benchmarks" / "results.json").read_text()).items():
        for version in dict.fromkeys(row.get("version") or result["environment"]["onegraph"] for row in result["rows"]):
            versions.setdefault(version, []).append(name)
    return versions


def git(*command: str) -> str:
    """The output of a command of git; raises CalledProcessError where it fails."""
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", action="store_true", help="make the annotated tag too")
    given = parser.parse_args()
    wrong = violations(ROOT, __version__)
    if changed := git("status", "--porcelain"):
        wrong.append(f"the tree has changes that are not committed:\n{changed}")
    if git("tag", "--list", f"v{__version__}"):
        wrong.append(f"the tag v{__version__} exists; raise the version in onegraph/_version.py")
    for line in wrong:
        print(line, file=sys.stderr)
    if len(versions := measured(ROOT)) > 1:
        listed = "; ".join(f"{version}: {', '.join(names)}" for version, names in versions.items())
        print(f"The benchmarks are of {len(versions)} versions, and make bench measures all again: {listed}")
    if wrong:
        return 1
    if given.tag:
        git("tag", "--annotate", f"v{__version__}", "--message", f"onegraph {__version__}")
        print(f"v{__version__}: push the tag, and upload dist/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
