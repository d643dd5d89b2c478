"""What has changed since the branch left the main branch, or in the last commit of the main branch itself.

``python -m tests.changed sources`` prints the C++ sources that have changed, or that include a header that has, at most
MOST; ``python -m tests.changed tests`` prints the files of tests of their kernels.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "onegraph" / "native" / "csrc"
MOST = 4  # sources, whose compilation with sanitizers takes a minute
REGISTERED = re.compile(r'const (?:Registered|RegisteredRows|Elementwise)<[^{]*>\s+\w+\s*\{\s*"(\w+)"')
# For sources without a kernel; the last one replays the corpus of the fuzzers.
OTHERS = ("tests/runtime/test_executable.py", "tests/kernels/test_kernels.py", "tests/house/test_fuzz.py")
DRAWN = "tests/kernels/test_drawn.py"  # draws uses of each kernel
MAIN = ("origin/HEAD", "origin/main", "main")


def git(*arguments: str) -> str:
    """What git prints; empty if it fails, as outside of a clone."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return "" if done.returncode else done.stdout.strip()


def base() -> str:
    """The commit that the files are compared with; empty if the clone has no earlier one."""
    head = git("rev-parse", "HEAD")
    for branch in MAIN:
        common = git("merge-base", branch, "HEAD")
        if common and common != head:
            return common
    return git("rev-parse", "HEAD~1")


def lines(folder: str, since: str | None = None) -> dict[str, set[int]]:
    """For each file of a folder that has changed, the numbers of the lines that are new or were changed."""
    since = base() if since is None else since
    return parsed(git("diff", "--unified=0", "--no-color", "--no-ext-diff", since, "--", folder)) if since else {}


def parsed(diff: str) -> dict[str, set[int]]:
    """The changed lines of a diff without context, by file."""
    found: dict[str, set[int]] = defaultdict(set)
    name = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            name = line[6:] if line.startswith("+++ b/") else ""
        elif name and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            found[name].update(range(start, start + count))
    return dict(found)


def sources(names: set[str], most: int = MOST) -> list[Path]:
    """The C++ sources among the changed files, and those that include a changed header, in themselves or in another.

    At most ``most`` of them, and those among the changed files first.
    """
    files = {path: path.read_text() for path in sorted(CSRC.rglob("*")) if path.suffix in (".cpp", ".h", ".inc")}
    reached = {path for path in files if str(path.relative_to(ROOT)) in names}
    while more := {
        path
        for path, text in files.items()
        if path not in reached and any(f'/{other.name}"' in text or f'"{other.name}"' in text for other in reached)
    }:
        reached |= more
    own = [path for path in reached if str(path.relative_to(ROOT)) in names]
    return sorted((path for path in reached if path.suffix == ".cpp"), key=lambda path: (path not in own, path))[:most]


def tests(changed: list[Path]) -> list[str]:
    """The files of tests of the kernels that sources register."""
    kernels = {kernel for path in changed for kernel in REGISTERED.findall(path.read_text())}
    found = {DRAWN} if kernels else set()
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        if tested := re.search(r"^TESTED_KERNELS = \((.*?)\)", path.read_text(), flags=re.MULTILINE | re.DOTALL):
            found |= {str(path.relative_to(ROOT))} if kernels & {*re.findall(r'"(\w+)"', tested[1])} else set()
    return sorted(found) or [*OTHERS]


if __name__ == "__main__":
    of_package = sources({*lines("onegraph/native/csrc")})
    chosen = tests(of_package) if sys.argv[1] == "tests" else [str(path.relative_to(CSRC)) for path in of_package]
    print(*chosen if of_package else [])
