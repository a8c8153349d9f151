"""Decides whether a message has expired, from the columns that statements give."""

from __future__ import annotations

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import FRESH, decode_state
from headrace.stores.sql.lanes import DEAD, RUNNING


def has_expired(place: int, expires_us: int, state: str | None, now_us: int) -> bool:
    """Whether a message has expired while it waits. The statements give `state`, in hexadecimal digits, only
    when it may have expired."""
    if state is None or place >= DEAD or place == RUNNING:
        return False
    try:
        return (decode_state(bytes.fromhex(state)) if state else FRESH).expired(expires_us, now_us)
    except DECODE_ERRORS:
        return False  # its claim makes it a dead letter
