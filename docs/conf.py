"""Settings of the documentation site: ``make docs`` builds it with Sphinx, and every warning is an error."""

import re
import sys
from pathlib import Path

import click
from pygments.lexers import BashSessionLexer
from sphinx.application import Sphinx

import onegraph
from onegraph.builder.op_site import markdown_index, markdown_methods, op_pages
from onegraph.cli import COMMANDS
from onegraph.faults.page import markdown_faults
from onegraph.opset.editions.registry import EDITIONS, HOST, edition
from onegraph.opset.errata.page import errata_pages
from onegraph.tools.op_examples import example

sys.path.insert(0, str(Path(__file__).parent))
from gallery_pages import examples_shown, write_gallery

project = "onegraph"
author = "the onegraph developers"
project_copyright = author
version = release = onegraph.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_design",
]
exclude_patterns = ["ops/faults.md", "ops/errata.md"]  # included by other pages
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
# Graph is a class in onegraph and in onegraph.capi, so a reference by the bare name is ambiguous.
suppress_warnings = ["ref.python"]
smartquotes_action = "qe"  # keep the two dashes of options

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Array": "numpy.ndarray"}
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"onegraph {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["filter.js"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # a browser cannot fetch the summary from a local file
pygments_style = "a11y-high-contrast-light"  # friendly has numbers of a contrast of 2.8
pygments_dark_style = "monokai"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#6cb6ff", "color-brand-content": "#6cb6ff"},
}


class Console(BashSessionLexer):
    """Shell sessions: a command follows ``$``, and a line that starts with # is output."""

    _ps1rgx = re.compile(r"^(\$ )(.*\n?)")


def _plain(_app: object, what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Escape * and | outside of ``literals``: docstrings are plain text, where they belong to formulas."""
    if what == "property":
        lines.insert(0, "")  # otherwise napoleon takes the words before a colon for a type
    for number, line in enumerate(lines):
        parts = re.split(r"(``.*?``|:\w+:`.*?`)", line)
        lines[number] = "".join(
            part if place % 2 else re.sub(r"[*|]", r"\\\g<0>", part) for place, part in enumerate(parts)
        )


def _plain_help(_app: object, _context: click.Context, lines: list[str]) -> None:
    """Escape markup in the help of commands, which is plain text: dashes at the start of a line, * and `."""
    lines[:] = [re.sub(r"^-(?= )|[*`]", r"\\\g<0>", line) for line in lines]


def _write_pages(app: Sphinx) -> None:
    """Generate the pages of faults, errata, ops, editions and commands, and of the examples ``examples_run``."""
    write_gallery(Path(__file__).with_name("gallery"), app.config.examples_run)
    folder = Path(__file__).with_name("ops")
    folder.mkdir(exist_ok=True)
    (folder / "methods.md").write_text(markdown_methods())
    pages = {name: markdown_index(edition(name)) for name in (*EDITIONS, HOST)} | op_pages(example)
    pages |= markdown_faults() | errata_pages()
    for name, page in pages.items():
        (folder / f"{name}.md").write_text(page)
    for name in COMMANDS:
        Path(__file__).with_name("commands").joinpath(f"{name}.rst").write_text(
            f".. click:: onegraph.cli.{name}:command\n   :prog: onegraph {name}\n   :nested: full\n"
        )


def setup(app: Sphinx) -> None:
    """Connect the handlers for docstrings, commands and op pages, and the highlighting of sessions."""
    app.add_lexer("console", Console)
    app.add_config_value("examples_run", examples_shown(), "env", list)
    app.connect("builder-inited", _write_pages)
    app.connect("autodoc-process-docstring", _plain, priority=400)  # before napoleon writes markup
    app.connect("sphinx-click-process-description", _plain_help)
