"""A kernel of the package is one file in C++, one record in Python and one file of tests, found by its name."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import host_cases
from helpers.grouped import grouped
from helpers.kernels import DRAWN

import onegraph as og
from onegraph.capi.settings import has_avx2
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels import packed_product, pointwise, winograd, written_sizes
from onegraph.compiler.kernels.code_product import CodeProduct
from onegraph.compiler.kernels.elements import why_not
from onegraph.compiler.kernels.elementwise import is_whole
from onegraph.compiler.kernels.extend_cache import EXTEND_CACHE
from onegraph.compiler.kernels.kernel import NOT_EMPTY, OF_FLOATS, REGULAR, refusal
from onegraph.compiler.kernels.native import CompiledKernel, compiled, fields_of, packed, registered, value_of
from onegraph.compiler.kernels.panel_convolution import PanelConvolution
from onegraph.compiler.kernels.pointwise import PointwiseGroup
from onegraph.compiler.kernels.registry import exact_kernel, kernels, named, special_kernel
from onegraph.compiler.kernels.winograd import Geometry
from onegraph.errors import OneGraphError, StatusError
from onegraph.opset.dtypes import OF_NUMPY, DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType

PACKAGE = Path(og.__file__).parent
CSRC, RECORDS = PACKAGE / "native" / "csrc", PACKAGE / "compiler" / "kernels"
TESTS = Path(__file__).parents[1]
NAMES = sorted(registered())
FOLDED = re.compile(r'const (?:Registered|RegisteredRows|Elementwise)<[^{]*>\s+\w+\s*\{\s*"(\w+)"')

# One file each -------------------------------------------------------------------------------------------------------


def homes_in_cpp():
    """By name of a kernel, the file or folder of csrc/kernels/ that registers it, without its suffix."""
    files = [*(CSRC / "kernels").rglob("*.cpp")]
    at = {path: path.relative_to(CSRC / "kernels").with_suffix("").parts[0] for path in files}
    return {name: at[path] for path in files for name in FOLDED.findall(path.read_text())}


def homes_in_python():
    """By name of a kernel, the module of compiler/kernels/ with its record, the first one of several."""
    homes = {}
    for path in sorted(RECORDS.glob("*.py")):
        module = __import__(f"onegraph.compiler.kernels.{path.stem}", fromlist=["KERNELS"])
        for kernel in getattr(module, "KERNELS", ()):
            homes.setdefault(kernel.name, path.stem)
    return homes


def names_in_tests():
    """The names that the files of tests list as TESTED_KERNELS, and those whose uses are drawn, with the files."""
    yield from ((name, "test_drawn.py") for name in DRAWN)
    for path in TESTS.glob("*/test_*.py"):
        text = path.read_text()
        if path != Path(__file__) and "\nTESTED_KERNELS = " in text:
            tree = ast.parse(text)
            found = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "TESTED_KERNELS")
            yield from ((name, path.name) for name in ast.literal_eval(found.value))


def test_each_kernel_has_one_home_in_each_language():
    assert homes_in_cpp() == homes_in_python()
    assert sorted(homes_in_cpp()) == NAMES == sorted({kernel.name for kernel in kernels()})


def test_each_kernel_has_a_file_of_tests():
    assert sorted(dict(names_in_tests())) == NAMES


@pytest.mark.parametrize("path", [PACKAGE.parent / "include" / "onegraph.h", CSRC / "plan.cpp", CSRC / "call.cpp"])
def test_no_other_file_in_cpp_names_a_kernel(path):
    text = path.read_text() if path.exists() else ""
    assert not [name for name in NAMES if f'"{name}"' in text or re.search(rf"\bonegraph_{name}\b", text)]


def test_only_the_registry_of_kernels_compares_names():
    assert not [path for path in CSRC.rglob("*.cpp") if path.stem != "registry" and "->name" in path.read_text()]


# Records -------------------------------------------------------------------------------------------------------------


@grouped("kernel", kernels(), key=lambda kernel: kernel.executor, label=lambda kernel: kernel.name)
def test_a_record_says_why_and_whether_it_fails(kernel):
    assert kernel.fails is None or issubclass(kernel.fails, OneGraphError)
    assert not kernel.reason.endswith(".")
    assert all(sentence and not sentence.endswith(".") for _, sentence in kernel.takes)
    assert not kernel.attrs or kernel.kinds or kernel.executor  # of ops that it computes


def test_an_executor_has_one_way_of_adding():
    ways = {}
    for kernel in kernels():
        ways.setdefault(kernel.executor, set()).add((kernel.add, kernel.follows))
    del ways[""]
    assert {executor: len(found) for executor, found in ways.items()} == dict.fromkeys(ways, 1)


def test_kernels_that_allocate_do_not_update_variables():
    assert {kernel.name for kernel in kernels() if kernel.updates} >= {"pointwise", "relu"}
    assert not named("rms_norm").updates
    assert not named("select").updates


# Numbers -------------------------------------------------------------------------------------------------------------


def test_numbers_go_by_their_names():
    assert [field.name for field in fields_of("rms_norm")] == ["width", "epsilon", "level"]
    one = int(np.float32(1).view(np.int32))
    assert packed("rms_norm", {"epsilon": 1.0, "width": 7, "level": 2}) == (7, one, 2)
    assert packed("guarded", {"of": "max_pool_backward", "axis": 1, "zero": False, "windows": [4, 5]}) == (
        1,
        1,
        0,
        4,
        5,
    )


@pytest.mark.parametrize("numbers", [{"width": 1}, {"width": 1, "epsilon": 1.0, "depth": 2}])
def test_missing_and_unknown_numbers_are_refused(numbers):
    with pytest.raises(KeyError):
        packed("rms_norm", numbers)


def test_an_unknown_word_is_refused():
    with pytest.raises(KeyError, match=r"median.*softmax"):
        packed("guarded", {"of": "median", "axis": 0, "zero": 0, "windows": ()})


def test_an_unknown_kernel_is_refused():
    with pytest.raises(KeyError, match="sine"):
        CompiledKernel("sine", [], 0)


def test_cpp_refuses_other_numbers_than_it_names():
    x, y = np.ones((2, 4), np.float32), np.empty((2, 4), np.float32)
    made = compiled("rms_norm", [value_of(x)], [value_of(y)], (4, 0))
    with pytest.raises(StatusError, match="rms_norm"):
        made.run_once(x, y)
    compiled("rms_norm", [value_of(x)], [value_of(y)], packed("rms_norm", {"width": 4, "epsilon": 3.0})).run_once(x, y)
    np.testing.assert_allclose(y, 0.5)


# Why a kernel is not taken -------------------------------------------------------------------------------------------

SIZES = Geometry(images=1, rows=16, columns=16, channels=64, results=64, top=1, left=1)
CONVOLUTION = winograd.WinogradConvolution(SIZES, 32 * 32, is_constant=False)
PAIR = PointwiseGroup(("Sigmoid", "Multiply"), 1 << 16, 3, 2, 1, is_update=False, scales_channels=False, rounds=False)


def convolution(places=32 * 32, **sizes):
    return winograd.WinogradConvolution(SIZES._replace(**sizes), places, is_constant=False)


# By conditions, something that is taken, and for each condition something that only it refuses.
LADDERS = {
    "winograd": (
        winograd.WORTH,
        CONVOLUTION,
        [
            convolution(channels=16, results=1024),
            convolution(places=200, rows=7, columns=8),
            convolution(places=32 * 32, channels=1024, results=1024),
            convolution(places=600),
            convolution(places=220, rows=7, columns=8, channels=128),
        ],
    ),
    "packed_product": (
        packed_product.WORTH,
        packed_product.PackedProduct(4, 1 << 18),
        [packed_product.PackedProduct(5, 1 << 18), packed_product.PackedProduct(4, 1 << 17)],
    ),
}


@pytest.mark.parametrize("name", LADDERS)
def test_each_condition_has_a_sentence(name):
    conditions, taken, refused = LADDERS[name]
    assert not refusal(conditions, taken)
    assert [refusal(conditions, subject) for subject in refused] == [sentence for _, sentence in conditions]


GROUPS = {
    "more than 48 tensors": PAIR._replace(n_tensors=49),
    "fewer than 32,768 elements take": PAIR._replace(kinds=("SigmoidBackward", "Multiply"), size=1 << 14),
    "fewer than 32,768 elements with the product": PAIR._replace(size=1 << 14, follows_product=True),
    "more than 4,194,304 elements": PAIR._replace(size=1 << 23),
    "fewer than 16,384 elements": PAIR._replace(kinds=("GELUBackward",), size=1 << 13),
    "fewer than 8,192 elements": PAIR._replace(kinds=("Multiply",), size=1 << 12, scales_channels=True),
    "rounds the result of each op": PAIR._replace(kinds=("Add", "Add"), rounds=True),
    "no update of a variable": PAIR._replace(kinds=("Add", "Add")),
}


@pytest.mark.skipif(not has_avx2(), reason="a CPU without AVX2 has one reason for all")
@pytest.mark.parametrize("text", GROUPS)
def test_a_group_of_ops_is_refused_for_a_reason(text):
    assert text in pointwise.why_not(GROUPS[text])
    assert not pointwise.why_not(PAIR)
    assert not pointwise.why_not(PAIR._replace(kinds=("Add",), size=99, is_between_kernels=True))


def of_shape(shape, dtype=og.f32, strides=None):
    return Value(0, dtype, shape, dense_of(shape) if strides is None else strides, 0, "")


@pytest.mark.parametrize(
    ("condition", "value"),
    [(NOT_EMPTY, of_shape((0, 2))), (REGULAR, of_shape((3,), strides=(-1,))), (OF_FLOATS, of_shape((3,), og.s32))],
    ids=["empty", "reversed", "integers"],
)
def test_a_tensor_is_refused_for_a_reason(condition, value):
    assert refusal([condition], [of_shape((3,)), value]) == condition[1]
    assert not refusal([condition], [of_shape((3,))])


WINOGRAD = "winograd: the transforms of fewer than 32 channels take as long as they save"


def small_convolution():
    g = og.Graph()
    x, weights = g.input("x", og.f32, (1, 16, 16, 16)), g.constant(np.ones((3, 3, 16, 64), np.float32))
    same = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
    g.output("y", g.op("Convolution", [x, weights], {**same, "data_format": "NXC", "weights_format": "XIO"}))
    return g


def test_a_report_says_why_a_kernel_is_not_taken():
    report = small_convolution().compile().report()
    (partition,) = report.partitions
    assert partition.refused == (WINOGRAD,)
    assert f"\n     not by {WINOGRAD}" in str(report)
    assert report.to_dict()["partitions"][0]["refused"] == partition.refused


def test_a_report_says_why_a_kernel_is_taken():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 3))))
    (partition,) = g.compile().report().partitions
    assert partition.reason == named("relu").reason
    assert not partition.refused


# Bounds and forms of single records -----------------------------------------------------------------------------------


def call_on(kind, *shapes, dtype=og.f32, result=None, **attrs):
    return Call(BASE[kind], attrs, [TensorType(dtype, shape) for shape in shapes], 1, [result or dtype])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (call_on("SoftMax", (2, 3, 4), axis=1), "softmax"),
        (call_on("SoftMax", (2, 3, 1), axis=1), None),
        (call_on("SoftMax", (3, 4), axis=1), None),
        (call_on("SoftMax", (2048, 1), axis=1), "softmax"),
        (call_on("SoftMax", (2047, 1), axis=1), None),
        (call_on("SoftMax", (2, None, 4), axis=1), None),
        (call_on("SoftMax", None, axis=1), None),
        (call_on("SoftMax", (2, 3, 4), axis=1, mode="inf_as_zero"), None),
        (call_on("Add", (16, 1), (1, 16)), "spread_add"),
        (call_on("Add", (15, 1), (1, 17)), None),
        (call_on("Add", (16, 16), (1, 16)), None),
        (call_on("GELU", (3,), mode="gelu_tanh"), "gelu_tanh"),
        (call_on("GELU", (3,)), "gelu_erf"),
        (call_on("LogSoftmaxBackward", (3, 4), (3, 4)), None),
        (call_on("ReLU", (0, 3)), None),
    ],
    ids=lambda one: f"{one.schema.kind} {one.inputs} {one.given}" if isinstance(one, Call) else str(one),
)
def test_an_op_is_computed_by_the_kernel(call, name):
    kernel = exact_kernel(call)
    assert (kernel and kernel.name) == name


def test_others_compute_an_op_again():
    assert special_kernel(call_on("LogSoftmaxBackward", (3, 4), (3, 4))).name == "keep_nan"
    assert special_kernel(call_on("Add", (3, 4), (3, 4))) is None  # another one computes host ops of this name


def test_numpy_computes_some_floats():
    f32, wide, u32 = og.f32, DataType.float64, DataType.uint32
    table = {("Sin", wide, wide): 1, ("Sin", f32, f32): 0, ("Cast", f32, u32): 1, ("Cast", og.s32, u32): 0}
    table |= {("Cast", f32, og.s32): 0, ("Abs", wide, wide): 0}
    assert {key: int(bool(why_not(*key))) for key in table} == table


@pytest.mark.parametrize(("strides", "whole"), [((3, 0), False), ((2, 1), True), ((1, 2), True), ((3, 1), False)])
def test_elements_lie_side_by_side(strides, whole):
    assert is_whole(of_shape((2, 2))._replace(strides=strides)) == whole


@pytest.mark.parametrize(("tokens", "step", "takes"), [(1, 9, True), (3, 9, False), (3, 4, True)])
def test_tokens_of_a_cache_lie_side_by_side(tokens, step, takes):
    cache = of_shape((1, 2, tokens, 4))
    strided = cache._replace(strides=(2 * tokens * step, tokens * step, step, 1))
    assert (not refusal(EXTEND_CACHE.takes, (cache, cache, strided))) == takes


def test_one_group_has_panels():
    for made in (CodeProduct, PanelConvolution):
        rest = (1, False) if made is CodeProduct else (True,)
        assert [made(2, 1, 1, groups, *rest).is_depthwise for groups in (1, 2)] == [False, True]


def test_walks_beyond_tables_are_refused():
    src, nodes, roots, weights = next(case for case in host_cases.cases() if case.kind == "TreeEnsemble").inputs

    def takes(*tables, **further):
        ends = [dense(array)._replace(constant=array) for array in (src, *tables, *further.values())]
        given = [None if array is None else ends[4 + place] for place, array in enumerate(further.values())]
        return not refusal(named("trees").takes, (*ends[:4], *given, of_shape((4, 1))))

    base, starts = np.zeros(1, np.float32), np.arange(6, dtype=np.int32)
    targets = np.zeros(5, np.int32)
    assert takes(nodes, roots, weights)
    assert not takes(nodes, roots + 90, weights)
    assert takes(nodes, roots, weights, base=base, targets=targets, starts=starts)
    assert not takes(nodes, roots, weights, base=base, targets=targets + 1, starts=starts)
    known = [dense(array)._replace(constant=array) for array in (src, nodes, roots, weights)]
    for place in (1, 2):
        lacking = [one._replace(constant=None) if at == place else one for at, one in enumerate(known)]
        assert refusal(named("trees").takes, (*lacking, of_shape((4, 1))))


def dense(array):
    return Value(0, OF_NUMPY[array.dtype], array.shape, dense_of(array.shape), 0, "")


@pytest.mark.parametrize(
    ("first", "step", "sizes"),
    [(-(2**31), 1, True), (-(2**31) - 1, 1, False), (2**31 - 1, 1, True), (2**31, 1, False), (0, 2**31, False)],
)
def test_numbers_of_a_range_fit(first, step, sizes):
    g = og.Graph()
    g.op("Range", [g.constant(np.int64(one), dtype=og.s64) for one in (first, first + 3 * step, step)], edition="host")
    found = written_sizes._sizes(SimpleNamespace(op=g.ops[0]))
    assert found == ([first, step] if sizes else None)


def test_a_range_to_a_number_of_a_run_has_no_known_numbers():
    g = og.Graph()
    ends = [g.constant(np.int64(0), dtype=og.s64), g.input("x", og.s64, ()), g.constant(np.int64(1), dtype=og.s64)]
    g.op("Range", ends, edition="host")
    assert written_sizes._sizes(SimpleNamespace(op=g.ops[0])) is None
