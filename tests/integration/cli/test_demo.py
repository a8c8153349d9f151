"""`headrace demo`, run as a new user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(120)
def test_the_demo_keeps_its_promises_and_says_what_to_try_next(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "demo"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr, "colours are for terminals"
    assert "kill -9 of worker" in done.stdout
    assert "FAILED" not in done.stdout

    [line] = [line for line in done.stdout.splitlines() if line.startswith("  headrace dead list")]
    listing = subprocess.run(
        [sys.executable, "-m", *line.split(), "--json"], capture_output=True, text=True, timeout=30
    )
    assert listing.returncode == 0, listing.stderr
    assert listing.stdout.count('"refund"') == 3
