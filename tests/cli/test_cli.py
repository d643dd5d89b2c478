"""The command line."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from conftest import library
from helpers.command_line import onegraph

import onegraph as og
from onegraph.cli import COMMANDS, cli


@pytest.mark.library
def test_info_as_json():
    done = onegraph("info", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert facts == {"onegraph": og.__version__, **og.version_info()}
    assert facts["version"].startswith("3.")
    assert "f32" in facts["cpu_dtypes"]
    assert facts["path"].endswith(".so.3") or "libdnnl.so" in facts["path"]


@pytest.mark.library
def test_info_for_people():
    done = onegraph("info")
    for text in ("version", "path", "threading runtime", "cpu isa", "dtypes", "constant tensor cache"):
        assert text in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense",), "onegraph: No such command 'nonsense'; see onegraph --help\n"),
        (("info", "--nonsense"), "onegraph: No such option '--nonsense'; see onegraph info --help\n"),
        (("check",), "onegraph: Missing argument 'FILES...'; see onegraph check --help\n"),
        (("ops", "--json", "--markdown"), "onegraph: --json or --markdown, not both; see onegraph ops --help\n"),
        (("ops", "ReLU", "--json", "yes"), "onegraph: Got unexpected extra argument (yes); --json takes no value; see"),
        (("info", "yes"), "onegraph: Got unexpected extra argument (yes); see onegraph info --help\n"),
        (("conformance", "--workers", "0"), "onegraph: Invalid value for '--workers': 0 is not in the range x>=1; see"),
    ],
)
def test_bad_arguments_print_one_line(arguments, message):
    done = onegraph(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1


def value_options():
    """The words of each command, and each of its options that takes one value."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        several = getattr(command, "commands", {"": command})
        for word, one in several.items():
            for option in one.params:
                if isinstance(option, click.Option) and not (option.multiple or option.is_flag):
                    yield pytest.param([name, word] if word else [name], option, id=f"{name} {word} {option.name}")


@pytest.mark.parametrize(("command", "option"), [*value_options()])
def test_an_option_of_one_value_is_given_once(command, option):
    done = CliRunner().invoke(cli, [*command, option.opts[0], "a", f"{option.opts[-1]}=b"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "given 2 times; expected --" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--edition", "legacy-1", "--edition", "onednn-3.2", "--library", "none", "-"),
        ("check", "--library", "3.2", "--library", "3.6", "-"),
        ("random", "--ops", "1", "--json", "--json"),
    ],
)
def test_options_of_several_values_and_flags_may_be_repeated(arguments):
    record = json.dumps({"op": "ReLU", "inputs": [["f32", [2]]]})
    assert CliRunner().invoke(cli, arguments, input=record).exit_code == 0


# Interrupts the import of a module by a program of the name that is given, which then ends or runs the command.
INTERRUPTED_IMPORT = """
import os, signal, sys
sys.argv[0] = NAME
class Interrupting:
    def find_spec(name, *_):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting)
import onegraph
if MODULE == "other":
    try:
        import other
    except KeyboardInterrupt:
        sys.exit("as before")
from onegraph.cli import main
main()
"""


# A job in the background of a shell ignores interrupts, and so would its children.
AS_IN_A_SHELL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def interrupted_import(name, module, before=AS_IN_A_SHELL):
    code = before + INTERRUPTED_IMPORT.replace("MODULE", repr(module)).replace("NAME", repr(name))
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["/usr/bin/onegraph", "-m"])
@pytest.mark.parametrize("module", ["onegraph.errors", "onegraph.graph", "click"])
def test_interrupt_of_the_first_imports_prints_one_line(name, module):
    assert interrupted_import(name, module) == (130, "\nonegraph: interrupted\n")


def test_interrupts_of_other_programs_are_theirs():
    assert interrupted_import("/usr/bin/onegraph", "other") == (1, "as before\n")
    status, text = interrupted_import("program.py", "onegraph.graph")
    assert (status, "KeyboardInterrupt" in text) == (-2, True)


def test_ignored_interrupt_stays_ignored():
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    assert interrupted_import("onegraph", "onegraph.errors", ignored) == (0, "")


