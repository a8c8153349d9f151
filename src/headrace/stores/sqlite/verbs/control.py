"""Writes control messages to the file and reads them back, so that every process receives them."""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.core.messages.message import Stream, StreamKind
from headrace.core.records.control import (
    CancelNotice,
    ControlMessage,
    DueNotice,
    LayoutNotice,
    LeaseNotice,
    MissedNotice,
    PauseNotice,
    ScheduleNotice,
)
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import upkeep_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted

_KINDS: Final[dict[str, StreamKind]] = {"topic": "topic", "group": "group"}

#: How many control messages the file keeps. Watchers look forty times a second.
REMEMBERED: Final = 10_000


class StoredNotice(NamedTuple):
    seq: int
    at_us: int
    order: ControlMessage


def write_orders(connection: Connection, namespace: str, orders: list[ControlMessage], now_us: int) -> None:
    contents = [listed(_words(order)) for order in dict.fromkeys(orders)]
    connection.change(upkeep_statements.ADD_ORDERS, (namespace, now_us, listed(contents)))
    connection.change(upkeep_statements.FORGET_ORDERS, (REMEMBERED,))


def read_orders(connection: Connection, namespace: str, after: int) -> list[StoredNotice]:
    """The control messages after number `after`, in their order."""
    rows = unlisted(connection.value(upkeep_statements.READ_ORDERS, (namespace, after)))
    read = ((seq, at_us, _order(*unlisted(content))) for seq, at_us, content in rows)
    return [StoredNotice(seq, at_us, order) for seq, at_us, order in read if order is not None]


def _words(order: ControlMessage) -> list[str]:
    if isinstance(order, MissedNotice):
        return []  # only for this process
    stream = order.stream
    match order:
        case CancelNotice(id=id):
            return ["cancel", stream.kind, stream.name, id]
        case PauseNotice(paused=paused):
            return ["pause" if paused else "resume", stream.kind, stream.name]
        case DueNotice():
            return ["due", stream.kind, stream.name]
        case LeaseNotice(lease_us=lease_us):
            return ["lease", stream.kind, stream.name, str(lease_us)]
        case ScheduleNotice():
            return ["schedule", stream.kind, stream.name]
        case LayoutNotice():
            return ["layout", stream.kind, stream.name]


def _order(what: str, kind: str = "", name: str = "", id: str = "", *_: object) -> ControlMessage | None:
    """None for a control message that only a newer version understands."""
    stream = Stream(_KINDS.get(kind, "queue"), name)
    match what:
        case "cancel":
            return CancelNotice(stream, id)
        case "due":
            return DueNotice(stream)
        case "lease":
            return LeaseNotice(stream, int(id))
        case "schedule":
            return ScheduleNotice(stream)
        case "layout":
            return LayoutNotice(stream)
        case "pause" | "resume":
            return PauseNotice(stream, paused=what == "pause")
        case _:
            return None
