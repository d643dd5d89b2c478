"""The library compared with an edition; a crash of a probe is a finding."""

import errno
import json
import subprocess
import sys

import pytest
from helpers.command_line import onegraph
from helpers.executables import forked_python

import onegraph as og
from onegraph._util import worker_process
from onegraph._util.worker_process import Outcome, Worker
from onegraph.capi.settings import is_native
from onegraph.faults.catalogue import EVERY_FAULT
from onegraph.opset.editions.registry import edition
from onegraph.opset.errata.correction import SECTIONS
from onegraph.tools import conformance
from onegraph.tools.conformance import coverage, known, runner
from onegraph.tools.conformance.markdown import markdown
from onegraph.tools.conformance.own_causes import OWN
from onegraph.tools.conformance.page import page
from onegraph.tools.conformance.results import VERDICTS
from onegraph.tools.conformance.uses import GIVEN, SINGLE, ProbedUse

LIBRARY = tuple(map(int, og.version_info()["version"].split(".")))
OPS = {name for name, fault in SINGLE.items() if fault.severity != "slow"}
KNOWN = {*SINGLE, *(cause.name for cause in OWN)}
ON_3_2 = pytest.mark.skipif(LIBRARY[:2] != (3, 2), reason="what 3.2 does is pinned; another library is loaded")


@pytest.fixture(scope="module")
def results():
    """Every op of the library's own edition; about a quarter of a minute."""
    return conformance.run(edition(f"onednn-3.{LIBRARY[1]}"))


@pytest.fixture(scope="module")
def findings(results):
    return {finding.id: finding for finding in results.findings}


def ops(findings, name):
    return set(findings[name].ops)


def test_probes_every_op_attribute_and_type_row(results):
    tried = {(result.probe["op"], result.probe["subject"]) for result in results}
    values = {(r.probe["op"], r.probe["subject"], str(r.probe["value"])) for r in results}
    for schema in edition(f"onednn-3.{LIBRARY[1]}").schemas.values():
        if schema.kind == "Wildcard":
            continue
        assert (schema.kind, "data types") in tried
        assert (schema.kind, "number of inputs") in tried
        for attribute in schema.attributes:
            assert (schema.kind, attribute.name) in tried
            for value in attribute.values:
                assert (schema.kind, attribute.name, value) in values
            if attribute.required:
                assert (schema.kind, attribute.name, "left out") in values


def test_coverage_counts_documented_facts(results):
    coverage = results.coverage
    assert coverage.untried == []
    assert all(tried == count > 50 for count, tried in coverage.documented.values())
    assert set(coverage.skipped) == {"Wildcard"}
    required = [r for r in results if r.probe["group"] == "attribute required"]
    # 3.6 no longer requires the zps of two ops, and has GroupNorm with its groups; 3.13 has GenIndex with its axis.
    known = {(3, 2): 67, (3, 6): 66, (3, 13): 67}
    assert len(required) == known.get(LIBRARY[:2], len(required))
    assert {r.outcome.stage for r in required} == {"add_op"}, "every omission is rejected"


def test_probes_change_one_thing_in_right_uses(results):
    by_kind = {}
    for result in results:
        if result.outcome.outcome in ("right", "ran"):
            by_kind.setdefault(result.asked.use.kind, []).append(result.asked.use)
    for result in results:
        asked, control = result.asked, result.asked.control
        if control is None:
            continue
        assert control in by_kind[control.kind], "a control is right"
        use, call = asked.use, control.arguments()
        changed = {name for name in {*call, *asked.call} if call.get(name) != asked.call.get(name)}
        parts = [bool(changed), use.picks[: len(control.picks)] != control.picks[: len(use.picks)],
                 len(use.picks) != len(control.picks), len(use.outputs) != len(control.outputs)]  # fmt: skip
        is_moved = asked.subject == "number of inputs" and len(changed) == 1  # from an attribute to a tensor
        if asked.group not in ("valid use", "data types", "text"):
            assert sum(parts) <= 1 + is_moved, (asked.group, asked.subject, asked.value)


