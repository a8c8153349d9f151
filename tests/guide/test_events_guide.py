"""The code of docs/guides/events.md does what the guide says, as it stands there."""

from __future__ import annotations

import pytest

from headrace import Published
from headrace.testing import memory
from tests.guide.test_documents import Reader, blocks


async def test_the_code_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    module, *others = blocks("docs/guides/events.md")
    reader = Reader()
    await reader.type(module)
    app, orders, order_placed = (reader.known[name] for name in ("app", "orders", "OrderPlaced"))
    with memory(app) as kit:
        for code in others:
            await reader.type(code)
        assert [type(outcome) for outcome in reader.known["outcomes"]] == [Published, Published]
        await orders.publish(order_placed(0))
        kit.assert_published(orders, order_placed(7), key="customer-3", count=1)
        kit.assert_published(orders, order_placed(2), key="customer-3", count=1)
        await kit.drain()
        billed = capsys.readouterr().out.splitlines()
        assert sorted(billed) == [f"bill order {number}" for number in (0, 1, 2, 7)]
        [letter] = await app.admin.dead(topic="orders")
        assert (letter.group, letter.error) == ("index", "no such order")
