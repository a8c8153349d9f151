"""What each page shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from headrace import App, Snooze
from headrace.admin import OutboxInfo
from headrace.core.messages.message import Stream
from headrace.core.records.record import WorkerInfo
from headrace.core.records.traffic import TrafficCount
from headrace.core.runtime.clock import MovableClock
from headrace.dashboard import asgi
from headrace.dashboard.pages import search
from headrace.dashboard.text import clock_time, exact
from headrace.testing.contract.kit.heartbeats import beat
from tests.support.waiting import wait_until
from tests.unit.dashboard.sample_app import Placed, Shop

from .conftest import Visitor, tags_of, text_of


async def text(visitor: Visitor, path: str, status: int = 200) -> str:
    answer = await visitor.get(path)
    assert answer.status_code == status, answer.text
    return " ".join(text_of(answer.text).split())


async def test_empty_pages_say_what_to_do(shop: Shop, visitor: Visitor) -> None:
    shown = await text(visitor, "/")
    assert "headrace worker module:app" in shown
    assert "await task.enqueue" in shown
    assert "app.topic(" in shown
    assert "No dead letters" in await text(visitor, "/dead")
    assert "headrace worker module:app" in await text(visitor, "/workers")
    assert "app.topic(" in await text(visitor, "/topics")
    assert "never existed" in await text(visitor, "/job?id=nothing", 404)
    assert "There are no jobs" in await text(visitor, "/queues/nothing", 404)
    assert "There is no such page" in await text(visitor, "/nowhere", 404)


async def test_the_overview_shows_how_things_stand(shop: Shop, visitor: Visitor) -> None:
    await shop.mail.enqueue("x")
    await shop.orders.publish(Placed(1, "no bill"))
    await shop.app.worker().run(burst=True)
    await shop.add.enqueue(1)
    shown = await text(visitor, "/")
    assert "default has 1 job waiting and no worker" in shown
    assert "1 dead in mails" in shown
    assert "1 dead in billing of orders" in shown


async def test_the_page_of_a_queue_shows_its_settings(shop: Shop, visitor: Visitor) -> None:
    shop.app.queue("mails", slots=20, dead_limit=1000, dead_retention=timedelta(days=2), on_dead="add")
    await shop.mail.enqueue("x")
    shown = await text(visitor, "/queues/mails")
    assert "at most 20 slots of a worker · a death calls add" in shown
    assert "dead letters are kept for 2 d · at most 1,000 dead letters are kept" in shown
    await shop.add.enqueue(1)
    assert "Declared" not in await text(visitor, "/queues/default")


async def test_the_overview_counts_what_groups_have_put_off(shop: Shop, visitor: Visitor) -> None:
    @shop.orders.subscribe(group="later", start="beginning")
    async def later(event: Placed) -> None:
        raise Snooze(3600)

    await shop.add.with_(delay=3600).enqueue(1)
    await shop.orders.publish(Placed(1))
    await shop.app.worker().run(burst=True)
    page = await visitor.get("/")
    assert '<div class="what">Scheduled, retrying</div><div class="big">2</div>' in page.text
    # The second and third group say whose they are as well, for who has no table before their eyes.
    assert page.text.count('<span class="again">orders</span>') == 2


async def test_the_overview_points_out_what_is_wrong(shop: Shop, visitor: Visitor) -> None:
    await shop.app.open()
    long_ago = int(datetime.now(UTC).timestamp() - 60) * 1_000_000
    quiet = WorkerInfo("quiet", "h", 1, 1, ("default",), 10, polled_us=long_ago)
    await beat(shop.backend, quiet)
    await shop.add.enqueue(1)
    await shop.app.admin.pause("default")
    shown = await text(visitor, "/")
    assert "worker quiet has not asked for work for" in shown
    assert "default is paused with 1 job waiting" in shown


async def test_the_overview_and_the_doctor_warn_by_the_same_bounds(shop: Shop, visitor: Visitor) -> None:
    await shop.app.open()
    for seconds, warned in ((20, False), (40, True)):
        polled = datetime.now(UTC) - timedelta(seconds=seconds)
        polled_us = round(polled.timestamp() * 1_000_000)
        worker = WorkerInfo("sleepy", "h", 1, 1, ("default",), 10, polled_us=polled_us)
        await beat(shop.backend, worker)
        findings = {finding.name: finding for finding in await shop.app.admin.doctor()}
        assert ("sleepy" in findings["workers"].text) is warned
        assert ("worker sleepy has not asked for work" in await text(visitor, "/")) is warned


async def test_plots_show_the_last_hour(shop: Shop, visitor: Visitor) -> None:
    await shop.add.enqueue(1)
    await shop.backend.count_traffic([TrafficCount(Stream("queue", "default"), done=90, failed=10)])
    page = await visitor.get("/")
    labels = [attributes.get("aria-label") or "" for tag, attributes in tags_of(page.text) if tag == "svg"]
    assert "default, the last 60 minutes: 90 done, 10 failed, at most 100 in a minute" in labels
    assert "90 done, 10 failed (10 %)" in text_of(page.text)
    assert page.text.count("<rect") == 4


async def test_times_are_relative_with_the_exact_one_beside(shop: Shop, visitor: Visitor) -> None:
    await shop.add.with_(delay=7200).enqueue(1)
    page = await visitor.get("/queues/default")
    times = [attributes for tag, attributes in tags_of(page.text) if tag == "time"]
    assert len(times) == 2
    assert all(str(datetime.now(UTC).year) in (each["title"] or "") for each in times)
    assert "in 1 h 59 min" in text_of(page.text) or "in 2 h" in text_of(page.text)


async def test_jobs_are_listed_by_state_page_by_page(shop: Shop, visitor: Visitor) -> None:
    await shop.app.enqueue_many([shop.add.call(i) for i in range(60)])
    await shop.add.with_(delay=60).enqueue(1)
    first = await visitor.get("/queues/default?state=queued")
    assert first.text.count("/job?id=") == search.PAGE
    [link] = [a["href"] for tag, a in tags_of(first.text) if tag == "a" and a.get("rel") == "next"]
    second = await visitor.get(link or "")
    assert second.text.count("/job?id=") == 10
    assert "First page" in second.text
    assert "Next page" not in second.text
    scheduled = await visitor.get("/queues/default?state=scheduled")
    assert scheduled.text.count("/job?id=") == 1


async def test_a_search_finds_by_id_task_error_and_time(shop: Shop, visitor: Visitor) -> None:
    flaky = await shop.flaky.enqueue()
    added = await shop.add.with_(delay=60).enqueue(1)
    await shop.run_until(flaky, "retrying")

    async def found(query: str) -> set[str]:
        page = (await visitor.get(f"/queues/default?{query}")).text
        return {id for id in (flaky.id, added.id) if f"id={id}&" in page}

    assert await found(f"text={flaky.id}") == {flaky.id}
    assert await found(f"text={added.id[5:].upper()}") == {added.id}
    assert await found("text=FLAK") == {flaky.id}
    assert await found("text=bank+is+closed") == {flaky.id}
    assert await found("since=1h") == {flaky.id, added.id}
    assert await found("until=1h") == set()
    assert await found("since=2020-01-01&until=2020-01-02") == set()
    assert await found("text=add&state=retrying") == set()
    assert "is no time" in await text(visitor, "/queues/default?since=yesterday", 400)
    assert "has no unit: write 15m, 2h or 3d (ago)" in await text(visitor, "/queues/default?since=90", 400)


async def test_a_search_finds_by_a_whole_argument(shop: Shop, visitor: Visitor) -> None:
    """The mail of order 123, when nobody knows its id."""
    jobs = [await shop.add.with_(result_ttl=0).enqueue(number) for number in (4123, 41231)]
    for job in jobs:
        await shop.run_until(job, "succeeded")

    page = (await visitor.get("/queues/default?text=4123")).text
    [link] = [path for _, each in tags_of(page) if "text=4123&state" in (path := each.get("href") or "")]
    in_history = (await visitor.get(link)).text
    assert [job.id for job in jobs if f"id={job.id}&" in in_history] == [jobs[0].id]


async def test_a_search_says_how_far_it_looked_and_goes_on(
    shop: Shop, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SCAN", 500)
    await shop.report.enqueue()
    await shop.app.enqueue_many([shop.add.call(i) for i in range(600)])
    page = await visitor.get("/queues/default?text=report")
    assert "Searched 550 jobs. There are more." in text_of(page.text)
    assert "Nothing found." in text_of(page.text)
    [link] = [a["href"] for tag, a in tags_of(page.text) if tag == "a" and a.get("rel") == "next"]
    further = await visitor.get(link or "")
    assert "Searched 51 jobs. There are no more." in text_of(further.text)
    assert further.text.count("/job?id=") == 1


async def test_a_search_that_finds_much_shows_a_page_of_it(shop: Shop, visitor: Visitor) -> None:
    await shop.app.enqueue_many([shop.add.call(i) for i in range(600)])
    page = (await visitor.get("/queues/default?text=add")).text
    assert "Searched 50 jobs. There are more." in text_of(page)
    assert page.count("/job?id=") == 50


async def test_a_search_is_made_once_and_not_every_second(shop: Shop, visitor: Visitor) -> None:
    await shop.add.enqueue(1)
    assert "data-path" in (await visitor.get("/queues/default?state=queued")).text
    assert "data-path" not in (await visitor.get("/queues/default?text=x")).text


async def test_a_job_shows_its_arguments_result_and_life(shop: Shop, visitor: Visitor) -> None:
    job = await shop.add.with_(headers={"trace": "abc"}).enqueue(2, b=3)
    waiting = await text(visitor, f"/job?id={job.id}")
    assert "trace" in waiting
    assert "Arguments a2b3" in waiting
    await shop.app.worker().run(burst=True)
    done = await text(visitor, f"/job?id={job.id}")
    assert "succeeded" in done
    assert "Result 5" in done
    assert "Arguments a2b3" in done, "the history has them"
    assert "Runs" in done
    assert "Waited" in done
    assert re.search(r"succeeded 1(now|[\d.]+ s ago) ended", await text(visitor, "/queues/default"))


async def test_a_life_begins_when_the_job_is_enqueued() -> None:
    ahead = MovableClock()
    ahead.advance(5)
    producer, shop = App("memory://life", clock=ahead), Shop("memory://life")
    visitor = Visitor(asgi(shop.app))

    @producer.task(name="wait", queue="slow")
    async def wait() -> None: ...

    async with producer, shop.app:
        job = await wait.enqueue()
        async with shop.app.worker(grace=0):
            await shop.until(shop.app.job(job.id, queue="slow"), "running")
            life = (await text(visitor, f"/job?id={job.id}")).split("Timeline")[1]
    assert life.index("enqueued") < life.index("started")


async def test_one_is_not_many(shop: Shop, visitor: Visitor) -> None:
    await shop.add.enqueue(1)
    await shop.orders.publish(Placed(1))
    assert "Searched 1 job. There are no more." in await text(visitor, "/queues/default?text=nothing")
    assert "1 event kept" in await text(visitor, "/topics")


async def test_a_job_shows_what_its_attempts_logged(shop: Shop, visitor: Visitor) -> None:
    job = await shop.say.enqueue(*(f"line {number}" for number in range(25)))
    await shop.run_until(job, "succeeded")
    shown = await text(visitor, f"/job?id={job.id}")
    assert "5 lines before these were not kept" in shown
    assert "line 4 " not in shown
    html = (await visitor.get(f"/job?id={job.id}")).text
    table = html[html.index('<table class="log">') :]
    assert table.count("<tr>") == 21
    assert 'data-label="Level" class="warn">warning<' in table
    info = await job.info()
    assert f'title="{exact(info.log[0].at)}">{clock_time(info.log[0].at)}<' in table
    silent = await shop.add.enqueue(1)
    await shop.run_until(silent, "succeeded")
    assert "<h2>Log</h2>" not in (await visitor.get(f"/job?id={silent.id}")).text


async def test_a_queue_in_parts_is_one_queue_and_says_so(shop: Shop, visitor: Visitor) -> None:
    jobs = [await shop.add.enqueue(number) for number in range(20)]
    assert "partitions" not in await text(visitor, "/queues/default")
    await shop.app.admin.split("default", 3)
    jobs += [await shop.add.enqueue(number) for number in range(20)]
    shown = await text(visitor, "/queues/default")
    assert "40 waiting" in shown
    assert "in 3 partitions" in shown
    assert all([job.id in await text(visitor, f"/job?id={job.id}") for job in jobs[::13]])


async def test_a_search_finds_by_unique_key(
    shop: Shop, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = await shop.add.with_(unique_key="customer-7", delay=3600).enqueue(1)
    former = await shop.mail.with_(unique_key="customer-8").enqueue("x")
    await shop.run_until(former, "dead")
    assert "Unique keycustomer-7" in await text(visitor, f"/job?id={holder.id}")
    # Held: found at once. Given up: found by looking.
    for queue, sought, found, looked in (
        ("default", "customer-7", holder.id, False),
        ("default", "omer-7", holder.id, True),
        ("mails", "customer-8", former.id, True),
    ):
        scans: list[str] = []
        jobs = shop.app.admin.jobs

        async def counted(queue: str, jobs: Any = jobs, scans: list[str] = scans, **options: Any) -> Any:
            scans.append(queue)
            return await jobs(queue, **options)

        monkeypatch.setattr(shop.app.admin, "jobs", counted)
        shown = await text(visitor, f"/queues/{queue}?text={sought}")
        monkeypatch.undo()
        assert found in shown
        assert bool(scans) is looked
    assert holder.id not in await text(visitor, "/queues/mails?text=customer-7")


async def test_a_job_that_failed_shows_when_where_and_why(shop: Shop, visitor: Visitor) -> None:
    job = await shop.flaky.enqueue()
    await shop.run_until(job, "retrying")
    page = await visitor.get(f"/job?id={job.id}")
    shown = " ".join(text_of(page.text).split())
    assert "retrying" in shown
    assert "the bank is closed" in shown
    assert "due" in shown
    assert 'class="timeline"' in page.text
    assert "Retry now" in shown


async def test_a_dead_job_shows_its_traceback(shop: Shop, visitor: Visitor) -> None:
    job = await shop.mail.enqueue("nobody")
    await shop.app.worker().run(burst=True)
    shown = await text(visitor, f"/job?id={job.id}&queue=mails")
    assert "Traceback" in shown
    assert "raise ValueError" in shown
    assert "Error ValueError: nobody" in shown
    assert "ValueError: nobody" in await text(visitor, "/queues/mails")
    assert "ValueError: nobody" in await text(visitor, "/dead")


async def test_arguments_have_their_names_where_these_are_known(shop: Shop, visitor: Visitor) -> None:
    many = await shop.say.enqueue("x", "y")
    assert 'Arguments [0]"x"[1]"y"' in await text(visitor, f"/job?id={many.id}")


async def test_an_event_shows_its_payload_and_key(shop: Shop, visitor: Visitor) -> None:
    event = await shop.orders.publish(Placed(7, "no bill"), key="customer-3", headers={"source": "web"})
    await shop.app.worker().run(burst=True)
    shown = await text(visitor, f"/job?id={event}&topic=orders&group=billing")
    assert "customer-3" in shown
    assert '"number": 7' in shown
    assert "orders/billing" in shown
    assert "Edit the arguments" not in shown


async def test_ids_that_look_like_paths_are_found(shop: Shop, visitor: Visitor) -> None:
    for id in ("..", "a/b", "a?b#c%2f", "<b>'\""):
        await shop.add.with_(job_id=id, delay=60).enqueue(1)
    page = await visitor.get("/queues/default")
    links = [a["href"] or "" for tag, a in tags_of(page.text) if tag == "a" and "/job?" in (a["href"] or "")]
    assert len(links) == 4
    for link in links:
        assert (await visitor.get(link)).status_code == 200


async def test_dead_letters_are_grouped_by_task_and_error(shop: Shop, visitor: Visitor) -> None:
    for number in range(5):
        await shop.mail.enqueue(f"no customer {number}")
    await shop.mail.enqueue("another thing")
    await shop.orders.publish(Placed(1, "no bill"))
    await shop.app.worker().run(burst=True)
    page = await visitor.get("/dead")
    assert page.text.count("<summary>") == 3
    assert "5 ×" in page.text
    assert (await visitor.get("/dead?topic=orders")).text.count("<summary>") == 1
    assert (await visitor.get("/dead?reason=crashed")).text.count("<summary>") == 0
    assert (await visitor.get("/dead?reason=nonsense")).status_code == 400


async def test_schedules_topics_and_workers_are_listed(shop: Shop, visitor: Visitor) -> None:
    await shop.orders.publish(Placed(1))
    await shop.app.schedules.add("tidy", shop.add.call(1, 2), cron="@daily", tz="Europe/London")
    job = await shop.wait.enqueue()
    async with shop.app.worker(grace=0):
        await wait_until(shop.app.admin.workers)
        await shop.until(job, "running")
        for path, expected in (
            ("/schedules", "0 9 * * mon-fri UTC"),
            ("/schedules", "@daily Europe/London"),
            ("/topics", "billing"),
            ("/topics", "audit"),
            ("/workers", "slow Pause"),
            ("/queues/slow", "reading"),
        ):
            await wait_until(partial(_shows, visitor, path, expected))


async def test_a_store_that_is_away_is_shown_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop("redis://127.0.0.1:1/0")
    visitor = Visitor(asgi(shop.app))
    monkeypatch.setattr("headrace.dashboard.site.STORE_TIMEOUT", 2.0)
    answer = await visitor.get("/")
    assert answer.status_code == 503
    assert "Store unavailable" in text_of(answer.text)
    assert "data-unavailable" in answer.text
    await shop.app.close()


async def _shows(visitor: Visitor, path: str, expected: str) -> bool:
    return expected in await text(visitor, path)


async def test_the_overview_shows_outboxes_and_their_lag(
    shop: Shop, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Outboxes" not in await text(visitor, "/")

    async def outboxes() -> list[OutboxInfo]:
        return [OutboxInfo("orders/feed:bill", 3, 61.2), OutboxInfo("shop.db", error="no such table")]

    monkeypatch.setattr(shop.app.admin, "outboxes", outboxes)
    shown = await text(visitor, "/")
    assert "orders/feed:bill361 s0" in shown
    assert "shop.db0not readable0" in shown
    assert "no process relays it" in shown
