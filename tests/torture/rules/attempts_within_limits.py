"""Attempts stay within their limits: a message fails as often as its policy allows, and crashes at most as
often as the crash limit allows. What no fault has hit has no crashes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History, MessageStory

#: Crashes after which a message is dead.
CRASH_LIMIT = 3


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        for runs in story.runs.values():
            # A failure that a fault kept from being written is repeated; each repeat has the same attempt.
            failed = {run.started.attempt for run in runs if run.failed}
            if len(failed) > story.plan.attempts:
                yield story.name, f"failed {len(failed)} times; its policy allows {story.plan.attempts}"
            last = max(run.started.attempt for run in runs)
            if last > _most(story):
                yield story.name, f"attempt {last}; at most {_most(story)} are possible"


def _most(story: MessageStory) -> int:
    return story.plan.attempts + CRASH_LIMIT - 1
