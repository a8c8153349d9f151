"""The wheel and the source distribution in clean environments, on every Python of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

#: All that a bare install may bring: five libraries, and what rich needs.
BARE = {"headrace", "apsw", "click", "cronsim", "msgspec", "rich", "markdown-it-py", "mdurl", "pygments"}

SHOP = """
from headrace import App, current_job

app = App()

@app.task
async def add(a: int, b: int) -> int:
    return a + b

@app.task(run_in="process")
def square(number: int) -> int:
    return number * number

@app.every(60)
def tidy_up() -> None: ...
"""


#: A limit changes what the worker knows of a task, as a pause does.
PAUSED = """
import asyncio
from shop import add, app

async def main():
    job = await add.enqueue(2, 3)
    async with app.worker():
        print(await job.result(timeout=30), end=" ")
    await app.admin.pause(task="shop.add")
    job = await add.enqueue(2, 3)
    async with app.worker():
        while not ((info := await job.info()).waiting_for or info.status.over):
            await asyncio.sleep(0.01)
    print(info.status)

asyncio.run(main())
"""


def run(*command: str | Path, folder: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "PYTHON"))}
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution of this tree."""
    folder = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "venv", folder / "builder", folder=folder)
    python = folder / "builder" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "hatchling", folder=folder)
    run(python, "-m", "hatchling", "build", "--directory", folder / "dist", folder=ROOT)
    return folder / "dist"


def interpreter(version: str) -> str:
    found = subprocess.run([ROOT / "scripts" / "find-python", version], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(f"Python {version} is not installed here")
    return found.stdout.strip()


@pytest.mark.parametrize("form", ["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
@pytest.mark.parametrize("version", PYTHONS)
def test_a_clean_environment_runs_jobs(packages: Path, tmp_path: Path, version: str, form: str) -> None:
    [package] = packages.glob(form)
    run(interpreter(version), "-m", "venv", tmp_path / "clean", folder=tmp_path)
    programs = tmp_path / "clean" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", package, folder=tmp_path)
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    for task, arguments in (("add", "[2, 3]"), ("square", "[7]")):
        run(programs / "headrace", "enqueue", "shop:app", task, arguments, folder=folder)
    run(programs / "headrace", "worker", "shop:app", "--burst", folder=folder)
    shown = run(programs / "headrace", "jobs", "shop:app", "--json", folder=folder)
    assert shown.count('"status": "succeeded"') == 2, shown
    assert _installed(programs / "python", tmp_path) == BARE


def test_the_oldest_versions_that_are_declared_run_jobs(packages: Path, tmp_path: Path) -> None:
    [package] = packages.glob("*.whl")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest = [each.replace(">=", "==") for each in declared]
    run(interpreter("3.11"), "-m", "venv", tmp_path / "clean", folder=tmp_path)
    programs = tmp_path / "clean" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", package, *oldest, folder=tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    assert run(programs / "python", "-c", PAUSED, folder=tmp_path) == "5 queued\n"


def _installed(python: Path, folder: Path) -> set[str]:
    listed = run(python, "-m", "pip", "list", "--format=freeze", folder=folder)
    names = {line.partition("==")[0].partition(" @")[0].lower() for line in listed.splitlines()}
    return {name.replace("_", "-") for name in names} - {"pip", "setuptools"}


def test_the_wheel_holds_all_files_of_the_package_and_no_other(packages: Path) -> None:
    [wheel] = packages.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("headrace/")}
    files = [path for path in (ROOT / "src" / "headrace").rglob("*") if path.is_file()]
    assert held == {
        path.relative_to(ROOT / "src").as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert "headrace/py.typed" in held


def test_the_source_distribution_holds_what_tests_and_site_are_made_from(packages: Path) -> None:
    [sdist] = packages.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        held = {Path(name).parts[1] for name in opened.getnames()}
    assert {"benchmarks", "docs", "examples", "scripts", "src", "tests", "Makefile", "mkdocs.yml"} <= held
