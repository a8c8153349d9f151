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
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.streams import StreamRouter
from headrace.store import Store
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until


class Watched:
    """An `AppLoop` whose store counts how often it is opened and closed."""

    def __init__(self) -> None:
        self.store = InterceptedStore()
        self.backend = StreamRouter(self.store)
        self.app_loop = AppLoop(self.backend)
        self.events: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[Exception] = []
        self.store.intercept("open", self._open)
        self.store.intercept("close", self._close)
        self.store.intercept("for_other_loop", self._twin)

    async def _open(self) -> None:
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop()
        self.events.append("open")

    async def _close(self) -> None:
        await self.gate.wait()
        self.events.append("close")

    def _twin(self) -> Store:
        self.events.append("twin")
        return InterceptedStore()

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
def watched() -> Watched:
    return Watched()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    elsewhere = Elsewhere()
    yield elsewhere
    elsewhere.stop()


# --- opening and closing -------------------------------------------------------------------------------


async def test_nothing_is_opened_before_the_first_use(watched: Watched) -> None:
    assert watched.events == []
    assert not watched.app_loop.in_use


async def test_the_first_use_opens_the_store_and_binds_the_loop(watched: Watched) -> None:
    await watched.app_loop.call(watched.ask)
    await watched.app_loop.call(watched.ask)
    assert watched.events == ["open"]
    assert watched.app_loop.here


async def test_first_uses_at_the_same_time_open_it_once(watched: Watched) -> None:
    await asyncio.gather(*(watched.app_loop.call(watched.ask) for _ in range(5)))
    assert watched.events == ["open"]


