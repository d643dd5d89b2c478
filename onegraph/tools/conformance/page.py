"""Writes findings and results to a self-contained HTML page with filters by verdict and text; buttons open details."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from string import Template

from ..._util.counted import counted
from .results import VERDICTS
from .run_record import Run

_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1c1c22; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
p { margin: .2rem 0 1rem; color: #555; }
form { display: flex; flex-wrap: wrap; gap: .5rem; position: sticky; top: 0; background: #fff; padding: .6rem 0; }
form input[type=search] { flex: 1 1 16rem; font: inherit; padding: .35rem .6rem; }
label { border-radius: 6px; padding: .35rem .6rem; cursor: pointer; user-select: none; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td button { font: inherit; border: 0; border-radius: 5px; padding: .1rem .5rem; margin: 1px; cursor: pointer; }
td button:focus-visible { outline: 2px solid #3355cc; }
.agrees { background: #dff0e1; } .sibling { background: #d5ecee; } .laxer { background: #fdf3cf; }
.version { background: #e6e6ee; } .machine { background: #d9dcf0; } .text { background: #e4d7f5; }
.stricter { background: #fde3cd; } .wrong { background: #f9c9c9; } .crashes { background: #e9a3b4; }
h2 { font-size: 1.1rem; margin: 1.4rem 0 .3rem; }
td:first-child { white-space: nowrap; }
.came { color: #555; }
dialog { border: 1px solid #999; border-radius: 10px; max-width: min(60rem, 92vw); padding: 1.2rem 1.4rem; }
dialog::backdrop { background: #0006; }
dialog article { border-top: 1px solid #ddd; padding: .6rem 0; }
pre { background: #f5f5f7; padding: .6rem; border-radius: 6px; overflow-x: auto; font-size: 13px; }
.close { float: right; font: inherit; }
</style>
<h1>$title</h1>
<p>$subtitle</p>
<form>
<input type="search" id="text" placeholder="op, attribute, value, message" aria-label="filter">
$boxes
</form>
<h2>Findings</h2>
<table><thead><tr><th>verdict</th><th>ops</th><th>printed</th><th>what came back, and the correction</th></tr></thead>
<tbody id="findings"></tbody></table>
<h2>Probes</h2>
<table><thead><tr><th>op</th><th>attribute or port</th><th>probes</th></tr></thead><tbody id="rows"></tbody></table>
<h2>Coverage</h2>
<pre>$coverage</pre>
<dialog id="detail"></dialog>
<script id="data" type="application/json">$data</script>
<script id="causes" type="application/json">$findings</script>
<script>
const results = JSON.parse(document.getElementById("data").textContent);
const findings = JSON.parse(document.getElementById("causes").textContent);
const causes = document.getElementById("findings");
const rows = document.getElementById("rows"), text = document.getElementById("text");
const boxes = [...document.querySelectorAll("form input[type=checkbox]")], detail = document.getElementById("detail");
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
function show(found) {
  const close = element("button", {className: "close", textContent: "close"});
  close.onclick = () => detail.close();
  detail.replaceChildren(close, element("h2", {textContent: found.op + ": " + found.subject}),
    element("article", {},
      element("p", {textContent: found.group + ": " + JSON.stringify(found.value) + ", in the use " + found.case}),
      element("p", {className: found.verdict, textContent: found.verdict}),
      element("p", {textContent: "expected: " + found.expected}),
      element("p", {textContent: "happened: " + found.happened}),
      element("pre", {textContent: found.code})));
  detail.showModal();
}
function open(finding) {
  const close = element("button", {className: "close", textContent: "close"});
  close.onclick = () => detail.close();
  const links = Object.entries(finding.links).flatMap(([op, href], index) =>
    [index ? ", " : "", element("a", {href, textContent: op, rel: "noreferrer"})]);
  const rows = finding.rows.map(row => element("li", {textContent:
    row.op + ", " + row.subject + " " + JSON.stringify(row.value) + " (" + row.case + "): " + row.happened}));
  detail.replaceChildren(close, element("h2", {textContent: finding.id}),
    element("article", {},
      element("p", {className: finding.verdict, textContent: finding.verdict}),
      element("p", {}, "page: ", ...links, ", section " + finding.section),
      element("p", {textContent: "printed: " + finding.printed}),
      element("p", {textContent: "done: " + finding.done}),
      element("p", {textContent: "came back: " + finding.came_back}),
      element("p", {textContent: "correction: " + finding.correction}),
      element("pre", {textContent: finding.code}),
      element("ul", {}, ...rows)));
  detail.showModal();
}
function drawFindings(wanted, words) {
  const shown = findings.filter(finding => wanted.has(finding.verdict) &&
    words.every(word => JSON.stringify(finding).toLowerCase().includes(word)));
  causes.replaceChildren(...shown.map(finding => {
    const made = element("button", {className: finding.verdict, type: "button",
      textContent: finding.verdict + (finding.rows.length ? " " + finding.rows.length : "")});
    made.onclick = () => open(finding);
    const more = finding.ops.length - 4;
    const ops = finding.ops.slice(0, 4).join(", ") + (more > 0 ? " and " + more + " more" : "");
    return element("tr", {}, element("td", {}, made), element("td", {textContent: ops}),
      element("td", {textContent: finding.printed}),
      element("td", {}, element("div", {className: "came", textContent: finding.came_back}), finding.correction));
  }));
}
function draw() {
  const wanted = new Set(boxes.filter(box => box.checked).map(box => box.value));
  const words = text.value.toLowerCase().split(/\\s+/).filter(Boolean);
  drawFindings(wanted, words);
  const groups = new Map();
  for (const found of results) {
    const parts = [found.op, found.subject, found.group, JSON.stringify(found.value), found.happened];
    const line = parts.join(" ").toLowerCase();
    if (!wanted.has(found.verdict) || !words.every(word => line.includes(word))) continue;
    const key = found.op + "\\n" + found.subject;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(found);
  }
  let last = "";
  rows.replaceChildren(...[...groups.values()].map(probes => {
    const buttons = probes.map(found => {
      const shown = typeof found.value === "string" ? found.value : JSON.stringify(found.value);
      const made = element("button", {className: found.verdict, textContent: shown || "(none)", type: "button",
        title: found.verdict + ": " + found.happened});
      made.onclick = () => show(found);
      return made;
    });
    const name = probes[0].op === last ? "" : probes[0].op;
    last = probes[0].op;
    return element("tr", {}, element("td", {textContent: name}), element("td", {textContent: probes[0].subject}),
      element("td", {}, ...buttons));
  }));
}
text.oninput = draw;
boxes.forEach(box => box.onchange = draw);
draw();
</script>
</html>
""")


