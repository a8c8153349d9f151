"""What the demo's processes write down of what they see."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Diary:
    """One line a fact, from any process, each in one write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, what: str, **facts: str | int) -> None:
        line = json.dumps({"what": what, "pid": os.getpid(), **facts}) + "\n"
        with self._path.open("ab", buffering=0) as file:
            file.write(line.encode())

    def read(self, what: str) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        # What stands behind the last end of a line is still being written.
        whole, _, _ = self._path.read_text().rpartition("\n")
        lines = (json.loads(line) for line in whole.splitlines())
        return [line for line in lines if line["what"] == what]
