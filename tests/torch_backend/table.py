"""``python -m tests.torch_backend.table RESULTS.json``: the page of models, from the results of ``run_models``."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from .run_models import is_right

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "torch-models.md"
HEAD = """# Models of PyTorch

`make test-torch` compiles these models with random weights, in f32 and bf16, and compares the results with eager's. The
columns *error* have the distance of compiled results from those in float64, divided by the distance of eager's results;
a distance is the root mean square of the differences. No model has a graph break unless the column *graphs* counts more
than one; `torch._dynamo.config.allow_rnn` is set, because otherwise each LSTM ends a graph. The last column has the ops
that PyTorch runs, with counts. An empty field was not run.

{summary}
"""
TABLE = """
| model | error f32 | error bf16 | graphs | partitions | ops here | multiply-adds in oneDNN | ops in PyTorch |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
ROWS = 40  # of a table, so that its heads are near
DTYPES = ("float32", "bfloat16")


def row(name: str, runs: dict[str, Any]) -> str:
    """The row of one model; what ran where is that of f32."""
    errors = " | ".join(
        "" if (one := runs.get(dtype)) is None else one.get("failed") or one.get("impossible") or f"{one['error']:.1f}"
        for dtype in DTYPES
    )
    first = runs.get("float32", {})
    if "graphs" not in first:
        return f"| {name} | {errors} | | | | | |\n"
    left = ", ".join(f"{call['count']} `{call['op'].removeprefix('aten.')}`" for call in first["left"])
    numbers = f"{first['graphs']} | {first['partitions']} | {first['taken']} | {first['share']:.1%}"
    return f"| {name} | {errors} | {numbers} | {left} |\n"


def tables(models: dict[str, dict[str, Any]]) -> str:
    """The tables of the models ``FAMILY: NAME``, by family."""
    text = []
    for family, names in groupby(sorted(models), lambda name: name.partition(": ")[0]):
        text.append(f"\n## {family}\n")
        rows = [row(name.partition(": ")[2], models[name]) for name in names]
        text += [TABLE + "".join(rows[first : first + ROWS]) for first in range(0, len(rows), ROWS)]
    return "".join(text)


def main() -> None:
    models: dict[str, dict[str, Any]] = {}
    for key, one in json.loads(Path(sys.argv[1]).read_text()).items():
        family, name, dtype = key.split("/")
        models.setdefault(f"{family}: {name}", {})[dtype] = one
    agreeing = [
        f"{sum(map(is_right, found))} of {len(found)} models agree in {label}"
        for dtype, label in zip(DTYPES, ("f32", "bf16"), strict=True)
        if (
            found := [
                runs[dtype] for runs in models.values() if "impossible" not in runs.get(dtype, {"impossible": ""})
            ]
        )
    ]
    PAGE.write_text(HEAD.format(summary=", ".join(agreeing) + ".") + tables(models))


if __name__ == "__main__":
    main()
