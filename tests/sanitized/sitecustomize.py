"""On PYTHONPATH this takes ``onegraph._ffi`` from the folder that ONEGRAPH_EXTENSION names: ``make asan``."""

import importlib.machinery
import importlib.util
import os
import sys


class Extension:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "onegraph._ffi":
            return None
        file = os.path.join(os.environ["ONEGRAPH_EXTENSION"], "_ffi.abi3.so")
        return importlib.util.spec_from_file_location(name, file)


if "ONEGRAPH_EXTENSION" in os.environ:
    sys.meta_path.insert(0, Extension)
