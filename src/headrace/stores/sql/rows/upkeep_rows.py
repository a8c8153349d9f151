"""Reads the rows of workers and of traffic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import Stream
from headrace.core.records.record import WorkerInfo
from headrace.core.records.traffic import TrafficRecord

_decode = msgspec.msgpack.Decoder(WorkerInfo).decode


def readable_workers(announced: Iterable[bytes]) -> Iterator[WorkerInfo]:
    """The workers whose announcement this version can read. Another version may write it in another way."""
    for info in announced:
        try:
            yield _decode(info)
        except DECODE_ERRORS:
            continue


def traffic_records(rows: Iterable[Sequence[Any]], first: int, minutes: int) -> list[TrafficRecord]:
    """The traffic of each stream by the minute. `first`: the first of these minutes.

    A row: kind, name, minute, done, failed, dead. A row of a later minute only names its stream."""
    found: dict[Stream, list[tuple[int, int, int]]] = {}
    for kind, name, minute, *counts in rows:
        shown = found.setdefault(Stream(kind, name), [(0, 0, 0)] * minutes)
        if minute - first < minutes:
            shown[minute - first] = (counts[0], counts[1], counts[2])
    return [
        TrafficRecord(stream, *zip(*shown, strict=True))
        for stream, shown in sorted(found.items(), key=lambda item: item[0].name)
    ]
