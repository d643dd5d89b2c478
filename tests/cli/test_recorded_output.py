"""What commands print, and how they end: the record output.json, by command.

No command here needs the library. Run as a script, this file writes the record anew; with names of commands, it prints
what they print.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from click.testing import CliRunner
from helpers.recorded import digest, keep, kept

import onegraph as og
from onegraph.cli import COMMANDS, cli, json_pointers, run, terminal
from onegraph.testing.random_graph import random_graph

KEPT = Path(__file__).parents[1] / "recorded" / "output.json"
ABS = {"op": "Abs", "inputs": [["f32", [2, 3]]]}
WRONG = {"op": "SoftMax", "attrs": {"axis": 9, "mode": "x"}, "inputs": [["f32", [2, 3]]]}
OLD = {"op": "Pow", "attrs": {"beta": 2.0}, "inputs": [["bf16", [2, "?"]]], "outputs": [["bf16", None]]}
LINES = """
show a.json --no-compile
show a.json --no-compile --json
show a.json --no-compile --mb 3
show w.json --no-compile
show e.json --no-compile
show nothing.json --no-compile
show r.json --no-compile --op-kind 0:undef
check a.json --library none
check a.json w.json e.json --edition onednn-3.2 --library none
check bad.json --library none
check bad.json --library none --json
check bad.json --library none --format sarif
check a.json --library 3.2 --library 3.6@avx2
check r.json one.json ops.json ops.toml --edition all --library none
check r.json one.json torn.json --edition onednn-3.2 --edition onednn-3.6 --library 3.2 --library none
check ops.json ops.toml one.json --library 3.2 --library none
check ops.json --library none --format github
check ops.json ops.toml --library none --format junit
check ops.toml --library none --format json
check torn.json ops.json --library none
check torn.json --library none
check *.none
check *.json --library none
check a.json --json --format sarif --library none
check ops.json --library none --write-baseline base.json
check ops.json bad.json --library none --baseline base.json
check one.json --library none --baseline base.json
check one.json --library none --baseline a.json
check a.json --library nothing
check a.json --edition onednn-9
check ops.json --mb 2 --library none
check .
convert a.json
convert w.json
convert w.json --without-wildcards
convert old.json
convert old.json --json
convert old.json --for 3.6
convert old.json -o -
convert old.json -o none/out.py
convert r.json --for 3.2
convert r.json --json
convert old.json --json --for 3.10
convert r.json --edition onednn-3.2
convert old.json --edition onednn-3.2
convert a.json -o out.py --json
convert a.json -o out.json --json
convert a.json -o out.cpp
convert a.json -o a.json
convert r.json -o r.npz
convert r.json -o out.py --for 3.2
convert out.py
convert out.py -o again.json --json
convert one.json
convert ops.json
convert bad.json
convert torn.json
convert r.json -o -
run r.json --inputs none.npz
run r.onnx
run out.py
ops
ops ReLU
ops relu --json
ops SoftMax --markdown
ops Pow --edition onednn-3.2
ops Blend
ops Conv --edition onednn-3.2
ops --json --markdown
ops --newer-than 3.4
ops --newer-than 3.11 --json
ops ReLU --newer-than 3.4
ops --newer-than 3.4 --markdown
ops --newer-than 3.4 --edition onednn-3.2
errata
errata ReLU
errata LayerNorm Concat --edition onednn-3.2
errata MatMul --json
errata --edition onednn-3.13 --markdown
errata Blend
errata Conv --edition onednn-3.2
errata --json --markdown
random --seed 3 --ops 3
random --seed 4 --ops 3 --dtypes bf16 --kinds ReLU,Add -o drawn.json --json
random --ops 2 -o -
random --ops 0
random --kinds Blend
random --seed ٣
random --seed 1 --seed 2
conformance --json --markdown -
conformance --cases 3 --html x.html
conformance --patterns --cases 3
conformance --patterns --edition onednn-3.2
conformance --patterns --folder f
conformance --also x.so
conformance --also a.json
conformance --baseline known --patterns
conformance --baseline known --cases 3
bench r.json --seconds nan
bench r.json --seconds ٣
bench r.json --seconds 3601
bench r.json --runs 1 --runs 2
bench r.json --threads x
view e.json --no-compile --json
view r.json --no-compile --profile
view r.json -o - --json
view r.json -o r.txt
shwo a.json
blend
--shwo
-x
show a.json --no-compile extra
show a.json --json extra
"""


def files():
    """Write the files of the commands into the current folder."""
    g = og.Graph()
    x = g.input("x", og.f32, (2, None, 6, 3), strides=None)
    y = g.convolution(
        x, g.constant(np.ones((3, 3, 3, 4), np.float32), name="w"), strides=[1, 1], pads_begin=[0, 0],
        pads_end=[0, 0], dilations=[1, 1], auto_pad="VALID", name="first",
    )  # fmt: skip
    small = g.input("small", og.f32, (1,))
    wide = g.static_reshape(small, shape=[1] * 9, special_zero=False)
    g.output("y", g.relu(y))
    g.output("wide", g.static_reshape(wide, shape=[1] * 8, special_zero=False))
    g.save("a.json")
    g = og.Graph()
    g.output("y", g.abs(g.wildcard(g.input("x", og.f32, (2,)), dtype=og.f32)))
    g.save("w.json")
    og.Graph().save("e.json")
    random_graph(5, n_ops=4).save("r.json")
    g = og.Graph("onednn-3.13")
    g.output("y", g.gelu(g.input("x", og.f32, (2, 2)), mode="gelu_tanh"))
    g.save("old.json")
    form = json.loads(Path("r.json").read_text())
    form["graph"][0]["attrs"]["blend"] = {"type": "s64", "value": 1}
    Path("bad.json").write_text(json.dumps(form, indent=1))
    Path("torn.json").write_text(Path("r.json").read_text()[:-40])
    Path("one.json").write_text(json.dumps(WRONG, indent=1))
    Path("ops.json").write_text(json.dumps([ABS, WRONG, OLD], indent=1))
    Path("ops.toml").write_text('[[ops]]\nop = "Abs"\n\n[[ops]]\nop = "SoftMax"\nattrs = {axis = 1.5}\n')
    Path("r.onnx").write_text("other")


def commands():
    """What each command prints."""
    before = os.getcwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            files()
            for line in LINES.strip().splitlines():
                done = CliRunner().invoke(cli, line.split())
                texts = [
                    one.replace(os.path.realpath(folder), "").replace(folder, "") for one in (done.stdout, done.stderr)
                ]
                yield line.split()[0], [line, done.exit_code, *texts]
            for name in ("out.py", "drawn.json", "base.json"):
                yield "files", [name, Path(name).read_text()]
        finally:
            os.chdir(before)


def parts():
    """What functions of several commands print."""
    rng = Random(1)
    for value in (0.0, 1.0, 999.9, 1000.0, 123456.0, 1e-3, 0.9e-3, 1e-6, 0.5e-6, 9.994e-4):
        yield "durations", [terminal.duration(value)]
    text = '{"a": [1, {"b~/": inf,\n "c": [\n2]}],\n "d": "x"}'
    for _ in range(60):
        path = [rng.choice(["a", "b~/", "c", "d", "e", 0, 1, 2]) for _ in range(rng.randrange(4))]
        places = [json_pointers.line_of(one, path) for one in (text, f"\n{text}", text[:-9])]
        yield "lines", [path, *places, json_pointers.pointer(path)]
    for array in ([], [1.0, 2.0], [-0.0], [float("nan"), 1.0], [float("inf")]):
        facts = run.summary(np.array(array, np.float32))
        yield "summaries", [facts, run._cells(facts)]
    for shape in (None, (), (1, None, 3)):
        yield "dims", [terminal.dims(shape)]
    for name in COMMANDS:
        yield "options", [name, *(described(param) for param in cli.get_command(None, name).params)]


def described(param):
    """What an option or an argument takes, and its default."""
    names = ("default", "flag_value", "required", "nargs", "multiple", "is_flag", "show_default", "metavar")
    facts = [(name, getattr(param, name, None)) for name in names]
    kind = param.type
    limits = [
        getattr(kind, name, None) for name in ("min", "max", "choices", "suffixes", "exists", "dir_okay", "allow_dash")
    ]
    plain = (int, float, str, tuple, list, frozenset)  # versions of click have other words for what is not given
    shown = [
        (name, sorted(one) if isinstance(one, frozenset) else one) for name, one in facts if isinstance(one, plain)
    ]
    return [
        type(param).__name__,
        param.name,
        param.opts,
        shown,
        kind.name,
        [str(one) for one in limits],
    ]


def found():
    """The digests of all that is printed, by command."""
    lines = {}
    for make in (commands, parts):
        for name, made in make():
            lines.setdefault(name, []).extend(made)
    return {name: digest(made) for name, made in lines.items()}


def test_commands_print_what_is_recorded():
    assert found() == kept(KEPT)


if __name__ == "__main__":
    if names := sys.argv[1:]:
        for make in (commands, parts):
            for name, made in make():
                if name in names:
                    with contextlib.suppress(BrokenPipeError):
                        print(*made, sep="\n")
    else:
        keep(KEPT, found())
