"""Order holds where it is promised: an ordered group (its name begins with `ordered`) begins the events of
one key in the order in which they were published, and never begins an earlier one again after a later one.
The same holds of jobs that have a key.

What was not surely published has no place in the order. A process that a fault has paused may begin again
what it held from before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.torture.explanations import of_a_second_run
from tests.torture.history import History, MessageStory, RunSpan

#: Groups with this prefix are ordered.
ORDERED = "ordered"


def check(history: History) -> Iterator[tuple[str, str]]:
    for (group, key), begun in _begun(history).items():
        newest: tuple[MessageStory, RunSpan] | None = None
        for story, run in sorted(begun, key=lambda each: each[1].begin):
            if newest is not None and story.plan.position < newest[0].plan.position:
                if not _is_repeat_after_fault(history, story, run):
                    yield (
                        story.name,
                        f"began in {group or 'its queue'} after {newest[0].name}, a later one of key {key}",
                    )
            else:
                newest = story, run


def _begun(history: History) -> dict[tuple[str, str], list[tuple[MessageStory, RunSpan]]]:
    found: dict[tuple[str, str], list[tuple[MessageStory, RunSpan]]] = defaultdict(list)
    for story in history.stories():
        if story.plan.key and story.is_promised:
            for group, runs in story.runs.items():
                if group.startswith(ORDERED) or story.plan.task:
                    found[group, story.plan.key] += [(story, run) for run in runs]
    return found


def _is_repeat_after_fault(history: History, story: MessageStory, run: RunSpan) -> bool:
    """Whether a paused process begins what it held from before; others have gone on meanwhile."""
    earlier = [each for each in story.runs_of(run.started.group) if each.begin < run.begin]
    return any(of_a_second_run(history, first, run) for first in earlier)
