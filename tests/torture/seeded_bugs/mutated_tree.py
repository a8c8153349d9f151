"""A copy of the source with one seeded bug in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .seeded_bug import SeededBug

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"


@contextmanager
def source_with(bug: SeededBug | None) -> Iterator[Path]:
    """A temporary copy of `src`, mutated by the bug. With None it is as it was."""
    with tempfile.TemporaryDirectory(prefix="seeded-") as folder:
        source = Path(folder) / "src"
        # With the compiled modules: they stay valid, since the copies keep the times of their sources.
        shutil.copytree(SOURCE, source)
        if bug is not None:
            file = source / "headrace" / bug.file
            file.write_text(bug.applied(file.read_text()))
        yield source


def environment(source: Path) -> dict[str, str]:
    """The variables of a process that imports headrace from this source."""
    before = os.environ.get("PYTHONPATH")
    paths = [str(source), str(ROOT), *([before] if before else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
