"""What one claim costs a Redis server when a worker has many queues: `python -m benchmarks.claim_cost`.

Measured by the server itself, as its slow log has it with a threshold of nothing. Scripts of claims are told
from others by their digest. The queues are empty but for one job at a time, as those of most are.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Any

from headrace import App
from headrace.stores.redis.scripts import CLAIM
from tests.support.servers import Server, require

#: Entries that the slow log keeps: more than are made.
ENTRIES = 1_000_000


async def main(queues: int, jobs: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(require("redis-7.0"), directory=Path(folder)) as server,
    ):
        costs = await _costs(server, queues, jobs)
    costs.sort()
    p99 = costs[int(len(costs) * 0.99)]
    average = sum(costs) / len(costs)
    print(f"{queues} queues, {len(costs)} claims")
    print(f"average {average:.0f} us, p99 {p99} us, most {costs[-1]} us")


async def _costs(server: Server, queues: int, jobs: int) -> list[int]:
    """Microseconds of each claim."""
    names = [f"queue-{number}" for number in range(queues)]
    app = App(server.url)

    @app.task(name="nothing", result_ttl=60)
    async def nothing() -> None: ...

    async with app, app.worker(queues=names):
        server.command("CONFIG", "SET", "slowlog-max-len", ENTRIES, "slowlog-log-slower-than", 0)
        server.command("SLOWLOG", "RESET")
        for number in range(jobs):
            job = await nothing.with_(queue=names[number * 7 % queues]).enqueue()
            await job.wait(timeout=30)
        server.command("CONFIG", "SET", "slowlog-log-slower-than", -1)
        entries: Any = server.command("SLOWLOG", "GET", ENTRIES)
    return [entry[2] for entry in entries if len(entry[3]) > 1 and entry[3][1] == CLAIM.digest]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1000)
    given = parser.parse_args()
    asyncio.run(main(given.queues, given.jobs))
