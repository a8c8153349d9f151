"""Who is let in, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from headrace import ConfigurationError
from headrace.dashboard import asgi
from headrace.dashboard.access.attempts import ALL_ATTEMPTS, ATTEMPTS
from headrace.dashboard.access.sessions import COOKIE
from headrace.dashboard.actions import forms
from tests.unit.dashboard.sample_app import Shop

from .conftest import Visitor, tags_of

PATHS = (
    "/",
    "/queues/default",
    "/job?id=x",
    "/dead",
    "/limits",
    "/schedules",
    "/topics",
    "/topics/orders/audit",
)
OTHERS = ("/workers", "/live?path=/", "/metrics", "/nowhere", "/static/../dead", "/static/nothing.js")


# --- this machine only -----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["10.0.0.7", "192.168.1.5", "::ffff:10.0.0.7", "testclient", ""])
async def test_without_a_login_other_machines_are_refused(shop: Shop, client: str) -> None:
    visitor = Visitor(asgi(shop.app), client=client)
    for path in PATHS + OTHERS:
        answer = await visitor.get(path)
        assert answer.status_code == 403, path
        assert "has no login" in answer.text


@pytest.mark.parametrize("host", ["localhost:8400", "127.0.0.1", "[::1]:8400", "jobs.localhost"])
async def test_this_machine_is_answered_under_its_own_names(visitor: Visitor, host: str) -> None:
    assert (await visitor.get("/", host=host)).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost@evil", "[::1"]
)
async def test_another_name_for_this_machine_is_dns_rebinding(visitor: Visitor, host: str) -> None:
    assert (await visitor.get("/", host=host)).status_code == 403


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host", "x-forwarded-proto"]
)
async def test_who_comes_through_a_proxy_may_be_anybody(visitor: Visitor, header: str) -> None:
    assert (await visitor.client.get("/", headers={header: "127.0.0.1"})).status_code == 403


# --- a password ------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(shop: Shop) -> Visitor:
    return Visitor(asgi(shop.app, password="open sesame"), client="10.0.0.7", base="https://jobs.example")


async def test_without_the_password_every_page_leads_to_the_login(guarded: Visitor) -> None:
    for path in PATHS + OTHERS:
        answer = await guarded.get(path)
        assert answer.status_code == (401 if path == "/metrics" else 303), path
        assert answer.headers.get("location", "/login") == "/login"


async def test_the_login_page_tells_nothing_of_the_store(guarded: Visitor) -> None:
    answer = await guarded.get("/login")
    assert answer.status_code == 200
    assert "memory" not in answer.text
    assert "/dead" not in answer.text


@pytest.mark.parametrize("host", ["jobs.example/login?", "jobs.example/static/style.css?x=", "a/login#"])
async def test_the_host_header_has_no_say_in_which_page_is_meant(guarded: Visitor, host: str) -> None:
    assert (await guarded.get("/dead", host=host)).status_code == 303


async def test_with_the_password_the_pages_open(guarded: Visitor) -> None:
    answer = await guarded.post("/login", {"password": "open sesame"})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "secure" in cookie
    assert "samesite=lax" in cookie
    assert (await guarded.get("/")).status_code == 200
    assert (await guarded.post("/logout")).status_code == 303
    assert (await guarded.get("/")).status_code == 303


@pytest.mark.parametrize("password", ["", "Open sesame", "open sesame ", "\x00", "é", "x" * 100_000])
async def test_a_wrong_password_does_not(guarded: Visitor, password: str) -> None:
    answer = await guarded.post("/login", {"password": password})
    assert answer.status_code == 401
    assert COOKIE not in answer.headers.get("set-cookie", "")


@pytest.mark.parametrize("body", [b"\xff\xfe", b"password=" + b"x" * (5 << 20), b"&" * 10_000])
async def test_a_login_that_cannot_be_read_is_a_wrong_one(guarded: Visitor, body: bytes) -> None:
    headers = {"origin": guarded.base, "content-type": "application/x-www-form-urlencoded"}
    assert (await guarded.client.post("/login", content=body, headers=headers)).status_code == 401


async def test_a_visitor_without_a_session_fills_no_memory(guarded: Visitor) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"x" * 1024

    headers = {"origin": guarded.base, "content-type": "application/x-www-form-urlencoded"}
    assert (await guarded.client.post("/login", content=endless(), headers=headers)).status_code == 401
    assert sent < 20


async def test_guessing_is_bounded(guarded: Visitor) -> None:
    for guess in range(ATTEMPTS):
        await guarded.post("/login", {"password": str(guess)})
    assert (await guarded.post("/login", {"password": "open sesame"})).status_code == 401


async def test_a_wrong_try_is_forgotten_after_a_minute(
    guarded: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for guess in range(ATTEMPTS):
        await guarded.post("/login", {"password": str(guess)})
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert (await guarded.post("/login", {"password": "open sesame"})).status_code == 303


@pytest.mark.parametrize(
    ("guesser", "visitor", "status"),
    [
        ("2001:db8:1:2::3", "2001:db8:1:2:ffff::4", 401),
        ("2001:db8:1:2::3", "2001:db8:1:3::3", 303),
        ("::ffff:10.0.0.1", "10.0.0.1", 401),
        ("10.0.0.1", "10.0.0.2", 303),
    ],
)
async def test_guesses_count_for_an_address_and_for_a_network_of_ipv6(
    shop: Shop, guesser: str, visitor: str, status: int
) -> None:
    page = asgi(shop.app, password="x")
    for guess in range(ATTEMPTS):
        await Visitor(page, client=guesser).post("/login", {"password": str(guess)})
    answer = await Visitor(page, client=visitor).post("/login", {"password": "x"})
    assert answer.status_code == status


@pytest.mark.parametrize(
    "network",
    [
        "2001:db8:{:x}:{:x}::1",
        pytest.param("2001:db8:1:{:x}{:02x}::1", marks=pytest.mark.more),
        pytest.param("10.0.{}.{}", marks=pytest.mark.more),
    ],
)
async def test_a_guesser_with_many_addresses_is_bounded_too(shop: Shop, network: str) -> None:
    page = asgi(shop.app, password="x")
    tries = ALL_ATTEMPTS + 1
    for number in range(tries):
        await Visitor(page, client=network.format(*divmod(number, 256))).post("/login", {"password": "no"})
    answer = await Visitor(page, client=network.format(*divmod(tries, 256))).post("/login", {"password": "x"})
    assert answer.status_code == 401


async def _status(page: Any, cookie: str) -> int:
    visitor = Visitor(page, client="10.0.0.8")
    return (await visitor.get("/dead", cookie=f"{COOKIE}={cookie}")).status_code


async def _begin(page: Any) -> str:
    visitor = Visitor(page, client="10.0.0.8")
    answer = await visitor.post("/login", {"password": "x"})
    return str(answer.cookies[COOKIE])


async def test_sessions_hold_for_the_same_secret_and_password_alone(shop: Shop) -> None:
    cookie = await _begin(asgi(shop.app, password="x", secret="a"))
    assert await _status(asgi(shop.app, password="x", secret="a"), cookie) == 200
    for password, secret in (("x", "b"), ("y", "a"), ("x", None)):
        assert await _status(asgi(shop.app, password=password, secret=secret), cookie) == 303


@pytest.mark.parametrize("cookie", [".", "9999999999", "9999999999.x.y", "9" * 5000 + ".x.y", "a" * 9000])
async def test_forged_sessions_do_not_hold_and_are_taken_away(guarded: Visitor, cookie: str) -> None:
    answer = await guarded.get("/dead", cookie=f"{COOKIE}={cookie}")
    assert answer.status_code == 303
    assert f'{COOKIE}=""; expires=' in answer.headers["set-cookie"]


async def test_a_session_ends_after_twelve_hours(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    page = asgi(shop.app, password="x")
    cookie, now = await _begin(page), time.time()
    for hours, status in ((11.9, 200), (12, 303)):
        later = now + hours * 3600
        monkeypatch.setattr(time, "time", lambda later=later: later)
        assert await _status(page, cookie) == status


async def test_no_session_is_longer_than_twelve_hours(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that another process signed, with a clock that is ahead."""
    now = time.time()
    with monkeypatch.context() as moved:
        moved.setattr(time, "time", lambda: now + 3600)
        cookie = await _begin(asgi(shop.app, password="x", secret="a"))
    assert await _status(asgi(shop.app, password="x", secret="a"), cookie) == 303


