"""The schedules of a stream. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headrace.core.message import Batch, Message
from headrace.core.scheduling import ScheduleRecord

from .shelf import Shelf

replace: Callable[..., ScheduleRecord] = msgspec.structs.replace


def establish(shelf: Shelf, names: Sequence[str], now_us: int) -> None:
    shelf.established = True
    for name in names:
        shelf.schedules.setdefault(name, ScheduleRecord(shelf.stream, name, now_us))


def add(shelf: Shelf, name: str, definition: bytes, now_us: int) -> tuple[ScheduleRecord, bool]:
    """What stands there then, and whether it is new."""
    shelf.established = True
    standing = shelf.schedules.get(name)
    if standing is not None:
        return standing, False
    record = ScheduleRecord(shelf.stream, name, now_us, definition=definition)
    shelf.schedules[name] = record
    return record, True


def pause(shelf: Shelf, name: str, *, paused: bool, now_us: int) -> bool:
    record = shelf.schedules.get(name)
    if record is None:
        return False
    last_us = now_us if record.paused and not paused else record.last_us
    shelf.schedules[name] = replace(record, paused=paused, last_us=last_us)
    return True


def tick(
    shelf: Shelf,
    name: str,
    *,
    expected_us: int,
    next_us: int,
    messages: Sequence[Message],
    timing: str | None,
    now_us: int,
) -> bool:
    record = shelf.schedules.get(name)
    if record is None or record.paused or record.last_us != expected_us or next_us > now_us:
        return False
    shelf.schedules[name] = replace(
        record,
        last_us=next_us,
        fired_us=next_us if messages else record.fired_us,
        timing=record.timing if timing is None else timing,
    )
    if messages:
        batch = Batch(shelf.stream, f"schedule:{name}", next_us, list(messages))
        shelf.append(batch, now_us, ticking=True)
    return True
