"""Every page, with hostile texts in it, on a wide and a narrow screen, in light and dark, with the checks of
accessibility."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.waiting import wait_until_sync

from .conftest import Stand, Tab, wait_for

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "\"><img src=x onerror='window.hacked = 1'>",
    "</textarea></pre></table><svg onload=window.hacked=1>",
    "\u202egnp.exe\u2066 nul\x00 bell\x07",
    "W" * 900_000,
)


@pytest.fixture(scope="module")
def pages(stand: Stand) -> dict[str, str]:
    """Something of everything in the store; every page by its name."""
    sample = stand.sample
    for text in HOSTILE:
        sample.enqueue(sample.mail, text)
        sample.publish(1, text, key=text[:50])
    done = sample.enqueue(sample.echo, HOSTILE[:4])
    retrying = sample.enqueue(sample.flaky, HOSTILE[0], headers={HOSTILE[1]: HOSTILE[2]})
    running = sample.enqueue(sample.render, HOSTILE[3])
    waiting = sample.enqueue(sample.echo, [*HOSTILE], delay=86_400)
    dead = sample.enqueue(sample.mail, HOSTILE[2])
    logged = sample.enqueue(sample.say, [*HOSTILE, "an ordinary line"], unique_key=HOSTILE[1][:20])
    event = sample.publish(2, HOSTILE[1], headers={"a": HOSTILE[0]})
    sample.enqueue(sample.bulk, 1)
    charges = [sample.enqueue(sample.charge, 1) for _ in range(3)]
    sample.app.sync.enqueue_many([sample.invoice.call(f"{HOSTILE[0]} {n}") for n in range(200)])
    wait_for(sample, done, "succeeded")
    wait_for(sample, retrying, "retrying")
    wait_for(sample, running, "running")
    wait_for(sample, dead, "dead")
    wait_for(sample, logged, "dead")
    admin = sample.app.sync.admin
    wait_until_sync(lambda: len(list(admin.dead(topic="orders"))) == len(HOSTILE) + 1)
    wait_until_sync(lambda: any(worker.running for worker in admin.workers()), message="a worker tells of it")
    jobs = {"done": done, "retrying": retrying, "running": running, "waiting": waiting, "dead": dead}
    jobs |= {"logged": logged, "limited": charges[-1]}
    wait_until_sync(lambda: bool(sample.app.sync.info(charges[-1]).waiting_for))
    admin.set_limit("customer", max_running=3)
    admin.pause(task="shop.report")
    return {
        "overview": "/",
        "queue": "/queues/mails",
        "search": "/queues/mails?text=alert",
        "group": "/topics/orders/billing",
        "dead-letters": "/dead",
        "limits": "/limits",
        "limit": "/limit?name=customer",
        "held-back": "/queues/charges?state=queued&waiting_for=stripe",
        "schedules": "/schedules",
        "topics": "/topics",
        "workers": "/workers",
        "event": f"/job?{urlencode({'id': event, 'topic': 'orders', 'group': 'billing'})}",
        **{f"job-{name}": f"/job?id={job.id}" for name, job in jobs.items()},
    }


#: What has the focus, by the name of the field or the words on it.
FOCUSED = "(here => here.name || here.innerText || '')(document.activeElement)"

SIZES = {"desk": (1200, 900), "phone": (360, 740)}


@pytest.mark.timeout(300)  # it looks at every page
@pytest.mark.parametrize(
    ("stand", "size", "scheme"),
    [
        ("sqlite", "phone", "dark"),
        pytest.param("sqlite", "desk", "light", marks=pytest.mark.more),
        pytest.param("redis", "phone", "dark", marks=pytest.mark.more),
    ],
    indirect=["stand"],
)
def test_every_page_is_harmless_fits_and_shuts_nobody_out(
    stand: Stand, pages: dict[str, str], browser: Any, size: str, scheme: str, tmp_path: Path
) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    width, height = SIZES[size]
    tab = Tab(browser, viewport={"width": width, "height": height}, color_scheme=scheme)
    for name, path in pages.items():
        tab.page.goto(stand.open + path)
        tab.page.wait_for_function("document.readyState === 'complete'")
        tab.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert tab.page.evaluate("window.hacked") is None, name
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, name
        found = Axe().run(tab.page).response["violations"]
        serious = [each["id"] for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, (name, found)
        tab.page.screenshot(path=tmp_path / f"{size}-{name}.png", full_page=True)
    tab.close()
    assert not tab.complaints
    assert not tab.dialogs


def test_pages_follow_the_colours_of_the_system(stand: Stand, browser: Any) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        tab = Tab(browser, color_scheme=scheme)
        tab.page.goto(stand.open)
        grounds.append(tab.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        tab.close()
    assert grounds[0] != grounds[1]


def test_times_are_relative_and_exact_on_hover(stand: Stand, tab: Tab) -> None:
    job = stand.sample.enqueue(stand.sample.echo, 1, delay=86_400)
    tab.page.goto(f"{stand.open}/job?id={job.id}")
    due = tab.page.locator("dt:has-text('Due') + dd time")
    assert due.inner_text().startswith("in ")
    assert due.get_attribute("title").endswith("+00:00")


def test_the_keyboard_reaches_every_action_and_shows_where_it_is(stand: Stand, tab: Tab) -> None:
    stand.sample.enqueue(stand.sample.bulk, 1)
    tab.page.goto(f"{stand.open}/queues/bulk")
    reached = []
    for _ in range(40):
        tab.page.keyboard.press("Tab")
        reached.append(tab.page.evaluate(FOCUSED))
        outline = tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or reached[-1] == "", reached[-1]
        if reached[-1] == "Purge":
            break
    assert reached[0] == "Skip to content"
    assert {"Overview", "Workers", "state", "text", "Show", "Pause", "Purge"} <= set(reached)
