"""The first example of the README, and that of the site, do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_example_runs_as_it_stands(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text()
    shop, main = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "main.py").write_text(main)
    assert "$ headrace worker shop:app " in text

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
