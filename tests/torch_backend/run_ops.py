"""``python -m tests.torch_backend.run_ops [NAMES]``: PyTorch's own samples of ops, lowered, against eager.

The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import time
import warnings
from collections import Counter
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from onegraph.errors import UnsupportedError
from onegraph.frontends.torch.capture import decompositions
from onegraph.frontends.torch.folding import folded, without_empty
from onegraph.frontends.torch.options import BackendOptions
from onegraph.frontends.torch.partitions import divided
from onegraph.frontends.torch.resizing import whole_ops
from onegraph.frontends.torch.true_types import with_true_types

SAMPLES = 12
TIES = {"topk"}  # ops that return elements and their places: of equal elements, each place is right
DRAWS = re.compile("dropout|lowrank|multi_head|rrelu|gumbel")  # random numbers decide the results
TABLE = decompositions()


def is_dense(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or (value.layout is torch.strided and value.numel() > 0)


def traced(call: Any, given: list[Any]) -> Any:
    """The graph of a function."""
    with whole_ops():
        gm = make_fx(torch.func.functionalize(call), decomposition_table=TABLE, tracing_mode="fake")(given)
    with_true_types(gm)
    return gm


def outcome(op: Any, sample: Any, dtype: Any) -> str:
    """``taken``, ``left`` or ``wrong: ...`` for one sample."""
    flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    if not all(map(is_dense, flat)):
        return "left"
    places = [place for place, one in enumerate(flat) if isinstance(one, torch.Tensor)]

    def call(tensors: list[Any]) -> Any:
        values = [*flat]
        for place, one in zip(places, tensors, strict=True):
            values[place] = one
        first, args, kwargs = tree_unflatten(values, spec)
        return op(first, *args, **kwargs)

    if DRAWS.search(op.name) or sample.kwargs.get("dropout_p"):
        return "left"
    given = [flat[place].detach().clone() for place in places]
    try:
        expected = tree_flatten(call([one.clone() for one in given]))[0]
        wide = [one.double() if one.is_floating_point() else one.clone() for one in given]
        exact = tree_flatten(call(wide))[0] if "dtype" not in sample.kwargs else expected
        gm = traced(call, given)
    except Exception:  # not every op takes float64 or can be traced
        return "left"
    without_empty(gm)
    try:
        made, region = divided(gm, folded(gm, {}), BackendOptions(fallback="error"), "inference")
    except UnsupportedError:
        gm = traced(call, given)
        made, region = divided(gm, folded(gm, {}), BackendOptions(smallest=1), "inference")
    if not region.taken:
        return "left"
    found = tree_flatten(made(given))[0]
    for one, like, right in zip(found, expected, exact, strict=True):
        if not isinstance(like, torch.Tensor):
            continue
        if one.shape != like.shape or one.dtype != like.dtype:
            return f"wrong: {one.dtype} {tuple(one.shape)} for {like.dtype} {tuple(like.shape)}"
        if not like.is_floating_point():
            if op.name in TIES:
                axis = sample.args[1] if len(sample.args) > 1 else sample.kwargs.get("dim", -1)
                one, like = sample.input.gather(axis, one), sample.input.gather(axis, like)
            if not torch.equal(one, like):
                return "wrong: other integers"
            continue
        if not torch.equal(torch.isfinite(one), torch.isfinite(like)):
            return "wrong: other infinities or NaN"
        kept = torch.isfinite(like) & torch.isfinite(right)
        scale = right[kept].abs().double()
        # 8 roundings of the data type, at the size of the largest element.
        eps = torch.finfo(dtype).eps
        largest = scale.max() if scale.numel() else 0
        limit = 3 * (like[kept].double() - right[kept]).abs() + 8 * eps * (scale + largest + 1)
        apart = (one[kept].double() - right[kept]).abs()
        if bool((apart > limit + 1e-30).any()):
            return f"wrong: {apart.max().item():.3g} beyond the exact result"
    return "taken"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    dtype, start = getattr(torch, options.dtype), time.perf_counter()
    total = Counter[str]()
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    for number, op in enumerate(op_db[options.first :], options.first):
        if (options.names and op.name not in options.names) or dtype not in op.supported_dtypes("cpu"):
            continue
        if time.perf_counter() - start > options.seconds:
            print("go on with --first", number)
            break
        counts = Counter[str]()
        try:
            for sample in itertools.islice(op.sample_inputs("cpu", dtype), SAMPLES):
                counts[outcome(op, sample, dtype)] += 1
        except Exception as error:
            if options.names:
                raise
            counts[f"wrong: {type(error).__name__}: {error}".splitlines()[0][:200]] += 1
        for text, count in counts.items():
            total[text.split(":")[0]] += count
            if text.startswith("wrong"):
                print(op.name, op.variant_test_name, count, text, flush=True)
    print(dict(total))
    if total["wrong"]:
        sys.exit(f"{total['wrong']} samples are wrong")


if __name__ == "__main__":
    main()
