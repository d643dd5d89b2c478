"""Draws functions as users of PyTorch write them: modules, indices, sizes, autocast, calls with several sizes, NaN."""

from __future__ import annotations

import random
import re
import warnings
from dataclasses import replace

import torch

from . import op_samples
from .program_generator import Generator, Refused
from .program_ops import MAKERS, axis
from .programs import Program

OWN: list[tuple[float, object]] = []
N = 4  # the size that inputs of several calls have in the first one


def maker(weight):
    def enter(function):
        OWN.append((weight, function))
        return function

    return enter


class FunctionGenerator(Generator):
    """Grows one function."""

    def __init__(
        self, seed: int, statements: int = 4, choices: random.Random | None = None, sampled: bool = False
    ) -> None:
        super().__init__(seed, statements, choices)
        self.makers = [*OWN, *[(weight / 3, one) for weight, one in MAKERS]]
        if sampled:
            self.makers = [*self.makers, (150, op_samples.sampled)]
        self.special = self.flip(0.2)
        self.sizes = self.choice([(N,), (N,), (N, 7), (N, 7, 2), (N, 1)])
        self.ways = self.choice([(), (), (), (), ("autocast",), ("no_grad",)])
        self.modules: list[tuple[str, str]] = []
        self.space["n"] = N

    def input(self, shape, kind, layout="{}", more=""):
        if len(self.sizes) > 1 and N in shape:
            shape = Sized(shape)
        if self.special and kind in ("f32", "bf16", "f16") and not more and layout == "{}" and self.flip(0.5):
            layout = f"spoil({{}}, {self.below(1000)})"
        return super().input(shape, kind, layout, more)

    def number(self):
        numbers = [name for name, text in self.inputs if text.startswith("n")]
        return self.choice(numbers) if numbers and self.flip(0.5) else super().number()

    def _first_inputs(self):
        super()._first_inputs()
        if self.flip(0.3):  # a number of Python, which a call changes
            name = f"x{len(self.inputs)}"
            self.inputs.append((name, self.choice(["n", "n / 3"])))
            self.body[name] = eval(self.inputs[-1][1], self.space)

    def is_small(self, value):
        if not self.special or value.dtype == torch.bool or not value.is_floating_point():
            return super().is_small(value)
        return super().is_small(value[torch.isfinite(value)])

    def module(self, text):
        """The name of a new module."""
        name = f"m{len(self.modules)}"
        self.modules.append((name, text))
        torch.manual_seed(self.seed)
        try:
            self.body[name] = eval(text, self.body)
        except (ValueError, TypeError, RuntimeError, ZeroDivisionError):
            raise Refused from None
        return name

    def write(self):
        return super().write() if self.flip(0.4) else self.choice(WRITES)(self)

    def program(self) -> Program | None:
        program = super().program()
        if program is None:
            return None
        text = " ".join(one for _, one in program.statements)
        made = tuple(one for one in self.modules if re.search(rf"\b{one[0]}\b", text))
        dynamic = len(self.sizes) > 1 and self.flip(0.5)
        return replace(program, made=made, ways=self.ways, sizes=self.sizes, dynamic=dynamic)


