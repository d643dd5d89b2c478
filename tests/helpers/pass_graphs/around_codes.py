"""Graphs of products and pools around which codes of 8 bits are decoded and encoded, or are not."""

from __future__ import annotations

import onegraph as og

SAME = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
# By op: how its source and its weights are given, what is behind it, and whether its result is returned too.
AROUND = [
    ("MatMul", "f32", "f32", "Quantize", False),
    ("MatMul", "f32", "tanh", "", False),
    ("MatMul", "codes", "f32", "", False),
    ("MatMul", "codes", "tanh", "ReLU", False),
    ("MatMul", "tanh", "codes", "Quantize", False),
    ("MatMul", "codes", "codes", "", False),
    ("MatMul", "again", "codes", "", False),
    ("MatMul", "codes", "codes", "by channel", False),
    ("MatMul", "codes", "f32", "SoftMax", False),
    ("MatMul", "codes", "codes", "Add Quantize", True),
    ("MatMul", "f32", "f32", "Add Quantize", True),
    ("MatMul", "f32", "codes", "ReLU Quantize", True),
    ("with bias", "codes", "f32", "Quantize", False),
    ("with bias", "f32", "f32", "ReLU", False),
    ("MaxPool", "f32", "", "Quantize", False),
    ("MaxPool", "codes", "", "Quantize", True),
    ("MaxPool", "tanh", "", "ReLU Quantize", False),
    ("Add", "codes", "f32", "Quantize", False),
    ("Add", "f32", "codes", "Quantize", True),
]


def graphs():
    """The graphs of the table."""
    for kind, source, weights, behind, is_returned in AROUND:
        g = og.Graph()
        x = given(g, "x", source, (1, 4, 4, 8) if kind == "MaxPool" else (8, 8))
        if kind == "MaxPool":
            y = g.max_pool(x, **SAME)
        elif kind == "Add":
            y = g.add(x, given(g, "w", weights, (8, 8)))
        else:
            more = [g.input("bias", "f32", (8,))] if kind == "with bias" else []
            y = g.matmul(x, given(g, "w", weights, (8, 8)), *more)
        if is_returned:
            g.output("inside", y)
        for one in behind.replace("by channel", "channels").split():
            if one == "Quantize":
                y = g.quantize(y, scales=[0.5], zps=[3], dtype="u8")
            elif one == "channels":
                y = g.quantize(y, qtype="per_channel", axis=1, scales=[0.5] * 8, zps=[1] * 8, dtype="u8")
            elif one == "SoftMax":
                y = g.softmax(y, axis=1)
            else:
                y = g.relu(y) if one == "ReLU" else g.add(y, g.input("z", "f32", y.shape))
        g.output("y", y)
        yield g


def given(g, name, form, shape):
    """An operand: floating-point numbers, these in codes, decoded codes, or what is computed of these."""
    if form == "f32":
        return g.input(name, "f32", shape)
    if form == "again":
        codes = g.quantize(g.relu(g.input(name, "f32", shape)), scales=[0.5], zps=[0], dtype="u8")
        return g.dequantize(codes, scales=[0.5], zps=[0])
    codes = g.dequantize(g.input(name, "s8" if name == "w" else "u8", shape), scales=[0.5], zps=[0])
    return g.tanh(codes) if form == "tanh" else codes
