"""Nothing is lost: what was accepted comes to an end, in every group that reads it.

A fault with which the store loses what it held explains a loss."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.explanations import of_a_loss
from tests.torture.history import History


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        if not story.is_promised:
            continue
        for group in sorted(history.groups_of(story)):
            if not story.is_over_in(group) and of_a_loss(history, story, group) is None:
                place = f" in group {group}" if group else ""
                yield story.name, f"accepted, and never came to an end{place}"
