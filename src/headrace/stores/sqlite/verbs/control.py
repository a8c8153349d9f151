"""Writes control messages to the file and reads them back, so that every process receives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.records.control import ControlMessage
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import upkeep_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted

#: How many control messages the file keeps. Watchers look forty times a second.
REMEMBERED: Final = 10_000

_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], ControlMessage] = msgspec.json.Decoder(ControlMessage).decode


class StoredNotice(NamedTuple):
    seq: int
    at_us: int
    notice: ControlMessage


def write_notices(connection: Connection, namespace: str, notices: list[ControlMessage], now_us: int) -> None:
    contents = [_encode(notice).decode() for notice in notices]
    connection.change(upkeep_statements.ADD_NOTICES, (namespace, now_us, listed(contents)))
    connection.change(upkeep_statements.FORGET_NOTICES, (REMEMBERED,))


def read_notices(connection: Connection, namespace: str, after: int) -> list[StoredNotice]:
    """The control messages after number `after`, in their order."""
    rows = unlisted(connection.value(upkeep_statements.READ_NOTICES, (namespace, after)))
    read = ((seq, at_us, _notice(content)) for seq, at_us, content in rows)
    return [StoredNotice(seq, at_us, notice) for seq, at_us, notice in read if notice is not None]


def _notice(content: str) -> ControlMessage | None:
    """None for a control message that only a newer version understands."""
    try:
        return _decode(content)
    except DECODE_ERRORS:
        return None
