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

#: The versions of Django 6, and how many of their tests do not apply.
LEFT_OUT = {"6.0": 11, "6.1": 15}

pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]


def test_the_tests_of_django_pass() -> None:
    """With the Django of this environment."""
    summary = own_tests(Path(sys.executable), "6.0")
    assert summary["django"] == django.get_version()


@pytest.mark.parametrize("version", LEFT_OUT)
def test_the_tests_of_django_6_pass(version: str) -> None:
    summary = own_tests(python_with_django(version), version)
    assert summary["django"].startswith(version)


def own_tests(python: Path, version: str) -> dict[str, Any]:
    command = [str(python), str(HERE / "own_tests.py"), str(of_django(version))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert (summary["failed"], summary["left_out"]) == ([], LEFT_OUT[version])
    assert summary["ran"] >= 65
    return summary


def of_django(version: str) -> Path:
    """The folder `tests/tasks` of Django's source distribution. As the environments, it is made once, and
    `make clean` removes it."""
    downloads = ROOT / f".venv-django{version}-sdist"
    if not list(downloads.glob("*.tar.gz")):
        options = ["--no-deps", "--no-binary", ":all:", "--ignore-requires-python", "--dest", str(downloads)]
        fetched(sys.executable, "-m", "pip", "download", "--quiet", *options, f"django=={version}.*")
    [archive] = downloads.glob("*.tar.gz")
    name = archive.name.removesuffix(".tar.gz")
    folder = downloads / name / "tests/tasks"
    with tarfile.open(archive) as files:
        wanted = [each for each in files if each.name.startswith(f"{name}/tests/tasks/")]
        files.extractall(downloads, members=wanted, filter="data")
    return folder


def python_with_django(version: str) -> Path:
    """An environment with a Django 6, which needs Python 3.12."""
    environment = ROOT / f".venv-django{version}"
    python = environment / "bin/python"
    if not (environment / ".stamp").exists():
        found = subprocess.run(
            [ROOT / "scripts/find-python", "3.12", "3.13", "3.14"],
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            missing("Django 6 needs Python 3.12 or later, and none is installed")
        fetched(found.stdout.strip(), "-m", "venv", str(environment))
        install = ["-m", "pip", "install", "--quiet", "--editable", str(ROOT), f"django=={version}.*"]
        fetched(str(python), *install)
        (environment / ".stamp").touch()
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
