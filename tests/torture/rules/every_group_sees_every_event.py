"""Every group sees every event: what one group has handled, each other group of the topic begins too."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.explanations import of_a_loss
from tests.torture.history import History


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        if not story.plan.topic or not story.runs:
            continue
        for group in sorted(history.groups[story.plan.topic] - story.runs.keys() - story.dead.keys()):
            if of_a_loss(history, story, group) is None:
                seen = ", ".join(sorted(story.runs))
                yield story.name, f"seen by {seen}, and never by {group}"
