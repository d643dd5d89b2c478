"""Runs random programs with a backend, and compares everything that a caller sees with eager mode and aot_eager."""

from __future__ import annotations

import re
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from functorch.compile import aot_function

from onegraph.frontends.torch.backend import capture_settings
from onegraph.frontends.torch.options import options_of
from onegraph.frontends.torch.resizing import whole_ops

from .programs import Program
from .roundings import OtherRoundings, Recorded, Replayed

ROUNDINGS = 24  # of the data type, at the size of the largest element
LESS_EXACT = 4  # times as far from float64 as eager with the roundings of any of some runs
RUNS = 4  # of eager mode with other roundings
DIRECT = "direct"


@dataclass
class Outcome:
    """What a program does.

    Attributes:
        values: results, inputs after the call, and gradients of the inputs, by name.
        sharing: for each result, the first value of ``values`` in the same memory, and the offset.
        marks: data type, shape, strides and whether a gradient is asked for, of results and gradients.
        error: the text of an exception; then nothing else is set.
        random: the state of the generator of random numbers after the call.
    """

    values: dict[str, Any] = field(default_factory=dict)
    sharing: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    random: Any = None
    marks: dict[str, Any] = field(default_factory=dict)


def outcome(program: Program, backend: Any, exact: bool = False, mode: Any = None) -> Outcome:
    """What a program does with a backend; None stands for eager mode, which runs under a mode of dispatch."""
    modules = program.modules(exact)
    function = program.function(exact, modules)
    function = function if backend is None else _compiled(program, backend, function)
    given = [program.arguments(exact, call) for call in range(len(program.sizes))]
    found, marks = Outcome(), dict[str, Any]()
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if exact else usual)  # that of integers divided by numbers
    try:
        with torch.set_grad_enabled(program.grad), warnings.catch_warnings(), mode or nullcontext():
            warnings.simplefilter("ignore")
            for call, arguments in enumerate(given):
                if call:
                    _step(modules)
                _call(program, function, arguments, exact, call, found, marks)
            for name, module in modules.items():
                for key, one in (*module.named_parameters(), *module.named_buffers()):
                    found.values[f"{name}.{key}"] = one.detach().clone()
                    if one.grad is not None:
                        found.values[f"gradient {name}.{key}"] = one.grad
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {error}"[:2000])
    finally:
        torch.set_default_dtype(usual)
    found.marks = marks
    return found


def _call(
    program: Program,
    function: Any,
    arguments: list[Any],
    exact: bool,
    call: int,
    found: Outcome,
    marks: dict[str, Any],
) -> None:
    """One call of the function of a program, and what the caller then sees."""
    tensors = {
        name: one for (name, _), one in zip(program.inputs, arguments, strict=True) if isinstance(one, torch.Tensor)
    }
    before = f"call {call}, " if call else ""
    torch.manual_seed(program.seed)
    results = function(*arguments)
    found.random = torch.get_rng_state()
    values = {f"{before}result {place}": one for place, one in enumerate(results)}
    values |= {f"{before}input {name}": one for name, one in tensors.items()}
    found.sharing |= _sharing(values)
    found.values |= {key: one.detach().clone(memory_format=torch.preserve_format) for key, one in values.items()}
    marks.update({f"{before}result {place}": _marks(one) for place, one in enumerate(results)})
    differentiable = [one for one in results if one.requires_grad]
    if differentiable:
        _loss(differentiable, exact).backward()
    for name, one in tensors.items():
        if one.is_leaf and one.grad is not None:
            found.values[f"{before}gradient {name}"] = one.grad
            marks[f"{before}gradient {name}"] = _marks(one.grad)[:2]


def _step(modules: dict[str, Any]) -> None:
    """Change parameters along their gradients, as an optimizer does."""
    with torch.no_grad():
        for module in modules.values():
            for one in module.parameters():
                if one.grad is not None:
                    one -= 0.1 * one.grad.clamp(-1, 1)
                    one.grad = None


