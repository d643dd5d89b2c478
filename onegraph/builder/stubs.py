"""Writes ``op_methods.pyi``, the type stubs of the op methods: ``python -m onegraph.builder.stubs``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..opset.dtypes import DataType
from ..opset.editions.registry import HOST
from ..opset.schema import Schema, required_outputs
from ..opset.signature import Attribute
from .op_names import methods
from .op_signatures import docstring, method_default

PATH = Path(__file__).with_name("op_methods.pyi")
TYPES = {
    "f32": "float",
    "f32[]": "Sequence[float]",
    "s64": "int",
    "s64[]": "Sequence[int]",
    "bool": "bool",
    "str": "str",
}
HEADER = '''"""Generated from onegraph.opset.ops when the package is built; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, overload

from numpy.typing import NDArray

from ..ir.op import LogicalTensor

class SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...

Operand: TypeAlias = LogicalTensor | NDArray[Any] | SupportsDLPack
Numbers: TypeAlias = Operand | float | Sequence[float] | Sequence[Sequence[float]]

'''


def stub() -> str:
    """The text of ``op_methods.pyi``."""
    lines = [HEADER]
    for _, schema, _ in methods():
        if len(schema.outputs) > 1:
            lines.append(f"class {schema.kind}Outputs(NamedTuple):")
            lines += [f"    {port.name}: LogicalTensor" for port in schema.outputs] + [""]
    lines.append("class OpMethods:")
    for name, schema, vocabulary in methods():
        lines += _method(name, schema, vocabulary)
    return "\n".join(lines).rstrip() + "\n"


def _method(name: str, schema: Schema, vocabulary: str) -> list[str]:
    parameters = ["self"]
    operand = "Numbers" if vocabulary == HOST else "Operand"
    for port in schema.inputs:
        if port.variadic:
            parameters.append(f"*{port.name}: {operand}")
            continue
        both = operand
        if schema.has_attribute("auto_broadcast") and port.type not in DataType.__members__:
            both += " | float"
        if schema.has_attribute(port.name):
            both += f" | {TYPES[schema.attribute(port.name).kind]}"
        parameters.append(f"{port.name}: {both}" + (" | None = None" if port.optional else ""))
    if not schema.variadic:
        parameters.append("*")
    ports = {port.name for port in schema.inputs}
    parameters += [_parameter(attribute) for attribute in schema.attributes if attribute.name not in ports]
    parameters += ["name: str | None = None", "dtype: object = None"]
    body = [f"        {line}".rstrip() for line in docstring(schema, vocabulary).strip().splitlines()]
    if schema.implied_outputs is not required_outputs:
        return _definition(name, [*parameters, "outputs: Sequence[str] | None = None"], _result(schema), body)
    return [
        "    @overload",
        *_definition(name, [*parameters, "outputs: None = None"], "LogicalTensor", body),
        "    @overload",
        *_definition(name, [*parameters, "outputs: Sequence[str]"], "Any", ["        ..."]),
    ]


def _definition(name: str, parameters: Sequence[str], result: str, body: Sequence[str]) -> list[str]:
    head, *rest = body
    text = [head] if head.endswith("...") else [f'        """{head.strip()}', *rest, '        """']
    return [
        f"    def {name}(",
        *(f"        {parameter}," for parameter in parameters),
        f"    ) -> {result}:",
        *text,
        "",
    ]


def _parameter(attribute: Attribute) -> str:
    type_ = TYPES[attribute.kind] + (" | int" if attribute.spatial else "")
    if attribute.values:
        type_ = f"Literal[{', '.join(repr(value) for value in (*attribute.values, *attribute.aliases))}]"
    if attribute.required and attribute.implied is None:
        return f"{attribute.name}: {type_}"
    default = method_default(attribute)
    return f"{attribute.name}: {type_}{' | None' if default is None else ''} = {default!r}"


def _result(schema: Schema) -> str:
    """The return type: a tensor for one output, a named tuple if the number of outputs is fixed, else Any."""
    required = sum(not port.optional for port in schema.outputs)
    if len(schema.outputs) == 1:
        return "LogicalTensor"
    if not schema.outputs:
        return "tuple[()]"
    if required == len(schema.outputs) and schema.implied_outputs is None:
        return f"{schema.kind}Outputs"
    return "Any"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PATH
    target.write_text(stub())
    print(target)
