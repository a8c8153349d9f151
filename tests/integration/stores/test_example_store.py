"""The store in `examples/` is what its guide says: a package of its own that passes the contract suite."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples/jsonl_store"

#: What a store that is no part of headrace may import.
PUBLIC = {"headrace", "headrace.store", "headrace.testing.contract"}


@pytest.mark.more
@pytest.mark.timeout(900)
def test_the_example_passes_the_contract_suite() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-5000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed[1]) > 1000
    skipped = [line for line in run.stdout.splitlines() if line.startswith("SKIPPED")]
    assert skipped
    reasons = tuple(
        f"it is {part}" for part in ("no PartitionedStore", "not Limiting", "not Moving", "not Recording")
    )
    assert [line for line in skipped if not line.endswith(reasons)] == []


def test_the_example_uses_public_modules_alone() -> None:
    imported = {name for file in EXAMPLE.rglob("*.py") for name in imports_of(file)}
    assert {name for name in imported if name.startswith("headrace")} <= PUBLIC
    assert "headrace.store" in imported


def imports_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module or "")
    return found
