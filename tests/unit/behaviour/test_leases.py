"""Workers of one queue that ask for different leases: one lease holds for all, and nobody is robbed."""

from __future__ import annotations

import asyncio

import pytest

from headrace import App, JobStatus, Worker, current_job, signals
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.rules.lease import Lease
from headrace.core.runtime.clock import microseconds
from headrace.core.store import LeaseKeeper
from headrace.engine.upkeep.lease_renewal import BEATS
from headrace.stores.memory.store import MemoryStore
from tests.unit.behaviour.work import of, until
from tests.waiting import wait_until


def interval(worker: Worker) -> float:
    return worker._parts.upkeep.lease_renewal._interval


async def test_another_workers_lease_is_followed_and_announced_once(
    app: App, heard: list[signals.Signal]
) -> None:
    async with app.worker(lease=15) as first, app.worker(lease=1) as second:
        await wait_until(lambda: interval(first) == 1 / BEATS)
        assert interval(second) == 1 / BEATS
        assert first._parts.claims.leases.shortest == 1
    assert of(signals.LeaseChanged, heard) == [signals.LeaseChanged("default", 15.0, 1.0)]


async def test_a_longer_lease_is_followed_too(app: App) -> None:
    async with app.worker(lease=1) as first, app.worker(lease=30):
        await wait_until(lambda: interval(first) == 30 / BEATS)


async def test_the_shortest_lease_of_its_queues_counts(app: App) -> None:
    async with app.worker(queues=["a", "b"], lease=15) as first:
        async with app.worker(queues=["b"], lease=2):
            await wait_until(lambda: interval(first) == 2 / BEATS)
        async with app.worker(queues=["c"], lease=1), app.worker(queues=["b"], lease=20):
            await wait_until(lambda: interval(first) == 15 / BEATS)


async def test_a_worker_that_missed_the_announcement_learns_it_from_its_beat(app: App) -> None:
    async with app.worker(lease=15) as first:
        first._end_listening()
        async with app.worker(lease=1):
            await first._parts.upkeep.heartbeat._beat()
            assert interval(first) == 1 / BEATS


async def test_what_a_worker_holds_is_renewed_at_once_when_the_lease_becomes_shorter(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[str] = []
    make = app._app_loop.backend.lease_keeper
    go = asyncio.Event()

    def watched() -> LeaseKeeper:
        real = make()
        renew = real.renew

        async def counted(claims: list[Claim], *, after_outage: bool) -> object:
            renewed.extend(claim.id for claim in claims)
            return await renew(claims, after_outage=after_outage)

        monkeypatch.setattr(real, "renew", counted)
        return real

    monkeypatch.setattr(app._app_loop.backend, "lease_keeper", watched)

    @app.task(name="long")
    async def long() -> int:
        await go.wait()
        return current_job().attempt

    job = await long.enqueue()
    async with app.worker(lease=3600):
        await until(job, JobStatus.RUNNING)
        assert renewed == []
        async with app.worker(lease=1800):
            await wait_until(lambda: renewed == [job.id])
            go.set()
            assert await job.result(timeout=10) == 1


async def test_a_job_outlives_a_shorter_lease_and_runs_once(app: App) -> None:
    runs, go = list[int](), asyncio.Event()

    @app.task(name="long")
    async def long() -> int:
        runs.append(current_job().attempt)
        await go.wait()
        return 1

    job = await long.enqueue()
    async with app.worker(lease=100) as first:
        await until(job, JobStatus.RUNNING)
        async with app.worker(lease=0.3):
            await wait_until(lambda: interval(first) == 0.3 / BEATS)
            # As if the longer lease had run out, so that the shorter one holds alone.
            store = app._app_loop.backend.store
            assert isinstance(store, MemoryStore)
            store._store.stream_state(Stream("queue", "default")).lease = Lease(microseconds(0.3))
            began = asyncio.get_running_loop().time()
            await wait_until(lambda: asyncio.get_running_loop().time() > began + 1)
            go.set()
            assert await job.result(timeout=10) == 1
    assert runs == [1]
