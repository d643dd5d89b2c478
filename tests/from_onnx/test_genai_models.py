"""Models of onnxruntime-genai's builder: a prompt and steps agree with ONNX Runtime, with few ops for each layer."""

import numpy as np
import pytest
from helpers.genai_models import GenaiDecoder
from helpers.onnx_session import session_of

import onegraph as og
import onegraph.onnx
from onegraph.native import library
from onegraph.runtime import growing

pytestmark = pytest.mark.library

FORMS = {
    "int8": {"bits": 8, "level": 4},
    "f32": {"bits": 32},
    "one product for query, key and value": {"packs": True, "level": 4},
    "normalized heads": {"norms_heads": True},
    "packed words": {"packed_words": True},
    "window": {"window": 4},
}
SOME = {"limited scores": {"softcap": 3.0}, "counted tokens": {"total_by_contents": True}}


def pair(decoder):
    """The model by ONNX Runtime and by onegraph."""
    model = decoder.model()
    return session_of(model), onegraph.onnx.load(model, strict=True).compile()


def generated(decoder, steps, room=0, batch=1, padding=()):
    """Compare a prompt and steps of one token with ONNX Runtime; returns the executable and the last inputs.

    ``room``: the tokens of a cache that all steps share; 0 for one that grows. ``padding``: the length of each row's
    prompt.
    """
    session, executable = pair(decoder)
    rng, tokens = np.random.default_rng(1), 6
    ids, cache, feeds = rng.integers(0, decoder.words, (batch, tokens)), decoder.cache(batch, room), {}
    seen = np.ones((batch, tokens))
    for row, length in enumerate(padding):
        seen[row, length:] = 0
    for step in range(steps + 1):
        feeds = decoder.feeds(ids, cache, seen)
        wanted = session.run(None, feeds)
        got = executable(**feeds)
        lengths = seen.sum(1).astype(int)
        for place, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
            assert mine.shape == theirs.shape
            limit = 1e-4 * np.abs(theirs).max()
            for row, length in enumerate(lengths):
                whole = (slice(None), slice(length)) if place else slice(None if step else length)
                np.testing.assert_allclose(mine[row][whole], theirs[row][whole], rtol=0, atol=limit)
        cache = dict(zip(cache, wanted[1:], strict=True))
        last = wanted[0][np.arange(batch), lengths - 1] if not step else wanted[0][:, -1]
        ids = np.argmax(last, -1)[:, None]
        # A row without padding has one token more; a row with some has it in the place of padding.
        seen = np.pad(seen, [(0, 0), (0, 1)])
        seen[np.arange(batch), lengths] = 1
    return executable, feeds


def test_steps_agree_and_compile_once():
    executable, _ = generated(GenaiDecoder(), 20)
    counts = executable.cache_info()
    # The first size of a factor of two is compiled, and a later one of the same range has its steps.
    assert counts.misses == 21
    assert counts.reason == "" or library.VERSION >= (3, 13)  # a newer library runs some steps with threads of its own
    assert counts.reused >= 14


@pytest.mark.parametrize("form", FORMS)
def test_forms_agree(form):
    executable, _ = generated(GenaiDecoder(layers=1, **FORMS[form]), 4)
    if library.VERSION < (3, 6):  # newer libraries run some steps with threads or layouts of their own
        assert executable.cache_info().reason == ""


@pytest.mark.parametrize("packs", [False, True])
def test_caches_grow_where_they_lie(packs, monkeypatch):
    monkeypatch.setattr(growing, "SMALL", 0)
    decoder = GenaiDecoder(layers=1, packs=packs)  # with packs, the values are a part of a product
    executable, cache = onegraph.onnx.load(decoder.model(), strict=True).compile(), decoder.cache(1, 20)
    for tokens in range(21, 27):
        found = executable(**decoder.feeds(np.ones((1, 1)), cache, np.ones((1, tokens))))
        cache = dict(zip(cache, found[1:], strict=True))
    assert executable.cache_info().grown >= 4 * len(cache)


@pytest.mark.parametrize("form", SOME)
def test_other_forms_agree(form):
    generated(GenaiDecoder(layers=1, **SOME[form]), 2)


def test_shared_caches_agree():
    generated(GenaiDecoder(layers=1), 12, room=32)


def test_rows_of_different_lengths_agree():
    generated(GenaiDecoder(layers=1), 3, room=16, batch=3, padding=(6, 3, 1))


@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_each_node_is_one_step(softcap):
    decoder = GenaiDecoder(layers=2, softcap=softcap)
    executable, feeds = generated(decoder, 2)
    executable(**feeds)
    kinds = [part.kinds[0] for part in executable.report().partitions if part.executor not in ("view", "host")]
    assert kinds.count("CachedAttention") == decoder.layers
    assert kinds.count("Rotary") == kinds.count("ExtendCache") == 2 * decoder.layers
    assert kinds.count("PackedMatMul") == 7 * decoder.layers + 1
    assert kinds.count("RMSNorm") == 2 * decoder.layers + 1
    assert not {"Concat", "Transpose", "StaticTranspose"} & {*kinds}


def test_a_cache_without_room_is_refused():
    decoder = GenaiDecoder(layers=1)
    executable = onegraph.onnx.load(decoder.model(), strict=True).compile()
    cache = decoder.cache(1, 4)
    with pytest.raises(og.ArgumentError, match="of row 0"):
        executable(**decoder.feeds(np.zeros((1, 1)), cache, np.full((1, 4), 3)))
