"""A crew: many real workers in one process, each with an app and connections of its own.
`python -m tests.torture.fleet_scale.crew NAME URL FOLDER WORKERS SLOTS QUEUES` works until its input ends.
The first line of its input lets jobs end."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from headrace import App, Task
from tests.torture.facts import Recorder


class Crew:
    """What all workers of the process share: the log, and the sign that jobs may end."""

    def __init__(self, name: str, folder: Path) -> None:
        self.recorder = Recorder(folder, name)
        self.released = asyncio.Event()


def declare(app: App, crew: Crew | None = None) -> Task[[int], None]:
    """The task that holds a slot, and says when it begins. A negative number is quick, an even one ends when
    it is released. A producer has no crew."""

    @app.task(name="hold")
    async def hold(number: int) -> None:
        assert crew is not None
        crew.recorder.write("started", message=str(number))
        if number < 0:
            return
        await crew.released.wait()
        if number % 2:
            await asyncio.Event().wait()

    return hold


def queue_names(number: int) -> list[str]:
    return ["default", *(f"queue-{each}" for each in range(1, number))]


async def main(name: str, url: str, folder: str, workers: str, slots: str, queues: str) -> None:
    crew = Crew(name, Path(folder))
    async with AsyncExitStack() as stack:
        for _ in range(int(workers)):
            app = App(url)
            declare(app, crew)
            worker = app.worker(queues=queue_names(int(queues)), concurrency=int(slots), grace=0)
            await stack.enter_async_context(worker)
        crew.recorder.write("working")
        await asyncio.to_thread(sys.stdin.readline)
        crew.released.set()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
