"""Random functions of PyTorch, exported as graphs and run without PyTorch, against eager mode."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import torch

import onegraph as og
import onegraph.torch

from .program_runs import Allowance, _values, outcome
from .programs import Program


class Holder(torch.nn.Module):
    """The modules of a program, and its function as ``forward``."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        modules = program.modules()
        for name, module in modules.items():
            self.add_module(name, module)
        space = dict[str, Any]()
        text = re.sub(r"\bm(\d+)\(", r"self.m\1(", program.text()).replace("def program(", "def forward(self, ")
        exec(text, program.space(), space)
        self.function = space["forward"]

    def forward(self, *arguments: Any) -> Any:
        return self.function(self, *arguments)


def export_difference(program: Program) -> str:
    """What differs from eager mode in the exported graph; empty if nothing does, or where the export is refused."""
    program = replace(program, grad=False, sizes=program.sizes[:1])
    eager = outcome(program, None)
    if eager.error or program.draws:
        return ""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            captured = torch.export.export(Holder(program), tuple(program.arguments()))
            captured.run_decompositions()  # which raises errors of its own
        except Exception:
            return ""
        try:
            graph = onegraph.torch.export(captured)
        except og.UnsupportedError as error:
            return "" if str(error) else "a refusal without a text"
        except og.OneGraphError as error:
            return "" if re.search("draws random|writes", str(error)) else f"export: {type(error).__name__}: {error}"
        except Exception as error:
            return f"export: {type(error).__name__}: {error}"
        arguments = program.arguments()
        try:
            given = [
                one.detach().clone(memory_format=torch.contiguous_format)
                for one in arguments
                if isinstance(one, torch.Tensor)
            ]
            found = graph.compile()(*given) if graph.inputs else graph.compile()()
        except Exception as error:
            return f"exported: {type(error).__name__}: {error}"
    results = [found] if len(graph.outputs) == 1 else [*found]
    wanted = [one for name, one in eager.values.items() if name.startswith("result ")]
    if len(results) != len(wanted):
        return f"exported: {len(results)} results for {len(wanted)}"
    allowance = Allowance(program)
    for place, (array, one) in enumerate(zip(results, wanted, strict=True)):
        other = torch.from_dlpack(og.as_dlpack(array)) if array.size else torch.empty(array.shape, dtype=one.dtype)
        if other.shape != one.shape or other.dtype != one.dtype:
            return f"exported result {place}: {other.dtype} {tuple(other.shape)} for {one.dtype} {tuple(one.shape)}"
        text = _values(other, one, None)
        right = allowance.of(f"result {place}") if text else None
        text = text if right is None else _values(other, one, *right)
        if text:
            return f"exported result {place}: {text}"
    return ""
