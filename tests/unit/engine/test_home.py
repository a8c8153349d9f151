"""Where an app has its store open: on the first loop, on those that enter it, in a thread for others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from headrace import AppClosed, BackendUnavailable
from headrace.engine.home import Home
from headrace.engine.streams import StreamRouter
from tests.routers import open_router
from tests.waiting import wait_until


class House:
    """A home whose store counts how often it is opened and closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.backend = open_router("memory://")
        self.home = Home(self.backend)
        self.events: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.troubles: list[Exception] = []
        monkeypatch.setattr(self.backend, "open", self._open)
        monkeypatch.setattr(self.backend, "close", self._close)
        monkeypatch.setattr(self.backend, "twin", self._twin)

    async def _open(self) -> None:
        await asyncio.sleep(0)
        if self.troubles:
            raise self.troubles.pop()
        self.events.append("open")

    async def _close(self) -> None:
        await self.gate.wait()
        self.events.append("close")

    def _twin(self) -> StreamRouter:
        self.events.append("twin")
        return open_router("memory://")

    async def wait_forever(self) -> int:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await future

    async def ask(self) -> int:
        """Something to call: the thread that it runs in."""
        return threading.get_ident()


class Elsewhere:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine: object) -> Future[int]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)  # type: ignore[arg-type]

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    return House(monkeypatch)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    elsewhere = Elsewhere()
    yield elsewhere
    elsewhere.stop()


# --- opening and closing -------------------------------------------------------------------------------


async def test_nothing_is_opened_before_the_first_use(house: House) -> None:
    assert house.events == []
    assert not house.home.in_use


async def test_the_first_use_opens_the_store_and_binds_the_loop(house: House) -> None:
    await house.home.call(house.ask)
    await house.home.call(house.ask)
    assert house.events == ["open"]
    assert house.home.here


async def test_first_uses_at_the_same_time_open_it_once(house: House) -> None:
    await asyncio.gather(*(house.home.call(house.ask) for _ in range(5)))
    assert house.events == ["open"]


