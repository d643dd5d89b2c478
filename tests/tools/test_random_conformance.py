"""Random valid uses in the bare library, and what the records of faults say of them."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util.worker_process import Outcome
from onegraph.capi.settings import has_avx512, is_native
from onegraph.checker.library_limits import Library
from onegraph.faults.measured import PRECISE, Score, figures
from onegraph.native import siblings
from onegraph.native.library import PATH, VERSION
from onegraph.opset.editions.registry import BASE, DEFAULT, edition
from onegraph.tools.conformance import own_edition
from onegraph.tools.conformance.drawn import filing, findings, run, trials
from onegraph.tools.conformance.drawn.c_program import MANY, RESULTS, c_program, is_small, is_small_result, is_writable
from onegraph.tools.conformance.drawn.drawing import NOT_DRAWN, draw, pages_to_draw
from onegraph.tools.conformance.drawn.features import cause
from onegraph.tools.conformance.drawn.filing import cases_of_report, file_findings
from onegraph.tools.conformance.drawn.measurement import Tried
from onegraph.tools.conformance.page_of_op import PageOfOp
from onegraph.tools.conformance.uses import SINGLE, ProbedUse, uses_of_fault
from onegraph.tools.conformance.worker import compare

SHORT = 200  # uses that the suite runs
MEASURED = figures()
VERSIONS = ("3.2.0", "3.6.2", "3.9.1", "3.13.2")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    """A short run on every op; some seconds."""
    return run(SHORT, 7, workers=2)


def onegraph(*arguments):
    """The exit status of a command, in this process."""
    from onegraph.cli import main

    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return ended.value.code or 0


# What is drawn -------------------------------------------------------------------------------------------------------


def test_every_op_is_drawn_and_allowed():
    pages = pages_to_draw(None, [], (3, 13, 2))
    assert set(pages) == set(BASE) - NOT_DRAWN
    drawn = [draw(1, number, pages) for number in range(2 * len(pages))]
    assert all(drawn)
    assert {one.use.kind for one in drawn} == set(pages)
    for one in drawn:
        chosen = edition(one.edition)
        schema = next(page.schema for page in pages[one.use.kind] if page.edition is chosen)
        assert PageOfOp(chosen, schema).allows(one.use)


def test_draws_reach_every_value_dtype_and_layout():
    pages = pages_to_draw(DEFAULT, ["Convolution", "AvgPool", "Quantize", "SoftMax"], (3, 13, 2))
    drawn = [draw(2, number, pages).use for number in range(400)]
    for kind in pages:
        uses = [use for use in drawn if use.kind == kind]
        for attribute in BASE[kind].attributes:
            for value in attribute.values:
                assert any(use.attrs.get(attribute.name, attribute.default) == value for use in uses), attribute.name
        types = {dtype for use in uses for dtype in use.dtypes[:1]}
        first = BASE[kind].inputs[0].type
        assert types == {str(dtype) for row in BASE[kind].types for dtype in row.types.get(first, [first])}
        assert any(1 in tensor[1] for use in uses for tensor in use.tensors)
    convolutions = [use for use in drawn if use.kind == "Convolution"]
    assert {len(use.dtypes) for use in convolutions} == {2, 3}
    assert any(use.attrs["groups"] > 1 for use in convolutions if "groups" in use.attrs)
    for name in ("strides", "dilations", "pads_begin", "pads_end"):
        assert any(len(set(use.attrs.get(name, [1]))) > 1 for use in convolutions), name


def test_draws_reach_contents_that_values_are_about():
    pages = pages_to_draw(DEFAULT, ["Quantize", "SoftMax"], (3, 13, 2))
    drawn = [draw(2, number, pages).use for number in range(120)]
    points = [use.attrs.get("zps") for use in drawn if use.attrs.get("qtype") == "per_channel"]
    several = [list(each) for each in points if each and len(each) > 1]
    assert any(not any(each) for each in several), "zeros, as in weights"
    assert any(len(set(each)) == 1 and any(each) for each in several)
    assert any(len(set(each)) > 1 for each in several)
    assert None in points
    nothing = [use for use in drawn if use.attrs.get("mode") == "inf_as_zero" and np.isinf(use.arrays[0]).any()]
    assert nothing
    for use in nothing:
        assert np.isneginf(use.arrays[0].astype(np.float32).max(axis=use.attrs.get("axis", 1))).any()


def test_a_use_depends_on_its_number_alone():
    few, all_ops = pages_to_draw(None, ["ReLU", "Add"], VERSION), pages_to_draw(None, [], VERSION)
    assert draw(3, 5, few).use == draw(3, 5, few).use
    assert draw(3, 5, few).use != draw(4, 5, few).use
    assert draw(3, 0, all_ops).use == draw(3, 0, all_ops).use


def test_an_old_edition_is_drawn_in_its_own_bounds():
    pages = pages_to_draw("onednn-3.2", [], (3, 13, 2))
    assert "GroupNorm" not in pages
    assert {draw(1, number, pages).edition for number in range(20)} == {"onednn-3.2"}
    assert "Pow" in pages_to_draw(None, [], (3, 2, 0))
    assert "RMSNorm" not in pages_to_draw(None, [], (3, 2, 0))


# What is measured ----------------------------------------------------------------------------------------------------


def test_no_record_claims_too_much_and_nothing_is_unclaimed(report):
    assert report.imprecise == []
    assert [finding.id for finding in report.findings] == []
    assert len(report.tried) == SHORT
    claimed = [one for one in report.tried if one.claims]
    assert len(claimed) > SHORT / 10
    assert all(one.is_wrong for one in claimed)


def test_report_counts_every_use(report):
    facts = json.loads(json.dumps(report.to_dict()))
    assert sum(facts["outcomes"].values()) == facts["cases"] == SHORT
    assert sum(one["uses"] for one in facts["ops"].values()) == SHORT
    assert sum(one["wrong"] for one in facts["ops"].values()) == sum(one.is_wrong for one in report.tried)
    assert all(0 <= one["wrong"] <= one["claimed"] for one in facts["records"].values())


@pytest.mark.parametrize(("counts", "precision", "recall"), [
    ((10, 10, 4, 4, 0, 10), 1.0, 1.0),
    ((10, 9, 0, 0, 5, 20), 0.9, 0.75),
    ((10, 9, 2, 1, 0, 9), 0.5, 1.0),  # the others are wrong for another reason
    ((0, 0, 0, 0, 3, 3), None, 0.0),
    ((0, 0, 0, 0, 0, 0), None, None),
])  # fmt: skip
def test_precision_and_recall_by_hand(counts, precision, recall):
    score = Score(*counts)
    assert (score.precision, score.recall) == (precision, recall)
    assert score.is_imprecise == (precision is not None and precision < 0.99)


@pytest.mark.parametrize("version", VERSIONS)
def test_kept_figures_have_no_imprecise_record(version):
    figures = MEASURED[version]
    assert figures["cases"] >= 4000
    for name, counts in figures["records"].items():
        assert name in SINGLE, f"{name} is measured and is no record any more"
        score = Score(*counts)
        assert score.precision is None or score.precision >= PRECISE, (name, counts)
    assert set(figures["findings"]) <= set(OPEN), "record it as a fault"
    assert figures["all"]["recall"] > 0.98


def test_records_carry_their_figures():
    met = [fault for fault in SINGLE.values() if any(one.claimed for one in fault.measured.values())]
    assert len(met) > 25
    for fault in met:
        assert set(fault.measured) <= set(VERSIONS)
        assert all(one.wrong <= one.claimed for one in fault.measured.values())


def test_every_certain_record_was_met_or_says_why_not():
    claimed = {name for version in VERSIONS for name, counts in MEASURED[version]["records"].items() if counts[0]}
    rare = {name for name, fault in SINGLE.items() if fault.severity != "slow"} - claimed
    large = {name for name in rare if not any(example.runs for example in SINGLE[name].examples)}
    assert rare - large <= set(NOT_MET), rare - large - set(NOT_MET)


# Findings that have no record yet, and what is known of them.
OPEN: dict[str, str] = {}
# Faults that ordinary uses do not meet, or meet in some memory alone.
NOT_MET = {
    name: reason
    for reason, names in {
        "of versions beside these": "one_column_of_halves untold_softmax_shape",
        "on other CPUs, and of ops that are not drawn": "no_arithmetic_of_the_type no_kernel_of_markers",
        "by what lies in memory, by threads or by numbers": "bias_behind_source gradient_of_deep_windows "
        "gradient_of_dilated_groups gradient_of_few_windows gradient_of_long_strides gradient_of_a_small_source "
        "gradient_of_strided_pixels matmul_batches matmul_over_one one_channel_strided "
        "biased_gaps matmul_single_rows rounded_average_gradients rounded_maximum_gradients "
        "select_products softmax_of_nothing windows_beside_source floats_beside_source "
        "spanned_source unread_as_padded unread_planes wide_integers",
        "of ranks, sizes and numbers that are not drawn": "matmul_row_leaks pixel_leaks "
        "window_leaks batch_norm_many_axes concat_limits dynamic_parameter_rank "
        "empty_tensor far_windows inexact_coordinates infinite_slope matmul_bias prelu_rank sizes_and_scales "
        "tiny_scale wide_zero_point group_norm_rank misjudged_ties slope_of_few_axes slope_without_axes",
    }.items()
    for name in names.split()
}


# A seeded fault ------------------------------------------------------------------------------------------------------


def seeded_run(values, kinds, cases=60, seed=3):
    """A run whose library computes with other values where these values of attributes are asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tests"))
        patch.setattr(trials, "ENTRY", "helpers.seeded_fault")
        patch.setenv("SEEDED_FAULT", " ".join(values))
        # The library refuses many of them where the CPU lacks a data type, and most where it has f32 alone.
        more = 4 if not is_native(og.bf16) else 1 if is_native(og.f16) else 2
        return run(cases * more, seed, edition="onednn-3.2", kinds=kinds)


