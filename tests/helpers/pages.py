"""Pages of the documentation run, and show what they print.

A block of ``text`` shows the output of the ``python`` block before it. In a block of ``console``, a line that starts
with ``$`` is a command, and the lines after it are its output, if the page shows any. A block of ``sh`` has commands
for readers that no test runs. The first line of a page names the packages that it needs beyond the core.

``python -m tests.helpers.pages PAGE ...`` runs pages, and replaces output that has changed.
"""

import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest
from sybil import Example
from sybil.document import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

import onegraph as og

from .fork_server import run_forked

# The packages that a page may need, as pip names them, and the modules that they install.
PACKAGES = {
    "onegraph[distributed]": ("dask", "distributed"),
    "onegraph[examples]": ("sklearn", "PIL", "matplotlib"),
    "onegraph[gguf]": ("gguf",),
    "onegraph[onnx]": ("onnx",),
    "onegraph[torch]": ("torch",),
    "onegraph[view]": ("quickjs",),
    "torch": ("torch",),
    "transformers": ("transformers",),
    "jax": ("jax",),
}
NEEDS = re.compile(r"\A# .*\n\nNeeds: `pip install (.*)`\.$", flags=re.MULTILINE)

PARTS = {"transformers": "transformers.models.llama.modeling_llama"}

FACTS = (
    "hash|path|threads|version|dtypes|threading runtime|cpu isa|max cpu isa|cpu dtypes|constant tensor cache|"
    "cache folder"
)
NUMBER = r"[\d,]+(?:\.\d+)?(?:e[-+]?\d+)?"
TIME = rf"{NUMBER} (?:ns|us|ms|s)\b"
# What differs between correct runs: how it looks, and what replaces it in the page and in the output of the test.
VOLATILE = {
    "a busy machine": (r"^(?:The machine was busy|Threads without a processor).*\n?", ""),
    "a variant of bench": (rf"^(\w.*?)(?: +{TIME}){{3}} +[\d,]+ +{TIME}(?: +(?:[\d.]+|-)){{2}}$", r"\1  TIMES"),
    "the columns of a profile": (r"^ +us +least +share +GFLOP/s +GB/s ", "PROFILE"),
    "a row of a profile": (
        r"^( *\d+) +[\d.,]+ +[\d.,]+ +[\d.]+% .*?(?=(?:oneDNN|kernel|reference|view|copy),)",
        r"\1  TIMES  ",
    ),
    "a time": (TIME, "TIME"),
    "a speed-up": (r"\b\d+(?:\.\d+)?(?= times as fast)", "FACTOR"),
    "a number of threads": (r"\b(?:\d+|all) threads?\b", "THREADS"),
    "the threads in a profile": (r"(?<=oneDNN, |kernel, )(?:\d+|all)\b", "N"),
    "a rounding error": (rf"( \d+ %) +{NUMBER}( +{NUMBER} +(?:agrees|not proven))", r"\1  ERROR\2"),
    "the time that verify has": (r"tried with \d+ ops(?: of \d+, chosen at random)?", "tried with OPS"),
    "an id of a partition": (r"\bPartition\(\d+", "Partition(ID"),
    "a kernel": (r"\b(?:brg|brgconv|gemm|jit|ref|simple|x64)\w*(?::\w+)+", "KERNEL"),
    "an instruction set": (r"\b(?:sse41|avx\w*)\b", "ISA"),
    "a patch of the library": (r"\b(oneDNN \d+\.\d+)\.\d+", r"\1.N"),
    "a path": (r"(?<![\w.:/])/(?:[\w.+-]+/)+[\w.+-]+", "PATH"),
    "a fact of the machine": (rf"^({FACTS})  +.*$", r"\1  FACT"),
    "the width of a column": (r"(?<=\S)  +", "  "),
    "empty lines": (r"\n\n+|\s+\Z", "\n"),
}


def normalised(text: str) -> str:
    """The text with ``VOLATILE`` parts replaced."""
    text = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    for pattern, replacement in VOLATILE.values():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def holds_here(shown: str) -> bool:
    """Whether this library and machine print what the page shows."""
    version = re.search(r"\boneDNN (\d+)\.(\d+)\.\d+", shown)
    if version and ".".join(version.groups()) != og.version_info()["version"].rpartition(".")[0]:
        return False
    # A CPU without AVX-512 runs f32 products row by row to reproduce their bits.
    if shown.strip() == "reproducible" and not og.capi.settings.has_avx512():
        return False
    # A CPU without int8 dot products (VNNI) runs the ops of an int8 pattern one by one.
    is_pattern = "Dequantize" in shown and ("fused" in shown or "oneDNN Dequantize" in shown)
    return not is_pattern or og.capi.settings.has_vnni()


