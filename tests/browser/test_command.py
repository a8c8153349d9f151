"""`headrace dashboard` as a process: what it prints, which requests it refuses, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headrace import App


@pytest.fixture
def url(tmp_path: Path) -> str:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="add")
    async def add(a: int) -> int:
        return a

    app.sync.enqueue(add.call(1))
    app.sync.close()
    return f"sqlite:///{tmp_path}/jobs.db"


def start(*words: str, **variables: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", "dashboard", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**clean, **variables},
    )


def refused(*words: str, **variables: str) -> str:
    process = start(*words, **variables)
    out, words_said = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, ""), words_said
    return words_said


@pytest.fixture
def running(url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = start("--url", url, "--port", "0")
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"SQLite file .*jobs\.db at (http://127\.0\.0\.1:\d+)/ \(Ctrl-C ends it\)", line)
    assert found is not None, line
    yield process, found[1]
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_without_complaint_also_with_a_live_page_open(
    running: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    process, address = running
    with httpx.stream("GET", f"{address}/live?path=/", timeout=10) as page:
        lines = page.iter_lines()
        assert next(lines) == "event: live"
        process.send_signal(number)
        rest = "\n".join(lines)  # it is ended in order, not cut off
    out, words_said = process.communicate(timeout=10)
    assert rest
    assert (out, words_said) == ("", "")
    assert process.returncode in (0, -number)


def test_another_address_is_refused_without_a_password(url: str) -> None:
    for host in ("0.0.0.0", "::", "10.0.0.7", "jobs.example"):
        assert "set a password first" in refused("--url", url, "--host", host)
    assert "set a password first" in refused(
        "--url", url, "--host", "0.0.0.0", HEADRACE_DASHBOARD_PASSWORD=""
    )


def test_a_port_that_is_taken_is_said_in_a_line(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words_said = refused("--url", url, "--port", str(taken.getsockname()[1]))
    assert "cannot listen at 127.0.0.1" in words_said
    assert "Traceback" not in words_said


def test_a_missing_extra_is_named(url: str, tmp_path: Path) -> None:
    for name in ("starlette", "jinja2", "uvicorn"):
        folder = tmp_path / name
        folder.mkdir()
        # Found before the installed one, as if there were none.
        error = f"raise ModuleNotFoundError('No module named {name}', name={name!r})"
        (folder / f"{name}.py").write_text(error)
        words_said = refused("--url", url, PYTHONPATH=str(folder))
        assert f"the dashboard needs {name}: pip install 'headrace[dashboard]'" in words_said
