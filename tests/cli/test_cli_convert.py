"""The commands that write graph files: convert and random."""

import json

from click.testing import CliRunner
from helpers.command_line import onegraph

import onegraph as og
from onegraph.cli import cli


def test_convert_and_random_on_the_command_line(tmp_path):
    assert onegraph("random", "--seed", 0, "--ops", 5, "-o", "g.json", cwd=tmp_path).returncode == 0
    graph = og.Graph.load(tmp_path / "g.json")
    assert len(graph.ops) == 5
    printed = onegraph("random", "--seed", 0, "--ops", 5, cwd=tmp_path).stdout
    assert [op.kind for op in og.Graph.from_json(printed).ops] == [op.kind for op in graph.ops]
    assert onegraph("convert", "g.json", "-o", "h.py", cwd=tmp_path).returncode == 0
    (tmp_path / "back").mkdir()
    assert onegraph("convert", "h.py", "-o", "back/g.json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "back" / "g.json").read_bytes() == (tmp_path / "g.json").read_bytes()
    chosen = ("--edition", "legacy-1", "--kinds", "ConvTranspose,ReLU", "--dtypes", "f32")
    assert onegraph("random", *chosen, "-o", "old.json", cwd=tmp_path).returncode == 0
    assert onegraph("convert", "old.json", "--edition", "onednn-3.13", "-o", "new.json", cwd=tmp_path).returncode == 0
    assert og.Graph.load(tmp_path / "new.json").edition == "onednn-3.13"
    for wrong, message in (
        (("random", "--kinds", "Nothing"), "expected ops of edition"),
        (("convert", "absent.json"), "absent.json"),
        (("convert", "g.json", "-o", "g.json"), "is the input"),
        (("convert", "g.json", "-o", "x.py", "--for-version", "3.2"), "--for-version"),
        (("convert", "g.json"), "give -o OUT"),
    ):
        done = onegraph(*wrong, cwd=tmp_path)
        assert done.returncode == 2, wrong
        assert message in done.stderr


def test_convert_rewrites_on_the_way(tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 3))))
    g.save(tmp_path / "g.json")
    for source in ("g.json", "g.py"):
        if source.endswith("py"):
            assert onegraph("convert", "g.json", "-o", "g.py", cwd=tmp_path).returncode == 0
        done = onegraph("convert", source, "--in-shapes", "0:4x5", "--dt", "bf16", "-o", "new.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = og.Graph.load(tmp_path / "new.json")
        assert (found.outputs["y"].shape, found.outputs["y"].dtype) == ((4, 5), og.bf16)
    assert "g.relu(x)" in onegraph("convert", "g.json", cwd=tmp_path).stdout
    assert "is RUN" in onegraph("convert", "--help", cwd=tmp_path).stdout


def test_convert_and_random_report_as_json(tmp_path):
    done = CliRunner().invoke(cli, ["random", "--seed", "7", "--ops", "3", "-o", str(tmp_path / "g.json"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["ops"] == 3
    done = CliRunner().invoke(cli, ["convert", str(tmp_path / "g.json"), "-o", str(tmp_path / "g.py"), "--json"])
    assert json.loads(done.output)["file"].endswith("g.py")
