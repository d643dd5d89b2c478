"""Train a small transformer to continue text character by character, on the documentation that Python ships.

A step is one graph: forward, gradients clipped by their norm, and AdamW with a learning rate that rises and falls. A
second graph writes text with the variables of the first one.
"""

import math
from pydoc_data.topics import topics

import numpy as np
from shared.loop import args, train

import onegraph as og

BATCH, TIME, WIDTH, HEADS, LAYERS, RATE = 16 if args.quick else 32, 64, 128, 4, 2, 3e-3
EPOCHS, STEPS = (1, 30) if args.quick else (12, 100)
text = "\n".join(topics[name] for name in sorted(topics))
letters = sorted(letter for letter in set(text) if text.count(letter) > 50)
codes = np.array([letters.index(letter) for letter in text if letter in letters], np.int32)
TRAIN, CHECK = codes[: -len(codes) // 10], codes[-len(codes) // 10 :]


def logits(g, tokens, parameter):
    """A transformer with the norms before its layers; ``parameter`` adds a parameter, for training or for writing."""
    rng, (batch, time), size = np.random.default_rng(0), tokens.shape, WIDTH // HEADS
    future = g.constant(np.triu(np.full((1, 1, time, time), -1e9, np.float32), 1))

    def linear(name, x, width):
        w = parameter(f"{name}_w", rng.normal(0, x.shape[-1] ** -0.5, (x.shape[-1], width)))
        return g.matmul(x, w, parameter(f"{name}_b", np.zeros(width)))

    def norm(name, x):
        scale, shift = parameter(f"{name}_scale", np.ones(WIDTH)), parameter(f"{name}_shift", np.zeros(WIDTH))
        return g.layer_norm(x, scale, shift).dst

    def heads(x):
        x = g.static_reshape(x, shape=[batch, time, HEADS, size], special_zero=False)
        return g.static_transpose(x, order=[0, 2, 1, 3])

    x = g.op("Gather", [parameter("letters", rng.normal(0, 1, (len(letters), WIDTH))), tokens], edition="host")
    x = x + parameter("places", rng.normal(0, 0.1, (1, time, WIDTH)))
    for layer in range(LAYERS):
        y = norm(f"norm{layer}", x)
        query, key, value = (heads(linear(f"{end}{layer}", y, WIDTH)) for end in ("query", "key", "value"))
        scores = g.matmul(query, key, transpose_b=True) * (1 / math.sqrt(size)) + future
        y = g.static_transpose(g.matmul(g.softmax(scores, axis=-1), value), order=[0, 2, 1, 3])
        y = g.static_reshape(y, shape=[batch, time, WIDTH], special_zero=False)
        x = x + linear(f"attention{layer}", y, WIDTH)
        y = g.gelu(linear(f"wide{layer}", norm(f"norm{layer}_wide", x), 4 * WIDTH))
        x = x + linear(f"narrow{layer}", y, WIDTH)
    return linear("last", norm("norm", x), len(letters))


def training_step():
    g, made = og.Graph(), {}
    tokens, following = g.input("tokens", og.s32, (BATCH, TIME)), g.input("following", og.s32, (BATCH, TIME))
    y = logits(g, tokens, lambda name, start: made.setdefault(name, g.variable(name, start.astype(np.float32))))
    loss = g.output("loss", og.training.cross_entropy(g, y, following))
    variables = [*made.values()]
    gradients = og.training.clip_by_norm(g, g.gradient(loss, variables), 1.0)
    og.training.AdamW(g.input("rate", og.f32, ()), name="adam").update(g, variables, gradients)
    return g.compile()


def reader(batch):
    g = og.Graph()
    tokens, following = g.input("tokens", og.s32, (batch, TIME)), g.input("following", og.s32, (batch, TIME))
    y = logits(g, tokens, lambda name, start: g.input(name, og.f32, start.shape))
    g.output("loss", og.training.cross_entropy(g, y, following))
    g.output("p", g.softmax(y, axis=-1))
    return g.compile()


def passages(source, count, rng):
    starts = rng.integers(0, len(source) - TIME - 1, count)
    both = np.stack([source[start : start + TIME + 1] for start in starts])
    return {"tokens": both[:, :-1].copy(), "following": both[:, 1:].copy()}


def batches(epoch):
    rng, found = np.random.default_rng(epoch + 1), []
    for step in range(epoch * STEPS, (epoch + 1) * STEPS):
        rate = RATE * min(1, (step + 1) / 100, 1.05 - step / EPOCHS / STEPS)
        found.append({**passages(TRAIN, BATCH, rng), "rate": np.float32(rate)})
    return found


def trained():
    return {name: step.variables[name] for name in parameters}


def write(count, start="The "):
    """Text, one letter after another."""
    rng, found, known = np.random.default_rng(0), [letters.index(letter) for letter in start], trained()
    for _ in range(count):
        tokens = np.zeros((1, TIME), np.int32)
        tokens[0, : len(found)] = found[-TIME:]
        p = one(tokens=tokens, following=tokens, **known).p[0, min(len(found), TIME) - 1].astype(np.float64)
        found.append(rng.choice(len(letters), p=p**1.5 / (p**1.5).sum()))
    return "".join(letters[code] for code in found)


step, several, one = training_step(), reader(4 * BATCH), reader(1)
parameters = [tensor.name for tensor in one.inputs if tensor.name not in ("tokens", "following")]
unseen = passages(CHECK, 4 * BATCH, np.random.default_rng(0))
history = train("text_transformer", step, batches, lambda: several(**unseen, **trained()).loss, epochs=EPOCHS)
print(f"loss {history[0][0]:.2f} in the first epoch, {history[-1][0]:.2f} in the last of {len(history)}")
print(f"loss {history[-1][1]:.2f} on text that the network has not seen; a guess has {math.log(len(letters)):.2f}\n")
print(write(30 if args.quick else 400))
