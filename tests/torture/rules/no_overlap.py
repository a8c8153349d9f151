"""Runs of one message in one group do not overlap, except with a run whose lease a fault has taken away."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.torture.explanations import end_of, of_a_second_run
from tests.torture.history import History


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        for runs in story.runs.values():
            for first, second in pairwise(runs):
                end = end_of(history, first)
                if second.begin < end and not of_a_second_run(history, first, second):
                    yield (
                        story.name,
                        f"{second.started.run} began while {first.started.run} ran, and no fault had hit it",
                    )
