"""The name of the program's main module, as other processes import it."""

from __future__ import annotations

import sys
from pathlib import Path


def main_name() -> str:
    """`package.module` for `python -m package.module`, and the stem of the file for `python script.py`."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name.removesuffix(".__main__"))
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"