def test_interrupt_of_a_command_prints_one_line(monkeypatch):
    def stop(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr("onegraph.cli.Commands.get_command", stop)
    done = CliRunner().invoke(cli, ["ops"])
    assert (done.exit_code, done.output) == (130, "\nonegraph: interrupted\n")


def test_no_arguments_print_the_commands():
    done = onegraph()
    assert done.returncode == 2
    assert "Usage: onegraph" in done.stderr


def test_help_loads_no_command():
    code = (
        "import sys, onegraph.cli\n"
        "try: onegraph.cli.main(['--help'])\n"
        "except SystemExit as left: assert left.code == 0\n"
        "loaded = [name for name in sys.modules if name.startswith(('rich', 'onegraph.cli.', 'onegraph.native'))]\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    assert "Exit status: 0 for success; 1 if the answer is no" in done.stdout


def test_package_does_not_import_the_command_line():
    code = "import sys, onegraph; assert not {'click', 'rich', 'onegraph.cli'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.library
def test_info_works_without_rich():
    code = "import sys; sys.modules['rich'] = None\nfrom onegraph.cli import main\nmain(['info'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_json_and_a_module(name):
    pytest.importorskip(f"onegraph.cli.{name}")
    done = CliRunner().invoke(cli, [name, "--help"])
    assert done.exit_code == 0
    assert f"Usage: onegraph {name}" in done.output
    # these two commands print a file
    assert "--json" in done.output


def test_help_says_the_ranges_of_integers_that_have_some():
    told = CliRunner().invoke(cli, ["random", "--help"]).stdout
    assert "Seed of all random choices.  [default: 0]" in told
    assert "Number of ops.  [default: 10; 1<=x<=10000]" in told


@pytest.mark.parametrize("width", [40, 80, 200])
def test_help_fits_the_terminal(width):
    done = CliRunner().invoke(cli, ["verify", "--help"], terminal_width=width)
    assert max(map(len, done.output.splitlines())) <= max(width, 50)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    done = onegraph("completion", shell)
    assert done.returncode == 0
    assert "_ONEGRAPH_COMPLETE" in done.stdout
    assert json.loads(onegraph("completion", shell, "--json").stdout)["shell"] == shell


def test_completion_completes_commands_and_options():
    words = {"COMP_WORDS": "onegraph ver", "COMP_CWORD": "1", "_ONEGRAPH_COMPLETE": "bash_complete"}
    assert onegraph(env={**os.environ, **words}).stdout == "plain,verify\n"
    words = {"COMP_WORDS": "onegraph bench --thr", "COMP_CWORD": "2", "_ONEGRAPH_COMPLETE": "bash_complete"}
    assert onegraph(env={**os.environ, **words}).stdout == "plain,--threads\n"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("ops layern", ["LayerNorm", "LayerNormBackward"]),
        ("ops --edition legacy-1 ConvTransposeBackprop", ["ConvTransposeBackpropData", "ConvTransposeBackpropFilters"]),
        ("ops --edition host Ext", ["ExtendCache"]),
        ("errata Reor", ["Reorder"]),
        ("conformance ReLU Clamp Reor", ["Reorder"]),
    ],
)
def test_completion_completes_ops(words, names):
    given = words.split()
    found = ShellComplete(cli, {}, "onegraph", "_ONEGRAPH_COMPLETE").get_completions(given[:-1], given[-1])
    assert [item.value for item in found] == names


@pytest.mark.parametrize("arguments", [["ops"], ["ops", "--json"], ["ops", "--help"], ["--help"], library(["info"])])
def test_closed_pipe_is_not_an_error(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        done = subprocess.run([sys.executable, "-m", "onegraph", *arguments], stdout=closed, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("ops", "nonsense"), ("show", "nonsense.json")])
def test_unwritable_errors_keep_the_exit_status(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "onegraph", *arguments], stdout=subprocess.PIPE, stderr=full)
    assert (done.returncode, done.stdout) == (2, b"")


