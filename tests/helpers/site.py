"""Builds the site of the documentation quickly: ``python site.py DOCS TARGET EXAMPLES PAGE ...``.

Sphinx reads every page and resolves its links, and each warning is an error, but it writes only the pages that are
named, without pages of source code and without a search. In the others, an image or HTML that loads from another host
is an error. Of the pages of ops and faults that are not named, it reads only the heading: they are generated alike, and
tests/house/test_site_pages.py checks their text. ``make docs`` writes everything.
"""

import gc
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

LOADS = re.compile(r"<(?:script|img|iframe|source)[^>]*?src=[\"']?(?:https?:)?//|<link[^>]*?href=[\"']?(?:https?:)?//")
EXTENSIONS = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click", "sphinx_design"]


def main(docs: str, target: str, examples: str, *written: str) -> int:
    """Build the site; returns the status of Sphinx."""
    gc.disable()  # the collector takes a fifth of the time, to look through trees of pages that all stay
    settings = {"extensions": EXTENSIONS, "examples_run": examples.split(",")}
    site = Sphinx(docs, docs, target, f"{target}.read", "html", settings, status=None, warningiserror=True)
    headings = set()
    for page in Path(docs, "ops").glob("*.md"):
        if (
            head := re.match(r"---\norphan: true\n---\n# .*\n", page.read_text())
        ) and f"ops/{page.stem}" not in written:
            page.write_text(head[0])
            headings.add(f"ops/{page.stem}")
    site.builder.search = False  # its index is of the pages that are written
    site.build(filenames=[str(Path(docs, f"{name}.md")) for name in written])
    loaded = []
    for name in sorted(site.env.found_docs - {*written} - headings):
        page = site.env.get_and_resolve_doctree(name, site.builder)
        loaded += [(name, one["uri"]) for one in page.findall(nodes.image) if "//" in one["uri"]]
        loaded += [(name, one.astext()) for one in page.findall(nodes.raw) if LOADS.search(one.astext())]
    print(*(f"{name} loads {uri}" for name, uri in loaded), sep="\n", file=sys.stderr)
    return int(site.statuscode or bool(site._warncount or loaded))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
