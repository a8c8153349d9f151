"""The README's first page does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.timeout(60)
def test_the_first_example_runs_as_it_stands(tmp_path: Path) -> None:
    shop, main = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[:2]
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "main.py").write_text(main)
    assert "$ headrace worker shop:app " in README.read_text()

    command = [sys.executable, "-m", "headrace", "worker", "shop:app"]
    with (tmp_path / "worker.txt").open("wb") as output:
        worker = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output)
    try:
        done = subprocess.run(
            [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=40
        )
    finally:
        worker.terminate()
        worker.wait(20)
    assert done.stdout == "5\n", done.stderr + (tmp_path / "worker.txt").read_text()