async def test_several_processes_without_a_secret_are_told_what_to_do(
    guarded: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        await guarded.get("/", cookie=f"{COOKIE}=1.2.3")
    told = [record.message for record in caplog.records if record.name == "headrace"]
    assert [text.split("same ")[1] for text in told] == ["HEADRACE_DASHBOARD_SECRET"]


async def test_a_form_that_does_not_come_is_not_waited_for(
    guarded: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "MOST_SECONDS", 0.01)

    async def half() -> AsyncIterator[bytes]:
        yield b"password=open"
        await asyncio.Event().wait()

    headers = {"origin": guarded.base, "content-type": "application/x-www-form-urlencoded"}
    answer = await guarded.client.post("/login", content=half(), headers=headers)
    assert answer.status_code == 401


@pytest.mark.parametrize("trusted", [["proxy.example"], ["10.0.0.1/8"], "10.0.0.1", [""]])
async def test_proxies_are_named_by_addresses(shop: Shop, trusted: Any) -> None:
    with pytest.raises(ConfigurationError, match="trusted proxies"):
        asgi(shop.app, trusted_proxies=trusted)


async def test_a_program_may_give_the_password_to_metrics_alone(guarded: Visitor) -> None:
    token = base64.b64encode(b"anybody:open sesame").decode()
    assert (await guarded.get("/metrics", authorization=f"Basic {token}")).status_code == 200
    assert (await guarded.get("/dead", authorization=f"Basic {token}")).status_code == 303
    for wrong in ("Basic !", "Basic /w==", "Bearer x", f"Bearer {token}"):
        assert (await guarded.get("/metrics", authorization=wrong)).status_code == 401
    not_ascii = await guarded.client.get("/metrics", headers={b"authorization": b"Basic \xff"})
    assert not_ascii.status_code == 401


async def test_an_empty_password_and_two_ways_to_decide_are_refused(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="empty"):
        asgi(shop.app, password="")
    with pytest.raises(ConfigurationError, match="not both"):
        asgi(shop.app, password="x", authenticate=lambda request: True)


# --- the host's own login --------------------------------------------------------------------------------


async def _yes_later(request: Request) -> bool:
    return True


async def _no_later(request: Request) -> bool:
    return False


@pytest.mark.parametrize(
    ("hook", "status"),
    [
        (lambda request: True, 200),
        (_yes_later, 200),
        (lambda request: False, 403),
        (_no_later, 403),
        (lambda request: None, 403),
        (lambda request: "some user", 403),
        (lambda request: httpx.Response(401), 403),
    ],
)
async def test_the_host_decides(
    shop: Shop, hook: Callable[[Request], bool | Awaitable[bool]], status: int
) -> None:
    visitor = Visitor(asgi(shop.app, authenticate=hook), client="10.0.0.7", base="https://jobs.example")
    for path in ("/", "/dead", "/live?path=/nowhere"):
        expected = 404 if status == 200 and "nowhere" in path else status
        assert (await visitor.get(path)).status_code == expected
    assert (await visitor.post("/actions/pause", {"queue": "a"})).status_code == (
        303 if status == 200 else 403
    )


# --- changes come from our own pages ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost:9999"},
        {"origin": "http://localhost:8400.evil.example"},
        {"origin": "http://[::1"},
        {"origin": "", "referer": "http://evil.example/localhost:8400"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_changes_from_elsewhere_are_refused(
    shop: Shop, visitor: Visitor, headers: dict[str, str]
) -> None:
    await shop.add.enqueue(1)
    answer = await visitor.post("/actions/purge", {"queue": "default"}, **headers)
    assert answer.status_code == 403
    assert (await shop.app.admin.queues())[0].queued == 1


async def test_a_referer_will_do_where_no_origin_is_told(visitor: Visitor) -> None:
    answer = await visitor.post(
        "/actions/pause", {"queue": "default"}, origin="", referer="http://localhost:8400/"
    )
    assert answer.status_code == 303


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_only_a_post_changes_anything(visitor: Visitor, method: str) -> None:
    answer = await visitor.client.request(
        method, "/actions/pause?queue=default", headers={"origin": visitor.base}
    )
    assert answer.status_code == 405


async def test_a_form_of_another_type_is_no_form(shop: Shop, visitor: Visitor) -> None:
    headers = {"origin": visitor.base, "content-type": "text/plain"}
    await visitor.client.post("/actions/pause", content="queue=default", headers=headers)
    assert not any(queue.paused for queue in await shop.app.admin.queues())


# --- read-only -------------------------------------------------------------------------------------------


async def test_read_only_changes_nothing_and_offers_no_button(shop: Shop) -> None:
    visitor = Visitor(asgi(shop.app, read_only=True))
    await shop.mail.enqueue("x")
    job = await shop.add.with_(delay=60).enqueue(1)
    await shop.app.worker().run(burst=True)
    for path in (*PATHS, "/workers", "/queues/mails", f"/job?id={job.id}"):
        answer = await visitor.get(path)
        buttons = [attributes for tag, attributes in tags_of(answer.text) if tag == "form"]
        assert all(each.get("method") == "get" for each in buttons), path
    for verb in ("purge", "pause", "discard", "no-such-verb"):
        answer = await visitor.post(f"/actions/{verb}", {"queue": "default", "which": "matching"})
        assert (answer.status_code, answer.text) == (403, "This dashboard is read-only.")


async def test_a_read_only_dashboard_can_be_logged_in_to(shop: Shop) -> None:
    visitor = Visitor(asgi(shop.app, password="x", read_only=True))
    await visitor.post("/login", {"password": "x"})
    assert (await visitor.get("/")).status_code == 200


# --- what every answer carries ---------------------------------------------------------------------------


async def test_every_answer_has_a_strict_policy(shop: Shop, visitor: Visitor, guarded: Visitor) -> None:
    answers: list[Any] = [await visitor.get(path) for path in (*PATHS, "/nowhere", "/static/script.js")]
    answers += [await guarded.get("/login"), await guarded.get("/"), await visitor.get("/", host="evil")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "data:" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] in ("no-store", "no-cache")


async def test_no_page_holds_inline_script_or_style(shop: Shop, visitor: Visitor) -> None:
    await shop.mail.enqueue("x")
    job = await shop.add.with_(delay=60).enqueue(1)
    await shop.app.worker().run(burst=True)
    for path in (*PATHS, "/workers", "/queues/mails", f"/job?id={job.id}"):
        for tag, attributes in tags_of((await visitor.get(path)).text):
            assert tag != "style"
            assert tag != "script" or attributes["src"] == "/static/script.js"
            assert not [name for name in attributes if name == "style" or name.startswith("on")]
