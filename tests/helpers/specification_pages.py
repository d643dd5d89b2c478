"""Pages of the specification, in each form, and pages that print the records of ops."""

from __future__ import annotations

from random import Random

from onegraph.opset.editions.registry import edition
from onegraph.opset.errata.catalogue import corrections
from onegraph.opset.signature import Fill
from onegraph.tools.specification.expected import expected_page

# A page of each form; they describe one op.
MARKDOWN = r"""Blend {#dev_guide_op_blend}
===========================

## General

Blend is an op of these tests.

## Operation attributes

| Attribute Name                             | Description | Value Type | Supported Values | Required or Optional |
|:-------------------------------------------|:------------|:-----------|:-----------------|:---------------------|
| [axis](@ref dnnl::graph::op::attr::axis)   | Which axis. | s64        | Any axis, `-1` by default | Optional    |
| [mode] (@ref dnnl::graph::op::attr::mode)  | How.        | string.    | `plain` (default), `strong` | Required  |
| [sizes](@ref dnnl::graph::op::attr::sizes) | Sizes.      | s64        | A s64 list, `none` is default | Optional |

## Execution arguments

### Inputs

| Index | Argument Name          | Required or Optional |
|:------|:-----------------------|:---------------------|
| 0     | `src_0`                | Required             |
| 1     | `scale` (\f$\alpha\f$) | Optional             |

### Output

| Index | Argument Name | Required or Optional |
|:------|:--------------|:---------------------|
| 0     | `dst`         | Required             |

## Supported data types

| Src_0 / Dst | Scale     | Other |
|:------------|:----------|:------|
| f32         | f32       | u8    |
| bf16        | f32, bf16 | u8    |
"""
RST = """
.. SPDX-License-Identifier: CC-BY-4.0

Blend
#####

Operation Attributes
********************

+-------------+-------------+------------+----------------+-------------+
|  Attribute  | Description | Value Type |   Supported    | Required or |
|    Name     |             |            |     Values     |  Optional   |
+=============+=============+============+================+=============+
| |attr_axis| | Which axis. | s64        | Any axis,      | Optional    |
|             |             |            | ``-1`` by      |             |
|             |             |            | default        |             |
+-------------+-------------+------------+----------------+-------------+
| |attr_how|  | How.        | string     | ``plain``      | Required    |
|             |             |            | (default),     |             |
|             |             |            | ``strong``     |             |
+-------------+-------------+------------+----------------+-------------+
| |attr_sizes|| Sizes.      | s64        | A s64 list,    | Optional    |
|             |             |            | ``none`` is    |             |
|             |             |            | default        |             |
+-------------+-------------+------------+----------------+-------------+

Execution Arguments
*******************

Inputs
======

===== ========================== ====================
Index Argument Name              Required or Optional
===== ========================== ====================
0     ``src_0``                  Required
1     ``scale`` (:math:`\\alpha`) Optional
===== ========================== ====================

Outputs
=======

===== ============= ====================
Index Argument Name Required or Optional
===== ============= ====================
0     \\dst          Required
===== ============= ====================

Supported Data Types
********************

============ ========= =====
Src_0/Dst    Scale     Other
============ ========= =====
f32          f32       u8
bf16         f32, bf16 u8
============ ========= =====
"""
BULLETS = """# Blend {#dev_guide_op_blend}

**Versioned name**: *Blend-1*

## Attributes

* *axis*

  * **Description**: which axis.
  * **Range of values**: any axis
  * **Type**: s64
  * **Default value**: -1
  * **Required**: *no*

* *mode*

  * **Description**: how.
  * **Range of values**:

    * *plain (not specified)*: as it is.
    * *strong*: more.

  * **Type**: string
  * **Default value**: *plain*
  * **Required**: *yes*

* *sizes*

  * **Type**: s64[]
  * **Default value**: none
  * **Required**: *no*

## Inputs

* **1**: ``src_0`` - the source. It has a line that
  goes on. **Required.**

  * **Type**: T1

* **2**: ``scale`` - the scale. **Optional.**

  * **Type**: T2

**Outputs**:

* **1**: ``dst`` - the result.

  * **Type**: T1

**Types**:

* **T1**: f32, bf16.
* **T2**: f32, bf16.
* Constraints: *T2* can be bf16 only when *T1* is bf16.
"""


def written_page(name: str, kind: str) -> str:
    """A page in Markdown that prints the record of an op with its known mistakes."""
    schema = edition(name).schemas[kind]
    page = expected_page(schema, corrections(name, kind))
    lines = [f"{kind} {{#anchor}}", "====", "## Operation attributes", ""]
    if page.attributes:
        lines += ["| Attribute Name | Value Type | Supported Values | Required or Optional |", "|:--|:--|:--|:--|"]
    else:
        lines += ["It does not support any attribute."]
    for each in page.attributes:
        text = "list " if each.kind.endswith("[]") else ""
        text += " ".join(f"`{value}`," for value in sorted(each.values))
        if each.default is not None:
            default = {Fill(0): "all zeros by", Fill(1): "list of 1 (", (): "Empty list("}.get(each.default)
            text += f" {default or f'default is {each.default}'}{'default)' if default and '(' in default else ''}"
            text += " default" if default == "all zeros by" else ""
        kind_text = each.kind.removesuffix("[]").replace("str", "string")
        lines.append(
            f"| [{each.name}](@ref x) | {kind_text} | {text} | {'Required' if each.required else 'Optional'} |"
        )
    for side, ports in (("Inputs", page.inputs), ("Outputs", page.outputs)):
        lines += ["", f"### {side}", ""]
        lines += (
            ["| Index | Argument Name | Required or Optional |", "|:--|:--|:--|"] if ports else ["does not support"]
        )
        lines += [f"| {i} | `{p.name}` | {'Optional' if p.optional else 'Required'} |" for i, p in enumerate(ports)]
    lines += ["", "arbitrary number of inputs or outputs"] if kind == "Wildcard" else []
    lines += ["", "## Supported data types", ""]
    names = [port.name for port in (*page.inputs, *page.outputs)]
    places = [f"in{i}" for i in range(len(page.inputs))] + [f"out{i}" for i in range(len(page.outputs))]
    if any(place == "?" for row in page.rows for place, _ in row):
        names, places = [*names, "Stray"], [*places, "?"]
    rows = [dict(row) for row in sorted(page.rows, key=sorted)]
    lines += [f"| {' | '.join(names)} |", f"|{':--|' * len(names)}"] if rows else []
    lines += [f"| {' | '.join(row.get(place, '') for place in places)} |" for row in rows]
    return "\n".join(lines) + "\n"


MARKS = "|*-+#=`():., 1Aa\n"  # what damages put into a page


def damaged(page: str, rng: Random) -> str:
    """A page with lines that are left out, doubled or exchanged, and with other marks and words."""
    for _ in range(rng.randint(1, 3)):
        lines = page.split("\n")
        place, other = (rng.randrange(len(lines)) for _ in range(2))
        match rng.randrange(7):
            case 0:
                del lines[place]
            case 1:
                lines.insert(other, lines[place])
            case 2:
                lines[place], lines[other] = lines[other], lines[place]
            case 3:
                lines = lines[: max(place, 3)]
            case 4:
                at = rng.randrange(len(lines[place]) + 1)
                lines[place] = lines[place][:at] + rng.choice(MARKS) + lines[place][at + rng.randrange(2) :]
            case 5:
                words = page.split()
                lines = page.replace(rng.choice(words), rng.choice(words), 1).split("\n")
            case 6:
                lines[place : place + 2] = [" ".join(lines[place : place + 2])]
        page = "\n".join(lines)
    return page
