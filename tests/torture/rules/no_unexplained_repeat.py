"""No duplicate without a fault that explains it: after a success, or a cut-off run, a message runs again only
when a fault has hit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.torture.explanations import of_a_second_run
from tests.torture.history import FaultSpan, History, MessageStory, RunSpan

#: Seconds within which a replay that was asked for takes place.
REPLAYED = 15.0


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        for group, runs in story.runs.items():
            for first, second in pairwise(runs):
                if _needs_a_fault(history, first, second, group) and not of_a_second_run(
                    history, first, second
                ):
                    yield story.name, f"ran again after {_end(first)}, and no fault explains it"


def repeats(history: History) -> Iterator[tuple[MessageStory, FaultSpan | None]]:
    """Of each run that repeats one which had succeeded: its message, and the fault that explains it."""
    for story in history.stories():
        for group, runs in story.runs.items():
            for first, second in pairwise(runs):
                if first.succeeded and _needs_a_fault(history, first, second, group):
                    yield story, of_a_second_run(history, first, second)


def _needs_a_fault(history: History, first: RunSpan, second: RunSpan, group: str) -> bool:
    if first.failed or (first.ended is not None and first.ended.value == "snoozed"):
        return False
    return not any(
        fact.group == group and fact.at <= second.begin and first.begin <= fact.at + REPLAYED
        for fact in history.replayed
    )


def _end(run: RunSpan) -> str:
    return f"a run that ended {run.ended.value}" if run.ended else "a run that never ended"
