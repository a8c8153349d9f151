"""A producer in a process of its own, for tests that kill it: it notes each job that was accepted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from itertools import count
from pathlib import Path

from headrace import BackendUnavailable
from tests.integration.programs.recording_app import DURABILITY, LOG, STORE, Log, make_app

#: Jobs of one call of `enqueue_many`; between two calls some are enqueued one by one.
MANY = 20


async def feed(first: int) -> None:
    log = Log(Path(os.environ[LOG]))
    async with make_app(os.environ[STORE], log, os.environ.get(DURABILITY, "default")) as app:
        quick = app.tasks["quick"]
        for number in count(first, MANY + 1):
            with contextlib.suppress(BackendUnavailable):  # it may run, but that is not promised
                await quick.enqueue(number)
                log.write("accepted", numbers=[number])
            numbers = list(range(number + 1, number + 1 + MANY))
            with contextlib.suppress(BackendUnavailable):
                await app.enqueue_many([quick.call(each) for each in numbers])
                log.write("accepted", numbers=numbers)


if __name__ == "__main__":
    asyncio.run(feed(int(sys.argv[1])))
