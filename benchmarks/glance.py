"""The results of the models at a glance: how many times as long as onegraph each peer takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, fsum, log
from types import MappingProxyType
from typing import Any, NamedTuple

from .machine import is_idle

# The peers in the order of their columns: the contender of a row, and its title.
PEERS = {
    "ONNX Runtime": "ONNX Runtime",
    "OpenVINO": "OpenVINO",
    "torch eager": "PyTorch eager",
    "torch compiled": "PyTorch compiled",
}
# Those that only the benchmark of torch.compile has; the chart leaves them out.
COMPILERS = {"Inductor": "Inductor", "Inductor, freezing": "Inductor, frozen weights"}
TITLES = PEERS | COMPILERS
# What the environment of a benchmark calls the packages of the peers.
PACKAGES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}
MISSING = "-"
NOTE = (
    "Each number is the peer's time divided by the time of onegraph: more than 1 means that onegraph is faster. It is "
    "the median over rounds in which all contenders take turns. A number for two batches is the "
    "geometric mean of theirs, and a mean is that of all models, data types and batches that the peer ran. "
    f"`{MISSING}` means that the peer cannot run the model or is not measured: ONNX Runtime has few bf16 kernels for "
    "CPUs, and PyTorch quantizes with another package."
)
MARK = " \\*"
DISTURBED = "\\* Something else ran on the machine during this row."


class Line(NamedTuple):
    """A model of one data type and batch: for each peer that ran it, its time divided by that of onegraph."""

    model: str
    dtype: str
    batch: str
    ratios: dict[str, float]
    disturbed: bool = False


def lines(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """A line for each row of a benchmark of models, in their order."""
    found = []
    for row in rows:
        *model, dtype, batch = row["case"].split(", ")
        ratios = {peer: 1 / row["speed"][peer] for peer in TITLES if peer in row["speed"]}
        found.append(Line(", ".join(model), dtype, batch.removeprefix("batch "), ratios, not is_idle(row["load"])))
    return found


def means(parts: Sequence[Line]) -> dict[str, float]:
    """For each peer, the geometric mean of the lines that have it."""
    given = {peer: [line.ratios[peer] for line in parts if peer in line.ratios] for peer in TITLES}
    return {peer: exp(fsum(map(log, ratios)) / len(ratios)) for peer, ratios in given.items() if ratios}


def over_batches(parts: Iterable[Line]) -> list[Line]:
    """A line for each model and data type: the geometric means over its batches."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in parts:
        groups.setdefault((line.model, line.dtype), []).append(line)
    return [
        Line(*name, " and ".join(line.batch for line in group), means(group), any(line.disturbed for line in group))
        for name, group in groups.items()
    ]


def by_precision(parts: Iterable[Line]) -> list[list[Line]]:
    """The lines of each data type, those of training steps apart."""
    groups: dict[tuple[bool, str], list[Line]] = {}
    for line in parts:
        groups.setdefault((line.model.endswith("training step"), line.dtype), []).append(line)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0], key[1] != "f32"))]


def label(ratio: float | None) -> str:
    """A ratio with two significant digits."""
    if ratio is None:
        return MISSING
    return next((f"{ratio:.{digits}f}" for digits, end in ((2, 0.995), (1, 9.95)) if ratio < end), f"{ratio:.0f}")


def table(
    parts: Sequence[Line], whole: Sequence[Line], others: Mapping[str, Sequence[Line]] = MappingProxyType({})
) -> Iterator[str]:
    """The lines of a markdown table, with the means over ``whole``, and over each of ``others``."""
    mean = means(whole)
    yield f"| model | data type | batch | {' | '.join(TITLES[peer] for peer in mean)} |"
    yield f"| --- | --- | --- | {' | '.join('---:' for _ in mean)} |"
    for model, dtype, batch, ratios, disturbed in parts:
        numbers = " | ".join(label(ratios.get(peer)) for peer in mean)
        yield f"| {model}{MARK * disturbed} | {dtype} | {batch} | {numbers} |"
    yield f"| **geometric mean** | | | {' | '.join(f'**{label(ratio)}**' for ratio in mean.values())} |"
    for name, lines in others.items():
        found = means(lines)
        found.setdefault("torch compiled", found.get("Inductor", 0.0))
        numbers = " | ".join(f"**{label(found.get(peer) or None)}**" for peer in mean)
        yield f"| **{name}**, mean of {len(lines)} | | | {numbers} |"


def notes(parts: Iterable[Line]) -> str:
    """How to read a table."""
    return f"{NOTE} {DISTURBED}" if any(line.disturbed for line in parts) else NOTE


def measured_on(environment: Mapping[str, Any]) -> str:
    """The machine, and the versions of onegraph and its peers."""
    versions = {"onegraph": f"{environment['onegraph']} on oneDNN {environment['library']}"}
    versions |= {title: environment[name] for name, title in PACKAGES.items() if name in environment}
    date = f" on {environment['date']}" if "date" in environment else ""
    return (
        f"{environment['processors']} processors of an {environment['cpu']} ({environment['isa']}) with "
        f"{environment['threads']} threads{date}: "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    )
