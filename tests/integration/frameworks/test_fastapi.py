"""`headrace.fastapi` and `headrace.starlette` under a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from headrace import App, JobStatus, Secret, SignedCodec, current_job
from headrace.core.crypto.keys import new_key
from headrace.fastapi import HeadraceApp, HeadraceJob, JobEvents, dashboard, lifespan, site_app
from tests.integration.support.web_server import served
from tests.support.waiting import wait_until


class Receipt(msgspec.Struct):
    order: int
    card: Secret[str]


class Shop:
    """An app whose job waits until the test lets it go on."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.go_on = asyncio.Event()
        self.charge = self.app.task(name="charge", retry=lambda failures, error: None)(self._charge)

    async def _charge(self, order: int) -> Receipt:
        await current_job().progress(0.5, "asking the bank")
        await self.go_on.wait()
        if order == 13:
            raise ValueError("card 4711 is declined")
        return Receipt(order, Secret("4711"))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(f"sqlite:///{tmp_path}/jobs.db")


def site_of(shop: Shop, **options: Any) -> FastAPI:
    site = FastAPI(lifespan=lifespan(shop.app, worker={"concurrency": 5}))
    events = JobEvents(shop.app, interval=0.05, **options)
    site.state.events = events

    @site.post("/orders/{order}")
    async def place(order: int, jobs: HeadraceApp) -> dict[str, str]:
        job = await jobs.enqueue(shop.charge.call(order))
        return {"job": job.id}

    @site.get("/jobs/{job_id}")
    async def show(job: HeadraceJob) -> dict[str, str]:
        return {"status": await job.status()}

    @site.get("/jobs/{job_id}/events")
    async def follow(job_id: str, request: Request) -> Response:
        return await events.stream(request, job_id)

    return site


