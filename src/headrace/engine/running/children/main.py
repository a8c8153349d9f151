"""The main program of a child process: takes a job, runs it and answers, until its worker is gone."""

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
from functools import partial
from typing import Any

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.directives import RetryLater, Snooze, Unrecoverable
from headrace.core.messages.error_kinds import kinds_of
from headrace.core.messages.message import Envelope, Stream, decode_envelope
from headrace.core.runtime.child_process import become_child
from headrace.engine.declared.registry import (
    Declaration,
    Handler,
    Registry,
    find_declared,
    forget_what_failed_to_load,
)
from headrace.engine.running.failure import described, failure_of
from headrace.engine.running.injection.resources import Resources
from headrace.engine.running.job_log.capture import capture
from headrace.engine.running.run import Run, current_run

from .main_module import MainModule
from .pool import PATIENCE
from .protocol import ChildJob, ChildSetting, Raised, Returned, read_assignment
from .reports import ChildReports

PR_SET_PDEATHSIG = 1

#: Errors with which a function requests an outcome for its job.
_DIRECTIVES = (RetryLater, Snooze, Unrecoverable)


class Child:
    """Reads in a thread and works in the main thread. So the end of its worker ends a busy child too."""

    def __init__(self, connection: socket.socket, main: MainModule) -> None:
        self._connection = connection
        self._main = main
        self._jobs: queue.SimpleQueue[ChildJob | None] = queue.SimpleQueue()
        self._taken = self._answered = 0
        self._resources: dict[Registry, Resources] = {}
        self._reports = ChildReports(connection)
        self._captures = False
        self._loop = asyncio.new_event_loop()

    def serve(self) -> None:
        threading.Thread(target=self._read, name="headrace reader", daemon=True).start()
        while (assignment := self._jobs.get()) is not None:
            answer = self._do(assignment)
            self._answered += 1
            try:
                self._reports.answer(answer)
            except OSError:
                break  # the worker is gone
        self._leave()
        os._exit(0)

    def _read(self) -> None:
        while (assignment := self._next()) is not None:
            self._taken += 1
            self._jobs.put(assignment)
        if self._taken != self._answered:
            os.killpg(
                0, signal.SIGKILL
            )  # the job belongs to no worker now: end it, and the processes that it started
        self._jobs.put(None)
        time.sleep(PATIENCE)
        os._exit(1)  # the lifespan takes too long to end, and there may be no worker that kills this child

    def _next(self) -> ChildJob | None:
        try:
            return read_assignment(self._connection)
        except OSError:
            return None  # the worker is gone, or the job has closed all open descriptors

    def _leave(self) -> None:
        for resources in reversed(self._resources.values()):
            self._loop.run_until_complete(resources.close())

    def _do(self, assignment: ChildJob) -> Returned | Raised:
        try:
            registry, handler = self._handler(assignment.declaration)
            value = self._run(handler, assignment, self._entered(registry))
        except BaseException as error:
            return _raised(assignment.number, error)
        try:
            return Returned(assignment.number, handler.encode(value, assignment.id))
        except Exception as error:
            return Returned(assignment.number, None, f"the result cannot be encoded: {error}")

    def _handler(self, declaration: Declaration) -> tuple[Registry, Handler]:
        main = declaration.module == "__main__"
        module = self._main.name if main else declaration.module
        found = find_declared(declaration, module)
        if found is None:
            self._load(module, main=main)
            found = find_declared(declaration, module)
        if found is None:
            raise LookupError(
                f"{module} does not declare {declaration.function} as task {declaration.task} when it is "
                "imported: declare what runs in a process at the top of its module"
            )
        return found

    def _load(self, module: str, *, main: bool) -> None:
        try:
            if main:
                self._main.load()
            else:
                importlib.import_module(module)
        except BaseException:
            forget_what_failed_to_load()
            raise

    def _entered(self, registry: Registry) -> Resources:
        """The resources of an app. Its lifespan is entered before its first job in this process."""
        resources = self._resources.get(registry)
        if resources is None:
            resources = Resources(lifespan=registry.lifespan, announce=_print_error, loop=self._loop)
            self._loop.run_until_complete(resources.open())
            self._resources[registry] = resources
        return resources

    def _run(self, handler: Handler, assignment: ChildJob, resources: Resources) -> Any:
        stream = Stream("queue", assignment.queue)
        claim = Claim(stream, assignment.id, assignment.body, None, 0, assignment.state)
        envelope = decode_envelope(assignment.body)
        args, kwargs = _arguments(handler, assignment, envelope)
        run = Run(claim, envelope, handler, args, kwargs, resources)
        run.on_progress(partial(self._reports.progress, assignment.number))
        if handler.job_logs and not self._captures:
            # Only after the program's modules are loaded: they may set up logging.
            self._captures = True
            capture(lambda run: self._reports.log(run.handler.job_logs))
        context = copy_context()
        context.run(current_run.set, run)
        self._reports.begin(assignment.number)
        if assignment.timeout is not None:
            run.begin_timeout(assignment.timeout)
        try:
            value = context.run(handler.function, *args, **kwargs)
            if inspect.iscoroutine(value):
                task = context.run(self._loop.create_task, value)
                return self._loop.run_until_complete(task)
            return value
        finally:
            run.ended = True


def _arguments(
    handler: Handler, assignment: ChildJob, envelope: Envelope
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if assignment.arguments is not None and handler.decode_bare is not None:
        return handler.decode_bare(assignment.arguments)
    if handler.decode_bound is not None:
        return handler.decode_bound(assignment.id, envelope)
    return handler.decode(envelope.payload)


def _print_error(name: str, error: BaseException) -> None:
    sys.stderr.write(f"headrace: {name} did not end well: {described(error)}\n")
    sys.stderr.flush()


def _raised(number: int, error: BaseException) -> Raised:
    directive = next((kind.__name__ for kind in _DIRECTIVES if isinstance(error, kind)), "")
    delay = error.delay if isinstance(error, RetryLater | Snooze) else 0.0
    return Raised(number, failure_of(error), directive, delay, kinds_of(error))


def _die_with_parent() -> None:
    """Have the Linux kernel kill this process when its parent ends, even while a function holds the
    interpreter's lock."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    setting = msgspec.json.decode(sys.argv[1], type=ChildSetting)
    become_child()
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = setting.path
    logging.getLogger().setLevel(setting.level)  # until the program sets up its own logging
    Child(_own(setting.descriptor), setting.main).serve()


def _own(descriptor: int) -> socket.socket:
    """The connection, for this process only. Programs and forks that a job starts do not inherit it."""
    os.set_inheritable(descriptor, False)
    connection = socket.socket(fileno=descriptor)
    os.register_at_fork(after_in_child=connection.close)
    return connection


if __name__ == "__main__":
    main()
