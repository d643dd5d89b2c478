"""Graphs as plain data: what a fuzzer makes, a corpus keeps, a reducer shortens and a reproducer prints.

A recipe is a list of steps, dictionaries that JSON can hold. ``op`` is ``input``, ``constant``, ``output`` or an op
kind; ``in`` names values as [step, port]. Data is ``[flavour, seed]``, so that a recipe is short whatever its shapes.
"""

import ml_dtypes
import numpy as np

import onegraph as og
from onegraph.reference import run_op

FLOATS = ("f32", "bf16", "f16")


def make_array(flavour, seed, dtype, shape):
    """Seeded contents, bounded so that nothing overflows by itself; or for the flavour exact, the numbers ``seed``."""
    kind = og.DataType(dtype).numpy
    if flavour == "exact":
        return np.array(seed, kind)
    rng = np.random.default_rng(seed)
    if dtype == "boolean":
        return rng.random(shape) < 0.5
    if dtype not in (*FLOATS, "float64"):
        info = ml_dtypes.iinfo(kind)
        low, high = (-9, 10) if kind.itemsize > 1 else (int(info.min), int(info.max) + 1)
        return np.asarray(rng.integers(low, high, shape)).astype(kind)
    if flavour == "positive":
        data = rng.uniform(0.25, 3, shape)
    elif flavour == "whole":
        data = rng.integers(-4, 5, shape)
    elif flavour == "distinct":
        count = int(np.prod(shape))
        data = (rng.permutation(count) - count // 2).reshape(shape) / max(1, count // 8)
    else:
        data = rng.normal(0, 1, shape)
    return np.asarray(data, np.float64).astype(kind)


class Builder:
    """Replays steps into a graph, with the reference's value of everything beside it."""

    def __init__(self, edition="onednn-3.13"):
        self.graph = og.Graph()
        self.steps = []
        self.values = {}  # (step, port) -> (tensor, array)
        self.arrays = {}  # of the graph inputs

    def add(self, step):
        """Run one step and return the keys of its values. An exception changes nothing."""
        number = len(self.steps)
        kind = step["op"]
        if kind in ("input", "constant"):
            found = [self._source(step, number)]
        elif kind == "output":
            tensor, _ = self.values[tuple(step["in"][0])]
            self.graph.output(step.get("name", f"y{number}"), tensor)
            found = []
        else:
            found = self._op(step)
        self.steps.append(step)
        keys = []
        for port, (tensor, array) in enumerate(found):
            self.values[number, port] = (tensor, array)
            keys.append((number, port))
        return keys

    def _source(self, step, number):
        array = make_array(*step["data"], step["dtype"], tuple(step["shape"]))
        if step["op"] == "constant":
            return self.graph.constant(array, dtype=og.DataType(step["dtype"])), array
        name = step.get("name", f"x{number}")
        tensor = self.graph.input(name, og.DataType(step["dtype"]), step["shape"], strides=step.get("strides"))
        self.arrays[name] = array
        return tensor, array

    def _op(self, step):
        pairs = [None if key is None else self.values[tuple(key)] for key in step["in"]]
        tensors = [None if pair is None else pair[0] for pair in pairs]
        options = {name: step[name] for name in ("dtype", "outputs", "edition") if step.get(name) is not None}
        if "dtype" in options:
            options["dtype"] = og.DataType(options["dtype"])
        before = len(self.graph.ops)
        self.graph.op(step["op"], tensors, dict(step.get("attrs", {})), **options)
        (op,) = self.graph.ops[before:]
        arrays = [None if pair is None else pair[1] for pair in pairs[: len(op.inputs)]]
        return list(zip(op.outputs, run_op(op, arrays), strict=True))


def build(steps):
    """The graph of a recipe, and the arrays of its inputs."""
    builder = Builder()
    for step in steps:
        builder.add(step)
    return builder.graph, builder.arrays


def without(steps, index):
    """The recipe without one step, whose values become inputs of the graph; None if it cannot be built."""
    builder = Builder()
    for step in steps[:index]:
        builder.add(step)
    before = set(builder.values)
    try:
        builder.add(steps[index])
    except Exception:
        return None
    made = [key for key in builder.values if key not in before]
    used = {tuple(key) for step in steps[index + 1 :] for key in step.get("in", ()) if key is not None}
    kept, moved = list(steps[:index]), {key: key for key in before}
    for key in made:
        tensor, _ = builder.values[key]
        if key in used:
            if steps[index]["op"] in ("input", "constant"):
                return None
            moved[key] = (len(kept), 0)
            kept.append(
                {"op": "input", "dtype": tensor.dtype.value, "shape": list(tensor.shape), "data": ["normal", index]}
            )
    for number, step in enumerate(steps[index + 1 :], index + 1):
        ports = {key: (len(kept), key[1]) for key in used if key[0] == number}
        if "in" in step:
            step = {**step, "in": [None if key is None else list(moved[tuple(key)]) for key in step["in"]]}
        moved.update(ports)
        kept.append(step)
    return kept


def reproducer(steps, variant=None):
    """A script of its own that builds the graph and runs it."""
    lines = ["import numpy as np", "import onegraph as og", "from onegraph import reference", "g = og.Graph()"]
    names, arrays = {}, []
    for number, step in enumerate(steps):
        kind = step["op"]
        if kind in ("input", "constant"):
            made = f"np.random.default_rng({step['data'][1]}).normal(size={tuple(step['shape'])})"
            made += f" * {1 if step['dtype'] in FLOATS else 9}"
            made = repr(step["data"][1]) if step["data"][0] == "exact" else made
            dtype = f"og.DataType({step['dtype']!r})"
            data = f"np.asarray({made}).astype({dtype}.numpy)"
            names[number] = f"v{number}"
            if kind == "constant":
                lines.append(f"v{number} = g.constant({data}, dtype={dtype})")
            else:
                strides = f", strides={step['strides']}" if step.get("strides") else ""
                name = step.get("name", f"x{number}")
                lines.append(f"v{number} = g.input({name!r}, {dtype}, {tuple(step['shape'])}{strides})")
                arrays.append(f"{name!r}: {data}")
        elif kind == "output":
            source, port = step["in"][0]
            lines.append(
                f"g.output('y{number}', v{source}[{port}])"
                if names[source] == "many"
                else f"g.output('y{number}', v{source})"
            )
        else:
            names[number] = "many"
            ins = [
                None if key is None else f"v{key[0]}[{key[1]}]" if names[key[0]] == "many" else f"v{key[0]}"
                for key in step["in"]
            ]
            options = "".join(f", {n}={step[n]!r}" for n in ("outputs", "edition") if step.get(n) is not None)
            options += f", dtype=og.DataType({step['dtype']!r})" if step.get("dtype") else ""
            inputs = f"[{', '.join(str(i) for i in ins)}]"
            lines.append(f"g.op({step['op']!r}, {inputs}, {step.get('attrs', {})}{options})")
            lines.append(f"v{number} = g.ops[-1].outputs")
    lines.append(f"x = {{{', '.join(arrays)}}}")
    options = {name: value for name, value in (variant or {}).items() if name in ("policy", "threads", "fpmath_mode")}
    call = ", ".join(f"{name}={value!r}" for name, value in options.items())
    lines += [f"model = g.compile({call})", "print(model(**x), reference.run(g, x), model.report())"]
    return "\n".join(lines)
