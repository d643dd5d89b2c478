"""Layers of experts, with packed weights or others, which ONNX Runtime defines."""

import numpy as np
import onnx
import pytest
from helpers.onnx_session import session_of
from onnx import TensorProto, helper, numpy_helper

import onegraph as og
import onegraph.onnx

pytestmark = pytest.mark.library

PACKED = ("x", "logits", "w1", "s1", "b1", "w2", "s2", "b2", "w3", "s3", "b3", "z1", "z2", "z3", "weights")
NUMBERS = ("x", "logits", "w1", "b1", "w2", "b2", "w3", "b3")
EXPERTS, SIZE, INNER = 4, 64, 32


def unpacked(codes, bits):
    found = np.stack([codes >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], -1)
    return found.reshape(*codes.shape[:-1], -1).astype(np.float64)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Layer:
    """A QMoE or MoE node with random weights, which have no bits in the latter, and its result in float64."""

    def __init__(
        self,
        *,
        bits=4,
        block=0,
        kind="silu",
        fusion=0,
        bias=False,
        zeros=False,
        own=False,
        tokens=5,
        k=2,
        third=False,
        **attrs,
    ):
        self.rng, self.kind, self.fusion, self.k, self.attrs = np.random.default_rng(0), kind, fusion, k, attrs
        self.bits, self.block, self.tokens = bits, block, tokens
        self.held, self.matrices = {}, []
        layers = [("1", INNER * (2 if fusion else 1), SIZE), ("2", SIZE, INNER), ("3", INNER, SIZE)]
        for name, columns, depth in layers[: 2 + third]:
            self._weights(name, columns, depth, bias and name < "3", zeros)
        self.feeds = {"x": self._floats(tokens, SIZE), "logits": self._floats(tokens, EXPERTS)}
        if own:
            self.feeds["weights"] = self.rng.uniform(0.1, 1, (tokens, EXPERTS)).astype(np.float32)

    def _floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def _weights(self, name, columns, depth, bias, zeros):
        bits, block, rng = self.bits, self.block, self.rng
        if bias:
            self.held[f"b{name}"] = self._floats(EXPERTS, columns)
        if not bits:
            self.held[f"w{name}"] = self._floats(EXPERTS, columns, depth) / np.float32(depth**0.5)
            self.matrices.append(self.held[f"w{name}"].astype(np.float64))
            return
        codes = rng.integers(0, 256, (EXPERTS, columns, depth * bits // 8)).astype(np.uint8)
        shape = (EXPERTS, columns, depth // block) if block else (EXPERTS, columns)
        scales = (rng.uniform(0.5, 1, shape) * 2 / (1 << bits) / depth**0.5).astype(np.float32)
        self.held |= {f"w{name}": codes, f"s{name}": scales}
        points = np.full(shape, 1.0 * (1 << (bits - 1)))
        if zeros:
            raw = rng.integers(0, 256, (*shape[:-1], -(-shape[-1] * bits // 8))).astype(np.uint8)
            self.held[f"z{name}"], points = raw, unpacked(raw, bits)[..., : shape[-1]]
        repeat = (lambda array: np.repeat(array, block, -1)) if block else (lambda array: array[..., None])
        self.matrices.append((unpacked(codes, bits) - repeat(points)) * repeat(scales.astype(np.float64)))

    def model(self, **shapes):
        """The model; ``shapes`` are those of weights that are cut."""
        held = self.held | {name: np.resize(self.held[name], shape) for name, shape in shapes.items()}
        names = [name if name in held or name in self.feeds else "" for name in (PACKED if self.bits else NUMBERS)]
        attrs = {"k": self.k, "activation_type": self.kind, "swiglu_fusion": self.fusion}
        attrs |= {"expert_weight_bits": self.bits} if self.bits else {}
        attrs |= {"block_size": self.block} if self.block else {}
        node = helper.make_node(
            "QMoE" if self.bits else "MoE", names, ["y"], domain="com.microsoft", **attrs, **self.attrs
        )
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in self.feeds.items()
        ]
        arrays = [numpy_helper.from_array(array, name) for name, array in held.items()]
        graph = helper.make_graph([node], "experts", ends, [onnx.ValueInfoProto(name="y")], arrays)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def exact(self):
        """The result in float64."""
        found = np.zeros((self.tokens, SIZE))
        for token, (row, logits) in enumerate(zip(self.feeds["x"], self.feeds["logits"], strict=True)):
            best = np.argsort(-logits, kind="stable")[: self.k]
            all_shares = np.exp(logits.astype(np.float64) - logits.max())
            shares = all_shares[best]
            if "weights" in self.feeds:
                shares = self.feeds["weights"][token][best].astype(np.float64)
            is_normal = self.attrs.get("normalize_routing_weights") or (self.bits and "weights" not in self.feeds)
            if is_normal or not self.bits:
                shares /= shares.sum() if is_normal else all_shares.sum()
            for expert, share in zip(best, shares, strict=True):
                found[token] += share * self._expert(expert, row.astype(np.float64))
        return found

    def _expert(self, expert, row):
        first, last = (matrix[expert] for matrix in self.matrices[:2])
        biases = [self.held.get(f"b{name}", np.zeros((EXPERTS, 1)))[expert] for name in "12"]
        hidden = first @ row + biases[0]
        third = self.matrices[2][expert] @ row if len(self.matrices) > 2 else 1.0
        if self.kind == "swiglu":
            gate, linear = (hidden[::2], hidden[1::2]) if self.fusion == 1 else np.split(hidden, 2)
            limit = self.attrs.get("swiglu_limit", np.inf)
            gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
            alpha, beta = self.attrs.get("activation_alpha", 1.0), self.attrs.get("activation_beta", 0.0)
            hidden = gate * sigmoid(alpha * gate) * (linear + beta)
        elif self.kind == "gelu":
            hidden = hidden / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
        else:
            functions = {"relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * sigmoid(x), "identity": lambda x: x}
            hidden = functions[self.kind](hidden)
        return last @ (hidden * third) + biases[1]


GATED = {"kind": "swiglu", "fusion": 1}
LIMITED = {"swiglu_limit": 0.5, "activation_alpha": 1.702, "activation_beta": 1.0}
# What ONNX Runtime computes too, and forms that it lacks on a CPU or computes with other errors.
BOTH = [
    *({"kind": kind} for kind in ("relu", "gelu", "silu", "identity")),
    *({"bits": bits, "zeros": zeros} for bits in (2, 4, 8) for zeros in (False, True)),
    *({"block": block, "zeros": True} for block in (16, 32)),
    *(GATED, {**GATED, **LIMITED}, {"bias": True}, {"tokens": 1}, {"k": 1}, {"k": 4}),
    *({"own": True, "normalize_routing_weights": norm} for norm in (0, 1)),
    *({"bits": 0, "kind": kind, "normalize_routing_weights": 1} for kind in ("relu", "gelu", "silu", "identity")),
    *({"bits": 0, **GATED, "bias": True, "k": k} for k in (1, 4)),
    *({"bits": 0, "bias": True, "tokens": tokens} for tokens in (1, 40)),
]
ALONE = [
    {"bits": 0, "third": True},
    {"bits": 0, "third": True, "kind": "relu", "bias": True, "normalize_routing_weights": 1},
    {"kind": "swiglu", "fusion": 2, "bias": True, "zeros": True, "block": 32},
    {"bits": 8, "block": 16},
]


@pytest.mark.parametrize("form", [*BOTH, *ALONE], ids=str)
def test_tokens_go_through_the_best_experts(form):
    layer = Layer(**form)
    exact, found = layer.exact(), onegraph.onnx.load(layer.model(), strict=True).compile()(**layer.feeds)
    limit = np.abs(exact).max()
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * limit)
    if form in BOTH:
        (elsewhere,) = session_of(layer.model()).run(None, layer.feeds)
        np.testing.assert_allclose(found, elsewhere, rtol=0, atol=2e-3 * limit)


def test_an_infinite_result_of_another_expert_does_no_harm():
    layer = Layer(tokens=2, k=1)
    layer.feeds["logits"][:] = [[0, 9, 0, 0], [9, 0, 0, 0]]
    layer.held["s2"][0] = np.inf
    found = onegraph.onnx.load(layer.model()).compile()(**layer.feeds)
    np.testing.assert_allclose(found[0], layer.exact()[0], rtol=0, atol=1e-5)
    assert not np.isfinite(found[1]).any()


@pytest.mark.parametrize(
    ("shapes", "attrs", "text"),
    [
        ({"w1": (4, 32, 31)}, {}, "fc1_experts_weights of uint8"),
        ({"s1": (4, 31)}, {}, "fc1_scales of shape"),
        ({"z2": (4, 31)}, {"zeros": True}, "fc2_zero_points of shape"),
        ({"b1": (4, 31)}, {"bias": True}, "fc1_experts_bias of shape"),
        ({"w2": (4, 60, 16), "s2": (4, 60)}, {}, "fc2_experts_weights of 60 rows"),
        ({}, {"k": 5}, "k 5"),
        ({}, {"quant_type": "fp4"}, "quant_type = fp4"),
        ({"w1": (4, 32, 60)}, {"bits": 0}, "fc1_experts_weights of shape"),
        ({"w3": (4, 30, 64)}, {"bits": 0, "third": True}, "fc3_experts_weights of 30 rows"),
        ({"b2": (4, 63)}, {"bits": 0, "bias": True}, "fc2_experts_bias of shape"),
        ({}, {"bits": 0, "use_sparse_mixer": 1}, "use_sparse_mixer = 1"),
        ({}, {"kind": "swiglu"}, "a swiglu of two products"),
    ],
)
def test_malformed_and_other_experts_are_refused(shapes, attrs, text):
    with pytest.raises(og.FormatError, match=text):
        onegraph.onnx.load(Layer(**attrs).model(**shapes), strict=True)