@ON_3_2
def test_finds_known_refusals_of_3_2(results, findings):
    spellings = [r for r in results if r.probe["subject"] == "auto_pad" and r.verdict == "text"]
    assert len({(r.probe["op"], r.probe["value"]) for r in spellings}) == 40, "ten ops, four values each"
    transposed = {"ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights"}
    assert ops(findings, "text:correction:transposed_formats") == transposed
    assert ops(findings, "stricter:gradient_output_padding") == transposed - {"ConvTranspose"}
    assert ops(findings, "stricter:axes_tensor") == {
        f"Reduce{name}" for name in ["L1", "L2", "Max", "Mean", "Min", "Prod", "Sum"]
    }
    assert ops(findings, "stricter:sizes_tensor") == {"Interpolate", "InterpolateBackward"}
    shaped = {"AvgPoolBackward", "ConvolutionBackwardData", "ConvolutionBackwardWeights"}
    assert ops(findings, "stricter:shape_tensor") == shaped | {"ConvTransposeBackwardWeights"}
    assert ops(findings, "text:correction:reshape_shape") == {"StaticReshape"}
    assert ops(findings, "stricter:sizes_and_scales") == {"Interpolate", "InterpolateBackward"}
    assert ops(findings, "text:gamma_alone") == {"LayerNorm", "LayerNormBackward"}
    assert ops(findings, "text:one_statistic") == {"LayerNorm"}
    assert ops(findings, "text:one_gradient") == ops(findings, "text:no_gradients") == {"LayerNormBackward"}
    assert ops(findings, "stricter:concat_limits") == {"Concat"}


@ON_3_2
def test_one_cause_is_one_finding(results, findings):
    dilations = findings["stricter:default_dilations"]
    assert {row.probe["op"] for row in dilations.rows} == {"MaxPoolBackward"}
    assert len(dilations.rows) > 30
    blamed = {"strides", "kernel", "pads_begin", "pads_end", "data types"}
    right = [r for r in results if r.probe["op"] == "MaxPoolBackward" and r.probe["subject"] in blamed]
    assert not [r for r in right if r.probe["allowed"] and r.verdict not in ("agrees", "machine")]
    gradients = ("ConvolutionBackwardData", "ConvolutionBackwardWeights")
    tried = [r for r in results if r.probe["op"] in gradients and r.probe["group"] == "attribute value"]
    strides = [r for r in tried if r.probe["subject"] == "strides"]
    assert len(strides) >= 2
    assert not [r for r in strides if r.probe["allowed"] and r.verdict != "agrees"]
    quantized = [r for r in results if r.probe["op"] in ("Quantize", "Dequantize") and r.probe["allowed"]]
    assert all("zps" in r.asked.use.attrs for r in quantized), "3.2 requires zps"


@ON_3_2
def test_finds_known_faults_of_3_2(results, findings):
    assert "wrong:norm_axis" in findings
    begins = [r for r in results if r.probe["subject"] == "begin_norm_axis" and r.verdict == "wrong"]
    overrun = "output 1 is written beyond its end"
    assert {r.probe["value"]: r.outcome.detail for r in begins if r.probe["op"] == "LayerNorm"}[2] == overrun
    crashed = {(r.probe["op"], r.probe["subject"]) for r in results if r.verdict == "crashes"}
    assert {("Convolution", "strides"), ("Convolution", "groups"), ("ConvTranspose", "groups")} <= crashed
    for name in ("differing_zero_points", "frozen_statistics", "negative_axis", "window_in_padding"):
        assert f"wrong:{name}" in findings
    lax = {(r.probe["op"], r.probe["subject"]) for r in results if r.verdict == "laxer"}
    assert {("MaxPool", "rounding_type"), ("Quantize", "qtype"), ("DynamicDequantize", "qtype")} <= lax
    if is_native(og.bf16):
        assert {"Divide", "Multiply"} <= ops(findings, "laxer:data_type")
        assert "End" not in ops(findings, "laxer:data_type"), "it has no kernel, so nothing of it is executed"
    assert "BatchNormTrainingBackward" in ops(findings, "stricter:gradient_without_gamma"), "it throws at compile"
    assert "LayerNormBackward" in {op for op, subject in lax if subject == "number of inputs"}
    alone = findings["version:no_kernel_of_its_own"]
    kernels = {"BiasAddBackward", "End", "Pow", "Reciprocal", "Select", "StaticReshape", "StaticTranspose"}
    assert set(alone.ops) == kernels


