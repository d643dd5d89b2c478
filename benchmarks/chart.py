"""The chart of the results at a glance, as SVG: a bar for each line and peer, on a logarithmic scale around 1.

The picture has its own background, and colors for light and for dark, because it gets neither from a page that shows it
as an image. The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import log
from xml.etree import ElementTree as ET

from .glance import MISSING, PEERS, Line, label, means

WIDTH, MARGIN, HEAD, ROW, GAP, FOOT = 800, 16, 58, 21, 14, 36
# The columns of the data types and of the batches, which end there; then a panel for each peer.
DTYPE, BATCH, PANELS, PANEL = 156, 216, 232, 140
# Within a panel: the width of a label after a bar, with the space before the next panel; the height of a bar.
LABEL, BAR = 40, 13
# The classes of the bars, and what they mean.
SIDES = {"faster": "onegraph is faster", "slower": "the peer is faster"}
STYLE = """
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.strong { font-weight: 600; }
.quiet { fill: #59636e; }
.end { text-anchor: end; }
.page { fill: #ffffff; stroke: #d0d7de; }
.rule { fill: #d0d7de; }
.one { fill: #59636e; }
.faster { fill: #2f7fd6; }
.slower { fill: #d9772b; }
text.faster { fill: #1f2328; }
text.slower { fill: #b3541e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.quiet { fill: #9198a1; }
.page { fill: #0d1117; stroke: #3d444d; }
.rule { fill: #3d444d; }
.one { fill: #9198a1; }
.faster { fill: #4493f8; }
text.faster { fill: #e6edf3; }
.slower, text.slower { fill: #f0984c; }
}
"""


def svg(lines: Sequence[Line]) -> str:
    """The chart of some lines, with their geometric means below."""
    picture, groups = ET.Element("svg"), [[*group] for _, group in groupby(lines, lambda line: line.model)]
    height = HEAD + ROW * (len(lines) + 1) + GAP * (len(groups) + 1) + FOOT
    sizes = {"width": str(WIDTH), "height": str(height), "viewBox": f"0 0 {WIDTH} {height}"}
    picture.attrib |= {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **sizes}
    ET.SubElement(picture, "title").text = "The time of each peer divided by the time of onegraph"
    ET.SubElement(picture, "style").text = STYLE
    _rectangle(picture, "page", 0.5, 0.5, WIDTH - 1, height - 1, rx="6")
    _text(picture, "title", MARGIN, 26, "The time of each peer divided by the time of onegraph")
    _text(picture, "end quiet", BATCH, HEAD - 8, "batch")
    scale = _Scale(lines)
    for peer, title in PEERS.items():
        _text(picture, "strong", scale.left(peer), HEAD - 8, title)
    y = HEAD
    for group in groups:
        _rectangle(picture, "rule", MARGIN, y, WIDTH - 2 * MARGIN, 1)
        y += GAP // 2
        _text(picture, "strong", MARGIN, y + 15, group[0].model)
        for line in group:
            _text(picture, "", DTYPE, y + 15, line.dtype)
            _text(picture, "end", BATCH, y + 15, line.batch)
            _bars(picture, y, line.ratios, scale)
            y += ROW
        y += GAP // 2
    _rectangle(picture, "rule", MARGIN, y, WIDTH - 2 * MARGIN, 1)
    y += GAP // 2
    _text(picture, "strong", MARGIN, y + 15, "geometric mean")
    _bars(picture, y, means(lines), scale, "strong")
    for peer in PEERS:
        _rectangle(picture, "one", scale.at(peer, 1.0) - 0.5, HEAD + 1, 1, y + ROW - HEAD)
    for place, (side, meaning) in enumerate(SIDES.items()):
        _rectangle(picture, side, MARGIN + 152 * place, height - 26, 11, 11)
        _text(picture, "quiet", MARGIN + 152 * place + 17, height - 16, meaning)
    _text(picture, "end quiet", WIDTH - MARGIN, height - 16, "logarithmic scale from the line at 1")
    ET.indent(picture, "")
    return ET.tostring(picture, encoding="unicode") + "\n"


class _Scale:
    """The logarithmic scale that the panels share."""

    def __init__(self, lines: Sequence[Line]) -> None:
        found = [log(ratio) for line in lines for ratio in line.ratios.values()]
        self._least, self._most = min([0.0, *found]), max([1.0, *found])

    def left(self, peer: str) -> float:
        return PANELS + PANEL * [*PEERS].index(peer)

    def at(self, peer: str, ratio: float) -> float:
        return self.left(peer) + (PANEL - LABEL) * (log(ratio) - self._least) / (self._most - self._least)


def _bars(picture: ET.Element, y: float, ratios: dict[str, float], scale: _Scale, kind: str = "") -> None:
    """A bar from 1 to each ratio, and the ratio behind it; equal times have no bar."""
    for peer in PEERS:
        ratio, shown = ratios.get(peer, 1.0), label(ratios.get(peer))
        one, end = scale.at(peer, 1.0), scale.at(peer, ratio)
        side = "quiet" if shown == MISSING else "slower" if float(shown) < 1 else "faster" if float(shown) > 1 else ""
        if side in SIDES:
            _rectangle(picture, side, min(one, end), y + 4, abs(end - one), BAR)
        _text(picture, f"{kind} {side}".strip(), (end if side == "faster" else one) + 6, y + 15, shown)


def _text(picture: ET.Element, kind: str, x: float, y: float, text: str) -> None:
    given = {"class": kind} if kind else {}
    ET.SubElement(picture, "text", {**given, **_numbers(x=x, y=y)}).text = text


def _rectangle(picture: ET.Element, kind: str, x: float, y: float, width: float, height: float, **more: str) -> None:
    ET.SubElement(picture, "rect", {"class": kind, **_numbers(x=x, y=y, width=width, height=height), **more})


def _numbers(**given: float) -> dict[str, str]:
    """Numbers with at most one decimal place, which every machine prints alike."""
    return {name: f"{number:.1f}".removesuffix(".0") for name, number in given.items()}
