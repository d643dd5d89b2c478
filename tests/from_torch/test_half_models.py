"""Whole models in 16 bits: exported or converted to ONNX, compiled by PyTorch, and trained; against float64."""

import copy
import io
import warnings

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
from helpers.torch_backend import compiled  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
import onegraph.torch  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
OP_SETS = (17, 20, 24)  # the nodes of the models mean the same in all of them


class Layer(nn.Module):
    """A layer of BERT, ViT and GPT-2: normalization, attention that is spelled out, and a GELU."""

    def __init__(self, width=16, heads=2, causal=False):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), heads
        self.register_buffer("mask", torch.full((8, 8), -1e4).triu(1) if causal else torch.zeros(8, 8))

    def forward(self, x):
        parts = self.project(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) / parts.shape[-1] ** 0.5 + self.mask
        mixed = (torch.softmax(scores, -1, dtype=torch.float32).type_as(x) @ parts[2]).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class Network(nn.Module):
    """The blocks of a diffusion UNet: residuals with GroupNorm and SiLU, down and up again, a step in time."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(2 * width, 3, 3, padding=1)
        self.down, self.up = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(width, width, 3, padding=1)
        self.norm, self.again = nn.GroupNorm(4, width), nn.GroupNorm(4, 2 * width)
        self.time, self.layer = nn.Linear(1, width), Layer(width)
        self.layer.mask = torch.zeros(16, 16)

    def forward(self, x):
        step = x.new_full((1, 1), 0.5)
        x = self.first(x)
        y = self.down(functional.silu(self.norm(x) + self.time(step)[:, :, None, None]))
        tokens = self.layer(y.flatten(2).transpose(1, 2))
        y = tokens.transpose(1, 2).unflatten(2, y.shape[2:])
        y = self.up(functional.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.last(functional.silu(self.again(torch.cat([x, y], 1))))


MODELS = {
    "encoder": (Layer, (2, 8, 16)),
    "decoder": (lambda: Layer(causal=True), (2, 8, 16)),
    "network": (Network, (1, 3, 8, 8)),
}
SCALES = (0.01, 1.0, 30.0)


def given(name, scale=1.0):
    """The module of a model in f32, and its input."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    return make().eval(), torch.randn(shape) * scale


def exported(module, x):
    """The model in op set 17 by the exporter that records calls."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), file, opset_version=17, dynamo=False, input_names=["x"], output_names=["y"])
    proto = onnx.load_from_string(file.getvalue())
    for attribute in (one for node in proto.graph.node if node.op_type == "Cast" for one in node.attribute):
        if attribute.i == TensorProto.COMPLEX128:  # the exporter writes PyTorch's own number of bfloat16
            attribute.i = TensorProto.BFLOAT16
    return proto


def array(tensor):
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def error(found, exact):
    """The mean error, as a share of the mean result."""
    exact = exact.double()
    return float((torch.as_tensor(np.asarray(found, np.float64)) - exact).norm() / exact.norm())


@torch.no_grad()
def eager_and_exact(module, x):
    """The error of eager PyTorch in 16 bits, and the results in float64 of the same weights."""
    exact = copy.deepcopy(module).double()(x.double())
    return error(module(x).float(), exact), exact


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["decoder", "network"])
def test_exported_models_are_exact_in_every_op_set(name, dtype):
    module, x = given(name)
    module, x = module.to(HALVES[dtype]), x.to(HALVES[dtype])
    proto = exported(module, x)
    for op_set in OP_SETS:
        proto.opset_import[0].version = op_set
        run = onegraph.onnx.load(proto).compile()
        for scale in SCALES if op_set in (17, 24) else (1.0,):
            eager, exact = eager_and_exact(module, x * scale)
            assert error(run(x=array(x * scale)), exact) <= 1.3 * eager, (op_set, scale)


def test_saved_models_round_as_before(tmp_path):
    """Also for sizes of which the first executable has no program."""
    module, x = given("encoder")
    module, x = module.half(), x.half()
    proto = exported(module, x)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    run = onegraph.onnx.load(proto).compile()
    run.save(tmp_path / "model")
    np.testing.assert_array_equal(onegraph.load(tmp_path / "model")(x=array(x)), run(x=array(x)))
    assert onegraph.load(tmp_path / "model")._whole_graph()._roundings == run._whole_graph()._roundings


def in_half(proto, kept):
    """The model in f16 but for inputs, outputs and the kinds ``kept``, with casts between, as converters write it."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for one in made.graph.initializer:
        if one.data_type == TensorProto.FLOAT:
            one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one).astype(np.float16), one.name))
    nodes = [helper.make_node("Cast", ["x"], ["x/half"], to=TensorProto.FLOAT16)]
    for node in made.graph.node:
        names = [("x/half" if name == "x" else name) for name in node.input]
        if node.op_type == "Constant" and node.attribute[0].t.data_type == TensorProto.FLOAT:
            value = numpy_helper.to_array(node.attribute[0].t).astype(np.float16)
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(value))
        is_kept = node.op_type in kept
        for place, name in enumerate(names):
            if is_kept and name:
                nodes.append(helper.make_node("Cast", [name], [f"{node.output[0]}/{place}"], to=TensorProto.FLOAT))
                names[place] = f"{node.output[0]}/{place}"
        results = [f"{name}/wide" if is_kept else name for name in node.output]
        if node.op_type == "Cast":
            for attribute in node.attribute:
                attribute.i = TensorProto.FLOAT16 if attribute.i == TensorProto.FLOAT else attribute.i
        new = onnx.NodeProto()
        new.CopyFrom(node)
        del new.input[:], new.output[:]
        new.input.extend(names)
        new.output.extend(results)
        nodes.append(new)
        if is_kept:
            nodes.append(helper.make_node("Cast", results, [*node.output], to=TensorProto.FLOAT16))
    nodes[-1].output[0] = "y/half"
    nodes.append(helper.make_node("Cast", ["y/half"], ["y"], to=TensorProto.FLOAT))
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    return made


