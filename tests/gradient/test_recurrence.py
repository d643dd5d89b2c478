"""Recurrent networks: the kernel on every instruction set, the op's rules, gradients, and the ONNX nodes."""

import itertools

import numpy as np
import pytest
from conftest import draws
from helpers import host_cases
from helpers.host_cases import graph_of, recurrence
from helpers.onnx_session import session_of
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph import reference
from onegraph.compiler.kernels import native
from onegraph.ir.op import schema_of
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.recurrent import composed_recurrence
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.host.recurrence import ACTIVATIONS
from onegraph.opset.schema import Call

TESTED_KERNELS = ("recurrence",)
LEVELS = {"any CPU": 0, "AVX2": 1, "AVX-512": 2}
CELLS = ["lstm", "gru", "reset_gru", "tanh", "relu"]
DIRECTIONS = ["forward", "reverse", "bidirectional"]
# Cells of each kind with attributes that usual ones lack.
OPTIONS = {
    "clip": ("lstm", {"clip": 0.5}),
    "peepholes": ("lstm", {"peepholes": True}),
    "peepholes and no forget gate": ("lstm", {"peepholes": True, "input_forget": True, "clip": 0.75}),
    "other activations": (
        "lstm",
        {"activations": "scaledtanh softsign affine", "alpha": (0.7, 0, 0.5), "beta": (0.9, 0, 0.1)},
    ),
    "clipped gru": ("gru", {"clip": 0.5, "activations": "softsign tanh"}),
    "gru that resets first": ("reset_gru", {"clip": 0.5, "activations": "sigmoid softsign"}),
    "affine": ("tanh", {"activations": "affine", "alpha": (0.3,), "beta": (0.1,)}),
    "clipped tanh": ("tanh", {"clip": 0.75}),
}
RNG = np.random.default_rng(1)


def close(found, expected, atol=2e-6):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=atol)


def close_to_onnx_runtime(found, expected):
    """Both are up to 3e-6 from what float64 gives."""
    close(found, expected, atol=6e-6)


# The kernel -----------------------------------------------------------------------------------------------------------


@pytest.mark.library
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
def test_the_kernel_computes_what_the_definition_says(cell, direction, level, monkeypatch):
    """Each number of rows that is computed together, units in part of a block, and divisions between threads.

    Each direction takes every number of rows, and the three together every pair of sizes.
    """
    monkeypatch.setattr(native, "LEVEL", level)
    for seed, batch in enumerate([1, 2, 3, 5, 13]):
        units = [1, 16, 23][(seed + DIRECTIONS.index(direction)) % 3]
        case = recurrence(cell, direction, 3, batch, units, seed=seed)
        g, arrays = graph_of(case)
        for threads in draws((1, 2 + seed % 2), (1, 2, 3)):
            model = g.compile(threads=threads)
            assert [part.executor for part in model.report().partitions] == ["kernel"]
            close(model(**arrays), case.results)


@pytest.mark.library
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
def test_sequences_end_after_their_own_numbers_of_steps(cell, direction, level, monkeypatch):
    """Lengths from 0 to all steps, in blocks of rows and in single ones, on one thread and on several.

    Each direction takes rows of one of three sizes, so that the cells and levels meet all of them.
    """
    monkeypatch.setattr(native, "LEVEL", level)
    seed = (DIRECTIONS.index(direction) + CELLS.index(cell)) % 3
    batch, units = [(1, 17), (2, 3), (13, 5)][seed]
    case = recurrence(cell, direction, 4, batch, units, seed=seed, least=0)
    g, arrays = graph_of(case)
    for threads in (1, 3):
        model = g.compile(threads=threads)
        assert [part.executor for part in model.report().partitions] == ["kernel"]
        close(model(**arrays), case.results)


@pytest.mark.library
@pytest.mark.parametrize("length", [-1, 4])
def test_a_length_out_of_range_is_an_error(length):
    case = recurrence("gru", "forward", 3, 2, 5, least=0)
    case.inputs[4][1] = length
    g, arrays = graph_of(case)
    with pytest.raises(og.ArgumentError, match=rf"lengths: {length} of sequence 1; expected 0 to 3"):
        g.compile()(**arrays)
    with pytest.raises(og.ArgumentError, match=r"lengths \[.*\]; expected 0 to 3"):
        reference.run(g, arrays)


