"""Limits, tenants and order as users declare them."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest

from headrace import App, ConfigurationError, InvalidPayload, JobStatus, Limit, Secret, signals
from headrace.core.runtime.clock import MovableClock
from headrace.store import Store
from headrace.stores.memory.store import MemoryStore
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until


class RunCounter:
    """Counts how many runs there are at once, by name."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []

    async def join(self, name: str, turns: int = 3) -> None:
        self.now[name] += 1
        self.most[name] = max(self.most[name], self.now[name])
        self.order.append(name)
        for _ in range(turns):
            await asyncio.sleep(0)
        self.now[name] -= 1


@pytest.fixture
def counter() -> RunCounter:
    return RunCounter()


async def test_max_running_holds_over_all_workers(app: App, counter: RunCounter) -> None:
    @app.task(max_running=3)
    async def call() -> None:
        await counter.join("call")

    await app.enqueue_many([call.call() for _ in range(50)])
    await asyncio.gather(*(app.worker(concurrency=20).run(burst=True) for _ in range(3)))
    assert len(counter.order) == 50
    assert counter.most["call"] == 3


async def test_a_limit_by_a_parameter_holds_for_each_value(app: App, counter: RunCounter) -> None:
    @app.task(limits=[Limit("customer", max_running=1, by="customer_id")])
    async def bill(customer_id: int, amount: int = 0) -> None:
        await counter.join(str(customer_id))

    await app.enqueue_many([bill.call(number % 4, amount=number) for number in range(20)])
    await bill.enqueue(customer_id=7)
    await app.worker().run(burst=True)
    assert counter.most == {"0": 1, "1": 1, "2": 1, "3": 1, "7": 1}
    assert len(counter.order) == 21


async def test_a_limit_by_a_function_of_the_arguments(app: App, counter: RunCounter) -> None:
    @app.task(limits=[Limit("domain", max_running=1, by=lambda address: address.partition("@")[2])])
    async def mail(address: str) -> None:
        await counter.join(address.partition("@")[2])

    await app.enqueue_many([mail.call(f"{number}@{domain}") for number in range(5) for domain in "xy"])
    await app.worker().run(burst=True)
    assert counter.most == {"x": 1, "y": 1}


async def test_several_tasks_and_queues_share_one_limit(app: App, counter: RunCounter) -> None:
    stripe = Limit("stripe", max_running=2)

    @app.task(limits=[stripe], queue="payments")
    async def charge() -> None:
        await counter.join("stripe")

    @app.task(limits=[stripe], queue="refunds")
    async def refund() -> None:
        await counter.join("stripe")

    await app.enqueue_many([task.call() for _ in range(15) for task in (charge, refund)])
    await app.worker().run(burst=True)
    assert len(counter.order) == 30
    assert counter.most["stripe"] == 2


async def test_a_queue_has_limits_for_all_its_jobs(app: App, counter: RunCounter) -> None:
    @app.task(queue="mails")
    async def send() -> None:
        await counter.join("mails")

    @app.task
    async def note() -> None:
        await counter.join("mails")

    app.queue("mails", limits=[Limit(max_running=2)])
    await app.enqueue_many(
        [call for _ in range(10) for call in (send.call(), note.with_(queue="mails").call())]
    )
    await app.worker().run(burst=True)
    assert counter.most["mails"] == 2
    assert [limit.name for limit in await app.admin.limits()] == ["queue:mails"]


async def test_a_rate_is_held(app: App, clock: MovableClock) -> None:
    begun: list[int] = []

    @app.task(rate_limit="10/m")
    async def call() -> None:
        begun.append(1)

    await app.enqueue_many([call.call() for _ in range(5)])
    async with app.worker():
        await wait_until(lambda: len(begun) == 1)
        waiting = await app.admin.jobs(state="queued")
        assert {job.waiting_for for job in waiting} == {f"task:{call.name}"}
    for number in range(2, 6):
        clock.advance(6.1)
        async with app.worker():  # promotion begins with a look
            await wait_until(partial(_has, begun, number))
    assert len(begun) == 5


def _has(begun: list[int], count: int) -> bool:
    return len(begun) == count


async def test_a_job_that_waits_lets_others_pass(app: App) -> None:
    gate = asyncio.Event()
    passed: list[int] = []

    @app.task(max_running=1)
    async def slow() -> None:
        await gate.wait()

    @app.task
    async def quick() -> None:
        passed.append(1)

    jobs = await app.enqueue_many([slow.call() for _ in range(200)])
    await app.enqueue_many([quick.call() for _ in range(50)])
    async with app.worker(concurrency=5):
        await wait_until(lambda: len(passed) == 50)
        waiting = await jobs[1].info()
        assert (waiting.status, waiting.waiting_for) == (JobStatus.QUEUED, f"task:{slow.name}")
        gate.set()
        await jobs[-1].wait(10)


