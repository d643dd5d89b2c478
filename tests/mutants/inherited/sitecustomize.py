"""On PYTHONPATH this imports one module of the package from other source, in the processes that a test starts."""

import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the module MUTANT_NAME, whose file is MUTANT_PATH, from the source in the file MUTANT_SOURCE."""

    def find_spec(self, name, path=None, target=None):
        if name != os.environ["MUTANT_NAME"]:
            return None
        file = Path(os.environ["MUTANT_PATH"])
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=folders)

    def exec_module(self, module):
        source = Path(os.environ["MUTANT_SOURCE"]).read_text()
        exec(compile(source, os.environ["MUTANT_PATH"], "exec"), vars(module))


if "MUTANT_NAME" in os.environ:
    sys.meta_path.insert(0, Replaced())