@pytest.mark.library
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [1, 9])
def test_threads_divide_large_networks(cell, batch):
    """One row is divided between threads in each step; more rows are computed by one thread each."""
    case = recurrence(cell, "forward", 2, 1, 16)
    count = case.inputs[0].shape[3]
    inputs = RNG.standard_normal((4, batch, 1, count, 400)).astype(np.float32)
    weights = (RNG.standard_normal((1, 25, 401, count, 16)) / 20).astype(np.float32)
    states = [RNG.standard_normal((1, batch, 400)).astype(np.float32) for _ in case.inputs[2:]]
    g, arrays = graph_of(host_cases.HostCase("Recurrence", [inputs, weights, *states], [], case.attrs))
    expected = reference.run(g, arrays)
    for threads in (1, 2, 3):
        found = g.compile(threads=threads)(**arrays)
        close(found, expected.values())


@pytest.mark.library
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_activations_are_exact_to_a_few_units_in_the_last_place(level, monkeypatch):
    """With factors of zero, the state is tanh of the input, and the cell state of an LSTM a product of sigmoids."""
    monkeypatch.setattr(native, "LEVEL", level)
    x = np.concatenate([np.linspace(-12, 12, 8001), np.geomspace(1e-30, 1e-3, 500), [88, -88, 1000, -1000]])
    x = np.resize(x, (1, 1, 1, 1, 8512)).astype(np.float32)
    zeros = np.zeros((1, 532, 8513, 1, 16), np.float32)
    g, arrays = graph_of(
        host_cases.HostCase("Recurrence", [x, zeros, np.zeros((1, 1, 8512), np.float32)], [], {"cell": "tanh"})
    )
    found = g.compile()(**arrays)[0].ravel()
    np.testing.assert_allclose(found, np.tanh(x.ravel().astype(np.float64)), rtol=4e-7)
    # update = sigmoid(x), fresh = 0, hidden = 1: the state is sigmoid(x)
    x = x[..., :400]
    gates = np.concatenate([x, np.zeros_like(x), np.zeros_like(x)], 3)
    weights = np.zeros((1, 25, 401, 3, 16), np.float32)
    g, arrays = graph_of(
        host_cases.HostCase("Recurrence", [gates, weights, np.ones((1, 1, 400), np.float32)], [], {"cell": "gru"})
    )
    found = g.compile()(**arrays)[0].ravel()
    np.testing.assert_allclose(
        found, 1 / (1 + np.exp(-x.ravel().astype(np.float64))), rtol=1.2e-6
    )  # as exact as x * log2(e)


