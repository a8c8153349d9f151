"""The main program of a child process: takes a job, runs it, answers, until its worker is gone."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import inspect
import os
import queue
import signal
import socket
import sys
import threading
from contextvars import copy_context
from typing import Any

import msgspec

from headrace.core.claim import Claim
from headrace.core.directives import RetryLater, Snooze
from headrace.core.message import Source, Stream, decode_envelope

from .failure import failure_of
from .main_module import MainModule
from .pipe import Assignment, ChildSetting, FromChild, Raised, Returned, frame, read_assignment
from .registry import Handler, find_anywhere
from .run import Run, current_run

PR_SET_PDEATHSIG = 1


class Child:
    """Reads in a thread and works in the main one: a worker that goes away ends a busy child too."""

    def __init__(self, connection: socket.socket, main: MainModule) -> None:
        self._connection = connection
        self._main = main
        self._jobs: queue.SimpleQueue[Assignment] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()

    def serve(self) -> None:
        threading.Thread(target=self._read, name="headrace reader", daemon=True).start()
        while True:
            assignment = self._jobs.get()
            self._send(self._do(assignment))

    def _read(self) -> None:
        while (assignment := read_assignment(self._connection)) is not None:
            self._jobs.put(assignment)
        os._exit(0)

    def _do(self, assignment: Assignment) -> Returned | Raised:
        try:
            handler = self._handler(assignment)
            value = self._run(handler, assignment)
        except BaseException as error:
            return _raised(error)
        try:
            return Returned(handler.encode(value))
        except Exception as error:
            return Returned(None, f"the result cannot be encoded: {error}")

    def _handler(self, assignment: Assignment) -> Handler:
        handler = find_anywhere(assignment.task)
        if handler is None:
            self._load(assignment.module)
            handler = find_anywhere(assignment.task)
        if handler is None:
            raise LookupError(f"{assignment.module} does not declare a task called {assignment.task}")
        return handler

    def _load(self, module: str) -> None:
        if module == "__main__":
            self._main.load()
        else:
            importlib.import_module(module)

    def _run(self, handler: Handler, assignment: Assignment) -> Any:
        source = Source(Stream("queue", assignment.queue))
        claim = Claim(source, assignment.id, assignment.body, None, 0, assignment.state)
        envelope = decode_envelope(assignment.body)
        args, kwargs = handler.decode(envelope.payload)
        run = Run(claim, envelope, handler, args, kwargs)
        if assignment.timeout is not None:
            run.begin_timeout(assignment.timeout)
        context = copy_context()
        context.run(current_run.set, run)
        value = context.run(handler.function, *args, **kwargs)
        if inspect.iscoroutine(value):
            task = context.run(self._loop.create_task, value)
            return self._loop.run_until_complete(task)
        return value

    def _send(self, message: FromChild) -> None:
        self._connection.sendall(frame(message))


def _raised(error: BaseException) -> Raised:
    directive = type(error).__name__ if type(error).__module__ == "headrace.core.directives" else ""
    delay = error.delay if isinstance(error, RetryLater | Snooze) else 0.0
    return Raised(failure_of(error), directive, delay)


def _die_with_parent() -> None:
    """On Linux the kernel sees to it, also when a function holds the interpreter's lock."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    setting = msgspec.json.decode(sys.argv[1], type=ChildSetting)
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = setting.path
    Child(socket.socket(fileno=setting.descriptor), setting.main).serve()


if __name__ == "__main__":
    main()
