"""Programs that are kept for later processes: the same results without reading the model, and files that do not fit."""

import json
import os
import pickle
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import onegraph as og
from onegraph._util import cache_folder, disk_cache
from onegraph.arrays.mapped_files import file_of
from onegraph.native.digests import digest_of

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytestmark = pytest.mark.library

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402

RNG = np.random.default_rng(1)
TABLE = RNG.standard_normal((300, 64), np.float32)
WEIGHTS = RNG.standard_normal((64, 400), np.float32) / 8  # more bytes than a mapped constant has at least
BIAS, SCALE = RNG.standard_normal((2, 400), np.float32)
IDS = RNG.integers(0, 300, (4, 9))


def network(weights=WEIGHTS):
    """A host op, a product with its bias, an activation that a kernel of the package may run, a normalization."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["words"], name="words"),
        helper.make_node("MatMul", ["words", "weights"], ["product"], name="product"),
        helper.make_node("Add", ["product", "bias"], ["sum"], name="sum"),
        helper.make_node("Sigmoid", ["sum"], ["gate"], name="gate"),
        helper.make_node("Mul", ["sum", "gate"], ["gated"], name="gated"),
        helper.make_node("LayerNormalization", ["gated", "scale"], ["y"], name="norm", axis=-1),
        helper.make_node("ReduceMean", ["y"], ["mean"], name="mean", keepdims=0),
    ]
    arrays = {"table": TABLE, "weights": weights, "bias": BIAS, "scale": SCALE}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, IDS.shape)],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, (*IDS.shape, 400)),
            helper.make_tensor_value_info("mean", TensorProto.FLOAT, ()),
        ],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def expected(weights=WEIGHTS):
    total = TABLE[IDS].astype(np.float64) @ weights + BIAS
    gated = total / (1 + np.exp(-total))
    centred = gated - gated.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * SCALE


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_folder, "_chosen", [tmp_path / "cache"])
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "m.onnx"
    file.write_bytes(network().SerializeToString())
    return file


def program_of(model):
    return type(model._programs.find({}).program).__name__


def compiled(path, **options):
    """An executable, and whether its program was kept by an earlier compilation."""
    model = onegraph.onnx.load(path).compile(**options)
    return model, program_of(model) == "KeptProgram"


def program_file(folder):
    """The file of the program, which is the largest."""
    return max(folder.glob("*.onegraph"), key=lambda file: file.stat().st_size)


def model_file(folder):
    """The file that names the model's files."""
    return min(folder.glob("*.onegraph"), key=lambda file: file.stat().st_size)


def test_a_kept_program_gives_the_same_bits(folder, path):
    (first, was_kept), (second, is_kept) = compiled(path), compiled(path)
    assert (was_kept, is_kept) == (False, True)
    results = first(IDS)
    np.testing.assert_allclose(results.y, expected(), rtol=1e-4, atol=1e-5)
    for found in (second(IDS), second(ids=IDS), second.bind(ids=IDS).run()):
        assert [one.tobytes() for one in found] == [one.tobytes() for one in results]
    assert second.inputs == first.inputs
    assert second.outputs == first.outputs
    assert second.cache_info().misses == first.cache_info().misses == 1


def test_reports_and_profiles_are_those_of_the_first_program(folder, path):
    first, second = compiled(path)[0], compiled(path)[0]
    kept, made = ([part.to_dict() for part in model.report().partitions] for model in (second, first))
    assert kept == made
    assert [row.index for row in second.profile(IDS, runs=1).rows] == [
        row.index for row in first.profile(IDS, runs=1).rows
    ]
    assert second.report().threads == first.report().threads


def test_the_graph_is_read_when_it_is_needed(folder, path):
    compiled(path)
    graph = onegraph.onnx.load(path)
    graph.compile()
    assert "_ops" not in vars(graph)
    assert [*graph.inputs] == ["ids"]
    assert "_ops" in vars(graph)
    for other in (pickle.loads(pickle.dumps(onegraph.onnx.load(path))), onegraph.onnx.load(path).copy()):
        assert [op.kind for op in other.ops] == [op.kind for op in graph.ops]
    assert graph.compile()(IDS).y.tobytes() == compiled(path)[0](IDS).y.tobytes()


def test_a_changed_graph_is_compiled(folder, path):
    compiled(path)
    graph = onegraph.onnx.load(path)
    graph.output("twice", graph.outputs["y"] + graph.outputs["y"])
    model = graph.compile()
    assert program_of(model) == "CompiledProgram"
    np.testing.assert_array_equal(model(IDS).twice, 2 * compiled(path)[0](IDS).y)
    assert [*compiled(path)[0](IDS)._fields] == ["y", "mean"]