@pytest.mark.library
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_activation_is_exact(name, level, monkeypatch):
    """With factors of zero, the states are the activations of the inputs, at each end of what f32 holds."""
    monkeypatch.setattr(native, "LEVEL", level)
    ends = [0.0, -0.0, 1e-30, 1e-3, 1, 30, 88, 1000, 1e30]
    x = np.float32([*np.linspace(-12, 12, 183), *ends, *np.negative(ends)])
    numbers = (0.7, 0.3) if ACTIVATIONS[name] else (0.0, 0.0)
    attrs = {"cell": "tanh", "activations": name, "alpha": numbers[:1], "beta": numbers[1:]}
    zeros = np.zeros((1, -(-x.size // 16), x.size + 1, 1, 16), np.float32)
    g, arrays = graph_of(host_cases.HostCase("Recurrence", [x.reshape(1, 1, 1, 1, -1), zeros], [], attrs))
    expected = [host_cases.ACTIVATIONS[name](number, *numbers) for number in x.astype(np.float64)]
    for states in (g.compile()(**arrays)[0], reference.run(g, arrays)["y0"]):
        np.testing.assert_allclose(states.ravel(), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.library
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("option", OPTIONS)
def test_the_kernel_computes_unusual_cells(option, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    cell, attrs = OPTIONS[option]
    direction = DIRECTIONS[(level + [*OPTIONS].index(option)) % 3]
    twice = 2 if direction == "bidirectional" else 1
    attrs = {key: value * twice if key in ("alpha", "beta") else value for key, value in attrs.items()}
    if "activations" in attrs:
        attrs["activations"] = " ".join([attrs["activations"]] * twice)
    for seed, (batch, units) in enumerate([(1, 17), (5, 3), (13, 16)]):
        case = recurrence(cell, direction, 3, batch, units, seed=seed, least=0 if seed else None, **attrs)
        g, arrays = graph_of(case)
        model = g.compile(threads=2)
        assert [part.executor for part in model.report().partitions] == ["kernel"]
        close(model(**arrays), case.results)


@pytest.mark.library
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("cell", CELLS)
def test_what_is_not_finite_goes_where_the_reference_sends_it(cell, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    case = recurrence(cell, "forward", 2, 4, 3)
    case.inputs[0][0, 0] = np.nan
    case.inputs[0][1, 1] = np.inf
    case.inputs[0][1, 2] = -np.inf
    if cell == "lstm":
        case.inputs[3][0, 2] = np.inf  # times sigmoid(-inf) is NaN
    g, arrays = graph_of(case)
    with np.errstate(all="ignore"):
        expected = reference.run(g, arrays)
    close(g.compile()(**arrays), expected.values())


@pytest.mark.library
@pytest.mark.parametrize("cell", CELLS)
def test_states_that_are_not_given_are_zero(cell):
    case = recurrence(cell, "bidirectional", 3, 2, 5)
    given = [*case.inputs[:2], *[np.zeros_like(one) for one in case.inputs[2:]]]
    whole, _ = graph_of(host_cases.HostCase("Recurrence", given, [], case.attrs))
    expected = reference.run(whole, {f"x{at}": one for at, one in enumerate(given)})
    for count in range(2, len(given)):
        g, arrays = graph_of(host_cases.HostCase("Recurrence", given[:count], [], case.attrs))
        close(g.compile()(**arrays), expected.values())
        close(reference.run(g, arrays).values(), expected.values())


@pytest.mark.library
def test_the_last_cell_state_may_be_left_out():
    case = recurrence("lstm", "forward", 3, 2, 5)
    g = og.Graph()
    inputs = [g.input(f"x{at}", "f32", one.shape) for at, one in enumerate(case.inputs)]
    states, last = g.op("Recurrence", inputs, case.attrs, edition="host", outputs=["states", "last_hidden"])
    g.output("states", states)
    g.output("last", last)
    close(g.compile()(*case.inputs), case.results[:2])


@pytest.mark.library
def test_inputs_and_outputs_may_have_strides():
    case = recurrence("gru", "bidirectional", 4, 3, 6)
    g = og.Graph()
    turned = g.input("x", "f32", case.inputs[0].shape[::-1])
    given = g.op("Transpose", [turned], {"order": [4, 3, 2, 1, 0]}, edition="host")
    rest = [g.constant(one) for one in case.inputs[1:]]
    states, last = g.op("Recurrence", [given, *rest], case.attrs, edition="host")
    g.output("states", states, strides=(1, 4, 8, 24))
    g.output("last", last)
    close(g.compile()(np.ascontiguousarray(case.inputs[0].T)), case.results)


@pytest.mark.library
@pytest.mark.parametrize("cell", CELLS)
def test_results_do_not_depend_on_threads_or_on_the_batch(cell):
    case = recurrence(cell, "forward", 3, 8, 40)
    found = {}
    for threads, rows in itertools.product((1, 2, 3), (1, 2, 8)):
        part = [case.inputs[0][:, :rows], case.inputs[1], *[one[:, :rows] for one in case.inputs[2:]]]
        g, arrays = graph_of(host_cases.HostCase("Recurrence", part, [], case.attrs))
        found[threads, rows] = g.compile(threads=threads, reproducible=True)(**arrays)[0][:, :, :1].tobytes()
    assert len({*found.values()}) == 1


# The op ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cell": "gru", 3: None}, r"inputs.*shape \[3, 2, 1, 4, 5\].*\(steps, batch, 1, 3, units\) for gru, forward"),
        ({"direction": "bidirectional"}, r"\(steps, batch, 2, 4, units\) for lstm, bidirectional"),
        ({"cell": "peephole"}, "expected one of 'lstm', 'gru', 'reset_gru', 'tanh', 'relu'"),
        ({1: (1, 1, 5, 4, 16)}, r"weights: shape \[1, 1, 5, 4, 16\]; expected shape \[1, 1, 6, 4, 16\]"),
        ({"peepholes": True}, r"weights: shape \[1, 1, 6, 4, 16\]; expected shape \[1, 1, 7, 4, 16\]"),
        ({"activations": "tanh"}, r"activations: 'tanh'; expected 3 of sigmoid, tanh, .*, separated by spaces"),
        ({"activations": "tanh tanh celu"}, r"activations: 'tanh tanh celu'; expected 3 of sigmoid, tanh, "),
        ({"alpha": (1.0,)}, "alpha: 1 number; expected one for each of 3 activations, or none"),
        ({"clip": -1.0}, "clip"),
        (
            {"cell": "gru", "input_forget": True, 3: None},
            "input_forget: true; expected it only if the attribute cell is",
        ),
        ({2: (1, 3, 5)}, r"hidden: shape \[1, 3, 5\]; expected shape \[1, 2, 5\]"),
    ],
)
def test_operands_that_do_not_fit(change, text):
    case = recurrence("lstm", "forward", 3, 2, 5)
    shapes = [change.get(at, one.shape) for at, one in enumerate(case.inputs)]
    g = og.Graph()
    tensors = [g.input(f"x{at}", "f32", shape) for at, shape in enumerate(shapes) if shape is not None]
    attrs = case.attrs | {name: value for name, value in change.items() if isinstance(name, str)}
    with pytest.raises(og.SpecError, match=text):
        g.op("Recurrence", tensors, attrs, edition="host")


def test_other_cells_have_no_cell_state():
    case = recurrence("gru", "forward", 3, 2, 5)
    g = og.Graph()
    tensors = [g.input(f"x{at}", "f32", one.shape) for at, one in enumerate([*case.inputs, case.inputs[2]])]
    with pytest.raises(og.SpecError, match="cell: a cell state; expected it only if the attribute cell is lstm"):
        g.op("Recurrence", tensors, case.attrs, edition="host")


@pytest.mark.parametrize("least", [None, 0])
@pytest.mark.parametrize("cell", CELLS[:4])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gradients_are_finite_differences(cell, direction, least):
    gradients_are_differences(recurrence(cell, direction, 3, 3, 4, np.float64, seed=1, least=least))


@pytest.mark.parametrize("option", OPTIONS)
def test_gradients_of_unusual_cells_are_differences(option):
    cell, attrs = OPTIONS[option]
    gradients_are_differences(recurrence(cell, "reverse", 3, 3, 4, np.float64, seed=1, least=0, **attrs))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_composition_has_each_activation(name):
    """Gradients are those of these ops, which have tests of their own."""
    numbers = {"alpha": (0.7,) * 3, "beta": (0.3,) * 3} if ACTIVATIONS[name] else {}
    case = recurrence("lstm", "reverse", 3, 2, 4, least=0, activations=" ".join([name] * 3), **numbers)
    g, arrays = graph_of(case)
    call = Call(schema_of(g.ops[0]), g.ops[0].attrs, [tensor.type for tensor in g.ops[0].inputs], 3)
    results = composed_recurrence(Emitter(g), call, *g.inputs.values())
    for at, result in enumerate(results):
        g.output(f"composed{at}", result)
    found = reference.run(g, arrays)
    close([found[f"composed{at}"] for at in range(3)], case.results, atol=2e-5)


def gradients_are_differences(case):
    g, arrays = graph_of(case)
    total, wide = None, OF_NUMPY[np.dtype(np.float64)]
    for out in [*g.outputs.values()]:
        factors = g.constant(RNG.standard_normal(out.shape), dtype=wide)
        every = g.constant(np.arange(len(out.shape)), dtype=og.s64)
        product = g.op("Multiply", [out, factors], edition="host")
        part = g.op("ReduceSum", [product, every], {"keep_dims": False}, edition="host")
        total = part if total is None else g.op("Add", [total, part], edition="host")
    by = {name: array for name, array in arrays.items() if array.dtype == np.float64}
    for name, one in zip(by, g.gradient([total], [g.inputs[name] for name in by]), strict=True):
        g.output(f"by_{name}", one)
    g.output("total", total)
    found = reference.run(g, arrays)
    for name, array in by.items():
        direction_of = RNG.standard_normal(array.shape)
        if name == "x1":  # what lies behind the last unit of a block is no weight
            direction_of[..., 4:] = 0
        ends = [run_wide(g, arrays | {name: array + step * direction_of}, [total])[0] for step in (1e-5, -1e-5)]
        np.testing.assert_allclose(
            np.sum(found[f"by_{name}"] * direction_of), (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8
        )


def test_gradients_of_a_network_with_relu_are_those_by_hand():
    case = recurrence("relu", "forward", 4, 2, 3)
    g, arrays = graph_of(case)
    states, inputs = g.outputs["y0"], [*g.inputs.values()]
    diff = RNG.standard_normal(states.shape).astype(np.float32)
    for name, one in zip(arrays, g.gradient([states], inputs, [g.constant(diff)]), strict=True):
        g.output(f"by_{name}", one)
    found = reference.run(g, arrays)
    factors, hidden = case.inputs[1][0, 0, :3, 0, :3].astype(np.float64), case.inputs[2][0].astype(np.float64)
    seen, state, by_inputs, by_factors = case.results[0][:, 0], np.zeros((2, 3)), [], 0.0
    for time in reversed(range(4)):
        gate = (diff[time, 0] + state) * (seen[time] > 0)
        by_inputs.insert(0, gate)
        by_factors += (seen[time - 1] if time else hidden).T @ gate
        state = gate @ factors.T
    close([found["by_x0"][:, :, 0, 0], found["by_x2"][0]], [np.float32(by_inputs), np.float32(state)])
    by_weights = found["by_x1"][0, 0, :, 0]
    close([by_weights[:3, :3], by_weights[3, :3]], [np.float32(by_factors), np.sum(by_inputs, (0, 1), np.float32)])


@pytest.mark.library
@pytest.mark.parametrize("cell", CELLS)
def test_a_training_step_is_exact_and_has_one_product_for_each_step(cell):
    case = recurrence(cell, "bidirectional", 6, 8, 32)
    g, arrays = graph_of(case)
    outs = [*g.outputs.values()]
    for name, one in zip(arrays, g.gradient(outs, [*g.inputs.values()]), strict=True):
        g.output(f"by_{name}", one)
    model = g.compile()
    found, expected = model(**arrays), reference.run(g, arrays)
    for one, other in zip(found, expected.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    # Products of all steps give the gates, if their slopes need them, and the gradient of the weights.
    counts = {"lstm": 6 + 2, "gru": 6 + 2, "reset_gru": 2 * 6 + 4}  # that resets first has a product of its own
    assert sum(op.kind == "MatMul" for op in g.ops) == 2 * counts.get(cell, 6 + 1)


# ONNX -----------------------------------------------------------------------------------------------------------------


def node_model(kind, direction, layout=0, batch=2, inputs=5, units=6, steps=4, given=(), **attrs):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    count, directions = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    lead = (batch, directions) if layout else (directions, batch)
    arrays = {
        "W": (directions, count * units, inputs),
        "R": (directions, count * units, units),
        "B": (directions, 2 * count * units),
        "lens": (batch,),
        "h0": (*lead, units),
        "c0": (*lead, units),
        "P": (directions, 3 * units),
    }
    known = {name: RNG.standard_normal(arrays[name]).astype(np.float32) for name in ("W", "R", *given)}
    if "lens" in known:
        known["lens"] = np.full(batch, steps, np.int32)
    x = (batch, steps, inputs) if layout else (steps, batch, inputs)
    names = ["x", *[name if name in known else "" for name in arrays]]
    while not names[-1]:
        names.pop()
    outs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = onnx.helper.make_node(
        kind, names, outs, hidden_size=units, direction=direction, layout=layout, name="net", **attrs
    )
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [info("x", onnx.TensorProto.FLOAT, x)],
        [info(name, onnx.TensorProto.FLOAT, None) for name in outs],
        [onnx.numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), RNG.standard_normal(x)


@pytest.mark.library
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("given", [(), ("B",), ("B", "lens", "h0"), ("B", "h0", "c0")])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU, linear", "RNN"])
def test_the_usual_nodes_are_one_op(kind, direction, given, layout):
    from onegraph import onnx

    kind, _, is_linear = kind.partition(", ")
    given = [name for name in given if kind == "LSTM" or name != "c0"]
    attrs = {"linear_before_reset": 1} if is_linear else {}
    model, x = node_model(kind, direction, layout, given=given, **attrs)
    g = onnx.load(model)
    assert [op.kind for op in g.ops if op.kind not in ("StaticReshape", "StaticTranspose")] == ["MatMul", "Recurrence"]
    x = x.astype(np.float32)
    if layout == 0:  # ONNX Runtime has no other layout
        expected = session_of(model).run(None, {"x": x})
    else:
        plain, _ = node_model(kind, direction, given=given, **attrs)
        for at, one in enumerate(model.graph.initializer):
            array = onnx_array(one)
            plain.graph.initializer[at].CopyFrom(
                onnx_proto(array.swapaxes(0, 1) if "0" in one.name else array, one.name)
            )
        whole, *ends = session_of(plain).run(None, {"x": x.swapaxes(0, 1)})
        expected = [whole.transpose(2, 0, 1, 3), *[one.swapaxes(0, 1) for one in ends]]
    close_to_onnx_runtime(g.compile()(x), expected)


def onnx_array(proto):
    from onnx import numpy_helper

    return numpy_helper.to_array(proto)


def onnx_proto(array, name):
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(array), name)


# As a plain network of ONNX Runtime needs them: with capitals, and with numbers that it would take as 0.
PLAIN = {
    "Relu": {},
    "Sigmoid": {},
    "Affine": {"activation_alpha": [0.7], "activation_beta": [0.3]},
    "Elu": {},
    "HardSigmoid": {},
    "LeakyRelu": {},
    "ScaledTanh": {"activation_alpha": [0.7], "activation_beta": [0.3]},
    "Softplus": {},
    "Softsign": {},
    "ThresholdedRelu": {"activation_alpha": [0.7]},
}
UNUSUAL = [
    ("LSTM", {"clip": 0.5}),
    ("LSTM", {"input_forget": 1}),
    ("LSTM", {"given": ("B", "h0", "c0", "P")}),
    ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}),
    ("GRU", {"clip": 0.5}),
    ("GRU", {"clip": 0.5, "linear_before_reset": 1, "activations": ["HardSigmoid", "Softsign"]}),
    ("RNN", {"clip": 0.5}),
    *[("RNN", {"activations": [name], **numbers}) for name, numbers in PLAIN.items()],
    ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.3]}),
    ("LSTM", {"activations": ["HardSigmoid", "Tanh", "Elu"], "activation_alpha": [0.3, 0.5], "activation_beta": [0.4]}),
]