def _compiled(program: Program, backend: Any, function: Any) -> Any:
    """The function of a program, compiled by a backend; ``direct`` is onegraph without the reader of bytecode.

    Dynamo takes more than half of the time of a program, and is PyTorch's.
    """
    if backend != DIRECT:
        torch._dynamo.reset()
        return torch.compile(function, backend=backend, dynamic=program.dynamic or None, fullgraph=False)
    captured = aot_function(function, **capture_settings(options_of(None)))

    def run(*arguments: Any) -> Any:
        with whole_ops():
            return captured(*arguments)

    return run


def _loss(results, exact):
    kind = torch.float64 if exact else torch.float32
    total = 0.0
    for one in results:
        places = torch.arange(one.numel(), dtype=kind).reshape(one.shape)
        total = total + (one.to(kind) * (1 + places % 3)).sum()
    return total


def _marks(value):
    strides = [step for step, dim in zip(value.stride(), value.shape, strict=True) if dim > 1 and value.numel()]
    return value.dtype, tuple(value.shape), strides, value.requires_grad


def _sharing(values):
    found, seen = {}, {}
    for name, one in values.items():
        place = one.untyped_storage().data_ptr()
        if place and one.numel():
            first, other = seen.setdefault(place, (name, one))
            if first != name:
                found[name] = first, one.storage_offset() - other.storage_offset()
    return found


def difference(program: Program, backend: Any = "onegraph") -> str:
    """What differs from eager mode and from aot_eager too; empty if nothing does, ``invalid`` if eager mode fails.

    Each thing that a caller sees is compared alone: results may lie in memory as in one of them, and the generator of
    random numbers may be left as by the other.
    """
    eager = outcome(program, None)
    if eager.error:
        return "invalid"
    found = outcome(program, backend)
    allowance = Allowance(program)
    texts = _differences(found, eager, allowance)
    if not texts:
        return ""
    usual = outcome(program, "aot_eager")
    if usual.error:
        return "" if found.error else next(iter(texts.values()))
    others = _differences(found, usual, allowance)
    return next((text for what, text in texts.items() if what in others), "")


def quick_difference(program: Program) -> str:
    """The difference, which is looked for without the reader of bytecode first; one program of eight takes it."""
    is_plain = not (program.dynamic or program.made or program.ways or len(program.sizes) > 1)
    if program.seed % 8 and is_plain and not difference(program, DIRECT):
        return ""
    return difference(program)


