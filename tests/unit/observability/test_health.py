"""When a worker is taken for alive, and when for ready."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from headrace import BackendUnavailable
from headrace.core import signals
from headrace.core.records.record import QUIET_SECONDS
from headrace.observability import health as health_module
from headrace.observability.health import Health


class Polled:
    id = "here:1"
    last_poll = 0.0


class Store:
    """Answers, or does not."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False
        self.asked = 0

    async def ask(self) -> None:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


class Setting:
    def __init__(self) -> None:
        self.now = 1000.0
        self.worker = Polled()
        self.store = Store()
        self.health = Health(self.worker, ask=self.store.ask, now=lambda: self.now)

    def start(self, worker: str = "here:1") -> None:
        self.health.on_signal(signals.WorkerStarted(worker, ("default",), 10, 15.0, "memory"))

    def stop(self) -> None:
        self.health.on_signal(signals.WorkerStopping("here:1", 0, 25.0))

    async def live(self) -> tuple[int, dict[str, Any]]:
        answer = await self.health.healthz({})
        return answer.status, msgspec.json.decode(answer.body)

    async def ready(self) -> tuple[int, dict[str, Any]]:
        answer = await self.health.readyz({})
        return answer.status, msgspec.json.decode(answer.body)


@pytest.fixture
def setting() -> Setting:
    return Setting()


async def test_a_worker_that_polls_is_alive(setting: Setting) -> None:
    setting.start()
    setting.now += 100
    setting.worker.last_poll = setting.now - 2
    assert await setting.live() == (200, {"status": "ok", "last_poll_seconds": 2.0})


async def test_one_that_has_not_polled_for_long_is_not_and_it_says_since_when(setting: Setting) -> None:
    setting.start()
    setting.worker.last_poll = setting.now
    setting.now += QUIET_SECONDS + 1
    status, told = await setting.live()
    assert (status, told["status"], told["reason"]) == (503, "failing", "no successful poll for 31 s")


async def test_before_the_first_poll_its_start_counts(setting: Setting) -> None:
    setting.start()
    setting.now += QUIET_SECONDS
    assert (await setting.live())[0] == 200
    setting.now += 1
    assert (await setting.live())[0] == 503


async def test_it_is_alive_while_it_starts_and_while_it_stops_but_not_ready(setting: Setting) -> None:
    assert await setting.live() == (200, {"status": "ok", "reason": "starting"})
    assert await setting.ready() == (503, {"status": "failing", "reason": "the worker is starting"})
    setting.start()
    assert await setting.ready() == (200, {"status": "ok"})
    setting.stop()
    setting.now += 10 * QUIET_SECONDS
    assert await setting.live() == (200, {"status": "ok", "reason": "stopping"})
    assert (await setting.ready())[0] == 503


async def test_the_start_of_another_worker_of_the_app_is_not_its_own(setting: Setting) -> None:
    setting.start("elsewhere:2")
    assert (await setting.ready())[0] == 503


async def test_it_is_not_ready_while_the_store_does_not_answer(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.start()
    setting.store.error = BackendUnavailable("connection refused")
    status, told = await setting.ready()
    assert (status, told["reason"]) == (503, "the store does not answer: connection refused")
    setting.store.error, setting.store.hangs = None, True
    monkeypatch.setattr(health_module, "TIMEOUT", 0.01)
    status, told = await setting.ready()
    assert (status, told["reason"]) == (503, "the store does not answer: nothing within 0.01 s")
    setting.store.hangs = False
    assert (await setting.ready())[0] == 200


async def test_many_probes_are_one_question_to_the_store(setting: Setting) -> None:
    setting.start()
    for _ in range(10):
        assert (await setting.ready())[0] == 200
    assert setting.store.asked == 1