def test_meets_known_faults_of_single_ops(results):
    met = results.coverage.faults
    missed = {name: reason for name, reason in met.items() if name in OPS and reason != coverage.MET}
    reasons = {coverage.LARGE, coverage.HIDDEN, coverage.OTHER_EDITION}
    assert set(missed.values()) <= reasons
    hidden = [name for name, reason in missed.items() if reason == coverage.HIDDEN]
    known = {fault.name: fault for fault in EVERY_FAULT}
    for name in hidden:
        texts = [text for one in known[name].examples for text in (*one.seen.values(), *one.on.values())]
        assert any("|" in text or "right" in text or "throws" in text for text in texts), name


def test_machine_verdicts_follow_the_instructions_of_the_cpu(results, findings):
    machine = {r.causes for r in results if r.verdict == "machine"}
    assert machine <= {(f"machine:{name}",) for name in ("f16", "bf16")} | {("machine:bf16", "machine:f16")}
    if is_native(og.f16):
        assert not [name for name in findings if name.startswith("machine:f16")]
    blamed = [r for r in results if r.verdict in ("stricter", "wrong")]
    own = [r for r in blamed if "f16" in (*r.asked.use.dtypes, *r.asked.use.outputs)]
    assert is_native(og.f16) or all(r.causes[0] in KNOWN for r in own)


@pytest.mark.skipif(LIBRARY[:2] > (3, 3), reason="the text is that of the oneAPI specification 1.4")
def test_probes_the_printed_text(monkeypatch):
    command, started = worker_process.command, []
    monkeypatch.setattr(worker_process, "command", lambda module: started.append(module) or command(module))
    run = conformance.run(edition("oneapi-1.4"), ["SoftPlus", "AvgPoolBackward", "StaticReshape"], workers=1)
    assert len(started) == 1, "the process of the first uses goes on with the changed ones"
    found = {finding.id: finding for finding in run.findings}
    beta = found["text:correction:soft_plus_beta"]
    assert beta.ops == ("SoftPlus",)
    assert "s64" in beta.printed
    assert "f32" in beta.correction
    assert beta.links == {
        "SoftPlus": "https://github.com/uxlfoundation/oneAPI-spec/blob/oneAPI-v1.4-rev-1/"
        "source/elements/oneDNN/source/graph/ops/SoftPlus.rst"
    }
    assert "('s64', 1)" in beta.code
    assert "add_op" in beta.came_back
    assert {
        "text:correction:src_shape_attribute",
        "text:correction:src_shape_type",
        "text:correction:reshape_shape",
    } <= {*found}


def test_every_correction_of_the_pages_is_a_finding(results, findings):
    chosen = edition(f"onednn-3.{LIBRARY[1]}")
    printed = {one.name for schema in chosen.schemas.values() for one in chosen.corrections(schema)}
    assert {f"text:correction:{name}" for name in printed} <= findings.keys()


def test_findings_say_all_that_a_report_needs(findings):
    assert findings
    for finding in findings.values():
        facts = finding.to_dict()
        assert facts["verdict"] in conformance.VERDICTS
        assert facts["section"] in SECTIONS
        assert set(facts["links"]) == set(facts["ops"])
        assert all(link.startswith("https://github.com/uxlfoundation/") for link in facts["links"].values())
        assert all(facts[key] for key in ("printed", "done", "came_back", "correction", "edition"))
        assert finding.code or not finding.rows
        json.dumps(facts)


