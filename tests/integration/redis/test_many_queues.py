"""What workers with many queues cost a server: counted, not timed."""

from __future__ import annotations

from pathlib import Path

from headrace import App
from tests.support.servers import Server, require
from tests.support.waiting import wait_until

QUEUES = [f"queue-{number}" for number in range(60)]


async def test_a_delayed_job_makes_workers_look_at_its_queue_alone(tmp_path: Path) -> None:
    with Server(require("redis-7.0"), directory=tmp_path) as server:
        apps = [App(server.url) for _ in range(2)]
        tasks = [[app.task(queue=queue, name=queue)(_nothing) for queue in QUEUES] for app in apps]
        async with apps[0].worker(queues=QUEUES), apps[1].worker(queues=QUEUES):
            # Each looks once at all.
            await wait_until(lambda: _calls(server, "exists") >= len(apps) * len(QUEUES))
            before = _calls(server, "exists")
            for task in tasks[0][:3]:
                job = await task.with_(delay=0.05).enqueue()
                await job.wait(timeout=20)
            assert _calls(server, "exists") - before < len(QUEUES)
        for app in apps:
            await app.close()


def _nothing() -> None: ...


def _calls(server: Server, command: str) -> int:
    """How often the server has carried out a command, also within scripts."""
    told = server.command("INFO", "commandstats")
    assert isinstance(told, bytes)
    for line in told.decode().splitlines():
        if line.startswith(f"cmdstat_{command}:"):
            return int(line.partition("calls=")[2].partition(",")[0])
    return 0
