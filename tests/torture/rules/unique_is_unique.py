"""A unique key has one job at a time: a second one is accepted only after the first has come to an end. A
duplicate names a job of the same key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations

from tests.torture.explanations import of_a_loss
from tests.torture.history import History, MessageStory


def check(history: History) -> Iterator[tuple[str, str]]:
    by_key: dict[str, list[MessageStory]] = defaultdict(list)
    for story in history.stories():
        if story.plan.unique:
            by_key[story.plan.unique].append(story)
    for key, stories in by_key.items():
        yield from _overlapping(history, key, stories)
        yield from _foreign_duplicates(key, stories)


def _overlapping(history: History, key: str, stories: list[MessageStory]) -> Iterator[tuple[str, str]]:
    """A job was stored between its invocation and its answer, or its first run. Both were surely there when
    one was invoked after the other was stored, and was stored before that ended."""
    own = [story for story in stories if story.is_promised and story.invoked]
    for first, second in permutations(own, 2):
        ends = _ends(first)
        if not ends or not second.invoked or of_a_loss(history, first, ""):
            continue
        if second.invoked.at >= _stored(first) and min(ends) > _stored(second):
            yield second.name, f"accepted while {first.name}, of the same key {key}, had not ended"


def _stored(story: MessageStory) -> float:
    """When it surely was in the store."""
    begins = [run.begin for run in story.runs_of("")]
    return min([*begins, story.accepted.at] if story.accepted else begins)


def _ends(story: MessageStory) -> list[float]:
    """When the job may have ended, at the earliest. The store writes a success after the run. When it took a
    cancellation, or a job as dead, is not known: any time after it was stored."""
    ends = [run.end for run in story.runs_of("") if run.succeeded]
    if story.accepted and (story.cancelled or story.expired or story.dead):
        ends.append(_stored(story))
    return ends


def _foreign_duplicates(key: str, stories: list[MessageStory]) -> Iterator[tuple[str, str]]:
    jobs = {run.started.job for story in stories for run in story.runs_of("")}
    jobs |= {story.accepted.job for story in stories if story.is_promised and story.accepted}
    uncertain = any(story.uncertain or story.accepted is None for story in stories)
    for story in stories:
        if story.accepted and story.accepted.duplicate and story.accepted.job not in jobs and not uncertain:
            yield story.name, f"answered as a duplicate of {story.accepted.job}, no job of key {key}"
