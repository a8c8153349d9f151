"""Decides which dead letters are queued again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.core.messages.message import EXPIRED_TTL_US, UniqueKey
from headrace.core.records.answers import ReplayAnswer

from .change_set import ChangedMessage, ChangeSet
from .key_owners import KeyOwners
from .lanes import DEAD, EXPIRED


class ReplayPlan(NamedTuple):
    """`parked`: those of the replayed events that wait behind another event of their key."""

    answers: list[ReplayAnswer]
    replayed: list[ChangedMessage]
    parked: list[ChangedMessage]


def dead_of(subjects: Mapping[str, ChangedMessage]) -> dict[str, ChangedMessage]:
    return {id: subject for id, subject in subjects.items() if subject.place == DEAD}


def keys_of(dead: Mapping[str, ChangedMessage]) -> list[str]:
    """The keys that a replay of these dead letters takes."""
    return [subject.unique_key for subject in dead.values() if subject.unique_key is not None]


def replay_of(
    changes: ChangeSet, keys: KeyOwners, dead: Mapping[str, ChangedMessage], ids: Sequence[str]
) -> ReplayPlan:
    left = dict(dead)
    answers: list[ReplayAnswer] = []
    queued: list[ChangedMessage] = []
    parked: list[ChangedMessage] = []
    for id in ids:
        subject = left.pop(id, None)
        if subject is None:
            answers.append(ReplayAnswer.GONE)
            continue
        key = subject.unique_key
        if key is None or key not in keys.owners:
            if key is not None:
                if expired := keys.expired.get(key):
                    changes.end(expired, EXPIRED, ttl_us=EXPIRED_TTL_US)
                keys.take(UniqueKey(key), id)
            queued.append(subject)
            answers.append(ReplayAnswer.REPLAYED)
        elif subject.stream.kind == "group":
            # In an ordered group the key decides the order: the event waits behind the others of its key.
            parked.append(subject)
            answers.append(ReplayAnswer.REPLAYED)
        else:
            left[id] = subject  # it stays dead, also when the caller names it again
            answers.append(ReplayAnswer.DUPLICATE)
    return ReplayPlan(answers, [*queued, *parked], parked)
