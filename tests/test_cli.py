"""The command line."""

import json
import subprocess
import sys

import pytest

import onegraph as og


def onegraph(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "onegraph", *arguments], capture_output=True, text=True, **options)


def test_info_as_json():
    done = onegraph("info", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert facts == {"onegraph": og.__version__, **og.version_info()}
    assert facts["version"].startswith("3.")
    assert "f32" in facts["cpu_dtypes"]
    assert facts["path"].endswith(".so.3") or "libdnnl.so" in facts["path"]


def test_info_for_people():
    done = onegraph("info")
    for text in ("version", "path", "threading runtime", "cpu isa", "dtypes", "constant tensor cache"):
        assert text in done.stdout


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("info", "--nonsense")])
def test_bad_arguments_exit_with_2(arguments):
    done = onegraph(*arguments)
    assert done.returncode == 2
    assert "usage: onegraph" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_library_is_one_line(tmp_path):
    done = onegraph("info", env={"ONEGRAPH_LIBRARY": str(tmp_path / "none.so"), "PATH": ""})
    assert done.returncode == 2
    assert done.stderr.startswith("onegraph: ONEGRAPH_LIBRARY is")
    assert len(done.stderr.splitlines()) == 1
