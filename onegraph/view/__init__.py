"""Draws graphs: as a self-contained HTML page, as SVG, and in the dot language of Graphviz.

The layout is computed by dagre 3.1.3 (MIT License), which is included unmodified with its licence under ``assets``. The
page runs dagre in the browser; :func:`svg` runs the same scripts in an embedded interpreter, from the extra ``view``.
"""

from .document import embedded, page
from .graphviz import dot
from .notebook import notebook_html, notebook_svg
from .picture import svg

__all__ = ["dot", "embedded", "notebook_html", "notebook_svg", "page", "svg"]
