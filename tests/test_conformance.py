"""The library compared with an edition; a crash of a probe is a finding."""

import errno
import json
import subprocess
import sys

import pytest

import onegraph as og
from onegraph._util import worker_process
from onegraph._util.worker_process import Outcome, Worker
from onegraph.opset.editions.registry import edition
from onegraph.tools import conformance
from onegraph.tools.conformance import runner
from onegraph.tools.conformance.page import page

LIBRARY = tuple(map(int, og.version_info()["version"].split(".")))
ON_3_2 = pytest.mark.skipif(LIBRARY[:2] != (3, 2), reason="what 3.2 does is pinned; another library is loaded")


@pytest.fixture(scope="module")
def results():
    """Every op of the library's own edition; a few seconds."""
    return conformance.run(edition(f"onednn-3.{LIBRARY[1]}"))


def verdicts(results, **wanted):
    return {
        (result.probe["op"], result.probe["value"] if not isinstance(result.probe["value"], list) else None)
        for result in results
        if all((result.verdict if key == "verdict" else result.probe[key]) == value for key, value in wanted.items())
    }


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


@ON_3_2
def test_finds_known_refusals_of_3_2(results):
    spellings = verdicts(results, subject="auto_pad", verdict="refuses", group="attribute value")
    assert len(spellings) == 40, "ten ops, four values each, none in the only spelling that it takes"
    formats = verdicts(results, subject="weights_format", verdict="refuses")
    assert formats == {
        (kind, value)
        for kind in ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
        for value in ("OIX", "XIO")
    }
    padding = verdicts(results, subject="output_padding", verdict="refuses")
    assert {kind for kind, _ in padding} == {"ConvTransposeBackwardData", "ConvTransposeBackwardWeights"}
    two_inputs = verdicts(results, subject="number of inputs", verdict="refuses", value="2")
    assert {kind for kind, _ in two_inputs} >= {
        f"Reduce{name}" for name in ["L1", "L2", "Max", "Mean", "Min", "Prod", "Sum"]
    }
    assert not verdicts(results, group="attribute required", verdict="lax"), "67 of 67 omissions are rejected"
    assert len([r for r in results if r.probe["group"] == "attribute required"]) == 67


@ON_3_2
def test_finds_known_faults_of_3_2(results):
    begins = [r for r in results if r.probe["subject"] == "begin_norm_axis" and r.verdict == "wrong"]
    overrun = "output 1 is written beyond its end"
    assert {r.probe["value"]: r.outcome.detail for r in begins} == {2: overrun, -2: overrun}
    crashed = {(r.probe["op"], r.probe["subject"]) for r in results if r.verdict == "crashes"}
    assert {("Convolution", "strides"), ("Convolution", "groups"), ("ConvTranspose", "groups")} <= crashed
    assert "LayerNorm" not in dict(crashed), "what was written beyond an end has broken no other probe"
    lax = {(r.probe["op"], r.probe["subject"]) for r in results if r.verdict == "lax"}
    assert {("MaxPool", "rounding_type"), ("Quantize", "qtype"), ("DynamicDequantize", "qtype")} <= lax
    unsupported = {r.probe["op"] for r in results if r.verdict == "unsupported"}
    assert {"Pow", "Select", "StaticReshape", "StaticTranspose", "BiasAddBackward", "Reciprocal"} <= unsupported


@ON_3_2
def test_code_of_a_finding_reproduces_the_outcome(results):
    chosen = [next(r for r in results if r.verdict == verdict) for verdict in ("refuses", "unsupported", "crashes")]
    for result in chosen:
        code = result.code()
        assert len(code.splitlines()) <= 12
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert f"outcome='{result.outcome.outcome}'" in done.stdout, done.stderr


def test_single_probe():
    outcome = conformance.probe("relu", inputs=[("f32", [4])], outputs=["f32"])
    assert outcome == Outcome("right", "execute", "")
    assert conformance.probe("relu", {"alpha": ("f32", 1.0)}, [("f32", [4])], ["f32"]).outcome == "refused"
    with pytest.raises(og.ArgumentError, match="'rleu' is not an op"):
        conformance.probe("rleu")


def test_replaces_workers_that_hang_or_die(monkeypatch):
    worker = runner.probing_worker()
    probe = {
        "name": "relu", "base": "ReLU", "allowed": True, "call": {}, "attrs": {}, "outputs": ["f32"],
        "tensors": [["f32", [4]]], "first": "", "count": None,
    }  # fmt: skip
    assert worker.run(probe, limit=1e-9).outcome == "hang"
    assert worker.run(probe, limit=20).outcome == "right"
    worker._process.kill()
    worker._process.wait()
    assert worker.run(probe, limit=20).outcome == "right"
    worker.close()


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
    data = html.split('type="application/json">')[1].split("</script>")[0]
    assert len(json.loads(data)) == len(results)
    assert "http" not in html.split("<script", 1)[0]
    assert "src=" not in html.split("<script", 1)[0]


def test_command_prints_the_findings(tmp_path):
    target = tmp_path / "report.html"
    command = [sys.executable, "-m", "onegraph", "conformance", "ReLU", "MatMul", "--json", "--html", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    assert done.returncode == any(result["verdict"] != "agrees" for result in report["results"]), done.stderr
    assert {result["op"] for result in report["results"]} == {"ReLU", "MatMul"}
    assert target.read_text().startswith("<!doctype html>")
    wrong = subprocess.run([*command[:4], "Relu"], capture_output=True, text=True, timeout=60)
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)
