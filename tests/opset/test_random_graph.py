"""Random graphs: valid, reproducible, with every op, and runnable."""

import hashlib
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from helpers.specification import graph_errors
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.opset.editions.registry import EDITIONS, edition
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs

EVERY = ("f32", "bf16", "f16", "s8", "u8", "s4", "u4", "f8_e4m3", "f8_e5m2")


@given(
    st.integers(0, 2**64), st.integers(1, 25), st.sampled_from(EDITIONS), st.sets(st.sampled_from(EVERY), min_size=1)
)
@settings(max_examples=60, deadline=None)
def test_every_graph_is_valid(seed, n_ops, name, dtypes):
    dtypes = {*dtypes, "f32"}
    graph = random_graph(seed, n_ops, edition=name, dtypes=sorted(dtypes))
    assert graph_errors(graph) == []
    assert len(graph.ops) == n_ops
    assert graph.edition == name
    used = {str(tensor.dtype) for tensor in graph._tensors}
    assert used <= dtypes | {"s32", "boolean", "s64"} | (
        {"u8"} if any(op.kind == "Dropout" for op in graph.ops) else set()
    )
    read = {tensor.id for op in graph.ops for tensor in op.inputs}
    shown = {tensor.id for tensor in graph.outputs.values()}
    assert all(tensor.id in read | shown for op in graph.ops for tensor in op.outputs)
    assert {tensor.id for tensor in graph.inputs.values()} <= read | shown


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_reference_runs_every_graph(seed):
    graph = random_graph(seed, 8)
    results = og.reference.run(graph, random_inputs(graph, seed))
    for name, tensor in graph.outputs.items():
        assert results[name].shape == tensor.shape
        assert results[name].dtype == tensor.dtype.numpy


@pytest.mark.parametrize("name", ["onednn-3.13", "legacy-1"])
def test_draws_every_op(name):
    kinds = [kind for kind in edition(name).schemas if kind != "Wildcard"]
    for kind in kinds:
        graph = random_graph(1, 2, kinds=[kind], edition=name, dtypes=EVERY)
        assert [op.kind for op in graph.ops] == [kind, kind]
    seen = Counter(op.kind for seed in range(60) for op in random_graph(seed, 12, edition=name).ops)
    assert len(seen) > 0.9 * len(kinds)


def test_varies_attributes_and_ports():
    graphs = [random_graph(seed, 6, kinds=["Convolution", "MatMul", "LayerNorm", "Concat"]) for seed in range(40)]
    ops = [op for graph in graphs for op in graph.ops]
    convolutions = [op for op in ops if op.kind == "Convolution"]
    for attribute, least in (("data_format", 2), ("weights_format", 2), ("strides", 4), ("groups", 2), ("auto_pad", 4)):
        assert len({op.attrs[attribute] for op in convolutions}) >= least
    assert {len(op.inputs) for op in convolutions} == {2, 3}
    assert {len(op.inputs) for op in ops if op.kind == "Concat"} == {1, 2, 3}
    assert {len(op.outputs) for op in ops if op.kind == "LayerNorm"} == {1, 3}
    assert max(len(graph.outputs) for graph in graphs) > 1
    readers = Counter(tensor.id for op in graphs[0].ops for tensor in op.inputs)
    assert max(readers.values()) > 1


def test_int8_is_drawn_with_conversions():
    kinds = ["Quantize", "Dequantize", "MatMul", "TypeCast"]
    graphs = [random_graph(seed, 10, kinds=kinds) for seed in range(20)]
    quantized = [tensor.name for g in graphs for op in g.ops if op.kind == "Quantize" for tensor in op.inputs]
    assert any(name.startswith("matmul") for name in quantized)
    assert any(tensor.dtype is og.s8 for graph in graphs for tensor in graph._tensors)


DIGEST = """
import hashlib
from onegraph.testing.random_graph import random_graph
found = hashlib.sha256()
for seed in range(8):
    for edition in ("onednn-3.13", "legacy-1"):
        graph = random_graph(seed, 12, edition=edition)
        found.update(graph.to_json().encode())
        found.update(b"".join(t.value.tobytes() for t in graph._tensors if t.constant))
digest = found.hexdigest()
"""


def test_seed_fixes_the_graph_in_every_process():
    here = {}
    exec(DIGEST, here)
    for seed in ("0", "1"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST + "print(digest)"], env=env, capture_output=True, text=True, timeout=120
        )
        assert done.stdout.strip() == here["digest"], done.stderr
    assert hashlib.sha256(random_graph(1).to_json().encode()) != hashlib.sha256(random_graph(2).to_json().encode())
    assert random_graph(1).to_json() != random_graph(2).to_json()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": "1"}, "seed: '1'; expected an integer"),
        ({"seed": True}, "seed: True"),
        ({"n_ops": 0}, "n_ops: 0; expected an integer of 1 or more"),
        ({"kinds": ["Convulution"]}, "did you mean 'Convolution'"),
        ({"kinds": []}, "expected a list of ops"),
        ({"kinds": "MatMul"}, "expected a list of ops"),
        ({"dtypes": []}, "expected a list of data types"),
        ({"dtypes": ["f64"]}, "is not a data type"),
        ({"dtypes": "f32"}, "expected a list of data types"),
        ({"kinds": ["MatMul"], "dtypes": ["s8"]}, "dtypes: s8; expected some that these ops take"),
        ({"edition": "onednn-9"}, "unknown edition"),
    ],
)
def test_rejects_invalid_arguments(arguments, message):
    with pytest.raises(og.ArgumentError, match=message):
        random_graph(**{"seed": 1, **arguments})


def test_draws_a_wildcard_on_request():
    graph = random_graph(3, 3, kinds=["Wildcard", "ReLU"])
    assert "Wildcard" in {op.kind for seed in range(5) for op in random_graph(seed, 6, kinds=["Wildcard", "ReLU"]).ops}
    assert graph_errors(graph) == []


@pytest.mark.library
def test_library_agrees_with_the_reference():
    kinds = ["MatMul", "ReLU", "Add", "Convolution", "MaxPool", "Concat", "SoftMax"]
    for seed in range(5):
        graph = random_graph(seed, 6, kinds=kinds, dtypes=["f32"])
        inputs = random_inputs(graph, seed)
        results = graph.compile()(**inputs)
        expected = og.reference.run(graph, inputs)
        for got, name in zip(results if len(graph.outputs) > 1 else [results], graph.outputs, strict=True):
            largest = np.abs(expected[name]).max(initial=0)
            np.testing.assert_allclose(got, expected[name], rtol=1e-3, atol=1e-3 * (1 + largest))


@pytest.mark.parametrize("edition", ["onednn-3.13", "legacy-1"])
def test_graphs_without_constants_accept_random_inputs(edition):
    """``onegraph random`` prints graphs without constants; shapes then follow from the output shapes in the JSON."""
    without = 0
    for seed in range(40):
        graph = random_graph(seed, 10, edition=edition)
        bare = og.Graph.from_json(graph.to_json())
        without += len(bare.inputs) > len(graph.inputs)
        assert random_inputs(bare, seed).keys() == bare.inputs.keys()
        assert [op.kind for op in bare.ops] == [op.kind for op in graph.ops]
    assert without > 10
