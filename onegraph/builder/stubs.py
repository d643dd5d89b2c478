"""Writes ``op_methods.pyi``, the type stubs of the op methods: ``python -m onegraph.builder.stubs``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..opset.dtypes import DataType
from ..opset.editions.registry import EDITIONS, HOST, edition
from ..opset.ops.normalization import affine_outputs, stats_outputs
from ..opset.schema import Call, Schema, required_outputs
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
# The attribute that decides whether an op has its optional outputs.
FLAGS: dict[Callable[[Call], int], str] = {stats_outputs: "keep_stats", affine_outputs: "use_affine"}
HEADER = '''"""Generated from onegraph.opset.ops when the package is built; do not edit."""

# Names of fewer outputs are names of more outputs too; the first signature that fits holds.
# mypy: disable-error-code="overload-overlap"

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
        for count in range(2, len(schema.outputs) + 1):
            if count == len(schema.outputs) or (_is_typed(schema) and schema.outputs[count].optional):
                lines.append(f"class {_outputs(schema, count)}(NamedTuple):")
                lines += [f"    {port.name}: LogicalTensor" for port in schema.outputs[:count]] + [""]
    lines += [f"SingleOutput: TypeAlias = Literal[{', '.join(map(repr, single_output()))}]", ""]
    lines.append("class OpMethods:")
    for name, schema, vocabulary in methods():
        lines += _method(name, schema, vocabulary)
    return "\n".join(lines).rstrip() + "\n"


def single_output() -> list[str]:
    """The kinds of ops that have one output in every edition that has the op, whatever their attributes."""
    schemas = [(kind, schema) for name in (*EDITIONS, HOST) for kind, schema in edition(name).schemas.items()]
    return sorted({kind for kind, _ in schemas} - {kind for kind, schema in schemas if not _has_one(schema)})


def _has_one(schema: Schema) -> bool:
    return len(schema.outputs) == 1 and not schema.outputs[0].optional


def _method(name: str, schema: Schema, vocabulary: str) -> list[str]:
    parameters = ["self"]
    operand = "Numbers" if vocabulary == HOST else "Operand"
    for port in schema.inputs:
        if port.variadic:
            parameters.append(f"*{port.name}: {operand}")
            continue
        annotation = operand
        if schema.has_attribute("auto_broadcast") and port.type not in DataType.__members__:
            annotation += " | float"
        if schema.has_attribute(port.name):
            annotation += f" | {TYPES[schema.attribute(port.name).kind]}" + (" | int" if port.name == "axes" else "")
        parameters.append(f"{port.name}: {annotation}" + (" | None = None" if port.optional else ""))
    if not schema.variadic:
        parameters.append("*")
    ports = {port.name for port in schema.inputs}
    named = {one.name: _parameter(one) for one in schema.attributes if one.name not in ports}
    options = ["name: str | None = None", "dtype: object = None"]
    body = [f"        {line}".rstrip() for line in docstring(schema, vocabulary).strip().splitlines()]
    if not _is_typed(schema):
        # Front ends alone use the ops for which other attributes decide the number of outputs.
        result = "Any" if any(port.optional for port in schema.outputs) else _outputs(schema, len(schema.outputs))
        wanted = "outputs: Sequence[str] | None = None"
        return _definition(name, [*parameters, *named.values(), *options, wanted], result, body)
    lines: list[str] = []
    for number, (changed, wanted, result) in enumerate(_overloads(schema)):
        own = [*parameters, *{**named, **changed}.values(), *options, f"outputs: {wanted}"]
        lines += ["    @overload", *_definition(name, own, result, ["        ..."] if number else body)]
    return lines


def _is_typed(schema: Schema) -> bool:
    """Whether the names of outputs, and at most one attribute, decide the number of outputs."""
    if not any(port.optional for port in schema.outputs):
        return False
    implied = schema.implied_outputs
    return implied is required_outputs or implied in FLAGS or (implied is None and len(schema.outputs) in (2, 3))


def _overloads(schema: Schema) -> list[tuple[dict[str, str], str, str]]:
    """For each number of outputs: the parameters that differ, the type of ``outputs``, and the result."""
    least, most = sum(not port.optional for port in schema.outputs), len(schema.outputs)
    few, many = _outputs(schema, least), _outputs(schema, most)
    flag = FLAGS.get(schema.implied_outputs) if schema.implied_outputs else None
    overloads: list[tuple[dict[str, str], str, str]] = []
    if flag is None:
        overloads.append(({}, "None = None", few if schema.implied_outputs is required_outputs else many))
    else:
        overloads.append(({flag: f"{flag}: Literal[True] = True"}, "None = None", many))
        overloads.append(({flag: f"{flag}: Literal[False]"}, "None = None", few))
        overloads.append(({flag: f"{flag}: bool"}, "None = None", f"{few} | {many}"))
    for count in range(least, most + 1):
        names = ", ".join(repr(port.name) for port in schema.outputs[:count])
        overloads.append(({}, f"Sequence[Literal[{names}]]", _outputs(schema, count)))
    return overloads


def _outputs(schema: Schema, count: int) -> str:
    """The type of the first ``count`` outputs of an op."""
    if count < 2:
        return "LogicalTensor" if count else "tuple[()]"
    return f"{schema.kind}Outputs" + ("" if count == len(schema.outputs) else str(count))


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
    type_ = TYPES[attribute.kind] + (" | int" if attribute.spatial or attribute.name == "axes" else "")
    if attribute.values:
        type_ = f"Literal[{', '.join(repr(value) for value in (*attribute.values, *attribute.aliases))}]"
    if attribute.required and attribute.implied is None:
        return f"{attribute.name}: {type_}"
    default = method_default(attribute)
    return f"{attribute.name}: {type_}{' | None' if default is None else ''} = {default!r}"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PATH
    target.write_text(stub())
    print(target)
