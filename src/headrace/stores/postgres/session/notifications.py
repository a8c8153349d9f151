"""How the changes of a step, and control messages, travel in a notification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import Stream
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
from headrace.stores.sql.wake_ups import WakeUps

#: A notification has at most 8000 bytes.
MOST_BYTES: Final = 7900


class Notification(msgspec.Struct, array_like=True):
    """What travels. `everything`: there was too much to say, so all callers should look."""

    sender: str
    ready: list[tuple[str, str]] = []
    ended: list[tuple[str, str, str]] = []
    notices: list[list[str]] = []
    everything: bool = False
    probe: str = ""


_decode = msgspec.json.Decoder(Notification).decode


def text_of(notification: Notification) -> str:
    encoded = msgspec.json.encode(notification)
    if len(encoded) > MOST_BYTES:
        encoded = msgspec.json.encode(Notification(notification.sender, everything=True))
    return encoded.decode()


def notification_of(sender: str, wake_ups: WakeUps) -> Notification:
    ready: list[tuple[str, str]] = [(stream.kind, stream.name) for stream in wake_ups.ready]
    ended: list[tuple[str, str, str]] = [(stream.kind, stream.name, id) for stream, id in wake_ups.ended]
    return Notification(sender, ready, ended)


def read(text: str) -> Notification | None:
    """None: another version, or another program, has sent it."""
    try:
        return _decode(text)
    except DECODE_ERRORS:
        return None


def wake_ups_of(notification: Notification) -> WakeUps:
    return WakeUps(
        {stream_of(kind, name) for kind, name in notification.ready},
        {(stream_of(kind, name), id) for kind, name, id in notification.ended},
    )


def stream_of(kind: str, name: str) -> Stream:
    return Stream("topic" if kind == "topic" else "group" if kind == "group" else "queue", name)


# --- control messages -------------------------------------------------------------------------------------


def words_of(notice: ControlMessage) -> list[str]:
    if isinstance(notice, MissedNotice):
        return []  # only for this process
    stream = notice.stream
    match notice:
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


def notice_of(notices: Sequence[ControlMessage]) -> str:
    """Control messages as one notification."""
    return text_of(Notification("", notices=[words_of(notice) for notice in notices]))


def read_notice(what: str, kind: str = "", name: str = "", id: str = "", *_: str) -> ControlMessage | None:
    """None for a control message that only a newer version understands."""
    stream = stream_of(kind, name)
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
