"""Nothing is invented: what runs was sent, was not refused, and one send makes one message."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History, MessageStory


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        started = [run.started for runs in story.runs.values() for run in runs]
        if not started:
            continue
        if story.invoked is None:
            yield story.name, "ran, and was never sent"
        elif story.refused is not None:
            yield story.name, f"ran, though its send was refused: {story.refused.value}"
        elif len(jobs := {fact.job for fact in started} | _accepted_as(story)) > 1:
            yield story.name, f"one send made several messages: {', '.join(sorted(jobs))}"


def _accepted_as(story: MessageStory) -> set[str]:
    return {story.accepted.job} if story.is_promised and story.accepted and story.accepted.job else set()
