"""Django's own tests of task backends pass, on Django 6 and on Django 5.2 with django-tasks.

They are in the source distribution of Django 6, which is downloaded for this. That of django-tasks has none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import django
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DJANGO_6 = "django>=6,<6.1"

#: Made once, as the other environments are; `make clean` removes both.
DOWNLOADS = ROOT / ".venv-django6-sdist"
ENVIRONMENT = ROOT / ".venv-django6"

pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]


def test_the_tests_of_django_pass(of_django: Path) -> None:
    """With the Django of this environment."""
    summary = own_tests(Path(sys.executable), of_django)
    assert summary["django"] == django.get_version()


def test_the_tests_of_django_6_pass(of_django: Path, python_with_django_6: Path) -> None:
    summary = own_tests(python_with_django_6, of_django)
    assert summary["django"].startswith("6.")


def own_tests(python: Path, folder: Path) -> dict[str, Any]:
    command = [str(python), str(HERE / "own_tests.py"), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert (summary["failed"], summary["left_out"]) == ([], 11)
    assert summary["ran"] >= 65
    return summary


@pytest.fixture(scope="module")
def of_django() -> Path:
    """The folder `tests/tasks` of Django's source distribution."""
    if not list(DOWNLOADS.glob("*.tar.gz")):
        options = ["--no-deps", "--no-binary", ":all:", "--ignore-requires-python", "--dest", str(DOWNLOADS)]
        fetched(sys.executable, "-m", "pip", "download", "--quiet", *options, DJANGO_6)
    [archive] = DOWNLOADS.glob("*.tar.gz")
    name = archive.name.removesuffix(".tar.gz")
    folder = DOWNLOADS / name / "tests/tasks"
    with tarfile.open(archive) as files:
        wanted = [each for each in files if each.name.startswith(f"{name}/tests/tasks/")]
        files.extractall(DOWNLOADS, members=wanted, filter="data")
    return folder


@pytest.fixture(scope="module")
def python_with_django_6() -> Path:
    """An environment with Django 6, which needs Python 3.12."""
    python = ENVIRONMENT / "bin/python"
    if not (ENVIRONMENT / ".stamp").exists():
        found = subprocess.run(
            [ROOT / "scripts/find-python", "3.12", "3.13", "3.14"],
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            missing("Django 6 needs Python 3.12 or later, and none is installed")
        fetched(found.stdout.strip(), "-m", "venv", str(ENVIRONMENT))
        fetched(str(python), "-m", "pip", "install", "--quiet", "--editable", str(ROOT), DJANGO_6)
        (ENVIRONMENT / ".stamp").touch()
    return python


def fetched(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        missing(f"{' '.join(command)} failed: {ended.stderr[-500:]}")


def missing(what: str) -> None:
    """What cannot be had is skipped, except where everything must be tested."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)
