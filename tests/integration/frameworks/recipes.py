"""Runs a program with the recipe of a page, in a process of its own: recipes change the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.guide.test_documents import blocks


def run_with_recipe(page: str, program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `program` where `import shop` gives the Python of a page."""
    (folder / "shop.py").write_text("\n\n".join(blocks(page)))
    environment = os.environ | {"HEADRACE_URL": "memory://", "SENTRY_DSN": ""}
    command = [sys.executable, "-c", dedent(program)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=50
    )