@pytest.mark.library
@pytest.mark.parametrize(("kind", "attrs"), UNUSUAL, ids=[f"{kind} {attrs}" for kind, attrs in UNUSUAL])
def test_unusual_nodes_are_one_op_too(kind, attrs, tmp_path):
    from onegraph import onnx

    model, x = node_model(kind, "forward", **attrs)
    g = onnx.load(model)
    assert [op.kind for op in g.ops].count("Recurrence") == 1
    x = x.astype(np.float32)
    expected = session_of(model).run(None, {"x": x})
    close_to_onnx_runtime(g.compile()(x), expected)
    onnx.save(g, tmp_path / "again.onnx")
    close_to_onnx_runtime(session_of(tmp_path / "again.onnx").run(None, {"x": x}), expected)
    close_to_onnx_runtime(onnx.load(tmp_path / "again.onnx").compile()(x), expected)


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"clip": 0.0}, r"clip=0.0; expected a number above 0"),
        ({"activations": ["Celu"]}, r"activations celu; expected 1 of sigmoid, tanh, "),
        ({"activations": ["Tanh", "Tanh"]}, r"activations tanh, tanh; expected 1 of"),
    ],
)
def test_options_that_no_network_has(attrs, text):
    from onegraph import onnx

    with pytest.raises(og.FormatError, match=text):
        onnx.load(node_model("RNN", "forward", **attrs)[0])


