"""The program's own `__main__`, by the name under which others would import it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path

import msgspec


class MainModule(msgspec.Struct, frozen=True):
    """`python -m package.module` has a name to import; `python script.py` has a file, called by its stem."""

    name: str
    file: str | None = None

    @classmethod
    def here(cls) -> MainModule:
        main = sys.modules.get("__main__")
        spec = getattr(main, "__spec__", None)
        if spec is not None and spec.name:
            return cls(str(spec.name.removesuffix(".__main__")))
        file = getattr(main, "__file__", None)
        return cls(Path(file).stem, os.path.abspath(file)) if file else cls("__main__")

    def load(self) -> None:
        """Import it under that name, so that what it does only as `__main__` is not done again."""
        if self.file is None:
            importlib.import_module(self.name)
            return
        spec = importlib.util.spec_from_file_location(self.name, self.file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self.file} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.name] = module
        spec.loader.exec_module(module)
