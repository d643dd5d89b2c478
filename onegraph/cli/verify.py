"""Implements ``onegraph verify``."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan, prod
from typing import TYPE_CHECKING, Any

import click

from .._util.counted import counted
from ..opset.shapes import known, known_dims
from .graph_source import GraphSource
from .once import OnceCommand
from .options import Compiling, InputData, bare_option, compiling, data, graph_file, json_option
from .terminal import dims, emit, print_rich, progress, table

if TYPE_CHECKING:
    from ..judging.judgement import Judgement
    from ..testing.tolerance import Comparison
    from ..tools.changed_ops import Unnoticed
    from ..tools.verify import Verification

SHOWN = 12  # ops
NOT_PROVEN = 3  # exit status
SHAPES = frozenset(["in_shapes", "mb"])  # options that do not change what a model computes


@click.command(cls=OnceCommand)
@graph_file
@data
@compiling
@bare_option
@json_option
def command(source: GraphSource, data: InputData, compiling: Compiling, bare: bool, as_json: bool) -> int:
    """Compare the results of FILE with those of an oracle. - is standard input.

    A model of ONNX is judged by ONNX Runtime, which runs the original file: with two sizes of open dims, with large and
    tiny numbers, zeros, NaN, infinities, equal rows and rows near zero, and with the same inputs again. Without ONNX
    Runtime, or with options that rewrite more than shapes, only the graph that the file was imported as is compared.

    A graph is compared with the numpy reference. Results may differ by the effect of rounding, which is measured by a
    run of the reference with a rounding error in every tensor. If a result differs by more, bisection finds the first
    wrong tensor of the graph, the op that wrote it and the ops that were fused with that op. Inputs that FILE marks as
    constant are constant here too. Variables have their first contents, and their next values are compared too.

    Random inputs are scaled so that results stay finite and in range. If the results agree, each op is changed in the
    reference: an attribute, the order of its inputs, or an operand by 10 %. A change that the comparison would not
    notice makes the result "not proven", and so does an output with too few finite elements.

    With --bare, the library as it is runs the graph, and its outputs are compared with the numpy reference.

    Exit status 0 if the results are right; 1 if one differs; 3 if all agree, and a graph is not proven.
    """
    if bare:
        return _verify_bare(source, data, compiling, as_json)
    judgement = _judged(source, data, compiling)
    graph = source.load_to_run()
    if judgement is not None and any(not known(tensor.shape) for tensor in graph.inputs.values()):
        return _end(judgement, None, as_json)
    with progress("verify") as tell:
        inputs = data.read(graph, tell, calibrated=True)
        from ..tools.verify import verify  # last, because it needs the library

        verification = verify(
            graph, inputs, **compiling._asdict(), progress=lambda what, done, total: tell(done, total, what)
        )
    data.write(verification.results)
    return _end(judgement, verification, as_json)


def _verify_bare(source: GraphSource, data: InputData, compiling: Compiling, as_json: bool) -> int:
    """Compare the results of the library as it is, print what differs, and return the exit status."""
    from ..serialize import with_known
    from ..tools.bare import compared, run_bare

    graph = source.load_to_run()
    with progress("verify") as tell:
        graph, inputs = with_known(graph, data.read(graph, tell, calibrated=True))
        bare = run_bare(graph, inputs, policy=compiling.policy, fpmath_mode=compiling.fpmath_mode)
        mode = compiling.fpmath_mode or "strict"
        outputs = compared(graph, inputs, bare.results, mode, data.seed) if bare.results else ()
    data.write(bare.results)
    agrees = bool(outputs) and all(output.agrees for output in outputs)
    if as_json:
        emit({"agrees": agrees, "outputs": [asdict(output) for output in outputs], **bare.to_dict()})
    elif outputs:
        columns = ("output", "dtype", "shape=", "compared>", "max error>", "allowed>", "verdict")
        print_rich(table(columns, [_row(output) for output in outputs]), bare.text())
    else:
        click.echo(bare.text())
    return 0 if agrees else 1


def _judged(source: GraphSource, data: InputData, compiling: Compiling) -> Judgement | None:
    """The judgement of a model of ONNX; None for other files, and for models that options rewrite."""
    if source.path == "-" or not source.is_onnx() or not SHAPES.issuperset(source.rewrites):
        return None
    graph = source.load()
    from ..tools.verify_model import verify_model  # last, because it needs the package onnx

    shapes = {name: known_dims(tensor.shape) for name, tensor in graph.inputs.items() if known(tensor.shape)}
    inputs = None if data.inputs is None else data.read(graph)
    return verify_model(source.path, inputs=inputs, shapes=shapes, seed=data.seed, **compiling._asdict())


def _end(judgement: Judgement | None, verification: Verification | None, as_json: bool) -> int:
    """Print what was found, and return the exit status."""
    if as_json:
        emit(
            {
                **({} if verification is None else _facts(verification)),
                **({} if judgement is None else _model(judgement)),
            }
        )
    else:
        if judgement is not None:
            print_rich(f"model: {judgement}")
        if verification is not None:
            if judgement is not None:
                print_rich("")
            _show(verification)
    if (judgement is not None and judgement.findings) or (verification is not None and not verification.agrees):
        return 1
    right = judgement is not None and judgement.judged
    return 0 if right or (verification is not None and verification.proven) else NOT_PROVEN


def _model(judgement: Judgement) -> dict[str, Any]:
    return {
        "model": {
            "right": bool(judgement),
            "oracle": judgement.oracle,
            "compared": judgement.compared,
            "contents": list(judgement.contents),
            "findings": [asdict(finding) for finding in judgement.findings],
            "notes": list(judgement.notes),
        }
    }


def _facts(verification: Verification) -> dict[str, Any]:
    return {
        "agrees": verification.agrees,
        "proven": verification.proven,
        "outputs": [asdict(output) for output in verification.outputs],
        "first": None if verification.first is None else asdict(verification.first),
        "unnoticed": [asdict(one) for one in verification.unnoticed],
        "changed": verification.changed,
        "provable": verification.provable,
        "report": verification.report.to_dict(),
    }


def _show(verification: Verification) -> None:
    columns = ("output", "dtype", "shape=", "compared>", "max error>", "allowed>", "verdict")
    texts = []
    numpy = [partition for partition in verification.report.partitions if partition.executor == "reference"]
    if numpy:
        ops = ", ".join(op for partition in numpy for op in partition.ops)
        texts.append(f"run by numpy itself, so that nothing is verified there: {ops}")
    if verification.first is not None:
        first = verification.first
        comparison = first.comparison
        together = [op for op in first.partition if op != first.op]
        fused = f", fused with {', '.join(together)}" if together else ""
        lines = [
            f"first difference: {first.op}{fused}, run by {first.executor or 'nobody'}",
            f"  tensor {comparison.name}: {comparison.dtype} {dims(comparison.shape)}, {_amount(comparison)}",
            f"  worst at {list(comparison.where)}: {comparison.got:.9g}, the reference has {comparison.expected:.9g}",
        ]
        if isnan(comparison.expected):
            lines.append("  oneDNN does not carry NaN through; --seed or --inputs may give numbers that lead to none")
        if first.alone is not None and together:
            verdict = "right" if first.alone else "wrong too"
            lines.append(f"  with --policy debug, where nothing is fused, it is {verdict}")
        texts.append("\n".join(lines))
    elif not verification.agrees:
        texts.append("no beginning of the graph is wrong by itself: the difference comes and goes")
    else:
        texts.append(_proof(verification))
    rows = [_row(output) for output in verification.outputs]
    print_rich(table(columns, rows), *texts)


def _row(comparison: Comparison) -> list[str]:
    size = prod(comparison.shape)
    share = f"in {comparison.wrong} of {size}" if comparison.wrong else "on average"
    agreed = "agrees" if comparison.is_proof else "not proven: too few elements are finite numbers"
    verdict = agreed if comparison.agrees else f"differs {share}, most at {list(comparison.where)}"
    compared = f"{100 * comparison.compared // size if size else 100} %"
    return [
        comparison.name,
        comparison.dtype,
        dims(comparison.shape),
        compared,
        f"{comparison.max_error:.3g}",
        f"{comparison.limit:.3g}",
        verdict,
    ]


def _proof(verification: Verification) -> str:
    """What the comparison would notice."""
    of = "" if verification.changed == verification.provable else f" of {verification.provable}, chosen at random"
    if not verification.computed:
        return "agrees, but is not proven: the library computes nothing"
    if not verification.unnoticed:
        return f"a change of any op would be noticed: tried with {counted(verification.changed, 'op')}{of}"
    return "\n".join(
        [
            f"agrees, but is not proven: changes of {counted(len(verification.unnoticed), 'op')} would not be noticed; "
            f"tried with {counted(verification.changed, 'op')}{of}",
            *(f"  {one.op}: {_reason(one)}" for one in verification.unnoticed[:SHOWN]),
            *(["  ..."] if len(verification.unnoticed) > SHOWN else []),
        ]
    )


def _reason(unnoticed: Unnoticed) -> str:
    if not unnoticed.change:
        return "all its results are equal, so that no change has an effect"
    if not unnoticed.output:
        return f"{unnoticed.change}: changes no output"
    return (
        f"{unnoticed.change}: {unnoticed.output} is off by {unnoticed.effect:.3g}, and {unnoticed.limit:.3g} is allowed"
    )


def _amount(comparison: Comparison) -> str:
    if not comparison.wrong:
        return f"off by {comparison.mean_error:.3g} on average, which is more than rounding does"
    return f"{comparison.wrong} of {prod(comparison.shape)} elements off by more than {comparison.limit:.3g}"
