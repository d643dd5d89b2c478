"""Messages for data types: one port of every valid combination gets a wrong type, and the message names that port."""

import itertools

import pytest
from conftest import draws
from helpers.grouped import grouped

import onegraph as og
from onegraph.inference.violations import shortened
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import edition

OPS = [(name, kind) for name in ("onednn-3.13", "onednn-3.2", "legacy-1") for kind in edition(name).schemas]


def allowed(schema, ports, dtypes):
    """Whether a row of the type table holds, by trying every data type for every type variable."""
    for port, dtype in zip(ports, dtypes, strict=True):
        if port.type in DataType.__members__ and dtype is not DataType[port.type]:
            return False
    return not schema.types or any(
        all(
            port.type not in row.types or (dtype in row.types[port.type] and dtype is dtypes[first[port.type]])
            for port, dtype in zip(ports, dtypes, strict=True)
        )
        for first in [{port.type: index for index, port in [*enumerate(ports)][::-1]}]
        for row in schema.types
    )


def combinations(schema, ports):
    """The data types of the ports in each row, with one choice of each type variable after the other."""
    for row in schema.types or [None]:
        variables = {} if row is None else {name: sorted(types, key=str) for name, types in row.types.items()}
        first = {name: types[0] for name, types in variables.items()}
        for name, types in variables.items() or [("", [None])]:
            for dtype in types:
                chosen = {**first, name: dtype}
                found = [chosen.get(port.type) or DataType.__members__.get(port.type) for port in ports]
                if None not in found and allowed(schema, ports, found):
                    yield tuple(found)


@grouped("name, kind", OPS, key=lambda case: case[0])
def test_message_names_the_wrong_port_first(name, kind):
    schema = edition(name).schemas[kind]
    inputs = [*schema.inputs, *[schema.inputs[-1]] * 2] if schema.variadic else [*schema.inputs]
    ports = [*inputs, *schema.outputs]
    names = [f"inputs[{i}]" if schema.variadic else port.name for i, port in enumerate(inputs)]
    names += [port.name for port in schema.outputs]
    # The rows and ports take turns with the wrong types; make test-long tries each with all.
    step = draws(7, 1)
    for place, right in enumerate(dict.fromkeys(combinations(schema, ports))):
        for index, wrong in itertools.product(range(len(ports)), DataType):
            if (place + index + [*DataType].index(wrong)) % step:
                continue
            dtypes = [*right[:index], wrong, *right[index + 1 :]]
            if allowed(schema, ports, dtypes):
                continue
            tensors = [(dtype, None) for dtype in dtypes]
            given, made = tensors[: len(inputs)], tensors[len(inputs) :]
            found = [one for one in og.check_op(kind, None, given, made, edition=name) if one.rule == "data_type"]
            assert len(found) == 1, dtypes
            assert len(found[0].message) <= 200
            start = f"{kind}: {names[index]} is {wrong}; expected "
            if not found[0].message.startswith(start):  # then the change of another port alone is as good
                mended = [
                    allowed(schema, ports, [*dtypes[:other], dtype, *dtypes[other + 1 :]])
                    for other in range(len(ports))
                    for dtype in DataType
                    if names[other] == found[0].where
                ]
                assert any(mended), found[0].message
                assert f" {names[index]} to " in found[0].message


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "messages"),
    [
        ("ReLU", ["s32"], [], ["src is s32; expected f32, f16 or bf16"]),
        ("ReLU", ["f32"], ["bf16"], ["dst is bf16; expected f32, as src is f32; or change src to bf16"]),
        ("Add", ["f32", "s8"], [], ["src_1 is s8; expected f32, f16 or bf16, as src_0 is f32"]),
        (
            "Add",
            ["boolean", "boolean"],
            [],
            ["src_0 is boolean; expected f32, f16, bf16 or s32", "src_1 is boolean; expected f32, f16, bf16 or s32"],
        ),
        ("MatMul", ["f32", "bf16"], [], ["weights is bf16; expected f32, as src is f32; or change src to bf16"]),
        (
            "MatMul",
            ["f32", "f32", "bf16"],
            ["bf16"],
            [
                "bias is bf16; expected f32, as src is f32; or change src and weights to bf16",
                "dst is bf16; expected f32, as src is f32",
            ],
        ),
        ("Concat", ["f32", "s8", "f32"], [], ["inputs[1] is s8; expected f32, as inputs[0] is f32"]),
        (
            "Concat",
            ["f32", "bf16"],
            [],
            ["inputs[1] is bf16; expected f32, as inputs[0] is f32; or change inputs[0] to bf16"],
        ),
        (
            "Concat",
            ["f32", "f32", "f32", "bf16", "bf16"],
            [],
            ["inputs[3] is bf16; expected f32, as inputs[0] is f32; the same for 1 more input"],
        ),
        ("Concat", ["s64"] * 100, [], ["inputs[0] is s64; expected f32, f16 or bf16; the same for 99 more inputs"]),
        ("ReduceSum", ["s8", "f32"], [], ["src is s8; expected f32, f16 or bf16", "axes is f32; expected s32"]),
        (
            "BatchNormForwardTraining",
            ["f32"] * 5,
            ["f32", "f32", "f32", "s8", "f32"],
            ["batch_mean is s8; expected f32, as mean is f32"],
        ),
        ("LayerNorm", ["f16", "f16"], [], ["gamma is f16; expected f32, as src is f16"]),
        (
            "Multiply",
            ["bf16", "bf16"],
            ["f32"],
            [
                "dst is f32; expected bf16, given the other data types; or change src_0 to f32, or src_1 to f32",
            ],
        ),
    ],
)
def test_messages_for_data_types(kind, inputs, outputs, messages):
    given, made = ([(dtype, None) for dtype in ports] for ports in (inputs, outputs))
    found = [one.message for one in og.check_op(kind, None, given, made or None) if one.rule == "data_type"]
    assert found == [f"{kind}: {message}" for message in messages]


@pytest.mark.parametrize(
    ("length", "expected"), [(9, "a" * 9), (10, "a" * 10), (11, "a" * 7 + "..."), (40, "a" * 7 + "...")]
)
def test_long_values_are_cut_to_the_limit(length, expected):
    assert shortened("a" * length, 10) == expected
