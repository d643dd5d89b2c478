"""A part of a captured graph that runs here, compiled for each combination of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter
from torch.fx import Node as FxNode

from ..._util.fork_safety import cached_property
from ...builder.graph import DataGraph
from ...compiler.library_steps import NoParametersError
from ...compiler.shared_constants import SharedConstants
from ...errors import OneGraphError, OutOfMemoryError, StateError
from ...opset.editions.registry import HOST
from ...opset.kinds import in_category
from ...reference.host import KERNELS
from ...runtime.compiled_program import CompiledProgram
from ...runtime.executable import compile_graph
from ...runtime.open_program import OpenProgram, thread_state
from ...runtime.open_programs import MOST, MOST_FAILURES
from ...runtime.overwriting import overwriting, possible_overs
from ...runtime.program import Program
from ...runtime.program_call import ProgramCall
from ...transform.specialise import specialise
from .lowering import LoweredGraph, array_of, lower_graph
from .open_part import Dims, OpenLikes, OpenPart
from .options import BackendOptions
from .sizes import BySizes, Work, is_background
from .stated_sizes import StatedSizes
from .true_types import true_forms

PART = "part"  # the attribute of a function, until it is known what the function writes
MULTIPLYING = KERNELS | in_category("matmul") | in_category("convolution")


class CompiledPart:
    """A part of a captured graph that runs here.

    Args:
        gm: the calls of the part.
        known: what is the same in every call, by input of the part.
        options: the options of the backend.
        work: where compilations are counted.

    Attributes:
        overs: the results that may lie over an input of the same layout, which no step reads later: places of both.
    """

    def __init__(self, gm: GraphModule, known: Mapping[FxNode, Any], options: BackendOptions, work: Work) -> None:
        self.gm, self.options, self.work = gm, options, work
        self.known = known
        self.inputs = [node for node in gm.graph.nodes if node.op == "placeholder" and node not in known]
        (end,) = (node for node in gm.graph.nodes if node.op == "output")
        result = end.args[0]
        self.several = type(result) in (tuple, list)
        self.outputs: list[FxNode] = [*result] if self.several else [result]
        self.calls = [node for node in gm.graph.nodes if node.op == "call_function"]
        likes = [node.meta.get("val") for node in (*self.inputs, *self.calls)]
        self.is_static = all(map(is_static, likes))
        self.model: Any = None
        self.program: Program | None = None  # for the most recent sizes
        self.overs: Mapping[int, int] = {}
        self._ends: tuple[Sequence[Callable[[Any], Any]], ...] = ()
        self._arrays: dict[FxNode, Any] = {}
        self._open: list[OpenPart] = []  # the last one fits the most recent sizes
        self._is_second, self._failures = False, 0

    @cached_property
    def _shared(self) -> SharedConstants:
        """What the graphs for all sizes share: the partitions of ops that no size reaches, with prepared weights."""
        self._arrays = {node: array_of(one) for node, one in self.known.items() if hasattr(one, "stride")}
        shared = SharedConstants(self._arrays.values())
        shared.partitions.rounds = not self.options.reproducible
        return shared

    def function(self) -> Callable[..., Any]:
        """A function of tensors that runs the part."""
        if self.is_static:
            function = self._compiled({node: node.meta["val"] for node in (*self.inputs, *self.calls)}, {})
            setattr(function, PART, self)
            return function
        waits = self.options.new_sizes == "compile"
        compiled = BySizes(self._anywhere, self.options.cache_capacity, self.work, None if waits else self._eager)

        def run(*arguments: Any) -> Any:
            return compiled.run(*arguments)

        return run

    def writing(self, overs: Mapping[int, int]) -> Callable[..., Any]:
        """As ``function``, of a part with known sizes, some of whose results are inputs that it overwrites.

        Args:
            overs: some of ``self.overs``.
        """
        call, several, (views, backs) = overwriting(self.model, overs), self.several, self._ends

        def run(*arguments: Any) -> Any:
            results = call([view(one) for view, one in zip(views, arguments, strict=True)])
            outcome = [
                arguments[overs[place]] if place in overs else back(result)
                for place, (back, result) in enumerate(zip(backs, results, strict=True))
            ]
            return outcome if several else outcome[0]

        return run

    def _anywhere(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        """As ``_for_sizes``; a program that only its thread can run is made by the thread that calls it."""
        made, program = self._for_sizes(arguments), self.program
        if program is not None and program.owner_thread is not None and is_background():
            raise StateError("a step runs in the thread alone that compiled it")
        return made

    def _eager(self, *arguments: Any) -> Any:
        """PyTorch's results for inputs of any sizes."""
        rest = iter(arguments)
        places = [node for node in self.gm.graph.nodes if node.op == "placeholder"]
        return self.gm(*[self.known[node] if node in self.known else next(rest) for node in places])

    def _for_sizes(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        """A function for inputs of these sizes: PyTorch runs the calls if a tensor has no elements."""
        known = self._sized(arguments)
        if known is not None:
            return known
        metas, numbers = self._measured(arguments)
        if not any(map(_is_empty, metas.values())):
            compiled = self._compiled(metas, numbers)
            self._learn(arguments, metas)
            return compiled
        return self._eager

    def _sized(self, arguments: Sequence[Any]) -> Callable[..., Any] | None:
        """A function for inputs of these sizes, made of the steps for other ones; None if no steps fit."""
        for part in reversed(self._open):
            found = part.sizes(arguments) if part.program.threads == thread_state() else None
            if found is None:
                continue
            sizes, views = found
            try:
                program, outputs = part.made(sizes, lambda: self._whole_graph(arguments))
            except OutOfMemoryError:
                raise
            except (OneGraphError, NoParametersError):
                return None
            self.work.reused += 1
            self.program = program
            places = [place for place, one in enumerate(arguments) if hasattr(one, "stride")]
            return _function(
                ProgramCall(program, part.program.options),
                [*zip(places, views, strict=True)],
                [output.tensor() for output in outputs],
                self.several,
            )
        return None

    def _whole_graph(self, arguments: Sequence[Any]) -> DataGraph:
        metas, numbers = self._measured(arguments)
        return self._lowered(metas, numbers).graph

    def _learn(self, arguments: Sequence[Any], metas: Mapping[FxNode, Any]) -> None:
        """Lower the part with open sizes, from the second combination of sizes on."""
        like = self.program
        if not self._is_second or self._failures >= MOST_FAILURES or not isinstance(like, CompiledProgram):
            self._is_second = True
            return
        lowered: list[LoweredGraph] = []
        decisive = Dims(self.inputs)
        dims = decisive.of(arguments)
        counts = [len(one.shape) if hasattr(one, "stride") else 1 for one in arguments]

        def opened(sizes: Sequence[int]) -> DataGraph:
            likes, remaining = OpenLikes(parameters.known), iter(sizes)
            pieces = [[next(remaining) for _ in range(count)] for count in counts]
            numbers = {
                node: piece[0]
                for node, piece, argument in zip(self.inputs, pieces, arguments, strict=True)
                if not hasattr(argument, "stride")
            }
            changed = {
                node: likes.of(node.meta["val"], metas[node]) for node in (*self.inputs, *self.calls) if node in metas
            }
            lowered.append(self._lowered(changed, numbers))
            graph = lowered[-1].graph
            return specialise(graph, {}) if any(op.edition == HOST for op in graph.ops) else graph

        try:
            parameters = StatedSizes(decisive.stated, dims, decisive.layouts)
            program = OpenProgram(parameters, dims, opened, self.model._programs.options, self._shared, like)
        except OutOfMemoryError:
            raise
        except Exception as error:  # the call has its graph; a later one is compiled in the usual way
            is_known = isinstance(error, (OneGraphError, NoParametersError))
            self.work.reason = str(error) if is_known else f"{type(error).__name__}: {error}"
            self._failures += 1
            return
        self.work.reason = ""
        self._open = [*self._open[-MOST + 1 :], OpenPart(program, decisive, lowered[-1].inputs, lowered[-1].outputs)]

    def _measured(self, call_arguments: Sequence[Any]) -> tuple[dict[FxNode, Any], dict[FxNode, Any]]:
        """What each call returns for inputs of these sizes, as fake tensors; and the inputs that are numbers."""
        metas: dict[FxNode, Any] = {}
        numbers: dict[FxNode, Any] = {}
        mode = FakeTensorMode()

        class Recorded(Interpreter):
            def run_node(self, n: FxNode) -> Any:
                metas[n] = super().run_node(n)
                return metas[n]

        arguments = iter(call_arguments)
        stand_ins = []
        for node in self.gm.graph.nodes:
            if node.op != "placeholder":
                continue
            argument = self.known[node] if node in self.known else next(arguments)
            if hasattr(argument, "stride"):
                # PyTorch would read the gradient of a view of weights, and refuses to if they were written since.
                stand_ins.append(mode.from_tensor(argument.detach()))
            else:
                stand_ins.append(argument)
                numbers[node] = argument
        with torch.no_grad(), mode:
            Recorded(self.gm).run(*stand_ins)
        return true_forms(self.gm, metas), numbers

    def _compiled(self, metas: Mapping[FxNode, Any], numbers: Mapping[FxNode, Any]) -> Callable[..., Any]:
        self.work.compilations += 1
        shared = None if self.is_static else self._shared
        lowered = self._lowered(metas, numbers)
        threads = self.options.threads or torch.get_num_threads()
        options = self.options
        compiled = lowered.graph.compile if shared is None else partial(compile_graph, lowered.graph, shared=shared)
        model = compiled(
            threads=threads,
            fpmath_mode=options.fpmath_mode,
            reproducible=options.reproducible,
            finite_math=options.finite_math,
        )
        self.model, self.program = model, model._programs.only_program()
        places = [place for place, node in enumerate(self.inputs) if node not in numbers]
        views, backs = [one.array() for one in lowered.inputs], [one.tensor() for one in lowered.outputs]
        if self.is_static:
            pairs, self._ends = possible_overs(model).items(), (views, backs)
            self.overs = {to: source for to, source in pairs if lowered.outputs[to] == lowered.inputs[source]}
        return _function(model, [*zip(places, views, strict=True)], backs, self.several)

    def _lowered(self, metas: Mapping[FxNode, Any], numbers: Mapping[FxNode, Any]) -> LoweredGraph:
        """The graph for these sizes."""
        known = {**self.known, **self._arrays, **numbers}
        known = {node: array_of(one) if hasattr(one, "stride") else one for node, one in known.items()}
        stated = {node: node.meta["val"] for node in self.known if "val" in node.meta}  # fake like all others
        whole = {**self.known, **stated, **metas}
        inputs = [node for node in self.inputs if node not in numbers]
        return lower_graph(self.calls, inputs, self.outputs, known, whole)

    def fallbacks(self) -> set[str]:
        """The names of the calls whose products numpy or a kernel of the package runs."""
        if self.model is None:
            return set()
        reasons = set()
        for partition in self.model.report().partitions:
            if partition.executor != "oneDNN":
                reasons |= {
                    name.split("/")[0]
                    for kind, name in zip(partition.ops, partition.names, strict=True)
                    if kind in MULTIPLYING
                }
        return reasons


def _function(
    model: Callable[..., Any],
    inputs: Sequence[tuple[int, Callable[[Any], Any]]],
    outputs: Sequence[Callable[[Any], Any]],
    several: bool,
) -> Callable[..., Any]:
    """A function of tensors."""
    if several and len(outputs) > 1:

        def many(*arguments: Any) -> Any:
            results = model(*[view(arguments[place]) for place, view in inputs])
            return [view(result) for view, result in zip(outputs, results, strict=True)]

        return many
    (back,) = outputs

    def one(*arguments: Any) -> Any:
        result = back(model(*[view(arguments[place]) for place, view in inputs]))
        return [result] if several else result

    return one


def is_static(like: Any) -> bool:
    """Whether no size or stride of tensors changes from call to call."""
    if type(like) in (tuple, list):
        return all(map(is_static, like))
    if not hasattr(like, "stride"):
        return type(like) is not torch.SymInt
    return all(type(dim) is int for dim in (*like.shape, *like.stride()))


def _is_empty(like: Any) -> bool:
    """Whether a tensor has no elements; a tuple may hold empty ones that nobody reads, such as unused statistics."""
    return hasattr(like, "stride") and 0 in like.shape
