"""The kinds of statements of random programs: each returns the text of an expression, or None if no value fits.

A maker has a weight, which is how often it is chosen. Ops that jump, such as a comparison, take exact values alone:
those that no rounding has touched.
"""

from __future__ import annotations

MAKERS: list[tuple[float, object]] = []
SMOOTH = (
    *(
        "torch.relu",
        "torch.tanh",
        "torch.sigmoid",
        "torch.exp",
        "F.gelu",
        "F.silu",
        "F.mish",
        "F.softplus",
        "torch.sin",
    ),
    *("torch.cos", "torch.abs", "torch.neg", "torch.square", "F.hardswish", "F.hardsigmoid", "F.elu", "F.leaky_relu"),
    *("F.selu", "F.celu", "F.relu6", "F.hardtanh", "F.logsigmoid", "F.softsign", "F.tanhshrink", "torch.erf"),
    *("torch.atan", "torch.asinh", "torch.log1p", "torch.expm1", "torch.sqrt", "torch.rsqrt", "torch.reciprocal"),
    *("torch.log", "torch.special.log_ndtr", "F.normalize", "torch.erfc", "torch.log2", "torch.exp2", "torch.sinh"),
)
JUMPS = (
    *("torch.floor", "torch.ceil", "torch.round", "torch.trunc", "torch.sign", "torch.frac", "torch.isnan"),
    *("torch.logical_not", "torch.isfinite", "torch.signbit", "torch.sgn", "torch.isinf", "torch.nan_to_num"),
)
IN_PLACE = ("relu_()", "tanh_()", "sigmoid_()", "neg_()", "abs_()", "zero_()", "square_()", "exp_()", "t_()")
BINARY = ("+", "-", "*", "/")
INTEGER = ("//", "%", "&", "|", "^", "<<", ">>")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "norm", "logsumexp", "var", "std", "softmax", "log_softmax")


def maker(weight):
    def enter(function):
        MAKERS.append((weight, function))
        return function

    return enter


def axis(g, value):
    rank = value.dim()
    return g.below(rank) - (rank if g.flip(0.3) else 0) if rank else g.choice([0, -1])


@maker(10)
def smooth(g):
    return f"{g.choice(SMOOTH)}({g.floating()})"


@maker(4)
def jump(g):
    return f"{g.choice(JUMPS)}({g.exact()})"


@maker(10)
def binary(g):
    first, second = g.pair()
    return f"{first} {g.choice(BINARY)} {second}"


@maker(8)
def with_number(g):
    value, number = g.any(), g.number()
    pair = (value, number) if g.flip(0.6) else (number, value)
    return f"{pair[0]} {g.choice(BINARY)} {pair[1]}"


@maker(4)
def called_with_number(g):
    first, second = g.pair()
    return g.choice(
        [
            f"torch.add({first}, {second}, alpha={g.number()})",
            f"torch.sub({first}, {second}, alpha={g.number()})",
            f"torch.rsub({first}, {second}, alpha={g.number()})",
            f"torch.add({first}, {g.number()}, alpha={g.number()})",
            f"torch.maximum({first}, {second})",
            f"torch.minimum({first}, {second})",
            f"torch.atan2({first}, {second})",
            f"torch.hypot({first}, {second})",
            f"torch.lerp({first}, {second}, {g.number()})",
            f"torch.addcmul({first}, {second}, {g.any()}, value={g.number()})",
            f"torch.addcdiv({first}, {second}, {g.any()}, value={g.number()})",
            f"torch.pow({first}, {g.choice(['2', '3', '0.5', '-1', '1', '0', '1.5', '4', '-2'])})",
            f"torch.pow({g.choice(['2', '0.5', '3.'])}, {first})",
            f"torch.clamp({first}, {g.number()}, {g.number()})",
            f"torch.clamp({first}, min={g.number()})",
            f"torch.clamp({first}, max={g.number()})",
            f"torch.clamp({first}, {second}, {g.any()})",
            f"torch.clamp({first}, min={second})",
            f"torch.where({g.mask()}, {first}, {second})",
            f"torch.where({g.mask()}, {first}, {g.number()})",
            f"{first}.masked_fill({g.mask()}, {g.number()})",
            f"torch.logaddexp({first}, {second})",
            f"torch.true_divide({first}, {second})",
            f"F.threshold({first}, 0.1, {g.number()})",
            f"F.mse_loss({first}, {second})",
            f"F.smooth_l1_loss({first}, {second}, beta=0.5)",
            f"F.huber_loss({first}, {second}, reduction='none')",
            f"F.l1_loss({first}, {second})",
            f"F.cosine_similarity({first}, {second}, dim=-1)",
            f"F.prelu({first}, {second})",
            f"torch.copysign({first}, {second})",
            f"torch.nextafter({first}, {second})",
            f"torch.rot90({first})",
            f"torch.dist({first}, {second})",
        ]
    )


