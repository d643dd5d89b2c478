"""Workers of ``onegraph conformance`` whose calls of the library are intercepted."""

import os
import time

from onegraph.tools.conformance import worker
from onegraph.tools.conformance.drawn import trials


class Intercepted:
    """The functions of the library, or what has replaced some; one of them is replaced."""

    def __init__(self, lib, name, replacement):
        self._lib, self._name, self._replacement = lib, name, replacement

    def __getattr__(self, name):
        return self._replacement if name == self._name else getattr(self._lib, name)


def intercept(name, make):
    """Replace a function of the library by what ``make`` makes of it."""
    worker.lib = Intercepted(worker.lib, name, make(getattr(worker.lib, name)))


def another(setter, attribute, of, to):
    """Sets another value of an attribute where ``of`` is asked for; for :func:`intercept`."""
    ctype = {"s64": "int64_t[]", "f32": "float[]", "bool": "uint8_t[]"}.get(setter)

    def made(function):
        def replaced(op, number, values, count):
            is_asked = number == worker.enum_value("graph_op_attr_", attribute)
            if is_asked and ctype is None and values == of:
                values, count = to, len(to) + 1
            elif is_asked and ctype is not None and count == 1 and values[0] == of:
                values = worker.ffi.new(ctype, [to])
            return function(op, number, values, count)

        return replaced

    return f"dnnl_graph_op_set_attr_{setter}", made


def endless(function):
    """Never returns."""
    return lambda graph: time.sleep(3600) or 0


# The replaced function of the library, by a name in SEEDED_FAULT.
FAULTS = {
    "axis=0": another("s64", "axis", 0, -1),
    "exclude_pad=True": another("bool", "exclude_pad", True, False),
    "alpha=0.5": another("f32", "alpha", 0.5, 0.25),
    "mode=nearest": another("str", "mode", b"nearest", b"linear"),
    "keep_dims=True": another("bool", "keep_dims", True, False),
    "auto_pad=same_lower": another("str", "auto_pad", b"SAME_LOWER", b"SAME_UPPER"),
    "qtype=per_channel": another("str", "qtype", b"per_channel", b"per_tensor"),
    "endless": ("dnnl_graph_graph_finalize", endless),
}


def main():
    """A worker of ``trials``, in which functions are replaced."""
    for name in os.environ["SEEDED_FAULT"].split():
        intercept(*FAULTS[name])
    trials.main()
