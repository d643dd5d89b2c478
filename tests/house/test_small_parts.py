"""Parts of the small rooms of the package on both sides of their conditions."""

import os
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util import collector_pause, processor_share
from onegraph._util.atomic_write import _contains, _File, write_together
from onegraph._util.cache_folder import is_own
from onegraph._util.drafts import PREFIX, SUFFIX, remove_abandoned
from onegraph._util.exact_types import plain
from onegraph._util.init_once import once
from onegraph._util.interpreter_tricks import written_function
from onegraph._util.open_sizes import OpenSize, settled
from onegraph._util.paths import MAX_PATH, path_of
from onegraph._util.polynomials import MOST_TERMS, quotient_of
from onegraph._util.records import record
from onegraph._util.size_symbols import OpenSizes
from onegraph._util.validation import choice
from onegraph.arrays.dlpack import MAX_DLPACK_RANK, MAX_SIZE, _layout
from onegraph.arrays.ndarrays import _is_zeros, is_read_only
from onegraph.arrays.trees import is_ascending
from onegraph.distributed.averaging import _buckets
from onegraph.distributed.batches import BatchInference, _for_input
from onegraph.distributed.group import _stated
from onegraph.judging.comparison import Answer, _differing_integers
from onegraph.judging.judgement import Finding, _shown
from onegraph.training.arguments import expect_free, two_numbers

F32 = np.float32


# Files


@pytest.mark.parametrize(
    ("contents", "found"), [(b"name", True), (b"a name here", True), (b"other", False), (b"", False), (None, False)]
)
def test_heads_that_exist_contain_names(contents, found, tmp_path):
    if contents is not None:
        (tmp_path / "head").write_bytes(contents)
    assert _contains(tmp_path / "head", "name") is found


@pytest.mark.parametrize("named", [None, re.compile("part-(.*)")])
def test_parts_go_with_a_head_that_is_not_written(named, tmp_path):
    """Only a part with a name of its own is taken back; another one replaces a file that readers have."""
    part, head = tmp_path / "part-1", tmp_path / "head"
    if named is None:
        part.write_bytes(b"old")

    def write(*streams):
        for stream in streams:
            stream.write(b"new")
        raise OSError(28, "No space left")

    with pytest.raises((og.FormatError, OSError)):
        write_together([], head, lambda *streams: write(*streams), named)
    assert part.exists() is (named is None)


def test_a_special_file_is_never_taken_back(tmp_path):
    file = object.__new__(_File)
    file._draft, file.target = None, tmp_path / "pipe"
    file.target.write_bytes(b"")
    file.take_back()
    assert file.target.exists()


@pytest.mark.parametrize(
    ("name", "stays"), [(f"{PREFIX}a{SUFFIX}", False), (f"{PREFIX}a", True), (f"a{SUFFIX}", True), ("a", True)]
)
def test_only_drafts_are_abandoned(name, stays, tmp_path):
    (tmp_path / name).write_bytes(b"")
    remove_abandoned(tmp_path)
    assert (tmp_path / name).exists() is stays


@pytest.mark.parametrize(("user", "mode", "own"), [(0, 0o600, True), (1, 0o600, False), (0, 0o622, False)])
def test_files_of_others_are_not_read(user, mode, own):
    assert is_own(SimpleNamespace(st_uid=os.geteuid() + user, st_mode=mode)) is own


@pytest.mark.parametrize(("length", "fits"), [(MAX_PATH, True), (MAX_PATH + 1, False)])
def test_paths_have_most_bytes(length, fits):
    if fits:
        assert len(str(path_of("path", "a" * length, "a path"))) == length
    else:
        with pytest.raises(og.ArgumentError, match="expected a path"):
            path_of("path", "a" * length, "a path")


# Values


@pytest.mark.parametrize("pausing", [True, False])
def test_the_collector_runs_in_children_of_other_threads(pausing, monkeypatch):
    enabled = []
    monkeypatch.setattr(collector_pause, "gc", SimpleNamespace(enable=lambda: enabled.append(1)))
    own = threading.get_ident()
    monkeypatch.setattr(collector_pause, "_pausing", {own, -1} if pausing else {-1})
    collector_pause._after_fork()
    assert (enabled, collector_pause._pausing) == ([1] * (not pausing), {own} if pausing else set())


@pytest.mark.parametrize("value", [np.zeros(1, [("a", "f4")])[0], np.longdouble(0.5), np.float64(0.5), F32(0.5), 0.5])
def test_floats_are_plain_unless_they_have_more_digits(value):
    found = plain(value)
    if value.dtype.names if isinstance(value, np.void) else False:
        assert not isinstance(found, (int, float, tuple))
    else:
        assert (found, type(found)) == (0.5, np.longdouble if type(value) is np.longdouble else float)