@maker(5)
def compared(g):
    first, second = g.exact(), g.exact() if g.flip(0.6) else g.number()
    return f"{first} {g.choice(COMPARISONS)} {second}"


@maker(5)
def integers(g):
    first, second = g.integer(), g.integer() if g.flip(0.5) else g.choice(["2", "3", "-2", "True", "5"])
    return g.choice(
        [
            f"{first} {g.choice(INTEGER)} {second}",
            f"~{first}",
            f"torch.div({first}, {second}, rounding_mode={g.choice(['trunc', 'floor', None])!r})",
            f"torch.remainder({first}, {second})",
            f"torch.fmod({first}, {second})",
            f"torch.logical_and({first}, {g.integer()})",
            f"torch.logical_xor({first}, {g.integer()})",
            f"torch.bitwise_and({first}, {second})",
            f"torch.abs({first})",
            f"{first}.bool()",
            f"{first}.clamp({second}, 3)",
            f"{first} ** 2",
            f"torch.cumsum({first}, {axis(g, g.value(first))})",
            f"{first}.sum()",
            f"{first}.to(f32).mean({axis(g, g.value(first))})",
        ]
    )


@maker(3)
def divided(g):
    first, second = g.exact(), g.exact() if g.flip(0.5) else g.choice(["2", "3.", "-1.5", "0.3"])
    return g.choice(
        [
            f"{first} // {second}",
            f"{first} % {second}",
            f"torch.div({first}, {second}, rounding_mode='trunc')",
            f"torch.fmod({first}, {second})",
        ]
    )


@maker(8)
def reduced(g):
    name = g.choice(REDUCTIONS)
    value = g.floating()
    keep = f", keepdim={g.flip(0.5)}"
    if name in ("softmax", "log_softmax"):
        kind = f", dtype={g.choice(['f32', 'bf16'])}" if g.flip(0.2) else ""
        return f"{value}.{name}({axis(g, g.value(value))}{kind})"
    if name in ("sum", "mean", "prod", "norm", "var", "std") and g.flip(0.3):
        return f"{value}.{name}()"
    if name in ("var", "std"):
        return f"{value}.{name}({axis(g, g.value(value))}, correction={g.choice(['0', '1'])}{keep})"
    if name == "norm":
        order = g.choice(["1", "2", "3", "torch.inf", "0"])
        return f"{value}.norm({order}, {axis(g, g.value(value))}{keep})"
    several = g.value(value).dim() > 1 and name not in ("prod",) and g.flip(0.4)
    places = f"({axis(g, g.value(value))}, {axis(g, g.value(value))})" if several else axis(g, g.value(value))
    return f"{value}.{name}({places}{keep})"


@maker(4)
def reduced_exact(g):
    value = g.exact()
    at = axis(g, g.value(value))
    keep = f", keepdim={g.flip(0.5)}"
    return g.choice(
        [
            f"{value}.argmax({at}{keep})",
            f"{value}.argmin()",
            f"{value}.max({at}{keep})[0]",
            f"{value}.min({at}{keep})[1]",
            f"{value}.max()",
            f"{value}.any({at}{keep})",
            f"{value}.all()",
            f"{value}.sum({at}{keep})",
            f"{value}.sort({at})[0]",
            f"{value}.cummax({at})[0]",
            f"{value}.topk(1, {at})[0]",
            f"{value}.count_nonzero()",
            f"{value}.median()",
            f"{value}.aminmax(dim={at}{keep})[1]",
            f"{value}.argsort({at}, stable=True)",
        ]
    )


