"""`examples/django_site` starts with one command, takes an order and shows the jobs to the staff."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.waiting import wait_until_sync

SITE = Path(__file__).parents[2] / "examples/django_site"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "site.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "start.py", str(port)],
            cwd=SITE,
            env={**os.environ, "DATA": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    yield f"http://127.0.0.1:{port}"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, log.read_text()
    assert "stopped after 2 jobs" in log.read_text()


def token(page: str) -> dict[str, str]:
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert found is not None
    return {"csrfmiddlewaretoken": found[1]}


def test_the_site_charges_an_order_and_shows_its_jobs(address: str) -> None:
    with httpx.Client(base_url=address, follow_redirects=True) as browser:
        wait_until_sync(lambda: is_up(browser), timeout=90)
        page = browser.get("/").text
        browser.post("/", data={"customer": "Ada", **token(page)}).raise_for_status()
        wait_until_sync(lambda: "Order 1 of Ada: paid" in browser.get("/").text, timeout=60)
        login = browser.get("/jobs/queues/default")
        assert login.url.path == "/admin/login/"
        words = {"username": "admin", "password": "admin", **token(login.text)}
        wait_until_sync(lambda: "Order 1" in browser.get("/").text)
        page = browser.post(str(login.url), data=words).text
        assert "<title>" in page
        assert browser.get("/jobs/").status_code == 200
        wait_until_sync(lambda: ended(browser) == 2)


def ended(browser: httpx.Client) -> int:
    page = browser.get("/jobs/queues/default?state=succeeded").text
    return ("orders.tasks.charge" in page) + ("orders.tasks.send_receipt" in page)


def is_up(browser: httpx.Client) -> bool:
    try:
        return browser.get("/").status_code == 200
    except httpx.TransportError:
        return False
