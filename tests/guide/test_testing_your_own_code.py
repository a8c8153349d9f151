"""Testing your own code: an app in a test, with a store of its own and a clock that can be moved.

docs/guides/testing.md quotes this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace import App, JobStatus, RetryPolicy, current_job
from headrace.testing import Clock, Kit, memory, run_inline

# --- the code under test: a module of a shop ------------------------------------------------------------

app = App("sqlite:///shop.db")

mails: list[str] = []
card_is_good = True


class PaymentDeclined(Exception):
    pass


@app.task(name="shop.send_mail", queue="mail")
async def send_mail(order: int, text: str = "thank you") -> None:
    mails.append(f"{order}: {text}")


@app.task(name="shop.charge", retry=RetryPolicy.fixed(2, delay=3600))
async def charge(order: int) -> str:
    if not card_is_good:
        raise PaymentDeclined(f"order {order}")
    await send_mail.enqueue(order)
    return f"receipt {order}"


@app.task(name="shop.pack")
def pack(order: int) -> str:
    return f"parcel {order}"


@app.task(name="shop.render")
async def render(pages: int) -> str:
    for page in range(pages):
        await current_job().progress((page + 1) / pages, f"page {page + 1}")
    return f"{pages} pages"


async def place_order(order: int) -> None:
    await charge.enqueue(order)
    await send_mail.with_(delay=timedelta(days=7)).enqueue(order, "how do you like it?")


@pytest.fixture(autouse=True)
def clean_shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mails.clear()
    yield
    assert not Path("shop.db").exists()


# --- a kit for your app ---------------------------------------------------------------------------------


@pytest.fixture
def kit() -> Iterator[Kit]:
    with memory(app) as kit:
        yield kit


async def test_an_order_is_charged(kit: Kit) -> None:
    await place_order(7)
    kit.assert_enqueued(charge, args=(7,))


async def test_assertions_say_as_much_as_matters(kit: Kit) -> None:
    await place_order(7)
    kit.assert_enqueued(charge)
    kit.assert_enqueued(charge, count=1)
    kit.assert_enqueued(send_mail, kwargs={"order": 7}, queue="mail")
    kit.assert_enqueued(send_mail.call(7, "how do you like it?"))
    kit.assert_not_enqueued(charge, args=(8,))
    kit.assert_not_enqueued(pack)


async def test_what_was_enqueued_can_be_looked_at(kit: Kit) -> None:
    await place_order(7)
    first, second = kit.enqueued()
    assert (first.task, first.arguments) == ("shop.charge", {"order": 7})
    assert second.status is JobStatus.SCHEDULED
    kit.clear()
    kit.assert_not_enqueued()


# --- running the jobs -----------------------------------------------------------------------------------


async def test_a_paid_order_is_thanked_for(kit: Kit) -> None:
    job = await charge.enqueue(7)
    await kit.drain()
    assert await job.result() == "receipt 7"
    assert mails == ["7: thank you"]


async def test_a_declined_card_is_tried_three_times(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "card_is_good", False)
    job = await charge.enqueue(7)
    await kit.drain()
    assert await job.status() is JobStatus.DEAD
    assert (await job.info()).attempts == 3


async def test_a_declined_card_is_an_error(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "card_is_good", False)
    await charge.enqueue(7)
    with pytest.raises(PaymentDeclined, match="order 7"):
        await kit.drain(raise_errors=True)


# --- calling a task as a function -----------------------------------------------------------------------


async def test_a_report_says_how_far_it_is(kit: Kit) -> None:
    assert await render(2) == "2 pages"
    assert [report.fraction for report in kit.reported] == [0.5, 1.0]


# --- time -----------------------------------------------------------------------------------------------


async def test_a_week_later_the_customer_is_asked(kit: Kit) -> None:
    await place_order(7)
    await kit.drain()
    assert mails == ["7: thank you"]
    kit.clock.advance(timedelta(days=7))
    await kit.drain()
    assert mails == ["7: thank you", "7: how do you like it?"]


async def test_or_everything_that_is_scheduled(kit: Kit) -> None:
    await place_order(7)
    await kit.drain(scheduled=True)
    assert len(mails) == 2


async def test_the_first_retry_comes_after_an_hour(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "card_is_good", False)
    job = await charge.enqueue(7)
    await kit.drain(retries=False)
    assert await job.status() is JobStatus.RETRYING
    monkeypatch.setitem(globals(), "card_is_good", True)
    kit.clock.advance(3600)
    await kit.drain()
    assert await job.result() == "receipt 7"


async def test_a_worker_of_your_own_hears_the_clock(kit: Kit) -> None:
    async with app.worker():
        job = await pack.with_(delay=3600).enqueue(7)
        kit.clock.advance(3600)
        assert await job.result(timeout=10) == "parcel 7"


# --- jobs that run where they are enqueued --------------------------------------------------------------


async def test_inline_everything_has_happened_when_enqueue_returns() -> None:
    with run_inline(app):
        job = await charge.enqueue(7)
        assert await job.result() == "receipt 7"
        assert mails == ["7: thank you"]


async def test_inline_an_error_is_raised_where_the_job_was_enqueued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "card_is_good", False)
    with run_inline(app), pytest.raises(PaymentDeclined):
        await place_order(7)


# --- plain tests ----------------------------------------------------------------------------------------


def test_plain_tests_use_the_sync_side(kit: Kit) -> None:
    job = app.sync.enqueue(pack.call(7))
    kit.assert_enqueued(pack, args=(7,))
    kit.sync.drain()
    assert app.sync.result(job) == "parcel 7"


def test_plain_tests_inline() -> None:
    with run_inline(app):
        assert app.sync.result(app.sync.enqueue(pack.call(7))) == "parcel 7"


# --- pytest's fixtures ----------------------------------------------------------------------------------


async def test_a_library_tests_with_an_app_of_its_own(
    headrace_app: App, headrace_kit: Kit, headrace_clock: Clock
) -> None:
    @headrace_app.task(name="greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    job = await greet.with_(delay=60).enqueue("ann")
    headrace_clock.advance(60)
    await headrace_kit.drain()
    assert await job.result() == "hello ann"