def test_pages_of_siblings_are_compared(findings):
    axis = findings["sibling:normalization:axis"]
    assert set(axis.ops) == {"SoftMax", "SoftMaxBackward", "LogSoftmax", "LogSoftmaxBackward"}
    assert "by default 1" in axis.printed
    assert "by default -1" in axis.printed


def test_code_of_a_finding_reproduces_the_outcome(findings):
    chosen = [next(f for f in findings.values() if f.verdict == verdict) for verdict in ("stricter", "version", "text")]
    for finding in chosen:
        assert len(finding.code.splitlines()) <= 12
        done = forked_python(finding.code)
        outcome = done.stdout.split("outcome='")[1].split("'")[0]
        assert outcome in {row.outcome.outcome for row in finding.rows}, done.stderr


def test_code_of_a_correction_is_right_as_meant(findings):
    finding = findings["text:correction:hyphens"]  # of ops whose scales must be positive
    done = forked_python(finding.code)
    assert "outcome='right'" in done.stdout, done.stderr


def test_findings_quote_tables_and_pages_alone(findings):
    own = {schema.doc for schema in edition(f"onednn-3.{LIBRARY[1]}").schemas.values()}
    assert not own & {finding.printed.split(": ", 1)[-1] for finding in findings.values()}


@ON_3_2
def test_pages_forbid_scales_of_other_ranks(results, findings):
    assert "stricter:dynamic_parameter_rank" not in findings, "the pages of 3.2 say: a f32 1D tensor"
    assert results.coverage.faults["dynamic_parameter_rank"] == coverage.OTHER_EDITION


@ON_3_2
def test_corrections_say_what_should_change(findings):
    crash, limit = findings["crashes:prelu_rank"], "a src without a channel axis crashes at compile"
    should = "should compute this use or refuse it with a status"
    assert crash.correction == f"oneDNN 3.2.0 {should}; or the page should print the limit: {limit}."


def test_single_probe():
    outcome = conformance.probe("relu", inputs=[("f32", [4])], outputs=["f32"])
    assert outcome == Outcome("right", "execute", "")
    assert conformance.probe("relu", {"alpha": ("f32", 1.0)}, [("f32", [4])], ["f32"]).outcome == "refused"
    with pytest.raises(og.ArgumentError, match="'rleu' is not an op"):
        conformance.probe("rleu")


def test_replaces_workers_that_die():
    worker = runner.probing_worker()
    use = ProbedUse("ReLU", (GIVEN,), ((0, "f32"),), {}, ("f32",), [["f32", [4]]])
    probe = {"name": "relu", "use": use.to_dict(), "call": {}, "allowed": True}
    assert worker.run(probe, limit=20).outcome == "right"
    worker._process.kill()
    worker._process.wait()
    assert worker.run(probe, limit=20).outcome == "right"
    worker.close()


def test_replaces_workers_that_hang(tmp_path, monkeypatch):
    (tmp_path / "tasks.py").write_text(
        "import json, sys, time\n"
        "def main():\n"
        "    for line in sys.stdin:\n"
        "        print(json.dumps({'stage': 'run'}), flush=True)\n"
        "        time.sleep(100 * json.loads(line)['is_slow'])\n"
        "        print(json.dumps({'stage': 'run', 'done': True, 'outcome': 'right', 'detail': ''}), flush=True)\n"
    )
    monkeypatch.setattr(worker_process, "command", lambda module: [
        sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {module}; {module}.main()"
    ])  # fmt: skip
    worker = Worker("tasks")
    ends = [worker.run({"is_slow": is_slow}, limit).outcome for is_slow, limit in ((True, 0.2), (False, 20))]
    worker.close()
    assert ends == ["hang", "right"]


def test_retries_a_crash_in_a_new_worker(tmp_path, monkeypatch):
    (tmp_path / "tasks.py").write_text(
        "import json, os, sys\n"
        "def main():\n"
        "    for count, line in enumerate(sys.stdin):\n"
        "        if count and json.loads(line)['fragile']: os.abort()\n"
        "        answer = {'stage': 'run', 'done': True, 'outcome': 'right', 'detail': str(count)}\n"
        "        print(json.dumps(answer), flush=True)\n"
    )
    monkeypatch.setattr(worker_process, "command", lambda module: [
        sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {module}; {module}.main()"
    ])  # fmt: skip
    worker = Worker("tasks")
    answers = [worker.run({"fragile": fragile}, 20).detail for fragile in (True, False, True)]
    worker.close()
    assert answers == ["0", "1", "0"], "the third is the first of its process"


