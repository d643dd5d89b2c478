"""Nodes of language models that ONNX Runtime defines: packed weights, rotary embeddings, attention with caches."""

import numpy as np
import onnx
import pytest
from helpers.onnx_session import session_of
from onnx import TensorProto, helper, numpy_helper

import onegraph as og
import onegraph.onnx
from onegraph.arrays.packed_codes import packed
from onegraph.capi.settings import has_vnni
from onegraph.compiler.kernels.attention import OF_CODES
from onegraph.native import library

pytestmark = pytest.mark.library

RNG = np.random.default_rng(0)
DOMAIN = "com.microsoft"


def model_of(kind, inputs, known, outputs, attrs):
    """A model of one node; inputs are arrays or None, and those of the indices ``known`` are constants."""
    names = ["" if array is None else f"x{at}" for at, array in enumerate(inputs)]
    node = helper.make_node(kind, names, [f"y{at}" for at in range(outputs)], domain=DOMAIN, **attrs)
    given = [
        helper.make_tensor_value_info(names[at], helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for at, array in enumerate(inputs)
        if array is not None and at not in known
    ]
    held = [numpy_helper.from_array(inputs[at], names[at]) for at in known if inputs[at] is not None]
    results = [onnx.ValueInfoProto(name=f"y{at}") for at in range(outputs)]
    graph = helper.make_graph([node], "model", given, results, held)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)], ir_version=10
    )


