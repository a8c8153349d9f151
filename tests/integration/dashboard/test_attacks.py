"""Guessers, forgers, and connections that ask for nothing, against real dashboards on real sockets."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from headrace import App
from tests.integration.support.dashboard_processes import PASSWORD, Dashboard, running
from tests.support.waiting import wait_until_sync

KINDS = ("command", "mounted")

#: Wrong tries that an address has within a minute.
TRIES = 10


# Each test has visitors of its own, so the dashboards are started once.


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/jobs.db"
    app = App(url)
    app.sync.admin.pause("mails")  # the file is made when it is first used
    app.sync.close()
    return url


@pytest.fixture(scope="module", params=KINDS)
def dashboard(request: pytest.FixtureRequest, url: str) -> Iterator[Dashboard]:
    with running(request.param, url) as dashboard:
        yield dashboard


@pytest.fixture(scope="module", params=KINDS)
def proxied(request: pytest.FixtureRequest, url: str) -> Iterator[Dashboard]:
    """One whose proxy is at 127.0.0.9, and nowhere else."""
    with running(request.param, url, "--trusted-proxies", "127.0.0.9") as dashboard:
        yield dashboard


def guess(dashboard: Dashboard, times: int = TRIES, **headers: str) -> None:
    for number in range(times):
        assert dashboard.log_in(f"guess {number}", **headers).status == 401


# --- sessions --------------------------------------------------------------------------------------------


def test_who_knows_the_password_alone_cannot_make_a_session(dashboard: Dashboard) -> None:
    key = hashlib.scrypt(PASSWORD.encode(), salt=b"headrace dashboard", n=2**14, r=8, p=1)
    said = f"{int(time.time()) + 100 * 365 * 86_400}.0123456789abcdef"
    forged = f"{said}.{hmac.new(key, said.encode(), hashlib.sha256).hexdigest()}"
    assert dashboard.get(cookie=forged).status == 303


def test_processes_share_sessions_by_a_secret_and_otherwise_not(url: str) -> None:
    for secret, status in (({}, 303), ({"HEADRACE_DASHBOARD_SECRET": "of these two"}, 200)):
        with running("command", url, **secret) as first, running("command", url, **secret) as second:
            cookie = first.log_in().cookie
            assert first.get(cookie=cookie).status == 200
            assert second.get(cookie=cookie).status == status
    with running("command", url, HEADRACE_DASHBOARD_SECRET="another") as other:
        assert other.get(cookie=cookie).status == 303


def test_a_session_that_was_logged_out_cannot_be_used_again(dashboard: Dashboard) -> None:
    cookie, other = dashboard.log_in().cookie, dashboard.log_in().cookie
    assert dashboard.get(cookie=cookie).status == 200
    assert dashboard.post("/logout", cookie).status == 303
    assert dashboard.get(cookie=cookie).status == 303
    assert dashboard.get(cookie=other).status == 200


def test_a_live_page_ends_with_its_session(dashboard: Dashboard) -> None:
    cookie = dashboard.log_in().cookie
    with dashboard.connect() as live:
        head = f"GET {dashboard.root}/live?path=/ HTTP/1.1\r\nHost: here\r\nCookie: headrace_session={cookie}"
        live.sendall(f"{head}\r\n\r\n".encode())
        assert b"200 OK" in live.recv(65_536)
        dashboard.post("/logout", cookie)
        heard = bytearray()

        def ended() -> bool:
            heard.extend(live.recv(65_536))
            return heard.endswith(b"\r\n0\r\n\r\n")  # as an answer in chunks ends

        wait_until_sync(ended)


# --- guessing --------------------------------------------------------------------------------------------


def test_a_guesser_is_stopped_and_locks_nobody_else_out(dashboard: Dashboard) -> None:
    before = dashboard.log_in(source="127.0.0.2").cookie
    guess(dashboard, source="127.0.0.2")
    assert dashboard.log_in(source="127.0.0.2").status == 401
    assert dashboard.get("/metrics", source="127.0.0.2", authorization="Basic Om9wZW4gc2VzYW1l").status == 401
    assert dashboard.log_in(source="127.0.0.3").status == 303
    assert dashboard.get(cookie=before, source="127.0.0.2").status == 200  # who is in stays in


def test_wrong_sessions_count_as_wrong_passwords(dashboard: Dashboard) -> None:
    for number in range(TRIES):
        assert dashboard.get(cookie=f"9999999999.{number}.aa", source="127.0.1.2").status == 303
    assert dashboard.log_in(source="127.0.1.2").status == 401
    assert dashboard.log_in(source="127.0.1.3").status == 303


def test_after_too_many_tries_a_right_session_that_was_never_seen_is_not_looked_at(url: str) -> None:
    secret = {"HEADRACE_DASHBOARD_SECRET": "known to the guesser"}
    with running("command", url, **secret) as his, running("command", url, **secret) as attacked:
        guess(attacked)
        assert attacked.get(cookie=his.log_in().cookie).status == 303


def test_behind_a_trusted_proxy_the_address_that_it_tells_counts(proxied: Dashboard) -> None:
    guess(proxied, source="127.0.0.9", x_forwarded_for="127.0.0.1, 203.0.113.5")
    for told, status in (("1.2.3.4, 203.0.113.5:4711", 401), ("203.0.113.6", 303)):
        assert proxied.log_in(source="127.0.0.9", x_forwarded_for=told).status == status, told


def test_a_guesser_cannot_make_up_addresses(proxied: Dashboard) -> None:
    for number in range(TRIES):
        proxied.log_in("guess", source="127.0.0.2", x_forwarded_for=f"203.0.113.{number}")
    assert proxied.log_in(source="127.0.0.2", x_forwarded_for="203.0.113.99").status == 401


# --- behind TLS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "believed"), [("127.0.0.9", True), ("127.0.0.8", False)])
def test_behind_tls_cookies_are_secure_and_https_is_demanded(
    proxied: Dashboard, source: str, believed: bool
) -> None:
    answer = proxied.log_in(source=source, x_forwarded_proto="https")
    assert answer.status == 303
    assert ("Secure" in answer.headers["set-cookie"]) is believed
    assert ("max-age=" in answer.headers.get("strict-transport-security", "")) is believed
    assert "strict-transport-security" not in proxied.get(source=source).headers


def test_a_proxy_on_this_machine_is_trusted_unless_told_otherwise(dashboard: Dashboard) -> None:
    assert "Secure" in dashboard.log_in(x_forwarded_proto="https").headers["set-cookie"]


# --- connections that ask for nothing --------------------------------------------------------------------

HALVES = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
    "half a body": b"POST /login HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nContent-Length: 9\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\npass",
}


@contextmanager
def crowd(dashboard: Dashboard, number: int, sent: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        idle = [stack.enter_context(dashboard.connect("127.0.0.2")) for _ in range(number)]
        for each in idle:
            with contextlib.suppress(ConnectionError):  # it had to make room already
                each.sendall(sent)
        yield idle


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_half_sent_requests_keep_nobody_out(url: str, half: bytes) -> None:
    with running("command", url) as dashboard, crowd(dashboard, 300, half) as idle:
        assert dashboard.log_in().status == 303
        assert dashboard.log_in(source="127.0.0.2").status == 303
        wait_until_sync(lambda: is_closed(idle[0]), message="the oldest made room")


@pytest.mark.more
def test_who_does_not_complete_a_request_is_hung_up_on(url: str) -> None:
    with running("command", url) as dashboard, crowd(dashboard, 20, HALVES["half a head"]) as idle:

        def all_closed() -> bool:
            for each in idle:
                with contextlib.suppress(ConnectionError):
                    each.sendall(b"x")  # more bytes bring no more time
            return all(is_closed(each) for each in idle)

        wait_until_sync(all_closed, timeout=20)


def is_closed(connection: socket.socket) -> bool:
    """By the other side."""
    try:
        return connection.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
