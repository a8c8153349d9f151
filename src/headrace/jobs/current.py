"""The job that runs the calling code."""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.engine.running.run import Run, current_run


def current_job() -> Run:
    """The run of the job that calls this function, in a coroutine, a thread or a child process."""
    run = current_run.get(None)
    if run is None:
        raise HeadraceError("current_job() was called outside of a job")
    return run