@pytest.mark.library
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
def test_saved_networks_run_elsewhere(cell, direction, tmp_path):
    from onegraph import onnx

    case = recurrence(cell, direction, 3, 2, 17)
    g, arrays = graph_of(case)
    path = tmp_path / "network.onnx"
    onnx.save(g, path)
    close_to_onnx_runtime(session_of(path).run(None, arrays), case.results)
    again = onnx.load(path)
    assert [op.kind for op in again.ops].count("Recurrence") == 1
    close(again.compile()(**arrays), case.results)


@pytest.mark.library
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_networks_of_16_bits_compute_in_f32(kind):
    from onegraph import onnx

    attrs = {"linear_before_reset": 1} if kind == "GRU" else {}
    model, x = node_model(kind, "bidirectional", given=("B",), **attrs)
    exact = onnx.load(model).compile()(x.astype(np.float16).astype(np.float32))
    for one in model.graph.initializer:
        one.CopyFrom(onnx_proto(onnx_array(one).astype(np.float16), one.name))
    for one in (*model.graph.input, *model.graph.output):
        one.type.tensor_type.elem_type = 10
    g = onnx.load(model)
    assert [op.kind for op in g.ops].count("Recurrence") == 1
    for found, wanted in zip(g.compile()(x.astype(np.float16)), exact, strict=True):
        assert found.dtype == np.float16
        np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=5e-3, atol=5e-3)