def test_kept_executables_are_saved_and_pickled(folder, path, tmp_path):
    compiled(path)
    model, is_kept = compiled(path)
    assert is_kept
    wanted = model(IDS).y.tobytes()
    model.save(tmp_path / "saved")
    assert og.load(tmp_path / "saved")(IDS).y.tobytes() == wanted
    assert pickle.loads(pickle.dumps(model))(IDS).y.tobytes() == wanted


def test_saved_executables_start_from_kept_programs(folder, path, tmp_path):
    saved = tmp_path / "saved"
    model, _ = compiled(path, policy="debug")
    model.cache_capacity = 3
    model.save(saved)
    wanted = model(IDS).y.tobytes()
    first, second = og.load(saved), og.load(saved)
    assert [program_of(one) for one in (first, second)] == ["CompiledProgram", "KeptProgram"]
    for one in (first, second):
        assert one(IDS).y.tobytes() == wanted
        assert (one.report().policy, one.cache_capacity) == ("debug", 3)
    assert pickle.loads(pickle.dumps(second))(IDS).y.tobytes() == wanted
    compiled(path)[0].save(saved)  # the same folder with other options
    assert og.load(saved).report().policy == "fusion"
    assert program_of(og.load(saved)) == "KeptProgram"


def test_other_threads_run_kept_programs(folder, path):
    compiled(path)
    model, _ = compiled(path)
    wanted, found = model(IDS).y.tobytes(), []
    threads = [threading.Thread(target=lambda: found.append(model(IDS).y.tobytes())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 3


@pytest.mark.parametrize(
    "options", [{"policy": "debug"}, {"threads": 1}, {"fpmath_mode": "bf16"}, {"fallback": True, "threads": {1: 1}}]
)
def test_programs_belong_to_their_options(folder, path, options):
    compiled(path)
    assert not compiled(path, **options)[1]
    assert compiled(path, **options)[1]
    assert compiled(path)[1]


def test_programs_belong_to_the_arguments_of_load(folder, path):
    compiled(path)
    for arguments in ({"shapes": {"ids": (2, 3)}}, {"dtype": "bf16"}, {"values": {"ids": IDS}}):
        for wanted in ("CompiledProgram", "KeptProgram"):
            assert program_of(onegraph.onnx.load(path, **arguments).compile()) == wanted


def test_another_processor_compiles(folder, path, monkeypatch):
    compiled(path)
    monkeypatch.setattr("onegraph.capi.machine._cpu_model", lambda: "another")
    assert not compiled(path)[1]


@pytest.mark.parametrize("package", ["another", None])
def test_another_package_of_the_same_version_compiles(folder, path, monkeypatch, package):
    compiled(path)
    monkeypatch.setattr("onegraph.runtime.origin.package_digest", lambda: package)
    for _ in range(2 if package is None else 1):  # an unknown package keeps nothing
        assert not compiled(path)[1]


def test_a_changed_model_is_read_again(folder, path):
    compiled(path)
    weights = WEIGHTS[::-1].copy()
    path.write_bytes(network(weights).SerializeToString())  # the same size
    model, is_kept = compiled(path)
    assert not is_kept
    np.testing.assert_allclose(model(IDS).y, expected(weights), rtol=1e-4, atol=1e-5)


def test_changed_external_data_is_read_again(folder, tmp_path):
    path, arguments = tmp_path / "e.onnx", {"save_as_external_data": True, "location": "e.data", "size_threshold": 0}
    onnx.save(network(), path, **arguments)
    compiled(path)
    assert compiled(path)[1]
    data = tmp_path / "e.data"
    changed = bytearray(data.read_bytes())
    at = changed.index(WEIGHTS.tobytes())
    changed[at : at + WEIGHTS.nbytes] = WEIGHTS[::-1].tobytes()
    data.write_bytes(changed)
    model, is_kept = compiled(path)
    assert not is_kept
    np.testing.assert_allclose(model(IDS).y, expected(WEIGHTS[::-1]), rtol=1e-4, atol=1e-5)
    data.unlink()
    with pytest.raises(og.FormatError, match=r"e\.data"):
        compiled(path)


def test_a_file_that_changes_after_load_is_named(folder, path):
    compiled(path)
    graph = onegraph.onnx.load(path)
    path.write_bytes(network(2 * WEIGHTS).SerializeToString())
    with pytest.raises(og.FormatError, match="changed since it was loaded"):
        graph.compile()


def test_nothing_is_kept_without_a_folder(folder, path):
    og.set_cache_folder(None)
    compiled(path)
    assert not compiled(path)[1]


# Files that do not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [model_file, program_file])
@pytest.mark.parametrize("left", [0, 0.2, 0.9, 0.99999])
def test_truncated_files_are_ignored(folder, path, which, left):
    wanted = compiled(path)[0](IDS).y.tobytes()
    file = which(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(left * len(whole))])
    model, is_kept = compiled(path)
    assert not is_kept
    assert model(IDS).y.tobytes() == wanted
    assert compiled(path)[1]  # the file was replaced


def test_every_changed_bit_is_noticed(folder, path):
    compiled(path)
    file, rng = program_file(folder), random.Random(1)
    whole = file.read_bytes()
    for _ in range(30):
        changed = bytearray(whole)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        file.write_bytes(changed)
        assert disk_cache.find(file.name.removesuffix(disk_cache.SUFFIX), digest_of) is None
    assert not compiled(path)[1]


def test_files_that_others_may_write_are_ignored(folder, path):
    compiled(path)
    for file in folder.iterdir():
        file.chmod(0o620)
    assert not compiled(path)[1]


def replaced(folder, change):
    """Change the kept program, with the right checksum."""
    file = program_file(folder)
    key = file.name.removesuffix(disk_cache.SUFFIX)
    data = disk_cache.find(key, digest_of)
    sizes = [int.from_bytes(data[at : at + 8], "little") for at in (0, 8, 16)]
    begin = 64 + sizes[0]
    end = begin + sizes[1]
    whole = json.loads(bytes(data[begin:end]))
    change(whole)
    text = json.dumps(whole).encode()
    disk_cache.keep(key, digest_of, data[:8], len(text).to_bytes(8, "little"), data[16:begin], text, data[end:])


def changed_in(*places, to):
    def change(whole):
        inner = whole
        for place in places[:-1]:
            inner = inner[place]
        inner[places[-1]] = to(inner[places[-1]]) if callable(to) else to

    return change


CHANGES = {
    "a missing field": lambda whole: whole.pop("steps"),
    "another type": changed_in("values", to=3),
    "a constant behind the end of its file": changed_in("constants", 0, 2, 1, to=2**40),
    "a constant before the file": changed_in("constants", 0, 2, 1, to=-64),
    "a constant of another shape": changed_in("constants", 0, 2, 3, to=[2**33]),
    "a file that does not exist": changed_in("constants", 0, 2, 0, to=7),
    "a small arena": changed_in("arena_size", to=64),
    "a place before the arena": changed_in("offsets", 0, 1, to=-(2**20)),
    "a place behind the arena": changed_in("offsets", 0, 1, to=2**30),
    "a value without a place": changed_in("steps", 0, 1, 0, to=10**6),
    "another tensor": changed_in("compilations", 0, "inputs", 0, 2, to=[10**6, 64]),
    "another result": changed_in("compilations", 0, "results", 0, 0, to=[1]),
    "an unknown op": changed_in("partitions", 0, "ops", 0, "kind", to="Unknown"),
    "a missing tensor": changed_in("partitions", 0, "tensors", to=lambda old: old[:-1]),
    "an unknown data type": changed_in("partitions", 0, "tensors", 0, 0, to="f31"),
    "too few numbers of threads": changed_in("threads", to=lambda old: old[:-1]),
    "too many threads": changed_in("threads", to=lambda old: [10**6] * len(old)),
    "too many threads of all steps": changed_in("limit", to=10**6),
    "too many threads of a compilation": changed_in("compilations", 0, "threads", to=10**6),
}


@pytest.mark.parametrize("name", CHANGES)
def test_programs_that_do_not_fit_are_compiled_again(folder, path, name):
    wanted = compiled(path)[0](IDS).y.tobytes()
    replaced(folder, CHANGES[name])
    model, is_kept = compiled(path)
    assert not is_kept
    assert model(IDS).y.tobytes() == wanted


# The folder -----------------------------------------------------------------------------------------------------------


def test_the_files_together_are_limited(folder, path, monkeypatch, tmp_path):
    compiled(path)
    size = program_file(folder).stat().st_size
    monkeypatch.setattr(disk_cache, "MOST_BYTES_TOGETHER", 4 * size)
    for number in range(8):
        other = tmp_path / f"{number}.onnx"
        other.write_bytes(path.read_bytes())
        compiled(other)
        os.utime(other, (number, number))
        assert sum(file.stat().st_size for file in folder.iterdir()) <= 5 * size
    other.write_bytes(path.read_bytes())
    compiled(other)
    assert compiled(other)[1]


def test_large_computed_constants_are_not_kept(folder, path, monkeypatch):
    monkeypatch.setattr(disk_cache, "MOST_BYTES", 64)
    compiled(path)
    assert not compiled(path)[1]


def test_computed_weights_lie_in_the_kept_file(folder, tmp_path):
    """Products with a normalization behind them have other weights than the file of the model."""
    weights = RNG.standard_normal((1024, 1200), np.float32) / 32  # long enough to be written in a thread
    gamma, beta, mean, variance = RNG.uniform(0.5, 1.5, (4, 1200)).astype(np.float32)
    arrays = {"weights": weights, "gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"]),
        helper.make_node("BatchNormalization", ["product", "gamma", "beta", "mean", "variance"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (8, c)) for n, c in (("x", 1024), ("y", 1200))]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers)
    path = tmp_path / "product.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    first, was_kept = compiled(path)
    for thread in threading.enumerate():
        if thread.name == "onegraph cache":
            thread.join()
    second, is_kept = compiled(path)
    assert (was_kept, is_kept) == (False, True)
    constants = second._programs.find({}).program.placement.constants.values()
    own = next(array for array in constants if array.shape == weights.shape)
    assert file_of(own).path == str(program_file(folder))
    x = RNG.standard_normal((8, 1024), np.float32)
    wanted = (x.astype(np.float64) @ weights - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    np.testing.assert_allclose(second(x), wanted, rtol=1e-4, atol=1e-4)
    assert second(x).tobytes() == first(x).tobytes()


def test_transformed_weights_are_made_of_the_weights_in_the_file(folder, tmp_path):
    weights = RNG.standard_normal((96, 64, 3, 3), np.float32) / 24
    nodes = [
        helper.make_node("Conv", ["x", "weights"], ["sum"], pads=[1, 1, 1, 1]),
        helper.make_node("Abs", ["sum"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, c, 14, 14)) for n, c in (("x", 64), ("y", 96))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(weights, "weights")])
    path = tmp_path / "conv.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    (first, was_kept), (second, is_kept) = compiled(path), compiled(path)
    assert (was_kept, is_kept) == (False, True)
    assert any("Convolution: Transform" in part.kinds for part in second.report().partitions)
    x = RNG.standard_normal((1, 64, 14, 14), np.float32)
    np.testing.assert_array_equal(first(x), second(x))
    assert program_file(folder).stat().st_size < weights.nbytes // 4


