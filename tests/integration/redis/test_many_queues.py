"""What workers with many queues cost a server: counted, not timed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace import App
from tests.support.servers import HOST, Server, require
from tests.support.waiting import wait_until

QUEUES = [f"queue-{number}" for number in range(60)]


async def test_a_delayed_job_makes_workers_look_at_its_queue_alone(tmp_path: Path) -> None:
    with Server(require("redis-7.0"), directory=tmp_path) as server, _looks(server) as looks:
        apps = [App(server.url) for _ in range(2)]
        tasks = [[app.task(queue=queue, name=queue)(_nothing) for queue in QUEUES] for app in apps]
        async with apps[0].worker(queues=QUEUES), apps[1].worker(queues=QUEUES):
            # Each looks once at all.
            await wait_until(lambda: len(looks) >= len(apps) * len(QUEUES))
            before = len(looks)
            for task in tasks[0][:3]:
                job = await task.with_(delay=0.05).enqueue()
                await job.wait(timeout=20)
            assert len(looks) - before < len(QUEUES)
        for app in apps:
            await app.close()


@contextmanager
def _looks(server: Server) -> Iterator[list[str]]:
    """What the server is asked, as it comes: whether something in a queue is due."""
    found: list[str] = []
    with socket.create_connection((HOST, server.port)) as connection:
        connection.sendall(b"MONITOR\r\n")
        lines = connection.makefile(encoding="utf-8", errors="replace", newline="\n")
        assert lines.readline().startswith("+OK")

        def read() -> None:
            with suppress(ConnectionError):  # the end
                for line in lines:
                    if '"EXISTS"' in line and ":due" in line:
                        found.append(line)

        reading = threading.Thread(target=read)
        reading.start()
        try:
            yield found
        finally:
            connection.shutdown(socket.SHUT_RDWR)
            reading.join()


def _nothing() -> None: ...
