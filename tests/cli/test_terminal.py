"""What a terminal gets: tables in its width, texts as they are, and a bar of progress on standard error."""

import io
import sys

import pytest
import rich.console
import rich.progress

from onegraph.cli import cli, main, terminal


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def test_parts_stand_apart_at_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal has no width of its own
    made = rich.console.Console(file=sys.stdout, force_terminal=True, color_system=None, width=20, highlight=False)
    monkeypatch.setattr(terminal, "_console", lambda: made)
    columns = terminal.table(("op", "number>", "name="), [("a long name", 1, "abcdef"), ("b", 22, "c")])
    terminal.print_rich(columns, "a text\x1b", columns)
    lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
    place = lines.index("a text\\x1b")
    assert lines[place - 1] == lines[place + 1] == ""
    assert lines[: place - 1] == lines[place + 2 : -1]
    assert max(map(len, lines)) <= 20
    assert place > 4  # the name takes several lines
    assert lines[place - 2].split() == ["b", "22", "c"]


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_texts_are_printed_as_they_are(is_terminal, stderr, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    out, err = (Screen(), Screen()) if is_terminal else (io.StringIO(), io.StringIO())
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    made = terminal._console(stderr) if stderr else terminal._console()
    text = "[b]bold[/b] :smile: 'a' 12 True"
    made.print(text)
    assert (out.getvalue(), err.getvalue()) == (("", f"{text}\n") if stderr else (f"{text}\n", ""))
    assert (made.width == 10_000) is not is_terminal


def test_titles_say_how_a_column_is_laid_out():
    columns = terminal.table(("op", "number>", "name=", "x>="), []).columns
    assert [(one.header, one.justify, one.no_wrap, one.overflow) for one in columns] == [
        ("op", "left", False, "fold"),
        ("number", "right", True, "fold"),
        ("name", "left", True, "fold"),
        ("x", "left", True, "fold"),
    ]
    made = terminal.table((), [])
    assert (made.box, made.pad_edge, made.header_style) == (None, False, "bold")


class Bar:
    """Stands for the bar of rich."""

    def __init__(self, *columns, **options):
        self.calls = [("bar", [type(column).__name__ for column in columns], sorted(options), options["transient"])]
        self.console = options["console"]
        Bar.last = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.calls.append("ended")

    def add_task(self, stage, **options):
        self.calls.append(("task", stage, options))
        return "task"

    def update(self, task, **options):
        self.calls.append((task, options))


def test_progress_is_a_bar_on_standard_error(monkeypatch):
    monkeypatch.setattr(rich.progress, "Progress", Bar)
    monkeypatch.setattr(sys, "stderr", Screen())
    with terminal.progress("run") as tell:
        tell(1, 4)
        tell(2, 0, "bench")
    columns = ["TextColumn", "BarColumn", "MofNCompleteColumn", "TimeElapsedColumn"]
    assert Bar.last.console.stderr
    assert Bar.last.calls == [
        ("bar", columns, ["console", "transient"], True),
        ("task", "run", {"total": None}),
        ("task", {"completed": 1, "total": 4, "description": None}),
        ("task", {"completed": 2, "total": None, "description": "bench"}),
        "ended",
    ]


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_progress_elsewhere_is_silent(stream, monkeypatch):
    monkeypatch.setattr(rich.progress, "Progress", None)
    monkeypatch.setattr(sys, "stderr", stream)
    with terminal.progress("run") as tell:
        tell(1, 4)
        tell(2, 0, "bench")
    assert stream is None or stream.getvalue() == ""


@pytest.mark.parametrize("name", [None, "other"])
def test_messages_have_the_name_of_the_program(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/bin/script", "--nothing"])
    for run in (main, lambda args: cli.main(args, name)):
        with pytest.raises(SystemExit) as ended:
            run(["--nothing"])
        assert ended.value.code == 2
    names = [line.rpartition("; see ")[2] for line in capsys.readouterr().err.splitlines()]
    assert names == ["onegraph --help", f"{name or 'onegraph'} --help"]
