"""The program's own `__main__`, by the name under which others would import it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path

import msgspec

from headrace.core.errors import ConfigurationError

#: What helps where a child process cannot load the program's main module.
GUARD = 'What a script does when it is run belongs under `if __name__ == "__main__":`.'

_loading: list[MainModule] = []  # the main module, while a child process loads it


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
    """Raise when the program's main module uses an app while a child process loads it: what it did as
    `__main__` it would do again, in every child."""
    if _loading:
        main = _loading[-1]
        raise ConfigurationError(
            f"{main.file or main.name} uses its app when it is imported, as a child process does to find its "
            f"tasks. {GUARD}"
        )