@pytest.fixture(scope="module")
def seeded():
    """A run whose library computes along the last axis where axis 0 is asked for."""
    return seeded_run(["axis=0"], ["SoftMax", "ReLU"])


def test_finds_a_wrong_attribute_value_and_its_cause(seeded):
    assert {finding.kind for finding in seeded.findings} == {"SoftMax"}
    worst = seeded.findings[0]
    assert worst.verdict == "wrong"
    assert "axis=0" in worst.shared  # beside what so few uses may share by chance
    assert len(worst.numbers) > 3
    assert worst.smallest.use.attrs["axis"] == 0
    elements = sum(np.prod(tensor[1]) for tensor in worst.smallest.use.tensors)
    assert elements <= 4, "it is shrunk"
    assert seeded.ids()[worst.id] == "wrong"


SEEDED = {
    "exclude_pad=True": "AvgPool",
    "alpha=0.5": "Elu",
    "mode=nearest": "Interpolate",
    "auto_pad=same_lower": "ConvTranspose",  # of 16 bits too, where a record tells of NaN
    "keep_dims=True": "ReduceL2",  # which changes the shape alone
    "qtype=per_channel": "Quantize",
}


def test_finds_wrong_values_of_every_setter(monkeypatch):
    monkeypatch.setattr(findings, "SHRINKING_TESTS", 3)
    found = seeded_run(SEEDED, [*SEEDED.values(), "ReLU"], 160, seed=4).findings
    assert {finding.kind for finding in found} == {*SEEDED.values()}
    for value, kind in SEEDED.items():
        assert [one.id for one in found if one.kind == kind and value in one.shared], (value, [one.id for one in found])