@maker(3)
def scanned(g):
    value = g.floating()
    at = axis(g, g.value(value))
    return g.choice(
        [
            f"{value}.cumsum({at})",
            f"{value}.cumprod({at})",
            f"{value}.logcumsumexp({at})",
            f"{value}.sum({at}, dtype=f32)",
            f"{value}.mean(dtype=f32)",
            f"{value}.diff(dim={at})",
        ]
    )


@maker(12)
def moved(g):
    value = g.any()
    like = g.value(value)
    a, b = axis(g, like), axis(g, like)
    size = like.shape[a] if like.dim() else 1
    start = g.below(size + 1)
    texts = [
        f"{value}.transpose({a}, {b})",
        f"{value}.flip({a})",
        f"{value}.unsqueeze({a})",
        f"{value}.squeeze()",
        f"{value}.squeeze({a})",
        f"{value}.flatten()",
        f"{value}.reshape(-1)",
        f"{value}.contiguous()",
        f"{value}.clone()",
        f"{value}.narrow({a}, {start}, {g.below(size - start + 1)})",
        f"{value}.roll(1, {a})",
        f"{value}.select({a}, 0)",
        f"{value}[..., {start}:]",
        f"{value}[..., ::2]",
        f"{value}[{start}:]",
        f"{value}[None]",
        f"{value}.chunk(2, {a})[0]",
        f"{value}.unbind({a})[0]",
        f"{value}.mT",
        f"torch.cat([{value}, {g.any()}], {a})",
        f"torch.stack([{value}, {value}], {a})",
        f"{value}.repeat_interleave(2)",
        f"torch.cat([{value}, {value}], {a})",
        f"F.pad({value}, (1, 2))",
        f"F.pad({value}, (-1, 1), value={g.number()})",
        f"{value}.expand(2, *{value}.shape)",
        f"{value}.repeat(2, *[1] * {value}.dim())",
        f"{value}.permute(*range({value}.dim())[::-1])",
        f"{value}.movedim({a}, {b})",
        f"{value}.tril()",
        f"{value}.triu(1)",
        f"{value}.diagonal()",
        f"{value}.unfold({a}, 1, 1)",
        f"{value}.detach()",
        f"{value}.view(-1)",
        f"{value}.view({value}.shape)",
        f"{value}.to(memory_format=torch.channels_last)",
        f"{value}.as_strided({value}.shape, {value}.stride())",
        f"{value}.expand_as({g.any()})",
        f"torch.broadcast_to({value}, {g.any()}.shape)",
        f"torch.zeros_like({value})",
        f"torch.ones_like({value}) * {g.number()}",
        f"torch.full_like({value}, {g.number()})",
        f"{value}.new_full((2, 3), {g.number()})",
        f"{value}.index_select({a}, torch.tensor([0]))",
        f"{value}[torch.tensor([0])]",
        f"torch.diag_embed({value})",
        f"torch.tile({value}, (2,))",
        f"{value}.split(1, {a})[-1]",
        f"torch.empty_like({value}).fill_({g.number()})",
        f"torch.select_scatter({value}, {value}.select({a}, 0), {a}, 0)",
        f"{value}.swapaxes({a}, {b}).contiguous()",
        f"{value}.unflatten({a}, (1, -1))",
        f"torch.atleast_2d({value})",
        f"torch.tensor({g.number()}) * {value}",
        f"torch.tensor({g.number()}, dtype={g.choice(['f32', 'bf16', 'f16', 'i64'])}) + {value}",
        f"{value} * torch.arange({value}.shape[-1])",
        f"{value}.view(*{value}.shape, 1)",
        f"{value}.resolve_conj()",
        f"{value}.real",
        f"torch.meshgrid({value}.flatten(), {value}.flatten(), indexing='ij')[1]",
    ]
    return g.choice(texts)


@maker(5)
def casted(g):
    value = g.any()
    kinds = ["f32", "bf16", "f16", "f32"]
    if g.is_exact(value):
        kinds += ["i64", "boolean", "i32", "u8", "i8"]
    return f"{value}.to({g.choice(kinds)})"


