"""The job that this code is running for."""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.engine.run import Run, current_run


def current_job() -> Run:
    """The run of the job that calls this, in a coroutine or in a thread."""
    run = current_run.get(None)
    if run is None:
        raise HeadraceError("current_job() was called outside of a job")
    return run