async def test_a_store_that_did_not_open_is_tried_again_by_the_next_use(house: House) -> None:
    house.troubles = [BackendUnavailable("away")]
    answers = await asyncio.gather(*(house.home.call(house.ask) for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [BackendUnavailable] * 3
    await house.home.call(house.ask)
    assert house.events == ["open"]


async def test_a_caller_that_goes_away_while_it_opens_spoils_it_for_nobody(house: House) -> None:
    first = asyncio.create_task(house.home.call(house.ask))
    second = asyncio.create_task(house.home.call(house.ask))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert house.events == ["open"]
    assert first.cancelled()


async def test_closing_waits_for_what_is_under_way_and_closes_the_store_last(house: House) -> None:
    async def closer(name: str) -> None:
        house.events.append(name)

    house.home.before_close(lambda: closer("what is under way"))
    await house.home.call(house.ask)
    await house.home.close()
    assert house.events == ["open", "what is under way", "close"]
    assert not house.home.in_use


async def test_after_closing_it_may_be_used_again(house: House) -> None:
    for _ in range(2):
        await house.home.call(house.ask)
        await house.home.close()
    assert house.events == ["open", "close"] * 2


async def test_closing_what_was_never_opened_does_nothing(house: House) -> None:
    await house.home.close()
    assert house.events == []


async def test_using_it_while_it_closes_is_refused(house: House) -> None:
    await house.home.call(house.ask)
    house.gate.clear()
    closing = asyncio.create_task(house.home.close())
    await asyncio.sleep(0)
    with pytest.raises(AppClosed, match="the app is closing"):
        await house.home.call(house.ask)
    house.gate.set()
    await closing
    await house.home.call(house.ask)


async def test_closing_while_it_opens_waits_for_that(house: House) -> None:
    using = asyncio.create_task(house.home.call(house.ask))
    await asyncio.sleep(0)
    await house.home.close()
    await using
    assert house.events[:2] == ["open", "close"]


# --- other loops ---------------------------------------------------------------------------------------


async def test_calls_from_another_loop_are_served_by_a_thread_of_the_apps_own(
    house: House, elsewhere: Elsewhere
) -> None:
    await house.home.call(house.ask)
    asked = await asyncio.wrap_future(elsewhere.run(house.home.call(house.ask)))
    assert asked not in (threading.get_ident(), elsewhere.thread.ident)
    assert house.events == ["open", "twin"]
    await house.home.close()


async def test_errors_are_carried_back(house: House, elsewhere: Elsewhere) -> None:
    async def fail() -> int:
        raise ValueError("no")

    await house.home.call(house.ask)
    with pytest.raises(ValueError, match="no"):
        await asyncio.wrap_future(elsewhere.run(house.home.call(fail)))
    await house.home.close()


async def test_a_cancellation_is_carried_there(house: House, elsewhere: Elsewhere) -> None:
    inside, cancelled = threading.Event(), threading.Event()

    async def wait() -> int:
        inside.set()
        try:
            return await house.wait_forever()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await house.home.call(house.ask)
    asked = elsewhere.run(house.home.call(wait))
    await wait_until(inside.is_set)
    asked.cancel()
    await wait_until(cancelled.is_set)
    await house.home.close()


async def test_it_is_closed_from_another_loop_as_from_its_own(house: House, elsewhere: Elsewhere) -> None:
    elsewhere.run(house.home.call(house.ask)).result(10)
    await house.home.close()
    assert house.events == ["open", "close"]


async def test_leaving_closes_it_on_this_loop_alone(house: House, elsewhere: Elsewhere) -> None:
    elsewhere.run(house.home.enter()).result(10)
    await house.home.enter()
    await house.home.enter()
    await house.home.leave()
    assert house.home.here
    await house.home.leave()
    assert house.home.here is None
    assert house.events == ["open", "twin"]
    await asyncio.wrap_future(elsewhere.run(house.home.leave()))
    assert house.events == ["open", "twin", "close"]


async def test_the_last_to_leave_ends_the_thread_unless_somebody_waits_there(house: House) -> None:
    inside, end = threading.Event(), threading.Event()

    async def wait() -> int:
        inside.set()
        await wait_until(end.is_set)
        return 1

    await house.home.enter()
    waiting = house.home.submit(wait)
    await wait_until(inside.is_set)
    await house.home.leave()
    assert house.home.has_thread
    end.set()
    assert await asyncio.wrap_future(waiting) == 1
    await house.home.enter()
    await house.home.leave()
    assert not house.home.has_thread


def test_a_closed_loop_is_let_go_and_the_store_opened_anew(house: House) -> None:
    asyncio.run(self_contained(house))
    assert not house.home.in_use
    asyncio.run(self_contained(house))
    assert house.events == ["open", "twin", "close"]
    assert house.home.has_thread, "the next loop may be as short-lived"
    asyncio.run(house.home.close())


async def self_contained(house: House) -> None:
    await house.home.call(house.ask)


def test_closing_after_the_loop_died_closes_what_it_left_open(house: House) -> None:
    asyncio.run(self_contained(house))
    for _ in range(2):
        asyncio.run(house.home.close())
    assert house.events == ["open", "twin", "close"]


def test_a_loop_that_stands_still_keeps_nobody_waiting(house: House) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(house.home.call(house.ask))
    asyncio.run(self_contained(house))
    asyncio.run(house.home.close())
    loop.close()
    assert house.events == ["open", "twin", "twin", "close"]


async def test_whoever_waits_while_it_is_closed_is_told(house: House, elsewhere: Elsewhere) -> None:
    inside = threading.Event()

    async def wait() -> int:
        inside.set()
        return await house.wait_forever()

    await house.home.call(house.ask)
    waiting = elsewhere.run(house.home.call(wait))
    await wait_until(inside.is_set)
    await house.home.close()
    with pytest.raises(AppClosed, match="closed before it answered"):
        await asyncio.wrap_future(waiting)


# --- residents -----------------------------------------------------------------------------------------


async def test_a_worker_has_the_store_on_its_own_loop_whoever_else_has_it(
    house: House, elsewhere: Elsewhere
) -> None:
    elsewhere.run(house.home.call(house.ask)).result(10)
    await house.home.open_here()
    assert house.home.here
    assert house.events == ["open", "twin"]
    await house.home.close()


async def test_opening_where_it_is_open_changes_nothing(house: House) -> None:
    await house.home.call(house.ask)
    await house.home.open_here()
    assert house.events == ["open"]


class Lodger:
    """Lives there, and takes note of being told to go."""

    def __init__(self) -> None:
        self.stops = 0

    async def stop(self) -> None:
        self.stops += 1


async def test_whoever_lives_there_is_stopped_before_the_store_is_closed(house: House) -> None:
    await house.home.call(house.ask)
    worker = Lodger()
    house.home.move_in(worker)
    await house.home.close()
    assert worker.stops == 1


# --- forks ---------------------------------------------------------------------------------------------


FORK = """
import asyncio, os
from headrace import App

app = App("memory://")

@app.task
async def add(a: int, b: int) -> int:
    return a + b

app.sync.enqueue(add.call(1, 1))
child = os.fork()
if child == 0:
    app.sync.enqueue(add.call(2, 2))
    app.sync.close()
    os._exit(7)
_, status = os.waitpid(child, 0)
app.sync.enqueue(add.call(3, 3))
app.sync.close()
raise SystemExit(0 if os.waitstatus_to_exitcode(status) == 7 else 1)
"""


async def test_a_forked_child_uses_the_app_without_its_parents_threads() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, stderr=subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, errors.decode()