async def test_a_flood_does_not_stop_limited_jobs(app: App) -> None:
    """Jobs that are claimed in advance leave no free slot."""
    ended: list[str] = []

    @app.task(max_running=1)
    async def limited() -> None:
        ended.append("limited")

    @app.task
    async def plain(number: int) -> None:
        ended.append("plain")
        if number == 5_000:  # the worker claims in advance by now
            await limited.enqueue()
        await asyncio.sleep(0)

    await app.enqueue_many([plain.call(number) for number in range(40_000)])
    await app.worker(concurrency=10).run(burst=True)
    assert ended.index("limited") < 35_000


async def test_tenants_take_turns(app: App) -> None:
    order: list[str] = []

    @app.task(tenant_by="customer")
    async def work(customer: str) -> None:
        order.append(customer)

    await app.enqueue_many([work.call("large") for _ in range(100)])
    await app.enqueue_many([work.call("small") for _ in range(3)])
    await work.with_(tenant="third").enqueue("large")
    await app.worker(concurrency=1).run(burst=True)
    assert order.index("small") < 5
    assert len(order) == 104


async def test_ordered_jobs_run_in_order_one_at_a_time(app: App, counter: RunCounter) -> None:
    order: list[tuple[int, int]] = []

    @app.task(ordered_by="account")
    async def book(account: int, number: int) -> None:
        order.append((account, number))
        await counter.join(str(account))

    await app.enqueue_many([book.call(number % 3, number) for number in range(30)])
    await app.worker().run(burst=True)
    assert counter.most == {"0": 1, "1": 1, "2": 1}
    for account in range(3):
        assert [number for each, number in order if each == account] == list(range(account, 30, 3))


async def test_ordered_jobs_keep_their_order_under_retries(app: App) -> None:
    order: list[int] = []
    failed: set[int] = set()

    @app.task(ordered_by="account", retry=lambda failures, error: 0.0)
    async def book(account: str, number: int) -> None:
        if number % 2 and number not in failed:
            failed.add(number)
            raise ValueError("not yet")
        order.append(number)

    await app.enqueue_many([book.call("a", number) for number in range(10)])
    await app.worker().run(burst=True)
    assert order == list(range(10))


# --- administration ---------------------------------------------------------------------------------------


async def test_limits_are_listed_and_changed_while_workers_run(app: App) -> None:
    gate, begun = asyncio.Event(), list[int]()

    @app.task(limits=[Limit("stripe", max_running=1, rate="1000/s", burst=7)])
    async def charge() -> None:
        begun.append(1)
        await gate.wait()

    await app.enqueue_many([charge.call() for _ in range(5)])
    async with app.worker():
        await wait_until(lambda: len(begun) == 1)
        (limit,) = await app.admin.limits()
        assert (limit.name, limit.max_running, limit.rate, limit.burst) == ("stripe", 1, "1000/s", 7)
        assert (limit.running, limit.waiting, limit.overridden) == (1, 4, False)
        await app.admin.set_limit("stripe", max_running=3)
        await wait_until(lambda: len(begun) == 3)
        (limit,) = await app.admin.limits()
        assert (limit.max_running, limit.rate, limit.overridden) == (3, "1000/s", True)
        gate.set()
        await app.admin.clear_limit("stripe")
        await wait_until(lambda: len(begun) == 5)
    with pytest.raises(ConfigurationError, match="no limit 'other'"):
        await app.admin.set_limit("other", max_running=3)
    with pytest.raises(ConfigurationError, match="no limit 'other'"):
        await app.admin.clear_limit("other")
    with pytest.raises(ConfigurationError, match="needs rate="):
        await app.admin.set_limit("stripe")


async def test_a_limit_of_the_code_is_set_before_a_worker_has_declared_it(
    app: App, counter: RunCounter
) -> None:
    @app.task(limits=[Limit("stripe", max_running=1, rate="1000/s")])
    async def charge() -> None:
        await counter.join("stripe")

    await app.admin.clear_limit("stripe")
    await app.admin.set_limit("stripe", max_running=2)
    await app.enqueue_many([charge.call() for _ in range(10)])
    await app.worker().run(burst=True)
    (limit,) = await app.admin.limits()
    assert (limit.max_running, limit.rate, limit.overridden) == (2, "1000/s", True)
    assert counter.most["stripe"] == 2