def compare(kind, inputs, known=(), outputs=1, share=1e-5, **attrs):
    """Compare a node with ONNX Runtime; returns the executable."""
    model = model_of(kind, inputs, known, outputs, attrs)
    feeds = {f"x{at}": array for at, array in enumerate(inputs) if array is not None and at not in known}
    wanted = session_of(model).run(None, feeds)
    executable = onegraph.onnx.load(model).compile()
    found = executable(**feeds)
    found = [found] if outputs == 1 else [*found]
    for got, exact in zip(found, wanted, strict=True):
        assert got.dtype == exact.dtype
        limit = share * max(np.abs(exact.astype(np.float64)).max(), 1e-30)
        np.testing.assert_allclose(got.astype(np.float64), exact.astype(np.float64), rtol=0, atol=limit)
    return executable


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def weights_of(columns, depth, block, bits, dtype=np.float32):
    blocks = -(-depth // block)
    codes = RNG.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    return codes, RNG.uniform(0.01, 0.02, (columns, blocks)).astype(dtype)


def is_packed(executable):
    return [part.executor for part in executable.report().partitions] == ["kernel"]


@pytest.mark.parametrize("points", [None, "packed", "floats"])
@pytest.mark.parametrize("block", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("bits", [4, 8])
def test_products_by_packed_weights(bits, block, points):
    columns, depth = 24, 320 if block < 64 else 2 * block
    codes, scales = weights_of(columns, depth, block, bits)
    blocks = -(-depth // block)
    zps = None
    if points == "packed":
        zps = RNG.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
    elif points == "floats":
        if bits == 8:
            pytest.skip("ONNX Runtime has no float zero points of 8-bit weights")
        zps = RNG.uniform(0, 9, (columns, blocks)).astype(np.float32)
    for rows in (1, 3, 17):
        inputs = [floats(2, rows, depth), codes, scales, zps]
        made = compare("MatMulNBits", inputs, (1, 2, 3), K=depth, N=columns, bits=bits, block_size=block)
        assert is_packed(made)


@pytest.mark.parametrize("bits", [4, 8])
def test_activations_become_codes_where_the_model_allows(bits):
    codes, scales = weights_of(64, 256, 32, bits)
    src = floats(3, 256)
    attrs = {"K": 256, "N": 64, "bits": bits, "block_size": 32}
    exact = compare("MatMulNBits", [src, codes, scales], (1, 2), **attrs)(src)
    rounded = compare("MatMulNBits", [src, codes, scales], (1, 2), share=1e-2, accuracy_level=4, **attrs)(src)
    assert 0 < np.abs(rounded - exact).max() < 1e-2 * np.abs(exact).max()


def test_depths_that_fill_no_block():
    codes, scales = weights_of(16, 100, 32, 4)
    inputs = [floats(2, 100), codes, scales, None, None, floats(16)]
    compare("MatMulNBits", inputs, (1, 2, 5), K=100, N=16, bits=4, block_size=32)


def test_two_bits_are_read_as_four():
    codes, scales = weights_of(16, 64, 32, 2)
    src, numbers = floats(2, 64), np.stack([codes.reshape(16, -1) >> shift & 3 for shift in (0, 2, 4, 6)], -1)
    weights = (numbers.reshape(16, 64) - 2.0) * np.repeat(scales, 32, 1)
    attrs = {"K": 64, "N": 16, "bits": 2, "block_size": 32}
    model = onegraph.onnx.load(model_of("MatMulNBits", [src, codes, scales], (1, 2), 1, attrs)).compile()
    np.testing.assert_allclose(model(src), src @ weights.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_of_weights_in_the_order_of_their_blocks(bits):
    """ONNX Runtime lacks some of these forms."""
    codes, scales = weights_of(5, 100, 32, bits)
    points = RNG.integers(0, 256, (5, -(-4 * bits // 8))).astype(np.uint8)
    order, src = RNG.permutation(np.arange(100) // 32), floats(2, 100)
    numbers, zeros = (
        np.stack([each.reshape(5, -1) >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], -1).reshape(5, -1)
        for each in (codes, points)
    )
    weights = (numbers[:, :100] - 1.0 * zeros[:, order]) * scales[:, order]
    inputs = [src, codes, scales, points, order.astype(np.int32)]
    attrs = {"K": 100, "N": 5, "bits": bits, "block_size": 32}
    model = onegraph.onnx.load(model_of("MatMulNBits", inputs, (1, 2, 3, 4), 1, attrs)).compile()
    exact = src.astype(np.float64) @ weights.T
    np.testing.assert_allclose(model(src), exact, rtol=0, atol=1e-5 * np.abs(exact).max())


PRODUCT = {1: np.zeros((16, 2, 16), np.uint8), 2: np.zeros((16, 2), np.float32), 3: np.zeros((16, 1), np.uint8)}
TABLE = {0: np.zeros((16, 32), np.uint8), 2: np.zeros((16, 2), np.float32), 3: np.zeros((16, 1), np.uint8)}
MALFORMED = [
    ("MatMulNBits", {1: np.zeros((16, 2, 15), np.uint8)}, "B of shape"),
    ("MatMulNBits", {1: np.zeros((2, 16, 16), np.uint8)}, "B of shape"),
    ("MatMulNBits", {1: np.zeros((16, 2, 16), np.int8)}, "B of int8"),
    ("MatMulNBits", {2: np.zeros((16, 3), np.float32)}, "scales of shape"),
    ("MatMulNBits", {2: np.zeros((2, 16), np.float32)}, "scales of shape"),
    ("MatMulNBits", {3: np.zeros((16, 2), np.uint8)}, "zero_points of shape"),
    ("MatMulNBits", {3: np.zeros((16, 2), np.float16)}, "zero_points of float16"),
    ("MatMulNBits", {4: np.full(64, 2, np.int32)}, "a block of g_idx"),
    ("MatMulNBits", {4: np.full(64, -1, np.int32)}, "a block of g_idx"),
    ("MatMulNBits", {4: np.zeros(60, np.int32)}, "g_idx of shape"),
    ("MatMulNBits", {5: np.zeros(17, np.float32)}, r"bias of shape \[17\]; expected \[16\]"),
    ("MatMulNBits", {5: np.zeros((), np.float32)}, r"bias of shape \[\]"),
    ("MatMulNBits", {5: np.zeros((2, 16), np.float32)}, r"bias of shape \[2, 16\]"),
    ("MatMulNBits", {"block_size": 24}, "block_size 24"),
    ("MatMulNBits", {"bits": 3}, "bits 3"),
    ("GatherBlockQuantized", {"bits": 3}, "bits 3"),
    ("GatherBlockQuantized", {"block_size": 31}, "block_size 31"),
    ("GatherBlockQuantized", {"quantize_axis": 2}, r"axes \[0, 2\]"),
    ("GatherBlockQuantized", {"gather_axis": -3}, r"axes \[-3, 1\]"),
    ("GatherBlockQuantized", {2: np.zeros((16, 3), np.float32)}, "scales of shape"),
    ("GatherBlockQuantized", {2: np.zeros(32, np.float32)}, "scales of shape"),
    ("GatherBlockQuantized", {2: np.zeros((16, 2), np.uint8)}, "scales of uint8"),
    ("GatherBlockQuantized", {3: np.zeros((16, 2), np.uint8)}, "zero_points of shape"),
    ("GatherBlockQuantized", {3: np.zeros((16, 1), np.int8)}, "zero_points of int8"),
]


@pytest.mark.parametrize(
    ("kind", "change", "text"), MALFORMED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_malformed_packed_weights_are_refused(kind, change, text):
    first = floats(2, 64) if kind == "MatMulNBits" else np.array([0])
    inputs = {0: first, **PRODUCT} if kind == "MatMulNBits" else {1: first, **TABLE}
    sizes = {"K": 64, "N": 16} if kind == "MatMulNBits" else {"gather_axis": 0, "quantize_axis": 1}
    inputs |= {at: array for at, array in change.items() if isinstance(at, int)}
    attrs = {"bits": 4, "block_size": 32, **sizes, **{name: v for name, v in change.items() if isinstance(name, str)}}
    arrays, known = [inputs.get(at) for at in range(6)], [at for at in inputs if inputs[at] is not first]
    arrays = arrays if kind == "MatMulNBits" else arrays[:4]
    with pytest.raises(og.FormatError, match=text):
        onegraph.onnx.load(model_of(kind, arrays, known, 1, attrs), strict=True)


BLOCKS = {"axis": 0, "block_size": 16}
MALFORMED_SCALES = [
    ((32, 8), (2, 8), (2, 8), {**BLOCKS, "axis": 2}, "axis 2"),
    ((32, 8), (2, 8), (2, 8), {**BLOCKS, "axis": -3}, "axis -3"),
    ((32, 8), (2, 8), (2, 8), {**BLOCKS, "block_size": -1}, "block_size -1"),
    ((32, 8), (2, 8), (2, 8), {**BLOCKS, "block_size": 8}, r"scale of shape \[2, 8\]; expected \[4, 8\]"),
    ((32, 8), (2, 8), (2, 8), {**BLOCKS, "axis": 1}, r"expected \[32, 1\]"),
    ((32, 8), (), None, BLOCKS, r"scale of shape \[\]"),
    ((32, 8), (1, 2, 8), None, BLOCKS, r"scale of shape \[1, 2, 8\]"),
    ((32, 8), (2, 8), (2, 9), BLOCKS, r"zero_point of shape \[2, 9\]"),
    ((32, 8), (2, 8), (1,), BLOCKS, r"zero_point of shape \[1\]"),
    ((32, 8), (8,), (8,), {"axis": 0}, r"scale of shape \[8\]; expected \[32\]"),
    ((32, 8), (4, 8), None, {"axis": 1}, r"scale of shape \[4, 8\]; expected \[8\]"),
    ((), (3,), None, {}, "axis 1"),
]


@pytest.mark.parametrize(("shape", "scale", "zero", "attrs", "text"), MALFORMED_SCALES, ids=str)
def test_scales_that_fit_no_codes_are_refused(shape, scale, zero, attrs, text):
    arrays = [np.ones(shape, np.int8), np.ones(scale, np.float32), None if zero is None else np.ones(zero, np.int8)]
    names = ["x", "s", *([] if zero is None else ["z"])]
    node = helper.make_node("DequantizeLinear", names, ["y"], **attrs)
    held = [numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=False)]
    graph = helper.make_graph([node], "model", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(og.FormatError, match=text):
        onegraph.onnx.load(model, strict=True)


def test_no_rows_of_a_packed_table():
    model = model_of(
        "GatherBlockQuantized", [TABLE[0], np.zeros((0, 3), np.int64), TABLE[2]], (0, 2), 1, {"block_size": 32}
    )
    assert onegraph.onnx.load(model).compile()(x1=np.zeros((0, 3), np.int64)).shape == (0, 3, 64)


@pytest.mark.parametrize("with_points", [False, True])
@pytest.mark.parametrize(("dtype", "bits"), [("u8", 2), ("u8", 4), ("u8", 8), ("u4", 4), ("s4", 4)])
def test_rows_of_packed_tables(dtype, bits, with_points):
    rows, depth, block = 11, 64, 16
    indices = np.array([[3, 0], [-1, 10]], np.int64)
    blocks = depth // block
    scales = RNG.uniform(0.01, 0.02, (rows, blocks)).astype(np.float32)
    if dtype == "u8":
        data = RNG.integers(0, 256, (rows, depth * bits // 8)).astype(np.uint8)
        zps = RNG.integers(0, 256, (rows, blocks * bits // 8)).astype(np.uint8)
    else:
        low = -8 if dtype == "s4" else 0
        data, zps = (RNG.integers(low, low + 16, (rows, n)).astype(og.DataType[dtype].numpy) for n in (depth, blocks))
    inputs = [data, indices, scales, zps if with_points else None]
    compare("GatherBlockQuantized", inputs, (0, 2, 3), bits=bits, block_size=block, gather_axis=0, quantize_axis=1)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["flat", "heads", "part"])
def test_rotary_embeddings(form, interleaved):
    heads, tokens, size = 2, 3, 8
    turned = 4 if form == "part" else size
    cos, sin = floats(20, turned // 2), floats(20, turned // 2)
    src = floats(2, heads, tokens, size) if form == "heads" else floats(2, tokens, heads * size)
    attrs = {"interleaved": interleaved}
    if form == "part":
        attrs |= {"num_heads": heads, "rotary_embedding_dim": turned}
    for places in (np.array([5], np.int64), RNG.integers(0, 20, (2, tokens))):
        compare("RotaryEmbedding", [src, places, cos, sin], (2, 3), **attrs)


def grouped(batch, tokens, past, *, heads=4, kv_heads=2, size=16, rotary=True, packs=False, lengths=None):
    """The inputs of a GroupQueryAttention."""
    total = past + tokens
    query, key, value = (floats(batch, tokens, count * size) for count in (heads, kv_heads, kv_heads))
    kept = [floats(batch, kv_heads, past, size) for _ in range(2)]
    ends = np.full(batch, total - 1, np.int32) if lengths is None else np.array(lengths, np.int32)
    cos, sin = (floats(40, size // 2) for _ in range(2)) if rotary else (None, None)
    first = [np.concatenate([query, key, value], 2), None, None] if packs else [query, key, value]
    return [*first, *kept, ends, np.array(total, np.int32), cos, sin]


@pytest.mark.parametrize(
    "attrs",
    [{}, {"scale": 0.3}, {"softcap": 5.0}, {"local_window_size": 3}, {"rotary_interleaved": 1}],
    ids=str,
)
@pytest.mark.parametrize(("tokens", "past"), [(1, 7), (5, 0)])
def test_grouped_attention_with_a_cache(tokens, past, attrs):
    for rotary, packs in ((True, False), (False, False), (True, True)):
        inputs = grouped(2, tokens, past, rotary=rotary, packs=packs)
        given = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": int(rotary), **attrs}
        compare("GroupQueryAttention", inputs, (7, 8), outputs=3, **given)


def with_room(array, room):
    """A cache with zeros behind its tokens."""
    return np.pad(array, [(0, 0), (0, 0), (0, room), (0, 0)])


@pytest.mark.parametrize("seed", range(24))
def test_caches_of_any_fill_agree(seed):
    """Numbers of keys of their own, caches with room, prompts with padding, windows, limits of scores."""
    rng = np.random.default_rng(seed)
    heads, kv_heads, size = [(4, 2, 16), (6, 2, 32), (3, 3, 16), (4, 1, 24)][seed % 4]
    batch, is_prompt = int(rng.integers(1, 4)), bool(rng.integers(2))
    rotary = bool(rng.integers(2)) and size % 16 == 0
    past = 0 if is_prompt and rng.integers(2) else int(rng.integers(3, 12))
    tokens = int(rng.integers(2, 9)) if is_prompt else int(rng.integers(2, 5)) if batch == 1 and rng.integers(2) else 1
    most = tokens if is_prompt else past + tokens - int(rng.integers(min(past, 3)))
    lengths = rng.integers(tokens if not is_prompt else 1, most + 1, batch)
    lengths[rng.integers(batch)] = most
    form = {"heads": heads, "kv_heads": kv_heads, "size": size, "rotary": rotary, "packs": bool(rng.integers(2))}
    inputs = grouped(batch, tokens, past, lengths=lengths - 1, **form)
    if past and (rng.integers(2) or most != past + tokens):  # a cache that is not full has room for the new tokens
        room = max(int(rng.integers(6)), most - past)
        inputs[3:5] = [with_room(array, room) for array in inputs[3:5]]
    inputs[6] = np.array(most, np.int32)
    attrs = {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": int(rotary)}
    attrs |= [{}, {"local_window_size": 3}, {"softcap": 2.0}, {"scale": 0.4}][int(rng.integers(4))]
    if rotary:
        attrs["rotary_interleaved"] = int(rng.integers(2))
    model = model_of("GroupQueryAttention", inputs, (6, 7, 8), 3, attrs)
    feeds = {f"x{at}": array for at, array in enumerate(inputs) if array is not None and at not in (6, 7, 8)}
    found = onegraph.onnx.load(model).compile()(**feeds)
    for place, (got, wanted) in enumerate(zip(found, session_of(model).run(None, feeds), strict=True)):
        assert got.shape == wanted.shape
        for row, length in enumerate(lengths):  # what lies behind the tokens of a row has no meaning
            whole = (slice(length),) if not place and is_prompt else () if not place else (slice(None), slice(length))
            np.testing.assert_allclose(got[row][whole], wanted[row][whole], rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("change", "text"),
    [({5: np.int32([9])}, "9 of row 0"), ({5: np.int32([-3])}, "-2 of row 0"), ({5: np.int32([40])}, "41 of row 0")],
    ids=str,
)
def test_more_keys_than_there_is_room_for_are_refused(change, text):
    for rotary in (True, False):
        inputs = grouped(1, 1, 7, rotary=rotary)
        attrs = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": int(rotary)}
        model = onegraph.onnx.load(model_of("GroupQueryAttention", inputs, (6, 7, 8), 3, attrs)).compile()
        feeds = {f"x{at}": array for at, array in enumerate(inputs) if array is not None and at not in (6, 7, 8)}
        model(**feeds)
        with pytest.raises(og.ArgumentError, match=text.replace("9 of", "10 of")):
            model(**feeds | {f"x{at}": array for at, array in change.items()})
        model(**feeds)


@pytest.mark.parametrize("tokens", [1, 2, 7])
@pytest.mark.parametrize(
    ("attrs", "has_state"),
    [({}, True), ({"activation": "silu"}, True), ({}, False), ({"dilation": 2}, True), ({"channels_last": 1}, True)],
    ids=str,
)
def test_causal_convolutions_keep_a_state(attrs, has_state, tokens):
    before = 3 * attrs.get("dilation", 1)
    ends = floats(2, 5, tokens), floats(2, 5, before)
    src, state = (np.ascontiguousarray(end.swapaxes(1, 2)) if "channels_last" in attrs else end for end in ends)
    inputs = [src, floats(5, 1, 4), floats(5), state if has_state else None]
    compare("CausalConvWithState", inputs, (1, 2), outputs=2, **attrs)


@pytest.mark.parametrize(
    ("attrs", "shapes", "text"),
    [
        ({"activation": "tanh"}, {}, "activation = tanh"),
        ({"state_window": 2}, {}, "state_window = 2"),
        ({"ndim": 2}, {}, "ndim = 2"),
        ({}, {0: (2, 4)}, "another input than"),
        ({}, {1: (4, 2, 3)}, "weights that are not"),
        ({}, {1: (4, 3)}, "weights that are not"),
        ({}, {1: (4, 1, 1)}, "without a state"),
    ],
    ids=str,
)
def test_other_convolutions_with_a_state_are_refused(attrs, shapes, text):
    inputs = [np.zeros(shapes.get(place, shape), np.float32) for place, shape in enumerate([(2, 4, 5), (4, 1, 3)])]
    with pytest.raises(og.OneGraphError, match=text):
        onegraph.onnx.load(model_of("CausalConvWithState", inputs, (1,), 2, attrs))


def linear(rule, tokens, *, heads=(2, 2), has_state=True, by_row=False, shares_rate=False):
    """The inputs of a LinearAttention of heads of 8 numbers, whose values have 6; ``heads``: of queries and of keys."""
    queries, keys = heads
    inputs = [floats(2, tokens, queries * 8), floats(2, tokens, keys * 8) / 3, floats(2, tokens, keys * 6)]
    inputs.append(floats(2, keys, 8, 6) if has_state else None)
    inputs.append(-np.abs(floats(2, tokens, keys * (8 if by_row else 1))) if "gated" in rule else None)
    rate = RNG.uniform(0, 1, (2, tokens, 1 if shares_rate else keys)).astype(np.float32)
    return [*inputs, rate if "delta" in rule else None]


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        *((rule, {}) for rule in ("linear", "gated", "delta", "gated_delta")),
        ("gated", {"by_row": True}),
        *(("gated_delta", {name: True}) for name in ("by_row", "shares_rate")),
        ("gated_delta", {"has_state": False, "scale": 0.3}),
        *(("gated_delta", {"heads": heads}) for heads in ((4, 2), (2, 4))),
    ],
    ids=str,
)
def test_linear_attention_carries_a_state(rule, options, tokens):
    options, (queries, keys) = dict(options), options.get("heads", (2, 2))
    scale = {"scale": options.pop("scale")} if "scale" in options else {}
    attrs = {"update_rule": rule, "q_num_heads": queries, "kv_num_heads": keys}
    compare("LinearAttention", linear(rule, tokens, **options), outputs=2, **attrs, **scale)


def delta_net(rows, *, heads=(2, 2), by_row=False, has_state=True, gate=False, size=8):
    """The inputs of a GatedDeltaNet for tokens of this shape."""
    queries, keys = heads
    dims = (*rows, queries, size)
    inputs = [floats(*dims), floats(*dims) / 3, floats(*rows, keys, 6), None]
    inputs += [-np.abs(floats(*rows, keys, *([size] if by_row else []))), RNG.uniform(0, 1, (*rows, keys))]
    inputs[5] = inputs[5].astype(np.float32)
    inputs.append(floats(2, keys, 6, size) if has_state else None)
    return [*inputs, floats(keys), floats(keys, *([size] if by_row else []))] if gate else inputs


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize(
    ("options", "attrs"),
    [
        ({}, {}),
        ({"heads": (2, 4)}, {"qk_l2_norm": 1, "scale": 0.5}),
        ({"by_row": True}, {"beta_activation": "sigmoid"}),
        ({"has_state": False}, {"update_rule": "gated"}),
        *(({"gate": True}, {"gate_activation": kind}) for kind in ("softplus", "sigmoid")),
        ({"gate": True, "by_row": True}, {"gate_activation": "kda", "gate_lower_bound": -2.0}),
    ],
    ids=str,
)
def test_gated_delta_nets_carry_a_state(options, attrs, tokens):
    for rows in ((2, tokens), (2 * tokens,))[: 1 + options.get("has_state", True)]:
        inputs = delta_net(rows, **options)
        inputs[0] *= np.float32(1e-6)  # so that a square is near to what is added to the sum of a length
        inputs[5] = None if attrs.get("update_rule") == "gated" else inputs[5]
        compare("GatedDeltaNet", inputs, outputs=2, **attrs)


@pytest.mark.parametrize(
    ("attrs", "change", "text"),
    [
        ({"gate_activation": "tanh"}, {}, "gate_activation tanh"),
        ({"gate_activation": "softplus"}, {}, "without a_log"),
        ({}, {1: None, 2: None}, "in one tensor"),
        ({}, {6: None}, "no initial_state"),
        ({}, {1: np.zeros((6, 1, 8), np.float32)}, "keys and values"),
    ],
    ids=str,
)
def test_other_gated_delta_nets_are_refused(attrs, change, text):
    inputs = delta_net((6,))
    for place, array in change.items():
        inputs[place] = array
    with pytest.raises(og.OneGraphError, match=text):
        onegraph.onnx.load(model_of("GatedDeltaNet", inputs, (), 2, attrs))


@pytest.mark.parametrize(
    ("attrs", "change", "text"),
    [
        ({"update_rule": "square"}, {}, "square"),
        ({"update_rule": "gated_delta"}, {5: None}, "no beta"),
        ({"state_window": 2}, {}, "state_window = 2"),
        ({"q_num_heads": 3}, {}, "of 3 heads"),
        ({}, {1: np.zeros((2, 3, 8), np.float32)}, "keys and values"),
    ],
    ids=str,
)
def test_other_linear_attention_is_refused(attrs, change, text):
    inputs = linear("gated_delta", 3)
    for place, array in change.items():
        inputs[place] = array
    model = model_of("LinearAttention", inputs, (), 2, {"q_num_heads": 2, "kv_num_heads": 2, **attrs})
    with pytest.raises(og.OneGraphError, match=text):
        onegraph.onnx.load(model)


def of_window(window, inputs):
    """A model whose caches have room for a window, with an open number of tokens."""
    attrs = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": window, "sliding_window_cache": 1}
    model = model_of("GroupQueryAttention", inputs, (7, 8), 3, attrs)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "tokens"
    return model


@pytest.mark.parametrize(("window", "room", "batch"), [(4, 4, 1), (4, 9, 1), (3, 5, 2)])
def test_caches_of_a_window_keep_its_tokens(window, room, batch):
    model = of_window(window, grouped(batch, 2, room, packs=True))
    session, executable = session_of(model), onegraph.onnx.load(model, strict=True).compile()
    past, count = [np.zeros((batch, 2, room, 16), np.float32)] * 2, 0
    ahead = np.arange(batch)  # tokens that the cache of a row has more than the first one
    for tokens in [6, *[1] * 7, 3, 1, 14, 1, 1] if batch == 1 else [1] * 9:
        count += tokens
        lengths = count + ahead
        feeds = {"x0": floats(batch, tokens, 128), "x3": past[0], "x4": past[1], "x5": np.int32(lengths - 1)}
        feeds["x6"] = np.array(lengths.max(), np.int32)
        found, wanted = executable(**feeds), session.run(None, feeds)
        at_once = room - window + 1
        for row, length in enumerate(lengths):
            kept = length - at_once * max(0, -(-(length - room) // at_once))
            np.testing.assert_allclose(found[0][row], wanted[0][row], rtol=0, atol=2e-5)
            for got, exact in zip(found[1:], wanted[1:], strict=True):
                np.testing.assert_allclose(got[row, :, :kept], exact[row, :, :kept], rtol=0, atol=2e-5)
        past = wanted[1:]
    assert executable.cache_info().reason == "" or library.VERSION >= (3, 6)


def test_caches_that_a_window_does_not_fit_are_refused():
    with pytest.raises(og.FormatError, match="a cache for 3 tokens; expected room for the window of 4"):
        onegraph.onnx.load(of_window(4, grouped(1, 2, 3, packs=True)), shapes={"x0": (1, 2, 128)}).compile()
    model = of_window(4, [*grouped(1, 2, 7, packs=True), None, floats(1, 1, 2, 9)])
    with pytest.raises(og.FormatError, match="an attention_bias with sliding_window_cache"):
        onegraph.onnx.load(model, shapes={"x0": (1, 2, 128)}, strict=True)


@pytest.mark.parametrize(
    "attrs",
    [{"qk_output": 1}, {"k_quant_type": "PER_TENSOR"}, {"causal": 0}],
    ids=str,
)
def test_other_attention_is_refused(attrs):
    inputs = grouped(1, 1, 7)
    model = model_of("GroupQueryAttention", inputs, (6, 7, 8), 3, {"num_heads": 4, "kv_num_heads": 2, **attrs})
    with pytest.raises(og.FormatError, match=next(iter(attrs))):
        onegraph.onnx.load(model, strict=True)


@pytest.mark.parametrize(("tokens", "past"), [(1, 70), (5, 0)])
@pytest.mark.parametrize(
    "attrs",
    [{"smooth_softmax": 1}, {}, {"local_window_size": 3}, {"smooth_softmax": 1, "softcap": 2.0}, {"softcap": 0.5}],
    ids=str,
)
def test_scores_of_a_key_without_a_value(attrs, tokens, past):
    inputs = grouped(2, tokens, past, rotary=False)
    sinks = None if "smooth_softmax" in attrs else 4 * floats(4)
    inputs = [*inputs, *[None] * (11 - len(inputs)), *([] if sinks is None else [sinks])]
    compare("GroupQueryAttention", inputs, (6, 11)[: 1 + (sinks is not None)], 3, num_heads=4, kv_num_heads=2, **attrs)


@pytest.mark.parametrize("room", [0, 8])
@pytest.mark.parametrize(("tokens", "past"), [(1, 70), (5, 9), (6, 0)])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("bits", [8, 4])
def test_caches_of_codes(bits, kind, tokens, past, room):
    """ONNX Runtime attends to the codes, too, of which a new one may differ where a quotient is a tie."""
    batch = 1 if tokens > 1 and past else 2
    inputs = grouped(batch, tokens, past, rotary=False)
    size = inputs[1].shape[-1] // 2
    shape, dtype = (batch, 2, past, size * bits // 8), np.int8 if bits == 8 else np.uint8
    inputs[3:5] = [with_room(RNG.integers(0, 256, shape).astype(np.uint8).view(dtype), room) for _ in range(2)]
    step = 4.0 / (1 << bits)
    parts = (1,) if kind == "PER_TENSOR" else (1, 2, 1, size)
    scales = [RNG.uniform(step / 2, 2 * step, parts) for _ in range(2)]
    inputs = [*inputs, *[None] * (12 - len(inputs)), *[scale.astype(np.float32) for scale in scales]]
    attrs = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    model = compare("GroupQueryAttention", inputs, (6, 12), 3, num_heads=4, kv_num_heads=2, **attrs)
    assert bits == 4 or OF_CODES in [part.reason for part in model.report().partitions]


@pytest.mark.parametrize(
    "attrs", [{"k_quant_type": "NONE"}, {"k_quant_type": "PER_ROW"}, {"kv_cache_bit_width": 4}], ids=str
)
def test_other_caches_of_codes_are_refused(attrs):
    inputs, kind = grouped(1, 1, 7, rotary=False), {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
    inputs = [*inputs, *[None] * (12 - len(inputs)), *[np.float32([0.1])] * 2]
    inputs[3:5] = [each.astype(np.int8) for each in inputs[3:5]]
    model = model_of("GroupQueryAttention", inputs, (6,), 3, {"num_heads": 4, "kv_num_heads": 2, **kind, **attrs})
    with pytest.raises(og.FormatError, match=next(iter(attrs)) if "k_quant_type" in attrs else "a cache of 4 bits"):
        onegraph.onnx.load(model, strict=True)


@pytest.mark.parametrize(
    ("bits", "size", "change", "text"),
    [
        (8, 16, {}, ""),
        (0, 16, {}, ""),
        (2, 16, {}, "a cache of 2 bits and s8"),
        (8, 16, {3: np.uint8}, "a cache of 8 bits and u8"),
        (8, 16, {4: np.uint8}, "a cache of 8 bits and u8"),
        (4, 16, {3: np.uint8, 4: np.uint8}, ""),
        (4, 15, {3: np.uint8, 4: np.uint8}, "a cache of 4 bits with heads of size 15"),
        (8, 15, {}, ""),
        (8, 16, {12: None}, "k_quant_type PER_TENSOR; expected PER_TENSOR or PER_CHANNEL, and k_scale"),
        (8, 16, {13: None}, "v_quant_type PER_TENSOR; expected PER_TENSOR or PER_CHANNEL, and v_scale"),
        (8, 16, {"v_quant_type": "NONE"}, "v_scale beside v_quant_type NONE; expected PER_TENSOR or PER_CHANNEL"),
        (8, 16, {9: np.float32}, "input 9"),
    ],
)
def test_codes_fit_their_caches(bits, size, change, text):
    inputs = grouped(1, 1, 7, rotary=False, size=size)
    inputs = [*inputs, *[None] * (12 - len(inputs)), *[np.float32([0.1])] * 2]
    inputs[3:5] = [np.zeros((1, 2, 7, size // (2 if bits == 4 else 1)), np.int8) for _ in range(2)]
    attrs = {"num_heads": 4, "kv_num_heads": 2, "k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
    for place, new in change.items():
        if isinstance(place, str):
            attrs[place] = new
        else:
            before = np.zeros((1, 1), np.float32) if inputs[place] is None else inputs[place]
            inputs[place] = None if new is None else before.astype(new)
    model = model_of("GroupQueryAttention", inputs, (6,), 3, {**attrs, "kv_cache_bit_width": bits})
    if not text:
        assert "OnnxNode" not in [op.kind for op in onegraph.onnx.load(model, strict=True).ops]
        return
    with pytest.raises(og.FormatError) as refused:
        onegraph.onnx.load(model, strict=True)
    assert text in str(refused.value)


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("with_bias", [False, True])
def test_attention_of_several_heads(with_bias, past, padding):
    heads, size, tokens = 2, 8, 3
    query, key, value = (floats(2, tokens, heads * size) for _ in range(3))
    bias = floats(3 * heads * size) if with_bias else None
    mask = np.ones((2, past + tokens), np.int32) if padding else None
    if mask is not None:
        mask[1, 1] = 0
    added = floats(1, 1, tokens, past + tokens)
    kept = [floats(2, heads, past, size) for _ in range(2)] if past else [None, None]
    inputs = [query, key, value, bias, mask, added, *kept]
    compare("MultiHeadAttention", inputs, (3,), outputs=3 if past else 1, num_heads=heads)


@pytest.mark.parametrize("shape", [(2,), (2, 4), (2, 3, 3), (1, 3, 3)])
def test_padding_of_other_forms_is_refused(shape):
    inputs = [*(floats(2, 3, 16) for _ in range(3)), None, np.ones(shape, np.int32)]
    model = model_of("MultiHeadAttention", inputs, (), 1, {"num_heads": 2})
    with pytest.raises(og.FormatError, match="a key_padding_mask that is not"):
        onegraph.onnx.load(model, strict=True)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products_of_rounded_activations(with_bias, per_column, dtype):
    shape = (12,) if per_column else ()
    low = -100 if dtype is np.int8 else 0
    inputs = [
        floats(3, 40),
        RNG.integers(low, 100, (40, 12)).astype(dtype),
        RNG.uniform(0.01, 0.02, shape).astype(np.float32),
        RNG.integers(1, 20, shape).astype(dtype) if not per_column else None,
        floats(12) if with_bias else None,
    ]
    compare("DynamicQuantizeMatMul", inputs, (1, 2, 3, 4))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("rows", [1, 5])
def test_integer_products_of_few_rows_are_exact(rows, dtype):
    """Sums up to 2 ** 25 need more digits than f32 has."""
    src = RNG.integers(0, 256, (rows, 1500)).astype(np.uint8)
    low, high = (-128, 128) if dtype is np.int8 else (0, 256)
    weights = RNG.integers(low, high, (1500, 700)).astype(dtype)
    weights[:, 0] = high - 1
    zero, src_zero = np.array(3, dtype), np.array(7, np.uint8)
    node = helper.make_node("MatMulInteger", ["x", "w", "a", "b"], ["y"])
    held = [numpy_helper.from_array(array, name) for array, name in ((weights, "w"), (src_zero, "a"), (zero, "b"))]
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, src.shape)
    graph = helper.make_graph([node], "model", [x], [onnx.ValueInfoProto(name="y")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    executable = onegraph.onnx.load(model).compile()
    exact = (src.astype(np.int64) - 7) @ (weights.astype(np.int64) - 3)
    np.testing.assert_array_equal(executable(src), exact)
    products = [part for part in executable.report().partitions if "MatMul" in part.kinds]
    # Without such instructions, and where newer libraries run int8 apart, sums of few enough codes are exact in f32.
    in_f32 = not has_vnni() or library.VERSION >= (3, 13)
    assert all(part.executor == "kernel" or part.kinds.count("Dequantize") > 1 or in_f32 for part in products)


def blocked(dtype, axis, block, with_points):
    """A product by DequantizeLinear with blocks."""
    low, high = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}[dtype]
    kind = {"s4": TensorProto.INT4, "u4": TensorProto.UINT4, "s8": TensorProto.INT8, "u8": TensorProto.UINT8}[dtype]
    shape, parts = (64, 24), [64, 24]
    parts[axis] //= block
    codes, zps = RNG.integers(low, high, shape), RNG.integers(max(low, -5), 6, parts)
    scales = RNG.uniform(0.01, 0.02, parts).astype(np.float32)
    held = [helper.make_tensor("w", kind, shape, codes.ravel()), numpy_helper.from_array(scales, "s")]
    if with_points:
        held.append(helper.make_tensor("z", kind, parts, zps.ravel()))
    names = ["w", "s", *(["z"] if with_points else [])]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["d"], axis=axis, block_size=block),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 64))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 24))
    graph = helper.make_graph(nodes, "model", [x], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    points = np.repeat(zps, block, axis) if with_points else 0
    return model, (codes - points) * np.repeat(scales.astype(np.float64), block, axis)


@pytest.mark.parametrize("with_points", [False, True])
@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u8"])
def test_blocked_weights_of_opset_21_are_read_packed(dtype, with_points):
    model, weights = blocked(dtype, 0, 16, with_points)
    executable, x = onegraph.onnx.load(model).compile(), floats(2, 64)
    np.testing.assert_allclose(executable(x), x @ weights, rtol=0, atol=1e-5 * np.abs(x @ weights).max())
    assert is_packed(executable)


def test_codes_fill_bytes_from_the_lower_half():
    np.testing.assert_array_equal(packed(np.array([[1, 2, -1]], np.int8), 4)[0, :2], [0x21, 0x0F])