def test_an_object_is_made_once():
    class Made:
        @once("_ptr")
        def __init__(self):
            self._ptr = 1

    with pytest.raises(og.StateError, match="this Made is made"):
        Made().__init__()


def test_records_may_have_no_fields():
    @record(frozen=True)
    class Empty:
        pass

    assert Empty() == Empty()


@pytest.mark.parametrize("value", ["a", "c", None, 1])
def test_choices_are_words(value):
    if value == "a":
        assert choice("name", value, ["b", "a"]) == "a"
    else:
        with pytest.raises(og.ArgumentError, match="expected one of 'b', 'a'"):
            choice("name", value, ["b", "a"])


def test_quotients_have_most_terms():
    for count, fits in ((MOST_TERMS, True), (MOST_TERMS + 1, False)):
        found = quotient_of({(0,) * count: 1, (): -1}, {(0,): 1, (): -1})
        assert (found is not None) is fits
        assert not fits or len(found) == count


# Expressions of two open sizes, which have these values at others than those for which they were made.
EXPRESSIONS = {
    "abs(n - m)": (5, 5),
    "(n // 2 + 1) // 3": (11, 5),
    "(n // 2 * 2 + m // 3) // 3": (11, 7),
    "(3 * (n // 2) + 1) // 4": (11, 5),
    "(2 * (n // 2)) // 3": (11, 5),
    "(n // 2 * (m // 2)) // 3": (11, 9),
    "(n * m) // 3": (11, 9),
    "n // m // 2": (40, 5),
    "(-n) // -2 // 3": (11, 5),
    "(n // -2) // 3": (11, 5),
    "n // -2": (11, 5),
    "7.5 % n": (5, 5),
    "n / m": (10, 5),
    "n < 5.0": (5, 5),
    "n <= 5.0": (5, 5),
    "n.real + n.bit_count()": (5, 5),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_of_open_sizes_are_those_of_integers(text):
    sizes = EXPRESSIONS[text]
    opened = OpenSizes(sizes)
    n, m = opened.symbols
    found = eval(text, {"n": n, "m": m})
    assert settled(n) == sizes[0] == settled(sizes[0])
    known = found if type(found) is not OpenSize else found.value
    assert known == eval(text, dict(zip("nm", sizes, strict=True)))
    if type(found) is OpenSize:
        compute = written_function(["s"], repr(found))
        for other in ((12, 7), (13, 8), (14, 9), (23, 4)):
            assert compute(other) == eval(text, dict(zip("nm", other, strict=True)))


@pytest.mark.parametrize(
    ("quota", "period", "share"), [("3", "1", 3), ("1", "2", 0.5), ("0", "2", None), ("2", "0", None)]
)
def test_quotas_of_control_groups(quota, period, share, tmp_path):
    (tmp_path / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu.cfs_period_us").write_text(period)
    assert processor_share._version_1(tmp_path) == share


@pytest.mark.parametrize(("count", "threads"), [(3, 3), (None, 1)])
def test_processors_are_counted_where_no_affinity_is_known(count, threads, monkeypatch):
    monkeypatch.setattr(processor_share, "_stated", lambda: None)
    monkeypatch.setattr(processor_share, "os", SimpleNamespace(cpu_count=lambda: count))
    assert processor_share.openmp_threads() == threads


# Arrays


@pytest.mark.parametrize(
    ("rank", "shape", "error"),
    [
        (1, (MAX_SIZE - 1,), ""),
        (1, (MAX_SIZE,), "fewer than 2"),
        (2, (MAX_SIZE, 0), "fewer than 2"),
        (1, None, "expected a shape"),
        (MAX_DLPACK_RANK, (1,) * MAX_DLPACK_RANK, ""),
        (MAX_DLPACK_RANK + 1, (1,) * (MAX_DLPACK_RANK + 1), "expected a shape"),
        (-1, (1,), "expected a shape"),
    ],
)
def test_shapes_of_other_libraries_are_examined(rank, shape, error):
    dims = None if shape is None else np.array(shape, np.int64)
    tensor = SimpleNamespace(ndim=rank, shape=0 if dims is None else dims.ctypes.data, strides=0)
    if not error:
        assert _layout(tensor, 4)[0] == shape
    else:
        with pytest.raises(BufferError, match=error):
            _layout(tensor, 4)


@pytest.mark.parametrize(
    ("array", "zeros"),
    [
        (np.broadcast_to(F32(0), (3, 4)), True),
        (np.broadcast_to(F32(1), (3, 4)), False),
        (np.zeros((3, 4), F32), True),
        (np.zeros((3, 4), F32).T, False),
    ],
)
def test_zeros_are_found_where_one_look_shows_them(array, zeros):
    assert _is_zeros(array) is zeros


def read_only_view():
    base = np.zeros(4)
    base.flags.writeable = False
    return base[1:]


@pytest.mark.parametrize(
    ("array", "found"),
    [(np.zeros(4), True), (np.zeros(4)[1:], False), (read_only_view(), True), (np.asarray(memoryview(b"abc")), False)],
)
def test_memory_of_numpy_alone_is_known_to_be_read_only(array, found):
    assert is_read_only(array) is found


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (np.array(["a", "b"]), True),
        (np.array([1, 2]), True),
        (np.float32([1, np.nan]), True),
        (np.float32([np.nan, 1]), False),
        (np.float32([]), True),
        (np.array([1, 1]), False),
    ],
)
def test_keys_ascend(keys, found):
    assert is_ascending(keys) is found


