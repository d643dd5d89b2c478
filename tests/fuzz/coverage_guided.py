"""atheris on the readers of graph files and on the checker: ``python -m tests.fuzz.coverage_guided FOLDERS``.

Takes atheris's own arguments, such as ``-max_total_time=60`` and ``-seed=1``.
"""

import sys

import atheris

with atheris.instrument_imports(include=["onegraph"]):
    from .one_input import one_input

if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
