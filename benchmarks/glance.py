"""The results of the models at a glance: how many times as long as onegraph each peer takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, fsum, log
from typing import Any, NamedTuple

from .machine import is_idle

# The peers in the order of their columns: the contender of a row, and its title.
PEERS = {
    "ONNX Runtime": "ONNX Runtime",
    "OpenVINO": "OpenVINO",
    "torch eager": "PyTorch eager",
    "torch compiled": "PyTorch compiled",
}
# What the environment of a benchmark calls the packages of the peers.
PACKAGES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}
# What compiles in the benchmark of torch.compile; the last one of a row counts, which has frozen weights.
COMPILED = {"Inductor": "torch compiled", "Inductor, freezing": "torch compiled"}
MISSING = "-"


class Line(NamedTuple):
    """A model of one data type and batch: for each peer that ran it, its time divided by that of onegraph."""

    model: str
    dtype: str
    batch: str
    ratios: dict[str, float]
    disturbed: bool = False


def lines(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """A line for each row of a benchmark of models, in their order."""
    read = []
    for row in rows:
        *model, dtype, batch = row["case"].split(", ")
        peers = {COMPILED.get(contender, contender): speed for contender, speed in row["speed"].items()}
        ratios = {peer: 1 / peers[peer] for peer in PEERS if peer in peers}
        read.append(Line(", ".join(model), dtype, batch.removeprefix("batch "), ratios, not is_idle(row["load"])))
    return read


def means(parts: Sequence[Line]) -> dict[str, float]:
    """For each peer, the geometric mean of the lines that have it."""
    by_peer = {peer: [line.ratios[peer] for line in parts if peer in line.ratios] for peer in PEERS}
    return {peer: geometric_mean(ratios) for peer, ratios in by_peer.items() if ratios}


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of at least one number above zero."""
    return exp(fsum(map(log, ratios)) / len(ratios))


def label(ratio: float | None) -> str:
    """A ratio with two significant digits."""
    if ratio is None:
        return MISSING
    return next((f"{ratio:.{digits}f}" for digits, end in ((2, 0.995), (1, 9.95)) if ratio < end), f"{ratio:.0f}")


def moment(environment: Mapping[str, Any]) -> str:
    """The version of onegraph that was measured, and the date."""
    return f"{environment['onegraph']}, {environment['date']}" if "date" in environment else environment["onegraph"]


def day(environment: Mapping[str, Any]) -> str:
    """The date of the measurement; where results have no date, the commit that was measured, or the version."""
    version = str(environment["onegraph"])
    return str(environment.get("date") or version.partition("(")[2].rstrip(")") or version)


def processors(environment: Mapping[str, Any]) -> str:
    """The number and the kind of the processors."""
    return f"{environment['processors']} processors of an {environment['cpu']} ({environment['isa']})"


def machine(environment: Mapping[str, Any]) -> str:
    """The machine, and the versions of the library and of the peers."""
    versions = {"oneDNN": environment["library"]}
    versions |= {title: environment[name] for name, title in PACKAGES.items() if name in environment}
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{processors(environment)} with {environment['threads']} threads: {named}"