def test_faults_of_nan_explain_no_wrong_result_of_finite_inputs():
    drawn = draw(1, 0, pages_to_draw(DEFAULT, ["Convolution"], (3, 13, 2)))
    wrong, of_nan = Outcome("wrong", "execute", ""), ("window_leaks",)
    assert Tried(drawn, (), (), wrong).is_unknown
    assert Tried(drawn, (), of_nan, wrong).is_unknown
    assert not Tried(drawn, (), ("spanned_source", *of_nan), wrong).is_unknown
    assert not Tried(drawn, ("grouped_gradient",), of_nan, wrong).is_unknown
    assert not Tried(drawn, (), of_nan, Outcome("right", "execute", "")).is_unknown
    lines = [[dtype, shape, [float("nan"), *numbers[1:]]] for dtype, shape, numbers in drawn.use.tensors]
    with_nan = replace(drawn, use=replace(drawn.use, tensors=lines))
    assert not Tried(with_nan, (), of_nan, wrong).is_unknown


def test_results_of_other_shapes_are_wrong():
    row, column = np.ones((1, 3), np.float32), np.ones((3, 1), np.float32)
    assert compare([row], [row]) == ""
    assert compare([row], [column]) == "output 0 has shape [1, 3], the reference [3, 1]"
    assert compare([np.ones(1, np.float32)], [np.ones((), np.float32)]) == ""  # the library has no scalars


