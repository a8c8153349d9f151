"""No duplicate without a fault that explains it: after a success, or a cut-off run, a message runs again only
when a fault has hit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.torture.explanations import of_a_second_run
from tests.torture.history import FaultSpan, History, MessageStory, RunSpan


def check(history: History) -> Iterator[tuple[str, str]]:
    for story, first, second in _repeats(history):
        if not of_a_second_run(history, first, second):
            yield story.name, f"ran again after {_end(first)}, and no fault explains it"


def repeats(history: History) -> Iterator[FaultSpan | None]:
    """Of each run that repeats one which had succeeded: the fault that explains it."""
    for _, first, second in _repeats(history):
        if first.succeeded:
            yield of_a_second_run(history, first, second)


def _repeats(history: History) -> Iterator[tuple[MessageStory, RunSpan, RunSpan]]:
    """Runs, each with the next of its message, that need a fault: it neither failed, nor was snoozed, and the
    group was not asked to read it again."""
    for story in history.stories():
        for group, runs in story.runs.items():
            for number, (first, second) in enumerate(pairwise(runs), 1):
                snoozed = first.ended is not None and first.ended.value == "snoozed"
                if not (first.failed or snoozed or number <= _replays(history, group, second)):
                    yield story, first, second


def _replays(history: History, group: str, run: RunSpan) -> int:
    """How often a group was asked to read everything again before this run."""
    return sum(fact.group == group and fact.at <= run.begin for fact in history.replayed)


def _end(run: RunSpan) -> str:
    return f"a run that ended {run.ended.value}" if run.ended else "a run that never ended"
