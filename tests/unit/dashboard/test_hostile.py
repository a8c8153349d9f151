"""Hostile contents of a store are shown as text, shortened, and without being interpreted."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

from headrace import App, Secret
from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.records.record import RunningJob, WorkerInfo
from headrace.core.topics.topic import BEGINNING
from headrace.dashboard import asgi
from headrace.dashboard.actions.actions import ACTIONS
from headrace.dashboard.text import clean
from headrace.stores import open_store
from headrace.testing.contract.kit.heartbeats import beat
from tests.support.waiting import wait_until
from tests.unit.dashboard.sample_app import HOSTILE, Placed, Shop

from .conftest import Visitor, tags_of, text_of

#: Tags and attributes that our own pages have; anything else came from a text.
TAGS = frozenset(
    {"html", "head", "meta", "title", "link", "script", "body", "header", "nav", "main", "section", "a", "p"}
    | {"h1", "h2", "h3", "span", "img", "ul", "li", "div", "b", "code", "pre", "dl", "dt", "dd", "time"}
    | {"table", "thead", "tbody", "tr", "th", "td", "form", "button", "input", "label", "select", "option"}
    | {"details", "summary", "textarea", "progress", "meter", "svg", "rect", "line"}
)
#: Characters of a page, however long the texts in it.
LARGEST = 400_000


def check(html: str) -> None:
    """No text became markup, nothing stands there that a browser would obey, and it is not long."""
    for tag, attributes in tags_of(html):
        assert tag in TAGS, tag
        assert tag != "img" or attributes["src"] == "/static/icon.svg"
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("href", "action", "formaction") or (value or "").startswith(("/", "#", "?"))
    shown = text_of(html)
    assert not [
        each for each in shown if each in "\x00\x07\x1b\u202e\u2066\u200f\r" or "\ud800" <= each <= "\udfff"
    ]
    assert len(html) < LARGEST
    html.encode()


async def test_names_that_only_a_tampered_store_has_are_shown_as_codes(tmp_path: Path) -> None:
    url, name = f"sqlite:///{tmp_path}/jobs.db", "odd\u202e\x1b?"
    store = open_store(url)
    await store.open()
    await store.declare_stream(Stream("queue", name), 10**7)
    await store.join(group_stream(name, name), BEGINNING)
    await store.close()
    async with App(url) as app:
        shown = await show(Visitor(asgi(app)), "/", "/topics", f"/queues/{quote(name)}")
    assert shown.count("odd\\u202e\\u001b?") >= 5
    assert f'href="/queues/{quote(name)}"' in shown


def encodable(text: str) -> str:
    return text.replace("\ud800", "")  # what the encoder of arguments refuses does not get into a store


async def show(visitor: Visitor, *paths: str) -> str:
    pages = [await visitor.get(path) for path in paths]
    for page in pages:
        assert page.status_code == 200, page.text[:2000]
        check(page.text)
    return "".join(page.text for page in pages)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
class TestHostileTexts:
    async def test_in_arguments_results_and_headers(self, shop: Shop, visitor: Visitor, text: str) -> None:
        text = encodable(text)[:900_000]
        value: Any = [text, {text[:1000]: text[:1000]}]
        waiting = await shop.echo.with_(delay=60, headers={text[:500]: text[:500]}).enqueue(value)
        done = await shop.echo.enqueue(value)
        await shop.app.worker().run(burst=True)
        html = await show(visitor, f"/job?id={waiting.id}", f"/job?id={done.id}", "/queues/default")
        assert "Result" in html

    async def test_in_errors_of_jobs_and_events(self, shop: Shop, visitor: Visitor, text: str) -> None:
        text = encodable(text)[:900_000]
        job = await shop.mail.enqueue(text)
        event = await shop.orders.publish(Placed(1, text), key=text[:100], headers={"a": text[:500]})
        await shop.app.worker().run(burst=True)
        html = await show(
            visitor,
            "/",
            "/dead",
            "/dead?queue=mails",
            "/queues/mails",
            "/topics/orders/billing",
            f"/job?id={job.id}&queue=mails",
            f"/job?id={event}&topic=orders&group=billing",
        )
        assert clean(text[:15].partition("\n")[0]) in text_of(html)

    async def test_in_the_store_itself(self, shop: Shop, visitor: Visitor, text: str) -> None:
        """Names that no client of headrace sends, written into the store by an attacker."""
        backend = shop.backend
        await shop.app.open()
        text = text[:10_000]
        message = Message(id="id " + text, task="task " + text, body=text.encode(errors="replace"))
        await backend.append(Batch(Stream("queue", "default"), "p", 1, [message]))
        running = (RunningJob("id " + text, text, 1),)
        await beat(
            backend, WorkerInfo(text, text, 1, 1, (text,), 10, polled_us=1, running=running, groups=(text,))
        )
        await show(visitor, "/", "/workers", "/queues/default", "/topics", "/dead")

    async def test_in_the_address(self, shop: Shop, visitor: Visitor, text: str) -> None:
        await shop.add.enqueue(1)
        text = encodable(text)[:2000]
        names = (
            "id",
            "queue",
            "topic",
            "group",
            "task",
            "reason",
            "state",
            "text",
            "since",
            "cursor",
            "said",
        )
        asked = [{name: text} for name in ("id", "queue", "reason", "text", "since", "cursor")]
        for path in ("/", "/job", "/dead", "/queues/default"):
            for query in (*asked, dict.fromkeys(names, text)):
                answer = await visitor.client.get(path, params=query)
                assert answer.status_code in (200, 400, 404), (path, query)
                check(answer.text)
        for path in ("/queues", "/topics/x", "/actions", "/static", ""):
            answer = await visitor.get(f"{path}/{quote(text[:500], safe='')}")
            assert answer.status_code in (200, 400, 404, 405)
            check(answer.text)

    async def test_in_forms(self, shop: Shop, visitor: Visitor, text: str) -> None:
        job = await shop.add.with_(delay=60).enqueue(1)
        text = encodable(text)[:200_000]
        names = ("queue", "topic", "group", "name", "to", "task", "reason", "mark", "which", "id", "back")
        for verb in ACTIONS:
            for fields in (dict.fromkeys(names, text), {"id": job.id, "args": text}):
                answer = await visitor.post(f"/actions/{verb}", fields)
                assert answer.status_code == 303
                place = answer.headers["location"]
                assert place.startswith("/")
                assert not place.startswith(("//", "/\\"))
        check((await visitor.get("/schedules")).text)


async def test_what_is_logged_and_unique_keys_are_harmless_too(shop: Shop, visitor: Visitor) -> None:
    for text in HOSTILE:
        job = await shop.say.enqueue(encodable(text), "after it")
        await shop.run_until(job, "succeeded")
        page = await visitor.get(f"/job?id={job.id}")
        check(page.text)
        assert "after it" in page.text
        assert len(page.text) < 50_000
    key = HOSTILE[0]
    await shop.add.with_(unique_key=key, delay=3600).enqueue(1)
    for path in ("/queues/default", f"/queues/default?{urlencode({'text': key})}"):
        check((await visitor.get(path)).text)


async def test_progress_and_what_runs_are_harmless_too(shop: Shop, visitor: Visitor) -> None:
    job = await shop.wait.enqueue(" ".join(encodable(text)[:200] for text in HOSTILE))
    async with shop.app.worker(grace=0):

        async def has_progress() -> bool:
            return (await job.info()).progress is not None

        await wait_until(has_progress)
        await show(visitor, f"/job?id={job.id}", "/queues/slow", "/workers")


async def test_secrets_are_masked_everywhere(shop: Shop, visitor: Visitor) -> None:
    job = await shop.login.with_(delay=60).enqueue("ada", Secret("hunter2"))
    named = await shop.login.with_(delay=60).enqueue("ada", password=Secret("hunter2"))
    done = await shop.echo.enqueue({"token": Secret("hunter2")})
    event = await shop.orders.publish(Placed(1, "no", Secret("hunter2")))
    await shop.app.worker().run(burst=True)
    html = await show(
        visitor,
        *(f"/job?id={each.id}" for each in (job, named, done)),
        f"/job?id={event}&topic=orders&group=billing",
        "/dead",
        "/queues/default",
    )
    assert "***" in html
    assert "hunter2" not in html


async def test_secrets_are_not_overwritten_by_editing(shop: Shop, visitor: Visitor) -> None:
    job = await shop.login.with_(delay=60).enqueue("ada", Secret("hunter2"))
    page = await visitor.get(f"/job?id={job.id}")
    assert "hold secrets" in page.text
    assert "textarea" not in page.text
    said = await visitor.act("edit", id=job.id, queue="default", args='["ada", "***"]', kwargs="{}")
    assert "secrets" in said
    contents = await shop.backend.get(Stream("queue", "default"), job.id)
    assert contents is not None
    assert b"hunter2" in (contents.body or b"")


async def test_what_json_does_not_know_is_not_offered_for_editing(shop: Shop, visitor: Visitor) -> None:
    job = await shop.store.with_(delay=60).enqueue(b"\x00\x01")
    page = await visitor.get(f"/job?id={job.id}")
    assert "such as bytes" in page.text
    assert "textarea" not in page.text


async def test_editing_gives_back_exactly_what_was_there(shop: Shop, visitor: Visitor) -> None:
    """Also what a page would not show as it is: it stands in the form as JSON's code for it."""
    value = ["\u202e", "\x00", "\U000e0067", "é", {"a\nb": [1, 2.5, None, True]}, "</textarea>"]
    job = await shop.echo.with_(delay=60).enqueue(value)
    html = (await visitor.get(f"/job?id={job.id}")).text
    check(html)
    found = re.search(r'<textarea name="args"[^>]*>(.*?)</textarea>', html, re.DOTALL)
    assert found is not None
    args = unescape(found[1])
    assert msgspec.json.decode(args) == [value]
    said = await visitor.act("edit", id=job.id, queue="default", args=args, kwargs="{}")
    assert said == "The arguments were changed"
    contents = await shop.app.admin.contents(job.id)
    assert contents is not None
    assert list(contents.args) == [value]


async def test_a_password_in_the_url_of_the_store_is_not_shown() -> None:
    shop = Shop("redis://user:hunter2@127.0.0.1:1/0")
    visitor = Visitor(asgi(shop.app))
    page = await visitor.get("/nowhere")
    assert "127.0.0.1:1" in page.text
    assert "hunter2" not in page.text
