"""Each example runs as a user starts it, in an empty folder, and does what its page says."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.waiting import wait_until_sync

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}


def run(name: str, folder: Path) -> str:
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_in_the_table_with_its_command() -> None:
    page = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"`python examples/{path.name}`" in page
        assert f"$ python examples/{path.name}" in (ast.get_docstring(ast.parse(path.read_text())) or "")


def test_views_of_orders_are_built_and_built_again_from_the_log(tmp_path: Path) -> None:
    printed = run("event_sourced_orders.py", tmp_path)
    assert "orders: {'paid': 24, 'cancelled': 6}" in printed
    first, second = re.findall(r"revenue: (.*)", printed)
    assert first == second == "{'ann': 1200, 'bob': 1100, 'eve': 1300}"


def test_an_import_keeps_to_the_limits_of_the_api(tmp_path: Path) -> None:
    printed = run("etl.py", tmp_path)
    assert "600 rows of 30 pages" in printed
    found = re.search(r"(\d+) requests, at most (\d+) at a time", printed)
    seconds = re.search(r"in ([\d.]+) s", printed)
    assert found
    assert seconds
    requests, at_a_time = int(found[1]), int(found[2])
    assert requests == 33
    assert at_a_time <= 4
    # 20 a second, and a burst of two; the time is printed with one digit.
    assert requests <= 20 * (float(seconds[1]) + 0.05) + 2
    assert "countries: {'DE': 210, 'FR': 210, 'IT': 180}" in printed


def test_thumbnails_are_made_and_a_broken_picture_costs_only_itself(tmp_path: Path) -> None:
    printed = run("thumbnails.py", tmp_path)
    assert [line for line in printed.splitlines() if line.startswith("made")] == [
        f"made {number}.256.jpg, {number}.64.jpg" for number in range(8)
    ]
    assert "failed: PIL.UnidentifiedImageError" in printed


def test_an_order_and_its_job_are_one_step(tmp_path: Path) -> None:
    assert "orders: [1, 3], charged: [1, 3]" in run("outbox.py", tmp_path)


def test_a_customer_with_a_thousand_jobs_does_not_delay_the_others(tmp_path: Path) -> None:
    printed = run("tenants.py", tmp_path)
    places = {name: int(place) for name, place in re.findall(r"(\w+): .* was number (\d+) of all", printed)}
    assert places["big"] == 1006
    assert max(places["ann"], places["bob"]) < 50


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[httpx.Client]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = ENVIRONMENT | {"PORT": str(port), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(EXAMPLES / "web_shop.py")]
    log = tmp_path / "shop.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)
    try:
        wait_until_sync(lambda: server.poll() is not None or "Uvicorn running" in log.read_text())
        assert server.poll() is None, log.read_text()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            yield client
            wait_until_sync(lambda: "mail: thank you for order" in log.read_text())
    finally:
        server.terminate()
        server.wait(20)
    assert "Traceback" not in log.read_text()


def test_a_lamp_is_bought_and_its_job_followed_to_the_receipt(shop: httpx.Client) -> None:
    assert "Buy a lamp" in shop.get("/").text
    bought = shop.post("/orders?amount=125").json()
    events = shop.get(f"/jobs/{bought['job']}/events").text
    states = [json.loads(data) for data in re.findall(r"data: (.*)", events)]
    assert any("progress" in state for state in states)
    assert (states[-1]["status"], states[-1]["attempts"]) == ("succeeded", 2)
    assert states[-1]["result"] == f"receipt for order {bought['order']}: 125 €"
    page = {"accept": "text/html"}
    assert shop.get("/admin/jobs/", headers=page).headers["location"].startswith("/login")
    shop.post("/login", data={"password": "lamp"})
    assert "shop.charge" in shop.get(f"/admin/jobs/job?id={bought['job']}", headers=page).text