@pytest.mark.parametrize("name", ["encoder"])
def test_models_that_a_converter_cast_are_exact(name):
    module, x = given(name)
    half = copy.deepcopy(module).half()
    proto = in_half(exported(module, x), {"Softmax", "LayerNormalization"})
    run = onegraph.onnx.load(proto).compile()
    for scale in SCALES:
        eager, exact = eager_and_exact(half, (x * scale).half())
        assert error(run(x=(x * scale).half().float().numpy()), exact) <= 1.3 * eager, scale


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("spelled", ["own", "float"])
def test_large_scores_of_16_bits_are_not_rounded(spelled, dtype):
    """Scores of some hundreds: a rounding of one unit would change the shares by half."""
    own = {"float16": "float16", "bfloat16": "bfloat16"}[dtype]
    cast_up, cast_down = ("d=Cast<to=1>(c)", f"f=Cast<to={TensorProto.DataType.Value(own.upper())}>(e)")
    if spelled == "own":
        cast_up, cast_down = "d=Identity(c)", "f=Identity(e)"
    text = (
        f'<ir_version: 10, opset_import: ["" : 18]> m ({own}[1,2,6,8] q, {own}[1,2,6,8] k, {own}[1,2,6,8] v) => '
        f"({own}[1,2,6,8] y) {{ t=Transpose<perm=[0,1,3,2]>(k) c=MatMul(q,t) {cast_up} e=Softmax<axis=-1>(d) "
        f"{cast_down} y=MatMul(f,v) }}"
    )
    proto = onnx.parser.parse_model(text)
    rng, numpy_dtype = np.random.default_rng(0), {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[own]
    q, k, v = (rng.standard_normal((1, 2, 6, 8)).astype(numpy_dtype) for _ in range(3))
    q, k = q * numpy_dtype(8), k * numpy_dtype(8)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = powers / powers.sum(-1, keepdims=True) @ v.astype(np.float64)
    assert np.abs(scores).max() > 200
    found = onegraph.onnx.load(proto).compile()(q=q, k=k, v=v)
    unit = float(ml_dtypes.finfo(numpy_dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=unit, atol=unit * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("way", ["model", "autocast"])
def test_compiled_models_are_as_exact_as_eager(way, dtype):
    module, x = given("encoder" if way == "model" else "network")
    automatic = way == "autocast"
    exact = copy.deepcopy(module if automatic else copy.deepcopy(module).to(HALVES[dtype])).double()
    module = module if automatic else module.to(HALVES[dtype])
    run = compiled(module)
    for scale in SCALES:
        inputs = x * scale if automatic else (x * scale).to(HALVES[dtype])
        with torch.no_grad():
            wanted = exact(inputs.double())
            with torch.autocast("cpu", HALVES[dtype], enabled=automatic):
                found, eager = run(inputs), module(inputs)
        assert found.dtype == eager.dtype
        assert error(found.float(), wanted) <= 1.5 * error(eager.float(), wanted), scale


def trained(module, run, x, dtype, scale, steps=3):
    """The parameters and the scale after some steps with autocast, and the losses."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)
    optimizer, losses = torch.optim.SGD(module.parameters(), lr=0.05), []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = (run(x).float() - 0.5).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    return torch.cat([one.detach().flatten() for one in module.parameters()]), scaler.get_scale(), losses


@pytest.mark.parametrize(("dtype", "scale"), [("float16", 2.0**10), ("float16", 2.0**40), ("bfloat16", 1.0)])
def test_steps_with_a_scaled_loss_follow_eager(dtype, scale):
    module, x = given("decoder")
    modules = [copy.deepcopy(module).train() for _ in range(3)]
    found = trained(modules[0], compiled(modules[0]), x, HALVES[dtype], scale)
    eager = trained(modules[1], modules[1], x, HALVES[dtype], scale)
    exact = trained(modules[2], modules[2], x, None, 1.0)
    assert found[1] == eager[1]  # a step whose gradients are infinite is left out, and halves the scale
    if scale < 2.0**40:
        assert error(found[0], exact[0]) <= 2 * error(eager[0], exact[0])
        np.testing.assert_allclose(found[2], exact[2], rtol=4 * torch.finfo(HALVES[dtype]).eps)
    else:
        assert torch.equal(found[0], eager[0])


def test_gradients_of_half_models_are_as_exact_as_eager():
    module, x = given("decoder")
    module, x = module.half(), x.half()
    exact, twin = copy.deepcopy(module).double(), copy.deepcopy(module)
    compiled(module)(x).float().square().mean().backward()
    twin(x).float().square().mean().backward()
    exact(x.double()).square().mean().backward()
    pairs = zip(module.parameters(), twin.parameters(), exact.parameters(), strict=True)
    for found, eager, wanted in pairs:
        limit = 2 * error(eager.grad.float(), wanted.grad) + torch.finfo(torch.float16).eps
        assert error(found.grad.float(), wanted.grad) <= limit
