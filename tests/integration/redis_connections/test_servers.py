"""The servers that the other tests rely on: they start, answer, survive, and are gone afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.servers import Server, available, kind_of, require, rows
from tests.support.waiting import wait_until_sync


@pytest.fixture(params=rows())
def program(request: pytest.FixtureRequest) -> Path:
    return require(request.param)


def test_a_server_answers_once_it_is_started(redis_server: Server) -> None:
    assert redis_server.command("PING") == b"PONG"
    assert redis_server.url == f"redis://127.0.0.1:{redis_server.port}/0"


def test_each_row_runs_the_version_it_is_named_for() -> None:
    for kind, program in available().items():
        if program is not None:
            assert kind_of(program).startswith(kind)


def test_an_append_only_file_keeps_a_key_over_a_restart(program: Path, tmp_path: Path) -> None:
    with Server(program, directory=tmp_path, appendonly=True) as server:
        port, pid = server.port, server.pid
        server.command("SET", "key", "kept")
        server.restart()
        assert server.command("GET", "key") == b"kept"
        assert server.port == port
        assert server.pid != pid


def test_an_append_only_file_keeps_a_key_over_a_crash(program: Path, tmp_path: Path) -> None:
    with Server(program, directory=tmp_path, appendonly=True) as server:
        server.command("SET", "key", "kept")
        server.kill()
        assert not server.running
        server.start()
        assert server.command("GET", "key") == b"kept"


def test_without_an_append_only_file_a_restart_forgets(program: Path, tmp_path: Path) -> None:
    with Server(program, directory=tmp_path) as server:
        server.command("SET", "key", "forgotten")
        server.restart()
        assert server.command("GET", "key") is None


def test_arguments_are_passed_on(program: Path, tmp_path: Path) -> None:
    with (
        Server(program, directory=tmp_path, arguments=["--requirepass", "secret"]) as server,
        pytest.raises(servers.ServerError, match="NOAUTH"),
    ):
        server.command("GET", "key")


def test_a_server_that_cannot_start_says_why(program: Path, tmp_path: Path) -> None:
    server = Server(program, directory=tmp_path, arguments=["--maxmemory", "nonsense"])
    with pytest.raises(RuntimeError, match="maxmemory"):
        server.start()
    assert not server.running


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's death")
def test_a_server_dies_with_the_process_that_started_it(program: Path, tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from tests.support.servers import Server\n"
        "server = Server(pathlib.Path(sys.argv[1]), directory=pathlib.Path(sys.argv[2]))\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    starter = subprocess.run(
        [sys.executable, "-c", script, program, tmp_path], stdout=subprocess.PIPE, text=True, check=False
    )
    pid = int(starter.stdout)
    wait_until_sync(lambda: not _is_running(pid), message="the orphan is gone")


def _is_running(pid: int) -> bool:
    """Whether the process works. A process that has ended and was not awaited yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_missing_server_skips_on_a_laptop_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "available", lambda: {"redis-6.2": None, "redis-8": None})
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no redis-6\.2 server"):
        require("redis-6.2")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"no redis-6\.2 server"):
        require("redis-6.2")
    with pytest.raises(pytest.skip.Exception, match="no redis-8 server"):
        require("redis-8")
