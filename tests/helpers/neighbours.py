"""What lies one change beside the subject of a condition: other sizes, data types, attributes, strides and flags."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import FunctionType

from onegraph.faults.fault import Fault
from onegraph.faults.use import Fused, Use
from onegraph.opset.dtypes import DataType
from onegraph.opset.schema import Call, Schema, TensorType
from onegraph.opset.signature import Attribute

DTYPES = (DataType.f32, DataType.bf16, DataType.f16, DataType.s32, DataType.s8, DataType.u8)


@cache
def written(path: str) -> dict[int, list[ast.AST]]:
    """The functions of a module by the line where each begins."""
    found: dict[int, list[ast.AST]] = {}
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            first = [one.lineno for one in getattr(node, "decorator_list", ())]
            found.setdefault(min([node.lineno, *first]), []).append(node)
    return found


def is_number(node: ast.AST) -> bool:
    """Whether an expression is a number, or numbers with operators between them."""
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) is int


@cache
def bounds_of(fault: Fault) -> list[int]:
    """The numbers in the text of a condition and of the functions that it calls."""
    found, functions, seen = set[int](), [fault.when, fault.certain], set()
    while functions:
        function = functions.pop()
        function = getattr(function, "__wrapped__", function)
        if not isinstance(function, FunctionType) or function in seen or "faults" not in function.__module__:
            continue
        seen.add(function)
        code, functions = function.__code__, [*functions, *(cell.cell_contents for cell in function.__closure__ or ())]
        for node in (part for top in written(code.co_filename).get(code.co_firstlineno, ()) for part in ast.walk(top)):
            if is_number(node):
                found.add(eval(compile(ast.Expression(node), code.co_filename, "eval")))  # such as 1 << 31
            elif isinstance(node, ast.Name):
                named = function.__globals__.get(node.id)
                (found.add if type(named) is int else functions.append)(named)
    return sorted(each for each in found if type(each) is int and 1 < each < 2**40)


def neighbours(subject: object, bounds: Sequence[int]) -> Iterator[object]:
    """The subject with one leaf changed at a time; ``bounds`` are tried, and what lies at both sides of each."""
    if isinstance(subject, bool):
        yield not subject
    elif isinstance(subject, DataType):
        yield from (dtype for dtype in DTYPES if dtype is not subject)
    elif isinstance(subject, int):
        near = (subject - 1, subject + 1, 2 * subject, *(each + step for each in bounds for step in (-1, 0, 1)))
        yield from dict.fromkeys(each for each in near if each != subject and each >= 0)
    elif isinstance(subject, Call):
        yield from _calls(subject, bounds)
    elif isinstance(subject, TensorType):
        yield from (TensorType(dtype, subject.shape) for dtype in neighbours(subject.dtype, bounds))
        if subject.shape is not None:
            shapes = neighbours(subject.shape, bounds)
            yield from (TensorType(subject.dtype, shape) for shape in shapes if None in shape or 0 not in shape)
            yield TensorType(subject.dtype, (1, *subject.shape))
            yield TensorType(subject.dtype, subject.shape[1:])
    elif isinstance(subject, (tuple, list)):
        for place, part in enumerate(subject):
            for other in neighbours(part, bounds):
                changed = [*subject[:place], other, *subject[place + 1 :]]
                yield type(subject)(*changed) if hasattr(subject, "_fields") else type(subject)(changed)
    elif is_dataclass(subject):
        if isinstance(subject, Fused):  # other values are constant, or not dense
            for number in sorted({number for use in subject.uses for number in (*use.inputs, *use.outputs)}):
                yield replace(subject, constants=subject.constants ^ {number})
                yield replace(subject, strided=subject.strided ^ {number})
        for field in fields(subject):
            if isinstance(subject, Use) and field.name in ("inputs", "outputs"):
                continue  # the numbers of values, which would no longer fit those of the other ops
            for other in neighbours(getattr(subject, field.name), bounds):
                yield replace(subject, **{field.name: other})


def attributes_beside(
    schema: Schema, given: Mapping[str, object], bounds: Sequence[int]
) -> Iterator[dict[str, object]]:
    """The attributes of a use with one left out, or with another value."""
    for attribute in schema.attributes:
        value = given.get(attribute.name, attribute.default)
        yield from ({**given, attribute.name: other} for other in _values(attribute, value, bounds))
        if attribute.name in given:
            yield {name: known for name, known in given.items() if name != attribute.name}


def _calls(call: Call, bounds: Sequence[int]) -> Iterator[Call]:
    """A call with other attributes, inputs, outputs or data types of outputs."""
    parts = call.schema, call.given, call.inputs, call.n_outputs, call.output_types
    for attrs in attributes_beside(call.schema, call.given, bounds):
        yield Call(call.schema, attrs, *parts[2:])
    for inputs in neighbours(call.inputs, bounds):
        yield Call(*parts[:2], inputs, *parts[3:])
    for place, tensor in enumerate(call.inputs):
        if tensor is not None:
            yield Call(*parts[:2], (*call.inputs[:place], None, *call.inputs[place + 1 :]), *parts[3:])
    for types in neighbours(call.output_types, ()):
        yield Call(*parts[:4], types)
    if call.n_outputs is not None:
        yield Call(*parts[:3], call.n_outputs + 1, *parts[4:])


def _values(attribute: Attribute, given: object, bounds: Sequence[int]) -> Iterator[object]:
    if attribute.values:
        yield from (choice for choice in attribute.values if choice != given)
    elif isinstance(given, float):
        yield from (given + step for step in (-1.0, 1.0))
        yield from (number for number in (0.0, 1.0) if number != given)
    else:
        yield from neighbours(given, bounds)
