"""The pages of limits, what a job says it waits for, and paused tasks."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from headrace import App, Job, Limit, RetryPolicy, Task
from headrace.core.limits.figures import LimitFigures
from headrace.dashboard import asgi
from tests.support.waiting import wait_until
from tests.unit.dashboard.sample_app import HOSTILE, Shop

from .conftest import Visitor, tags_of
from .test_hostile import check


class Limited:
    """Tasks with limits, tenants and order, beside those of the shop."""

    def __init__(self, shop: Shop) -> None:
        app = self.app = shop.app
        stripe = Limit("stripe", rate="100/s", max_running=1)

        @app.task(name="charge", queue="slow", limits=[stripe])
        async def charge() -> None: ...

        @app.task(name="invoice", queue="invoices", limits=[Limit("customer", max_running=1, by="customer")])
        async def invoice(customer: int) -> None: ...

        @app.task(name="post", queue="ledger", ordered_by="account")
        async def post(account: int) -> None: ...

        @app.task(name="export", tenant_by="customer", max_running=7)
        async def export(customer: str) -> None: ...

        self.charge: Task[[], None] = charge
        self.invoice, self.post, self.export = invoice, post, export

    async def declare(self) -> None:
        """Have the limits declared as a worker does it."""
        async with self.app.worker(queues=["none"]):
            pass


@pytest.fixture
async def limited(shop: Shop) -> Limited:
    limited = Limited(shop)
    await limited.declare()
    return limited


async def shown(visitor: Visitor, path: str, status: int = 200) -> str:
    page = await visitor.get(path)
    assert page.status_code == status, page.text[:2000]
    return " ".join(unescape(re.sub("<[^>]*>", " ", page.text)).split())


async def waits(job: Job[Any], limit: str) -> None:
    async def is_so() -> bool:
        return (await job.info()).waiting_for == limit

    await wait_until(is_so)


async def test_limits_are_listed_with_what_they_allow_count_and_concern(
    limited: Limited, visitor: Visitor
) -> None:
    await limited.charge.enqueue()
    for customer in range(3):
        await limited.invoice.enqueue(customer)
    text = await shown(visitor, "/limits")
    assert "customer 0 3 3 1 for each key any task invoice" in text
    assert "stripe 0 1 – 1 100/s, burst 10 task charge" in text
    assert "task:export 0 0 – 7 any task export" in text
    assert "stripe" not in await shown(visitor, "/limits?text=export")
    assert "No limit has this in its name" in await shown(visitor, "/limits?text=nothing")
    hrefs = [attributes.get("href") for _, attributes in tags_of((await visitor.get("/limits")).text)]
    assert {"/limit?name=stripe", "/queues/slow"} <= set(hrefs)


async def test_a_limit_is_overridden_and_cleared(limited: Limited, visitor: Visitor) -> None:
    said = await visitor.act("limit-set", name="stripe", max_running="5", rate=" 20/m ", burst="")
    assert said == "The limit stripe has new figures, until you clear them"
    [stripe] = [each for each in await limited.app.admin.limits() if each.name == "stripe"]
    assert (stripe.max_running, stripe.rate, stripe.burst) == (5, "20/m", 1)
    text = await shown(visitor, "/limit?name=stripe")
    assert "Max running 5 Rate 20/m, burst 1 Declared 1 running and 100/s, burst 10 overridden" in text
    assert "overridden" in await shown(visitor, "/limits")
    await visitor.act("limit-clear", name="stripe")
    text = await shown(visitor, "/limit?name=stripe")
    assert "Max running 1 Rate 100/s, burst 10 Running" in text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rate": "fast"}, "Failed: a rate is a number and a unit"),
        ({"max_running": "many"}, "Failed: max_running is a whole number, such as 10, not 'many'"),
        ({"max_running": "-1"}, "Failed: max_running is a whole number"),
        ({"burst": "0"}, "Failed: burst"),
        ({"burst": "9" * 400}, "Failed: burst is a whole number"),
        ({"max_running": " "}, "Nothing was changed: fill in at least one field"),
        ({"name": "unknown", "max_running": "1"}, "Failed: there is no limit 'unknown'"),
    ],
)
async def test_wrong_figures_are_refused(
    limited: Limited, visitor: Visitor, fields: dict[str, str], said: str
) -> None:
    assert said in await visitor.act("limit-set", **{"name": "stripe", **fields})
    assert not any(each.overridden for each in await limited.app.admin.limits())


async def test_an_unknown_limit_is_said_to_be_unknown(visitor: Visitor) -> None:
    assert "There are no limits" in await shown(visitor, "/limits")
    assert "There is no limit stripe" in await shown(visitor, "/limit?name=stripe", 404)
    assert "Failed: there is no limit" in await visitor.act("limit-clear", name="stripe")


async def test_a_job_says_which_limit_it_waits_for(shop: Shop, limited: Limited, visitor: Visitor) -> None:
    await limited.app.admin.set_limit("stripe", max_running=0)
    job = await limited.charge.enqueue()
    other = await shop.wait.enqueue()
    async with limited.app.worker(grace=0):
        await shop.until(other, "running")
        await waits(job, "stripe")
        assert "Waits for the limit stripe" in await shown(visitor, f"/job?id={job.id}")
        assert "waits for the limit stripe" in await shown(visitor, "/queues/slow")
        held = await shown(visitor, "/queues/slow?state=queued&waiting_for=stripe")
        assert job.id in held
        assert other.id not in held
        assert "Nothing found" in await shown(visitor, "/queues/slow?waiting_for=other")
        page = (await visitor.get("/limit?name=stripe")).text
        assert 'href="/queues/slow?state=queued&amp;waiting_for=stripe"' in page


async def test_without_the_code_queues_with_waiting_jobs_are_offered(shop: Shop, limited: Limited) -> None:
    await limited.charge.enqueue()
    visitor = Visitor(asgi(App(store=shop.backend)))
    page = (await visitor.get("/limit?name=stripe")).text
    assert "not declared by this app" in page
    assert 'href="/queues/slow?state=queued&amp;waiting_for=stripe"' in page


async def test_a_job_says_that_it_waits_for_its_order(shop: Shop, limited: Limited, visitor: Visitor) -> None:
    first, second = await limited.post.enqueue(7), await limited.post.enqueue(7)
    await shop.app.admin.pause("ledger")
    assert "Waits for its queue, which is paused" in await shown(visitor, f"/job?id={first.id}")
    assert "an earlier job with its order key" in await shown(visitor, f"/job?id={second.id}")
    assert "waits for an earlier job with its order key" in await shown(visitor, "/queues/ledger")


async def test_a_job_of_a_tenant_waits_for_its_turn(limited: Limited, visitor: Visitor) -> None:
    job = await limited.export.enqueue("acme")
    assert "Waits for the turn of its tenant" in await shown(visitor, f"/job?id={job.id}")
    assert "tenants take turns" in await shown(visitor, "/queues/default")


async def test_a_task_is_paused_and_resumed(shop: Shop, visitor: Visitor) -> None:
    job = await shop.add.enqueue(1)
    assert "Pause task" in await shown(visitor, f"/job?id={job.id}")
    assert "The task add is paused" in await visitor.act("task-pause", task="add")
    text = await shown(visitor, f"/job?id={job.id}")
    assert "Waits for its task, which is paused" in text
    assert "Resume task" in text
    assert "Paused tasks" in await shown(visitor, "/limits")
    async with shop.app.worker(grace=0):
        await waits(job, "paused:add")
        assert "Waits for its task, which is paused Task" in await shown(visitor, f"/job?id={job.id}")
        assert "add paused" in await shown(visitor, "/queues/default")
        assert "The task add is resumed" in await visitor.act("task-resume", task="add")
        await shop.until(job, "succeeded")
    assert "Paused tasks" not in await shown(visitor, "/limits")
    assert (await visitor.get("/limit?name=paused:add")).status_code == 404


async def test_the_page_of_a_queue_shows_its_limits_and_retries(shop: Shop, visitor: Visitor) -> None:
    stripe, own = Limit("stripe", rate="1/s"), Limit(max_running=50)
    retry = RetryPolicy.fixed(5, 10)
    shop.app.queue("mails", queue_limit=100_000, retry=retry, crash_limit=3, limits=[stripe, own])
    await shop.mail.enqueue("x")
    text = await shown(visitor, "/queues/mails")
    assert "at most 100,000 jobs may wait · 5 retries, 10 s after a failure · dead at crash 3" in text
    assert "dead at crash 3 · limit stripe · limit queue:mails" in text
    assert "1 task" in text


@pytest.mark.parametrize(
    ("retry", "words"),
    [
        (RetryPolicy.none(), "no retries"),
        (RetryPolicy.fixed(1, 60), "1 retry, 60 s after a failure"),
        (RetryPolicy.exponential(3), "3 retries, 1 s after the first failure, later ones up to 10 min"),
        (lambda failures, error: None, "retries as a function of the code says"),
    ],
)
async def test_a_retry_policy_is_told_in_words(shop: Shop, visitor: Visitor, retry: Any, words: str) -> None:
    shop.app.queue("mails", retry=retry)
    await shop.mail.enqueue("x")
    assert words in await shown(visitor, "/queues/mails")


async def test_old_jobs_are_cleaned(shop: Shop, visitor: Visitor) -> None:
    await shop.add.enqueue(1)
    page = await shown(visitor, "/queues/default?state=queued")
    assert "Remove all queued" in page
    assert "Remove older" in page
    fields = {"queue": "default", "state": "queued"}
    assert await visitor.act("clean", older_than="1h", **fields) == "0 queued jobs of default removed"
    assert "is no span of time" in await visitor.act("clean", older_than="old", **fields)
    assert await visitor.act("clean", older_than="0s", **fields) == "1 queued job of default removed"
    # What the search shows is not what would be removed.
    assert "Remove all" not in await shown(visitor, "/queues/default?state=queued&text=x")


async def test_the_pages_stay_short_with_many_keys_and_limits(limited: Limited, visitor: Visitor) -> None:
    await limited.app.enqueue_many([limited.invoice.call(number) for number in range(10_000)])
    await limited.app.admin.set_limit("customer", max_running=2)
    store = limited.app.admin._backend
    await store.declare_limits([LimitFigures(f"limit-{number:04}", 1) for number in range(1000)])
    await store.declare_limits([LimitFigures(f"paused:task-{number:04}", 0) for number in range(1000)])
    for path in ("/limits", "/limit?name=customer", "/queues/invoices"):
        page = await visitor.get(path)
        check(page.text)
    text = await shown(visitor, "/limits")
    assert "customer overridden 0 10,000 10,000" in text
    assert "200 of 1,003 are shown. Search" in text
    assert "200 of 1,000 are shown." in text
    assert "10,000 have a job that runs or waits" in await shown(visitor, "/limit?name=customer")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_names_are_harmless(shop: Shop, visitor: Visitor, text: str) -> None:
    """An attacker who can write to the store may have declared them."""
    await shop.app.open()
    text = text[:10_000]
    names = [text, f"task:{text}", f"queue:{text}", f"paused:{text}"]
    store = shop.app.admin._backend
    await store.declare_limits([LimitFigures(name, 0) for name in names])
    for name in names:
        await store.set_limit(name, LimitFigures(name, 0))
    check((await visitor.get("/limits")).text)
    encodable = text.replace("\ud800", "")[:2000]
    for field in ("name", "text", "waiting_for"):
        for path in ("/limits", "/limit", "/queues/default"):
            check((await visitor.get(f"{path}?{urlencode({field: encodable})}")).text)


async def test_nothing_can_be_changed_in_read_only_mode(shop: Shop, limited: Limited) -> None:
    visitor = Visitor(asgi(shop.app, read_only=True))
    job = await limited.charge.enqueue()
    await shop.app.admin.pause(task="add")
    paths = ("/limits", "/limit?name=stripe", "/queues/slow?state=queued", f"/job?id={job.id}")
    for path in paths:
        forms = [attributes for tag, attributes in tags_of((await visitor.get(path)).text) if tag == "form"]
        assert all(each.get("method") == "get" for each in forms), path
    for verb in ("limit-set", "limit-clear", "task-pause", "task-resume", "clean"):
        assert (await visitor.post(f"/actions/{verb}", {"name": "stripe"})).status_code == 403
