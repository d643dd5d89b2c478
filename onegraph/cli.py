"""The command line: ``onegraph`` or ``python -m onegraph``.

Exit status: 0 for success, 1 where ``check`` found errors, 2 for a bad call or input.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from . import __version__
from .check import ERROR, Violation, check_op
from .errors import ArgumentError, OneGraphError
from .pages import by_category, markdown, markdown_edition, text, to_dict
from .spec.editions import DEFAULT, edition

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def info(arguments: argparse.Namespace) -> int:
    """Print what the library, the machine and the settings are."""
    from .capi import version_info

    facts = {"onegraph": __version__, **version_info()}
    if arguments.json:
        print(json.dumps(facts, indent=2))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        print(f"{name.replace('_', ' '):{width}}  {shown}")
    return 0


def ops(arguments: argparse.Namespace) -> int:
    """Print the ops of an edition, or what one of them takes: attributes, ports, types, rules."""
    chosen = edition(arguments.edition)
    schema = None
    if arguments.name is not None:
        schema = chosen.schema(arguments.name)
        if schema is None:
            close = chosen.nearest(arguments.name)
            mend = f"; did you mean {close!r}?" if close else ""
            raise ArgumentError(f"edition {chosen.name} has no op {arguments.name!r}{mend}")
    if arguments.json:
        found = [schema] if schema else chosen.schemas.values()
        records = [to_dict(chosen, record) for record in found]
        print(json.dumps(records[0] if schema else records, indent=2))
    elif arguments.markdown:
        print(markdown(chosen, schema) if schema else markdown_edition(chosen))
    elif schema:
        print(text(chosen, schema))
    else:
        print(f"{chosen.name}: {chosen.title}, {len(chosen.schemas)} ops")
        for category, schemas in by_category(chosen):
            print(f"\n{category}\n  " + "\n  ".join(f"{record.kind:30} {record.doc}"[:118] for record in schemas))
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Check ops that a JSON or TOML file describes: op, attrs, inputs, outputs, edition; one, or a list of them."""
    violations = [
        violation
        for number, record in enumerate(_records(arguments.file))
        for violation in _check_record(record, number, arguments.edition)
    ]
    if arguments.json:
        print(json.dumps([asdict(violation) for violation in violations], indent=2))
    else:
        for violation in violations:
            print(f"{violation.severity}: [{violation.rule}] {violation.message}  ({violation.page})")
        if not violations:
            print("no violations")
    return int(any(violation.severity == ERROR for violation in violations))


def _records(name: str) -> Iterator[Mapping[str, object]]:
    """The descriptions of ops in a file; ``-`` is standard input."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        source = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{name}: {error}") from None
    data = _parse(name, source)
    if isinstance(data, dict) and "graph" in data:
        raise ArgumentError(f"{name}: this is a graph file; expected op, attrs, inputs, outputs, edition")
    found = data.get("ops", [data]) if isinstance(data, dict) else data
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise ArgumentError(f"{name}: expected an op as a dictionary, or a list of them")
    yield from found


def _parse(name: str, source: str) -> object:
    try:
        return json.loads(source)
    except (json.JSONDecodeError, RecursionError) as as_json:
        try:
            return tomllib.loads(source)
        except (tomllib.TOMLDecodeError, RecursionError) as as_toml:
            looks_like_json = source.lstrip()[:1] in ("{", "[") and not name.endswith(".toml")
            raise ArgumentError(f"{name}: {as_json if looks_like_json else as_toml}") from None


def _check_record(record: Mapping[str, object], number: int, default: str) -> list[Violation]:
    unknown = set(record) - {"op", "attrs", "inputs", "outputs", "edition"}
    if unknown or not isinstance(record.get("op"), str):
        what = f"unknown key {sorted(unknown)[0]!r}" if unknown else "no op"
        raise ArgumentError(f"record {number}: {what}; expected op, attrs, inputs, outputs, edition")
    outputs = record.get("outputs")
    return check_op(
        str(record["op"]),
        record.get("attrs"),
        [_tensor(value) for value in _list(record.get("inputs", []))],
        None if outputs is None else [_tensor(value) for value in _list(outputs)],
        edition=str(record.get("edition", default)),
    )


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _tensor(value: object) -> object:
    """A tensor as files describe it: [dtype, shape] or {dtype, shape}; an unknown dim is null or "?"."""
    if isinstance(value, dict):
        value = [value.get("dtype"), value.get("shape")]
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
        return (value[0], tuple(None if dim == "?" else dim for dim in value[1]))
    return tuple(value) if isinstance(value, list) else value


def conformance(arguments: argparse.Namespace) -> int:
    """Hold the loaded library against an edition: every attribute value, type row and port count of every op."""
    from . import conformance as tool
    from . import native
    from .capi import version_info
    from .conformance.page import page

    facts = version_info()
    name = arguments.edition or f"onednn-{'.'.join(str(facts['version']).split('.')[:2])}"
    results = tool.run(edition(name), arguments.ops, arguments.workers, _progress if sys.stderr.isatty() else _silent)
    facts = {"edition": name, **facts}
    if arguments.html:
        _write(arguments.html, page(results, facts))
    if arguments.json:
        print(json.dumps({**facts, "results": [result.to_dict() for result in results]}, indent=2))
    else:
        print(f"oneDNN {facts['version']} on {facts['cpu_isa']} against {name}: {len(results)} probes\n")
        print(tool.table(results))
        print("\n" + "\n".join(f"{verdict:11}  {meaning}" for verdict, meaning in tool.VERDICTS.items()))
        newer = tool.too_new(edition(name), native.VERSION)
        if newer:
            print(f"\nnewer than this library, not tried: {', '.join(newer)}")
    return 0


def _progress(done: int, total: int) -> None:
    width = 40 * done // max(total, 1)
    end = "\n" if done == total else ""
    print(f"\r[{'#' * width:40}] {done} of {total} probes", end=end, file=sys.stderr, flush=True)


def _silent(done: int, total: int) -> None:
    """No progress where nobody watches."""


def _write(name: str, content: str) -> None:
    try:
        Path(name).write_text(content)
    except OSError as error:
        raise ArgumentError(f"{name}: {error}") from None


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    found = argparse.ArgumentParser(prog="onegraph", description="Build, check and run oneDNN graphs.")
    found.add_argument("--version", action="version", version=f"onegraph {__version__}")
    commands = found.add_subparsers(dest="command", required=True, metavar="command")

    command = commands.add_parser("info", help="library, machine and settings", description=info.__doc__)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=info)

    command = commands.add_parser("ops", help="what an op takes, in any edition", description=ops.__doc__)
    command.add_argument("name", nargs="?", help="an op, as the specification or as Python names it; all by default")
    command.add_argument("--edition", default=DEFAULT, help="%(default)s by default")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    command.set_defaults(run=ops)

    command = commands.add_parser("check", help="check ops from a JSON or TOML file", description=check.__doc__)
    command.add_argument("file", help="the file; - for standard input")
    command.add_argument("--edition", default=DEFAULT, help="for records without one; %(default)s by default")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=check)

    text_ = "the loaded library against the specification, probe by probe"
    command = commands.add_parser("conformance", help=text_, description=conformance.__doc__)
    command.add_argument("ops", nargs="*", help="some ops of the edition; all by default")
    command.add_argument("--edition", help="the edition of the loaded library's version by default")
    command.add_argument("--workers", type=int, help="number of processes; one for each CPU by default")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("--html", metavar="FILE", help="also write a page that can be filtered")
    command.set_defaults(run=conformance)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except OneGraphError as error:
        print(f"onegraph: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough; the interpreter would complain at exit
        return 0
    return status
