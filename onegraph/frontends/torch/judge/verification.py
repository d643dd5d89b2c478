"""Judges a module that is compiled with the backend ``onegraph`` by the same module in eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ...._util.exact_types import elements, entries, has_type
from ...._util.validation import flag, function, integer
from ....errors import ArgumentError
from ....judging.contents import GIVEN
from ....judging.judgement import Finding, Judgement
from ..options import options_of
from ..statistics import RegionStatistics, statistics
from .arguments import batch_of, resized, variants
from .calls import ObservedCall, Subject, call, fresh, kept_buffers, tensors_of
from .oracle import Arguments, EagerOracle
from .state import WRITES, state_of

ORACLE = "eager PyTorch in float64"
LIMITS = ("recompile_limit", "cache_size_limit")  # the names of one setting of PyTorch
RECOMPILED = 256  # times, before PyTorch would run a module uncompiled


def verify(
    module: object,
    inputs: object,
    kwargs: object = None,
    *,
    dynamic: bool = False,
    gradients: bool | None = None,
    options: object = None,
    seed: int = 0,
) -> Judgement:
    """Judge a module; see :func:`onegraph.torch.verify`."""
    function("verify: module", module)
    args = (inputs,) if torch.is_tensor(inputs) else elements(inputs)
    named = {} if kwargs is None else entries(kwargs)
    if args is None or named is None:
        raise ArgumentError("verify: the inputs are a tensor or a tuple, and those by name a dictionary")
    options_of(options)
    arguments: Arguments = (tuple(args), dict(named))
    whole: Any = module
    judged = whole if has_type(module, torch.nn.Module) else None
    tensors = [*tensors_of(arguments, "").values(), *([] if judged is None else judged.parameters())]
    trained = (
        any(tensor.requires_grad for tensor in tensors) if gradients is None else flag("verify: gradients", gradients)
    )
    start = integer("verify: seed", seed, 0, 2**31)
    if flag("verify: dynamic", dynamic) and batch_of(arguments) is None:
        raise ArgumentError("verify: dynamic: True; expected a first input with an axis that is not empty")
    with _alone():
        return _Judge(whole, judged, options, [False, True] if trained else [False], start).judge(arguments, dynamic)


@contextmanager
def _alone() -> Iterator[None]:
    """Compile anew, as often as needed, and keep the state of random numbers."""
    torch._dynamo.reset()
    config: Any = torch._dynamo.config
    limits = {name: RECOMPILED for name in LIMITS if hasattr(config, name)}
    with torch.random.fork_rng(devices=[]), config.patch(dict([*limits.items()][:1])):
        try:
            yield
        finally:
            torch._dynamo.reset()


@dataclass
class _Judge:
    """Collects what is found for one module.

    Attributes:
        function, module: what is judged, and the same if it is a module.
        options: of the backend.
        modes: whether gradients are computed, for each mode that is judged.
    """

    function: Callable[..., Any]
    module: torch.nn.Module | None
    options: object
    modes: Sequence[bool]
    seed: int
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    compared: int = 0
    random: bool = False

    def judge(self, arguments: Arguments, dynamic: bool) -> Judgement:
        before = len(statistics().regions)
        self._expect_a_run(arguments)
        self.random = self._draws(arguments)
        if self.random:
            self.notes.append("the module draws random numbers: judged by eager PyTorch in its own data types")
        self._numbers(arguments, dynamic)
        self._results_of_their_own(arguments)
        if self.module is not None and any(True for _ in self.module.parameters()):
            self._state(arguments)
        self._note_what_ran(statistics().regions[before:])
        return Judgement(ORACLE, tuple(self.findings), self.compared, tuple(self.contents), tuple(self.notes))

    def _expect_a_run(self, arguments: Arguments) -> None:
        """Raise the error of the eager module for the inputs that are given."""
        peer = call(self._eager(), arguments, gradients=False, seed=self.seed)
        if peer.error is not None:
            raise ArgumentError(f"verify: eager PyTorch fails with these inputs: {_shown(peer.error)}")

    def _note_what_ran(self, regions: Sequence[RegionStatistics]) -> None:
        """Note what PyTorch ran; where it ran everything, nothing was judged."""
        left = sorted({one.op for region in regions for one in region.left})
        if left:
            self.notes.append(f"PyTorch runs {', '.join(left)}")
        taken = {region.kind != "inference" for region in regions if region.taken}
        for mode in self.modes:
            if mode not in taken:
                name = "training" if mode else "inference"
                self.notes.append(f"{name}: onegraph runs no op, so that PyTorch was compared with itself")
        if not taken:
            self.compared = 0

    def _eager(self) -> Subject:
        module = None if self.module is None else copy.deepcopy(self.module)
        return Subject(self.function if module is None else module, module)

    def _compiled(self, eager: Subject, backend: str = "onegraph") -> Subject:
        """The compiled form of an eager module, which has the same parameters."""
        torch._dynamo.reset()
        more: Any = {"options": self.options} if backend == "onegraph" and self.options is not None else {}
        return Subject(torch.compile(eager.function, backend=backend, **more), eager.module)

    def _draws(self, arguments: Arguments) -> bool:
        """Whether results depend on random numbers."""
        first, second = (call(self._eager(), arguments, gradients=False, seed=self.seed + place) for place in (0, 1))
        pairs = zip(first.results.values(), second.results.values(), strict=False)
        return any(not _same(one, other) for one, other in pairs)

    def _numbers(self, arguments: Arguments, dynamic: bool) -> None:
        eager, compiled = (self._eager() for _ in range(2))
        compiled = self._compiled(compiled)
        oracle = EagerOracle(eager, random=self.random, seed=self.seed)
        for label, sized in self._sizes(arguments, dynamic):
            for gradients in self.modes:
                run = ("training" if gradients else "inference") + label
                for contents, made in variants(sized, self.seed):
                    self._compare(oracle, compiled, made, gradients, run, contents)

    def _sizes(self, arguments: Arguments, dynamic: bool) -> list[tuple[str, Arguments]]:
        batch = batch_of(arguments)
        if not dynamic or batch is None:
            return [("", arguments)]
        second_size = batch - 1 if batch > 2 else batch + 1
        return [(f", batch of {size}", resized(arguments, size)) for size in (batch, second_size)]

    def _compare(
        self,
        oracle: EagerOracle,
        compiled: Subject,
        made: Arguments,
        gradients: bool,
        run: str,
        contents: str,
        peer: ObservedCall | None = None,
    ) -> None:
        """Call both, and collect what differs; ``peer`` is the call of the eager module, if it was made before."""
        if peer is None:
            peer = call(oracle.eager, made, gradients=gradients, seed=self.seed)
        if peer.error is not None:
            self.notes.append(f"{run}, {contents}: eager PyTorch fails, so not judged: {_shown(peer.error)}")
            return
        if contents not in self.contents:
            self.contents.append(contents)
        observed = call(compiled, made, gradients=gradients, seed=self.seed)
        if contents == GIVEN and (observed.results or observed.error is None):
            self.findings += self._relations(observed, peer, oracle.eager, made, gradients, run)
        if observed.error is not None:
            self.findings.append(Finding("the call", run, contents, "error", _shown(observed.error), "results"))
            return
        self.compared += len(peer.results) + len(peer.gradients)
        self.findings += oracle.judge(observed, made, peer, gradients=gradients, run=run, contents=contents)

    def _relations(
        self, observed: ObservedCall, peer: ObservedCall, eager: Subject, made: Arguments, gradients: bool, run: str
    ) -> list[Finding]:
        """Where results share memory or require gradients otherwise than in eager PyTorch and its own compiler."""
        pairs, names = observed.memory ^ peer.memory, observed.requires_grad ^ peer.requires_grad
        if pairs or names:
            traced = call(self._compiled(eager, "aot_eager"), made, gradients=gradients, seed=self.seed)
            if traced.error is None:
                pairs &= observed.memory ^ traced.memory
                names &= observed.requires_grad ^ traced.requires_grad
        findings = []
        for first, second in sorted(pairs):
            words = f"shared with {second}", f"apart from {second}"
            words = words if (first, second) in observed.memory else (words[1], words[0])
            findings.append(Finding(first, run, GIVEN, "memory", *words))
        for name in sorted(names):
            required = name in observed.requires_grad
            findings.append(Finding(name, run, GIVEN, "requires_grad", str(required), str(not required)))
        return findings

    def _results_of_their_own(self, arguments: Arguments) -> None:
        """Write to the results of a call, which must not change those of the next call."""
        for gradients in self.modes:
            eager, subject = self._eager(), self._eager()
            compiled = self._compiled(subject)
            peer = call(eager, arguments, gradients=gradients, seed=self.seed)
            oracle = EagerOracle(eager, random=self.random, seed=self.seed)
            run = "training" if gradients else "inference"
            if call(compiled, arguments, gradients=gradients, seed=self.seed).error is None:
                self._write_results(compiled, arguments, peer, gradients)
                self._compare(oracle, compiled, arguments, gradients, run, "after writes to the results", peer)

    def _write_results(self, compiled: Subject, arguments: Arguments, peer: ObservedCall, gradients: bool) -> None:
        args, kwargs = fresh(arguments, gradients=gradients)
        bound = {name for pair in peer.memory for name in pair if any(not one.startswith("output") for one in pair)}
        with kept_buffers(compiled.module), torch.set_grad_enabled(gradients):
            torch.manual_seed(self.seed)
            outputs = tensors_of(compiled.function(*args, **kwargs), "output")
        with torch.no_grad():
            for name, tensor in outputs.items():
                if name not in bound and tensor.layout is torch.strided:
                    tensor.detach().add_(1) if tensor.dtype is not torch.bool else tensor.logical_not_()

    def _state(self, arguments: Arguments) -> None:
        """Write and replace parameters between calls, in each way that programs do.

        In inference each way gets a module of its own, because the backend learns from writes. A training graph reads
        the parameters as inputs, so that one module is enough.
        """
        for gradients in self.modes:
            shared = self._subjects()
            for write in WRITES:
                eager, compiled = shared if gradients else self._subjects()
                if call(compiled, arguments, gradients=gradients, seed=self.seed).error is None:
                    self._write(write, eager, compiled, arguments, gradients)

    def _subjects(self) -> tuple[Subject, Subject]:
        """A copy of the module, and its compiled form."""
        eager = self._eager()
        return eager, self._compiled(eager)

    def _write(self, write: str, eager: Subject, compiled: Subject, arguments: Arguments, gradients: bool) -> None:
        """Judge one way of writing; the state comes back, because numbers that grow with each way would round worse."""
        assert eager.module is not None
        run = "training" if gradients else "inference"
        first = [tensor.detach().clone() for tensor in state_of(eager.module)]
        try:
            for _ in WRITES[write](eager.module, torch.Generator().manual_seed(self.seed)):
                oracle = EagerOracle(eager, random=self.random, seed=self.seed)
                self._compare(oracle, compiled, arguments, gradients, run, write)
        except (RuntimeError, TypeError, ValueError) as error:  # tied or parametrized weights refuse it
            self.notes.append(f"{write}: not tried: {_shown(error)}")
        with torch.no_grad():
            for tensor, value in zip(state_of(eager.module), first, strict=True):
                tensor.copy_(value)


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and bool(torch.equal(first.nan_to_num(), second.nan_to_num()))


def _shown(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


__all__ = ["verify"]