def assert_printed(printed: str, shown: str) -> None:
    """Raise unless the page shows the output."""
    assert not holds_here(shown) or normalised(printed) == normalised(shown)


def needed(text: str) -> set[str]:
    """The packages that the first line of a page names."""
    named = NEEDS.search(text)
    return set(named[1].replace("'", "").split()) if named else set()


def is_usable(name: str) -> bool:
    """Whether a package is installed; of one that imports its parts late, whether the part imports what it needs."""
    if name not in PARTS:
        return find_spec(name) is not None
    try:
        importlib.import_module(PARTS[name])
    except Exception:  # a package that it needs may fail in any way
        return False
    return True


class Runner:
    """Runs the blocks of one page, one after another, in one namespace and one directory.

    ``text`` is the page with the output of this run in place of output that has changed.
    """

    def __init__(self, page: Path, check: bool = True) -> None:
        self.page, self.check = page, check
        self.python, self.printed, self.text = PythonEvaluator(), "", page.read_text()
        names = needed(self.text)
        self.needed = [module for name in names for module in PACKAGES[name]]
        hidden = [name for name in PACKAGES.keys() - names if name.startswith("onegraph")]
        # scipy fails if torch is hidden.
        self.hidden = [module for name in hidden for module in PACKAGES[name] if module != "torch"]

    def run(self) -> int:
        """Run every block; returns how many there are. Extras that the page does not name cannot be imported."""
        parsers = [
            CodeBlockParser("python", self.execute),
            CodeBlockParser("text", self.compare),
            CodeBlockParser("console", self.session),
        ]
        examples = list(Document.parse(str(self.page), *parsers).examples())
        with pytest.MonkeyPatch.context() as patch:
            for module in self.hidden:
                patch.setitem(sys.modules, module, None)
            for example in examples:
                example.evaluate()
        return len(examples)

    def execute(self, example: Example) -> None:
        for name in self.needed:
            if re.search(rf"^(import|from) {name}\b", example.parsed, flags=re.MULTILINE) and not is_usable(name):
                pytest.skip(f"{name}, or what it needs, is not installed")
        if "num_threads(" in example.parsed and og.get_num_threads() is None:
            runtime = og.version_info()["threading_runtime"]
            pytest.skip(f"the library runs its threads with {runtime}, which cannot be set")
        with redirect_stdout(io.StringIO()) as printed:
            self.python(example)
        self.printed = printed.getvalue()

    def compare(self, example: Example) -> None:
        self.show(self.printed, example.parsed)

    def session(self, example: Example) -> None:
        for part in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            done = shell(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            if shown.strip():
                self.show(done.stdout + done.stderr, shown)

    def show(self, printed: str, shown: str) -> None:
        if self.check:
            assert_printed(printed, shown)
        elif normalised(printed) != normalised(shown):
            self.text = self.text.replace(f"\n{shown.rstrip()}\n", f"\n{printed.rstrip()}\n", 1)


# A command of onegraph, and what reads its output or follows where it fails. No file is named like a word with a star.
COMMAND = re.compile(r"onegraph( [^|&;<>$?`(){}\\\n]+?)?(?: (\|\|?) (.*))?")


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the ``python`` and ``onegraph`` of this process."""
    if not (parts := COMMAND.fullmatch(command)) or not hasattr(os, "fork"):
        return bash(command)
    words, then, rest = shlex.split(parts[1] or ""), parts[2], parts[3]
    done = run_forked("helpers.forked_python", ["-m", "onegraph", *words], environment={"COLUMNS": "100"})
    if not then or (then == "||" and not done.returncode):
        return done
    after = bash(rest, done.stdout) if then == "|" else bash(f"(exit {done.returncode}) || {rest}")
    printed = after.stdout if then == "|" else done.stdout + after.stdout
    return subprocess.CompletedProcess(command, after.returncode, printed, done.stderr + after.stderr)


def bash(command: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, whose ``python`` and ``onegraph`` are those of this process."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        ["bash", "-c", command], input=given, capture_output=True, text=True, timeout=300, env=environment
    )


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]]:
        runner = Runner(path, check=False)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            runner.run()
            os.chdir("/")
        path.write_text(runner.text)
