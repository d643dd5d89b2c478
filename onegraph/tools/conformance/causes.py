"""Finds out why library and edition disagree in a probe: this machine, this version, a known fault, or the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..._util.worker_process import Outcome
from ...capi.settings import is_native
from ...opset.dtypes import DataType
from ...opset.editions.registry import BASE
from .own_causes import OWN
from .probes import PRINTED, REFUSED, TAKEN, UNPRINTED, Probe
from .results import ProbeResult
from .runner import Runner
from .uses import SINGLE, ProbedUse, plain

GOOD, NOT_RUN, ENDED = ("right", "ran"), ("refused", "unsupported"), ("crash", "hang")
WORDS_RULE = "attribute_value"
NO_KERNEL = "no_kernel_of_its_own"
NOT_NATIVE = [dtype.value for dtype in DataType if not (dtype.is_host or is_native(dtype))]


Judgement = tuple[str, tuple[str, ...]]  # the verdict, and the causes
# The beginnings of the outcomes that faults note, by the outcome of a probe.
NOTED = {
    "refused": ("refuses", "throws"),
    "unsupported": ("unsupported",),
    "wrong": ("wrong", "overrun", "garbage"),
    "crash": ("SIG", "exit", "overrun", "hang"),
    "hang": ("hang", "SIG"),
}


def judge(
    probes: Sequence[Probe], outcomes: Sequence[Outcome], runner: Runner, version: tuple[int, int, int]
) -> list[ProbeResult]:
    """The verdict and the causes of every probe."""
    pairs = list(zip(probes, outcomes, strict=True))
    failed = [probe for probe, one in pairs if probe.allowed and one.outcome in NOT_RUN and _not_native(probe.use)]
    twins = [_in_f32(probe) for probe in failed]
    of_twins = runner.run([twin.request() for twin in twins])
    twins_by_probe = {id(probe): pair for probe, pair in zip(failed, zip(twins, of_twins, strict=True), strict=True)}
    court = _Court(version, {probe.page.base.kind for probe, one in pairs if one.outcome in GOOD})
    # Probes of one change come first: they explain the uses that differ from right ones in several ways.
    order = sorted(range(len(pairs)), key=lambda place: pairs[place][0].group == "valid use")
    judged: dict[int, Judgement] = {}
    for place in order:
        probe, outcome = pairs[place]
        judged[place] = court.judge(probe, outcome, twins_by_probe.get(id(probe)))
    return [ProbeResult(probe, outcome, *judged[place]) for place, (probe, outcome) in enumerate(pairs)]


def _not_native(use: ProbedUse) -> list[str]:
    """The data types of a use that this CPU does not compute in."""
    return sorted({*use.dtypes, *use.outputs}.intersection(NOT_NATIVE))


def _in_f32(probe: Probe) -> Probe:
    """The same probe with f32 in place of data types that this CPU does not compute in."""

    def changed(use: ProbedUse) -> ProbedUse:
        ins = {place: "f32" for place, dtype in enumerate(use.dtypes) if dtype in NOT_NATIVE}
        outs = {place: "f32" for place, dtype in enumerate(use.outputs) if dtype in NOT_NATIVE}
        return use.typed(ins, outs)

    control = None if probe.control is None else changed(probe.control)
    return replace(probe, says=TAKEN, use=changed(probe.use), control=control)


class _Court:
    """Judges probes of one run, and remembers what single changes end in.

    Args:
        version: that of the library.
        working: the ops of which the library computes some use right.
    """

    def __init__(self, version: tuple[int, int, int], working: set[str]) -> None:
        self._version, self._working = version, working
        self._changes: dict[tuple[str, str, str], tuple[str, Judgement]] = {}

    def judge(self, probe: Probe, outcome: Outcome, twin: tuple[Probe, Outcome] | None) -> Judgement:
        """The verdict and the causes of a probe; ``twin`` is the same probe in f32."""
        ended = outcome.outcome
        refused = ended in NOT_RUN
        if probe.says == REFUSED:
            verdict = "agrees" if refused else "crashes" if ended in ENDED else "laxer"
            words = f":{probe.subject}" if probe.cause == WORDS_RULE else ""
            return verdict, () if verdict == "agrees" else (f"{verdict}:{probe.cause}{words}",)
        if probe.says == PRINTED and ended not in ENDED:
            return ("text", (probe.cause,)) if refused else ("agrees", ())
        if probe.says == UNPRINTED and ended in GOOD:
            return "text", (probe.cause,)
        if ended in GOOD:
            return "agrees", ()
        if twin is not None:
            twin_probe, of_other = twin
            if of_other.outcome not in NOT_RUN or not twin_probe.page.allows(twin_probe.use):
                return "machine", tuple(f"machine:{dtype}" for dtype in _not_native(probe.use))
            probe, outcome = twin_probe, of_other
        return self._explained(probe, outcome)

    def _explained(self, probe: Probe, outcome: Outcome) -> Judgement:
        ended, kind = outcome.outcome, probe.page.base.kind
        verdict = {"refused": "stricter", "unsupported": "version", "wrong": "wrong"}.get(ended, "crashes")
        known = self._known(probe, outcome)
        if not known and probe.group == "valid use":
            for change in _parts(probe):
                of_change, judgement = self._changes.get((kind, *change), ("", ("", ())))
                if of_change == ended:
                    return judgement
        if ended == "unsupported" and kind not in self._working:
            known = (NO_KERNEL,)
        if not known:
            known = self._likely(probe.use) or (f"{verdict}:{probe.subject}:{probe.value}",)
        judgement = verdict, known
        if probe.group != "valid use":
            self._changes.setdefault((kind, probe.subject, str(probe.value)), (ended, judgement))
        return judgement

    def _known(self, probe: Probe, outcome: Outcome) -> tuple[str, ...]:
        """The known faults that explain a failure: those that the change brought, or those that end like this."""
        if probe.cause in SINGLE:
            return (probe.cause,)
        now = self._causes(probe.use)
        alike = [name for name in now if self._ends_like(name, outcome)]
        if probe.control is not None and probe.control != probe.use:
            before = self._causes(probe.control)
            brought = [name for name in now if name not in before]
            alike = [name for name in brought if name in alike] or brought
        return tuple(alike)

    def _likely(self, use: ProbedUse) -> tuple[str, ...]:
        """The one known fault of a use, if it is of an attribute or input that the use has; it ends in a new way."""
        ports_and_attrs = {*use.attrs, *(port.name for port in BASE[use.kind].inputs[: len(use.picks)])}
        names = [name for name in use.faults(self._version) if SINGLE[name].where in ports_and_attrs]
        return tuple(names) if len(names) == 1 else ()

    def _causes(self, use: ProbedUse) -> list[str]:
        own = [cause.name for cause in OWN if use.kind in cause.ops and cause.when(use)]
        return own + use.faults(self._version)

    def _ends_like(self, name: str, outcome: Outcome) -> bool:
        """Whether a fault was seen to end as a probe did, in the newest version that was tried and is not newer."""
        fault = SINGLE.get(name)
        if fault is None:
            return True
        noted = [
            seen[max(tried)]
            for seen in (fault.seen, *(example.seen for example in fault.examples))
            if (tried := [version for version in seen if version <= self._version[:2]])
        ]
        words = [word for text in noted for word in text.split(" | ")]
        return any(word.startswith(NOTED[outcome.outcome]) for word in words)


def _parts(probe: Probe) -> list[tuple[str, str]]:
    """The subjects and values of the probes that a use has in common with."""
    page, use = probe.page, probe.use
    types = ", ".join(f"{page.name_of(name)}={dtype}" for name, dtype in page.combination(use).items())
    parts = [("data types", types), ("number of inputs", str(len(use.picks)))]
    for attribute in page.schema.attributes:
        name = page.base_name(attribute.name)
        value = str(plain(use.attrs[name])) if name in use.attrs else "left out"
        parts.append((attribute.name, value))
    return parts
