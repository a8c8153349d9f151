"""Decides which messages a user removes by their state."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.records.record import JobStatus

from .change_set import ChangedMessage, ChangeSet
from .lanes import RANGES


def clean_up(changes: ChangeSet, subjects: Iterable[ChangedMessage], status: JobStatus, ttl_us: int) -> int:
    """Remove the messages that are in this state; returns how many. Not for dead letters: see `discard`."""
    first, last = RANGES[status]
    found = [subject for subject in subjects if first <= subject.place <= last]
    for subject in found:
        if status.over:
            changes.forgotten.append(subject)
        else:
            changes.cancel(subject, ttl_us)
    return len(found)
