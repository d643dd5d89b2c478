"""The site that Sphinx builds: every page is read, each warning is an error, and no page loads from another host.

``make site`` runs these tests: a build of the site takes as long as a hundred other tests.
"""

import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from conftest import LONG
from helpers import site as site_builder

from onegraph.opset.editions.registry import BASE

pytestmark = [
    pytest.mark.library,
    pytest.mark.skipif(not (LONG or os.environ.get("ONEGRAPH_SITE")), reason="make site builds the site"),
]
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# An example whose graph is drawn, one that compiles nothing, and one that draws by itself and that a page names.
IN_GALLERY = ("getting_started", "checking_attributes", "read_picture_onnx")
# What stands in the gallery for an example that takes long, and that tests/house/test_examples.py runs.
SHORT = '''"""A short example."""

from PIL import Image

import onegraph as og

g = og.Graph()
g.output("y", g.relu(g.input("x", og.f32, (4, 8))))
print(g.compile())
Image.new("RGB", (8, 8)).save("picture.png")
'''
# Tables of ops, pages with tabs and with one edition, of a host op, and of a family of faults.
OP_PAGES = (
    "ops/methods",
    "ops/onednn-3.14",
    "ops/host",
    "ops/convolution",
    "ops/convtransposebackwardweights",
    "ops/faults-pools",
    "ops/gelu",
    "ops/host-gather",
)
# Pages of each kind of guide, with formulas, pictures, tabs, commands, wide tables and an included file.
GUIDES = (
    "index",
    "install",
    "tutorial/2-fusion",
    "howto/onnx",
    "commands",
    "performance",
    "safety",
    "design",
    "changes",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as ``make docs`` builds it, with few examples and a few pages of each kind.

    tests/house/test_examples.py runs all examples.
    """
    root = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if path.suffix == ".md":  # links of an included page are relative to the file, not to a link that leads to it
            shutil.copy(path, root)
        elif path not in (DOCS, ROOT / "examples"):
            (root / path.name).symlink_to(path)
    shutil.copytree(DOCS, root / "docs", ignore=shutil.ignore_patterns("gallery", "ops"))  # which make docs left
    shutil.copytree(ROOT / "examples", root / "examples")
    (root / "examples" / "read_picture_onnx.py").write_text(SHORT)
    target = root / "site"
    api = [f"api/{path.stem}" for path in (DOCS / "api").glob("*.md")]
    pages = [*api, *GUIDES, "gallery/index", *OP_PAGES]
    command = [sys.executable, site_builder.__file__, str(root / "docs"), str(target), ",".join(IN_GALLERY), *pages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_site_loads_nothing_from_other_hosts(site):
    pages = list(site.rglob("*.html"))
    assert {"index.html", "safety.html", "performance.html", "design.html"} <= {page.name for page in pages}
    assert [page.name for page in pages if site_builder.LOADS.search(page.read_text())] == []
    styles = [
        path for path in site.rglob("*.css") if re.search(r"(?:@import|url\()[\s\"']*(?:https?:)?//", path.read_text())
    ]
    assert styles == []


def test_gallery_shows_examples(site):
    cards = (site / "gallery" / "index.html").read_text().split('class="card')[1:]
    names = {*IN_GALLERY}
    assert {re.search(r'href="(\w+)\.html"', card)[1] for card in cards} == names
    drawn = {name for name in names for card in cards if re.search(rf'<img [^>]*src="[^"]*/{name}\.(svg|png)"', card)}
    assert names - drawn == {"checking_attributes"}  # it compiles nothing; its card shows what it prints


def test_index_of_site_has_every_op_method(site):
    index = (site / "genindex.html").read_text()
    page = (site / "ops" / "methods.html").read_text()
    for kind, schema in BASE.items():
        assert f'href="ops/methods.html#onegraph.Graph.{schema.name}"' in index
        assert f'href="{kind.lower()}.html"' in page


def test_site_has_readable_signatures(site):
    shown = {
        page.name: unescape(
            re.sub(r"<[^>]+>", "", " ".join(re.findall(r'<dt class="sig sig-object py.*?</dt>', text, re.DOTALL)))
        )
        for page in site.rglob("*.html")
        if (text := page.read_text())
    }
    assert "progress: Callable[[str, int, int], None] | None = None" in shown["other.html"]
    unreadable = re.compile(r"<|~\w+\.|object at 0x")  # default values by repr, and names as autodoc writes them
    assert {name: found[0] for name, text in shown.items() if (found := unreadable.search(text))} == {}