@pytest.mark.parametrize(
    ("got", "want", "told"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.5, 4.1]], "output 0 is 3 at [1, 0], expected 3.5"),
        ([1.0, np.nan], [1.0, 2.0], "output 0 is nan at [1], expected 2"),
        ([np.inf, 5.0], [-np.inf, 2.0], "output 0 is inf at [0], expected -inf"),
        ([np.nan, -np.inf], [np.nan, -np.inf], ""),
    ],
)
def test_a_wrong_element_is_told_by_its_place(got, want, told):
    assert compare([np.array(got, np.float32)], [np.array(want, np.float32)]) == told


def test_a_logarithm_has_the_error_that_was_measured():
    exact = np.log(np.float32([1.06]))
    assert compare([exact + np.float32(3.6e-6)], [exact], "Log") == ""
    assert compare([exact + np.float32(6e-6)], [exact], "Log") != ""
    assert compare([exact + np.float32(3.6e-6)], [exact], "SoftPlus") != ""


@pytest.mark.parametrize(
    ("shape", "axis", "nothing", "claims"),
    [
        ((2, 3), 0, (slice(None), 1), {"softmax_of_nothing": True}),
        ((2, 3), 0, (0, 1), {"softmax_of_nothing": False}),
        ((2, 3), 1, (0,), {}),
        ((3, 1), 0, (slice(None),), {}),
        ((2, 3, 4), -2, (1, slice(None), 2), {"softmax_of_nothing": True}),
    ],
)
def test_zeroes_of_nothing_are_claimed_by_contents(shape, axis, nothing, claims):
    numbers = np.ones(shape, np.float32)
    numbers[nothing] = -np.inf
    tensors = [["f32", list(shape), numbers.tolist()]]
    use = ProbedUse("SoftMax", ("given",), ((0, "f32"),), {"axis": axis, "mode": "inf_as_zero"}, ("f32",), tensors)
    assert {name: sure for name, sure in use.claims((3, 13, 2)).items() if name == "softmax_of_nothing"} == claims


def test_cause_names_what_failing_uses_share():
    pages = pages_to_draw(DEFAULT, ["AvgPool"], (3, 13, 2))
    uses = [draw(5, number, pages).use for number in range(150)]
    failing = [use for use in uses if use.attrs.get("auto_pad") == "same_upper" and use.dtypes[0] == "bf16"]
    right = [use for use in uses if use not in failing]
    words, places = cause(failing, right)
    assert set(words) == {"auto_pad=same_upper", "src of bf16"} or set(words) == {"auto_pad=same_upper", "dst of bf16"}
    assert places == list(range(len(failing)))


# Filing --------------------------------------------------------------------------------------------------------------


