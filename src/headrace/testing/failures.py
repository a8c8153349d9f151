"""Raises the error of a job in the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from headrace.core.errors import JobFailed

from .store import Death

_OURS = str(Path(__file__).parents[1])


def raise_first(deaths: Sequence[Death], errors: Mapping[str, BaseException]) -> None:
    """Raise the error of the first job that died, if any did.

    It is the error that the handler raised, or `JobFailed` when there is none: after a timeout, or when the
    arguments could not be read.
    """
    __tracebackhide__ = True
    if not deaths:
        return
    first, *others = deaths
    error = errors.get(first.id) or _failed(first)
    _note(error, f"This is how {_job(first)} died ({first.outcome.reason}).")
    if others:
        _note(error, f"After it died: {', '.join(_job(death) for death in others)}.")
    raise error.with_traceback(_from_handler(error.__traceback__))


def _job(death: Death) -> str:
    return f"job {death.id} of {death.task}"


def _failed(death: Death) -> JobFailed:
    failure = death.outcome.failure
    return JobFailed(
        f"{_job(death)} is dead: {failure.error_type}: {failure.error}\n\n{failure.traceback}".rstrip(),
        error_type=failure.error_type,
        error=failure.error,
        traceback=failure.traceback,
    )


def _note(error: BaseException, note: str) -> None:
    # With `run_inline`, the same error passes through every job that waited for the dead one.
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _from_handler(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame of the user's code on."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    return frames