async def test_a_new_declaration_is_announced(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    @app.task(max_running=3)
    async def call() -> None: ...

    other = App(store=store.for_other_loop())
    other.task(name=call.name, max_running=5)(call.__wrapped__)
    async with other.worker():
        pass
    async with app.worker():
        pass
    (changed,) = [signal for signal in heard if isinstance(signal, signals.LimitChanged)]
    assert (changed.limit, changed.previous, changed.figures) == (
        f"task:{call.name}",
        "5 running",
        "3 running",
    )
    await other.close()


@pytest.fixture
def on_several_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster."""
    monkeypatch.setattr(MemoryStore, "limits_each_stream", True)


@pytest.mark.usefixtures("on_several_servers")
async def test_a_limit_over_queues_that_cannot_be_counted_together_is_refused(app: App) -> None:
    stripe = Limit("stripe", max_running=2)
    app.task(name="charge", queue="payments", limits=[stripe])(work)
    app.queue("refunds", limits=[stripe])
    with pytest.raises(ConfigurationError, match=r"payments, refunds.*hash_tag='stripe'.*or give each queue"):
        async with app.worker(queues=["payments"]):
            pass
    assert await app.admin.limits() == []


@pytest.mark.usefixtures("on_several_servers")
@pytest.mark.parametrize("declared", [True, False])
async def test_a_limit_over_parts_that_cannot_be_counted_together_is_refused(
    app: App, declared: bool
) -> None:
    if declared:
        app.queue("mails", partitions=3)
    else:
        await app.admin.split("mails", 3)
    app.task(name="send", queue="mails", max_running=2)(work)
    with pytest.raises(ConfigurationError, match=r"'mails', which has partitions.*remove the limit"):
        async with app.worker(queues=["mails"]):
            pass


@pytest.mark.usefixtures("on_several_servers")
async def test_limits_of_one_queue_each_are_fine(app: App, counter: RunCounter) -> None:
    @app.task(max_running=2)
    async def call() -> None:
        await counter.join("call")

    app.queue("other", limits=[Limit(max_running=3)])
    await app.enqueue_many([call.call() for _ in range(10)])
    await app.worker().run(burst=True)
    assert counter.most["call"] == 2


# --- wrong declarations -----------------------------------------------------------------------------------


async def work(customer: str, token: Secret[str] | None = None) -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_limit": "fast"}, '"100/s"'),
        ({"rate_limit": "0/s"}, "a rate is a number"),
        ({"rate_limit": "10/w"}, "a rate is a number"),
        ({"max_running": 0}, "from 1"),
        ({"max_running": "3"}, "whole number"),
        ({"limits": [3]}, "list of Limit"),
        ({"limits": [Limit(max_running=1, by="costumer")]}, "names no parameter.*customer"),
        ({"tenant_by": "costumer"}, "names no parameter.*customer"),
        ({"ordered_by": "costumer"}, "names no parameter.*customer"),
        ({"ordered_by": 3}, "name of a parameter"),
        ({"max_running": 1, "limits": [Limit(rate="1/s")]}, "two limits"),
    ],
    ids=str,
)
async def test_a_wrong_declaration_is_refused(app: App, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        app.task(**options)(work)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limit("x"),
        lambda: Limit(burst=3, max_running=1),
        lambda: Limit("a b", max_running=1),
        lambda: Limit("paused:x", max_running=1),
        lambda: Limit(rate="1/s", burst=0),
        lambda: Limit(rate="1/s", by=3),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_limit_is_refused(make: object) -> None:
    with pytest.raises(ConfigurationError):
        make()  # type: ignore[operator]


async def test_one_name_has_one_set_of_figures(app: App) -> None:
    app.task(limits=[Limit("stripe", max_running=1)])(work)

    async def other() -> None: ...

    with pytest.raises(ConfigurationError, match="different figures"):
        app.task(limits=[Limit("stripe", max_running=2)])(other)


async def test_a_key_function_that_fails_refuses_the_enqueue(app: App) -> None:
    def broken(*args: object, **kwargs: object) -> str:
        raise LookupError("no such customer")

    task = app.task(limits=[Limit("customer", max_running=1, by=broken)])(work)
    with pytest.raises(InvalidPayload, match="no such customer"):
        await task.enqueue("a")
    with pytest.raises(InvalidPayload):
        await app.enqueue_many([task.call("a"), task.call("b")])
    assert not await app.admin.queues()


async def test_a_secret_is_no_key(app: App) -> None:
    task = app.task(limits=[Limit("token", max_running=1, by="token")])(work)
    with pytest.raises(InvalidPayload, match="Secret"):
        await task.enqueue("a", Secret("hidden"))


async def test_a_worker_does_not_start_on_a_store_without_limits() -> None:
    inner = InterceptedStore()
    verbs = {name: getattr(inner, name) for name in Store.__abstractmethods__}
    app = App(store=type("StoreWithoutLimits", (Store,), verbs)())

    @app.task(name="pay", ordered_by="account")
    async def pay(account: str) -> None: ...

    with pytest.raises(ConfigurationError, match="has no limits, tenants and ordered jobs"):
        async with app.worker():
            pass
    with pytest.raises(ConfigurationError, match="cannot pause a task"):
        await app.admin.pause(task="pay")
    assert await app.admin.limits() == []
    await app.close()


async def test_a_queue_with_a_hash_tag_has_no_partitions(app: App) -> None:
    with pytest.raises(ConfigurationError, match="give one of them"):
        app.queue("mails", hash_tag="payments", partitions=3)
    with pytest.raises(ConfigurationError, match="hash_tag"):
        app.queue("mails", hash_tag="a b")
    assert app.queue("mails", hash_tag="payments").hash_tag == "payments"


async def test_ordered_jobs_are_not_split(app: App) -> None:
    @app.task(ordered_by="account", queue="posts")
    async def post(account: int) -> None: ...

    await post.enqueue(1)
    with pytest.raises(ConfigurationError, match="'posts' has ordered jobs and is not empty"):
        await app.admin.split("posts", 2)
    await app.worker().run(burst=True)
    await app.admin.split("posts", 2)
    assert (await post.enqueue(1)).duplicate is False
