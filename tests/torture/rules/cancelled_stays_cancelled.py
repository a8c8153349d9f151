"""A job whose cancellation was confirmed does not begin later: a worker that held it hears of it within a
lease and two seconds, unless a fault keeps it from hearing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History

#: Seconds beyond the lease.
PATIENCE = 2.0


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        if story.cancelled is None or story.cancelled.value == "uncertain":
            continue
        bound = story.cancelled.at + history.lease + PATIENCE
        for run in story.runs_of(""):
            if run.begin > bound and not any(
                fault.hits(run.process) for fault in history.faults_between(story.cancelled.at, run.begin)
            ):
                yield story.name, f"began {run.begin - story.cancelled.at:.1f} s after it was cancelled"
