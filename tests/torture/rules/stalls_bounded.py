"""Every stall is bounded and explained: while messages wait that could run, something begins or ends within a
lease and ten seconds, counted from the end of the last fault."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History

#: Seconds beyond the lease.
PATIENCE = 10.0


def check(history: History) -> Iterator[tuple[str, str]]:
    bound = history.lease + PATIENCE
    quiet_since = 0.0
    for moment, is_progress, waiting in _moments(history):
        if waiting and moment - quiet_since > bound and quiet_since > history.since:
            stalled = _without_faults(history, quiet_since, moment)
            if stalled > bound:
                yield "", f"nothing happened for {stalled:.1f} s while {waiting} messages waited"
        if is_progress or not waiting:
            quiet_since = moment


def _moments(history: History) -> Iterator[tuple[float, bool, int]]:
    """Each moment at which something changed: whether that is progress, and how many messages had waited."""
    changes: list[tuple[float, int, bool]] = []
    for story in history.stories():
        starts = [run.begin for runs in story.runs.values() for run in runs]
        ends = [run.end for runs in story.runs.values() for run in runs if run.ended]
        changes += [(at, 0, True) for at in (*starts, *ends)]
        # Another rule checks messages that never began.
        if starts and story.is_promised and story.accepted is not None:
            ready = story.accepted.at + story.plan.delay
            changes.append((ready, 1, False))
            changes.append((max(ready, min(starts)), -1, True))
    waiting = 0
    for at, change, is_progress in sorted(changes):
        yield at, is_progress, waiting
        waiting += change


def _without_faults(history: History, begin: float, end: float) -> float:
    """The longest part of this time that lies behind the last fault in it, or before the first."""
    longest, since = 0.0, begin
    for fault in history.faults_between(begin, end):
        longest = max(longest, fault.begin - since)
        since = max(since, fault.end)
    return max(longest, end - since)
