"""`app.sync` is generated from the asynchronous classes: what is committed is what the script writes
today."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.admin import Admin
from headrace.jobs.scheduling.schedules import Schedules
from headrace.sync import SyncAdmin, SyncSchedules

SCRIPT = Path(__file__).parents[2] / "scripts/generate-sync"


def test_the_committed_files_are_what_the_script_writes() -> None:
    pytest.importorskip("ruff", reason="the script formats by ruff")
    check = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, ""), f"run scripts/generate-sync: {check.stdout} differ"


@pytest.mark.parametrize(("own", "mirrored"), [(SyncAdmin, Admin), (SyncSchedules, Schedules)])
def test_each_coroutine_has_a_plain_method_with_the_same_parameters_and_help(
    own: type, mirrored: type
) -> None:
    coroutines = {
        name: function
        for name, function in vars(mirrored).items()
        if inspect.iscoroutinefunction(function) and not name.startswith("_")
    }
    assert len(coroutines) >= 6
    for name, function in coroutines.items():
        plain = getattr(own, name)
        assert not inspect.iscoroutinefunction(plain)
        assert inspect.signature(plain).parameters == inspect.signature(function).parameters
        assert _listed(plain) == _listed(function)


def _listed(function: object) -> list[str]:
    """What each item of the lists in a function's help begins with. No help at all is an error."""
    text = inspect.getdoc(function)
    assert text
    return re.findall(r"^- (`\w+`)", text, re.MULTILINE)
