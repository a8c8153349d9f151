"""What is dead has a reason: its handler failed as often as planned, or faults took its processes down."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.explanations import of_a_cut_run
from tests.torture.facts import WORKERS
from tests.torture.history import History, MessageStory

from .attempts_within_limits import CRASH_LIMIT


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        for group, fact in story.dead.items():
            failures = sum(run.failed for run in story.runs_of(group))
            if story.plan.may_die or story.plan.may_crash or failures >= story.plan.attempts:
                continue
            if fact.value.startswith("crashed") and _crashes(history, story, group) >= CRASH_LIMIT:
                continue
            yield story.name, f"dead ({fact.value}), and nothing that happened to it explains that"


def _crashes(history: History, story: MessageStory, group: str) -> int:
    """How many times a fault may have cut it off: each run that never ended, and each fault, which may have
    hit a worker that held it before a run said that it began. A poison job takes several workers with it."""
    sent, died = story.sent_at, story.dead[group].at
    faults = sum(1 for _ in history.faults_between(sent, died))
    taken = sum(
        max(sent, fault.begin) <= gone <= min(died, fault.end)
        for fault in history.faults_between(sent, died)
        if WORKERS in fault.targets
        for gone in history.gone.values()
    )
    cut = sum(run.ended is None and of_a_cut_run(history, run) is not None for run in story.runs_of(group))
    return max(faults, cut, taken)
