"""Programs that ask the records of faults: fusions that are refused or cut, faults of users, unknown sizes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from onegraph.faults import execution
from onegraph.faults.capabilities import has_kernel
from onegraph.faults.cpus import EVERY_ISA, computes
from onegraph.faults.fusions import FUSIONS, strided, wrong_fusion, wrong_strides
from onegraph.faults.measured import Score
from onegraph.faults.ops.added import faults_of_users
from onegraph.faults.ops.copied_sources import FAULTS as COPIED
from onegraph.faults.slow_fusions import FAULTS as SLOW_FUSIONS
from onegraph.faults.slow_fusions import slow_fusion
from onegraph.faults.user_faults import UserFault
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType

from .fault_subjects import OF_SINGLE_OPS, calls, fused, graph_of, wired
from .small_programs import program

VERSIONS = (3, 2, 0), (3, 6, 0), (3, 10, 1), (3, 13, 0)  # one of which was never tried


@program
def _fusions_by_version() -> str:
    """Which examples of fused ops a version runs, which it cuts, and where."""
    made = []
    for fault in (*FUSIONS, *strided.FAULTS, *SLOW_FUSIONS):
        for example in fault.examples:
            subject = fused(graph_of(example.build))
            for version in VERSIONS:
                cut = slow_fusion(subject, version)
                made.append(f"{wrong_fusion(subject, version)} {wrong_strides(subject, version)} {cut}")
    return "\n".join(made)


@program
def _parts_of_versions() -> str:
    """Which weights crash the search of a version, which ops it has kernels for, and which types a CPU computes in."""
    made = []
    for example in execution.UNPRODUCED_WEIGHTS.examples:
        nodes = [(one.kind, *([end.id for end in side] for side in one[1:])) for one in wired(graph_of(example.build))]
        made += [f"{execution.unproduced_weights(nodes, version)}" for version in VERSIONS]
    made += [f"{kind} {[has_kernel(kind, version) for version in VERSIONS]}" for kind in BASE]
    made += [f"{dtype} {[computes(dtype, isa) for isa in (*EVERY_ISA, 'sse', '')]}" for dtype in DataType]
    return "\n".join(made)


@program
def _words_of_faults() -> str:
    """What a record says of its examples: in short and in detail, and what comes first of several."""
    made = []
    for fault in (*FUSIONS, *COPIED):
        made.append(f"{fault!r} {fault.told}")
        for example in fault.examples:
            graph = graph_of(example.build)
            asked: list[Any] = [fused(graph)] if fault in [*FUSIONS] else calls(graph)
            for one in asked:
                made.append(f"{fault.told_of(one)}; {fault.reason_of(one)}; {fault.is_certain(one)}")
    return "\n".join(made)


@program
def _scores() -> str:
    made = []
    for claimed, wrong, alone, missed in product((0, 99, 100, 200), (0, 98, 99), (0, 100), (0, 1, 7)):
        for alone_wrong, failed in ((0, 0), (99, 7), (98, 3)):
            score = Score(claimed, wrong, alone if claimed else 0, alone_wrong, missed, failed)
            made.append(f"{score.to_dict()} {score.is_imprecise}")
    return "\n".join(made)


@program
def _faults_that_users_add() -> str:
    """The records of faults of files, and where they hold."""
    f32, bf16 = DataType.f32, DataType.bf16
    made = []
    for dtypes, attrs in product(((), ("f32",), ("bf16", "s8")), ({}, {"axis": 1}, {"axis": 0, "mode": "none"})):
        given = UserFault("ours", "wrong", frozenset(["SoftMax"]), (3, 4), (3, 6), frozenset(dtypes), attrs)
        (fault,) = faults_of_users([given])
        made.append(f"{fault} {fault.where} {fault.severity} {fault.instead} {fault.seen} {fault.since} {fault.mended}")
        for first, last, axis in product((f32, bf16, None), (f32, bf16, None), (0, 1)):
            source = None if first is None else TensorType(first, (2, 3))
            types: list[Any] = [[source], [source, TensorType(None, (2, 3))]]
            for inputs in types:
                made.append(f"{fault.when(Call(BASE['SoftMax'], {'axis': axis}, inputs, 1, [last]))}")
    order = UserFault("ours", "wrong", frozenset(["StaticTranspose"]), (3, 2), None, frozenset(), {"order": [1, 0]})
    (fault,) = faults_of_users([order])
    for axes in ([1, 0], (1, 0), (0, 1)):
        made.append(f"{fault.when(Call(BASE['StaticTranspose'], {'order': axes}, [TensorType(f32, (2, 3))]))}")
    return "\n".join(made)


# What a rank stands for: no rank, no dims, or dims that are unknown along one axis.
UNKNOWN = (None, (), (0,), (1,), (2,), (-1,), (-2,))
DERIVED = frozenset(["dst_shape", "src_shape", "weights_shape", "output_padding", "sizes", "shape"])


def less_known(known: TensorType | None, axes: Any) -> TensorType | None:
    """A type without its shape, without all dims or without those of some axes."""
    if known is None or known.shape is None:
        return known
    if axes is None:
        return TensorType(known.dtype, None)
    rank = len(known.shape)
    dims = [None if not axes or place in axes or place - rank in axes else dim for place, dim in enumerate(known.shape)]
    return TensorType(known.dtype, tuple(dims))


def without_sizes(call: Call) -> Iterator[Call]:
    """A use in which one input or all are less known, with the attributes that state a shape and without them."""
    kept = {name: value for name, value in call.given.items() if name not in DERIVED}
    for attrs in (call.given, kept) if len(kept) < len(call.given) else (kept,):
        for axes in UNKNOWN:
            for place in (*range(min(len(call.inputs), 3)), None):
                inputs = [
                    less_known(one, axes) if place in (index, None) else one for index, one in enumerate(call.inputs)
                ]
                yield Call(call.schema, attrs, inputs, call.n_outputs, call.output_types)


@program
def _faults_of_unknown_sizes() -> str:
    """For which uses beside those of examples the faults hold where sizes are unknown."""
    from tests.faults.test_fault_conditions import verdict

    made = []
    for fault in OF_SINGLE_OPS:
        asked = [one for one in (fault.when, fault.certain) if one is not None]
        for example in fault.examples:
            for call in calls(graph_of(example.build)):
                if call.schema.kind in fault.ops:
                    found = [verdict(one, other) for other in without_sizes(call) for one in asked]
                    made.append(f"{fault.name} {''.join(found)}")
    return "\n".join(made)
