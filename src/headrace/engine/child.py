"""The main program of a child process: takes a job, runs it, answers, until its worker is gone."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import inspect
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from contextvars import copy_context
from typing import Any

import msgspec

from headrace.core.claim import Claim
from headrace.core.directives import RetryLater, Snooze
from headrace.core.message import Source, Stream, decode_envelope

from .capture import capture
from .failure import described, failure_of
from .main_module import MainModule
from .pipe import Assignment, ChildSetting, Raised, Returned, read_assignment
from .processes import PATIENCE
from .registry import Handler, Registry, find_anywhere
from .resources import Resources
from .run import Run, current_run
from .telling import Telling

PR_SET_PDEATHSIG = 1


class Child:
    """Reads in a thread and works in the main one: a worker that goes away ends a busy child too."""

    def __init__(self, connection: socket.socket, main: MainModule) -> None:
        self._connection = connection
        self._main = main
        self._jobs: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
        self._taken = self._answered = 0
        self._resources: dict[Registry, Resources] = {}
        self._telling = Telling(connection)
        self._captures = False
        self._loop = asyncio.new_event_loop()

    def serve(self) -> None:
        threading.Thread(target=self._read, name="headrace reader", daemon=True).start()
        while (assignment := self._jobs.get()) is not None:
            answer = self._do(assignment)
            self._answered += 1
            try:
                self._telling.answer(answer)
            except OSError:
                break  # the worker is gone
        self._leave()
        os._exit(0)

    def _read(self) -> None:
        while (assignment := read_assignment(self._connection)) is not None:
            self._taken += 1
            self._jobs.put(assignment)
        if self._taken != self._answered:
            os._exit(0)  # in the middle of a job that is no longer ours
        self._jobs.put(None)
        time.sleep(PATIENCE)
        os._exit(1)  # the leaving takes too long, and perhaps there is no worker to see it

    def _leave(self) -> None:
        for resources in reversed(self._resources.values()):
            self._loop.run_until_complete(resources.close())

    def _do(self, assignment: Assignment) -> Returned | Raised:
        try:
            registry, handler = self._handler(assignment)
            value = self._run(handler, assignment, self._entered(registry))
        except BaseException as error:
            return _raised(error)
        try:
            return Returned(handler.encode(value))
        except Exception as error:
            return Returned(None, f"the result cannot be encoded: {error}")

    def _handler(self, assignment: Assignment) -> tuple[Registry, Handler]:
        found = find_anywhere(assignment.task)
        if found is None:
            self._load(assignment.module)
            found = find_anywhere(assignment.task)
        if found is None:
            raise LookupError(f"{assignment.module} does not declare a task called {assignment.task}")
        return found

    def _entered(self, registry: Registry) -> Resources:
        """What the jobs of an app stand on; its lifespan is entered before its first job here."""
        resources = self._resources.get(registry)
        if resources is None:
            resources = Resources(lifespan=registry.lifespan, announce=_print_error, loop=self._loop)
            self._loop.run_until_complete(resources.open())
            self._resources[registry] = resources
        return resources

    def _load(self, module: str) -> None:
        if module == "__main__":
            self._main.load()
        else:
            importlib.import_module(module)

    def _run(self, handler: Handler, assignment: Assignment, resources: Resources) -> Any:
        source = Source(Stream("queue", assignment.queue))
        claim = Claim(source, assignment.id, assignment.body, None, 0, assignment.state)
        envelope = decode_envelope(assignment.body)
        args, kwargs = handler.decode(envelope.payload)
        run = Run(claim, envelope, handler, args, kwargs, resources)
        run.tell_progress(self._telling.progress)
        if handler.job_logs and not self._captures:
            # Not before the program's modules are loaded, which may set up logging.
            self._captures = True
            capture(lambda run: self._telling.log(run.handler.job_logs))
        if assignment.timeout is not None:
            run.begin_timeout(assignment.timeout)
        context = copy_context()
        context.run(current_run.set, run)
        try:
            value = context.run(handler.function, *args, **kwargs)
            if inspect.iscoroutine(value):
                task = context.run(self._loop.create_task, value)
                return self._loop.run_until_complete(task)
            return value
        finally:
            run.ended = True


def _print_error(name: str, error: BaseException) -> None:
    sys.stderr.write(f"headrace: {name} did not end well: {described(error)}\n")
    sys.stderr.flush()


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
    logging.getLogger().setLevel(setting.level)  # until the program sets up its own
    Child(socket.socket(fileno=setting.descriptor), setting.main).serve()


if __name__ == "__main__":
    main()