async def read(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, without comments."""
    name = ""
    async for line in lines:
        kind, _, value = line.partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            yield name, json.loads(value)


async def placed(client: httpx.AsyncClient, order: int) -> str:
    answer = await client.post(f"/orders/{order}")
    return str(answer.json()["job"])


async def test_a_dependency_enqueues_and_a_worker_in_the_process_runs_the_job(shop: Shop) -> None:
    shop.go_on.set()
    async with served(site_of(shop)) as client:
        id = await placed(client, 7)
        assert (await shop.app.job(id).result(timeout=10)).order == 7
        assert (await client.get(f"/jobs/{id}")).json() == {"status": "succeeded"}
        assert (await client.get("/jobs/none")).status_code == 404
    assert not shop.app._app_loop.in_use


async def test_a_browser_follows_a_job_from_its_progress_to_its_result(shop: Shop) -> None:
    async with served(site_of(shop)) as client:
        id = await placed(client, 7)
        async with client.stream("GET", f"/jobs/{id}/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = read(answer.aiter_lines())
            while "progress" not in (event := await anext(events))[1]:
                assert event[0] == "job"
            progress = event[1].pop("progress")
            assert event[1] == {"id": id, "task": "charge", "status": "running", "attempts": 1}
            assert (progress["fraction"], progress["text"]) == (0.5, "asking the bank")
            shop.go_on.set()
            seen = [event async for event in events]
        assert [name for name, _ in seen] == ["end"]
        assert seen[0][1]["status"] == "succeeded"
        assert seen[0][1]["result"] == {"order": 7, "card": "***"}


async def test_a_job_that_is_over_has_one_event(shop: Shop) -> None:
    shop.go_on.set()
    async with served(site_of(shop)) as client:
        id = await placed(client, 7)
        await shop.app.job(id).wait(timeout=10)
        answer = await client.get(f"/jobs/{id}/events")
        assert answer.text.count("event: ") == 1
        assert "event: end" in answer.text
        assert (await client.get("/jobs/none/events")).status_code == 404


async def test_a_result_that_the_site_cannot_read_ends_its_stream_too(shop: Shop, tmp_path: Path) -> None:
    """Else the browser asks for the stream again and again."""
    sealed = App(f"sqlite:///{tmp_path}/jobs.db", codec=SignedCodec(new_key()))

    @sealed.task(name="sealed")
    async def sealed_number() -> int:
        return 7

    async with sealed, sealed.worker():
        job = await sealed_number.enqueue()
        assert await job.result(timeout=10) == 7
    async with served(site_with_login(shop, None)) as client:
        answer = await client.get(f"/jobs/{job.id}/events")
        [(name, seen)] = [event async for event in read(_lines(answer.text))]
        assert (name, seen["status"]) == ("end", "succeeded")
        assert seen.get("result") is None


@pytest.mark.parametrize(("shown", "error"), [(True, "ValueError: card 4711 is declined"), (False, None)])
async def test_the_error_of_a_job_is_shown_only_when_the_site_says_so(
    shop: Shop, shown: bool, error: str | None
) -> None:
    shop.go_on.set()
    async with served(site_of(shop, errors=shown)) as client:
        id = await placed(client, 13)
        await shop.app.job(id).wait(timeout=10)
        answer = await client.get(f"/jobs/{id}/events")
        events = [event async for event in read(_lines(answer.text))]
        assert events[-1][1]["status"] == "dead"
        assert events[-1][1].get("error") == error
        assert shown or "4711" not in answer.text


async def test_a_silent_stream_is_kept_alive_and_ends_when_its_time_is_up(shop: Shop) -> None:
    async with served(site_of(shop, keep_alive=0.05, longest=0.5)) as client:
        id = await placed(client, 7)
        answer = await client.get(f"/jobs/{id}/events")
        assert ": the job goes on" in answer.text
        assert "event: end" not in answer.text
        shop.go_on.set()


async def test_a_stream_ends_when_its_client_leaves_and_streams_are_bounded(shop: Shop) -> None:
    site = site_of(shop, most=1)
    events: JobEvents = site.state.events
    async with served(site) as client:
        id = await placed(client, 7)
        async with client.stream("GET", f"/jobs/{id}/events") as answer:
            await anext(read(answer.aiter_lines()))
            refused = await client.get(f"/jobs/{id}/events")
            assert refused.status_code == 503
        await wait_until(lambda: events._open == 0)
        shop.go_on.set()
        assert (await client.get(f"/jobs/{id}/events")).status_code == 200


async def test_requests_that_come_together_do_not_exceed_the_bound(shop: Shop) -> None:
    site = site_of(shop, most=3)
    events: JobEvents = site.state.events
    async with served(site) as client, AsyncExitStack() as streams:
        id = await placed(client, 7)
        ways = [client.stream("GET", f"/jobs/{id}/events") for _ in range(12)]
        answers = await asyncio.gather(*map(streams.enter_async_context, ways))
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 9
        shop.go_on.set()
        await wait_until(lambda: events._open == 0)


async def _lines(text: str) -> AsyncIterator[str]:
    for line in text.splitlines():
        yield line


def staff_only(request: Request) -> bool:
    return request.session.get("user") == "ann"


def site_with_login(shop: Shop, login: str | None) -> Starlette:
    async def log_in(request: Request) -> Response:
        request.session["user"] = request.query_params["user"]
        return PlainTextResponse("hello")

    return Starlette(
        lifespan=lifespan(shop.app),
        routes=[
            Route("/login", log_in),
            Route("/jobs/{job_id}/events", JobEvents(shop.app).stream),
            Mount("/admin/jobs", dashboard(shop.app, allow=staff_only, login=login)),
        ],
        middleware=[Middleware(SessionMiddleware, secret_key="of a test")],
    )


async def test_the_dashboard_stands_behind_the_login_of_the_site(shop: Shop) -> None:
    page = {"accept": "text/html"}
    async with served(site_with_login(shop, "/login")) as client:
        sent_away = await client.get("/admin/jobs/dead?queue=mails", headers=page)
        assert sent_away.status_code == 303
        assert sent_away.headers["location"] == "/login?next=%2Fadmin%2Fjobs%2Fdead%3Fqueue%3Dmails"
        assert (await client.get("/admin/jobs/live")).status_code == 403
        assert (await client.post("/admin/jobs/actions/pause", headers=page)).status_code == 403
        await client.get("/login?user=bob")
        assert (await client.get("/admin/jobs/", headers=page)).status_code == 303
        await client.get("/login?user=ann")
        shown = await client.get("/admin/jobs/", headers=page)
        assert shown.status_code == 200
        assert "<html" in shown.text


async def test_without_a_login_page_others_are_refused(shop: Shop) -> None:
    async with served(site_with_login(shop, None)) as client:
        assert (await client.get("/admin/jobs/", headers={"accept": "text/html"})).status_code == 403
        job = await shop.charge.with_(delay=60).enqueue(7)
        await job.cancel()
        assert '"status":"cancelled"' in (await client.get(f"/jobs/{job.id}/events")).text


async def test_what_the_site_opens_is_there_before_the_worker_and_after_it(shop: Shop) -> None:
    order: list[str] = []

    @asynccontextmanager
    async def database(site: object) -> AsyncIterator[dict[str, str]]:
        order.append("opened")
        yield {"database": "shop"}
        assert not shop.app._registry.running
        order.append("closed")

    async with lifespan(shop.app, worker=True, site=database)(Starlette()) as state:
        assert order == ["opened"]
        assert state == {"database": "shop", "headrace": shop.app}
        assert shop.app._registry.running
    assert order == ["opened", "closed"]


async def test_a_test_gives_the_site_another_app(shop: Shop) -> None:
    site = site_of(shop)
    other = Shop("memory://")
    site.dependency_overrides[site_app] = lambda: other.app
    async with served(site) as client, other.app:
        id = await placed(client, 7)
        assert await other.app.job(id).status() is JobStatus.QUEUED
