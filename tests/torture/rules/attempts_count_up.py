"""Attempts count failures and crashes, and nothing else: a failure adds one; a snooze adds none, nor does a
run that a worker hands back when it stops. Where a fault may have cut a run off, one more is possible. On a
busy machine, a run may time out before its handler begins, while it is in middleware."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.torture.explanations import of_a_cut_run
from tests.torture.facts import Fact
from tests.torture.history import History, MessageStory, RunSpan

#: The fault of a blocked event loop.
BLOCKED = "loop-blocked"


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        for runs in story.runs.values():
            if runs[0].started.attempt > 1 and not _may_have_crashed(history, story, runs[0]):
                yield story.name, f"its first run is attempt {runs[0].started.attempt}"
            for first, second in pairwise(runs):
                # A batch does not know the attempts of its events.
                if (
                    first.started.attempt
                    and second.started.attempt
                    and not _may_crash(history, first, second)
                ):
                    added = second.started.attempt - first.started.attempt - first.failed
                    if added and not _may_have_timed_out(first.ended, second, added):
                        yield story.name, f"attempt {second.started.attempt} after {_told(first)}"


def _may_crash(history: History, first: RunSpan, second: RunSpan) -> bool:
    """Whether a fault that is not gentle hit a process before the second began: perhaps a third one, which
    held the message and had not begun. A worker that stops may hand a run back in the moment of its timeout.
    A run that succeeded, or did not say how it ended, is for other rules."""
    if first.ended is None or first.succeeded or first.ended.value.startswith("error"):
        return True
    handed_back = first.may_have_overrun and of_a_cut_run(history, first) is not None
    return handed_back or _may_have_been_hit(history, first.begin, second.begin)


def _may_have_crashed(history: History, story: MessageStory, run: RunSpan) -> bool:
    """Whether a timeout may have ended it before, or a fault that is not gentle may have hit a worker that
    held it."""
    if _may_have_timed_out(story.invoked, run, run.started.attempt - 1):
        return True
    return _may_have_been_hit(history, story.sent_at, run.begin)


def _may_have_timed_out(before: Fact | None, run: RunSpan, times: int) -> bool:
    """Whether there was time for so many timeouts of this job before the run."""
    timeout = run.started.deadline - run.begin
    return before is not None and timeout > 0.0 and 0 < times <= (run.begin - before.at) / timeout


def _may_have_been_hit(history: History, begin: float, end: float) -> bool:
    """A worker whose loop is blocked may hold what it has not read yet."""
    return any(
        (fault.targets and not fault.gentle) or fault.name.startswith(BLOCKED)
        for fault in history.faults_between(begin, end)
    )


def _told(run: RunSpan) -> str:
    assert run.ended is not None
    return f"attempt {run.started.attempt}, which ended {run.ended.value}"
