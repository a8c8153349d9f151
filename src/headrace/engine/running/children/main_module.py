"""Loads the program's `__main__` module in a child process, under the name that an import would use."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.main_name import main_name

#: Advice for the case that a child process cannot load the program's main module.
GUARD = 'What a script does when it is run belongs under `if __name__ == "__main__":`.'

_loading: list[MainModule] = []  # the main module, while a child process loads it


class MainModule(msgspec.Struct, frozen=True):
    """The main module of a program. `python -m package.module` has an import name; `python script.py` has a
    file, whose stem is the name."""

    name: str
    file: str | None = None

    @classmethod
    def here(cls) -> MainModule:
        main = sys.modules.get("__main__")
        spec = getattr(main, "__spec__", None)
        file = None if spec is not None and spec.name else getattr(main, "__file__", None)
        return cls(main_name(), os.path.abspath(file) if file else None)

    def load(self) -> None:
        """Import the module under that name, so that code for `__main__` does not run again."""
        _loading.append(self)
        try:
            if self.file is None:
                importlib.import_module(self.name)
            else:
                self._load_file(self.file)
        finally:
            _loading.pop()

    def _load_file(self, file: str) -> None:
        spec = importlib.util.spec_from_file_location(self.name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} cannot be loaded")
        module = sys.modules[self.name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[self.name]
            raise


def refuse_while_loading() -> None:
    """Raise when the program's main module uses an app while a child process loads it. Otherwise every child
    would repeat what the program did as `__main__`."""
    if _loading:
        main = _loading[-1]
        raise ConfigurationError(
            f"{main.file or main.name} uses its app when it is imported, as a child process does to find its "
            f"tasks. {GUARD}"
        )
