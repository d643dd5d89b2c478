"""Builds the site of the documentation quickly: ``python site.py DOCS TARGET EXAMPLES PAGE ...``.

Sphinx reads every page and resolves its links, and each warning is an error, but it writes only the pages that are
named, without pages of source code and without a search. ``make docs`` writes everything.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

EXTENSIONS = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click", "sphinx_design"]


def main(docs: str, target: str, examples: str, *written: str) -> int:
    """Build the site; returns the status of Sphinx."""
    settings = {"extensions": EXTENSIONS, "examples_run": examples.split(",")}
    site = Sphinx(docs, docs, target, f"{target}.read", "html", settings, status=None, warningiserror=True)
    site.builder.search = False  # its index is of the pages that are written
    site.build(filenames=[str(Path(docs, f"{name}.md")) for name in written])
    for name in sorted(site.env.found_docs - {*written}):
        site.env.get_and_resolve_doctree(name, site.builder)
    return int(site.statuscode or bool(site._warncount))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
