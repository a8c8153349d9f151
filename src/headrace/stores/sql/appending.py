"""Decides which messages of a batch are accepted, and builds their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from headrace.core.messages.message import NORMAL, Message
from headrace.core.records.answers import Answer

from .change_set import ChangeSet
from .key_owners import KeyOwners
from .lanes import EXPIRED, FIRST_PRIORITY, RETRYING, SCHEDULED, lane_for

#: The room in a stream without a limit.
UNLIMITED: Final = 1 << 62

#: Columns of a message: id, task, place, at_us, lane, priority, expires_us, unique_key, unique_until
MessageColumns = tuple[str, str, int, int, int, int, int, str | None, str | None]


class Acceptance(NamedTuple):
    """What a batch becomes. `accepted`: the messages to write; one that replaces another has its id.
    `absorbed`: messages that have replaced another one, and whose own ids must stay known."""

    answers: list[Answer]
    accepted: list[Message]
    absorbed: list[Message]


def accept(
    changes: ChangeSet, keys: KeyOwners, known: set[str], room: int, messages: Sequence[Message]
) -> Acceptance:
    """Decide about messages to a queue. `known`: the ids that are taken."""
    answers: list[Answer] = []
    accepted: dict[str, Message] = {}
    absorbed: list[Message] = []
    for message in messages:
        id, unique = message.id, message.unique
        if id in known:
            answers.append(Answer(id, "duplicate"))
            continue
        if message.on_duplicate == "replace":
            replaced, freed = _replace(changes, keys, accepted, message, room)
            room += freed
            if replaced is not None:
                if replaced.verdict == "replaced" and not message.fresh:
                    absorbed.append(message)
                    known.add(id)
                answers.append(replaced)
                continue
        elif unique is not None and (owner := keys.owners.get(unique.key)) is not None:
            answers.append(Answer(owner, "duplicate"))
            continue
        expired = keys.expired.get(unique.key) if unique is not None else None
        if len(accepted) >= room + (expired is not None):
            answers.append(Answer(id, "full"))
            continue
        if unique is not None:
            if expired is not None:
                changes.end(expired, EXPIRED, ttl_us=message.expired_ttl_us)
                room += 1
            keys.take(unique, id)
        known.add(id)
        accepted[id] = message
        answers.append(Answer(id))
    return Acceptance(answers, list(accepted.values()), absorbed)


def _replace(
    changes: ChangeSet, keys: KeyOwners, accepted: dict[str, Message], message: Message, room: int
) -> tuple[Answer | None, int]:
    """Replace the waiting owner of the message's key; None: there is none. Also returns the room that the
    owner leaves."""
    unique = message.unique
    assert unique is not None
    owner, subject = keys.owners.get(unique.key), keys.waiting(unique.key)
    freed = 0
    if owner in accepted:  # of this batch
        del accepted[owner]
    elif subject is None:
        return None, 0
    else:
        freed = int(subject.place != RETRYING)
        if len(accepted) >= room + freed:
            return Answer(message.id, "full"), 0
        owner = subject.id
        changes.make_way(subject)
    keys.take(unique, owner)
    accepted[owner] = msgspec.structs.replace(message, id=owner)
    return Answer(owner, "replaced"), freed


def accept_events(
    keys: KeyOwners, messages: Sequence[Message], room: int = UNLIMITED
) -> tuple[list[Answer], list[Message]]:
    """The answers for events of a topic, and the accepted ones. `room`: how many the log takes."""
    answers: list[Answer] = []
    accepted: list[Message] = []
    for message in messages:
        unique = message.unique
        if unique is not None and (owner := keys.owners.get(unique.key)) is not None:
            answers.append(Answer(owner, "duplicate"))
            continue
        if len(accepted) >= room:
            answers.append(Answer(message.id, "full"))
            continue
        if unique is not None:
            keys.take(unique, message.id)
        accepted.append(message)
        answers.append(Answer(message.id))
    return answers, accepted


def columns_of(message: Message, now_us: int) -> MessageColumns:
    priority, unique = message.priority, message.unique
    due_us = due_us_of(message, now_us)
    lane = FIRST_PRIORITY + priority
    if due_us > now_us:
        place, at_us = SCHEDULED, due_us
    else:
        limited = message.constraints is not None
        place, at_us = lane_for(lane, child=message.child, limited=limited), now_us
    expires_us = due_us + message.lifetime_us if message.lifetime_us else 0
    key, until = (unique.key, unique.until) if unique else (None, None)
    return message.id, message.task, place, at_us, lane, priority, expires_us, key, until


def event_columns_of(message: Message, now_us: int) -> MessageColumns:
    """An event that waits beside the log, as a message of the topic's stream. `unique_key` holds its key."""
    due_us = due_us_of(message, now_us)
    expires_us = due_us + message.lifetime_us if message.lifetime_us else 0
    lane, key = FIRST_PRIORITY + NORMAL, message.key or None
    return message.id, message.task, SCHEDULED, due_us, lane, NORMAL, expires_us, key, None


def due_us_of(message: Message, now_us: int) -> int:
    return max(message.due_us, now_us + message.delay_us)
