"""Workers of ``onegraph conformance`` whose calls of the library are intercepted."""

import os
import time

from onegraph.tools.conformance import worker
from onegraph.tools.conformance.drawn import trials


class Intercepted:
    """The functions of the library; one of them is replaced."""

    def __init__(self, lib, name, replacement):
        self._lib, self._name, self._replacement = lib, name, replacement

    def __getattr__(self, name):
        return self._replacement if name == self._name else getattr(self._lib, name)


def intercept(name, make):
    """Replace a function of the library by what ``make`` makes of it."""
    worker.lib = Intercepted(worker.lib, name, make(getattr(worker.lib, name)))


def other_axis(function):
    """Sets axis -1 where axis 0 is asked for."""

    def replaced(op, attribute, values, count):
        is_axis = attribute == worker.enum_value("graph_op_attr_", "axis")
        if is_axis and count == 1 and values[0] == 0:
            values = worker.ffi.new("int64_t[]", [-1])
        return function(op, attribute, values, count)

    return replaced


def endless(function):
    """Never returns."""
    return lambda graph: time.sleep(3600) or 0


# The replaced function of the library, by the name in SEEDED_FAULT.
FAULTS = {
    "wrong_axis": ("dnnl_graph_op_set_attr_s64", other_axis),
    "endless": ("dnnl_graph_graph_finalize", endless),
}


def main():
    """A worker of ``trials``, in which a function is replaced."""
    intercept(*FAULTS[os.environ["SEEDED_FAULT"]])
    trials.main()
