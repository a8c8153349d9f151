"""Attempts count failures and crashes, and nothing else: a failure adds one; a snooze adds none, nor does a
run that a worker hands back when it stops. Where a fault may have cut a run off, one more is possible."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.torture.history import History, MessageStory, RunSpan


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
                    added = second.started.attempt - first.started.attempt
                    if added != first.failed:
                        yield story.name, f"attempt {second.started.attempt} after {_told(first)}"


def _may_crash(history: History, first: RunSpan, second: RunSpan) -> bool:
    """Whether a fault that is not gentle hit one of both before the second began. A run that succeeded, or
    did not say how it ended, is for other rules."""
    if first.ended is None or first.succeeded or first.ended.value.startswith("error"):
        return True
    between = history.faults_between(first.begin, second.begin)
    return any(
        not fault.gentle and (fault.hits(first.process) or fault.hits(second.process)) for fault in between
    )


def _may_have_crashed(history: History, story: MessageStory, run: RunSpan) -> bool:
    """Whether a fault that is not gentle may have hit a worker that held it before this run."""
    sent = story.invoked.at if story.invoked else 0.0
    return any(fault.targets and not fault.gentle for fault in history.faults_between(sent, run.begin))


def _told(run: RunSpan) -> str:
    assert run.ended is not None
    return f"attempt {run.started.attempt}, which ended {run.ended.value}"
