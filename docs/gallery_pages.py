"""Writes the pages of the examples: ``gallery_pages.py EXAMPLE FOLDER`` runs one example and records its graphs."""

from __future__ import annotations

import ast
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import onegraph as og
from onegraph import view

EXAMPLES = Path(__file__).parents[1] / "examples"
FIRST = "getting_started"
# examples of packages that the extra `docs` does not install
ELSEWHERE = {"batch_inference_ray", "data_parallel", "faster_resnet_torch", "service_ray"}
# Arguments of examples that run for more than a few seconds without them.
ARGUMENTS = {name: ["--quick"] for name in ("digits_resnet", "language_model", "quantize_digits", "text_transformer")}
INTRO = """# Gallery

Every example is one short program that runs as it is, with `python examples/getting_started.py` in a checkout. The
pictures show the largest graph that an example compiles, or what the example draws. Ops with one colour and one number
are one partition.
"""


@dataclass(frozen=True)
class Run:
    """One run of an example: the text that it printed, and the names of its pictures."""

    name: str
    doc: str
    printed: str
    pictures: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring."""
        return self.doc.partition("\n\n")[0].replace("\n", " ")


def examples_shown() -> list[str]:
    """The names of the examples that the gallery shows, in order."""
    return sorted({path.stem for path in EXAMPLES.glob("*.py")} - ELSEWHERE, key=lambda name: (name != FIRST, name))


def write_gallery(folder: Path, names: Sequence[str]) -> None:
    """Run the examples; write the pictures and the page of each, and the page that shows all."""
    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda name: _run(name, folder), names))
    for run in runs:
        (folder / f"{run.name}.md").write_text(_page(run))
    cards = "\n".join(_card(run) for run in runs)
    listed = "\n".join(names)
    (folder / "index.md").write_text(
        f"{INTRO}\n````{{container}} gallery\n{cards}````\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )


def _run(name: str, folder: Path) -> Run:
    """Run an example in a process and a folder of its own, and move its pictures to ``folder``."""
    path = EXAMPLES / f"{name}.py"
    with TemporaryDirectory() as place:
        command = [sys.executable, __file__, str(path), str(folder.resolve()), *ARGUMENTS.get(name, ())]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{path} fails:\n{done.stderr}")
        drawn = [Path(picture.replace(folder / picture.name)) for picture in sorted(Path(place).glob("*.png"))]
        printed = re.sub(r"^.*\r", "", done.stdout.replace(f"{Path(place).resolve()}/", ""), flags=re.MULTILINE)
    # The first picture is that of the card.
    pictures = dict.fromkeys([f"{name}.png", f"{name}.svg", *(picture.name for picture in drawn)])
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return Run(name, doc, printed.strip(), tuple(one for one in pictures if (folder / one).exists()))


def _record(path: Path, folder: Path) -> None:
    """Run an example in this process, and draw the largest graph that it compiles, if any."""
    with TemporaryDirectory() as place:
        with og.capture(Path(place) / "graphs"):
            runpy.run_path(str(path), run_name="__main__")
        compiled = [report.parent for report in Path(place).glob("graphs/*/report.txt")]
        graphs = {record: og.Graph.load(record / "graph.json") for record in sorted(compiled)}
        if graphs:
            largest = max(graphs, key=lambda record: len(graphs[record].ops))
            options = json.loads((largest / "options.json").read_text())
            report = graphs[largest].compile(**options).report()
            (folder / f"{path.stem}.svg").write_text(view.svg(graphs[largest], report, title=path.stem))


def _page(run: Run) -> str:
    # A click shows a large graph in its own size.
    pictures = [
        f"```{{image}} {picture}\n:alt: {_alt(run, picture)}\n:target: ../_images/{picture}\n```\n"
        for picture in run.pictures
    ]
    source = f"```{{literalinclude}} ../../examples/{run.name}.py\n:language: python\n```\n"
    arguments = " ".join(["", *ARGUMENTS.get(run.name, ())])
    title = f"## Output of `{run.name}.py{arguments}`\n" if arguments else "## Output\n"
    output = f"```text\n{run.printed}\n```\n"
    return "\n".join([f"# {run.name}.py\n", f"{run.doc}\n", *pictures, "## Source\n", source, title, output])


def _card(run: Run) -> str:
    shown = [f"[![{_alt(run, picture)}]({picture})]({run.name}.md)\n" for picture in run.pictures[:1]]
    if not shown:
        shown = [f"````none\n{run.printed}\n````\n".replace("````", "~~~")]
    return "\n".join(["```{container} card", *shown, f"[{run.name}.py]({run.name}.md)\n", run.summary, "```", ""])


def _alt(run: Run, picture: str) -> str:
    return f"The graph of {run.name}.py" if picture.endswith(".svg") else f"The picture that {run.name}.py draws"


if __name__ == "__main__":
    example, to = Path(sys.argv[1]), Path(sys.argv[2])
    sys.argv, sys.path[0] = [str(example), *sys.argv[3:]], str(example.parent)  # as if it were run itself
    _record(example, to)
