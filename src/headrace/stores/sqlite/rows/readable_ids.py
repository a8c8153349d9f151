"""Ids that are no valid text: what such a message is called by instead, and how it is found by that."""

from __future__ import annotations

from typing import Final

from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import message_statements

#: Stands where text was that is no valid UTF-8 (`Connection.rows`).
REPLACED: Final = "\ufffd"

_PREFIX: Final = "unreadable-"


def readable_id(seq: int, id: str) -> str:
    """The id, or if it is no text what the message is called by instead."""
    return f"{_PREFIX}{seq}" if REPLACED in id else id


def seq_of(id: str) -> int:
    """Of such a name: the number of the message; 0: it is an id like others."""
    number = id.removeprefix(_PREFIX) if id.startswith(_PREFIX) else ""
    return int(number) if number.isdecimal() and len(number) < 19 else 0


def mend_id(connection: Connection, seq: int) -> str:
    """Give a message its readable name if its id is no text; answers what is wrong with that, or nothing."""
    id: bytes | None = connection.value(message_statements.READ_ID, (seq,))
    try:
        (id or b"").decode()
    except UnicodeDecodeError as error:
        connection.change(message_statements.WRITE_ID, (readable_id(seq, REPLACED), seq))
        return f"its id cannot be read ({error}): {id!r:.200}"
    return ""
