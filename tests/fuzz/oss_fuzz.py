"""Writes the targets of OSS-Fuzz, and their corpora: ``python -m tests.fuzz.oss_fuzz FOLDER``.

For each kind, FOLDER gets ``fuzz_KIND.py``, which runs under atheris and takes the options of libFuzzer, and
``fuzz_KIND_seed_corpus.zip`` with the inputs of tests/corpus. Modules are imported by their names, so that a build
freezes all of them: ``compile_python_fuzzer fuzz_KIND.py --collect-all onegraph --collect-submodules tests``.
"""

import sys
import zipfile
from pathlib import Path

from .corpus import CORPUS, ROOT, inputs
from .kinds import KINDS

TARGET = """\"\"\"{tries}.\"\"\"
import sys

sys.path.append({root!r})
from tests.fuzz.coverage_guided import main

main({kind!r}, sys.argv)
"""


def write(kind, folder):
    """Write the target and the corpus of a kind; returns their paths."""
    script, packed = folder / f"fuzz_{kind}.py", folder / f"fuzz_{kind}_seed_corpus.zip"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(TARGET.format(kind=kind, root=str(ROOT), tries=KINDS[kind].tries))
    with zipfile.ZipFile(packed, "w") as file:
        for path in inputs(kind, CORPUS):
            file.writestr(zipfile.ZipInfo(path.name), path.read_bytes())
    return script, packed


if __name__ == "__main__":
    for name in KINDS:
        print(*write(name, Path(sys.argv[1])))
