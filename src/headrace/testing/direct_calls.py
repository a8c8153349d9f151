"""Gives a task that a test calls as a function a run, so that `current_job()` works in it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from headrace.app import App
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import ENVELOPE_VERSION, Envelope, Stream
from headrace.core.records.job_info import JobProgress
from headrace.engine.running.run import Run, current_run
from headrace.jobs.options import TaskOptions

from .clock import Clock


class DirectCalls:
    """The calls of tasks as functions during a test. `reported`: the progress that they reported."""

    def __init__(self, app: App, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self.reported: list[JobProgress] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """During this block each direct call of a task of the app has a run."""
        jobs = self._app._jobs
        jobs.around_direct_calls = self._with_run
        try:
            yield
        finally:
            jobs.around_direct_calls = None

    def _with_run(self, options: TaskOptions, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with a run. Inside a job it has the run of that job, as in production."""
        if current_run.get(None) is not None:
            return function
        under_way = partial(self._under_way, options)
        if not inspect.iscoroutinefunction(function):
            return under_way()(function)

        @wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            with under_way():
                return await function(*args, **kwargs)

        return called

    @contextmanager
    def _under_way(self, options: TaskOptions) -> Iterator[None]:
        claim = Claim(Stream("queue", options.queue), new_id(), b"", None, self._clock.now_us())
        envelope = Envelope(ENVELOPE_VERSION, "", options.name, claim.claimed_us, None, None, b"")
        run = Run(claim, envelope, self._app._registry.handlers[options.name], (), {})
        run.on_progress(self._report)
        token = current_run.set(run)
        try:
            yield
        finally:
            run.ended = True
            current_run.reset(token)

    def _report(self, fraction: float, text: str) -> None:
        self.reported.append(JobProgress(fraction, text, self._clock.now()))
