"""Pages that keep themselves up to date, and mounted ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from headrace.dashboard import asgi, live
from tests.unit.dashboard.sample_app import Shop

from .conftest import Visitor, tags_of


async def first_event(visitor: Visitor, page: Any, path: str) -> tuple[str, Any]:
    page.state.live_pages.close()  # it ends after the first
    answer = await visitor.client.get("/live", params={"path": path})
    assert answer.headers["content-type"].startswith("text/event-stream")
    name, data = answer.text.strip().split("\n")
    return name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))


@pytest.mark.parametrize(
    "path", ["/", "/dead", "/topics", "/schedules", "/workers", "/queues/default?state=queued"]
)
async def test_the_live_part_is_what_the_page_shows(shop: Shop, path: str) -> None:
    await shop.add.with_(delay=86_400).enqueue(1)
    page = asgi(shop.app)
    visitor = Visitor(page)
    whole = (await visitor.get(path)).text
    name, part = await first_event(visitor, page, path)
    assert name == "live"
    assert [tag for tag, _ in tags_of(part)] == [
        tag for tag, _ in tags_of(whole[whole.index('<div id="live"') : whole.index("</main>")])
    ][1:]


async def test_an_id_with_odd_characters_has_a_live_page(shop: Shop) -> None:
    await shop.add.with_(delay=60, job_id="a/b?c#d%2f&é"[:11]).enqueue(1)
    page = asgi(shop.app)
    visitor = Visitor(page)
    html = (await visitor.client.get("/job", params={"id": "a/b?c#d%2f&"})).text
    [path] = [attributes["data-path"] for tag, attributes in tags_of(html) if "data-path" in attributes]
    name, part = await first_event(visitor, page, path or "")
    assert (name, "scheduled" in part) == ("live", True)


@pytest.mark.parametrize("path", ["/nowhere", "/actions/purge", "/login", "//evil.example", "http://[", ""])
async def test_what_is_no_page_has_no_live_part(visitor: Visitor, path: str) -> None:
    assert (await visitor.client.get("/live", params={"path": path})).status_code == 404


async def test_a_store_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop("redis://127.0.0.1:1/0")
    page = asgi(shop.app)
    name, why = await first_event(Visitor(page), page, "/")
    assert name == "unavailable"
    assert "127.0.0.1:1" in why
    await shop.app.close()


async def test_live_pages_are_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST", 0)
    assert (await Visitor(asgi(shop.app)).get("/live?path=/")).status_code == 503


async def test_mounted_under_a_prefix_all_links_forms_and_cookies_stay_below_it(shop: Shop) -> None:
    await shop.mail.enqueue("x")
    await shop.app.worker().run(burst=True)
    page = asgi(shop.app, password="x")
    host = Starlette(routes=[Mount("/admin/jobs", page)])
    visitor = Visitor(host)
    assert (await visitor.get("/admin/jobs/dead")).headers["location"] == "/admin/jobs/login"
    answer = await visitor.post("/admin/jobs/login", {"password": "x"})
    assert answer.headers["location"] == "/admin/jobs/"
    assert "Path=/admin/jobs" in answer.headers["set-cookie"]
    for path in ("/", "/dead", "/queues/mails", "/schedules", "/topics", "/workers"):
        answer = await visitor.get(f"/admin/jobs{path}")
        assert answer.status_code == 200
        for tag, attributes in tags_of(answer.text):
            for name in ("href", "src", "action", "formaction"):
                value = attributes.get(name) or "/admin/jobs/"
                assert value.startswith(("/admin/jobs/", "#")), (path, tag, value)
    answer = await visitor.post("/admin/jobs/actions/pause", {"queue": "mails", "back": "/queues/mails"})
    assert answer.headers["location"] == "/admin/jobs/queues/mails"
    page.state.live_pages.close()
    answer = await visitor.get("/admin/jobs/live?path=/queues/mails")
    assert answer.text.startswith("event: live")
    assert (await visitor.get("/admin/jobs/metrics")).status_code == 200
    assert (await visitor.get("/admin/jobsdead")).status_code == 404


async def test_metrics_are_those_of_the_store(shop: Shop, visitor: Visitor) -> None:
    await shop.add.enqueue(1)
    answer = await visitor.get("/metrics")
    assert answer.status_code == 200
    assert "headrace" in answer.text


@pytest.mark.parametrize(
    ("took", "pause"), [(0.0, 1.0), (0.1, 0.9), (0.2, 0.8), (0.5, 2.0), (1.0, 4.0), (3.0, 5.0)]
)
def test_looks_are_a_second_apart_and_fewer_where_they_take_long(took: float, pause: float) -> None:
    assert live.pause_after(took) == pause