def test_bug_prints_one_line_and_optional_traceback(monkeypatch):
    def broken(name):
        raise RuntimeError("some\nbug")

    monkeypatch.setattr("onegraph.cli.ops.edition", broken)
    done = CliRunner().invoke(cli, ["ops"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("onegraph: RuntimeError: some bug; this is a bug of onegraph")
    assert len(done.stderr.splitlines()) == 1
    monkeypatch.setenv("ONEGRAPH_TRACEBACK", "1")
    assert isinstance(CliRunner().invoke(cli, ["ops"]).exception, RuntimeError)


def test_errors_take_one_line_for_any_name(tmp_path):
    done = onegraph("run", str(tmp_path / "a\nb.json"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.skipif(find_spec("onegraph._ffi") is None, reason="a build without the extension looks for no library")
def test_missing_library_prints_one_line(tmp_path):
    done = onegraph("info", env={"ONEGRAPH_LIBRARY": str(tmp_path / "none.so"), "PATH": ""})
    assert done.returncode == 2
    assert done.stderr.startswith("onegraph: ONEGRAPH_LIBRARY is")
    assert len(done.stderr.splitlines()) == 1


def test_ops_lists_every_op_of_an_edition():
    done = onegraph("ops", "--edition", "legacy-1")
    assert done.returncode == 0
    assert "ConvTransposeBackpropFilters" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.startswith("  ")]) == 99


def test_ops_shows_one_op_in_three_forms():
    shown = onegraph("ops", "Convolution", "--edition", "legacy-1").stdout
    for text in ("filter_format", "OIX, XIO", "output: T", "spatial_fits", "Convolution-1"):
        assert text in shown
    record = json.loads(onegraph("ops", "conv_transpose", "--json").stdout)
    assert record["kind"] == "ConvTranspose"
    assert {"name": "groups", "default": "1"}.items() <= record["attributes"][6].items()
    assert "| strides | s64[] | required | positive |" in onegraph("ops", "MaxPool", "--markdown").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ops", "top_k"), "onegraph: edition onednn-3.13 has no op 'top_k'; edition host has it"),
        (("ops", "Convolutoin"), "onegraph: edition onednn-3.13 has no op 'Convolutoin'; did you mean 'Convolution'?"),
        (
            ("ops", "RMSNorm", "--edition", "onednn-3.2"),
            "onegraph: edition onednn-3.2 has no op 'RMSNorm'; onednn-3.11 and later have it",
        ),
        (
            ("random", "--kinds", "RMSNorm", "--edition", "onednn-3.2"),
            "onegraph: --kinds: 'RMSNorm'; expected ops of edition onednn-3.2; onednn-3.11 and later have it",
        ),
        (
            ("ops", "--edition", "onednn-3.99"),
            "onegraph: Invalid value for '--edition': unknown edition 'onednn-3.99';",
        ),
        (("check", "/nowhere.json"), "onegraph: /nowhere.json: No such file or directory; expected a file"),
        (("random", "--ops", "99999999"), "onegraph: Invalid value for '--ops': 99999999 is not in the range 1<=x<=1"),
        (("check", "/"), "onegraph: /: a folder; expected files, such as the pattern '/**/*.json'"),
    ],
)
def test_bad_input_prints_one_line(arguments, message):
    done = onegraph(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1


GOOD = {"op": "ReLU", "inputs": [["f32", [2, None]]]}
BAD = {"op": "Elu", "attrs": {"alpha": -1, "beta": 2}, "inputs": [{"dtype": "f32", "shape": [3]}]}


@pytest.mark.parametrize(
    ("text", "status", "rules"),
    [
        (json.dumps(GOOD), 0, []),
        (json.dumps([GOOD, BAD]), 1, ["attribute_range", "unknown_attribute"]),
        ('op = "ReLU"\ninputs = [["f32", ["?", 3]]]', 0, []),
        ('edition = "legacy-1"\nop = "Relu"', 1, ["unknown_op"]),
        ('[[ops]]\nop = "ReLU"\ninputs = [["f64", [3]]]', 1, ["tensor_kind"]),
    ],
)
def test_check_lists_violations(text, status, rules):
    done = onegraph("check", "-", "--json", input=text)
    assert done.returncode == status, done.stderr
    assert [violation["rule"] for violation in json.loads(done.stdout)] == rules
    for_people = onegraph("check", "-", input=text).stdout
    assert all(f"error: [{rule}]" in for_people for rule in rules)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"op": 3}',
        '{"op": "ReLU", "x": 1}',
        '{"graph": 3}',
        '{"graph": [{}]}',
        "\x00",
        "[" * 100000,
        "a = ",
        '{"ops": {"op": "ReLU"}}',
    ],
)
def test_check_of_nonsense_prints_one_line(text):
    done = onegraph("check", "-", input=text)
    assert done.returncode == 2
    assert done.stderr.startswith("onegraph: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("op", "line"),
    [
        ("Convolution", "  gradient src, weights, bias"),
        ("Round", "  gradient zero: it is constant between its steps"),
        ("Wildcard", "  gradient none: the specification does not say what it computes"),
        ("GroupNorm", "  gradient that of a composition of simpler ops"),
    ],
)
def test_ops_names_the_gradient_of_an_op(op, line):
    assert onegraph("ops", op).stdout.splitlines()[-1] == line
