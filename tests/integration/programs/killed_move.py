"""Moves one store to another, and dies at a moment. Arguments: URL and namespace of both, milliseconds."""

from __future__ import annotations

import asyncio
import signal
import sys

from headrace.core.moving.moving import SetAside
from headrace.core.moving.seal import Seal
from headrace.engine.moving.draining import Remaining
from headrace.engine.moving.move import Side, StoreMove
from headrace.stores import open_store


class Silent:
    def sealed(self, seal: Seal) -> None: ...
    def waits(self, remaining: Remaining) -> None: ...
    def copies(self, streams: list[SetAside]) -> None: ...
    def copied(self, count: int) -> None: ...


async def main() -> None:
    source_url, source_name, target_url, target_name, milliseconds = sys.argv[1:]
    source = open_store(source_url, namespace=source_name)
    target = open_store(target_url, namespace=target_name)
    for store in (source, target):
        await store.open()
    # The signal ends the process wherever it is, as kill -9 does.
    signal.setitimer(signal.ITIMER_REAL, int(milliseconds) / 1000)
    await StoreMove(Side(source, "the source"), Side(target, "the target"), Silent()).run(drain_limit=10)
    signal.setitimer(signal.ITIMER_REAL, 0)
    await source.close()
    await target.close()


if __name__ == "__main__":
    asyncio.run(main())