# Judgements, training and groups


@pytest.mark.parametrize(("peer", "wrong"), [(None, True), ([1, 3], False), ([1, 2], True), ([1, 2, 3], True)])
def test_integers_are_wrong_unless_a_peer_of_their_shape_differs_too(peer, wrong):
    answer = Answer(np.array([1, 2]), None if peer is None else np.array(peer), ())
    assert _differing_integers(np.array([1, 4]), answer).tolist() == [False, wrong]


@pytest.mark.parametrize(("contents", "also"), [(["a", "a"], ""), (["a", "b", "b"], "; also with b")])
def test_findings_name_other_contents(contents, also):
    text = _shown([Finding("y", "run", one, "numbers", "1", "2") for one in contents])
    assert text.partition("; also")[1:] == (("; also", also.removeprefix("; also")) if also else ("", ""))


def test_graphs_without_variables_have_none_to_assign():
    graph = og.Graph()
    with pytest.raises(og.ArgumentError, match="the variables are none"):
        expect_free(graph, "w", [graph.input("x", "f32", (2,))])


@pytest.mark.parametrize("pair", [(0.5, 0.5, 0.5), (0.5,), 3])
def test_pairs_have_two_numbers(pair):
    with pytest.raises(og.ArgumentError, match="expected two numbers"):
        two_numbers("betas", pair, 0, 1)


def test_losses_and_layers_name_what_is_unknown():
    graph = og.Graph()
    labels, x = graph.input("labels", "s32", ()), graph.input("x", "f32", (5, 2, 3))
    with pytest.raises(og.ArgumentError, match="expected a known number of classes"):
        og.training.cross_entropy(graph, graph.input("logits", "f32", ()), labels)
    weights, whole = graph.input("w", "f32", (None, 3)), graph.input("r", "f32", (16, 4))
    with pytest.raises(og.ArgumentError, match=r"weights: .*expected known dims"):
        og.training.lstm(graph, x, weights, whole)
    with pytest.raises(og.ArgumentError, match=r"recurrence: .*expected known dims"):
        og.training.lstm(graph, x, weights, graph.input("any", "f32", None))


def test_buckets_end_where_they_have_enough_bytes():
    graph = og.Graph()
    tensors = [graph.input(f"x{place}", "f32", (2,)) for place in range(5)]
    assert [len(bucket) for bucket in _buckets(tensors, 16)] == [2, 2, 1]
    assert [len(bucket) for bucket in _buckets(tensors, 17)] == [3, 2]


@pytest.mark.parametrize(
    ("column", "fits"),
    [
        (np.ones((2, 3)), True),
        (np.array(1.0), False),
        (np.array(["a", "b"]), False),
        (np.ones((2, 3), np.complex64), False),
    ],
)
@pytest.mark.parametrize("dtype", [og.f32, og.bf16, og.s64])
def test_columns_are_rows_of_numbers(column, fits, dtype):
    spec = SimpleNamespace(name="x", dtype=dtype, shape=(None, 3))
    if fits and dtype is not og.s64:  # numbers with a fraction are not cut
        assert _for_input({"x": column}, "x", spec).dtype == dtype.numpy
    else:
        with pytest.raises(og.ArgumentError, match="expected rows for input 'x'"):
            _for_input({"x": column}, "x", spec)


@pytest.mark.parametrize(
    ("shape", "rows", "runs"), [((None, 3), 4, 1), ((None, 3), None, 0), (None, 4, 0), ((None, None), 4, 0)]
)
def test_models_are_prepared_where_their_dims_are_known(shape, rows, runs):
    ran = []
    model = object.__new__(BatchInference)
    spec = SimpleNamespace(name="x", dtype=og.f32, shape=shape)

    class Model:
        inputs = (spec,)

        def __call__(self, x):
            ran.append(x.shape)

    model._executable, model._batch_size = Model(), rows
    model.prepare()
    assert ran == [(4, 3)] * runs


@pytest.mark.parametrize("text", ["2", "\u00b2", "-2", ""])
def test_ranks_in_the_environment_are_numbers(text, monkeypatch):
    monkeypatch.setenv("RANK", text)
    if text == "2":
        assert _stated("RANK", 0) == 2
    else:
        with pytest.raises(og.ArgumentError, match="expected a number"):
            _stated("RANK", 0)
