"""Real workers that fire schedules and are killed or stopped meanwhile: each moment makes one job."""

from __future__ import annotations

import signal

import pytest

from headrace.core.messages.ids import derived_id
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule_record import ScheduleRecord
from tests.integration.support.worker_processes import Workshop
from tests.support.routers import opened_router
from tests.support.servers import also

pytestmark = pytest.mark.parametrize("workshop", ["sqlite", *also("redis-6.2")], indirect=True)

NAME = "often"
EVERY = 0.25


async def test_each_moment_makes_one_job_whatever_becomes_of_the_workers(workshop: Workshop) -> None:
    await workshop.app.schedules.add(
        NAME, workshop.task("nap").with_(result_ttl=600).call(0.01), every=EVERY, catch_up="all"
    )
    first_us = (await _record(workshop)).last_us
    steady = await workshop.start_ready()
    for round_number in range(3):
        worker = await workshop.start_ready()
        await _until_runs(workshop, 5 * (round_number + 1))
        await workshop.stop(steady)
        await _until_runs(workshop, 5 * (round_number + 1) + 3)
        worker.kill()  # very likely around a firing, since there are so many
        steady.send(signal.SIGCONT)
    await _until_runs(workshop, 20)

    await workshop.app.schedules.pause(NAME)
    last_us = (await _record(workshop)).last_us
    moments = range(first_us + round(EVERY * SECOND), last_us + 1, round(EVERY * SECOND))
    expected = {derived_id("schedule", "default", NAME, str(moment)) for moment in moments}
    assert len(expected) >= 20
    await workshop.until(lambda: _run_ids(workshop) >= expected, timeout=30)
    assert _run_ids(workshop) == expected
    for id in expected:
        runs = workshop.log.lines("started", id=id)
        # Twice only when its worker was killed under it, and then as the same job. One that was killed just
        # before the function began has written nothing.
        attempts = [run["attempt"] for run in runs]
        assert attempts == sorted(set(attempts))


async def _record(workshop: Workshop) -> ScheduleRecord:
    async with opened_router(workshop.url) as store:
        [record] = (await store.schedules([Stream("queue", "default")])).records
    return record


async def _until_runs(workshop: Workshop, count: int) -> None:
    await workshop.until(lambda: len(_run_ids(workshop)) >= count)


def _run_ids(workshop: Workshop) -> set[str]:
    return {line["id"] for line in workshop.log.lines("started")}