class Allowance:
    """How far roundings take the values of a program from those of float64, found out where it is asked for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.runs: list[Outcome] | None = None

    def of(self, name: str) -> tuple[Any, float] | None:
        """The value in float64, and the largest distance from it; None if the program does not run in float64."""
        exact, *others = self._runs()
        right = exact.values.get(name)
        if exact.error or right is None:
            return None
        values = [one.values[name] for one in others if name in one.values]
        apart = [_largest_apart(one, right) for one in values if one.shape == right.shape]
        return right, max(apart, default=0.0)

    def _runs(self) -> list[Outcome]:
        if self.runs is None:
            recorded = Recorded()
            eager = outcome(self.program, None, mode=recorded)
            exact = outcome(self.program, None, exact=True, mode=Replayed(recorded.drawn))
            modes = [OtherRoundings(recorded.drawn, seed) for seed in range(RUNS)]
            self.runs = [exact, eager, *(outcome(self.program, None, mode=mode) for mode in modes)]
        return self.runs


def _largest_apart(value: Any, right: Any) -> float:
    apart = (value.double() - right.double()).abs()
    kept = apart[torch.isfinite(apart)]
    return float(kept.max()) if kept.numel() else 0.0


def _differences(found: Outcome, wanted: Outcome, allowance: Allowance) -> dict[str, str]:
    """A text for each thing that differs."""
    if found.error:
        return {"error": f"error: {found.error}"}
    if found.values.keys() != wanted.values.keys():
        return {"gradients": f"gradients: {sorted(found.values)} for {sorted(wanted.values)}"}
    texts = {
        f"form of {name}": f"form of {name}: {found.marks[name]} for {mark}"
        for name, mark in wanted.marks.items()
        if found.marks[name] != mark
    }
    if found.sharing != wanted.sharing:
        texts["memory"] = f"memory: {found.sharing} for {wanted.sharing}"
    if not torch.equal(found.random, wanted.random):
        texts["random"] = "random numbers: another state of the generator"
    for name, one in wanted.values.items():
        if found.values[name].shape != one.shape or found.values[name].dtype != one.dtype:
            continue  # its form differs
        text = _values(found.values[name], one, None)
        right = allowance.of(name) if text else None
        text = text if right is None else _values(found.values[name], one, *right)
        if text:
            texts[f"numbers of {name}"] = f"numbers of {name}: {text}"
    return texts


def _classes(value: Any) -> list[Any]:
    return [torch.isnan(value).tolist(), torch.isposinf(value).tolist(), torch.isneginf(value).tolist()]


def _values(found: Any, wanted: Any, exact: Any, rounded: float = 0.0) -> str:
    if not wanted.is_floating_point():
        return (
            "" if torch.equal(found, wanted) else f"{found.flatten()[:6].tolist()} for {wanted.flatten()[:6].tolist()}"
        )
    if not wanted.numel():
        return ""
    if exact is not None and exact.shape == found.shape:
        overflowed = torch.isfinite(found) & torch.isfinite(exact) & ~torch.isfinite(wanted)  # in eager mode alone
        wanted = torch.where(overflowed, exact.to(wanted.dtype), wanted)
    if _classes(found) != _classes(wanted):
        return f"other infinities or NaN: {found.flatten()[:6].tolist()} for {wanted.flatten()[:6].tolist()}"
    kept, kind = torch.isfinite(wanted), wanted.dtype
    found, wanted = found[kept].double(), wanted[kept].double()
    if not wanted.numel():
        return ""
    scale = wanted.abs().max()
    own = 4 * torch.finfo(kind).eps * (kind is not torch.float32)
    limit = (ROUNDINGS * torch.finfo(torch.float32).eps + own) * (scale + 1)
    if exact is not None and exact.shape == kept.shape:
        right = exact[kept].double()
        limit = limit + LESS_EXACT * max(rounded, float((wanted - right).abs().max()))
        apart = (found - right).abs().max()
    else:
        apart = (found - wanted).abs().max()
    return (
        ""
        if apart <= limit
        else f"{float(apart):.3g} apart (limit {float(limit):.3g}): {found[:4].tolist()} for {wanted[:4].tolist()}"
    )


def shortened(program: Program, backend: Any = "onegraph") -> Program:
    """A program with as few statements as possible that differs in the same way."""
    kind = difference(program, backend).split(" ")[0]
    again = True
    while again:
        again = False
        for candidate in candidates(program):
            if candidate.results and difference(candidate, backend).split(" ")[0] == kind:
                program, again = candidate, True
                break
    return program


def candidates(program: Program):
    """Programs of one part less."""
    for place in reversed(range(len(program.statements))):
        yield program.without(place)
    if len(program.results) > 1:
        for one in program.results:
            yield replace(program, results=(one,))
            yield replace(program, results=tuple(other for other in program.results if other != one))
    for place, (name, expression) in enumerate(program.inputs):
        others = [other for at, (_, other) in enumerate(program.inputs) if at != place]
        used = " ".join([*others, *program.results, *(one for _, one in program.statements)])
        if name not in re.findall(r"\w+", used):
            yield replace(program, inputs=tuple(one for at, one in enumerate(program.inputs) if at != place))
        if ".requires_grad_()" in expression:
            changed = (name, expression.replace(".requires_grad_()", ""))
            yield replace(program, inputs=(*program.inputs[:place], changed, *program.inputs[place + 1 :]))
    if program.grad:
        yield replace(program, grad=False)
    if program.dynamic:
        yield replace(program, dynamic=False)
