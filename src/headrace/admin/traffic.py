"""What was done lately, as plots show it."""

from __future__ import annotations

import msgspec

from headrace.core.traffic import TrafficRecord


class Traffic(msgspec.Struct, frozen=True):
    """How many jobs of a queue, or events of a group (`orders/billing`), were done, failed and died in each
    of the last minutes, the latest last. A failure that is tried again counts as one."""

    kind: str
    name: str
    done: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()


def traffic_of(record: TrafficRecord) -> Traffic:
    return Traffic(record.stream.kind, record.stream.name, record.done, record.failed, record.dead)
