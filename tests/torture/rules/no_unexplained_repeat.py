"""No duplicate without a fault that explains it: after a success, or a cut-off run, a message runs again only
when a fault has hit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.torture.explanations import of_a_second_run
from tests.torture.history import FaultSpan, History, MessageStory, RunSpan


def check(history: History) -> Iterator[tuple[str, str]]:
    for story, first, fault in _repeats(history):
        if fault is None:
            yield story.name, f"ran again after {_end(first)}, and no fault explains it"


def repeats(history: History) -> Iterator[FaultSpan | None]:
    """For each run that repeats a successful one: the fault that explains it."""
    return (fault for _, first, fault in _repeats(history) if first.succeeded)


def _repeats(history: History) -> Iterator[tuple[MessageStory, RunSpan, FaultSpan | None]]:
    """Runs after which their message ran again though they did not fail, each with the fault that explains
    it. A snooze, and each replay of the group, explain one too."""
    for story in history.stories():
        for group, runs in story.runs.items():
            replayed = 0
            for first, second in pairwise(runs):
                if first.failed or _snoozed(first):
                    continue
                fault = of_a_second_run(history, first, second)
                if fault is None and replayed < _replays(history, group, second):
                    replayed += 1
                else:
                    yield story, first, fault


def _replays(history: History, group: str, run: RunSpan) -> int:
    """How often a group was asked to read everything again before this run."""
    return sum(fact.group == group and fact.at <= run.begin for fact in history.replayed)


def _snoozed(run: RunSpan) -> bool:
    return run.ended is not None and run.ended.value == "snoozed"


def _end(run: RunSpan) -> str:
    return f"a run that ended {run.ended.value}" if run.ended else "a run that never ended"