@pytest.mark.library
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("given", [("B",), ("B", "h0"), ("B", "c0")])
def test_the_numbers_of_steps_and_of_sequences_may_be_unknown(kind, given):
    from onegraph import onnx

    attrs = {"linear_before_reset": 1} if kind == "GRU" else {}
    given = [name for name in given if kind == "LSTM" or name != "c0"]
    model, _ = node_model(kind, "bidirectional", given=given, **attrs)
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, ("steps", "batch"), strict=False):
        dim.dim_param = name
    g = onnx.load(model)
    assert {op.kind for op in g.ops} <= {"MatMul", "Recurrence", "StaticReshape"}
    found = g.compile()
    session = session_of(model)
    for steps, batch in ((1, 2), (7, 2), *([] if {"h0", "c0"} & {*given} else [(3, 4)])):
        x = RNG.standard_normal((steps, batch, 5)).astype(np.float32)
        close_to_onnx_runtime(found(x), session.run(None, {"x": x}))


def edited(change):
    """The model of an LSTM over (4, 2, 5) with a bias, changed by a function of its proto."""
    model, _ = node_model("LSTM", "forward", given=("B", "h0"))
    change(model)
    return model


def resized(name, shape):
    def change(model):
        for one in model.graph.initializer:
            if one.name == name:
                one.CopyFrom(onnx_proto(np.ones(shape, np.float32), name))

    return change


def without(place):
    def change(model):
        model.graph.node[0].input[place] = ""

    return change


def turned(model):
    next(one for one in model.graph.node[0].attribute if one.name == "direction").s = b"up"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (without(1), r"no W; expected W of shape \[1, 24, 5\]"),
        (without(2), r"no R; expected R of shape \[1, 24, 6\]"),
        (resized("W", (24, 5)), r"W of shape \[24, 5\]; expected shape \[1, 24, 5\]"),
        (resized("R", (1, 20, 6)), r"R of shape \[1, 20, 6\]; expected shape \[1, 24, 6\]"),
        (resized("B", (1, 24)), r"B of shape \[1, 24\]; expected shape \[1, 48\]"),
        (resized("h0", (2, 6)), r"initial_h of shape \[2, 6\]; expected shape \[1, 2, 6\]"),
        (turned, "direction 'up'; expected one of forward, reverse, bidirectional"),
    ],
)
def test_nodes_that_onnx_does_not_allow(change, text):
    from onegraph import onnx

    with pytest.raises(og.FormatError, match=rf"node 'net' \(LSTM\): {text}"):
        onnx.load(edited(change))
