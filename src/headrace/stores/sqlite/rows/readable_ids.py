"""Gives a readable name to a message whose id is not valid text, and finds the message by that name."""

from __future__ import annotations

from typing import Final

from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import message_statements

#: Replaces text that is not valid UTF-8 (`Connection.rows`).
REPLACED: Final = "\ufffd"

_PREFIX: Final = "unreadable-"


def readable_id(seq: int, id: str) -> str:
    """The id, or the readable name when the id is not valid text."""
    return f"{_PREFIX}{seq}" if REPLACED in id else id


def seq_of(id: str) -> int:
    """The number of the message in a readable name; 0: this is a normal id."""
    number = id.removeprefix(_PREFIX) if id.startswith(_PREFIX) else ""
    return int(number) if number.isdecimal() and len(number) < 19 else 0


def mend_id(connection: Connection, seq: int) -> str:
    """If a message's id is not valid text, write the readable name instead. Returns what is wrong with the
    id, or an empty text."""
    id: bytes | None = connection.value(message_statements.READ_ID, (seq,))
    try:
        (id or b"").decode()
    except UnicodeDecodeError as error:
        connection.change(message_statements.WRITE_ID, (readable_id(seq, REPLACED), seq))
        return f"its id cannot be read ({error}): {id!r:.200}"
    return ""
