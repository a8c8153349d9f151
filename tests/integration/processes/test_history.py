"""The history of jobs whose workers are killed."""

from __future__ import annotations

import pytest

from headrace import App
from tests.integration.support.worker_processes import Workshop

STORES = [
    "sqlite",
    pytest.param("valkey-9.1", marks=pytest.mark.more),
    pytest.param("postgresql", marks=pytest.mark.more),
]

JOBS = 1000
AUDITED = "tests.integration.programs.audited_app:app"


@pytest.mark.parametrize("workshop", STORES, indirect=True)
async def test_a_killed_worker_leaves_no_ended_job_out_of_a_full_history(workshop: Workshop) -> None:
    app = workshop.app
    audited = app.remote("audited")
    await app.enqueue_many([audited.call(number) for number in range(JOBS)])
    for goal in (1, JOBS // 3):
        worker = workshop.start("--concurrency", "5", target=AUDITED)

        async def is_reached(goal: int = goal) -> bool:
            return await recorded(app, goal) >= goal

        await workshop.until(is_reached, timeout=40)
        worker.kill()
    workshop.start(target=AUDITED)
    await workshop.until(lambda: is_empty(app), timeout=40)
    numbers: list[int] = []
    cursor: str | None = None
    while True:
        page = await app.admin.jobs(state="succeeded", cursor=cursor, limit=500)
        numbers += [info.args[0] for info in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(numbers) == list(range(JOBS))


async def recorded(app: App, most: int) -> int:
    return len(await app.admin.jobs(state="succeeded", limit=most))


async def is_empty(app: App) -> bool:
    [queue] = [queue for queue in await app.admin.queues() if queue.name == "default"]
    return not (queue.queued or queue.running or queue.retrying or queue.scheduled)
