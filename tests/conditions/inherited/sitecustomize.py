"""On PYTHONPATH this lets modules of the package answer questions, in each process of the tests."""

import os
import sys

if "CONDITIONS" in os.environ:
    sys.path.append(os.environ["CONDITIONS_ROOT"])
    from tests.conditions import asked

    asked.begin()
