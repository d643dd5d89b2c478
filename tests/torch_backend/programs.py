"""Random functions of PyTorch as texts: inputs, statements and results.

Every choice comes from one ``random.Random``. Each statement runs in eager mode while a program grows, so a program is
valid, and its numbers stay small. The text of a program is the function that a finding prints. A graph has no views,
writes in place or control flow of Python, which are most of what goes wrong here: ``tests/fuzz`` draws graphs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import torch

LIMIT = 1e3  # no statement reads larger values
ELEMENTS = 4096  # of one tensor
DIMS = (1, 1, 2, 3, 4, 5, 8)
FLOATS = ("f32", "bf16", "f16")
NAMES = {
    "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "boolean": torch.bool,
}  # fmt: skip
SPELLED = {dtype: name for name, dtype in NAMES.items()}
SCALARS = ("0", "1", "2", "-1", "3", "0.5", "-1.5", "0.1", "1e-3", "1.003", "1e-7", "1e5", "-1e9", "True", "70000.")
WAYS = {
    "autocast": "torch.autocast('cpu', torch.bfloat16)",
    "no_grad": "torch.no_grad()",
    "inference": "torch.inference_mode()",
}
DRAWS = re.compile(r"dropout|rand|bernoulli|rrelu|multinomial|normal_|uniform_|gumbel")


@dataclass(frozen=True)
class Program:
    """A function of tensors.

    Attributes:
        seed: of the inputs and of the random numbers that the function draws.
        inputs: name, and the expression that makes the input.
        statements: the name that a statement gives to its result, or an empty text, and the expression.
        results: names of what the function returns.
        grad: whether gradients are computed.
        dynamic: whether sizes are symbols.
        made: name and expression of modules, which are made outside of the function. After each call, a step along
            their gradients changes their parameters.
        ways: of ``WAYS``, which stand around the statements.
        sizes: what ``n`` is in the expressions of inputs, for each of several calls.
    """

    seed: int
    inputs: tuple[tuple[str, str], ...]
    statements: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    grad: bool
    dynamic: bool = False
    made: tuple[tuple[str, str], ...] = ()
    ways: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (4,)

    @property
    def draws(self) -> bool:
        """Whether the function draws random numbers."""
        return any(DRAWS.search(text) for _, text in self.statements)

    @property
    def eps(self) -> float:
        """The rounding of the narrowest data type that the program names."""
        text = " ".join(text for _, text in (*self.inputs, *self.statements))
        return max(torch.finfo(NAMES[name]).eps for name in FLOATS if name in text or name == "f32")

    def text(self) -> str:
        """The function."""
        edge = "        " if self.ways else "    "
        lines = [f"{edge}{name} = {text}" if name else f"{edge}{text}" for name, text in self.statements]
        if self.ways:
            lines.insert(0, f"    with {', '.join(WAYS[way] for way in self.ways)}:")
        head = f"def program({', '.join(name for name, _ in self.inputs)}):"
        return "\n".join([head, *lines, f"    return ({''.join(one + ', ' for one in self.results)})"])

    def space(self, exact: bool = False) -> dict:
        """The names that the function uses."""
        return body_namespace(exact)

    def modules(self, exact: bool = False) -> dict:
        """New modules, which are equal at each call."""
        torch.manual_seed(self.seed)
        found = {name: eval(text, body_namespace(False)) for name, text in self.made}
        return {name: one.double() if exact else one for name, one in found.items()}

    def function(self, exact: bool = False, modules: dict | None = None):
        """The function, compiled by Python; exact: with float64 for all floats."""
        space = self.space(exact) | (self.modules(exact) if modules is None else modules)
        exec(compile(self.text(), f"<program {self.seed}>", "exec"), space)
        return space["program"]

    def arguments(self, exact: bool = False, call: int = 0) -> list[torch.Tensor]:
        """New inputs, which are equal at each call of this number."""
        torch.manual_seed(self.seed)
        space = namespace(exact) | {"n": self.sizes[call]}
        for name, text in self.inputs:
            space[name] = eval(text, space)
        return [space[name] for name, _ in self.inputs]

    def script(self, backend: str = "onegraph") -> str:
        """A script that prints what eager mode, aot_eager and a backend return."""
        names = [f"{name} = torch.{str(dtype).removeprefix('torch.')}" for name, dtype in NAMES.items()]
        lines = [
            *("import torch", "import onegraph.torch", "F = torch.nn.functional", "; ".join(names)),
            *("def draw(shape, dtype, scale=1.0):", "    return (torch.randn(shape) * scale).to(dtype)"),
            *("def count(shape, dtype, low=-4, high=5):", "    return torch.randint(low, high, shape).to(dtype)"),
            *("import math", "from torch import nn", "from tests.torch_backend.programs import spoil"),
            *("", self.text(), f"for backend in ('eager', 'aot_eager', {backend!r}):"),
            *("    torch._dynamo.reset()", f"    torch.manual_seed({self.seed})"),
            *(f"    {name} = {text}" for name, text in self.made),
            f"    run = torch.compile(program, backend=backend, dynamic={self.dynamic or None})",
        ]
        for size in self.sizes:
            lines += [
                f"    torch.manual_seed({self.seed})",
                f"    n = {size}",
                *(f"    {name} = {text}" for name, text in self.inputs),
                f"    with torch.set_grad_enabled({self.grad}):",
                f"        found = run({', '.join(name for name, _ in self.inputs)})",
            ]
        lines += [
            *("    print(backend, *[(one, one.stride(), one.requires_grad) for one in found], sep='\\n  ')",),
        ]
        if self.grad:
            lines += [
                "    sum(one.float().square().sum() for one in found if one.requires_grad).backward()",
                f"    print('gradients', *[one.grad for one in ({''.join(name + ', ' for name, _ in self.inputs)})])",
            ]
        return "\n".join(lines)

    def without(self, place: int) -> Program:
        """The program without a statement and what needs it."""
        gone, kept = set(), []
        for at, (name, text) in enumerate(self.statements):
            if at == place or gone & set(re.findall(r"\w+", text)):
                gone |= {name} - {""}
            else:
                kept.append((name, text))
        return replace(self, statements=tuple(kept), results=tuple(one for one in self.results if one not in gone))


def spoil(value: torch.Tensor, seed: int) -> torch.Tensor:
    """A tensor with NaN, infinities and zeros at some places."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 100.0, -100.0]).to(value.dtype)
    places = torch.rand(value.shape, generator=generator) < 0.2
    return torch.where(places, chosen[torch.randint(0, 7, value.shape, generator=generator)], value)


def namespace(exact: bool = False) -> dict:
    """The names that the texts of inputs use; exact: floats are widened to float64 after they were rounded."""

    def draw(shape, dtype, scale=1.0):
        made = (torch.randn(shape) * scale).to(dtype)
        return made.double() if exact else made

    def count(shape, dtype, low=-4, high=5):
        return torch.randint(low, high, shape).to(dtype)

    return {"torch": torch, "F": torch.nn.functional, "draw": draw, "count": count, "spoil": spoil, **NAMES}


def body_namespace(exact: bool) -> dict:
    """The names that functions use; exact: every data type of floats is float64."""
    wide = {name: torch.float64 if exact and dtype.is_floating_point else dtype for name, dtype in NAMES.items()}
    return {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "math": math, **wide}
