"""A PostgreSQL cluster of its own for tests: in a temporary folder, on a free port of the loopback, as an
unprivileged user, because PostgreSQL refuses to run as root."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

import pytest

from headrace.testing.waiting import wait_until_sync

HOST: Final = "127.0.0.1"
PORTS: Final = range(20_000, 32_000)

#: A port that was free may be taken when the server asks for it. Then another one is tried.
START_ATTEMPTS: Final = 5

#: Seconds until a server must answer, and until it must be gone.
START_TIMEOUT: Final = 60.0
STOP_TIMEOUT: Final = 20.0

#: The user and group as which it runs where the tests run as root: nobody.
NOBODY: Final = 65534

#: Linux: the signal that a child gets when its parent dies (sys/prctl.h).
PR_SET_PDEATHSIG: Final = 1

#: The name of the database user. Each process on the loopback may log in as it.
USER: Final = "headrace"

#: Sessions that a pooler has.
POOL_SIZE: Final = 5

#: Settings of a server whose data need not survive anything.
FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

#: Settings of every server.
SETTINGS: Final = {
    "listen_addresses": HOST,
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "5s",
    "log_min_messages": "warning",
    "deadlock_timeout": "100ms",
}


@functools.cache
def programs() -> Path | None:
    """The folder with `initdb` and `postgres`, of the newest version; None: there is none."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if not folders and (found := shutil.which("postgres")):
        folders = [Path(found).resolve().parent]
    complete = [folder for folder in folders if (folder / "pg_isready").exists()]
    return max(complete, key=lambda folder: folder.parent.name.zfill(4), default=None)


def required_programs() -> Path:
    """Where the server is missing the test is skipped, and in CI it fails."""
    folder = programs()
    return folder if folder is not None else missing("no PostgreSQL server on this machine")


def required_pooler() -> Path:
    found = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    return Path(found) if found else missing("no pgbouncer on this machine")


def missing(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; in CI it must be there, see `make setup`")
    pytest.skip(reason)


class PostgresServer:
    """One cluster. Its port and folder stay the same over restarts. `fast`: its data need not be durable."""

    def __init__(
        self,
        *,
        fast: bool = True,
        settings: Mapping[str, str] | None = None,
        standby_of: PostgresServer | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._programs = required_programs()
        self._primary = standby_of
        self._environment = environment or {}
        self._settings = {**SETTINGS, **(FAST if fast else {}), **(settings or {})}
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return self.url_as(USER)

    def url_as(self, role: str) -> str:
        return f"postgresql://{role}@{HOST}:{self.port}/postgres"

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the server has no folder before its first start")
        return self._folder

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the server. It starts one more process for each session."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it takes connections. Does nothing when it runs."""
        if self.running:
            return
        if self._folder is None:
            self._make_cluster()
        attempts = START_ATTEMPTS if self.port == 0 else 1
        for _ in range(attempts):
            port = self.port or free_port()
            if self._launch(port):
                self.port = port
                return
        raise RuntimeError(f"PostgreSQL does not start:\n{(self.folder / 'server.log').read_text()[-2000:]}")

    def stop(self) -> None:
        """A fast shutdown: sessions are ended, and the data is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """An immediate shutdown, which is a crash to the data."""
        self._end(signal.SIGQUIT)

    def remove(self) -> None:
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _make_cluster(self) -> None:
        self._folder = nobodys_folder("headrace-postgres-")
        process = run_as_nobody(self._maker(self._folder / "data"), log=self._folder / "made.log")
        if process.wait(START_TIMEOUT):
            raise RuntimeError(f"no cluster was made:\n{(self._folder / 'made.log').read_text()[-2000:]}")

    def _maker(self, data: Path) -> list[str]:
        """The command that makes the data: from nothing, or as a copy of the primary."""
        if self._primary is None:
            words = ["-D", str(data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
            return [str(self._programs / "initdb"), *words, "--no-sync", "--no-instructions"]
        words = ["-D", str(data), "-U", USER, "-h", HOST, "-p", str(self._primary.port), "-R", "-X", "stream"]
        return [str(self._programs / "pg_basebackup"), *words, "--checkpoint=fast", "--no-sync"]

    def _launch(self, port: int) -> bool:
        """Start on this port; False when the process ended before it took connections: a neighbour may have
        taken the port in between."""
        process = self._process = run_as_nobody(
            [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *self._options(port)],
            log=self.folder / "server.log",
            environment=self._environment,
        )
        atexit.register(self.kill)
        wait_until_sync(
            lambda: process.poll() is not None or (self._says_ready(process.pid) and self._answers(port)),
            timeout=START_TIMEOUT,
            message="PostgreSQL takes connections",
        )
        if process.poll() is None:
            return True
        self.kill()
        return False

    def _options(self, port: int) -> list[str]:
        settings = {**self._settings, "port": str(port), "unix_socket_directories": str(self.folder)}
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def _says_ready(self, pid: int) -> bool:
        """Whether this very process says so in its file."""
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and (lines[0].strip(), lines[7].strip()) == (str(pid), "ready")

    def _answers(self, port: int) -> bool:
        ready = subprocess.run(
            [str(self._programs / "pg_isready"), "-q", "-h", HOST, "-p", str(port)], check=False
        )
        return ready.returncode == 0

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.kill)
        end(process, number)


class Pooler:
    """PgBouncer in transaction mode in front of a server."""

    def __init__(self, server: PostgresServer) -> None:
        self._program = required_pooler()
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = nobodys_folder("headrace-pgbouncer-")
        self.port = 0

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@{HOST}:{self.port}/postgres"

    def __enter__(self) -> Pooler:
        self.port = free_port()
        (self._folder / "users.txt").write_text(f'"{USER}" ""\n')
        (self._folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={HOST} port={self._server.port}\n[pgbouncer]\n"
            f"listen_addr = {HOST}\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = trust\n"
            f"auth_file = {self._folder / 'users.txt'}\npool_mode = transaction\n"
            f"default_pool_size = {POOL_SIZE}\n"
        )
        process = self._process = run_as_nobody(
            [str(self._program), str(self._folder / "pgbouncer.ini")], log=self._folder / "log"
        )
        atexit.register(self._end)
        wait_until_sync(
            lambda: process.poll() is not None or is_listening(self.port),
            timeout=START_TIMEOUT,
            message="PgBouncer takes connections",
        )
        if process.poll() is not None:
            raise RuntimeError(f"PgBouncer does not start:\n{(self._folder / 'log').read_text()[-2000:]}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            atexit.unregister(self._end)
            end(process, signal.SIGINT)


def nobodys_folder(prefix: str) -> Path:
    """A new folder that the server's user may write in."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    return folder


def run_as_nobody(
    words: list[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program as an unprivileged user. It does not outlive the thread that has started it."""
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    with log.open("ab") as output:
        return subprocess.Popen(
            words,
            cwd=log.parent,
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(log.parent), "LC_ALL": "C"}
            | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent,
            **user,
        )


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    process.send_signal(number)
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        if not is_listening(port):
            return port


def is_listening(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.connect((HOST, port))
        return True
    return False


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
