"""Child processes for CPU work: our own, kept warm, replaced one by one.

`ProcessPoolExecutor` breaks as a whole when one of its processes dies, and pickles what it sends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable

import msgspec

from headrace.core.directives import RetryLater, Snooze, Unrecoverable

from .failure import CARRIED
from .main_module import MainModule
from .pipe import Assignment, ChildSetting, Logged, Progressed, Raised, Returned, frame, read_from_child

#: Seconds that a child which was asked to leave has before it is killed.
PATIENCE = 5.0


class ChildDied(Exception):
    """A child process ended under its job."""


class RemoteError(Exception):
    """What a function raised in a child process; it carries the type, message and traceback as text."""


class EncodedResult(msgspec.Struct, frozen=True):
    """A result that the child has encoded already, or why it could not."""

    value: bytes | None
    note: str = ""


class Child:
    """One process, which does one job at a time."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self._connection = connection
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @classmethod
    def start(cls) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            # The same paths as here, so that the child finds the same modules.
            level = logging.getLogger().level
            setting = ChildSetting(theirs.fileno(), sys.path, MainModule.here(), level)
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace.engine.child", msgspec.json.encode(setting).decode()],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C on the terminal is the worker's business
            )
        ours.setblocking(False)
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def do(
        self, assignment: Assignment, said: Callable[[Progressed | Logged], None]
    ) -> Returned | Raised:
        """Have the child do a job; `ChildDied` when it ends meanwhile."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(sock=self._connection)
            reader, writer = self._streams
            writer.write(frame(assignment))
            await writer.drain()
            while True:
                message = await read_from_child(reader)
                if not isinstance(message, Progressed | Logged):
                    return message
                said(message)
        except (EOFError, OSError) as error:
            raise ChildDied(await self._how_it_ended()) from error

    def kill(self) -> None:
        self._process.kill()

    async def end(self) -> None:
        """Take the connection away, which is a child's sign to leave."""
        if self._streams is not None:
            self._streams[1].close()
        self._connection.close()
        await asyncio.get_running_loop().run_in_executor(None, self._wait)

    def _wait(self) -> None:
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def _how_it_ended(self) -> str:
        await self.end()
        code = self._process.returncode
        return f"its process was ended by signal {-code}" if code < 0 else f"its process exited with {code}"


class Processes:
    """At most `size` children; one is started when it is needed and stays for the next job."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._idle: list[Child] = []
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> Child:
        """A child that has nothing to do; give it back."""
        while True:
            while self._idle:
                child = self._idle.pop()
                if child.alive:
                    return child
                await child.end()
                self._count -= 1
            if self._count < self._size:
                self._count += 1
                return Child.start()
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    async def give_back(self, child: Child) -> None:
        """The job is over; a child that did not survive it is let go of."""
        if child.alive:
            self._idle.append(child)
        else:
            self._count -= 1
            await child.end()
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break

    async def close(self) -> None:
        """End the idle children. Busy ones were killed or have come back by now."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(child.end() for child in idle))


def raised_here(raised: Raised) -> Exception:
    """The error of a child as one that can be raised in this process."""
    text = raised.failure.error
    error: Exception
    match raised.directive:
        case "RetryLater":
            error = RetryLater(raised.delay, text)
        case "Snooze":
            error = Snooze(raised.delay, text)
        case "Unrecoverable":
            error = Unrecoverable(text)
        case _:
            error = RemoteError(f"{raised.failure.error_type}: {text}")
    setattr(error, CARRIED, raised.failure)
    return error