def test_worker_ignores_modules_in_its_working_directory(monkeypatch, tmp_path):
    for name in ("json", "numpy", "onegraph"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert conformance.probe("relu", inputs=[("f32", [4])], outputs=["f32"]) == Outcome("right", "execute", "")


def test_worker_start_failure_gives_one_error(monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(og.UnsupportedError, match=r"no worker process can be started: .*unavailable"):
        runner.run_all([{}] * 3, workers=2)


def test_page_holds_results_and_needs_no_network(results):
    html = page(results, {"edition": "onednn-3.2", **og.version_info()})
    parts = [part.split("</script>")[0] for part in html.split('type="application/json">')[1:]]
    assert [len(json.loads(part)) for part in parts] == [len(results), len(results.findings)]
    assert "http" not in html.split("<script", 1)[0]
    assert "src=" not in html.split("<script", 1)[0]


def test_markdown_has_an_issue_for_each_finding(results):
    text = markdown(results, {"edition": "onednn-3.2", **og.version_info()})
    assert text.count("\n- Correction: ") == len(results.findings)
    assert text.count("```py") == sum(bool(finding.code) for finding in results.findings)


def test_command_prints_the_findings(tmp_path):
    target, issues = tmp_path / "report.html", tmp_path / "report.md"
    command = ["conformance", "ReLU", "MatMul", "--workers", "1"]
    done = onegraph(*command, "--json", "--html", target, "--markdown", issues)
    report = json.loads(done.stdout)
    assert done.returncode == bool(report["findings"]), done.stderr
    assert {result["op"] for result in report["results"]} == {"ReLU", "MatMul"}
    assert report["coverage"]["untried"] == []
    assert target.read_text().startswith("<!doctype html>")
    assert issues.read_text().startswith("# oneDNN ")
    wrong = onegraph("conformance", "Relu")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)


def test_markdown_alone_is_printed():
    command = ["conformance", "SoftPlus", "--edition", "oneapi-1.4", "--workers", "1", "--markdown"]
    done = onegraph(*command)
    assert done.stdout.startswith("# oneDNN ")
    assert "## text:correction:soft_plus_beta" in done.stdout
    both = onegraph(*command, "--json")
    assert (both.returncode, "not both" in both.stderr) == (2, True)


# Findings that are kept ----------------------------------------------------------------------------------------------


def test_kept_findings_are_of_every_version():
    assert {(3, minor) for minor in (*range(2, 10), 11, 13)} == {version[:2] for version in known.versions()}
    for version in known.versions():
        ids, of = known.known_findings(version)
        assert of == version
        assert len(ids) > 100
        assert set(ids.values()) <= set(VERDICTS)
    assert known.known_findings((3, 99, 0))[1] == (3, 13, 2)
    assert known.known_findings((3, 0, 0)) == known.known_findings(known.versions()[0])
    assert "wrong:window_in_padding" in known.known_findings((3, 2, 0))[0]


def test_table_of_findings_lists_versions_in_order():
    text = known.text_of({"3.13.2": ["wrong:b"], "3.2.0": ["wrong:a", "wrong:b"]}, "avx2")
    assert json.loads(text) == {"cpu": "avx2", "findings": {"wrong:a": "3.2.0", "wrong:b": "3.2.0 3.13.2"}}


@pytest.mark.library
def test_known_findings_do_not_count():
    done = onegraph("conformance", "MaxPool", "--workers", "1", "--baseline", "known")
    assert (done.returncode, done.stderr) == (0, "0 new findings\n")
    assert onegraph("conformance", "--cases", "3", "--baseline", "known").returncode == 2