@maker(6)
def multiplied(g):
    first, second = g.matrices()
    return g.choice(
        [
            f"{first} @ {second}",
            f"F.linear({first}, {second}.transpose(-1, -2))",
            f"torch.matmul({first}, {second}) + {g.any()}",
            f"torch.addmm({g.any()}, {first}, {second}, alpha={g.number()}, beta={g.number()})",
            f"torch.baddbmm({g.any()}, {first}, {second}, beta={g.number()})",
            f"torch.einsum('...ij,...jk->...ki', {first}, {second})",
            f"torch.outer({first}.flatten(), {second}.flatten())",
            f"torch.mv({first}, {second}[..., 0])",
            f"F.linear({first}, {second}.transpose(-1, -2), {second}[..., 0, :])",
        ]
    )


@maker(7)
def layer(g):
    value = g.image()
    like = g.value(value)
    channels, kind, count = like.shape[1], g.spelled(like.dtype), like.dim() - 2
    size = g.choice([1, 2, 3])
    stride, padding, dilation = g.choice([1, 1, 2]), g.choice([0, 1]), g.choice([1, 1, 2])
    out = g.choice([1, 2, 3, 4])
    groups = channels if g.flip(0.2) else 1
    weights = g.input((out * groups, channels // max(groups, 1), *[size] * count), kind)
    if g.flip(0.25):
        weights = g.input((channels, out, *[size] * count), kind)
        return f"F.conv_transpose{count}d({value}, {weights}, None, {stride}, {padding})"
    bias = g.input((out * groups,), kind) if g.flip(0.5) else None
    return f"F.conv{count}d({value}, {weights}, {bias}, {stride}, {padding}, {dilation}, {groups})"


@maker(5)
def pooled(g):
    value = g.image()
    count = g.value(value).dim() - 2
    size = g.choice([1, 2, 3])
    stride, padding = g.choice([1, 2]), g.choice([0, 0, 1])
    ceil = g.flip(0.3)
    texts = [
        f"F.avg_pool{count}d({value}, {size}, {stride}, {padding}, {ceil}, {g.flip(0.5)})",
        f"F.adaptive_avg_pool{count}d({value}, {g.choice([1, 2, 3])})",
    ]
    if g.is_exact(value):
        texts += [
            f"F.max_pool{count}d({value}, {size}, {stride}, {padding}, 1, {ceil})",
            f"F.adaptive_max_pool{count}d({value}, {g.choice([1, 2])})",
        ]
    if count == 2:
        texts += [f"F.pixel_shuffle({value}, 2)", f"F.unfold({value}, {size})", f"F.lp_pool2d({value}, 2, 2)"]
    return g.choice(texts)


@maker(4)
def resized(g):
    value = g.image()
    count = g.value(value).dim() - 2
    modes = ["nearest", "nearest-exact", {1: "linear", 2: "bilinear", 3: "trilinear"}[count]]
    mode = g.choice(modes + ["bicubic"] * (count == 2))
    corners = f", align_corners={g.flip(0.5)}" if "nearest" not in mode else ""
    if g.flip(0.5):
        return f"F.interpolate({value}, scale_factor={g.choice(['2', '0.5', '1.5'])}, mode={mode!r}{corners})"
    more = ", antialias=True" if mode in ("bilinear", "bicubic") and g.flip(0.3) else ""
    return f"F.interpolate({value}, size={g.choice([1, 2, 3, 7])}, mode={mode!r}{corners}{more})"


@maker(6)
def normalized(g):
    epsilon = g.choice(["1e-5", "1e-12", "1e-3"])
    if g.flip(0.5):
        value = g.floating()
        like = g.value(value)
        kind = g.spelled(like.dtype)
        shape = tuple(like.shape[-1:])
        gamma = g.input(shape, kind) if g.flip(0.5) else None
        beta = g.input(shape, kind) if gamma and g.flip(0.7) else None
        return g.choice(
            [
                f"F.layer_norm({value}, {shape}, {gamma}, {beta}, {epsilon})",
                f"F.rms_norm({value}, {shape}, {gamma}, {g.choice([epsilon, None])})",
                f"F.normalize({value}, dim=-1, eps={epsilon})",
            ]
        )
    value = g.image()
    like = g.value(value)
    channels, kind = like.shape[1], g.spelled(like.dtype)
    gamma = g.input((channels,), kind) if g.flip(0.5) else None
    mean, var = g.input((channels,), "f32", more=".detach()"), g.input((channels,), "f32", more=".detach().square()")
    return g.choice(
        [
            f"F.batch_norm({value}, None, None, {gamma}, None, True, 0.1, {epsilon})",
            f"F.batch_norm({value}, {mean}, {var}, {gamma}, {gamma}, {g.flip(0.5)}, 0.1, {epsilon})",
            f"F.group_norm({value}, {g.choice([1, channels])}, {gamma}, {gamma}, {epsilon})",
            f"F.instance_norm({value}, None, None, {gamma}, {gamma}, True, 0.1, {epsilon})",
            f"F.local_response_norm({value}, 2)",
        ]
    )


@maker(3)
def random(g):
    value = g.any()
    return g.choice(
        [
            f"F.dropout({value}, {g.choice(['0.5', '0.1', '0.0', '1.0'])})",
            f"torch.rand_like({g.floating()})",
            f"torch.randn_like({g.floating()})",
            f"torch.bernoulli({g.floating()}.sigmoid())",
            "torch.rand(2, 3) * 2",
            "torch.randint(0, 5, (3, 2))",
            f"F.dropout2d({value})",
            f"F.alpha_dropout({value}, 0.3, True)",
            f"F.rrelu({value}, training=True)",
            f"torch.randint_like({value}, 5)",
            f"torch.normal({value}, 1.0)",
            f"{value}.clone().bernoulli_(0.3)",
            f"{value}.clone().uniform_(1, 2)",
        ]
    )


@maker(3)
def attended(g):
    value = g.floating()
    if g.value(value).dim() < 3:
        return None
    causal = g.flip(0.3)
    return f"F.scaled_dot_product_attention({value}, {value}, {value}, is_causal={causal})"


@maker(2)
def selected(g):
    value, index = g.floating(), g.index()
    like = g.value(value)
    return g.choice(
        [
            f"F.embedding({index} % {max(like.shape[0] if like.dim() else 1, 1)}, {value})",
            f"torch.gather({value}, {axis(g, like)}, torch.zeros_like({value}, dtype=i64))",
            f"{value}[{index} % {max(like.shape[0] if like.dim() else 1, 1)}]",
            f"F.cross_entropy({value}, torch.zeros({value}.shape[0], dtype=i64))",
            f"F.one_hot({index} % 5)",
            f"F.nll_loss({value}, torch.zeros({value}.shape[0], dtype=i64))",
            f"F.binary_cross_entropy_with_logits({value}, {value}.sigmoid())",
            f"F.kl_div({value}, {value}.softmax(-1))",
            f"torch.take_along_dim({value}, torch.zeros_like({value}, dtype=i64), -1)",
            f"{value}.index_add(0, torch.tensor([0]), {value}[:1])",
            f"{value}.scatter(0, torch.zeros_like({value}, dtype=i64)[:1], 2.0)",
            f"{value}[{g.mask()}].sum()",
        ]
    )


def in_place(g):
    """The text of a statement that writes into a value."""
    value = g.any()
    first = g.any()
    return g.choice(
        [
            f"{value}.{g.choice(IN_PLACE)}",
            f"{value}.add_({g.number()})",
            f"{value}.mul_({first})",
            f"{value}.add_({first}, alpha={g.number()})",
            f"{value}.copy_({first})",
            f"{value}[0] = {g.number()}",
            f"{value}[..., ::2] = {g.number()}",
            f"{value}[..., 0].mul_(2)",
            f"{value}.fill_({g.number()})",
            f"{value}.clamp_(-1, 1)",
            f"{value}.transpose(0, -1).add_(1)",
            f"{value}.masked_fill_({g.mask()}, {g.number()})",
            f"{value}.div_({g.choice(['2', '3'])})",
            f"{value}.unsqueeze_(0)",
            f"{value}.index_fill_(0, torch.tensor([0]), 1)",
            f"{value}.lerp_({first}, 0.3)",
            f"{value}.addcmul_({first}, {first})",
        ]
    )
