"""The tutorial, followed to its end in an empty folder."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import App, JobStatus
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"

HEADRACE = [sys.executable, "-m", "headrace"]


def files(name: str) -> list[str]:
    """The versions of a file on the page, in their order."""
    return re.findall(rf"^```python\n(# {name}\n.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def commands(containing: str) -> list[list[str]]:
    """Commands of the page, as words."""
    found = re.findall(r"^\$ (.*)$", PAGE.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in found if containing in line]


class Folder:
    """The folder of the reader, and the processes that run in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._processes.append(process)
        return process

    def run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.mark.more
@pytest.mark.timeout(120)
async def test_the_tutorial_works_from_its_beginning_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_URL", raising=False)
    [_, *worker] = commands("headrace worker shop:app")[0]
    [_, *replay] = commands("dead replay")[0]
    [_, *jobs] = commands("headrace jobs")[0]
    folder, store = Folder(tmp_path), App(f"sqlite:///{tmp_path}/headrace.db")

    async def mails(*statuses: JobStatus) -> bool:
        found = sorted(job.status for job in await store.admin.jobs("mails"))
        return found == sorted(statuses)

    try:
        first, repaired = files("shop.py")
        (tmp_path / "shop.py").write_text(first)
        (tmp_path / "main.py").write_text(*files("main.py"))
        main = folder.start(sys.executable, "main.py")
        running = folder.start(*HEADRACE, *worker)
        output, _ = main.communicate(timeout=60)
        assert re.fullmatch(r"stored \w{26}\nresult 5\n", output)
        await wait_until(lambda: mails(JobStatus.SUCCEEDED, JobStatus.DEAD), timeout=30)
        assert "exhausted  ValueError: nobod" in folder.run(*HEADRACE, *commands("headrace dead")[0][1:])

        (tmp_path / "shop.py").write_text(repaired)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=40)
        folder.start(*HEADRACE, *worker)
        assert folder.run(*HEADRACE, *replay) == "1 dead letter replayed\n"
        await wait_until(lambda: mails(JobStatus.SUCCEEDED, JobStatus.SUCCEEDED), timeout=30)
        assert folder.run(*HEADRACE, *jobs).count("succeeded") == 2

        (tmp_path / "test_shop.py").write_text(*files("test_shop.py"))
        assert "1 passed" in folder.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    finally:
        await store.close()
        folder.end()
