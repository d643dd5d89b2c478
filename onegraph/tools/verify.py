"""Compares the results of a graph with the numpy reference, and finds the first op that differs.

Agreement is a proof only if the comparison would notice a wrong op. So each op is changed in the reference, and the
changed results must differ by more than the comparison allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from .._util.literals import FpmathMode, Policy
from .._util.records import record
from .._util.validation import callback, integer
from ..compiler.report import Report
from ..graph import Graph
from ..ir.op import Array
from ..lowering.emitter import KEPT
from ..reference import run
from ..runtime.executable import Executable
from ..serialize import with_known
from ..testing.tolerance import Comparison
from .changed_ops import Unnoticed, unnoticed_changes
from .expected_results import Progress, ReferenceOracle
from .first_difference import Difference, first_difference

MUTATION_SECONDS = 1.0  # at least; for graphs whose reference takes longer, as long as the reference takes


@record(frozen=True)
class Verification:
    """The result of ``verify``.

    Attributes:
        outputs: each output compared with its reference, in the graph's order, and the next values of variables.
        first: the first difference; None if there is none.
        results: the results of the library, by name of output, and the next values of variables.
        report: the report of the executable.
        unnoticed: changes of ops that the comparison would not notice.
        changed: number of ops that were changed to find that out; fewer than all in large graphs.
        provable: number of ops that outputs depend on.
    """

    outputs: tuple[Comparison, ...]
    first: Difference | None
    results: Mapping[str, Array]
    report: Report
    unnoticed: tuple[Unnoticed, ...]
    changed: int
    provable: int

    @property
    def agrees(self) -> bool:
        """Whether every output agrees with the reference."""
        return all(output.agrees for output in self.outputs)

    @property
    def computed(self) -> bool:
        """Whether the library computed something, so that numpy was not compared with itself."""
        partitions = self.report.partitions
        return not partitions or any(partition.executor not in ("reference", "host") for partition in partitions)

    @property
    def proven(self) -> bool:
        """Whether every output agrees, and the comparison would have noticed wrong ops."""
        compared = all(output.is_proof for output in self.outputs)
        return self.agrees and compared and not self.unnoticed and self.computed


def verify(
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    policy: Policy = "fusion",
    fpmath_mode: FpmathMode | None = None,
    threads: int | None = None,
    fallback: bool = True,
    reproducible: bool = False,
    finite_math: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Verification:
    """Run a graph on the library and in numpy, and find the first difference if the outputs differ.

    Inputs that the file of the graph marks as constant are constants here, because the library then runs other code.
    Variables have their first contents, and their next values are compared like outputs. If a variable is all zeros, as
    a bias and the state of an optimizer are, variables have the contents after a first call, because an op on zeros
    proves nothing. Ops of constant numbers alone are not changed: they run in numpy, at compilation.

    Args:
        graph: the graph.
        inputs: an array for each input, by name.
        policy, fpmath_mode, threads, fallback, reproducible, finite_math: as for ``Graph.compile``.
        seed: seed of the disturbance that decides how large errors may be.
        progress: called with the current activity, the amount done and the total.

    Raises:
        UnsupportedError: the reference cannot compute an op; or ``fallback`` is False, and the library does not run an
            op.
        ArgumentError: an array does not fit its input, or an option is wrong.
    """

    def compiled(of: Graph, policy: Policy) -> Executable:
        return of.compile(
            policy=policy,
            fpmath_mode=fpmath_mode,
            threads=threads,
            fallback=fallback,
            reproducible=reproducible,
            finite_math=finite_math,
        )

    tell = callback("progress", progress)
    start = integer("seed", seed, 0, 2**64 - 1, "a number from 0")
    graph, inputs = with_known(graph, inputs)
    model = compiled(graph, policy)
    step, contents = graph._as_step(), _contents(graph, inputs)
    model.variables.update(contents)
    oracle = ReferenceOracle(step, {**inputs, **contents}, model.report().fpmath_mode, start, tell)
    results = model._run_by_name(inputs)
    results.update((output, model.variables[name]) for name, output in graph._next.items())
    wanted = {tensor.id for tensor in step.outputs.values()}
    started = perf_counter()
    expected = oracle.expected(wanted)
    seconds = max(MUTATION_SECONDS, perf_counter() - started)
    outputs = oracle.compare(step, results, expected)
    first, changed = None, 0
    unnoticed: list[Unnoticed] = []
    ops = _ops_of_outputs(step)
    if all(output.agrees for output in outputs):
        unnoticed, changed = unnoticed_changes(oracle, ops, expected, seconds)
    else:
        first = first_difference(oracle, lambda of: compiled(of, policy), lambda of: compiled(of, "debug"))
    return Verification(outputs, first, results, model.report(), tuple(unnoticed), changed, len(ops))


def _contents(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The contents of the variables: the first ones, or those after a call of the reference if some are all zeros."""
    first = dict(graph._initial)
    if all(np.any(first[name]) for name in graph._next):
        return first
    results = run(graph._as_step(), {**inputs, **first})
    following = {name: results[output] for name, output in graph._next.items()}
    known = all(np.isfinite(array.astype(np.float64)).all() for array in following.values())
    return {**first, **following} if known else first


def _ops_of_outputs(graph: Graph) -> list[int]:
    """The places of the ops that an output depends on, without those that compute a number from constant numbers.

    Such a number, as a rate times a decay, may be too small to show in a result.
    """
    needed = {tensor.id for tensor in graph.outputs.values()}
    known = {tensor.id for tensor in graph._tensors if tensor.value is not None and tensor.value.size == 1}
    for op in graph.ops:
        if op.kind not in KEPT and op.inputs and all(tensor.id in known for tensor in op.inputs):
            known.update(tensor.id for tensor in op.outputs)
    needed -= known
    places = []
    for place, op in reversed([*enumerate(graph.ops)]):
        if any(tensor.id in needed for tensor in op.outputs):
            places.append(place)
            needed.update(tensor.id for tensor in op.inputs if tensor.id not in known)
    return places[::-1]