def page(run: Run, facts: Mapping[str, object]) -> str:
    """The HTML page of a run; ``facts`` describe the edition, the library and the machine."""
    counts = {verdict: sum(result.verdict == verdict for result in run) for verdict in VERDICTS}
    causes = {verdict: sum(finding.verdict == verdict for finding in run.findings) for verdict in VERDICTS}
    boxes = "\n".join(
        f'<label class="{verdict}" title="{meaning}: findings, probes"><input type="checkbox" value="{verdict}"'
        f"{'' if verdict == 'agrees' else ' checked'}> {verdict} {causes[verdict]}, {counts[verdict]}</label>"
        for verdict, meaning in VERDICTS.items()
    )
    return _PAGE.substitute(
        title=f"oneDNN {facts['version']} against {facts['edition']}",
        subtitle=f"{counted(len(run.findings), 'finding')} in {counted(len(run), 'probe')}, on {facts['cpu_isa']}. "
        "A finding is one cause of disagreements; a button below is a probe, coloured by the verdict.",
        boxes=boxes,
        coverage=escape("\n".join(run.coverage.lines())),
        data=_embedded([result.to_dict() for result in run]),
        findings=_embedded([finding.to_dict() for finding in run.findings]),
    )


def _embedded(data: object) -> str:
    return json.dumps(data).replace("</", "<\\/")
