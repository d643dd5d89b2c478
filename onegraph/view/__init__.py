"""Pictures of graphs: a self-contained HTML page, an SVG, and the dot language of Graphviz.

Graphs are laid out by dagre 3.1.3 (MIT License), which lies unmodified beside its licence under ``assets``. The page
runs it in the browser; :func:`svg` runs the same scripts in an embedded interpreter, from the extra ``view``.
"""

from .document import embedded, page
from .graphviz import dot
from .notebook import notebook_html, notebook_svg
from .picture import svg

__all__ = ["dot", "embedded", "notebook_html", "notebook_svg", "page", "svg"]
