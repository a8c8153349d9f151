"""The worker's side of one child process: starts it, sends it jobs, and ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from typing import Protocol, cast

import msgspec

from .exit_watch import ExitWatch
from .main_module import GUARD, MainModule
from .protocol import (
    ChildJob,
    ChildSetting,
    Frames,
    FromChild,
    Logged,
    Progressed,
    Raised,
    Returned,
    Started,
    frame,
)

#: Seconds from an assignment to the start of its function: a new interpreter, imports, the lifespan.
START_MOST = 300.0

#: Seconds until a child that has closed its connection is killed. Mostly it is about to end: a process that
#: ends closes its connection first, and how it ended is then the better reason.
LINGER = 0.5


class ChildDied(Exception):
    """A child process ended during its job."""


class ChildNotReady(Exception):
    """A child process did not begin the function of its job in time."""


class Status(Enum):
    """A child is idle and busy in turns. Then it is ending, until its exit is seen."""

    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"
    GONE = "gone"


class ChildListener(Protocol):
    """Gets the messages of a child about its assignment, before the answer."""

    def started(self) -> None: ...

    def reported(self, message: Progressed | Logged) -> None: ...


class ChildProcess(asyncio.Protocol):
    """Runs one assignment at a time. Kills the process and its group when an assignment is not completed.

    `gone` is called once, when the process has ended for any reason.
    """

    def __init__(self, process: subprocess.Popen[bytes], gone: Callable[[ChildProcess], None]) -> None:
        self.status = Status.IDLE
        self._process = process
        self._gone = gone
        self._frames = Frames()
        self._number = 0  # of the assignment
        self._call: ChildListener | None = None
        self._answer: asyncio.Future[Returned | Raised] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._why = ""  # why it was killed
        self._transport: asyncio.Transport | None = None
        self._connection: socket.socket
        self._watch: ExitWatch

    @classmethod
    async def start(cls, gone: Callable[[ChildProcess], None]) -> ChildProcess:
        """Start a new process. Raises `OSError` when the system cannot start one now."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                child = cls(_spawned(theirs.fileno()), gone)
            await child._connect(ours)
        except BaseException:
            ours.close()
            raise
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ready(self) -> bool:
        """Whether the process is idle and alive. It asks the system, since a recent end may not be noticed
        yet."""
        if self.status is not Status.IDLE or not hasattr(os, "waitid"):
            return self.status is Status.IDLE
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False  # the user's program reaps or ignores all its children

    async def do(self, assignment: ChildJob, call: ChildListener) -> Returned | Raised:
        """Run a job in the child. Raises `ChildDied` when the child ends first. A cancellation kills it."""
        loop = asyncio.get_running_loop()
        self.status, self._number, self._call = Status.BUSY, assignment.number, call
        answer: asyncio.Future[Returned | Raised] = loop.create_future()
        self._answer = answer
        self._patience = loop.call_later(START_MOST, self._lose_patience)
        try:
            self._send(frame(assignment))
            return await answer
        finally:
            self._patience.cancel()
            self._call = self._answer = None
            if self.status is Status.BUSY:
                self.kill()

    def kill(self, why: str = "") -> None:
        """Kill the process at once, with all processes that it started in its group."""
        if self.status is not Status.GONE:
            self.status, self._why = Status.ENDING, self._why or why
            self._kill_group()

    def leave(self) -> None:
        """Close the connection. An idle child then ends by itself."""
        if self.status is Status.IDLE:
            self.status = Status.ENDING
            self._hang_up()
        else:
            self.kill()

    # --- events of the connection and the process ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._hear(message)
        except Exception as error:
            self.kill(f"it sent what cannot be understood: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        if self.status is Status.BUSY:
            asyncio.get_running_loop().call_later(LINGER, self.kill, "it closed its connection")
        elif self.status is Status.IDLE:
            self.kill("it closed its connection")

    def _hear(self, message: FromChild) -> None:
        if self.status not in (Status.IDLE, Status.BUSY):
            return
        current = self.status is Status.BUSY and message.number == self._number
        if isinstance(message, Progressed | Logged):
            # Messages from a thread of an earlier job are ignored.
            if current and self._call is not None:
                self._call.reported(message)
        elif not current:
            self.kill("it spoke of an assignment that it does not have")
        elif isinstance(message, Started):
            self._begin()
        else:
            self._end(message)

    def _begin(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._call is not None:
            self._call.started()

    def _end(self, answer: Returned | Raised) -> None:
        self.status = Status.IDLE
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _lose_patience(self) -> None:
        self._fail(
            ChildNotReady(
                f"a child process did not begin the job within {START_MOST:g} s: it loads the task's module "
                f"and enters the lifespan first. {GUARD}"
            )
        )

    def _exited(self) -> None:
        if self.status is Status.BUSY:
            self._drain()  # the answer may be still unread
        if self.status is Status.BUSY:
            self._kill_group()  # the processes that it started
        self._process.wait()
        self.status = Status.GONE
        self._fail(ChildDied(self._how_it_ended()))
        self._hang_up()
        self._gone(self)

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        if code >= 0:
            return f"its process exited with {code}"
        if self._why and code == -signal.SIGKILL:
            return f"its process was killed: {self._why}"
        return f"its process was ended by signal {-code}"

    def _drain(self) -> None:
        try:
            while data := self._connection.recv(1 << 16):
                self.data_received(data)
        except OSError:
            pass  # no more data; other processes may still hold the connection

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # --- the process --------------------------------------------------------------------------------------

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, sock=connection)
            self._watch = ExitWatch(self._process, self._exited)
        except BaseException:
            if self._transport is not None:
                self._transport.abort()  # before the socket is closed: the loop must not watch its number
            self._kill_group()
            self._process.wait()
            raise

    def _send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def _hang_up(self) -> None:
        assert self._transport is not None
        self._transport.abort()  # all data is sent, or no longer needed

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the group has no process any more
        except PermissionError:
            self._process.kill()  # a process of the group runs as another user


def _spawned(descriptor: int) -> subprocess.Popen[bytes]:
    # With the import paths of this process, the child finds the same modules.
    setting = ChildSetting(descriptor, sys.path, MainModule.here(), logging.getLogger().level)
    return subprocess.Popen(  # nosec B603 # our own program
        [
            sys.executable,
            "-m",
            "headrace.engine.running.children.main",
            msgspec.json.encode(setting).decode(),
        ],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # only the worker handles Ctrl-C on the terminal
    )
