"""What the buttons do, and that they say so."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from headrace import JobStatus
from headrace.core.records.record import DeadLetter
from headrace.dashboard import asgi
from tests.unit.dashboard.sample_app import Placed, Shop

from .conftest import Visitor, tags_of, text_of


async def dead(shop: Shop) -> list[DeadLetter]:
    return list(await shop.app.admin.dead())


@pytest.fixture
async def buried(shop: Shop) -> list[DeadLetter]:
    """Three dead mails of one kind, one of another, and an event that died in one of its groups."""
    for text in ("customer 1", "customer 2", "customer 3", "server"):
        await shop.mail.enqueue(text)
    await shop.orders.publish(Placed(1, "no bill"))
    await shop.app.worker().run(burst=True)
    return await dead(shop)


async def test_a_queue_is_paused_resumed_and_purged(shop: Shop, visitor: Visitor) -> None:
    await shop.add.enqueue(1)
    assert "is paused" in await visitor.act("pause", queue="default")
    assert (await shop.app.admin.queues())[0].paused
    assert "is resumed" in await visitor.act("resume", queue="default")
    assert not (await shop.app.admin.queues())[0].paused
    assert await visitor.act("purge", queue="default") == "1 job of default cancelled"


async def test_jobs_are_cleaned_and_an_empty_queue_is_removed(shop: Shop, visitor: Visitor) -> None:
    await shop.add.enqueue(1)
    assert "holds 1 queued" in await visitor.act("remove-queue", queue="default")
    assert await visitor.act("clean", queue="default", state="queued") == "1 queued job of default removed"
    assert "clean takes one of" in await visitor.act("clean", queue="default", state="running")
    assert "name the state" in await visitor.act("clean", queue="default")
    assert await visitor.act("remove-queue", queue="default") == "default is removed"
    assert "there is no queue" in await visitor.act("remove-queue", queue="default")


async def test_a_unique_key_is_released(shop: Shop, visitor: Visitor) -> None:
    await shop.add.with_(unique_key="customer-7").enqueue(1)
    fields = {"queue": "default", "key": "customer-7"}
    assert await visitor.act("release-key", **fields) == "The unique key is free"
    assert "no job holds" in await visitor.act("release-key", **fields)


async def test_a_job_is_cancelled_and_retried(shop: Shop, visitor: Visitor) -> None:
    job = await shop.add.with_(delay=60).enqueue(1)
    assert await visitor.act("retry", id=job.id, queue="default") == "Queued"
    assert await job.status() == "queued"
    assert "Nothing was queued" in await visitor.act("retry", id=job.id, queue="default")
    assert "Cancelled" in await visitor.act("cancel", id=job.id, queue="default")
    assert await job.status() == "cancelled"
    assert "Nothing was done" in await visitor.act("cancel", id=job.id, queue="default")


async def test_a_job_is_edited_and_retried(shop: Shop, visitor: Visitor) -> None:
    job = await shop.add.with_(delay=60).enqueue(1)
    fields = {"id": job.id, "queue": "default", "args": "[20]", "kwargs": '{"b": 22}', "then": "retry"}
    assert await visitor.act("edit", **fields) == "The arguments were changed. Queued"
    await shop.app.worker().run(burst=True)
    assert await job.result(timeout=5) == 42
    assert "only a scheduled, retrying or dead job can be edited" in await visitor.act("edit", **fields)


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ("{}", "{}", "args must be a JSON array"),
        ("[", "{}", "args is not JSON"),
        ("[NaN]", "{}", "args is not JSON"),
        ("7", "{}", "args must be a JSON array"),
        ("[" * 100_000, "{}", "args is not JSON"),
        ("[1]", "{'b': 2}", "kwargs is not JSON"),
        ('["<b>many</b>"]', "{}", "Expected `int`, got `str` - at `a`"),
        ("[1]", '{"b": "two"}', "Expected `int`, got `str` - at `b`"),
        ("[1]", '{"c": 3}', "unexpected keyword argument 'c'"),
        ("[]", "{}", "missing a required argument: 'a'"),
    ],
)
async def test_what_does_not_fit_is_refused_beside_what_was_written(
    shop: Shop, visitor: Visitor, args: str, kwargs: str, problem: str
) -> None:
    job = await shop.add.with_(delay=60).enqueue(1)
    fields = {"id": job.id, "queue": "default", "args": args, "kwargs": kwargs}
    answer = await visitor.post("/actions/edit", fields)
    assert answer.status_code == 422
    said = " ".join(text_of(answer.text, "alert").split())
    assert said.startswith("Nothing was changed: ")
    assert problem in said
    written = dict(re.findall(r'<textarea name="(\w+)"[^>]*>(.*?)</textarea>', answer.text, re.DOTALL))
    assert {name: unescape(text) for name, text in written.items()} == {"args": args, "kwargs": kwargs}
    contents = await shop.app.admin.contents(job.id)
    assert contents is not None
    assert (list(contents.args), contents.kwargs) == ([1], {})


async def test_ticked_dead_letters_are_replayed(
    shop: Shop, visitor: Visitor, buried: list[DeadLetter]
) -> None:
    ids = [letter.id for letter in buried if letter.queue][:2]
    assert await visitor.act("replay", which="selected", id=ids, queue="mails") == "2 replayed"
    assert len(await dead(shop)) == 3


async def test_the_form_of_a_kind_acts_on_that_kind_alone(
    shop: Shop, visitor: Visitor, buried: list[DeadLetter]
) -> None:
    form = await form_of(visitor, "Discard all with this error", "customer")
    assert await visitor.act("discard", **form) == "3 discarded"
    assert sorted(letter.error for letter in await dead(shop)) == ["no bill", "server"]


async def test_all_that_fit_or_simply_all_are_discarded(
    shop: Shop, visitor: Visitor, buried: list[DeadLetter]
) -> None:
    assert await visitor.act("discard", which="matching", topic="orders") == "1 discarded"
    assert await visitor.act("discard", which="matching", queue="mails", reason="crashed") == "0 discarded"
    await shop.orders.publish(Placed(2, "no bill"))
    await shop.app.worker().run(burst=True)
    assert await visitor.act("discard", which="matching") == "5 discarded"


async def test_a_form_that_names_no_dead_letters_does_nothing(
    shop: Shop, visitor: Visitor, buried: list[DeadLetter]
) -> None:
    assert "name the dead letters" in await visitor.act("discard", queue="mails")
    assert await visitor.act("discard", which="selected", queue="mails") == "0 discarded"
    assert len(await dead(shop)) == 5


async def test_an_event_is_replayed_in_the_group_in_which_it_died(
    shop: Shop, visitor: Visitor, buried: list[DeadLetter]
) -> None:
    [letter] = [each for each in buried if each.topic]
    assert await visitor.act("retry", id=letter.id, topic="orders", group="billing") == "Queued"
    info = await shop.app.admin.job(letter.id, topic="orders", group="billing")
    assert info is not None
    assert info.status is JobStatus.QUEUED


async def test_a_schedule_is_run_paused_and_resumed(shop: Shop, visitor: Visitor) -> None:
    assert "Started as job" in await visitor.act("schedule-run", name="morning")
    assert (await shop.app.admin.queues())[0].queued == 1
    await visitor.act("schedule-pause", name="morning")
    assert (await shop.app.schedules.list())[0].paused
    await visitor.act("schedule-resume", name="morning")
    assert not (await shop.app.schedules.list())[0].paused
    assert "there is no schedule called" in await visitor.act("schedule-run", name="evening")


async def test_a_group_is_paused_rewound_and_removed(shop: Shop, visitor: Visitor) -> None:
    ids = [await shop.orders.publish(Placed(number)) for number in range(3)]
    await shop.app.worker().run(burst=True)
    where: dict[str, Any] = {"topic": "orders", "group": "audit"}

    async def lag() -> int:
        [topic] = await shop.app.admin.topics()
        return next(group.lag for group in topic.groups if group.group == "audit")

    assert await visitor.act("group-reset", **where, to="beginning") == (
        "audit reads orders from the beginning"
    )
    assert await lag() == 3
    assert "new events" in await visitor.act("group-reset", **where, to="new")
    assert await lag() == 0
    assert f"event {ids[2]} on" in await visitor.act("group-reset", **where, to=ids[2])
    assert await lag() == 1
    assert "on" in await visitor.act("group-reset", **where, to="2h")
    assert await lag() == 3
    assert "is no time" in await visitor.act("group-reset", **where, to="soon")
    assert "has no unit" in await visitor.act("group-reset", **where, to="90")
    assert "/actions/group-pause" in (await visitor.get("/topics/orders/audit")).text
    assert "is paused" in await visitor.act("group-pause", **where)
    assert "/actions/group-resume" in (await visitor.get("/topics/orders/audit")).text
    assert "is resumed" in await visitor.act("group-resume", **where)
    assert "is removed" in await visitor.act("group-remove", **where)
    assert "there is no audit" in await visitor.act("group-remove", **where)


async def test_what_was_done_is_said_once_and_cannot_be_said_by_a_link(shop: Shop, visitor: Visitor) -> None:
    assert "is paused" in await visitor.act("pause", queue="default")
    assert 'class="flash"' not in (await visitor.get("/schedules")).text
    assert "beware" not in text_of((await visitor.get("/?flash=beware")).text)


@pytest.mark.parametrize(
    ("back", "place"),
    [
        ("/queues/default?state=queued", "/queues/default?state=queued"),
        ("//evil.example/x", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/%5Cevil.example"),
        ("javascript:alert(1)", "/"),
        ("http://[", "/"),
        ("", "/"),
    ],
)
async def test_the_way_back_stays_with_us(visitor: Visitor, back: str, place: str) -> None:
    answer = await visitor.post("/actions/pause", {"queue": "default", "back": back})
    assert answer.headers["location"] == place


async def test_a_store_that_is_away_fails_the_action_and_says_so(tmp_path: Path) -> None:
    away = Shop(f"sqlite:///{tmp_path}/not there/jobs.db")
    visitor = Visitor(asgi(away.app))
    answer = await visitor.post("/actions/pause", {"queue": "default"})
    assert answer.status_code == 303
    assert "Failed%3A" in answer.headers["set-cookie"]
    await away.app.close()


async def test_an_action_that_does_not_exist_is_not_found(visitor: Visitor) -> None:
    assert (await visitor.post("/actions/format-disk")).status_code == 404


async def form_of(visitor: Visitor, label: str, among: str) -> dict[str, str]:
    """The hidden fields of the first form with that button, in the kind whose error holds `among`."""
    html = (await visitor.get("/dead")).text
    kind = next(part for part in html.split("<details")[1:] if among in text_of(f"<p {part}"))
    form = next(part for part in kind.split("<form")[1:] if f">{label}</button>" in part.split("</form>")[0])
    inputs = [attributes for tag, attributes in tags_of(form.split("</form>")[0]) if tag == "input"]
    return {str(each["name"]): str(each["value"]) for each in inputs}
