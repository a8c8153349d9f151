"""End records as they are stored: `<ended> <until> <content>`, see lua/shared/messages/ending.lua."""

from __future__ import annotations

import re
from typing import Any, Final

from headrace.core.encoding.decoding import text_of
from headrace.core.moving.moving import StoredMessage

_RECORD: Final = re.compile(
    rb"(\d+) (\d+) (succeeded|cancelled|expired) (\d+) (\d+) (\d+) ([01]) (.*)", re.DOTALL
)


def read_end_record(id: str, value: bytes) -> StoredMessage | None:
    """None: it cannot be read."""
    found = _RECORD.fullmatch(value)
    if found is None:
        return None
    ended, until, status, *lengths, has_value, rest = found.groups()
    task, note, state = map(int, lengths)
    stated: Any = status.decode()
    return StoredMessage(
        id=id,
        task=text_of(rest[:task]),
        status=stated,
        at_us=int(ended),
        note=text_of(rest[task : task + note]),
        state=rest[task + note : task + note + state] or None,
        result=rest[task + note + state :] if has_value == b"1" else None,
        kept_until_us=int(until),
    )


def end_record(message: StoredMessage) -> bytes:
    task, note, state = message.task.encode(), (message.note or "").encode(), message.state or b""
    has_value = int(message.result is not None)
    head = f"{message.at_us} {message.kept_until_us} {message.status}"
    lengths = f"{len(task)} {len(note)} {len(state)} {has_value} "
    return f"{head} {lengths}".encode() + task + note + state + (message.result or b"")
