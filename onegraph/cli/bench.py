"""Implements ``onegraph bench``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..serialize.document import FPMATH_MODES
from ..tools.machine import BUSY, Load, LoadWatch, described, lack_processors
from .bench_sizes import show_sizes, size_option
from .graph_source import GraphSource
from .once import OnceCommand
from .options import POLICIES, InputData, data, graph_file, json_option, trace_option, write_trace
from .terminal import duration, emit, print_rich, progress, table
from .value_types import Integer, Number

if TYPE_CHECKING:
    from ..ir.op import Array
    from ..runtime.profile import Profile
    from ..tools.bench import Measurement, Variant


class Several(click.ParamType[Any]):
    """Values of another click type, separated by commas."""

    def __init__(self, of: click.ParamType[Any]) -> None:
        self.of, self.name = of, f"{of.name}s"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[object, ...]:
        """The values without repetitions."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        return tuple(dict.fromkeys(self.of.convert(part, param, ctx) for part in parts))


@click.command(cls=OnceCommand)
@graph_file
@data
@click.option(
    "--policy",
    type=Several(click.Choice(POLICIES)),
    default="fusion",
    metavar="NAME,...",
    show_default=True,
    help="fusion or debug.",
)
@click.option(
    "--fpmath-mode",
    type=Several(click.Choice(FPMATH_MODES)),
    metavar="NAME,...",
    help="strict, bf16, f16, tf32 or any; by default the mode in FILE.",
)
@click.option(
    "--threads", type=Several(Integer(min=1)), metavar="N,...", help="Threads; by default the fastest number."
)
@click.option(
    "--reproducible",
    type=Several(click.Choice(["no", "yes"])),
    default="no",
    metavar="NAME,...",
    show_default=True,
    help="Whether bits are the same for any number of threads and any batch size: no or yes.",
)
@click.option(
    "--finite-math",
    type=Several(click.Choice(["no", "yes"])),
    default="no",
    metavar="NAME,...",
    show_default=True,
    help="Whether ops may lose NaN and infinities: no or yes.",
)
@click.option(
    "--fill",
    type=Integer(min=-(2**63), max=2**63 - 1),
    metavar="N",
    help="Set every input element to N, except s32 and s64; benchdnn uses 128.",
)
@click.option("--in-place", is_flag=True, help="Write results over inputs where oneDNN allows it, like benchdnn.")
@click.option("--no-fallback", "fallback", is_flag=True, default=True, flag_value=False, help="Never run ops in numpy.")
@click.option("--seconds", type=Number(min=0, max=3600), default=3.0, show_default=True, help="Time to measure.")
@click.option(
    "--runs", type=Integer(min=1, max=10**7), default=10_000, show_default=True, help="Maximum for each variant."
)
@size_option
@trace_option
@json_option
def command(
    source: GraphSource,
    data: InputData,
    policy: tuple[str, ...],
    fpmath_mode: tuple[str, ...] | None,
    threads: tuple[int, ...] | None,
    reproducible: tuple[str, ...],
    finite_math: tuple[str, ...],
    fill: int | None,
    in_place: bool,
    fallback: bool,
    seconds: float,
    runs: int,
    sizes: tuple[tuple[str, list[int]], ...],
    trace: str | None,
    as_json: bool,
) -> None:
    """Time the graph in FILE, and each of its partitions. - is standard input.

    Several values of --policy, --fpmath-mode, --threads, --reproducible and --finite-math are measured in all
    combinations, round by round, and compared with the first:

    \b
    onegraph bench graph.json --policy fusion,debug --threads 1,2

    A run uses arrays that are bound beforehand, and is timed in C, as in benchdnn, whose min and avg times are the
    first and third here; a call from Python takes 0.1 us more. Inputs that FILE marks as constant are constant here
    too. --fill 128 --in-place measures like benchdnn: values matter for ops that branch on them, and results written
    over inputs are already in the cache. --json prints the time of every run in seconds.

    --size calls a graph with unknown dims for several sizes, and says what was compiled for each:

    \b
    onegraph bench model.onnx --size batch=1,2 --size tokens=16,40

    If something else runs on the machine meanwhile, bench says what. A variant whose threads had to share processors
    has no ratio.
    """
    graph = source.load_to_run()
    if trace is not None:
        source.keep("--trace", trace, graph)
    if sizes:
        variants = _variants(policy, fpmath_mode, threads, reproducible, finite_math, fallback)
        refused = {"--inputs": data.inputs, "--outputs": data.outputs, "--fill": fill is not None}
        refused |= {"--in-place": in_place, "--trace": trace}
        show_sizes(graph, sizes, variants, refused, as_json, seconds=seconds, runs=runs, seed=data.seed)
        return
    with progress("bench") as tell:
        watch = LoadWatch()
        inputs = data.read(graph, tell)
        if fill is not None:
            for values in inputs.values():
                _fill(values, fill)
        from ..tools.bench import PROFILED, bench  # last, because it needs the library

        variants = _variants(policy, fpmath_mode, threads, reproducible, finite_math, fallback)
        untouched = {name: array.copy() for name, array in inputs.items()} if in_place else inputs
        measurements = bench(
            graph,
            inputs,
            variants,
            seconds=seconds,
            runs=runs,
            in_place=in_place,
            progress=lambda done, total: tell(done, total, "bench"),
        )
        tell(0, 0, "profile")
        inputs = {port.name: untouched[port.name] for port in measurements[0].model.inputs}
        count, named = min(PROFILED, runs), trace is not None
        profiles = [one.model.profile(*inputs.values(), runs=count, implementations=named) for one in measurements]
        load = watch.load()
    if trace is not None:
        write_trace(trace, {str(one.variant): profile for one, profile in zip(measurements, profiles, strict=True)})
    if data.outputs is not None:
        data.write(measurements[0].model._run_by_name(inputs))
    if as_json:
        emit([_facts(one, profile, load) for one, profile in zip(measurements, profiles, strict=True)])
    else:
        _show(measurements, profiles, load)