async def test_a_store_that_did_not_open_is_tried_again_by_the_next_use(watched: Watched) -> None:
    watched.errors = [BackendUnavailable("away")]
    answers = await asyncio.gather(
        *(watched.app_loop.call(watched.ask) for _ in range(3)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [BackendUnavailable] * 3
    await watched.app_loop.call(watched.ask)
    assert watched.events == ["open"]


async def test_a_caller_that_goes_away_while_it_opens_spoils_it_for_nobody(watched: Watched) -> None:
    first = asyncio.create_task(watched.app_loop.call(watched.ask))
    second = asyncio.create_task(watched.app_loop.call(watched.ask))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert watched.events == ["open"]
    assert first.cancelled()


async def test_a_cancelled_close_closes_the_store_all_the_same(watched: Watched) -> None:
    await watched.app_loop.call(watched.ask)
    watched.gate.clear()
    closing = asyncio.create_task(watched.app_loop.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.sleep(0)
    watched.gate.set()
    await asyncio.wait([closing])
    assert closing.cancelled()
    assert watched.events == ["open", "close"]
    await watched.app_loop.call(watched.ask)  # here, and not in a thread, as after a loop that ended
    assert watched.app_loop.here


async def test_a_close_that_is_cancelled_before_its_end_can_be_repeated(watched: Watched) -> None:
    await watched.app_loop.call(watched.ask)
    busy = asyncio.Event()
    watched.app_loop.register_user(busy.wait)  # type: ignore[arg-type]
    closing = asyncio.create_task(watched.app_loop.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    busy.set()
    await watched.app_loop.close()
    assert watched.events == ["open", "close"]


async def test_closing_waits_for_what_is_under_way_and_closes_the_store_last(watched: Watched) -> None:
    async def closer(name: str) -> None:
        watched.events.append(name)

    watched.app_loop.before_close(lambda: closer("what is under way"))
    await watched.app_loop.call(watched.ask)
    await watched.app_loop.close()
    assert watched.events == ["open", "what is under way", "close"]
    assert not watched.app_loop.in_use


async def test_after_closing_it_may_be_used_again(watched: Watched) -> None:
    for _ in range(2):
        await watched.app_loop.call(watched.ask)
        await watched.app_loop.close()
    assert watched.events == ["open", "close"] * 2


async def test_closing_what_was_never_opened_does_nothing(watched: Watched) -> None:
    await watched.app_loop.close()
    assert watched.events == []


async def test_using_it_while_it_closes_is_refused(watched: Watched) -> None:
    await watched.app_loop.call(watched.ask)
    watched.gate.clear()
    closing = asyncio.create_task(watched.app_loop.close())
    await asyncio.sleep(0)
    with pytest.raises(AppClosed, match="the app is closing"):
        await watched.app_loop.call(watched.ask)
    watched.gate.set()
    await closing
    await watched.app_loop.call(watched.ask)


async def test_every_caller_that_closes_it_waits_until_it_is_closed(watched: Watched) -> None:
    await watched.app_loop.call(watched.ask)
    watched.gate.clear()
    closing = [asyncio.create_task(watched.app_loop.close()) for _ in range(2)]
    done, _ = await asyncio.wait(closing, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    assert not done
    watched.gate.set()
    await asyncio.gather(*closing)
    await watched.app_loop.call(watched.ask)
    assert watched.events == ["open", "close", "open"]


async def test_closing_while_it_opens_waits_for_that(watched: Watched) -> None:
    using = asyncio.create_task(watched.app_loop.call(watched.ask))
    await asyncio.sleep(0)
    await watched.app_loop.close()
    await using
    assert watched.events[:2] == ["open", "close"]


# --- other loops ---------------------------------------------------------------------------------------


async def test_calls_from_another_loop_are_served_by_a_thread_of_the_apps_own(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    await watched.app_loop.call(watched.ask)
    asked = await asyncio.wrap_future(elsewhere.run(watched.app_loop.call(watched.ask)))
    assert asked not in (threading.get_ident(), elsewhere.thread.ident)
    assert watched.events == ["open", "twin"]
    await watched.app_loop.close()


async def test_errors_are_carried_back(watched: Watched, elsewhere: Elsewhere) -> None:
    async def fail() -> int:
        raise ValueError("no")

    await watched.app_loop.call(watched.ask)
    with pytest.raises(ValueError, match="no"):
        await asyncio.wrap_future(elsewhere.run(watched.app_loop.call(fail)))
    await watched.app_loop.close()


async def test_a_cancellation_is_carried_there(watched: Watched, elsewhere: Elsewhere) -> None:
    inside, cancelled = threading.Event(), threading.Event()

    async def wait() -> int:
        inside.set()
        try:
            return await watched.wait_forever()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await watched.app_loop.call(watched.ask)
    asked = elsewhere.run(watched.app_loop.call(wait))
    await wait_until(inside.is_set)
    asked.cancel()
    await wait_until(cancelled.is_set)
    await watched.app_loop.close()


async def test_it_is_closed_from_another_loop_as_from_its_own(watched: Watched, elsewhere: Elsewhere) -> None:
    elsewhere.run(watched.app_loop.call(watched.ask)).result(10)
    await watched.app_loop.close()
    assert watched.events == ["open", "close"]


async def test_leaving_closes_it_on_this_loop_alone(watched: Watched, elsewhere: Elsewhere) -> None:
    elsewhere.run(watched.app_loop.enter()).result(10)
    await watched.app_loop.enter()
    await watched.app_loop.enter()
    await watched.app_loop.leave()
    assert watched.app_loop.here
    await watched.app_loop.leave()
    assert watched.app_loop.here is None
    assert watched.events == ["open", "twin"]
    await asyncio.wrap_future(elsewhere.run(watched.app_loop.leave()))
    assert watched.events == ["open", "twin", "close"]


async def test_the_last_to_leave_ends_the_thread_unless_somebody_waits_there(watched: Watched) -> None:
    inside, end = threading.Event(), threading.Event()

    async def wait() -> int:
        inside.set()
        await wait_until(end.is_set)
        return 1

    await watched.app_loop.enter()
    waiting = watched.app_loop.submit(wait)
    await wait_until(inside.is_set)
    await watched.app_loop.leave()
    assert watched.app_loop.has_thread
    end.set()
    assert await asyncio.wrap_future(waiting) == 1
    await watched.app_loop.enter()
    await watched.app_loop.leave()
    assert not watched.app_loop.has_thread


def test_a_closed_loop_is_let_go_and_the_store_opened_anew(watched: Watched) -> None:
    asyncio.run(self_contained(watched))
    assert not watched.app_loop.in_use
    asyncio.run(self_contained(watched))
    assert watched.events == ["open", "twin", "close"]
    assert watched.app_loop.has_thread, "the next loop may be as short-lived"
    asyncio.run(watched.app_loop.close())


async def self_contained(watched: Watched) -> None:
    await watched.app_loop.call(watched.ask)


def test_closing_after_the_loop_died_closes_what_it_left_open(watched: Watched) -> None:
    asyncio.run(self_contained(watched))
    for _ in range(2):
        asyncio.run(watched.app_loop.close())
    assert watched.events == ["open", "twin", "close"]


def test_a_loop_that_stands_still_keeps_nobody_waiting(watched: Watched) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(watched.app_loop.call(watched.ask))
    asyncio.run(self_contained(watched))
    asyncio.run(watched.app_loop.close())
    loop.close()
    assert watched.events == ["open", "twin", "twin", "close"]


async def test_whoever_waits_while_it_is_closed_is_told(watched: Watched, elsewhere: Elsewhere) -> None:
    inside = threading.Event()

    async def wait() -> int:
        inside.set()
        return await watched.wait_forever()

    await watched.app_loop.call(watched.ask)
    waiting = elsewhere.run(watched.app_loop.call(wait))
    await wait_until(inside.is_set)
    await watched.app_loop.close()
    with pytest.raises(AppClosed, match="closed before it answered"):
        await asyncio.wrap_future(waiting)


# --- residents -----------------------------------------------------------------------------------------


async def test_a_worker_has_the_store_on_its_own_loop_whoever_else_has_it(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    elsewhere.run(watched.app_loop.call(watched.ask)).result(10)
    await watched.app_loop.open_here()
    assert watched.app_loop.here
    assert watched.events == ["open", "twin"]
    await watched.app_loop.close()


async def test_opening_where_it_is_open_changes_nothing(watched: Watched) -> None:
    await watched.app_loop.call(watched.ask)
    await watched.app_loop.open_here()
    assert watched.events == ["open"]


async def test_a_user_of_the_store_is_stopped_before_the_store_is_closed(watched: Watched) -> None:
    async def stop() -> None:
        watched.events.append("stop")

    await watched.app_loop.call(watched.ask)
    watched.app_loop.register_user(stop)
    await watched.app_loop.close()
    assert watched.events == ["open", "stop", "close"]


async def test_a_user_that_has_stopped_is_not_stopped_again(watched: Watched) -> None:
    async def stop() -> None:
        raise AssertionError("it was stopped twice")

    await watched.app_loop.call(watched.ask)
    watched.app_loop.register_user(stop)
    watched.app_loop.unregister_user(stop)
    await watched.app_loop.close()


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
