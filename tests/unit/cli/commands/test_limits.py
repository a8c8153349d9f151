from __future__ import annotations

import asyncio

from headrace import App, Limit
from tests.unit.cli.conftest import Shell


def declare(app: App) -> None:
    """Two limits, as a worker that has started declares them."""

    async def bill(customer: int) -> None: ...

    limits = [
        Limit("stripe", max_running=2, rate="10/s", burst=3),
        Limit("customer", max_running=1, by="customer"),
    ]
    app.task(name="shop.bill", queue="bills", limits=limits)(bill)
    app.sync.enqueue_many([app.tasks["shop.bill"].call(number % 2) for number in range(4)])

    async def start() -> None:
        async with app, app.worker(queues=["other"]):
            pass

    asyncio.run(start())


def test_limits_are_listed_set_and_cleared(app: App, headrace: Shell) -> None:
    assert "there are no limits" in headrace("limits", "shop:app").stdout
    declare(app)
    lines = headrace("limits", "shop:app").stdout.splitlines()
    assert lines[0].split() == ["limit", "running", "of", "rate", "burst", "waiting", "keys", "set"]
    assert lines[2].split()[:3] == ["customer", "0", "1"]
    assert lines[3].split()[:6] == ["stripe", "0", "2", "10/s", "3", "4"]

    result = headrace("limits", "set", "shop:app", "stripe", "--max-running", "0")
    assert "stripe is set" in result.stdout
    [_, stripe] = headrace.json("limits", "shop:app")
    assert (stripe["max_running"], stripe["rate"], stripe["overridden"]) == (0, "10/s", True)
    assert "by hand" in headrace("limits", "shop:app").stdout

    assert headrace("limits", "clear", "shop:app", "stripe").exit_code == 0
    [_, stripe] = headrace.json("limits", "shop:app")
    assert (stripe["max_running"], stripe["overridden"]) == (2, False)


def test_what_cannot_be_set_is_said(app: App, headrace: Shell) -> None:
    declare(app)
    for arguments, message in [
        (("set", "shop:app", "other", "--max-running", "1"), "no limit 'other'"),
        (("set", "shop:app", "stripe", "--rate", "fast"), "a rate is a number"),
        (("set", "shop:app", "stripe"), "--rate, --burst or --max-running"),
        (("clear", "shop:app", "other"), "no limit 'other'"),
    ]:
        result = headrace("limits", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
