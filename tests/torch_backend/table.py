"""``python -m tests.torch_backend.table RESULTS.json``: the page of models, from the results of ``run_models``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "torch-models.md"
HEAD = """# Models of PyTorch

`make test-torch` compiles these models with random weights, in f32, and compares the results with eager's. The column
*error* is the distance of compiled results from those in float64, divided by the distance of eager's results. The last
column has the ops that PyTorch runs, with counts. No model has a graph break unless the column *graphs* counts more
than one.

| model | error | graphs | partitions | ops here | multiply-adds in oneDNN | ops in PyTorch |
| --- | --- | --- | --- | --- | --- | --- |
"""


def row(key: str, one: dict[str, object]) -> str:
    family, name, _ = key.split("/")
    if "failed" in one:
        return f"| {family}: {name} | {one['failed']} | | | | | |\n"
    left = ", ".join(f"{call['count']} `{call['op'].removeprefix('aten.')}`" for call in one["left"])
    numbers = f"{one['error']:.1f} | {one['graphs']} | {one['partitions']} | {one['taken']} | {one['share']:.1%}"
    return f"| {family}: {name} | {numbers} | {left} |\n"


def main() -> None:
    found = json.loads(Path(sys.argv[1]).read_text())
    rows = [row(key, one) for key, one in sorted(found.items()) if key.endswith("float32")]
    PAGE.write_text(HEAD + "".join(rows))


if __name__ == "__main__":
    main()