def _compiled(program, folder):
    include, library = Path(sys.prefix) / "include", Path(PATH)
    if not (include / "oneapi" / "dnnl" / "dnnl_graph.h").is_file():
        pytest.skip("the headers of oneDNN are not installed")
    (folder / "program.c").write_text(program)
    command = ["cc", "-Wall", "-Werror", "program.c", f"-I{include}", str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([*command, "-lm", "-o", "program"], check=True, cwd=folder)
    return subprocess.run([folder / "program"], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kind", ["Add", "BatchNormInference", "MaxPool", "Quantize", "ReduceSum", "SoftMaxBackward"])
def test_c_program_agrees_with_the_measurement(kind, tmp_path):
    rng, pages = Random(kind), pages_to_draw("onednn-3.2", [kind], VERSION)
    for number in range(rng.randrange(100), 200):
        use = draw(9, number, pages).use
        if not use.claims(VERSION) and is_writable(use) and is_small(use):
            break
    ended = _compiled(c_program(use, "a use", "cc program.c"), tmp_path)
    assert (ended.returncode, ended.stdout) == (0, ""), use


@pytest.mark.parametrize(
    ("sizes", "small"), [(None, True), ([], True), ([MANY // RESULTS - 1, 1], True), ([MANY // RESULTS, 1], False)]
)
def test_results_of_few_numbers_are_shown(sizes, small):
    results = None if sizes is None else [np.zeros(size, np.float32) for size in sizes]
    assert is_small_result(SimpleNamespace(reference=lambda: results)) == small


def test_c_program_of_a_large_use_runs_on_zeros(tmp_path):
    use = ProbedUse("ReLU", ("given",), ((0, "f32"),), {}, ("f32",), [["f32", [50, 60], None]])
    program = c_program(use, "a use", "cc program.c")
    ended = _compiled(program, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "executed\n")
    assert len(program.splitlines()) <= 40
    assert len(program) < 4000


@pytest.mark.parametrize("name", ["inexact_coordinates", "rounded_maximum_gradients"])
def test_wrong_numbers_of_a_large_use_have_a_program(name, tmp_path):
    if name == "rounded_maximum_gradients" and not has_avx512():
        pytest.skip("the library refuses bf16 on a CPU without AVX-512")
    (use, *_) = uses_of_fault(SINGLE[name]).values()
    assert not is_small(use)
    case = filing._with_repeated_numbers(
        filing.FiledFinding(
            name, use.kind, DEFAULT, use, use.arguments(), None, Outcome("wrong", "execute", ""), True, [], {}
        )
    )
    if VERSION[:2] == (3, 2):
        assert case.is_writable
        program = c_program(case.use, "a finding", "cc program.c", near=case.near)
        assert len(program.splitlines()) <= 40
        assert len(program) < 6000
        assert _compiled(program, tmp_path).returncode == 1


def test_what_a_later_edition_allows_is_not_filed():
    mixed = ProbedUse(
        "Divide", ("given",), ((0, "bf16"), (1, "f32")), {}, ("f32",), [["bf16", [2], None], ["f32", [2], None]]
    )
    assert filing._is_allowed_later(mixed, mixed.arguments(), "onednn-3.2")
    never = replace(mixed, attrs={"auto_broadcast": "other"})
    assert not filing._is_allowed_later(never, {"auto_broadcast": ["str", "other"]}, "onednn-3.2")


def test_files_a_finding_with_all_that_a_report_needs(monkeypatch, tmp_path):
    of_call = Library.of_call
    monkeypatch.setattr(
        Library, "of_call", lambda *given: [one for one in of_call(*given) if one[0].name != "align_corners"]
    )
    found = run(16, 4, kinds=["Interpolate"])
    finding = next(one for one in found.findings if "coordinate_transformation_mode=align_corners" in one.shared)
    (place, *_) = file_findings(cases_of_report(found), tmp_path)
    names = {path.name for path in place.iterdir()}
    assert names == {"README.md", "benchdnn.txt", "finding.json", "graph.json", "program.c"}
    text = (place / "README.md").read_text()
    for part in (
        "align_corners",
        "Interpolate",
        "https://github.com/uxlfoundation/oneDNN",
        "| oneDNN ",
        "CPU: ",
        "glibc",
    ):
        assert part in text
    assert (place / "benchdnn.txt").read_text().split()[:2] == ["benchdnn", "--graph"]
    facts = json.loads((place / "finding.json").read_text())
    assert facts["id"] == finding.id
    assert facts["libraries"][0]["outcome"] != "right"
    assert onegraph("check", place / "graph.json", "--library", "none") == 0
    program = (place / "program.c").read_text()
    assert len(program.splitlines()) <= 40
    assert "onegraph" not in program
    ended = _compiled(program, tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "no kernel\n")


def test_files_findings_of_probes_that_a_call_shows(tmp_path):
    assert onegraph("conformance", "Concat", "--folder", tmp_path, "--workers", "1") == 1
    places = {path.name: path for path in tmp_path.iterdir()}
    assert not [name for name in places if name.startswith(("text", "sibling"))]
    laxer = next(place for name, place in sorted(places.items()) if name.startswith("laxer"))
    assert "forbids this use" in (laxer / "README.md").read_text()
    ended = _compiled((laxer / "program.c").read_text(), tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "executed\n")
    for place in places.values():
        text = (place / "README.md").read_text()
        for name in ("graph.json", "program.c"):
            assert (place / name).is_file() == (f"There is no {name}: " not in text)
        if (place / "program.c").is_file():
            assert len((place / "program.c").read_text().splitlines()) <= 40


# The command ---------------------------------------------------------------------------------------------------------


def test_exit_status_baseline_and_fail_on(report, seeded, monkeypatch, tmp_path, capsys):
    arguments = ["conformance", "--cases", "60"]
    monkeypatch.setattr("onegraph.tools.conformance.drawn.run", lambda *_, **__: report)
    assert onegraph(*arguments) == 0
    monkeypatch.setattr("onegraph.tools.conformance.drawn.run", lambda *_, **__: seeded)
    assert onegraph(*arguments) == 1
    assert onegraph(*arguments, "--fail-on", "crashes") == 0
    assert onegraph(*arguments, "--fail-on", "crashes,wrong") == 1
    kept = tmp_path / "kept.json"
    assert onegraph(*arguments, "--write-baseline", kept) == 0
    assert set(json.loads(kept.read_text()).values()) == {"wrong"}
    assert onegraph(*arguments, "--baseline", kept) == 0
    capsys.readouterr()
    assert onegraph(*arguments, "--json") == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["verdict"] == "wrong"


@pytest.mark.parametrize(("arguments", "told"), [
    (["--cases", "0"], "'--cases'"),
    (["--cases", "5", "Relu"], "ReLU"),
    (["--cases", "5", "--fail-on", "slow"], "'slow' is no verdict; expected some of crashes, wrong"),
    (["--cases", "5", "--html", "x.html"], "--folder"),
    (["--also", "pyproject.toml"], "--folder"),
    (["--also", "x", "--folder", "f"], "File 'x' does not exist"),
    (["--also", "pyproject.toml", "--folder", "f"], "onegraph: pyproject.toml: "),
    (["--folder", "pyproject.toml/f"], "pyproject.toml/f: Not a directory; expected a path that can be written"),
    (["--html", "none/x.html"], "none/x.html: No such file or directory; expected a path that can be written"),
    (["--cases", "5", "--baseline", "pyproject.toml"], "pyproject.toml: no JSON; expected what onegraph conformance"),
    (["--cases", "5", "--baseline", "nowhere.json"], "nowhere.json: No such file or directory"),
    (["MatMull"], "has no op 'MatMull'; did you mean 'MatMul'?"),
])  # fmt: skip
def test_misuse_is_one_line_and_status_2(arguments, told, capsys):
    assert onegraph("conformance", *arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1


def test_interrupt_ends_in_a_second():
    code = (  # a shell that runs the suite behind may ignore the signal
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from onegraph.tools.conformance.drawn import trials; from onegraph.cli import main;"
        f"sys.path.insert(0, {str(ROOT / 'tests')!r}); trials.ENTRY = 'helpers.seeded_fault';"
        "print('ready', flush=True); sys.exit(main(['conformance', '--cases', '50', '--workers', '2']))"
    )
    environment = {**os.environ, "SEEDED_FAULT": "endless"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    process.stdout.readline()
    time.sleep(1.5)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert time.monotonic() - start < 2.5, "a second, and what a busy machine takes to end processes"
    assert process.returncode != 0


# Any library ---------------------------------------------------------------------------------------------------------


def test_an_unknown_version_gets_the_newest_edition():
    assert own_edition((3, 2, 1)) == ("onednn-3.2", "")
    name, note = own_edition((3, 15, 0))
    assert name == "onednn-3.14"
    assert note == "oneDNN 3.15.0 is newer than every edition; tested against the newest, onednn-3.14"
    assert pages_to_draw(None, ["ReLU"], (3, 15, 0))["ReLU"][-1].edition.name == "onednn-3.14"


def test_missing_engine_is_one_error(monkeypatch, capsys):
    from onegraph.capi import engine

    monkeypatch.setattr(engine, "engine_count", lambda kind: 0)
    monkeypatch.setattr("onegraph.capi.default_engine", lambda: engine.Engine("cpu"))
    for arguments in (["--cases", "20"], []):
        assert onegraph("conformance", *arguments, "ReLU") == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert "the library has 0 cpu engines" in output.err
        assert len(output.err.splitlines()) == 1


def _library(folder, name, needs=(), code=""):
    source = folder / f"{name}.c"
    source.write_text(code)
    links = [str(path) for path in needs]
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, source, *links], check=True)
    return folder / name


def test_siblings_are_loaded_from_beside_a_library(tmp_path):
    beside = tmp_path / "lib"
    beside.mkdir()
    inner = _library(beside, "libinner_of_test.so.4", code="int one(void) { return 1; }")
    outer = _library(beside, "libouter_of_test.so.1", [inner], "int one(void); int two(void) { return one() + 1; }")
    whole = _library(beside, "libwhole_of_test.so.3", [outer], "int two(void); int three(void) { return two() + 1; }")
    assert siblings.load_with_siblings(whole).three() == 3
    gone = _library(beside, "libintlc_gone.so.5", code="int gone(void) { return 1; }")
    lonely = _library(beside, "liblonely_of_test.so", [gone], "int gone(void); int call(void) { return gone(); }")
    gone.unlink()
    with pytest.raises(OSError, match="libintlc_gone") as told:
        siblings.load_with_siblings(lonely)
    name = siblings.missing_library(told.value)
    assert name == "libintlc_gone.so.5"
    assert "pip install dpcpp-cpp-rt intel-opencl-rt tbb" in siblings.advice(name)
    assert siblings.advice("libm.so.6") == ""


def test_opencl_is_named_where_sycl_is_loaded(monkeypatch, tmp_path):
    runtime, sycl = tmp_path / "libintelocl.so", tmp_path / "libsycl.so.8"
    runtime.touch()
    monkeypatch.setattr(siblings, "_mapped", lambda name: None)
    monkeypatch.delenv(siblings.OPENCL, raising=False)
    siblings.provide_opencl(tmp_path / "libdnnl.so.3")
    assert siblings.OPENCL not in os.environ
    assert siblings.engine_advice() == ""
    monkeypatch.setattr(siblings, "_mapped", lambda name: sycl)
    assert "is not set" in siblings.engine_advice()
    siblings.provide_opencl(tmp_path / "libdnnl.so.3")
    assert os.environ[siblings.OPENCL] == str(runtime)
    monkeypatch.setenv(siblings.OPENCL, "/other")
    siblings.provide_opencl(tmp_path / "libdnnl.so.3")
    assert os.environ[siblings.OPENCL] == "/other"
    assert "OCL_ICD_FILENAMES is '/other'" in siblings.engine_advice()
