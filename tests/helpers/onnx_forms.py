"""Small models of ONNX as lines of text: nodes in forms that few models have, and some that are wrong.

A line has nodes, separated by ``;``: the op set of the model if it is another one than 21, the kind with its domain,
the inputs, an arrow with 1 for each output that has a name and 0 for each one without, and the attributes::

    @13 Softmax f32[2,?] -> 1 | axis=0 ; ms.BiasGelu %0 =f32[4]

An input of a node is an input of the model (its dims, ``?`` for an unknown one and ``*`` for an unknown rank), a
constant (``=f32[4]`` with random contents, ``=s64{1,2}`` with these ones), a result of an earlier node (``%0`` or
``%0.1``), an input of an earlier node (``$0.1``), or absent (``-``). The last node makes the outputs, unless ``out``
names them. A node behind whose arrow is ``.`` has no results. What begins with a parenthesis is a graph in the language
of the package onnx.
"""

from __future__ import annotations

import re
from ast import literal_eval
from pathlib import Path
from zlib import crc32

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from onegraph import DataType

FORMS = Path(__file__).parents[1] / "recorded" / "onnx_forms.txt"
DOMAINS = {"ms": "com.microsoft", "nchwc": "com.microsoft.nchwc", "ml": "ai.onnx.ml"}
VALUE = re.compile(r"(=?)(\w+)(?:\[([^]]*)\])?(?:\{([^}]*)\})?")


def array_of(token: str) -> np.ndarray:
    """The contents of a constant."""
    _, dtype, dims, contents = VALUE.fullmatch(token).groups()
    kind, is_float = DataType[dtype].numpy, dtype.startswith(("f", "bf"))
    shape = None if dims is None else [int(one) for one in dims.split(",") if one]
    if contents is not None:
        numbers = np.array([(float if is_float else int)(one) for one in contents.split(",") if one], kind)
        return numbers if shape is None else numbers.reshape(shape)
    rng = np.random.default_rng(crc32(token.encode()))
    drawn = rng.normal(size=shape) if is_float else rng.integers(0, 2 if dtype == "boolean" else 4, shape)
    return drawn.astype(kind)


def info_of(name: str, token: str) -> onnx.ValueInfoProto:
    """The input of a model that a token says."""
    _, dtype, dims, _ = VALUE.fullmatch(token).groups()
    shape = None if dims == "*" else [None if one == "?" else int(one) for one in dims.split(",") if one]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(DataType[dtype].numpy), shape)


def attribute_of(name: str, text: str) -> onnx.AttributeProto:
    """An attribute: a constant, what an attribute of a function is, or a value of Python."""
    if text.startswith("@"):
        return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INT, ref_attr_name=text[1:])
    return helper.make_attribute(
        name, numpy_helper.from_array(array_of(text)) if text.startswith("=") else literal_eval(text)
    )


def parted(text: str) -> tuple[str, str]:
    """The name of an attribute and its value."""
    name, _, value = text.partition("=")
    return name, value


def model_of(line: str) -> onnx.ModelProto:
    """The model of a line."""
    form = re.fullmatch(r"(?:@(\d+) )?(\(.*)", line)
    if form is not None:
        domains = f'["": {form[1] or 21}, "onegraph": 1, "com.microsoft": 1]'
        return parser.parse_model(f"<ir_version: 9, opset_import: {domains}> g {form[2]}")
    opset, nodes, inputs, constants, made = 21, [], [], [], []
    for number, text in enumerate(line.split(" ; ")):
        head, _, attrs = text.partition(" | ")
        head, _, mask = head.partition(" -> ")
        kind, *tokens = head.split()
        if kind.startswith("@"):
            opset, kind, tokens = int(kind[1:]), tokens[0], tokens[1:]
        names = []
        for place, token in enumerate(tokens):
            name = f"x{number}_{place}"
            if token.startswith("%"):
                node, _, end = token[1:].partition(".")
                name = nodes[int(node)].output[int(end or 0)]
            elif token.startswith("$"):
                node, _, end = token[1:].partition(".")
                name = nodes[int(node)].input[int(end)]
            elif token == "-":
                name = ""
            elif token.startswith("="):
                constants.append(numpy_helper.from_array(array_of(token), name))
            else:
                inputs.append(info_of(name, token))
            names.append(name)
        if kind == "out":
            made = names
            break
        domain, _, op_type = kind.rpartition(".")
        flags = (mask.strip() or "1").rstrip(".")
        ends = [f"y{number}_{place}" if flag == "1" else "" for place, flag in enumerate(flags)]
        nodes.append(helper.make_node(op_type, names, ends, domain=DOMAINS.get(domain, domain)))
        nodes[-1].attribute.extend(attribute_of(name, value) for name, value in map(parted, attrs.split()))
        made = ends
    results = [onnx.ValueInfoProto(name=name) for name in made if name]
    graph = helper.make_graph(nodes, "g", inputs, results, constants)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in DOMAINS.values())]
    opsets[-1].version = 5 if "TreeEnsemble " in line else 3
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def lines() -> list[str]:
    """All lines."""
    return FORMS.read_text().splitlines()
