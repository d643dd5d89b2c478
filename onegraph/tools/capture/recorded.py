"""Defines executables that write their graphs, options and inputs to the folders of captures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...arrays.ndarrays import as_array
from ...builder.graph import DataGraph
from ...errors import OneGraphError
from ...ir.op import Array
from ...runtime.bound_run import BoundRun
from ...runtime.executable import RECORDERS, Executable
from .recording import Record, Recording


class Recorder:
    """Makes executables that are recorded in the folder of a capture, and in those of the captures around it."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __call__(self, graph: DataGraph, **options: Any) -> RecordedExecutable:
        """The executable of a graph."""
        recordings = [recorder.recording for recorder in [*RECORDERS] if isinstance(recorder, Recorder)]
        return RecordedExecutable(recordings, graph, **options)


class RecordedExecutable(Executable):
    """An executable whose compilation and calls are recorded."""

    def __init__(self, recordings: Sequence[Recording], graph: DataGraph, **options: Any) -> None:
        self._records: list[Record] = [recording.graph(graph, options) for recording in recordings]
        self._reported = ""
        try:
            super().__init__(graph, **options)
        except BaseException as error:
            for record in self._records:
                record.error(error)
            raise
        self._write_report()

    def __call__(self, /, *arrays: object, out: object = None, **named: object) -> Any:
        """Run the graph; the inputs are written before the run, an exception after it."""
        by_name = dict(zip(self._names, arrays, strict=False))
        return self._recorded({**by_name, **named}, lambda: Executable.__call__(self, *arrays, out=out, **named))

    def bind(self, /, *inputs: object, **arrays: object) -> BoundRun:
        """Bind arrays; the inputs are written with their current contents."""
        by_name = dict(zip(self._names, inputs, strict=False))
        run: BoundRun = self._recorded({**by_name, **arrays}, lambda: Executable.bind(self, *inputs, **arrays))
        return run

    def _recorded(self, by_name: Mapping[str, object], work: Any) -> Any:
        inputs = {name: values for name in self._names if (values := _plain(name, by_name.get(name))) is not None}
        pairs = [(record, path) for record in self._records if (path := record.call(inputs)) is not None]
        try:
            result = work()
        except BaseException as error:
            for record, path in pairs:
                record.error(error, path)
            raise
        if pairs:
            self._write_report()
        return result

    def _write_report(self) -> None:
        text = str(self.report())
        if text != self._reported:
            self._reported = text
            for record in self._records:
                record.report(text)


def _plain(name: str, value: object) -> Array | None:
    """The array that a caller passes; None if it is not an array, which the call itself reports."""
    if value is None:
        return None
    try:
        array = np.asarray(as_array(name, value))
    except OneGraphError:
        return None
    return None if array.dtype.hasobject else array