class Sized(tuple):
    """A shape whose text has ``n`` for one size."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"({''.join(('n' if dim == N else str(dim)) + ', ' for dim in self)})"


# Modules --------------------------------------------------------------------------------------------------------------


def ending(g, kind):
    return (f".to({kind})" if kind != "f32" else "") + g.choice(["", "", ".eval()", ".requires_grad_(False)"])


POINTWISE = (
    *("ReLU()", "ReLU(inplace=True)", "GELU()", "GELU('tanh')", "SiLU()", "Mish()", "ELU(0.5)", "CELU()", "SELU()"),
    *("Hardtanh(-0.5, 2)", "Hardswish()", "Hardsigmoid()", "LeakyReLU(0.2)", "LogSigmoid()", "PReLU()", "ReLU6()"),
    *("Sigmoid()", "Softplus(2, 3)", "Softshrink()", "Hardshrink(0.3)", "Softsign()", "Tanh()", "Tanhshrink()"),
    *("Threshold(0.1, -2)", "Softmax(-1)", "LogSoftmax(0)", "Softmin(-1)", "Identity()", "Dropout(0.3)", "Flatten(0)"),
    *("Dropout(0.5, inplace=True)", "AlphaDropout(0.2)", "RReLU()", "Softmax2d()", "GLU(-1)", "CosineSimilarity(-1)"),
)


@maker(8)
def pointwise(g):
    value = g.floating()
    name = g.choice(POINTWISE)
    module = g.module(f"nn.{name}{ending(g, g.spelled(g.value(value).dtype))}")
    return f"{module}({value}{', ' + g.floating() if 'Cosine' in name else ''})"


@maker(8)
def of_features(g):
    value = g.floating()
    like = g.value(value)
    if not like.dim():
        return None
    size, kind = like.shape[-1], g.spelled(like.dtype)
    bias = g.flip(0.7)
    text = g.choice(
        [
            f"nn.Linear({size}, {g.choice([1, 3, 4, 8])}, bias={bias})",
            f"nn.Linear({size}, {g.choice([2, 8])})",
            f"nn.Sequential(nn.Linear({size}, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, {size}))",
            f"nn.LayerNorm({size}, eps=1e-3, elementwise_affine={bias})",
            f"nn.LayerNorm({tuple(like.shape[-2:])}, bias=False)",
            f"nn.RMSNorm({size})",
            f"nn.Bilinear({size}, {size}, 3)",
        ]
    )
    module = g.module(text + ending(g, kind))
    return f"{module}({value}, {value})" if "Bilinear" in text else f"{module}({value})"


@maker(8)
def of_images(g):
    value = g.image()
    like = g.value(value)
    rank, channels, kind = like.dim() - 2, like.shape[1], g.spelled(like.dtype)
    out, size = g.choice([1, 2, 4, 6]), g.choice([1, 2, 3])
    groups = g.choice([1, 1, channels])
    padding = g.choice([0, 1, "'same'"])
    mode = g.choice(["", "", ", padding_mode='reflect'", ", padding_mode='circular'", ", padding_mode='replicate'"])
    text = g.choice(
        [
            f"Conv{rank}d({channels}, {out * groups}, {size}, padding={padding}, groups={groups}{mode})",
            f"Conv{rank}d({channels}, {out}, {size}, stride=2, padding=1, dilation={g.choice([1, 2])}, bias=False)",
            f"ConvTranspose{rank}d({channels}, {out}, {size}, stride=2, padding=0, output_padding=1)",
            f"ConvTranspose{rank}d({channels}, {out}, {size}, groups=1, dilation=2)",
            f"BatchNorm{rank}d({channels})",
            f"BatchNorm{rank}d({channels}, momentum=None, affine=False)",
            f"BatchNorm{rank}d({channels}, track_running_stats=False)",
            f"InstanceNorm{rank}d({channels}, affine=True, track_running_stats={g.flip(0.5)})",
            f"GroupNorm({g.choice([1, channels])}, {channels})",
            f"MaxPool{rank}d({size}, stride=1, padding={size // 2}, ceil_mode=True)",
            f"AvgPool{rank}d({size}, padding={size // 2}, ceil_mode=True, count_include_pad={g.flip(0.5)})",
            f"AdaptiveAvgPool{rank}d({g.choice([1, 2, 3])})",
            f"AdaptiveMaxPool{rank}d({g.choice([1, 2])})",
            f"ReflectionPad{rank}d(1)",
            f"ReplicationPad{rank}d(1)",
            f"ZeroPad{rank}d(1)",
            f"ConstantPad{rank}d((1, -1), 3.5)",
            f"Dropout{rank}d(0.4)",
            "Upsample(scale_factor=2, mode='nearest')",
            f"Upsample(size={[5] * rank}, mode='nearest-exact')",
            "LocalResponseNorm(2)",
            "PixelShuffle(2)",
            "PixelUnshuffle(2)",
            "ChannelShuffle(2)",
            "Unfold(2, padding=1)",
            "Upsample(scale_factor=1.5, mode='bilinear', align_corners=True)",
            f"LPPool{rank}d(2, 2)",
        ]
    )
    module = g.module(f"nn.{text}{ending(g, kind)}")
    return f"{module}({value})"


@maker(2)
def of_steps(g):
    value = g._drawn(lambda name, one: one.is_floating_point() and one.dim() == 3 and one.numel())
    like = g.value(value)
    size, kind = like.shape[-1], g.spelled(like.dtype)
    text, call = g.choice(
        [
            (f"nn.MultiheadAttention({size}, 1, batch_first=True, dropout=0.0)", "{m}({x}, {x}, {x})[0]"),
            (f"nn.MultiheadAttention({size}, 1)", "{m}({x}, {x}, {x}, need_weights=False)[0]"),
            (f"nn.TransformerEncoderLayer({size}, 1, 8, 0.0, batch_first=True)", "{m}({x})"),
            (f"nn.TransformerDecoderLayer({size}, 1, 8, 0.0, 'gelu', batch_first=True)", "{m}({x}, {x})"),
            (f"nn.LSTM({size}, 3, batch_first=True)", "{m}({x})[0]"),
            (f"nn.GRU({size}, 3)", "{m}({x})[1]"),
            (f"nn.RNNCell({size}, 3)", "{m}({x}[0])"),
        ]
    )
    return call.replace("{m}", g.module(text + ending(g, kind))).replace("{x}", value)


@maker(3)
def of_indices(g):
    index = g.index()
    return g.choice(
        [
            f"{g.module('nn.Embedding(5, 3)')}({index} % 5)",
            f"{g.module('nn.Embedding(6, 4, padding_idx=2)')}({index}.abs() % 6)",
            f"{g.module('nn.EmbeddingBag(5, 3, mode=' + repr(g.choice(['sum', 'mean', 'max'])) + ')')}({index} % 5)",
        ]
    )


@maker(4)
def lost(g):
    value = g.floating()
    like = g.value(value)
    kind, reduction = g.spelled(like.dtype), g.choice(["mean", "sum", "none"])
    classes = like.shape[1] if like.dim() > 1 else 1
    where = [like.shape[0], *like.shape[2:]] if like.dim() else []
    target = f"torch.zeros({where}, dtype=i64)"
    name = g.choice(
        [
            f"MSELoss(reduction={reduction!r})",
            f"L1Loss(reduction={reduction!r})",
            "SmoothL1Loss(beta=0.3)",
            f"HuberLoss({reduction!r}, 0.7)",
            "BCEWithLogitsLoss()",
            f"KLDivLoss(reduction={reduction!r})",
            "SoftMarginLoss()",
            "HingeEmbeddingLoss(0.5)",
            "PoissonNLLLoss()",
            f"CrossEntropyLoss(reduction={reduction!r})",
            f"CrossEntropyLoss(torch.arange(1.0, {classes + 1}), label_smoothing=0.1)",
            "NLLLoss(ignore_index=0)",
            "CrossEntropyLoss(ignore_index=0)",
            "CrossEntropyLoss(label_smoothing=0.2)",
            "TripletMarginLoss()",
            "MultiLabelSoftMarginLoss()",
            "MarginRankingLoss(0.1)",
            "CosineEmbeddingLoss()",
            "GaussianNLLLoss()",
        ]
    )
    module = g.module(f"nn.{name}{ending(g, kind)}")
    if name.startswith(("CrossEntropy", "NLL")):
        return f"{module}({value}, {target})"
    if name.startswith(("Triplet", "MarginRanking")):
        return f"{module}({value}, {g.floating()}, {value}.sign())"
    if name.startswith("Cosine"):
        return f"{module}({value}, {g.floating()}, torch.ones({value}.shape[0]))"
    if name.startswith("Gaussian"):
        return f"{module}({value}, {g.floating()}, {value}.abs() + 0.5)"
    return f"{module}({value}, {g.floating()}.sigmoid())"


# Indices, sizes and other Python --------------------------------------------------------------------------------------


def place(g, value):
    """The text of an index of a value."""
    like, items, listed = g.value(value), [], False
    for size in like.shape:
        how = g.random.random()
        if how < 0.2:
            break
        if how < 0.4:
            items.append(str(g.random.randrange(-size, size) if size else 0))
        elif how < 0.6 and not listed:
            listed = g.flip(0.8)
            picks = [g.random.randrange(-size, size) if size else 0 for _ in range(g.choice([1, 2, 2, 3]))]
            mask = [g.flip(0.5) for _ in range(size)]
            items.append(
                g.choice([str(picks), f"torch.tensor({picks})", f"torch.tensor([{picks}])", f"torch.tensor({mask})"])
            )
        elif how < 0.8:
            items.append(
                f"{g.choice(['', g.random.randrange(-size - 1, size + 1)])}:{g.choice(['', g.below(size + 2), -1])}"
            )
        else:
            items.append(f"{g.choice(['', 1])}::{g.choice([1, 2, 3])}")
    if g.flip(0.2):
        items.insert(g.below(len(items) + 1), "None")
    if g.flip(0.25):
        items.insert(g.below(len(items) + 1), "...")
    return ", ".join(items) or "..."


@maker(14)
def indexed(g):
    value = g.any()
    return f"{value}[{place(g, value)}]"


@maker(2)
def masked(g):
    value = g.any()
    return g.choice(
        [
            f"{value}[{value} > 0]",
            f"torch.masked_select({value}, {g.mask()})",
            f"torch.nonzero({value})",
            f"{value}[{g.mask()}]",
            f"torch.where({g.mask()})[0]",
            f"{value}.flatten()[{value}.flatten().argsort(stable=True)]",
        ]
    )


@maker(8)
def sized(g):
    value = g._drawn(lambda name, one: one.dim() > 0)
    at = axis(g, g.value(value))
    size = f"{value}.shape[{at}]"
    return g.choice(
        [
            f"{value} * {size}",
            f"{value}.view({value}.size(0), -1)",
            f"{value} / math.sqrt({size})",
            f"{value}[: {value}.shape[0] // 2]",
            f"{value}.reshape({size}, -1)",
            f"torch.arange({size}) + 1",
            f"{value}.narrow({at}, 0, {size} // 2)",
            f"{value} if {size} > 3 else -{value}",
            f"torch.zeros({size}, 3)",
            f"torch.full(({size},), 2.5)",
            f"sum({value}.unbind({at}))",
            f"torch.cat([{value}] * 2, {at})[..., :1]",
            f"{value}.expand(2, *{value}.shape).sum(0)",
            f"torch.linspace(0, 1, {size})",
            f"torch.eye({size})",
            f"{value}.split([1, {size} - 1], {at})[1]",
            f"{value}.chunk(3, {at})[-1]",
            f"{value}.flatten(0, -1)",
            f"{value}.repeat_interleave(torch.tensor([1] * {size}), dim={at})",
            f"{value}.new_ones({size}, 2) * 3",
            f"torch.ones({size}, {size}).tril() * 2",
            f"{value}.float().mean().expand({size})",
            f"{value}.numel() + {value}",
            f"torch.stack([{value}, {value}]).amax(0)",
            f"torch.tensor({value}.shape)",
            f"{value}.unfold({at}, 2, 1)",
            f"{value}.tensor_split(2, {at})[0]",
            f"F.pad({value}, (0, {size} % 3))",
            f"{value}.movedim({at}, 0)[0]",
            f"max({value}.unbind({at}), key=lambda one: one.dim())",
            f"[one * 2 for one in {value}.unbind({at})][-1]",
            f"torch.einsum('...i,...i->...', {value}.float(), {value}.float())",
            f"F.one_hot(torch.arange({size}), {size})",
            f"{value}.unsqueeze(0).expand({size}, *{value}.shape).contiguous()",
            f"{value}.roll({size} // 2, {at})",
        ]
    )


@maker(5)
def called(g):
    first, second = g.pair()
    at = axis(g, g.value(first))
    return g.choice(
        [
            f"torch.add({first}, {second}, out=torch.empty(0, dtype={first}.dtype))",
            f"{first}.maximum({second})",
            f"torch.where({first} > {second}, {first}, {second})",
            f"torch.isclose({first}, {second})",
            f"torch.nan_to_num({first}, nan=0.5, posinf=3.0)",
            f"{first}.clamp(-1, 1)",
            f"{first}.clip(min=0)",
            f"torch.outer({first}.flatten(), {second}.flatten())",
            f"torch.max({first}, {at}).values",
            f"torch.var_mean({first}, {at})[1]",
            f"torch.aminmax({first})[0]",
            f"{first}.nansum()",
            f"{first}.sum_to_size(1)",
            f"{first}.nanmean()",
            f"torch.logsumexp({first}, {at})",
            f"{first}.cummax({at}).values",
            f"{first}.cumsum({at})",
            f"torch.bucketize({first}, torch.tensor([-1.0, 0.0, 1.0]))",
            f"torch.heaviside({first}, {second})",
            f"torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), {first})",
            f"torch.gcd({first}, {second})",
            f"torch.cdist({first}[None].float(), {first}[None].float())",
            f"torch.linalg.vector_norm({first}, dim={at})",
            f"torch.take({first}, torch.tensor([0, -1]))",
            f"{first}.scatter_add({at}, torch.zeros_like({first}, dtype=i64), {first})",
            f"{first}.scatter_reduce({at}, torch.zeros_like({first}, dtype=i64), {first}, 'amax')",
            f"{first}.float() ** {second}",
            f"{first}.index_add({at}, torch.tensor([0]), {first}.narrow({at}, 0, 1))",
            f"{first}.type_as({second})",
            f"torch.addmm({first}, {first}, {first}, beta=0.5, alpha=2)",
            f"torch.baddbmm({first}, {first}, {first})",
            f"torch.bmm({first}, {first}.mT)",
            f"torch.tensordot({first}, {first}, dims=1)",
            f"torch.kron({first}, {first})",
            f"F.grid_sample({first}, {first}.new_zeros({first}.shape[0], 2, 3, 2), align_corners=False)",
            f"{first}.T",
            f"torch.trapezoid({first})",
            f"torch.cross({first}, {second}, dim=-1)",
            f"torch.trace({first})",
            f"-{first}",
            f"torch.histc({first}.float(), 4, -2, 2)",
            f"torch.bincount({first}.flatten().abs())",
            f"{first}.logical_not()",
            f"torch.unique({first})",
            f"{first}.sort(descending=True, stable=True).values",
            f"{first}.mode({at}).values",
            f"{first}.kthvalue(1, {at}).values",
            f"torch.quantile({first}.float(), 0.5)",
            f"{first}.fmod(2)",
            f"{first} % 3",
            f"{first}.bool() & {second}.bool()",
            f"{first} if {first}.dtype == f32 else {first}.to(f32)",
            f"{first}.sum({at}) / 2",
        ]
    )


WRITES = [
    lambda g: (lambda v: f"{v}[{place(g, v)}] = {g.number()}")(g.any()),
    lambda g: (lambda v: f"{v}[{place(g, v)}] {g.choice(['+', '-', '*'])}= {g.number()}")(g.any()),
    lambda g: (lambda v, p: f"{v}[{p}] = {v}[{p}] * 2")((v := g.any()), place(g, v)),
    lambda g: (lambda v: f"{v}[{v} > 0] = {g.number()}")(g.any()),
    lambda g: f"{g.any()} {g.choice(['+', '-', '*', '/'])}= {g.choice([g.any(), g.number()])}",
    lambda g: (lambda v: f"{v}.index_put_((torch.tensor([0, 0]),), {v}[:1].clone(), accumulate=True)")(g.any()),
    lambda g: (lambda v: f"{v}.diagonal().fill_({g.number()})")(g.any()),
    lambda g: (lambda v: f"{v}.view(-1)[0] = {g.number()}")(g.any()),
    lambda g: (lambda v: f"{v}.scatter_(0, torch.zeros_like({v}, dtype=i64), {g.number()})")(g.any()),
    lambda g: (lambda v: f"torch.relu_({v})")(g.any()),
    lambda g: (lambda v: f"{v}.data.mul_(2)")(g.any()),
    lambda g: (lambda v: f"torch.mul({v}, 2, out={v})")(g.any()),
    lambda g: (lambda v: f"F.relu({v}, inplace=True)")(g.any()),
    lambda g: (lambda v: f"{v}.squeeze_().unsqueeze_(0)")(g.any()),
    lambda g: (lambda v: f"{v}.detach().add_(1)")(g.any()),
]


def random_function(
    seed: int, statements: int = 4, choices: random.Random | None = None, sampled: bool = False
) -> Program | None:
    """A function; None if the seed, or other choices, give none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FunctionGenerator(seed, statements, choices, sampled).program()
