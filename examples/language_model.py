"""Train a small language model, compress its weights to 8 and 4 bits, and write text with a cache that grows.

The text is the documentation that Python ships, character by character. `shared/decoder.py` has the model.
"""

import math
import time
from pydoc_data.topics import topics

import numpy as np
from shared.decoder import TIME, Reader, reading_graph, training_step
from shared.loop import args, train

import onegraph as og

BATCH, PASSAGES, RATE = 16 if args.quick else 32, 4 if args.quick else 16, 4e-3
EPOCHS, STEPS = (1, 20) if args.quick else (6, 50)
text = "\n".join(topics[name] for name in sorted(topics))
letters = sorted(letter for letter in set(text) if text.count(letter) > 50)
codes = np.array([letters.index(letter) for letter in text if letter in letters], np.int32)
TRAIN, CHECK = codes[: -len(codes) // 10], codes[-len(codes) // 10 :]


def loss(reader):
    """The mean loss on text that the network has not seen."""
    found = []
    for start in range(0, PASSAGES * TIME, TIME):
        reader.forget()
        y = reader.read(CHECK[start : start + TIME]).astype(np.float64)
        found += [np.logaddexp.reduce(y, axis=1) - y[np.arange(TIME), CHECK[start + 1 : start + TIME + 1]]]
    return np.mean(found)


def write(reader, count, start="The "):
    """Text, and the letters that are written in a second."""
    rng, found = np.random.default_rng(0), [letters.index(letter) for letter in start]
    reader.forget()
    y, begin = reader.read(found)[-1], time.perf_counter()
    for _ in range(count):
        p = np.exp(1.5 * (y - y.max()).astype(np.float64))
        found.append(rng.choice(len(letters), p=p / p.sum()))
        y = reader.read(found[-1:])[-1]
    return "".join(letters[code] for code in found), count / (time.perf_counter() - begin)


def batches(epoch):
    rng, found = np.random.default_rng(epoch + 1), []
    for step in range(epoch * STEPS, (epoch + 1) * STEPS):
        starts = rng.integers(0, len(TRAIN) - TIME - 1, BATCH)
        both = np.stack([TRAIN[start : start + TIME + 1] for start in starts])
        rate = RATE * min(1, (step + 1) / 50, 1.05 - step / EPOCHS / STEPS)
        found.append({"tokens": both[:, :-1].copy(), "following": both[:, 1:].copy(), "rate": np.float32(rate)})
    return found


def trained():
    return reading_graph({name: step.variables[name] for name in names}, len(letters))


step, names = training_step(BATCH, len(letters))
history = train("language_model", step, batches, lambda: loss(Reader(trained())), epochs=EPOCHS)
print(f"loss {history[0][0]:.2f} in the first epoch, {history[-1][0]:.2f} in the last of {len(history)}")
print(f"a guess has a loss of {math.log(len(letters)):.2f}\n")
graph, count = trained(), 10 if args.quick else 400
for kind in ("f32", "int8", "int4"):
    small = graph if kind == "f32" else og.compress_weights(graph, kind, group=32)
    reader = Reader(small)
    write(reader, count)  # compiles for the numbers of tokens
    written, speed = write(reader, count)
    size = sum(array.nbytes for array in small.constants.values())
    print(f"{kind}: {size:,} bytes, loss {loss(reader):.3f} on unseen text, {speed:.0f} letters a second")
print(f"\n{written}")
