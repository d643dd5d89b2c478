"""A language model of the kind that is usual today, in two graphs: one that trains, and one that reads behind a cache.

A layer has RMSNorm, rotary embeddings, attention, and a gated network. One function adds the layers to both graphs.
"""

import numpy as np

import onegraph as og

WIDTH, HEADS, LAYERS, TIME, LONGEST = 128, 4, 2, 64, 1024  # TIME: tokens of a training passage
SIZE, INNER = WIDTH // HEADS, 3 * WIDTH
angles = np.arange(LONGEST)[:, None] / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2))
COS, SIN = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def host(g, kind, *inputs, **attrs):
    return g.op(kind, inputs, attrs, edition="host", outputs=["dst"])


def scores(g, tokens, words, parameter, attend):
    """The scores of the next tokens, of so many; ``attend`` mixes the values of a layer by query and key, in heads."""
    rng = np.random.default_rng(0)

    def linear(name, x, before, after):
        return g.matmul(x, parameter(name, rng.normal(0, before**-0.5, (before, after))))

    def norm(name, x):
        return g.rms_norm(x, parameter(name, np.ones(WIDTH)))

    def heads(x):
        return g.static_transpose(g.static_reshape(x, shape=[0, 0, HEADS, SIZE], special_zero=True), order=[0, 2, 1, 3])

    x = host(g, "Gather", parameter("words", rng.normal(0, 1, (words, WIDTH))), tokens)
    for layer in range(LAYERS):
        y = norm(f"norm{layer}", x)
        y = attend(layer, *(heads(linear(f"{end}{layer}", y, WIDTH, WIDTH)) for end in ("query", "key", "value")))
        y = g.static_reshape(g.static_transpose(y, order=[0, 2, 1, 3]), shape=[0, 0, WIDTH], special_zero=True)
        x = x + linear(f"mixed{layer}", y, WIDTH, WIDTH)
        y = norm(f"norm{layer}_gated", x)
        gate, up = (linear(f"{end}{layer}", y, WIDTH, INNER) for end in ("gate", "up"))
        x = x + linear(f"down{layer}", gate * g.sigmoid(gate) * up, INNER, WIDTH)
    return linear("last", norm("norm", x), WIDTH, words)


def training_step(batch, words):
    """A step of AdamW with gradients clipped by their norm, and the names of the weights."""
    g, made = og.Graph(), {}
    tokens, following = g.input("tokens", og.s32, (batch, TIME)), g.input("following", og.s32, (batch, TIME))
    tables = [g.constant(table[None, None, :TIME]) for table in (COS, SIN)]

    def attend(layer, query, key, value):
        query, key = (host(g, "Rotary", each, *tables) for each in (query, key))
        return host(g, "Attention", query, key, value, causal=True)

    def parameter(name, start):
        made[name] = g.variable(name, start.astype(np.float32))
        return made[name]

    y = scores(g, tokens, words, parameter, attend)
    loss = g.output("loss", og.training.cross_entropy(g, y, following))
    gradients = og.training.clip_by_norm(g, g.gradient(loss, [*made.values()]), 1.0)
    og.training.AdamW(g.input("rate", og.f32, ()), name="adam").update(g, [*made.values()], gradients)
    return g.compile(), [*made]


def reading_graph(weights, words):
    """A graph that reads tokens behind those of a cache, whose weights are constants."""
    g = og.Graph()
    tokens, lengths = g.input("tokens", og.s32, (1, None)), g.input("lengths", og.s64, (1,))
    tables = [g.constant(table) for table in (COS, SIN)]

    def attend(layer, query, *rows):
        query, key = (host(g, "Rotary", each, *tables, lengths) for each in (query, rows[0]))
        cache = [g.input(f"{end}{layer}", og.f32, (1, HEADS, None, SIZE)) for end in ("keys", "values")]
        whole = [g.concat(*pair, axis=2) for pair in zip(cache, (key, rows[1]), strict=True)]
        for end, tensor in zip(("keys", "values"), whole, strict=True):
            g.output(f"new_{end}{layer}", tensor)
        return host(g, "CachedAttention", query, *whole, lengths, window=TIME)  # it has seen no more in training

    g.output("scores", scores(g, tokens, words, lambda name, _: g.constant(weights[name]), attend))
    return g


class Reader:
    """A model with what it has read."""

    def __init__(self, graph):
        self.model, self.length = graph.compile(), 0
        self.model.cache_capacity = LONGEST  # a program for each number of tokens, which takes little memory
        names = [name for name in graph.inputs if name.startswith(("keys", "values"))]
        self.empty = self.cache = {name: np.zeros((1, HEADS, 0, SIZE), np.float32) for name in names}

    def read(self, tokens):
        """The scores of the tokens behind each of some tokens."""
        self.length += len(tokens)
        found = self.model(tokens=np.int32([tokens]), lengths=np.int64([self.length]), **self.cache)._asdict()
        self.cache = {name: found[f"new_{name}"] for name in self.cache}
        return found["scores"][0]

    def forget(self):
        self.cache, self.length = self.empty, 0