def _variants(
    policy: tuple[str, ...],
    fpmath_mode: tuple[str, ...] | None,
    threads: tuple[int, ...] | None,
    reproducible: tuple[str, ...],
    finite_math: tuple[str, ...],
    fallback: bool,
) -> list[Variant]:
    """All combinations of the values of the options."""
    from ..tools.bench import Variant

    options = itertools.product(policy, fpmath_mode or (None,), threads or (None,), reproducible, finite_math)
    return [
        Variant(name, mode, count, fallback, bits == "yes", finite == "yes")
        for name, mode, count, bits, finite in options
    ]


def _fill(values: Array, number: int) -> None:
    """Set all elements to a number, which wraps around as in C++; s32 and s64 may be shapes and stay unchanged."""
    if values.dtype.kind not in "ib" or values.dtype.itemsize == 1:
        values[...] = np.asarray(number).astype(values.dtype)


def _facts(measurement: Measurement, profile: Profile, load: Load) -> dict[str, object]:
    return {
        "policy": measurement.variant.policy,
        "fpmath_mode": measurement.model.report().fpmath_mode,
        "threads": measurement.variant.threads,
        "reproducible": measurement.variant.reproducible,
        "finite_math": measurement.variant.finite_math,
        "min": measurement.min,
        "median": measurement.median,
        "avg": measurement.mean,
        "runs": len(measurement.samples),
        "compile": measurement.compile_seconds,
        "load": load,
        "lacked_processors": lack_processors(load, measurement.threads),
        "samples": list(measurement.samples),
        "profile": profile.to_dict(),
        "report": measurement.model.report().to_dict(),
    }


def _show(measurements: list[Measurement], profiles: list[Profile], load: Load) -> None:
    slowed = [lack_processors(load, one.threads) for one in measurements]
    titles = ["variant", "min>", "median>", "avg>", "runs>", "compile>"]
    rows = []
    for measurement, is_slowed in zip(measurements, slowed, strict=True):
        times = [duration(seconds) for seconds in (measurement.min, measurement.median, measurement.mean)]
        row = [str(measurement.variant), *times, f"{len(measurement.samples):,}", duration(measurement.compile_seconds)]
        if len(measurements) > 1:
            no_ratio = slowed[0] or is_slowed
            row += (
                ["-", "-"]
                if no_ratio
                else [ratio(measurement.min, measurements[0].min), ratio(measurement.median, measurements[0].median)]
            )
        rows.append(row)
    several = ["min ratio>", "median ratio>"] if len(measurements) > 1 else []
    parts = [f"{one.variant}: {profile}" for one, profile in zip(measurements, profiles, strict=True)]
    warnings = _warnings(measurements, slowed, load)
    print_rich(table(titles + several, rows), *([warnings] if warnings else []), *parts)


def _warnings(measurements: list[Measurement], slowed: list[bool], load: Load) -> str:
    """Sentences that say what else ran on the machine, and whose times are too long; empty if there is nothing."""
    busy = f"The machine was busy: something else used {described(load)}." if load["all"] >= BUSY else ""
    names = "; ".join(str(one.variant) for one, is_slowed in zip(measurements, slowed, strict=True) if is_slowed)
    short = f"Threads without a processor of their own, so times that are too long: {names}." if names else ""
    return "\n".join(filter(None, (busy, short)))


def ratio(seconds: float, base: float) -> str:
    """A ratio of times with two decimals; a small one with two digits."""
    quotient = seconds / base
    return f"{quotient:.2f}" if quotient >= 0.1 else f"{quotient:.2g}"
