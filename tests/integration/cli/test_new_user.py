"""The first steps of a new user: a module of one's own, and the command line as it comes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SHOP = """
from headrace import App, RetryPolicy, Unrecoverable

app = App()

def bill(customer):
    raise LookupError(f"no customer {customer}")

@app.task(retry=RetryPolicy.fixed(1, 0.01))
async def charge(customer: int) -> None:
    bill(customer)

@app.task
async def refund(customer: int) -> None:
    raise Unrecoverable("it was never paid")
"""


def headrace(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return subprocess.run(
        [sys.executable, "-m", "headrace", *words],
        cwd=folder,
        env={**kept, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )


def test_the_log_of_a_worker_shows_why_a_job_died(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    for task in ("shop.charge", "shop.refund"):
        headrace(tmp_path, "enqueue", "shop:app", task, "[7]")
    output = headrace(tmp_path, "worker", "shop:app", "--burst").stderr
    retried, died = [line for line in output.splitlines() if " shop.charge " in line]
    assert "WARNING" in retried
    assert retried.endswith("LookupError: no customer 7")
    assert "ERROR" in died
    after = output[output.index(died) + len(died) :].splitlines()[1:]
    assert after[0] == "    Traceback (most recent call last):"
    assert f'"{tmp_path / "shop.py"}", line 11, in charge' in after[1]
    assert "    LookupError: no customer 7" in after
    assert output.count("Traceback") == 2  # one for each that died, and none for the retry

    # An error of headrace is called as it is imported.
    for text in (output, headrace(tmp_path, "dead", "shop:app").stdout):
        assert "headrace.Unrecoverable: it was never paid" in text
        assert "headrace.core" not in text
