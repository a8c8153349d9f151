"""Every result belongs to its own job: what was read is what that job returned, after it had returned."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        for fact in story.results:
            if fact.value != story.name:
                yield story.name, f"its result is that of {fact.value}"
            elif not any(run.succeeded and run.end <= fact.at for run in story.runs_of("")):
                yield story.name, "a result was read, and no run had succeeded before"