def test_steps_that_numpy_runs_are_kept(folder, tmp_path):
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["wide"], mode="reflect"),
        helper.make_node("Atan", ["wide"], ["angle"]),
        helper.make_node("ReduceSum", ["angle", "axes"], ["y"], keepdims=0),
    ]
    arrays = {"pads": np.array([0, 1, 0, 2]), "axes": np.array([1])}
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (3, 4)), ("y", (3,)))]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers)
    path = tmp_path / "angles.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    (first, was_kept), (second, is_kept) = compiled(path), compiled(path)
    assert (was_kept, is_kept) == (False, True)
    assert "host" in {part.executor for part in second.report().partitions}
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    wanted = np.arctan(np.pad(x, ((0, 0), (1, 2)), mode="reflect")).sum(1)
    np.testing.assert_allclose(second(x), wanted, rtol=1e-5)
    assert second(x).tobytes() == first(x).tobytes()


def test_processes_share_the_programs(folder, path):
    script = (
        "import sys, numpy as np, onegraph as og\n"
        "from onegraph import onnx\n"
        "model = onnx.load(sys.argv[1]).compile()\n"
        "print(type(model._programs.find({}).program).__name__, 'onegraph.compiler.lower' in sys.modules,\n"
        "      model(np.load(sys.argv[2])).y.tobytes().hex())\n"
    )
    ids = path.with_suffix(".npy")
    np.save(ids, IDS)
    command = [sys.executable, "-c", script, str(path), str(ids)]
    environment = {**os.environ, "ONEGRAPH_CACHE": str(folder)}

    def start():
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    results = [process.communicate(timeout=120)[0].split() for process in [start() for _ in range(3)]]
    last = start().communicate(timeout=120)[0].split()
    assert last[0] == "KeptProgram"
    assert {bits for _, _, bits in [*results, last]} == {last[2]}
