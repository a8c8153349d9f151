"""A supervised loop: steps, pauses, and what becomes of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace.core.moving.seal import moved_to
from headrace.core.signals import BackendError, Signal
from headrace.engine.emitter import Emitter
from headrace.engine.service import LONGEST_BACKOFF, MOVED_PAUSE, Service, Step, backoff
from tests.support.waiting import wait_until


def service(step: Step, hear: Callable[[Signal], None] = lambda signal: None) -> Service:
    emitter = Emitter()
    emitter.on(Signal, hear)
    return Service("sweeper", step, emitter=emitter)


async def test_a_step_without_a_pause_is_followed_by_the_next() -> None:
    enough = asyncio.Event()
    steps = 0

    async def step() -> float | None:
        nonlocal steps
        steps += 1
        if steps == 3:
            enough.set()
        await asyncio.sleep(0)
        return None

    sweeper = service(step)
    sweeper.start()
    await enough.wait()
    await sweeper.stop()
    assert steps >= 3


async def test_a_pause_is_kept_and_a_poke_ends_it() -> None:
    steps = 0

    async def step() -> float | None:
        nonlocal steps
        steps += 1
        return 3600.0

    sweeper = service(step)
    sweeper.start()
    await wait_until(lambda: steps == 1)
    sweeper.poke()
    await wait_until(lambda: steps == 2)
    await sweeper.stop()


async def test_a_poke_during_a_step_is_not_lost() -> None:
    steps, inside, gate = 0, asyncio.Event(), asyncio.Event()

    async def step() -> float | None:
        nonlocal steps
        steps += 1
        inside.set()
        await gate.wait()
        return 3600.0

    sweeper = service(step)
    sweeper.start()
    await inside.wait()
    sweeper.poke()
    gate.set()
    await wait_until(lambda: steps == 2)
    await sweeper.stop()


async def test_stopping_lets_the_step_under_way_end() -> None:
    ended, inside, gate = False, asyncio.Event(), asyncio.Event()

    async def step() -> float | None:
        nonlocal ended
        inside.set()
        await gate.wait()
        ended = True
        return None

    sweeper = service(step)
    sweeper.start()
    await inside.wait()
    stopping = asyncio.create_task(sweeper.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    gate.set()
    await stopping
    assert ended


async def test_stopping_does_not_wait_out_a_pause() -> None:
    steps = 0

    async def step() -> float | None:
        nonlocal steps
        steps += 1
        return 3600.0

    sweeper = service(step)
    sweeper.start()
    await wait_until(lambda: steps == 1)
    await sweeper.stop()
    assert steps == 1


async def test_stopping_what_was_never_started_does_nothing() -> None:
    async def step() -> float | None:
        return None

    await service(step).stop()


async def test_an_error_is_announced_backed_off_and_the_loop_goes_on() -> None:
    heard: list[Signal] = []
    done = asyncio.Event()
    failures_seen = []

    async def step() -> float | None:
        failures_seen.append(sweeper.failures)
        if len(failures_seen) <= 2:
            raise OSError("away")
        done.set()
        return 3600.0

    sweeper = service(step, heard.append)
    sweeper.start()
    await done.wait()
    await wait_until(lambda: sweeper.failures == 0)
    await sweeper.stop()
    assert failures_seen == [0, 1, 2]
    assert [type(signal) for signal in heard] == [BackendError, BackendError]
    first = heard[0]
    assert isinstance(first, BackendError)
    assert (first.service, first.error) == ("sweeper", "OSError: away")
    assert first.delay > 0


async def test_it_may_be_started_again() -> None:
    steps = 0

    async def step() -> float | None:
        nonlocal steps
        steps += 1
        return 3600.0

    sweeper = service(step)
    for expected in (1, 2):
        sweeper.start()
        await wait_until(lambda expected=expected: steps == expected)  # type: ignore[misc]
        await sweeper.stop()


@pytest.mark.parametrize("failures", [1, 2, 5, 10, 1000, 10**9])
def test_the_back_off_grows_and_stays_bounded(failures: int) -> None:
    for _ in range(50):
        assert 0.02 <= backoff(failures) <= min(LONGEST_BACKOFF, 0.1 * 2.0 ** min(failures, 10))


async def test_a_loop_on_a_store_that_was_moved_says_where_it_is_and_waits_long() -> None:
    heard: list[Signal] = []

    async def step() -> float | None:
        raise moved_to("redis://elsewhere")

    sweeper = service(step, heard.append)
    sweeper.start()
    await wait_until(lambda: heard)
    await sweeper.stop()
    (error,) = heard
    assert isinstance(error, BackendError)
    assert error.delay == MOVED_PAUSE
    assert "redis://elsewhere" in error.error
