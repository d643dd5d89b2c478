"""How far a result may be from the reference: as far as rounding alone can carry the reference itself.

The graph runs on numpy several more times, with every input and every result of an op moved by about one rounding of
its data type. A library that sums in another order, or keeps a fused intermediate in float32, may differ by as much as
those runs; a wrong result differs by far more.
"""

import numpy as np

from onegraph.reference import run_op

ROUNDING = {"f32": 2.0**-21, "bf16": 2.0**-8, "f16": 2.0**-11}
INPUT_ROUNDING = 2.0**-22
# Functions whose absolute error near 0 is as large as elsewhere: docs/safety.md.
ABSOLUTE = ["Elu", "GELU", "GELUBackward", "Log", "LogSoftmax", "Mish", "SigmoidBackward", "SoftPlus", "TanhBackward"]
RUNS = 6
MORE_RUNS = 100  # before a difference is reported: few runs move a number near a tie to the other code


def _moved(array, amount, rng):
    if not amount or array.dtype.kind in "iub" or not array.size:
        return array
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        return wide * (1 + amount * rng(wide.shape))


def noisy_run(graph, inputs, rng):
    """The graph outputs, with roundings whose signs ``rng`` gives for a shape."""
    values = {tensor.id: inputs[name] for name, tensor in graph.inputs.items()}
    for op in graph.ops:
        arrays = []
        for source in op.inputs:
            if source is None:
                arrays.append(None)
                continue
            array = values[source.id] if source.value is None else source.value
            moved = _moved(array, INPUT_ROUNDING if source.dtype.value in ROUNDING else 0, rng)
            arrays.append(moved if source.dtype.value in ROUNDING else array)
        for tensor, array in zip(op.outputs, run_op(op, arrays), strict=True):
            amount = ROUNDING.get(tensor.dtype.value, 0)
            values[tensor.id] = _moved(array, amount, rng) if amount else array
            if op.kind in ABSOLUTE:
                unit = max(1, 1 / (abs(op.attrs.get("beta", 1)) or 1))
                values[tensor.id] = values[tensor.id] + ROUNDING["f32"] * unit * rng(array.shape)
    return {name: t.value if t.value is not None else values[t.id] for name, t in graph.outputs.items()}


def differences(graph, inputs, expected, got, least=0.0):
    """A text for each output, by name, that differs by more than rounding, and by this share of its largest number."""
    rng = np.random.default_rng(0)

    def random_signs(shape):
        return rng.choice([-1.0, 1.0], shape)

    found = {}
    noisy = None
    for name, wanted in expected.items():
        actual, dtype = got[name], graph.outputs[name].dtype
        if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
            found[name] = f"{actual.dtype}{actual.shape} in the place of {wanted.dtype}{wanted.shape}"
            continue
        if np.array_equal(actual, wanted) or not wanted.size:
            continue
        if noisy is None:
            # All away from zero, all towards zero, to break every tie both ways; then at random.
            signs = [np.ones, lambda shape: -np.ones(shape)]
            noisy = [noisy_run(graph, inputs, sign) for sign in (*signs, *[random_signs] * RUNS)]
        text = _difference(actual, wanted, [run[name] for run in noisy], dtype.value, least)
        if text and len(noisy) < MORE_RUNS:
            noisy += [noisy_run(graph, inputs, random_signs) for _ in range(MORE_RUNS)]
            text = _difference(actual, wanted, [run[name] for run in noisy], dtype.value, least)
        if text:
            found[name] = text
    return found


def _difference(actual, wanted, noisy, dtype, least=0.0):
    with np.errstate(all="ignore"):
        ours, theirs = actual.astype(np.float64), wanted.astype(np.float64)
        others = np.stack([run.astype(np.float64) for run in noisy])
        doubtful = ~np.isfinite(others).all(0) & np.isfinite(theirs)
        doubtful |= np.isfinite(others).any(0) & ~np.isfinite(theirs)
        finite = np.isfinite(theirs)
        scale = np.abs(theirs[finite]).max(initial=0.0)
        spread = np.abs(others - theirs).max(0)
        rounding = ROUNDING.get(dtype, 0)
        allowed = 10 * spread + 4 * rounding * np.abs(theirs) + (rounding * 2 + least) * scale
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        wrong = ~(same | (finite & (np.abs(ours - theirs) <= allowed)) | doubtful)
    if not wrong.any():
        return ""
    places = np.argwhere(wrong)
    place = tuple(places[0])
    return (
        f"{len(places)} of {wrong.size} wrong, at {list(map(int, place))} {ours[place]:.6g} for {theirs[place]:.6g} "
        f"(rounding explains {allowed[place]:.2g})"
    )
